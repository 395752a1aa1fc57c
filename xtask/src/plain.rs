//! Compares the fast paths of the software GPU with runs that use none: random kernels must do the same, with the same findings
//! and counters.
//!
//! The generator and the comparison are [`trial`], which the fuzz target `execute` contains too.

mod trial;

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::part::Part;
use trial::{Choices, Trial};

/// Kernels of an item.
const KERNELS: u64 = 500;
/// Items of the whole study.
const ITEMS: u64 = 200;
/// Kernels that differ, and how. Each must differ until it is fixed, or the study fails.
const KNOWN: [(u64, &str); 2] = [
    (5106, "how often a race with a read through the read-only cache was seen"),
    (97844, "which of two races with a read through the read-only cache is reported"),
];
/// Threads that compare kernels.
const WORKERS: usize = 2;

/// What the kernels of some items have done.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    kernels: u64,
    /// Those that stopped early.
    stopped: u64,
    /// Those with findings.
    found: u64,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.kernels += other.kernels;
        self.stopped += other.stopped;
        self.found += other.found;
    }
}

/// Compares this number of kernels from a seed on, or those of all items of the study.
pub(crate) fn run(part: &Part, kernels: Option<u64>, seed: u64) -> Result<String, String> {
    let kernels = kernels.unwrap_or(KERNELS * ITEMS);
    let items: Vec<u64> = (0..kernels.div_ceil(KERNELS)).collect();
    let (done, start) = (AtomicU64::new(0), Instant::now());
    let results = part.each(WORKERS, &items, |number| {
        let first = seed.wrapping_add(number * KERNELS);
        let result = compared(first, KERNELS.min(kernels - number * KERNELS));
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        println!("{done} of {} items of {KERNELS} kernels, {} s", items.len(), start.elapsed().as_secs());
        result
    });
    let note = results.note(&format!("items of {KERNELS} kernels"));
    let (mut tally, mut failures) = (Tally::default(), Vec::new());
    for result in results.into_results() {
        match result {
            Ok(more) => tally.add(more),
            Err(failure) => failures.push(failure),
        }
    }
    if !failures.is_empty() {
        return Err(failures.join("\n"));
    }
    let Tally { kernels, stopped, found } = tally;
    println!("{kernels} kernels do the same without fast paths; {found} have findings, {stopped} stop early");
    // Kernels that all fail, or none of which fails, would compare little.
    if kernels >= KERNELS && (stopped * 2 > kernels || stopped == 0 || found == 0 || found == kernels) {
        return Err(
            "the kernels are not a mix of those that stop, those with findings and those without".into()
        );
    }
    Ok(note)
}

/// Compares kernels, with seeds from `first` on. An error describes the first that differs; its PTX is in a file.
fn compared(first: u64, count: u64) -> Result<Tally, String> {
    let mut tally = Tally::default();
    for seed in first..first.saturating_add(count) {
        let trial = Trial::new(&mut Choices::new(&[], seed));
        let known = KNOWN.iter().find(|(known, _)| *known == seed);
        match (trial.compare(), known) {
            (Ok(_), Some((_, what))) => {
                return Err(format!("seed {seed} no longer differs in {what}: remove it from `KNOWN`"));
            }
            (Err(_), Some(_)) => tally.kernels += 1,
            (Ok(seen), None) => {
                tally.kernels += 1;
                tally.stopped += u64::from(seen.stopped);
                tally.found += u64::from(seen.found);
            }
            (Err(difference), None) => return Err(failure(seed, &trial, &difference)),
        }
    }
    Ok(tally)
}

/// Writes a kernel that differs, and one with fewer lines, and describes the difference.
fn failure(seed: u64, trial: &Trial, difference: &str) -> String {
    let reduced = trial.clone().reduced();
    let smaller = reduced.compare().err().unwrap_or_default();
    let difference =
        if smaller.is_empty() || smaller.len() > difference.len() { difference } else { &smaller };
    let folder =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| crate::root().join("target"), Into::into);
    let folder = folder.join("plain");
    let written = fs::create_dir_all(&folder)
        .and_then(|()| fs::write(folder.join(format!("{seed}.ptx")), trial.text()))
        .and_then(|()| fs::write(folder.join(format!("{seed}-reduced.ptx")), reduced.text()));
    let place = match written {
        Ok(()) => format!("PTX: {seed}.ptx and {seed}-reduced.ptx in {}", folder.display()),
        Err(error) => format!("the PTX is not written: {error}"),
    };
    let run = format!("cargo xtask plain --kernels 1 --seed {seed}");
    format!("seed {seed} differs without fast paths, in the {difference}\n{reduced}\n{place}; again: {run}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_kernel() {
        for seed in 0..20 {
            let trial = || Trial::new(&mut Choices::new(&[], seed));
            assert_eq!(format!("{:?}", trial()), format!("{:?}", trial()));
        }
    }

    #[test]
    fn kernels_do_the_same_without_fast_paths() {
        let tally = compared(1 << 32, 60).unwrap();
        assert!(tally.found > 10 && tally.found < tally.kernels, "{tally:?}");
    }
}
