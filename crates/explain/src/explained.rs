//! Explains a counted launch.
#![expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "counts become times and shares; rounding beyond 2^53 is far below the model's own error"
)]

use std::collections::BTreeMap;
use std::fmt;

use warpproof_count::{Counters, Sampling, multiply_adds};
use warpproof_model::bound::{self, BoundError, Floor};
use warpproof_model::sass::parse;
use warpproof_model::schedule::{Cost, Launch, REASONS, Schedule, Stalls};
use warpproof_model::{Device, Usage, grouped, work};
use warpproof_sim::memory::Space;
use warpproof_toolchain::{AssembleError, Assembled, Resources, Toolchain};

use super::machine::{Cache, Ideal, Machine, Timeline};
use super::phases::phases;
use super::{
    Counted, Explanation, Line, LineCost, LineCounts, Origin, Place, Predicted, Run, SCHEMA, Scheduled,
    Stall, Subject, Timed, memory, purchase,
};

/// A launch of which only some blocks were run; all blocks are alike and run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    /// Blocks of the launch.
    pub blocks: u64,
    /// Bytes of memory that it touches.
    pub bytes: u64,
}

/// A counted launch, and the request about it.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The kernel's readable name.
    pub kernel: &'a str,
    /// Its name in the module.
    pub symbol: &'a str,
    /// The module that ran.
    pub ptx: &'a str,
    /// The counters.
    pub counters: &'a Counters,
    /// The launch that it represents, if it is a part of one.
    pub whole: Option<Whole>,
    /// The device to explain it for.
    pub device: &'static Device,
    /// The minimum work for the problem, if the caller knows it.
    pub floor: Option<&'a Floor>,
    /// Events of the timeline to keep; 0 for none.
    pub timeline: usize,
    /// Whether to predict the effect of changes; each is scheduled again.
    pub offers: bool,
    /// The text of a source line, if available. Lines of the PTX are found without it.
    pub text: &'a dyn Fn(&str, u32) -> Option<String>,
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("kernel", &self.kernel)
            .field("device", &self.device.id)
            .finish_non_exhaustive()
    }
}

/// Why the explanation failed.
#[derive(Debug)]
pub enum ExplainError {
    /// ptxas is not installed, or does not accept the module for the device.
    Assemble(AssembleError),
    /// ptxas reports nothing about the kernel.
    NoKernel(String),
    /// The bounds of the launch on the device cannot be computed.
    Bound(BoundError),
}

