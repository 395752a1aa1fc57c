//! `cargo xtask model`: compares the schedule model with published times of kernels.
//!
//! The kernels of `crates/model/microkernels` are assembled, predicted by the schedule model, and compared with the
//! figures of `model/published.rs`. A loop is predicted for some iterations and for twice as many; the difference is the cost of the
//! iterations alone, without loading arguments and filling pipelines.

mod published;
mod real;

use std::{fmt::Write as _, fs};

use warpproof_model::{
    Device, Usage,
    bound::{Work, bounds},
    sass::{Flow, Frequencies, Function, parse},
    schedule::{Access, Code, Kind, Limits, Ratios, Residency, pipes, simulate, timing},
};
use warpproof_toolchain::{Options, Toolchain};

use crate::cores;
use crate::part::Part;
use crate::root;
use crate::section::Section;
use published::{Figure, MemoryLevel, ROWS, Role, Unit};

/// The generated section.
const SECTION: Section = Section { page: "book/src/model/validation.md", name: "validation", task: "model" };
const KERNELS_SECTION: Section =
    Section { page: "book/src/model/validation.md", name: "kernels", task: "model" };

const KERNELS: &str = "crates/model/microkernels";

/// Iterations of the shorter run; the longer one has twice as many.
const TURNS: u32 = 64;

/// Compares the page with the predictions, or writes it.
pub(crate) fn run(part: &Part, bless: bool) -> Result<String, String> {
    let toolchain = Toolchain::find(&Options::from_env().with_cuda(12)).map_err(|error| error.to_string())?;
    let results = part.each(cores(), ROWS, |figure| {
        predict(&toolchain, figure).map_err(|error| format!("{}: {error}", figure.kernel))
    });
    let results = results.all()?;
    let whole = real::predict(part, &toolchain)?;
    let note = format!("{}, {}", results.note("figures"), whole.note("whole kernels"));
    if !part.is_whole() {
        let known =
            results.found.iter().filter_map(|(index, predicted)| Some(line(ROWS.get(*index)?, *predicted)));
        SECTION.contains(&known.collect::<Vec<String>>())?;
        KERNELS_SECTION.contains(&real::lines(&whole.found))?;
        return Ok(note);
    }
    let predicted: Vec<f64> = results.into_results().collect();
    SECTION.compare_or_write(&table(&predicted), bless)?;
    println!("model: {}", summary(&predicted));
    let whole: Vec<real::Outcome> = whole.into_results().collect();
    println!("model: {}", real::summary(&whole));
    KERNELS_SECTION.compare_or_write(&real::table(&whole), bless)?;
    Ok(note)
}

fn predict(toolchain: &Toolchain, figure: &Figure) -> Result<f64, String> {
    let device = Device::named(figure.device).ok_or("unknown device")?;
    let file = format!("{KERNELS}/{}.ptx", figure.kernel);
    let ptx =
        fs::read_to_string(root().join(&file)).map_err(|error| format!("cannot read {file}: {error}"))?;
    let arch = device.capability.arch();
    let assembled = toolchain.ptxas(&ptx, &arch, &[]).map_err(|error| error.to_string())?;
    let text = toolchain.encoded_sass(&assembled.cubin).map_err(|error| error.to_string())?;
    let functions = parse(&text).map_err(|error| error.to_string())?;
    let function = functions.first().ok_or("ptxas generated no function")?;
    let flow = Flow::new(function);
    let [turn] = flow.loops.as_slice() else {
        return Err(format!("expected one loop, found {}", flow.loops.len()));
    };
    let accesses = accesses(function, figure);
    let code = Code { function, flow: &flow, accesses: &accesses };
    let residency = Residency {
        blocks: figure.blocks,
        warps: figure.warps,
        multiprocessors: if figure.everywhere { device.multiprocessors.value } else { 1 },
    };
    let warps = figure.blocks * figure.warps;
    let cycles = |turns: u32| -> Result<u64, String> {
        let mut known = vec![None; flow.blocks.len()];
        if let Some(count) = known.get_mut(turn.header) {
            *count = Some(u64::from(turns) * u64::from(warps));
        }
        let frequencies = flow.solve(u64::from(warps), &known).map_err(|error| error.to_string())?;
        let mut path = Ratios::new(&flow, &frequencies, warps);
        let schedule = simulate(device, &code, residency, &mut path, Limits::default());
        let cycles = schedule.map(|schedule| schedule.cycles).map_err(|error| error.to_string())?;
        not_below_a_bound(device, &code, figure, &frequencies, cycles)?;
        Ok(cycles)
    };
    let (short, long) = (cycles(TURNS)?, cycles(2 * TURNS)?);
    let spent = u32::try_from(long.saturating_sub(short)).map_err(|_| "the kernel is too long")?;
    let one_turn = f64::from(spent) / f64::from(TURNS);
    let operations = f64::from(figure.operations);
    let all_warps = operations * f64::from(warps);
    let mhz = f64::from(device.boost_mhz.value);
    let sms = f64::from(device.multiprocessors.value);
    Ok(match figure.unit {
        Unit::Cycles => one_turn / operations,
        Unit::PerClock(amount) => all_warps * amount / one_turn,
        Unit::Tera(amount) => all_warps * amount / one_turn * sms * mhz * 1e-6,
        Unit::Gigabytes(amount) => all_warps * amount / one_turn * sms * mhz * 1e-3,
    })
}

