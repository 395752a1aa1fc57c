//! `cargo xtask runtime-functions`: the book's table of the CUDA runtime's functions.
//!
//! It joins the functions that each version of `libcudart` exports, the `api!` and `plain!` blocks of `crates/runtime`, the test programs
//! that call them, and the number of NVIDIA's samples that use each. A function that is done and that no test program calls is an error.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use crate::root;
use crate::section::Section;

/// The generated section.
const SECTION: Section =
    Section { page: "book/src/runtime-functions.md", name: "functions", task: "runtime-functions" };

/// The versions of the runtime.
const MAJORS: [u32; 2] = [12, 13];
/// The folders of the test programs.
const PROGRAMS: [&str; 2] = ["crates/runtime/tests/programs", "tests/host"];
/// How many samples use each function.
const SAMPLES: &str = "xtask/data/samples-calls.txt";
/// Programs shown for a function; further ones are only counted.
const SHOWN: usize = 2;

/// What nvcc's host code calls for constructs of CUDA C++.
const GENERATED: &[(&str, &[&str])] = &[
    (
        "<<<",
        &[
            "__cudaPushCallConfiguration",
            "__cudaPopCallConfiguration",
            "__cudaGetKernel",
            "__cudaLaunchKernel",
        ],
    ),
    ("__managed__", &["__cudaRegisterManagedVar", "__cudaInitModule"]),
];

/// The programs that call each function.
type Calls = BTreeMap<String, BTreeSet<String>>;

/// A function of the table.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    name: String,
    majors: Vec<u32>,
    /// Whether every version of it is implemented.
    done: bool,
    programs: BTreeSet<String>,
}

