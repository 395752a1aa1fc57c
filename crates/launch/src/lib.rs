//! The GPU interface of the library. The software GPU and CUDA devices implement it.
#![forbid(unsafe_code)]

use std::error::Error;

use warpproof_check::{BufferRole, CheckLaunch, Finding, Role, Settings, schedules_needed};
use warpproof_count::{CountLaunch, CountSettings, Counters};
use warpproof_sim::{Buffer, Device, Module, Outcome};

/// The use of a buffer in a launch; checks enforce it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Read only.
    Input,
    /// Every byte is written.
    Output,
    /// Written in part or not at all, and read only where it was written.
    Scratch,
    /// Read and written by blocks that share it; its previous contents matter. Sums that were never written are NaN
    /// there.
    Shared,
}

impl Use {
    fn role(self) -> Role {
        match self {
            Use::Input => Role::In,
            Use::Output => Role::Out,
            Use::Scratch | Use::Shared => Role::Scratch,
        }
    }
}

/// How a kernel is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Blocks in each direction.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: u32,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
}

/// A device that runs PTX.
pub trait Gpu {
    /// Memory on it.
    type Memory;
    /// A loaded module.
    type Module;
    /// The device's error type.
    type Error: Error + Send + Sync + 'static;

    /// Loads a module.
    fn load(&mut self, ptx: &str) -> Result<Self::Module, Self::Error>;
    /// Allocates memory. The name is for reports.
    fn allocate(&mut self, name: &str, bytes: usize, what: Use) -> Result<Self::Memory, Self::Error>;
    /// Sets the use of a buffer from the next launch on; checks enforce it. A device without checks ignores it.
    fn declare(&mut self, _memory: &Self::Memory, _what: Use) {}
    /// Frees memory.
    fn free(&mut self, memory: Self::Memory) -> Result<(), Self::Error>;
    /// Its device address.
    fn address(&self, memory: &Self::Memory) -> u64;
    /// Writes at its beginning.
    fn write(&mut self, memory: &Self::Memory, bytes: &[u8]) -> Result<(), Self::Error>;
    /// Reads it back.
    fn read(&mut self, memory: &Self::Memory) -> Result<Vec<u8>, Self::Error>;
    /// Runs a kernel with the single parameter `params` to completion.
    fn launch(
        &mut self,
        module: &Self::Module,
        kernel: &str,
        geometry: Geometry,
        params: &[u8],
    ) -> Result<(), Self::Error>;
}

impl Gpu for Device {
    type Memory = Buffer<u8>;
    type Module = Module;
    type Error = SimError;

    fn load(&mut self, ptx: &str) -> Result<Module, SimError> {
        Device::load(self, ptx).map_err(SimError::of)
    }

    fn allocate(&mut self, name: &str, bytes: usize, _: Use) -> Result<Buffer<u8>, SimError> {
        self.alloc_named(name, bytes).map_err(SimError::of)
    }

    fn free(&mut self, memory: Buffer<u8>) -> Result<(), SimError> {
        Device::free(self, memory).map_err(SimError::of)
    }

    fn address(&self, memory: &Buffer<u8>) -> u64 {
        memory.address()
    }

    fn write(&mut self, memory: &Buffer<u8>, bytes: &[u8]) -> Result<(), SimError> {
        Device::write(self, memory, bytes).map_err(SimError::of)
    }

    fn read(&mut self, memory: &Buffer<u8>) -> Result<Vec<u8>, SimError> {
        Device::read(self, memory).map_err(SimError::of)
    }

    fn launch(
        &mut self,
        module: &Module,
        kernel: &str,
        geometry: Geometry,
        params: &[u8],
    ) -> Result<(), SimError> {
        let launch = prepare(module, kernel, geometry, params)?;
        launch.run(self).map_err(SimError::of)?;
        Ok(())
    }
}

fn prepare(
    module: &Module,
    kernel: &str,
    geometry: Geometry,
    params: &[u8],
) -> Result<warpproof_sim::Launch, SimError> {
    let kernel = module.kernel(kernel).map_err(SimError::of)?;
    Ok(kernel.launch().grid(geometry.grid).block(geometry.block).shared(geometry.shared).arg(params.to_vec()))
}

/// Why the software GPU failed: a stop, or memory that cannot be allocated, written or read.
#[derive(Debug)]
pub struct SimError(Box<dyn Error + Send + Sync>);

impl SimError {
    fn of(error: impl Into<Box<dyn Error + Send + Sync>>) -> SimError {
        SimError(error.into())
    }
}

impl std::fmt::Display for SimError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for SimError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

/// The software GPU with checks enabled for every launch.
#[derive(Debug)]
pub struct Checking {
    device: Device,
    schedules: u32,
    /// Whether launches may run under more schedules if they need them.
    as_needed: bool,
    buffers: Vec<BufferRole>,
    /// The findings so far.
    pub findings: Vec<Finding>,
    /// The outcome of each launch.
    pub outcomes: Vec<Outcome>,
}

impl Checking {
    /// Checks every launch under this number of schedules.
    pub fn new(device: Device, schedules: u32) -> Checking {
        let (buffers, findings, outcomes) = (Vec::new(), Vec::new(), Vec::new());
        Checking { device, schedules, as_needed: false, buffers, findings, outcomes }
    }

