//! Blocks that do what another block did need not be followed tag by tag.
//!
//! The first block of a launch is recorded: its events, warp by warp. Later blocks only compare their events with the
//! record, as long as the addresses in each buffer differ by one shift, which moves whole rows and columns and keeps the
//! position in tiles of 16. A block that does the same to the end has the same tags, shifted, so it has no findings if the
//! recorded one has none. A block that does something else is made up for: the events so far are applied as if the
//! block had been followed from the start, and it may become another record.
//!
//! The order of warps may differ between blocks. It does not matter where barriers order all accesses to shared memory,
//! and the recorded block had no races; otherwise a block must also switch between its warps as the record does.
//!
//! Only a block without findings becomes a record, and only if nothing was excused that depends on absolute positions or on
//! races of that block. So the findings are those of following each block on its own.

use super::event::{Event, Memory, Question, Values, What};
use super::origin::{Extent, Sources};
use super::plan::Action;
use smallvec::SmallVec;
use std::sync::Arc;
use warpproof_sim::machine::{LANES, at, lanes_of};
use warpproof_sim::memory::Space;

/// Maximum number of records of a launch.
const RECORDS: usize = 8;
/// Maximum number of bytes of a record.
const BYTES: usize = 16 << 20;

/// The records of a launch.
#[derive(Debug, Default)]
pub(super) struct Records {
    known: Vec<Arc<Record>>,
    /// Blocks that are being recorded, and blocks that were recorded in vain.
    begun: usize,
}

impl Records {
    /// How a block begins.
    pub(super) fn begin(&mut self, strict: bool) -> Beginning {
        if !self.known.is_empty() {
            Beginning::Follow(Box::new(Followed::new(&self.known, strict)))
        } else if self.begun == 0 {
            self.begun += 1;
            Beginning::Record
        } else {
            Beginning::Neither
        }
    }

    /// Whether a block that followed a record so far is recorded.
    pub(super) fn admits_another(&mut self) -> bool {
        let admits = self.begun < RECORDS;
        self.begun += usize::from(admits);
        admits
    }

    /// A block was recorded.
    pub(super) fn add(&mut self, record: Record) {
        self.known.push(Arc::new(record));
    }
}

/// How a block begins.
pub(super) enum Beginning {
    Record,
    Follow(Box<Followed>),
    Neither,
}

/// The events of a block.
#[derive(Debug, Default)]
pub(super) struct Record {
    warps: Vec<Stream>,
    turns: Turns,
    /// By buffer: what the block accesses of it.
    extents: Vec<Option<Extent>>,
    bytes: usize,
    /// Bytes of shadow state for shared memory.
    pub shadow: usize,
}

/// Which warp had how many events before another one had its turn.
#[derive(Clone, Debug, Default)]
struct Turns(Vec<(u32, u32)>);

impl Turns {
    /// The next event is one of this warp. Returns whether another one had the turn.
    fn take(&mut self, warp: u32) -> bool {
        match self.0.last_mut() {
            Some((last, count)) if *last == warp && *count < u32::MAX => {
                *count += 1;
                false
            }
            _ => {
                self.0.push((warp, 1));
                true
            }
        }
    }
}

/// The events of a warp.
#[derive(Debug, Default)]
struct Stream {
    events: Vec<Kept>,
    words: Vec<u32>,
    addresses: Vec<[u64; LANES]>,
    answers: Vec<(Question, u32)>,
}

/// A recorded event.
#[derive(Clone, Copy, Debug)]
struct Kept {
    pc: u32,
    lanes: u32,
    what: KeptWhat,
}

/// What happens, with places in the lists of the stream.
#[derive(Clone, Copy, Debug)]
enum KeptWhat {
    Step { whole: bool, words: Part },
    Multiply { whole: bool, answers: Part },
    Exchange { words: Part },
    Copy { to: u32, from: u64, size: u32, read: u32, region: Region },
    Access { space: Space, bytes: u32, destroys: bool, place: Option<(u32, Region)> },
    Arrive { id: u32 },
}

/// A part of a list: the first, and how many.
#[derive(Clone, Copy, Debug)]
struct Part(u32, u32);

impl Part {
    fn of<T>(self, list: &[T]) -> &[T] {
        list.get(at(self.0)..at(self.0) + at(self.1)).unwrap_or_default()
    }
}

/// Adds to a list.
fn part<T: Clone>(list: &mut Vec<T>, new: &[T]) -> Part {
    let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let part = Part(narrow(list.len()), narrow(new.len()));
    list.extend_from_slice(new);
    part
}

