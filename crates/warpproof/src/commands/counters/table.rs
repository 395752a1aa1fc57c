//! Counters as text: a table for the launch, and the lines with the highest counts.

use std::fmt::Write;
use std::path::Path;

use anstyle::Style;
use warpproof_count::{Counters, LineKey, MemoryOp, Sampling, Totals, Traffic};
use warpproof_model::grouped;
use warpproof_sim::memory::Space;
use warpproof_toolchain::Source;

use super::Launched;
use crate::source::{is_ptx, line};

const BOLD: Style = Style::new().bold();

/// Number of lines shown for each counter.
const MOST: usize = 3;
/// Characters of a source line that are shown.
const WIDE: usize = 60;

/// A launch: its totals, then the lines with the highest counts, or all lines.
pub(super) fn launch(launched: &Launched, source: Option<&Source>, by_line: bool) -> String {
    let counters = &launched.counters;
    let [x, y, z] = counters.grid.map(u64::from);
    let mut text = String::new();
    // Writing to a string does not fail, here and below.
    let _ = writeln!(
        text,
        "{BOLD}{}{BOLD:#}: {} of {}; {} on the executed PTX{}",
        launched.kernel,
        number(x * y * z, "block"),
        number(counters.block_threads(), "thread"),
        match &counters.sampled {
            Some(sampling) => format!("a sample of {} blocks counted", grouped(sampling.blocks)),
            None => "counted".to_owned(),
        },
        if launched.complete { "" } else { ", up to the failure" },
    );
    totals(&mut text, counters);
    if let Some(sampling) = &counters.sampled {
        sample(&mut text, sampling, &counters.totals);
    }
    let lines = counters.by_line().into_iter().collect::<Vec<_>>();
    if by_line {
        all_lines(&mut text, &lines, source);
    } else {
        most(&mut text, &lines, source);
    }
    text
}

fn number(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(n), if n == 1 { "" } else { "s" })
}

#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn per(above: u64, below: u64) -> String {
    if below == 0 {
        return "–".to_owned();
    }
    let mean = format!("{:.2}", above as f64 / below as f64);
    mean.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn totals(text: &mut String, counters: &Counters) {
    let all = &counters.totals;
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<17} {value}");
    };
    let issued = &all.issued;
    let warps = counters.warps();
    row(
        "instructions",
        format!(
            "{} warp instructions, {} per warp",
            grouped(issued.executions),
            per(issued.executions, warps)
        ),
    );
    let pipes: Vec<String> =
        all.pipes.iter().map(|(pipe, on)| format!("{} {}", pipe.name(), grouped(on.executions))).collect();
    row("  by pipe", pipes.join(", "));
    row(
        "  active lanes",
        format!(
            "{} of 32 active on average, {} with a true guard predicate",
            per(issued.lanes, issued.executions),
            per(issued.lanes_on, issued.executions)
        ),
    );
    let branches = &all.branches;
    let executed = branches.taken + branches.not_taken + branches.divergent;
    if executed > 0 {
        row("branches", format!("{}, {} divergent", grouped(executed), grouped(branches.divergent)));
    }
    if !all.tensor.is_empty() {
        let shapes: Vec<String> =
            all.tensor.iter().map(|(shape, count)| format!("{} of {shape}", grouped(*count))).collect();
        let multiply_adds = all.tensor_multiply_adds();
        row("tensor", format!("{}; {}", shapes.join(", "), number(multiply_adds, "multiply-add")));
    }
    for ((space, op), traffic) in &all.memory {
        if let Some(told) = requests(*space, *op, traffic) {
            row(&format!("{} {}", space.name(), op.name()), told);
        }
    }
    if counters.hottest.operations > 0 {
        let least = if counters.hottest.incomplete { "at least " } else { "" };
        let most = match &counters.sampled {
            Some(sampling) => format!(", at most {}", grouped(sampling.hottest_at_most)),
            None => String::new(),
        };
        row(
            "hottest address",
            format!("{least}{}{most}", number(counters.hottest.operations, "atomic operation")),
        );
    }
    let (sectors, second) = (&counters.compulsory, counters.second_level());
    if sectors.grid_touched > 0 {
        let least = if sectors.incomplete { "at least " } else { "" };
        let bytes = |sectors: u64| grouped(32 * sectors);
        row(
            "L2 (estimate)",
            format!(
                "{least}{} bytes loaded if L1 never evicts, {} stored, {} by atomics",
                bytes(second.loads),
                bytes(second.stores),
                bytes(second.atomics + second.reductions)
            ),
        );
        // Distinct bytes of a sample have a lower and an upper limit.
        let range = |least: Option<u64>, most: u64| match least {
            Some(least) if least < most => format!("{} to {}", bytes(least), bytes(most)),
            _ => bytes(most),
        };
        let at_least = counters.sampled.as_ref().map(|sampling| sampling.at_least);
        row(
            "DRAM (estimate)",
            format!(
                "{least}{} bytes loaded, {} stored if L2 is cold",
                range(at_least.map(|one| one.loaded), sectors.grid_loaded),
                range(at_least.map(|one| one.stored), sectors.grid_stored)
            ),
        );
    }
    let barriers = &all.barriers;
    if barriers.arrivals > 0 {
        row(
            "barriers",
            format!(
                "{}, {}; a warp waits on average for {} instructions of the slowest warp",
                number(barriers.arrivals, "arrival"),
                number(barriers.phases, "phase"),
                per(barriers.idle, barriers.warps)
            ),
        );
    }
}

