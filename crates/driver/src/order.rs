//! The order of work: which launches, copies and memsets happen before which, and races between those that nothing orders.
//!
//! Each stream has a clock, and so has the host; a clock holds, for each stream, the number of the last operation that happened
//! before. An operation starts after earlier work of its stream and after everything that the host knew to be complete when it
//! submitted the operation. Events carry the clock of their stream; a synchronization adds a stream's clock to the host's. The legacy
//! default stream and blocking streams wait for each other. All threads of the host share one clock: their own synchronization cannot
//! be observed, so it is assumed.
//!
//! A launch with programmatic stream serialization does not follow the kernel before it (`dependent`).
//!
//! Can miss: races with operations that were forgotten (`MOST_OPERATIONS`, `MOST_RANGES`), and between nodes of one graph. Accesses of
//! the host itself are in `host_race`. Never reports: two operations that CUDA orders.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use warpproof_check::{Overlap, Touched};
use warpproof_diagnostic::host::HostClass;
use warpproof_sim::GridDependency;
use warpproof_sim::program::Program;

use crate::dependent::{self, Dependence, Dependents, Knowledge, Primaries, Programmatic};
use crate::driver::Driver;
use crate::guard::{self, Forbidden, Pages};
use crate::host_race::strictest;
use crate::memory::{End, Kind, Memcpy, Memset, Side, wide};
use crate::misuse::named;
use crate::report::HostFinding;
use crate::site::Site;
use crate::stream::{NON_BLOCKING, Target};
use crate::work::Work;

/// Operations that are remembered.
const MOST_OPERATIONS: usize = 512;
/// Ranges of all remembered operations.
const MOST_RANGES: usize = 1 << 20;
/// Rows of a copy that are recorded.
const MOST_ROWS: u64 = 1 << 14;
/// Streams with a clock, before those that were destroyed are forgotten.
const MOST_STREAMS: usize = 256;

/// By stream, the number of the last operation that happened before.
pub type Clock = BTreeMap<u64, u64>;

pub(crate) fn join(clock: &mut Clock, other: &Clock) {
    for (stream, time) in other {
        let mine = clock.entry(*stream).or_default();
        *mine = (*time).max(*mine);
    }
}

/// An operation that has started.
#[derive(Clone, Debug)]
pub struct Started {
    stream: u64,
    time: u64,
    /// What happened before it.
    before: Clock,
    site: Site,
    /// The launches that it may overlap.
    pub(crate) primaries: Option<Primaries>,
}

impl Started {
    /// Its stream and its number there.
    pub fn id(&self) -> (u64, u64) {
        (self.stream, self.time)
    }

    /// Whether it happens before a clock.
    pub fn happens_before(&self, clock: &Clock) -> bool {
        clock.get(&self.stream).is_some_and(|time| *time >= self.time)
    }

    /// Whether it happens after another operation.
    pub fn follows(&self, other: &Started) -> bool {
        other.happens_before(&self.before)
    }

    /// Whether it is the same operation.
    pub fn is(&self, other: &Started) -> bool {
        (self.stream, self.time) == (other.stream, other.time)
    }

    /// What happened before it.
    pub fn before(&self) -> &Clock {
        &self.before
    }

    /// What happened before it, and itself.
    pub fn after(&self) -> Clock {
        let mut clock = self.before.clone();
        clock.insert(self.stream, self.time);
        clock
    }

    /// Where it was submitted.
    pub fn site(&self) -> Site {
        self.site
    }
}

/// An operation that has ended.
#[derive(Debug)]
struct Operation {
    started: Started,
    /// What it is, for a sentence.
    name: String,
    touched: Touched,
    /// If it is a launch whose overlap with others is recorded.
    launched: Option<Launched>,
    /// What the host may not access until it knows that the operation is complete.
    pages: Vec<Pages>,
}

/// What is recorded about a launch in addition.
#[derive(Clone, Debug)]
pub struct Launched {
    /// The part that others may overlap.
    pub overlap: Overlap,
    /// How it has used `griddepcontrol`.
    pub used: GridDependency,
    /// Whether its blocks let others start when they begin.
    pub at_block_start: bool,
    /// The program, for its lines.
    pub program: Arc<Program>,
}

/// An operation that an access of the host races with.
#[derive(Debug)]
pub struct Pending {
    /// What it is, for a sentence.
    pub name: String,
    /// What the host may not do.
    pub forbidden: Forbidden,
    /// Where it was submitted.
    pub site: Site,
}

