//! Attributes of functions, and occupancy.
#![expect(unsafe_code, reason = "most of the driver API is unsafe")]

use cudarc::driver::sys::{CUfunction_attribute as Attribute, CUresult};
use cudarc::driver::{LaunchConfig, PushKernelArg, result};

use crate::{Done, kernel, opened, refused};

pub fn attributes() -> Done {
    let (_, module) = opened()?;
    let add = module.load_function("add")?;
    assert!(add.num_regs()? > 0);
    assert_eq!(add.shared_size_bytes()?, 0);
    assert_eq!(add.local_size_bytes()?, 0);
    assert_eq!(add.max_threads_per_block()?, 1024);
    assert_eq!(add.ptx_version()?, 75);
    assert!(add.binary_version()? >= 75);
    let table = module.load_function("from_table")?;
    assert_eq!(table.shared_size_bytes()?, 512);
    assert_eq!(table.max_threads_per_block()?, 128);
    assert_eq!(table.const_size_bytes()?, 16);
    Ok(())
}

pub fn occupancy() -> Done {
    let (context, sum) = kernel("sum")?;
    let most = |block, shared| sum.occupancy_max_active_blocks_per_multiprocessor(block, shared, None);
    let threads = context.attribute(
        cudarc::driver::sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
    )?;
    let full = most(1024, 0)?;
    assert!(full >= 1 && full * 1024 <= u32::try_from(threads)?);
    // Beyond some size, shared memory limits the occupancy.
    assert!(most(32, 40 * 1024)? < most(32, 0)?);
    let (grid, block) = sum.occupancy_max_potential_block_size(no_shared, 0, 0, None)?;
    assert!(grid > 0 && block > 0 && block <= 1024 && block % 32 == 0, "{grid} of {block}");
    assert!(sum.occupancy_available_dynamic_smem_per_block(1, 256)? >= 48 * 1024);
    // More than 48 KiB of dynamic shared memory must be requested before the launch.
    let stream = context.default_stream();
    let input = stream.clone_htod(&vec![1i32; 256])?;
    let mut total = stream.alloc_zeros::<i32>(1)?;
    let config = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 64 * 1024 };
    // SAFETY: the arguments are those of the kernel.
    let early = unsafe { stream.launch_builder(&sum).arg(&input).arg(&mut total).arg(&256).launch(config) };
    refused(early, CUresult::CUDA_ERROR_INVALID_VALUE);
    sum.set_attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 * 1024)?;
    // SAFETY: likewise.
    unsafe { stream.launch_builder(&sum).arg(&input).arg(&mut total).arg(&256).launch(config) }?;
    assert_eq!(stream.clone_dtoh(&total)?, [256]);
    let beyond = sum.set_attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 20);
    refused(beyond, CUresult::CUDA_ERROR_INVALID_VALUE);
    result::ctx::synchronize()?;
    Ok(())
}

/// No block needs dynamic shared memory.
extern "C" fn no_shared(_threads: std::ffi::c_int) -> usize {
    0
}
