//! Graphs: captured and constructed.

use warpproof_driver::abi::KernelNode;
use warpproof_driver::api::{self, In, Out};

use crate::answer;
use crate::ok;
use crate::program::{PTX, download, from, kernel, launch, null, out, start, upload};

#[test]
fn what_is_captured_runs_when_the_graph_is_launched() {
    start();
    let add = kernel(PTX, "add");
    let data = upload(&[0.0; 4]);
    let (mut stream, mut graph, mut ready) = (null(), null(), null());
    ok!(api::cuStreamCreate(out(&mut stream), 1));
    ok!(api::cuStreamBeginCapture_v2(stream, 0));
    assert_eq!(launch(add, 4, data, 1, stream), 0);
    assert_eq!(launch(add, 4, data, 2, stream), 0);
    // Synchronization cannot be captured and invalidates the capture.
    ok!(api::cuStreamEndCapture(stream, out(&mut graph)));
    assert_eq!(download(data, 4), [0.0; 4]);
    ok!(api::cuGraphInstantiateWithFlags(out(&mut ready), graph, 0));
    ok!(api::cuGraphLaunch(ready, stream));
    ok!(api::cuGraphLaunch(ready, stream));
    ok!(api::cuStreamSynchronize(stream));
    assert_eq!(download(data, 4), [6.0; 4]);
    let mut count = 0;
    ok!(api::cuGraphGetNodes(graph, Out::none(), out(&mut count)));
    assert_eq!(count, 2);
}

#[test]
fn streams_join_a_capture_by_events_and_must_come_back() {
    start();
    let add = kernel(PTX, "add");
    let data = upload(&[0.0]);
    let (mut first, mut second, mut fork, mut join, mut graph) = (null(), null(), null(), null(), null());
    ok!(api::cuStreamCreate(out(&mut first), 1));
    ok!(api::cuStreamCreate(out(&mut second), 1));
    ok!(api::cuEventCreate(out(&mut fork), 2));
    ok!(api::cuEventCreate(out(&mut join), 2));
    for comes_back in [false, true] {
        ok!(api::cuStreamBeginCapture_v2(first, 0));
        ok!(api::cuEventRecord(fork, first));
        ok!(api::cuStreamWaitEvent(second, fork, 0));
        assert_eq!(launch(add, 1, data, 1, second), 0);
        if comes_back {
            ok!(api::cuEventRecord(join, second));
            ok!(api::cuStreamWaitEvent(first, join, 0));
            ok!(api::cuStreamEndCapture(first, out(&mut graph)));
        } else {
            assert_eq!(answer!(api::cuStreamEndCapture(first, out(&mut graph))), 904);
        }
    }
    let mut status = 9;
    ok!(api::cuStreamIsCapturing(second, out(&mut status)));
    assert_eq!(status, 0);
}

#[test]
fn waiting_spoils_a_capture() {
    start();
    let (mut stream, mut graph) = (null(), null());
    ok!(api::cuStreamCreate(out(&mut stream), 1));
    ok!(api::cuStreamBeginCapture_v2(stream, 0));
    assert_eq!(answer!(api::cuStreamSynchronize(stream)), 900);
    assert_eq!(answer!(api::cuStreamEndCapture(stream, out(&mut graph))), 901);
    ok!(api::cuStreamSynchronize(stream));
}

#[test]
fn nodes_run_in_the_order_of_their_edges_with_arguments_that_can_change() {
    start();
    let (add, scale) = (kernel(PTX, "add"), kernel(PTX, "scale"));
    let data = upload(&[1.0]);
    let node_of = |function, number: &u32| {
        let arguments =
            [from(std::slice::from_ref(&data)).cast::<u8>(), from(std::slice::from_ref(number)).cast::<u8>()];
        let arguments: &'static [In<u8>] = Box::leak(Box::new(arguments));
        KernelNode {
            function,
            grid: [1; 3],
            block: [1; 3],
            shared: 0,
            arguments: from(arguments),
            extra: In::none(),
        }
    };
    let (mut graph, mut a, mut b, mut ready) = (null(), null(), null(), null());
    ok!(api::cuGraphCreate(out(&mut graph), 0));
    // The node added first runs second.
    ok!(api::cuGraphAddKernelNode(out(&mut a), graph, In::none(), 0, from(&[node_of(scale, &0)])));
    ok!(api::cuGraphAddKernelNode(out(&mut b), graph, In::none(), 0, from(&[node_of(add, &3)])));
    ok!(api::cuGraphAddDependencies(graph, from(&[b]), from(&[a]), 1));
    ok!(api::cuGraphInstantiateWithFlags(out(&mut ready), graph, 0));
    ok!(api::cuGraphLaunch(ready, null()));
    assert_eq!(download(data, 1), [8.0]);
    ok!(api::cuGraphExecKernelNodeSetParams(ready, b, from(&[node_of(add, &0)])));
    ok!(api::cuGraphLaunch(ready, null()));
    assert_eq!(download(data, 1), [16.0]);
    // A cycle cannot be instantiated.
    ok!(api::cuGraphAddDependencies(graph, from(&[a]), from(&[b]), 1));
    assert_eq!(answer!(api::cuGraphInstantiateWithFlags(out(&mut ready), graph, 0)), 1);
}

