use crate::sample::{note, run, step, verdict};
use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::Path;
use warpproof_evidence::hash::Hash;
use warpproof_evidence::ledger::{
    Filter, Index, Ledger, LedgerError, Parents, Record, export_csv, figures, log, show,
};
use warpproof_evidence::record::{Body, Finite, Grade, NotFinite, Outcome, Stage};

fn ledger() -> (tempfile::TempDir, Ledger) {
    let directory = tempfile::tempdir().expect("a directory");
    let ledger = Ledger::create(directory.path().join("ledger")).expect("a ledger");
    (directory, ledger)
}

fn records(ledger: &Ledger) -> Vec<Record> {
    ledger.records().expect("readable").map(|record| record.expect("whole")).collect()
}

fn assert_sound(ledger: &Ledger) {
    let report = ledger.verify().expect("readable");
    assert!(report.is_sound(), "{report}");
}

#[test]
fn what_is_written_is_read() {
    let (_directory, ledger) = ledger();
    let mut writer = ledger.writer();
    let samples = writer.put_object(b"1 2 3").expect("kept");
    let mut correct = step("r1", "fused", Stage::Correct);
    correct.objects.insert("samples".to_owned(), samples);
    let bodies = [run("r1"), Body::Step(correct), note("fewer \"barriers\"\n\u{1b}[31m", Vec::new())];
    let hashes: Vec<Hash> = bodies.iter().map(|body| writer.append(body).expect("written")).collect();
    let decided = verdict("r1", "fused", vec![hashes[1]]);
    let last = writer.append(&decided).expect("written");

    let read = records(&ledger);
    assert_eq!(
        read.iter().map(|record| &record.body).collect::<Vec<_>>(),
        [&bodies[0], &bodies[1], &bodies[2], &decided]
    );
    assert_eq!(ledger.get(&hashes[2]).expect("there").body, bodies[2]);
    assert_eq!(ledger.find(&last.to_string()[..10]).expect("there").body, decided);
    assert_eq!(ledger.object(&samples).expect("there"), b"1 2 3");
    assert_eq!(ledger.heads().expect("readable"), [last]);
    assert_sound(&ledger);
    let tally = ledger.verify().expect("readable").tally;
    assert_eq!((tally.segments, tally.records, tally.objects), (1, 4, 1));
}

#[test]
fn figures_keep_every_bit() {
    let (_directory, ledger) = ledger();
    let mut writer = ledger.writer();
    let mut hard = step("r", "c", Stage::Model);
    let values = [0.1 + 0.2, f64::MIN_POSITIVE / 3.0, f64::MAX, -0.0, 1e23, 9007199254740993.0, 5e-324];
    hard.figures = values
        .iter()
        .map(|value| {
            let mut figure = hard.figures[0].clone();
            figure.value = Finite::new(*value).expect("finite");
            figure
        })
        .collect();
    writer.append(&Body::Step(hard)).expect("written");
    let filter = Filter::default();
    let rows: Vec<f64> = figures(&ledger, &filter)
        .expect("readable")
        .map(|row| row.expect("whole").figure.value.get())
        .collect();
    assert_eq!(rows.iter().map(|v| v.to_bits()).collect::<Vec<_>>(), values.map(f64::to_bits));
    let mut table = Vec::new();
    export_csv(&ledger, &filter, &mut table).expect("written");
    let text = String::from_utf8(table).expect("text");
    for (line, value) in text.lines().skip(1).zip(values) {
        let field = line.split(',').nth(4).expect("a value");
        assert_eq!(field.parse::<f64>().expect("a number").to_bits(), value.to_bits(), "{field}");
    }
}

#[test]
fn numbers_that_are_none_are_refused() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(Finite::new(bad), Err(NotFinite::NonFinite));
    }
    assert_eq!(Finite::count((1 << 53) + 1), Err(NotFinite::Inexact));
    assert_eq!(Finite::count(1 << 53).map(Finite::get), Ok(9007199254740992.0));
    assert_eq!(Finite::count(4294967297).map(Finite::get), Ok(4294967297.0));
    assert!(serde_json::from_str::<Finite>("1e999").is_err());
    assert!(serde_json::from_str::<Finite>("null").is_err());
}

