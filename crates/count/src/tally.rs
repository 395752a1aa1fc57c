//! The counter of one block: an observer that adds up events. Counting a stretch of instructions takes two additions, one
//! at each end; prefix sums over the code are computed at the end of the launch.

use super::bundles::Bundles;
use super::counters::{MemoryOp, Sample, Traffic};
use super::heat::BlockHeat;
use super::memo::{self, Address, Key, Latest, Memos, Regular, Same};
use super::pattern::{self, LINE, Lines, SECTOR, Wavefronts};
use super::record::{Record, Requested};
use super::reuse::Touch;
use super::site::{Site, Sites};
use std::sync::{Arc, Mutex};
use warpproof_sim::machine::{Access, AccessKind, Row, at, rank_in};
use warpproof_sim::memory::Space;
use warpproof_sim::observe::{
    Arrival, BulkCopy, BundleReads, Detail, GlobalWords, Guarded, Mbarrier, MbarrierAction, Observer,
    SharedAccess, Stretch,
};
use warpproof_sim::simd::{Half, Level};

/// The requests of one instruction to one space. What each request needs comes first: it should stay in the host's cache.
#[repr(C)]
pub(crate) struct Requests {
    pub pc: u32,
    pub space: Space,
    /// The instruction's requests to another space.
    next: u32,
    latest: [Latest; 2],
    /// Costs that are already added up.
    pub traffic: Traffic,
    /// Costs that are not yet added up: requests to shared memory with 32-bit addresses, and all others.
    narrow: Memos<u32>,
    wide: Memos<u64>,
    /// The least efficient request.
    pub worst: Option<Box<Sample>>,
}

impl Requests {
    /// The latest regular request, if one from this address is like it.
    #[inline]
    fn again(&mut self, key: Key, regular: Regular, first: u64) -> Option<&mut Latest> {
        Some(&mut self.latest[slot(first)]).filter(|latest| latest.is_like(key, regular))
    }

    /// A regular request from this address is counted.
    fn keep_latest(&mut self, like: (Key, Regular), first: u64, cost: Option<Traffic>, touch: Touch) {
        if let Some(cost) = cost {
            self.traffic.add(&self.latest[slot(first)].replace(like, cost, touch));
        }
    }

    /// Keeps a request if no earlier one wasted more.
    fn keep(&mut self, addresses: &Row<u64>, bytes: u32, lanes: u32, taken: u64, ideal: u64) {
        if !Sample::is_worse(taken, ideal, self.worst.as_deref()) {
            return;
        }
        let first = memo::first(addresses, lanes);
        let lanes = (0u32..)
            .zip(addresses.0)
            .filter(|(lane, _)| lanes >> lane & 1 == 1)
            .map(|(lane, address)| (lane, address.wrapping_sub(first).cast_signed()))
            .collect();
        self.worst = Some(Box::new(Sample { space: self.space, bytes, lanes, taken, ideal }));
    }
}

/// Which of the two latest requests may be like one from this address: the address of a loop's load often moves by half a line.
#[inline]
fn slot(first: u64) -> usize {
    usize::from(first & (LINE / 2) != 0)
}

/// The most shapes that are kept for the next block, about 2 MiB.
const SHAPES: usize = 1 << 11;

/// The end of a list of requests.
const END: u32 = u32::MAX;

/// An incomplete phase of a barrier: the warps that have arrived, and the instructions of each since its previous barrier.
#[derive(Clone, Copy, Debug, Default)]
struct Phase {
    warps: u32,
    work: [u64; 32],
    /// The instruction at which the last of them arrived.
    last: u32,
}

/// An event, and how often it has come in a row: the warps of a block report the same ones in turn.
#[derive(Clone, Copy, Debug, Default)]
struct Repeated {
    event: [u32; 3],
    times: u64,
}

impl Repeated {
    /// Adds an event. Returns the one before if that is another one.
    #[inline]
    fn add(&mut self, event: [u32; 3]) -> Option<Repeated> {
        if self.event == event {
            self.times += 1;
            return None;
        }
        Some(std::mem::replace(self, Repeated { event, times: 1 }))
    }
}

