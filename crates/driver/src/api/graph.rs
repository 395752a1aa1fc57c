//! Construction of graphs, and executable graphs.

use std::ffi::c_char;

use super::launch::arguments;
use super::{In, Out, copy, driver, handle, number, settle};
use crate::abi::{Answer, Copy3d, Error, Handle, HostNode, KernelNode, KernelNodeV2, SetNode};
use crate::dependent::Programmatic;
use crate::memory::Memset;
use crate::work::{HostCall, LaunchCall, Work};

/// Converts kernel node parameters into a launch.
fn launch_of(node: &KernelNode, kernel: Handle) -> Answer<Work> {
    let function = number(if node.function.is_null() { kernel } else { node.function });
    let arguments = arguments(function, node.arguments, node.extra)?;
    let KernelNode { grid, block, shared, .. } = *node;
    let (cluster, nonportable, programmatic) = (None, None, Programmatic::default());
    let cooperative = false;
    let call = LaunchCall {
        function,
        grid,
        block,
        shared,
        arguments,
        cooperative,
        cluster,
        nonportable,
        programmatic,
    };
    let driver = driver();
    let (device, _) = driver.current()?;
    driver.admit(device, &call)?;
    Ok(Work::Launch(call))
}

fn set_of(set: &SetNode) -> Answer<Work> {
    if !matches!(set.element, 1 | 2 | 4) {
        return Err(Error::INVALID_VALUE);
    }
    let SetNode { target, value, element, width, height, .. } = *set;
    let pitch = u64::try_from(set.pitch).unwrap_or(u64::MAX);
    Ok(Work::Set(Memset { target, pitch, value, element, width, height }))
}

fn host_of(node: &HostNode) -> Answer<Work> {
    let function = node.function.ok_or(Error::INVALID_VALUE)?;
    Ok(Work::Host(HostCall { function, data: node.data.expose_provenance() }))
}

/// Adds a node and writes its handle.
pub(super) fn add(node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, work: Work) -> Answer {
    let after: Vec<u64> = after.list(count)?.into_iter().map(number).collect();
    let made = driver().add_node(number(graph), work, &after)?;
    node.put(handle(made))
}

/// Replaces the work of a node in an executable graph.
pub(super) fn replace(executable: Handle, node: Handle, work: Work) -> Answer {
    let mut driver = driver();
    let ready = driver.executables.get_mut(&number(executable)).ok_or(Error::INVALID_VALUE)?;
    let step =
        ready.steps.iter_mut().find(|(known, _)| *known == number(node)).ok_or(Error::INVALID_VALUE)?;
    if std::mem::discriminant(&step.1) != std::mem::discriminant(&work) {
        return Err(Error::INVALID_VALUE);
    }
    step.1 = work.with_attributes_of(&step.1);
    Ok(())
}

/// Replaces the work of a node.
pub(super) fn reset(node: Handle, work: Work) -> Answer {
    let mut driver = driver();
    let node = driver.node(number(node))?;
    if std::mem::discriminant(&node.work) != std::mem::discriminant(&work) {
        return Err(Error::INVALID_VALUE);
    }
    node.work = work.with_attributes_of(&node.work);
    Ok(())
}

api! {
    /// Creates an empty graph.
    fn cuGraphCreate => (graph: Out<Handle>, _flags: u32) {
        let made = driver().create_graph()?;
        graph.put(handle(made))
    }
}

api! {
    /// Destroys a graph.
    fn cuGraphDestroy => (graph: Handle) {
        let mut driver = driver();
        if driver.graph(number(graph))?.embedded {
            return Err(Error::INVALID_VALUE);
        }
        driver.destroy_graph(number(graph))?;
        settle(driver);
        Ok(())
    }
}

api! {
    /// Copies a graph.
    fn cuGraphClone => (clone: Out<Handle>, graph: Handle) {
        let made = driver().copy_graph(number(graph))?;
        clone.put(handle(made))
    }
}

api! {
    /// Adds a kernel launch.
    fn cuGraphAddKernelNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parameters: In<KernelNode>) {
        let work = launch_of(&parameters.get()?, handle(0))?;
        add(node, graph, after, count, work)
    }
}

