//! Happens-before between threads: vector clocks, kept small because barriers order whole blocks and warps.
//!
//! A block has one logical time, which advances with every synchronization in it. An access of thread A at time t
//! happens before what thread B does now if B has *seen* A up to time t. After a barrier of the whole block, every
//! thread has seen all threads (`floor`: one comparison); `bar.warp.sync` of all lanes does the same for a warp.
//! Everything else is stored per warp if all lanes have seen it, and per lane otherwise. The result is exact: each lane
//! is a thread of its own, and what one lane acquires through a flag is not visible to the other lanes until they
//! synchronize with it.

use super::site::Scope;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use warpproof_sim::machine::lanes_of;

/// Lanes of a warp.
const LANES: usize = 32;

/// A thread of a block by its warp and lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Who(pub u16);

impl Who {
    pub(crate) fn new(warp: u32, lane: usize) -> Who {
        Who(u16::try_from(warp * 32 + u32::try_from(lane).unwrap_or(0)).unwrap_or(u16::MAX))
    }
    pub(crate) fn warp(self) -> usize {
        usize::from(self.0 >> 5)
    }
    pub(crate) fn lane(self) -> usize {
        usize::from(self.0 & 31)
    }
}

/// How far the lanes of a warp have been seen: all of them up to one time, some of them further.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    all: u32,
    lanes: Option<Box<[u32; LANES]>>,
}

impl Known {
    fn get(&self, lane: usize) -> u32 {
        self.all.max(self.lanes.as_ref().map_or(0, |lanes| lanes[lane]))
    }

    fn raise(&mut self, lanes: u32, time: u32) {
        if lanes == u32::MAX {
            self.all = self.all.max(time);
            return;
        }
        let known = self.lanes.get_or_insert_default();
        for lane in lanes_of(lanes) {
            known[lane] = known[lane].max(time);
        }
    }

    fn join(&mut self, other: &Known) {
        self.all = self.all.max(other.all);
        if let Some(theirs) = &other.lanes {
            let ours = self.lanes.get_or_insert_default();
            for (ours, theirs) in ours.iter_mut().zip(theirs.iter()) {
                *ours = (*ours).max(*theirs);
            }
        }
    }
}

/// How far the threads of a block have been seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct BlockClock {
    /// All threads have been seen up to this time.
    floor: u32,
    warps: Vec<Known>,
}

impl BlockClock {
    fn warp(&mut self, warp: usize) -> &mut Known {
        if self.warps.len() <= warp {
            self.warps.resize_with(warp + 1, Known::default);
        }
        &mut self.warps[warp]
    }

    fn get(&self, who: Who) -> u32 {
        self.floor.max(self.warps.get(who.warp()).map_or(0, |known| known.get(who.lane())))
    }

    fn join(&mut self, other: &BlockClock) {
        self.floor = self.floor.max(other.floor);
        for (warp, known) in other.warps.iter().enumerate() {
            self.warp(warp).join(known);
        }
    }
}

/// How far every thread of the grid has been seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    blocks: BTreeMap<u32, BlockClock>,
}

impl Clock {
    fn get(&self, block: u32, who: Who) -> u32 {
        self.blocks.get(&block).map_or(0, |clock| clock.get(who))
    }

    /// Whether what a thread of a block did at a time has been seen.
    pub(crate) fn reaches(&self, block: u32, who: Who, time: u32) -> bool {
        self.get(block, who) >= time
    }

    pub(crate) fn join(&mut self, other: &Clock) {
        for (block, clock) in &other.blocks {
            self.blocks.entry(*block).or_default().join(clock);
        }
    }

