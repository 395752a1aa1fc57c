//! Launches: plain, with attributes, cooperative.
#![expect(unsafe_code, reason = "most of the driver API is unsafe")]

use std::ffi::c_void;
use std::ptr::null_mut;

use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaSlice, DevicePtr, LaunchConfig, PushKernelArg, sys};

use crate::{Done, kernel, opened, refused};

pub fn plain() -> Done {
    let (context, module) = opened()?;
    let stream = context.default_stream();
    let add = module.load_function("add")?;
    for n in [1u16, 31, 32, 33, 1000, 5000] {
        let x: Vec<f32> = (0..n).map(|i| f32::from(i) * 0.25).collect();
        let y: Vec<f32> = (0..n).map(|i| f32::from(i % 13)).collect();
        let (dx, dy) = (stream.clone_htod(&x)?, stream.clone_htod(&y)?);
        let mut out: CudaSlice<f32> = stream.alloc_zeros(usize::from(n))?;
        let (length, config) = (i32::from(n), LaunchConfig::for_num_elems(u32::from(n)));
        // SAFETY: the arguments are those of the kernel.
        unsafe { stream.launch_builder(&add).arg(&dx).arg(&dy).arg(&mut out).arg(&length).launch(config) }?;
        assert_eq!(stream.clone_dtoh(&out)?, x.iter().zip(&y).map(|(x, y)| x + y).collect::<Vec<_>>());
    }
    let sum = module.load_function("sum")?;
    let numbers: Vec<i32> = (0..3000).map(|i| i % 97 - 40).collect();
    let x = stream.clone_htod(&numbers)?;
    let mut total: CudaSlice<i32> = stream.alloc_zeros(1)?;
    let config = LaunchConfig { grid_dim: (24, 1, 1), block_dim: (128, 1, 1), shared_mem_bytes: 512 };
    // SAFETY: likewise.
    unsafe { stream.launch_builder(&sum).arg(&x).arg(&mut total).arg(&3000).launch(config) }?;
    assert_eq!(stream.clone_dtoh(&total)?, [numbers.iter().sum::<i32>()]);
    // A launch that no device supports is rejected at once, without further effects.
    let empty = module.load_function("empty")?;
    let refuse = |grid_dim, block_dim| {
        let config = LaunchConfig { grid_dim, block_dim, shared_mem_bytes: 0 };
        // SAFETY: the kernel has no arguments.
        let answer = unsafe { stream.launch_builder(&empty).launch(config) };
        refused(answer, CUresult::CUDA_ERROR_INVALID_VALUE);
    };
    refuse((1, 1, 1), (2048, 1, 1));
    refuse((1, 1, 1), (1, 1, 65));
    refuse((0, 1, 1), (1, 1, 1));
    refuse((1, 65_536, 1), (1, 1, 1));
    let bounded = module.load_function("from_table")?;
    let mut out: CudaSlice<i32> = stream.alloc_zeros(256)?;
    let config = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
    // SAFETY: it is rejected, because the kernel was compiled for at most 128 threads.
    let answer = unsafe { stream.launch_builder(&bounded).arg(&mut out).launch(config) };
    refused(answer, CUresult::CUDA_ERROR_INVALID_VALUE);
    stream.synchronize()?;
    Ok(())
}

pub fn extended() -> Done {
    let (context, step) = kernel("step")?;
    let stream = context.new_stream()?;
    let x: CudaSlice<u32> = stream.alloc_zeros(200)?;
    let (mut place, mut by, mut length) = (x.device_ptr(&stream).0, 9u32, 200i32);
    // SAFETY: an attribute is plain numbers, of which zero is none.
    let mut priority: sys::CUlaunchAttribute = unsafe { std::mem::zeroed() };
    priority.id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PRIORITY;
    priority.value.priority = 0;
    let mut config = sys::CUlaunchConfig {
        gridDimX: 2,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 128,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: 0,
        hStream: stream.cu_stream(),
        attrs: &raw mut priority,
        numAttrs: 1,
    };
    let mut arguments: [*mut c_void; 3] =
        [(&raw mut place).cast(), (&raw mut by).cast(), (&raw mut length).cast()];
    let launch = |config: &sys::CUlaunchConfig, each: *mut *mut c_void, extra: *mut *mut c_void| {
        // SAFETY: the arguments are those of the kernel.
        unsafe { sys::cuLaunchKernelEx(config, step.cu_function(), each, extra) }.result()
    };
    launch(&config, arguments.as_mut_ptr(), null_mut())?;
    assert_eq!(stream.clone_dtoh(&x)?, [9; 200]);
    // The same arguments in one buffer.
    let mut packed = [0u8; 16];
    packed[..8].copy_from_slice(&place.to_le_bytes());
    packed[8..12].copy_from_slice(&1u32.to_le_bytes());
    packed[12..].copy_from_slice(&length.to_le_bytes());
    let mut size = packed.len();
    let word = std::ptr::without_provenance_mut;
    let mut extra: [*mut c_void; 5] =
        [word(1), packed.as_mut_ptr().cast(), word(2), (&raw mut size).cast(), null_mut()];
    config.numAttrs = 0;
    launch(&config, null_mut(), extra.as_mut_ptr())?;
    assert_eq!(stream.clone_dtoh(&x)?, [28; 200]);
    refused(launch(&config, null_mut(), null_mut()), CUresult::CUDA_ERROR_INVALID_VALUE);
    Ok(())
}

pub fn cooperative() -> Done {
    let (context, module) = opened()?;
    let stream = context.default_stream();
    let attribute = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH;
    assert_eq!(context.attribute(attribute)?, 1);
    let neighbors = module.load_function("neighbors")?;
    let blocks = 40;
    let mut numbers: CudaSlice<i32> = stream.alloc_zeros(40)?;
    let mut out: CudaSlice<i32> = stream.alloc_zeros(40)?;
    let mut arrived: CudaSlice<u32> = stream.alloc_zeros(1)?;
    let config = LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 };
    // SAFETY: the arguments are those of the kernel.
    unsafe {
        stream
            .launch_builder(&neighbors)
            .arg(&mut numbers)
            .arg(&mut out)
            .arg(&mut arrived)
            .launch_cooperative(config)
    }?;
    let want: Vec<i32> = (0..40).map(|i| ((i + 1) % 40) * ((i + 1) % 40)).collect();
    assert_eq!(stream.clone_dtoh(&out)?, want);
    // More blocks than can be resident at once would wait forever.
    let config = LaunchConfig { grid_dim: (1 << 20, 1, 1), ..config };
    // SAFETY: likewise; it is rejected.
    let answer = unsafe {
        stream
            .launch_builder(&neighbors)
            .arg(&mut numbers)
            .arg(&mut out)
            .arg(&mut arrived)
            .launch_cooperative(config)
    };
    refused(answer, CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    stream.synchronize()?;
    Ok(())
}
