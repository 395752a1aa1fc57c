//! The commands over a ledger, run as a user does.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it is skipped"
)]

mod bench;
#[path = "../../gate/tests/view/ladder.rs"]
#[allow(dead_code, reason = "the tests of the views use the rest of it")]
mod ladder;

use std::fs;
use std::path::{Path, PathBuf};

use warpproof_gate::ledger::Ledger;

use bench::{Bench, Run};
use ladder::{Book, RUN, climb, climb_on};

/// The ledger that the book's page shows.
fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/samples/ladder")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// A copy of the sample where commands look for a ledger.
fn bench() -> Bench {
    let bench = Bench::bare();
    copy(&sample(), &bench.dir.path().join(".warpproof/ledger"));
    bench
}

fn run(bench: &Bench, line: &str) -> Run {
    bench.run(line.split_whitespace())
}

/// `WARPPROOF_BLESS=1` writes the sample anew; its hashes change then, and the book's page with them.
#[test]
fn the_sample_is_what_its_builder_makes() {
    if std::env::var_os("WARPPROOF_BLESS").is_some() {
        let _ = fs::remove_dir_all(sample());
        climb_on(climb(Book::on(&Ledger::create(sample()).unwrap())));
    }
    let dir = tempfile::tempdir().unwrap();
    climb_on(climb(Book::on(&Ledger::create(dir.path()).unwrap())));
    // Names of records differ with the segment; all else is the same.
    let bodies = |root: &Path| -> Vec<String> {
        let ledger = Ledger::open(root).unwrap();
        ledger.records().unwrap().map(|record| record.unwrap().body.to_string()).collect()
    };
    assert_eq!(bodies(&sample()), bodies(dir.path()));
}
