//! Devices and their attributes, texts of errors, functions by name.
#![expect(unsafe_code, reason = "most of the driver API is unsafe")]

use std::collections::BTreeSet;
use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;

use cudarc::driver::sys::{CUdevice_attribute as Attribute, CUresult};
use cudarc::driver::{CudaContext, DriverError, result, sys};

use crate::{Done, refused};

pub fn devices() -> Done {
    refused(result::device::get_count(), CUresult::CUDA_ERROR_NOT_INITIALIZED);
    result::init()?;
    let count = result::device::get_count()?;
    assert!(count > 0);
    refused(result::device::get(count), CUresult::CUDA_ERROR_INVALID_DEVICE);
    refused(result::device::get(-1), CUresult::CUDA_ERROR_INVALID_DEVICE);
    let context = CudaContext::new(0)?;
    assert!(!context.name()?.is_empty());
    let (major, minor) = context.compute_capability()?;
    assert!(major >= 7 && (0..10).contains(&minor), "{major}.{minor}");
    assert_eq!(context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE)?, 32);
    assert_eq!(context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?, 1024);
    assert_eq!(context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?, 64);
    assert_eq!(context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?, major);
    assert!(context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? > 0);
    assert_eq!(context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING)?, 1);
    let (free, total) = context.mem_get_info()?;
    assert!(free <= total && total == context.total_mem()?);
    let mut version = 0;
    // SAFETY: a place for the answer.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }.result()?;
    assert!(version >= 12_000, "{version}");
    // The PCI bus id identifies the device.
    let mut bus = [0; 32];
    let mut found = -1;
    // SAFETY: places for the answers, the first of 32 bytes.
    unsafe {
        sys::cuDeviceGetPCIBusId(bus.as_mut_ptr(), 32, context.cu_device()).result()?;
        sys::cuDeviceGetByPCIBusId(&raw mut found, bus.as_ptr()).result()?;
    }
    assert_eq!(found, context.cu_device());
    Ok(())
}

pub fn two() -> Done {
    assert_eq!(CudaContext::device_count()?, 2);
    let (one, other) = (CudaContext::new(0)?, CudaContext::new(1)?);
    assert_ne!(one.uuid()?.bytes, other.uuid()?.bytes);
    assert_ne!(one.cu_ctx(), other.cu_ctx());
    let numbers: Vec<u32> = (0..1000).map(|i| i * 7).collect();
    let here = one.default_stream().clone_htod(&numbers)?;
    // cudarc copies from device to device through the peer calls.
    let there = other.default_stream().clone_dtod(&here)?;
    assert_eq!(other.default_stream().clone_dtoh(&there)?, numbers);
    drop(here);
    assert_eq!(other.default_stream().clone_dtoh(&there)?, numbers);
    Ok(())
}

pub fn error_names() -> Done {
    let errors = [
        (CUresult::CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"),
        (CUresult::CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"),
        (CUresult::CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"),
        (CUresult::CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"),
        (CUresult::CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"),
        (
            CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
            "CUDA_ERROR_ILLEGAL_ADDRESS",
            "an illegal memory access was encountered",
        ),
        (
            CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
            "CUDA_ERROR_LAUNCH_TIMEOUT",
            "the launch timed out and was terminated",
        ),
        (CUresult::CUDA_ERROR_MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"),
        (CUresult::CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"),
        (CUresult::CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"),
    ];
    for (error, name, sentence) in errors {
        assert_eq!(DriverError(error).error_name()?.to_str()?, name);
        assert_eq!(DriverError(error).error_string()?.to_str()?, sentence);
    }
    Ok(())
}

/// Asks for a function by name.
fn address(name: &CStr, version: c_int, flags: u64) -> (sys::CUresult, *mut c_void, u32) {
    let mut found = null_mut();
    let mut status = sys::CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SUCCESS;
    // SAFETY: a text with its end, and places for the answers.
    let answer =
        unsafe { sys::cuGetProcAddress_v2(name.as_ptr(), &raw mut found, version, flags, &raw mut status) };
    (answer, found, status as u32)
}

pub fn functions_by_name() -> Done {
    result::init()?;
    // Each name gives a function; other versions of a name give other functions.
    let names = [c"cuInit", c"cuMemAlloc", c"cuLaunchKernel", c"cuStreamBeginCapture", c"cuGraphInstantiate"];
    let found: BTreeSet<_> = names.iter().map(|name| address(name, 12_090, 0)).collect();
    assert!(found.iter().all(|(answer, address, status)| {
        *answer == CUresult::CUDA_SUCCESS && !address.is_null() && *status == 0
    }));
    assert_eq!(found.len(), names.len());
    assert_ne!(address(c"cuStreamBeginCapture", 10_000, 0).1, address(c"cuStreamBeginCapture", 12_090, 0).1);
    // The version for the per-thread default stream is another function.
    assert_ne!(address(c"cuLaunchKernel", 12_090, 0).1, address(c"cuLaunchKernel", 12_090, 2).1);
    let (answer, nothing, status) = address(c"cuNoSuchFunction", 12_090, 0);
    assert_eq!((answer, nothing.is_null(), status), (CUresult::CUDA_SUCCESS, true, 1));
    // It exists, but was added after the requested version.
    let (answer, nothing, status) = address(c"cuGraphCreate", 9_000, 0);
    assert_eq!((answer, nothing.is_null(), status), (CUresult::CUDA_SUCCESS, true, 2));
    // The result can be called.
    type Count = unsafe extern "C" fn(*mut c_int) -> CUresult;
    // SAFETY: this is the type of the function of that name.
    let count: Count = unsafe { std::mem::transmute(address(c"cuDeviceGetCount", 12_090, 0).1) };
    let mut devices = 0;
    // SAFETY: a place for the answer.
    unsafe { count(&raw mut devices) }.result()?;
    assert_eq!(devices, result::device::get_count()?);
    Ok(())
}
