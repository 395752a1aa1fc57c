//! What `build` prints.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};
use warpproof_model::grouped;

use super::{BlockOrigin, Build, Built, Examined, Fit, Target};
use crate::report::Kind;

const BOLD: Style = Style::new().bold();
const WARN: Style = AnsiColor::Yellow.on_default().bold();

/// The table for a person.
pub(super) fn text(build: &Build, built: &Built) -> String {
    let mut text = String::new();
    for (i, target) in built.targets.iter().enumerate() {
        let compiler = match built.nvrtc {
            Some(nvrtc) => format!("NVRTC {nvrtc}, ptxas {}", target.ptxas),
            None => format!("ptxas {}", target.ptxas),
        };
        let gap = if i == 0 { "" } else { "\n" };
        // Writing to a string does not fail, here and below.
        let _ = writeln!(
            text,
            "{gap}{BOLD}{}{BOLD:#} for {BOLD}{}{BOLD:#} ({compiler}{})",
            build.kernel.display(),
            target.arch,
            if target.is_from_cache() { ", from the build cache" } else { "" },
        );
        if target.kernels.is_empty() {
            text.push_str(
                "  no kernel: nothing is declared __global__, or every template is without an instance\n",
            );
        }
        for examined in &target.kernels {
            kernel(&mut text, examined, &target.arch);
        }
        for file in &target.files {
            let _ = writeln!(text, "\nwrote {}", file.display());
        }
    }
    text
}

fn kernel(text: &mut String, examined: &Examined, arch: &str) {
    let (kernel, used) = (&examined.kernel, &examined.resources);
    let _ = write!(text, "\nkernel {BOLD}{}{BOLD:#}", kernel.name);
    if kernel.name != kernel.symbol {
        let _ = write!(text, " ({})", kernel.symbol);
    }
    text.push('\n');
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<17} {value}");
    };
    let shared = used.static_shared.saturating_add(examined.dynamic_shared);
    row("registers", format!("{} per thread", used.registers));
    row(
        "shared memory",
        format!(
            "{} bytes ({} static + {} dynamic)",
            grouped(shared),
            grouped(used.static_shared),
            grouped(examined.dynamic_shared)
        ),
    );
    row("stack frame", format!("{} bytes", grouped(used.stack_frame)));
    row(
        "spills",
        format!("{} bytes stored, {} bytes loaded", grouped(used.spill_stores), grouped(used.spill_loads)),
    );
    row("local memory", format!("{} bytes per thread", grouped(used.local_bytes())));
    row("barriers", used.barriers.to_string());
    row("constant memory", format!("{} bytes", grouped(used.constant_bytes())));
    let origin = match examined.block_origin {
        BlockOrigin::Flag => "",
        BlockOrigin::LaunchBounds => ", the kernel's launch bounds",
        BlockOrigin::Assumed => ", assumed: set --block",
    };
    row("block", format!("{} threads{origin}", examined.block));
    if examined.fits.is_empty() {
        row("occupancy", format!("unknown: {arch} is not in the device table"));
    }
    for fit in &examined.fits {
        device(text, fit);
    }
    for remark in &examined.remarks {
        let _ = writeln!(text, "  {WARN}!{WARN:#} {remark}");
    }
}

fn device(text: &mut String, fit: &Fit) {
    let o = &fit.occupancy;
    let limiters: Vec<String> = o.limiters.iter().map(ToString::to_string).collect();
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "    {name:<15} {value}");
    };
    let plural = if o.blocks_per_sm == 1 { "" } else { "s" };
    let blocks = format!("{} block{plural} per SM, {} of {} warps", o.blocks_per_sm, o.warps, o.max_warps);
    let header = format!("on an {}", fit.device);
    if o.blocks_per_sm == 0 {
        row("occupancy", format!("{WARN}cannot be launched{WARN:#} {header}"));
    } else {
        row("occupancy", format!("{BOLD}{:.1} %{BOLD:#} {header}: {blocks}", o.percent));
    }
    row("limited by", limiters.join(", "));
    row("one more block", o.next.to_string());
    if o.needs_opt_in && o.blocks_per_sm > 0 {
        row("launch", "needs cudaFuncAttributeMaxDynamicSharedMemorySize".to_owned());
    }
}

impl Target {
    fn is_from_cache(&self) -> bool {
        self.compiled_from_cache.unwrap_or(true) && self.assembled_from_cache
    }
}

/// The same as JSON. Fields may be added without a new schema number; the meaning of existing fields never
/// changes.
pub(super) fn json(build: &Build, built: &Built, failed: Option<Kind>) -> Value {
    let targets: Vec<Value> = built
        .targets
        .iter()
        .map(|target| {
            let files: Vec<String> = target.files.iter().map(|file| file.display().to_string()).collect();
            let kernels: Vec<Value> = target.kernels.iter().map(json_kernel).collect();
            let skipped: Vec<Value> = target
                .skipped_host_code
                .iter()
                .map(|(file, lines)| json!({ "file": file, "first": lines.start(), "last": lines.end() }))
                .collect();
            json!({
                "arch": target.arch,
                "ptxas": target.ptxas,
                "cache": {
                    "nvrtc": target.compiled_from_cache.map(hit_or_miss),
                    "ptxas": hit_or_miss(target.assembled_from_cache),
                },
                "skipped_host_code": skipped,
                "kernels": kernels,
                "files": files,
            })
        })
        .collect();
    json!({
        "schema": "warpproof.build/1",
        "warpproof": env!("CARGO_PKG_VERSION"),
        "source": build.kernel.display().to_string(),
        "ok": failed.is_none(),
        "nvrtc": built.nvrtc,
        "targets": targets,
        "reports": built.reports,
    })
}

fn hit_or_miss(hit: bool) -> &'static str {
    if hit { "hit" } else { "miss" }
}

fn json_kernel(examined: &Examined) -> Value {
    let (kernel, used) = (&examined.kernel, &examined.resources);
    let constant: serde_json::Map<String, Value> =
        used.constant.iter().map(|(bank, bytes)| (bank.to_string(), json!(bytes))).collect();
    let occupancy: Vec<Value> = examined
        .fits
        .iter()
        .map(|fit| {
            let mut value = json!({ "device": fit.device });
            if let (Value::Object(all), Ok(Value::Object(more))) =
                (&mut value, serde_json::to_value(&fit.occupancy))
            {
                all.extend(more);
                all.insert("one_more_block".to_owned(), json!(fit.occupancy.next.to_string()));
            }
            value
        })
        .collect();
    json!({
        "name": kernel.name,
        "symbol": kernel.symbol,
        "registers": used.registers,
        "static_shared": used.static_shared,
        "dynamic_shared": examined.dynamic_shared,
        "stack_frame": used.stack_frame,
        "cumulative_stack": used.cumulative_stack,
        "spill_stores": used.spill_stores,
        "spill_loads": used.spill_loads,
        "local": used.local_bytes(),
        "barriers": used.barriers,
        "constant": constant,
        "block": examined.block,
        "block_origin": match examined.block_origin {
            BlockOrigin::Flag => "flag",
            BlockOrigin::LaunchBounds => "launch-bounds",
            BlockOrigin::Assumed => "assumed",
        },
        "launch_bound": kernel.launch_bound,
        "occupancy": occupancy,
        "remarks": examined.remarks,
    })
}