/// A block's barriers, and the cluster's.
const BARRIERS: usize = 17;

/// What is known of the requests of a program's instructions. It passes from block to block: blocks of a launch make the same
/// requests.
#[derive(Default)]
pub(crate) struct Shapes {
    /// The first of each instruction's [`Requests`].
    first: Vec<u32>,
    requests: Vec<Requests>,
    /// Bundles whose loads are not added up.
    bundles: Bundles,
}

impl Shapes {
    /// The requests of an instruction to a space.
    #[inline]
    fn requests(&mut self, pc: u32, space: Space) -> Option<&mut Requests> {
        let place = self.place(pc, space);
        self.requests.get_mut(place)
    }

    /// Where the requests of an instruction to a space are.
    #[inline]
    fn place(&mut self, pc: u32, space: Space) -> usize {
        let mut place = self.first.get(at(pc)).copied().unwrap_or(END);
        while let Some(requests) = self.requests.get(at(place)) {
            if requests.space == space {
                return at(place);
            }
            place = requests.next;
        }
        self.insert(pc, space)
    }

    #[cold]
    fn insert(&mut self, pc: u32, space: Space) -> usize {
        if self.first.len() <= at(pc) {
            self.first.resize(at(pc) + 1, END);
        }
        let next =
            std::mem::replace(&mut self.first[at(pc)], u32::try_from(self.requests.len()).unwrap_or(END));
        let (narrow, wide) = (Memos::default(), Memos::default());
        self.requests.push(Requests {
            pc,
            space,
            next,
            latest: Default::default(),
            traffic: Traffic::default(),
            narrow,
            wide,
            worst: None,
        });
        self.requests.len() - 1
    }

    /// Moves the counts of a block to its record. What is known of the requests stays, unless it is very much.
    fn record(&mut self, record: &mut Record) {
        let mut bundles = std::mem::take(&mut self.bundles);
        bundles.settle(|pc, cost| {
            if let Some(requests) = self.requests(pc, Space::Shared) {
                requests.traffic.add(cost);
            }
        });
        self.bundles = bundles;
        let mut shapes = 0;
        for requests in &mut self.requests {
            shapes += requests.narrow.len() + requests.wide.len();
            for latest in requests.latest.iter_mut().filter(|latest| latest.hits > 0) {
                requests.traffic.add(&latest.settle());
            }
            requests.narrow.settle(&mut requests.traffic);
            requests.wide.settle(&mut requests.traffic);
            let (traffic, worst) = (std::mem::take(&mut requests.traffic), requests.worst.take());
            if traffic.requests > 0 || traffic != Traffic::default() {
                record.requests.push(Requested { pc: requests.pc, space: requests.space, traffic, worst });
            }
        }
        if shapes > SHAPES {
            *self = Shapes::default();
        }
    }
}

/// The shapes of finished blocks, for later blocks to use.
pub(crate) type Pool = Arc<Mutex<Vec<Shapes>>>;

/// The observer of one block.
pub(crate) struct Tally {
    sites: Arc<Sites>,
    pool: Pool,
    /// Whether the cost of each request is found out anew; see [`Device::plain`](warpproof_sim::Device::plain).
    plain: bool,
    narrow: Same<u32>,
    wide: Same<u64>,
    shapes: Shapes,
    pub record: Record,
    /// Atomic operations by word.
    pub heat: BlockHeat,
    lines: Lines,
    /// The latest stretch: start, end and lanes; and the latest instruction with a guard, the lanes that executed it and those that
    /// reached it.
    stretched: Repeated,
    guarded: Repeated,
    /// By number of the barrier.
    phases: Vec<Phase>,
    /// Each warp's instruction count at its last barrier.
    clocks: [u64; 32],
    /// The last copy of a multicast, whose blocks are reported in ascending order.
    multicast: Option<BulkCopy>,
}

