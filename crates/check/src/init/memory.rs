//! Which bytes of shared and local memory are uninitialized or hold poisoned values.

use super::super::race::SharedRace;
use super::registers::{Origin, Source};
use std::collections::BTreeMap;
use warpproof_sim::machine::at;

/// Bytes per line; for each line of shared memory, a bit records whether it is known to be fully written.
const LINE: u32 = 64;

/// A mask of `count` low bits.
fn ones(count: u32) -> u32 {
    if count >= 32 { u32::MAX } else { (1 << count) - 1 }
}

/// One bit per byte.
#[derive(Clone, Debug)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(bytes: u32) -> Bits {
        Bits(vec![0; at(bytes.div_ceil(64))])
    }

    fn get(&self, bit: u32) -> bool {
        self.0.get(at(bit / 64)).is_some_and(|word| word >> (bit % 64) & 1 != 0)
    }

    fn set(&mut self, bit: u32, value: bool) {
        if let Some(word) = self.0.get_mut(at(bit / 64)) {
            *word = *word & !(1 << (bit % 64)) | u64::from(value) << (bit % 64);
        }
    }
}

/// Shared memory of a block.
#[derive(Debug)]
pub(super) struct Shared {
    size: u32,
    /// Bytes that were written; `None` if the race check records them.
    written: Option<Bits>,
    /// Whether lines are summarized.
    by_line: bool,
    /// Lines that are known to be fully written.
    complete: Bits,
    /// Number of lines that are not.
    lines_left: u32,
    /// Bytes to which a poisoned value was stored.
    dirty: Option<Bits>,
    /// The origins of those values, by pairs of bytes.
    origins: BTreeMap<u32, Origin>,
}

impl Shared {
    /// `race_tracks`: the race check records which bytes were written; `by_line`: lines are summarized.
    pub(super) fn new(size: u32, race_tracks: bool, by_line: bool) -> Shared {
        Shared {
            size,
            by_line,
            written: (!race_tracks).then(|| Bits::new(size)),
            complete: Bits::new(size.div_ceil(LINE)),
            lines_left: size.div_ceil(LINE),
            dirty: None,
            origins: BTreeMap::new(),
        }
    }

    /// That of another block, as far as its own thread writes it.
    pub(super) fn of_another_block(&self) -> Shared {
        Shared::new(self.size, true, self.by_line)
    }

    fn word_written(&self, race: Option<&SharedRace>, word: u32) -> bool {
        match (&self.written, race) {
            (Some(own), _) => (4 * word..4 * word + 4).all(|byte| own.get(byte)),
            (None, Some(race)) => race.word_written(word),
            (None, None) => true,
        }
    }

    fn byte_written(&self, race: Option<&SharedRace>, byte: u32) -> bool {
        match (&self.written, race) {
            (Some(own), _) => own.get(byte),
            (None, Some(race)) => race.written(byte),
            (None, None) => true,
        }
    }

    /// Whether no byte that was written is poisoned.
    pub(super) fn clean(&self) -> bool {
        self.dirty.is_none()
    }

    /// Whether all of it was written, with no poisoned value.
    #[inline]
    pub(super) fn all_written(&self) -> bool {
        self.lines_left == 0 && self.clean()
    }

    /// Whether all lines with these bytes are known to be fully written, with no poisoned value.
    pub(super) fn are_written(&self, bytes: std::ops::Range<u32>) -> bool {
        self.clean() && (bytes.start / LINE..bytes.end.div_ceil(LINE)).all(|line| self.complete.get(line))
    }

    /// The poisoned bytes among up to 32 bytes.
    #[inline]
    pub(super) fn poisoned(&mut self, race: Option<&SharedRace>, address: u32, bytes: u32) -> u32 {
        // Memory beyond the block's own belongs to the system.
        if address >= self.size {
            return 0;
        }
        // An access is aligned, so it stays within its line.
        if self.clean() && self.complete.get(address / LINE) {
            return 0;
        }
        self.look(race, address, bytes)
    }