api! {
    /// Adds a launch of a function or of a library's kernel.
    fn cuGraphAddKernelNode_v2 => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parameters: In<KernelNodeV2>) {
        let parameters = parameters.get()?;
        let work = launch_of(&parameters.node, parameters.kernel)?;
        add(node, graph, after, count, work)
    }
}

api! {
    /// Adds a copy.
    fn cuGraphAddMemcpyNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parameters: In<Copy3d>, _context: Handle) {
        let work = copy::slices(&parameters.get()?)?;
        add(node, graph, after, count, work)
    }
}

api! {
    /// Adds a memset.
    fn cuGraphAddMemsetNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parameters: In<SetNode>, _context: Handle) {
        let work = set_of(&parameters.get()?)?;
        add(node, graph, after, count, work)
    }
}

api! {
    /// Adds a host function.
    fn cuGraphAddHostNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parameters: In<HostNode>) {
        let work = host_of(&parameters.get()?)?;
        add(node, graph, after, count, work)
    }
}

api! {
    /// Adds a node without work.
    fn cuGraphAddEmptyNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize) {
        add(node, graph, after, count, Work::Empty)
    }
}

api! {
    /// Adds a child graph; later changes of the child have no effect.
    fn cuGraphAddChildGraphNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, child: Handle) {
        let after: Vec<u64> = after.list(count)?.into_iter().map(number).collect();
        let made = driver().add_child(number(graph), number(child), &after)?;
        node.put(handle(made))
    }
}

api! {
    /// Adds an event record.
    fn cuGraphAddEventRecordNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, event: Handle) {
        driver().event(number(event))?;
        add(node, graph, after, count, Work::Record(number(event)))
    }
}

api! {
    /// Adds an event wait.
    fn cuGraphAddEventWaitNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, event: Handle) {
        driver().event(number(event))?;
        add(node, graph, after, count, Work::Wait(number(event)))
    }
}

api! {
    /// Replaces the parameters of a kernel node.
    fn cuGraphKernelNodeSetParams => (node: Handle, parameters: In<KernelNode>) {
        let work = launch_of(&parameters.get()?, handle(0))?;
        reset(node, work)
    }
}

api! {
    /// Replaces the parameters of a kernel node (version 2).
    fn cuGraphKernelNodeSetParams_v2 => (node: Handle, parameters: In<KernelNodeV2>) {
        let parameters = parameters.get()?;
        let work = launch_of(&parameters.node, parameters.kernel)?;
        reset(node, work)
    }
}

api! {
    /// Replaces the parameters of a copy.
    fn cuGraphMemcpyNodeSetParams => (node: Handle, parameters: In<Copy3d>) {
        reset(node, copy::slices(&parameters.get()?)?)
    }
}

api! {
    /// Replaces the parameters of a memset.
    fn cuGraphMemsetNodeSetParams => (node: Handle, parameters: In<SetNode>) {
        reset(node, set_of(&parameters.get()?)?)
    }
}

api! {
    /// Replaces the parameters of a host function.
    fn cuGraphHostNodeSetParams => (node: Handle, parameters: In<HostNode>) {
        reset(node, host_of(&parameters.get()?)?)
    }
}

/// Adds edges between nodes.
fn connect(graph: Handle, from: In<Handle>, to: In<Handle>, count: usize) -> Answer {
    let (from, to) = (from.list(count)?, to.list(count)?);
    let mut driver = driver();
    let graph = driver.graph(number(graph))?;
    for (from, to) in from.into_iter().map(number).zip(to.into_iter().map(number)) {
        if from == to || !graph.nodes.contains_key(&from) {
            return Err(Error::INVALID_VALUE);
        }
        let node = graph.nodes.get_mut(&to).ok_or(Error::INVALID_VALUE)?;
        if node.after.contains(&from) {
            return Err(Error::INVALID_VALUE);
        }
        node.after.push(from);
    }
    Ok(())
}

