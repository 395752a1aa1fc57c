//! Launches.

use std::cell::RefCell;
use std::ffi::c_void;
use std::mem::ManuallyDrop;

use warpproof_driver::abi::{Answer, Handle, LaunchAttribute, LaunchConfig};
use warpproof_driver::api::{In, Out};
use warpproof_driver::site::Site;
use warpproof_driver::unread::error_happened;

use super::register::function;
use super::{input, stream, thread};
use crate::abi::Dim3;
use crate::error::{INVALID_CONFIGURATION, MISSING_CONFIGURATION, find};

/// The part of a launch that `<<<…>>>` contains.
#[derive(Clone, Copy, Debug)]
struct Configuration {
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: Handle,
}

thread_local! {
    /// Configurations whose kernels are not called yet. Arguments of a kernel may launch others. Never dropped, because
    /// destructors of the program may launch kernels when those of the thread have run.
    static PUSHED: ManuallyDrop<RefCell<Vec<Configuration>>> = const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}

plain! {
    /// Begins a launch; 0 if the kernel may be called.
    fn __cudaPushCallConfiguration => (grid: Dim3, block: Dim3, shared: usize, stream: Handle) -> u32, 1, {
        PUSHED.with(|pushed| pushed.borrow_mut().push(Configuration { grid, block, shared, stream }));
        0
    }
}

api! {
    /// The configuration of the kernel that is called now.
    fn __cudaPopCallConfiguration => (grid: Out<Dim3>, block: Out<Dim3>, shared: Out<usize>, stream: Out<Handle>) {
        let popped = PUSHED.with(|pushed| pushed.borrow_mut().pop()).ok_or(MISSING_CONFIGURATION)?;
        grid.put(popped.grid)?;
        block.put(popped.block)?;
        shared.put(popped.shared)?;
        stream.put(popped.stream)
    }
}

/// Rejects grids and blocks that no device accepts, as the runtime does before it asks the driver.
pub(super) fn valid(grid: Dim3, block: Dim3) -> Answer {
    let grid_fits =
        grid.list().iter().zip([0x7fff_ffff, 0xffff, 0xffff]).all(|(n, most)| (1..=most).contains(n));
    let block_fits = block.list().iter().zip([1024, 1024, 64]).all(|(n, most)| (1..=most).contains(n));
    if grid_fits && block_fits && block.x * block.y * block.z <= 1024 {
        Ok(())
    } else {
        Err(INVALID_CONFIGURATION)
    }
}

/// The bytes of dynamic shared memory as the driver has them. More than 4 GB fail there, as any size beyond the limit.
fn bytes(shared: usize) -> u32 {
    u32::try_from(shared).unwrap_or(u32::MAX)
}

fn launch(
    host: *const c_void,
    grid: Dim3,
    block: Dim3,
    arguments: In<In<u8>>,
    shared: usize,
    stream: Handle,
) -> Answer {
    let function = function(host)?;
    valid(grid, block)?;
    cu!(cuLaunchKernel(
        function,
        grid.x,
        grid.y,
        grid.z,
        block.x,
        block.y,
        block.z,
        bytes(shared),
        stream,
        arguments,
        In::none()
    ))
}

/// A launch failed. `<<<…>>>` drops the answer, so the program learns of it only if it reads the thread's last error.
fn failed(code: u32) {
    let error = find(code).map_or_else(|| code.to_string(), |(name, _)| name.to_string_lossy().into_owned());
    error_happened(thread(), code, &error, "the launch", Site::here());
}

api! {
    /// Launches a kernel.
    fn cudaLaunchKernel | cudaLaunchKernel_ptsz | __cudaLaunchKernel | __cudaLaunchKernel_ptsz => (host: *const c_void, grid: Dim3, block: Dim3, arguments: In<In<u8>>, shared: usize, on: Handle) {
        let answer = launch(host, grid, block, arguments, shared, stream(on));
        if let Err(error) = answer {
            failed(error.0);
        }
        answer
    }
}

api! {
    /// Launches a kernel whose blocks must all be resident at the same time.
    fn cudaLaunchCooperativeKernel | cudaLaunchCooperativeKernel_ptsz => (host: *const c_void, grid: Dim3, block: Dim3, arguments: In<In<u8>>, shared: usize, on: Handle) {
        let on = stream(on);
        let function = function(host)?;
        valid(grid, block)?;
        cu!(cuLaunchCooperativeKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z, bytes(shared), on, arguments))
    }
}

/// `cudaLaunchConfig_t`. Its attributes have the layout and the numbers of the driver's.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Grid size in blocks.
    pub grid: Dim3,
    /// Block size in threads.
    pub block: Dim3,
    /// Bytes of dynamic shared memory.
    pub shared: usize,
    /// The stream.
    pub stream: Handle,
    /// Attributes.
    pub attributes: In<LaunchAttribute>,
    /// Number of attributes.
    pub count: u32,
}

api! {
    /// Launches a kernel with attributes.
    fn cudaLaunchKernelExC | cudaLaunchKernelExC_ptsz => (config: In<Config>, host: *const c_void, arguments: In<In<u8>>) {
        let config = config.get()?;
        let on = stream(config.stream);
        let function = function(host)?;
        valid(config.grid, config.block)?;
        let (grid, block, shared) = (config.grid.list(), config.block.list(), bytes(config.shared));
        let config = LaunchConfig { grid, block, shared, stream: on, attributes: config.attributes, count: config.count };
        cu!(cuLaunchKernelEx(input(&config), function, arguments, In::none()))
    }
}
