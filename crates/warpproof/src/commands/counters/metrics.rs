//! Counters under Nsight Compute's names: the supported ones, the requested ones, and CSV in the format of `ncu`.
//!
//! `ncu --csv` has one row for each metric of each kernel; with `--metrics` they are in the section "Command line profiler
//! metrics". Numbers have commas between thousands, quotients two digits. Units are base units, as with
//! `--print-units base`: a byte stays a byte.

use std::fmt::Write;

use warpproof_count::names::{METRICS, Metric, Value};
use warpproof_model::grouped;
use warpproof_task::nearest;

use super::timed::{TIMED, Timed};
use super::{Counted, Launched};
use crate::report::{Kind, Report};
use warpproof_toolchain::symbol;

/// The section in which `ncu` puts metrics that were requested by name.
const SECTION: &str = "Command line profiler metrics";

const COLUMNS: [&str; 15] = [
    "ID",
    "Process ID",
    "Process Name",
    "Host Name",
    "Kernel Name",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
    "Device",
    "CC",
    "Section Name",
    "Metric Name",
    "Metric Unit",
    "Metric Value",
];

/// The value of a metric that is not available, as in `ncu`.
const ABSENT: &str = "n/a";

/// A requested metric.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Counted(&'static Metric),
    Predicted(&'static Timed),
}

impl Asked {
    fn name(self) -> &'static str {
        match self {
            Self::Counted(metric) => metric.name,
            Self::Predicted(metric) => metric.name,
        }
    }

    fn all() -> impl Iterator<Item = Self> + Clone {
        METRICS.iter().map(Self::Counted).chain(TIMED.iter().map(Self::Predicted))
    }
}

/// The requested metrics, each once, sorted by name like in `ncu`.
#[derive(Default)]
pub(super) struct Selection {
    found: Vec<Asked>,
    unknown: Vec<String>,
    /// A warning for each unknown name.
    pub(super) warnings: Vec<Report>,
}

impl Selection {
    /// Finds every name. An unknown name has no value; a pattern that matches nothing is an error.
    pub(super) fn new(names: &[String]) -> Result<Selection, Box<Report>> {
        let mut selection = Selection::default();
        // An empty name follows a comma at the end, as in lists over several lines.
        for name in names.iter().map(|name| name.trim()).filter(|name| !name.is_empty()) {
            let found = &mut selection.found;
            let before = found.len();
            found.extend(Asked::all().filter(|metric| is_meant(name, metric.name())));
            if found.len() == before {
                let all = Asked::all().map(Asked::name);
                let bases = all.clone().map(base);
                let near = nearest(name, all).or_else(|| nearest(name, bases));
                let help = near.map_or_else(
                    || "run `warpproof counters --list-metrics` to list the supported metrics".to_owned(),
                    |near| format!("did you mean `{near}`? --list-metrics prints all"),
                );
                let sentence = format!("--metrics: unknown metric `{name}`");
                if name.contains('*') {
                    return Err(Box::new(Report::error(Kind::Usage, sentence).help(help)));
                }
                selection.unknown.push(name.to_owned());
                let note = format!("its value is printed as {ABSENT}");
                selection.warnings.push(Report::warning(sentence).note(note, None).help(help));
            }
        }
        selection.found.sort_by_key(|metric| metric.name());
        selection.found.dedup_by_key(|metric| metric.name());
        selection.unknown.sort();
        selection.unknown.dedup();
        Ok(selection)
    }

    /// Whether a model of a device is needed.
    pub(super) fn is_timed(&self) -> bool {
        self.found.iter().any(|metric| matches!(metric, Asked::Predicted(_)))
    }

    /// Name, unit and value of each metric.
    fn rows(&self, launch: &Launched) -> Vec<(String, &'static str, String)> {
        let row = |metric: &Asked| {
            let (unit, value) = match metric {
                Asked::Counted(metric) => (
                    metric.unit,
                    match metric.value(&launch.counters) {
                        Value::Count(count) => grouped(count),
                        Value::Ratio(ratio) => format!("{ratio:.2}"),
                    },
                ),
                Asked::Predicted(metric) => {
                    let value = launch.predicted.as_ref().and_then(|predicted| metric.value(predicted));
                    (metric.unit, value.map_or_else(|| ABSENT.to_owned(), |value| format!("{value:.2}")))
                }
            };
            (metric.name().to_owned(), unit, value)
        };
        let unknown = self.unknown.iter().map(|name| (name.clone(), "", ABSENT.to_owned()));
        self.found.iter().map(row).chain(unknown).collect()
    }
}