    fn look(&mut self, race: Option<&SharedRace>, address: u32, bytes: u32) -> u32 {
        let mut missing = 0;
        let mut byte = address;
        while byte < address.saturating_add(bytes) {
            if byte.is_multiple_of(4) && self.word_written(race, byte / 4) {
                byte += 4;
                continue;
            }
            if !self.byte_written(race, byte) {
                missing |= 1u32.checked_shl(byte - address).unwrap_or(0);
            }
            byte += 1;
        }
        // Tried only at the start of a line, to limit the cost for memory that is never fully written.
        if missing == 0 && address.is_multiple_of(LINE) {
            self.look_at_line(race, address / LINE);
        }
        if let Some(dirty) = &self.dirty {
            missing |= (0..bytes.min(32)).filter(|i| dirty.get(address + i)).fold(0, |m, i| m | 1 << i);
        }
        missing & ones(bytes)
    }

    /// Finds out whether a line is fully written.
    fn look_at_line(&mut self, race: Option<&SharedRace>, line: u32) {
        let start = line.saturating_mul(LINE);
        let end = self.size.min(start.saturating_add(LINE));
        let whole =
            || end.is_multiple_of(4) && (start / 4..end / 4).all(|word| self.word_written(race, word));
        if self.by_line && whole() {
            self.lines_left -= u32::from(!self.complete.get(line));
            self.complete.set(line, true);
        }
    }

    /// As [`are_written`](Self::are_written), and finds out what is not known yet.
    pub(super) fn turn_out_written(
        &mut self,
        race: Option<&SharedRace>,
        bytes: std::ops::Range<u32>,
    ) -> bool {
        // What is behind the block's own memory belongs to the system.
        let known = self.clean() && bytes.end <= self.size;
        known
            && (bytes.start / LINE..bytes.end.div_ceil(LINE)).all(|line| {
                if !self.complete.get(line) {
                    self.look_at_line(race, line);
                }
                self.complete.get(line)
            })
    }

    /// The origin of the poisoned value that was stored there.
    pub(super) fn stored(&self, byte: u32) -> Option<Origin> {
        self.dirty.as_ref().filter(|dirty| dirty.get(byte))?;
        self.origins.get(&(byte / 2)).copied()
    }

    /// Whether a store of clean values changes nothing here.
    #[inline]
    pub(super) fn ignores_writes(&self) -> bool {
        self.written.is_none() && self.clean()
    }

    /// A store of clean values.
    #[inline]
    pub(super) fn write(&mut self, address: u32, bytes: u32) {
        if !self.ignores_writes() {
            self.write_poisoned(address, bytes, 0, |_| None);
        }
    }

    /// A store of values with some poisoned bytes; `origin` gives the origin of each byte.
    pub(super) fn write_poisoned(
        &mut self,
        address: u32,
        bytes: u32,
        poisoned: u32,
        origin: impl Fn(u32) -> Option<Origin>,
    ) {
        if poisoned != 0 {
            self.dirty.get_or_insert_with(|| Bits::new(self.size));
        }
        for i in 0..bytes.min(LINE) {
            if let Some(written) = &mut self.written {
                written.set(address.saturating_add(i), true);
            }
            if let Some(dirty) = &mut self.dirty {
                let is = poisoned.checked_shr(i).unwrap_or(0) & 1 != 0;
                let byte = address.saturating_add(i);
                dirty.set(byte, is);
                if let Some(origin) = origin(i).filter(|_| is && byte < self.size) {
                    self.origins.insert(byte / 2, origin);
                }
            }
        }
    }
}

/// Local memory of a warp: for each word, four bits of each lane.
#[derive(Clone, Debug, Default)]
pub(super) struct Local {
    written: Vec<u128>,
    /// The origins of poisoned values that were stored, by word and lane.
    origins: BTreeMap<(u32, usize), Origin>,
}

