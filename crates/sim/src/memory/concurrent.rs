//! Device memory for launches that run at the same time.

use super::Heap;
use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Memory that launches use at the same time. A panic while it is locked leaves it usable: every write is complete or harmless.
#[derive(Debug)]
pub struct ConcurrentHeap {
    heap: RwLock<Heap>,
    queue: Queue,
}

impl ConcurrentHeap {
    /// Takes over memory.
    pub fn new(heap: Heap) -> ConcurrentHeap {
        ConcurrentHeap { heap: RwLock::new(heap), queue: Queue::default() }
    }

    /// Waits until those that asked before no longer write or wait.
    pub fn read(&self) -> RwLockReadGuard<'_, Heap> {
        self.queue.in_turn(|| self.heap.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until no one else reads or writes.
    pub fn write(&self) -> RwLockWriteGuard<'_, Heap> {
        self.queue.in_turn(|| self.heap.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Serves threads in the order in which they come. `RwLock` lets a reader in again while a writer wakes up: two threads that
/// launch kernels would then take turns instead of running at the same time.
#[derive(Debug, Default)]
struct Queue {
    tickets: Mutex<Tickets>,
    served: Condvar,
}

#[derive(Debug, Default)]
struct Tickets {
    next: u64,
    serving: u64,
}

impl Queue {
    fn in_turn<T>(&self, acquire: impl FnOnce() -> T) -> T {
        let mut tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = tickets.next;
        tickets.next += 1;
        let waited = self.served.wait_while(tickets, |tickets| tickets.serving != mine);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        let acquired = acquire();
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner).serving += 1;
        self.served.notify_all();
        acquired
    }
}

/// The memory of a launch: its own, or used by other launches too.
#[derive(Debug)]
pub enum Memory<'a> {
    /// No one else uses it during the launch.
    Own(&'a mut Heap),
    /// Other launches run at the same time. Blocks read it as it was when their wave began; what they wrote is merged when
    /// the wave ends.
    Concurrent(&'a ConcurrentHeap),
}

/// Memory that does not change meanwhile.
#[derive(Debug)]
pub enum Reading<'a> {
    /// Of one launch.
    Own(&'a Heap),
    /// Of several launches.
    Concurrent(RwLockReadGuard<'a, Heap>),
}

/// Memory that no one else reads meanwhile.
#[derive(Debug)]
pub enum Writing<'a> {
    /// Of one launch.
    Own(&'a mut Heap),
    /// Of several launches.
    Concurrent(RwLockWriteGuard<'a, Heap>),
}

impl Memory<'_> {
    /// Whether other launches use it too.
    pub fn is_concurrent(&self) -> bool {
        matches!(self, Memory::Concurrent(_))
    }

    /// Waits until no one writes.
    pub fn read(&self) -> Reading<'_> {
        match self {
            Memory::Own(heap) => Reading::Own(heap),
            Memory::Concurrent(heap) => Reading::Concurrent(heap.read()),
        }
    }

    /// Waits until no one else reads or writes.
    pub fn write(&mut self) -> Writing<'_> {
        match self {
            Memory::Own(heap) => Writing::Own(heap),
            Memory::Concurrent(heap) => Writing::Concurrent(heap.write()),
        }
    }
}

impl Deref for Reading<'_> {
    type Target = Heap;
    fn deref(&self) -> &Heap {
        match self {
            Reading::Own(heap) => heap,
            Reading::Concurrent(guard) => guard,
        }
    }
}

impl Deref for Writing<'_> {
    type Target = Heap;
    fn deref(&self) -> &Heap {
        match self {
            Writing::Own(heap) => heap,
            Writing::Concurrent(guard) => guard,
        }
    }
}

impl DerefMut for Writing<'_> {
    fn deref_mut(&mut self) -> &mut Heap {
        match self {
            Writing::Own(heap) => heap,
            Writing::Concurrent(guard) => guard,
        }
    }
}
