//! What is in the checkout: files as git lists them, packages as cargo resolves them, versions of tools.
//!
//! A study names files, packages and tools; this gives the list of everything they stand for ([`Tree::manifest`]), with a
//! hash of each file. Its own hash is the study's key. The sources of packages come from cargo's dependency graph and the
//! modules of xtask from their `use crate::…` lines, so a new dependency is part of the key without a change here.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use serde_json::Value;
use warpproof_toolchain::{Options, Part, Toolchain};

/// What a study depends on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inputs<'a> {
    /// The module of xtask that does it; modules it uses are found from there.
    pub(super) module: Option<&'a str>,
    /// Packages whose programs or libraries it runs; what they depend on is added.
    pub(super) packages: &'a [&'a str],
    /// Packages whose tests it runs: their `tests/` directory and dev-dependencies count too.
    pub(super) tests: &'a [&'a str],
    /// Further files: a path, in which `*` stands for any one name, or a directory with a `/` at its end.
    pub(super) files: &'a [&'a str],
    pub(super) tools: &'a [Tool],
}

/// A program outside of the repository whose version can change the outcome. Python packages are pinned in files, which are
/// inputs themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tool {
    /// The Rust compiler, and the machine it compiles for.
    Rustc,
    /// The parts of NVIDIA's compiler that are found for each CUDA release.
    Cuda,
}

impl Tool {
    /// One line for each version.
    fn versions(self) -> Result<Vec<String>, String> {
        match self {
            Self::Rustc => {
                let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
                let version = printed(Command::new(rustc).arg("-V"))?;
                Ok(vec![
                    version.trim().to_owned(),
                    format!("target {} {}", std::env::consts::ARCH, std::env::consts::OS),
                ])
            }
            Self::Cuda => {
                let mut lines = Vec::new();
                for release in [12, 13] {
                    let found = Toolchain::find(&Options::from_env().with_cuda(release));
                    for part in Part::ALL {
                        let version = match &found {
                            Ok(toolchain) => toolchain.part(part).map(|part| part.version.to_string()),
                            Err(_) => None,
                        };
                        let version = version.unwrap_or_else(|| "not installed".to_owned());
                        lines.push(format!("CUDA {release} {} {version}", part.name()));
                    }
                }
                Ok(lines)
            }
        }
    }
}

/// A package of cargo's dependency graph.
#[derive(Debug)]
struct Package {
    name: String,
    version: String,
    /// Its directory from the root with a `/` at its end; `None` for packages of others.
    folder: Option<String>,
    features: Vec<String>,
    /// Ids of dependencies, and of those that only its tests have.
    dependencies: Vec<String>,
    for_tests: Vec<String>,
}

/// The checkout as it is now.
pub(super) struct Tree {
    root: PathBuf,
    files: BTreeSet<String>,
    /// By cargo's id.
    packages: BTreeMap<String, Package>,
    hashes: RefCell<BTreeMap<String, blake3::Hash>>,
    versions: RefCell<BTreeMap<Tool, Vec<String>>>,
}

