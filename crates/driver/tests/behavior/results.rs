//! Results of kernels, times and lookups.

use std::ffi::CString;
use std::sync::atomic::{AtomicU32, Ordering};

use warpproof_driver::api::{self, In};

use crate::answer;
use crate::ok;
use crate::program::{PTX, chars, count, download, from, kernel, launch, null, out, start, upload};

#[test]
fn a_kernel_runs_and_its_results_come_back() {
    start();
    let add = kernel(PTX, "add");
    let data = upload(&[1.0, 2.0, 3.0, 4.0]);
    assert_eq!(launch(add, 4, data, 10, null()), 0);
    ok!(api::cuCtxSynchronize());
    assert_eq!(download(data, 4), [11.0, 12.0, 13.0, 14.0]);
}

#[test]
fn arguments_in_one_buffer_are_taken_apart() {
    start();
    let add = kernel(PTX, "add");
    let data = upload(&[1.0]);
    let mut buffer = data.to_le_bytes().to_vec();
    buffer.extend(5u32.to_le_bytes());
    let size = buffer.len();
    let extra = [
        std::ptr::without_provenance_mut(1),
        buffer.as_mut_ptr().cast(),
        std::ptr::without_provenance_mut(2),
        std::ptr::from_ref(&size).cast_mut().cast(),
        std::ptr::null_mut(),
    ];
    ok!(api::cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, null(), In::none(), from(&extra)));
    assert_eq!(download(data, 1), [6.0]);
}

#[test]
fn the_host_sets_constants_and_reads_variables() {
    start();
    let text = CString::new(PTX).unwrap();
    let (mut module, mut scale) = (null(), null());
    ok!(api::cuModuleLoadData(out(&mut module), from(text.as_bytes_with_nul())));
    let name = CString::new("scale").unwrap();
    ok!(api::cuModuleGetFunction(out(&mut scale), module, from(chars(&name))));
    let data = upload(&[3.0]);
    assert_eq!(launch(scale, 1, data, 0, null()), 0);
    assert_eq!(download(data, 1), [6.0]);

    let (mut factor, mut bytes) = (0, 0);
    let name = CString::new("factor").unwrap();
    ok!(api::cuModuleGetGlobal_v2(out(&mut factor), out(&mut bytes), module, from(chars(&name))));
    assert_eq!(bytes, 4);
    ok!(api::cuMemcpyHtoD_v2(factor, [7.0f32].as_ptr().cast(), 4));
    assert_eq!(launch(scale, 1, data, 0, null()), 0);
    assert_eq!(download(data, 1), [42.0]);

    let mut launches = 0;
    let name = CString::new("launches").unwrap();
    ok!(api::cuModuleGetGlobal_v2(out(&mut launches), out(&mut bytes), module, from(chars(&name))));
    let mut counted = [0u32];
    ok!(api::cuMemcpyDtoH_v2(counted.as_mut_ptr().cast(), launches, 4));
    assert_eq!(counted, [2]);
}

#[test]
fn events_read_a_predicted_time_that_only_grows() {
    start();
    let add = kernel(PTX, "add");
    let data = upload(&[0.0; 32]);
    let (mut before, mut after, mut milliseconds) = (null(), null(), 0f32);
    ok!(api::cuEventCreate(out(&mut before), 0));
    ok!(api::cuEventCreate(out(&mut after), 0));
    assert_eq!(answer!(api::cuEventElapsedTime(out(&mut milliseconds), before, after)), 400);
    ok!(api::cuEventRecord(before, null()));
    for _ in 0..3 {
        assert_eq!(launch(add, 32, data, 1, null()), 0);
    }
    ok!(api::cuEventRecord(after, null()));
    ok!(api::cuEventSynchronize(after));
    ok!(api::cuEventElapsedTime(out(&mut milliseconds), before, after));
    // Three launches of at least two microseconds each.
    assert!((0.006..1.0).contains(&milliseconds), "{milliseconds}");
}

#[test]
fn calls_into_the_program_are_made_in_order() {
    start();
    let counter = AtomicU32::new(0);
    let data = std::ptr::from_ref(&counter).cast_mut().cast();
    ok!(api::cuLaunchHostFunc(null(), Some(count), data));
    assert_eq!(counter.load(Ordering::SeqCst), 1);
}

#[test]
fn functions_are_found_by_name_and_version() {
    ok!(api::cuInit(0));
    let find = |name: &str, version| {
        let name = CString::new(name).unwrap();
        let (mut address, mut status) = (std::ptr::null(), 9);
        ok!(api::cuGetProcAddress_v2(from(chars(&name)), out(&mut address), version, 0, out(&mut status)));
        (address.addr(), status)
    };
    let symbol = |function: *const ()| function.addr();
    assert_eq!(find("cuMemAlloc", 12_000).0, symbol(api::cuMemAlloc_v2 as *const ()));
    assert_eq!(find("cuMemAlloc", 2000).0, symbol(api::symbols::cuMemAlloc as *const ()));
    assert_eq!(find("cuLaunchKernel", 12_090).0, symbol(api::cuLaunchKernel as *const ()));
    assert_eq!(find("cuGraphInstantiate", 12_000).0, symbol(api::cuGraphInstantiateWithFlags as *const ()));
    assert_eq!(find("cuCtxCreate", 12_050).0, symbol(api::cuCtxCreate_v4 as *const ()));
    assert_eq!(find("cuNothing", 12_000), (0, 1));
    // The newest version is that of the driver.
    let mut newest = 0;
    ok!(api::cuDriverGetVersion(out(&mut newest)));
    assert!(newest >= 13_000, "{newest}");
    assert_eq!(find("cuCtxSynchronize", newest).0, symbol(api::cuCtxSynchronize_v2 as *const ()));
    assert_eq!(find("cuCtxSynchronize", 12_090).0, symbol(api::cuCtxSynchronize as *const ()));
    assert_eq!(find("cuLaunchHostFunc", newest).0, symbol(api::cuLaunchHostFunc_v2 as *const ()));
    // The function exists only in later versions.
    assert_eq!(find("cuGraphCreate", 9000), (0, 2));
}

#[test]
fn what_is_not_supported_says_so() {
    start();
    let name = CString::new("cuArrayCreate").unwrap();
    let (mut address, mut status) = (std::ptr::null(), 9);
    ok!(api::cuGetProcAddress_v2(from(chars(&name)), out(&mut address), 12_000, 0, out(&mut status)));
    assert!(!address.is_null());
    assert_eq!(api::symbols::cuArrayGetPlane(), 801);
}
