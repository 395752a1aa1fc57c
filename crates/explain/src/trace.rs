//! The timeline of one multiprocessor as trace events, which Perfetto and Chrome's viewer open.
//!
//! A process is a sub-core and a thread is a warp. An instruction lasts as long as it occupies its pipe. Times are
//! *predicted*, in microseconds at boost clock.
#![expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "cycles become microseconds; they are far below 2^53"
)]

use std::collections::BTreeSet;

use serde_json::{Value, json};
use warpproof_count::Sampling;
use warpproof_model::schedule::timing;

use super::Timeline;

/// The trace as JSON.
pub fn json(timeline: &Timeline) -> Value {
    let mhz = f64::from(timeline.device.boost_mhz.value);
    let partitions = timeline.device.capability.partitions.value.max(1);
    let warps: BTreeSet<u32> = timeline.events.iter().map(|event| event.warp).collect();
    let mut events = Vec::new();
    for sub_core in 0..partitions {
        let name = format!("sub-core {sub_core}");
        events.push(json!({ "ph": "M", "pid": sub_core, "name": "process_name", "args": { "name": name } }));
    }
    for warp in &warps {
        let name = format!("warp {warp}");
        let pid = warp % partitions;
        events.push(
            json!({ "ph": "M", "pid": pid, "tid": warp, "name": "thread_name", "args": { "name": name } }),
        );
    }
    for event in &timeline.events {
        let Some(instruction) = timeline.function.instructions.get(event.instruction) else { continue };
        let what = timing(timeline.device, instruction);
        let place =
            instruction.ptx_line.and_then(|line| timeline.sources.get(&line)).map(ToString::to_string);
        events.push(json!({
            "ph": "X",
            "name": instruction.opcode,
            "cat": what.pipe,
            "pid": event.warp % partitions,
            "tid": event.warp,
            "ts": event.cycle as f64 / mhz,
            "dur": f64::from(what.interval) / mhz,
            "args": {
                "cycle": event.cycle,
                "sass": instruction.to_string(),
                "ptx_line": instruction.ptx_line,
                "source": place,
            },
        }));
    }
    json!({
        "displayTimeUnit": "ns",
        "otherData": {
            "device": timeline.device.name,
            "kind": "predicted",
            "cut": timeline.cut,
            "sampled": timeline.sampled.as_ref().map(Sampling::statements),
        },
        "traceEvents": events,
    })
}
