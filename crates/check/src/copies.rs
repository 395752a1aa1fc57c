//! Asynchronous copies in flight, and why a copy that conflicts with another access is still in flight: it is not
//! committed to a group yet, the thread has not waited since, or its last wait leaves the copy's group in flight.
//!
//! Source: `cp.async.commit_group` and `cp.async.wait_group` in the PTX manual: a wait for N returns when at most the N newest
//! groups of the thread are pending.

use super::clock::Who;
use super::raw::{Raw, Spot};
use foldhash::fast::FixedState;
use std::collections::HashMap;
use warpproof_sim::machine::{at, lanes_of};
use warpproof_sim::observe::AsyncCopy;

/// A copy in flight.
#[derive(Clone, Copy, Debug)]
struct Flight {
    copy: AsyncCopy,
    /// When it was issued, in the block's count of copies and waits.
    time: u64,
}

/// The last wait of a thread.
#[derive(Clone, Copy, Debug)]
struct Wait {
    pc: u32,
    /// Groups it leaves in flight.
    leaves: u32,
    /// Groups that the thread had committed.
    commits: u32,
    time: u64,
}

/// The copies of one block.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// Copies in flight, by the first byte they write.
    flights: HashMap<u32, Flight, FixedState>,
    /// Groups committed by each thread.
    commits: Vec<u32>,
    waits: Vec<Option<Wait>>,
    time: u64,
}

/// The place of a thread in a list that has one for each.
fn place<T: Clone + Default>(list: &mut Vec<T>, who: Who) -> &mut T {
    let index = usize::from(who.0);
    if list.len() <= index {
        list.resize(index + 1, T::default());
    }
    &mut list[index]
}

impl Copies {
    pub(crate) fn issued(&mut self, copy: &AsyncCopy) {
        self.time += 1;
        self.flights.insert(copy.to, Flight { copy: *copy, time: self.time });
    }

    pub(crate) fn done(&mut self, copy: &AsyncCopy) {
        let same = |flight: &Flight| {
            let known = &flight.copy;
            (known.warp, known.lane, known.group) == (copy.warp, copy.lane, copy.group)
        };
        if self.flights.get(&copy.to).is_some_and(same) {
            self.flights.remove(&copy.to);
        }
    }

    /// Lanes commit their copies.
    pub(crate) fn commit(&mut self, warp: u32, lanes: u32) {
        for lane in lanes_of(lanes) {
            *place(&mut self.commits, Who::new(warp, lane)) += 1;
        }
    }

    /// Lanes wait for all of their groups except the newest `leaves`.
    pub(crate) fn wait(&mut self, warp: u32, lanes: u32, pc: u32, leaves: u32) {
        self.time += 1;
        for lane in lanes_of(lanes) {
            let who = Who::new(warp, lane);
            let commits = *place(&mut self.commits, who);
            *place(&mut self.waits, who) = Some(Wait { pc, leaves, commits, time: self.time });
        }
    }

    /// The copy in flight that a thread issued and that writes this byte of shared memory.
    pub(crate) fn of(&self, who: Who, address: u32) -> Option<AsyncCopy> {
        let holds = |copy: &AsyncCopy| {
            Who::new(copy.warp, at(copy.lane)) == who && address.wrapping_sub(copy.to) < copy.size
        };
        let near = (address.saturating_sub(128)..=address).rev();
        near.filter_map(|to| self.flights.get(&to)).map(|flight| flight.copy).find(holds)
    }

    /// Adds to a report why the copy is still in flight and how to fix it. `then` is appended to the help: what is
    /// needed after the wait.
    pub(crate) fn explain(&self, raw: &mut Raw, copy: &AsyncCopy, block: u32, then: &str) {
        let who = Who::new(copy.warp, at(copy.lane));
        let commits = self.commits.get(usize::from(who.0)).copied().unwrap_or(0);
        if commits <= copy.group {
            raw.help = Some(
                "commit the copy with cp.async.commit_group first: it is not in a group yet, so no wait_group covers it"
                    .to_owned(),
            );
            return;
        }
        let issued = self.flights.get(&copy.to).map_or(0, |flight| flight.time);
        // Groups that may stay in flight now: those committed after the copy's.
        let newer = commits - 1 - copy.group;
        let Some(wait) =
            self.waits.get(usize::from(who.0)).copied().flatten().filter(|wait| wait.time > issued)
        else {
            raw.help = Some(format!("wait for the copy's group first: cp.async.wait_group {newer}{then}"));
            return;
        };
        let thread = Some((block, u32::from(who.0)));
        if wait.commits <= copy.group {
            let label = "this wait comes before the copy's group is committed".to_owned();
            raw.spots.push(Spot { label, pc: wait.pc, thread });
            raw.help = Some(format!("wait after the commit: cp.async.wait_group {newer}{then}"));
            return;
        }
        let (leaves, needed) = (wait.leaves, wait.commits - 1 - copy.group);
        let groups = if leaves == 1 { "1 group".to_owned() } else { format!("{leaves} groups") };
        let among = if leaves == 1 { "this copy is in it" } else { "this copy is in one of them" };
        let label = format!("this wait leaves the newest {groups} in flight; {among}");
        raw.spots.push(Spot { label, pc: wait.pc, thread });
        raw.help = Some(format!(
            "wait for the copy's group: cp.async.wait_group {needed} instead of {leaves}{then}"
        ));
    }
}
