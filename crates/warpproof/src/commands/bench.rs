//! `warpproof bench`: times the attention library and PyTorch's backends in one table.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use warpproof_evidence::record::{Body, NoteRecord};
use warpproof_kernels::dispatch::SERVING;
use warpproof_kernels::problem::Shape;

use super::evidence::of_ledger;
use super::flags::{JsonFlag, LedgerFlags, ended};
use crate::report::{Kind, Outcome, Report};
use crate::terminal::Terminal;

/// Time the attention library
#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Attention(Attention),
}

/// Time attention of `warpproof.attention` and of PyTorch's backends, and append the table to the ledger
///
/// Starts Python, which needs the packages `warpproof` and `torch`. With --gpu, times are measured on
/// the first CUDA device, in graphs of 20 calls, with a warm L2 cache; not tested on hardware. Without
/// it, the library runs on the software GPU, and its times are predicted.
///
/// Exit codes: 0 at least one time was taken · 2 wrong usage, or Python or a package is missing.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
struct Attention {
    /// Measure on the first CUDA device
    #[arg(long)]
    gpu: bool,
    /// Time this shape instead of twelve shapes of inference servers: batch, heads, key heads, queries, keys, head dimension
    /// (repeatable)
    #[arg(long, value_name = "B,H,KV,Q,K,D", value_parser = shape)]
    shape: Vec<[usize; 6]>,
    /// Start this Python
    #[arg(long, value_name = "FILE", default_value = "python3")]
    python: PathBuf,
    #[command(flatten)]
    json: JsonFlag,
    #[command(flatten)]
    ledger: LedgerFlags,
}

/// The most sequences of a shape: the third extent of a grid.
const MOST_SEQUENCES: usize = 65_535;

fn shape(text: &str) -> Result<[usize; 6], String> {
    let numbers: Result<Vec<usize>, _> = text.split(',').map(|part| part.trim().parse()).collect();
    let shape = numbers.ok().and_then(|numbers| <[usize; 6]>::try_from(numbers).ok());
    let fits = |shape: &[usize; 6]| {
        shape[0] <= MOST_SEQUENCES && shape.iter().all(|size| (1..1 << 31).contains(size))
    };
    shape.filter(fits).ok_or_else(|| {
        "expected batch, heads, key heads, queries, keys and head dimension, such as 2,8,8,256,256,64"
            .to_owned()
    })
}

/// What Python is asked.
#[derive(Serialize)]
struct Asked {
    gpu: bool,
    shapes: Vec<[usize; 6]>,
}

/// The first line that Python writes.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Machine {
    device: String,
    torch: String,
    cuda: Option<String>,
}

/// Each further line: the times of a program at a shape, or why there are none.
#[derive(Debug, Serialize, Deserialize)]
struct Timed {
    shape: [usize; 6],
    program: String,
    kind: String,
    #[serde(default)]
    us: Vec<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The whole, as it is printed with --json and kept in the ledger.
#[derive(Debug, Serialize)]
struct Table {
    schema: &'static str,
    #[serde(flatten)]
    machine: Machine,
    times: Vec<Timed>,
}

impl Timed {
    /// The smallest, the middle and the largest time.
    fn spread(&self) -> Option<[f64; 3]> {
        let mut us: Vec<f64> = self.us.iter().copied().filter(|us| us.is_finite()).collect();
        us.sort_by(f64::total_cmp);
        Some([*us.first()?, *us.get(us.len() / 2)?, *us.last()?])
    }
}

impl Bench {
    /// Runs the command.
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        match &self.what {
            What::Attention(attention) => {
                let outcome = attention.time(terminal);
                ended(outcome, terminal)
            }
        }
    }
}

impl Attention {
    fn time(&self, terminal: &mut Terminal) -> Result<Outcome, Box<Report>> {
        let table = self.table(terminal)?;
        if table.times.iter().all(|timed| timed.spread().is_none()) {
            let reason = table
                .times
                .iter()
                .find_map(|timed| timed.error.as_deref())
                .unwrap_or("no program was started");
            return Err(missing(format!("no time was taken: {reason}")));
        }
        let value = serde_json::to_value(&table).map_err(|error| missing(error.to_string()))?;
        let (ledger, made) = self.ledger.create()?;
        if made {
            terminal.say(format_args!("new ledger at {}", ledger.root().display()));
        }
        let note = NoteRecord {
            topic: "bench".to_owned(),
            text: value.to_string(),
            run: None,
            candidate: None,
            about: Vec::new(),
            ..NoteRecord::default()
        };
        let hash = ledger.writer().append(&Body::Note(note)).map_err(|error| Box::new(of_ledger(&error)))?;
        if self.json.wanted {
            terminal.json(&value);
        } else {
            terminal.print(text(&table));
            terminal.say(format_args!("record {}", hash.short()));
        }
        Ok(Outcome::Green)
    }

