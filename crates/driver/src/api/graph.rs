//! Graphs made by hand, and graphs made ready.

use std::ffi::c_char;

use super::launch::arguments;
use super::{In, Out, copy, driver, handle, number};
use crate::abi::{Answer, Copy3d, Error, Handle, HostNode, KernelNode, KernelNodeV2, SetNode};
use crate::memory::Set;
use crate::work::{HostCall, LaunchCall, Work};

/// A launch as a node names it.
fn launch_of(node: &KernelNode, kernel: Handle) -> Answer<Work> {
    let function = number(if node.function.is_null() { kernel } else { node.function });
    let arguments = arguments(function, node.arguments, node.extra)?;
    let KernelNode { grid, block, shared, .. } = *node;
    let call = LaunchCall { function, grid, block, shared, arguments, cooperative: false };
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
    Ok(Work::Set(Set { target, pitch, value, element, width, height }))
}

fn host_of(node: &HostNode) -> Answer<Work> {
    let function = node.function.ok_or(Error::INVALID_VALUE)?;
    Ok(Work::Host(HostCall { function, data: node.data.expose_provenance() }))
}

/// Adds a node and gives its handle.
fn add(node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, work: Work) -> Answer {
    let after: Vec<u64> = after.list(count)?.into_iter().map(number).collect();
    let made = driver().add_node(number(graph), work, &after, None)?;
    node.put(handle(made))
}

/// Replaces what a node of a graph made ready does.
fn replace(executable: Handle, node: Handle, work: Work) -> Answer {
    let mut driver = driver();
    let ready = driver.executables.get_mut(&number(executable)).ok_or(Error::INVALID_VALUE)?;
    let step =
        ready.steps.iter_mut().find(|(known, _)| *known == number(node)).ok_or(Error::INVALID_VALUE)?;
    if std::mem::discriminant(&step.1) != std::mem::discriminant(&work) {
        return Err(Error::INVALID_VALUE);
    }
    step.1 = work;
    Ok(())
}

/// Replaces what a node does.
fn reset(node: Handle, work: Work) -> Answer {
    let mut driver = driver();
    let node = driver.node(number(node))?;
    if std::mem::discriminant(&node.work) != std::mem::discriminant(&work) {
        return Err(Error::INVALID_VALUE);
    }
    node.work = work;
    Ok(())
}

api! {
    /// A graph of nothing.
    fn cuGraphCreate => (graph: Out<Handle>, _flags: u32) {
        let made = driver().create_graph()?;
        graph.put(handle(made))
    }
}

api! {
    /// A graph goes.
    fn cuGraphDestroy => (graph: Handle) {
        let mut driver = driver();
        driver.ready()?;
        driver.graphs.remove(&number(graph)).map(drop).ok_or(Error::INVALID_VALUE)
    }
}

api! {
    /// A graph like another.
    fn cuGraphClone => (clone: Out<Handle>, graph: Handle) {
        let mut driver = driver();
        let copy = driver.graph(number(graph))?.clone();
        let made = driver.create_graph()?;
        *driver.graph(made)? = copy;
        clone.put(handle(made))
    }
}

api! {
    /// A launch.
    fn cuGraphAddKernelNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parameters: In<KernelNode>) {
        let work = launch_of(&parameters.get()?, handle(0))?;
        add(node, graph, after, count, work)
    }
}

api! {
    /// A launch, perhaps of a kernel of a library.
    fn cuGraphAddKernelNode_v2 => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parameters: In<KernelNodeV2>) {
        let parameters = parameters.get()?;
        let work = launch_of(&parameters.node, parameters.kernel)?;
        add(node, graph, after, count, work)
    }
}

api! {
    /// A copy.
    fn cuGraphAddMemcpyNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parameters: In<Copy3d>, _context: Handle) {
        let work = copy::slices(&parameters.get()?)?;
        add(node, graph, after, count, work)
    }
}

api! {
    /// A fill.
    fn cuGraphAddMemsetNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parameters: In<SetNode>, _context: Handle) {
        let work = set_of(&parameters.get()?)?;
        add(node, graph, after, count, work)
    }
}

api! {
    /// A call of the program.
    fn cuGraphAddHostNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parameters: In<HostNode>) {
        let work = host_of(&parameters.get()?)?;
        add(node, graph, after, count, work)
    }
}

api! {
    /// Nothing, in its place.
    fn cuGraphAddEmptyNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize) {
        add(node, graph, after, count, Work::Empty)
    }
}