/// Compares the page with the sources, or writes it.
pub(crate) fn run(bless: bool) -> Result<(), String> {
    let blocks = blocks_of(&root().join("crates/runtime/src/api"))?;
    let mut calls = Calls::new();
    for folder in PROGRAMS {
        for path in files(&root().join(folder))? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            for called in called_in(&read(&path)?) {
                calls.entry(called).or_default().insert(name.clone());
            }
        }
    }
    let mut exported = BTreeMap::new();
    for major in MAJORS {
        exported.insert(major, listed(&read(&root().join(format!("crates/runtime/data/api-{major}.txt")))?));
    }
    let rows = rows(&exported, &blocks, &calls);
    let untested: Vec<&str> =
        rows.iter().filter(|row| row.done && row.programs.is_empty()).map(|row| row.name.as_str()).collect();
    if !untested.is_empty() {
        return Err(format!("no test program calls these functions:\n  {}", untested.join("\n  ")));
    }
    let samples = read(&root().join(SAMPLES))?;
    SECTION.compare_or_write(&table(&rows, &samples)?, bless)?;
    let done = rows.iter().filter(|row| row.done).count();
    println!("runtime-functions: {done} of {} functions, each called by a test program", rows.len());
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// The files of a folder and of those inside it, in order.
fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let problem = |error| format!("cannot read {}: {error}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(problem)? {
        let path = entry.map_err(problem)?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The lines that are not comments.
fn listed(text: &str) -> BTreeSet<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

/// The names of each `api!` and `plain!`. All names of one have the same implementation.
fn blocks_of(folder: &Path) -> Result<Vec<Vec<String>>, String> {
    let mut found = Vec::new();
    for path in files(folder)? {
        let text = read(&path)?;
        for block in text.split("api! {").flat_map(|block| block.split("plain! {")).skip(1) {
            let Some((_, after)) = block.split_once("\n    fn ") else { continue };
            let names = after.split("=>").next().unwrap_or_default();
            found.push(names.split('|').map(|name| name.trim().to_owned()).collect());
        }
    }
    Ok(found)
}

/// The function that a name is a variant of: without the end for a version, and without that for the per-thread default stream.
fn plain(name: &str) -> &str {
    let name = name.strip_suffix("_in12").or(name.strip_suffix("_in13")).unwrap_or(name);
    name.strip_suffix("_ptsz").or(name.strip_suffix("_ptds")).unwrap_or(name)
}

/// The functions that a program calls. Declarations start with `extern` in these programs.
fn called_in(program: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in program.lines().filter(|line| !line.starts_with("extern")) {
        let code = line.split("//").next().unwrap_or_default();
        for (construct, functions) in GENERATED {
            if code.contains(construct) {
                found.extend(functions.iter().map(|name| (*name).to_owned()));
            }
        }
        let mut rest = code;
        while let Some((before, after)) = rest.split_once('(') {
            let start = before.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(0, |at| at + 1);
            let name = before.get(start..).unwrap_or_default();
            if name.starts_with("cuda") || name.starts_with("__cuda") {
                found.insert(plain(name).to_owned());
            }
            rest = after;
        }
    }
    found
}

fn rows(exported: &BTreeMap<u32, BTreeSet<String>>, blocks: &[Vec<String>], calls: &Calls) -> Vec<Row> {
    let all: BTreeSet<&str> = exported.values().flatten().map(|name| plain(name)).collect();
    let row = |name: &str| {
        let majors: Vec<u32> =
            exported.iter().filter(|(_, names)| names.contains(name)).map(|(major, _)| *major).collect();
        let mut programs = BTreeSet::new();
        let mut done = true;
        for major in &majors {
            let own = format!("{name}_in{major}");
            let has = |wanted: &str| blocks.iter().find(|names| names.iter().any(|name| name == wanted));
            match has(&own).or_else(|| has(name)) {
                Some(names) => {
                    let called = names.iter().filter_map(|name| calls.get(plain(name)));
                    let called: BTreeSet<String> = called.flatten().cloned().collect();
                    if programs.is_empty() {
                        programs = called;
                    }
                }
                None => done = false,
            }
        }
        Row { name: name.to_owned(), majors, done, programs }
    };
    all.into_iter().map(row).filter(|row| !row.majors.is_empty()).collect()
}

/// The table, after a summary.
fn table(rows: &[Row], samples: &str) -> Result<String, String> {
    let mut used = BTreeMap::new();
    for line in samples.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, count) =
            line.split_once('\t').ok_or_else(|| format!("{SAMPLES}: expected a tab: {line}"))?;
        let count: u32 = count.trim().parse().map_err(|_| format!("{SAMPLES}: expected a number: {line}"))?;
        used.insert(name.to_owned(), count);
    }
    let done = rows.iter().filter(|row| row.done).count();
    let known = |row: &&Row| used.contains_key(&row.name);
    let (in_samples, done_in_samples) =
        (rows.iter().filter(known).count(), rows.iter().filter(known).filter(|row| row.done).count());
    let mut text = format!(
        "{done} of {} functions are done; of the {in_samples} that the samples use, {done_in_samples}.\n\n\
         | function | versions | done | tested by | samples |\n|---|---|---|---|---|\n",
        rows.len()
    );
    for row in rows {
        let majors: Vec<String> = row.majors.iter().map(u32::to_string).collect();
        let mut programs: Vec<String> =
            row.programs.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
        if row.programs.len() > SHOWN {
            programs.push(format!("+{}", row.programs.len() - SHOWN));
        }
        let done = if row.done { "yes" } else { "returns `cudaErrorNotSupported`" };
        let programs = if row.done { programs.join(" ") } else { String::new() };
        let samples = used.get(&row.name).map(u32::to_string).unwrap_or_default();
        let _ =
            writeln!(text, "| `{}` | {} | {done} | {programs} | {samples} |", row.name, majors.join(", "));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn calls_are_found_and_declarations_and_comments_are_not() {
        let program = "extern int cudaDeclared(int);\n// cudaComment()\n    OK(cudaMalloc((void **)&p, 4)); // cudaFree(p)\n\
                       int x = my_cudaOther(1);\nOK(cudaMemcpyAsync_ptsz(a, b));\n";
        assert_eq!(called_in(program), set(&["cudaMalloc", "cudaMemcpyAsync"]));
        assert!(called_in("add<<<1, 2>>>(p);").contains("__cudaPopCallConfiguration"));
    }

    #[test]
    fn a_call_tests_all_names_of_one_implementation_and_no_other() {
        let exported = BTreeMap::from([
            (12, set(&["cudaA", "cudaA_ptsz", "cudaB", "cudaC"])),
            (13, set(&["cudaA", "cudaA_ptsz", "cudaB", "cudaB_v2"])),
        ]);
        let blocks = [
            vec!["cudaA".to_owned(), "cudaA_ptsz".to_owned()],
            vec!["cudaB_in12".to_owned()],
            vec!["cudaB_in13".to_owned(), "cudaB_v2".to_owned()],
        ];
        let calls = Calls::from([("cudaB".to_owned(), set(&["b.cu"]))]);
        let found = rows(&exported, &blocks, &calls);
        let short: Vec<(&str, &[u32], bool, usize)> = found
            .iter()
            .map(|row| (row.name.as_str(), row.majors.as_slice(), row.done, row.programs.len()))
            .collect();
        assert_eq!(
            short,
            [
                ("cudaA", [12, 13].as_slice(), true, 0),
                ("cudaB", &[12, 13], true, 1),
                ("cudaB_v2", &[13], true, 1),
                ("cudaC", &[12], false, 0),
            ]
        );
    }

    #[test]
    fn the_table_has_the_samples() {
        let row = Row {
            name: "cudaA".to_owned(),
            majors: vec![12],
            done: true,
            programs: set(&["a.c", "b.c", "c.c"]),
        };
        let text = table(&[row], "# samples\ncudaA\t7\n").unwrap();
        assert!(text.contains("| `cudaA` | 12 | yes | `a.c` `b.c` +1 | 7 |"), "{text}");
        assert!(table(&[], "cudaA 7").is_err());
    }
}
