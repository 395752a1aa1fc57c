//! What shared and local memory holds of values that depend on the machine, by words of 32 bits.

use super::lane::Lane;
use std::collections::BTreeMap;

/// The words that depend on something. A word of a longer value says which part of it it is.
#[derive(Debug, Default)]
pub(super) struct Shadow(BTreeMap<(usize, u32), (Lane, bool)>);

impl Shadow {
    /// An element is stored. Part of a word is added to what the word holds.
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