api! {
    /// A graph within a graph, as it is now.
    fn cuGraphAddChildGraphNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, child: Handle) {
        let after: Vec<u64> = after.list(count)?.into_iter().map(number).collect();
        let mut driver = driver();
        let works = driver.graph(number(child))?.works()?;
        let made = driver.add_node(number(graph), Work::Child(works), &after, Some(number(child)))?;
        node.put(handle(made))
    }
}

api! {
    /// An event is recorded.
    fn cuGraphAddEventRecordNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, event: Handle) {
        driver().event(number(event))?;
        add(node, graph, after, count, Work::Record(number(event)))
    }
}

api! {
    /// An event is waited for.
    fn cuGraphAddEventWaitNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, event: Handle) {
        driver().event(number(event))?;
        add(node, graph, after, count, Work::Wait(number(event)))
    }
}

api! {
    /// Other arguments for a launch.
    fn cuGraphKernelNodeSetParams => (node: Handle, parameters: In<KernelNode>) {
        let work = launch_of(&parameters.get()?, handle(0))?;
        reset(node, work)
    }
}

api! {
    /// Likewise.
    fn cuGraphKernelNodeSetParams_v2 => (node: Handle, parameters: In<KernelNodeV2>) {
        let parameters = parameters.get()?;
        let work = launch_of(&parameters.node, parameters.kernel)?;
        reset(node, work)
    }
}

api! {
    /// Another copy.
    fn cuGraphMemcpyNodeSetParams => (node: Handle, parameters: In<Copy3d>) {
        reset(node, copy::slices(&parameters.get()?)?)
    }
}

api! {
    /// Another fill.
    fn cuGraphMemsetNodeSetParams => (node: Handle, parameters: In<SetNode>) {
        reset(node, set_of(&parameters.get()?)?)
    }
}

api! {
    /// Another call.
    fn cuGraphHostNodeSetParams => (node: Handle, parameters: In<HostNode>) {
        reset(node, host_of(&parameters.get()?)?)
    }
}

api! {
    /// Edges from nodes to nodes.
    fn cuGraphAddDependencies => (graph: Handle, from: In<Handle>, to: In<Handle>, count: usize) {
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
}

api! {
    /// Edges go.
    fn cuGraphRemoveDependencies => (graph: Handle, from: In<Handle>, to: In<Handle>, count: usize) {
        let (from, to) = (from.list(count)?, to.list(count)?);
        let mut driver = driver();
        let graph = driver.graph(number(graph))?;
        for (from, to) in from.into_iter().map(number).zip(to.into_iter().map(number)) {
            let node = graph.nodes.get_mut(&to).ok_or(Error::INVALID_VALUE)?;
            let at = node.after.iter().position(|known| *known == from).ok_or(Error::INVALID_VALUE)?;
            node.after.remove(at);
        }
        Ok(())
    }
}

api! {
    /// A node goes, with its edges.
    fn cuGraphDestroyNode => (node: Handle) {
        let mut driver = driver();
        driver.ready()?;
        let gone = number(node);
        let graph = driver.graphs.values_mut().find(|graph| graph.nodes.contains_key(&gone)).ok_or(Error::INVALID_VALUE)?;
        graph.nodes.remove(&gone);
        for node in graph.nodes.values_mut() {
            node.after.retain(|before| *before != gone);
        }
        Ok(())
    }
}

/// Writes as many handles as there is room for, and says how many there are.
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
    /// Its nodes.
    fn cuGraphGetNodes => (graph: Handle, nodes: Out<Handle>, count: Out<usize>) {
        let all: Vec<u64> = driver().graph(number(graph))?.nodes.keys().copied().collect();
        give(&all, nodes, count)
    }
}

api! {
    /// Nodes that wait for nothing.
    fn cuGraphGetRootNodes => (graph: Handle, nodes: Out<Handle>, count: Out<usize>) {
        let mut driver = driver();
        let graph = driver.graph(number(graph))?;
        let roots: Vec<u64> = graph.nodes.iter().filter(|(_, node)| node.after.is_empty()).map(|(n, _)| *n).collect();
        give(&roots, nodes, count)
    }
}

