//! What `run` prints.

use std::fmt::Write;

use serde_json::{Value, json};
use warpproof_gate::gpu::Identity;
use warpproof_gate::stage::Compared;
use warpproof_model::grouped;
use warpproof_sim::Device;

use super::{Array, Finished, Launched, Run};
use crate::report::{Kind, Report};

/// Default number of values shown.
const FEW: usize = 16;
/// Values of each array in JSON.
const FIRST: usize = 8;

/// An array requested with `--print NAME[:COUNT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Print {
    pub(super) name: String,
    pub(super) count: Option<usize>,
}

impl Print {
    /// Reads `NAME` or `NAME:COUNT`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let Some((name, count)) = text.split_once(':') else {
            return Ok(Self { name: text.to_owned(), count: None });
        };
        let count = count.parse().map_err(|_| format!("expected a number of values, found `{count}`"))?;
        Ok(Self { name: name.to_owned(), count: Some(count) })
    }
}

/// The values of an array, one line per row of a matrix.
pub(super) fn values(print: &Print, array: &Array, device: &mut Device) -> String {
    let bytes = array.content(device);
    let total = bytes.len() / array.element.size();
    let shown = print.count.unwrap_or(FEW).min(total);
    let width = match array.shape.as_slice() {
        [_, .., last] if *last > 0 => *last,
        _ => usize::MAX,
    };
    let mut text = format!("{}: {} =", array.name, array.type_name());
    for (i, code) in array.element.codes(bytes).take(shown).enumerate() {
        text.push_str(if width != usize::MAX && i % width == 0 { "\n  " } else { " " });
        text.push_str(&array.element.show(code));
    }
    if shown < total {
        let _ = write!(text, " … ({} more)", grouped(u64::try_from(total - shown).unwrap_or(u64::MAX)));
    }
    text.push('\n');
    text
}

/// An output against its reference.
pub(super) fn comparison(output: &str, compared: &Compared) -> String {
    if compared.passed {
        let largest = compared.mismatch.elements().into_iter().next();
        let largest = largest.map(|(which, element)| format!(" ({which}: {element})")).unwrap_or_default();
        return format!("{output}: agrees with the reference{largest}\n");
    }
    format!("{output}: differs from the reference\n{}", compared.mismatch.text())
}

/// A one-line summary of a launch.
pub(super) fn summary(launched: &Launched, device: Option<&Identity>) -> String {
    let blocks: u64 = launched.grid.iter().map(|n| u64::from(*n)).product();
    let threads: u64 = launched.block.iter().map(|n| u64::from(*n)).product();
    let count = |n: u64, noun: &str| format!("{} {noun}{}", grouped(n), if n == 1 { "" } else { "s" });
    let counted = launched.instructions.map(|n| format!("; {} (counted)", count(n, "warp instruction")));
    let device = device.map(|device| format!("; on {device}"));
    format!(
        "{}: {} of {}{}{}; {:.1} ms on this machine (measured)",
        launched.kernel,
        count(blocks, "block"),
        count(threads, "thread"),
        counted.unwrap_or_default(),
        device.unwrap_or_default(),
        launched.host_seconds * 1e3,
    )
}

/// The same as JSON. Fields may be added without a new schema number; the meaning of existing fields never
/// changes.
pub(super) fn json(
    run: &Run,
    finished: Option<&Finished>,
    device: &mut Device,
    reports: &[Report],
    failed: Option<Kind>,
) -> Value {
    let mut value = json!({
        "schema": "warpproof.run/1",
        "warpproof": env!("CARGO_PKG_VERSION"),
        "source": run.launch.file().display().to_string(),
        "ok": failed.is_none(),
        "outcome": failed.map_or(json!("finished"), |kind| json!(kind)),
        "exit_code": failed.map_or(0, Kind::exit_code),
    });
    let Value::Object(fields) = &mut value else { return value };
    let mut put = |name: &str, content: Value| fields.insert(name.to_owned(), content);
    if let Some(finished) = finished {
        let outputs: Vec<Value> =
            finished.arrays.iter().map(|array| json_array(run, array, device)).collect();
        // The last launch is also at the top level, for readers that expect one launch.
        if let Some(Value::Object(last)) = finished.launches.last().map(json_launch) {
            last.into_iter().for_each(|(name, content)| {
                put(&name, content);
            });
        }
        if finished.launches.len() > 1 {
            put("launches", finished.launches.iter().map(json_launch).collect());
        }
        if let Some(device) = &finished.device {
            put("device", json!(device));
        }
        put("printf", json!(String::from_utf8_lossy(&finished.printed)));
        put("outputs", Value::Array(outputs));
        if !finished.outputs.is_empty() {
            let compared = finished.outputs.iter().map(|one| {
                let Compared { passed, reasons, mismatch } = &one.compared;
                json!({ "output": one.output, "passed": passed, "reasons": reasons, "mismatch": mismatch })
            });
            put("comparison", compared.collect());
        }
        let stop = finished
            .stop
            .as_ref()
            .map(|stop| json!({ "kind": stop.kind.name(), "thread": stop.thread, "block": stop.block }));
        put("stop", json!(stop));
    }
    put("reports", json!(reports));
    value
}

fn json_launch(launched: &Launched) -> Value {
    let mut value = json!({
        "kernel": launched.kernel,
        "symbol": launched.symbol,
        "grid": launched.grid,
        "block": launched.block,
        "shared": launched.shared,
        "host_time": { "value": launched.host_seconds, "kind": "measured", "unit": "s" },
    });
    if let (Value::Object(fields), Some(count)) = (&mut value, launched.instructions) {
        let counted = json!({ "value": count, "kind": "counted", "unit": "warp instructions" });
        fields.insert("instructions".to_owned(), counted);
    }
    value
}

fn json_array(run: &Run, array: &Array, device: &mut Device) -> Value {
    let asked = run.print.iter().find(|print| print.name == array.name).and_then(|print| print.count);
    let bytes = array.content(device);
    let hash = blake3::hash(bytes);
    let values: Vec<Value> = array
        .element
        .codes(bytes)
        .take(asked.unwrap_or(FIRST))
        .map(|code| array.element.json(code))
        .collect();
    json!({
        "name": array.name,
        "type": array.element.name(),
        "shape": array.shape,
        "changed": hash != array.before,
        "values": values,
        "blake3": hash.to_hex().to_string(),
    })
}
