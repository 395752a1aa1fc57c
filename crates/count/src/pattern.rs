//! The cost of one warp request by its addresses: 32-byte sectors and 128-byte cache lines, passes through the banks of
//! shared memory, and lanes that share an address.
//!
//! Shared memory has 32 banks of one four-byte word. A *wavefront* is one pass through them: each bank reads or writes one
//! word, which any number of lanes may share. A request of up to four bytes per lane is one group of lanes; of eight bytes,
//! two half-warps; of sixteen bytes, four quarter-warps, because no more fits into one pass. `ldmatrix` and `stmatrix` move
//! eight rows of sixteen bytes per matrix, the same as a quarter-warp. The groups of loads and stores are merged in pairs
//! if lanes 1 apart or lanes 2 apart use the same address or are inactive, so that the pair needs no more words than one
//! pass provides. NVIDIA does not document this merging rule; it was inferred from measurements.

#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "lane numbers are below 32, words of a line below 32, sectors of a line below 4"
)]

use warpproof_sim::machine::{LANES, Row, lanes_of};

/// Bytes of a cache line, and of one word in every bank.
pub(crate) const LINE: u64 = 128;
/// Bytes of a sector.
pub(crate) const SECTOR: u64 = 32;

/// The lines that a request touches, with the sectors of each. Local memory, which interleaves the words of lanes, has up
/// to four lines per lane. The buffer is reused between requests: allocating one takes longer than analyzing most requests.
pub(crate) struct Lines {
    count: usize,
    highest: u64,
    entries: [(u64, u32); 4 * LANES],
}

impl Default for Lines {
    fn default() -> Lines {
        Lines { count: 0, highest: 0, entries: [(0, 0); 4 * LANES] }
    }
}

impl Lines {
    /// Clears the list.
    pub(crate) fn clear(&mut self) {
        (self.count, self.highest) = (0, 0);
    }

    /// Adds parts of a line. Consecutive lanes are mostly in the same line, or in one above all previous lines.
    #[inline]
    fn add(&mut self, line: u64, parts: u32) {
        if self.count == 0 || line <= self.highest {
            for (known, mask) in self.entries[..self.count].iter_mut().rev() {
                if *known == line {
                    *mask |= parts;
                    return;
                }
            }
        }
        self.highest = self.highest.max(line);
        if let Some(entry) = self.entries.get_mut(self.count) {
            *entry = (line, parts);
            self.count += 1;
        }
    }

    /// The lines by number, each with its sectors as bits 0 to 3.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u32)> {
        self.entries[..self.count].iter().copied()
    }

    /// The number of lines.
    pub(crate) fn lines(&self) -> u64 {
        self.count as u64
    }

    /// The number of sectors.
    pub(crate) fn sectors(&self) -> u64 {
        self.iter().map(|(_, sectors)| u64::from(sectors.count_ones())).sum()
    }
}

/// Whether the lanes of a whole warp are contiguous.
#[inline]
fn contiguous(addresses: &Row<u64>, bytes: u32) -> bool {
    let (first, step) = (addresses.0[0], u64::from(bytes));
    let mut gaps = 0;
    let mut expected = first;
    for address in addresses.0 {
        gaps |= address ^ expected;
        expected = expected.wrapping_add(step);
    }
    gaps == 0
}

/// Whether all lanes use one address.
#[inline]
pub(crate) fn uniform(addresses: &Row<u64>, lanes: u32) -> bool {
    let first = addresses.0[lanes.trailing_zeros() as usize & 31];
    if lanes == u32::MAX {
        addresses.0.iter().fold(0, |differences, address| differences | (address ^ first)) == 0
    } else {
        lanes_of(lanes).all(|lane| addresses.0[lane] == first)
    }
}

/// The bits of the sectors from one byte of a line to another.
fn sectors_between(first: u64, last: u64) -> u32 {
    let (first, last) = ((first % LINE / SECTOR) as u32, (last % LINE / SECTOR) as u32);
    (0xf << first) & (0xf >> (3 - last))
}