/// Removes edges between nodes.
fn disconnect(graph: Handle, from: In<Handle>, to: In<Handle>, count: usize) -> Answer {
    let (from, to) = (from.list(count)?, to.list(count)?);
    let mut driver = driver();
    let graph = driver.graph(number(graph))?;
    if graph.has_memory() {
        return Err(Error::NOT_SUPPORTED);
    }
    for (from, to) in from.into_iter().map(number).zip(to.into_iter().map(number)) {
        let node = graph.nodes.get_mut(&to).ok_or(Error::INVALID_VALUE)?;
        let at = node.after.iter().position(|known| *known == from).ok_or(Error::INVALID_VALUE)?;
        node.after.remove(at);
    }
    Ok(())
}

api! {
    /// Adds edges between nodes.
    fn cuGraphAddDependencies => (graph: Handle, from: In<Handle>, to: In<Handle>, count: usize) {
        connect(graph, from, to, count)
    }
}

api! {
    /// Adds edges between nodes. Only edges with default data are supported.
    fn cuGraphAddDependencies_v2 => (graph: Handle, from: In<Handle>, to: In<Handle>, data: In<u64>, count: usize) {
        plain_edges(data, count)?;
        connect(graph, from, to, count)
    }
}

api! {
    /// Removes edges.
    fn cuGraphRemoveDependencies => (graph: Handle, from: In<Handle>, to: In<Handle>, count: usize) {
        disconnect(graph, from, to, count)
    }
}

api! {
    /// Removes edges with default data.
    fn cuGraphRemoveDependencies_v2 => (graph: Handle, from: In<Handle>, to: In<Handle>, data: In<u64>, count: usize) {
        plain_edges(data, count)?;
        disconnect(graph, from, to, count)
    }
}

/// Whether all edges have default data: `CUgraphEdgeData` is 8 bytes, all zero.
pub(super) fn plain_edges(data: In<u64>, count: usize) -> Answer {
    if !data.is_null() && data.list(count)?.into_iter().any(|edge| edge != 0) {
        driver().report.unsupported("edges of graphs with data");
        return Err(Error::NOT_SUPPORTED);
    }
    Ok(())
}

api! {
    /// Removes a node and its edges.
    fn cuGraphDestroyNode => (node: Handle) {
        let mut driver = driver();
        driver.ready()?;
        let gone = number(node);
        let graph = driver.graphs.values_mut().find(|graph| graph.nodes.contains_key(&gone)).ok_or(Error::INVALID_VALUE)?;
        if graph.has_memory() {
            return Err(Error::NOT_SUPPORTED);
        }
        let removed = graph.nodes.remove(&gone);
        for node in graph.nodes.values_mut() {
            node.after.retain(|before| *before != gone);
        }
        for inner in removed.iter().flat_map(|node| node.child.iter().chain(&node.bodies)) {
            driver.destroy_graph(*inner)?;
        }
        settle(driver);
        Ok(())
    }
}

/// Writes at most as many handles as fit, and the total count.
fn give(all: &[u64], place: Out<Handle>, count: Out<usize>) -> Answer {
    if !place.is_null() {
        let room = count.read().get()?;
        for (i, one) in all.iter().enumerate().take(room) {
            place.at(i).put(handle(*one))?;
        }
        for i in all.len()..room {
            place.at(i).put(handle(0))?;
        }
        return count.put(room.min(all.len()));
    }
    count.put(all.len())
}

api! {
    /// Nodes of a graph.
    fn cuGraphGetNodes => (graph: Handle, nodes: Out<Handle>, count: Out<usize>) {
        let all: Vec<u64> = driver().graph(number(graph))?.nodes.keys().copied().collect();
        give(&all, nodes, count)
    }
}

api! {
    /// Nodes without dependencies.
    fn cuGraphGetRootNodes => (graph: Handle, nodes: Out<Handle>, count: Out<usize>) {
        let mut driver = driver();
        let graph = driver.graph(number(graph))?;
        let roots: Vec<u64> = graph.nodes.iter().filter(|(_, node)| node.after.is_empty()).map(|(n, _)| *n).collect();
        give(&roots, nodes, count)
    }
}

