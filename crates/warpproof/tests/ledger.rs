//! The commands over a ledger, run as a user does.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
#[path = "../../report/tests/view/ladder.rs"]
#[allow(dead_code, reason = "the tests of the views use the rest of it")]
mod ladder;

use std::fs;
use std::path::{Path, PathBuf};

use warpproof_evidence::ledger::Ledger;

use bench::{Bench, Run};
use ladder::{Book, RUN, climb, climb_on};

/// The ledger that is shown in the book.
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

/// `WARPPROOF_BLESS=1` writes the sample again; then its hashes and the book's page change.
#[test]
fn the_sample_is_what_its_builder_makes() {
    if std::env::var_os("WARPPROOF_BLESS").is_some() {
        let _ = fs::remove_dir_all(sample());
        climb_on(climb(Book::on(&Ledger::create(sample()).unwrap())));
    }
    let dir = tempfile::tempdir().unwrap();
    climb_on(climb(Book::on(&Ledger::create(dir.path()).unwrap())));
    // Names of records depend on the segment; everything else is deterministic.
    let bodies = |root: &Path| -> Vec<String> {
        let ledger = Ledger::open(root).unwrap();
        ledger.records().unwrap().map(|record| record.unwrap().body.to_string()).collect()
    };
    assert_eq!(bodies(&sample()), bodies(dir.path()));
}

#[test]
fn help_of_every_command() {
    let bench = Bench::bare();
    for command in ["log", "show", "verify", "export", "report", "claims", "note"] {
        let run = bench.run([command, "--help"]).exits(0);
        insta::with_settings!({ description => command, omit_expression => true }, {
            insta::assert_snapshot!(format!("help_{command}"), run.out);
        });
    }
}

#[test]
fn without_a_ledger_it_says_what_makes_one() {
    let bench = Bench::bare();
    for line in ["log", "show abcd", "verify", "export --csv", "report", "claims x.md", "report history"] {
        let run = run(&bench, line).exits(2);
        assert_eq!(run.out, "", "{line}");
        assert!(run.err.contains(".warpproof/ledger is not a ledger"), "{line}: {}", run.err);
        assert!(run.err.contains("run `warpproof gate TASK` to create one"), "{line}: {}", run.err);
    }
    // Looking for one makes none.
    assert!(!bench.dir.path().join(".warpproof").exists());
    fs::create_dir_all(bench.dir.path().join("later")).unwrap();
    fs::write(bench.dir.path().join("later/FORMAT"), "warpproof ledger 99\n").unwrap();
    let run = run(&bench, "log --ledger later").exits(3);
    assert!(run.err.contains("use the newer warpproof"), "{}", run.err);
}

#[test]
fn log_lists_the_newest_first_and_narrows_down() {
    let bench = bench();
    let all = run(&bench, "log").exits(0).out;
    let lines: Vec<&str> = all.lines().collect();
    assert!(lines[0].contains("n9-round REJECT: correct: a signed bias"), "{}", lines[0]);
    assert!(lines[lines.len() - 1].contains("2026-01-04-first of task attention version 3"));
    let newest = run(&bench, "log -n 3").exits(0).out;
    assert_eq!(newest.lines().collect::<Vec<_>>(), lines[..3]);
    let one = run(&bench, "log --candidate n5-split --kind verdict").exits(0).out;
    assert_eq!(one.lines().count(), 1);
    assert!(one.contains("REJECT"), "{one}");
    assert_eq!(run(&bench, "log --task attention --kind run").exits(0).out.lines().count(), 2);
    let first = run(&bench, "log --run 2026-01-04-first").exits(0).out;
    assert!(first.lines().all(|line| line.contains("2026-01-04-first")), "{first}");
    assert!(run(&bench, "log --task other").exits(2).err.contains("no run of task `other`"));
    assert!(run(&bench, "log --candidate other").exits(0).err.contains("no matching records"));
    let json = run(&bench, "log -n 2 --json").exits(0).json();
    assert_eq!(json["schema"], "warpproof.log/1");
    assert_eq!(json["records"][0]["body"]["kind"], "verdict");
    assert_eq!(json["records"][0]["body"]["candidate"], "n9-round");
    assert!(json["records"][0]["record"].as_str().unwrap().starts_with(&lines[0][..12]));
}