    /// What an asynchronous agent has done up to a time.
    pub(crate) fn of_agent(agent: u32, time: u32) -> Clock {
        let done = BlockClock { floor: time, warps: Vec::new() };
        Clock { blocks: BTreeMap::from([(agent, done)]) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}

/// What the lanes of a warp have seen.
#[derive(Clone, Debug, Default)]
struct WarpView {
    /// Lanes that have not exited.
    live: u32,
    /// All lanes have seen all lanes of their own warp up to this time.
    floor: u32,
    /// What all lanes have seen in addition.
    common: Clock,
    /// What single lanes have seen in addition.
    lanes: Option<Box<[Clock; LANES]>>,
}

/// Lanes of warps that wait at a barrier. Most blocks have at most eight warps, and barriers are frequent: no allocation.
pub(crate) type Waiting = SmallVec<[(u32, u32); 8]>;

/// A barrier at which threads are arriving.
#[derive(Clone, Debug, Default)]
struct Meeting {
    clock: Clock,
    waiting: Waiting,
    /// Whether it waits for a given number of threads, instead of all threads that have not exited.
    counted: bool,
}

/// The order among the threads of a block, and what they have seen of other blocks.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    block: u32,
    threads: u32,
    now: u32,
    floor: u32,
    /// What all threads of the block have seen of other blocks.
    common: Clock,
    warps: Vec<WarpView>,
    /// By number of the barrier, of which a block has few.
    meetings: Vec<(u32, Meeting)>,
}

impl Order {
    pub(crate) fn new(block: u32, threads: u32) -> Order {
        let warps = (0..threads.div_ceil(32)).map(|warp| {
            let lanes = (threads - warp * 32).min(32);
            WarpView { live: u32::MAX >> (32 - lanes), ..WarpView::default() }
        });
        Order {
            block,
            threads,
            now: 1,
            floor: 0,
            common: Clock::default(),
            warps: warps.collect(),
            meetings: Vec::new(),
        }
    }

    /// The current time.
    pub(crate) fn now(&self) -> u32 {
        self.now
    }

    /// The linear index of the block.
    pub(crate) fn block(&self) -> u32 {
        self.block
    }

    /// What a thread has seen of the other threads.
    pub(crate) fn seen_by(&self, me: Who) -> Clock {
        self.view(me.warp(), 1 << me.lane(), 0)
    }

    /// Everything in the block up to this time happens before what any of its threads does now.
    pub(crate) fn floor(&self) -> u32 {
        self.floor
    }

    /// As [`floor`](Self::floor), among the lanes of a warp.
    pub(crate) fn warp_floor(&self, warp: usize) -> u32 {
        self.warps.get(warp).map_or(0, |view| view.floor)
    }

    /// Whether what `who`, a thread of this block, did at `time` happens before what `me` does now.
    pub(crate) fn before(&self, who: Who, time: u32, me: Who) -> bool {
        if time <= self.floor || who == me {
            return true;
        }
        (who.warp() == me.warp() && time <= self.warp_floor(me.warp()))
            || self.seen(self.block, who, time, me)
    }

    /// The same for a thread of any block.
    pub(crate) fn before_any(&self, block: u32, who: Who, time: u32, me: Who) -> bool {
        if block == self.block { self.before(who, time, me) } else { self.seen(block, who, time, me) }
    }

    fn seen(&self, block: u32, who: Who, time: u32, me: Who) -> bool {
        let Some(view) = self.warps.get(me.warp()) else { return false };
        self.common.get(block, who) >= time
            || view.common.get(block, who) >= time
            || view.lanes.as_ref().is_some_and(|lanes| lanes[me.lane()].get(block, who) >= time)
    }

    fn tick(&mut self) -> u32 {
        let now = self.now;
        self.now = self.now.saturating_add(1);
        now
    }

    /// What a thread has seen, including its own accesses: the clock that it releases.
    pub(crate) fn release(&mut self, me: Who) -> Clock {
        let now = self.tick();
        self.view(me.warp(), 1 << me.lane(), now)
    }

    fn view(&self, warp: usize, lanes: u32, now: u32) -> Clock {
        let mut clock = self.common.clone();
        let Some(view) = self.warps.get(warp) else { return clock };
        clock.join(&view.common);
        if let Some(extra) = &view.lanes {
            lanes_of(lanes).for_each(|lane| clock.join(&extra[lane]));
        }
        let own = clock.blocks.entry(self.block).or_default();
        own.floor = own.floor.max(self.floor);
        own.warp(warp).raise(u32::MAX, view.floor);
        own.warp(warp).raise(if lanes == view.live { u32::MAX } else { lanes }, now);
        clock
    }