    /// As [`Checking::new`], with more schedules if a launch's synchronization requires them.
    pub fn at_least(device: Device, schedules: u32) -> Checking {
        Checking { as_needed: true, ..Checking::new(device, schedules) }
    }
}

impl Gpu for Checking {
    type Memory = Buffer<u8>;
    type Module = Module;
    type Error = SimError;

    fn load(&mut self, ptx: &str) -> Result<Module, SimError> {
        self.device.load(ptx).map_err(SimError::of)
    }

    fn allocate(&mut self, name: &str, bytes: usize, what: Use) -> Result<Buffer<u8>, SimError> {
        let buffer = Gpu::allocate(&mut self.device, name, bytes, what)?;
        self.buffers.push(BufferRole {
            name: name.to_owned(),
            address: buffer.address(),
            element: 1,
            extents: vec![u64::try_from(bytes).unwrap_or(u64::MAX)],
            role: what.role(),
            // Initial contents of all other buffers are not input; the kernel must not read them.
            initialized: matches!(what, Use::Input | Use::Shared),
        });
        Ok(buffer)
    }

    fn declare(&mut self, memory: &Buffer<u8>, what: Use) {
        for buffer in self.buffers.iter_mut().filter(|buffer| buffer.address == memory.address()) {
            buffer.role = what.role();
        }
    }

    fn free(&mut self, memory: Buffer<u8>) -> Result<(), SimError> {
        self.buffers.retain(|buffer| buffer.address != memory.address());
        Gpu::free(&mut self.device, memory)
    }

    fn address(&self, memory: &Buffer<u8>) -> u64 {
        memory.address()
    }

    fn write(&mut self, memory: &Buffer<u8>, bytes: &[u8]) -> Result<(), SimError> {
        Gpu::write(&mut self.device, memory, bytes)
    }

    fn read(&mut self, memory: &Buffer<u8>) -> Result<Vec<u8>, SimError> {
        Gpu::read(&mut self.device, memory)
    }

    fn launch(
        &mut self,
        module: &Module,
        kernel: &str,
        geometry: Geometry,
        params: &[u8],
    ) -> Result<(), SimError> {
        let launch = prepare(module, kernel, geometry, params)?;
        let settings = Settings { buffers: self.buffers.clone(), ..Settings::default() };
        let needed = if self.as_needed { schedules_needed(&launch) } else { 1 };
        let schedules = self.schedules.max(needed);
        let mut checked = self.device.check_schedules(&launch, &settings, Some(schedules), 0).checked;
        self.findings.append(&mut checked.findings);
        // Later launches may read what earlier launches wrote.
        for buffer in &mut self.buffers {
            buffer.initialized = true;
        }
        let stop = checked.outcome.stop.take();
        self.outcomes.push(checked.outcome);
        match stop {
            Some(stop) => Err(SimError::of(stop)),
            None => Ok(()),
        }
    }
}

/// The software GPU with counters enabled for every launch.
#[derive(Debug)]
pub struct Counting {
    device: Device,
    settings: CountSettings,
    /// The counters of each launch, up to its stop if it stopped.
    pub counters: Vec<Counters>,
}

impl Counting {
    /// Counts every launch.
    pub fn new(device: Device) -> Counting {
        Counting { device, settings: CountSettings::default(), counters: Vec::new() }
    }

    /// Sets the options for counting. With a sample of the blocks, launches store nothing, so buffers keep their contents.
    #[must_use]
    pub fn with_settings(self, settings: CountSettings) -> Counting {
        Counting { settings, ..self }
    }
}

impl Gpu for Counting {
    type Memory = Buffer<u8>;
    type Module = Module;
    type Error = SimError;

    fn load(&mut self, ptx: &str) -> Result<Module, SimError> {
        self.device.load(ptx).map_err(SimError::of)
    }

    fn allocate(&mut self, name: &str, bytes: usize, what: Use) -> Result<Buffer<u8>, SimError> {
        Gpu::allocate(&mut self.device, name, bytes, what)
    }

    fn free(&mut self, memory: Buffer<u8>) -> Result<(), SimError> {
        Gpu::free(&mut self.device, memory)
    }

    fn address(&self, memory: &Buffer<u8>) -> u64 {
        memory.address()
    }

    fn write(&mut self, memory: &Buffer<u8>, bytes: &[u8]) -> Result<(), SimError> {
        Gpu::write(&mut self.device, memory, bytes)
    }

    fn read(&mut self, memory: &Buffer<u8>) -> Result<Vec<u8>, SimError> {
        Gpu::read(&mut self.device, memory)
    }

    fn launch(
        &mut self,
        module: &Module,
        kernel: &str,
        geometry: Geometry,
        params: &[u8],
    ) -> Result<(), SimError> {
        let launch = prepare(module, kernel, geometry, params)?;
        let counted = self.device.count(&launch, &self.settings);
        self.counters.push(counted.counters);
        counted.outcome.stop.map_or(Ok(()), |stop| Err(SimError::of(stop)))
    }
}