impl Tree {
    pub(super) fn read(root: &Path) -> Result<Self, String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let metadata = printed(
            Command::new(cargo).args(["metadata", "--format-version", "1", "--locked"]).current_dir(root),
        )?;
        let metadata: Value = serde_json::from_str(&metadata)
            .map_err(|error| format!("cannot read cargo's metadata: {error}"))?;
        Ok(Self {
            root: root.to_owned(),
            files: listed(root)?,
            packages: packages(&metadata)?,
            hashes: RefCell::default(),
            versions: RefCell::default(),
        })
    }

    /// Everything that the inputs stand for, one per line, each kind sorted.
    pub(super) fn manifest(&self, inputs: &Inputs<'_>) -> Result<String, String> {
        let mut files = BTreeSet::new();
        let mut names: BTreeSet<String> = inputs.packages.iter().map(|name| (*name).to_owned()).collect();
        if let Some(module) = inputs.module {
            let modules = self.modules(module)?;
            names.extend(self.used_packages(&modules)?);
            files.extend(modules);
        }
        for path in inputs.files {
            let found: Vec<&str> = self.below(path).collect();
            if found.is_empty() {
                return Err(format!("expected files at `{path}`, found none"));
            }
            files.extend(found.into_iter().map(str::to_owned));
        }
        let closure = self.closure(&names, inputs.tests)?;
        let mut text = String::new();
        for (package, tested) in &closure {
            if let Some(folder) = &package.folder {
                let test_only = |path: &str| ["tests/", "benches/"].iter().any(|part| path.starts_with(part));
                let own = self.below(folder).filter(|path| *tested || !test_only(&path[folder.len()..]));
                files.extend(own.map(str::to_owned));
            }
            let Package { name, version, features, .. } = package;
            let _ = writeln!(text, "package {name} {version} [{}]", features.join(" "));
        }
        for path in &files {
            let _ = writeln!(text, "file {path} {}", self.hash(path)?.to_hex());
        }
        if !closure.is_empty() {
            for line in profiles(&self.text("Cargo.toml")?) {
                let _ = writeln!(text, "profile {line}");
            }
        }
        for tool in inputs.tools.iter().collect::<BTreeSet<_>>() {
            for line in self.versions(*tool)? {
                let _ = writeln!(text, "tool {line}");
            }
        }
        Ok(text)
    }

    /// The packages of this repository.
    pub(super) fn own_packages(&self) -> impl Iterator<Item = &str> {
        let own = self.packages.values().filter(|package| package.folder.is_some());
        own.map(|package| package.name.as_str())
    }

    /// The files that a path of [`Inputs::files`] stands for.
    fn below<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a str> {
        self.files.iter().map(String::as_str).filter(move |file| stands_for(path, file))
    }

    /// The files of a module of xtask and of all modules that it uses.
    fn modules(&self, module: &str) -> Result<BTreeSet<String>, String> {
        let mut found = BTreeSet::new();
        let mut open = vec![module.to_owned()];
        let mut seen = BTreeSet::from([module.to_owned()]);
        while let Some(name) = open.pop() {
            let (file, folder) = (format!("xtask/src/{name}.rs"), format!("xtask/src/{name}/"));
            if !self.files.contains(&file) {
                if name == module {
                    return Err(format!("xtask has no module `{module}`"));
                }
                // A function or type of main.rs.
                continue;
            }
            for path in [file].into_iter().chain(self.below(&folder).map(str::to_owned)) {
                for used in used_modules(&self.text(&path)?) {
                    if seen.insert(used.clone()) {
                        open.push(used);
                    }
                }
                found.insert(path);
            }
        }
        Ok(found)
    }

    /// Dependencies of xtask that occur in these files.
    fn used_packages(&self, files: &BTreeSet<String>) -> Result<Vec<String>, String> {
        let Some(xtask) = self.packages.values().find(|package| package.name == "xtask") else {
            return Err("cargo's metadata has no package `xtask`".to_owned());
        };
        let texts = files.iter().map(|path| self.text(path)).collect::<Result<Vec<String>, String>>()?;
        let names =
            xtask.dependencies.iter().filter_map(|id| self.packages.get(id)).map(|package| &package.name);
        let used = names.filter(|name| {
            let word = format!("{}::", name.replace('-', "_"));
            let alias = format!("use {} as ", name.replace('-', "_"));
            texts.iter().any(|text| text.contains(&word) || text.contains(&alias))
        });
        Ok(used.cloned().collect())
    }

    /// Packages of these names and all that they depend on, with whether their tests count, by name and version.
    fn closure(&self, names: &BTreeSet<String>, tests: &[&str]) -> Result<Vec<(&Package, bool)>, String> {
        let mut open = Vec::new();
        for name in names.iter().map(String::as_str).chain(tests.iter().copied()) {
            let same: Vec<&String> =
                self.packages.iter().filter(|(_, package)| package.name == name).map(|(id, _)| id).collect();
            if same.is_empty() {
                return Err(format!("cargo's metadata has no package `{name}`"));
            }
            open.extend(same);
        }
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut found = Vec::new();
        while let Some(id) = open.pop() {
            let Some(package) = self.packages.get(id) else { continue };
            if !seen.insert(id) {
                continue;
            }
            let tested = package.folder.is_some() && tests.contains(&package.name.as_str());
            open.extend(&package.dependencies);
            if tested {
                open.extend(&package.for_tests);
            }
            found.push((package, tested));
        }
        found.sort_by(|(one, _), (other, _)| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
        Ok(found)
    }

    fn text(&self, path: &str) -> Result<String, String> {
        fs::read_to_string(self.root.join(path)).map_err(|error| format!("cannot read {path}: {error}"))
    }

    /// The hash of a file. Of Rust code only the tokens count, so a reworded comment changes no key; documentation counts where it is
    /// part of the program.
    fn hash(&self, path: &str) -> Result<blake3::Hash, String> {
        if let Some(hash) = self.hashes.borrow().get(path) {
            return Ok(*hash);
        }
        let bytes = fs::read(self.root.join(path)).map_err(|error| format!("cannot read {path}: {error}"))?;
        let tokens = if Path::new(path).extension().is_some_and(|extension| extension == "rs") {
            std::str::from_utf8(&bytes).ok().and_then(|text| tokens(text, self.prints_docs(path)))
        } else {
            None
        };
        let hash = tokens.map_or_else(|| blake3::hash(&bytes), |tokens| blake3::hash(tokens.as_bytes()));
        self.hashes.borrow_mut().insert(path.to_owned(), hash);
        Ok(hash)
    }

    /// Whether documentation comments of a file end up in what a program prints: its help, or the description of its API.
    fn prints_docs(&self, path: &str) -> bool {
        let is_printer = |id: &String| {
            self.packages.get(id).is_some_and(|used| ["clap", "utoipa"].contains(&used.name.as_str()))
        };
        self.packages.values().any(|package| {
            let inside = package.folder.as_ref().is_some_and(|folder| path.starts_with(folder.as_str()));
            inside && package.dependencies.iter().any(is_printer)
        })
    }

    fn versions(&self, tool: Tool) -> Result<Vec<String>, String> {
        if let Some(lines) = self.versions.borrow().get(&tool) {
            return Ok(lines.clone());
        }
        let lines = tool.versions()?;
        self.versions.borrow_mut().insert(tool, lines.clone());
        Ok(lines)
    }
}

