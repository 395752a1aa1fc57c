//! Faults are reported as in CUDA: by a later call, and sticky.

use warpproof_driver::api::{self, In};

use crate::answer;
use crate::ok;
use crate::program::{PTX, download, from, kernel, launch, named, null, out, start, upload};

/// Launches a kernel that fails, and returns the error name of the next call.
fn fails(name: &str) -> String {
    start();
    let function = kernel(PTX, name);
    let data = upload(&[0.0; 4]);
    // The launch itself succeeds: it is asynchronous.
    assert_eq!(launch(function, 8, data, 1, null()), 0);
    let code = answer!(api::cuCtxSynchronize());
    // The error is sticky: every call in this context fails, without a crash.
    let mut address = 0;
    assert_eq!(answer!(api::cuMemAlloc_v2(out(&mut address), 16)), code);
    assert_eq!(launch(function, 1, data, 1, null()), code);
    assert_eq!(answer!(api::cuMemFree_v2(data)), code);
    assert_eq!(answer!(api::cuStreamSynchronize(null())), code);
    // Another context is not affected.
    let mut other = null();
    ok!(api::cuCtxCreate_v2(out(&mut other), 0, 0));
    let add = kernel(PTX, "add");
    let data = upload(&[1.0]);
    assert_eq!(launch(add, 1, data, 1, null()), 0);
    assert_eq!(download(data, 1), [2.0]);
    named(code)
}

#[test]
fn an_illegal_address_poisons_its_context() {
    assert_eq!(fails("add"), "CUDA_ERROR_ILLEGAL_ADDRESS");
}

#[test]
fn a_misaligned_address_poisons_its_context() {
    assert_eq!(fails("misaligned"), "CUDA_ERROR_MISALIGNED_ADDRESS");
}

#[test]
fn a_trap_is_a_launch_failure() {
    assert_eq!(fails("stopped"), "CUDA_ERROR_LAUNCH_FAILED");
}

#[test]
fn a_launch_without_end_times_out() {
    warpproof_driver::driver::driver().gpu.limits.instructions = 10_000;
    assert_eq!(fails("forever"), "CUDA_ERROR_LAUNCH_TIMEOUT");
}

#[test]
fn a_primary_context_is_well_again_after_a_reset() {
    ok!(api::cuInit(0));
    let mut context = null();
    ok!(api::cuDevicePrimaryCtxRetain(out(&mut context), 0));
    ok!(api::cuCtxSetCurrent(context));
    let add = kernel(PTX, "add");
    let data = upload(&[1.0]);
    assert_eq!(launch(add, 9, data, 1, null()), 0);
    assert_eq!(answer!(api::cuCtxSynchronize()), 700);
    ok!(api::cuDevicePrimaryCtxReset_v2(0));
    ok!(api::cuCtxSynchronize());
    // Its resources are destroyed.
    assert_eq!(launch(add, 1, data, 1, null()), 400);
    let add = kernel(PTX, "add");
    let data = upload(&[1.0]);
    assert_eq!(launch(add, 1, data, 1, null()), 0);
    assert_eq!(download(data, 1), [2.0]);
}

#[test]
fn more_memory_than_the_device_has_is_refused_and_harms_nothing() {
    start();
    let (mut free, mut total) = (0, 0);
    ok!(api::cuMemGetInfo_v2(out(&mut free), out(&mut total)));
    assert_eq!(total, 24 << 30);
    let mut address = 0;
    assert_eq!(answer!(api::cuMemAlloc_v2(out(&mut address), total + 1)), 2);
    assert_eq!(answer!(api::cuMemAlloc_v2(out(&mut address), usize::MAX)), 2);
    assert_eq!(answer!(api::cuMemAlloc_v2(out(&mut address), 0)), 1);
    ok!(api::cuMemAlloc_v2(out(&mut address), 1024));
    ok!(api::cuMemFree_v2(address));
    assert_eq!(answer!(api::cuMemFree_v2(address)), 1);
}

#[test]
fn a_launch_that_cannot_be_is_refused_at_once_and_harms_nothing() {
    start();
    let add = kernel(PTX, "add");
    let data = upload(&[1.0]);
    let go = |grid: u32, block: u32, shared: u32| {
        let number = 1u32;
        let arguments = [
            from(std::slice::from_ref(&data)).cast::<u8>(),
            from(std::slice::from_ref(&number)).cast::<u8>(),
        ];
        answer!(api::cuLaunchKernel(
            add,
            grid,
            1,
            1,
            block,
            1,
            1,
            shared,
            null(),
            from(&arguments),
            In::none()
        ))
    };
    assert_eq!(go(0, 1, 0), 1);
    assert_eq!(go(1, 2048, 0), 1);
    assert_eq!(go(1, 1, 64 << 10), 1);
    // The program must request more shared memory.
    ok!(api::cuFuncSetAttribute(add, 8, 64 << 10));
    assert_eq!(go(1, 1, 64 << 10), 0);
    ok!(api::cuCtxSynchronize());
    // More threads than the kernel was compiled for.
    let bounded = PTX.replace(".param .u32 number)", ".param .u32 number) .maxntid 4");
    let add = kernel(&bounded, "add");
    assert_eq!(launch(add, 8, data, 1, null()), 1);
    ok!(api::cuCtxSynchronize());
}

#[test]
fn handles_that_are_none_are_refused() {
    assert_eq!(answer!(api::cuCtxSynchronize()), 3);
    start();
    let wrong = std::ptr::without_provenance_mut(0x1234);
    assert_eq!(answer!(api::cuStreamSynchronize(wrong)), 400);
    assert_eq!(answer!(api::cuModuleUnload(wrong)), 400);
    assert_eq!(answer!(api::cuEventRecord(wrong, null())), 400);
    assert_eq!(answer!(api::cuCtxPushCurrent_v2(wrong)), 201);
    assert_eq!(answer!(api::cuGraphLaunch(wrong, null())), 1);
    assert_eq!(launch(wrong, 1, 0, 0, null()), 400);
    assert_eq!(answer!(api::cuMemcpyDtoH_v2(std::ptr::null_mut(), 0x1000_0000_0000, 4)), 1);
}
