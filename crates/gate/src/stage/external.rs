//! External baselines on the same shapes: PyTorch's attention with each of its backends, through a small Python
//! program.
//!
//! A peer that cannot be timed is skipped, and the reason is recorded. A peer never decides a verdict. **Not tested
//! on hardware**: tests run the program with a stand-in for torch.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};
use warpproof_gpu::Identity;

use super::speed::{Clocks, declared};
use super::{Bench, Ending, Trouble, unfit};
use crate::reference::python::interpreter;
use crate::runner::apart;
use warpproof_evidence::record::{Figure, FigureKind};
use warpproof_evidence::vocabulary as name;
use warpproof_task::{Candidate, Operator, Peer, Reference, Size};

/// The only supported peer, as tasks name it.
const TORCH: &str = "torch-sdpa";
const SCRIPT: &str = include_str!("external/torch_sdpa.py");
/// Calls of one graph, and how often it is timed.
const LAUNCHES: u32 = 20;
const SAMPLES: u32 = 30;
/// Timeout for all shapes; loading torch alone takes half a minute on a cold disk.
const PATIENCE: Duration = Duration::from_mins(10);
/// Limit on the bytes of answers that are read.
const MOST: u64 = 16 << 20;

/// The first line of the program's output, if torch is installed.
#[derive(Debug, Deserialize)]
struct Head {
    device: String,
}

/// A line of the program's output.
#[derive(Debug, Deserialize)]
struct Line {
    shape: String,
    backend: String,
    #[serde(default)]
    us: Vec<f64>,
    #[serde(default)]
    skipped: Option<String>,
}

pub(super) fn judge(bench: &Bench<'_>, candidate: &Candidate) -> Result<Ending, Trouble> {
    let peers = bench.task.baselines.iter().filter_map(|baseline| match &baseline.who {
        Peer::External(name) => Some(name.value.as_str()),
        Peer::Candidate(_) => None,
    });
    let peers: Vec<&str> = peers.collect();
    if peers.is_empty() {
        return Ok(Ending::skipped("the task names no external peer"));
    }
    if let Some(unknown) = peers.iter().find(|peer| **peer != TORCH) {
        return Err(unfit(format!("expected `{TORCH}`, found an unknown peer `{unknown}`")));
    }
    let Some(clocks) = bench.clocks else {
        return Ok(Ending::skipped("no GPU found"));
    };
    let shapes = shapes(bench, candidate)?;
    let seed = bench.measured_seed();
    let request =
        json!({ "shapes": shapes, "launches": LAUNCHES, "samples": SAMPLES, "seed": seed % (1 << 32) });
    let device = clocks.identity();
    let told = match ask(bench, &request, device)? {
        Ok(told) => told,
        Err(why) => return Ok(Ending::absent(format!("{TORCH}: {why}"))),
    };
    // Times from another device must not be compared with those from this one.
    let head = told.lines().find_map(|line| serde_json::from_str::<Head>(line).ok());
    if let (Some(head), Some(device)) = (head, device)
        && head.device != device.name
    {
        let why = format!("it runs on {}, but speed is measured on {}", head.device, device.name);
        return Ok(Ending::absent(format!("{TORCH}: {why}")));
    }
    let kind = if clocks.predicted() { FigureKind::Predicted } else { FigureKind::Measured };
    let mut figures = Vec::new();
    // Peers skipped for the same reason are reported once.
    let mut skipped: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in told.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()) {
        let peer = format!("torch SDPA {}, {}", line.backend, line.shape);
        match (line.skipped, median(line.us)) {
            (None, Some(us)) => {
                figures
                    .extend(Figure::new(name::PEER_LATENCY, us, "us", kind).map(|figure| figure.at(&peer)));
            }
            (why, _) => {
                let why = why.unwrap_or_else(|| "it reported no time".to_owned());
                skipped.entry(why).or_default().push(format!("{} on {}", line.backend, line.shape));
            }
        }
    }
    let reasons: Vec<String> =
        skipped.iter().map(|(why, who)| format!("{}: {why}", who.join(", "))).collect();
    let ending = match (figures.is_empty(), reasons.is_empty()) {
        (true, true) => Ending::absent(format!("{TORCH}: the program printed nothing")),
        (true, false) => Ending::absent(reasons.join("; ")),
        (false, _) => Ending { reason: reasons.join("; "), ..Ending::pass(figures) },
    };
    Ok(ending.with_object(TORCH, told))
}

