//! Work that is queued, with `WARPPROOF_LATE`: it runs at the latest moment that CUDA allows, when a call needs it.
//!
//! A call that waits needs the operations that happen before it (`order`), and these run in the order of their submission, in the
//! thread that waits. Others stay queued, so a program that forgets to wait reads old values. An operation starts when all queued
//! operations that happen before it have ended. Each operation happens after earlier ones only, so one can always start, and a thread
//! waits only for operations that another thread runs: the queue cannot cause a deadlock.

use std::collections::VecDeque;

use crate::abi::{Answer, Error};
use crate::driver::{Driver, Guard, driver, wait_for_end};
use crate::memory::Kind;
use crate::order::{Clock, Started};
use crate::stream::Target;
use crate::work::Work;

/// Operations that are queued at most; the oldest runs when there are more.
const MOST: usize = 1 << 12;

/// A queued operation.
#[derive(Debug)]
struct Queued {
    target: Target,
    work: Work,
    started: Started,
    running: bool,
}

/// Queued operations in the order of their submission.
#[derive(Debug, Default)]
pub struct Queue {
    list: VecDeque<Queued>,
}

/// What a call waits for.
#[derive(Clone, Debug)]
pub enum Until {
    /// Everything.
    All,
    /// What happens before this clock.
    Clock(Clock),
}

impl Until {
    fn needs(&self, started: &Started) -> bool {
        match self {
            Until::All => true,
            Until::Clock(clock) => started.happens_before(clock),
        }
    }
}

/// The next step of a call that waits.
enum Next {
    /// Nothing that it needs is queued.
    Done,
    /// Another thread runs what it needs.
    Wait,
    /// Run this.
    Run(Box<(Target, Work, Started)>),
}

impl Queue {
    fn next(&mut self, until: &Until) -> Next {
        let mut waits = false;
        for at in 0..self.list.len() {
            let Some(queued) = self.list.get(at).filter(|queued| until.needs(&queued.started)) else {
                continue;
            };
            let ready = |queued: &Queued| {
                !queued.running
                    && self.list.iter().take(at).all(|other| !queued.started.follows(&other.started))
            };
            if !ready(queued) {
                waits = true;
                continue;
            }
            let Some(queued) = self.list.get_mut(at) else { continue };
            queued.running = true;
            return Next::Run(Box::new((queued.target, queued.work.clone(), queued.started.clone())));
        }
        if waits { Next::Wait } else { Next::Done }
    }

    fn ended(&mut self, started: &Started) {
        self.list.retain(|queued| !queued.started.is(started));
    }
}

/// Takes the next operation that `until` needs and passes it to `run`, which performs it with its host functions; returns when none
/// is left.
pub fn catch_up(until: &Until, run: impl Fn(Guard, Target, Work, Started)) {
    loop {
        let mut driver = driver();
        match driver.queue.next(until) {
            Next::Done => return,
            Next::Wait => drop(wait_for_end(driver)),
            Next::Run(queued) => {
                let (target, work, started) = *queued;
                let end = End(started.clone());
                run(driver, target, work, started);
                drop(end);
            }
        }
    }
}

/// Removes an operation from the queue when it has ended, also after a panic.
struct End(Started);

impl Drop for End {
    fn drop(&mut self) {
        driver().queue.ended(&self.0);
        crate::driver::ended();
    }
}

impl Driver {
    /// Queues work, if it may run later. Returns it otherwise, or the error that the call returns.
    pub fn queue(&mut self, target: Target, work: Work, started: &Started) -> Answer<Option<Work>> {
        let pinned = |address: u64| Driver::is_device_address(address) || self.allocation(address).is_some();
        if !self.settings.late {
            return Ok(Some(work));
        }
        let later = match &work {
            Work::Launch(call) => {
                self.admit(target.device, call)?;
                true
            }
            // The driver copies pageable memory before the call returns.
            Work::Copy(copy) => pinned(copy.from.address) && pinned(copy.to.address),
            Work::Set(set) => {
                set.is_aligned() && self.allocation(set.target).is_some_and(|(_, a)| a.kind == Kind::Device)
            }
            Work::Host(_) | Work::Record(_) => true,
            // A second free must fail when it is submitted.
            Work::Allocate(_)
            | Work::Free(_)
            | Work::Empty
            | Work::Wait(_)
            | Work::Child(_)
            | Work::Conditional(_)
            | Work::Assign(_) => false,
        };
        if !later {
            return Ok(Some(work));
        }
        match &work {
            Work::Copy(copy) => self.check_copy(copy)?,
            Work::Set(set) => self.check_memset(set)?,
            _ => {}
        }
        self.queue.list.push_back(Queued { target, work, started: started.clone(), running: false });
        Ok(None)
    }

    /// The clock up to which the queue must run because it is full.
    pub fn overflow(&self) -> Option<Until> {
        let oldest = self.queue.list.front().filter(|_| self.queue.list.len() > MOST)?;
        Some(Until::Clock(oldest.started.after()))
    }

    /// Stores the error of queued work that failed, as asynchronous work does.
    pub fn queued_failed(&mut self, target: Target, error: Error, started: &Started) {
        self.poison(target.context, error);
        self.unread.poisoned(target.context, error.0, "queued work", started.site());
    }
}
