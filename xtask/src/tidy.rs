//! `cargo xtask tidy`: rules of the repository that no compiler checks.
//!
//! A rule is a function from the files of the checkout to a list of errors; [`RULES`] lists all rules. The files are those that git
//! tracks, and untracked files that it does not ignore, so that errors show before a commit.

mod arrows;
mod includes;
mod links;
mod rust;
mod spelling;
mod words;

use std::{fs, process::Command};

use crate::root;

/// One file of the checkout.
#[derive(Debug)]
struct File {
    /// From the root, with `/`.
    path: String,
    /// Empty for a file that is not text.
    text: String,
}

impl File {
    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    fn has_extension(&self, extension: &str) -> bool {
        self.name().rsplit_once('.').is_some_and(|(_, end)| end == extension)
    }

    fn at(&self, line: usize, message: &str) -> String {
        format!("{}:{line}: {message}", self.path)
    }
}

type Rule = fn(&[File]) -> Vec<String>;

const RULES: &[Rule] = &[
    rust_files_are_short,
    names_say_what_is_inside,
    no_machine_paths,
    no_registry_hosts,
    actions_are_pinned,
    dependencies_have_reasons,
    architecture_is_short,
    changelog_is_kept,
    rust::unsafe_is_where_it_may_be,
    rust::crates_forbid_unsafe,
    spelling::stays_in_the_table,
    arrows::point_down,
    includes::stay_in_the_package,
    links::resolve,
    words::to_avoid,
];

/// Longest Rust file.
const RUST_LINES: usize = 800;
/// Longest ARCHITECTURE.md.
const ARCHITECTURE_LINES: usize = 200;

/// Words that do not describe the content of a file.
const EMPTY_NAMES: &[&str] = &["util", "utils", "common", "base", "manager", "helper", "helpers"];
/// Words that describe the age of a file, or compare it with another.
const DATED_NAMES: &[&str] = &["fast", "new", "v2"];

/// First parts of absolute paths that exist on one machine only. Written without the slashes around them, so that the rule does
/// not find its own list.
const MACHINE_ROOTS: &[&str] =
    &["work", "root", "tmp", "farm", "home", "Users", "opt/wheels", "private/var", "mnt"];

/// Hosts that serve packages, cut before the last dot for the same reason.
const REGISTRY_HOSTS: &[(&str, &str)] = &[
    ("crates", "io"),
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("npmjs", "org"),
    ("npmjs", "com"),
    ("pypi.nvidia", "com"),
    ("jfrog", "io"),
];

/// Checks the checkout.
pub(crate) fn run() -> Result<(), String> {
    let files = files()?;
    let mut found: Vec<String> = RULES.iter().flat_map(|rule| rule(&files)).collect();
    found.sort();
    if found.is_empty() {
        println!("tidy: {} files, {} rules", files.len(), RULES.len());
        return Ok(());
    }
    for line in &found {
        println!("{line}");
    }
    Err(format!("found {} violations", found.len()))
}

fn files() -> Result<Vec<File>, String> {
    let root = root();
    let list = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(&root)
        .output()
        .map_err(|error| format!("cannot start git: {error}"))?;
    if !list.status.success() {
        return Err(format!("git cannot list the files: {}", String::from_utf8_lossy(&list.stderr).trim()));
    }
    let mut files = Vec::new();
    for path in String::from_utf8_lossy(&list.stdout).split('\0').filter(|path| !path.is_empty()) {
        let place = root.join(path);
        // A file that is deleted but not yet committed is still listed.
        if place.is_file() {
            let bytes = fs::read(&place).map_err(|error| format!("cannot read {path}: {error}"))?;
            files.push(File { path: path.to_owned(), text: String::from_utf8(bytes).unwrap_or_default() });
        }
    }
    Ok(files)
}

fn rust_files_are_short(files: &[File]) -> Vec<String> {
    let rust = files.iter().filter(|file| file.has_extension("rs"));
    rust.filter_map(|file| too_long(file, RUST_LINES)).collect()
}

fn architecture_is_short(files: &[File]) -> Vec<String> {
    match files.iter().find(|file| file.path == "ARCHITECTURE.md") {
        Some(file) => too_long(file, ARCHITECTURE_LINES).into_iter().collect(),
        None => vec!["ARCHITECTURE.md: is missing".to_owned()],
    }
}

fn too_long(file: &File, limit: usize) -> Option<String> {
    let lines = file.text.lines().count();
    (lines > limit).then(|| file.at(limit + 1, &format!("has {lines} lines; at most {limit}")))
}