impl Tally {
    pub(crate) fn new(sites: Arc<Sites>, level: Level, pool: Pool, record: Record) -> Tally {
        Tally {
            sites,
            pool,
            plain: false,
            narrow: u32::same(level),
            wide: u64::same(level),
            shapes: Shapes::default(),
            record,
            heat: BlockHeat::default(),
            lines: Lines::default(),
            stretched: Repeated::default(),
            guarded: Repeated::default(),
            phases: Vec::new(),
            clocks: [0; 32],
            multicast: None,
        }
    }

    /// Sets whether the cost of each request is found out anew.
    pub(crate) fn plain(self, plain: bool) -> Tally {
        Tally { plain, ..self }
    }

    /// Forgets the block before, except its record.
    pub(crate) fn begin(&mut self, shapes: Shapes, heat: BlockHeat) {
        self.phases.clear();
        (self.shapes, self.heat) = (shapes, heat);
        (self.clocks, self.multicast) = ([0; 32], None);
    }

    fn add_stretches(&mut self, Repeated { event: [start, end, lanes], times }: Repeated) {
        let times = times.cast_signed();
        let lanes = times * i64::from(lanes.count_ones());
        if let Some(edge) = self.record.edges.get_mut(at(start)) {
            edge.executions += times;
            edge.lanes += lanes;
        }
        if let Some(edge) = self.record.edges.get_mut(at(end)) {
            edge.executions -= times;
            edge.lanes -= lanes;
        }
    }

    fn add_guarded(&mut self, Repeated { event: [pc, exec, here], times }: Repeated) {
        let Some(slot) = self.sites.get(pc).guard.filter(|_| times > 0) else { return };
        let Some(count) = self.record.guards.get_mut(at(slot)) else { return };
        count.executions += times;
        count.lanes += times * u64::from(here.count_ones());
        count.lanes_on += times * u64::from(exec.count_ones());
        count.passed += if exec == 0 { times } else { 0 };
        count.mixed += if exec != 0 && exec != here { times } else { 0 };
    }

    /// Counts what a bulk copy reads or writes of global memory, in pieces of contiguous bytes.
    fn bulk_global(&mut self, copy: &BulkCopy, pieces: impl Iterator<Item = (u64, u32)>) {
        let reads = copy.from.0 == Space::Global;
        let touch = match (reads, copy.reduces) {
            (true, _) => Touch::Uncached,
            (false, true) => Touch::Both,
            (false, false) => Touch::Store,
        };
        let touched = &mut self.record.touched;
        let Some(Requests { traffic, .. }) = self.shapes.requests(copy.pc, Space::Global) else { return };
        traffic.requests += 1;
        traffic.lanes += 1;
        for (address, bytes) in pieces.filter(|(_, bytes)| *bytes > 0) {
            let end = address.saturating_add(u64::from(bytes));
            traffic.bytes += u64::from(bytes);
            traffic.ideal_sectors += u64::from(bytes).div_ceil(SECTOR);
            for line in address / LINE..end.div_ceil(LINE) {
                // The sectors of the line from the first to the last byte.
                let first = address.max(line * LINE) % LINE / SECTOR;
                let last = (end.min((line + 1) * LINE) - 1) % LINE / SECTOR;
                let sectors = (0xf << first) & (0xf >> (3 - last)) & 0xf;
                traffic.lines += 1;
                traffic.sectors += last - first + 1;
                traffic.uncached_sectors += if reads { last - first + 1 } else { 0 };
                traffic.first_sectors += touched.touch(line, sectors, touch);
            }
        }
    }

