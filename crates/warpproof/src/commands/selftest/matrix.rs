//! `warpproof selftest mma`: executes the matrix instructions and compares the products bit for bit.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};
use warpproof_num::Rounding;
use warpproof_num::convert::{cvt_f16_f32, cvt_f32_f16};
use warpproof_sim::{Buffer, Device, HeapError};
use warpproof_toolchain::Source;

use super::Mma;
use super::fragment::{Format, Op};
use super::vectors::{self, Captures, Case};
use crate::report::{Kind, Outcome, Report};
use crate::source::{Ptx, of_stop};
use crate::terminal::Terminal;

/// Warps in a block.
const WARPS: usize = 4;
/// Differences that are shown.
const SHOWN: usize = 8;

/// One product: A and C row-major, B column-major.
#[derive(Clone, Debug)]
struct Product {
    a: Vec<u64>,
    b: Vec<u64>,
    c: Vec<u64>,
}

/// A line of the table.
#[derive(Debug)]
struct Tally {
    /// What was compared.
    name: String,
    /// Matrices or dot products.
    cases: usize,
    /// Those of them without a mismatch.
    equal: usize,
    outputs: usize,
    mismatches: usize,
}

/// All that was compared.
#[derive(Debug, Default)]
struct Tallies {
    matrices: Vec<Tally>,
    silicon: Vec<Tally>,
    wmma: Vec<Tally>,
    /// The first differences, in words.
    differences: Vec<String>,
}

impl Tallies {
    fn all(&self) -> impl Iterator<Item = &Tally> {
        self.matrices.iter().chain(&self.silicon).chain(&self.wmma)
    }

    fn differ(&mut self, text: impl FnOnce() -> String) {
        if self.differences.len() < SHOWN {
            self.differences.push(text());
        }
    }
}

pub(super) fn run(mma: &Mma, terminal: &mut Terminal) -> Outcome {
    let tallies = match compare(mma) {
        Ok(tallies) => tallies,
        Err(report) => {
            if mma.json.wanted {
                let error =
                    json!({ "schema": "warpproof.selftest-mma/1", "ok": false, "reports": [*report] });
                terminal.json(&error);
            } else {
                terminal.report(&report);
            }
            return Outcome::Stopped(report.kind);
        }
    };
    let mismatches: usize = tallies.all().map(|tally| tally.mismatches).sum();
    if mma.json.wanted {
        terminal.json(&as_json(&tallies, mismatches));
    } else {
        terminal.print(as_text(&tallies));
    }
    if mismatches == 0 {
        return Outcome::Green;
    }
    if !mma.json.wanted {
        let sentence = format!("{mismatches} outputs of the software GPU differ from the vectors");
        let mut report = Report::error(Kind::Kernel, sentence);
        for difference in &tallies.differences {
            report = report.note(difference.clone(), None);
        }
        terminal.report(&report);
    }
    Outcome::Stopped(Kind::Kernel)
}

fn compare(mma: &Mma) -> Result<Tallies, Box<Report>> {
    let folder = mma.folder.as_ref().ok_or_else(|| {
        let report = Report::error(Kind::Usage, "the folder of vectors is missing");
        Box::new(report.help(
            "pass the folder with mma-ada.jsonl and silicon/*.txt; some of them are in the source, in \
             crates/num/tests/golden",
        ))
    })?;
    let cases = vectors::cases(&folder.join("mma-ada.jsonl"))?;
    let captures = vectors::captures(&folder.join("silicon"))?;
    let mut tallies = Tallies::default();
    let mut by_op: BTreeMap<Op, Vec<&Case>> = BTreeMap::new();
    for case in &cases {
        by_op.entry(case.op).or_default().push(case);
    }
    for (op, cases) in &by_op {
        matrices(*op, cases, &mut tallies)?;
    }
    for file in &captures {
        silicon(file, &mut tallies)?;
        silicon_by_wmma(file, &mut tallies)?;
    }
    Ok(tallies)
}

