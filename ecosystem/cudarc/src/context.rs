//! Contexts: primary and own.
#![expect(unsafe_code, reason = "most of the driver API is unsafe")]

use std::ptr::null_mut;

use cudarc::driver::sys::{CUlimit, CUresult};
use cudarc::driver::{CudaContext, result, sys};

use crate::{Done, refused};

/// Whether the primary context of a device is active.
fn active(device: i32) -> Result<bool, cudarc::driver::DriverError> {
    let (mut flags, mut active) = (0, 0);
    // SAFETY: places for the answers.
    unsafe { sys::cuDevicePrimaryCtxGetState(device, &raw mut flags, &raw mut active) }.result()?;
    Ok(active != 0)
}

pub fn primary() -> Done {
    result::init()?;
    let device = result::device::get(0)?;
    assert!(!active(device)?);
    refused(result::ctx::synchronize(), CUresult::CUDA_ERROR_INVALID_CONTEXT);
    let context = CudaContext::new(0)?;
    assert!(context.is_primary() && active(device)?);
    let again = CudaContext::new(0)?;
    assert_eq!(context.cu_ctx(), again.cu_ctx());
    assert_eq!(result::ctx::get_current()?, Some(context.cu_ctx()));
    drop(again);
    assert!(active(device)?);
    // Another thread has no context until it binds one.
    let elsewhere = context.clone();
    std::thread::spawn(move || {
        assert_eq!(result::ctx::get_current().unwrap(), None);
        elsewhere.bind_to_thread().unwrap();
        assert_eq!(result::ctx::get_current().unwrap(), Some(elsewhere.cu_ctx()));
    })
    .join()
    .map_err(|_| "the thread failed")?;
    drop(context);
    assert!(!active(device)?);
    // SAFETY: the device exists.
    refused(unsafe { result::primary_ctx::release(device) }, CUresult::CUDA_ERROR_INVALID_CONTEXT);
    Ok(())
}

pub fn own() -> Done {
    let primary = CudaContext::new(0)?;
    let own = CudaContext::new_non_primary(0, 0)?;
    assert!(!own.is_primary());
    assert_ne!(primary.cu_ctx(), own.cu_ctx());
    own.bind_to_thread()?;
    own.set_limit(CUlimit::CU_LIMIT_STACK_SIZE, 4096)?;
    assert_eq!(own.get_limit(CUlimit::CU_LIMIT_STACK_SIZE)?, 4096);
    assert_ne!(primary.get_limit(CUlimit::CU_LIMIT_STACK_SIZE)?, 4096);
    own.set_cache_config(sys::CUfunc_cache::CU_FUNC_CACHE_PREFER_L1)?;
    assert_eq!(own.get_cache_config()?, sys::CUfunc_cache::CU_FUNC_CACHE_PREFER_L1);
    // The stack of contexts.
    let mut popped = null_mut();
    // SAFETY: both contexts exist; places for the answers.
    unsafe {
        result::ctx::set_current(primary.cu_ctx())?;
        sys::cuCtxPushCurrent_v2(own.cu_ctx()).result()?;
        assert_eq!(result::ctx::get_current()?, Some(own.cu_ctx()));
        sys::cuCtxPopCurrent_v2(&raw mut popped).result()?;
    }
    assert_eq!(popped, own.cu_ctx());
    assert_eq!(result::ctx::get_current()?, Some(primary.cu_ctx()));
    // Destroying a context frees its memory.
    let free = || Ok::<_, cudarc::driver::DriverError>(primary.mem_get_info()?.0);
    let before = free()?;
    let mut context = null_mut();
    // SAFETY: places for the answers; the memory is not used after its context has gone.
    unsafe {
        sys::cuCtxCreate_v2(&raw mut context, 0, 0).result()?;
        result::malloc_sync(1 << 20)?;
        assert!(result::mem_get_info()?.0 <= before - (1 << 20));
        sys::cuCtxDestroy_v2(context).result()?;
    }
    assert_eq!(free()?, before);
    // SAFETY: a handle that is no longer valid; it is looked up, not dereferenced.
    refused(unsafe { result::ctx::set_current(context) }, CUresult::CUDA_ERROR_INVALID_CONTEXT);
    Ok(())
}
