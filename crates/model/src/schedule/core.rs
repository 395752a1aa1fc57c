//! The simulation of one multiprocessor.
#![expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "token rates are fractions of a byte per cycle; cycles stay far below 2^53"
)]

use std::collections::VecDeque;

use crate::device::Device;
use crate::rates::Pipe;
use crate::sass::{End, Flow, Function, Instruction};

use super::unit::{Kind, Timing, is_wgmma, timing};
use super::{Access, Code, Cost, Event, Limits, Path, Reason, Residency, Schedule, ScheduleError, Stalls};

/// Memory instructions that a sub-core queues before the load/store unit takes them.
const QUEUE: usize = 5;
/// Cycles between two memory instructions of one sub-core's address unit.
const ADDRESS: u64 = 4;
/// Cycles from the load/store unit's turn until the queue slot is free.
const DEQUEUE: u64 = 11;
/// Bytes per cycle between one multiprocessor and the L2 cache, however few others access it. Assumed: two
/// sectors.
const PORT: f64 = 64.0;
/// The same, for instructions.
pub(super) const PORT_BYTES: u64 = 64;
/// The fraction of the datasheet's bandwidth that streams reach. Calibrated with te42kyfo/gpu-benches,
/// gpu-stream, l40.txt: an L40 reads 844 and scales at 770 to 816 of 864 GB/s; other devices validate it.
const REACHED: f64 = 0.93;
/// Cycles from the end of a block until the next one in its slot issues. Calibrated with
/// te42kyfo/gpu-benches, gpu-stream, l40.txt: blocks of 64 threads that read one double each.
const BLOCK_START: u64 = 140;
/// Cycles from the last arrival at a barrier until the waiting warps issue again. Assumed: no source was
/// found.
const BARRIER: u64 = 20;
/// Barriers of a block, and the cluster's.
const BARRIERS: usize = 17;
/// The number of the cluster's barrier.
const CLUSTER: u32 = 16;
/// Maximum number of resident warps that the simulation accepts; more than any device has.
const MOST_WARPS: u32 = 128;

/// A unit of a sub-core: the cycle in which it accepts the next instruction.
#[derive(Clone, Default)]
struct SubCore {
    /// The half of the FMA pipe that also multiplies integers.
    heavy: u64,
    /// The other half, if the pipe has two.
    light: u64,
    half: u64,
    alu: u64,
    special: u64,
    double: u64,
    tensor: u64,
    reduce: u64,
    uniform: u64,
    address: u64,
    /// The cycle after the last issue.
    idle_since: u64,
    /// When each slot of the memory queue is free again.
    queue: VecDeque<u64>,
    last: Option<usize>,
}

struct Warp {
    block: u32,
    pc: usize,
    returns: Vec<usize>,
    /// Stack of divergence: the block of the other path, and the block where both paths join.
    apart: Vec<(usize, usize)>,
    /// The cycle of the last issue.
    issued_at: u64,
    ready_at: u64,
    /// When each dependence counter is released, and the reason that holds it.
    counters: [(u64, Reason); 6],
    /// When each group of asynchronous copies is complete.
    groups: VecDeque<u64>,
    copies: u64,
    /// The same for asynchronous matrix products.
    product_groups: VecDeque<u64>,
    products: u64,
    waits_at: Option<u32>,
    released_at: u64,
    blocked: Option<(u64, Reason)>,
    done: bool,
}

impl Warp {
    /// A warp at the start of the kernel.
    fn new(block: u32) -> Warp {
        Warp {
            block,
            pc: 0,
            returns: Vec::new(),
            apart: Vec::new(),
            issued_at: 0,
            ready_at: 0,
            counters: [(0, Reason::Variable); 6],
            groups: VecDeque::new(),
            copies: 0,
            product_groups: VecDeque::new(),
            products: 0,
            waits_at: None,
            released_at: 0,
            blocked: None,
            done: false,
        }
    }
}

/// A barrier of a block: the warps that have arrived.
#[derive(Clone, Default)]
struct Gate {
    arrived: u32,
}

