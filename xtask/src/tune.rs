//! `cargo xtask tune`: whether `warpproof tune` finds the best of a space in a quarter of the evaluations.
//!
//! The space of `tasks/tune/sgemm.toml` is evaluated whole, then searched by evolution with several seeds, and by chance with
//! the same, each as the command does it and in one ledger, so that what is known is read. The best that a search reports must be
//! within 1 % of the best there is, for every seed. Predictions do not vary, so the page is compared word for word.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use warpproof_evidence::ledger::Ledger;
use warpproof_gate::limits::Allowance;
use warpproof_gate::session::Session;
use warpproof_gate::tune::search::Strategy;
use warpproof_gate::tune::{Settings, Study, tune};
use warpproof_task::Task;
use warpproof_toolchain::{Options, Toolchain};

use crate::part::Part;
use crate::root;
use crate::section::Section;

const TASK: &str = "tasks/tune/sgemm.toml";
/// What is written here.
const SECTION: Section = Section { page: "book/src/tune.md", name: "search", task: "tune" };
/// The evaluations of a sample.
const FEW: usize = 6;
/// Seeds of the searches.
const SEEDS: u64 = 12;
/// How far from the best a search may end.
const NEAR: f64 = 1.01;
/// Combinations that the space has at least.
const LEAST: usize = 200;

/// Searches the space, and compares the page with what was found, or writes it.
pub(crate) fn run(part: &Part, bless: bool) -> Result<String, String> {
    let toolchain = Toolchain::find(&Options::from_env().with_cuda(12)).map_err(|error| error.to_string())?;
    let path = root().join(TASK);
    let text = fs::read_to_string(&path).map_err(|error| format!("cannot read {TASK}: {error}"))?;
    let task = Task::parse(&text).map_err(|problems| format!("{TASK}: {problems:?}"))?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let ledger = Ledger::create(folder.path().join("ledger")).map_err(|error| error.to_string())?;
    let stop = AtomicBool::new(false);
    let session = Session {
        task: &task,
        text: &text,
        directory: path.parent().ok_or("the task has no folder")?,
        toolchain: &toolchain,
        ledger: &ledger,
        clocks: None,
        stop: &stop,
    };
    let search = |strategy, seed, budget| {
        let settings = Settings {
            strategy,
            seed,
            budget,
            full: false,
            time_limit: None,
            jobs: 0,
            arguments: vec!["tune".to_owned(), TASK.to_owned()],
            allowance: Allowance::default(),
        };
        tune(&session, "tiled", &settings, &|_| {}).map_err(|error| error.to_string())
    };
    if !part.is_whole() {
        let seed = 1 + u64::try_from(part.draw("seed", usize::try_from(SEEDS).unwrap_or(1))).unwrap_or(0);
        return again(
            &search(Strategy::Evolution, seed, Some(FEW))?,
            &search(Strategy::Evolution, seed, Some(FEW))?,
        )
        .map(|()| format!("{FEW} evaluations of 1 of {SEEDS} seeds"));
    }
    let begun = Instant::now();
    let all = search(Strategy::Grid, 0, None)?;
    let took = begun.elapsed().as_secs_f64();
    let best = all.winner.as_ref().ok_or("no variant passed all stages")?.score.us;
    if all.combinations < LEAST || all.evaluations.len() != all.combinations {
        return Err(format!("{} of {} combinations were evaluated", all.evaluations.len(), all.combinations));
    }
    println!(
        "tune: {} variants in {took:.1} s, {:.3} s each",
        all.combinations,
        took / count(all.combinations)
    );
    let times: BTreeMap<usize, f64> =
        all.evaluations.iter().filter_map(|one| Some((one.point, one.score()?.us))).collect();
    let mut rows = Vec::new();
    for seed in 1..=SEEDS {
        let row = Row {
            seed,
            evolution: ending(&search(Strategy::Evolution, seed, None)?, best)?,
            random: ending(&search(Strategy::Random, seed, None)?, best)?,
        };
        println!(
            "tune: seed {seed}: evolution {:.4} of the best, chance {:.4}",
            row.evolution.us / best,
            row.random.us / best
        );
        rows.push(row);
    }
    let far: Vec<u64> =
        rows.iter().filter(|row| row.evolution.us > NEAR * best).map(|row| row.seed).collect();
    if !far.is_empty() {
        return Err(format!("seeds {far:?} end more than 1 % from the best, {best} us"));
    }
    SECTION.compare_or_write(&page(&all, &times, best, &rows), bless)?;
    Ok(format!("{SEEDS} seeds"))
}

/// A search of the same seed evaluates the same variants with the same scores.
fn again(one: &Study, other: &Study) -> Result<(), String> {
    let scores = |study: &Study| -> Vec<(usize, Option<f64>)> {
        study.evaluations.iter().map(|one| (one.point, one.score().map(|score| score.us))).collect()
    };
    let (one, other) = (scores(one), scores(other));
    if one.is_empty() || one.iter().all(|(_, us)| us.is_none()) {
        return Err(format!("a search of {FEW} evaluations found nothing that passed: {one:?}"));
    }
    if one == other { Ok(()) } else { Err(format!("the same search differs: {one:?} and {other:?}")) }
}

/// How a search ended.
struct Ending {
    us: f64,
    evaluations: usize,
    judged: usize,
}

struct Row {
    seed: u64,
    evolution: Ending,
    random: Ending,
}

fn ending(study: &Study, best: f64) -> Result<Ending, String> {
    let winner = study.winner.as_ref().ok_or("a search found nothing green")?;
    if winner.score.us < best {
        return Err(format!("a search found {} us, and the best of all is {best} us", winner.score.us));
    }
    if 4 * study.evaluations.len() > study.combinations {
        return Err(format!("{} evaluations are more than a quarter", study.evaluations.len()));
    }
    Ok(Ending { us: winner.score.us, evaluations: study.evaluations.len(), judged: study.judged })
}

fn page(all: &Study, times: &BTreeMap<usize, f64>, best: f64, rows: &[Row]) -> String {
    let mut sorted: Vec<f64> = times.values().copied().collect();
    sorted.sort_by(f64::total_cmp);
    let at = |share: usize| sorted.get((sorted.len() - 1) * share / 100).copied().unwrap_or(best);
    let near = sorted.iter().filter(|us| **us <= NEAR * best).count();
    let twins = all.evaluations.iter().filter(|one| one.same_as.is_some()).count();
    let mut text = format!(
        "{} variants, {} of them the program of another; predicted {best:.3} µs for the best, {:.3} for the median, {:.3} for the \
         worst. {near} are within 1 % of the best.\n\n\
         | seed | evaluations | evolution, µs | above the best | went through all stages | by chance, µs | above the best |\n\
         |---:|---:|---:|---:|---:|---:|---:|\n",
        all.combinations,
        twins,
        at(50),
        at(100),
    );
    let above = |us: f64| format!("{:.2} %", 100.0 * (us / best - 1.0));
    for Row { seed, evolution, random } in rows {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "| {seed} | {} | {:.3} | {} | {} | {:.3} | {} |",
            evolution.evaluations,
            evolution.us,
            above(evolution.us),
            evolution.judged,
            random.us,
            above(random.us),
        );
    }
    text
}

#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "a count of variants")]
fn count(n: usize) -> f64 {
    n as f64
}
