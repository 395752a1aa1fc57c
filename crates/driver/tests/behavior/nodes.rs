//! Nodes of graphs: their parameters, memory that graphs allocate, objects that graphs keep, and captures that a program reads.

use std::sync::atomic::{AtomicU32, Ordering};

use warpproof_driver::abi::{AllocationNode, Handle, KernelNode, KernelNodeV2, SetNode};
use warpproof_driver::api::{self, In, Out};

use crate::answer;
use crate::ok;
use crate::program::{PTX, chars, count, download, from, handles, kernel, launch, null, out, start, upload};

/// An allocation of this many bytes on the first device.
fn allocation(size: usize) -> AllocationNode {
    AllocationNode { kind: 1, location: 1, size, ..AllocationNode::default() }
}

fn graph() -> Handle {
    let mut graph = null();
    ok!(api::cuGraphCreate(out(&mut graph), 0));
    graph
}

fn executable(graph: Handle, flags: u64) -> Handle {
    let mut ready = null();
    ok!(api::cuGraphInstantiateWithFlags(out(&mut ready), graph, flags));
    ready
}

fn memory_of_graphs(attribute: u32) -> u64 {
    let mut bytes = 0;
    ok!(api::cuDeviceGetGraphMemAttribute(0, attribute, out(&mut bytes)));
    bytes
}

#[test]
fn memory_of_a_graph_lives_from_its_allocation_to_its_free_node() {
    start();
    let graph = graph();
    let (mut node, mut set, mut free) = (null(), null(), null());
    let mut asked = allocation(16);
    ok!(api::cuGraphAddMemAllocNode(out(&mut node), graph, In::none(), 0, out(&mut asked)));
    assert_ne!(asked.address, 0, "the address is known before the graph runs");
    let ones =
        SetNode { target: asked.address, pitch: 0, value: 0x3f80_0000, element: 4, width: 4, height: 1 };
    ok!(api::cuGraphAddMemsetNode(out(&mut set), graph, from(&[node]), 1, from(&[ones]), null()));
    let mut known = AllocationNode::default();
    ok!(api::cuGraphMemAllocNodeGetParams(node, out(&mut known)));
    assert_eq!((known.address, known.size, known.device), (asked.address, 16, 0));
    assert_eq!([memory_of_graphs(0), memory_of_graphs(2)], [0, 16], "reserved, not in use");
    let ready = executable(graph, 0);
    ok!(api::cuGraphLaunch(ready, null()));
    assert_eq!(download(asked.address, 4), [1.0; 4]);
    assert_eq!(memory_of_graphs(0), 16);
    // It is not free, so the graph cannot allocate it again.
    assert_eq!(answer!(api::cuGraphLaunch(ready, null())), 1);
    ok!(api::cuMemFree_v2(asked.address));
    assert_eq!(answer!(api::cuMemFree_v2(asked.address)), 1);
    ok!(api::cuGraphLaunch(ready, null()));
    ok!(api::cuMemFreeAsync(asked.address, null()));
    // With a node that frees it, the graph can run any number of times.
    ok!(api::cuGraphAddMemFreeNode(out(&mut free), graph, from(&[set]), 1, asked.address));
    let mut freed = 0;
    ok!(api::cuGraphMemFreeNodeGetParams(free, out(&mut freed)));
    assert_eq!(freed, asked.address);
    let again = executable(graph, 0);
    ok!(api::cuGraphLaunch(again, null()));
    ok!(api::cuGraphLaunch(again, null()));
    // CUDA neither copies a graph with memory nor removes nodes from it.
    let mut copy = null();
    assert_eq!(answer!(api::cuGraphClone(out(&mut copy), graph)), 801);
    assert_eq!(answer!(api::cuGraphDestroyNode(free)), 801);
    assert_eq!(memory_of_graphs(1), 16);
    for ready in [ready, again] {
        ok!(api::cuGraphExecDestroy(ready));
    }
    assert_eq!(memory_of_graphs(2), 16);
    ok!(api::cuGraphDestroy(graph));
    assert_eq!(memory_of_graphs(2), 0);
    ok!(api::cuDeviceSetGraphMemAttribute(0, 1, from(&[0])));
    assert_eq!(memory_of_graphs(1), 0);
    assert_eq!(answer!(api::cuGraphAddMemFreeNode(out(&mut free), null(), In::none(), 0, 0)), 1);
}