api! {
    /// Its edges.
    fn cuGraphGetEdges => (graph: Handle, from: Out<Handle>, to: Out<Handle>, count: Out<usize>) {
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
}

api! {
    /// Nodes before a node.
    fn cuGraphNodeGetDependencies => (node: Handle, nodes: Out<Handle>, count: Out<usize>) {
        let after = driver().node(number(node))?.after.clone();
        give(&after, nodes, count)
    }
}

api! {
    /// Nodes after a node.
    fn cuGraphNodeGetDependentNodes => (node: Handle, nodes: Out<Handle>, count: Out<usize>) {
        let driver = driver();
        driver.ready()?;
        let wanted = number(node);
        let graph = driver.graphs.values().find(|graph| graph.nodes.contains_key(&wanted)).ok_or(Error::INVALID_VALUE)?;
        let next: Vec<u64> = graph.edges().into_iter().filter(|(from, _)| *from == wanted).map(|(_, to)| to).collect();
        give(&next, nodes, count)
    }
}

api! {
    /// What kind a node is.
    fn cuGraphNodeGetType => (node: Handle, kind: Out<u32>) {
        let number = match driver().node(number(node))?.work {
            Work::Launch(_) => 0,
            Work::Copy(_) => 1,
            Work::Set(_) => 2,
            Work::Host(_) => 3,
            Work::Child(_) => 4,
            Work::Empty => 5,
            Work::Wait(_) => 6,
            Work::Record(_) => 7,
            Work::Free(_) => 11,
        };
        kind.put(number)
    }
}

api! {
    /// Made ready.
    fn cuGraphInstantiateWithFlags | cuGraphInstantiateWithFlags_ptsz => (executable: Out<Handle>, graph: Handle, flags: u64) {
        let made = driver().instantiate(number(graph), flags)?;
        executable.put(handle(made))
    }
}

api! {
    /// Made ready, as it was before there were flags.
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
#[derive(Clone, Copy)]
pub struct Instantiation {
    flags: u64,
    stream: Handle,
    error: Handle,
    result: u32,
}

api! {
    /// Made ready, with parameters that are answered in place.
    fn cuGraphInstantiateWithParams | cuGraphInstantiateWithParams_ptsz => (executable: Out<Handle>, graph: Handle, parameters: Out<Instantiation>) {
        let asked = parameters.read().get()?;
        let made = driver().instantiate(number(graph), asked.flags);
        let result = u32::from(made.is_err());
        parameters.put(Instantiation { error: handle(0), result, ..asked })?;
        executable.put(handle(made?))
    }
}

api! {
    /// What it was made with.
    fn cuGraphExecGetFlags => (executable: Handle, flags: Out<u64>) {
        let driver = driver();
        let ready = driver.executables.get(&number(executable)).ok_or(Error::INVALID_VALUE)?;
        flags.put(ready.flags)
    }
}

api! {
    /// It goes.
    fn cuGraphExecDestroy => (executable: Handle) {
        let mut driver = driver();
        driver.ready()?;
        driver.executables.remove(&number(executable)).map(drop).ok_or(Error::INVALID_VALUE)
    }
}

/// `CUgraphExecUpdateResultInfo`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct UpdateResult {
    result: u32,
    node: Handle,
    from: Handle,
}

api! {
    /// The same nodes with other arguments.
    fn cuGraphExecUpdate_v2 => (executable: Handle, graph: Handle, info: Out<UpdateResult>) {
        let updated = driver().update_executable(number(executable), number(graph));
        let result = u32::from(updated.is_err()) * 2;
        info.offer(UpdateResult { result, node: handle(0), from: handle(0) });
        updated
    }
}

api! {
    /// Likewise, as it was before.
    fn cuGraphExecUpdate => (executable: Handle, graph: Handle, node: Out<Handle>, result: Out<u32>) {
        let updated = driver().update_executable(number(executable), number(graph));
        node.offer(handle(0));
        result.offer(u32::from(updated.is_err()) * 2);
        updated
    }
}

api! {
    /// Other arguments for a launch of a graph made ready.
    fn cuGraphExecKernelNodeSetParams => (executable: Handle, node: Handle, parameters: In<KernelNode>) {
        let work = launch_of(&parameters.get()?, handle(0))?;
        replace(executable, node, work)
    }
}

api! {
    /// Likewise.
    fn cuGraphExecKernelNodeSetParams_v2 => (executable: Handle, node: Handle, parameters: In<KernelNodeV2>) {
        let parameters = parameters.get()?;
        let work = launch_of(&parameters.node, parameters.kernel)?;
        replace(executable, node, work)
    }
}

api! {
    /// Another copy.
    fn cuGraphExecMemcpyNodeSetParams => (executable: Handle, node: Handle, parameters: In<Copy3d>, _context: Handle) {
        replace(executable, node, copy::slices(&parameters.get()?)?)
    }
}

api! {
    /// Another fill.
    fn cuGraphExecMemsetNodeSetParams => (executable: Handle, node: Handle, parameters: In<SetNode>, _context: Handle) {
        replace(executable, node, set_of(&parameters.get()?)?)
    }
}

api! {
    /// Another call.
    fn cuGraphExecHostNodeSetParams => (executable: Handle, node: Handle, parameters: In<HostNode>) {
        replace(executable, node, host_of(&parameters.get()?)?)
    }
}