/// The shapes of the stage in the program's format.
fn shapes(bench: &Bench<'_>, candidate: &Candidate) -> Result<Vec<Value>, Trouble> {
    let Reference::BuiltIn { operator: Operator::Attention(operator) } = &bench.task.reference else {
        return Err(unfit(format!("`{TORCH}` supports only attention tasks")));
    };
    let of = |size: &Size| {
        let operator = operator.on(size);
        let get = |axis: &str| size.axes.get(axis).copied();
        let need =
            |axis: &str| get(axis).ok_or_else(|| unfit(format!("attention requires the axis `{axis}`")));
        let (b, h, s, d) = (need("b")?, need("h")?, need("s")?, need("d")?);
        let usual = 1.0 / f64::from(u32::try_from(d).unwrap_or(u32::MAX)).sqrt();
        Ok(json!({
            "name": size.name,
            "b": b,
            "h": h,
            "kv": get("kv").unwrap_or(h),
            "s": s,
            "keys": get("keys").unwrap_or(s),
            "d": d,
            "causal": operator.causal,
            "scale": operator.softmax_scale.map_or(usual, f64::from),
        }))
    };
    // PyTorch's function has no windows, caps, sinks, biases by head or packed sequences of this kind: such shapes have no peer.
    let has_peer = |size: &&Size| {
        let lengths = &size.attention;
        operator.on(size).extended().is_empty() && lengths.seqlens_q.is_none() && lengths.seqlens_k.is_none()
    };
    declared(bench, candidate).iter().filter(has_peer).map(of).collect()
}

/// Runs the program and returns its output, or why it has none.
fn ask(
    bench: &Bench<'_>,
    request: &Value,
    device: Option<&Identity>,
) -> Result<Result<String, String>, Trouble> {
    let python = interpreter();
    // A directory without Python modules that it could import by accident.
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(cause) => return Ok(Err(format!("cannot create a temporary directory: {cause}"))),
    };
    let apart = bench.clocks.is_none_or(Clocks::apart);
    let mut child = match start(Path::new(&python), folder.path(), device, apart) {
        Ok(child) => child,
        Err(cause) => return Ok(Err(format!("cannot run {}: {cause}", python.display()))),
    };
    if let Some(mut input) = child.stdin.take() {
        // A program that exits before reading its input explains why in its answers.
        let _unread = writeln!(input, "{request}");
    }
    let output = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(output) = output {
            let _cut = output.take(MOST).read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    });
    let start = Instant::now();
    let mut stopped = Ok(());
    while !reader.is_finished() && stopped.is_ok() && start.elapsed() <= PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
        stopped = bench.check_stop();
    }
    let late = !reader.is_finished();
    let _gone = child.kill();
    let _reaped = child.wait();
    stopped?;
    if late {
        return Ok(Err(format!("it took longer than {} s", PATIENCE.as_secs())));
    }
    Ok(reader.join().map_err(|_| "cannot read its output".to_owned()))
}

/// Starts the program. It sees only the timed device and does not receive keyboard interrupts.
fn start(python: &Path, folder: &Path, device: Option<&Identity>, own_group: bool) -> std::io::Result<Child> {
    let mut command = Command::new(python);
    command.args(["-c", SCRIPT]).current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    if let Some(device) = device {
        command.env("CUDA_VISIBLE_DEVICES", device.visible());
    }
    if own_group {
        apart(&mut command);
    }
    command.spawn()
}

fn median(mut all: Vec<f64>) -> Option<f64> {
    all.retain(|one| one.is_finite());
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_leaves_out_what_is_no_time() {
        assert_eq!(median(vec![3.0, f64::NAN, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(Vec::new()), None);
    }
}