/// How an operation accesses bytes, for a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Reads,
    Writes,
    Updates,
}

impl Access {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Access::Reads => "reads",
            Access::Writes => "writes",
            Access::Updates => "updates",
        }
    }
}

/// The clocks, and the operations that later ones are compared with.
#[derive(Debug, Default)]
pub struct Order {
    host: Clock,
    streams: BTreeMap<u64, Clock>,
    events: BTreeMap<u64, Clock>,
    past: VecDeque<Operation>,
    ranges: usize,
    /// Streams with a clock at which those that were destroyed are forgotten next.
    limit: usize,
    /// Launches that may overlap the one before them.
    pub(crate) dependents: Dependents,
}

fn size(touched: &Touched) -> usize {
    touched.read.len() + touched.written.len() + touched.strong.len() + touched.places.len()
}

/// The first bytes that two sorted lists share.
fn shared(a: &[Range<u64>], b: &[Range<u64>]) -> Option<Range<u64>> {
    let (mut i, mut j) = (0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        let (start, end) = (x.start.max(y.start), x.end.min(y.end));
        if start < end {
            return Some(start..end);
        }
        if x.end <= y.end {
            i += 1;
        } else {
            j += 1;
        }
    }
    None
}

/// The ranges of a sorted list that overlap a range.
pub fn overlapping<'a>(list: &'a [Range<u64>], range: &Range<u64>) -> &'a [Range<u64>] {
    let from = list.partition_point(|other| other.end <= range.start);
    let to = list.partition_point(|other| other.start < range.end);
    list.get(from..to).unwrap_or_default()
}

/// Bytes that two operations access and at least one writes, and how each accesses them.
fn conflict(a: &Touched, b: &Touched) -> Option<(Range<u64>, Access, Access)> {
    use Access::{Reads, Updates, Writes};
    let pairs = [
        (&a.written, &b.written, Writes, Writes),
        (&a.written, &b.read, Writes, Reads),
        (&a.read, &b.written, Reads, Writes),
        (&a.written, &b.strong, Writes, Updates),
        (&a.strong, &b.written, Updates, Writes),
        (&a.strong, &b.read, Updates, Reads),
        (&a.read, &b.strong, Reads, Updates),
    ];
    pairs.into_iter().find_map(|(a, b, first, second)| Some((shared(a, b)?, first, second)))
}

impl Order {
    /// Starts an operation of a stream that follows the given streams too.
    fn start(&mut self, stream: u64, after: &[u64], site: Site) -> Started {
        let mut clock = self.streams.get(&stream).cloned().unwrap_or_default();
        join(&mut clock, &self.host);
        for other in after {
            if let Some(other) = self.streams.get(other) {
                join(&mut clock, other);
            }
        }
        let before = clock.clone();
        let time = clock.entry(stream).or_default();
        *time += 1;
        let time = *time;
        self.streams.insert(stream, clock);
        Started { stream, time, before, site, primaries: None }
    }

    /// Whether the host knows that an operation is complete.
    fn known(host: &Clock, operation: &Operation) -> bool {
        operation.started.happens_before(host)
    }

    /// What a launch follows, even if it overlaps the one before it in its stream.
    fn apart(&self, after: &[u64]) -> Clock {
        let mut clock = self.host.clone();
        for other in after {
            if let Some(other) = self.streams.get(other) {
                join(&mut clock, other);
            }
        }
        clock
    }

