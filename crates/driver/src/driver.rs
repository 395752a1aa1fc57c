//! The state of the process, behind one lock. The lock is released while a kernel runs (`work.rs`).
//!
//! There is one software GPU and one address space for all visible devices: a pointer means the same everywhere, as with unified
//! addressing. Each topic has its own file; this one combines them and allocates handles.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

use warpproof_sim::SharedDevice;
use warpproof_sim::memory::Heap;

use crate::abi::{Answer, Error};
use crate::advice::Advice;
use crate::array::Arrays;
use crate::context::{Context, Primary};
use crate::device::Visible;
use crate::graph::{Capture, Executable, Graph, Object};
use crate::guard::Guards;
use crate::mapping::VirtualMemory;
use crate::memory::{Allocation, Kind, Pool};
use crate::misuse::Freed;
use crate::module::{Function, Link, Module};
use crate::order::Order;
use crate::queue::Queue;
use crate::report::Reporter;
use crate::settings::Settings;
use crate::stream::{Event, Stream, Target};
use crate::unread::Unread;
use crate::work::Calls;

/// Base of device memory: far from where Linux places programs, libraries and stacks.
const DEVICE_MEMORY: u64 = 0x1000_0000_0000;
/// Addresses that only device memory has.
pub const DEVICE_ADDRESSES: std::ops::Range<u64> = DEVICE_MEMORY..0x5000_0000_0000;
/// Handles are multiples of 16 from here on; they are not addresses.
const HANDLES: u64 = 0x5750_0000_0000;

/// State of the driver.
#[derive(Debug)]
pub struct Driver {
    /// Settings from the environment.
    pub settings: Settings,
    /// The process that called `cuInit`.
    pub initialized: Option<u32>,
    /// The software GPU.
    pub gpu: SharedDevice,
    /// The devices visible to programs.
    pub devices: Vec<Visible>,
    /// Contexts.
    pub contexts: BTreeMap<u64, Context>,
    /// The primary context of each device.
    pub primaries: Vec<Primary>,
    /// Modules and libraries; a library is a module without an owning context.
    pub modules: BTreeMap<u64, Module>,
    /// Functions, and kernels of libraries.
    pub functions: BTreeMap<u64, Function>,
    /// Linkers.
    pub links: BTreeMap<u64, Link>,
    /// Allocations by base address.
    pub memory: BTreeMap<u64, Allocation>,
    /// Advice about managed memory.
    pub advice: Advice,
    /// Arrays, texture objects and surface objects.
    pub arrays: Arrays,
    /// Reserved addresses and what is mapped there.
    pub mapped: VirtualMemory,
    /// Memory pools.
    pub pools: BTreeMap<u64, Pool>,
    /// Streams.
    pub streams: BTreeMap<u64, Stream>,
    /// Events.
    pub events: BTreeMap<u64, Event>,
    /// Active captures.
    pub captures: BTreeMap<u64, Capture>,
    /// Graphs.
    pub graphs: BTreeMap<u64, Graph>,
    /// Executable graphs.
    pub executables: BTreeMap<u64, Executable>,
    /// The variables of conditional nodes.
    pub conditions: BTreeSet<u64>,
    /// Objects of the program that graphs may keep.
    pub objects: BTreeMap<u64, Object>,
    /// Destructors of objects that have no references left; called when the lock is released.
    pub due: Calls,
    /// Findings and messages.
    pub report: Reporter,
    /// The streams of kernels that run now.
    pub running: Vec<Target>,
    /// Whether the kernel that runs now must run alone: memory that its device has no access to is hidden meanwhile.
    pub alone: bool,
    /// The number of launches, copies and memsets that use lent host memory now.
    pub borrowers: usize,
    /// Allocations that were freed.
    pub freed: Freed,
    /// The order of the work of streams.
    pub order: Order,
    /// Memory that the host must not access yet.
    pub guards: Guards,
    /// Errors that no call has returned yet.
    pub unread: Unread,
    /// Work that runs later.
    pub queue: Queue,
    next: u64,
}

static DRIVER: LazyLock<Mutex<Driver>> = LazyLock::new(|| Mutex::new(Driver::new(Settings::from_env())));

/// Whether `cuInit` succeeded.
static USED: AtomicBool = AtomicBool::new(false);

/// Signaled when a kernel has ended.
static ENDED: Condvar = Condvar::new();

/// The state of this process, locked.
pub type Guard = MutexGuard<'static, Driver>;

