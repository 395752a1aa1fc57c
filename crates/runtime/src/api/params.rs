//! Nodes of graphs through `cudaGraphNodeParams`, which has the parameters of any kind of node.

use warpproof_driver::abi::{AllocationNode, Answer, Error, Handle, HostNode, KernelNode, SetNode};
use warpproof_driver::api::{In, Out};
use warpproof_driver::driver::driver;
use warpproof_driver::work::Work;

use super::node::{Place, copy, copy_of, host, kernel, launch_of, record, set, wait};
use super::{context, handle, number, out};
use crate::abi::Copy3dParms;

/// `cudaGraphNodeParams`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NodeParams {
    /// `cudaGraphNodeType`.
    pub kind: u32,
    /// Reserved.
    pub reserved: [u32; 3],
    /// A union of the parameters of each kind.
    pub values: [u64; 29],
    /// Reserved.
    pub last: u64,
}

/// `cudaMemcpyNodeParams`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CopyNode {
    /// Must be 0.
    pub flags: i32,
    /// Reserved.
    pub reserved: i32,
    /// A context of CUDA 13; must be null.
    pub context: u64,
    /// The copy.
    pub copy: Copy3dParms,
}

/// `cudaKernelNodeParamsV2` of CUDA 13. That of CUDA 12 is a `KernelNode`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KernelNode13 {
    /// What CUDA 12 has.
    pub kernel: KernelNode,
    /// A context; must be null.
    pub context: u64,
    /// `cudaKernelFunctionType`.
    pub function: u32,
}

/// `cudaChildGraphNodeParams`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ChildNode {
    /// The child graph.
    pub graph: Handle,
    /// `cudaGraphChildGraphNodeOwnership`.
    pub ownership: i32,
}

/// `cudaConditionalNodeParams`. CUDA 12 has no context.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ConditionalNode {
    /// `cudaGraphConditionalHandle`.
    pub variable: u64,
    /// `cudaGraphConditionalNodeType`.
    pub kind: u32,
    /// Number of bodies.
    pub size: u32,
    /// The array of the bodies, which the node owns.
    pub bodies: *const u64,
}

const KERNEL: u32 = 0;
const COPY: u32 = 1;
const SET: u32 = 2;
const HOST: u32 = 3;
const CHILD: u32 = 4;
const EMPTY: u32 = 5;
const WAIT: u32 = 6;
const RECORD: u32 = 7;
const ALLOCATION: u32 = 10;
const FREE: u32 = 11;
const CONDITIONAL: u32 = 13;

/// Kind and union of the parameters.
fn union(parameters: Out<NodeParams>) -> Answer<(u32, Out<u64>)> {
    Ok((parameters.read().cast::<u32>().get()?, parameters.cast::<u64>().at(2)))
}

fn unsupported(kind: u32) -> Answer {
    driver().report.unsupported(&format!("a graph node of type {kind}"));
    Err(Error::NOT_SUPPORTED)
}

/// Work of the kinds that can be added and changed. `None` for other kinds.
fn apply(place: Place, kind: u32, values: In<u64>) -> Answer<Option<()>> {
    match kind {
        KERNEL => kernel(place, values.cast().get()?),
        COPY => copy(place, &values.cast::<CopyNode>().get()?.copy),
        SET => set(place, values.cast::<SetNode>()),
        HOST => host(place, values.cast::<HostNode>()),
        WAIT => wait(place, values.cast::<Handle>().get()?),
        RECORD => record(place, values.cast::<Handle>().get()?),
        _ => return Ok(None),
    }
    .map(Some)
}

/// Adds a conditional node, and shows the program its bodies.
fn add_conditional(
    node: Out<Handle>,
    graph: Handle,
    after: In<Handle>,
    count: usize,
    parameters: Out<ConditionalNode>,
) -> Answer {
    let wanted = parameters.read().get()?;
    let after: Vec<u64> = after.list(count)?.into_iter().map(number).collect();
    let mut driver = driver();
    let (made, bodies) =
        driver.add_conditional(number(graph), wanted.variable, (wanted.kind, wanted.size), &after)?;
    parameters.put(ConditionalNode { bodies: bodies.as_ptr(), ..wanted })?;
    node.put(handle(made))
}