    /// Ends an operation. Returns an earlier one that it races with.
    fn end(
        &mut self,
        started: Started,
        name: &str,
        touched: Touched,
        pages: Vec<Pages>,
        launched: Option<Launched>,
    ) -> Option<Race> {
        let knowledge = self.dependents.knowledge(&started);
        let race = self.past.iter().rev().find_map(|other| {
            if other.started.follows(&started) {
                return None;
            }
            let dependence = match (&knowledge, &launched) {
                (Some(knowledge), Some(launched)) if started.follows(&other.started) => {
                    Some(dependence(other, knowledge, &touched, launched)?)
                }
                _ if started.follows(&other.started) => return None,
                _ => None,
            };
            let (bytes, first, second) = match &dependence {
                Some((_, conflict)) => conflict.clone(),
                None => conflict(&other.touched, &touched)?,
            };
            let lines = dependence.as_ref().map(|(waited, _)| {
                let theirs = other.launched.as_ref().and_then(|l| {
                    let touched = if first == Access::Reads { &l.overlap.late } else { &other.touched };
                    dependent::line(touched, &l.program, first, &bytes)
                });
                let ours = launched.as_ref().and_then(|l| {
                    let touched = if *waited { &touched } else { &l.overlap.early };
                    dependent::line(touched, &l.program, second, &bytes)
                });
                [theirs, ours]
            });
            Some(Race {
                bytes,
                first: (other.name.clone(), first, other.started.site),
                second: (name.to_owned(), second, started.site),
                dependence: dependence.map(|(waited, _)| Dependence {
                    waited,
                    triggered: other.launched.as_ref().is_some_and(|l| l.used.triggered || l.at_block_start),
                    lines: lines.unwrap_or_default(),
                }),
            })
        });
        self.ranges += size(&touched);
        if !pages.is_empty() {
            guard::changed();
        }
        self.past.push_back(Operation { started, name: name.to_owned(), touched, launched, pages });
        while self.past.len() > MOST_OPERATIONS || self.ranges > MOST_RANGES {
            let Some(oldest) = self.past.pop_front() else { break };
            self.ranges -= size(&oldest.touched);
            if !oldest.pages.is_empty() {
                guard::changed();
            }
        }
        race
    }

    /// The host waits for an event.
    pub fn host_waits_for_event(&mut self, event: u64) {
        if let Some(clock) = self.events.get(&event) {
            join(&mut self.host, clock);
        }
        self.prune();
    }

    /// The host waits for all work.
    pub fn host_waits_for_all(&mut self) {
        for clock in self.streams.values() {
            join(&mut self.host, clock);
        }
        self.prune();
    }

    /// Every later operation follows what the host knows to be complete.
    fn prune(&mut self) {
        let host = &self.host;
        if self.past.iter().any(|operation| !operation.pages.is_empty() && Order::known(host, operation)) {
            guard::changed();
        }
        self.past.retain(|operation| !Order::known(host, operation));
        self.ranges = self.past.iter().map(|operation| size(&operation.touched)).sum();
    }

    /// The pages that the host may not access now.
    pub fn guarded(&self) -> Vec<Pages> {
        strictest(self.past.iter().flat_map(|operation| &operation.pages))
    }

    /// The last operation whose pages contain an address.
    pub fn pending_at(&self, address: u64) -> Option<Pending> {
        self.past.iter().rev().find_map(|operation| {
            let pages = operation.pages.iter().find(|pages| pages.range.contains(&address))?;
            let (name, site) = (operation.name.clone(), operation.started.site);
            Some(Pending { name, forbidden: pages.forbidden, site })
        })
    }

    /// Forgets the pages that overlap a range.
    pub fn forget_pages(&mut self, range: &Range<u64>) {
        let overlaps = |pages: &Pages| pages.range.start < range.end && range.start < pages.range.end;
        for operation in &mut self.past {
            if operation.pages.iter().any(overlaps) {
                guard::changed();
                operation.pages.retain(|pages| !overlaps(pages));
            }
        }
    }

    /// The host may learn from memory that an operation, and what happens before it, is complete.
    pub fn may_be_known(&mut self, started: &Started) {
        for operation in &mut self.past {
            if !operation.pages.is_empty() && started.follows(&operation.started) {
                guard::changed();
                operation.pages.clear();
            }
        }
    }

    /// Records an event.
    fn record(&mut self, event: u64, started: &Started) {
        self.dependents.forget_event(event);
        self.events.insert(event, started.after());
    }

    /// What happened before an event was recorded.
    pub fn event_clock(&self, event: u64) -> Clock {
        self.events.get(&event).cloned().unwrap_or_default()
    }

    /// The host knows that an operation is complete.
    pub fn host_knows(&mut self, started: &Started) {
        join(&mut self.host, &started.after());
        self.prune();
    }

    /// A stream waits for an event.
    fn wait(&mut self, event: u64, stream: u64) {
        if let Some(clock) = self.events.get(&event) {
            let follows = self.streams.entry(stream).or_default();
            self.dependents.wait(event, clock, stream, follows);
            join(follows, clock);
        }
    }

    /// Forgets an event.
    pub fn forget_event(&mut self, event: u64) {
        self.dependents.forget_event(event);
        self.events.remove(&event);
    }