/// What lies at the addresses of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Region {
    /// Elements of this buffer, all in one place relative to each other.
    Matrix(usize),
    /// Elements of this buffer that are not distinguished.
    Plain(usize),
    /// Nothing that the launch names.
    Outside,
    /// Several of these, or no global memory: addresses must be equal.
    Exact,
}

impl Region {
    fn of(sources: &Sources, addresses: &[u64; LANES], lanes: u32) -> Region {
        let mut of_lanes = lanes_of(lanes).map(|lane| match sources.holding(addresses[lane], 0) {
            Some(buffer) if sources.is_matrix(buffer) => Region::Matrix(buffer),
            Some(buffer) => Region::Plain(buffer),
            None => Region::Outside,
        });
        let Some(first) = of_lanes.next() else { return Region::Exact };
        if of_lanes.all(|other| other == first) { first } else { Region::Exact }
    }
}

/// Answers from the registers, which are recorded.
pub(super) struct Recorded<'v> {
    pub values: &'v mut dyn Values,
    pub answers: SmallVec<[(Question, u32); 4]>,
}

impl Values for Recorded<'_> {
    fn answer(&mut self, question: Question) -> u32 {
        let answer = self.values.answer(question);
        self.answers.push((question, answer));
        answer
    }
}

/// Recorded answers, in the order of the questions.
struct Answers<'r>(&'r [(Question, u32)]);

impl Values for Answers<'_> {
    fn answer(&mut self, question: Question) -> u32 {
        match self.0.split_first() {
            Some(((asked, answer), rest)) if *asked == question => {
                self.0 = rest;
                *answer
            }
            _ => 0,
        }
    }
}

impl Record {
    /// Takes note of an event; `answers` are those that a matrix instruction got. Returns `false` if the record is too long.
    pub(super) fn push(&mut self, sources: &Sources, event: &Event<'_>, answers: &[(Question, u32)]) -> bool {
        let warp = at(event.warp);
        if self.warps.len() <= warp {
            self.warps.resize_with(warp + 1, Stream::default);
        }
        let stream = &mut self.warps[warp];
        let what = match event.what {
            What::Step { whole, values } => KeptWhat::Step { whole, words: part(&mut stream.words, values) },
            What::Multiply { whole, .. } => {
                KeptWhat::Multiply { whole, answers: part(&mut stream.answers, answers) }
            }
            What::Exchange { sources } => KeptWhat::Exchange { words: part(&mut stream.words, sources) },
            What::Copy { to, from, size, read } => {
                let region = if read == 0 { Region::Exact } else { Region::of(sources, &[from; LANES], 1) };
                cover(&mut self.extents, sources, region, from, read);
                KeptWhat::Copy { to, from, size, read, region }
            }
            What::Access(memory) => {
                let place = memory.addresses.map(|addresses| {
                    let mut region = Region::Exact;
                    if memory.space == Space::Global {
                        region = Region::of(sources, addresses, event.lanes);
                        for lane in lanes_of(event.lanes) {
                            cover(&mut self.extents, sources, region, addresses[lane], memory.bytes);
                        }
                    }
                    (part(&mut stream.addresses, &[*addresses]).0, region)
                });
                let Memory { space, bytes, destroys, .. } = memory;
                self.bytes += place.map_or(0, |_| size_of::<[u64; LANES]>());
                KeptWhat::Access { space, bytes, destroys, place }
            }
            What::Arrive { id } => KeptWhat::Arrive { id },
        };
        self.bytes += size_of::<Kept>()
            + match what {
                KeptWhat::Step { words, .. } | KeptWhat::Exchange { words } => 4 * at(words.1),
                KeptWhat::Multiply { answers, .. } => size_of::<(Question, u32)>() * at(answers.1),
                _ => 0,
            };
        stream.events.push(Kept { pc: event.pc, lanes: event.lanes, what });
        self.turns.take(event.warp);
        self.bytes <= BYTES
    }
}

/// Takes note that a block accesses bytes of a buffer.
fn cover(extents: &mut Vec<Option<Extent>>, sources: &Sources, region: Region, address: u64, bytes: u32) {
    if let Region::Matrix(buffer) = region {
        if extents.len() <= buffer {
            extents.resize(buffer + 1, None);
        }
        sources.cover(buffer, &mut extents[buffer], address, bytes);
    }
}

