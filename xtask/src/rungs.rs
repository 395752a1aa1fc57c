//! `cargo xtask rungs`: counts the instructions and memory accesses of each rung of the attention ladder at one shape.
//!
//! Every rung runs on the software GPU at the shape for which the ladder is tuned; those with swizzled tiles run a second time
//! without the swizzle. The task writes a section of the book's page and draws the picture of predicted times. Both are
//! deterministic, so they are compared exactly.

mod serving;

use std::fmt::Write as _;
use std::fs;

use warpproof_count::{MemoryOp, Totals};
use warpproof_evidence::ledger::Ledger;
use warpproof_kernels::attention::Attention;
use warpproof_kernels::inputs::{Distribution, generate};
use warpproof_kernels::ladder::{Cut, LADDER, Rung};
use warpproof_kernels::plan::{Plan, Request};
use warpproof_kernels::problem::Shape;
use warpproof_ladder as ladder;
use warpproof_launch::Counting;
use warpproof_model::{Device as Model, grouped};
use warpproof_report::{self, Evidence};
use warpproof_sim::isa::Unit;
use warpproof_sim::memory::Space;
use warpproof_toolchain::{Options, Toolchain};

use crate::cores;
use crate::part::Part;
use crate::root;
use crate::section::{Section, difference};

/// The generated section.
const SECTION: Section = Section { page: "book/src/attention/ladder.md", name: "counters", task: "rungs" };

const PICTURE: &str = "book/src/attention/img/predicted.svg";

const SWIZZLE: &str = "USE_SMEM_SWIZZLE_XOR";

/// The counters of a rung.
struct Row {
    name: String,
    totals: Totals,
}

/// Compares the page with the counters, or writes it.
pub(crate) fn run(part: &Part, bless: bool) -> Result<String, String> {
    let toolchain = Toolchain::find(&Options::from_env().with_cuda(12)).map_err(|error| error.to_string())?;
    let results = part.each(cores(), LADDER, |rung| counted(&toolchain, rung)).all()?;
    let note = results.note("rungs");
    let rows: Vec<Row> = results.into_results().flatten().collect();
    if !part.is_whole() {
        let lines = rows.iter().flat_map(|row| [instructions(row), accesses(row)]);
        SECTION.contains(&lines.collect::<Vec<String>>())?;
        return Ok(note);
    }
    SECTION.compare_or_write(&table(&rows), bless)?;
    println!("rungs: {} counted", rows.len());
    picture(&toolchain, bless)?;
    serving::run(&toolchain, bless)?;
    Ok(note)
}

/// The counters of a rung, and those without the swizzle if it introduces it.
fn counted(toolchain: &Toolchain, rung: &Rung) -> Result<Vec<Row>, String> {
    let mut rows = vec![Row { name: rung.id.to_owned(), totals: count(toolchain, rung.id, Vec::new())? }];
    // Rungs that introduce the swizzle also run without it, to show its effect. Sources that are specialized for a shape are
    // left out: without the swizzle, NVRTC does not always generate the same program from them.
    if rung.settings.contains(&(SWIZZLE, "1")) && rung.cut == Cut::Fixed {
        let without = vec![(SWIZZLE.to_owned(), false)];
        let totals = count(toolchain, rung.id, without)?;
        rows.push(Row { name: format!("{} without the swizzle", rung.id), totals });
    }
    Ok(rows)
}

/// The picture of predicted times, drawn from a ledger that contains the table of the ladder.
fn picture(toolchain: &Toolchain, bless: bool) -> Result<(), String> {
    let device = Model::named("L4").ok_or("the L4 is not in the device table")?;
    let shape = mission();
    let table = ladder::ladder(&shape, device, toolchain, |_| true, true, |_| {});
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let ledger = Ledger::create(folder.path().join("ledger")).map_err(|error| error.to_string())?;
    let arguments = vec!["ladder".to_owned(), "--svg".to_owned()];
    let run =
        ladder::record(&table, &shape, device, &ledger, arguments).map_err(|error| error.to_string())?;
    let evidence = Evidence::read_run(&ledger, &run, None).map_err(|error| error.to_string())?;
    let drawn = warpproof_report::rungs(&evidence, &run).map_err(|error| error.to_string())?;
    let path = root().join(PICTURE);
    if bless {
        return fs::write(&path, drawn).map_err(|error| format!("cannot write {PICTURE}: {error}"));
    }
    let found = fs::read_to_string(&path).map_err(|error| format!("cannot read {PICTURE}: {error}"))?;
    match difference(&drawn, &found) {
        Some(difference) => {
            Err(format!("{PICTURE}:{difference}\nrun `cargo xtask rungs --bless` to draw it"))
        }
        None => Ok(()),
    }
}

