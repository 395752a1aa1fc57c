//! Device memory as one block sees it.
//!
//! Blocks that cannot communicate run in parallel on the memory as it was when their wave began, each keeping its own
//! stores in an [`Overlay`]; the overlays are merged in block order when the wave ends. No two host threads ever share a
//! writable byte, and the outcome is the same for any number of them, even for kernels with races. An atomic operation whose
//! result is not used is kept as an operation and done when the overlays are merged, so that sums of floating-point numbers
//! are rounded in block order too. Blocks that can communicate otherwise (atomics, volatile or ordered accesses) run in turns
//! on the memory itself.

use super::{Earlier, Fault, Heap};
use crate::isa::op::Combine;
use crate::machine::{Row, Type, at, lanes_of};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

const PAGE: usize = 1024;
const PAGE_SHIFT: u32 = 10;

/// The stores of one block, by page.
#[derive(Debug, Default)]
pub struct Overlay {
    pages: Vec<Page>,
    index: HashMap<u64, usize, BuildHasherDefault<PageHasher>>,
    /// Allocations with at least one page here; reads of all others go straight to the heap.
    touched: Vec<bool>,
    last: Option<(u64, usize)>,
    /// Atomic operations on cells that the block did not store to before, in order.
    updates: Vec<Update>,
    /// The different operations among them.
    operations: Vec<Operation>,
    /// Pages that know the latest updates of their words.
    updated: usize,
    /// The maximum number of bytes of host memory.
    room: usize,
    /// Whether the block has waited for the launches that its own depends on.
    waited: bool,
    /// Whether operations are kept one by one.
    plain: bool,
    /// Receives the stores that exceed the limit. A block that has this page is stopped, and its reads do not matter.
    excess: Option<Box<Page>>,
}

/// An atomic operation on a cell, or on each of several cells next to each other.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// What it computes; with the type it identifies the function.
    pub combine: Combine,
    /// Of the cell: 2, 4 or 8 bytes if it is kept.
    pub ty: Type,
    /// The new value of the cell, from its old value and the operand.
    pub apply: fn(u128, u128) -> u128,
}

impl Operation {
    /// Whether two operands can be combined before they are applied: integers and bits. Rounding depends on the order.
    fn folds(&self) -> bool {
        let exact = matches!(self.ty, Type::B32 | Type::B64 | Type::U32 | Type::U64 | Type::S32 | Type::S64);
        exact && self.combine.commutes()
    }

    fn is(&self, other: &Operation) -> bool {
        (self.combine, self.ty) == (other.combine, other.ty)
    }
}

/// An atomic operation that is done when the wave ends.
#[derive(Clone, Copy, Debug)]
pub struct Postponed {
    /// What is done to each cell.
    pub operation: Operation,
    /// With what, one cell after the other.
    pub operand: u128,
    /// The new values of the cells, if only the block itself changes them.
    pub after: u128,
}

/// An atomic operation on one cell, or several that were combined.
#[derive(Clone, Copy, Debug)]
struct Update {
    address: u64,
    operand: u64,
    /// Its number among the operations of the overlay.
    operation: u32,
}

fn apply(operation: Operation, cell: &mut [u8], operand: u64) {
    let before = cell.iter().rev().fold(0, |value, byte| value << 8 | u128::from(*byte));
    let after = (operation.apply)(before, u128::from(operand)).to_le_bytes();
    cell.iter_mut().zip(after).for_each(|(byte, new)| *byte = new);
}

/// Bytes of host memory per update.
const UPDATE_BYTES: usize = size_of::<Update>();
/// Bytes of host memory per page, including its index entry.
const PAGE_BYTES: usize = size_of::<Page>() + PAGE + 4 * size_of::<(u64, usize)>();

#[derive(Debug)]
struct Page {
    /// The first address of the allocation and the offset of the page in it. Indices of allocations may change until the merge.
    base: u64,
    offset: usize,
    data: Box<[u8; PAGE]>,
    /// One bit per byte that the block stored.
    dirty: [u64; PAGE / 64],
    /// The latest update of each 4-byte word plus one, 0 if there is none; empty until the first update.
    latest: Vec<u32>,
}