/// The tokens of Rust code, with or without its documentation comments. `None` if it is not Rust code, as a test's input may be.
fn tokens(text: &str, docs: bool) -> Option<String> {
    let mut found = String::with_capacity(text.len());
    add_tokens(text.parse().ok()?, docs, &mut found);
    Some(found)
}

fn add_tokens(stream: TokenStream, docs: bool, found: &mut String) {
    let mut tokens = stream.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            // A documentation comment is `#[doc = "…"]` or `#![doc = "…"]` to the parser.
            TokenTree::Punct(mark) if mark.as_char() == '#' && !docs => {
                let inner =
                    tokens.next_if(|next| matches!(next, TokenTree::Punct(mark) if mark.as_char() == '!'));
                if tokens.next_if(is_doc).is_none() {
                    found.push_str(if inner.is_some() { "#! " } else { "# " });
                }
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ('(', ')'),
                    Delimiter::Brace => ('{', '}'),
                    Delimiter::Bracket => ('[', ']'),
                    Delimiter::None => (' ', ' '),
                };
                found.push(open);
                add_tokens(group.stream(), docs, found);
                found.push(close);
            }
            other => {
                found.push_str(&other.to_string());
                found.push(' ');
            }
        }
    }
}

/// `[doc = "…"]`
fn is_doc(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else { return false };
    let mut inside = group.stream().into_iter();
    group.delimiter() == Delimiter::Bracket
        && matches!(inside.next(), Some(TokenTree::Ident(name)) if name == "doc")
        && matches!(inside.next(), Some(TokenTree::Punct(mark)) if mark.as_char() == '=')
}

/// Whether a path of [`Inputs::files`] stands for this file.
fn stands_for(path: &str, file: &str) -> bool {
    if path.ends_with('/') {
        return file.starts_with(path);
    }
    let (wanted, found) = (path.split('/'), file.split('/'));
    wanted.clone().count() == found.clone().count()
        && wanted.zip(found).all(|(one, other)| one == "*" || one == other)
}