impl Lines {
    /// Collects the lines of a request to global memory. Each lane's access is aligned to its size, so it lies in one
    /// line.
    pub(crate) fn global(&mut self, addresses: &Row<u64>, bytes: u32, lanes: u32) {
        self.clear();
        let size = u64::from(bytes.max(1));
        if lanes == u32::MAX && contiguous(addresses, bytes) {
            let mut at = addresses.0[0];
            let last = at.wrapping_add(size * LANES as u64 - 1);
            while at / LINE < last / LINE {
                self.add(at / LINE, sectors_between(at, LINE - 1));
                at = (at / LINE + 1) * LINE;
            }
            self.add(at / LINE, sectors_between(at, last));
            return;
        }
        if uniform(addresses, lanes) {
            let address = addresses.0[lanes.trailing_zeros() as usize & 31];
            self.add(address / LINE, sectors_between(address, address.wrapping_add(size - 1)));
            return;
        }
        for lane in lanes_of(lanes) {
            let address = addresses.0[lane];
            self.add(address / LINE, sectors_between(address, address.wrapping_add(size - 1)));
        }
    }

    /// Collects the lines of a request to local memory: consecutive words of a thread are one line apart, so that the
    /// same word of all lanes is one line.
    pub(crate) fn local(&mut self, addresses: &Row<u64>, bytes: u32, lanes: u32) {
        self.clear();
        let words = u64::from(bytes).div_ceil(4);
        for lane in lanes_of(lanes) {
            for word in 0..words {
                self.add(addresses.0[lane] / 4 + word, 1 << (lane / 8));
            }
        }
    }
}

/// Passes through the banks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wavefronts {
    /// With the actual addresses.
    pub actual: u64,
    /// If no two words shared a bank.
    pub ideal: u64,
}

/// The passes of a request to shared memory. The groups of a `matrix` instruction are never merged.
pub(crate) fn shared(
    rows: &mut Lines,
    addresses: &Row<u64>,
    bytes: u32,
    lanes: u32,
    matrix: bool,
) -> Wavefronts {
    let width = match bytes {
        0..=4 => 32,
        5..=8 => 16,
        _ => 8,
    };
    let width = if width < 32 && !matrix && paired(addresses, lanes) { 2 * width } else { width };
    let mut wavefronts = Wavefronts { actual: 0, ideal: 0 };
    let words = bytes.div_ceil(4).clamp(1, 32);
    let word = u32::MAX >> (32 - words);
    let mut first = 0;
    while first < 32 {
        let group = lanes & ((u64::from(u32::MAX) >> (32 - width)) << first) as u32;
        first += width;
        if group == 0 {
            continue;
        }
        wavefronts.ideal += 1;
        wavefronts.actual += u64::from(passes(rows, addresses, group, word));
    }
    wavefronts
}

/// Whether lanes 1 apart, or lanes 2 apart, use the same address or are inactive.
fn paired(addresses: &Row<u64>, lanes: u32) -> bool {
    let together = |distance: usize| {
        lanes_of(lanes).all(|lane| {
            let other = lane ^ distance;
            lanes >> other & 1 == 0 || addresses.0[other] == addresses.0[lane]
        })
    };
    together(1) || together(2)
}

/// Passes that a group of lanes needs: the most words requested from one bank. `word` has a bit for each word of a lane.
#[inline]
fn passes(rows: &mut Lines, addresses: &Row<u64>, group: u32, word: u32) -> u32 {
    let banks = |lane: usize| word << ((addresses.0[lane] as u32 >> 2) & 31);
    let mut all = 0;
    if group == u32::MAX {
        for lane in 0..LANES {
            all |= banks(lane);
        }
    } else {
        for lane in lanes_of(group) {
            all |= banks(lane);
        }
    }
    // As many banks as words: no bank is used twice.
    if all.count_ones() == group.count_ones() * word.count_ones() {
        return 1;
    }
    rows.clear();
    for lane in lanes_of(group) {
        rows.add(addresses.0[lane] / LINE, banks(lane));
    }
    // A bit-sliced counter of the rows requested from each bank: each plane holds one bit of all banks' counts.
    let mut planes = [0u32; 6];
    for (_, banks) in rows.iter() {
        let mut carry = banks;
        for plane in &mut planes {
            (*plane, carry) = (*plane ^ carry, *plane & carry);
        }
    }
    let mut most = 0;
    let mut candidates = u32::MAX;
    for (bit, plane) in planes.iter().enumerate().rev() {
        if plane & candidates != 0 {
            candidates &= plane;
            most |= 1 << bit;
        }
    }
    most
}