/// Counters of all launches of a rung.
fn count(toolchain: &Toolchain, rung: &str, toggles: Vec<(String, bool)>) -> Result<Totals, String> {
    let named = |error: &dyn std::fmt::Display| format!("{rung}: {error}");
    let device = Model::named("L4").ok_or("the L4 is not in the device table")?;
    let found = LADDER.iter().find(|one| one.id == rung).ok_or("unknown rung")?;
    let format = found.formats.first().copied().ok_or("the rung has no format")?;
    let request = Request { rung: Some(rung.to_owned()), toggles, format, ..Request::new(mission()) };
    let plan = Plan::new(&request, device).map_err(|error| named(&error))?;
    let ptx = plan.compile(toolchain).map_err(|error| named(&error))?;
    let inputs = generate(&request.shape, Distribution::Normal, 0, request.spec());
    let mut gpu = Counting::new(warpproof_sim::Device::new());
    let attention = Attention::load(plan, &ptx, &mut gpu).map_err(|error| named(&error))?;
    attention.run(&mut gpu, &inputs.q, &inputs.k, &inputs.v).map_err(|error| named(&error))?;
    let mut totals = Totals::default();
    for instruction in gpu.counters.iter().flat_map(|launch| &launch.instructions) {
        totals.add(instruction);
    }
    Ok(totals)
}

fn mission() -> Shape {
    Shape::equal(2, 8, 256, 64)
}

/// Instructions by pipe, then memory.
fn table(rows: &[Row]) -> String {
    let mut text = "| rung | warp instructions | ALU | FMA | half | special | load/store | tensor | other | \
                    multiply-adds of tensor cores |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for row in rows {
        text += &instructions(row);
        text.push('\n');
    }
    text.push_str(
        "\n| rung | global sectors per request | shared requests | wavefronts | bank conflicts | of these in \
         `ldmatrix` | in `wmma` | in loads and stores | in `cp.async` |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for row in rows {
        text += &accesses(row);
        text.push('\n');
    }
    text
}

/// A line of the first table.
fn instructions(Row { name, totals }: &Row) -> String {
    let named = [Unit::Alu, Unit::Fma, Unit::Half, Unit::Xu, Unit::Lsu, Unit::Tensor];
    let counts: Vec<u64> = named.iter().map(|pipe| totals.pipe(*pipe).executions).collect();
    let other = totals.issued.executions - counts.iter().sum::<u64>();
    let mut text = format!("| {name} | {} ", grouped(totals.issued.executions));
    for count in counts.into_iter().chain([other, totals.tensor_multiply_adds()]) {
        // Writing to a string does not fail.
        let _ = write!(text, "| {} ", grouped(count));
    }
    text + "|"
}

/// A line of the second table.
fn accesses(Row { name, totals }: &Row) -> String {
    let shared = |ops: &[MemoryOp]| totals.traffic(Space::Shared, ops);
    let global = totals.traffic(Space::Global, &[]);
    let all = shared(&[]);
    let conflicts = [
        shared(&[MemoryOp::LoadMatrix, MemoryOp::StoreMatrix]),
        shared(&[MemoryOp::LoadTile, MemoryOp::StoreTile]),
        shared(&[MemoryOp::Load, MemoryOp::Store]),
        shared(&[MemoryOp::AsyncCopy]),
    ];
    let mut text = format!(
        "| {name} | {} | {} | {} | {} ",
        per(global.sectors, global.requests),
        grouped(all.requests),
        grouped(all.wavefronts),
        grouped(all.conflicts())
    );
    for traffic in conflicts {
        let _ = write!(text, "| {} ", grouped(traffic.conflicts()));
    }
    text + "|"
}

#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn per(above: u64, below: u64) -> String {
    if below == 0 { "–".to_owned() } else { format!("{:.2}", above as f64 / below as f64) }
}