impl Page {
    fn empty(base: u64, offset: usize) -> Page {
        Page { base, offset, data: Box::new([0; PAGE]), dirty: [0; PAGE / 64], latest: Vec::new() }
    }
}

/// Page numbers are hashed by one multiplication; they come from our own allocator, not from an adversary.
#[derive(Default)]
pub struct PageHasher(u64);

impl Hasher for PageHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.write_u64(u64::from(*b));
        }
    }
    #[inline]
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

impl Overlay {
    /// An empty overlay with a limit in bytes of host memory.
    pub fn with_room(bytes: u64) -> Overlay {
        Overlay { room: usize::try_from(bytes).unwrap_or(usize::MAX), ..Overlay::default() }
    }

    /// Whether atomic operations on one cell are never combined.
    #[must_use]
    pub fn plain(self, plain: bool) -> Overlay {
        Overlay { plain, ..self }
    }

    /// Bytes of host memory it takes.
    pub fn bytes(&self) -> u64 {
        u64::try_from(self.used()).unwrap_or(u64::MAX)
    }

    fn used(&self) -> usize {
        self.pages.len() * PAGE_BYTES + self.updated * PAGE + self.updates.len() * UPDATE_BYTES
    }

    fn is_touched(&self, allocation: usize) -> bool {
        self.touched.get(allocation).copied().unwrap_or(false)
    }

    fn page(&self, number: u64) -> Option<&Page> {
        let i = match self.last {
            Some((last, i)) if last == number => i,
            _ => *self.index.get(&number)?,
        };
        self.pages.get(i)
    }

    fn page_mut(&mut self, heap: &Heap, allocation: usize, number: u64) -> &mut Page {
        let i = match self.last {
            Some((last, i)) if last == number => i,
            _ => {
                if let Some(&i) = self.index.get(&number) {
                    i
                } else {
                    let source = heap.allocation(allocation);
                    let offset = usize::try_from((number << PAGE_SHIFT).saturating_sub(source.base))
                        .unwrap_or(usize::MAX);
                    if self.used() + PAGE_BYTES > self.room {
                        return self.excess.insert(Box::new(Page::empty(source.base, offset)));
                    }
                    let mut data = Box::new([0; PAGE]);
                    let rest = source.bytes.get(offset..).unwrap_or(&[]);
                    let length = rest.len().min(PAGE);
                    data[..length].copy_from_slice(&rest[..length]);
                    if let Some(hidden) = heap.dependence.hidden(self.waited) {
                        hidden.show(number << PAGE_SHIFT, &mut data[..length]);
                    }
                    self.pages.push(Page { data, ..Page::empty(source.base, offset) });
                    self.index.insert(number, self.pages.len() - 1);
                    if self.touched.len() <= allocation {
                        self.touched.resize(allocation + 1, false);
                    }
                    self.touched[allocation] = true;
                    self.pages.len() - 1
                }
            }
        };
        self.last = Some((number, i));
        &mut self.pages[i]
    }

    /// The block has waited: what it did not store itself is what the heap has now.
    fn renew(&mut self, heap: &Heap) {
        self.waited = true;
        if !heap.dependence.is_active() {
            return;
        }
        for page in &mut self.pages {
            let Ok(allocation) = heap.locate(page.base, 0) else { continue };
            let source = heap.allocation(allocation);
            let Some(rest) = source.bytes.get(page.offset..) else { continue };
            let mut now = [0; PAGE];
            let length = rest.len().min(PAGE);
            now[..length].copy_from_slice(&rest[..length]);
            if let Some(hidden) = heap.dependence.hidden(true) {
                let address = page.base.saturating_add(u64::try_from(page.offset).unwrap_or(u64::MAX));
                hidden.show(address, &mut now[..length]);
            }
            for (i, byte) in now.into_iter().enumerate() {
                if page.dirty[i / 64] >> (i % 64) & 1 == 0 {
                    page.data[i] = byte;
                }
            }
        }
        for i in 0..self.updates.len() {
            let Some(Update { address, operation, operand }) = self.updates.get(i).copied() else { continue };
            let Some(&operation) = self.operations.get(at(operation)) else { continue };
            let (offset, bytes) = (in_page(address), at(operation.ty.bytes()));
            let mask = ((1u64 << bytes) - 1) << (offset % 64);
            let Some(&place) = self.index.get(&(address >> PAGE_SHIFT)) else { continue };
            let Some(page) = self.pages.get_mut(place).filter(|page| page.dirty[offset / 64] & mask == 0)
            else {
                continue;
            };
            if let Some(cell) = page.data.get_mut(offset..offset + bytes) {
                apply(operation, cell, operand);
            }
        }
    }

