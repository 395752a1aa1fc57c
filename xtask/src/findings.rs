//! `cargo xtask findings`: the book's table of defects, and which tool finds them.
//!
//! Checks every kernel of `tests/fail` with the PTX that is committed next to it. The findings are compared with the kernel's
//! annotations, by the rules of the UI suite. A second column lists what the documentation of NVIDIA's compute-sanitizer states
//! about defects of this kind (`findings/sanitizer.rs`); only this column is written by hand.

#[path = "../../crates/warpproof/tests/ui/annotations.rs"]
mod annotations;
mod sanitizer;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::cores;
use crate::part::Part;
use crate::program;
use crate::root;
use crate::section::Section;
use sanitizer::{Documented, Verdict};

/// The generated section.
const SECTION: Section = Section { page: "book/src/findings.md", name: "findings", task: "findings" };

/// The folder of the kernels.
const TESTS: &str = "tests/fail";

/// Titles of the folders.
const TITLES: &[(&str, &str)] = &[
    ("shared_race", "Races in shared memory"),
    ("global_race", "Races in global memory"),
    ("async_copy", "Asynchronous copies"),
    ("mbarrier", "Mbarriers"),
    ("tensor_core", "Tensor cores"),
    ("memory", "Memory"),
    ("lanes", "Lanes"),
    ("barrier", "Barriers"),
    ("order", "Order"),
    ("explore", "Orders of blocks"),
    ("real_cases", "Real cases, rebuilt"),
    ("case_file", "Attention kernels at real size"),
    ("machine", "Results that depend on the machine"),
    ("whole_files", "Whole programs with host code"),
];

/// A kernel with a defect, and what was found.
#[derive(Debug)]
struct Row {
    /// From `tests/fail`, without the extension.
    name: String,
    /// From the root.
    file: String,
    corpus: Option<String>,
    classes: BTreeSet<String>,
    /// Whether every line and class matches the kernel's annotations.
    right: bool,
    known_failure: Option<String>,
    documented: &'static Documented,
}

/// Compares the page with the findings, or writes it.
pub(crate) fn run(part: &Part, bless: bool) -> Result<String, String> {
    let warpproof = program::warpproof()?;
    let mut files = Vec::new();
    kernels(&root().join(TESTS), &mut files)?;
    files.sort();
    let results = part.each(cores(), &files, |path| row(path, &warpproof)).all()?;
    let note = results.note("kernels");
    let rows: Vec<Row> = results.into_results().collect();
    if !part.is_whole() {
        SECTION.contains(&rows.iter().map(line).collect::<Vec<String>>())?;
        return Ok(note);
    }
    if let Some(name) =
        sanitizer::CASES.iter().map(|(name, _)| *name).find(|name| rows.iter().all(|row| row.name != *name))
    {
        return Err(format!("xtask/src/findings/sanitizer.rs lists `{name}`, which is not in {TESTS}"));
    }
    SECTION.compare_or_write(&tables(&rows), bless)?;
    println!("findings: {note} match {}", SECTION.page);
    Ok(note)
}

/// Kernels below a directory: `.cu` files, and `.ptx` files without a `.cu` file of the same name.
fn kernels(directory: &Path, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let wrong = |error| format!("cannot read {}: {error}", directory.display());
    for entry in fs::read_dir(directory).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if path.is_dir() {
            kernels(&path, found)?;
        } else if extension == Some("cu") || (extension == Some("ptx") && !path.with_extension("cu").exists())
        {
            found.push(path);
        }
    }
    Ok(())
}

fn row(path: &Path, program: &Path) -> Result<Row, String> {
    let slashes = |path: &Path| path.display().to_string().replace('\\', "/");
    let file = slashes(path.strip_prefix(root()).unwrap_or(path));
    let below = path.strip_prefix(root().join(TESTS)).unwrap_or(path);
    let name = slashes(&below.with_extension(""));
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {file}: {error}"))?;
    let said = check(program, &file)?;
    let found = annotations::found(&said, &file);
    let expected = annotations::read(&text).map_err(|error| format!("{file}: {error}"))?;
    let classes: BTreeSet<String> = findings(&said).map(str::to_owned).collect();
    // The annotations define the defect, whether it is found or not.
    let kinds = expected.iter().filter(|mark| !mark.is_note).map(|mark| mark.class.clone()).collect();
    let documented = sanitizer::documented(&name, &kinds)
        .ok_or_else(|| format!("xtask/src/findings/sanitizer.rs has no entry for {file} ({kinds:?})"))?;
    let corpus =
        text.lines().find_map(|line| line.strip_prefix("// Corpus: ")).map(|id| id.trim().to_owned());
    let known_failure = annotations::known_failure(&text).map(str::to_owned);
    Ok(Row { name, right: found == expected, corpus, classes, known_failure, documented, file })
}

/// The classes of the findings, without notes.
fn findings(said: &Value) -> impl Iterator<Item = &str> {
    let all = said["findings"].as_array().into_iter().flatten();
    all.filter(|finding| finding["severity"] == "error").filter_map(|finding| finding["class"].as_str())
}

