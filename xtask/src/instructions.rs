//! `cargo xtask instructions`: the book's table of instructions, made from the software GPU's own table.
//!
//! The tests of `crates/sim/tests/isa` record which forms they executed. This task joins the records with the instruction table:
//! a form that no test executes is an error, and the page lists only forms that exist.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
};

use warpproof_sim::isa::{self, Entry, Unit};

use crate::root;
use crate::section::Section;
use crate::target;

/// The generated section.
const SECTION: Section = Section { page: "book/src/instructions.md", name: "forms", task: "instructions" };

/// The folder of the tests.
const TESTS: &str = "crates/sim/tests/isa";
const MANUAL: &str = "https://docs.nvidia.com/cuda/parallel-thread-execution/#";

/// Names of tests shown for a form; further tests are only counted.
const SHOWN: usize = 3;

/// Titles of the families, by the name of their file.
const TITLES: &[(&str, &str)] = &[
    ("int", "Integer arithmetic"),
    ("extended", "Extended precision"),
    ("bits", "Logic, shifts and bit fields"),
    ("float", "Floating point"),
    ("half", "Half precision"),
    ("math", "Approximations"),
    ("compare", "Comparison and selection"),
    ("packed", "Pairs of f32, and sources of 16 bits"),
    ("convert", "Conversion"),
    ("small", "Conversion of fp4, fp6 and scales"),
    ("moves", "Moves and addresses"),
    ("cluster", "Addresses in a cluster"),
    ("memory", "Loads and stores"),
    ("cache", "Cache hints"),
    ("atomic", "Atomics and reductions"),
    ("copy", "Asynchronous copies and mbarriers"),
    ("bulk", "Bulk copies and asynchronous stores"),
    ("tensor", "Tensor copies and tensor maps (TMA)"),
    ("texture", "Textures"),
    ("surface", "Surfaces"),
    ("matrix", "Matrix loads and stores"),
    ("mma", "Matrix multiplication"),
    ("scaled", "Matrix multiplication of fp4, fp6 and with scales"),
    ("sparse", "Sparse matrix multiplication"),
    ("wmma", "Matrix multiplication (wmma)"),
    ("wgmma", "Asynchronous matrix multiplication (wgmma)"),
    ("fill", "Fills of shared memory"),
    ("tcgen05", "Tensor memory (tcgen05)"),
    ("cancel", "Cluster launch control"),
    ("lanes", "Between the lanes of a warp"),
    ("sync", "Barriers and fences"),
    ("control", "Control flow and miscellaneous"),
    ("stack", "The stack"),
    ("video", "Video, on parts of a word"),
];

/// The tests that executed each form, as `module::test`.
type Coverage = BTreeMap<String, BTreeSet<String>>;

/// Compares the page with the table, or writes it.
pub(crate) fn run(bless: bool) -> Result<(), String> {
    let table = isa::table();
    let coverage = coverage(&target().join("tmp").join("isa-coverage"), &root().join(TESTS))?;
    let untested: Vec<&str> = table
        .iter()
        .map(|entry| entry.definition.form)
        .filter(|form| !coverage.contains_key(*form))
        .collect();
    if !untested.is_empty() {
        return Err(format!("no test executes these forms:\n  {}", untested.join("\n  ")));
    }
    SECTION.compare_or_write(&forms(table, &coverage), bless)?;
    unlisted(&fs::read_to_string(root().join(SECTION.page)).map_err(|error| error.to_string())?)?;
    println!("instructions: {} forms, each executed by a test", table.len());
    Ok(())
}

/// Every opcode with a gap must be in the page's list of what is not supported.
fn unlisted(page: &str) -> Result<(), String> {
    let list = page.split("\n## ").find(|section| section.starts_with("Not supported")).unwrap_or_default();
    let missing = |gap: &&isa::gaps::Gap| !list.contains(&format!("`{}", gap.opcode));
    match isa::gaps::GAPS.iter().find(missing) {
        Some(gap) => {
            Err(format!("{}: *Not supported* does not have `{}`: {}", SECTION.page, gap.opcode, gap.reason))
        }
        None => Ok(()),
    }
}

/// Reads the records of the tests: a file for each test, a line for each form. Files of deleted tests are skipped.
fn coverage(directory: &Path, tests: &Path) -> Result<Coverage, String> {
    let missing = |error| {
        format!(
            "cannot read {}: {error}; run `cargo nextest run -p warpproof-sim --test isa` to write it",
            directory.display()
        )
    };
    let mut found = Coverage::new();
    for file in fs::read_dir(directory).map_err(missing)? {
        let path = file.map_err(missing)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some((module, test)) = name.split_once('.') else { continue };
        let source = fs::read_to_string(tests.join(module).with_extension("rs")).unwrap_or_default();
        if !source.contains(&format!("fn {test}(")) {
            continue;
        }
        for form in fs::read_to_string(&path).map_err(missing)?.lines() {
            found.entry(form.to_owned()).or_default().insert(format!("{module}::{test}"));
        }
    }
    Ok(found)
}

