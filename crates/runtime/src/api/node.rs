//! Nodes of graphs: adding them, and their parameters in graphs and in executable graphs.

use std::ffi::c_void;

use warpproof_driver::abi::{AllocationNode, Answer, Copy3d, Error, Handle, HostNode, KernelNode, SetNode};
use warpproof_driver::api::{In, Out};

use super::array::element_of;
use super::copy::slices;
use super::launch::valid;
use super::register::function;
use super::symbol::{from, part, to};
use super::{context, handle, input, number, out};
use crate::abi::{Copy3dParms, Dim3, Extent, PitchedPointer, Position};
use crate::registry::registry;

/// Where work goes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// A new node of a graph.
    New { node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize },
    /// A node of a graph.
    Node(Handle),
    /// A node of an executable graph.
    Executable(Handle, Handle),
}

/// A launch. `function` is a host function, or a handle of a kernel.
pub(super) fn kernel(place: Place, kernel: KernelNode) -> Answer {
    let function = function(kernel.function)?;
    let dim3 = |[x, y, z]: [u32; 3]| Dim3 { x, y, z };
    valid(dim3(kernel.grid), dim3(kernel.block))?;
    let kernel = KernelNode { function, ..kernel };
    let kernel = input(&kernel);
    match place {
        Place::New { node, graph, after, count } => {
            cu!(cuGraphAddKernelNode(node, graph, after, count, kernel))
        }
        Place::Node(node) => cu!(cuGraphKernelNodeSetParams(node, kernel)),
        Place::Executable(executable, node) => cu!(cuGraphExecKernelNodeSetParams(executable, node, kernel)),
    }
}

/// A copy. A node without bytes is an error.
pub(super) fn copy(place: Place, parms: &Copy3dParms) -> Answer {
    let context = handle(context()?);
    let copy = slices(parms)?.ok_or(Error::INVALID_VALUE)?;
    let copy = input(&copy);
    match place {
        Place::New { node, graph, after, count } => {
            cu!(cuGraphAddMemcpyNode(node, graph, after, count, copy, context))
        }
        Place::Node(node) => cu!(cuGraphMemcpyNodeSetParams(node, copy)),
        Place::Executable(executable, node) => {
            cu!(cuGraphExecMemcpyNodeSetParams(executable, node, copy, context))
        }
    }
}

/// A copy of bytes.
fn line(place: Place, target: u64, source: u64, count: usize, kind: u32) -> Answer {
    let zero = Position { x: 0, y: 0, z: 0 };
    let pointer = |address: u64| PitchedPointer { address, pitch: count, width: count, height: 1 };
    let parms = Copy3dParms {
        source_array: 0,
        source_position: zero,
        source: pointer(source),
        target_array: 0,
        target_position: zero,
        target: pointer(target),
        extent: Extent { width: count, height: 1, depth: 1 },
        kind,
    };
    copy(place, &parms)
}

/// A memset.
pub(super) fn set(place: Place, set: In<SetNode>) -> Answer {
    let context = handle(context()?);
    match place {
        Place::New { node, graph, after, count } => {
            cu!(cuGraphAddMemsetNode(node, graph, after, count, set, context))
        }
        Place::Node(node) => cu!(cuGraphMemsetNodeSetParams(node, set)),
        Place::Executable(executable, node) => {
            cu!(cuGraphExecMemsetNodeSetParams(executable, node, set, context))
        }
    }
}

/// A call of a host function.
pub(super) fn host(place: Place, host: In<HostNode>) -> Answer {
    context()?;
    match place {
        Place::New { node, graph, after, count } => cu!(cuGraphAddHostNode(node, graph, after, count, host)),
        Place::Node(node) => cu!(cuGraphHostNodeSetParams(node, host)),
        Place::Executable(executable, node) => cu!(cuGraphExecHostNodeSetParams(executable, node, host)),
    }
}

/// Records an event.
pub(super) fn record(place: Place, event: Handle) -> Answer {
    context()?;
    match place {
        Place::New { node, graph, after, count } => {
            cu!(cuGraphAddEventRecordNode(node, graph, after, count, event))
        }
        Place::Node(node) => cu!(cuGraphEventRecordNodeSetEvent(node, event)),
        Place::Executable(executable, node) => {
            cu!(cuGraphExecEventRecordNodeSetEvent(executable, node, event))
        }
    }
}

/// Waits for an event.
pub(super) fn wait(place: Place, event: Handle) -> Answer {
    context()?;
    match place {
        Place::New { node, graph, after, count } => {
            cu!(cuGraphAddEventWaitNode(node, graph, after, count, event))
        }
        Place::Node(node) => cu!(cuGraphEventWaitNodeSetEvent(node, event)),
        Place::Executable(executable, node) => cu!(cuGraphExecEventWaitNodeSetEvent(executable, node, event)),
    }
}

