//! Every kind of damage to the files is detected, and nothing panics.

use crate::sample::{note, run, step, verdict};
use proptest::prelude::*;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::ledger::{
    Fault, Filter, Index, Ledger, MAX_LINE, Parents, Verification, export_csv, log, show,
};
use warpproof_evidence::record::{Body, Stage};

struct Sample {
    _directory: tempfile::TempDir,
    ledger: Ledger,
    /// Every file that holds evidence.
    files: Vec<PathBuf>,
}

/// Two segments, of which the second names the last record of the first, and two objects.
fn sample() -> Sample {
    let directory = tempfile::tempdir().expect("a directory");
    let ledger = Ledger::create(directory.path()).expect("a ledger");
    let mut writer = ledger.writer();
    let object = writer.put_object(b"samples").expect("kept");
    writer.put_object(b"named by nothing").expect("kept");
    writer.append(&run("r1")).expect("written");
    let mut correct = step("r1", "fused", Stage::Correct);
    correct.objects.insert("samples".to_owned(), object);
    let correct = writer.append(&Body::Step(correct)).expect("written");
    let mut other = ledger.writer();
    other.append(&note("first", vec![correct])).expect("written");
    other.append(&verdict("r1", "fused", vec![correct])).expect("written");
    let mut files = vec![directory.path().join("FORMAT")];
    let mut pending = vec![directory.path().join("segments"), directory.path().join("objects")];
    while let Some(next) = pending.pop() {
        for entry in fs::read_dir(next).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() { pending.push(path) } else { files.push(path) }
        }
    }
    files.sort_unstable();
    assert!(ledger.verify().expect("readable").is_sound());
    Sample { _directory: directory, ledger, files }
}

