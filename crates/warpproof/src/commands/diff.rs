//! `warpproof diff`: runs two kernels on one input and shows the first step at which a value of a source line differs.

mod compared;
mod expression;
mod target;

use std::path::PathBuf;

use clap::Args;
use warpproof_gate::limits::Purpose;
use warpproof_sim::values::{Values, points};
use warpproof_toolchain::Source;

use super::flags::JsonFlag;
use super::launch::{LaunchFlags, Memory, stop_report};
use crate::report::{Kind, Outcome, Report};
use crate::source;
use crate::terminal::Terminal;
use compared::{Compared, Keys};
use expression::Expression;
use target::Target;

/// Maximum number of values of one kernel.
const MAX_VALUES: u64 = 1 << 24;

/// Show the first step at which two kernels compute different values
///
/// Runs both kernels on the software GPU, each with its own launch line, and compares the values
/// that a line assigns, by block, row and tile. A row is a thread and a tile is a step (how often the
/// thread executed the line before), unless --row and --tile compute them.
///
///   warpproof diff a.cu b.cu --at 88:m_new            the variable that line 88 of both files assigns
///   warpproof diff a.cu b.cu --at m_new --at l_add    variables that one line of each file assigns
///   warpproof diff a.cu b.cu --at 88 --at-b 93        the last result of a line, another one in b.cu
///   warpproof diff k.cu k.cu --define-b FUSED=1 --at m_new --row-b 'warp*16+lane/4'
///
/// Lines are those of the compiler's line table, so the compiler may have moved or merged a value:
/// the output shows the PTX that computes it. Without --at-b, a named value that is not at the same line of
/// the second file is found by its name.
///
/// Exit codes: 0 equal · 1 different, or a kernel failed · 2 wrong usage · 3 unsupported · 4 limit.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Diff {
    #[command(flatten)]
    launch: LaunchFlags,
    /// The second kernel
    #[arg(value_name = "OTHER")]
    other: Option<PathBuf>,
    /// Compare the values at LINE, LINE:VALUE or VALUE (repeatable)
    #[arg(long, value_name = "LINE[:VALUE]", required = true, value_parser = Target::parse)]
    at: Vec<Target>,
    /// Use this place in the second file, for each --at in turn [default: that of --at]
    #[arg(long, value_name = "LINE[:VALUE]", value_parser = Target::parse)]
    at_b: Vec<Target>,
    /// Compute the row from block, thread, warp, lane, step and element [default: thread]
    #[arg(long, value_name = "EXPRESSION", value_parser = Expression::parse)]
    row: Option<Expression>,
    /// Compute the row of the second kernel [default: --row]
    #[arg(long, value_name = "EXPRESSION", value_parser = Expression::parse)]
    row_b: Option<Expression>,
    /// Compute the tile from the same numbers [default: step]
    #[arg(long, value_name = "EXPRESSION", value_parser = Expression::parse)]
    tile: Option<Expression>,
    /// Compute the tile of the second kernel [default: --tile]
    #[arg(long, value_name = "EXPRESSION", value_parser = Expression::parse)]
    tile_b: Option<Expression>,
    /// Define a macro for the second kernel only (repeatable)
    #[arg(long, value_name = "NAME[=VALUE]")]
    define_b: Vec<String>,
    /// Accept differences of at most this part of a value [default: 0]
    #[arg(long, value_name = "PART", default_value_t = 0.0, hide_default_value = true)]
    tolerance: f64,
    #[command(flatten)]
    json: JsonFlag,
}

/// One of the two kernels after its run.
struct Ran {
    source: Source,
    values: Values,
    /// By target: the line, and the PTX of its results.
    places: Vec<(u32, Vec<String>)>,
    /// Arrays by name with their bytes before the launch.
    inputs: Vec<(String, Vec<u8>)>,
}

impl Diff {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        match self.compare() {
            Ok((first, second, compared)) => {
                let warnings = unlike(&first, &second);
                for warning in &warnings {
                    terminal.report(warning);
                }
                let names: Vec<String> = self.at.iter().map(ToString::to_string).collect();
                if self.json.wanted {
                    terminal.json(&compared.json(&names));
                } else {
                    terminal.print(self.text(&first, &second, &compared));
                }
                if compared.is_equal() { Outcome::Green } else { Outcome::Stopped(Kind::Kernel) }
            }
            Err(reports) => {
                for report in &reports {
                    terminal.report(report);
                }
                let kind = crate::report::first_error(&reports);
                kind.map_or(Outcome::Green, Outcome::Stopped)
            }
        }
    }

    fn compare(&self) -> Result<(Ran, Ran, Compared), Vec<Report>> {
        if self.launch.is_a_case() {
            let sentence = "`diff` compares two files; --task is not supported";
            return Err(vec![Report::error(Kind::Usage, sentence)]);
        }
        let Some(other) = &self.other else {
            return Err(vec![Report::error(Kind::Usage, "expected two kernels, found one")]);
        };
        let first = execute(&self.launch, &self.at, None)?;
        let other = self.launch.with_file(other.clone(), &self.define_b);
        let mut targets = self.at.clone();
        for (target, own) in targets.iter_mut().zip(&self.at_b) {
            target.clone_from(own);
        }
        let second = execute(&other, &targets, Some(self.at_b.len()))?;
        let row = self.row.clone().unwrap_or(Expression::THREAD);
        let tile = self.tile.clone().unwrap_or(Expression::STEP);
        let keys = [
            Keys {
                row: self.row_b.clone().unwrap_or_else(|| row.clone()),
                tile: self.tile_b.clone().unwrap_or_else(|| tile.clone()),
            },
            Keys { row, tile },
        ];
        let [second_keys, first_keys] = &keys;
        let compared =
            Compared::of((&first.values, first_keys), (&second.values, second_keys), self.tolerance);
        let compared = compared.map_err(|why| vec![Report::error(Kind::Usage, why)])?;
        Ok((first, second, compared))
    }

    fn text(&self, first: &Ran, second: &Ran, compared: &Compared) -> String {
        let mut out = String::new();
        for (index, target) in self.at.iter().enumerate() {
            let place = |ran: &Ran| {
                let (line, ptx) = ran.places.get(index).cloned().unwrap_or_default();
                format!("{}:{line} ({})", ran.source.name, ptx.join("; "))
            };
            out.push_str(&compared.summary(index, &target.to_string(), &place(first), &place(second)));
        }
        out.push_str(&compared.first());
        out
    }
}

