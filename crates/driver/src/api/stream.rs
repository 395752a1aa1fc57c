//! Streams and stream capture.

use std::ffi::{c_int, c_void};

use super::graph::plain_edges;
use super::{In, Out, caught_up, driver, handle, number, perform, settle, stream_number, submit};
use crate::abi::{Answer, Error, Handle};
use crate::driver::after_earlier;
use crate::work::{HostCall, Work};

api! {
    /// Creates a stream.
    fn cuStreamCreate => (stream: Out<Handle>, flags: u32) {
        if stream.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let made = driver().create_stream(flags, 0)?;
        stream.put(handle(made))
    }
}

api! {
    /// Creates a stream with a priority, which is ignored.
    fn cuStreamCreateWithPriority => (stream: Out<Handle>, flags: u32, priority: c_int) {
        if stream.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let made = driver().create_stream(flags, priority)?;
        stream.put(handle(made))
    }
}

api! {
    /// Destroys a stream.
    fn cuStreamDestroy | cuStreamDestroy_v2 => (stream: Handle) {
        let mut driver = driver();
        driver.destroy_stream(number(stream))?;
        settle(driver);
        Ok(())
    }
}

api! {
    /// Waits for a stream: for kernels that other threads launched into it.
    fn cuStreamSynchronize | cuStreamSynchronize_ptsz => (stream: Handle) {
        let mut driver = driver();
        let target = driver.target(stream_number(stream))?;
        let driver = caught_up(driver, target)?;
        let mut driver = after_earlier(driver, target);
        driver.synchronize(stream_number(stream))?;
        driver.host_waited(target);
        Ok(())
    }
}

api! {
    /// Whether the work of a stream is complete.
    fn cuStreamQuery | cuStreamQuery_ptsz => (stream: Handle) {
        let mut driver = driver();
        let target = driver.target(stream_number(stream))?;
        driver = caught_up(driver, target)?;
        driver.synchronize(stream_number(stream))?;
        if driver.must_wait(target) {
            return Err(Error::NOT_READY);
        }
        driver.host_waited(target);
        Ok(())
    }
}

api! {
    /// Makes later work of a stream wait for an event.
    fn cuStreamWaitEvent | cuStreamWaitEvent_ptsz => (stream: Handle, event: Handle, flags: u32) {
        if external(stream, flags)? {
            return capture_node(stream, number(event), Work::Wait(number(event)));
        }
        let stream = stream_number(stream);
        let mut driver = driver();
        let target = driver.target(stream)?;
        driver.wait(target, number(event))
    }
}

/// Whether an event is external to a capture, so that it becomes a node of the graph. Outside of a capture the flag is an error.
pub(super) fn external(stream: Handle, flags: u32) -> Answer<bool> {
    match flags {
        0 => Ok(false),
        1 if property(stream, |stream| stream.capture)?.is_some() => Ok(true),
        _ => Err(Error::INVALID_VALUE),
    }
}

/// Adds an external event as a node to the stream's capture.
pub(super) fn capture_node(stream: Handle, event: u64, work: Work) -> Answer {
    let stream = stream_number(stream);
    let mut driver = driver();
    driver.event(event)?;
    let target = driver.target(stream)?;
    let capture = driver.streams.get(&target.stream).and_then(|stream| stream.capture);
    driver.capture_node(capture.ok_or(Error::INVALID_VALUE)?, target.stream, work)
}

/// Reads a property of a stream.
fn property<T>(stream: Handle, read: impl FnOnce(&crate::stream::Stream) -> T) -> Answer<T> {
    let stream = stream_number(stream);
    let mut driver = driver();
    let target = driver.target(stream)?;
    driver.streams.get(&target.stream).map(read).ok_or(Error::INVALID_HANDLE)
}

api! {
    /// Priority of a stream.
    fn cuStreamGetPriority | cuStreamGetPriority_ptsz => (stream: Handle, priority: Out<c_int>) {
        priority.put(property(stream, |stream| stream.priority)?)
    }
}

