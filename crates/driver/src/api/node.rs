//! Parameters of graph nodes, nodes that allocate and free memory, and objects of the program that graphs keep.

use std::ffi::{c_char, c_int, c_void};

use super::graph::add;
use super::{In, Out, driver, handle, number, settle};
use crate::abi::{
    AllocationNode, Answer, Copy3d, Error, Handle, HostFunction, HostNode, KernelNode, KernelNodeV2, SetNode,
};
use crate::graph::Object;
use crate::memory::{End, Kind, Memcpy, Memset, Side};
use crate::work::{HostCall, LaunchCall, Work};

/// The work of a node.
fn work(node: Handle) -> Answer<Work> {
    Ok(driver().node(number(node))?.work.clone())
}

/// The launch of a kernel node. Its arguments stay valid until the node changes.
fn launch(node: Handle) -> Answer<(LaunchCall, In<In<u8>>)> {
    let mut driver = driver();
    let node = driver.node(number(node))?;
    let Work::Launch(call) = &node.work else { return Err(Error::INVALID_VALUE) };
    node.shown = call.arguments.iter().map(|argument| argument.as_ptr().expose_provenance()).collect();
    Ok((call.clone(), In::kept(&node.shown)))
}

fn kernel_node(function: Handle, call: &LaunchCall, arguments: In<In<u8>>) -> KernelNode {
    let LaunchCall { grid, block, shared, .. } = *call;
    KernelNode { function, grid, block, shared, arguments, extra: In::none() }
}

api! {
    /// Parameters of a kernel node.
    fn cuGraphKernelNodeGetParams => (node: Handle, parameters: Out<KernelNode>) {
        let (call, arguments) = launch(node)?;
        parameters.put(kernel_node(handle(call.function), &call, arguments))
    }
}

api! {
    /// Parameters of a kernel node: a function of a module, or a kernel of a library.
    fn cuGraphKernelNodeGetParams_v2 => (node: Handle, parameters: Out<KernelNodeV2>) {
        let (call, arguments) = launch(node)?;
        let of_library = {
            let driver = driver();
            let module = driver.function(call.function)?.module;
            driver.module(module)?.context.is_none()
        };
        let known = handle(call.function);
        let (function, kernel) = if of_library { (handle(0), known) } else { (known, handle(0)) };
        let node = kernel_node(function, &call, arguments);
        parameters.put(KernelNodeV2 { node, kernel, context: handle(0) })
    }
}

/// One side of a copy, as the program describes it.
struct Shown {
    /// `CUmemorytype`.
    kind: u32,
    host: u64,
    device: u64,
    array: u64,
    skip: [usize; 3],
    pitch: usize,
    rows: usize,
}

fn shown(end: End) -> Shown {
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let rows = size(end.slice.checked_div(end.pitch).unwrap_or(0));
    let none = Shown { kind: 0, host: 0, device: 0, array: 0, skip: [0; 3], pitch: size(end.pitch), rows };
    match end.side {
        Side::Host => Shown { kind: 1, host: end.address, ..none },
        Side::Device => match driver().array_at(end.address) {
            Some((array, skip)) => Shown { kind: 3, array, skip, ..none },
            None => Shown { kind: 2, device: end.address, ..none },
        },
        Side::Either => Shown { kind: 4, device: end.address, ..none },
    }
}

/// The description of a copy. Offsets in memory are part of the addresses.
fn described(copy: &Memcpy) -> Copy3d {
    let (source, target) = (shown(copy.from), shown(copy.to));
    Copy3d {
        source_x: source.skip[0],
        source_y: source.skip[1],
        source_z: source.skip[2],
        source_lod: 0,
        source_type: source.kind,
        source_host: source.host,
        source_device: source.device,
        source_array: source.array,
        source_context: 0,
        source_pitch: source.pitch,
        source_height: source.rows,
        target_x: target.skip[0],
        target_y: target.skip[1],
        target_z: target.skip[2],
        target_lod: 0,
        target_type: target.kind,
        target_host: target.host,
        target_device: target.device,
        target_array: target.array,
        target_context: 0,
        target_pitch: target.pitch,
        target_height: target.rows,
        width: copy.width,
        height: copy.height,
        depth: copy.depth,
    }
}

api! {
    /// Parameters of a copy.
    fn cuGraphMemcpyNodeGetParams => (node: Handle, parameters: Out<Copy3d>) {
        let Work::Copy(copy) = work(node)? else { return Err(Error::INVALID_VALUE) };
        parameters.put(described(&copy))
    }
}

