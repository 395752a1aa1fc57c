//! What each step accesses. Two dependent steps (one writes what the other accesses) are explored in both orders,
//! independent steps in one.

use std::sync::{Mutex, PoisonError};
use warpproof_sim::machine::{Access, AccessKind, Ready, lanes_of};
use warpproof_sim::memory::Space;
use warpproof_sim::observe::{Arrival, Mbarrier, MbarrierAction};

/// The memory or barrier that a step accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Resource {
    Global,
    /// Shared memory of a block.
    Shared(u32),
    /// Barriers of a block, by number.
    Barrier(u32),
}

/// How a step accesses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    Reads,
    /// An addition or similar atomic whose result is unused: two of the same kind commute.
    Combines(u32),
    Writes,
}

/// Bytes that a step accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark {
    place: Resource,
    begin: u64,
    end: u64,
    effect: Effect,
}

impl Mark {
    pub(super) fn writes(&self) -> bool {
        self.effect != Effect::Reads
    }

    fn meets(&self, other: &Mark) -> bool {
        self.place == other.place && self.begin < other.end && other.begin < self.end
    }

    /// Whether the order of the two matters.
    fn depends(&self, other: &Mark) -> bool {
        let free = match (self.effect, other.effect) {
            (Effect::Reads, Effect::Reads) => true,
            (Effect::Combines(a), Effect::Combines(b)) => a == b,
            _ => false,
        };
        !free && self.meets(other)
    }
}

/// Whether the order of two steps matters.
pub(super) fn dependent(a: &[Mark], b: &[Mark]) -> bool {
    a.iter().any(|a| b.iter().any(|b| a.depends(b)))
}

/// Whether a step may change what was read.
pub(super) fn touches(changes: &[Mark], read: &[Mark]) -> bool {
    changes.iter().filter(|mark| mark.writes()).any(|change| read.iter().any(|read| change.meets(read)))
}

/// What the current step accesses; the observers of all blocks write to it.
#[derive(Debug, Default)]
pub(crate) struct Log(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    step: Option<Ready>,
    /// For an atomic that commutes with others of its kind: the kind.
    combines: Option<u32>,
    marks: Vec<Mark>,
}

impl Log {
    /// Starts recording a step.
    pub(super) fn begin(&self, step: Ready, combines: Option<u32>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            Taken { step: Some(step), combines, marks: Vec::new() };
    }

    /// Ends the step and returns what it accessed.
    pub(super) fn take(&self) -> Vec<Mark> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.step = None;
        let mut marks = std::mem::take(&mut taken.marks);
        marks.sort_unstable();
        // Merge adjacent bytes of several lanes into one mark.
        marks.dedup_by(|next, mark| {
            let joins = (mark.place, mark.effect) == (next.place, next.effect) && next.begin <= mark.end;
            if joins {
                mark.end = mark.end.max(next.end);
            }
            joins
        });
        marks
    }

    fn add(&self, block: u32, warp: u32, pc: u32, marks: impl FnOnce(&mut Taken)) {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.step == Some(Ready { block, warp, pc }) {
            marks(&mut taken);
        }
    }

    pub(crate) fn access(&self, access: &Access<'_>) {
        let place = match access.space {
            Space::Global => Resource::Global,
            Space::Shared => Resource::Shared(access.block),
            _ => return,
        };
        self.add(access.block, access.warp, access.pc, |taken| {
            for lane in lanes_of(access.lanes) {
                let effect = match (access.kind, taken.combines) {
                    (AccessKind::Read, _) => Effect::Reads,
                    (AccessKind::Atomic, Some(kind)) => Effect::Combines(kind),
                    _ if access.unchanged >> lane & 1 == 1 => Effect::Reads,
                    _ => Effect::Writes,
                };
                let begin = access.addresses.0[lane];
                let end = begin.saturating_add(u64::from(access.bytes));
                taken.marks.push(Mark { place, begin, end, effect });
            }
        });
    }

    pub(crate) fn mbarrier(&self, block: u32, mbarrier: &Mbarrier) {
        let asks = matches!(mbarrier.action, MbarrierAction::Test(_));
        let effect = if asks { Effect::Reads } else { Effect::Writes };
        let begin = u64::from(mbarrier.address);
        self.add(block, mbarrier.warp, mbarrier.pc, |taken| {
            taken.marks.push(Mark { place: Resource::Shared(block), begin, end: begin + 8, effect });
        });
    }

    pub(crate) fn arrive(&self, block: u32, arrival: &Arrival) {
        let begin = u64::from(arrival.id);
        self.add(block, arrival.warp, arrival.pc, |taken| {
            let mark =
                Mark { place: Resource::Barrier(block), begin, end: begin + 1, effect: Effect::Writes };
            taken.marks.push(mark);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(begin: u64, effect: Effect) -> Mark {
        Mark { place: Resource::Global, begin, end: begin + 4, effect }
    }

    #[test]
    fn what_changes_places_is_independent() {
        use Effect::{Combines, Reads, Writes};
        let depends = |a, b| dependent(&[mark(0, a)], &[mark(0, b)]);
        assert!(!depends(Reads, Reads));
        assert!(depends(Reads, Writes) && depends(Writes, Reads) && depends(Writes, Writes));
        assert!(!depends(Combines(1), Combines(1)));
        assert!(depends(Combines(1), Combines(2)) && depends(Combines(1), Reads));
        assert!(!dependent(&[mark(0, Writes)], &[mark(4, Writes)]));
        assert!(
            !touches(&[mark(0, Reads)], &[mark(0, Reads)]) && touches(&[mark(0, Writes)], &[mark(2, Reads)])
        );
    }
}