pub(super) struct Core<'a> {
    function: &'a Function,
    flow: &'a Flow,
    timings: Vec<Timing>,
    accesses: Vec<Access>,
    /// Fractions of accesses that are not yet spent, for each instruction.
    carry: Vec<[f64; 4]>,
    sub_cores: Vec<SubCore>,
    warps: Vec<Warp>,
    gates: Vec<[Gate; BARRIERS]>,
    block_warps: u32,
    /// When the shared load/store unit accepts the next instruction.
    lsu: u64,
    lsu_interval: u64,
    l2_free: f64,
    l2_rate: f64,
    dram_free: f64,
    dram_rate: f64,
    /// The latency of the narrowest load that hits in L1; the excess of wider loads is due to their width.
    l1_latency: u64,
    l2_latency: u64,
    /// Additional latency of the far half of the L2 cache over the near one.
    l2_farther: u64,
    dram_latency: u64,
    /// When the last store has reached L2.
    stored: u64,
    /// Blocks that start when a running one has ended.
    following: u32,
    two_fma: bool,
    half_on_fma: bool,
    limits: Limits,
    costs: Vec<Cost>,
    timeline: Vec<Event>,
    assumed: Vec<String>,
    issued: u64,
}

/// Whether a warp may issue.
enum State {
    Ready,
    /// Not before this cycle.
    Later(u64),
    /// Not before another warp makes progress.
    Blocked,
}

impl<'a> Core<'a> {
    pub(super) fn new(
        device: &Device,
        code: &Code<'a>,
        residency: Residency,
        following: u32,
        limits: Limits,
    ) -> Result<Self, ScheduleError> {
        let count = residency.blocks.saturating_mul(residency.warps);
        let instructions = &code.function.instructions;
        if count == 0 || count > MOST_WARPS || instructions.is_empty() {
            return Err(ScheduleError::Empty);
        }
        let access = |(index, instruction): (usize, &Instruction)| {
            let mut access = code.accesses.get(index).copied().unwrap_or_else(|| Access::ideal(instruction));
            // L1 writes through, except for local memory.
            if timing(device, instruction).kind == Kind::Store && instruction.base() != "STL" {
                access.l1_hit = 0.0;
            }
            access
        };
        let mhz = f64::from(device.boost_mhz.value);
        let sharers = f64::from(residency.multiprocessors.max(1));
        let warp = |index: u32| Warp::new(index / residency.warps);
        let mut assumed = Vec::new();
        let l2_rate = if let Some(rate) = device.rates.l2_bytes {
            (rate.value * f64::from(device.multiprocessors.value) / sharers).min(PORT)
        } else {
            assumed.push(format!(
                "{} has no published L2 bandwidth: taken as {PORT} bytes per cycle and multiprocessor, however many ask",
                device.name
            ));
            PORT
        };
        assumed.extend(assumptions(device, instructions));
        let waits = |i: &Instruction| timing(device, i).kind == Kind::MbarrierWait;
        if let Some(at) = instructions.iter().position(waits) {
            let reason = format!(
                "machine instruction {at} waits at an mbarrier, whose phases the schedule does not predict"
            );
            return Err(ScheduleError::Uncertain(crate::sass::Uncertain(reason)));
        }
        Ok(Self {
            function: code.function,
            flow: code.flow,
            timings: instructions.iter().map(|i| timing(device, i)).collect(),
            accesses: instructions.iter().enumerate().map(access).collect(),
            carry: vec![[0.0; 4]; instructions.len()],
            sub_cores: vec![SubCore::default(); 4],
            warps: (0..count).map(warp).collect(),
            gates: vec![Default::default(); usize::try_from(residency.blocks).unwrap_or(0)],
            block_warps: residency.warps,
            lsu: 0,
            lsu_interval: if device.rates.memory.value < 32.0 { 2 } else { 1 },
            l2_free: 0.0,
            l2_rate,
            dram_free: 0.0,
            dram_rate: (f64::from(device.bandwidth_gb_s.value) * REACHED * 1e3 / mhz / sharers).min(l2_rate),
            l1_latency: u64::from(device.rates.l1_latency.value),
            l2_latency: u64::from(device.rates.l2_latency.value),
            l2_farther: device
                .rates
                .l2_far_latency
                .map_or(0, |far| u64::from(far.value.saturating_sub(device.rates.l2_latency.value))),
            stored: 0,
            following,
            dram_latency: u64::from(device.rates.dram_latency.value),
            two_fma: device.rates.fma.value > 64.0,
            half_on_fma: device.rates.half.value <= 64.0,
            limits,
            costs: vec![Cost::default(); instructions.len()],
            timeline: Vec::new(),
            assumed,
            issued: 0,
        })
    }