#[test]
fn writing_is_strict() {
    let (_directory, ledger) = ledger();
    let mut writer = ledger.writer();
    let mut silent = step("r", "c", Stage::Build);
    silent.outcome = Outcome::Fail;
    let mut timeless = step("r", "c", Stage::Build);
    timeless.seconds = Finite::new(-1.0).expect("finite");
    let mut nameless = step("r", "c", Stage::Build);
    nameless.figures[0].name.clear();
    let mut sourceless = step("r", "c", Stage::Build);
    sourceless.figures[1].threshold.as_mut().expect("held").source.clear();
    let Body::Verdict(mut graded) = verdict("r", "c", vec![Hash::of(b"")]) else { panic!("a verdict") };
    graded.grade = Some(Grade::Good);
    for bad in [
        run(" "),
        Body::Step(silent),
        Body::Step(timeless),
        Body::Step(nameless),
        Body::Step(sourceless),
        verdict("r", "c", Vec::new()),
        Body::Verdict(graded),
        note("", Vec::new()),
    ] {
        assert!(matches!(writer.append(&bad), Err(LedgerError::Invalid(_))), "{bad:?}");
    }
    let mut lacking = step("r", "c", Stage::Build);
    lacking.objects.insert("log".to_owned(), Hash::of(b"nowhere"));
    assert!(matches!(writer.append(&Body::Step(lacking)), Err(LedgerError::NoSuchObject(_))));
    assert!(records(&ledger).is_empty());
    assert!(!ledger.root().join("segments").exists(), "a refused record leaves nothing behind");
}

/// Every record follows its parents, whichever process wrote them, and the order is the same for every
/// reader.
#[test]
fn order_is_topological() {
    let (_directory, ledger) = ledger();
    let mut writers: Vec<_> = (0..4).map(|_| ledger.writer()).collect();
    let mut state = 1_u64;
    for text in 0..200 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let index = usize::try_from(state >> 60).expect("small") % 5;
        if index == 4 {
            // A process ends and another starts.
            let old = usize::try_from(state >> 40 & 3).expect("small");
            writers[old] = ledger.writer();
        } else {
            writers[index].append(&note(&text.to_string(), Vec::new())).expect("written");
        }
    }
    let read = records(&ledger);
    let mut seen = HashSet::new();
    for record in &read {
        let parents = match &record.parents {
            Parents::Prev(prev) => vec![*prev],
            Parents::Heads(heads) => heads.clone(),
        };
        assert!(parents.iter().all(|parent| seen.contains(parent)));
        assert!(seen.insert(record.hash));
    }
    assert_sound(&ledger);
    let hashes: Vec<Hash> = read.iter().map(|record| record.hash).collect();
    assert_eq!(records(&ledger).iter().map(|record| record.hash).collect::<Vec<_>>(), hashes);
    // The heads are the records that no other record follows.
    let parents: HashSet<Hash> = read
        .iter()
        .flat_map(|record| match &record.parents {
            Parents::Prev(prev) => vec![*prev],
            Parents::Heads(heads) => heads.clone(),
        })
        .collect();
    let tips: BTreeSet<Hash> = hashes.into_iter().filter(|hash| !parents.contains(hash)).collect();
    assert_eq!(ledger.heads().expect("readable"), tips.into_iter().collect::<Vec<_>>());
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("readable") {
        let entry = entry.expect("readable");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("known").is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copied");
        }
    }
}

/// Two copies that diverged merge by combining their files, as git does.
#[test]
fn ledgers_merge_as_sets_of_files() {
    let (directory, ours) = ledger();
    let base = ours.writer().append(&run("base")).expect("written");
    let path = directory.path().join("theirs");
    copy(ours.root(), &path);
    let theirs = Ledger::open(&path).expect("a ledger");
    let mut writer = theirs.writer();
    let object = writer.put_object(b"theirs").expect("kept");
    let mut with_object = step("theirs", "c", Stage::Build);
    with_object.objects.insert("log".to_owned(), object);
    let right = writer.append(&Body::Step(with_object)).expect("written");
    let left = ours.writer().append(&run("ours")).expect("written");
    copy(theirs.root(), ours.root());
    assert_sound(&ours);
    let mut both = [left, right];
    both.sort_unstable();
    assert_eq!(ours.heads().expect("readable"), both);
    let merged = ours.writer().append(&run("merged")).expect("written");
    assert_eq!(ours.heads().expect("readable"), [merged]);
    let read = records(&ours);
    assert_eq!((read[0].hash, read[3].hash), (base, merged));
    assert_eq!(read[3].parents, Parents::Heads(both.to_vec()));
    assert_sound(&ours);
}

