//! Graphs: captured from streams, and built node by node.
#![expect(unsafe_code, reason = "most of the driver API is unsafe")]

use std::ffi::c_void;
use std::ptr::null_mut;

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUresult, CUstreamCaptureMode, CUstreamCaptureStatus};
use cudarc::driver::{CudaSlice, DevicePtr, LaunchConfig, PushKernelArg, result, sys};

use crate::{Done, kernel, refused};

pub fn captured() -> Done {
    let (context, step) = kernel("step")?;
    // cudarc's own events would become nodes.
    // SAFETY: one stream alone uses the memory.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream()?;
    let mut x: CudaSlice<u32> = stream.alloc_zeros(100)?;
    let config = LaunchConfig::for_num_elems(100);
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    assert_eq!(stream.capture_status()?, CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE);
    for by in 1..=3u32 {
        // SAFETY: the arguments are those of the kernel.
        unsafe { stream.launch_builder(&step).arg(&mut x).arg(&by).arg(&100).launch(config) }?;
    }
    let graph = stream.end_capture(CUgraphInstantiate_flags(0))?.ok_or("nothing was captured")?;
    assert_eq!(stream.capture_status()?, CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE);
    // A captured launch has not run yet.
    assert_eq!(stream.clone_dtoh(&x)?, [0; 100]);
    let mut nodes = 0;
    // SAFETY: the graph exists, and so does a place for the number of its nodes.
    unsafe { sys::cuGraphGetNodes(graph.cu_graph(), null_mut(), &raw mut nodes) }.result()?;
    assert_eq!(nodes, 3);
    graph.upload()?;
    let mut want = 0u32;
    for _ in 0..4 {
        graph.launch()?;
        want = (1..=3).fold(want, |x, by| x.wrapping_mul(3).wrapping_add(by));
    }
    assert_eq!(stream.clone_dtoh(&x)?, [want; 100]);
    // Synchronizing a stream that is being captured invalidates the capture.
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    refused(stream.synchronize(), CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_eq!(stream.capture_status()?, CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    refused(
        stream.end_capture(CUgraphInstantiate_flags(0)).map(drop),
        CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
    );
    stream.synchronize()?;
    Ok(())
}

pub fn by_hand() -> Done {
    let (context, step) = kernel("step")?;
    let stream = context.new_stream()?;
    let x: CudaSlice<u32> = stream.alloc_zeros(64)?;
    let (mut place, mut first, mut second, mut length) = (x.device_ptr(&stream).0, 5u32, 6u32, 64i32);
    let mut arguments: [*mut c_void; 3] =
        [(&raw mut place).cast(), (&raw mut first).cast(), (&raw mut length).cast()];
    // SAFETY: parameters are plain numbers and pointers, of which zero is none.
    let mut parameters: sys::CUDA_KERNEL_NODE_PARAMS = unsafe { std::mem::zeroed() };
    parameters.func = step.cu_function();
    (parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ) = (1, 1, 1);
    (parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ) = (64, 1, 1);
    parameters.kernelParams = arguments.as_mut_ptr();
    let (mut graph, mut one, mut other, mut executable) = (null_mut(), null_mut(), null_mut(), null_mut());
    // SAFETY: places for the answers; every object is used only while it exists.
    unsafe {
        sys::cuGraphCreate(&raw mut graph, 0).result()?;
        sys::cuGraphAddKernelNode_v2(&raw mut one, graph, null_mut(), 0, &raw const parameters).result()?;
        // The arguments were copied.
        *arguments.as_mut_ptr().add(1) = (&raw mut second).cast();
        sys::cuGraphAddKernelNode_v2(&raw mut other, graph, &raw const one, 1, &raw const parameters)
            .result()?;
        assert_ne!(one, other);
        sys::cuGraphInstantiateWithFlags(&raw mut executable, graph, 0).result()?;
        sys::cuGraphLaunch(executable, stream.cu_stream()).result()?;
        assert_eq!(stream.clone_dtoh(&x)?, [5 * 3 + 6; 64]);
        // A changed argument of the instantiated graph; the graph itself keeps its own.
        (&raw mut second).write(100);
        sys::cuGraphExecKernelNodeSetParams_v2(executable, other, &raw const parameters).result()?;
        sys::cuGraphLaunch(executable, stream.cu_stream()).result()?;
        assert_eq!(stream.clone_dtoh(&x)?, [(21 * 3 + 5) * 3 + 100; 64]);
        result::graph::destroy(graph)?;
        sys::cuGraphLaunch(executable, stream.cu_stream()).result()?;
        result::graph::exec_destroy(executable)?;
        // Destroyed handles are detected.
        refused(result::graph::launch(executable, stream.cu_stream()), CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    Ok(())
}