fn add(
    node: Out<Handle>,
    graph: Handle,
    after: In<Handle>,
    data: In<u64>,
    count: usize,
    parameters: Out<NodeParams>,
) -> Answer {
    context()?;
    let (kind, values) = union(parameters)?;
    if !data.is_null() && data.list(count)?.into_iter().any(|edge| edge != 0) {
        driver().report.unsupported("edges of graphs with data");
        return Err(Error::NOT_SUPPORTED);
    }
    if apply(Place::New { node, graph, after, count }, kind, values.read())?.is_some() {
        return Ok(());
    }
    match kind {
        EMPTY => cu!(cuGraphAddEmptyNode(node, graph, after, count)),
        CHILD => {
            let child = values.read().cast::<ChildNode>().get()?;
            match child.ownership {
                0 => cu!(cuGraphAddChildGraphNode(node, graph, after, count, child.graph)),
                1 => {
                    let after: Vec<u64> = after.list(count)?.into_iter().map(number).collect();
                    let made = driver().move_child(number(graph), number(child.graph), &after)?;
                    node.put(handle(made))
                }
                _ => Err(Error::INVALID_VALUE),
            }
        }
        ALLOCATION => cu!(cuGraphAddMemAllocNode(node, graph, after, count, values.cast())),
        CONDITIONAL => add_conditional(node, graph, after, count, values.cast()),
        FREE => cu!(cuGraphAddMemFreeNode(node, graph, after, count, values.read().get()?)),
        _ => unsupported(kind),
    }
}

api! {
    /// Adds a node of any kind.
    fn cudaGraphAddNode_in12 => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parameters: Out<NodeParams>) {
        add(node, graph, after, In::none(), count, parameters)
    }
}

api! {
    /// Adds a node of any kind, with data of the edges.
    fn cudaGraphAddNode_v2 | cudaGraphAddNode_in13 => (node: Out<Handle>, graph: Handle, after: In<Handle>, data: In<u64>, count: usize, parameters: Out<NodeParams>) {
        add(node, graph, after, data, count, parameters)
    }
}

api! {
    /// Replaces the parameters of a node.
    fn cudaGraphNodeSetParams => (node: Handle, parameters: Out<NodeParams>) {
        context()?;
        let (kind, values) = union(parameters)?;
        match apply(Place::Node(node), kind, values.read())? {
            Some(()) => Ok(()),
            None => unsupported(kind),
        }
    }
}

api! {
    /// Replaces the parameters of a node in an executable graph.
    fn cudaGraphExecNodeSetParams => (executable: Handle, node: Handle, parameters: Out<NodeParams>) {
        context()?;
        let (kind, values) = union(parameters)?;
        match apply(Place::Executable(executable, node), kind, values.read())? {
            Some(()) => Ok(()),
            None if kind == CHILD => {
                let child = values.read().cast::<ChildNode>().get()?;
                cu!(cuGraphExecChildGraphNodeSetParams(executable, node, child.graph))
            }
            None => unsupported(kind),
        }
    }
}

api! {
    /// The parameters of a node.
    fn cudaGraphNodeGetParams => (node: Handle, parameters: Out<NodeParams>) {
        context()?;
        let mut kind = 0;
        cu!(cuGraphNodeGetType(node, out(&mut kind)))?;
        parameters.put(NodeParams { kind, reserved: [0; 3], values: [0; 29], last: 0 })?;
        let values = parameters.cast::<u64>().at(2);
        match kind {
            KERNEL => {
                let (kernel, of_program) = launch_of(node)?;
                // A host function, or a kernel of a library.
                let function = if of_program { 1 } else { 2 };
                values.cast().put(KernelNode13 { kernel, context: 0, function })
            }
            COPY => values.cast().put(CopyNode { flags: 0, reserved: 0, context: 0, copy: copy_of(node)? }),
            SET => cu!(cuGraphMemsetNodeGetParams(node, values.cast())),
            HOST => cu!(cuGraphHostNodeGetParams(node, values.cast())),
            CHILD => cu!(cuGraphChildGraphNodeGetGraph(node, values.cast())),
            EMPTY => Ok(()),
            WAIT => cu!(cuGraphEventWaitNodeGetEvent(node, values.cast())),
            RECORD => cu!(cuGraphEventRecordNodeGetEvent(node, values.cast())),
            ALLOCATION => cu!(cuGraphMemAllocNodeGetParams(node, values.cast::<AllocationNode>())),
            FREE => cu!(cuGraphMemFreeNodeGetParams(node, values)),
            CONDITIONAL => {
                let mut driver = driver();
                let found = driver.node(number(node))?;
                let Work::Conditional(work) = &found.work else { return Err(Error::INVALID_VALUE) };
                let size = u32::try_from(found.bodies.len()).unwrap_or(0);
                let (variable, kind, bodies) = (work.variable, work.kind.number(), found.bodies.as_ptr());
                values.cast().put(ConditionalNode { variable, kind, size, bodies })
            }
            _ => unsupported(kind),
        }
    }
}