/// What a program prints; its failure is an error.
fn printed(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("cannot start {name}: {error}"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{name} failed: {}", errors.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Files that git tracks or would track, and that exist.
fn listed(root: &Path) -> Result<BTreeSet<String>, String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
    let list = printed(&mut git)?;
    let paths = list.split('\0').filter(|path| !path.is_empty() && root.join(path).is_file());
    Ok(paths.map(str::to_owned).collect())
}

/// The packages of `cargo metadata`, by id.
fn packages(metadata: &Value) -> Result<BTreeMap<String, Package>, String> {
    let root = text(metadata, "workspace_root")?;
    let mut found = BTreeMap::new();
    for package in array(metadata, "packages")? {
        let manifest = text(package, "manifest_path")?;
        let folder = match package.get("source") {
            None | Some(Value::Null) => {
                let folder = manifest.strip_prefix(root).and_then(|path| path.strip_suffix("Cargo.toml"));
                let folder =
                    folder.ok_or_else(|| format!("the package at {manifest} is not below {root}"))?;
                Some(folder.trim_start_matches(['/', '\\']).replace('\\', "/"))
            }
            Some(_) => None,
        };
        let (name, version) = (text(package, "name")?.to_owned(), text(package, "version")?.to_owned());
        let empty = Vec::new;
        let package_of_graph =
            Package { name, version, folder, features: empty(), dependencies: empty(), for_tests: empty() };
        found.insert(text(package, "id")?.to_owned(), package_of_graph);
    }
    let nodes = metadata.get("resolve").ok_or("cargo's metadata has no dependency graph")?;
    for node in array(nodes, "nodes")? {
        let id = text(node, "id")?;
        let package = found.get_mut(id).ok_or_else(|| format!("cargo's metadata does not describe {id}"))?;
        package.features =
            array(node, "features")?.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        package.features.sort();
        for dependency in array(node, "deps")? {
            let kinds = array(dependency, "dep_kinds")?;
            let only_tests = kinds.iter().all(|kind| kind.get("kind").and_then(Value::as_str) == Some("dev"));
            let list = if only_tests { &mut package.for_tests } else { &mut package.dependencies };
            list.push(text(dependency, "pkg")?.to_owned());
        }
    }
    Ok(found)
}

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str, String> {
    value.get(field).and_then(Value::as_str).ok_or_else(|| format!("cargo's metadata lacks `{field}`"))
}

fn array<'a>(value: &'a Value, field: &str) -> Result<&'a [Value], String> {
    let list = value.get(field).and_then(Value::as_array).map(Vec::as_slice);
    list.ok_or_else(|| format!("cargo's metadata lacks `{field}`"))
}

/// First names after `crate::` in a Rust file, also in braces.
fn used_modules(source: &str) -> Vec<String> {
    let first_word = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
    };
    let mut found = Vec::new();
    for (at, _) in source.match_indices("crate::") {
        let rest = &source[at + "crate::".len()..];
        match rest.strip_prefix('{').and_then(|list| list.split_once("};")) {
            Some((list, _)) => found.extend(list.split(',').map(first_word)),
            None => found.push(first_word(rest)),
        }
    }
    found.retain(|name| !name.is_empty());
    found
}

