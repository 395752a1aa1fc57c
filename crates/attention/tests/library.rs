//! The contents of the library, and what it answers without a device.

use std::ffi::CStr;

use warpproof_attention::abi::{
    CRequest, Status, wpa_create, wpa_destroy, wpa_last_error, wpa_run, wpa_workspace_bytes,
};
use warpproof_attention::{catalog, image};
use warpproof_model::Device;

#[test]
fn every_kernel_of_the_catalog_is_in_the_library() {
    let kernels = catalog::kernels(Device::named("l4").unwrap()).unwrap();
    let names: Vec<String> = kernels.iter().map(catalog::Kernels::name).collect();
    let found: Vec<&str> = image::entries().map(|entry| entry.name).collect();
    assert_eq!(found, names, "run `cargo xtask kernels --bless`");
    for entry in image::entries() {
        let (cubin, ptx) = (entry.cubin().unwrap(), entry.ptx().unwrap());
        assert!(cubin.starts_with(b"\x7fELF"), "{}", entry.name);
        let text = CStr::from_bytes_with_nul(&ptx).unwrap().to_str().unwrap();
        assert!(text.starts_with(".version 8.4\n.target sm_89\n"), "{}", entry.name);
    }
}

fn last_error() -> String {
    // SAFETY: the message is a string of this thread, and no call is made until it is copied.
    unsafe { CStr::from_ptr(wpa_last_error()) }.to_string_lossy().into_owned()
}

#[test]
fn null_pointers_and_wrong_sizes_are_refused() {
    let mut made = std::ptr::null_mut();
    // SAFETY: null is allowed, and so is a request that begins with its size.
    let mut create = |request: *const CRequest| unsafe { wpa_create(request, &raw mut made) };
    assert_eq!(create(std::ptr::null()), Status::Invalid);
    assert_eq!(last_error(), "the request: expected a pointer, found null");
    assert_eq!(create(&CRequest::default()), Status::Invalid);
    assert_eq!(last_error(), "the request: expected the size of the struct in its field `size`, found 0");
    let size = u32::try_from(size_of::<CRequest>()).unwrap();
    assert_eq!(create(&CRequest { size, input: 9, ..CRequest::default() }), Status::Invalid);
    assert_eq!(last_error(), "input: 9 is not a type of inputs");
    assert_eq!(create(&CRequest { size, causal: 2, ..CRequest::default() }), Status::Invalid);
    assert_eq!(last_error(), "causal: expected 0 or 1, found 2");
    assert!(made.is_null());
    // SAFETY: null is allowed.
    unsafe {
        assert_eq!(wpa_run(std::ptr::null(), std::ptr::null(), std::ptr::null_mut()), Status::Invalid);
        assert_eq!(wpa_workspace_bytes(std::ptr::null()), 0);
        wpa_destroy(std::ptr::null_mut());
    }
}

#[test]
fn fields_of_a_later_version_must_be_zero() {
    let mut later = [0u32; size_of::<CRequest>() / 4 + 2];
    later[0] = u32::try_from(size_of_val(&later)).unwrap();
    later[size_of::<CRequest>() / 4] = 1;
    let mut made = std::ptr::null_mut();
    // SAFETY: the request has as many bytes as its first field has.
    let status = unsafe { wpa_create(later.as_ptr().cast(), &raw mut made) };
    assert_eq!(status, Status::Unsupported);
    assert_eq!(last_error(), "the request has fields that this version of the library does not know");
}