    /// Forgets clocks of streams that do not exist, if there are many.
    fn forget_streams(&mut self, exists: impl Fn(&u64) -> bool) {
        if self.streams.len() <= self.limit.max(MOST_STREAMS) {
            return;
        }
        self.dependents.forget_streams(&exists);
        let past = &self.past;
        let keep =
            |stream: &u64| exists(stream) || past.iter().any(|operation| operation.started.stream == *stream);
        let gone: Vec<u64> = self.streams.keys().filter(|stream| !keep(stream)).copied().collect();
        for stream in gone {
            self.streams.remove(&stream);
            let clocks = self.streams.values_mut().chain(self.events.values_mut());
            for clock in clocks.chain(std::iter::once(&mut self.host)) {
                clock.remove(&stream);
            }
        }
        // Not for every operation if many cannot be forgotten.
        self.limit = self.streams.len().saturating_mul(2);
    }
}

/// Two operations that nothing orders.
#[derive(Debug)]
struct Race {
    bytes: Range<u64>,
    first: (String, Access, Site),
    second: (String, Access, Site),
    /// If the second is a launch that may overlap the first, which is before it in its stream.
    dependence: Option<Dependence>,
}

/// A conflict of a launch with an operation before it in its stream, and whether it comes after the wait.
type DependentConflict = (bool, (Range<u64>, Access, Access));

fn dependence(
    other: &Operation,
    knowledge: &Knowledge,
    touched: &Touched,
    launched: &Launched,
) -> Option<DependentConflict> {
    let id = other.started.id();
    let at_block_start = other.launched.as_ref().is_some_and(|launched| launched.at_block_start);
    let theirs =
        || dependent::exposed(&other.touched, other.launched.as_ref().map(|l| &l.overlap), at_block_start);
    if knowledge.start.has(id) {
        return None;
    }
    let early = conflict(&theirs(), &launched.overlap.early).map(|conflict| (false, conflict));
    early.or_else(|| {
        let late = (!knowledge.waited.has(id)).then(|| conflict(&theirs(), touched)).flatten();
        late.map(|conflict| (true, conflict))
    })
}

/// The rows of one side of a copy; none if there are too many.
fn rows(end: End, copy: &Memcpy) -> Vec<Range<u64>> {
    let (width, height, depth) = (wide(copy.width), wide(copy.height), wide(copy.depth));
    let dense = depth == 1 && (height == 1 || end.pitch == width);
    if dense {
        let whole = end.address..end.address.saturating_add(width.saturating_mul(height));
        return std::iter::once(whole).collect();
    }
    if height.saturating_mul(depth) > MOST_ROWS {
        return Vec::new();
    }
    let mut rows: Vec<Range<u64>> = Vec::new();
    for z in 0..depth {
        for y in 0..height {
            let skip = z.saturating_mul(end.slice).saturating_add(y.saturating_mul(end.pitch));
            let start = end.address.saturating_add(skip);
            rows.push(start..start.saturating_add(width));
        }
    }
    rows.sort_by_key(|row| row.start);
    rows
}

impl Driver {
    /// Streams other than its own whose earlier work an operation follows.
    fn followed(&self, target: Target) -> Vec<u64> {
        let blocking =
            |stream: u64| self.streams.get(&stream).is_some_and(|stream| stream.flags & NON_BLOCKING == 0);
        // Handles are multiples of 16; the legacy default stream of a context is the number after its handle.
        let legacy = target.context + 1;
        if target.stream == legacy {
            let same = |(_, stream): &(&u64, &crate::stream::Stream)| stream.context == target.context;
            self.streams.iter().filter(same).map(|(key, _)| *key).filter(|key| blocking(*key)).collect()
        } else if blocking(target.stream) {
            vec![legacy]
        } else {
            Vec::new()
        }
    }

    /// Whether launches record the bytes that they access: only if more than one stream exists.
    pub fn compares_streams(&self) -> bool {
        self.compares_copies() && self.streams.len() > 1
    }

    /// Whether launches of a device may overlap the one before them in their stream.
    pub fn overlaps(&self, device: usize) -> bool {
        self.devices[device].model.capability.major >= 9
    }

    pub(crate) fn compares_copies(&self) -> bool {
        self.settings.checks.contains(&warpproof_check::Check::Race) && !self.settings.model_clock
    }

    /// Starts an operation of a stream.
    pub fn start_operation(&mut self, target: Target, site: Site) -> Started {
        let after = self.followed(target);
        let streams = &self.streams;
        self.order.forget_streams(|stream| streams.contains_key(stream));
        self.order.start(target.stream, &after, site)
    }

    /// Ends an operation of a stream, and reports a race with an earlier one.
    pub fn end_operation(&mut self, started: &Started, name: &str, touched: Touched) {
        self.end_launch(started, name, touched, None);
    }