api! {
    /// Adds a launch.
    fn cudaGraphAddKernelNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parameters: In<KernelNode>) {
        kernel(Place::New { node, graph, after, count }, parameters.get()?)
    }
}

api! {
    /// Replaces the parameters of a launch.
    fn cudaGraphKernelNodeSetParams => (node: Handle, parameters: In<KernelNode>) {
        kernel(Place::Node(node), parameters.get()?)
    }
}

api! {
    /// Replaces the parameters of a launch in an executable graph.
    fn cudaGraphExecKernelNodeSetParams => (executable: Handle, node: Handle, parameters: In<KernelNode>) {
        kernel(Place::Executable(executable, node), parameters.get()?)
    }
}

/// The parameters of a launch, and whether its function is a host function, which it is unless the kernel is one of a library.
pub(super) fn launch_of(node: Handle) -> Answer<(KernelNode, bool)> {
    context()?;
    let function = std::ptr::null_mut();
    let (grid, block, shared) = ([0; 3], [0; 3], 0);
    let mut found = KernelNode { function, grid, block, shared, arguments: In::none(), extra: In::none() };
    cu!(cuGraphKernelNodeGetParams(node, out(&mut found)))?;
    let host = registry().hosts.get(&number(found.function)).copied();
    let function = host.map_or(found.function, std::ptr::with_exposed_provenance_mut);
    Ok((KernelNode { function, ..found }, host.is_some()))
}

api! {
    /// The parameters of a launch.
    fn cudaGraphKernelNodeGetParams => (node: Handle, parameters: Out<KernelNode>) {
        parameters.put(launch_of(node)?.0)
    }
}

api! {
    /// Sets an attribute of a launch; the numbers are the driver's.
    fn cudaGraphKernelNodeSetAttribute => (node: Handle, attribute: u32, value: In<[u32; 16]>) {
        context()?;
        cu!(cuGraphKernelNodeSetAttribute(node, attribute, value))
    }
}

api! {
    /// An attribute of a launch.
    fn cudaGraphKernelNodeGetAttribute => (node: Handle, attribute: u32, value: Out<[u32; 16]>) {
        context()?;
        cu!(cuGraphKernelNodeGetAttribute(node, attribute, value))
    }
}

api! {
    /// Copies the attributes of a launch.
    fn cudaGraphKernelNodeCopyAttributes => (to: Handle, from: Handle) {
        context()?;
        cu!(cuGraphKernelNodeCopyAttributes(to, from))
    }
}

api! {
    /// Adds a copy.
    fn cudaGraphAddMemcpyNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parms: In<Copy3dParms>) {
        copy(Place::New { node, graph, after, count }, &parms.get()?)
    }
}

api! {
    /// Replaces the parameters of a copy.
    fn cudaGraphMemcpyNodeSetParams => (node: Handle, parms: In<Copy3dParms>) {
        copy(Place::Node(node), &parms.get()?)
    }
}

api! {
    /// Replaces the parameters of a copy in an executable graph.
    fn cudaGraphExecMemcpyNodeSetParams => (executable: Handle, node: Handle, parms: In<Copy3dParms>) {
        copy(Place::Executable(executable, node), &parms.get()?)
    }
}

/// The runtime's description of a copy of the driver.
fn described(copy: &Copy3d) -> Answer<Copy3dParms> {
    let (host, array) = (1, 3);
    let element = match (copy.source_type == array, copy.target_type == array) {
        (true, _) => element_of(copy.source_array)?,
        (_, true) => element_of(copy.target_array)?,
        _ => 1,
    };
    let pointer = |kind: u32, host_address: u64, device: u64, pitch: usize, height: usize| {
        let address = if kind == host { host_address } else { device };
        if kind == array {
            PitchedPointer { address: 0, pitch: 0, width: 0, height: 0 }
        } else {
            PitchedPointer { address, pitch, width: copy.width, height }
        }
    };
    // Positions in arrays count elements.
    let at = |kind: u32, x: usize| if kind == array { x / element.max(1) } else { x };
    let kind = match (copy.source_type, copy.target_type) {
        (4, _) | (_, 4) => 4,
        (1, 1) => 0,
        (1, _) => 1,
        (_, 1) => 2,
        _ => 3,
    };
    let source_x = at(copy.source_type, copy.source_x);
    let target_x = at(copy.target_type, copy.target_x);
    Ok(Copy3dParms {
        source_array: copy.source_array,
        source_position: Position { x: source_x, y: copy.source_y, z: copy.source_z },
        source: pointer(
            copy.source_type,
            copy.source_host,
            copy.source_device,
            copy.source_pitch,
            copy.source_height,
        ),
        target_array: copy.target_array,
        target_position: Position { x: target_x, y: copy.target_y, z: copy.target_z },
        target: pointer(
            copy.target_type,
            copy.target_host,
            copy.target_device,
            copy.target_pitch,
            copy.target_height,
        ),
        extent: Extent { width: copy.width / element.max(1), height: copy.height, depth: copy.depth },
        kind,
    })
}