    /// A thread acquires a released clock.
    pub(crate) fn acquire(&mut self, me: Who, clock: &Clock) {
        self.learn(me.warp(), 1 << me.lane(), clock);
    }

    fn learn(&mut self, warp: usize, lanes: u32, clock: &Clock) {
        let Some(view) = self.warps.get_mut(warp) else { return };
        if lanes == view.live {
            view.common.join(clock);
            return;
        }
        let extra = view.lanes.get_or_insert_default();
        lanes_of(lanes).for_each(|lane| extra[lane].join(clock));
    }

    /// What lanes of a warp have seen together, including their own accesses.
    pub(crate) fn release_lanes(&mut self, warp: u32, lanes: u32) -> Clock {
        let now = self.tick();
        self.view(usize::try_from(warp).unwrap_or(usize::MAX), lanes, now)
    }

    /// What happens next has another time; returns the time until now.
    pub(crate) fn advance(&mut self) -> u32 {
        self.tick()
    }

    /// All lanes of a warp acquire a released clock.
    pub(crate) fn acquire_warp(&mut self, warp: u32, clock: &Clock) {
        let warp = usize::try_from(warp).unwrap_or(usize::MAX);
        if let Some(view) = self.warps.get_mut(warp) {
            view.common.join(clock);
        }
    }

    /// Lanes of a warp acquire a released clock.
    pub(crate) fn acquire_lanes(&mut self, warp: u32, lanes: u32, clock: &Clock) {
        self.learn(usize::try_from(warp).unwrap_or(usize::MAX), lanes, clock);
    }

    /// That the block has started.
    pub(crate) fn started(&self) -> Clock {
        Clock { blocks: BTreeMap::from([(self.block, BlockClock::default())]) }
    }

    /// Whether a thread is ordered after anything that another block did.
    pub(crate) fn knows(&self, block: u32, me: Who) -> bool {
        let knows = |clock: &Clock| clock.blocks.contains_key(&block);
        let Some(view) = self.warps.get(me.warp()) else { return false };
        let own = || view.lanes.as_ref().is_some_and(|lanes| knows(&lanes[me.lane()]));
        block == self.block || knows(&self.common) || knows(&view.common) || own()
    }

    /// Whether any thread of the block is ordered after what a thread of another block did at a time.
    pub(crate) fn anyone_saw(&self, block: u32, who: Who, time: u32) -> bool {
        let saw = |clock: &Clock| clock.get(block, who) >= time;
        let by_warp = |view: &WarpView| {
            saw(&view.common) || view.lanes.as_ref().is_some_and(|lanes| lanes.iter().any(saw))
        };
        saw(&self.common) || self.warps.iter().any(by_warp)
    }

    /// Whether all threads have exited.
    pub(crate) fn ended(&self) -> bool {
        self.warps.iter().all(|view| view.live == 0)
    }

    /// Lanes of a warp have synchronized.
    pub(crate) fn converge(&mut self, warp: u32, lanes: u32) {
        let now = self.tick();
        let index = usize::try_from(warp).unwrap_or(usize::MAX);
        let Some(view) = self.warps.get_mut(index) else { return };
        if lanes & view.live == view.live {
            view.floor = now;
            if let Some(extra) = view.lanes.take() {
                extra.iter().for_each(|clock| view.common.join(clock));
            }
            return;
        }
        let met = self.view(index, lanes, now);
        self.learn(index, lanes, &met);
    }