/// The tables, by family.
fn forms(table: &[Entry], coverage: &Coverage) -> String {
    let mut text = format!("{} forms.\n", table.len());
    let mut family = "";
    for entry in table {
        if entry.family != family {
            family = entry.family;
            let title = TITLES.iter().find(|(name, _)| *name == family).map_or(family, |(_, title)| title);
            let _ = write!(
                text,
                "\n### {title}\n\n| form | since, and its section of the manual | pipe | effects besides results | tested by |\n|---|---|---|---|---|\n"
            );
        }
        let (major, minor, sm) = entry.definition.since;
        let _ = writeln!(
            text,
            "| {} | [PTX {major}.{minor}, sm_{sm}]({MANUAL}{}) | {} | {} | {} |",
            syntax(entry.definition.form),
            entry.definition.manual,
            pipe(entry.definition.unit),
            entry.effects().join(" or "),
            tested_by(family, coverage.get(entry.definition.form)),
        );
    }
    text
}

/// The form, and below it the modifier classes that it names.
fn syntax(form: &str) -> String {
    let mut sections = form.split(';').map(str::trim);
    let head = sections.next().unwrap_or_default();
    let code = |text: &str| format!("`{}`", text.replace('|', "\\|"));
    let modifiers = head.split_whitespace().next().unwrap_or_default();
    let named = |class: &&str| {
        let name = class.split(' ').next().unwrap_or_default();
        modifiers
            .split(['{', '}'])
            .flat_map(|part| part.split('.'))
            .any(|part| Some(part) == name.strip_prefix('.'))
    };
    let classes = sections.filter(named).map(|class| format!("<br>{}", code(class)));
    code(head) + &classes.collect::<String>()
}

fn pipe(unit: Unit) -> &'static str {
    match unit {
        Unit::Alu => "ALU",
        Unit::Fma => "FMA",
        Unit::Half => "half",
        Unit::Fp64 => "FP64",
        Unit::Xu => "XU",
        Unit::Lsu => "LSU",
        Unit::Tex => "TEX",
        Unit::Tensor => "tensor",
        Unit::Adu => "ADU",
        Unit::Control => "control",
        Unit::None => "–",
    }
}

/// Tests of the family's own file if there are any. Every test executes loads and moves, so other tests carry no information.
fn tested_by(family: &str, tests: Option<&BTreeSet<String>>) -> String {
    let all: Vec<&String> = tests.into_iter().flatten().collect();
    let own: Vec<&String> =
        all.iter().copied().filter(|test| test.split("::").next() == Some(family)).collect();
    let chosen = if own.is_empty() { all } else { own };
    let mut names: Vec<String> = chosen.iter().take(SHOWN).map(|test| format!("`{test}`")).collect();
    if chosen.len() > SHOWN {
        names.push(format!("+{}", chosen.len() - SHOWN));
    }
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_shows_the_classes_it_names() {
        let form = "op{.x}.type d|p, a; .x = .a .b; .other = .c; .type = .u32";
        assert_eq!(syntax(form), "`op{.x}.type d\\|p, a`<br>`.x = .a .b`<br>`.type = .u32`");
        assert_eq!(syntax("exit"), "`exit`");
    }

    #[test]
    fn tests_of_the_family_come_first_and_many_are_counted() {
        let tests: BTreeSet<String> =
            ["bits::a", "int::a", "int::b", "int::c", "int::d"].map(str::to_owned).into();
        assert_eq!(tested_by("int", Some(&tests)), "`int::a` `int::b` `int::c` +1");
        assert_eq!(tested_by("float", Some(&["bits::a".to_owned()].into())), "`bits::a`");
    }

    #[test]
    fn a_test_that_is_gone_covers_nothing() {
        let place = tempfile::tempdir().unwrap();
        let (written, sources) = (place.path().join("written"), place.path().join("sources"));
        fs::create_dir_all(&written).unwrap();
        fs::create_dir_all(&sources).unwrap();
        fs::write(sources.join("int.rs"), "#[test]\nfn sums() {}\n").unwrap();
        fs::write(written.join("int.sums"), "add.u32 d, a, b\n").unwrap();
        fs::write(written.join("int.products"), "mul.lo.u32 d, a, b\n").unwrap();
        let found = coverage(&written, &sources).unwrap();
        assert_eq!(found.len(), 1);
        assert!(found["add.u32 d, a, b"].contains("int::sums"));
        assert!(coverage(&place.path().join("nothing"), &sources).unwrap_err().contains("nextest"));
    }

    #[test]
    fn every_family_has_a_title() {
        for entry in isa::table() {
            assert!(TITLES.iter().any(|(name, _)| *name == entry.family), "{}", entry.family);
        }
    }
}
