//! Runs one instruction (or a few) on many lanes of chosen values.

#![expect(clippy::unwrap_used, reason = "a setup failure fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use warpproof_sim::observe::{Issue, Observer};
use warpproof_sim::simd::Level;
use warpproof_sim::{Buffer, Device, Outcome, Stop};

/// A module header that supports every form.
pub(crate) const HEAD: &str = ".version 9.2\n.target sm_100a\n.address_size 64\n";

/// A column of values, one per thread, as bits.
pub(crate) type Column = Vec<u64>;

struct Recorder(Arc<Mutex<BTreeSet<usize>>>);

impl Observer for Recorder {
    fn issue(&mut self, issue: &Issue<'_>) {
        let meta = issue.program.metas.get(usize::try_from(issue.pc).unwrap());
        if let Some(entry) = meta.and_then(|meta| meta.entry) {
            self.0.lock().unwrap().insert(entry);
        }
    }
}

/// The forms that this process has executed, by test.
static EXECUTED: Mutex<BTreeMap<String, BTreeSet<&str>>> = Mutex::new(BTreeMap::new());

/// Records which forms the current test executed: one file per test in `isa-coverage` in cargo's directory for tests. It
/// replaces the files of an earlier process.
fn record(entries: &BTreeSet<usize>) {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("isa-coverage");
    std::fs::create_dir_all(&directory).unwrap();
    let test = std::thread::current().name().unwrap_or("main").replace("::", ".");
    let mut executed = EXECUTED.lock().unwrap_or_else(PoisonError::into_inner);
    let forms = executed.entry(test.clone()).or_default();
    forms.extend(entries.iter().map(|entry| warpproof_sim::isa::table()[*entry].definition.form));
    let text: String = forms.iter().flat_map(|form| [form, "\n"]).collect();
    std::fs::write(directory.join(&test), text).unwrap();
}

/// Launches a kernel with a recording observer.
pub(crate) fn launch(device: &mut Device, launch: &warpproof_sim::Launch) -> Outcome {
    let entries = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = entries.clone();
    let outcome = device.run_observed(launch, &move |_| Some(Box::new(Recorder(seen.clone()))), &mut |_| {});
    record(&entries.lock().unwrap());
    outcome
}

/// The levels this machine has.
pub(crate) fn levels() -> Vec<Level> {
    Level::ALL.into_iter().filter(|level| level.available()).collect()
}

fn register_class(ty: &str) -> &'static str {
    match ty {
        "pred" => "pred",
        "b8" | "u8" | "s8" | "b16" | "u16" | "s16" | "f16" | "bf16" => "b16",
        "b64" | "u64" | "s64" | "f64" => "b64",
        _ => "b32",
    }
}

/// Wraps `body`, which reads `%s0`, `%s1`, … and writes `%d0`, `%d1`, …, into a kernel over arrays. Types are PTX types
/// (`b16`, `b32`, `b64`, `pred`, …); a predicate is passed as 0 or 1. `%t` is the thread's index, `%lane` its lane.
pub(crate) fn kernel(body: &str, results: &[&str], sources: &[&str]) -> String {
    let mut text = format!("{HEAD}.visible .entry k(");
    let names: Vec<String> = (0..results.len())
        .map(|i| format!("out{i}"))
        .chain((0..sources.len()).map(|i| format!("in{i}")))
        .collect();
    let params: Vec<String> = names.iter().map(|name| format!(".param .u64 {name}")).collect();
    writeln!(text, "{}) {{", params.join(", ")).unwrap();
    text += ".reg .b64 %p, %o; .reg .b32 %t, %lane, %x, %y;\n";
    for (prefix, types) in [("d", results), ("s", sources)] {
        for (i, ty) in types.iter().enumerate() {
            writeln!(text, ".reg .{} %{prefix}{i};", register_class(ty)).unwrap();
        }
    }
    text += "mov.u32 %x, %ctaid.x; mov.u32 %y, %ntid.x; mov.u32 %t, %tid.x; mov.u32 %lane, %laneid;\n";
    text += "mad.lo.u32 %t, %x, %y, %t; mul.wide.u32 %o, %t, 8;\n";
    for (i, ty) in sources.iter().enumerate() {
        writeln!(text, "ld.param.u64 %p, [in{i}]; add.u64 %p, %p, %o;").unwrap();
        match register_class(ty) {
            "pred" => writeln!(text, "ld.global.u32 %x, [%p]; setp.ne.u32 %s{i}, %x, 0;").unwrap(),
            class => writeln!(text, "ld.global.{class} %s{i}, [%p];").unwrap(),
        }
    }
    writeln!(text, "{body}").unwrap();
    for (i, ty) in results.iter().enumerate() {
        writeln!(text, "ld.param.u64 %p, [out{i}]; add.u64 %p, %p, %o;").unwrap();
        match register_class(ty) {
            "pred" => writeln!(text, "selp.u32 %x, 1, 0, %d{i}; st.global.u32 [%p], %x;").unwrap(),
            class => writeln!(text, "st.global.{class} [%p], %d{i};").unwrap(),
        }
    }
    text + "ret;\n}\n"
}