impl Local {
    /// The poisoned bytes among up to 32 bytes.
    pub(super) fn poisoned(&self, lane: usize, address: u32, bytes: u32) -> u32 {
        let mut missing = 0;
        for i in 0..bytes.min(32) {
            let byte = address.saturating_add(i);
            let word = self.written.get(at(byte / 4)).copied().unwrap_or(0);
            missing |= u32::from(word >> (4 * lane + at(byte % 4)) & 1 == 0) << i;
        }
        missing
    }

    /// The origin of the poisoned value that was stored there.
    pub(super) fn stored(&self, lane: usize, byte: u32) -> Option<Origin> {
        self.origins.get(&(byte / 4, lane)).copied()
    }

    /// A store; its `poisoned` bytes count as never written, and `origin` gives the origin of each byte.
    pub(super) fn write(
        &mut self,
        lane: usize,
        address: u32,
        bytes: u32,
        poisoned: u32,
        origin: impl Fn(u32) -> Option<Origin>,
    ) {
        let end = at(address.saturating_add(bytes).div_ceil(4));
        if self.written.len() < end {
            self.written.resize(end, 0);
        }
        for i in 0..bytes {
            let byte = address.saturating_add(i);
            if let Some(word) = self.written.get_mut(at(byte / 4)) {
                let bit = 1 << (4 * lane + at(byte % 4));
                let is = poisoned.checked_shr(i).unwrap_or(0) & 1 != 0;
                *word = if is { *word & !bit } else { *word | bit };
            }
            let is = poisoned.checked_shr(i).unwrap_or(0) & 1 != 0;
            // A value that is stored back to where it was read (`count[i]++`) gets its origin from the next read.
            let elsewhere =
                |origin: &Origin| !matches!(origin.source, Source::Local(from) if from / 4 == byte / 4);
            if let Some(origin) = origin(i).filter(|origin| is && elsewhere(origin)) {
                self.origins.insert((byte / 4, lane), origin);
            } else if !self.origins.is_empty() && byte.is_multiple_of(4) {
                self.origins.remove(&(byte / 4, lane));
            }
        }
    }

    /// A new frame for some lanes.
    pub(super) fn forget(&mut self, lanes: u32, frame: std::ops::Range<u32>) {
        let mask = super::lanes_of(lanes).fold(0u128, |mask, lane| mask | 0xf << (4 * lane));
        if !self.origins.is_empty() {
            self.origins.retain(|(word, lane), _| {
                lanes >> lane & 1 == 0 || !(frame.start / 4..frame.end.div_ceil(4)).contains(word)
            });
        }
        let end = at(frame.end.div_ceil(4)).min(self.written.len());
        if let Some(words) = self.written.get_mut(at(frame.start / 4)..end) {
            for word in words {
                *word &= !mask;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_bytes_are_poisoned_until_written_and_by_poison() {
        let mut shared = Shared::new(256, false, true);
        assert_eq!(shared.poisoned(None, 64, 8), 0xff);
        shared.write(64, 4);
        assert_eq!(shared.poisoned(None, 64, 8), 0xf0);
        let origin = Origin { pc: 3, source: Source::Register };
        shared.write_poisoned(66, 2, 0b10, |_| Some(origin));
        assert_eq!(shared.poisoned(None, 64, 4), 0b1000);
        assert_eq!(shared.stored(67), Some(origin));
        (64..128).step_by(4).for_each(|address| shared.write(address, 4));
        assert_eq!(shared.poisoned(None, 64, 16), 0);
        assert_eq!(shared.poisoned(None, 124, 4), 0);
        assert_eq!(shared.poisoned(None, 128, 4), 0xf);
    }

    #[test]
    fn a_new_frame_holds_nothing() {
        let mut local = Local::default();
        local.write(3, 8, 8, 0, |_| None);
        local.write(4, 8, 8, 0b10, |_| None);
        assert_eq!((local.poisoned(3, 8, 8), local.poisoned(4, 8, 8)), (0, 0b10));
        local.forget(1 << 3, 12..20);
        assert_eq!((local.poisoned(3, 8, 8), local.poisoned(4, 8, 8)), (0xf0, 0b10));
    }
}