    pub(super) fn run(mut self, path: &mut dyn Path) -> Result<Schedule, ScheduleError> {
        let mut cycle = 0_u64;
        let mut end = 0_u64;
        while self.warps.iter().any(|warp| !warp.done) {
            let mut next = u64::MAX;
            let mut progress = false;
            for sub_core in 0..4 {
                let (chosen, soonest) = self.choose(sub_core, cycle);
                next = next.min(soonest);
                let Some(warp) = chosen else { continue };
                progress = true;
                let finished = self.issue(sub_core, warp, cycle, path)?;
                if finished {
                    end = end.max(cycle + 1);
                }
            }
            if progress {
                cycle += 1;
            } else if next == u64::MAX {
                let stuck = self.warps.iter().find(|warp| !warp.done).map_or(0, |warp| warp.pc);
                return Err(ScheduleError::Deadlock { instruction: stuck });
            } else {
                cycle = next.max(cycle + 1);
            }
        }
        let (mut stalls, mut lost) = (Stalls::default(), Stalls::default());
        for cost in &self.costs {
            stalls.add_all(&cost.stalls);
            lost.add_all(&cost.lost);
        }
        // Stores must still reach L2 and pipes must finish, even if no warp waits for them.
        let drained = (self.l2_free.max(self.dram_free).max(0.0) as u64).max(self.stored);
        let busy = self.sub_cores.iter().map(SubCore::busy_until).max().unwrap_or(0);
        Ok(Schedule {
            cycles: end.max(drained).max(busy).max(self.lsu),
            issued: self.issued,
            stalls,
            lost,
            costs: self.costs,
            timeline: self.timeline,
            assumed: self.assumed,
        })
    }

    /// The warp that issues now, or the next cycle in which one might.
    fn choose(&mut self, sub_core: usize, cycle: u64) -> (Option<usize>, u64) {
        let mut soonest = u64::MAX;
        let last = self.sub_cores[sub_core].last;
        if let Some(last) = last {
            match self.state(sub_core, last, cycle) {
                State::Ready => return (Some(last), cycle),
                State::Later(at) => soonest = soonest.min(at),
                State::Blocked => {}
            }
        }
        // Youngest first.
        let mut warp = self.warps.len();
        while warp > 0 {
            warp -= 1;
            if warp % 4 != sub_core || Some(warp) == last {
                continue;
            }
            match self.state(sub_core, warp, cycle) {
                State::Ready => return (Some(warp), cycle),
                State::Later(at) => soonest = soonest.min(at),
                State::Blocked => {}
            }
        }
        (None, soonest)
    }

    fn state(&mut self, sub_core: usize, index: usize, cycle: u64) -> State {
        let warp = &self.warps[index];
        if warp.done || warp.waits_at.is_some() {
            return State::Blocked;
        }
        let at = warp.ready_at.max(warp.released_at);
        if at > cycle {
            return State::Later(at);
        }
        let instruction = &self.function.instructions[warp.pc];
        let free = self.dependence(index, instruction).0;
        if free > cycle {
            return State::Later(free);
        }
        let (free, reason) = self.unit_free(sub_core, warp.pc, cycle);
        if free > cycle {
            let warp = &mut self.warps[index];
            warp.blocked.get_or_insert((cycle, reason));
            return State::Later(free);
        }
        State::Ready
    }

    /// When the counters that an instruction waits for are released, and the reason of the last one.
    fn dependence(&self, index: usize, instruction: &Instruction) -> (u64, Reason) {
        let warp = &self.warps[index];
        let mut last = (0, Reason::Variable);
        for counter in instruction.control.waits_for() {
            let held = warp.counters[usize::from(counter)];
            if held.0 > last.0 {
                last = held;
            }
        }
        let (groups, reason) = match self.timings[warp.pc].kind {
            Kind::AsyncWait => (&warp.groups, Reason::AsyncCopy),
            Kind::ProductWait => (&warp.product_groups, Reason::TensorBusy),
            _ => return last,
        };
        let allowed = instruction.operands.get(1).and_then(|text| number(text)).unwrap_or(0);
        let allowed = usize::try_from(allowed).unwrap_or(usize::MAX);
        if let Some(group) = groups.len().checked_sub(allowed.saturating_add(1))
            && let Some(done) = groups.get(group).filter(|done| **done > last.0)
        {
            last = (*done, reason);
        }
        last
    }