#[test]
fn memory_of_a_graph_is_freed_at_launch_on_request() {
    start();
    let graph = graph();
    let (mut node, mut asked) = (null(), allocation(16));
    ok!(api::cuGraphAddMemAllocNode(out(&mut node), graph, In::none(), 0, out(&mut asked)));
    let ready = executable(graph, 1);
    ok!(api::cuGraphLaunch(ready, null()));
    ok!(api::cuGraphLaunch(ready, null()));
    // The memory outlives the graph until the program frees it.
    ok!(api::cuGraphExecDestroy(ready));
    ok!(api::cuGraphDestroy(graph));
    assert_eq!(memory_of_graphs(0), 16);
    ok!(api::cuMemFree_v2(asked.address));
    assert_eq!(memory_of_graphs(2), 0);
}

#[test]
fn allocations_are_captured() {
    start();
    let add = kernel(PTX, "add");
    let result = upload(&[0.0]);
    let (mut stream, mut graph, mut data, mut nothing) = (null(), null(), 0, 1);
    ok!(api::cuStreamCreate(out(&mut stream), 1));
    ok!(api::cuStreamBeginCapture_v2(stream, 0));
    ok!(api::cuMemAllocAsync(out(&mut data), 4, stream));
    ok!(api::cuMemsetD32Async(data, 0x4000_0000, 1, stream));
    assert_eq!(launch(add, 1, data, 3, stream), 0);
    ok!(api::cuMemcpyDtoDAsync_v2(result, data, 4, stream));
    ok!(api::cuMemFreeAsync(data, stream));
    ok!(api::cuMemAllocAsync(out(&mut nothing), 0, stream));
    assert_eq!(nothing, 0);
    ok!(api::cuStreamEndCapture(stream, out(&mut graph)));
    let ready = executable(graph, 0);
    for _ in 0..2 {
        ok!(api::cuGraphLaunch(ready, stream));
        assert_eq!(download(result, 1), [5.0]);
    }
}

#[test]
fn an_object_is_destroyed_with_the_last_graph_that_keeps_it() {
    start();
    let destroyed: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
    let data = std::ptr::from_ref(destroyed).cast_mut().cast();
    let (mut object, mut copy, graph) = (null(), null(), graph());
    let count_of = || destroyed.load(Ordering::SeqCst);
    assert_eq!(answer!(api::cuUserObjectCreate(out(&mut object), data, Some(count), 1, 0)), 1);
    ok!(api::cuUserObjectCreate(out(&mut object), data, Some(count), 1, 1));
    ok!(api::cuUserObjectRetain(object, 1));
    ok!(api::cuUserObjectRelease(object, 1));
    // The graph takes over the reference of the program.
    ok!(api::cuGraphRetainUserObject(graph, object, 1, 1));
    ok!(api::cuGraphClone(out(&mut copy), graph));
    let ready = executable(graph, 0);
    ok!(api::cuGraphReleaseUserObject(copy, object, 1));
    assert_eq!(answer!(api::cuGraphReleaseUserObject(copy, object, 1)), 1);
    ok!(api::cuGraphDestroy(graph));
    assert_eq!(count_of(), 0);
    // The executable graph is the last to keep it; its update takes the objects of the other graph.
    ok!(api::cuGraphExecUpdate_v2(ready, copy, Out::none()));
    assert_eq!(count_of(), 1);
    assert_eq!(answer!(api::cuUserObjectRelease(object, 1)), 1);
    ok!(api::cuGraphExecDestroy(ready));
    assert_eq!(count_of(), 1);
}