/// The parameters of a copy.
pub(super) fn copy_of(node: Handle) -> Answer<Copy3dParms> {
    context()?;
    let mut found = Copy3d::default();
    cu!(cuGraphMemcpyNodeGetParams(node, out(&mut found)))?;
    described(&found)
}

api! {
    /// The parameters of a copy.
    fn cudaGraphMemcpyNodeGetParams => (node: Handle, parms: Out<Copy3dParms>) {
        parms.put(copy_of(node)?)
    }
}

api! {
    /// Adds a copy of bytes.
    fn cudaGraphAddMemcpyNode1D => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, target: u64, source: u64, size: usize, kind: u32) {
        line(Place::New { node, graph, after, count }, target, source, size, kind)
    }
}

api! {
    /// Replaces the parameters of a copy of bytes.
    fn cudaGraphMemcpyNodeSetParams1D => (node: Handle, target: u64, source: u64, size: usize, kind: u32) {
        line(Place::Node(node), target, source, size, kind)
    }
}

api! {
    /// Replaces the parameters of a copy of bytes in an executable graph.
    fn cudaGraphExecMemcpyNodeSetParams1D => (executable: Handle, node: Handle, target: u64, source: u64, size: usize, kind: u32) {
        line(Place::Executable(executable, node), target, source, size, kind)
    }
}

/// A copy to a variable.
fn to_symbol(
    place: Place,
    symbol: *const c_void,
    source: u64,
    size: usize,
    offset: usize,
    kind: u32,
) -> Answer {
    to(kind)?;
    line(place, part(symbol, offset, size)?, source, size, kind)
}

/// A copy from a variable.
fn from_symbol(
    place: Place,
    target: u64,
    symbol: *const c_void,
    size: usize,
    offset: usize,
    kind: u32,
) -> Answer {
    from(kind)?;
    line(place, target, part(symbol, offset, size)?, size, kind)
}

api! {
    /// Adds a copy to a variable.
    fn cudaGraphAddMemcpyNodeToSymbol => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, symbol: *const c_void, source: u64, size: usize, offset: usize, kind: u32) {
        to_symbol(Place::New { node, graph, after, count }, symbol, source, size, offset, kind)
    }
}

api! {
    /// Replaces the parameters of a copy to a variable.
    fn cudaGraphMemcpyNodeSetParamsToSymbol => (node: Handle, symbol: *const c_void, source: u64, size: usize, offset: usize, kind: u32) {
        to_symbol(Place::Node(node), symbol, source, size, offset, kind)
    }
}

api! {
    /// Replaces the parameters of a copy to a variable in an executable graph.
    fn cudaGraphExecMemcpyNodeSetParamsToSymbol => (executable: Handle, node: Handle, symbol: *const c_void, source: u64, size: usize, offset: usize, kind: u32) {
        to_symbol(Place::Executable(executable, node), symbol, source, size, offset, kind)
    }
}

api! {
    /// Adds a copy from a variable.
    fn cudaGraphAddMemcpyNodeFromSymbol => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, target: u64, symbol: *const c_void, size: usize, offset: usize, kind: u32) {
        from_symbol(Place::New { node, graph, after, count }, target, symbol, size, offset, kind)
    }
}

api! {
    /// Replaces the parameters of a copy from a variable.
    fn cudaGraphMemcpyNodeSetParamsFromSymbol => (node: Handle, target: u64, symbol: *const c_void, size: usize, offset: usize, kind: u32) {
        from_symbol(Place::Node(node), target, symbol, size, offset, kind)
    }
}

api! {
    /// Replaces the parameters of a copy from a variable in an executable graph.
    fn cudaGraphExecMemcpyNodeSetParamsFromSymbol => (executable: Handle, node: Handle, target: u64, symbol: *const c_void, size: usize, offset: usize, kind: u32) {
        from_symbol(Place::Executable(executable, node), target, symbol, size, offset, kind)
    }
}

api! {
    /// Adds a memset.
    fn cudaGraphAddMemsetNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parameters: In<SetNode>) {
        set(Place::New { node, graph, after, count }, parameters)
    }
}

api! {
    /// Replaces the parameters of a memset.
    fn cudaGraphMemsetNodeSetParams => (node: Handle, parameters: In<SetNode>) {
        set(Place::Node(node), parameters)
    }
}

api! {
    /// Replaces the parameters of a memset in an executable graph.
    fn cudaGraphExecMemsetNodeSetParams => (executable: Handle, node: Handle, parameters: In<SetNode>) {
        set(Place::Executable(executable, node), parameters)
    }
}