/// The name of the first record that a log lists.
fn named(bench: &Bench, filter: &str) -> String {
    let listed = run(bench, &format!("log -n 1 {filter}")).exits(0).out;
    listed.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn show_gives_a_record_and_its_objects() {
    let bench = bench();
    let verdict = named(&bench, "--candidate n2-mma --kind verdict");
    let shown = run(&bench, &format!("show {verdict}")).exits(0).out;
    assert!(shown.starts_with(&format!("record {verdict}")), "{shown}");
    assert!(shown.contains("\"verdict\": \"MERGE\""), "{shown}");
    assert_eq!(shown.lines().filter(|line| line.starts_with("step ")).count(), 8, "{shown}");
    // The first step of the verdict is its build, which names the PTX.
    let json = run(&bench, &format!("show {verdict} --json")).exits(0).json();
    let build = json["body"]["steps"][0].as_str().unwrap();
    let ptx = run(&bench, &format!("show {build} --object ptx")).exits(0);
    assert_eq!(ptx.out, ladder::ptx("n2-mma"));
    run(&bench, &format!("show {build} --object ptx -o out.ptx")).exits(0);
    assert_eq!(fs::read_to_string(bench.dir.path().join("out.ptx")).unwrap(), ptx.out);
    let listed = run(&bench, &format!("show {build}")).exits(0).out;
    assert!(listed.contains("\n  warpproof show ") && listed.contains(" --object 'ptx'\n"), "{listed}");
    let wrong = run(&bench, &format!("show {build} --object sass")).exits(2);
    assert!(
        wrong.err.contains("has no object `sass`") && wrong.err.contains("its objects: `ptx`"),
        "{}",
        wrong.err
    );
    assert!(run(&bench, "show 0000000000000000").exits(2).err.contains("`warpproof log` lists the records"));
    assert!(run(&bench, "show xyz").exits(2).err.contains("lowercase hexadecimal digits, found `xyz`"));
    // Objects must match their names.
    let hash = warpproof_evidence::hash::Hash::of(ladder::ptx("n2-mma").as_bytes());
    let ledger = Ledger::open(bench.dir.path().join(".warpproof/ledger")).unwrap();
    fs::write(ledger.object_path(&hash), "another program").unwrap();
    let run = run(&bench, &format!("show {build} --object ptx")).exits(1);
    assert_eq!(run.out, "");
    assert!(run.err.contains("do not match its hash"), "{}", run.err);
}

#[test]
fn verify_names_everything_that_is_wrong() {
    let bench = bench();
    let sound = run(&bench, "verify").exits(0);
    assert!(sound.out.ends_with(": sound\n"), "{}", sound.out);
    let segments = bench.dir.path().join(".warpproof/ledger/segments");
    let segment = fs::read_dir(&segments).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&segment).unwrap();
    // Improves a figure, and adds an unknown file next to it.
    fs::write(&segment, text.replacen("0.0123", "0.0023", 1)).unwrap();
    fs::write(segments.join("stranger.txt"), "x").unwrap();
    let broken = run(&bench, "verify").exits(1);
    assert!(broken.out.contains("the line was changed"), "{}", broken.out);
    assert!(broken.out.contains("segments/stranger.txt: not a file of a ledger"), "{}", broken.out);
    assert!(broken.err.contains("is damaged"), "{}", broken.err);
    let json = run(&bench, "verify --json").exits(1).json();
    assert_eq!((&json["schema"], &json["sound"]), (&"warpproof.verify/1".into(), &false.into()));
    assert!(json["problems"].as_array().unwrap().len() >= 2);
    // No report is made from it.
    let report = run(&bench, "report").exits(1);
    assert_eq!(report.out, "");
    assert!(report.err.contains("run `warpproof verify` to list all problems"), "{}", report.err);
}

#[test]
fn export_is_a_table_of_figures() {
    let bench = bench();
    let table = run(&bench, "export --csv").exits(0).out;
    assert!(table.starts_with("run,candidate,stage,figure,value,unit,kind,"), "{table}");
    assert!(table.contains(",n2-mma,speed,latency,10.24,µs,measured,"), "{table}");
    let one = run(&bench, "export --csv --candidate n2-mma -o figures.csv").exits(0);
    assert_eq!(one.out, "");
    let file = fs::read_to_string(bench.dir.path().join("figures.csv")).unwrap();
    assert!(file.lines().skip(1).all(|line| line.contains(",n2-mma,")), "{file}");
    let count = file.lines().count() - 1;
    assert_eq!(one.err, format!("{count} figures in figures.csv\n"));
    let json: serde_json::Value = serde_json::from_str(&run(&bench, "export --json").exits(0).out).unwrap();
    assert_eq!(json["schema"], "warpproof.figures/1");
    let figures = json["figures"].as_array().unwrap();
    assert_eq!(figures.len(), table.lines().count() - 1);
    assert_eq!((&figures[0]["stage"], &figures[0]["figure"]["kind"]), (&"budget".into(), &"counted".into()));
    run(&bench, "export --json --csv").exits(2);
    let refused = run(&bench, "export -o no/such/figures.csv").exits(2);
    assert!(refused.err.contains("cannot write no/such/figures.csv"), "{}", refused.err);
}