    /// When the unit of an instruction accepts it.
    fn unit_free(&self, sub_core: usize, pc: usize, cycle: u64) -> (u64, Reason) {
        let units = &self.sub_cores[sub_core];
        let free = match self.timings[pc].pipe {
            Pipe::Fma if self.two_fma => units.heavy.min(units.light),
            Pipe::Fma | Pipe::IntegerFma => units.heavy,
            Pipe::Half if self.half_on_fma => units.heavy,
            Pipe::Half => units.half,
            Pipe::Alu => units.alu,
            Pipe::Special => units.special,
            Pipe::Double => units.double,
            Pipe::Tensor => units.tensor,
            Pipe::Reduce => units.reduce,
            Pipe::Uniform => units.uniform,
            Pipe::Control => 0,
            Pipe::Memory | Pipe::Shuffle => {
                let held = units.queue.iter().filter(|free| **free > cycle).count();
                let free = if held < QUEUE {
                    0
                } else {
                    units.queue.iter().copied().filter(|free| *free > cycle).min().unwrap_or(0)
                };
                let reason = match self.timings[pc].kind {
                    Kind::Load | Kind::Store | Kind::AsyncCopy => Reason::GlobalQueue,
                    _ => Reason::MemoryQueue,
                };
                return (free, reason);
            }
        };
        let tensor = self.timings[pc].pipe == Pipe::Tensor;
        (free, if tensor { Reason::TensorBusy } else { Reason::PipeBusy })
    }

    /// Issues the instruction of a warp. Returns whether the warp has ended.
    fn issue(
        &mut self,
        sub_core: usize,
        index: usize,
        cycle: u64,
        path: &mut dyn Path,
    ) -> Result<bool, ScheduleError> {
        self.issued += 1;
        if self.issued > self.limits.instructions {
            return Err(ScheduleError::TooLong { limit: self.limits.instructions });
        }
        let pc = self.warps[index].pc;
        let function = self.function;
        let instruction = &function.instructions[pc];
        self.account(sub_core, index, pc, instruction, cycle);
        if self.timeline.len() < self.limits.timeline {
            let warp = u32::try_from(index).unwrap_or(u32::MAX);
            self.timeline.push(Event { cycle, warp, instruction: pc });
        }
        let control = instruction.control;
        let (done, read) = self.occupy(sub_core, index, pc, cycle);
        let reason = match self.timings[pc].kind {
            Kind::Load | Kind::Store => Reason::Global,
            Kind::AsyncCopy => Reason::AsyncCopy,
            Kind::Shared | Kind::Shuffle => Reason::Shared,
            _ => Reason::Variable,
        };
        let warp = &mut self.warps[index];
        for (counter, at) in [(control.write_barrier, done), (control.read_barrier, read)] {
            if let Some(counter) = counter {
                let held = &mut warp.counters[usize::from(counter)];
                if at > held.0 {
                    *held = (at, reason);
                }
            }
        }
        warp.issued_at = cycle;
        warp.ready_at = cycle + u64::from(control.stall).max(1);
        warp.blocked = None;
        self.sub_cores[sub_core].last = (!control.yields).then_some(index);
        match self.timings[pc].kind {
            Kind::Barrier => self.arrive(index, pc, instruction, cycle)?,
            Kind::ClusterBarrier => {
                self.warps[index].waits_at = Some(CLUSTER);
                let block = self.warps[index].block;
                self.count_arrival(block, CLUSTER, self.alive(block), cycle);
            }
            _ => {}
        }
        self.step(index, pc, path, cycle)
    }

    /// Records what the warp waited for before this instruction.
    fn account(&mut self, sub_core: usize, index: usize, pc: usize, instruction: &Instruction, cycle: u64) {
        let (free, reason) = self.dependence(index, instruction);
        let idle_since = std::mem::replace(&mut self.sub_cores[sub_core].idle_since, cycle + 1);
        let warp = &self.warps[index];
        let cost = &mut self.costs[pc];
        cost.issued += 1;
        let mut at = if warp.ready_at == 0 { cycle } else { warp.issued_at + 1 };
        let mut until = |to: u64, reason: Reason| {
            let to = to.min(cycle);
            if to > at {
                cost.stalls.add(reason, to - at);
                cost.lost.add(reason, to.saturating_sub(at.max(idle_since)));
                at = to;
            }
        };
        until(warp.ready_at, Reason::FixedLatency);
        until(warp.released_at, Reason::Barrier);
        until(free, reason);
        if let Some((since, reason)) = warp.blocked {
            until(since, Reason::NotSelected);
            until(cycle, reason);
        }
        until(cycle, Reason::NotSelected);
    }