api! {
    /// The parameters of a memset.
    fn cudaGraphMemsetNodeGetParams => (node: Handle, parameters: Out<SetNode>) {
        context()?;
        cu!(cuGraphMemsetNodeGetParams(node, parameters))
    }
}

api! {
    /// Adds a call of a host function.
    fn cudaGraphAddHostNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parameters: In<HostNode>) {
        host(Place::New { node, graph, after, count }, parameters)
    }
}

api! {
    /// Replaces a host function.
    fn cudaGraphHostNodeSetParams => (node: Handle, parameters: In<HostNode>) {
        host(Place::Node(node), parameters)
    }
}

api! {
    /// Replaces a host function in an executable graph.
    fn cudaGraphExecHostNodeSetParams => (executable: Handle, node: Handle, parameters: In<HostNode>) {
        host(Place::Executable(executable, node), parameters)
    }
}

api! {
    /// The host function of a node.
    fn cudaGraphHostNodeGetParams => (node: Handle, parameters: Out<HostNode>) {
        context()?;
        cu!(cuGraphHostNodeGetParams(node, parameters))
    }
}

api! {
    /// Adds a node without work.
    fn cudaGraphAddEmptyNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize) {
        context()?;
        cu!(cuGraphAddEmptyNode(node, graph, after, count))
    }
}

api! {
    /// Adds an event record.
    fn cudaGraphAddEventRecordNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, event: Handle) {
        record(Place::New { node, graph, after, count }, event)
    }
}

api! {
    /// Replaces the event that a node records.
    fn cudaGraphEventRecordNodeSetEvent => (node: Handle, event: Handle) {
        record(Place::Node(node), event)
    }
}

api! {
    /// Replaces the event that a node of an executable graph records.
    fn cudaGraphExecEventRecordNodeSetEvent => (executable: Handle, node: Handle, event: Handle) {
        record(Place::Executable(executable, node), event)
    }
}

api! {
    /// The event that a node records.
    fn cudaGraphEventRecordNodeGetEvent => (node: Handle, event: Out<Handle>) {
        context()?;
        cu!(cuGraphEventRecordNodeGetEvent(node, event))
    }
}

api! {
    /// Adds an event wait.
    fn cudaGraphAddEventWaitNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, event: Handle) {
        wait(Place::New { node, graph, after, count }, event)
    }
}

api! {
    /// Replaces the event that a node waits for.
    fn cudaGraphEventWaitNodeSetEvent => (node: Handle, event: Handle) {
        wait(Place::Node(node), event)
    }
}

api! {
    /// Replaces the event that a node of an executable graph waits for.
    fn cudaGraphExecEventWaitNodeSetEvent => (executable: Handle, node: Handle, event: Handle) {
        wait(Place::Executable(executable, node), event)
    }
}

api! {
    /// The event that a node waits for.
    fn cudaGraphEventWaitNodeGetEvent => (node: Handle, event: Out<Handle>) {
        context()?;
        cu!(cuGraphEventWaitNodeGetEvent(node, event))
    }
}

api! {
    /// Adds a child graph.
    fn cudaGraphAddChildGraphNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, child: Handle) {
        context()?;
        cu!(cuGraphAddChildGraphNode(node, graph, after, count, child))
    }
}

api! {
    /// The graph of a child node.
    fn cudaGraphChildGraphNodeGetGraph => (node: Handle, graph: Out<Handle>) {
        context()?;
        cu!(cuGraphChildGraphNodeGetGraph(node, graph))
    }
}

api! {
    /// Replaces the parameters of the nodes of a child graph in an executable graph.
    fn cudaGraphExecChildGraphNodeSetParams => (executable: Handle, node: Handle, child: Handle) {
        context()?;
        cu!(cuGraphExecChildGraphNodeSetParams(executable, node, child))
    }
}

api! {
    /// Adds an allocation. Its address is written into the parameters.
    fn cudaGraphAddMemAllocNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parameters: Out<AllocationNode>) {
        context()?;
        cu!(cuGraphAddMemAllocNode(node, graph, after, count, parameters))
    }
}

api! {
    /// The parameters of an allocation.
    fn cudaGraphMemAllocNodeGetParams => (node: Handle, parameters: Out<AllocationNode>) {
        context()?;
        cu!(cuGraphMemAllocNodeGetParams(node, parameters))
    }
}

api! {
    /// Adds a node that frees memory of an allocation node.
    fn cudaGraphAddMemFreeNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, address: u64) {
        context()?;
        cu!(cuGraphAddMemFreeNode(node, graph, after, count, address))
    }
}

api! {
    /// The memory that a node frees.
    fn cudaGraphMemFreeNodeGetParams => (node: Handle, address: Out<u64>) {
        context()?;
        cu!(cuGraphMemFreeNodeGetParams(node, address))
    }
}
