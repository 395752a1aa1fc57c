//! `cargo xtask latencies`: reads the latencies that ptxas assumes from the stall counts of its output.
//!
//! Small kernels are assembled for each architecture. If one machine instruction needs the result of another, the sum of the
//! stall counts between the two is the latency that ptxas assumes; a dependence counter between them means that it assumes
//! none. Successive independent instructions of one kind give their issue interval. Nothing is executed.

mod kernels;

use std::{collections::BTreeMap, fs};

use warpproof_model::sass::{Function, Instruction, Register, parse};
use warpproof_toolchain::{Options, Toolchain};

use crate::cores;
use crate::part::Part;
use crate::root;
use kernels::{Kernel, What};

/// The architectures of the table.
const ARCHITECTURES: &[&str] = &["sm_80", "sm_86", "sm_89", "sm_90", "sm_120"];

/// The path of the table.
const TABLE: &str = "crates/model/data/latencies.csv";

/// One figure.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    arch: &'static str,
    name: &'static str,
    what: &'static str,
    opcodes: String,
    /// `None` if a dependence counter determines it.
    cycles: Option<u32>,
}

/// Compares the table with the output of ptxas, or writes it.
pub(crate) fn run(part: &Part, bless: bool) -> Result<String, String> {
    let toolchain = Toolchain::find(&Options::from_env().with_cuda(12)).map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    for arch in ARCHITECTURES {
        all.extend(kernels::all().iter().filter(|kernel| kernel.fits(arch)).map(|kernel| (*arch, kernel)));
    }
    let results = part.each(cores(), &all, |(arch, kernel)| row(&toolchain, arch, kernel)).all()?;
    let note = results.note("kernels");
    let mut rows = Vec::new();
    let mut missing = Vec::new();
    let mut version = String::new();
    for found in results.into_results() {
        version = found.0;
        match found.1 {
            Ok(row) => rows.push(row),
            Err(name) => missing.push(name),
        }
    }
    if !part.is_whole() {
        let kept = fs::read_to_string(root().join(TABLE))
            .map_err(|error| format!("cannot read {TABLE}: {error}"))?;
        let known: Vec<&str> = kept.lines().collect();
        let other = rows.iter().map(line).find(|line| !known.contains(&line.as_str()));
        return other
            .map_or(Ok(note), |line| Err(format!("{TABLE} lacks `{line}`, which ptxas {version} gives")));
    }
    let current = table(&rows, &missing, &version);
    let path = root().join(TABLE);
    if bless {
        let folder = path.parent().ok_or("the table has no folder")?;
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        fs::write(&path, current).map_err(|error| format!("cannot write {TABLE}: {error}"))?;
        return Ok(note);
    }
    let kept = fs::read_to_string(&path).map_err(|error| format!("cannot read {TABLE}: {error}"))?;
    if kept != current {
        return Err(format!(
            "{TABLE} does not match ptxas {version}; run `cargo xtask latencies --bless` to write it"
        ));
    }
    println!("latencies: {} figures of {} architectures", rows.len(), ARCHITECTURES.len());
    Ok(note)
}

/// The version of ptxas, and the figure of a kernel, or its name if ptxas writes other instructions.
fn row(
    toolchain: &Toolchain,
    arch: &'static str,
    kernel: &Kernel,
) -> Result<(String, Result<Row, String>), String> {
    let ptx = kernel.ptx(arch);
    let assembled = toolchain
        .ptxas(&ptx, arch, &[])
        .map_err(|error| format!("{} for {arch}: {error}\n{ptx}", kernel.name))?;
    let text = toolchain.encoded_sass(&assembled.cubin).map_err(|error| error.to_string())?;
    let functions = parse(&text).map_err(|error| format!("{} for {arch}: {error}", kernel.name))?;
    let function = functions.first().ok_or("ptxas generated no function")?;
    let what = kernel.what.label();
    let row = figure(function, kernel)
        .map(|(opcodes, cycles)| Row { arch, name: kernel.name, what, opcodes, cycles })
        .ok_or_else(|| format!("{arch} {} {what}", kernel.name));
    Ok((assembled.version.to_string(), row))
}

/// A line of the table.
fn line(row: &Row) -> String {
    let cycles = row.cycles.map_or_else(|| "counter".to_owned(), |cycles| cycles.to_string());
    format!("{},{},{},{},{cycles}", row.arch, row.name, row.what, row.opcodes)
}

fn table(rows: &[Row], missing: &[String], version: &str) -> String {
    let mut text = format!(
        "# Written by `cargo xtask latencies --bless` from the stall counts of ptxas {version}.\n\
         # latency: cycles from an instruction to the one that needs its result; issue: between independent ones.\n\
         # counter: ptxas leaves the wait to a dependence counter and believes in no figure.\n\
         # ptxas writes other instructions for: {}.\n\
         arch,name,what,opcodes,cycles\n",
        missing.join(", ")
    );
    for row in rows {
        text.push_str(&line(row));
        text.push('\n');
    }
    text
}

/// The instructions that were found, and the most common distance between them.
fn figure(function: &Function, kernel: &Kernel) -> Option<(String, Option<u32>)> {
    let mut found: BTreeMap<(String, Option<u32>), u32> = BTreeMap::new();
    let code = &function.instructions;
    for (at, producer) in code.iter().enumerate() {
        if !kernel.produces(producer) {
            continue;
        }
        let pair = match kernel.what {
            What::Latency => consumer(code, at, kernel),
            What::Issue => next_of_its_kind(code, at, kernel),
        };
        if let Some((to, cycles)) = pair {
            let opcodes = if to.opcode == producer.opcode {
                producer.opcode.clone()
            } else {
                format!("{} > {}{}", producer.opcode, if to.is_guarded() { "@P " } else { "" }, to.opcode)
            };
            *found.entry((opcodes, cycles)).or_default() += 1;
        }
    }
    match kernel.what {
        // The most common; of equally common ones the shortest.
        What::Latency => found.into_iter().rev().max_by_key(|(_, count)| *count).map(|(key, _)| key),
        What::Issue => found.into_keys().min_by_key(|(_, cycles)| *cycles),
    }
}

/// The first instruction that reads what the one at `at` writes, if it is of the wanted kind.
fn consumer<'a>(
    code: &'a [Instruction],
    at: usize,
    kernel: &Kernel,
) -> Option<(&'a Instruction, Option<u32>)> {
    let producer = code.get(at)?;
    let mut cycles = u32::from(producer.control.stall);
    for next in code.get(at + 1..)? {
        let reads = |register: &Register| next.registers.reads.contains(register);
        if producer.registers.writes.iter().any(reads) {
            let waits =
                producer.control.write_barrier.is_some_and(|b| next.control.waits_for().any(|w| w == b));
            return kernel.consumes(next).then_some((next, (!waits).then_some(cycles)));
        }
        if producer.registers.writes.iter().all(|register| next.registers.writes.contains(register)) {
            return None;
        }
        cycles += u32::from(next.control.stall);
    }
    None
}

/// The next instruction of the same opcode that does not need this one's result.
fn next_of_its_kind<'a>(
    code: &'a [Instruction],
    at: usize,
    kernel: &Kernel,
) -> Option<(&'a Instruction, Option<u32>)> {
    let this = code.get(at)?;
    let mut cycles = u32::from(this.control.stall);
    for next in code.get(at + 1..)? {
        if next.opcode == this.opcode && kernel.produces(next) {
            let needs = this.registers.writes.iter().any(|register| next.registers.reads.contains(register));
            return (!needs).then_some((next, Some(cycles)));
        }
        cycles += u32::from(next.control.stall);
    }
    None
}