api! {
    /// Parameters of a memset.
    fn cuGraphMemsetNodeGetParams => (node: Handle, parameters: Out<SetNode>) {
        let Work::Set(set) = work(node)? else { return Err(Error::INVALID_VALUE) };
        let Memset { target, pitch, value, element, width, height } = set;
        let pitch = usize::try_from(pitch).unwrap_or(usize::MAX);
        parameters.put(SetNode { target, pitch, value, element, width, height })
    }
}

api! {
    /// Parameters of a host function.
    fn cuGraphHostNodeGetParams => (node: Handle, parameters: Out<HostNode>) {
        let Work::Host(call) = work(node)? else { return Err(Error::INVALID_VALUE) };
        let data = std::ptr::with_exposed_provenance_mut(call.data);
        parameters.put(HostNode { function: Some(call.function), data })
    }
}

api! {
    /// The event that a node records.
    fn cuGraphEventRecordNodeGetEvent => (node: Handle, event: Out<Handle>) {
        let Work::Record(known) = work(node)? else { return Err(Error::INVALID_VALUE) };
        event.put(handle(known))
    }
}

api! {
    /// The event that a node waits for.
    fn cuGraphEventWaitNodeGetEvent => (node: Handle, event: Out<Handle>) {
        let Work::Wait(known) = work(node)? else { return Err(Error::INVALID_VALUE) };
        event.put(handle(known))
    }
}

api! {
    /// The graph of a child node. The node owns it: changes of the graph change the node.
    fn cuGraphChildGraphNodeGetGraph => (node: Handle, graph: Out<Handle>) {
        let child = driver().node(number(node))?.child.ok_or(Error::INVALID_VALUE)?;
        graph.put(handle(child))
    }
}

api! {
    /// The copy of a node in a copy of its graph.
    fn cuGraphNodeFindInClone => (found: Out<Handle>, node: Handle, clone: Handle) {
        let mut driver = driver();
        let graph = driver.graph(number(clone))?;
        let copy = graph.copies.get(&number(node)).filter(|copy| graph.nodes.contains_key(copy));
        found.put(handle(*copy.ok_or(Error::INVALID_VALUE)?))
    }
}

/// `CU_MEM_LOCATION_TYPE_DEVICE` and `CU_MEM_LOCATION_TYPE_HOST`.
const DEVICE: u32 = 1;
const HOST: u32 = 2;
/// `CU_MEM_ALLOCATION_TYPE_PINNED` and `CU_MEM_ALLOCATION_TYPE_MANAGED`.
const PINNED: u32 = 1;
const MANAGED: u32 = 2;

api! {
    /// Adds an allocation. Its address is known now; the memory is allocated when the graph runs.
    fn cuGraphAddMemAllocNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, parameters: Out<AllocationNode>) {
        let asked = parameters.read().get()?;
        let kind = match (asked.kind, asked.location) {
            (PINNED, DEVICE) => Kind::Device,
            (PINNED, HOST) => Kind::Host,
            (MANAGED, DEVICE | HOST) => Kind::Managed,
            _ => return Err(Error::INVALID_VALUE),
        };
        if asked.handles != 0 {
            return Err(Error::INVALID_VALUE);
        }
        let base = {
            let mut driver = driver();
            if asked.location == DEVICE {
                driver.device(asked.device)?;
            }
            driver.graph(number(graph))?;
            driver.reserve(asked.size, kind)?
        };
        let added = add(node, graph, after, count, Work::Allocate(base));
        driver().release_reserved();
        added?;
        parameters.put(AllocationNode { address: base, ..asked })
    }
}

api! {
    /// Parameters of an allocation.
    fn cuGraphMemAllocNodeGetParams => (node: Handle, parameters: Out<AllocationNode>) {
        let Work::Allocate(base) = work(node)? else { return Err(Error::INVALID_VALUE) };
        let driver = driver();
        let allocation = driver.memory.get(&base).ok_or(Error::INVALID_VALUE)?;
        let (kind, location) = match allocation.kind {
            Kind::Device => (PINNED, DEVICE),
            Kind::Managed => (MANAGED, DEVICE),
            Kind::Host | Kind::Registered => (PINNED, HOST),
        };
        let device = if location == DEVICE { c_int::try_from(allocation.device).unwrap_or(0) } else { 0 };
        let size = usize::try_from(allocation.size).unwrap_or(usize::MAX);
        parameters.put(AllocationNode { kind, location, device, size, address: base, ..AllocationNode::default() })
    }
}

api! {
    /// Adds a node that frees the memory of an allocation node.
    fn cuGraphAddMemFreeNode => (node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, base: u64) {
        if driver().memory.get(&base).is_none_or(|allocation| allocation.live.is_none()) {
            return Err(Error::INVALID_VALUE);
        }
        add(node, graph, after, count, Work::Free(base))
    }
}