/// The margins of the counters in the table, and what is not known.
fn sample(text: &mut String, sampling: &Sampling, all: &Totals) {
    let flat = all.flat();
    let main = |name: &str| {
        let sectors = ["global.", "generic.", "local."].iter().any(|space| name.starts_with(space));
        name == "executions"
            || name.starts_with("tensor.")
            || sectors && name.ends_with(".sectors")
            || name.starts_with("shared.") && name.ends_with(".wavefronts")
            || name == "barrier.arrivals"
    };
    let shown = flat.iter().filter(|(name, _)| main(name));
    let mut margins: Vec<(f64, &str)> =
        shown.filter_map(|(name, value)| Some((sampling.percent(name, *value)?, name.as_str()))).collect();
    margins.sort_by(|(a, one), (b, other)| a.total_cmp(b).then_with(|| one.cmp(other)));
    let written = |percent: f64| match percent {
        0.0 => "0".to_owned(),
        ..0.1 => "< 0.1".to_owned(),
        _ => format!("{percent:.1}"),
    };
    let _ = writeln!(text, "\n  margins of error (95 %)");
    for group in margins.chunk_by(|(a, _), (b, _)| written(*a) == written(*b)) {
        let names: Vec<&str> = group.iter().map(|(_, name)| *name).collect();
        let percent = group.first().map_or_else(String::new, |(percent, _)| written(*percent));
        let _ = writeln!(text, "    ± {percent:>5} %  {}", names.join(", "));
    }
    for statement in sampling.statements() {
        let _ = writeln!(text, "  note: {statement}");
    }
}

/// The text for requests of one kind; `None` for kernel parameters, which become operands.
fn requests(space: Space, op: MemoryOp, traffic: &Traffic) -> Option<String> {
    let head = format!("{}, {} bytes", number(traffic.requests, "request"), grouped(traffic.bytes));
    let atomic = matches!(op, MemoryOp::Atomic | MemoryOp::Reduction);
    let contention = if atomic {
        format!(
            "; {} lanes per address on average, {} at most",
            per(traffic.lanes, traffic.addresses),
            grouped(traffic.max_depth)
        )
    } else {
        String::new()
    };
    match space {
        Space::Global | Space::Local | Space::Generic => {
            Some(format!("{head}, {} per request{contention}", sectors(traffic.sectors, traffic.requests)))
        }
        Space::Shared => Some(format!(
            "{head}, {}, {} of them due to bank conflicts{contention}",
            number(traffic.wavefronts, "wavefront"),
            grouped(traffic.conflicts())
        )),
        Space::Const => {
            Some(format!("{head}, {} per request", sectors(traffic.wavefronts, traffic.requests)))
        }
        Space::Param => None,
    }
}