#[test]
fn a_program_reads_the_graph_of_an_active_capture_and_changes_its_dependencies() {
    start();
    let add = kernel(PTX, "add");
    let data = upload(&[0.0]);
    let mut stream = null();
    ok!(api::cuStreamCreate(out(&mut stream), 1));
    let read = || {
        let (mut status, mut id, mut graph, mut count) = (9, 0, null(), 9);
        let (mut nodes, mut edges) = (std::ptr::null(), std::ptr::null());
        ok!(api::cuStreamGetCaptureInfo_v3(
            stream,
            out(&mut status),
            out(&mut id),
            out(&mut graph),
            out(&mut nodes),
            out(&mut edges),
            out(&mut count)
        ));
        (status, graph, handles(nodes, count))
    };
    assert_eq!(read(), (0, null(), Vec::new()));
    ok!(api::cuStreamBeginCapture_v2(stream, 0));
    assert_eq!(launch(add, 1, data, 1, stream), 0);
    let (status, graph, first) = read();
    assert_eq!((status, first.len()), (1, 1));
    assert_eq!(launch(add, 1, data, 2, stream), 0);
    let (_, _, second) = read();
    assert_ne!(first, second);
    let edges = |graph| {
        let mut count = 0;
        ok!(api::cuGraphGetEdges_v2(graph, Out::none(), Out::none(), Out::none(), out(&mut count)));
        count
    };
    assert_eq!(edges(graph), 1);
    // A node that the program adds itself; later work follows it and the second launch.
    let mut own = null();
    ok!(api::cuGraphAddEmptyNode(out(&mut own), graph, from(&first), 1));
    ok!(api::cuStreamUpdateCaptureDependencies_v2(stream, from(&[own]), In::none(), 1, 0));
    assert_eq!(read().2.len(), 2);
    assert_eq!(launch(add, 1, data, 4, stream), 0);
    assert_eq!(edges(graph), 4);
    let last = read().2;
    ok!(api::cuStreamUpdateCaptureDependencies(stream, from(&first), 1, 1));
    assert_eq!(read().2, first);
    ok!(api::cuStreamUpdateCaptureDependencies(stream, from(&last), 1, 1));
    let mut ended = null();
    ok!(api::cuStreamEndCapture(stream, out(&mut ended)));
    assert_eq!(ended, graph);
    ok!(api::cuGraphLaunch(executable(graph, 0), stream));
    assert_eq!(download(data, 1), [7.0]);
    assert_eq!(answer!(api::cuStreamUpdateCaptureDependencies(stream, from(&first), 1, 0)), 401);
}

