//! Every hand-broken module of `tests/broken` produces exactly the errors in its `.expected` file: all of them in one run,
//! each at its line and column. `BLESS=1 cargo test -p warpproof-ptx --test broken` rewrites the files.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use warpproof_ptx::{LineIndex, parse};

fn modules() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken");
    let mut paths: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "ptx"))
        .collect();
    paths.sort();
    paths
}

fn report(source: &str) -> String {
    let (_, errors) = parse(source);
    let index = LineIndex::new(source);
    let mut report = String::new();
    for error in errors {
        writeln!(report, "{}: {}", index.position(error.span.start), error.message).unwrap();
        if let Some(help) = error.help {
            writeln!(report, "    help: {help}").unwrap();
        }
    }
    report
}

#[test]
fn every_error_in_one_run() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut different = Vec::new();
    let paths = modules();
    assert!(paths.len() >= 34, "expected more broken modules, found only {}", paths.len());
    for path in paths {
        let source = fs::read_to_string(&path).unwrap();
        let found = report(&source);
        assert!(!found.is_empty(), "expected an error in {}, found none", path.display());
        let expected = path.with_extension("expected");
        if bless {
            fs::write(&expected, &found).unwrap();
        } else if fs::read_to_string(&expected).unwrap_or_default() != found {
            different.push(format!("{}:\n{found}", path.display()));
        }
    }
    assert!(
        different.is_empty(),
        "errors differ from the .expected files; BLESS=1 accepts:\n{}",
        different.join("\n")
    );
}

#[test]
fn messages_are_lowercase_sentences_without_a_full_stop() {
    for path in modules() {
        for error in parse(&fs::read_to_string(&path).unwrap()).1 {
            assert!(!error.message.starts_with(|c: char| c.is_ascii_uppercase()), "{error}");
            assert!(!error.message.ends_with('.'), "{error}");
        }
    }
}

#[test]
fn errors_are_in_source_order_and_inside_the_source() {
    for path in modules() {
        let source = fs::read_to_string(&path).unwrap();
        let errors = parse(&source).1;
        assert!(errors.is_sorted_by_key(|error| error.span.start), "{}", path.display());
        for error in errors {
            let (start, end) =
                (usize::try_from(error.span.start).unwrap(), usize::try_from(error.span.end).unwrap());
            assert!(source.get(start..end).is_some(), "{error:?} in {}", path.display());
        }
    }
}