/// A name without its aggregation suffix.
fn base(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// Whether a name matches a metric: the metric itself, its base, or a pattern with `*`.
fn is_meant(written: &str, metric: &str) -> bool {
    written == metric || written == base(metric) || (written.contains('*') && matches(written, metric))
}

/// Whether a text matches a pattern in which `*` stands for any letters.
fn matches(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(pieces.next().unwrap_or_default()) else { return false };
    let pieces: Vec<&str> = pieces.collect();
    let Some((last, middle)) = pieces.split_last() else { return rest.is_empty() };
    for piece in middle {
        // The first match is the best: it leaves the most text for the rest of the pattern.
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

/// The counters in the format of `ncu --csv`.
pub(super) fn csv(selection: &Selection, counted: &Counted) -> String {
    let mut text = String::new();
    row(&mut text, COLUMNS.map(str::to_owned));
    for (id, launch) in counted.launches.iter().enumerate() {
        let counters = &launch.counters;
        // The name of the process is the only free text of a row.
        let process = match &counters.sampled {
            Some(sampling) => format!("warpproof (sampled {} of {} blocks)", sampling.blocks, sampling.of),
            None => "warpproof".to_owned(),
        };
        let extents = |[x, y, z]: [u32; 3]| format!("({x}, {y}, {z})");
        for (name, unit, value) in selection.rows(launch) {
            row(
                &mut text,
                [
                    id.to_string(),
                    // These columns are empty: there is no process, device or context.
                    "0".to_owned(),
                    process.clone(),
                    "127.0.0.1".to_owned(),
                    symbol::signature(&launch.symbol).unwrap_or_else(|| launch.symbol.clone()),
                    "1".to_owned(),
                    "7".to_owned(),
                    extents(counters.block),
                    extents(counters.grid),
                    "0".to_owned(),
                    counted.capability.clone(),
                    SECTION.to_owned(),
                    name,
                    unit.to_owned(),
                    value,
                ],
            );
        }
    }
    text
}

fn row(text: &mut String, fields: [String; 15]) {
    let fields = fields.map(|field| format!("\"{}\"", field.replace('"', "\"\"")));
    text.push_str(&fields.join(","));
    text.push('\n');
}

/// All metrics, with their units and how exact they are.
pub(super) fn list() -> String {
    let mut text = String::new();
    let width = METRICS.iter().map(|metric| metric.name.len()).max().unwrap_or(0);
    let mut exactness = None;
    let mut sorted: Vec<&Metric> = METRICS.iter().collect();
    // A stable sort: metrics of equal exactness stay in their groups.
    sorted.sort_by_key(|metric| metric.exactness);
    for metric in sorted {
        if exactness != Some(metric.exactness) {
            let gap = if exactness.is_none() { "" } else { "\n" };
            // Writing to a string does not fail.
            let _ = writeln!(text, "{gap}{}", metric.exactness.note());
            exactness = Some(metric.exactness);
        }
        let line = format!("  {:<width$}  {:<14}  {}", metric.name, metric.unit, metric.note);
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text.push_str("\npredicted by the model of a device from the machine code of ptxas, not counted\n");
    for metric in &TIMED {
        let _ = writeln!(text, "  {:<width$}  {:<14}  {}", metric.name, metric.unit, metric.note);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(asked: &[&str]) -> Result<Vec<&'static str>, String> {
        let asked: Vec<String> = asked.iter().map(|&name| name.to_owned()).collect();
        let found = Selection::new(&asked).map_err(|report| report.text())?;
        Ok(found.found.iter().map(|metric| metric.name()).collect())
    }

    #[test]
    fn names_bases_and_patterns_are_found_once() {
        assert_eq!(names(&["dram__bytes_read.sum"]).unwrap(), ["dram__bytes_read.sum"]);
        assert_eq!(names(&["dram__bytes_read"]).unwrap(), ["dram__bytes_read.sum"]);
        let both = ["dram__bytes_read.sum", "dram__bytes_write.sum"];
        assert_eq!(names(&["dram__bytes_*", "dram__bytes_read.sum"]).unwrap(), both);
        assert_eq!(names(&["*"]).unwrap().len(), METRICS.len() + TIMED.len());
    }

    #[test]
    fn unknown_names_are_told_with_the_nearest() {
        let warned = |name: &str| {
            let selection = Selection::new(&[name.to_owned()]).map_err(|report| report.text())?;
            assert_eq!((selection.found.len(), selection.unknown.as_slice()), (0, &[name.to_owned()][..]));
            Ok::<_, String>(selection.warnings.iter().map(Report::text).collect::<String>())
        };
        let text = warned("smsp__inst_executed_pipe_tensr.sum").unwrap();
        assert!(text.contains("smsp__inst_executed_pipe_tensor.sum") && text.contains("n/a"), "{text}");
        assert!(warned("zzz").unwrap().contains("--list-metrics"));
        assert!(names(&["zzz*"]).is_err());
    }

    #[test]
    fn metrics_of_published_profiling_commands_are_known() {
        let asked = [
            "smsp__inst_executed_pipe_tensor.sum",
            "sm__pipe_tensor_active.avg.pct_of_peak_sustained_active",
            "lts__t_sectors_aperture_device.sum",
            "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
            "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
            "dram__bytes_read",
            "smsp__inst_executed_pipe_tensor",
            "sm__warps_active",
        ];
        for name in asked {
            assert_eq!(names(&[name]).unwrap().len(), 1, "{name}");
        }
    }

    #[test]
    fn patterns() {
        for (pattern, text) in [("a*c", "abc"), ("a*", "a"), ("*b*", "abc"), ("*", ""), ("a*b*b", "abb")] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("a*c", "ab"), ("b*", "ab"), ("*x*", "abc"), ("a*b*b", "ab")] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }
}