#[test]
fn a_copy_of_a_graph_and_a_child_graph_have_nodes_of_their_own() {
    start();
    let add = kernel(PTX, "add");
    let (data, number) = (upload(&[0.0]), 5u32);
    let arguments =
        [from(std::slice::from_ref(&data)).cast::<u8>(), from(std::slice::from_ref(&number)).cast()];
    let inner = graph();
    let (mut node, mut copy, mut found) = (null(), null(), null());
    let asked = KernelNode {
        function: add,
        grid: [1; 3],
        block: [1; 3],
        shared: 0,
        arguments: from(&arguments),
        extra: In::none(),
    };
    ok!(api::cuGraphAddKernelNode(out(&mut node), inner, In::none(), 0, from(&[asked])));
    ok!(api::cuGraphClone(out(&mut copy), inner));
    ok!(api::cuGraphNodeFindInClone(out(&mut found), node, copy));
    assert_ne!(found, node);
    // The parameters of the copy, with the copied arguments.
    let mut known = KernelNodeV2 { node: asked, kernel: null(), context: null() };
    ok!(api::cuGraphKernelNodeGetParams_v2(found, out(&mut known)));
    assert_eq!((known.node.function, known.node.grid, known.kernel), (add, [1; 3], null()));
    assert_eq!(known.node.arguments.at(1).get().unwrap().cast::<u32>().get(), Ok(5));
    ok!(api::cuGraphDestroyNode(node));
    assert_eq!(answer!(api::cuGraphNodeFindInClone(out(&mut found), node, inner)), 1);
    // A child node owns its graph: a change of that graph changes the node, and the program cannot destroy it.
    let outer = graph();
    let (mut child, mut embedded, mut inside) = (null(), null(), null());
    ok!(api::cuGraphAddChildGraphNode(out(&mut child), outer, In::none(), 0, copy));
    ok!(api::cuGraphChildGraphNodeGetGraph(child, out(&mut embedded)));
    ok!(api::cuGraphNodeFindInClone(out(&mut inside), found, embedded));
    assert_eq!(answer!(api::cuGraphDestroy(embedded)), 1);
    let twice = KernelNode { grid: [2, 1, 1], ..known.node };
    ok!(api::cuGraphKernelNodeSetParams(inside, from(&[twice])));
    let zero = SetNode { target: data, pitch: 0, value: 0x4000_0000, element: 4, width: 1, height: 1 };
    let mut set = null();
    ok!(api::cuGraphAddMemsetNode(out(&mut set), embedded, In::none(), 0, from(&[zero]), null()));
    let mut read = SetNode { value: 0, ..zero };
    ok!(api::cuGraphMemsetNodeGetParams(set, out(&mut read)));
    assert_eq!((read.value, read.target), (0x4000_0000, data));
    ok!(api::cuGraphAddDependencies(embedded, from(&[set]), from(&[inside]), 1));
    ok!(api::cuGraphLaunch(executable(outer, 0), null()));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graph.dot");
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    ok!(api::cuGraphDebugDotPrint(embedded, from(chars(&name)), 0));
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("KERNEL") && text.contains("MEMSET") && text.contains(" -> "), "{text}");
    ok!(api::cuGraphDestroy(outer));
    assert_eq!(answer!(api::cuGraphNodeGetType(inside, Out::none())), 1);
}

/// A graph that sets a number.
fn set_of(data: u64, value: u32) -> (Handle, Handle) {
    let (graph, mut node) = (graph(), null());
    let set = SetNode { target: data, pitch: 0, value, element: 4, width: 1, height: 1 };
    ok!(api::cuGraphAddMemsetNode(out(&mut node), graph, In::none(), 0, from(&[set]), null()));
    (graph, node)
}

#[test]
fn nodes_change_in_graphs_and_in_executable_graphs() {
    start();
    let data = upload(&[0.0]);
    // A child graph gets other parameters, but not other nodes.
    let ((one, _), (two, _)) = (set_of(data, 0x3f80_0000), set_of(data, 0x4000_0000));
    let (outer, mut child, mut event) = (graph(), null(), null());
    ok!(api::cuGraphAddChildGraphNode(out(&mut child), outer, In::none(), 0, one));
    let ready = executable(outer, 0);
    ok!(api::cuGraphExecChildGraphNodeSetParams(ready, child, two));
    ok!(api::cuGraphLaunch(ready, null()));
    assert_eq!(download(data, 1), [2.0]);
    assert_eq!(answer!(api::cuGraphExecChildGraphNodeSetParams(ready, child, graph())), 1);
    assert_eq!(answer!(api::cuGraphNodeSetEnabled(ready, child, 0)), 1);
    // Events.
    let (mut record, mut wait, mut found) = (null(), null(), null());
    ok!(api::cuEventCreate(out(&mut event), 0));
    let mut other = null();
    ok!(api::cuEventCreate(out(&mut other), 0));
    ok!(api::cuGraphAddEventRecordNode(out(&mut record), outer, In::none(), 0, event));
    ok!(api::cuGraphAddEventWaitNode(out(&mut wait), outer, In::none(), 0, event));
    ok!(api::cuGraphEventRecordNodeSetEvent(record, other));
    ok!(api::cuGraphEventRecordNodeGetEvent(record, out(&mut found)));
    assert_eq!(found, other);
    ok!(api::cuGraphEventWaitNodeSetEvent(wait, other));
    ok!(api::cuGraphEventWaitNodeGetEvent(wait, out(&mut found)));
    assert_eq!(found, other);
    assert_eq!(answer!(api::cuGraphEventWaitNodeSetEvent(record, other)), 1);
    assert_eq!(answer!(api::cuGraphEventWaitNodeSetEvent(wait, null())), 400);
    // A memset that does not run, and runs again.
    let (graph, node) = set_of(data, 0x4040_0000);
    let (ready, mut enabled) = (executable(graph, 0), 7);
    ok!(api::cuGraphNodeSetEnabled(ready, node, 0));
    ok!(api::cuGraphNodeGetEnabled(ready, node, out(&mut enabled)));
    ok!(api::cuGraphLaunch(ready, null()));
    assert_eq!((enabled, download(data, 1)), (0, vec![2.0]));
    ok!(api::cuGraphNodeSetEnabled(ready, node, 1));
    ok!(api::cuGraphLaunch(ready, null()));
    assert_eq!(download(data, 1), [3.0]);
}