api! {
    /// Flags of a stream.
    fn cuStreamGetFlags | cuStreamGetFlags_ptsz => (stream: Handle, flags: Out<u32>) {
        flags.put(property(stream, |stream| stream.flags)?)
    }
}

api! {
    /// ID of a stream, unique in the process.
    fn cuStreamGetId | cuStreamGetId_ptsz => (stream: Handle, id: Out<u64>) {
        id.put(property(stream, |stream| stream.id)?)
    }
}

api! {
    /// Context of a stream.
    fn cuStreamGetCtx | cuStreamGetCtx_ptsz => (stream: Handle, context: Out<Handle>) {
        context.put(handle(property(stream, |stream| stream.context)?))
    }
}

api! {
    /// Context of a stream; its green context is always null.
    fn cuStreamGetCtx_v2 | cuStreamGetCtx_v2_ptsz => (stream: Handle, context: Out<Handle>, green: Out<Handle>) {
        context.put(handle(property(stream, |stream| stream.context)?))?;
        green.offer(handle(0));
        Ok(())
    }
}

api! {
    /// Device of a stream.
    fn cuStreamGetDevice | cuStreamGetDevice_ptsz => (stream: Handle, device: Out<c_int>) {
        let context = property(stream, |stream| stream.context)?;
        let index = driver().context(context)?.device;
        device.put(c_int::try_from(index).unwrap_or(0))
    }
}

/// Callback type of `cuStreamAddCallback`.
type Callback = unsafe extern "C" fn(Handle, u32, *mut c_void);

api! {
    /// Calls a host function with the stream and its status.
    fn cuStreamAddCallback | cuStreamAddCallback_ptsz => (stream: Handle, callback: Option<Callback>, data: *mut c_void, _flags: u32) {
        let callback = callback.ok_or(Error::INVALID_VALUE)?;
        if property(stream, |stream| stream.capture)?.is_some() {
            return Err(Error::STREAM_CAPTURE_UNSUPPORTED);
        }
        submit(stream, Work::Empty)?;
        {
            // The function can inform other threads that earlier work is complete.
            let mut driver = driver();
            let target = driver.target(stream_number(stream))?;
            driver.host_waited(target);
        }
        super::refresh();
        // SAFETY: the program passed the function for this call.
        unsafe { callback(stream, 0, data) };
        Ok(())
    }
}

api! {
    /// Calls a host function.
    fn cuLaunchHostFunc | cuLaunchHostFunc_ptsz => (stream: Handle, function: Option<unsafe extern "C" fn(*mut c_void)>, data: *mut c_void) {
        let function = function.ok_or(Error::INVALID_VALUE)?;
        submit(stream, Work::Host(HostCall { function, data: data.expose_provenance() }))
    }
}

api! {
    /// Calls a host function. How the stream waits for it makes no difference here.
    fn cuLaunchHostFunc_v2 | cuLaunchHostFunc_v2_ptsz => (stream: Handle, function: Option<unsafe extern "C" fn(*mut c_void)>, data: *mut c_void, _sync_mode: u32) {
        let function = function.ok_or(Error::INVALID_VALUE)?;
        submit(stream, Work::Host(HostCall { function, data: data.expose_provenance() }))
    }
}

api! {
    /// Ignored: managed memory is accessible from every stream.
    fn cuStreamAttachMemAsync | cuStreamAttachMemAsync_ptsz => (stream: Handle, _pointer: u64, _length: usize, flags: u32) {
        if !matches!(flags, 1 | 2 | 4) {
            return Err(Error::INVALID_VALUE);
        }
        submit(stream, Work::Empty)
    }
}