/// Whole matrices with `mma`, and with `wmma` if it supports the type and the depth: its tiles are twice as
/// wide, so B and C are repeated.
fn matrices(op: Op, cases: &[&Case], tallies: &mut Tallies) -> Result<(), Box<Report>> {
    let products: Vec<Product> = cases.iter().map(|case| widened(op, case, 1)).collect();
    let results = launch(&op, &op.mma_kernel(), &products)?;
    let tally = tally(op.name(), op, op, cases, &results, tallies);
    tallies.matrices.push(tally);
    if let Some(wide) = op.by_wmma() {
        let products: Vec<Product> = cases.iter().map(|case| widened(op, case, wide.n / op.n)).collect();
        let results = launch(&wide, &wide.wmma_kernel(), &products)?;
        let name = format!("wmma {}", wide.name());
        let tally = self::tally(name, op, wide, cases, &results, tallies);
        tallies.wmma.push(tally);
    }
    Ok(())
}

fn widened(op: Op, case: &Case, times: usize) -> Product {
    let columns = |column: usize| (0..op.k).map(move |k| case.b[k * op.n + column % op.n]);
    let width = op.n * times;
    Product {
        a: case.a.clone(),
        b: (0..width).flat_map(columns).collect(),
        c: (0..op.m * width).map(|i| case.c[i / width * op.n + i % width % op.n]).collect(),
    }
}

/// Compares every element of the results with the cases of `op`; `wide` results hold each case twice.
fn tally(
    name: String,
    op: Op,
    wide: Op,
    cases: &[&Case],
    results: &[Vec<u64>],
    tallies: &mut Tallies,
) -> Tally {
    let mut tally = Tally { name, cases: cases.len(), equal: 0, outputs: 0, mismatches: 0 };
    for (case, got) in cases.iter().zip(results) {
        let before = tally.mismatches;
        for (i, got) in got.iter().enumerate() {
            let (row, column) = (i / wide.n, i % wide.n);
            let wanted = case.d[row * op.n + column % op.n];
            tally.outputs += 1;
            if *got != wanted {
                tally.mismatches += 1;
                tallies.differ(|| {
                    let (name, line) = (&tally.name, case.line);
                    format!("{name}, line {line}, row {row}, column {column}: {got:x} instead of {wanted:x}")
                });
            }
        }
        tally.equal += usize::from(tally.mismatches == before);
    }
    tally
}

/// The instruction whose depth equals the length of a capture.
fn op_of(element: Format, k: usize, accumulator: Format) -> Op {
    Op { m: 16, n: 8, k, a: element, b: element, c: accumulator }
}

fn accumulator_code(accumulator: Format, c: u32) -> u64 {
    match accumulator {
        Format::F16 => u64::from(cvt_f16_f32(c, Rounding::Rn, false)),
        _ => u64::from(c),
    }
}

/// Captures with `mma`: eight dot products each, the i-th in row i of A and column i of B. Row i + 8
/// repeats row i, so that both halves of the instruction are tested.
fn silicon(file: &Captures, tallies: &mut Tallies) -> Result<(), Box<Report>> {
    for accumulator in [Format::F32, Format::F16] {
        let columns: Vec<usize> =
            (0..file.results.len()).filter(|i| file.results[*i].1 == accumulator).collect();
        if columns.is_empty() {
            continue;
        }
        let op = op_of(file.element, file.length, accumulator);
        let products: Vec<Product> = file
            .rows
            .chunks(8)
            .map(|rows| {
                let mut product =
                    Product { a: vec![0; op.m * op.k], b: vec![0; op.k * op.n], c: vec![0; op.m * op.n] };
                for (i, row) in rows.iter().enumerate() {
                    for half in [i, i + 8] {
                        product.a[half * op.k..][..op.k].copy_from_slice(&row.a);
                        product.c[half * op.n + i] = accumulator_code(accumulator, row.c);
                    }
                    product.b[i * op.k..][..op.k].copy_from_slice(&row.b);
                }
                product
            })
            .collect();
        let results = launch(&op, &op.mma_kernel(), &products)?;
        for column in columns {
            let name = format!("{} {}", file.file, file.results[column].0);
            let mut tally = Tally { name, cases: file.rows.len(), equal: 0, outputs: 0, mismatches: 0 };
            for (index, row) in file.rows.iter().enumerate() {
                let i = index % 8;
                let wanted = row.d[column];
                let got = [i, i + 8].map(|half| single(accumulator, results[index / 8][half * op.n + i]));
                tally.outputs += 1;
                if got == [wanted; 2] {
                    tally.equal += 1;
                } else {
                    tally.mismatches += 1;
                    tallies.differ(|| {
                        let [upper, lower] = got;
                        format!(
                            "{}, line {}: {upper:08x} and {lower:08x} instead of {wanted:08x}",
                            tally.name, row.line
                        )
                    });
                }
            }
            tallies.silicon.push(tally);
        }
    }
    Ok(())
}