/// Rejects a schedule that is shorter than the time that one resource needs for the same instructions.
fn not_below_a_bound(
    device: &Device,
    code: &Code<'_>,
    figure: &Figure,
    frequencies: &Frequencies,
    cycles: u64,
) -> Result<(), String> {
    let sms = u64::from(device.multiprocessors.value);
    // The bounds assume that all multiprocessors do the same work.
    let executions = |index: usize| frequencies.blocks.get(code.flow.block_of(index)).map_or(0, |n| n * sms);
    let mut work = Work {
        instructions: pipes(device, code.function, executions),
        blocks: u64::from(figure.blocks) * sms,
        threads: figure.warps * 32,
        usage: Usage { registers: 32, ..Usage::default() },
        ..Work::default()
    };
    for (index, (instruction, access)) in code.function.instructions.iter().zip(code.accesses).enumerate() {
        let times = |amount: f64| whole(amount).saturating_mul(executions(index));
        match timing(device, instruction).kind {
            Kind::Shared => work.shared_wavefronts += times(access.wavefronts),
            Kind::Load => {
                work.l1_sectors += times(access.sectors);
                if figure.everywhere && matches!(figure.place, MemoryLevel::L2 | MemoryLevel::Dram) {
                    work.l2_bytes += 32 * times(access.sectors);
                }
                if figure.everywhere && matches!(figure.place, MemoryLevel::Dram) {
                    work.dram_bytes += 32 * times(access.sectors);
                }
            }
            _ => {}
        }
    }
    let bounds = bounds(device, &work).map_err(|error| error.to_string())?;
    let Some(first) = bounds.binding_cold().0 else { return Ok(()) };
    let bound = whole(first.us * f64::from(device.boost_mhz.value));
    if cycles < bound {
        return Err(format!(
            "the schedule takes {cycles} cycles, but {} alone takes {bound}",
            first.resource
        ));
    }
    Ok(())
}

/// The integer part.
fn whole(amount: f64) -> u64 {
    format!("{:.0}", amount.floor()).parse().unwrap_or(0)
}

fn accesses(function: &Function, figure: &Figure) -> Vec<Access> {
    let access = |instruction| {
        let ideal = Access::ideal(instruction);
        // In a pointer chase one lane accesses one sector. Every other access is coalesced.
        let ideal = if figure.warps == 1 { Access { sectors: 1.0, ..ideal } } else { ideal };
        match figure.place {
            MemoryLevel::Near => ideal,
            MemoryLevel::Conflicts(ways) => Access { wavefronts: ideal.wavefronts * ways, ..ideal },
            MemoryLevel::L2 => ideal.from_l2(),
            MemoryLevel::Dram => ideal.from_dram(),
        }
    };
    function.instructions.iter().map(access).collect()
}

/// The error of a prediction, in percent of the published figure.
fn error(figure: &Figure, predicted: f64) -> f64 {
    (predicted / figure.published - 1.0) * 100.0
}

/// The mean absolute error of a role, and the number of figures: all of them, or those that were read at the source.
fn mean(predicted: &[f64], role: Role, read_only: bool) -> (f64, usize) {
    let errors: Vec<f64> = ROWS
        .iter()
        .zip(predicted)
        .filter(|(figure, _)| figure.role == role && (figure.is_read() || !read_only))
        .map(|(figure, predicted)| error(figure, *predicted).abs())
        .collect();
    let count = u32::try_from(errors.len()).unwrap_or(u32::MAX).max(1);
    (errors.iter().sum::<f64>() / f64::from(count), errors.len())
}

fn summary(predicted: &[f64]) -> String {
    let ((tests, count), (read, of)) =
        (mean(predicted, Role::Test, false), mean(predicted, Role::Test, true));
    format!("mean error {tests:.1} % over {count} tests; {read:.1} % over the {of} read at the source")
}

fn table(predicted: &[f64]) -> String {
    let mut text = String::new();
    for (role, title) in [(Role::Test, "Tests"), (Role::Anchor, "Anchors"), (Role::Peak, "Peaks")] {
        let (average, count) = mean(predicted, role, false);
        let (read, of) = mean(predicted, role, true);
        // Writing to a string cannot fail.
        let _ = write!(text, "\n### {title}: mean error {average:.1} % over {count} kernels");
        let _ = match of {
            0 => writeln!(text, "; none was read at the source\n"),
            _ => writeln!(text, "; {read:.1} % over the {of} that were read at the source\n"),
        };
        let _ = writeln!(
            text,
            "| kernel | device | what | published | predicted | error | source | read at the source |"
        );
        let _ = writeln!(text, "|---|---|---|---:|---:|---:|---|---|");
        for (figure, predicted) in ROWS.iter().zip(predicted).filter(|(figure, _)| figure.role == role) {
            text += &line(figure, *predicted);
            text.push('\n');
        }
    }
    text
}

/// A line of the table.
fn line(figure: &Figure, predicted: f64) -> String {
    let device = Device::named(figure.device).map_or(figure.device, |device| device.name);
    format!(
        "| `{}` | {device} | {} | {} | {predicted:.1} | {:+.1} % | {} | {} |",
        figure.kernel,
        figure.what,
        figure.published,
        error(figure, predicted),
        figure.source,
        if figure.is_read() { "yes" } else { "no" },
    )
}