/// Attributes of streams in `CUlaunchAttributeID`: the window of the L2 cache, how the host waits, the priority, and the domains of memory
/// synchronization.
fn is_stream_attribute(attribute: u32) -> bool {
    matches!(attribute, 1 | SYNCHRONIZATION_POLICY | PRIORITY | 9 | 10)
}

const SYNCHRONIZATION_POLICY: u32 = 3;
const PRIORITY: u32 = 8;

/// A stream of a call.
fn with_stream<T>(stream: Handle, use_it: impl FnOnce(&mut crate::stream::Stream) -> T) -> Answer<T> {
    let mut driver = driver();
    let target = driver.target(stream_number(stream))?;
    driver.streams.get_mut(&target.stream).map(use_it).ok_or(Error::INVALID_HANDLE)
}

api! {
    /// Sets an attribute of a stream. It has no effect.
    fn cuStreamSetAttribute | cuStreamSetAttribute_ptsz => (stream: Handle, attribute: u32, value: In<[u32; 16]>) {
        let value = value.get()?;
        if !is_stream_attribute(attribute) {
            return Err(Error::INVALID_VALUE);
        }
        with_stream(stream, |stream| {
            if attribute == PRIORITY {
                stream.priority = value[0].cast_signed().clamp(-5, 0);
            } else {
                stream.attributes.insert(attribute, value);
            }
        })
    }
}

api! {
    /// An attribute of a stream.
    fn cuStreamGetAttribute | cuStreamGetAttribute_ptsz => (stream: Handle, attribute: u32, value: Out<[u32; 16]>) {
        if !is_stream_attribute(attribute) {
            return Err(Error::INVALID_VALUE);
        }
        let found = with_stream(stream, |stream| {
            let mut default = [0; 16];
            // The default policy is `CU_SYNC_POLICY_AUTO`.
            default[0] = match attribute {
                PRIORITY => stream.priority.cast_unsigned(),
                SYNCHRONIZATION_POLICY => 1,
                _ => 0,
            };
            stream.attributes.get(&attribute).copied().unwrap_or(default)
        })?;
        value.put(found)
    }
}

api! {
    /// Copies the attributes of a stream.
    fn cuStreamCopyAttributes | cuStreamCopyAttributes_ptsz => (to: Handle, from: Handle) {
        let (attributes, priority) = with_stream(from, |stream| (stream.attributes.clone(), stream.priority))?;
        with_stream(to, |stream| {
            stream.attributes = attributes;
            stream.priority = priority;
        })
    }
}

/// Writes a 32-bit value to memory.
fn write_value(stream: Handle, address: u64, value: u32) -> Answer {
    let set = crate::memory::Memset { target: address, pitch: 0, value, element: 4, width: 1, height: 1 };
    submit(stream, Work::Set(set))
}

api! {
    /// Writes a value in stream order.
    fn cuStreamWriteValue32 | cuStreamWriteValue32_ptsz | cuStreamWriteValue32_v2 | cuStreamWriteValue32_v2_ptsz => (stream: Handle, address: u64, value: u32, _flags: u32) {
        write_value(stream, address, value)
    }
}

api! {
    /// Starts a capture: later work of the stream becomes nodes of a graph.
    fn cuStreamBeginCapture_v2 | cuStreamBeginCapture_v2_ptsz => (stream: Handle, mode: u32) {
        let stream = stream_number(stream);
        let mut driver = driver();
        let target = driver.target(stream)?;
        driver.begin_capture(target, mode, None)
    }
}

api! {
    /// Starts a capture; older form without a mode.
    fn cuStreamBeginCapture | cuStreamBeginCapture_ptsz => (stream: Handle) {
        let stream = stream_number(stream);
        let mut driver = driver();
        let target = driver.target(stream)?;
        driver.begin_capture(target, 0, None)
    }
}