fn give_edges(graph: Handle, from: Out<Handle>, to: Out<Handle>, count: Out<usize>) -> Answer {
    let edges = driver().graph(number(graph))?.edges();
    let (a, b): (Vec<u64>, Vec<u64>) = edges.into_iter().unzip();
    if from.is_null() || to.is_null() {
        return count.put(a.len());
    }
    let room = count.read().get()?;
    give(&a, from, count)?;
    count.put(room)?;
    give(&b, to, count)
}

/// Writes the data of edges, if the program asks for it: all have default data.
fn give_data(data: Out<u64>, count: Out<usize>) -> Answer {
    for i in 0..count.read().get()? {
        data.at(i).offer(0);
    }
    Ok(())
}

api! {
    /// Edges of a graph.
    fn cuGraphGetEdges => (graph: Handle, from: Out<Handle>, to: Out<Handle>, count: Out<usize>) {
        give_edges(graph, from, to, count)
    }
}

api! {
    /// Edges of a graph, and their data.
    fn cuGraphGetEdges_v2 => (graph: Handle, from: Out<Handle>, to: Out<Handle>, data: Out<u64>, count: Out<usize>) {
        give_edges(graph, from, to, count)?;
        if from.is_null() || to.is_null() { Ok(()) } else { give_data(data, count) }
    }
}

fn dependencies(node: Handle) -> Answer<Vec<u64>> {
    Ok(driver().node(number(node))?.after.clone())
}

fn dependents(node: Handle) -> Answer<Vec<u64>> {
    let driver = driver();
    driver.ready()?;
    let wanted = number(node);
    let graph = driver.graphs.values().find(|graph| graph.nodes.contains_key(&wanted));
    let edges = graph.ok_or(Error::INVALID_VALUE)?.edges();
    Ok(edges.into_iter().filter(|(from, _)| *from == wanted).map(|(_, to)| to).collect())
}

api! {
    /// Nodes that a node depends on.
    fn cuGraphNodeGetDependencies => (node: Handle, nodes: Out<Handle>, count: Out<usize>) {
        give(&dependencies(node)?, nodes, count)
    }
}

api! {
    /// Nodes that a node depends on, and the data of the edges.
    fn cuGraphNodeGetDependencies_v2 => (node: Handle, nodes: Out<Handle>, data: Out<u64>, count: Out<usize>) {
        give(&dependencies(node)?, nodes, count)?;
        if nodes.is_null() { Ok(()) } else { give_data(data, count) }
    }
}

api! {
    /// Nodes that depend on a node.
    fn cuGraphNodeGetDependentNodes => (node: Handle, nodes: Out<Handle>, count: Out<usize>) {
        give(&dependents(node)?, nodes, count)
    }
}

api! {
    /// Nodes that depend on a node, and the data of the edges.
    fn cuGraphNodeGetDependentNodes_v2 => (node: Handle, nodes: Out<Handle>, data: Out<u64>, count: Out<usize>) {
        give(&dependents(node)?, nodes, count)?;
        if nodes.is_null() { Ok(()) } else { give_data(data, count) }
    }
}

api! {
    /// `CUgraphNodeType` of a node.
    fn cuGraphNodeGetType => (node: Handle, kind: Out<u32>) {
        let number = driver().node(number(node))?.work.number();
        kind.put(number)
    }
}

api! {
    /// Instantiates a graph.
    fn cuGraphInstantiateWithFlags | cuGraphInstantiateWithFlags_ptsz => (executable: Out<Handle>, graph: Handle, flags: u64) {
        let made = driver().instantiate(number(graph), flags)?;
        executable.put(handle(made))
    }
}

api! {
    /// Instantiates a graph; older form without flags.
    fn cuGraphInstantiate | cuGraphInstantiate_v2 => (executable: Out<Handle>, graph: Handle, error: Out<Handle>, log: Out<c_char>, room: usize) {
        let made = driver().instantiate(number(graph), 0)?;
        error.offer(handle(0));
        if room > 0 && !log.is_null() {
            log.put_text(room, "")?;
        }
        executable.put(handle(made))
    }
}

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Instantiation {
    /// `CUDA_GRAPH_INSTANTIATE_FLAG_…`.
    pub flags: u64,
    /// The stream of an upload.
    pub stream: Handle,
    /// A node that prevents instantiation, which is an output.
    pub error: Handle,
    /// `CUgraphInstantiateResult`, which is an output.
    pub result: u32,
}

