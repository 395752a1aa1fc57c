//! Graphs and executable graphs.

use std::ffi::{c_char, c_int, c_void};

use warpproof_driver::abi::{Error, Handle, HostFunction};
use warpproof_driver::api::{In, Instantiation, Out, UpdateResult};
use warpproof_driver::driver::driver;

use super::{context, handle, stream};

api! {
    /// Creates an empty graph.
    fn cudaGraphCreate => (graph: Out<Handle>, flags: u32) {
        context()?;
        cu!(cuGraphCreate(graph, flags))
    }
}

api! {
    /// Destroys a graph.
    fn cudaGraphDestroy => (graph: Handle) {
        context()?;
        cu!(cuGraphDestroy(graph))
    }
}

api! {
    /// Copies a graph.
    fn cudaGraphClone => (clone: Out<Handle>, graph: Handle) {
        context()?;
        cu!(cuGraphClone(clone, graph))
    }
}

api! {
    /// The copy of a node in a copy of its graph.
    fn cudaGraphNodeFindInClone => (found: Out<Handle>, node: Handle, clone: Handle) {
        context()?;
        cu!(cuGraphNodeFindInClone(found, node, clone))
    }
}

api! {
    /// `cudaGraphNodeType` of a node; the numbers are the driver's.
    fn cudaGraphNodeGetType => (node: Handle, kind: Out<u32>) {
        context()?;
        cu!(cuGraphNodeGetType(node, kind))
    }
}

api! {
    /// Nodes of a graph.
    fn cudaGraphGetNodes => (graph: Handle, nodes: Out<Handle>, count: Out<usize>) {
        context()?;
        cu!(cuGraphGetNodes(graph, nodes, count))
    }
}

api! {
    /// Nodes without dependencies.
    fn cudaGraphGetRootNodes => (graph: Handle, nodes: Out<Handle>, count: Out<usize>) {
        context()?;
        cu!(cuGraphGetRootNodes(graph, nodes, count))
    }
}

api! {
    /// Edges of a graph.
    fn cudaGraphGetEdges_in12 => (graph: Handle, from: Out<Handle>, to: Out<Handle>, count: Out<usize>) {
        context()?;
        cu!(cuGraphGetEdges(graph, from, to, count))
    }
}

api! {
    /// Edges of a graph, and their data.
    fn cudaGraphGetEdges_v2 | cudaGraphGetEdges_in13 => (graph: Handle, from: Out<Handle>, to: Out<Handle>, data: Out<u64>, count: Out<usize>) {
        context()?;
        cu!(cuGraphGetEdges_v2(graph, from, to, data, count))
    }
}

api! {
    /// Nodes that a node depends on.
    fn cudaGraphNodeGetDependencies_in12 => (node: Handle, nodes: Out<Handle>, count: Out<usize>) {
        context()?;
        cu!(cuGraphNodeGetDependencies(node, nodes, count))
    }
}

api! {
    /// Nodes that a node depends on, and the data of the edges.
    fn cudaGraphNodeGetDependencies_v2 | cudaGraphNodeGetDependencies_in13 => (node: Handle, nodes: Out<Handle>, data: Out<u64>, count: Out<usize>) {
        context()?;
        cu!(cuGraphNodeGetDependencies_v2(node, nodes, data, count))
    }
}

api! {
    /// Nodes that depend on a node.
    fn cudaGraphNodeGetDependentNodes_in12 => (node: Handle, nodes: Out<Handle>, count: Out<usize>) {
        context()?;
        cu!(cuGraphNodeGetDependentNodes(node, nodes, count))
    }
}

api! {
    /// Nodes that depend on a node, and the data of the edges.
    fn cudaGraphNodeGetDependentNodes_v2 | cudaGraphNodeGetDependentNodes_in13 => (node: Handle, nodes: Out<Handle>, data: Out<u64>, count: Out<usize>) {
        context()?;
        cu!(cuGraphNodeGetDependentNodes_v2(node, nodes, data, count))
    }
}

