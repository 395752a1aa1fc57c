//! Stores under an observer, which needs to know which lanes change memory.

#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "sizes of accesses are at most 32 bytes; lane numbers are below 32"
)]

use super::access::Told;
use super::{AccessKind, Flow, LANES, Row, Warp, at, lanes_of};
use crate::isa::AddressArg;
use crate::memory::Space;
use crate::simd::{Half, Simd};

/// A value as stored in memory, which may be narrower than a word.
fn narrowed<const WORDS: usize>(mut words: [u32; WORDS], bytes: u32) -> [u32; WORDS] {
    if bytes < 4
        && let Some(first) = words.first_mut()
    {
        *first &= (1 << (8 * bytes)) - 1;
    }
    words
}

impl Warp<'_, '_> {
    #[inline(always)]
    pub(super) fn put_watched_words<I: Simd, const WORDS: usize>(
        &mut self,
        arg: AddressArg,
        rows: &[u32],
    ) -> bool {
        let Some((offsets, halves)) = self.shared_offsets::<I, WORDS>(arg) else { return false };
        let ascends = if halves == [Half::Run; 2] {
            offsets.0[15] < offsets.0[16]
        } else {
            // Counted, not searched for, so that the compiler vectorizes it.
            offsets.0.windows(2).filter(|pair| pair[0] < pair[1]).count() == LANES - 1
        };
        if !ascends {
            return false;
        }
        let mut words = [Row([0; LANES]); WORDS];
        let mut unchanged = u32::MAX;
        for (i, (words, row)) in (0u32..).zip(words.iter_mut().zip(rows)) {
            *words = self.state.regs.w32[at(*row)];
            let index = offsets.0.map(|offset| (offset >> 2) + i);
            let before = self.cta.shared.gather_halves::<I>(&index, halves);
            let mut same = 0;
            for (lane, (before, word)) in before.iter().zip(&words.0).enumerate() {
                same |= u32::from(before == word) << lane;
            }
            unchanged &= same;
            self.cta.shared.scatter_halves::<I>(&index, halves, &words.0);
        }
        self.cta.changed |= unchanged != u32::MAX;
        self.announce_words(&offsets, unchanged, &words);
        true
    }

    #[inline(never)]
    fn announce_words<const WORDS: usize>(
        &mut self,
        offsets: &Row<u32>,
        unchanged: u32,
        words: &[Row<u32>; WORDS],
    ) {
        let addresses = offsets.widened();
        let told = Told { unchanged, words, ..Told::NOTHING };
        self.tell(Space::Shared, AccessKind::Write, &addresses, 4 * WORDS as u32, u32::MAX, told);
    }

    pub(super) fn write_watched<const WORDS: usize>(
        &mut self,
        space: Space,
        addresses: &Row<u64>,
        lanes: u32,
        bytes: u32,
        words: &[Row<u32>; WORDS],
    ) -> Result<(), Flow> {
        if !self.heard {
            self.write_rows(space, addresses, lanes, bytes, words)?;
            self.announce(space, AccessKind::Write, addresses, bytes, lanes);
            return Ok(());
        }
        let unchanged = self.unchanged(space, addresses, lanes, bytes, words);
        self.write_rows(space, addresses, lanes, bytes, words)?;
        self.cta.changed |= lanes & !unchanged != 0;
        self.tell(
            space,
            AccessKind::Write,
            addresses,
            bytes,
            lanes,
            Told { unchanged, words, ..Told::NOTHING },
        );
        Ok(())
    }

    /// The lanes whose write does not change memory: it already holds their value, or a lower lane writes that value.
    fn unchanged<const WORDS: usize>(
        &self,
        space: Space,
        addresses: &Row<u64>,
        lanes: u32,
        bytes: u32,
        words: &[Row<u32>; WORDS],
    ) -> u32 {
        // Other threads cannot see local memory, but its changes matter for deciding whether a loop can end.
        let seen = matches!(space, Space::Shared | Space::Global)
            || space == Space::Local && (self.cta.probed || self.state.naps.records);
        if !seen {
            return 0;
        }
        let value = |lane: usize| words.map(|row| row.0[lane]);
        let rises = |lane: usize| addresses.0[lane] > addresses.0[lane - 1];
        let mut unchanged = 0;
        let mut before = [Row([0; LANES]); WORDS];
        if !self.grid.plain
            && (space, lanes) == (Space::Global, u32::MAX)
            && bytes as usize == 4 * WORDS
            && (1..LANES).all(rises)
            && self.read_global_rows(addresses, lanes, bytes, &mut before)
        {
            for lane in 0..LANES {
                unchanged |=
                    u32::from(before.iter().zip(words).all(|(old, new)| old.0[lane] == new.0[lane])) << lane;
            }
            return unchanged;
        }
        let mut highest = None;
        for lane in lanes_of(lanes) {
            let address = addresses.0[lane];
            // With increasing addresses, no lane overlaps a lower lane.
            let lower = if highest.is_some_and(|highest| address <= highest) {
                lanes_of(lanes & ((1 << lane) - 1)).filter(|&lower| addresses.0[lower] == address).last()
            } else {
                None
            };
            highest = highest.max(Some(address));
            let same = match lower {
                Some(lower) => value(lower) == value(lane),
                None if self.check(space, address, bytes, true).is_err() => false,
                None => self
                    .read_lane_words::<WORDS>(space, lane, address, bytes)
                    .is_ok_and(|old| old == narrowed(value(lane), bytes)),
            };
            unchanged |= u32::from(same) << lane;
        }
        unchanged
    }
}