/// The state of this process. If a thread panics while it holds the lock, the state stays usable: every change is complete or
/// harmless.
pub fn driver() -> Guard {
    DRIVER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `report` when the process ends, if it has used a device. A thread that still holds the lock prevents it.
pub fn at_end(report: impl FnOnce(&mut Driver)) {
    if USED.load(Ordering::Acquire)
        && let Ok(mut driver) = DRIVER.try_lock()
        && driver.ready().is_ok()
    {
        report(&mut driver);
    }
}

/// The state of this process when no kernel runs: for calls that end or free what kernels use.
pub fn idle() -> Guard {
    wait(driver(), |driver| !driver.running.is_empty())
}

/// Waits for the kernels that work of this stream must follow.
pub fn after_earlier(driver: Guard, target: Target) -> Guard {
    wait(driver, |driver| driver.must_wait(target))
}

/// Hides the memory that the device of a launch has no access to, until [`Driver::show`]. Such a launch runs alone, because the
/// memory is hidden from all devices.
pub fn hide(driver: Guard, target: Target) -> (Guard, Vec<u64>) {
    if driver.out_of_reach(target).is_empty() {
        return (driver, Vec::new());
    }
    let mut driver = wait(driver, |driver| driver.alone || !driver.running.is_empty());
    let hidden = driver.out_of_reach(target);
    for base in &hidden {
        driver.gpu.memory().hide(*base, true);
    }
    driver.alone = !hidden.is_empty();
    (driver, hidden)
}

fn wait(driver: Guard, busy: impl Fn(&Driver) -> bool) -> Guard {
    ENDED.wait_while(driver, |driver| busy(driver)).unwrap_or_else(PoisonError::into_inner)
}

/// Waits until a kernel, or queued work, has ended.
pub fn wait_for_end(driver: Guard) -> Guard {
    ENDED.wait(driver).unwrap_or_else(PoisonError::into_inner)
}

/// Wakes those that wait for a kernel.
pub fn ended() {
    ENDED.notify_all();
}

impl Driver {
    /// An unused driver.
    pub fn new(settings: Settings) -> Driver {
        let total: u64 = settings.devices.iter().map(|d| u64::from(d.memory_gb.value) << 30).sum();
        // Memory of modules, and the driver's own memory, come on top of the memory available to programs.
        let mut heap = Heap::at(DEVICE_MEMORY, total.saturating_add(1 << 30));
        heap.images_mut().open();
        let mut gpu = warpproof_sim::Device::new().with_heap(heap);
        gpu.limits.instructions = settings.instructions;
        let devices: Vec<Visible> = settings.devices.iter().map(|model| Visible::new(model)).collect();
        let primaries = devices.iter().map(|_| Primary::default()).collect();
        Driver {
            report: Reporter::new(&settings),
            settings,
            initialized: None,
            gpu: SharedDevice::new(gpu),
            devices,
            contexts: BTreeMap::new(),
            primaries,
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            links: BTreeMap::new(),
            memory: BTreeMap::new(),
            advice: Advice::default(),
            arrays: Arrays::default(),
            mapped: VirtualMemory::default(),
            pools: BTreeMap::new(),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            captures: BTreeMap::new(),
            graphs: BTreeMap::new(),
            executables: BTreeMap::new(),
            conditions: BTreeSet::new(),
            objects: BTreeMap::new(),
            due: Calls::new(),
            running: Vec::new(),
            alone: false,
            borrowers: 0,
            freed: Freed::default(),
            order: Order::default(),
            guards: Guards::default(),
            unread: Unread::default(),
            queue: Queue::default(),
            next: HANDLES,
        }
    }

    /// `cuInit`.
    pub fn init(&mut self) -> Answer {
        let process = std::process::id();
        if self.initialized.is_some_and(|parent| parent != process) {
            return Err(Error::NOT_INITIALIZED);
        }
        if self.initialized.is_none() {
            for doubt in std::mem::take(&mut self.settings.doubts) {
                self.report.say(&doubt);
            }
        }
        if self.devices.is_empty() {
            return Err(Error::NO_DEVICE);
        }
        self.initialized = Some(process);
        USED.store(true, Ordering::Release);
        Ok(())
    }

    /// Begins the report of a part of the process, such as one test: findings that recur are reported again, the settings of
    /// checks are those given now, and contexts forget the errors of earlier parts.
    pub fn begin_report(&mut self, settings: Settings) {
        let Settings { checks, schedules, fail, doubts, .. } = settings;
        self.settings = Settings { checks, schedules, fail, ..self.settings.clone() };
        self.report.begin(&self.settings);
        for doubt in doubts {
            self.report.say(&doubt);
        }
        self.unread.clear();
        for context in self.contexts.values_mut() {
            context.error = None;
        }
    }

    /// Device memory that a launch has no access to: that of other devices whose context it did not enable, and mappings
    /// without access for its device.
    fn out_of_reach(&self, target: Target) -> Vec<u64> {
        if self.devices.len() < 2 {
            return Vec::new();
        }
        let peers =
            self.contexts.get(&target.context).map(|context| context.peers.as_slice()).unwrap_or_default();
        let reaches = |base: u64, allocation: &Allocation| match self.mapped.accessible(base, target.device) {
            Some(accessible) => accessible,
            // Memory of pools is accessible to all devices.
            None => {
                allocation.kind != Kind::Device
                    || allocation.device == target.device
                    || allocation.pool.is_some()
                    || peers.contains(&allocation.context)
            }
        };
        let memory = self.memory.iter().filter(|(base, allocation)| !reaches(**base, allocation));
        memory.map(|(base, _)| *base).collect()
    }

    /// Ends the hiding of memory by [`hide`].
    pub fn show(&mut self, hidden: &[u64]) {
        for base in hidden {
            let still = self.mapped.unreachable(*base);
            self.gpu.memory().hide(*base, still);
        }
        if !hidden.is_empty() {
            self.alone = false;
        }
    }

    /// A new handle.
    pub fn handle(&mut self) -> u64 {
        self.next += 16;
        self.next
    }

    /// Whether this process called `cuInit`. As with NVIDIA's driver, a fork of a process that did cannot use CUDA.
    pub fn ready(&self) -> Answer {
        if self.initialized == Some(std::process::id()) { Ok(()) } else { Err(Error::NOT_INITIALIZED) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_of_a_process_that_uses_cuda_cannot_use_it() {
        let mut driver = Driver::new(Settings::from_env());
        assert_eq!(driver.ready(), Err(Error::NOT_INITIALIZED));
        assert_eq!(driver.init(), Ok(()));
        assert_eq!(driver.ready(), Ok(()));
        driver.initialized = driver.initialized.map(|process| process + 1);
        assert_eq!(driver.ready(), Err(Error::NOT_INITIALIZED));
        assert_eq!(driver.init(), Err(Error::NOT_INITIALIZED));
    }
}