api! {
    /// Adds edges.
    fn cudaGraphAddDependencies_in12 => (graph: Handle, from: In<Handle>, to: In<Handle>, count: usize) {
        context()?;
        cu!(cuGraphAddDependencies(graph, from, to, count))
    }
}

api! {
    /// Adds edges with data.
    fn cudaGraphAddDependencies_v2 | cudaGraphAddDependencies_in13 => (graph: Handle, from: In<Handle>, to: In<Handle>, data: In<u64>, count: usize) {
        context()?;
        cu!(cuGraphAddDependencies_v2(graph, from, to, data, count))
    }
}

api! {
    /// Removes edges.
    fn cudaGraphRemoveDependencies_in12 => (graph: Handle, from: In<Handle>, to: In<Handle>, count: usize) {
        context()?;
        cu!(cuGraphRemoveDependencies(graph, from, to, count))
    }
}

api! {
    /// Removes edges with data.
    fn cudaGraphRemoveDependencies_v2 | cudaGraphRemoveDependencies_in13 => (graph: Handle, from: In<Handle>, to: In<Handle>, data: In<u64>, count: usize) {
        context()?;
        cu!(cuGraphRemoveDependencies_v2(graph, from, to, data, count))
    }
}

api! {
    /// Removes a node and its edges.
    fn cudaGraphDestroyNode => (node: Handle) {
        context()?;
        cu!(cuGraphDestroyNode(node))
    }
}

api! {
    /// Instantiates a graph.
    fn cudaGraphInstantiate | cudaGraphInstantiateWithFlags => (executable: Out<Handle>, graph: Handle, flags: u64) {
        context()?;
        cu!(cuGraphInstantiateWithFlags(executable, graph, flags))
    }
}

api! {
    /// Instantiates a graph; the result is written into the parameters.
    fn cudaGraphInstantiateWithParams | cudaGraphInstantiateWithParams_ptsz => (executable: Out<Handle>, graph: Handle, parameters: Out<Instantiation>) {
        context()?;
        cu!(cuGraphInstantiateWithParams(executable, graph, parameters))
    }
}

api! {
    /// Flags of an executable graph.
    fn cudaGraphExecGetFlags => (executable: Handle, flags: Out<u64>) {
        context()?;
        cu!(cuGraphExecGetFlags(executable, flags))
    }
}

api! {
    /// Updates an executable graph from a graph with the same nodes and other parameters.
    fn cudaGraphExecUpdate => (executable: Handle, graph: Handle, info: Out<UpdateResult>) {
        context()?;
        cu!(cuGraphExecUpdate_v2(executable, graph, info))
    }
}

api! {
    /// Destroys an executable graph.
    fn cudaGraphExecDestroy => (executable: Handle) {
        context()?;
        cu!(cuGraphExecDestroy(executable))
    }
}

api! {
    /// Launches an executable graph.
    fn cudaGraphLaunch | cudaGraphLaunch_ptsz => (executable: Handle, on: Handle) {
        let on = stream(on);
        context()?;
        cu!(cuGraphLaunch(executable, on))
    }
}

api! {
    /// Does nothing: graphs need no upload.
    fn cudaGraphUpload | cudaGraphUpload_ptsz => (executable: Handle, on: Handle) {
        let on = stream(on);
        context()?;
        cu!(cuGraphUpload(executable, on))
    }
}

api! {
    /// Whether a node of an executable graph runs.
    fn cudaGraphNodeGetEnabled => (executable: Handle, node: Handle, enabled: Out<u32>) {
        context()?;
        cu!(cuGraphNodeGetEnabled(executable, node, enabled))
    }
}

api! {
    /// Enables or disables a node of an executable graph.
    fn cudaGraphNodeSetEnabled => (executable: Handle, node: Handle, enabled: u32) {
        context()?;
        cu!(cuGraphNodeSetEnabled(executable, node, enabled))
    }
}

api! {
    /// Writes a graph to a file, in the language of Graphviz.
    fn cudaGraphDebugDotPrint => (graph: Handle, path: In<c_char>, flags: u32) {
        context()?;
        cu!(cuGraphDebugDotPrint(graph, path, flags))
    }
}

