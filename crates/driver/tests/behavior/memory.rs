//! Memory of all kinds.

use warpproof_driver::abi::Copy2d;
use warpproof_driver::api;

use crate::answer;
use crate::ok;
use crate::program::{PTX, chars, download, from, kernel, launch, null, out, start, upload};

#[test]
fn pinned_and_managed_memory_is_one_memory() {
    start();
    let add = kernel(PTX, "add");
    let mut pinned: *mut std::ffi::c_void = std::ptr::null_mut();
    ok!(api::cuMemHostAlloc(out(&mut pinned), 64, 2));
    let numbers: *mut f32 = pinned.cast();
    // SAFETY: the allocation has 64 bytes.
    unsafe { numbers.write(5.0) };
    let mut device = 0;
    ok!(api::cuMemHostGetDevicePointer_v2(out(&mut device), pinned, 0));
    assert_eq!(launch(add, 1, device, 1, null()), 0);
    ok!(api::cuCtxSynchronize());
    // SAFETY: as above.
    assert_eq!(unsafe { numbers.read() }, 6.0);
    ok!(api::cuMemFreeHost(pinned));

    let mut managed = 0;
    ok!(api::cuMemAllocManaged(out(&mut managed), 64, 1));
    let numbers: *mut f32 = std::ptr::with_exposed_provenance_mut(usize::try_from(managed).unwrap());
    // SAFETY: as above.
    unsafe { numbers.write(1.5) };
    assert_eq!(launch(add, 1, managed, 2, null()), 0);
    ok!(api::cuCtxSynchronize());
    // SAFETY: as above.
    assert_eq!(unsafe { numbers.read() }, 3.5);
    ok!(api::cuMemFree_v2(managed));
}

#[test]
fn registered_memory_is_reached_until_it_is_unregistered() {
    start();
    let add = kernel(PTX, "add");
    let mut own = vec![1.0f32; 4096];
    let pointer = own.as_mut_ptr().cast();
    ok!(api::cuMemHostRegister_v2(pointer, 4096 * 4, 0));
    assert_eq!(answer!(api::cuMemHostRegister_v2(pointer, 16, 0)), 712);
    let mut device = 0;
    ok!(api::cuMemHostGetDevicePointer_v2(out(&mut device), pointer, 0));
    assert_eq!(launch(add, 4, device, 1, null()), 0);
    ok!(api::cuCtxSynchronize());
    assert_eq!(own[..5], [2.0, 2.0, 2.0, 2.0, 1.0]);
    ok!(api::cuMemHostUnregister(pointer));
    assert_eq!(answer!(api::cuMemHostUnregister(pointer)), 713);
}

#[test]
fn rows_are_copied_with_their_pitches() {
    start();
    let (mut device, mut pitch) = (0, 0);
    ok!(api::cuMemAllocPitch_v2(out(&mut device), out(&mut pitch), 12, 3, 4));
    let host: Vec<u32> = (0..12).collect();
    let mut copy = Copy2d {
        source_x: 0,
        source_y: 0,
        source_type: 1,
        source_host: u64::try_from(host.as_ptr().expose_provenance()).unwrap(),
        source_device: 0,
        source_array: 0,
        source_pitch: 16,
        target_x: 0,
        target_y: 0,
        target_type: 2,
        target_host: 0,
        target_device: device,
        target_array: 0,
        target_pitch: pitch,
        width: 12,
        height: 3,
    };
    ok!(api::cuMemcpy2D_v2(from(std::slice::from_ref(&copy))));
    let mut row = [0u32; 3];
    let second = device + u64::try_from(pitch).unwrap();
    ok!(api::cuMemcpyDtoH_v2(row.as_mut_ptr().cast(), second, 12));
    assert_eq!(row, [4, 5, 6]);
    copy.height = 9;
    assert_eq!(answer!(api::cuMemcpy2D_v2(from(std::slice::from_ref(&copy)))), 1);
}

#[test]
fn fills_and_unified_copies() {
    start();
    let data = upload(&[0.0; 4]);
    ok!(api::cuMemsetD32_v2(data, 1.0f32.to_bits(), 3));
    assert_eq!(download(data, 4), [1.0, 1.0, 1.0, 0.0]);
    assert_eq!(answer!(api::cuMemsetD32_v2(data, 0, 5)), 1);
    assert_eq!(answer!(api::cuMemsetD32_v2(data + 2, 0, 1)), 1);
    let mut host = [0f32; 4];
    let address = u64::try_from(host.as_mut_ptr().expose_provenance()).unwrap();
    ok!(api::cuMemcpy(address, data, 16));
    assert_eq!(host, [1.0, 1.0, 1.0, 0.0]);
}

#[test]
fn memory_in_stream_order_comes_from_a_pool() {
    start();
    let mut stream = null();
    ok!(api::cuStreamCreate(out(&mut stream), 1));
    let mut data = 0;
    ok!(api::cuMemAllocAsync(out(&mut data), 64, stream));
    ok!(api::cuMemsetD8Async(data, 0, 64, stream));
    let (mut pool, mut used) = (null(), 0u64);
    ok!(api::cuDeviceGetDefaultMemPool(out(&mut pool), 0));
    ok!(api::cuMemPoolGetAttribute(pool, 7, out(&mut used).cast()));
    assert_eq!(used, 64);
    ok!(api::cuMemFreeAsync(data, stream));
    ok!(api::cuMemPoolGetAttribute(pool, 7, out(&mut used).cast()));
    assert_eq!(used, 0);
    assert_eq!(answer!(api::cuMemFreeAsync(data, stream)), 1);
    // High-water marks, until they are reset.
    for (attribute, reset) in [(6, false), (8, false), (8, true)] {
        if reset {
            ok!(api::cuMemPoolSetAttribute(pool, attribute, from(&[0u64]).cast()));
        }
        ok!(api::cuMemPoolGetAttribute(pool, attribute, out(&mut used).cast()));
        assert_eq!(used, if reset { 0 } else { 64 });
    }
    assert_eq!(answer!(api::cuMemPoolSetAttribute(pool, 6, from(&[1u64]).cast())), 1);
    assert_eq!(answer!(api::cuMemPoolSetAttribute(pool, 7, from(&[0u64]).cast())), 1);
}