/// Writers that append equal content at the same time still write different records.
#[test]
fn equal_words_are_different_records() {
    let (_directory, ledger) = ledger();
    let mut writers: Vec<_> = (0..8).map(|_| ledger.writer()).collect();
    let bodies = [note("same", Vec::new())];
    let hashes: HashSet<Hash> =
        writers.iter_mut().flat_map(|w| w.append_all(&bodies).expect("written")).collect();
    assert_eq!(hashes.len(), 8);
    assert_sound(&ledger);
}

#[test]
fn an_index_finds_steps_verdicts_and_runs() {
    let (_directory, ledger) = ledger();
    let mut writer = ledger.writer();
    let first = step("r1", "fused", Stage::Correct);
    let key = first.key;
    let old = writer.append(&Body::Step(first.clone())).expect("written");
    let mut again = first;
    again.run = "r2".to_owned();
    again.from = Some(old);
    let new = ledger.writer().append(&Body::Step(again)).expect("written");
    let decided = writer.append(&verdict("r1", "fused", vec![old])).expect("written");
    let index = Index::new(&ledger).expect("sound");
    assert_eq!(index.step(&key), Some(new));
    assert_eq!(index.step(&Hash::of(b"other")), None);
    assert_eq!(index.verdicts("fused"), [decided]);
    assert_eq!(index.run("r1"), [old, decided]);
    assert_eq!(index.runs().collect::<Vec<_>>(), ["r1", "r2"]);
    assert_eq!(index.candidates().collect::<Vec<_>>(), ["fused"]);
    assert_eq!((index.len(), index.is_empty()), (3, false));
    assert_eq!(index.find(&new.to_string()[..12]).expect("there"), new);
    assert_eq!(index.get(&ledger, &decided).expect("there"), ledger.get(&decided).expect("there"));
    assert!(matches!(index.find("zz"), Err(LedgerError::NotAPrefix(_))));
}

#[test]
fn prefixes_are_checked() {
    let (_directory, ledger) = ledger();
    let mut writer = ledger.writer();
    let bodies: Vec<Body> = (0..700).map(|n| note(&n.to_string(), Vec::new())).collect();
    let mut hashes = writer.append_all(&bodies).expect("written");
    hashes.sort_unstable();
    // Among 700 hashes, two almost certainly start with the same four digits: 65536 prefixes, 245 thousand
    // pairs.
    let twins = hashes.windows(2).find(|pair| pair[0].to_string()[..4] == pair[1].to_string()[..4]);
    if let Some(twins) = twins {
        let prefix = &twins[0].to_string()[..4];
        assert!(matches!(ledger.find(prefix), Err(LedgerError::Ambiguous(_, some)) if some.len() >= 2));
        assert!(matches!(Index::new(&ledger).expect("sound").find(prefix), Err(LedgerError::Ambiguous(..))));
    }
    for bad in ["", "abc", "xyzw", "ABCD", &"0".repeat(65), "éé"] {
        assert!(matches!(ledger.find(bad), Err(LedgerError::NotAPrefix(_))), "{bad}");
    }
    let absent = Hash::of(b"absent");
    assert!(matches!(ledger.get(&absent), Err(LedgerError::NoSuchRecord(_))));
}

#[test]
fn objects_are_kept_by_content() {
    let (_directory, ledger) = ledger();
    let hash = ledger.put_object(b"ptx").expect("kept");
    assert_eq!(ledger.put_object(b"ptx").expect("kept"), hash);
    assert!(matches!(ledger.object(&Hash::of(b"none")), Err(LedgerError::NoSuchObject(_))));
    fs::write(ledger.object_path(&hash), b"changed").expect("written");
    assert!(matches!(ledger.object(&hash), Err(LedgerError::DamagedObject(_))));
    assert_eq!(ledger.verify().expect("readable").problems.len(), 1);
    ledger.put_object(b"ptx").expect("repaired");
    assert_sound(&ledger);
    assert_eq!(ledger.put_object(b"").and_then(|empty| ledger.object(&empty)).expect("kept"), b"");
}