api! {
    /// Creates an object with a destructor and a reference count.
    fn cudaUserObjectCreate => (object: Out<Handle>, data: *mut c_void, destructor: Option<HostFunction>, references: u32, flags: u32) {
        context()?;
        cu!(cuUserObjectCreate(object, data, destructor, references, flags))
    }
}

api! {
    /// Adds references to an object.
    fn cudaUserObjectRetain => (object: Handle, count: u32) {
        context()?;
        cu!(cuUserObjectRetain(object, count))
    }
}

api! {
    /// Removes references to an object.
    fn cudaUserObjectRelease => (object: Handle, count: u32) {
        context()?;
        cu!(cuUserObjectRelease(object, count))
    }
}

api! {
    /// Gives a graph references to an object.
    fn cudaGraphRetainUserObject => (graph: Handle, object: Handle, count: u32, flags: u32) {
        context()?;
        cu!(cuGraphRetainUserObject(graph, object, count, flags))
    }
}

api! {
    /// Removes references of a graph to an object.
    fn cudaGraphReleaseUserObject => (graph: Handle, object: Handle, count: u32) {
        context()?;
        cu!(cuGraphReleaseUserObject(graph, object, count))
    }
}

api! {
    /// Memory of graphs on a device.
    fn cudaDeviceGetGraphMemAttribute => (device: c_int, attribute: u32, value: Out<u64>) {
        context()?;
        cu!(cuDeviceGetGraphMemAttribute(device, attribute, value))
    }
}

api! {
    /// Resets a high-water mark.
    fn cudaDeviceSetGraphMemAttribute => (device: c_int, attribute: u32, value: In<u64>) {
        context()?;
        cu!(cuDeviceSetGraphMemAttribute(device, attribute, value))
    }
}

api! {
    /// Does nothing: memory is reserved only for nodes that exist.
    fn cudaDeviceGraphMemTrim => (device: c_int) {
        context()?;
        cu!(cuDeviceGraphMemTrim(device))
    }
}

api! {
    /// The graph that contains a node.
    fn cudaGraphNodeGetContainingGraph => (node: Handle, graph: Out<Handle>) {
        context()?;
        cu!(cuGraphNodeGetContainingGraph(node, graph))
    }
}

api! {
    /// The number of a node, as in the output of `cudaGraphDebugDotPrint`.
    fn cudaGraphNodeGetLocalId => (node: Handle, id: Out<u32>) {
        context()?;
        cu!(cuGraphNodeGetLocalId(node, id))
    }
}

api! {
    /// The number of a node for tools.
    fn cudaGraphNodeGetToolsId => (node: Handle, id: Out<u64>) {
        context()?;
        cu!(cuGraphNodeGetToolsId(node, id))
    }
}

api! {
    /// The number of a graph, as in the output of `cudaGraphDebugDotPrint`.
    fn cudaGraphGetId => (graph: Handle, id: Out<u32>) {
        context()?;
        cu!(cuGraphGetId(graph, id))
    }
}

api! {
    /// The number of an executable graph.
    fn cudaGraphExecGetId => (executable: Handle, id: Out<u32>) {
        context()?;
        cu!(cuGraphExecGetId(executable, id))
    }
}

api! {
    /// The variable of a conditional node.
    fn cudaGraphConditionalHandleCreate => (variable: Out<u64>, graph: Handle, default: u32, flags: u32) {
        let context = handle(context()?);
        cu!(cuGraphConditionalHandleCreate(variable, graph, context, default, flags))
    }
}

api! {
    /// The variable of a conditional node. Execution contexts other than the current one are not supported.
    fn cudaGraphConditionalHandleCreate_v2 => (variable: Out<u64>, graph: Handle, other: Handle, default: u32, flags: u32) {
        let context = handle(context()?);
        if !other.is_null() && other != context {
            driver().report.unsupported("a conditional node of another execution context");
            return Err(Error::NOT_SUPPORTED);
        }
        cu!(cuGraphConditionalHandleCreate(variable, graph, context, default, flags))
    }
}
