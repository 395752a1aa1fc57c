//! Counters under Nsight Compute's names: the supported ones, the requested ones, and CSV in the format of `ncu`.
//!
//! `ncu --csv` has one row for each metric of each kernel; with `--metrics` they are in the section "Command line profiler
//! metrics". Numbers have commas between thousands, quotients two digits. Units are base units, as with
//! `--print-units base`: a byte stays a byte.

use std::fmt::Write;

use warpproof_count::names::{METRICS, Metric, Value};
use warpproof_model::grouped;
use warpproof_task::nearest;

use super::Counted;
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

/// The requested metrics, each once, sorted by name like in `ncu`.
pub(super) struct Selection(Vec<&'static Metric>);

impl Selection {
    /// Finds every name, or reports the first unknown one.
    pub(super) fn new(names: &[String]) -> Result<Selection, Box<Report>> {
        let mut found: Vec<&'static Metric> = Vec::new();
        for name in names.iter().map(|name| name.trim()) {
            let before = found.len();
            found.extend(METRICS.iter().filter(|metric| is_meant(name, metric.name)));
            if found.len() == before {
                let all = METRICS.iter().map(|metric| metric.name);
                let bases = all.clone().map(base);
                let near = nearest(name, all).or_else(|| nearest(name, bases));
                let help = near.map_or_else(
                    || "run `warpproof counters --list-metrics` to list the supported metrics".to_owned(),
                    |near| format!("did you mean `{near}`? --list-metrics prints all"),
                );
                let sentence = format!("--metrics: unknown metric `{name}`");
                return Err(Box::new(Report::error(Kind::Usage, sentence).help(help)));
            }
        }
        found.sort_by_key(|metric| metric.name);
        found.dedup_by_key(|metric| metric.name);
        Ok(Selection(found))
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
        for metric in &selection.0 {
            let value = match metric.value(counters) {
                Value::Count(count) => grouped(count),
                Value::Ratio(ratio) => format!("{ratio:.2}"),
            };
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
                    metric.name.to_owned(),
                    metric.unit.to_owned(),
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
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(asked: &[&str]) -> Result<Vec<&'static str>, String> {
        let asked: Vec<String> = asked.iter().map(|&name| name.to_owned()).collect();
        let found = Selection::new(&asked).map_err(|report| report.text())?;
        Ok(found.0.iter().map(|metric| metric.name).collect())
    }

    #[test]
    fn names_bases_and_patterns_are_found_once() {
        assert_eq!(names(&["dram__bytes_read.sum"]).unwrap(), ["dram__bytes_read.sum"]);
        assert_eq!(names(&["dram__bytes_read"]).unwrap(), ["dram__bytes_read.sum"]);
        let both = ["dram__bytes_read.sum", "dram__bytes_write.sum"];
        assert_eq!(names(&["dram__bytes_*", "dram__bytes_read.sum"]).unwrap(), both);
        assert_eq!(names(&["*"]).unwrap().len(), METRICS.len());
    }

    #[test]
    fn unknown_names_are_told_with_the_nearest() {
        let text = names(&["smsp__inst_executed_pipe_tensr.sum"]).unwrap_err();
        assert!(text.contains("smsp__inst_executed_pipe_tensor.sum"), "{text}");
        assert!(names(&["zzz"]).unwrap_err().contains("--list-metrics"));
        assert!(names(&["zzz*"]).is_err());
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