api! {
    /// The memory that a node frees.
    fn cuGraphMemFreeNodeGetParams => (node: Handle, base: Out<u64>) {
        let Work::Free(known) = work(node)? else { return Err(Error::INVALID_VALUE) };
        base.put(known)
    }
}

api! {
    /// Memory of graphs: bytes in use, now and at most, then reserved bytes, now and at most.
    fn cuDeviceGetGraphMemAttribute => (device: c_int, attribute: u32, value: Out<u64>) {
        let driver = driver();
        let (index, visible) = driver.device(device)?;
        let [used, reserved] = driver.graph_memory(index);
        let [most_used, most_reserved] = visible.graph_most;
        value.put(match attribute {
            0 => used,
            1 => most_used,
            2 => reserved,
            3 => most_reserved,
            _ => return Err(Error::INVALID_VALUE),
        })
    }
}

api! {
    /// Resets a high-water mark; no other value can be set.
    fn cuDeviceSetGraphMemAttribute => (device: c_int, attribute: u32, value: In<u64>) {
        let mut driver = driver();
        let (index, _) = driver.device(device)?;
        if value.get()? != 0 || !matches!(attribute, 1 | 3) {
            return Err(Error::INVALID_VALUE);
        }
        let now = driver.graph_memory(index);
        let at = usize::from(attribute == 3);
        driver.devices[index].graph_most[at] = now[at];
        Ok(())
    }
}

api! {
    /// Does nothing: memory is reserved only for nodes that exist.
    fn cuDeviceGraphMemTrim => (device: c_int) {
        driver().device(device).map(drop)
    }
}

api! {
    /// Creates an object with a destructor and a reference count.
    fn cuUserObjectCreate => (object: Out<Handle>, data: *mut c_void, destructor: Option<HostFunction>, references: u32, flags: u32) {
        let function = destructor.ok_or(Error::INVALID_VALUE)?;
        // The one flag is required: the destructor is not synchronized with the program.
        if object.is_null() || references == 0 || flags != 1 {
            return Err(Error::INVALID_VALUE);
        }
        let mut driver = driver();
        driver.ready()?;
        let made = driver.handle();
        let destructor = HostCall { function, data: data.expose_provenance() };
        driver.objects.insert(made, Object { destructor, references });
        object.put(handle(made))
    }
}

api! {
    /// Adds references to an object.
    fn cuUserObjectRetain => (object: Handle, count: u32) {
        let mut driver = driver();
        let object = driver.objects.get_mut(&number(object)).filter(|_| count > 0).ok_or(Error::INVALID_VALUE)?;
        object.references = object.references.checked_add(count).ok_or(Error::INVALID_VALUE)?;
        Ok(())
    }
}

api! {
    /// Removes references to an object. The destructor runs when no reference is left.
    fn cuUserObjectRelease => (object: Handle, count: u32) {
        let mut driver = driver();
        if count == 0 {
            return Err(Error::INVALID_VALUE);
        }
        driver.release_object(number(object), count)?;
        settle(driver);
        Ok(())
    }
}

api! {
    /// Gives a graph references to an object: new ones, or (flag 1) those of the caller.
    fn cuGraphRetainUserObject => (graph: Handle, object: Handle, count: u32, flags: u32) {
        let (object, mut driver) = (number(object), driver());
        driver.graph(number(graph))?;
        let known = driver.objects.get_mut(&object).filter(|_| count > 0 && flags <= 1).ok_or(Error::INVALID_VALUE)?;
        if flags == 0 {
            known.references = known.references.checked_add(count).ok_or(Error::INVALID_VALUE)?;
        }
        *driver.graph(number(graph))?.objects.entry(object).or_default() += count;
        Ok(())
    }
}

api! {
    /// Removes references of a graph to an object.
    fn cuGraphReleaseUserObject => (graph: Handle, object: Handle, count: u32) {
        let (object, mut driver) = (number(object), driver());
        let graph = driver.graph(number(graph))?;
        let held = graph.objects.get_mut(&object).filter(|_| count > 0).ok_or(Error::INVALID_VALUE)?;
        *held = held.checked_sub(count).ok_or(Error::INVALID_VALUE)?;
        if *held == 0 {
            graph.objects.remove(&object);
        }
        driver.release_object(object, count)?;
        settle(driver);
        Ok(())
    }
}

api! {
    /// Writes a graph to a file, in the language of Graphviz.
    fn cuGraphDebugDotPrint => (graph: Handle, path: In<c_char>, _flags: u32) {
        let path = path.text()?;
        let text = driver().graph(number(graph))?.dot(number(graph));
        std::fs::write(path, text).map_err(|_| Error::OPERATING_SYSTEM)
    }
}