impl Sample {
    fn segments(&self) -> Vec<PathBuf> {
        let jsonl = |file: &&PathBuf| file.extension().is_some_and(|extension| extension == "jsonl");
        let mut files: Vec<PathBuf> = self.files.iter().filter(jsonl).cloned().collect();
        // The one that another names comes first.
        files.sort_by_key(|file| !fs::read_to_string(file).expect("text").contains(r#""heads":[]"#));
        files
    }

    fn report(&self) -> Verification {
        self.ledger.verify().expect("readable")
    }
}

/// Calls every function of a reader. None may panic; errors are allowed.
fn read_everything(ledger: &Ledger) -> Verification {
    let report = ledger.verify().expect("verify always reports");
    let _ = (report.to_string(), report.exit_code());
    let records: Vec<_> = ledger.records().expect("listed").collect();
    assert_eq!(
        Index::new(ledger).is_ok(),
        records.iter().all(Result::is_ok),
        "an index has all records or none"
    );
    for record in records.into_iter().flatten() {
        let _ = show(ledger, &record.hash.to_string()).map(|shown| shown.to_string());
    }
    let _ = ledger.heads();
    let _ = log(ledger, &Filter::default());
    let _ = export_csv(ledger, &Filter::default(), std::io::sink());
    report
}

/// Flips one bit of every byte of every file of evidence, and replaces each byte by a newline and by a
/// quotation mark.
#[test]
fn every_changed_byte_is_found() {
    let sample = sample();
    for file in &sample.files {
        let whole = fs::read(file).expect("readable");
        let mut changed = whole.clone();
        for at in 0..whole.len() {
            for byte in [whole[at] ^ 1 << (at % 8), b'\n', b'"'].into_iter().filter(|byte| *byte != whole[at])
            {
                changed[at] = byte;
                fs::write(file, &changed).expect("written");
                assert!(!sample.report().is_sound(), "byte {at} of {} as {byte}", file.display());
            }
            changed[at] = whole[at];
        }
        fs::write(file, &whole).expect("written");
    }
    assert!(sample.report().is_sound());
}

/// A line that is removed, duplicated or moved.
#[test]
fn lines_have_one_place() {
    let sample = sample();
    let [first, second] = &sample.segments()[..] else { panic!("two segments") };
    let (one, two) = (fs::read_to_string(first).expect("text"), fs::read_to_string(second).expect("text"));
    let lines: Vec<&str> = one.lines().collect();
    let cases = [
        (first, format!("{}\n", lines[1]), "first line removed"),
        (first, format!("{}\n", lines[0]), "last line removed, which another segment names"),
        (first, format!("{}\n{}\n", lines[1], lines[0]), "lines swapped"),
        (first, format!("{one}{one}"), "doubled"),
        (first, format!("{}\n\n{}\n", lines[0], lines[1]), "an empty line"),
        (first, one.replace('\n', "\r\n"), "CRLF line endings"),
        (second, format!("{two}{one}"), "two segments in one file"),
        (second, one.clone(), "another segment"),
    ];
    for (file, text, what) in cases {
        let whole = fs::read(file).expect("readable");
        fs::write(file, text).expect("written");
        assert!(!read_everything(&sample.ledger).is_sound(), "{what}");
        fs::write(file, whole).expect("written");
    }
    let renamed = first.with_file_name("renamed.jsonl");
    fs::rename(first, &renamed).expect("renamed");
    let report = sample.report();
    assert!(report.problems.iter().any(|problem| matches!(problem.fault, Fault::Renamed(_))), "{report}");
    fs::rename(&renamed, first).expect("renamed");
    fs::copy(first, &renamed).expect("copied");
    assert!(!sample.report().is_sound(), "a copy under another name");
    fs::remove_file(&renamed).expect("removed");
    fs::remove_file(first).expect("removed");
    let report = sample.report();
    let missing = |role| {
        report.problems.iter().filter(|p| matches!(p.fault, Fault::MissingRecord(r, _) if r == role)).count()
    };
    assert_eq!((missing("head"), missing("about"), missing("step")), (1, 1, 1), "{report}");
}

#[test]
fn a_torn_tail_is_no_damage_and_no_record() {
    let sample = sample();
    let last = sample.segments().pop().expect("a segment");
    let whole = fs::read(&last).expect("readable");
    let start = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').expect("two lines") + 1;
    for end in start..whole.len() {
        fs::write(&last, &whole[..end]).expect("written");
        let report = sample.report();
        assert!(report.is_sound(), "cut at {end}: {report}");
        assert_eq!(report.tally.records, 3);
        assert_eq!(report.notices.len(), usize::from(end > start), "{report}");
        assert_eq!(sample.ledger.records().expect("readable").flatten().count(), 3);
        assert_eq!(sample.ledger.heads().expect("readable").len(), 1);
    }
    // The next writer does not change it and starts its own segment.
    sample.ledger.writer().append(&run("r2")).expect("written");
    assert_eq!(fs::read(&last).expect("readable"), whole[..whole.len() - 1]);
    assert_eq!(sample.report().tally.records, 4);
}

#[test]
fn objects_that_are_gone_or_strange_are_named() {
    let sample = sample();
    let object = sample.ledger.object_path(&Hash::of(b"samples"));
    fs::remove_file(&object).expect("removed");
    let report = sample.report();
    assert!(
        matches!(&report.problems[..], [p] if matches!(&p.fault, Fault::MissingObject(n, _) if n == "samples"))
    );
    fs::create_dir(&object).expect("made");
    assert_eq!(sample.report().problems.len(), 2, "a directory is not an object");
    fs::remove_dir(&object).expect("removed");
    sample.ledger.put_object(b"samples").expect("kept");
    let root = sample.ledger.root();
    fs::write(object.with_file_name(".tmp-abc"), b"half").expect("written");
    fs::write(root.join("README"), b"hello").expect("written");
    let report = sample.report();
    assert_eq!((report.problems.len(), report.notices.len()), (0, 2), "{report}");
    fs::write(root.join("objects/stray"), b"").expect("written");
    fs::create_dir(root.join("objects/abc")).expect("made");
    fs::write(root.join("segments/stray.txt"), b"").expect("written");
    fs::create_dir(root.join("segments/directory.jsonl")).expect("made");
    let report = read_everything(&sample.ledger);
    assert_eq!(report.problems.len(), 4, "{report}");
    assert_eq!(report.exit_code(), 1);
}

/// A line with the hash that Warpproof would write.
fn sealed(text: &str) -> String {
    format!(r#"{text},"hash":"{}"}}"#, Hash::of(text.as_bytes()))
}

fn append(sample: &Sample, line: &str) {
    let last = sample.segments().pop().expect("a segment");
    let mut file = OpenOptions::new().append(true).open(last).expect("there");
    writeln!(file, "{line}").expect("written");
}

/// Fields written by a later Warpproof of the same version are kept and shown.
#[test]
fn unknown_kinds_and_fields_are_kept() {
    let sample = sample();
    let object = Hash::of(b"named by nothing");
    let mut prev = sample.ledger.heads().expect("readable")[0];
    for body in [
        format!(r#"{{"kind":"lease","worker":7,"run":"r1","objects":{{"log":"{object}"}}}}"#),
        r#"{"kind":"note","topic":"cost","text":"2 days","mood":"good"}"#.to_owned(),
        r#"{"kind":"verdict","run":"r1","candidate":"fused","verdict":"SUSPEND","reason":"?","steps":[]}"#
            .to_owned(),
    ] {
        let line = sealed(&format!(r#"{{"v":1,"prev":"{prev}","body":{body}"#));
        append(&sample, &line);
        let record = sample.ledger.records().expect("readable").last().expect("one").expect("whole");
        assert_eq!(record.text(), line);
        assert_eq!(record.parents, Parents::Prev(prev));
        prev = record.hash;
    }
    let report = read_everything(&sample.ledger);
    assert!(report.is_sound(), "{report}");
    assert_eq!(report.notices.len(), 2, "{report}");
    let newest = log(&sample.ledger, &Filter { limit: Some(3), ..Filter::default() }).expect("sound");
    assert!(matches!(&newest[0].body, Body::Raw(raw) if raw.kind == "verdict" && raw.why.is_some()));
    assert!(matches!(&newest[1].body, Body::Note(note) if note.text == "2 days"));
    assert!(show(&sample.ledger, &newest[1].hash.to_string()).expect("there").to_string().contains("mood"));
    assert!(matches!(&newest[2].body, Body::Raw(raw) if raw.kind == "lease" && raw.json["worker"] == 7));
    assert_eq!(newest[2].body.objects(), [("log", object)]);
    assert_eq!(newest[2].body.run(), Some("r1"));
    assert!(sample.ledger.writer().append(&newest[2].body).is_err(), "read, not written");
}

#[test]
fn a_later_version_is_named() {
    let sample = sample();
    append(&sample, r#"{"v":2,"anything":true}"#);
    let report = read_everything(&sample.ledger);
    assert_eq!(report.exit_code(), 3);
    assert!(report.to_string().contains("a record of version 2"), "{report}");
    let error = Index::new(&sample.ledger).expect_err("not understood");
    assert_eq!(error.exit_code(), 3);
    let error = sample.ledger.writer().append(&run("r2")).expect_err("its heads have an unknown version");
    assert_eq!(error.exit_code(), 3);
}

/// Lines with correct hashes that are not valid records.
#[test]
fn sealed_nonsense_is_found() {
    let deep = format!(r#"{{"v":1,"prev":"PREV","body":{}"#, "[".repeat(100_000));
    let cases = [
        r#"{"v":1,"prev":"PREV","heads":[],"body":{"kind":"x"}"#,
        r#"{"v":1,"body":{"kind":"x"}"#,
        r#"{"v":1,"prev":"PREV","body":{}"#,
        r#"{"v":1,"prev":"PREV","body":null"#,
        r#"{"v":1,"prev":"PREV","body":{"kind":7}"#,
        r#"{"v":1,"prev":"PREV","prev":"PREV","body":{"kind":"x"}"#,
        r#"{"v":1,"segment":"x","heads":[],"body":{"kind":"x"}"#,
        r#"{"v":-1,"prev":"PREV","body":{"kind":"x"}"#,
        r#"{"v":1e400,"prev":"PREV","body":{"kind":"x"}"#,
        &deep,
    ];
    for case in cases {
        let sample = sample();
        let prev = sample.ledger.heads().expect("readable")[0];
        append(&sample, &sealed(&case.replace("PREV", &prev.to_string())));
        assert!(!read_everything(&sample.ledger).is_sound(), "{}", &case[..case.len().min(100)]);
    }
}

/// A file with arbitrary content of any length.
#[test]
fn long_lines_and_many_bad_lines_are_bounded() {
    let sample = sample();
    append(&sample, &"x".repeat(MAX_LINE + 1));
    append(&sample, &"\n".repeat(5000));
    let report = sample.report();
    assert_eq!(report.problems.len(), 1000);
    assert_eq!(report.problems[0].fault, Fault::TooLong);
    assert_eq!(report.more_problems, 4002);
    let last = sample.segments().pop().expect("a segment");
    fs::write(&last, "x".repeat(2 * MAX_LINE)).expect("written");
    let report = sample.report();
    assert!(matches!(report.problems[0].fault, Fault::TooLong), "{report}");
    assert!(sample.ledger.heads().is_err() || report.tally.records == 2);
}

#[derive(Clone, Debug)]
enum Change {
    Set(usize, u8),
    Insert(usize, Vec<u8>),
    Remove(usize, usize),
    Truncate(usize),
    Copy(usize, usize, usize),
}

fn change() -> impl Strategy<Value = (usize, Change)> {
    let at = || any::<prop::sample::Index>().prop_map(|index| index.index(100_000));
    let bytes = prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'"'), Just(b'{'), any::<u8>()], 0..40);
    let change = prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (at(), bytes).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (at(), 0..500_usize).prop_map(|(at, length)| Change::Remove(at, length)),
        at().prop_map(Change::Truncate),
        (at(), at(), 0..900_usize).prop_map(|(from, to, length)| Change::Copy(from, to, length)),
    ];
    (0..100_usize, change)
}

fn apply(bytes: &mut Vec<u8>, change: Change) {
    let place = |at: usize, bytes: &[u8]| at % (bytes.len() + 1);
    match change {
        Change::Set(at, byte) => {
            let at = place(at, bytes);
            if let Some(old) = bytes.get_mut(at) {
                *old = byte;
            }
        }
        Change::Insert(at, more) => {
            let at = place(at, bytes);
            bytes.splice(at..at, more);
        }
        Change::Remove(at, length) => {
            let at = place(at, bytes);
            bytes.drain(at..(at + length).min(bytes.len()));
        }
        Change::Truncate(at) => bytes.truncate(place(at, bytes)),
        Change::Copy(from, to, length) => {
            let (from, to) = (place(from, bytes), place(to, bytes));
            let part = bytes[from..(from + length).min(bytes.len())].to_vec();
            bytes.splice(to..to, part);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Nothing panics on any bytes, and a ledger that verifies holds only records that were written.
    #[test]
    fn no_bytes_make_it_panic_or_lie(changes in prop::collection::vec(change(), 1..5)) {
        let sample = sample();
        let written: Vec<Hash> =
            sample.ledger.records().expect("readable").map(|record| record.expect("whole").hash).collect();
        for (file, change) in changes {
            let path = &sample.files[file % sample.files.len()];
            let mut bytes = fs::read(path).expect("readable");
            apply(&mut bytes, change);
            fs::write(path, bytes).expect("written");
        }
        let report = read_everything(&sample.ledger);
        for record in sample.ledger.records().expect("readable").flatten() {
            prop_assert!(written.contains(&record.hash), "{}", report);
        }
    }
}
