//! Many concurrent threads.

use std::sync::atomic::{AtomicBool, Ordering};

use warpproof_driver::api;

use crate::program::{PTX, download, kernel, launch, null, out, start, upload};
use crate::{answer, ok};

#[test]
fn ten_threads_on_ten_streams_lose_no_result() {
    let context = start().expose_provenance();
    let add = kernel(PTX, "add").expose_provenance();
    std::thread::scope(|scope| {
        for number in 0u32..10 {
            scope.spawn(move || {
                ok!(api::cuCtxSetCurrent(std::ptr::with_exposed_provenance_mut(context)));
                let function = std::ptr::with_exposed_provenance_mut(add);
                let mut stream = null();
                ok!(api::cuStreamCreate(out(&mut stream), 1));
                let data = upload(&[0.0; 32]);
                for _ in 0..50 {
                    assert_eq!(launch(function, 32, data, number, stream), 0);
                }
                ok!(api::cuStreamSynchronize(stream));
                let all = download(data, 32);
                assert!(
                    all.iter().all(|value| value.to_bits() == (50.0 * number as f32).to_bits()),
                    "{all:?}"
                );
            });
        }
    });
}

/// Rounds of the kernel `long`, of three instructions each: more and more, for a machine that gives the other thread little
/// time, and below the limit of a launch. A driver that serves no other thread while a kernel runs fails with all.
const ROUNDS: [u32; 3] = [1_000_000, 4_000_000, 16_000_000];

/// Runs the kernel `long` in a thread and stream of its own, and meanwhile `others` with the stream and whether it has
/// ended. If `others` was too late, it returns `false`, and a longer kernel runs.
fn beside_a_long_kernel(flags: u32, others: impl Fn(*mut std::ffi::c_void, &AtomicBool) -> bool) {
    let context = start().expose_provenance();
    let long = kernel(PTX, "long").expose_provenance();
    let mut stream = null();
    ok!(api::cuStreamCreate(out(&mut stream), flags));
    let handle = stream.expose_provenance();
    let in_time = ROUNDS.iter().any(|&rounds| {
        let data = upload(&[0.0]);
        let ended = AtomicBool::new(false);
        let done = std::thread::scope(|scope| {
            scope.spawn(|| {
                ok!(api::cuCtxSetCurrent(std::ptr::with_exposed_provenance_mut(context)));
                let stream = std::ptr::with_exposed_provenance_mut(handle);
                let function = std::ptr::with_exposed_provenance_mut(long);
                assert_eq!(launch(function, 1, data, rounds, stream), 0);
                ended.store(true, Ordering::SeqCst);
            });
            // The kernel has begun; the call is answered although it runs.
            while answer!(api::cuStreamQuery(stream)) == 0 {
                if ended.load(Ordering::SeqCst) {
                    return false;
                }
                std::thread::yield_now();
            }
            others(stream, &ended)
        });
        assert_eq!(download(data, 1)[0].to_bits(), rounds);
        done
    });
    assert!(in_time, "the driver served no other thread before the kernel had ended");
}

#[test]
fn other_threads_are_served_while_a_kernel_runs() {
    start();
    // Before: its variables are memory, and calls that change memory wait for the blocks that run.
    let add = kernel(PTX, "add");
    beside_a_long_kernel(1, |stream, ended| {
        let mut own = null();
        ok!(api::cuStreamCreate(out(&mut own), 1));
        let mut event = null();
        ok!(api::cuEventCreate(out(&mut event), 0));
        ok!(api::cuEventRecord(event, own));
        assert_eq!(answer!(api::cuStreamQuery(own)), 0);
        assert_eq!(answer!(api::cuEventQuery(event)), 0);
        // CUDA_ERROR_NOT_READY
        let running = answer!(api::cuStreamQuery(stream)) == 600 && !ended.load(Ordering::SeqCst);
        // A kernel of an independent stream.
        let data = upload(&[1.0; 32]);
        assert_eq!(launch(add, 32, data, 2, own), 0);
        assert_eq!(download(data, 32), [3.0; 32]);
        running
    });
}

#[test]
fn work_of_the_same_stream_waits_for_the_kernel() {
    beside_a_long_kernel(1, |stream, ended| {
        let mut event = null();
        ok!(api::cuEventCreate(out(&mut event), 0));
        ok!(api::cuEventRecord(event, stream));
        assert_eq!(answer!(api::cuStreamQuery(stream)), 0);
        // The other thread has only to return.
        while !ended.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        true
    });
}

#[test]
fn the_legacy_default_stream_waits_for_blocking_streams() {
    beside_a_long_kernel(0, |stream, _| {
        let add = kernel(PTX, "add");
        let mut data = 0;
        ok!(api::cuMemAlloc_v2(out(&mut data), 4));
        assert_eq!(launch(add, 1, data, 2, null()), 0);
        assert_eq!(answer!(api::cuStreamQuery(stream)), 0);
        true
    });
}

#[test]
fn memory_is_freed_after_the_kernel_that_may_use_it() {
    beside_a_long_kernel(1, |stream, _| {
        let mut data = 0;
        ok!(api::cuMemAlloc_v2(out(&mut data), 4));
        ok!(api::cuMemFree_v2(data));
        assert_eq!(answer!(api::cuStreamQuery(stream)), 0);
        true
    });
}