    /// Threads arrive at a barrier. If all barriers of the kernel are for all threads, their clocks need not be
    /// recorded (`noted` is false): every thread waits there and has seen everything when the barrier completes.
    pub(crate) fn arrive(&mut self, warp: u32, lanes: u32, id: u32, waits: bool, counted: bool, noted: bool) {
        let now = self.tick();
        let index = usize::try_from(warp).unwrap_or(usize::MAX);
        let clock = noted.then(|| self.view(index, lanes, now));
        let known = self.meetings.iter().position(|(known, _)| *known == id);
        let place = known.unwrap_or_else(|| {
            self.meetings.push((id, Meeting::default()));
            self.meetings.len() - 1
        });
        let meeting = &mut self.meetings[place].1;
        if let Some(clock) = clock {
            meeting.clock.join(&clock);
        }
        meeting.counted |= counted;
        if waits {
            meeting.waiting.push((warp, lanes));
        }
    }

    /// All threads of a barrier have arrived. Returns the threads that waited, or `None` if all threads of the block
    /// did.
    pub(crate) fn complete(&mut self, id: u32) -> Option<Waiting> {
        let place = self.meetings.iter().position(|(known, _)| *known == id);
        let Some(place) = place else { return Some(Waiting::new()) };
        let (_, meeting) = self.meetings.swap_remove(place);
        let waiting: u32 = meeting.waiting.iter().map(|(_, lanes)| lanes.count_ones()).sum();
        // A given number of threads covers the block only if none has exited: exited threads do not take part.
        if !meeting.counted || waiting >= self.threads {
            self.floor = self.tick();
            for view in &mut self.warps {
                if !view.common.is_empty() {
                    self.common.join(&std::mem::take(&mut view.common));
                }
                for lane in view.lanes.take().iter().flat_map(|lanes| lanes.iter()) {
                    self.common.join(lane);
                }
            }
            // All threads have now seen everything in this block.
            self.common.blocks.remove(&self.block);
            return None;
        }
        for (warp, lanes) in &meeting.waiting {
            self.learn(usize::try_from(*warp).unwrap_or(usize::MAX), *lanes, &meeting.clock);
        }
        Some(meeting.waiting)
    }

    /// Lanes of a warp have exited.
    pub(crate) fn exit(&mut self, warp: u32, lanes: u32) {
        let index = usize::try_from(warp).unwrap_or(usize::MAX);
        if let Some(view) = self.warps.get_mut(index) {
            view.live &= !lanes;
        }
    }
}

/// A clock for each scope: block scope and device scope.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scoped {
    pub block: Clock,
    pub device: Clock,
}

impl Scoped {
    fn join(&mut self, other: &Scoped) {
        self.block.join(&other.block);
        self.device.join(&other.device);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.block.is_empty() && self.device.is_empty()
    }
}

/// What sequentially consistent fences order beyond the thread that executes them. All such fences have one total
/// order. Suppose thread 1 executes such a fence and passes a barrier, then thread 2 writes a flag that thread 3 reads,
/// and after another barrier thread 4 executes such a fence. Then the first fence precedes the second: the other order
/// would let the flag be read before it is written. So thread 4 sees what thread 1 did before its fence.
#[derive(Clone, Debug, Default)]
struct Carried {
    /// What earlier fences cover. The next strong write publishes it.
    covered: Scoped,
    /// What earlier strong reads have seen of other threads' fences. It takes effect at the next fence.
    seen: Scoped,
}

impl Carried {
    fn join(&mut self, other: &Carried) {
        self.covered.join(&other.covered);
        self.seen.join(&other.seen);
    }

    fn is_empty(&self) -> bool {
        self.covered.is_empty() && self.seen.is_empty()
    }
}

/// What a thread's fences cover but no strong write has published yet, and what its strong reads have seen but no fence
/// has acquired yet.
///
/// A fence of block scope neither releases to other blocks nor acquires from them; it also does not undo an earlier
/// fence of wider scope.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fences {
    /// By thread: what its fences cover.
    released: BTreeMap<Who, Scoped>,
    /// By thread: what strong reads have seen since its last fence.
    pending: BTreeMap<Who, Scoped>,
    /// By thread: what it has carried since the last barrier of the block.
    carried: BTreeMap<Who, Carried>,
    /// What all threads of the block carry.
    common: Carried,
    /// By barrier: what the arrived threads carry.
    arrived: BTreeMap<u32, Carried>,
}