/// The lines of the root manifest that decide how packages are built.
fn profiles(manifest: &str) -> Vec<&str> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line.starts_with("[profile");
        }
        if inside && !line.is_empty() && !line.starts_with('#') {
            found.push(line);
        }
    }
    found
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A checkout with a package `tool`, which depends on `core`, and an xtask with a study.
    pub(crate) fn checkout() -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        for (path, text) in [
            ("Cargo.toml", "[workspace]\n# A comment.\n[profile.dev]\nopt-level = 1\n"),
            ("core/src/lib.rs", "pub fn one() {}\n"),
            ("core/tests/one.rs", "fn one() {}\n"),
            ("tool/src/main.rs", "fn main() {}\n"),
            ("tool/tests/ui.rs", "fn ui() {}\n"),
            ("apart/src/lib.rs", "\n"),
            ("kernels/a.cu", "a\n"),
            ("xtask/src/study.rs", "use crate::{page, root};\n"),
            ("xtask/src/study/case.rs", "use crate::root;\n"),
            ("xtask/src/page.rs", "use core_library::one;\n"),
            ("xtask/src/other.rs", "use crate::page;\n"),
        ] {
            write(root, path, text);
        }
        place
    }

    pub(crate) fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The tree of such a checkout, with a graph that needs no cargo.
    pub(crate) fn tree(root: &Path) -> Tree {
        fn walk(root: &Path, folder: &Path, files: &mut BTreeSet<String>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(root, &path, files);
                } else {
                    files.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        let mut files = BTreeSet::new();
        walk(root, root, &mut files);
        let package = |name: &str, dev: &str, dependencies: &[&str]| {
            let deps: Vec<Value> = dependencies
                .iter()
                .map(|name| serde_json::json!({"pkg": name, "dep_kinds": [{"kind": null}]}))
                .chain(
                    (!dev.is_empty())
                        .then(|| serde_json::json!({"pkg": dev, "dep_kinds": [{"kind": "dev"}]})),
                )
                .collect();
            serde_json::json!({"id": name, "features": ["std"], "deps": deps})
        };
        let described = |name: &str, folder: &str, source: Value| {
            let manifest_path = format!("{}/{folder}/Cargo.toml", root.display());
            serde_json::json!({"id": name, "name": name, "version": "1.0.0", "source": source, "manifest_path": manifest_path})
        };
        let metadata = serde_json::json!({
            "workspace_root": root.display().to_string(),
            "packages": [
                described("core-library", "core", Value::Null),
                described("tool", "tool", Value::Null),
                described("apart", "apart", Value::Null),
                described("xtask", "xtask", Value::Null),
                described("harness", "elsewhere", "registry".into()),
            ],
            "resolve": {"nodes": [
                package("core-library", "", &[]),
                package("tool", "harness", &["core-library"]),
                package("apart", "", &[]),
                package("xtask", "", &["core-library", "apart"]),
                package("harness", "", &[]),
            ]},
        });
        Tree {
            root: root.to_owned(),
            files,
            packages: packages(&metadata).unwrap(),
            hashes: RefCell::default(),
            versions: RefCell::new(BTreeMap::from([(Tool::Rustc, vec!["rustc 1.0".to_owned()])])),
        }
    }

    pub(crate) const INPUTS: Inputs<'static> = Inputs {
        module: Some("study"),
        packages: &["tool"],
        tests: &[],
        files: &["kernels/"],
        tools: &[Tool::Rustc],
    };

    #[test]
    fn modules_packages_and_files_are_found() {
        let place = checkout();
        let manifest = tree(place.path()).manifest(&INPUTS).unwrap();
        let kinds: Vec<String> =
            manifest.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
        let expected = [
            "package core-library",
            "package tool",
            "file core/src/lib.rs",
            "file kernels/a.cu",
            "file tool/src/main.rs",
            "file xtask/src/page.rs",
            "file xtask/src/study.rs",
            "file xtask/src/study/case.rs",
            "profile [profile.dev]",
            "profile opt-level",
            "tool rustc",
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn tests_count_where_they_are_run() {
        let place = checkout();
        let tested = Inputs { tests: &["tool"], ..INPUTS };
        let manifest = tree(place.path()).manifest(&tested).unwrap();
        assert!(
            manifest.contains("file tool/tests/ui.rs ") && manifest.contains("package harness "),
            "{manifest}"
        );
        assert!(!manifest.contains("core/tests"), "{manifest}");
    }

    #[test]
    fn names_of_nothing_are_refused() {
        let place = checkout();
        let tree = tree(place.path());
        let error = |inputs: &Inputs| tree.manifest(inputs).unwrap_err();
        assert!(error(&Inputs { files: &["kernel/"], ..INPUTS }).contains("`kernel/`"));
        assert!(error(&Inputs { packages: &["tol"], ..INPUTS }).contains("`tol`"));
        assert!(error(&Inputs { module: Some("stud"), ..INPUTS }).contains("`stud`"));
    }

    #[test]
    fn a_path_stands_for_a_file_a_directory_or_any_one_name() {
        assert!(stands_for("a/b.rs", "a/b.rs") && !stands_for("a/b.rs", "a/b.rs.orig"));
        assert!(stands_for("a/", "a/b/c.rs") && !stands_for("a/", "ab/c.rs"));
        assert!(stands_for("a/*/c", "a/b/c") && !stands_for("a/*/c", "a/b/b/c"));
    }

    #[test]
    fn only_tokens_of_rust_code_count() {
        let plain = tokens("fn one() -> &'static str { \"a // b\" }", false).unwrap();
        let commented = "//! Head.\n/// One.\nfn one() // why\n -> &'static str {\n\"a // b\" }";
        assert_eq!(tokens(commented, false).unwrap(), plain);
        assert_ne!(tokens(commented, true).unwrap(), plain);
        assert_ne!(tokens("#[test] fn one() -> &'static str { \"a // b\" }", false).unwrap(), plain);
        assert_ne!(tokens("fn one() -> &'static str { \"a / b\" }", false).unwrap(), plain);
        assert_eq!(tokens("fn one( {", false), None);
    }

    #[test]
    fn modules_are_found_in_braces_too() {
        assert_eq!(used_modules("use crate::{a, b::c};\ncrate::d::e(); use crate::f;"), ["a", "b", "d", "f"]);
    }
}