/// The report of `warpproof check` for a kernel.
fn check(program: &Path, file: &str) -> Result<Value, String> {
    let mut command = Command::new(program);
    // Stops kernels of the suite that wait forever.
    command.args(["check", file, "--format", "json", "--max-instructions", "20000000"]);
    let ptx = Path::new(file).with_extension("ptx");
    if ptx != Path::new(file) && root().join(&ptx).exists() {
        command.arg("--ptx").arg(ptx);
    }
    let output = command
        .current_dir(root())
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start warpproof: {error}"))?;
    serde_json::from_slice(&output.stdout).map_err(|error| {
        format!("{file}: no JSON was printed ({error}):\n{}", String::from_utf8_lossy(&output.stderr))
    })
}

/// The summary, the tables by folder, and the sources.
fn tables(rows: &[Row]) -> String {
    let mut text = summary(rows);
    let mut folders: Vec<&str> = TITLES.iter().map(|(folder, _)| *folder).collect();
    for row in rows {
        let folder = row.name.split('/').next().unwrap_or_default();
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    for folder in folders {
        let own: Vec<&Row> = rows.iter().filter(|row| row.name.split('/').next() == Some(folder)).collect();
        if own.is_empty() {
            continue;
        }
        let title = TITLES.iter().find(|(name, _)| *name == folder).map_or(folder, |(_, title)| title);
        let _ = write!(
            text,
            "\n### {title}\n\n| defect | corpus | found by | lines right | compute-sanitizer | its tool, and source |\n|---|---|---|---|---|---|\n"
        );
        for row in own {
            let _ = writeln!(text, "{}", line(row));
        }
    }
    let used: BTreeSet<&str> = rows.iter().flat_map(|row| row.documented.notes.iter().copied()).collect();
    text.push_str("\n### Sources\n\n");
    for (name, note) in sanitizer::NOTES.iter().filter(|(name, _)| used.contains(name)) {
        let _ = writeln!(text, "[^{name}]: {note}");
    }
    text
}

fn line(row: &Row) -> String {
    let title = row.name.rsplit('/').next().unwrap_or_default().replace('_', " ");
    let classes: Vec<String> =
        row.classes.iter().map(|class| format!("[{class}](checks/{class}.md)")).collect();
    let classes = if classes.is_empty() { "nothing".to_owned() } else { classes.join(", ") };
    let right = match (row.right, &row.known_failure) {
        (true, _) => "yes".to_owned(),
        (false, None) => "no".to_owned(),
        (false, Some(reason)) => format!("no: {reason}"),
    };
    let notes = row.documented.notes.iter().fold(String::new(), |all, note| all + "[^" + note + "]");
    format!(
        "| [{title}](../../{}) | {} | {classes} | {right} | {} | {}{notes} |",
        row.file,
        row.corpus.as_deref().unwrap_or("–"),
        row.documented.verdict.words(),
        row.documented.tool,
    )
}

fn summary(rows: &[Row]) -> String {
    let found = rows.iter().filter(|row| !row.classes.is_empty()).count();
    let right = rows.iter().filter(|row| row.right).count();
    let corpus = rows.iter().filter(|row| row.corpus.is_some()).count();
    let mut text = format!(
        "{} kernels, {corpus} of them from the corpus of defects. Warpproof finds {found}; in {right} the classes and lines are exactly \
         those that the kernel is annotated with.\n\n| compute-sanitizer | kernels |\n|---|---|\n",
        rows.len()
    );
    let mut counts: BTreeMap<Verdict, usize> = BTreeMap::new();
    for row in rows {
        *counts.entry(row.documented.verdict).or_default() += 1;
    }
    for (verdict, count) in counts {
        let _ = writeln!(text, "| {} | {count} |", verdict.words());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, class: &str, right: bool) -> Row {
        let classes: BTreeSet<String> = (!class.is_empty()).then(|| class.to_owned()).into_iter().collect();
        Row {
            documented: sanitizer::documented(name, &["bounds".to_owned()].into()).unwrap(),
            file: format!("tests/fail/{name}.cu"),
            name: name.to_owned(),
            corpus: None,
            classes,
            right,
            known_failure: None,
        }
    }

    #[test]
    fn a_row_links_to_the_kernel_and_to_the_class() {
        let text = line(&row("memory/off_by_one", "bounds", true));
        assert!(text.starts_with("| [off by one](../../tests/fail/memory/off_by_one.cu) | – | [bounds](checks/bounds.md) | yes |"), "{text}");
    }

    #[test]
    fn what_is_not_found_is_said() {
        let text = tables(&[row("memory/a", "", false), row("memory/b", "bounds", true)]);
        assert!(
            text.contains("2 kernels, 0 of them from the corpus of defects. Warpproof finds 1; in 1 the"),
            "{text}"
        );
        assert!(text.contains("| nothing | no |"), "{text}");
    }

    #[test]
    fn a_folder_without_a_title_is_not_lost() {
        assert!(tables(&[row("other/a", "bounds", true)]).contains("### other\n"));
    }

    #[test]
    fn notes_are_no_findings() {
        let said = serde_json::json!({"findings": [
            {"class": "bounds", "severity": "error"}, {"class": "shared-race", "severity": "note"}]});
        assert_eq!(findings(&said).collect::<Vec<_>>(), ["bounds"]);
    }
}