/// The passes of an atomic request to shared memory. A bank performs one operation of one lane per pass, on the same word
/// or not.
pub(crate) fn shared_atomic(addresses: &Row<u64>, bytes: u32, lanes: u32) -> Wavefronts {
    let width = match bytes {
        0..=4 => 32,
        5..=8 => 16,
        _ => 8,
    };
    let words = u64::from(bytes.div_ceil(4).clamp(1, 32));
    let mut wavefronts = Wavefronts { actual: 0, ideal: 0 };
    let mut first = 0;
    while first < 32 {
        let group = lanes & ((u64::from(u32::MAX) >> (32 - width)) << first) as u32;
        first += width;
        if group == 0 {
            continue;
        }
        let mut banks = [0u64; 32];
        for lane in lanes_of(group) {
            for word in 0..words {
                banks[((addresses.0[lane] / 4 + word) % 32) as usize] += 1;
            }
        }
        wavefronts.ideal += 1;
        wavefronts.actual += banks.into_iter().max().unwrap_or(1);
    }
    wavefronts
}

/// Address contention between lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contention {
    /// Distinct addresses.
    pub addresses: u64,
    /// Lanes at the most contended address.
    pub most: u64,
}

/// The distinct words of an atomic request with the lanes at each, as distances from the first lane's.
pub(crate) fn words(addresses: &Row<u64>, lanes: u32) -> Vec<(u64, u32)> {
    let first = addresses.0[lanes.trailing_zeros() as usize & 31];
    let mut found: Vec<(u64, u32)> = Vec::new();
    for lane in lanes_of(lanes) {
        let distance = addresses.0[lane].wrapping_sub(first);
        match found.iter_mut().find(|(known, _)| *known == distance) {
            Some((_, count)) => *count += 1,
            None => found.push((distance, 1)),
        }
    }
    found
}

/// How many lanes of an atomic request share addresses.
pub(crate) fn contention(addresses: &Row<u64>, lanes: u32) -> Contention {
    let all = u64::from(lanes.count_ones());
    if uniform(addresses, lanes) {
        return Contention { addresses: 1, most: all };
    }
    let mut highest = None;
    let grows = lanes_of(lanes).all(|lane| {
        let above = highest.is_none_or(|highest| addresses.0[lane] > highest);
        highest = Some(addresses.0[lane]);
        above
    });
    if grows {
        return Contention { addresses: all, most: 1 };
    }
    let mut found = Contention { addresses: 0, most: 0 };
    let mut rest = lanes;
    while rest != 0 {
        let address = addresses.0[rest.trailing_zeros() as usize & 31];
        let same = lanes_of(rest)
            .filter(|&lane| addresses.0[lane] == address)
            .fold(0u32, |mask, lane| mask | 1 << lane);
        rest &= !same;
        found.addresses += 1;
        found.most = found.most.max(u64::from(same.count_ones()));
    }
    found
}