fn names_say_what_is_inside(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        for part in file.path.split('/') {
            let stem = part.split_once('.').map_or(part, |(stem, _)| stem);
            let words: Vec<&str> = stem.split(['_', '-']).collect();
            let empty = words.iter().find(|word| EMPTY_NAMES.contains(word));
            let edges = [words.first(), words.last()];
            let dated =
                edges.into_iter().flatten().find(|word| words.len() > 1 && DATED_NAMES.contains(word));
            if let Some(word) = empty.or(dated) {
                found.push(file.at(
                    1,
                    &format!("`{word}` in a name does not describe the content; use a term of the field"),
                ));
            }
        }
    }
    found
}

fn no_machine_paths(files: &[File]) -> Vec<String> {
    let patterns: Vec<String> = MACHINE_ROOTS.iter().map(|root| format!("/{root}/")).collect();
    let mut found = Vec::new();
    for file in files {
        for pattern in &patterns {
            for (offset, _) in file.text.match_indices(pattern) {
                let before = file.text.get(..offset).and_then(|text| text.chars().next_back());
                // In `src/home/` and `~/tmp/` the slash continues a path; after a space or a quote it begins one.
                let continues = before.is_some_and(|c| c.is_alphanumeric() || "_-.~/})*>".contains(c));
                if !continues {
                    found.push(
                        file.at(
                            line_of(&file.text, offset),
                            &format!("`{pattern}` is a path of one machine"),
                        ),
                    );
                }
            }
        }
    }
    found
}

fn no_registry_hosts(files: &[File]) -> Vec<String> {
    let hosts: Vec<String> = REGISTRY_HOSTS.iter().map(|(host, top)| format!("{host}.{top}")).collect();
    let mut found = Vec::new();
    // Cargo writes the name of its index into lock files; `cargo deny check sources` checks those.
    for file in files.iter().filter(|file| file.name() != "Cargo.lock") {
        for host in &hosts {
            for (offset, _) in file.text.match_indices(host.as_str()) {
                let message = format!(
                    "`{host}`: the registry of a package is a setting of the machine; do not name it"
                );
                found.push(file.at(line_of(&file.text, offset), &message));
            }
        }
    }
    found
}

fn line_of(text: &str, offset: usize) -> usize {
    text.get(..offset).unwrap_or(text).matches('\n').count() + 1
}

/// The comment above every external dependency of the workspace manifest names it and gives a reason.
fn dependencies_have_reasons(files: &[File]) -> Vec<String> {
    let Some(file) = files.iter().find(|file| file.path == "Cargo.toml") else {
        return vec!["Cargo.toml: is missing".to_owned()];
    };
    let mut found = Vec::new();
    let mut inside = false;
    let mut comment = String::new();
    let mut after_dependency = false;
    for (index, line) in file.text.lines().enumerate() {
        if line.starts_with('[') {
            inside = line == "[workspace.dependencies]";
        } else if line.is_empty() {
            comment.clear();
        } else if let Some(text) = line.strip_prefix('#') {
            if after_dependency {
                comment.clear();
            }
            comment.push_str(text);
        } else if let Some((name, value)) = line.split_once('=').filter(|_| inside) {
            let name = name.trim();
            let word = |c: char| !(c.is_alphanumeric() || c == '-' || c == '_');
            if !value.contains("path =") && !comment.split(word).any(|part| part == name) {
                found.push(file.at(index + 1, &format!("`{name}` has no reason: add a comment above it")));
            }
        }
        after_dependency = !line.starts_with('#');
    }
    found
}

/// Workflows pin actions of others by commit, because a tag can be moved.
fn actions_are_pinned(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    let workflows =
        files.iter().filter(|file| file.path.starts_with(".github/") || file.path == "action.yml");
    for file in workflows.filter(|file| file.has_extension("yml") || file.has_extension("yaml")) {
        for (index, line) in file.text.lines().enumerate() {
            let line = line.trim_start().trim_start_matches("- ");
            let Some(action) = line.strip_prefix("uses:").and_then(|rest| rest.split_whitespace().next())
            else {
                continue;
            };
            let commit = action.rsplit_once('@').map_or("", |(_, commit)| commit);
            let pinned = commit.len() == 40 && commit.bytes().all(|digit| digit.is_ascii_hexdigit());
            if !pinned && !action.starts_with("./") {
                found.push(
                    file.at(
                        index + 1,
                        &format!("`{action}` is not pinned: write the 40 digits of its commit"),
                    ),
                );
            }
        }
    }
    found
}

