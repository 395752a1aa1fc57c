//! Outputs that were not fully written, and inputs that were written.
//!
//! Uses the roles that the caller declares for the buffers: some thread must store every byte of an output during the
//! launch, and no thread may store to an input. A store that does not change the value of an input is only a note.
//!
//! Can miss: outputs of a launch that was stopped, which are not checked. Never reports: buffers that may be both read
//! and written, or memory that the caller did not describe.

use super::context::Context;
use super::raw::{Raw, RawFindings, Spot};
use super::settings::{BufferRole, Role};
use super::{Class, Severity};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use warpproof_sim::machine::{Access, AccessKind, lanes_of};
use warpproof_sim::memory::Space;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Which bytes were written in buffers that are uninitialized before the launch, and in memory that kernels allocated.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stores {
    /// Initially uninitialized memory: start and end address. Regions do not overlap.
    regions: BTreeMap<u64, u64>,
    index: HashMap<u64, usize>,
    /// One bit per byte.
    pages: Vec<(u64, Box<[u64; 64]>)>,
    last: Option<(u64, usize)>,
}

impl Stores {
    pub(crate) fn new(buffers: &[BufferRole]) -> Stores {
        let empty = buffers.iter().filter(|buffer| buffer.role == Role::Out || !buffer.initialized);
        let regions = empty.map(|buffer| (buffer.address, buffer.address.saturating_add(buffer.bytes())));
        Stores { regions: regions.filter(|(from, to)| from < to).collect(), ..Stores::default() }
    }

    /// Whether any of these bytes may be uninitialized.
    #[inline]
    pub(crate) fn concerns(&self, from: u64, to: u64) -> bool {
        self.regions.range(..to).next_back().is_some_and(|(_, end)| from < *end)
    }

    /// A kernel allocated memory, which is uninitialized.
    pub(crate) fn allocated(&mut self, address: u64, bytes: u64) {
        let (from, to) = (address, address.saturating_add(bytes));
        // Memory that was freed and is now allocated again.
        while let Some((&start, &end)) = self.regions.range(..to).next_back().filter(|(_, end)| from < **end)
        {
            self.each_word(start.max(from), end.min(to), false, |word, bits| *word &= !bits);
            self.regions.remove(&start);
        }
        if from < to {
            self.regions.insert(from, to);
        }
    }

    fn page(&mut self, number: u64, make: bool) -> Option<usize> {
        if let Some((_, i)) = self.last.filter(|(known, _)| *known == number) {
            return Some(i);
        }
        let i = match self.index.get(&number) {
            Some(&i) => i,
            None if !make => return None,
            None => {
                self.pages.push((number, Box::new([0; 64])));
                self.index.insert(number, self.pages.len() - 1);
                self.pages.len() - 1
            }
        };
        self.last = Some((number, i));
        Some(i)
    }

    /// Calls `f` for the words of bits of a range; missing pages are skipped, or created if `make` is set.
    #[inline]
    fn each_word(&mut self, from: u64, to: u64, make: bool, mut f: impl FnMut(&mut u64, u64)) {
        let mut byte = from;
        while byte < to {
            let end = to.min((byte / 64 + 1) * 64);
            let bits = (u64::MAX >> (64 - (end - byte))) << (byte % 64);
            if let Some(page) = self.page(byte / PAGE, make) {
                let word = usize::try_from(byte % PAGE / 64).unwrap_or(0);
                f(&mut self.pages[page].1[word & 63], bits);
            }
            byte = end;
        }
    }

    /// Bytes were written.
    #[inline]
    pub(crate) fn mark(&mut self, bytes: std::ops::Range<u64>) {
        if !bytes.is_empty() && self.concerns(bytes.start, bytes.end) {
            self.each_word(bytes.start, bytes.end, true, |word, bits| *word |= bits);
        }
    }

    /// The uninitialized bytes among up to 32 bytes.
    pub(crate) fn missing(&mut self, address: u64, bytes: u32) -> u32 {
        let mut missing = 0;
        if !self.concerns(address, address.saturating_add(u64::from(bytes))) {
            return missing;
        }
        for i in 0..bytes.min(32) {
            let byte = address.saturating_add(u64::from(i));
            if self.concerns(byte, byte.saturating_add(1)) && !self.written(byte) {
                missing |= 1 << i;
            }
        }
        missing
    }