api! {
    /// Instantiates a graph; the result is written into the parameters.
    fn cuGraphInstantiateWithParams | cuGraphInstantiateWithParams_ptsz => (executable: Out<Handle>, graph: Handle, parameters: Out<Instantiation>) {
        let asked = parameters.read().get()?;
        let made = driver().instantiate(number(graph), asked.flags);
        let result = u32::from(made.is_err());
        parameters.put(Instantiation { error: handle(0), result, ..asked })?;
        executable.put(handle(made?))
    }
}

api! {
    /// Flags of an executable graph.
    fn cuGraphExecGetFlags => (executable: Handle, flags: Out<u64>) {
        let driver = driver();
        let ready = driver.executables.get(&number(executable)).ok_or(Error::INVALID_VALUE)?;
        flags.put(ready.flags)
    }
}

api! {
    /// Destroys an executable graph.
    fn cuGraphExecDestroy => (executable: Handle) {
        let mut driver = driver();
        driver.ready()?;
        let gone = driver.executables.remove(&number(executable)).ok_or(Error::INVALID_VALUE)?;
        driver.release_all(&gone.objects);
        driver.release_reserved();
        settle(driver);
        Ok(())
    }
}

/// `CUgraphExecUpdateResultInfo`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UpdateResult {
    /// `CUgraphExecUpdateResult`.
    pub result: u32,
    /// A node that prevents the update.
    pub node: Handle,
    /// The node that it depends on, if an edge prevents the update.
    pub from: Handle,
}

fn update(executable: Handle, graph: Handle) -> Answer {
    let mut driver = driver();
    let updated = driver.update_executable(number(executable), number(graph));
    settle(driver);
    updated
}

api! {
    /// Updates an executable graph from a graph with the same nodes and other parameters.
    fn cuGraphExecUpdate_v2 => (executable: Handle, graph: Handle, info: Out<UpdateResult>) {
        let updated = update(executable, graph);
        let result = u32::from(updated.is_err()) * 2;
        info.offer(UpdateResult { result, node: handle(0), from: handle(0) });
        updated
    }
}

api! {
    /// Updates an executable graph; older form.
    fn cuGraphExecUpdate => (executable: Handle, graph: Handle, node: Out<Handle>, result: Out<u32>) {
        let updated = update(executable, graph);
        node.offer(handle(0));
        result.offer(u32::from(updated.is_err()) * 2);
        updated
    }
}

api! {
    /// Replaces the parameters of a kernel node in an executable graph.
    fn cuGraphExecKernelNodeSetParams => (executable: Handle, node: Handle, parameters: In<KernelNode>) {
        let work = launch_of(&parameters.get()?, handle(0))?;
        replace(executable, node, work)
    }
}

api! {
    /// Replaces the parameters of a kernel node in an executable graph (version 2).
    fn cuGraphExecKernelNodeSetParams_v2 => (executable: Handle, node: Handle, parameters: In<KernelNodeV2>) {
        let parameters = parameters.get()?;
        let work = launch_of(&parameters.node, parameters.kernel)?;
        replace(executable, node, work)
    }
}

api! {
    /// Replaces the parameters of a copy in an executable graph.
    fn cuGraphExecMemcpyNodeSetParams => (executable: Handle, node: Handle, parameters: In<Copy3d>, _context: Handle) {
        replace(executable, node, copy::slices(&parameters.get()?)?)
    }
}

api! {
    /// Replaces the parameters of a memset in an executable graph.
    fn cuGraphExecMemsetNodeSetParams => (executable: Handle, node: Handle, parameters: In<SetNode>, _context: Handle) {
        replace(executable, node, set_of(&parameters.get()?)?)
    }
}

api! {
    /// Replaces the parameters of a host function in an executable graph.
    fn cuGraphExecHostNodeSetParams => (executable: Handle, node: Handle, parameters: In<HostNode>) {
        replace(executable, node, host_of(&parameters.get()?)?)
    }
}