    /// Ends an operation that may be a launch, and reports a race with an earlier one.
    pub fn end_launch(
        &mut self,
        started: &Started,
        name: &str,
        touched: Touched,
        launched: Option<Launched>,
    ) {
        if !self.compares_copies() {
            return;
        }
        let pages = self.pages_of(started, &touched);
        let race = self.order.end(started.clone(), name, touched, pages, launched);
        let Some(Race { bytes, first, second, dependence }) = race else { return };
        let memory = match self.allocation(bytes.start) {
            Some((base, allocation)) => format!(
                "{} to {} of an allocation of {} bytes of {}",
                bytes.start - base,
                bytes.end - 1 - base,
                allocation.size,
                named(allocation.kind)
            ),
            None => format!("{:#x} to {:#x}", bytes.start, bytes.end - 1),
        };
        let how = |access: Access| access.name();
        if let Some(dependence) = dependence {
            let finding = dependent::race(&first, &second, &dependence).note(format!("bytes {memory}"));
            self.report_host(&finding);
            return;
        }
        let finding = HostFinding::new(
            HostClass::StreamRace,
            format!(
                "{} {} bytes that {} of another stream {}, and no event or synchronization orders them",
                second.0,
                how(second.1),
                first.0,
                how(first.1)
            ),
        )
        .at(format!("{}, which {}", second.0, how(second.1)), second.2)
        .at(format!("{}, which {}", first.0, how(first.1)), first.2)
        .note(format!("bytes {memory}"))
        .help("record an event after the first and let the stream of the second wait for it, or synchronize");
        self.report_host(&finding);
    }

    /// Whether the host memory of a copy is pageable: the driver copies it before the call returns.
    fn pageable(&self, end: End) -> bool {
        end.side != Side::Device
            && self.allocation(end.address).is_none()
            && !Driver::is_device_address(end.address)
    }

    /// Whether one side of a copy is memory of the host, pinned or not.
    fn of_host(&self, end: End) -> bool {
        let kind = self.allocation(end.address).map(|(_, allocation)| allocation.kind);
        self.pageable(end) || matches!(kind, Some(Kind::Host | Kind::Registered))
    }

    /// Records a copy that was made.
    pub fn copied(&mut self, started: &Started, copy: &Memcpy) {
        let (from, to) = (self.pageable(copy.from), self.pageable(copy.to));
        let mut touched = Touched::default();
        if !from {
            touched.read = rows(copy.from, copy);
        }
        if !to {
            touched.written = rows(copy.to, copy);
        }
        self.end_operation(started, "the copy", touched);
        // CUDA copies within host memory before the call returns.
        if to || (self.of_host(copy.from) && self.of_host(copy.to)) {
            self.order.host_knows(started);
        }
    }

    /// Records a memset that was made.
    pub fn filled(&mut self, started: &Started, set: &Memset) {
        let width = set.width.saturating_mul(usize::try_from(set.element).unwrap_or(1));
        let end = End { side: Side::Device, address: set.target, pitch: set.pitch, slice: 0 };
        let whole = Memcpy { from: end, to: end, width, height: set.height, depth: 1 };
        self.end_operation(
            started,
            "the memset",
            Touched { written: rows(end, &whole), ..Touched::default() },
        );
    }

    /// Records that a stream allocates or frees memory.
    pub fn changed(&mut self, started: &Started, name: &str, base: u64) {
        let Some(size) = self.memory.get(&base).map(|allocation| allocation.size) else { return };
        let written = std::iter::once(base..base.saturating_add(size)).collect();
        self.end_operation(started, name, Touched { written, ..Touched::default() });
    }

    /// Submits work: its place in the order.
    pub fn submitted(&mut self, target: Target, work: &Work) -> Started {
        if let Work::Wait(event) = work {
            self.order.wait(*event, target.stream);
        }
        let mut others = self.followed(target);
        others.retain(|stream| *stream != target.stream);
        let apart = self.order.apart(&others);
        let mut started = self.start_operation(target, Site::here());
        match work {
            Work::Record(event) => self.order.record(*event, &started),
            Work::Launch(call) => {
                if let Some(event) = call.programmatic.event {
                    self.order.record(event.event, &started);
                }
                let programmatic = Programmatic {
                    serialization: call.programmatic.serialization && self.overlaps(target.device),
                    ..call.programmatic
                };
                self.order.dependents.launch(&mut started, programmatic, &apart);
            }
            _ => {}
        }
        if !matches!(work, Work::Launch(_) | Work::Wait(_)) {
            self.order.dependents.other(target.stream);
        }
        started
    }

