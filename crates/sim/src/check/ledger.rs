//! The findings of a block, or of a launch: one for each pair of places, with how often.

use super::finding::{Class, Severity};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry::{Occupied, Vacant};

/// A place and who was there.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    pub label: String,
    pub pc: u32,
    /// The block's number and the thread's in it, where one thread did it.
    pub thread: Option<(u32, u32)>,
}

/// A finding before its places are looked up.
#[derive(Clone, Debug)]
pub(crate) struct Raw {
    pub class: Class,
    pub severity: Severity,
    pub sentence: String,
    pub spots: Vec<Spot>,
    pub notes: Vec<String>,
    pub help: Option<String>,
    pub count: u64,
}

impl Raw {
    /// Whether an instruction is among its places.
    pub(crate) fn names(&self, pc: u32) -> bool {
        self.spots.iter().any(|spot| spot.pc == pc)
    }
}

/// What makes findings the same: the class, two instructions, and a distinction of the check's own.
pub(crate) type Key = (Class, u32, u32, u32);

/// Findings by key, in the order in which they were found.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: Vec<Entry>,
    index: BTreeMap<Key, usize>,
}

#[derive(Debug)]
struct Entry {
    key: Key,
    reach: Reach,
    raw: Raw,
}

/// The lines of a finding's places with their labels, in order.
type Lines = Vec<(String, String)>;

/// How far apart the threads of a finding are; what mends the farthest mends the others too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// One warp.
    Warp,
    /// One block.
    Block,
    /// Several blocks.
    Grid,
}

impl Ledger {
    /// Whether something of a class was found.
    pub(crate) fn has(&self, class: Class) -> bool {
        self.index.range((class, 0, 0, 0)..=(class, u32::MAX, u32::MAX, u32::MAX)).next().is_some()
    }

    /// One more occurrence; `describe` is asked the first time, and when it turns out to be graver than it seemed.
    pub(crate) fn add(&mut self, key: Key, severity: Severity, describe: impl FnOnce() -> Raw) {
        self.add_reaching(key, severity, Reach::Warp, describe);
    }

    /// As [`add`](Self::add), where one with threads farther apart says more.
    pub(crate) fn add_reaching(
        &mut self,
        key: Key,
        severity: Severity,
        reach: Reach,
        describe: impl FnOnce() -> Raw,
    ) {
        if let Some(&i) = self.index.get(&key) {
            let ours = &mut self.entries[i];
            ours.raw.count += 1;
            if ours.yields_to(severity, reach) {
                ours.raw = Raw { count: ours.raw.count, ..describe() };
                ours.reach = reach;
            }
        } else {
            self.index.insert(key, self.entries.len());
            self.entries.push(Entry { key, reach, raw: describe() });
        }
    }

    /// Takes over another ledger's findings.
    pub(crate) fn merge(&mut self, other: Ledger) {
        for entry in other.entries {
            if let Some(&i) = self.index.get(&entry.key) {
                let ours = &mut self.entries[i];
                let count = ours.raw.count + entry.raw.count;
                if ours.yields_to(entry.raw.severity, entry.reach) {
                    *ours = entry;
                }
                ours.raw.count = count;
            } else {
                self.index.insert(entry.key, self.entries.len());
                self.entries.push(entry);
            }
        }
    }

    /// The findings as they were found.
    pub(crate) fn raws(&self) -> impl Iterator<Item = &Raw> {
        self.entries.iter().map(|entry| &entry.raw)
    }

    /// Puts other findings in the place of those for which `instead` gives one.
    pub(crate) fn replace(&mut self, mut instead: impl FnMut(&Raw) -> Option<Raw>) {
        for entry in &mut self.entries {
            if let Some(raw) = instead(&entry.raw) {
                entry.raw = raw;
            }
        }
    }

    /// Forgets the findings that `drop` names by their key.
    pub(crate) fn forget(&mut self, drop: impl Fn(&Key) -> bool) {
        let keep: Vec<bool> = self.entries.iter().map(|entry| !drop(&entry.key)).collect();
        self.retain(&keep);
    }

    /// Keeps the findings for which `keep`, in their order, is true.
    pub(crate) fn retain(&mut self, keep: &[bool]) {
        let mut keep = keep.iter();
        self.entries.retain(|_| *keep.next().unwrap_or(&true));
    }

    /// The findings; copies of one mistake (an unrolled loop, an inlined call), which `line` gives the same lines and which
    /// say the same of them, are one.
    pub(crate) fn into_raw(self, line: impl Fn(u32) -> Option<String>) -> Vec<Raw> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut known: BTreeMap<(Class, Severity, Lines), usize> = BTreeMap::new();
        for entry in self.entries {
            // The wait that a copy was left in flight by explains the finding; it does not make it another one.
            let counted = if entry.raw.class == Class::AsyncCopy { 2 } else { usize::MAX };
            let spots = entry.raw.spots.iter().take(counted);
            let lines: Option<Lines> = spots.map(|spot| Some((line(spot.pc)?, spot.label.clone()))).collect();
            let Some(mut lines) = lines.filter(|lines| !lines.is_empty()) else {
                entries.push(entry);
                continue;
            };
            // A copy that comes first is mended otherwise than one that comes last.
            if entry.raw.class != Class::AsyncCopy {
                lines.sort();
            }
            match known.entry((entry.raw.class, entry.raw.severity, lines)) {
                Occupied(first) => {
                    let ours = &mut entries[*first.get()];
                    let count = ours.raw.count + entry.raw.count;
                    let says = |entry: &Entry| (entry.raw.spots.len(), entry.reach);
                    if says(&entry) > says(ours) {
                        *ours = entry;
                    }
                    ours.raw.count = count;
                }
                Vacant(place) => {
                    place.insert(entries.len());
                    entries.push(entry);
                }
            }
        }
        entries.into_iter().map(|entry| entry.raw).collect()
    }
}

impl Entry {
    /// Whether another about the same places says more: an error more than a note, then the one that reaches farther.
    fn yields_to(&self, severity: Severity, reach: Reach) -> bool {
        severity < self.raw.severity || (severity == self.raw.severity && reach > self.reach)
    }
}