/// A result as an f32 code, like in the files.
fn single(accumulator: Format, code: u64) -> u32 {
    let bits = u32::try_from(code).unwrap_or(u32::MAX);
    match accumulator {
        Format::F16 => u16::try_from(bits).map_or(u32::MAX, cvt_f32_f16),
        _ => bits,
    }
}

/// Compares `wmma` with `mma` on the captures' operands. Two consecutive captures fill the depth of a
/// `wmma`; the rows and columns of 16 such pairs form whole matrices.
fn silicon_by_wmma(file: &Captures, tallies: &mut Tallies) -> Result<(), Box<Report>> {
    for accumulator in [Format::F32, Format::F16] {
        let narrow = op_of(file.element, 2 * file.length, accumulator);
        let Some(wide) = narrow.by_wmma() else { continue };
        if !file.results.iter().any(|(_, other)| *other == accumulator) {
            continue;
        }
        let products: Vec<Product> = file
            .rows
            .chunks_exact(32)
            .map(|rows| Product {
                a: rows.iter().flat_map(|row| row.a.iter().copied()).collect(),
                b: rows.iter().flat_map(|row| row.b.iter().copied()).collect(),
                c: (0..256).map(|i| accumulator_code(accumulator, rows[(i + i / 16) % 32].c)).collect(),
            })
            .collect();
        let halves: Vec<Product> = products
            .iter()
            .flat_map(|product| {
                [0, 8].map(|start| Product {
                    a: product.a.clone(),
                    b: product.b[start * narrow.k..][..8 * narrow.k].to_vec(),
                    c: (0..128).map(|i| product.c[i / 8 * 16 + start + i % 8]).collect(),
                })
            })
            .collect();
        let by_wmma = launch(&wide, &wide.wmma_kernel(), &products)?;
        let by_mma = launch(&narrow, &narrow.mma_kernel(), &halves)?;
        let name = format!("wmma {} of {}", wide.name(), file.file);
        let mut tally = Tally { name, cases: products.len(), equal: 0, outputs: 0, mismatches: 0 };
        for (index, got) in by_wmma.iter().enumerate() {
            let before = tally.mismatches;
            for (i, got) in got.iter().enumerate() {
                let (row, column) = (i / 16, i % 16);
                let wanted = by_mma[2 * index + column / 8][row * 8 + column % 8];
                tally.outputs += 1;
                if *got != wanted {
                    tally.mismatches += 1;
                    tallies.differ(|| {
                        let name = &tally.name;
                        format!("{name}, matrix {index}, row {row}, column {column}: {got:x}; mma gives {wanted:x}")
                    });
                }
            }
            tally.equal += usize::from(tally.mismatches == before);
        }
        tallies.wmma.push(tally);
    }
    Ok(())
}