    /// Combines an atomic operation with the latest one on its cell, if that can be done and nothing else has to be. Returns whether
    /// it is done.
    #[inline]
    fn fold(&mut self, address: u64, cell: &Postponed) -> bool {
        let (number, offset, bytes) = (address >> PAGE_SHIFT, in_page(address), cell.operation.ty.bytes());
        let place = match self.last {
            Some((last, place)) if last == number => Some(place),
            _ => self.index.get(&number).copied(),
        };
        let Some(page) = place.and_then(|place| self.pages.get_mut(place)) else { return false };
        let (data, words, dirty) = (&mut page.data, &page.latest, page.dirty[offset / 64] >> (offset % 64));
        let latest = words.get(offset / 4).copied().unwrap_or(0);
        let whole = match bytes {
            4 => dirty.trailing_zeros() >= 4,
            8 => dirty.trailing_zeros() >= 8 && words.get(offset / 4 + 1) == Some(&latest),
            _ => false,
        };
        let update = latest.checked_sub(1).and_then(|latest| self.updates.get_mut(at(latest)));
        let Some(update) = update.filter(|update| whole && update.address == address) else { return false };
        let known = self.operations.get(at(update.operation));
        if known.is_none_or(|known| !known.is(&cell.operation)) || !cell.operation.folds() {
            return false;
        }
        let both = (cell.operation.apply)(u128::from(update.operand), cell.operand);
        update.operand = u64::try_from(both & u128::from(u64::MAX)).unwrap_or(0);
        let (after, data) = (cell.after.to_le_bytes(), data.get_mut(offset..).unwrap_or_default());
        if let (4, Some(word), Some(after)) = (bytes, data.first_chunk_mut::<4>(), after.first_chunk()) {
            *word = *after;
        } else if let (Some(word), Some(after)) = (data.first_chunk_mut::<8>(), after.first_chunk()) {
            *word = *after;
        }
        true
    }

    /// Keeps an atomic operation on a cell. The block's own reads see its result.
    fn update(&mut self, heap: &Heap, allocation: usize, address: u64, cell: Postponed) {
        let Postponed { operation, operand, after } = cell;
        let operand = u64::try_from(operand).unwrap_or(0);
        let (offset, bytes) = (in_page(address), at(operation.ty.bytes()));
        let page = self.page_mut(heap, allocation, address >> PAGE_SHIFT);
        // Aligned cells of at most 8 bytes never cross a page or a mask word.
        let mask = ((1u64 << bytes) - 1) << (offset % 64);
        match (page.data.get_mut(offset..offset + bytes), after.to_le_bytes().get(..bytes)) {
            (Some(cell), Some(after)) => cell.copy_from_slice(after),
            _ => return,
        }
        // After the block's own store, what other blocks do to the cell before this block is lost anyway.
        if page.dirty[offset / 64] & mask != 0 {
            page.dirty[offset / 64] |= mask;
            return;
        }
        if page.latest.is_empty() {
            if self.used() + PAGE > self.room {
                self.excess.get_or_insert_with(|| Box::new(Page::empty(address, 0)));
                return;
            }
            self.updated += 1;
            self.page_mut(heap, allocation, address >> PAGE_SHIFT).latest.resize(PAGE / 4, 0);
        }
        let words = offset / 4..(offset + bytes).div_ceil(4);
        let known = self.operations.iter().position(|known| known.is(&operation));
        let kind = known.unwrap_or(self.operations.len());
        let Ok(kind) = u32::try_from(kind) else { return };
        let number = u32::try_from(self.updates.len() + 1).unwrap_or(u32::MAX);
        if self.used() + UPDATE_BYTES > self.room || number == u32::MAX {
            self.excess.get_or_insert_with(|| Box::new(Page::empty(address, 0)));
            return;
        }
        if let Some(words) = self.page_mut(heap, allocation, address >> PAGE_SHIFT).latest.get_mut(words) {
            words.fill(number);
        }
        if known.is_none() {
            self.operations.push(operation);
        }
        self.updates.push(Update { address, operand, operation: kind });
    }