    /// Occupies the units of an instruction. Returns when its result is ready and when its operands are read.
    fn occupy(&mut self, sub_core: usize, index: usize, pc: usize, cycle: u64) -> (u64, u64) {
        let timing = self.timings[pc];
        let interval = u64::from(timing.interval);
        let units = &mut self.sub_cores[sub_core];
        // Half of the FMA pipe has 16 lanes: a warp takes two cycles of it.
        match timing.pipe {
            Pipe::Fma if self.two_fma => {
                let unit = if units.light <= cycle { &mut units.light } else { &mut units.heavy };
                *unit = cycle + 2;
            }
            Pipe::Fma | Pipe::IntegerFma => units.heavy = cycle + interval,
            Pipe::Half if self.half_on_fma => units.heavy = cycle + interval,
            Pipe::Half => units.half = cycle + interval,
            Pipe::Alu => units.alu = cycle + interval,
            Pipe::Special => units.special = cycle + interval,
            Pipe::Double => units.double = cycle + interval,
            Pipe::Tensor => units.tensor = cycle + interval,
            Pipe::Reduce => units.reduce = cycle + interval,
            Pipe::Uniform => units.uniform = cycle + interval,
            Pipe::Memory | Pipe::Shuffle => return self.memory(sub_core, index, pc, cycle),
            Pipe::Control => {}
        }
        let warp = &mut self.warps[index];
        if timing.kind == Kind::AsyncGroup {
            complete(&mut warp.groups, warp.copies, cycle);
        }
        if timing.kind == Kind::Product {
            warp.products = warp.products.max(cycle + u64::from(timing.result));
            if self.function.instructions[pc].operands.iter().any(|operand| operand.starts_with("gsb")) {
                complete(&mut warp.product_groups, warp.products, cycle);
            }
        }
        (cycle + u64::from(timing.result), cycle + u64::from(timing.operands))
    }

    fn memory(&mut self, sub_core: usize, index: usize, pc: usize, cycle: u64) -> (u64, u64) {
        let timing = self.timings[pc];
        let access = self.accesses[pc];
        let units = &mut self.sub_cores[sub_core];
        let addressed = units.address.max(cycle);
        units.address = addressed + ADDRESS;
        let start = self.lsu.max(addressed);
        let data = match timing.kind {
            Kind::Shuffle => 1,
            Kind::Shared => self.spend(pc, 0, access.wavefronts),
            // 128 bytes of the first-level cache in a cycle.
            _ => self.spend(pc, 0, access.wavefronts.max(access.sectors / 4.0)),
        };
        let interval = if timing.kind == Kind::Shuffle { 1 } else { self.lsu_interval };
        self.lsu = start + interval.max(data);
        let units = &mut self.sub_cores[sub_core];
        units.queue.push_back(start + DEQUEUE);
        while units.queue.front().is_some_and(|free| *free <= cycle) {
            units.queue.pop_front();
        }
        // The latency already includes the wavefronts of a conflict-free access.
        let ideal = u64::from(super::unit::words(&self.function.instructions[pc]));
        let late = data.saturating_sub(ideal.max(1));
        let hit = start + u64::from(timing.result) + late;
        let read = start + u64::from(timing.operands);
        let done = match timing.kind {
            Kind::Load | Kind::Store | Kind::AsyncCopy => {
                let extra = u64::from(timing.result).saturating_sub(self.l1_latency);
                hit.max(self.beyond(pc, start, &access).map_or(0, |at| at + extra + late))
            }
            _ => hit,
        };
        if timing.kind == Kind::Store {
            self.stored = self.stored.max(done);
        }
        if timing.kind == Kind::AsyncCopy {
            let warp = &mut self.warps[index];
            warp.copies = warp.copies.max(done);
        }
        (done, read)
    }

