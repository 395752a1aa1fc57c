//! A device that several threads use at the same time.

use crate::device::{Device, Launch, Module};
use crate::machine::{Limits, Outcome};
use crate::memory::{ConcurrentHeap, Heap};
use crate::program::Managed;
use crate::stop::Stop;
use std::sync::{Arc, RwLockReadGuard, RwLockWriteGuard};

/// A device that several threads use at the same time; clones share its memory.
///
/// Launches of different threads overlap: each reads memory as it was when its wave of blocks began, and what it writes is
/// visible to others when the wave ends, as with kernels of independent streams. A launch whose blocks communicate, or that
/// is checked under several schedules, runs alone.
#[derive(Clone, Debug)]
pub struct SharedDevice {
    heap: Arc<ConcurrentHeap>,
    /// Settings of launches, without memory.
    settings: Arc<Device>,
    /// What a launch may use.
    pub limits: Limits,
}

impl SharedDevice {
    /// Takes over a device with its memory and settings.
    pub fn new(mut device: Device) -> SharedDevice {
        let heap = std::mem::replace(device.memory(), Heap::new(0));
        let limits = device.limits;
        SharedDevice { heap: Arc::new(ConcurrentHeap::new(heap)), settings: Arc::new(device), limits }
    }

    /// Its memory, for reading.
    pub fn heap(&self) -> RwLockReadGuard<'_, Heap> {
        self.heap.read()
    }

    /// Its memory. Waits until the waves of all launches have ended.
    pub fn memory(&self) -> RwLockWriteGuard<'_, Heap> {
        self.heap.write()
    }

    /// As [`Device::load`].
    pub fn load(&self, ptx: &str) -> Result<Module, Box<Stop>> {
        self.alone(|device| device.load(ptx))
    }

    /// As [`Device::load_with`].
    pub fn load_with(&self, ptx: &str, managed: &mut Managed<'_>) -> Result<Module, Box<Stop>> {
        self.alone(|device| device.load_with(ptx, managed))
    }

    /// As [`Device::run`].
    pub fn run(&self, launch: &Launch) -> Outcome {
        self.with(launch, |device| device.run(launch))
    }

    /// Does `work`, which runs this launch once, on a device with this memory. Launches of other threads overlap it, unless its
    /// blocks communicate.
    pub fn with<T>(&self, launch: &Launch, work: impl FnOnce(&mut Device) -> T) -> T {
        if needs_turns(launch) {
            return self.alone(work);
        }
        work(&mut self.settings.with_concurrent(self.heap.clone(), self.limits))
    }

    /// Does `work` on a device with this memory while no other launch runs.
    pub fn alone<T>(&self, work: impl FnOnce(&mut Device) -> T) -> T {
        let mut loan = Loan { device: self.settings.without_memory(self.limits), from: self.memory() };
        std::mem::swap(loan.device.memory(), &mut loan.from);
        work(&mut loan.device)
    }
}

/// Whether the blocks of a launch run in turns on the memory itself.
fn needs_turns(launch: &Launch) -> bool {
    launch.is_cooperative() || launch.hides() || launch.program().communication.takes_turns()
}

/// Memory that is returned also after a panic.
struct Loan<'a> {
    device: Device,
    from: RwLockWriteGuard<'a, Heap>,
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        std::mem::swap(self.device.memory(), &mut self.from);
    }
}