/// Runs `body` on the columns at one level; threads come in blocks of 256.
pub(crate) fn try_eval(
    level: Level,
    body: &str,
    results: &[&str],
    sources: &[(&str, Column)],
) -> Result<Vec<Column>, Box<Stop>> {
    try_eval_on("sm_100a", level, body, results, sources)
}

/// As [`try_eval`], in a module with this target.
pub(crate) fn try_eval_on(
    target: &str,
    level: Level,
    body: &str,
    results: &[&str],
    sources: &[(&str, Column)],
) -> Result<Vec<Column>, Box<Stop>> {
    let count = sources.first().map_or(32, |(_, column)| column.len());
    let padded = count.next_multiple_of(256);
    let types: Vec<&str> = sources.iter().map(|(ty, _)| *ty).collect();
    let mut device = Device::new().with_level(level).with_threads(1);
    let module = device.load(&kernel(body, results, &types).replace("sm_100a", target))?;
    let kernel = module.kernel("k")?;
    let outputs: Vec<Buffer<u64>> = results.iter().map(|_| device.alloc(padded).unwrap()).collect();
    let inputs: Vec<Buffer<u64>> = sources
        .iter()
        .map(|(_, column)| {
            assert_eq!(column.len(), count, "columns differ in length");
            let mut column = column.clone();
            let filler = column.last().copied().unwrap_or(0);
            column.resize(padded, filler);
            device.upload(&column).unwrap()
        })
        .collect();
    let mut prepared = kernel.launch().grid(u32::try_from(padded / 256).unwrap()).block(256);
    for buffer in outputs.iter().chain(&inputs) {
        prepared = prepared.arg(buffer);
    }
    let outcome = launch(&mut device, &prepared);
    if let Some(stop) = outcome.stop {
        return Err(stop);
    }
    Ok(outputs
        .iter()
        .map(|buffer| {
            let mut column = device.read(buffer).unwrap();
            column.truncate(count);
            column
        })
        .collect())
}

/// Runs `body` at every level of this machine, asserts equal bits, and returns the results.
pub(crate) fn eval(body: &str, results: &[&str], sources: &[(&str, Column)]) -> Vec<Column> {
    eval_on("sm_100a", body, results, sources)
}

/// As [`eval`], in a module with this target.
pub(crate) fn eval_on(target: &str, body: &str, results: &[&str], sources: &[(&str, Column)]) -> Vec<Column> {
    let mut all = levels().into_iter().map(|level| {
        let columns = try_eval_on(target, level, body, results, sources)
            .unwrap_or_else(|stop| panic!("{target}: {body}: {stop}"));
        (level, columns)
    });
    let (_, first) = all.next().unwrap();
    for (level, other) in all {
        assert!(first == other, "{body}: the results at {level:?} differ from the portable ones");
    }
    first
}

/// Compares `body` with `expected`, thread by thread; columns are truncated to the width of their types first.
pub(crate) fn check(
    body: &str,
    results: &[&str],
    sources: &[(&str, Column)],
    expected: impl Fn(&[u64]) -> Vec<u64>,
) {
    let got = eval(body, results, sources);
    let count = sources.first().map_or(32, |(_, column)| column.len());
    for i in 0..count {
        let row: Vec<u64> = sources.iter().map(|(_, column)| column[i]).collect();
        let wanted = expected(&row);
        let found: Vec<u64> = got.iter().map(|column| column[i]).collect();
        assert_eq!(found.len(), wanted.len());
        for (f, w) in found.iter().zip(&wanted) {
            assert!(f == w, "{body}\n  sources  {row:x?}\n  found    {found:x?}\n  expected {wanted:x?}");
        }
    }
}

/// Interesting 64-bit patterns: zeros, ones, edges of every width, powers of two, and some random ones.
pub(crate) fn patterns(count: usize) -> Column {
    let mut out: Column = vec![0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, u64::MAX, u64::MAX - 1];
    for bits in [8u32, 16, 32, 64] {
        let top = 1u64 << (bits - 1);
        out.extend([top, top - 1, top.wrapping_add(1), top.wrapping_mul(2).wrapping_sub(1)]);
    }
    let mut random = warpproof_num::random::SplitMix(7);
    while out.len() < count {
        out.push(random.next());
    }
    out.truncate(count);
    out
}

/// All pairs of two short columns.
pub(crate) fn pairs(a: &[u64], b: &[u64]) -> (Column, Column) {
    a.iter().flat_map(|x| b.iter().map(move |y| (*x, *y))).unzip()
}