    /// When the data that missed in L1 has arrived; `None` if everything hit.
    fn beyond(&mut self, pc: usize, start: u64, access: &Access) -> Option<u64> {
        let through = 1.0 - access.l1_hit.clamp(0.0, 1.0);
        let sectors = self.spend(pc, 1, access.sectors * through);
        if sectors == 0 {
            return None;
        }
        let bytes = sectors as f64 * 32.0;
        self.l2_free = self.l2_free.max(start as f64) + bytes / self.l2_rate;
        let far = (self.l2_farther as f64 * access.l2_far.clamp(0.0, 1.0)) as u64;
        let from_l2 = self.l2_free.ceil() as u64 + self.l2_latency + far;
        let missed = self.spend(pc, 2, access.sectors * through * (1.0 - access.l2_hit.clamp(0.0, 1.0)));
        if missed == 0 {
            return Some(from_l2);
        }
        self.dram_free = self.dram_free.max(start as f64) + missed as f64 * 32.0 / self.dram_rate;
        Some(from_l2.max(self.dram_free.ceil() as u64 + self.dram_latency))
    }

    /// Whole units of an average quantity; the fraction is carried over to the next execution.
    fn spend(&mut self, pc: usize, slot: usize, amount: f64) -> u64 {
        let carry = &mut self.carry[pc][slot];
        let amount = if amount.is_finite() { amount.clamp(0.0, 4096.0) } else { 0.0 };
        let all = *carry + amount;
        // The tolerance covers rounding errors: a sum of averages should be a whole number.
        let whole = (all + 1e-6).floor();
        *carry = all - whole;
        whole as u64
    }

    fn arrive(
        &mut self,
        index: usize,
        pc: usize,
        instruction: &Instruction,
        cycle: u64,
    ) -> Result<(), ScheduleError> {
        // The barrier's index or its thread count is known only at run time.
        if instruction.operands.iter().any(|text| is_register(text)) {
            let reason = format!("the barrier of machine instruction {pc} is selected by a register");
            return Err(ScheduleError::Uncertain(crate::sass::Uncertain(reason)));
        }
        let id = instruction.operands.first().and_then(|text| number(text)).unwrap_or(0).min(15);
        let block = self.warps[index].block;
        let waits = !instruction.has("ARV");
        if waits {
            self.warps[index].waits_at = Some(id);
        }
        let needed = match instruction.operands.get(1).and_then(|text| number(text)) {
            Some(threads) => threads.div_ceil(32),
            None => self.alive(block),
        };
        self.count_arrival(block, id, needed, cycle);
        Ok(())
    }

    fn count_arrival(&mut self, block: u32, id: u32, needed: u32, cycle: u64) {
        let gate = &mut self.gates[usize::try_from(block).unwrap_or(0)][usize::try_from(id).unwrap_or(0)];
        gate.arrived += 1;
        if gate.arrived >= needed {
            self.open(block, id, cycle);
        }
    }

    fn alive(&self, block: u32) -> u32 {
        let count = self.warps.iter().filter(|warp| warp.block == block && !warp.done).count();
        u32::try_from(count).unwrap_or(self.block_warps)
    }

    fn open(&mut self, block: u32, id: u32, cycle: u64) {
        self.gates[usize::try_from(block).unwrap_or(0)][usize::try_from(id).unwrap_or(0)].arrived = 0;
        for warp in self.warps.iter_mut().filter(|warp| warp.block == block && warp.waits_at == Some(id)) {
            warp.waits_at = None;
            warp.released_at = cycle + BARRIER;
        }
    }

