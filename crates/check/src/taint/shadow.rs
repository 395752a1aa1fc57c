//! The machine-dependent values in shared and local memory, per 32-bit word.

use super::lane::Lane;
use std::collections::BTreeMap;

/// The words that depend on a source. The flag marks the second word of an 8-byte value.
#[derive(Debug, Default)]
pub(super) struct Shadow(BTreeMap<(usize, u32), (Lane, bool)>);

impl Shadow {
    /// An element is stored. A store to a part of a word is joined with the rest of the word.
    pub(super) fn store(&mut self, lane: usize, address: u32, bytes: u32, value: Lane) {
        if value.is_clean() && self.0.is_empty() {
            return;
        }
        if bytes < 4 {
            if !value.is_clean() {
                let word = self.0.entry((lane, address / 4)).or_insert((Lane::CLEAN, false));
                *word = (word.0.joined(value), false);
            }
            return;
        }
        for word in 0..bytes / 4 {
            let key = (lane, address / 4 + word);
            if value.is_clean() {
                self.0.remove(&key);
            } else {
                self.0.insert(key, (value, bytes == 8 && word == 1));
            }
        }
    }

    /// An element is loaded.
    pub(super) fn load(&self, lane: usize, address: u32, bytes: u32) -> Lane {
        if self.0.is_empty() {
            return Lane::CLEAN;
        }
        let word = |index: u32| self.0.get(&(lane, address / 4 + index)).copied();
        match (bytes, word(0), word(1)) {
            (8, Some((low, false)), Some((high, true))) if low == high => low,
            (..=4, Some((value, false)), _) if bytes == 4 => value,
            (..=4, Some((value, true)), _) if bytes == 4 => value.upper_half(),
            _ => {
                let words = (0..bytes.div_ceil(4)).filter_map(word);
                words.fold(Lane::CLEAN, |all, (one, _)| all.joined(one))
            }
        }
    }
}
