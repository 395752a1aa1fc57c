//! Advice about managed memory, and where it was prefetched to. It has no effect on execution; programs can ask for it.

use std::collections::BTreeSet;
use std::ops::Range;

/// `CUmemLocation`: its type, and the number of a device or NUMA node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// `CUmemLocationType`.
    pub kind: u32,
    /// The number.
    pub id: i32,
}

/// `CU_MEM_LOCATION_TYPE_DEVICE`.
pub const DEVICE: u32 = 1;
/// `CU_MEM_LOCATION_TYPE_HOST`.
pub const HOST: u32 = 2;
/// `CU_MEM_LOCATION_TYPE_HOST_NUMA`.
pub const HOST_NUMA: u32 = 3;

/// A change of the advice about a range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Whether the memory is mostly read.
    ReadMostly(bool),
    /// The preferred location.
    Preferred(Option<Location>),
    /// Whether a device accesses the memory.
    AccessedBy(i32, bool),
    /// The location of the last prefetch.
    Prefetched(Location),
}

impl Change {
    /// Whether this change replaces another one of the same addresses.
    fn replaces(&self, other: &Change) -> bool {
        match (self, other) {
            (Change::AccessedBy(one, _), Change::AccessedBy(two, _)) => one == two,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

/// The advice about memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Whether it is mostly read.
    pub read_mostly: bool,
    /// Its preferred location.
    pub preferred: Option<Location>,
    /// The devices that access it.
    pub accessed_by: BTreeSet<i32>,
    /// The location of the last prefetch.
    pub prefetched: Option<Location>,
}

/// All advice: each change with its addresses, in the order in which the program made them.
#[derive(Debug, Default)]
pub struct Advice {
    changes: Vec<(Range<u64>, Change)>,
}

impl Advice {
    /// Adds a change. Earlier ones that it replaces completely are dropped, so that a loop of prefetches needs no more memory.
    pub fn add(&mut self, range: Range<u64>, change: Change) {
        self.changes.retain(|(old, other)| {
            !(change.replaces(other) && range.start <= old.start && old.end <= range.end)
        });
        self.changes.push((range, change));
    }

    /// Forgets the advice about memory that is freed.
    pub fn forget(&mut self, range: &Range<u64>) {
        self.changes.retain(|(old, _)| old.end <= range.start || range.end <= old.start);
    }

    /// What all bytes of a range have in common.
    pub fn of(&self, range: &Range<u64>) -> State {
        let mut starts = BTreeSet::from([range.start]);
        for (known, _) in &self.changes {
            starts.extend([known.start, known.end].into_iter().filter(|at| range.contains(at)));
        }
        let mut states = starts.into_iter().map(|at| self.at(at));
        let first = states.next().unwrap_or_default();
        states.fold(first, |common, state| State {
            read_mostly: common.read_mostly && state.read_mostly,
            preferred: common.preferred.filter(|known| state.preferred == Some(*known)),
            accessed_by: common.accessed_by.intersection(&state.accessed_by).copied().collect(),
            prefetched: common.prefetched.filter(|known| state.prefetched == Some(*known)),
        })
    }

    fn at(&self, address: u64) -> State {
        let mut state = State::default();
        for (_, change) in self.changes.iter().filter(|(range, _)| range.contains(&address)) {
            match *change {
                Change::ReadMostly(is) => state.read_mostly = is,
                Change::Preferred(location) => state.preferred = location,
                Change::AccessedBy(device, true) => drop(state.accessed_by.insert(device)),
                Change::AccessedBy(device, false) => drop(state.accessed_by.remove(&device)),
                Change::Prefetched(location) => state.prefetched = Some(location),
            }
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: Location = Location { kind: DEVICE, id: 0 };
    const CPU: Location = Location { kind: HOST, id: 0 };

    #[test]
    fn a_range_has_what_all_its_bytes_have_in_common() {
        let mut advice = Advice::default();
        advice.add(0..100, Change::ReadMostly(true));
        advice.add(0..50, Change::Preferred(Some(GPU)));
        advice.add(0..100, Change::AccessedBy(0, true));
        advice.add(20..30, Change::AccessedBy(1, true));
        let part = advice.of(&(20..30));
        assert_eq!((part.read_mostly, part.preferred), (true, Some(GPU)));
        assert_eq!(part.accessed_by, BTreeSet::from([0, 1]));
        let all = advice.of(&(0..100));
        assert_eq!((all.read_mostly, all.preferred, all.prefetched), (true, None, None));
        assert_eq!(all.accessed_by, BTreeSet::from([0]));
        assert!(!advice.of(&(0..101)).read_mostly);
        advice.add(50..100, Change::Preferred(Some(CPU)));
        assert_eq!(advice.of(&(0..100)).preferred, None);
        advice.add(0..100, Change::Preferred(None));
        assert_eq!(advice.of(&(0..50)).preferred, None);
        advice.forget(&(0..100));
        assert_eq!(advice.of(&(0..100)), State::default());
    }

    #[test]
    fn a_loop_of_prefetches_keeps_one_change() {
        let mut advice = Advice::default();
        for i in 0..100 {
            advice.add(0..64, Change::Prefetched(if i % 2 == 0 { GPU } else { CPU }));
        }
        assert_eq!(advice.changes.len(), 1);
        assert_eq!(advice.of(&(8..16)).prefetched, Some(CPU));
    }
}