impl Fences {
    /// A thread executes a fence: it acquires what its earlier strong reads saw, and its next strong write releases
    /// what it did before the fence.
    pub(crate) fn fence(&mut self, order: &mut Order, me: Who, scope: Scope, sequential: bool) {
        let wide = scope == Scope::Device;
        if sequential {
            let own = self.carried.get(&me).map(|carried| &carried.seen);
            for seen in own.into_iter().chain([&self.common.seen]) {
                order.acquire(me, &seen.block);
                if wide {
                    order.acquire(me, &seen.device);
                }
            }
        }
        if let Some(seen) = self.pending.get_mut(&me) {
            order.acquire(me, &std::mem::take(&mut seen.block));
            if wide {
                order.acquire(me, &std::mem::take(&mut seen.device));
                self.pending.remove(&me);
            }
        }
        let clock = order.release(me);
        if sequential {
            let covered = &mut self.carried.entry(me).or_default().covered;
            if wide {
                covered.device = clock.clone();
            }
            covered.block = clock.clone();
        }
        let released = self.released.entry(me).or_default();
        if wide {
            released.device = clock.clone();
        }
        released.block = clock;
    }

    /// What a strong write of a thread releases to readers that execute a sequentially consistent fence.
    pub(crate) fn covered(&self, me: Who) -> Scoped {
        let mut covered = self.common.covered.clone();
        if let Some(own) = self.carried.get(&me) {
            covered.join(&own.covered);
        }
        covered
    }

    /// A strong read has seen what fences of other threads cover.
    pub(crate) fn carry(&mut self, me: Who, seen: &Scoped) {
        if !seen.is_empty() {
            self.carried.entry(me).or_default().seen.join(seen);
        }
    }

    /// Threads arrive at a barrier.
    pub(crate) fn arrive(&mut self, warp: u32, lanes: u32, id: u32) {
        if self.carried.is_empty() {
            return;
        }
        let all = self.of(warp, lanes);
        if !all.is_empty() {
            self.arrived.entry(id).or_default().join(&all);
        }
    }

    /// A barrier completes for the threads that wait at it, or for the whole block if `waiting` is `None`.
    pub(crate) fn complete(&mut self, id: u32, waiting: Option<&[(u32, u32)]>) {
        if self.arrived.is_empty() && self.carried.is_empty() {
            return;
        }
        let arrived = self.arrived.remove(&id);
        match (waiting, arrived) {
            // Exited threads do not take part, and what they carried is dropped.
            (None, arrived) => {
                self.carried.clear();
                self.common.join(&arrived.unwrap_or_default());
            }
            (Some(waiting), Some(arrived)) => {
                for (warp, lanes) in waiting {
                    self.learn(*warp, *lanes, &arrived);
                }
            }
            (Some(_), None) => {}
        }
    }

    /// Lanes of a warp have synchronized.
    pub(crate) fn converge(&mut self, warp: u32, lanes: u32) {
        if self.carried.is_empty() {
            return;
        }
        let all = self.of(warp, lanes);
        if !all.is_empty() {
            self.learn(warp, lanes, &all);
        }
    }

    fn of(&self, warp: u32, lanes: u32) -> Carried {
        let mut all = Carried::default();
        let own = lanes_of(lanes).filter_map(|lane| self.carried.get(&Who::new(warp, lane)));
        own.for_each(|carried| all.join(carried));
        all
    }

    fn learn(&mut self, warp: u32, lanes: u32, carried: &Carried) {
        for lane in lanes_of(lanes) {
            self.carried.entry(Who::new(warp, lane)).or_default().join(carried);
        }
    }

    /// What a strong write of a thread releases.
    pub(crate) fn released(&self, me: Who) -> Option<&Scoped> {
        self.released.get(&me)
    }

