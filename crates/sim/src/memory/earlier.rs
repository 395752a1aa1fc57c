//! What memory contained before a launch changed it, for a dependent launch that starts while the first one still runs.
//!
//! A launch with programmatic dependent launch may read memory before `griddepcontrol.wait`, when the stores of the launch before it
//! need not be visible. Launches run one after the other here, so the bytes that a launch overwrites are kept, and loads before the wait
//! get them instead: stores become visible as late as the program allows.

use super::overlay::PageHasher;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::ops::Range;

const PAGE: usize = 1024;
const PAGE_SHIFT: u32 = 10;
/// Maximum number of pages; a launch that overwrites more keeps nothing.
const MOST_PAGES: usize = 1 << 18;

/// The bytes that a launch overwrote.
#[derive(Clone, Debug, Default)]
pub struct Earlier {
    pages: Vec<Page>,
    index: HashMap<u64, usize, BuildHasherDefault<PageHasher>>,
    last: Option<(u64, usize)>,
    full: bool,
}

#[derive(Clone, Debug)]
struct Page {
    number: u64,
    data: Box<[u8; PAGE]>,
    /// One bit per byte that is kept.
    kept: [u64; PAGE / 64],
}

impl Earlier {
    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.full || self.pages.is_empty()
    }

    fn page(&mut self, number: u64) -> Option<&mut Page> {
        let i = match self.last {
            Some((last, i)) if last == number => i,
            _ => match self.index.get(&number) {
                Some(i) => *i,
                None if self.pages.len() >= MOST_PAGES => {
                    *self = Earlier { full: true, ..Earlier::default() };
                    return None;
                }
                None => {
                    self.pages.push(Page { number, data: Box::new([0; PAGE]), kept: [0; PAGE / 64] });
                    self.index.insert(number, self.pages.len() - 1);
                    self.pages.len() - 1
                }
            },
        };
        self.last = Some((number, i));
        self.pages.get_mut(i)
    }

    /// Keeps bytes that are about to be overwritten, unless earlier ones are kept already.
    pub fn keep(&mut self, address: u64, bytes: &[u8]) {
        if self.full {
            return;
        }
        for (address, piece) in pieces(address, bytes.len()) {
            let Some(page) = self.page(address >> PAGE_SHIFT) else { return };
            let start = in_page(address);
            for (i, byte) in (start..).zip(bytes.get(piece).unwrap_or_default()) {
                let bit = 1 << (i % 64);
                if page.kept[i / 64] & bit == 0 {
                    page.kept[i / 64] |= bit;
                    page.data[i] = *byte;
                }
            }
        }
    }

    /// Forgets bytes: they have been overwritten again.
    pub fn forget(&mut self, address: u64, length: usize) {
        for (address, piece) in pieces(address, length) {
            let Some(&i) = self.index.get(&(address >> PAGE_SHIFT)) else { continue };
            let Some(page) = self.pages.get_mut(i) else { continue };
            for i in in_page(address)..in_page(address) + piece.len() {
                page.kept[i / 64] &= !(1 << (i % 64));
            }
        }
    }

    /// Replaces bytes that were read by the earlier ones.
    pub fn show(&self, address: u64, out: &mut [u8]) {
        for (address, piece) in pieces(address, out.len()) {
            let found = self.index.get(&(address >> PAGE_SHIFT)).and_then(|i| self.pages.get(*i));
            let Some(page) = found else { continue };
            for (i, byte) in (in_page(address)..).zip(out.get_mut(piece).unwrap_or_default()) {
                if page.kept[i / 64] >> (i % 64) & 1 != 0 {
                    *byte = page.data[i];
                }
            }
        }
    }

    /// Whether a part of an allocation is kept.
    pub fn touches(&self, base: u64, size: u64) -> bool {
        let pages = base >> PAGE_SHIFT..=base.saturating_add(size.max(1) - 1) >> PAGE_SHIFT;
        self.pages.iter().any(|page| pages.contains(&page.number))
    }

    /// These bytes, behind those of a launch before: memory before both.
    #[must_use]
    pub fn since(mut self, first: &Earlier) -> Earlier {
        let mut both = first.clone();
        both.full |= self.full;
        for page in self.pages.drain(..) {
            let start = page.number << PAGE_SHIFT;
            for run in runs(&page.kept) {
                let length = u64::try_from(run.start).unwrap_or(0);
                both.keep(start + length, page.data.get(run).unwrap_or_default());
            }
        }
        both
    }

    /// These bytes without those that a later launch overwrote: memory before the first launch, with the stores of the second.
    #[must_use]
    pub fn except(&self, second: &Earlier) -> Earlier {
        let mut rest = self.clone();
        for page in &second.pages {
            let start = page.number << PAGE_SHIFT;
            for run in runs(&page.kept) {
                rest.forget(start + u64::try_from(run.start).unwrap_or(0), run.len());
            }
        }
        rest.full |= second.full;
        rest
    }
}

