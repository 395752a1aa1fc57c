//! The findings of a block, or of a launch: one for each pair of instructions, with a count.

use super::{Class, Severity};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry::{Occupied, Vacant};

/// An instruction of a finding, with a label and the thread.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    pub label: String,
    pub pc: u32,
    /// The linear indices of the block and of the thread in it, if a single thread did it.
    pub thread: Option<(u32, u32)>,
}

/// A finding before its source locations are resolved.
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

/// Identifies equal findings: the class, two instructions, and a variant chosen by the check.
pub(crate) type Key = (Class, u32, u32, u32);

/// Findings by key, in the order in which they were found.
#[derive(Debug, Default)]
pub(crate) struct RawFindings {
    entries: Vec<Entry>,
    index: BTreeMap<Key, usize>,
    /// Gets the findings of the race check if that check runs only because other checks need its information.
    muted_races: Option<Box<RawFindings>>,
    /// Whether it drops what is added.
    drops: bool,
}

#[derive(Debug)]
struct Entry {
    key: Key,
    reach: Reach,
    raw: Raw,
}

/// The source lines of a finding with their labels, in order.
type Lines = Vec<(String, String)>;

/// The smallest group that contains the threads of a finding; a fix for a wider group also fixes narrower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// One warp.
    Warp,
    /// One block.
    Block,
    /// Several blocks.
    Grid,
}

impl RawFindings {
    /// A list that drops the findings of the race check.
    pub(crate) fn without_races() -> RawFindings {
        let muted = RawFindings { drops: true, ..RawFindings::default() };
        RawFindings { muted_races: Some(Box::new(muted)), ..RawFindings::default() }
    }

    /// The list to which the race check adds.
    pub(crate) fn races(&mut self) -> &mut RawFindings {
        if self.muted_races.is_none() {
            return self;
        }
        self.muted_races.get_or_insert_default()
    }

    /// Whether there is no finding.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether there is a finding of a class.
    pub(crate) fn has(&self, class: Class) -> bool {
        self.index.range((class, 0, 0, 0)..=(class, u32::MAX, u32::MAX, u32::MAX)).next().is_some()
    }

    /// Counts an occurrence; `describe` is called for the first one, and again for one that is more severe.
    pub(crate) fn add(&mut self, key: Key, severity: Severity, describe: impl FnOnce() -> Raw) {
        self.add_reaching(key, severity, Reach::Warp, describe);
    }

    /// As [`add`](Self::add), but an occurrence with a wider reach also replaces the description.
    pub(crate) fn add_reaching(
        &mut self,
        key: Key,
        severity: Severity,
        reach: Reach,
        describe: impl FnOnce() -> Raw,
    ) {
        self.add_times(key, severity, reach, 1, describe);
    }

    /// As [`add_reaching`](Self::add_reaching), for several occurrences.
    pub(crate) fn add_times(
        &mut self,
        key: Key,
        severity: Severity,
        reach: Reach,
        count: u64,
        describe: impl FnOnce() -> Raw,
    ) {
        if self.drops {
            return;
        }
        if let Some(&i) = self.index.get(&key) {
            let ours = &mut self.entries[i];
            ours.raw.count += count;
            if ours.yields_to(severity, reach) {
                ours.raw = Raw { count: ours.raw.count, ..describe() };
                ours.reach = reach;
            }
        } else {
            self.index.insert(key, self.entries.len());
            self.entries.push(Entry { key, reach, raw: Raw { count, ..describe() } });
        }
    }

    /// Takes over another raw_findings's findings.
    pub(crate) fn merge(&mut self, other: RawFindings) {
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

    /// Replaces the findings for which `instead` returns another one.
    pub(crate) fn replace(&mut self, mut instead: impl FnMut(&Raw) -> Option<Raw>) {
        for entry in &mut self.entries {
            if let Some(raw) = instead(&entry.raw) {
                entry.raw = raw;
            }
        }
    }

    /// Removes the findings whose key `drop` accepts.
    pub(crate) fn forget(&mut self, drop: impl Fn(&Key) -> bool) {
        let keep: Vec<bool> = self.entries.iter().map(|entry| !drop(&entry.key)).collect();
        self.retain(&keep);
    }

    /// Keeps the findings for which `keep`, in their order, is true.
    pub(crate) fn retain(&mut self, keep: &[bool]) {
        let mut keep = keep.iter();
        self.entries.retain(|_| *keep.next().unwrap_or(&true));
    }

    /// The findings. Copies of one bug (an unrolled loop, an inlined call) are merged: findings with the same source
    /// lines, as given by `line`, and the same labels.
    pub(crate) fn into_raw(self, line: impl Fn(u32) -> Option<String>) -> Vec<Raw> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut known: BTreeMap<(Class, Severity, Lines), usize> = BTreeMap::new();
        for entry in self.entries {
            // The wait that left a copy in flight only explains the finding; it does not distinguish it.
            let counted = if entry.raw.class == Class::AsyncCopy { 2 } else { usize::MAX };
            let spots = entry.raw.spots.iter().take(counted);
            let lines: Option<Lines> = spots.map(|spot| Some((line(spot.pc)?, spot.label.clone()))).collect();
            let Some(mut lines) = lines.filter(|lines| !lines.is_empty()) else {
                entries.push(entry);
                continue;
            };
            // For copies the order matters: a copy that comes first needs another fix than one that comes last.
            if entry.raw.class != Class::AsyncCopy {
                lines.sort();
            }
            match known.entry((entry.raw.class, entry.raw.severity, lines)) {
                Occupied(first) => {
                    let ours = &mut entries[*first.get()];
                    let count = ours.raw.count + entry.raw.count;
                    let detail = |entry: &Entry| (entry.raw.spots.len(), entry.reach);
                    if detail(&entry) > detail(ours) {
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
    /// Whether another occurrence replaces this one: an error replaces a note, then a wider reach a narrower one.
    fn yields_to(&self, severity: Severity, reach: Reach) -> bool {
        severity < self.raw.severity || (severity == self.raw.severity && reach > self.reach)
    }
}