#[test]
fn launches_of_graphs_have_attributes() {
    start();
    let add = kernel(PTX, "add");
    let (data, number) = (upload(&[0.0]), 5u32);
    let arguments =
        [from(std::slice::from_ref(&data)).cast::<u8>(), from(std::slice::from_ref(&number)).cast()];
    let (graph, mut nodes) = (graph(), [null(); 2]);
    let (grid, block, arguments) = ([1; 3], [1; 3], from(&arguments));
    let asked = KernelNode { function: add, grid, block, shared: 0, arguments, extra: In::none() };
    for node in &mut nodes {
        ok!(api::cuGraphAddKernelNode(out(node), graph, In::none(), 0, from(&[asked])));
    }
    let (mut value, mut read) = ([0; 16], [7; 16]);
    value[0] = 1;
    ok!(api::cuGraphKernelNodeGetAttribute(nodes[1], 2, out(&mut read)));
    assert_eq!(read, [0; 16]);
    ok!(api::cuGraphKernelNodeSetAttribute(nodes[0], 2, from(&[value])));
    ok!(api::cuGraphKernelNodeCopyAttributes(nodes[1], nodes[0]));
    ok!(api::cuGraphKernelNodeGetAttribute(nodes[1], 2, out(&mut read)));
    assert_eq!(read, value);
    // The dimensions of a cluster. Attributes without effect cannot be read.
    value[..3].fill(1);
    ok!(api::cuGraphKernelNodeSetAttribute(nodes[0], 4, from(&[value])));
    ok!(api::cuGraphKernelNodeGetAttribute(nodes[0], 4, out(&mut read)));
    assert_eq!(read, value);
    assert_eq!(answer!(api::cuGraphKernelNodeGetAttribute(nodes[0], 8, out(&mut read))), 801);
}

#[test]
fn a_joined_stream_may_end_before_its_capture() {
    start();
    let data = upload(&[0.0, 0.0]);
    for joined in [true, false] {
        let (mut main, mut side, mut fork, mut join, mut graph) = (null(), null(), null(), null(), null());
        for stream in [&mut main, &mut side] {
            ok!(api::cuStreamCreate(out(stream), 1));
        }
        for event in [&mut fork, &mut join] {
            ok!(api::cuEventCreate(out(event), 0));
        }
        ok!(api::cuStreamBeginCapture_v2(main, 0));
        ok!(api::cuEventRecord(fork, main));
        ok!(api::cuStreamWaitEvent(side, fork, 0));
        ok!(api::cuMemsetD32Async(data, 0x3f80_0000, 1, side));
        ok!(api::cuEventRecord(join, side));
        if joined {
            ok!(api::cuStreamWaitEvent(main, join, 0));
        }
        ok!(api::cuStreamDestroy_v2(side));
        ok!(api::cuEventDestroy_v2(join));
        ok!(api::cuMemsetD32Async(data + 4, 0x4000_0000, 1, main));
        let ended = answer!(api::cuStreamEndCapture(main, out(&mut graph)));
        assert_eq!(ended, if joined { 0 } else { 904 });
        if joined {
            ok!(api::cuGraphLaunch(executable(graph, 0), null()));
        }
    }
    assert_eq!(download(data, 2), [1.0, 2.0]);
}
