//! A ledger of version 1 that was written once and must always verify and read the same.
//!
//! Do not write it again: if this test fails, existing ledgers can no longer be read.

use std::fmt::Write;
use std::path::Path;
use warpproof_evidence::ledger::{Fault, Filter, Index, Ledger, Problem, export_csv};

fn ledger() -> Ledger {
    Ledger::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ledger-v1"))
        .expect("version 1 can be opened")
}

#[test]
fn version_1_verifies() {
    let report = ledger().verify().expect("readable");
    // Its MERGE was written by hand and has no measured speed; everything else is valid.
    assert!(matches!(&*report.problems, [Problem { fault: Fault::Unsupported(..), .. }]), "{report}");
    insta::assert_snapshot!(report);
}

#[test]
fn version_1_reads_to_the_same_records() {
    let ledger = ledger();
    let mut text = String::new();
    for record in ledger.records().expect("readable") {
        let record = record.expect("whole");
        writeln!(text, "{} at {}:{}", record.hash, record.file(), record.place.line).expect("memory");
        writeln!(text, "{:#?}\n{:#?}\n", record.parents, record.body).expect("memory");
    }
    insta::assert_snapshot!(text);
    let mut table = Vec::new();
    export_csv(&ledger, &Filter::default(), &mut table).expect("written");
    insta::assert_snapshot!("version_1_figures", String::from_utf8_lossy(&table).replace("\r\n", "\n"));
}

#[test]
fn version_1_resolves() {
    let ledger = ledger();
    let index = Index::new(&ledger).expect("sound");
    for run in index.runs() {
        for hash in index.run(run) {
            let record = index.get(&ledger, hash).expect("there");
            for (_, object) in record.body.objects() {
                assert_eq!(ledger.object(&object).expect("there"), b"655.4 656.1 654.9\n");
            }
        }
    }
    assert_eq!(ledger.heads().expect("readable").len(), 2);
}