    /// Counts an access to shared memory. Returns its cost.
    fn count_shared(&mut self, access: &SharedAccess<'_>) -> Option<Traffic> {
        let SharedAccess { pc, kind, offsets, bytes, lanes, .. } = *access;
        if lanes == 0 {
            return None;
        }
        let first = memo::first(offsets, lanes);
        let key = Key::new(lanes, bytes, kind, first % 4);
        let requests = self.shapes.requests(pc, Space::Shared)?;
        if !self.plain && requests.narrow.again(self.narrow, key, first, offsets) {
            return requests.narrow.latest();
        }
        let addresses = Row(offsets.0.map(u64::from));
        let mut cost = asked(bytes, lanes);
        let site = self.sites.get(pc);
        let matrix = matches!(site.op, MemoryOp::LoadMatrix | MemoryOp::StoreMatrix);
        let wavefronts = if kind != AccessKind::Atomic {
            pattern::shared(&mut self.lines, &addresses, bytes, lanes, matrix)
        } else if merges(site, &addresses, lanes) {
            Wavefronts { actual: 1, ideal: 1 }
        } else {
            pattern::shared_atomic(&addresses, bytes, lanes)
        };
        cost.wavefronts = wavefronts.actual;
        cost.ideal_wavefronts = wavefronts.ideal;
        contend(&mut cost, kind, site, &addresses, lanes);
        requests.keep(&addresses, bytes, lanes, wavefronts.actual, wavefronts.ideal);
        let forgotten = requests.narrow.put(key, first, offsets, cost, (Vec::new(), Vec::new()));
        requests.traffic.add(&forgotten);
        Some(cost)
    }

    /// Whether it is a further copy of the multicast before it.
    fn continues_multicast(&mut self, copy: &BulkCopy) -> bool {
        let same = |last: &BulkCopy| {
            (last.warp, last.lane, last.pc, last.from) == (copy.warp, copy.lane, copy.pc, copy.from)
                && last.to < copy.to
        };
        let continues = copy.multicast && self.multicast.as_ref().is_some_and(same);
        self.multicast = copy.multicast.then_some(*copy);
        continues
    }
}

/// Bytes of one pass through the banks.
const PASS: u64 = 128;

impl Observer for Tally {
    fn detail(&self) -> Detail {
        Detail::Stretches
    }

    fn ended(&mut self) {
        let (stretched, guarded) = (std::mem::take(&mut self.stretched), std::mem::take(&mut self.guarded));
        self.add_stretches(stretched);
        self.add_guarded(guarded);
        let mut shapes = std::mem::take(&mut self.shapes);
        if shapes.requests.is_empty() {
            return;
        }
        shapes.record(&mut self.record);
        if let Ok(mut pool) = self.pool.lock() {
            pool.push(shapes);
        }
    }

    #[inline]
    fn stretch(&mut self, stretch: &Stretch) {
        if let Some(before) = self.stretched.add([stretch.code.start, stretch.code.end, stretch.lanes]) {
            self.add_stretches(before);
        }
    }

    #[inline]
    fn guarded(&mut self, guarded: &Guarded) {
        if let Some(before) = self.guarded.add([guarded.pc, guarded.exec, guarded.here]) {
            self.add_guarded(before);
        }
    }

    fn diverge(&mut self, _warp: u32, pc: u32) {
        *self.record.tables.entry(pc).or_default() += 1;
    }

    fn shared(&mut self, access: &SharedAccess<'_>) {
        let SharedAccess { pc, kind, offsets, halves, bytes, lanes, .. } = *access;
        let regular = Regular::of([offsets.0[0], offsets.0[16]].map(u64::from), halves);
        let Some(regular) = regular.filter(|_| !self.plain) else {
            self.count_shared(access);
            return;
        };
        let first = offsets.0[0];
        let (key, first) = (Key::new(lanes, bytes, kind, first % 4), u64::from(first));
        let Some(requests) = self.shapes.requests(pc, Space::Shared) else { return };
        if let Some(latest) = requests.again(key, regular, first) {
            latest.hits += 1;
            return;
        }
        let cost = self.count_shared(access);
        if let Some(requests) = self.shapes.requests(pc, Space::Shared) {
            requests.keep_latest((key, regular), first, cost, Touch::of(kind, false));
        }
    }