fn changelog_is_kept(files: &[File]) -> Vec<String> {
    let kept = files
        .iter()
        .any(|file| file.path == "CHANGELOG.md" && file.text.lines().any(|line| line == "## [Unreleased]"));
    if kept { Vec::new() } else { vec!["CHANGELOG.md: expected a section `## [Unreleased]`".to_owned()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_long_rust_file_is_found() {
        let lines = |count| "x\n".repeat(count);
        assert!(rust_files_are_short(&[file("a.rs", &lines(800)), file("a.ptx", &lines(900))]).is_empty());
        assert_eq!(
            rust_files_are_short(&[file("a.rs", &lines(801))]),
            ["a.rs:801: has 801 lines; at most 800"]
        );
    }

    #[test]
    fn a_long_or_missing_architecture_is_found() {
        assert!(architecture_is_short(&[file("ARCHITECTURE.md", "x\n")]).is_empty());
        assert_eq!(architecture_is_short(&[file("ARCHITECTURE.md", &"x\n".repeat(201))]).len(), 1);
        assert_eq!(architecture_is_short(&[]).len(), 1);
    }

    #[test]
    fn empty_and_dated_names_are_found() {
        for path in [
            "a/utils.rs",
            "common/x.rs",
            "string_helpers.rs",
            "base.cu",
            "cache-manager.rs",
            "fast_parse.rs",
            "parse_v2.rs",
            "new_tree.rs",
        ] {
            assert_eq!(names_say_what_is_inside(&[file(path, "")]).len(), 1, "{path}");
        }
        for path in ["database.rs", "baseline.cu", "breakfast.rs", "renew.rs", "new.rs", "lanes.rs"] {
            assert!(names_say_what_is_inside(&[file(path, "")]).is_empty(), "{path}");
        }
    }

    #[test]
    fn a_machine_path_is_found_at_its_line() {
        let path = format!("/{}/x", "work");
        assert_eq!(no_machine_paths(&[file("a.md", &format!("one\nsee {path}\n"))]).len(), 1);
        assert!(no_machine_paths(&[file("a.md", &format!("one\nsee {path}\n"))])[0].starts_with("a.md:2:"));
        assert!(no_machine_paths(&[file("a.md", &format!("target{path}"))]).is_empty());
        assert!(no_machine_paths(&[file("a.md", "/usr/local/cuda")]).is_empty());
    }

    #[test]
    fn a_registry_host_is_found_except_in_a_lock_file() {
        let text = format!("https://{}.{}/simple", "pypi", "org");
        assert_eq!(no_registry_hosts(&[file("a.md", &text)]).len(), 1);
        assert!(no_registry_hosts(&[file("fuzz/Cargo.lock", &text)]).is_empty());
    }

    #[test]
    fn a_dependency_without_a_reason_is_found() {
        let text = "[workspace.dependencies]\nours = { path = \"x\" }\n# a, b: needed.\na = \"1\"\nb = \"2\"\nc = \"3\"\n";
        let found = dependencies_have_reasons(&[file("Cargo.toml", text)]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("Cargo.toml:6: `c`"), "{found:?}");
    }

    #[test]
    fn a_reason_does_not_reach_over_the_next_comment() {
        let text =
            "[workspace.dependencies]\n# a, c: needed.\na = \"1\"\n# b: needed.\nb = \"2\"\nc = \"3\"\n";
        assert_eq!(dependencies_have_reasons(&[file("Cargo.toml", text)]).len(), 1);
    }

    #[test]
    fn an_action_without_its_commit_is_found() {
        let pinned = format!("steps:\n  - uses: a/b@{}\n  - uses: ./here\n", "0a".repeat(20));
        assert!(actions_are_pinned(&[file(".github/workflows/x.yml", &pinned)]).is_empty());
        let found =
            actions_are_pinned(&[file("action.yml", "steps:\n    - name: A\n      uses: a/b@v4 # 4\n")]);
        assert_eq!(found, ["action.yml:3: `a/b@v4` is not pinned: write the 40 digits of its commit"]);
        assert!(actions_are_pinned(&[file("book/x.md", "- uses: a/b@v4\n")]).is_empty());
    }

    #[test]
    fn a_changelog_without_unreleased_is_found() {
        assert!(changelog_is_kept(&[file("CHANGELOG.md", "# C\n\n## [Unreleased]\n")]).is_empty());
        assert_eq!(changelog_is_kept(&[file("CHANGELOG.md", "# C\n\n## [1.0.0]\n")]).len(), 1);
    }
}