    /// Starts Python and reads its lines.
    fn table(&self, terminal: &Terminal) -> Result<Table, Box<Report>> {
        let shapes = if self.shape.is_empty() { SERVING.to_vec() } else { self.shape.clone() };
        let asked = serde_json::to_vec(&Asked { gpu: self.gpu, shapes: shapes.clone() })
            .map_err(|error| missing(error.to_string()))?;
        let python = self.python.display();
        let failed = |error: std::io::Error| missing(format!("cannot run {python}: {error}"));
        let mut child = Command::new(&self.python)
            .args(["-m", "warpproof._bench"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        if let Some(mut input) = child.stdin.take() {
            // Python that ended already is reported by its exit code.
            let _ended = input.write_all(&asked);
        }
        let progress = terminal.progress();
        let (mut machine, mut times) = (None, Vec::new());
        for line in child.stdout.take().into_iter().flat_map(|output| BufReader::new(output).lines()) {
            let line = line.map_err(failed)?;
            if machine.is_none() {
                machine = serde_json::from_str::<Machine>(&line).ok();
            } else if let Ok(timed) = serde_json::from_str::<Timed>(&line)
                && shapes.contains(&timed.shape)
            {
                progress.set_message(format!("{}: {}", Shape::of(timed.shape), timed.program));
                times.push(timed);
            }
        }
        progress.finish_and_clear();
        let status = child.wait().map_err(failed)?;
        match machine {
            Some(machine) if status.success() => Ok(Table { schema: "warpproof.bench/1", machine, times }),
            _ => Err(Box::new(
                Report::error(Kind::Missing, format!("{python} -m warpproof._bench gave {status}"))
                    .help("install the packages: pip install warpproof torch"),
            )),
        }
    }
}

fn missing(text: String) -> Box<Report> {
    Box::new(Report::error(Kind::Missing, text))
}

/// A line for each program and shape: the middle time, the range, and the time relative to the best of PyTorch.
fn text(table: &Table) -> String {
    let Machine { device, torch, .. } = &table.machine;
    let kind = table.times.first().map_or("", |timed| timed.kind.as_str());
    let mut text = format!("{device}, PyTorch {torch}; times are {kind}, in µs, with a warm L2 cache\n");
    let mut shape = None;
    for timed in &table.times {
        if shape != Some(timed.shape) {
            let _infallible = writeln!(text, "{}", Shape::of(timed.shape));
            shape = Some(timed.shape);
        }
        let best = table
            .times
            .iter()
            .filter(|other| other.shape == timed.shape && other.program.starts_with("PyTorch"));
        let best = best.filter_map(Timed::spread).map(|[_, middle, _]| middle).min_by(f64::total_cmp);
        let _infallible = match (timed.spread(), best) {
            (Some([least, middle, most]), best) => {
                let ratio =
                    best.map_or_else(String::new, |best| format!("  {:.2} of PyTorch's best", middle / best));
                writeln!(text, "  {:<26} {middle:>9.2}  ({least:.2} to {most:.2}){ratio}", timed.program)
            }
            (None, _) => {
                writeln!(text, "  {:<26} {}", timed.program, timed.error.as_deref().unwrap_or("no time"))
            }
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read() {
        assert_eq!(shape("2,8,8, 256,256,64"), Ok([2, 8, 8, 256, 256, 64]));
        for wrong in ["", "65536,1,1,1,1,64", "1,2,3", "1,2,3,4,5,6,7", "0,1,1,1,1,64", "1,1,1,x,1,64"] {
            assert!(shape(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_table_compares_with_the_best_of_pytorch() {
        let timed = |program: &str, us: &[f64], error: Option<&str>| Timed {
            shape: [2, 8, 2, 256, 512, 64],
            program: program.to_owned(),
            kind: "measured".to_owned(),
            us: us.to_vec(),
            error: error.map(str::to_owned),
        };
        let table = Table {
            schema: "warpproof.bench/1",
            machine: Machine { device: "NVIDIA L4".to_owned(), torch: "2.15.0".to_owned(), cuda: None },
            times: vec![
                timed("warpproof, e4m3", &[5.0, 4.0, 6.0], None),
                timed("PyTorch flash", &[10.0], None),
                timed("PyTorch math", &[40.0], None),
                timed("PyTorch cuDNN", &[], Some("no kernel")),
            ],
        };
        let expected = "NVIDIA L4, PyTorch 2.15.0; times are measured, in µs, with a warm L2 cache\n\
                        B2 H8/2 S256x512 D64\n  \
                          warpproof, e4m3                 5.00  (4.00 to 6.00)  0.50 of PyTorch's best\n  \
                          PyTorch flash                  10.00  (10.00 to 10.00)  1.00 of PyTorch's best\n  \
                          PyTorch math                   40.00  (40.00 to 40.00)  4.00 of PyTorch's best\n  \
                          PyTorch cuDNN              no kernel\n";
        assert_eq!(text(&table), expected);
    }
}