    fn words(&mut self, words: &GlobalWords) {
        let first = words.starts[0];
        let key = Key::new(u32::MAX, 4, AccessKind::Read, u32::try_from(first % LINE).unwrap_or(0));
        let Some(regular) = Regular::of(words.starts, words.halves).filter(|_| !self.plain) else {
            return words.widened(|access| self.access(access));
        };
        let touched = &mut self.record.touched;
        if let Some(requests) = self.shapes.requests(words.pc, Space::Global)
            && let Some(latest) = requests.again(key, regular, first)
        {
            latest.hits += 1;
            latest.first_sectors +=
                words.pieces().into_iter().map(|piece| touched.touch_bytes(piece, latest.touch)).sum::<u64>();
            return;
        }
        words.widened(|access| self.access(access));
        let touch = Touch::of(AccessKind::Read, self.sites.get(words.pc).uncached);
        if let Some(requests) = self.shapes.requests(words.pc, Space::Global) {
            let cost = requests.wide.latest();
            requests.keep_latest((key, regular), first, cost, touch);
        }
    }

    fn bundle(&mut self, reads: &BundleReads<'_>) -> bool {
        let known = self.shapes.bundles.entry(reads.bundle.number);
        if known.again(self.narrow, reads) {
            return true;
        }
        let room = known.has_room();
        let mut costs = Vec::new();
        reads.each(|access| costs.extend(self.count_shared(access).map(|cost| (access.pc, cost))));
        if room {
            self.shapes.bundles.entry(reads.bundle.number).put(reads, costs);
        }
        true
    }

    fn access(&mut self, access: &Access<'_>) {
        let Access { block, warp, pc, space, kind, addresses, bytes, lanes, .. } = *access;
        if lanes == 0 {
            return;
        }
        if space == Space::Shared {
            let offsets = Row(addresses.0.map(|address| u32::try_from(address).unwrap_or(u32::MAX)));
            let (offsets, halves) = (&offsets, [Half::Mixed; 2]);
            self.shared(&SharedAccess { block, warp, pc, kind, offsets, halves, bytes, lanes });
            return;
        }
        let first = memo::first(addresses, lanes);
        let phase = match space {
            Space::Global | Space::Generic => first % LINE,
            _ => first % 4,
        };
        let key = Key::new(lanes, bytes, kind, u32::try_from(phase).unwrap_or(0));
        let site = self.sites.get(pc);
        let touched = &mut self.record.touched;
        if let Some(requests) = self.shapes.requests(pc, space) {
            let fresh = self.plain || !requests.wide.again(self.wide, key, first, addresses);
            if fresh {
                let (cost, lines) = cost_of(&mut self.lines, access, site);
                let mut words = Vec::new();
                if matches!(space, Space::Global | Space::Generic) {
                    requests.keep(addresses, bytes, lanes, cost.sectors, cost.ideal_sectors);
                    if kind == AccessKind::Atomic {
                        words = if merges(site, addresses, lanes) {
                            vec![(0, 1)]
                        } else {
                            pattern::words(addresses, lanes)
                        };
                    }
                }
                let forgotten = requests.wide.put(key, first, addresses, cost, (lines, words));
                requests.traffic.add(&forgotten);
            }
            if matches!(space, Space::Global | Space::Generic) {
                let touch = Touch::of(kind, site.uncached);
                requests.traffic.first_sectors += requests.wide.touch(touched, first, touch, fresh);
                if kind == AccessKind::Atomic {
                    requests.wide.heat(&mut self.heat, first);
                }
            }
        }
    }

    fn remote(&mut self, _rank: u32, access: &Access<'_>) {
        self.access(access);
        let bytes = u64::from(access.bytes) * u64::from(access.lanes.count_ones());
        if let Some(requests) = self.shapes.requests(access.pc, Space::Shared) {
            requests.traffic.remote_bytes += bytes;
        }
    }

    fn tensor_issued(&mut self, copy: &BulkCopy, rows: &[(u64, u32)]) {
        if !self.continues_multicast(copy) {
            self.bulk_global(copy, rows.iter().copied());
        }
    }