api! {
    /// Starts a capture into an existing graph.
    fn cuStreamBeginCaptureToGraph | cuStreamBeginCaptureToGraph_ptsz => (stream: Handle, graph: Handle, after: In<Handle>, edges: In<c_void>, count: usize, mode: u32) {
        plain_edges(edges.cast(), count)?;
        let after = after.list(count)?.into_iter().map(number).collect();
        let stream = stream_number(stream);
        let mut driver = driver();
        let target = driver.target(stream)?;
        driver.begin_capture(target, mode, Some((number(graph), after)))
    }
}

api! {
    /// Ends a capture and returns its graph.
    fn cuStreamEndCapture | cuStreamEndCapture_ptsz => (stream: Handle, graph: Out<Handle>) {
        let stream = stream_number(stream);
        let mut driver = driver();
        let target = driver.target(stream)?;
        let ended = driver.end_capture(target);
        settle(driver);
        match ended {
            // A program that captures into a graph of its own may pass null.
            Ok(made) => {
                graph.offer(handle(made));
                Ok(())
            }
            Err(error) => {
                graph.offer(handle(0));
                Err(error)
            }
        }
    }
}

/// Capture status of a stream (none, active or invalidated), and the capture.
fn state(stream: Handle) -> Answer<(u32, u64)> {
    let stream = stream_number(stream);
    let mut driver = driver();
    let target = driver.target(stream)?;
    let capture = driver.streams.get(&target.stream).and_then(|stream| stream.capture);
    Ok(match capture {
        None => (0, 0),
        Some(capture) => {
            let invalid = driver.captures.get(&capture).is_none_or(|capture| capture.invalid);
            (if invalid { 2 } else { 1 }, capture)
        }
    })
}

api! {
    /// Capture status of a stream.
    fn cuStreamIsCapturing | cuStreamIsCapturing_ptsz => (stream: Handle, status: Out<u32>) {
        let (word, _) = state(stream)?;
        status.put(word)
    }
}

api! {
    /// Capture status of a stream, and the ID of its capture.
    fn cuStreamGetCaptureInfo | cuStreamGetCaptureInfo_ptsz => (stream: Handle, status: Out<u32>, id: Out<u64>) {
        let (word, capture) = state(stream)?;
        status.put(word)?;
        id.offer(capture >> 4);
        Ok(())
    }
}

/// Where the program wants the graph of a capture, the nodes that later work depends on, the data of these edges, and their count.
struct Wanted {
    graph: Out<Handle>,
    nodes: Out<*const Handle>,
    data: Out<*const u64>,
    count: Out<usize>,
}

/// Writes the state of a stream's capture. The arrays stay valid until the program asks again or the capture ends.
fn capture_info(stream: Handle, status: Out<u32>, id: Out<u64>, wanted: &Wanted) -> Answer {
    let (word, capture) = state(stream)?;
    status.put(word)?;
    id.offer(capture >> 4);
    if word != 1 {
        wanted.count.offer(0);
        return Ok(());
    }
    let mut driver = driver();
    let target = driver.target(stream_number(stream))?;
    let capture = driver.captures.get_mut(&capture).ok_or(Error::STREAM_CAPTURE_INVALIDATED)?;
    wanted.graph.offer(handle(capture.graph));
    let tails = capture.tails.get(&target.stream).cloned().unwrap_or_default();
    capture.shown = tails.into_iter().map(|node| handle(node).addr()).collect();
    capture.edges = vec![0; capture.shown.len()];
    wanted.count.offer(capture.shown.len());
    // An address has the layout of a handle.
    wanted.nodes.offer(capture.shown.as_ptr().cast());
    wanted.data.offer(capture.edges.as_ptr());
    Ok(())
}

api! {
    /// Capture status of a stream, its graph, and the nodes that later work depends on.
    fn cuStreamGetCaptureInfo_v2 | cuStreamGetCaptureInfo_v2_ptsz => (stream: Handle, status: Out<u32>, id: Out<u64>, graph: Out<Handle>, nodes: Out<*const Handle>, count: Out<usize>) {
        capture_info(stream, status, id, &Wanted { graph, nodes, data: Out::none(), count })
    }
}