/// Runs the first launch of a file that executes the lines.
fn execute(flags: &LaunchFlags, targets: &[Target], own: Option<usize>) -> Result<Ran, Vec<Report>> {
    let source = source::read(flags.file())?;
    let usage = |why: String| vec![Report::error(Kind::Usage, format!("{}: {why}", source.name))];
    let mut found = Vec::new();
    for (index, target) in targets.iter().enumerate() {
        let here = target.find(&source.text);
        // The line of --at belongs to the first file: in the second, a name may be at another line.
        let by_name = || Target { line: None, ..target.clone() }.find(&source.text);
        let here = match here {
            Err(why) if own.is_some_and(|own| index >= own) && target.variable.is_some() => {
                by_name().map_err(|_| why)
            }
            here => here,
        };
        found.push(here.map_err(usage)?);
    }
    let sequences = flags.sequences(&source).map_err(|report| vec![*report])?;
    let ptx = flags.module(&source, sequences.iter().flatten())?;
    let Some(sequence) = sequences.into_iter().next() else { return Err(Vec::new()) };
    let (mut device, mut memory) = (flags.device(Purpose::Run), Memory::default());
    for plan in &sequence {
        let prepared = flags.prepare(plan, &ptx, &source, &mut device, &mut memory)?;
        let program = prepared.launch.program();
        let own_ptx = ptx.name == source.name;
        let mut all = Vec::new();
        let mut places = Vec::new();
        for (index, (line, assigned)) in found.iter().enumerate() {
            let is_at = |pc: u32, lines: &[warpproof_sim::stop::SourceLine]| {
                if own_ptx && lines.is_empty() {
                    return program.place(pc).is_some_and(|place| place.ptx_line == *line);
                }
                lines.iter().any(|at| at.line == *line && (own_ptx || same_file(&at.file, &source)))
            };
            let here = points(&program, index, *assigned, is_at);
            let mut shown: Vec<String> =
                here.iter().filter_map(|point| program.place(point.pc)).map(|at| at.instruction).collect();
            shown.dedup();
            shown.truncate(2);
            places.push((*line, shown));
            all.push(here);
        }
        if all.iter().all(Vec::is_empty) {
            let stop = device.run(&prepared.launch).stop;
            stop.map_or(Ok(()), |stop| Err(vec![stop_report(&stop, &ptx, &source)]))?;
            continue;
        }
        if let Some(missing) = all.iter().position(Vec::is_empty) {
            return Err(nothing(&source, targets, missing));
        }
        let inputs = memory.arrays.iter().filter_map(|array| {
            let bytes = device.heap().read(array.address, array.bytes).ok()?;
            Some((array.name.clone(), bytes.to_vec()))
        });
        let inputs = inputs.collect();
        let points: Vec<_> = all.concat();
        let (outcome, values) = device.values(&prepared.launch, &points, MAX_VALUES);
        if let Some(stop) = &outcome.stop {
            return Err(vec![stop_report(stop, &ptx, &source)]);
        }
        if values.truncated {
            let sentence = format!("{}: more than {MAX_VALUES} values", source.name);
            return Err(vec![
                Report::error(Kind::Limit, sentence).help("compare a smaller grid with --grid"),
            ]);
        }
        return Ok(Ran { source, values, places, inputs });
    }
    Err(nothing(&source, targets, 0))
}

fn nothing(source: &Source, targets: &[Target], missing: usize) -> Vec<Report> {
    let target = targets.get(missing).map(ToString::to_string).unwrap_or_default();
    let sentence = format!("{}: no instruction gives the result of {target}", source.name);
    let help = "the compiler removed or merged it: select a line that it needs, such as a store";
    vec![Report::error(Kind::Usage, sentence).help(help)]
}

fn same_file(file: &str, source: &Source) -> bool {
    let name = |path: &str| path.rsplit(['/', '\\']).next().map(str::to_owned);
    file == source.name || name(file) == name(&source.name)
}

/// Warns about arrays of one name with different content: then the kernels have different inputs.
fn unlike(first: &Ran, second: &Ran) -> Vec<Report> {
    let mut warnings = Vec::new();
    for (name, bytes) in &first.inputs {
        let other = second.inputs.iter().find(|(other, _)| other == name);
        if other.is_some_and(|(_, other)| other != bytes) {
            let sentence = format!("the kernels start with different values in the array `{name}`");
            warnings.push(Report::warning(sentence).help("give both launch lines the same arguments"));
        }
    }
    warnings
}