    /// Whether something was lost because it exceeded the limit.
    pub fn is_full(&self) -> bool {
        self.excess.is_some()
    }

    /// Does the block's atomic operations and copies its stores into the heap. What was freed meanwhile gets nothing.
    pub fn merge_into(self, heap: &mut Heap) {
        for Update { address, operation, operand } in self.updates {
            let Some(&operation) = self.operations.get(at(operation)) else { continue };
            let bytes = operation.ty.bytes();
            let Ok(allocation) = heap.locate(address, u64::from(bytes)) else { continue };
            let start = usize::try_from(address - heap.allocation(allocation).base).unwrap_or(usize::MAX);
            let cell = heap.bytes_mut(allocation, start..start.saturating_add(at(bytes)));
            if !cell.is_empty() {
                apply(operation, cell, operand);
            }
        }
        for page in self.pages {
            let Ok(allocation) = heap.locate(page.base, 0) else { continue };
            for (word, &dirty) in page.dirty.iter().enumerate() {
                let start = page.offset + word * 64;
                let mut rest = dirty;
                while rest != 0 {
                    let first = at(rest.trailing_zeros());
                    let length = at((rest >> first).trailing_ones());
                    let target = heap.bytes_mut(allocation, start + first..start + first + length);
                    if let Some(stored) =
                        page.data.get(word * 64 + first..).and_then(|data| data.get(..target.len()))
                    {
                        target.copy_from_slice(stored);
                    }
                    rest = if first + length >= 64 { 0 } else { rest & (u64::MAX << (first + length)) };
                }
            }
        }
    }
}