/// A block that has done so far what records have.
pub(super) struct Followed {
    candidates: SmallVec<[Candidate; 1]>,
    turns: Turns,
    /// Whether the turns of warps must be those of the record.
    strict: bool,
}

/// A record that a block may be following.
struct Candidate {
    record: Arc<Record>,
    /// By warp: the number of events so far.
    done: SmallVec<[usize; 8]>,
    /// By buffer: the shift of addresses, once it is known.
    shifts: SmallVec<[Option<u64>; 8]>,
}

impl Followed {
    fn new(records: &[Arc<Record>], strict: bool) -> Followed {
        let candidates = records.iter().map(|record| Candidate {
            record: record.clone(),
            done: SmallVec::from_elem(0, record.warps.len()),
            shifts: SmallVec::from_elem(None, record.extents.len()),
        });
        Followed { candidates: candidates.collect(), turns: Turns::default(), strict }
    }

    /// Whether the next event is that of a record too. Otherwise nothing has changed.
    pub(super) fn accept(&mut self, sources: &Sources, event: &mut Event<'_>) -> bool {
        let (strict, turns) = (self.strict, &self.turns);
        let fits: SmallVec<[bool; RECORDS]> = self
            .candidates
            .iter_mut()
            .map(|candidate| {
                (!strict || candidate.is_in_turn(turns, event.warp)) && candidate.advance(sources, event)
            })
            .collect();
        if !fits.contains(&true) {
            return false;
        }
        if fits.contains(&false) {
            let mut fits = fits.into_iter();
            self.candidates.retain(|_| fits.next().unwrap_or(false));
        }
        self.turns.take(event.warp);
        true
    }

    /// The block has ended: the bytes of shadow state that it would have, if it did all that a record has.
    pub(super) fn completed(&self) -> Option<usize> {
        let whole = self.candidates.iter().find(|candidate| candidate.is_complete());
        whole.map(|candidate| candidate.record.shadow)
    }

    /// Calls `each` with the events so far, in their order.
    pub(super) fn replay(&self, mut each: impl FnMut(Event<'_>)) {
        let Some(candidate) = self.candidates.first() else { return };
        let mut done = vec![0; candidate.record.warps.len()];
        for (warp, count) in &self.turns.0 {
            for _ in 0..*count {
                let Some(place) = done.get_mut(at(*warp)) else { return };
                candidate.event(*warp, *place, &mut each);
                *place += 1;
            }
        }
    }
}

impl Candidate {
    fn is_complete(&self) -> bool {
        self.record.warps.iter().zip(&self.done).all(|(stream, done)| stream.events.len() == *done)
    }

    /// Whether the record continues with an event of this warp after these turns.
    fn is_in_turn(&self, turns: &Turns, warp: u32) -> bool {
        let recorded = &self.record.turns.0;
        match turns.0.split_last() {
            None => recorded.first().is_some_and(|(first, _)| *first == warp),
            Some((&(last, count), before)) => {
                let here = recorded.get(before.len());
                if last == warp {
                    here.is_some_and(|(_, of)| count < *of)
                } else {
                    here.is_some_and(|(_, of)| count == *of)
                        && recorded.get(before.len() + 1).is_some_and(|(next, _)| *next == warp)
                }
            }
        }
    }

    /// Goes to the next event of a warp, if it is this one.
    fn advance(&mut self, sources: &Sources, event: &mut Event<'_>) -> bool {
        let record = &*self.record;
        let warp = at(event.warp);
        let (Some(stream), Some(done)) = (record.warps.get(warp), self.done.get_mut(warp)) else {
            return false;
        };
        let Some(kept) = stream.events.get(*done) else { return false };
        if (kept.pc, kept.lanes) != (event.pc, event.lanes) {
            return false;
        }
        let shifts = &mut self.shifts;
        let same = match (kept.what, &mut event.what) {
            (KeptWhat::Step { whole, words }, What::Step { whole: now, values }) => {
                whole == *now && words.of(&stream.words) == *values
            }
            (KeptWhat::Multiply { whole, answers }, What::Multiply { whole: now, values }) => {
                let mut answers = answers.of(&stream.answers).iter();
                whole == *now && answers.all(|(question, answer)| values.answer(*question) == *answer)
            }
            (KeptWhat::Exchange { words }, What::Exchange { sources }) => words.of(&stream.words) == *sources,
            (
                KeptWhat::Copy { to, from, size, read, region },
                What::Copy { to: t, from: f, size: s, read: r },
            ) => {
                (to, size, read) == (*t, *s, *r)
                    && (read == 0
                        || shifted(sources, record, shifts, region, (&[from; LANES], &[*f; LANES]), 1, read))
            }
            (KeptWhat::Access { space, bytes, destroys, place }, What::Access(memory)) => {
                (space, bytes, destroys) == (memory.space, memory.bytes, memory.destroys)
                    && match (place, memory.addresses) {
                        (None, None) => true,
                        (Some((place, region)), Some(addresses)) => {
                            stream.addresses.get(at(place)).is_some_and(|before| {
                                let both = (before, addresses);
                                shifted(sources, record, shifts, region, both, event.lanes, bytes)
                            })
                        }
                        _ => false,
                    }
            }
            (KeptWhat::Arrive { id }, What::Arrive { id: now }) => id == *now,
            _ => false,
        };
        *done += usize::from(same);
        same
    }

