//! The state of the process, behind one lock.
//!
//! There is one software GPU and one address space for all devices that programs see: a pointer means the same everywhere, as unified
//! addressing has it. What belongs to one matter stands in its own file; this one holds them together and gives out handles.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use warpproof_sim::memory::Heap;

use crate::abi::{Answer, Error};
use crate::context::{Context, Primary};
use crate::device::Visible;
use crate::graph::{Capture, Executable, Graph};
use crate::memory::{Allocation, Pool};
use crate::module::{Function, Link, Module};
use crate::report::Report;
use crate::settings::Settings;
use crate::stream::{Event, Stream};

/// Where device memory begins: far from where Linux puts programs, libraries and stacks.
const DEVICE_MEMORY: u64 = 0x1000_0000_0000;
/// Handles are multiples of 16 from here on, no addresses of anything.
const HANDLES: u64 = 0x5750_0000_0000;

/// The state.
#[derive(Debug)]
pub struct Driver {
    /// What was asked for.
    pub settings: Settings,
    /// Whether `cuInit` was called.
    pub initialized: bool,
    /// The software GPU.
    pub gpu: warpproof_sim::Device,
    /// The devices that programs see.
    pub devices: Vec<Visible>,
    /// Contexts.
    pub contexts: BTreeMap<u64, Context>,
    /// The primary context of each device.
    pub primaries: Vec<Primary>,
    /// Modules, and libraries, which are modules that no context owns.
    pub modules: BTreeMap<u64, Module>,
    /// Functions, and kernels of libraries.
    pub functions: BTreeMap<u64, Function>,
    /// Linkers.
    pub links: BTreeMap<u64, Link>,
    /// Memory by its first address.
    pub memory: BTreeMap<u64, Allocation>,
    /// Memory pools.
    pub pools: BTreeMap<u64, Pool>,
    /// Streams.
    pub streams: BTreeMap<u64, Stream>,
    /// Events.
    pub events: BTreeMap<u64, Event>,
    /// Captures under way.
    pub captures: BTreeMap<u64, Capture>,
    /// Graphs.
    pub graphs: BTreeMap<u64, Graph>,
    /// Graphs made ready.
    pub executables: BTreeMap<u64, Executable>,
    /// What was found.
    pub report: Report,
    next: u64,
}

static DRIVER: LazyLock<Mutex<Driver>> = LazyLock::new(|| Mutex::new(Driver::new(Settings::from_env())));

/// The state of this process. A thread that panicked while it held the lock leaves it usable: every change is complete or harmless.
pub fn driver() -> MutexGuard<'static, Driver> {
    DRIVER.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Driver {
    /// A driver that nobody has used yet.
    pub fn new(settings: Settings) -> Driver {
        let total: u64 = settings.devices.iter().map(|d| u64::from(d.memory_gb.value) << 30).sum();
        // Memory of a module, and what the driver keeps for itself, comes on top of what programs may have.
        let mut gpu =
            warpproof_sim::Device::new().with_heap(Heap::at(DEVICE_MEMORY, total.saturating_add(1 << 30)));
        gpu.limits.instructions = settings.instructions;
        let devices: Vec<Visible> = settings.devices.iter().map(|model| Visible::new(model)).collect();
        let primaries = devices.iter().map(|_| Primary::default()).collect();
        Driver {
            report: Report::new(&settings),
            settings,
            initialized: false,
            gpu,
            devices,
            contexts: BTreeMap::new(),
            primaries,
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            links: BTreeMap::new(),
            memory: BTreeMap::new(),
            pools: BTreeMap::new(),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            captures: BTreeMap::new(),
            graphs: BTreeMap::new(),
            executables: BTreeMap::new(),
            next: HANDLES,
        }
    }

    /// `cuInit`.
    pub fn init(&mut self) -> Answer {
        if !self.initialized {
            for doubt in std::mem::take(&mut self.settings.doubts) {
                self.report.say(&doubt);
            }
        }
        if self.devices.is_empty() {
            return Err(Error::NO_DEVICE);
        }
        self.initialized = true;
        Ok(())
    }

    /// A handle that was never given out.
    pub fn handle(&mut self) -> u64 {
        self.next += 16;
        self.next
    }

    /// Whether `cuInit` was called.
    pub fn ready(&self) -> Answer {
        if self.initialized { Ok(()) } else { Err(Error::NOT_INITIALIZED) }
    }
}