impl fmt::Display for ExplainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Assemble(error) => error.fmt(f),
            Self::NoKernel(kernel) => write!(f, "ptxas reports nothing about the kernel `{kernel}`"),
            Self::Bound(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ExplainError {}

impl From<AssembleError> for ExplainError {
    fn from(error: AssembleError) -> Self {
        Self::Assemble(error)
    }
}

impl From<BoundError> for ExplainError {
    fn from(error: BoundError) -> Self {
        Self::Bound(error)
    }
}

/// Explains a launch, and returns the timeline of one multiprocessor if requested and if there is a schedule.
pub fn explain(
    request: &Request<'_>,
    toolchain: &Toolchain,
) -> Result<(Explanation, Option<Timeline>), ExplainError> {
    let Request { counters, device, .. } = *request;
    let arch = device.capability.specific_arch();
    // ptxas keeps the lines of the PTX for any module; for one without a line table it only warns.
    let assembled = toolchain.ptxas(request.ptx, &arch, &["-lineinfo"])?;
    let resources = assembled
        .resources
        .iter()
        .find(|resources| resources.kernel == request.symbol)
        .ok_or_else(|| ExplainError::NoKernel(request.kernel.to_owned()))?;
    let usage = Usage {
        registers: resources.registers,
        static_shared: resources.static_shared,
        dynamic_shared: counters.dynamic_shared,
        barriers: resources.barriers,
    };
    let mut remarks = counters.sampled.as_ref().map(Sampling::statements).unwrap_or_default();
    let machine = machine(request, toolchain, &assembled);
    let (instructions_of, pipes) = match &machine {
        Ok(machine) => (Origin::MachineCode, Some(machine.instructions())),
        Err(_) => (Origin::Ptx, None),
    };
    if instructions_of == Origin::Ptx {
        remarks.push(
            "instructions are counted on the PTX: ptxas removes and adds some, so their bounds are approximate"
                .to_owned(),
        );
    }
    let mut work = work::of(device, counters, usage, pipes, &mut remarks);
    if let Some(whole) = request.whole {
        work = work.scaled(whole.blocks);
        work.dram_bytes_warm =
            whole.bytes.saturating_sub(u64::from(device.l2_kb.value) * 1024).min(work.dram_bytes);
    }
    let bounds = bound::bounds(device, &work)?;
    remarks.extend(bounds.left_out.iter().cloned());
    let roofline = match request.floor.map(|floor| bound::roofline(device, floor)) {
        Some(Ok(share)) => Some(share),
        Some(Err(why)) => {
            remarks.push(why);
            None
        }
        None => None,
    };
    let roofline_warm = request.floor.and_then(|floor| bound::roofline_warm(device, floor).ok());
    let runs = machine.and_then(|machine| {
        let run = |cache, timeline| {
            machine.schedule(&bounds.waves, cache, Ideal::default(), timeline).map_err(|why| why.to_string())
        };
        let (mut cold, warm) = (run(Cache::Cold, 0)?, run(Cache::Warm, request.timeline)?);
        // Another order of warps may take fewer cycles by chance; a cold cache must not appear faster.
        cold.cycles = cold.cycles.max(warm.cycles);
        Ok((machine, cold, warm))
    });
    let ptx_lines: Vec<&str> = request.ptx.lines().collect();
    let text = |place: &Place| {
        if let Some(file) = &place.file {
            return (request.text)(file, place.line);
        }
        let index = usize::try_from(place.line).ok()?.checked_sub(1)?;
        ptx_lines.get(index).map(|line| line.trim().to_owned())
    };
    let purchases = if request.offers {
        let machine = runs.as_ref().ok().map(|(machine, _, warm)| (machine, warm));
        purchase::all(device, counters, &work, &bounds, machine)
    } else {
        Vec::new()
    };
    let (schedule, costs, timeline) = match &runs {
        Ok((machine, cold, warm)) => {
            remarks.extend(warm.round.assumed.iter().cloned());
            let timed = Timed {
                cold: run(device, cold),
                warm: run(device, warm),
                assumed: machine.mapped.assumed.clone(),
            };
            let timeline = (request.timeline > 0).then(|| timeline(request, machine, &warm.round));
            (Scheduled::Known(timed), Some((machine, warm)), timeline)
        }
        Err(why) => (Scheduled::Uncertain { why: why.clone() }, None, None),
    };
    remarks.extend(contention(counters, &schedule));
    let phases = phases(counters, costs, &text);
    let lines = lines(counters, costs, &text);
    let explanation = Explanation {
        schema: SCHEMA,
        subject: subject(request, &arch, resources, &assembled),
        sampled: counters.sampled.clone(),
        counted: Counted {
            blocks: counters.blocks,
            warps: counters.warps(),
            totals: counters.totals.flat(),
            work,
            instructions_of,
        },
        predicted: Predicted { bounds, roofline, roofline_warm, schedule, purchases },
        phases,
        lines,
        conflicts: memory::conflicts(counters, &text),
        uncoalesced: memory::uncoalesced(counters, &text),
        atomics: memory::atomics(counters, &text),
        remarks,
    };
    Ok((explanation, timeline))
}

/// Remarks on atomics at the same address: the schedule assumes the same cost for every request.
fn contention(counters: &Counters, schedule: &Scheduled) -> Option<String> {
    let hottest = counters.hottest;
    if hottest.operations < 2 && !hottest.incomplete {
        return None;
    }
    let most = if hottest.incomplete { "at least " } else { "" };
    let schedule = match schedule {
        Scheduled::Known(_) => "; the bound includes this serialization, the schedule does not",
        Scheduled::Uncertain { .. } => "",
    };
    Some(format!(
        "{most}{} atomic operations target one address of device memory and are serialized{schedule}",
        grouped(hottest.operations)
    ))
}

fn subject(request: &Request<'_>, arch: &str, resources: &Resources, assembled: &Assembled) -> Subject {
    Subject {
        kernel: request.kernel.to_owned(),
        device: request.device.name.to_owned(),
        device_id: request.device.id.to_owned(),
        arch: arch.to_owned(),
        ptxas: assembled.version.to_string(),
        grid: request.counters.grid,
        block: request.counters.block,
        registers: resources.registers,
        static_shared: resources.static_shared,
        dynamic_shared: request.counters.dynamic_shared,
        spills: resources.spill_stores.saturating_add(resources.spill_loads),
    }
}

/// The machine code with the counts of its blocks, or why it is missing.
fn machine<'a>(
    request: &Request<'a>,
    toolchain: &Toolchain,
    assembled: &Assembled,
) -> Result<Machine<'a>, String> {
    let text = toolchain.encoded_sass(&assembled.cubin).map_err(|error| error.to_string())?;
    let functions = parse(&text).map_err(|error| error.to_string())?;
    let function = functions
        .into_iter()
        .find(|function| function.name == request.symbol)
        .ok_or_else(|| format!("the machine code has no function `{}`", request.symbol))?;
    Machine::new(request.device, request.counters, request.whole, function).map_err(|why| why.to_string())
}

fn timeline(request: &Request<'_>, machine: &Machine<'_>, round: &Schedule) -> Timeline {
    let held = u64::try_from(round.timeline.len()).unwrap_or(u64::MAX);
    Timeline {
        device: request.device,
        function: machine.function.clone(),
        events: round.timeline.clone(),
        cut: round.issued > held,
        sampled: request.counters.sampled.clone(),
        sources: request.counters.instructions.iter().map(|one| (one.ptx_line, memory::place(one))).collect(),
    }
}

