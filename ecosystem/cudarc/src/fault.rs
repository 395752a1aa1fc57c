//! Faults, and the errors that CUDA documents for them.
#![expect(unsafe_code, reason = "most of the driver API is unsafe")]

use std::sync::Arc;

use cudarc::driver::sys::CUresult;
use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, DriverError, LaunchConfig, PushKernelArg, result, sys,
};

use crate::{Done, kernel, opened, refused};

const ONE: LaunchConfig = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 };

pub fn out_of_memory() -> Done {
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let (free, total) = context.mem_get_info()?;
    // SAFETY: only initialized memory is read.
    refused(unsafe { stream.alloc::<u8>(total + 1) }, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    // SAFETY: likewise.
    refused(unsafe { stream.alloc::<u8>(1 << 50) }, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    // The device continues: the error is not sticky.
    let most = free / 2 + 1;
    // SAFETY: likewise.
    let half = unsafe { stream.alloc::<u8>(most) }?;
    // SAFETY: likewise.
    refused(unsafe { stream.alloc::<u8>(most) }, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    drop(half);
    // SAFETY: likewise.
    drop(unsafe { stream.alloc::<u8>(most) }?);
    assert_eq!(stream.clone_dtoh(&stream.clone_htod(&[1, 2, 3])?)?, [1, 2, 3]);
    stream.synchronize()?;
    Ok(())
}

/// Stores a number at an arbitrary address.
fn store(context: &Arc<CudaContext>, function: &CudaFunction, place: u64) -> Result<(), DriverError> {
    let stream = context.default_stream();
    // SAFETY: the arguments are those of the kernel; the wrong address is intended.
    unsafe { stream.launch_builder(function).arg(&place).arg(&7i32).launch(ONE) }?;
    stream.synchronize()
}

/// After a fault, every call in the context returns the error; other contexts are not affected, and a reset repairs the primary one.
fn stays(context: &Arc<CudaContext>, error: CUresult) -> Done {
    let stream = context.default_stream();
    refused(context.synchronize(), error);
    refused(stream.synchronize(), error);
    // SAFETY: it is refused.
    refused(unsafe { result::malloc_sync(64) }, error);
    refused(stream.clone_htod(&[1]), error);
    refused(stream.synchronize(), error);
    let other = CudaContext::new_non_primary(0, 0)?;
    other.bind_to_thread()?;
    let numbers = other.default_stream().clone_htod(&[4, 5])?;
    assert_eq!(other.default_stream().clone_dtoh(&numbers)?, [4, 5]);
    drop(numbers);
    // SAFETY: nothing of the primary context is used afterward except the context itself.
    unsafe { sys::cuDevicePrimaryCtxReset_v2(context.cu_device()) }.result()?;
    // SAFETY: the context is still retained.
    unsafe { result::ctx::set_current(context.cu_ctx()) }?;
    result::ctx::synchronize()?;
    // SAFETY: memory of our own.
    unsafe { result::free_sync(result::malloc_sync(64)?) }?;
    Ok(())
}

pub fn illegal_address() -> Done {
    let (context, function) = kernel("store")?;
    let x: CudaSlice<i32> = context.default_stream().alloc_zeros(4)?;
    let place = { cudarc::driver::DevicePtr::device_ptr(&x, &context.default_stream()).0 };
    store(&context, &function, place)?;
    refused(store(&context, &function, 1 << 46), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    std::mem::forget(x);
    stays(&context, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS)
}

pub fn misaligned_address() -> Done {
    let (context, function) = kernel("store")?;
    let x: CudaSlice<i32> = context.default_stream().alloc_zeros(4)?;
    let place = { cudarc::driver::DevicePtr::device_ptr(&x, &context.default_stream()).0 };
    refused(store(&context, &function, place + 2), CUresult::CUDA_ERROR_MISALIGNED_ADDRESS);
    std::mem::forget(x);
    stays(&context, CUresult::CUDA_ERROR_MISALIGNED_ADDRESS)
}

pub fn launch_failure() -> Done {
    let (context, function) = kernel("trap")?;
    let stream = context.default_stream();
    // SAFETY: the kernel has no arguments.
    unsafe { stream.launch_builder(&function).launch(ONE) }?;
    refused(stream.synchronize(), CUresult::CUDA_ERROR_LAUNCH_FAILED);
    stays(&context, CUresult::CUDA_ERROR_LAUNCH_FAILED)
}

pub fn launch_timeout() -> Done {
    let (context, function) = kernel("spin")?;
    let stream = context.default_stream();
    let flag: CudaSlice<i32> = stream.alloc_zeros(1)?;
    // SAFETY: the arguments are those of the kernel.
    unsafe { stream.launch_builder(&function).arg(&flag).launch(ONE) }?;
    refused(stream.synchronize(), CUresult::CUDA_ERROR_LAUNCH_TIMEOUT);
    std::mem::forget(flag);
    stays(&context, CUresult::CUDA_ERROR_LAUNCH_TIMEOUT)
}

/// Continues to call after errors: with handles that never existed or were destroyed, after faults, with wrong sizes.
pub fn errors_ignored() -> Done {
    let canary: Vec<u64> = (0..4096).collect();
    let (context, module) = opened()?;
    let (add, bad) = (module.load_function("add")?, module.load_function("store")?);
    let stream = context.new_stream()?;
    let nowhere = [0u64, 1, 2, 16, 0x5750_dead_0000, u64::MAX, 1 << 46, canary.as_ptr().addr().try_into()?];
    let mut answers = std::collections::BTreeMap::new();
    for round in 0..200 {
        for (i, number) in nowhere.iter().enumerate() {
            let wrong = nowhere[(i + round) % nowhere.len()];
            let handle = std::ptr::without_provenance_mut::<u8>(usize::try_from(wrong)?);
            // SAFETY: handles and device addresses are numbers to the driver; places of the host are our own.
            let all = unsafe {
                let mut back = [0u8; 32];
                [
                    result::stream::synchronize(handle.cast()),
                    result::event::synchronize(handle.cast()),
                    result::event::destroy(handle.cast()),
                    result::stream::destroy(if wrong > 2 {
                        handle.cast()
                    } else {
                        std::ptr::without_provenance_mut(48)
                    }),
                    result::module::unload(handle.cast()),
                    result::graph::launch(handle.cast(), stream.cu_stream()),
                    result::free_sync(*number | 1),
                    result::memcpy_htod_sync(*number, &[0u8; 32]),
                    result::memcpy_dtoh_sync(&mut back, *number),
                    result::memset_d8_sync(*number, 1, 32),
                    store(&context, &bad, *number),
                    stream
                        .launch_builder(&add)
                        .arg(number)
                        .arg(number)
                        .arg(number)
                        .arg(&1000i32)
                        .launch(LaunchConfig::for_num_elems(1000))
                        .map(drop),
                    result::ctx::synchronize(),
                ]
            };
            for answer in all {
                *answers.entry(answer.err().map(|error| error.0)).or_insert(0u32) += 1;
            }
        }
    }
    // Only errors after the first fault, and the process survives.
    let ended = |error| answers.get(&Some(error)).copied().unwrap_or(0);
    assert!(ended(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS) > 1000, "{answers:?}");
    assert!(answers.get(&None).is_none_or(|count| *count < 200), "{answers:?}");
    assert!(canary.iter().zip(0..).all(|(found, want)| *found == want));
    Ok(())
}