    /// Calls `each` with an event of the record, with the addresses of this block.
    fn event(&self, warp: u32, place: usize, each: &mut impl FnMut(Event<'_>)) {
        let Some(stream) = self.record.warps.get(at(warp)) else { return };
        let Some(&Kept { pc, lanes, what }) = stream.events.get(place) else { return };
        let shift = |region: Region| match region {
            Region::Matrix(buffer) => self.shifts.get(buffer).copied().flatten().unwrap_or(0),
            _ => 0,
        };
        let mut answers = Answers(&[]);
        let mut moved = [0; LANES];
        let what = match what {
            KeptWhat::Step { whole, words } => What::Step { whole, values: words.of(&stream.words) },
            KeptWhat::Multiply { whole, answers: part } => {
                answers.0 = part.of(&stream.answers);
                What::Multiply { whole, values: &mut answers }
            }
            KeptWhat::Exchange { words } => match words.of(&stream.words).first_chunk() {
                Some(sources) => What::Exchange { sources },
                None => return,
            },
            KeptWhat::Copy { to, from, size, read, region } => {
                What::Copy { to, from: from.wrapping_add(shift(region)), size, read }
            }
            KeptWhat::Access { space, bytes, destroys, place } => {
                let addresses = place.and_then(|(place, region)| {
                    let known = stream.addresses.get(at(place))?;
                    moved = known.map(|address| address.wrapping_add(shift(region)));
                    Some(&moved)
                });
                What::Access(Memory { space, bytes, destroys, addresses })
            }
            KeptWhat::Arrive { id } => What::Arrive { id },
        };
        each(Event { warp, pc, lanes, what });
    }
}

/// Whether the addresses of lanes have the same meaning as those of the record.
fn shifted(
    sources: &Sources,
    record: &Record,
    shifts: &mut SmallVec<[Option<u64>; 8]>,
    region: Region,
    (before, now): (&[u64; LANES], &[u64; LANES]),
    lanes: u32,
    bytes: u32,
) -> bool {
    let by = match region {
        Region::Exact => 0,
        Region::Plain(buffer) => {
            let last = u64::from(bytes.max(1)) - 1;
            return lanes_of(lanes).all(|lane| {
                sources.holds(buffer, now[lane]) && sources.holds(buffer, now[lane].wrapping_add(last))
            });
        }
        Region::Outside => return lanes_of(lanes).all(|lane| sources.holding(now[lane], 0).is_none()),
        Region::Matrix(buffer) => {
            let Some(shift) = shifts.get_mut(buffer) else { return false };
            if let Some(shift) = shift {
                *shift
            } else {
                let lane = at(lanes.trailing_zeros()) % LANES;
                let by = now[lane].wrapping_sub(before[lane]);
                let extent = record.extents.get(buffer).copied().flatten();
                if !extent.is_some_and(|extent| sources.allows_shift(buffer, &extent, by)) {
                    return false;
                }
                *shift = Some(by);
                by
            }
        }
    };
    if lanes == u32::MAX {
        let differences = before.iter().zip(now).fold(0, |all, (b, n)| all | (b.wrapping_add(by) ^ n));
        return differences == 0;
    }
    lanes_of(lanes).all(|lane| before[lane].wrapping_add(by) == now[lane])
}

/// Whether tags depend on the addresses of an access.
pub(super) fn needs_addresses(action: Action, steady: bool, space: Space) -> bool {
    match (action, space) {
        (_, Space::Shared) => {
            steady || matches!(action, Action::Store(_) | Action::MatrixStore(_) | Action::FragmentStore)
        }
        (_, Space::Global) => steady,
        _ => false,
    }
}