    fn bulk_issued(&mut self, copy: &BulkCopy) {
        let continues = self.continues_multicast(copy);
        let global = [copy.from, copy.to].into_iter().find(|(space, _)| *space == Space::Global);
        if let (Some((_, address)), false, false) = (global, continues, copy.tensor) {
            self.bulk_global(copy, std::iter::once((address, copy.bytes)));
        }
        let Some(requests) = self.shapes.requests(copy.pc, Space::Shared) else { return };
        let traffic = &mut requests.traffic;
        traffic.requests += 1;
        traffic.lanes += 1;
        // A store of registers has its destination as its source.
        let read = Some(copy.from).filter(|from| *from != copy.to);
        for (_, address) in read.into_iter().chain([copy.to]).filter(|(space, _)| *space == Space::Shared) {
            let bytes = u64::from(copy.bytes);
            traffic.bytes += bytes;
            traffic.wavefronts += bytes.div_ceil(PASS);
            traffic.ideal_wavefronts += bytes.div_ceil(PASS);
            let own = rank_in(address) == u64::from(copy.rank);
            traffic.remote_bytes += if own { 0 } else { bytes };
        }
    }

    fn arrive(&mut self, arrival: &Arrival) {
        self.record.barriers.entry(arrival.pc).arrivals += 1;
        let clock = &mut self.clocks[at(arrival.warp & 31)];
        let work = arrival.clock.saturating_sub(*clock);
        *clock = arrival.clock;
        if self.phases.len() <= at(arrival.id) {
            self.phases.resize(at(arrival.id).min(BARRIERS) + 1, Phase::default());
        }
        let Some(phase) = self.phases.get_mut(at(arrival.id)) else { return };
        phase.warps |= 1 << (arrival.warp & 31);
        // Lanes of one warp may arrive separately: the warp has finished its work when the last of them arrives.
        phase.work[at(arrival.warp & 31)] += work;
        phase.last = arrival.pc;
    }

    fn mbarrier(&mut self, used: &Mbarrier) {
        let count = self.record.mbarriers.entry(used.pc);
        match used.action {
            MbarrierAction::Init => count.inits += 1,
            MbarrierAction::Arrive => count.arrivals += 1,
            MbarrierAction::Test(complete) => {
                count.tests += 1;
                count.unfinished += u64::from(!complete);
            }
            MbarrierAction::Track | MbarrierAction::Inval => {}
        }
        count.phases += u64::from(used.completes);
    }

    fn bulk_signaled(&mut self, copy: &BulkCopy, completes: bool) {
        let count = self.record.mbarriers.entry(copy.pc);
        count.transactions += 1;
        count.phases += u64::from(completes);
    }

    fn barrier(&mut self, _block: u32, id: u32) {
        let Some(phase) = self.phases.get_mut(at(id)).map(std::mem::take) else { return };
        let warps = u64::from(phase.warps.count_ones());
        let work: u64 = phase.work.iter().sum();
        let longest = phase.work.iter().copied().max().unwrap_or(0);
        let count = self.record.barriers.entry(phase.last);
        count.phases += 1;
        count.warps += warps;
        count.work += work;
        count.longest += longest;
        count.idle += longest * warps - work;
    }
}

/// The addresses of the active lanes.
fn asked(bytes: u32, lanes: u32) -> Traffic {
    let count = u64::from(lanes.count_ones());
    Traffic { requests: 1, lanes: count, bytes: count * u64::from(bytes), ..Traffic::default() }
}

/// Whether ptxas merges the lanes of an atomic request.
fn merges(site: Site, addresses: &Row<u64>, lanes: u32) -> bool {
    site.merges && pattern::uniform(addresses, lanes)
}

/// Address contention of an atomic request.
fn contend(cost: &mut Traffic, kind: AccessKind, site: Site, addresses: &Row<u64>, lanes: u32) {
    if kind == AccessKind::Atomic {
        let contention = pattern::contention(addresses, lanes);
        cost.addresses = contention.addresses;
        cost.depth = contention.most;
        cost.max_depth = contention.most;
        cost.serial = if merges(site, addresses, lanes) { 1 } else { contention.most };
    }
}