/// The memory of a launch in relation to those before and after it.
#[derive(Clone, Debug, Default)]
pub struct Dependence {
    /// What the launch overwrites, if it is to be kept.
    pub kept: Option<Earlier>,
    /// What loads get before `griddepcontrol.wait`, and after it.
    pub hidden: [Option<Earlier>; 2],
    /// Whether the block that runs on the memory itself has waited.
    pub waited: bool,
    /// Whether loads get the current bytes: those of atomic operations.
    pub current: bool,
}

impl Dependence {
    /// Whether stores must be noted.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.kept.is_some() || self.hidden.iter().any(Option::is_some)
    }

    /// What loads get instead of the current bytes.
    #[inline]
    pub fn hidden(&self, waited: bool) -> Option<&Earlier> {
        self.hidden[usize::from(waited)].as_ref().filter(|_| !self.current)
    }

    /// Bytes are about to be overwritten by the launch.
    pub fn overwrite(&mut self, address: u64, bytes: &[u8]) {
        if let Some(kept) = &mut self.kept {
            kept.keep(address, bytes);
        }
        for hidden in self.hidden.iter_mut().flatten() {
            hidden.forget(address, bytes.len());
        }
    }
}

/// The parts of a range of bytes by page: the address of each, and its place in the range.
fn pieces(address: u64, length: usize) -> impl Iterator<Item = (u64, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done >= length {
            return None;
        }
        let from = address.wrapping_add(u64::try_from(done).unwrap_or(0));
        let end = length.min(done + (PAGE - in_page(from)));
        let piece = (from, done..end);
        done = end;
        Some(piece)
    })
}

/// The runs of bits that are set.
fn runs(bits: &[u64; PAGE / 64]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for i in (0..PAGE).filter(|i| bits[i / 64] >> (i % 64) & 1 != 0) {
        match runs.last_mut().filter(|last| last.end == i) {
            Some(last) => last.end += 1,
            None => runs.push(i..i + 1),
        }
    }
    runs
}

#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "masked to the page size")]
fn in_page(address: u64) -> usize {
    address as usize & (PAGE - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(earlier: &Earlier, address: u64) -> [u8; 4] {
        let mut out = [9; 4];
        earlier.show(address, &mut out);
        out
    }

    #[test]
    fn the_first_bytes_are_kept_across_pages() {
        let mut earlier = Earlier::default();
        assert!(earlier.is_empty());
        earlier.keep(1022, &[1, 2, 3]);
        earlier.keep(1023, &[7, 7, 7]);
        assert_eq!(shown(&earlier, 1021), [9, 1, 2, 3]);
        assert_eq!(shown(&earlier, 1024), [3, 7, 9, 9]);
        earlier.forget(1023, 2);
        assert_eq!(shown(&earlier, 1022), [1, 9, 9, 7]);
        assert!(earlier.touches(0, 1024) && earlier.touches(1100, 1) && !earlier.touches(2048, 4));
    }

    #[test]
    fn two_launches_are_undone_together_or_only_the_first() {
        let (mut first, mut second) = (Earlier::default(), Earlier::default());
        first.keep(0, &[1, 1]);
        second.keep(1, &[2, 2]);
        assert_eq!(shown(&second.clone().since(&first), 0), [1, 1, 2, 9]);
        assert_eq!(shown(&first.except(&second), 0), [1, 9, 9, 9]);
    }

    #[test]
    fn what_is_kept_is_limited() {
        let mut earlier = Earlier::default();
        for page in 0..u64::try_from(MOST_PAGES).unwrap() + 2 {
            earlier.keep(page * 1024, &[1]);
        }
        assert!(earlier.is_empty() && earlier.pages.is_empty());
    }
}