/// Adds one to its argument.
unsafe extern "C" fn one_more(data: *mut std::ffi::c_void) {
    // SAFETY: the test passes a number that outlives the graph.
    unsafe { *data.cast::<f32>() += 1.0 };
}

#[test]
fn calls_of_the_program_stand_between_what_comes_before_and_after() {
    start();
    let data = upload(&[1.0]);
    let number: &'static mut f32 = Box::leak(Box::new(0.0));
    let host: *mut f32 = number;
    let (mut stream, mut graph, mut ready) = (null(), null(), null());
    ok!(api::cuStreamCreate(out(&mut stream), 1));
    ok!(api::cuStreamBeginCapture_v2(stream, 0));
    ok!(api::cuMemcpyDtoHAsync_v2(host.cast(), data, 4, stream));
    ok!(api::cuLaunchHostFunc(stream, Some(one_more), host.cast()));
    ok!(api::cuMemcpyHtoDAsync_v2(data, host.cast(), 4, stream));
    ok!(api::cuStreamEndCapture(stream, out(&mut graph)));
    ok!(api::cuGraphInstantiateWithFlags(out(&mut ready), graph, 0));
    ok!(api::cuGraphLaunch(ready, stream));
    ok!(api::cuGraphLaunch(ready, stream));
    assert_eq!(download(data, 1), [3.0]);
}

#[test]
fn external_events_are_nodes_of_what_is_captured() {
    start();
    let add = kernel(PTX, "add");
    let data = upload(&[0.0]);
    let (mut stream, mut event, mut before, mut graph, mut ready) = (null(), null(), null(), null(), null());
    ok!(api::cuStreamCreate(out(&mut stream), 1));
    ok!(api::cuEventCreate(out(&mut event), 0));
    ok!(api::cuEventCreate(out(&mut before), 0));
    // Outside of a capture the flag is an error.
    assert_eq!(answer!(api::cuEventRecordWithFlags(event, stream, 1)), 1);
    ok!(api::cuStreamBeginCapture_v2(stream, 0));
    ok!(api::cuStreamWaitEvent(stream, before, 1));
    assert_eq!(launch(add, 1, data, 1, stream), 0);
    ok!(api::cuEventRecordWithFlags(event, stream, 1));
    ok!(api::cuStreamEndCapture(stream, out(&mut graph)));
    let mut count = 0;
    ok!(api::cuGraphGetNodes(graph, Out::none(), out(&mut count)));
    assert_eq!(count, 3);
    ok!(api::cuGraphInstantiateWithFlags(out(&mut ready), graph, 0));
    ok!(api::cuEventRecord(before, stream));
    let mut time = 0.0;
    assert_ne!(
        answer!(api::cuEventElapsedTime(out(&mut time), before, event)),
        0,
        "the event is not recorded yet"
    );
    ok!(api::cuGraphLaunch(ready, stream));
    ok!(api::cuEventSynchronize(event));
    ok!(api::cuEventElapsedTime(out(&mut time), before, event));
    assert!(time > 0.0, "predicted, {time}");
}

#[test]
fn the_legacy_stream_waits_for_blocking_streams_only() {
    start();
    let add = kernel(PTX, "add");
    let data = upload(&[0.0]);
    let (mut apart, mut blocking, mut graph) = (null(), null(), null());
    ok!(api::cuStreamCreate(out(&mut apart), 1));
    ok!(api::cuStreamCreate(out(&mut blocking), 0));
    ok!(api::cuStreamBeginCapture_v2(apart, 0));
    assert_eq!(launch(add, 1, data, 1, null()), 0);
    ok!(api::cuStreamEndCapture(apart, out(&mut graph)));
    ok!(api::cuStreamBeginCapture_v2(blocking, 2));
    assert_eq!(launch(add, 1, data, 1, null()), 906);
    assert_eq!(answer!(api::cuStreamEndCapture(blocking, out(&mut graph))), 901);
    // Destroying a stream abandons its capture.
    ok!(api::cuStreamBeginCapture_v2(blocking, 0));
    ok!(api::cuStreamDestroy_v2(blocking));
    assert_eq!(launch(add, 1, data, 1, null()), 0);
    ok!(api::cuCtxSynchronize());
    assert_eq!(download(data, 1), [2.0]);
}