    /// What happens before the host when it waits for a stream.
    pub fn clock_of(&mut self, target: Target) -> Clock {
        self.start_operation(target, Site::default()).before
    }

    /// The host waits for the work of a stream, and for what that follows.
    pub fn host_waited(&mut self, target: Target) {
        let started = self.start_operation(target, Site::default());
        self.order.host_knows(&started);
    }

    /// Whether a call without a stream returns after this work is complete: CUDA does not wait for work within device memory.
    pub fn host_waits_for(&self, work: &Work) -> bool {
        let host = |address: u64| self.allocation(address).is_none_or(|(_, a)| a.kind != Kind::Device);
        match work {
            Work::Copy(copy) => {
                let outside = |end: End| !Driver::is_device_address(end.address) && host(end.address);
                outside(copy.from) || outside(copy.to)
            }
            Work::Set(set) => host(set.target),
            _ => false,
        }
    }

    /// Reports pinned or registered memory that is freed while work that may not be complete uses it.
    pub fn report_free_in_use(&mut self, base: u64) {
        let Some(allocation) =
            self.memory.get(&base).filter(|a| matches!(a.kind, Kind::Host | Kind::Registered))
        else {
            return;
        };
        let whole: Vec<Range<u64>> = std::iter::once(base..base.saturating_add(allocation.size)).collect();
        let (kind, allocated) = (allocation.kind, allocation.site);
        let uses = |operation: &&Operation| {
            let Touched { read, written, strong, .. } = &operation.touched;
            [read, written, strong].into_iter().any(|list| shared(list, &whole).is_some())
                && !Order::known(&self.order.host, operation)
        };
        let Some(found) = self.order.past.iter().rev().find(uses) else { return };
        let finding = HostFinding::new(
            HostClass::StreamRace,
            format!("{} is freed while {} may still use it", named(kind), found.name),
        )
        .at("the free", Site::here())
        .at(found.name.clone(), found.started.site)
        .at("the allocation", allocated)
        .help("synchronize with the stream before the memory is freed");
        self.report_host(&finding);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(range: Range<u64>) -> Touched {
        Touched { written: std::iter::once(range).collect(), ..Touched::default() }
    }

    fn run(order: &mut Order, stream: u64, after: &[u64], touched: Touched) -> bool {
        let started = order.start(stream, after, Site::default());
        order.end(started, "it", touched, Vec::new(), None).is_some()
    }

    #[test]
    fn streams_race_unless_an_event_or_the_host_orders_them() {
        let mut order = Order::default();
        assert!(!run(&mut order, 1, &[], writes(0..8)));
        assert!(!run(&mut order, 1, &[], writes(0..8)));
        assert!(!run(&mut order, 2, &[], writes(8..16)));
        assert!(run(&mut order, 2, &[], writes(7..9)));
        let event = order.start(2, &[], Site::default());
        order.record(5, &event);
        order.wait(5, 3);
        assert!(!run(&mut order, 3, &[], writes(8..9)));
        assert!(run(&mut order, 4, &[], writes(8..9)));
        order.host_waits_for_all();
        assert!(!run(&mut order, 5, &[], writes(0..16)));
        assert!(!run(&mut order, 6, &[5], writes(0..16)));
    }

    #[test]
    fn only_writes_conflict_and_atomics_do_not_conflict_with_each_other() {
        let read = Touched { read: vec![0..4, 8..12], ..Touched::default() };
        let strong = Touched { strong: vec![4..6, 8..9], ..Touched::default() };
        assert_eq!(conflict(&read, &read), None);
        assert_eq!(conflict(&strong, &strong), None);
        assert_eq!(conflict(&strong, &read), Some((8..9, Access::Updates, Access::Reads)));
        assert_eq!(conflict(&writes(3..9), &read).map(|(bytes, ..)| bytes), Some(3..4));
        assert_eq!(conflict(&writes(4..8), &read), None);
    }

    #[test]
    fn what_is_remembered_is_limited() {
        let mut order = Order::default();
        for stream in 0..3000 {
            run(&mut order, stream, &[], writes(stream * 8..stream * 8 + 8));
            order.forget_streams(|other| *other == stream);
        }
        assert!(order.past.len() <= MOST_OPERATIONS && order.streams.len() <= 2 * MOST_OPERATIONS + 2);
    }
}