fn sectors(sectors: u64, requests: u64) -> String {
    format!("{} sectors", per(sectors, requests))
}

/// A counter by which lines are ranked.
type Ranked = (&'static str, fn(&Totals) -> u64);

/// Counters by which lines are ranked. Zeros are not shown.
const RANKED: [Ranked; 9] = [
    ("warp instructions", |line| line.issued.executions),
    ("divergent branches", |line| line.branches.divergent),
    ("tensor operations", |line| line.tensor.values().sum()),
    ("global sectors", |line| line.traffic(Space::Global, &[]).sectors),
    ("local bytes", |line| line.traffic(Space::Local, &[]).bytes),
    ("shared wavefronts", |line| line.traffic(Space::Shared, &[]).wavefronts),
    ("bank conflicts", |line| line.traffic(Space::Shared, &[]).conflicts()),
    ("instructions that other warps wait at barriers", |line| line.barriers.idle),
    ("serialized atomic operations", |line| {
        line.traffic(Space::Global, &ATOMICS).serial + line.traffic(Space::Shared, &ATOMICS).serial
    }),
];

const ATOMICS: [MemoryOp; 2] = [MemoryOp::Atomic, MemoryOp::Reduction];

fn most(text: &mut String, lines: &[(LineKey, Totals)], source: Option<&Source>) {
    for (name, of) in RANKED {
        let mut ranked: Vec<(u64, &LineKey)> = lines.iter().map(|(key, line)| (of(line), key)).collect();
        ranked.retain(|(count, _)| *count > 0);
        // Lines with equal counts stay in order.
        ranked.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        let whole: u64 = ranked.iter().map(|(count, _)| count).sum();
        if whole == 0 {
            continue;
        }
        let _ = writeln!(text, "\n  most {name}");
        for (count, key) in ranked.iter().take(MOST) {
            let share = format!("{} %", count.saturating_mul(100) / whole);
            let line = format!("    {:>14} {share:>5}  {}", grouped(*count), place(key, source));
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
}

fn all_lines(text: &mut String, lines: &[(LineKey, Totals)], source: Option<&Source>) {
    let _ = writeln!(
        text,
        "\n  {:>14} {:>6} {:>9} {:>14} {:>8} {:>14} {:>10}  line",
        "instructions", "lanes", "divergent", "global sectors", "per req.", "shared wavefr.", "conflicts",
    );
    for (key, line) in lines {
        let (global, shared) = (line.traffic(Space::Global, &[]), line.traffic(Space::Shared, &[]));
        let or_none = |count: u64, of: u64| if of == 0 { String::new() } else { grouped(count) };
        let per_request =
            if global.requests == 0 { String::new() } else { per(global.sectors, global.requests) };
        let branches = line.branches.taken + line.branches.not_taken + line.branches.divergent;
        let row = format!(
            "  {:>14} {:>6} {:>9} {:>14} {per_request:>8} {:>14} {:>10}  {}",
            grouped(line.issued.executions),
            per(line.issued.lanes_on, line.issued.executions),
            or_none(line.branches.divergent, branches),
            or_none(global.sectors, global.requests),
            or_none(shared.wavefronts, shared.requests),
            or_none(shared.conflicts(), shared.requests),
            place(key, source),
        );
        let _ = writeln!(text, "{}", row.trim_end());
    }
}

/// The text of a line of the kernel's own file.
pub(super) fn text_of(key: &LineKey, source: Option<&Source>) -> Option<String> {
    let own = |source: &&Source| match &key.file {
        Some(file) => source.name == *file,
        None => is_ptx(Path::new(&source.name)),
    };
    source.filter(own).and_then(|source| line(&source.text, key.line))
}

/// The line, with its text if it is in the kernel's own file.
fn place(key: &LineKey, source: Option<&Source>) -> String {
    let name = match &key.file {
        Some(file) => format!("{file}:{}", key.line),
        None => format!("PTX line {}", key.line),
    };
    let shown = text_of(key, source).unwrap_or_default();
    let shown: String = shown.trim().chars().take(WIDE).collect();
    format!("{name}  {shown}")
}
