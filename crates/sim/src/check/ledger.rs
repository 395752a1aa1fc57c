//! The findings of a block, or of a launch: one for each pair of places, with how often.

use super::finding::{Class, Severity};
use std::collections::BTreeMap;

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
    entries: Vec<(Key, Raw)>,
    index: BTreeMap<Key, usize>,
}

impl Ledger {
    /// One more occurrence; `describe` is asked the first time, and when it turns out to be graver than it seemed.
    pub(crate) fn add(&mut self, key: Key, severity: Severity, describe: impl FnOnce() -> Raw) {
        match self.index.get(&key) {
            Some(&i) => {
                let raw = &mut self.entries[i].1;
                raw.count += 1;
                if severity < raw.severity {
                    *raw = Raw { count: raw.count, ..describe() };
                }
            }
            None => {
                self.index.insert(key, self.entries.len());
                self.entries.push((key, describe()));
            }
        }
    }

    /// Takes over another ledger's findings.
    pub(crate) fn merge(&mut self, other: Ledger) {
        for (key, raw) in other.entries {
            match self.index.get(&key) {
                Some(&i) => {
                    let ours = &mut self.entries[i].1;
                    ours.count += raw.count;
                    // An error says more than a note about the same places.
                    if raw.severity < ours.severity {
                        *ours = Raw { count: ours.count, ..raw };
                    }
                }
                None => {
                    self.index.insert(key, self.entries.len());
                    self.entries.push((key, raw));
                }
            }
        }
    }

    pub(crate) fn into_raw(self) -> impl Iterator<Item = Raw> {
        self.entries.into_iter().map(|(_, raw)| raw)
    }
}