/// The view through which a block reads and writes device memory.
#[derive(Debug)]
pub enum Global<'a> {
    /// The memory itself.
    Direct(&'a mut Heap),
    /// The memory at the start of the wave, and the block's own stores.
    Overlay(&'a Heap, Overlay),
}

impl Global<'_> {
    /// The heap under the view, without the block's own stores.
    pub fn heap(&self) -> &Heap {
        match self {
            Global::Direct(heap) => heap,
            Global::Overlay(heap, _) => heap,
        }
    }

    /// What loads get instead of the heap's bytes, because the launch has not waited for the stores of another one.
    #[inline]
    fn hidden(&self) -> Option<&Earlier> {
        match self {
            Global::Direct(heap) => heap.dependence.hidden(heap.dependence.waited),
            Global::Overlay(heap, overlay) => heap.dependence.hidden(overlay.waited),
        }
    }

    /// Whether a wait for the launches that its own depends on must wait.
    #[inline]
    pub fn awaits(&self) -> bool {
        let hides = |heap: &Heap| heap.dependence.hidden.iter().any(Option::is_some);
        match self {
            Global::Direct(heap) => hides(heap) && !heap.dependence.waited,
            Global::Overlay(heap, overlay) => hides(heap) && !overlay.waited,
        }
    }

    /// The block has waited for the launches that its own depends on.
    pub fn waited(&mut self) {
        match self {
            Global::Direct(heap) => heap.dependence.waited = true,
            Global::Overlay(heap, overlay) if !overlay.waited => overlay.renew(heap),
            Global::Overlay(..) => {}
        }
    }

    /// Sets whether loads get the current bytes, which atomic operations change.
    pub fn set_current(&mut self, current: bool) {
        if let Global::Direct(heap) = self {
            heap.dependence.current = current;
        }
    }

    /// Bytes of host memory that the block's own stores take.
    pub fn overlay_bytes(&self) -> u64 {
        match self {
            Global::Direct(_) => 0,
            Global::Overlay(_, overlay) => overlay.bytes(),
        }
    }

    /// Whether a store exceeded the limit: the block must be stopped.
    #[inline]
    pub fn is_full(&self) -> bool {
        matches!(self, Global::Overlay(_, overlay) if overlay.is_full())
    }

    /// Reads `N` bytes.
    #[inline]
    pub fn read<const N: usize>(&self, address: u64) -> Result<[u8; N], Fault> {
        let allocation = self.heap().locate(address, width::<N>())?;
        Ok(self.read_in(allocation, address))
    }

    /// Reads `N` bytes that are known to lie in the allocation.
    #[inline]
    pub fn read_in<const N: usize>(&self, allocation: usize, address: u64) -> [u8; N] {
        let source = self.heap().allocation(allocation);
        let start = usize::try_from(address - source.base).unwrap_or(usize::MAX);
        let mut out = [0; N];
        if let Some(bytes) = source.bytes.get(start..start.saturating_add(N)) {
            out.copy_from_slice(bytes);
        }
        if let Some(hidden) = self.hidden() {
            hidden.show(address, &mut out);
        }
        if let Global::Overlay(_, overlay) = self
            && overlay.is_touched(allocation)
        {
            patch(overlay, address, &mut out);
        }
        out
    }

    /// Keeps an atomic operation on aligned cells of together `bytes` bytes until the wave ends; the block's own reads see its
    /// result. `false` if this view is the memory itself: then nothing is done.
    pub fn postpone(&mut self, address: u64, bytes: u32, cells: Postponed) -> Result<bool, Fault> {
        let Global::Overlay(heap, overlay) = self else { return Ok(false) };
        let size = cells.operation.ty.bytes().clamp(1, 8);
        for start in (0..bytes).step_by(at(size)) {
            let part = |all: u128| all >> (8 * start) & (u128::MAX >> (128 - 8 * size));
            let cell = Postponed { operand: part(cells.operand), after: part(cells.after), ..cells };
            let address = address + u64::from(start);
            if overlay.plain || !overlay.fold(address, &cell) {
                let allocation = heap.locate(address, u64::from(size))?;
                overlay.update(heap, allocation, address, cell);
            }
        }
        Ok(true)
    }

    /// Whether every read of this allocation can use the heap's own bytes.
    #[inline]
    pub fn plain(&self, allocation: usize) -> Option<&[u8]> {
        match self {
            Global::Overlay(_, overlay) if overlay.is_touched(allocation) => None,
            _ if self.hidden().is_some() => None,
            _ => Some(&self.heap().allocation(allocation).bytes),
        }
    }

    /// Writes a word per lane, if all lanes are aligned and in one allocation. Returns `false` and writes nothing
    /// otherwise.
    pub fn write_words(&mut self, addresses: &Row<u64>, lanes: u32, words: &Row<u32>) -> bool {
        let first = addresses.0[crate::machine::at(lanes.trailing_zeros() & 31)];
        let Ok(allocation) = self.heap().locate(first, 4) else { return false };
        let source = self.heap().allocation(allocation);
        let (base, last) = (source.base, source.size() - 4);
        let inside = |lane: usize| {
            let address = addresses.0[lane];
            address.is_multiple_of(4) && address.wrapping_sub(base) <= last
        };
        if !lanes_of(lanes).all(inside) {
            return false;
        }
        for lane in lanes_of(lanes) {
            self.write_in(allocation, addresses.0[lane], words.0[lane].to_le_bytes());
        }
        true
    }

    /// Writes `N` bytes.
    #[inline]
    pub fn write<const N: usize>(&mut self, address: u64, bytes: [u8; N]) -> Result<(), Fault> {
        let allocation = self.heap().locate(address, width::<N>())?;
        self.write_in(allocation, address, bytes);
        Ok(())
    }

    /// Writes `N` bytes that are known to lie in the allocation.
    #[inline]
    pub fn write_in<const N: usize>(&mut self, allocation: usize, address: u64, bytes: [u8; N]) {
        match self {
            Global::Direct(heap) => {
                let start = usize::try_from(address - heap.allocation(allocation).base).unwrap_or(usize::MAX);
                let target = heap.bytes_mut(allocation, start..start.saturating_add(N));
                if let Some(target) = target.first_chunk_mut::<N>() {
                    *target = bytes;
                }
            }
            Global::Overlay(heap, overlay) => {
                let offset = in_page(address);
                if offset + N <= PAGE {
                    let page = overlay.page_mut(heap, allocation, address >> PAGE_SHIFT);
                    page.data[offset..offset + N].copy_from_slice(&bytes);
                    // Aligned accesses of at most 16 bytes never cross a 64-bit mask word.
                    if N < 64 && offset % 64 + N <= 64 {
                        page.dirty[offset / 64] |= ((1u64 << N) - 1) << (offset % 64);
                    } else {
                        for i in offset..offset + N {
                            page.dirty[i / 64] |= 1 << (i % 64);
                        }
                    }
                } else {
                    for (at, byte) in (address..).zip(bytes) {
                        let page = overlay.page_mut(heap, allocation, at >> PAGE_SHIFT);
                        let offset = in_page(at);
                        page.data[offset] = byte;
                        page.dirty[offset / 64] |= 1 << (offset % 64);
                    }
                }
            }
        }
    }
}