/// A user who can read the segments can also read the other files.
#[cfg(unix)]
#[test]
fn files_have_ordinary_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let (_directory, ledger) = ledger();
    let object = ledger.put_object(b"ptx").expect("kept");
    let ordinary = ledger.root().join("ordinary");
    fs::write(&ordinary, b"").expect("written");
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode();
    for path in [ledger.object_path(&object), ledger.root().join("FORMAT")] {
        assert_eq!(mode(&path), mode(&ordinary));
    }
}

#[test]
fn places_that_are_no_ledger_are_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = || Ledger::open(directory.path());
    assert!(matches!(open(), Err(LedgerError::Absent(_))));
    fs::write(directory.path().join("FORMAT"), "warpproof ledger 2\n").expect("written");
    let error = open().expect_err("a later version");
    assert_eq!(error.exit_code(), 3);
    assert!(error.to_string().contains("version 2"), "{error}");
    assert!(matches!(Ledger::create(directory.path()), Err(LedgerError::Version(..))), "never overwritten");
    for foreign in
        [&b""[..], b"warpproof ledger 1", b"warpproof ledger x\n", b"\xff\xfe", b"warpproof ledger 1\r\n"]
    {
        fs::write(directory.path().join("FORMAT"), foreign).expect("written");
        assert!(matches!(open(), Err(LedgerError::Foreign(_))), "{foreign:?}");
    }
}

#[test]
fn log_and_show_are_for_people() {
    let (_directory, ledger) = ledger();
    let mut writer = ledger.writer();
    writer.append(&run("r1")).expect("written");
    let mut built = step("r1", "fused", Stage::Build);
    built.objects.insert("ptx".to_owned(), writer.put_object(b".version 8.8").expect("kept"));
    let built = writer.append(&Body::Step(built)).expect("written");
    let decided = writer.append(&verdict("r1", "fused", vec![built])).expect("written");
    writer.append(&note("steers a terminal: \u{1b}[31m\nand breaks lines", vec![decided])).expect("written");

    let all = log(&ledger, &Filter::default()).expect("sound");
    let lines: Vec<String> =
        all.iter().map(|record| record.to_string().split_once(' ').expect("a hash").1.to_owned()).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    note     - fused hypothesis: steers a terminal: \u{1b}[31m\nand breaks lines
    verdict  r1 fused PROVISIONAL: green, no device
    step     r1 fused build PASS
    run      r1 r1 of task attention version 3
    ");
    let one = Filter { candidate: Some("fused".to_owned()), limit: Some(1), ..Filter::default() };
    assert_eq!(log(&ledger, &one).expect("sound"), all[..1]);
    let steps = Filter { kind: Some("step".to_owned()), run: Some("r1".to_owned()), ..Filter::default() };
    assert_eq!(log(&ledger, &steps).expect("sound"), all[2..3]);

    let shown = show(&ledger, &built.to_string()[..16]).expect("there");
    let names: Vec<(&str, bool)> = shown.references.iter().map(|r| (&*r.role, r.what.is_some())).collect();
    assert_eq!(names, [("prev", true), ("object ptx", true)]);
    let text = shown.to_string();
    for part in [&*built.to_string(), "\"max error\"", "run r1 of task attention", "12 bytes", ".jsonl:2"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn a_table_is_quoted() {
    let (_directory, ledger) = ledger();
    ledger.writer().append(&Body::Step(step("a,b", "the \"fused\" one", Stage::Correct))).expect("written");
    let mut table = Vec::new();
    assert_eq!(export_csv(&ledger, &Filter::default(), &mut table).expect("written"), 2);
    let hash = ledger.heads().expect("readable")[0].to_string();
    let text = String::from_utf8(table).expect("text").replace(&hash, "HASH").replace("\r\n", "\n");
    insta::assert_snapshot!(text, @r#"
    run,candidate,stage,figure,value,unit,kind,at,threshold_op,threshold,threshold_source,record
    "a,b","the ""fused"" one",correct,registers,84,registers,counted,,,,,HASH
    "a,b","the ""fused"" one",correct,max error,0.30000000000000004,,counted,1x8x1024x64/seed 1,<=,0.5,"derived, ""formats""",HASH
    "#);
}