#[test]
fn every_view_has_its_forms() {
    let bench = bench();
    let first = |line: &str| run(&bench, line).exits(0).out.lines().next().unwrap().to_owned();
    assert_eq!(first("report"), "Gate: task attention version 3, run 2026-01-05-full");
    assert_eq!(
        first("report --run 2026-01-04-first"),
        "Gate: task attention version 3, run 2026-01-04-first"
    );
    let forms = [
        ("text", "Gate: "),
        ("markdown", "# Gate: "),
        ("html", "<!DOCTYPE html>"),
        ("json", "{"),
        ("junit", "<?xml "),
        ("sarif", "{"),
    ];
    for (format, begins) in forms {
        let line = first(&format!("report summary --format {format}"));
        assert!(line.starts_with(begins), "{format}: {line}");
    }
    for (view, begins) in [
        ("validation", "# Validation report: "),
        ("history", "# Performance history: "),
        ("negatives", "# Valid negatives"),
        ("attempts", "# Attempts"),
        ("stage", "# Stage "),
        ("checklist", "# Checklist: "),
        ("next", "# Next step: "),
    ] {
        let line = first(&format!("report {view} --format markdown"));
        assert!(line.starts_with(begins), "{view}: {line}");
        let page = run(&bench, &format!("report {view} -o {view}.html")).exits(0);
        assert_eq!((page.out, page.err), (String::new(), format!("wrote {view}.html\n")));
        let page = fs::read_to_string(bench.dir.path().join(format!("{view}.html"))).unwrap();
        assert!(page.starts_with("<!DOCTYPE html>"), "{view}");
    }
    assert_eq!(first("report pr-comment"), "<!-- warpproof gate -->");
    assert_eq!(
        first("report merge-message --candidate n7-pipeline"),
        "[attention] n7-pipeline: −20.0 % latency (1.25×)"
    );
    // One candidate alone.
    let one = run(&bench, "report --candidate n5-split").exits(0).out;
    assert!(one.contains("✗ REJECT") && !one.contains("n2-mma"), "{one}");
    let sarif: serde_json::Value =
        serde_json::from_str(&run(&bench, "report --format sarif").exits(0).out).unwrap();
    let place =
        &sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
    assert_eq!(place, "tasks/attention.toml");
}

#[test]
fn an_ending_without_a_form_is_refused() {
    let bench = bench();
    let refused = run(&bench, "report -o x.pdf").exits(2);
    assert!(refused.err.contains("unknown output format: `.pdf`"), "{}", refused.err);
    assert!(
        refused.err.contains(".html, .htm, .json") && !bench.dir.path().join("x.pdf").exists(),
        "{}",
        refused.err
    );
    run(&bench, "report -o x.pdf --format text").exits(0);
    run(&bench, "report -o plain").exits(0);
}

#[test]
fn a_comparison_has_roles() {
    let bench = bench();
    let run_of = |line: &str| run(&bench, line);
    let said =
        run_of("report comparison --baseline 2026-01-04-first --candidate 2026-01-05-full:n2-mma").exits(0);
    assert!(said.out.starts_with("Comparison: baseline n1-scalar, candidate n2-mma\n"), "{}", said.out);
    assert_eq!(run_of("report comparison --baseline n1-scalar --candidate n2-mma").exits(0).out, said.out);
    for (line, expected) in [
        ("report comparison --baseline n2-mma --candidate n1-scalar", "the roles are swapped"),
        ("report comparison --baseline n2-mma --candidate n2-mma", "n2-mma"),
        ("report comparison --baseline n2-mma", "requires --baseline and --candidate"),
        ("report comparison --baseline 2026-01-05-full --candidate n2-mma", "name one as RUN:CANDIDATE"),
        ("report comparison --baseline 2026-01-04-first:n9 --candidate n2-mma", "has no record of `n9`"),
        ("report --baseline n2-mma", "`summary` does not take --baseline"),
        ("report history --candidate n2-mma", "it covers all candidates"),
        ("report negatives --run 2026-01-05-full", "it covers all runs"),
        ("report summary --task attention", "`summary` does not take --task"),
        ("report history --task other", "no run of task `other`"),
        ("report history --format junit", "with `report summary`"),
        ("report pr-comment --format html", "has only one format"),
        ("report --run nope", "no run `nope`"),
        ("report --candidate nope", "has no record of `nope`"),
        ("report merge-message", "select one with --candidate"),
        ("report merge-message --candidate n4-swizzle", "its verdict is DEFER"),
    ] {
        let run = run_of(line).exits(2);
        assert!(run.err.contains(expected), "{line}: {}", run.err);
        assert_eq!(run.out, "", "{line}");
    }
}