/// Overwrites bytes read from the heap with the block's own stores.
fn patch<const N: usize>(overlay: &Overlay, address: u64, out: &mut [u8; N]) {
    let offset = in_page(address);
    if offset + N <= PAGE {
        if let Some(page) = overlay.page(address >> PAGE_SHIFT) {
            // A page starts as a copy of the heap, so all of it is current, whether the block stored to it or not.
            out.copy_from_slice(&page.data[offset..offset + N]);
        }
    } else {
        for (at, byte) in (address..).zip(out) {
            if let Some(page) = overlay.page(at >> PAGE_SHIFT) {
                *byte = page.data[in_page(at)];
            }
        }
    }
}

#[inline]
#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "masked to the page size")]
fn in_page(address: u64) -> usize {
    address as usize & (PAGE - 1)
}

#[inline]
#[expect(clippy::as_conversions, reason = "an access is at most a few bytes")]
const fn width<const N: usize>() -> u64 {
    N as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_sees_its_own_stores_and_the_heap_only_after_the_merge() {
        let mut heap = Heap::new(1 << 20);
        let a = heap.allocate("a", 5000).unwrap();
        heap.write(a, &[7; 5000]).unwrap();
        let mut view = Global::Overlay(&heap, Overlay::with_room(1 << 20));
        view.write(a + 1020, [1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        assert_eq!(view.read::<4>(a + 1022).unwrap(), [3, 4, 5, 6]);
        assert_eq!(view.read::<4>(a + 1016).unwrap(), [7, 7, 7, 7]);
        let Global::Overlay(base, overlay) = view else { unreachable!() };
        assert_eq!(base.read(a + 1020, 1).unwrap(), [7]);
        overlay.merge_into(&mut heap);
        assert_eq!(heap.read(a + 1019, 10).unwrap(), [7, 1, 2, 3, 4, 5, 6, 7, 8, 7]);
    }

    #[test]
    fn stores_beyond_the_room_are_dropped_and_noticed() {
        let mut heap = Heap::new(1 << 20);
        let a = heap.allocate("a", 100_000).unwrap();
        let mut view = Global::Overlay(&heap, Overlay::with_room(3 * 1500));
        for page in 0..3 {
            assert!(!view.is_full());
            view.write(a + page * 1024, [1]).unwrap();
        }
        view.write(a + 1, [1]).unwrap();
        assert!(!view.is_full(), "an existing page needs no space");
        view.write(a + 3 * 1024, [1]).unwrap();
        assert!(view.is_full() && view.overlay_bytes() <= 4500);
        let Global::Overlay(_, overlay) = view else { unreachable!() };
        overlay.merge_into(&mut heap);
        assert_eq!(heap.read(a + 3 * 1024, 1).unwrap(), [0]);
    }

    const ADD: Operation = Operation {
        combine: Combine::Add,
        ty: Type::U32,
        apply: |a, b| u128::from(u32::try_from((a + b) & 0xffff_ffff).unwrap()),
    };
    const MAX: Operation = Operation { combine: Combine::Max, ty: Type::U32, apply: u128::max };

    /// An operation of the block on a cell.
    fn postpone(view: &mut Global<'_>, address: u64, operation: Operation, operand: u128) {
        let before = u128::from(u32::from_le_bytes(view.read(address).unwrap()));
        let after = (operation.apply)(before, operand);
        assert!(view.postpone(address, 4, Postponed { operation, operand, after }).unwrap());
    }

    fn overlay_of(heap: &Heap, act: impl Fn(&mut Global<'_>)) -> Overlay {
        let mut view = Global::Overlay(heap, Overlay::with_room(1 << 20));
        act(&mut view);
        let Global::Overlay(_, overlay) = view else { unreachable!() };
        overlay
    }

    #[test]
    fn atomic_operations_of_several_blocks_add_up() {
        let mut heap = Heap::new(1 << 20);
        let a = heap.allocate("a", 64).unwrap();
        heap.write(a, &[10, 0, 0, 0]).unwrap();
        let blocks: Vec<Overlay> = (1..=3)
            .map(|n| {
                overlay_of(&heap, |view| {
                    postpone(view, a, ADD, n);
                    postpone(view, a, ADD, n);
                    assert_eq!(u128::from(u32::from_le_bytes(view.read(a).unwrap())), 10 + 2 * n);
                })
            })
            .collect();
        assert!(blocks.iter().all(|overlay| overlay.updates.len() == 1));
        for overlay in blocks {
            overlay.merge_into(&mut heap);
        }
        assert_eq!(heap.read(a, 4).unwrap(), [22, 0, 0, 0]);
    }

    #[test]
    fn operations_keep_their_order_among_each_other_and_with_stores() {
        let mut heap = Heap::new(1 << 20);
        let a = heap.allocate("a", 64).unwrap();
        // max(0 + 1, 5) + 1, then a store of 3 and + 1 at the next cell.
        let first = overlay_of(&heap, |view| {
            postpone(view, a, ADD, 1);
            postpone(view, a, MAX, 5);
            postpone(view, a, ADD, 1);
            postpone(view, a + 4, ADD, 9);
            view.write(a + 4, [3, 0, 0, 0]).unwrap();
            postpone(view, a + 4, ADD, 1);
        });
        let second = overlay_of(&heap, |view| {
            postpone(view, a, ADD, 1);
            postpone(view, a + 4, ADD, 1);
        });
        first.merge_into(&mut heap);
        second.merge_into(&mut heap);
        assert_eq!(heap.read(a, 8).unwrap(), [7, 0, 0, 0, 5, 0, 0, 0]);
    }

    #[test]
    fn a_merge_finds_memory_whose_index_has_changed() {
        let mut heap = Heap::at(1 << 30, 1 << 20);
        let (freed, a) = (heap.allocate("freed", 64).unwrap(), heap.allocate("a", 64).unwrap());
        let overlay = overlay_of(&heap, |view| {
            view.write(freed, [1]).unwrap();
            view.write(a, [2]).unwrap();
            postpone(view, a + 4, ADD, 3);
        });
        heap.lend("before", 4096, 64).unwrap();
        heap.free(freed).unwrap();
        overlay.merge_into(&mut heap);
        assert_eq!(heap.read(a, 5).unwrap(), [2, 0, 0, 0, 3]);
    }

    #[test]
    fn operations_beyond_the_room_are_noticed() {
        let mut heap = Heap::new(1 << 20);
        let a = heap.allocate("a", 64).unwrap();
        // Less than a page, a page without the index of its operations, and some operations.
        for room in [100, 2000, 4000] {
            let mut view = Global::Overlay(&heap, Overlay::with_room(room));
            for i in 0..1000 {
                postpone(&mut view, a, if i % 2 == 0 { ADD } else { MAX }, 1);
            }
            assert!(view.is_full() && view.overlay_bytes() <= room, "{room}");
        }
    }

    #[test]
    fn merging_keeps_the_bytes_another_block_stored() {
        let mut heap = Heap::new(1 << 20);
        let a = heap.allocate("a", 64).unwrap();
        let overlays: Vec<Overlay> = [(a, 1u8), (a + 1, 2)]
            .into_iter()
            .map(|(address, value)| {
                let mut view = Global::Overlay(&heap, Overlay::with_room(1 << 20));
                view.write(address, [value]).unwrap();
                let Global::Overlay(_, overlay) = view else { unreachable!() };
                overlay
            })
            .collect();
        for overlay in overlays {
            overlay.merge_into(&mut heap);
        }
        assert_eq!(heap.read(a, 3).unwrap(), [1, 2, 0]);
    }
}