    fn written(&mut self, byte: u64) -> bool {
        let mut found = false;
        self.each_word(byte, byte.saturating_add(1), false, |word, bits| found = *word & bits != 0);
        found
    }

    /// Adds what another block wrote.
    pub(crate) fn merge(&mut self, other: Stores) {
        for (number, bits) in other.pages {
            if let Some(page) = self.page(number, true) {
                for (own, more) in self.pages[page].1.iter_mut().zip(*bits) {
                    *own |= more;
                }
            }
        }
    }

    /// The elements of a buffer that were not fully written: the first one, and the count.
    fn holes(&mut self, buffer: &BufferRole) -> Option<(u64, u64)> {
        let element = u64::from(buffer.element.max(1));
        let (mut first, mut count) = (None, 0u64);
        let end = buffer.address.saturating_add(buffer.bytes());
        let mut byte = buffer.address;
        while byte < end {
            // Words that are fully written are skipped.
            if byte.is_multiple_of(64) && byte + 64 <= end {
                let mut whole = false;
                self.each_word(byte, byte + 64, false, |word, _| whole = *word == u64::MAX);
                if whole {
                    // An element that crosses the end of the word is checked from its start.
                    let inside = (byte + 64 - buffer.address) / element * element;
                    byte = (buffer.address + inside).max(byte + element);
                    continue;
                }
            }
            if !(byte..byte.saturating_add(element).min(end)).all(|byte| self.written(byte)) {
                first = first.or(Some((byte - buffer.address) / element));
                count += 1;
            }
            byte = byte.saturating_add(element);
        }
        first.map(|first| (first, count))
    }
}

/// The stores that a block's observer records: its own, or those of all blocks if blocks can communicate.
pub(crate) enum Outputs {
    Own(Stores),
    Together(Arc<Mutex<Stores>>),
}

impl Outputs {
    pub(crate) fn with<T>(&mut self, f: impl FnOnce(&mut Stores) -> T) -> Option<T> {
        match self {
            Outputs::Own(stores) => Some(f(stores)),
            Outputs::Together(stores) => stores.lock().ok().map(|mut stores| f(&mut stores)),
        }
    }

    /// Records what an access to global memory writes.
    pub(crate) fn access(&mut self, access: &Access<'_>) {
        if access.space != Space::Global || access.kind == AccessKind::Read || access.deferred {
            return;
        }
        self.with(|stores| {
            // Lanes that write consecutive bytes are one piece.
            let (mut from, mut to) = (0, 0);
            for lane in lanes_of(access.lanes) {
                let address = access.addresses.0[lane];
                if address != to {
                    stores.mark(from..to);
                    from = address;
                }
                to = address.saturating_add(u64::from(access.bytes));
            }
            stores.mark(from..to);
        });
    }

    /// A bulk copy writes global memory.
    pub(crate) fn bulk(&mut self, address: u64, bytes: u32) {
        self.with(|stores| stores.mark(address..address.saturating_add(u64::from(bytes))));
    }

    pub(crate) fn into_own(self) -> Option<Stores> {
        match self {
            Outputs::Own(stores) => Some(stores),
            Outputs::Together(_) => None,
        }
    }
}

/// The buffer that contains an address, and the index of the element there.
pub(crate) fn buffer_of(context: &Context, address: u64) -> Option<(&BufferRole, u64)> {
    let holds = |buffer: &&BufferRole| {
        address >= buffer.address && address < buffer.address.saturating_add(buffer.bytes())
    };
    let buffer = context.settings.buffers.iter().find(holds)?;
    Some((buffer, (address - buffer.address) / u64::from(buffer.element.max(1))))
}

/// An element in source notation, in backticks.
pub(crate) fn element_name(buffer: &BufferRole, element: u64) -> String {
    format!("`{}`", buffer.element_name(element))
}