fn run(device: &Device, launch: &Launch) -> Run {
    let round = &launch.round;
    let slots = slots(device, round);
    Run {
        cycles: launch.cycles,
        us: launch.cycles as f64 / f64::from(device.boost_mhz.value),
        issue_active: round.issued as f64 / slots as f64,
        stalls: stalls(&round.stalls, round.issued.saturating_add(round.stalls.total())),
        lost: stalls(&round.lost, slots),
    }
}

/// Issue slots of a round.
fn slots(device: &Device, round: &Schedule) -> u64 {
    round.cycles.saturating_mul(u64::from(device.capability.partitions.value)).max(1)
}

/// Stall reasons, the largest first.
fn stalls(stalls: &Stalls, all: u64) -> Vec<Stall> {
    let mut found: Vec<Stall> = REASONS
        .iter()
        .map(|reason| (*reason, stalls.of(*reason)))
        .filter(|(_, cycles)| *cycles > 0)
        .map(|(reason, cycles)| Stall {
            reason,
            nsight: reason.nsight(),
            cycles,
            share: cycles as f64 / all.max(1) as f64,
        })
        .collect();
    found.sort_by_key(|stall| (std::cmp::Reverse(stall.cycles), stall.reason));
    found
}

#[derive(Default)]
struct Collected {
    ptx_lines: Vec<u32>,
    counted: LineCounts,
    cost: Cost,
}

/// Lines by their cost, the most expensive first.
fn lines(counters: &Counters, costs: Option<(&Machine<'_>, &Launch)>, text: memory::Texts<'_>) -> Vec<Line> {
    let mut lines: BTreeMap<Place, Collected> = BTreeMap::new();
    let mut places: BTreeMap<u32, Place> = BTreeMap::new();
    for instruction in &counters.instructions {
        let place = memory::place(instruction);
        places.entry(instruction.ptx_line).or_insert_with(|| place.clone());
        if instruction.issued.executions == 0 && instruction.memory.is_empty() {
            continue;
        }
        let line = lines.entry(place).or_default();
        line.ptx_lines.push(instruction.ptx_line);
        let counted = &mut line.counted;
        counted.executions += instruction.issued.executions;
        if let Some(shape) = &instruction.tensor {
            let done = instruction.issued.executions - instruction.issued.passed;
            counted.tensor = counted.tensor.saturating_add(done.saturating_mul(multiply_adds(shape)));
        }
        for ((space, _), traffic) in &instruction.memory {
            match space {
                Space::Shared => {
                    counted.wavefronts += traffic.wavefronts;
                    counted.conflicts += traffic.conflicts();
                }
                Space::Global | Space::Generic => {
                    counted.sectors += traffic.sectors;
                    counted.bytes += traffic.bytes;
                }
                Space::Local => counted.sectors += traffic.sectors,
                Space::Const | Space::Param => {}
            }
        }
    }
    let mut all = counters.totals.issued.executions;
    let mut slots = 1;
    if let Some((machine, launch)) = costs {
        slots = self::slots(machine.device, &launch.round);
        all = launch.round.issued.saturating_add(launch.round.stalls.total());
        for (instruction, cost) in machine.function.instructions.iter().zip(&launch.round.costs) {
            let known = instruction.ptx_line.and_then(|line| places.get(&line).cloned());
            let own = || instruction.source.clone().map(|(file, line)| Place { file: Some(file), line });
            // Code that ptxas adds belongs to the line that it names, or to no line.
            let place =
                known.or_else(own).unwrap_or(Place { file: None, line: instruction.ptx_line.unwrap_or(0) });
            let line = lines.entry(place).or_default();
            line.cost.issued += cost.issued;
            line.cost.stalls.add_all(&cost.stalls);
            line.cost.lost.add_all(&cost.lost);
        }
    }
    let mut found: Vec<(u64, Line)> = Vec::new();
    for (place, mut line) in lines {
        line.ptx_lines.sort_unstable();
        line.ptx_lines.dedup();
        let cycles = line.cost.issued.saturating_add(line.cost.stalls.total());
        let weight = if costs.is_some() { cycles } else { line.counted.executions };
        let predicted = costs.is_some().then(|| LineCost {
            issued: line.cost.issued,
            stalls: stalls(&line.cost.stalls, all),
            lost: stalls(&line.cost.lost, slots),
        });
        found.push((
            weight,
            Line {
                text: text(&place),
                place,
                ptx_lines: line.ptx_lines,
                counted: line.counted,
                predicted,
                share: weight as f64 / all.max(1) as f64,
            },
        ));
    }
    found.sort_by(|(a, one), (b, other)| b.cmp(a).then_with(|| one.place.cmp(&other.place)));
    found.into_iter().map(|(_, line)| line).collect()
}
