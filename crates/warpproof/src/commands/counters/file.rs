//! Counters in a file: `schemas/counters-1.schema.json` describes the format. Fields may be added without a
//! new schema number; the meaning of existing fields never changes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use warpproof_count::{Flat, LineKey, Sampling};

use warpproof_toolchain::Source;

use super::{Counted, LaunchFlags, Launched};
use crate::report::Kind;

/// The schema's name and number.
pub(super) const SCHEMA: &str = "warpproof.counters/1";

/// A launch in a file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Launch {
    pub(super) kernel: String,
    symbol: String,
    /// The launch line in the source.
    line: Option<u32>,
    grid: [u32; 3],
    block: [u32; 3],
    static_shared: u32,
    dynamic_shared: u32,
    blocks: u64,
    complete: bool,
    kind: String,
    first_sectors_incomplete: bool,
    /// Present if `kind` is `sampled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sampled: Option<Sampled>,
    counters: BTreeMap<String, u64>,
    lines: Vec<Line>,
}

/// A sample, with what a reader must know.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Sampled {
    #[serde(flatten)]
    sampling: Sampling,
    /// The probability of the intervals `counter ± margin`.
    confidence: f64,
    statements: Vec<String>,
}

/// A line in a file.
#[derive(Debug, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "the names of the format")]
struct Line {
    /// `None` for the PTX text.
    file: Option<String>,
    line: u32,
    /// Its text, if the source file was available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    counters: BTreeMap<String, u64>,
}

/// The part of the file that is read.
#[derive(Debug, Deserialize)]
pub(super) struct Document {
    pub(super) schema: String,
    pub(super) launches: Vec<Launch>,
}

impl Launch {
    fn of(launched: &Launched, source: Option<&Source>) -> Launch {
        let counters = &launched.counters;
        let flat = counters.flat();
        let sampled = counters.sampled.as_ref();
        Launch {
            kernel: launched.kernel.clone(),
            symbol: launched.symbol.clone(),
            line: launched.line,
            grid: counters.grid,
            block: counters.block,
            static_shared: counters.static_shared,
            dynamic_shared: counters.dynamic_shared,
            blocks: sampled.map_or(counters.blocks, |sampling| sampling.blocks),
            complete: launched.complete,
            kind: if sampled.is_some() { "sampled" } else { "counted" }.to_owned(),
            first_sectors_incomplete: counters.compulsory.incomplete,
            sampled: sampled.map(|sampling| Sampled {
                sampling: sampling.clone(),
                confidence: 0.95,
                statements: sampling.statements(),
            }),
            counters: flat.launch,
            lines: flat
                .lines
                .into_iter()
                .map(|(key, counters)| {
                    let text = super::table::text_of(&key, source).map(|text| text.trim().to_owned());
                    Line { file: key.file, line: key.line, text, counters }
                })
                .collect(),
        }
    }

    /// The texts of its lines, if available.
    pub(super) fn texts(&self) -> BTreeMap<LineKey, &str> {
        let lines = self.lines.iter();
        lines
            .filter_map(|line| {
                let key = LineKey { file: line.file.clone(), line: line.line };
                Some((key, line.text.as_deref()?))
            })
            .collect()
    }

    /// Its counters, to compare.
    pub(super) fn flat(&self) -> Flat {
        let mut flat = Flat { launch: self.counters.clone(), lines: BTreeMap::new() };
        for extent in 0..3 {
            let axis = ["x", "y", "z"][extent];
            flat.launch.insert(format!("grid.{axis}"), u64::from(self.grid[extent]));
            flat.launch.insert(format!("block.{axis}"), u64::from(self.block[extent]));
        }
        flat.launch.insert("shared.static_bytes".to_owned(), u64::from(self.static_shared));
        flat.launch.insert("shared.dynamic_bytes".to_owned(), u64::from(self.dynamic_shared));
        flat.launch.insert("blocks".to_owned(), self.blocks);
        for line in &self.lines {
            let key = LineKey { file: line.file.clone(), line: line.line };
            flat.lines.insert(key, line.counters.clone());
        }
        flat
    }
}

/// All that was counted.
pub(super) fn document(launch: &LaunchFlags, counted: &Counted, failed: Option<Kind>) -> Value {
    json!({
        "schema": SCHEMA,
        "warpproof": env!("CARGO_PKG_VERSION"),
        "source": launch.file().display().to_string(),
        "ok": failed.is_none(),
        "outcome": failed.map_or(json!("finished"), |kind| json!(kind)),
        "exit_code": failed.map_or(0, Kind::exit_code),
        "launches": counted.launches.iter().map(|one| Launch::of(one, counted.source.as_ref())).collect::<Vec<_>>(),
        "reports": counted.reports,
    })
}