/// Reports stores to inputs.
pub(crate) fn inputs(context: &Context, raw_findings: &mut RawFindings, access: &Access<'_>) {
    if access.space != Space::Global || access.kind == AccessKind::Read || access.deferred {
        return;
    }
    if !context.settings.buffers.iter().any(|buffer| buffer.role == Role::In) {
        return;
    }
    for lane in lanes_of(access.lanes) {
        let address = access.addresses.0[lane];
        let Some((number, (buffer, element))) = context
            .settings
            .buffers
            .iter()
            .position(|buffer| address.wrapping_sub(buffer.address) < buffer.bytes())
            .zip(buffer_of(context, address))
            .filter(|(_, (buffer, _))| buffer.role == Role::In)
        else {
            continue;
        };
        let severity = if access.unchanged >> lane & 1 != 0 { Severity::Note } else { Severity::Error };
        let key = (Class::ModifiedInput, access.pc, 0, u32::try_from(number).unwrap_or(u32::MAX));
        raw_findings.add(key, severity, || {
            let thread = 32 * access.warp + u32::try_from(lane).unwrap_or(0);
            let who = context.thread(access.block, thread);
            let what = if severity == Severity::Note { " the value it already has" } else { "" };
            Raw {
                class: Class::ModifiedInput,
                severity,
                sentence: format!(
                    "{who} stores{what} to {}, which is an input",
                    element_name(buffer, element)
                ),
                spots: vec![Spot {
                    label: "the store".to_owned(),
                    pc: access.pc,
                    thread: Some((access.block, thread)),
                }],
                notes: Vec::new(),
                help: Some(format!(
                    "store to another buffer, or declare `{}` as `inout` (read and written)",
                    buffer.name
                )),
                count: 1,
            }
        });
    }
}

/// Reports unwritten elements of outputs after all blocks have ended.
pub(crate) fn unwritten(context: &Context, raw_findings: &mut RawFindings, stores: &mut Stores) {
    for (number, buffer) in (0u32..).zip(&context.settings.buffers) {
        if buffer.role != Role::Out {
            continue;
        }
        let Some((first, count)) = stores.holes(buffer) else { continue };
        let all = buffer.bytes() / u64::from(buffer.element.max(1));
        let name = element_name(buffer, first);
        let sentence = match count {
            1 => format!("{name} was never written; the output has {all} elements"),
            _ if count == all => format!("no element of the output `{}` was written", buffer.name),
            _ => format!("{name} and {} more of {all} elements were never written", count - 1),
        };
        raw_findings.add((Class::Unwritten, context.program.entry, 0, number), Severity::Error, || Raw {
            class: Class::Unwritten,
            severity: Severity::Error,
            sentence,
            spots: vec![Spot { label: "the kernel".to_owned(), pc: context.program.entry, thread: None }],
            notes: Vec::new(),
            help: Some("write every element, or declare the buffer as `inout` (read and written)".to_owned()),
            count: 1,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(address: u64, element: u32, extents: &[u64]) -> BufferRole {
        BufferRole {
            name: "out".into(),
            address,
            element,
            extents: extents.to_vec(),
            role: Role::Out,
            initialized: false,
        }
    }

    #[test]
    fn holes_are_counted_in_elements() {
        for (element, address) in [(4, 0x1000), (4, 0x1fe0), (2, 0x10fe), (8, 0x2000), (1, 0x3001)] {
            let out = buffer(address, element, &[10, 30]);
            let size = u64::from(element);
            let place = |i: u64| address + i * size..address + (i + 1) * size;
            let mut stores = Stores::new(std::slice::from_ref(&out));
            assert_eq!(stores.holes(&out), Some((0, 300)));
            for i in (0..300u64).filter(|i| *i != 97 && *i < 290) {
                stores.mark(place(i));
            }
            assert_eq!(stores.holes(&out), Some((97, 11)), "elements of {element} from {address:#x}");
            assert_eq!(element_name(&out, 97), "`out[3][7]`");
            let mut all = Stores::new(std::slice::from_ref(&out));
            all.mark(place(97));
            (290..300u64).for_each(|i| all.mark(place(i)));
            all.merge(stores);
            assert_eq!(all.holes(&out), None);
        }
    }

    #[test]
    fn only_outputs_and_what_kernels_allocate_hold_nothing() {
        let mut stores = Stores::new(&[buffer(0x1000, 4, &[4])]);
        assert_eq!(stores.missing(0x0ff8, 16), 0xff00);
        stores.mark(0x1004..0x1008);
        assert_eq!(stores.missing(0x1000, 16), 0xff0f);
        stores.allocated(0x8000, 8);
        stores.mark(0x8000..0x8008);
        assert_eq!(stores.missing(0x8000, 16), 0);
        stores.allocated(0x8000, 8);
        assert_eq!(stores.missing(0x8000, 16), 0xff);
    }
}