    /// Moves the warp to its next instruction. Returns whether it has ended.
    fn step(
        &mut self,
        index: usize,
        pc: usize,
        path: &mut dyn Path,
        cycle: u64,
    ) -> Result<bool, ScheduleError> {
        let id = self.flow.block_of(pc);
        let block = &self.flow.blocks[id];
        if pc + 1 < block.end {
            self.warps[index].pc = pc + 1;
            return Ok(false);
        }
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        let successor = match block.ends {
            End::One | End::Leave => block.successors.first().copied().flatten(),
            End::Choice => match (path.splits(number, id), block.successors.as_slice()) {
                (Some(join), [Some(first), Some(second)]) => {
                    self.warps[index].apart.push((*second, join));
                    Some(*first)
                }
                _ => block.successors.get(path.next(number, id)).copied().flatten(),
            },
            End::Call => {
                if let Some(back) = block.successors.get(1).copied().flatten() {
                    self.warps[index].returns.push(back);
                }
                block.successors.first().copied().flatten()
            }
            End::Unknown => {
                let reason = format!("machine instruction {pc} jumps to a computed address");
                return Err(ScheduleError::Uncertain(crate::sass::Uncertain(reason)));
            }
        };
        let leaves_routine = self.function.instructions[pc].base() == "RET";
        let successor =
            successor.or_else(|| if leaves_routine { self.warps[index].returns.pop() } else { None });
        let apart = &mut self.warps[index].apart;
        let mut successor = successor;
        // A path that has ended or reached the join yields to the other path.
        while let Some((other, _)) = apart.pop_if(|(_, join)| successor.is_none_or(|next| next == *join)) {
            successor = Some(other);
        }
        if let Some(next) = successor {
            self.warps[index].pc = self.flow.blocks[next].first;
            return Ok(false);
        }
        let block = self.warps[index].block;
        self.warps[index].done = true;
        self.after_exit(block, cycle);
        if self.following > 0 && self.alive(block) == 0 {
            self.following -= 1;
            for warp in self.warps.iter_mut().filter(|warp| warp.block == block) {
                *warp = Warp { issued_at: cycle, ready_at: cycle + BLOCK_START, ..Warp::new(block) };
            }
            // A new block's warps replace those that have ended; the caller counts one of them.
            return Ok(false);
        }
        Ok(true)
    }

    /// A barrier may have waited for the warp that has just ended.
    fn after_exit(&mut self, block: u32, cycle: u64) {
        let alive = self.alive(block);
        for id in 0..=CLUSTER {
            let arrived =
                self.gates[usize::try_from(block).unwrap_or(0)][usize::try_from(id).unwrap_or(0)].arrived;
            if arrived > 0 && arrived >= alive {
                self.open(block, id, cycle);
            }
        }
    }
}

impl SubCore {
    /// When the last of the sub-core's pipes is free.
    fn busy_until(&self) -> u64 {
        [
            self.heavy,
            self.light,
            self.half,
            self.alu,
            self.special,
            self.double,
            self.tensor,
            self.reduce,
            self.uniform,
        ]
        .into_iter()
        .max()
        .unwrap_or(0)
    }
}

/// Ends a group that is complete when its last member is; groups complete in order.
fn complete(groups: &mut VecDeque<u64>, last: u64, cycle: u64) {
    let before = groups.back().copied().unwrap_or(0);
    groups.push_back(last.max(before).max(cycle));
    while groups.front().is_some_and(|done| *done <= cycle && groups.len() > 64) {
        groups.pop_front();
    }
}

/// What the schedule assumes about the instructions of a kernel, as sentences.
fn assumptions(device: &Device, instructions: &[Instruction]) -> Vec<String> {
    let mut assumed = Vec::new();
    let any = |test: &dyn Fn(&Instruction) -> bool| instructions.iter().any(test);
    let product = |i: &Instruction| timing(device, i).pipe == Pipe::Tensor;
    if device.capability.major == 9 && any(&|i| product(i) && !is_wgmma(i.base())) {
        assumed.push(format!(
            "products run at the peak of the {}, which only wgmma is known to reach: mma takes longer",
            device.name
        ));
    }
    if any(&|i| is_wgmma(i.base())) {
        assumed.push(
            "the result of a wgmma follows its multiplication after 24 cycles, the latency of mma: no measurement was found"
                .to_owned(),
        );
    }
    if any(&|i| timing(device, i).kind == Kind::ClusterBarrier) {
        assumed.push(
            "the other blocks of a cluster arrive at its barrier together with this one, when its warps wait"
                .to_owned(),
        );
    }
    if any(&|i| ["UTMA", "UBLK"].iter().any(|start| i.base().starts_with(start))) {
        assumed.push(
            "bulk copies only take an issue slot in the schedule; the bounds include their bytes".to_owned(),
        );
    }
    assumed
}

/// `R4` or `UR4`, but not the zero register.
fn is_register(text: &str) -> bool {
    let number = text.strip_prefix('U').unwrap_or(text).strip_prefix('R');
    number.is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
}

/// `0x80` or `128`.
fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