/// Computes all products in one launch, one warp each, and returns every D row-major.
fn launch(op: &Op, kernel: &str, products: &[Product]) -> Result<Vec<Vec<u64>>, Box<Report>> {
    if products.is_empty() {
        return Ok(Vec::new());
    }
    let ptx = Ptx::new(kernel.to_owned(), format!("{}.ptx", op.name()));
    let stopped = |stop: &warpproof_sim::Stop| {
        Box::new(of_stop(stop, &ptx, &Source::new(ptx.name.as_str(), ptx.text.as_str())))
    };
    let mut device = Device::new();
    let module = device.load(&ptx.text).map_err(|stop| stopped(&stop))?;
    let kernel = module.kernel("product").map_err(|stop| stopped(&stop))?;
    let memory = |error: HeapError| Box::new(Report::error(Kind::Limit, error.to_string()));
    let mut upload = |part: fn(&Product) -> &[u64], size: usize| -> Result<Buffer<u8>, Box<Report>> {
        let codes = products.iter().flat_map(part);
        let bytes: Vec<u8> = codes.flat_map(|code| code.to_le_bytes().into_iter().take(size)).collect();
        device.upload(&bytes).map_err(memory)
    };
    let a = upload(|product| &product.a, op.a.size())?;
    let b = upload(|product| &product.b, op.b.size())?;
    let c = upload(|product| &product.c, op.c.size())?;
    // Fill D with the complement of C, which is not the result of any case, so that missing stores are
    // detected.
    let d = {
        let bytes: Vec<u8> = device.read(&c).map_err(memory)?.into_iter().map(|byte| !byte).collect();
        device.upload(&bytes).map_err(memory)?
    };
    let (Ok(count), Ok(blocks), Ok(threads)) = (
        u32::try_from(products.len()),
        u32::try_from(products.len().div_ceil(WARPS)),
        u32::try_from(32 * WARPS),
    ) else {
        return Err(Box::new(Report::error(Kind::Limit, "too many products for one launch")));
    };
    let launch = kernel.launch().grid(blocks).block(threads).arg(a).arg(b).arg(c).arg(d).arg(count);
    launch.run(&mut device).map_err(|stop| stopped(&stop))?;
    let bytes = device.read(&d).map_err(memory)?;
    let codes: Vec<u64> = bytes
        .chunks_exact(op.c.size())
        .map(|code| code.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
        .collect();
    Ok(codes.chunks_exact(op.m * op.n).map(<[u64]>::to_vec).collect())
}

fn as_text(tallies: &Tallies) -> String {
    let width = tallies.all().map(|tally| tally.name.len()).max().unwrap_or(0).max(4);
    let mut text = format!("{:<width$}  {:>6}  {:>8}  {:>10}\n", "op", "cases", "outputs", "mismatches");
    for tally in tallies.all() {
        let _ = writeln!(
            text,
            "{:<width$}  {:>6}  {:>8}  {:>10}",
            tally.name, tally.cases, tally.outputs, tally.mismatches
        );
    }
    let sums = Sums::of(tallies);
    let _ = writeln!(
        text,
        "\n{} of {} matrices and {} of {} silicon outputs by mma, {} of {} outputs by wmma: bit for bit",
        number(sums.equal_matrices),
        number(sums.matrices),
        number(sums.equal_silicon),
        number(sums.silicon),
        number(sums.equal_wmma),
        number(sums.wmma)
    );
    text
}

fn number(value: usize) -> String {
    warpproof_model::grouped(u64::try_from(value).unwrap_or(u64::MAX))
}

struct Sums {
    matrices: usize,
    equal_matrices: usize,
    silicon: usize,
    equal_silicon: usize,
    wmma: usize,
    equal_wmma: usize,
}

impl Sums {
    fn of(tallies: &Tallies) -> Self {
        let sum = |all: &[Tally], part: fn(&Tally) -> usize| all.iter().map(part).sum();
        Self {
            matrices: sum(&tallies.matrices, |tally| tally.cases),
            equal_matrices: sum(&tallies.matrices, |tally| tally.equal),
            silicon: sum(&tallies.silicon, |tally| tally.outputs),
            equal_silicon: sum(&tallies.silicon, |tally| tally.outputs - tally.mismatches),
            wmma: sum(&tallies.wmma, |tally| tally.outputs),
            equal_wmma: sum(&tallies.wmma, |tally| tally.outputs - tally.mismatches),
        }
    }
}

fn as_json(tallies: &Tallies, mismatches: usize) -> Value {
    let rows = |all: &[Tally]| -> Vec<Value> {
        all.iter()
            .map(|tally| {
                json!({
                    "name": tally.name,
                    "cases": tally.cases,
                    "equal": tally.equal,
                    "outputs": tally.outputs,
                    "mismatches": tally.mismatches,
                })
            })
            .collect()
    };
    let sums = Sums::of(tallies);
    json!({
        "schema": "warpproof.selftest-mma/1",
        "warpproof": env!("CARGO_PKG_VERSION"),
        "ok": mismatches == 0,
        "matrices": { "equal": sums.equal_matrices, "total": sums.matrices },
        "silicon_outputs": { "equal": sums.equal_silicon, "total": sums.silicon },
        "wmma_outputs": { "equal": sums.equal_wmma, "total": sums.wmma },
        "mma": rows(&tallies.matrices),
        "silicon": rows(&tallies.silicon),
        "wmma": rows(&tallies.wmma),
        "differences": tallies.differences,
    })
}
