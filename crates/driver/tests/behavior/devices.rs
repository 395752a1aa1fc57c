//! Several devices: primary contexts, memory, peer access.

use warpproof_driver::abi::Handle;
use warpproof_driver::api;

use crate::program::{PTX, download, kernel, launch, null, out, upload};
use crate::{answer, ok};

/// Starts with two devices and returns their primary contexts; the first is current.
fn two_devices() -> [Handle; 2] {
    // SAFETY: this process has one thread yet.
    unsafe { std::env::set_var("WARPPROOF_DEVICE", "l4,h100") };
    ok!(api::cuInit(0));
    let mut count = 0;
    ok!(api::cuDeviceGetCount(out(&mut count)));
    assert_eq!(count, 2);
    let contexts = [0, 1].map(|device| {
        let mut context = null();
        ok!(api::cuDevicePrimaryCtxRetain(out(&mut context), device));
        context
    });
    assert_ne!(contexts[0], contexts[1]);
    ok!(api::cuCtxSetCurrent(contexts[0]));
    contexts
}

/// Allocates four numbers on a device; the first device is current afterwards.
fn on(contexts: [Handle; 2], device: usize, value: f32) -> u64 {
    ok!(api::cuCtxSetCurrent(contexts[device]));
    let data = upload(&[value; 4]);
    ok!(api::cuCtxSetCurrent(contexts[0]));
    data
}

#[test]
fn memory_belongs_to_the_device_of_its_context() {
    let contexts = two_devices();
    let data = [on(contexts, 0, 1.0), on(contexts, 1, 2.0)];
    for ((device, own), address) in (0..).zip(contexts).zip(data) {
        let (mut ordinal, mut context) = (9i32, null());
        ok!(api::cuPointerGetAttribute(out(&mut ordinal).cast(), 9, address));
        ok!(api::cuPointerGetAttribute(out(&mut context).cast(), 1, address));
        assert_eq!((ordinal, context), (device, own));
        let (mut free, mut total, mut all) = (0, 0, 0);
        ok!(api::cuCtxSetCurrent(own));
        ok!(api::cuMemGetInfo_v2(out(&mut free), out(&mut total)));
        ok!(api::cuDeviceTotalMem_v2(out(&mut all), device));
        assert_eq!((total - free, total), (16, all));
    }
    // A reset of one device leaves the memory of the other.
    ok!(api::cuDevicePrimaryCtxReset_v2(1));
    ok!(api::cuCtxSetCurrent(contexts[0]));
    assert_eq!(download(data[0], 4), [1.0; 4]);
    let mut ordinal = 9i32;
    assert_eq!(answer!(api::cuPointerGetAttribute(out(&mut ordinal).cast(), 9, data[1])), 1);
}

#[test]
fn memory_of_a_peer_needs_access() {
    let contexts = two_devices();
    let (mut can, mut attribute) = (0, 0);
    ok!(api::cuDeviceCanAccessPeer(out(&mut can), 0, 1));
    ok!(api::cuDeviceGetP2PAttribute(out(&mut attribute), 2, 0, 1));
    assert_eq!((can, attribute), (1, 1));
    ok!(api::cuDeviceCanAccessPeer(out(&mut can), 1, 1));
    assert_eq!(can, 0);
    let (mine, other) = (on(contexts, 0, 1.0), on(contexts, 1, 2.0));
    // Copies do not need it.
    ok!(api::cuMemcpyPeer(mine, contexts[0], other, contexts[1], 8));
    assert_eq!(download(mine, 4), [2.0, 2.0, 1.0, 1.0]);
    assert_eq!(answer!(api::cuMemcpyPeer(mine, contexts[0], other, null(), 8)), 201);
    let add = kernel(PTX, "add");
    ok!(api::cuCtxEnablePeerAccess(contexts[1], 0));
    assert_eq!(answer!(api::cuCtxEnablePeerAccess(contexts[1], 0)), 704);
    assert_eq!(launch(add, 4, other, 3, null()), 0);
    ok!(api::cuCtxSynchronize());
    assert_eq!(download(other, 4), [5.0; 4]);
    // Managed memory is accessible to all devices.
    let mut managed = 0;
    ok!(api::cuCtxSetCurrent(contexts[1]));
    ok!(api::cuMemAllocManaged(out(&mut managed), 16, 1));
    ok!(api::cuMemsetD32_v2(managed, 0, 4));
    ok!(api::cuCtxSetCurrent(contexts[0]));
    assert_eq!(launch(add, 4, managed, 3, null()), 0);
    ok!(api::cuCtxSynchronize());

    ok!(api::cuCtxDisablePeerAccess(contexts[1]));
    assert_eq!(answer!(api::cuCtxDisablePeerAccess(contexts[1])), 705);
    assert_eq!(launch(add, 4, other, 3, null()), 0);
    assert_eq!(answer!(api::cuCtxSynchronize()), 700);
    // The other device is not affected, and its memory is as it was.
    ok!(api::cuCtxSetCurrent(contexts[1]));
    ok!(api::cuCtxSynchronize());
    assert_eq!(download(other, 4), [5.0; 4]);
}