api! {
    /// Capture status of a stream, its graph, the nodes that later work depends on, and the data of these edges.
    fn cuStreamGetCaptureInfo_v3 | cuStreamGetCaptureInfo_v3_ptsz => (stream: Handle, status: Out<u32>, id: Out<u64>, graph: Out<Handle>, nodes: Out<*const Handle>, data: Out<*const u64>, count: Out<usize>) {
        capture_info(stream, status, id, &Wanted { graph, nodes, data, count })
    }
}

/// Adds nodes to those that later captured work depends on (0), or replaces these (1).
fn depend(stream: Handle, nodes: In<Handle>, count: usize, flags: u32) -> Answer {
    let nodes: Vec<u64> = nodes.list(count)?.into_iter().map(number).collect();
    let (word, capture) = state(stream)?;
    if word != 1 {
        return Err(Error::ILLEGAL_STATE);
    }
    let mut driver = driver();
    let target = driver.target(stream_number(stream))?;
    let graph = driver
        .captures
        .get(&capture)
        .map(|capture| capture.graph)
        .ok_or(Error::STREAM_CAPTURE_INVALIDATED)?;
    let mut nodes = driver.known_nodes(graph, &nodes)?;
    let capture = driver.captures.get_mut(&capture).ok_or(Error::STREAM_CAPTURE_INVALIDATED)?;
    let tail = capture.tails.entry(target.stream).or_default();
    match flags {
        0 => nodes.append(tail),
        1 => {}
        _ => return Err(Error::INVALID_VALUE),
    }
    nodes.sort_unstable();
    nodes.dedup();
    *tail = nodes;
    Ok(())
}

api! {
    /// Changes the nodes that later captured work depends on.
    fn cuStreamUpdateCaptureDependencies | cuStreamUpdateCaptureDependencies_ptsz => (stream: Handle, nodes: In<Handle>, count: usize, flags: u32) {
        depend(stream, nodes, count, flags)
    }
}

api! {
    /// Changes the nodes that later captured work depends on. Only edges with default data are supported.
    fn cuStreamUpdateCaptureDependencies_v2 | cuStreamUpdateCaptureDependencies_v2_ptsz => (stream: Handle, nodes: In<Handle>, data: In<u64>, count: usize, flags: u32) {
        plain_edges(data, count)?;
        depend(stream, nodes, count, flags)
    }
}

thread_local! {
    /// Capture mode of this thread. It is stored but has no effect.
    static MODE: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

api! {
    /// Exchanges the capture mode of this thread.
    fn cuThreadExchangeStreamCaptureMode => (mode: Out<u32>) {
        let wanted = mode.read().get()?;
        if wanted > 2 {
            return Err(Error::INVALID_VALUE);
        }
        mode.put(MODE.replace(wanted))
    }
}

api! {
    /// Launches an executable graph.
    fn cuGraphLaunch | cuGraphLaunch_ptsz => (executable: Handle, stream: Handle) {
        let stream = stream_number(stream);
        let (target, works) = {
            let mut driver = driver();
            let target = driver.target(stream)?;
            (target, driver.launch_graph(target, number(executable))?)
        };
        for work in works {
            let driver = driver();
            // After an error no more work runs; a later call returns the error.
            if driver.contexts.get(&target.context).is_none_or(|context| context.error.is_some()) {
                break;
            }
            // A host function must see the results of earlier nodes, and later nodes must see its results.
            perform(driver, target, work)?;
        }
        Ok(())
    }
}

api! {
    /// Does nothing: graphs need no upload.
    fn cuGraphUpload | cuGraphUpload_ptsz => (executable: Handle, stream: Handle) {
        property(stream, |_| ())?;
        driver().executables.get(&number(executable)).map(drop).ok_or(Error::INVALID_VALUE)
    }
}