/// Distinct addresses, which the constant cache serves one at a time.
pub(crate) fn constants(addresses: &Row<u64>, lanes: u32) -> u64 {
    if uniform(addresses, lanes) { 1 } else { contention(addresses, lanes).addresses }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use warpproof_num::random::SplitMix;

    fn row(f: impl Fn(u64) -> u64) -> Row<u64> {
        let mut row = Row([0; LANES]);
        for (lane, address) in (0..).zip(&mut row.0) {
            *address = f(lane);
        }
        row
    }

    /// A direct implementation of the documented rule, without shortcuts: the maximum over banks of the distinct words in
    /// the bank.
    fn plainly(addresses: &Row<u64>, bytes: u64, group: u32) -> u64 {
        let words: BTreeSet<u64> = lanes_of(group)
            .flat_map(|lane| (0..bytes.div_ceil(4)).map(move |word| (lane, word)))
            .map(|(lane, word)| addresses.0[lane] / 4 + word)
            .collect();
        let most = (0..32).map(|bank| words.iter().filter(|word| *word % 32 == bank).count()).max().unwrap();
        most as u64
    }

    #[test]
    fn random_requests_take_the_passes_of_the_plain_rule() {
        let mut random = SplitMix(7);
        for round in 0..4000u64 {
            let bytes = [1, 2, 4, 8, 16][usize::try_from(round % 5).unwrap()];
            let span = 1 << (random.next() % 12);
            let mut addresses = row(|_| 0);
            for address in &mut addresses.0 {
                *address = random.next() % span * u64::from(bytes);
            }
            let lanes = if round % 3 == 0 { u32::MAX } else { random.next() as u32 | 1 };
            let matrix = bytes == 16 && round % 2 == 0;
            let width = match bytes {
                8 => 16,
                16 => 8,
                _ => 32,
            };
            let width = if width < 32 && !matrix && paired(&addresses, lanes) { width * 2 } else { width };
            let groups: Vec<u32> = (0..32 / width)
                .map(|i| lanes & ((u64::from(u32::MAX) >> (32 - width)) << (i * width)) as u32)
                .filter(|group| *group != 0)
                .collect();
            let actual = groups.iter().map(|group| plainly(&addresses, u64::from(bytes), *group)).sum();
            let expected = Wavefronts { actual, ideal: groups.len() as u64 };
            let found = shared(&mut Lines::default(), &addresses, bytes, lanes, matrix);
            assert_eq!(found, expected, "{bytes} {lanes:#x} {addresses:?}");
        }
    }

    #[test]
    fn random_requests_touch_the_sectors_and_lines_of_their_bytes() {
        let mut random = SplitMix(11);
        for round in 0..4000u64 {
            let bytes = [1u32, 2, 4, 8, 16][usize::try_from(round % 5).unwrap()];
            let span = 1 << (random.next() % 12);
            let base = random.next() % 64 * u64::from(bytes);
            let mut addresses = row(|lane| base + lane * u64::from(bytes));
            if round % 4 != 0 {
                for address in &mut addresses.0 {
                    *address = random.next() % span * u64::from(bytes);
                }
            }
            let lanes = if round % 3 == 0 { u32::MAX } else { random.next() as u32 | 1 };
            let sectors: BTreeSet<u64> = lanes_of(lanes).map(|lane| addresses.0[lane] / SECTOR).collect();
            let lines: BTreeSet<u64> = lanes_of(lanes).map(|lane| addresses.0[lane] / LINE).collect();
            let mut found = Lines::default();
            found.global(&addresses, bytes, lanes);
            assert_eq!((found.lines(), found.sectors()), (lines.len() as u64, sectors.len() as u64));
            let distinct: BTreeSet<u64> = lanes_of(lanes).map(|lane| addresses.0[lane]).collect();
            let most = distinct
                .iter()
                .map(|one| lanes_of(lanes).filter(|&lane| addresses.0[lane] == *one).count())
                .max()
                .unwrap();
            let meeting = contention(&addresses, lanes);
            assert_eq!((meeting.addresses, meeting.most), (distinct.len() as u64, most as u64));
        }
    }

    #[test]
    fn pairs_of_lanes_at_one_address_share_a_pass() {
        let passes = |row: &Row<u64>| shared(&mut Lines::default(), row, 8, u32::MAX, false);
        // Eight bytes each, two lanes at each address: 32 words in all, one pass instead of two.
        assert_eq!(passes(&row(|lane| lane / 2 * 8)), Wavefronts { actual: 1, ideal: 1 });
        // Lanes 2 apart: 0 and 2, 1 and 3, 4 and 6 …
        let apart = row(|lane| (lane / 4 * 2 + lane % 2) * 8);
        assert_eq!(passes(&apart), Wavefronts { actual: 1, ideal: 1 });
        // Lanes 4 apart do not.
        let four = row(|lane| (lane / 8 * 4 + lane % 4) * 8);
        assert_eq!(passes(&four), Wavefronts { actual: 2, ideal: 2 });
    }
}