/// The cost of a request to any memory except shared memory, and the lines of global memory it touches, relative to the
/// line of the first lane.
fn cost_of(lines: &mut Lines, access: &Access<'_>, site: Site) -> (Traffic, Vec<(u64, u32)>) {
    let Access { space, kind, addresses, bytes, lanes, .. } = *access;
    let mut cost = asked(bytes, lanes);
    let mut touched = Vec::new();
    match space {
        Space::Global | Space::Generic => {
            lines.global(addresses, bytes, lanes);
            let first = memo::first(addresses, lanes) / LINE;
            touched = lines.iter().map(|(line, sectors)| (line.wrapping_sub(first), sectors)).collect();
        }
        Space::Local => lines.local(addresses, bytes, lanes),
        Space::Const | Space::Param | Space::Shared => {
            cost.wavefronts = pattern::constants(addresses, lanes);
            lines.clear();
        }
    }
    cost.lines = lines.lines();
    cost.sectors = lines.sectors();
    if matches!(space, Space::Global | Space::Generic) {
        // Each lane is aligned to its access size, so two lanes access either the same bytes or disjoint ones.
        let distinct = pattern::contention(addresses, lanes).addresses * u64::from(bytes);
        cost.ideal_sectors = distinct.div_ceil(SECTOR).max(1).min(cost.sectors);
    }
    contend(&mut cost, kind, site, addresses, lanes);
    (cost, touched)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpproof_sim::Device;
    use warpproof_sim::machine::LANES;

    fn tally() -> Tally {
        let text = ".version 8.7\n.target sm_89\n.address_size 64\n.visible .entry k() {\nret;\nret;\n}\n";
        let program = Device::new().load(text).unwrap().kernel("k").unwrap().launch().program();
        let sites = Arc::new(Sites::of(&program));
        let record = Record::new(program.code.len(), 0, 1 << 20);
        Tally::new(sites, Level::detect(), Pool::default(), record)
    }

    /// What a block requested, and how many sectors it loaded.
    fn counts(mut tally: Tally) -> (Vec<(u32, Space, Traffic)>, u64) {
        tally.ended();
        let requests = tally.record.requests.iter();
        (
            requests.map(|requests| (requests.pc, requests.space, requests.traffic)).collect(),
            tally.record.touched.loaded,
        )
    }

    /// The halves of a warp, by number.
    fn halves(number: u32) -> [Half; 2] {
        [number & 1, number >> 1 & 1].map(|bit| if bit == 0 { Half::Run } else { Half::Same })
    }

    #[test]
    fn regular_loads_count_as_any_others() {
        let (mut fast, mut slow) = (tally(), tally());
        for i in 0..400u32 {
            let starts = [4 * u64::from(i * 37 % 211), 4 * u64::from(i * 53 % 97)];
            let words = GlobalWords { block: 0, warp: 0, pc: i % 2, starts, halves: halves(i / 3) };
            fast.words(&words);
            words.widened(|access| slow.access(access));
        }
        assert_eq!(counts(fast), counts(slow));
    }

    #[test]
    fn regular_accesses_to_shared_memory_count_as_any_others() {
        let (mut fast, mut slow) = (tally(), tally());
        for i in 0..400u32 {
            let (starts, halves) = ([4 * (i * 37 % 211), 4 * (i * 5 % 7)], halves(i / 3));
            let mut offsets = Row([0; LANES]);
            for (lane, offset) in (0u32..).zip(&mut offsets.0) {
                let step = if halves[at(lane / 16)] == Half::Run { 4 } else { 0 };
                *offset = starts[at(lane / 16)] + step * (lane % 16);
            }
            let kind = if i % 2 == 0 { AccessKind::Read } else { AccessKind::Write };
            let (warp, pc, offsets, bytes, lanes) = (0, i % 2, &offsets, 4, u32::MAX);
            let access = SharedAccess { block: 0, warp, pc, kind, offsets, halves, bytes, lanes };
            fast.shared(&access);
            slow.shared(&SharedAccess { halves: [Half::Mixed; 2], ..access });
        }
        assert_eq!(counts(fast), counts(slow));
    }
}