#[test]
fn claims_are_shown_at_their_place() {
    let bench = bench();
    let text = "# Results\n\nn2-mma takes 10.24 µs, measured.\n\nIt is − as we hoped − done in 9.99 µs.\n\nThe model: 4.8 µs.\n\nn6 takes 4.8 µs.\n";
    fs::write(bench.dir.path().join("claims.md"), text).unwrap();
    let found = run(&bench, "claims claims.md").exits(1);
    // The newest step of the candidate is speed; the one before it is model, which predicts.
    let steps = run(&bench, "log -n 2 --candidate n6-fp8 --kind step").exits(0).out;
    let model = steps.lines().nth(1).unwrap().split_whitespace().next().unwrap();
    insta::assert_snapshot!("claims", found.err.replace(model, "RECORD"));
    let json = run(&bench, "claims claims.md --json").exits(1).json();
    let places: Vec<_> = json["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| (problem["line"].as_u64().unwrap(), problem["column"].as_u64().unwrap()))
        .collect();
    assert_eq!(places, [(5, 31), (9, 10)]);
    fs::write(bench.dir.path().join("claims.md"), "n2-mma takes 10.24 µs.\n").unwrap();
    let stands = run(&bench, "claims claims.md").exits(0);
    assert_eq!(stands.err, "every number in 1 file matches the ledger\n");
    assert!(run(&bench, "claims gone.md").exits(2).err.contains("cannot read gone.md"));
}

#[test]
fn notes_are_kept_and_quoted() {
    let bench = bench();
    let note = |topic: &str, text: &str, more: &[&str]| {
        let args = ["note", topic, text, "--candidate", "n4-swizzle"];
        bench.run(args.iter().chain(more))
    };
    let kept = note("cost", "three days, in the end", &["--run", RUN]).exits(0);
    assert_eq!(kept.err, "");
    let shown = run(&bench, &format!("show {}", kept.out.trim())).exits(0).out;
    assert!(shown.contains("n4-swizzle cost: three days, in the end"), "{shown}");
    note("ruled-out", "bank conflicts: there are none", &["--about", kept.out.trim()]).exits(0);
    let negatives = run(&bench, "report negatives --format markdown").exits(0).out;
    assert!(negatives.contains("three days, in the end"), "{negatives}");
    let attempts = run(&bench, "report attempts --format markdown").exits(0).out;
    assert!(attempts.contains("bank conflicts: there are none"), "{attempts}");
    run(&bench, "verify").exits(0);
    assert!(note("cost", "x", &["--run", "nope"]).exits(2).err.contains("no run `nope`"));
    assert!(note("mood", "x", &[]).exits(2).err.contains("possible values: hypothesis"));
    assert!(note("cost", " ", &[]).exits(2).err.contains("the text of the note is empty"));
    // A hypothesis may come before everything else.
    let fresh = Bench::bare();
    let first = fresh.run(["note", "hypothesis", "loads wait", "--candidate", "h1"]).exits(0);
    assert!(first.err.contains("new ledger at .warpproof/ledger"), "{}", first.err);
    assert!(first.err.contains("`h1` is not in this ledger yet"), "{}", first.err);
    let report = fresh.run(["report"]).exits(2);
    assert!(report.err.contains("has no runs yet"), "{}", report.err);
}

#[test]
fn times_from_files_are_reported() {
    let bench = bench();
    let file = bench.dir.path().join("stages.md");
    fs::write(&file, "| stage | p50 (us) |\n|---|---|\n| v1 | 1199.0 |\n| v2 | 656.38 |\n").unwrap();
    let note = |time: &str, more: &[&str]| {
        let args = ["note", "measured", time, "--candidate", "n2-mma"];
        bench.run(args.iter().chain(more))
    };
    let from = ["--device", "L4", "--source", "stages.md"];
    let kept = note("656us", &from).exits(0);
    assert_eq!(kept.err, "");
    let record = kept.out.trim().to_owned();
    let shown = run(&bench, &format!("show {record}")).exits(0).out;
    assert!(shown.contains("\"kind\": \"reported\"") && shown.contains("\"task\": \"attention\""), "{shown}");
    let stored = run(&bench, &format!("show {record} --object source")).exits(0).out;
    assert_eq!(stored, fs::read_to_string(&file).unwrap());
    let history = run(&bench, "report history").exits(0).out;
    assert!(history.contains("656 us reported"), "{history}");
    let pair = "report comparison --baseline n1-scalar --candidate n2-mma";
    assert!(run(&bench, pair).exits(0).out.contains("656 us reported"));
    run(&bench, "verify").exits(0);
    for (time, flags, expected) in [
        ("fast", &from[..], "expected a time, found `fast`"),
        ("700us", &from[..], "stages.md does not state this time"),
        ("656us", &from[..2], "`measured` requires --source"),
        ("656us", &from[2..], "`measured` requires --device"),
        ("656us", &["--device", "L4", "--source", "gone.md"], "cannot read gone.md"),
    ] {
        let refused = note(time, flags).exits(2);
        assert!(refused.err.contains(expected), "{time} {flags:?}: {}", refused.err);
    }
    let wrong = bench.run(["note", "cost", "x", "--candidate", "n2-mma", "--device", "L4"]).exits(2);
    assert!(wrong.err.contains("`cost` does not take --device"), "{}", wrong.err);
    // A ledger without runs has a history of what was reported.
    let fresh = Bench::bare();
    fs::copy(&file, fresh.dir.path().join("stages.md")).unwrap();
    let args = ["note", "measured", "1199us", "--candidate", "v1", "--task", "fp8"];
    fresh.run(args.iter().chain(&from)).exits(0);
    let history = run(&fresh, "report history --task fp8").exits(0).out;
    assert!(
        history.contains("Performance history: task fp8") && history.contains("1199 us reported"),
        "{history}"
    );
}

#[test]
fn a_stage_is_one_page_with_suspects_and_options() {
    let bench = bench();
    let note = |line: &[&str]| bench.run(["note"].iter().chain(line));
    let suspect = note(&["suspect", "the table of lanes is wrong", "--candidate", "n9-round"]).exits(0);
    let suspect = suspect.out.trim();
    note(&["test", "each place must occur once", "--about", suspect]).exits(0);
    let step = named(&bench, "--candidate n9-round --kind step");
    note(&["ruled-out", "every place occurs once", "--about", suspect, "--about", &step]).exits(0);
    note(&["lesson", "measure before you change"]).exits(0);
    let option = ["option", "three stages of copies", "--target", "590us", "--risk", "low"];
    note(&option).exits(0);
    let page = run(&bench, "report stage --candidate n9-round").exits(0).out;
    assert!(page.starts_with("# Stage `n9-round` of task `attention` version 3"), "{page}");
    for expected in [
        "| `n9-round` | the table of lanes is wrong | each place must occur once | ruled out | every place occurs once \
         (correct of `n9-round`: ✗ FAIL) |",
        "| measure before you change | – |",
        "| three stages of copies | 590us | not recorded | low | not recorded |",
        "## Draft of a commit text",
        "against `n7-pipeline`",
    ] {
        // A rejected candidate has no speed.
        let found = page.contains(expected);
        assert_eq!(found, !expected.starts_with("against"), "{expected}: {page}");
    }
    // Without a name, the candidate that was evaluated last.
    assert_eq!(run(&bench, "report stage").exits(0).out, page);
    assert!(
        run(&bench, "report stage --format text --candidate n7-pipeline").exits(0).out.contains("Tag text")
    );
    let from = run(&bench, "report stage --candidate n7-pipeline --baseline n1-scalar").exits(0).out;
    assert!(from.contains("−80.5 % latency (5.13×) measured"), "{from}");
    for (line, expected) in [
        ("report stage --candidate nope", "no verdict about `nope`"),
        ("report stage --format junit", "does not support this format"),
        ("report stage --task attention", "`stage` does not take --task"),
        ("note test x", "`test` requires a suspect"),
        ("note cost x", "`cost` requires a candidate"),
    ] {
        let refused = run(&bench, line).exits(2);
        assert!(refused.err.contains(expected), "{line}: {}", refused.err);
    }
}