    /// A strong read has seen clocks; the next fence acquires them.
    pub(crate) fn saw(&mut self, me: Who, seen: &Scoped) {
        let pending = self.pending.entry(me).or_default();
        pending.block.join(&seen.block);
        pending.device.join(&seen.device);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_barrier_orders_everything() {
        let mut order = Order::new(0, 64);
        let (a, b) = (Who::new(0, 3), Who::new(1, 4));
        let time = order.now();
        assert!(!order.before(a, time, b));
        order.arrive(0, u32::MAX, 0, true, false, false);
        order.arrive(1, u32::MAX, 0, true, false, false);
        assert!(order.complete(0).is_none());
        assert!(order.before(a, time, b));
        assert!(!order.before(a, order.now(), b));
    }

    #[test]
    fn lanes_meet_only_those_in_the_mask() {
        let mut order = Order::new(0, 32);
        let time = order.now();
        order.converge(0, 0xffff);
        assert!(order.before(Who::new(0, 1), time, Who::new(0, 2)));
        assert!(!order.before(Who::new(0, 1), time, Who::new(0, 20)));
        assert!(!order.before(Who::new(0, 20), time, Who::new(0, 1)));
        order.converge(0, u32::MAX);
        assert!(order.before(Who::new(0, 20), time, Who::new(0, 1)));
    }

    #[test]
    fn who_arrives_without_waiting_learns_nothing() {
        let mut order = Order::new(0, 96);
        let time = order.now();
        order.arrive(0, u32::MAX, 1, false, true, true);
        order.arrive(1, u32::MAX, 1, true, true, true);
        assert!(order.complete(1).is_some());
        let (producer, consumer, third) = (Who::new(0, 0), Who::new(1, 0), Who::new(2, 0));
        assert!(order.before(producer, time, consumer));
        assert!(!order.before(consumer, time, producer));
        assert!(!order.before(producer, time, third));
    }

    #[test]
    fn a_flag_is_seen_by_one_lane_until_the_warp_meets() {
        let mut order = Order::new(0, 64);
        let (writer, reader, other) = (Who::new(0, 0), Who::new(1, 0), Who::new(1, 1));
        let time = order.now();
        let clock = order.release(writer);
        order.acquire(reader, &clock);
        assert!(order.before(writer, time, reader));
        assert!(!order.before(writer, time, other));
        order.converge(1, u32::MAX);
        assert!(order.before(writer, time, other));
    }

    #[test]
    fn blocks_are_ordered_by_flags_alone() {
        let (mut first, mut second) = (Order::new(0, 64), Order::new(1, 64));
        let (a, b) = (Who::new(1, 5), Who::new(0, 7));
        let time = first.now();
        let early = first.release(Who::new(0, 0));
        second.acquire(b, &early);
        assert!(!second.before_any(0, a, time, b));
        first.arrive(0, u32::MAX, 0, true, false, false);
        first.arrive(1, u32::MAX, 0, true, false, false);
        first.complete(0);
        let late = first.release(Who::new(0, 0));
        second.acquire(b, &late);
        assert!(second.before_any(0, a, time, b));
        assert!(!second.before_any(0, a, time, Who::new(1, 0)));
    }

    #[test]
    fn a_fence_of_the_block_makes_nothing_of_other_blocks_count() {
        let (mut first, mut second) = (Order::new(0, 32), Order::new(1, 32));
        let (writer, reader) = (Who::new(0, 0), Who::new(0, 1));
        let time = first.now();
        let mut writers = Fences::default();
        writers.fence(&mut first, writer, Scope::Device, false);
        // A narrower fence does not undo what the wider one released.
        writers.fence(&mut first, writer, Scope::Block, false);
        let released = writers.released(writer).cloned().unwrap();
        let mut readers = Fences::default();
        readers.saw(reader, &Scoped { block: Clock::default(), device: released.device });
        readers.fence(&mut second, reader, Scope::Block, false);
        assert!(!second.before_any(0, writer, time, reader));
        readers.fence(&mut second, reader, Scope::Device, false);
        assert!(second.before_any(0, writer, time, reader));
    }
}