#[test]
fn the_program_uses_its_memory_between_the_calls() {
    start();
    let add = kernel(PTX, "add");
    let mut managed = 0;
    ok!(api::cuMemAllocManaged(out(&mut managed), 16, 1));
    let numbers: *mut f32 = std::ptr::with_exposed_provenance_mut(usize::try_from(managed).unwrap());
    for round in 0..3u8 {
        // SAFETY: the managed allocation holds four numbers.
        unsafe { numbers.write(f32::from(round)) };
        assert_eq!(launch(add, 4, managed, 1, null()), 0);
        // SAFETY: as above.
        assert_eq!(unsafe { numbers.read() }, f32::from(round) + 1.0);
    }
    // Copies and memsets also accept its address.
    ok!(api::cuMemsetD32_v2(managed, 2.0f32.to_bits(), 4));
    assert_eq!(download(managed, 4), [2.0; 4]);
    ok!(api::cuMemFree_v2(managed));
}

#[test]
fn a_pointer_is_known() {
    start();
    let data = upload(&[0.0; 4]);
    let (mut kind, mut base) = (0u32, 0u64);
    ok!(api::cuPointerGetAttribute(out(&mut kind).cast(), 2, data + 4));
    assert_eq!(kind, 2);
    ok!(api::cuPointerGetAttribute(out(&mut base).cast(), 11, data + 4));
    assert_eq!(base, data);
    assert_eq!(answer!(api::cuPointerGetAttribute(out(&mut kind).cast(), 2, 8)), 1);
}

#[test]
fn memory_can_be_named() {
    start();
    let memory = upload(&[1.0; 4]);
    let name = std::ffi::CString::new("x").unwrap();
    ok!(api::warpproof_name_memory(memory + 8, from(chars(&name))));
    assert_eq!(answer!(api::warpproof_name_memory(8, from(chars(&name)))), 1);
    assert_eq!(answer!(api::warpproof_name_memory(memory, api::In::none())), 1);
}

/// A kernel that adds to a managed variable, and a variable that holds the address of another managed one.
const MANAGED: &str = "
.version 8.7
.target sm_89
.address_size 64
.visible .global .attribute(.managed) .align 4 .f32 sum = 0f40400000;
.visible .global .attribute(.managed) .align 8 .u64 place = generic(sum);
.visible .entry grow(.param .u64 data, .param .u32 number)
{
    .reg .b64 %rd; .reg .f32 %f<2>;
    ld.global.u64 %rd, [place];
    ld.f32 %f0, [%rd];
    add.f32 %f1, %f0, 0f3F800000;
    st.f32 [%rd], %f1;
    ret;
}
";

#[test]
fn managed_variables_are_host_memory() {
    start();
    let text = std::ffi::CString::new(MANAGED).unwrap();
    let (mut module, mut grow, mut sum, mut place, mut bytes) = (null(), null(), 0u64, 0u64, 0);
    ok!(api::cuModuleLoadData(out(&mut module), from(text.as_bytes_with_nul())));
    let name = |name: &str| std::ffi::CString::new(name).unwrap();
    ok!(api::cuModuleGetFunction(out(&mut grow), module, from(chars(&name("grow")))));
    ok!(api::cuModuleGetGlobal_v2(out(&mut sum), out(&mut bytes), module, from(chars(&name("sum")))));
    assert_eq!(bytes, 4);
    let pointer: *mut f32 = std::ptr::with_exposed_provenance_mut(usize::try_from(sum).unwrap());
    // SAFETY: the driver promises that the host can access a managed variable.
    let value = || unsafe { pointer.read_volatile() };
    assert_eq!(value(), 3.0, "its initial value");
    assert_eq!(launch(grow, 1, 0, 0, null()), 0);
    ok!(api::cuCtxSynchronize());
    assert_eq!(value(), 4.0);
    // SAFETY: as above.
    unsafe { pointer.write_volatile(9.0) };
    assert_eq!(launch(grow, 1, 0, 0, null()), 0);
    ok!(api::cuCtxSynchronize());
    assert_eq!((value(), download(sum, 1)), (10.0, vec![10.0]));
    // Copies accept its address on either side.
    ok!(api::cuModuleGetGlobal_v2(out(&mut place), out(&mut bytes), module, from(chars(&name("place")))));
    let mut read = 0u64;
    ok!(api::cuMemcpyDtoH_v2(std::ptr::from_mut(&mut read).cast(), place, 8));
    assert_eq!(read, sum);
    ok!(api::cuMemcpyHtoD_v2(sum, [1.5f32].as_ptr().cast(), 4));
    assert_eq!(value(), 1.5);
    let mut managed = 0u32;
    ok!(api::cuPointerGetAttribute(out(&mut managed).cast(), 8, sum));
    assert_eq!(managed, 1);
    // It lives as long as its module.
    assert_eq!(answer!(api::cuMemFree_v2(sum)), 1);
    ok!(api::cuModuleUnload(module));
    assert_eq!(answer!(api::cuPointerGetAttribute(out(&mut managed).cast(), 8, sum)), 1);
}
