//! `xtask/known.toml`: the keys under which studies passed.
//!
//! A key is a hash over everything that the study depends on, so it is the same on every machine and at every date. A line
//! is written by `cargo xtask ci --stamp` after the study passed, and committed. A reviewer can run `cargo
//! xtask ci --full`, which ignores the file; the nightly workflow does.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use super::tree::{Inputs, Tree};

/// From the root. No study may depend on it.
pub(super) const FILE: &str = "xtask/known.toml";

const HEAD: &str =
    "# Studies that passed, each with the hash of what it depends on. Written by `cargo xtask ci --stamp`.
# In a merge conflict take either side: a key that does not fit makes its study run.\n";

/// Digits of a key.
const DIGITS: usize = 64;

/// The key of a study.
pub(super) fn key(
    tree: &Tree,
    name: &str,
    version: u32,
    inputs: &Inputs,
) -> Result<(String, String), String> {
    let manifest = format!("study {name} {version}\n{}", tree.manifest(inputs)?);
    if manifest.lines().any(|line| line.starts_with(&format!("file {FILE} "))) {
        return Err(format!("`{name}` depends on {FILE}, which its own key would change"));
    }
    Ok((blake3::hash(manifest.as_bytes()).to_hex().to_string(), manifest))
}

/// Keys by the names of studies.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Stamps(BTreeMap<String, String>);

impl Stamps {
    pub(super) fn read(root: &Path, studies: &[&str]) -> Result<Self, String> {
        match fs::read_to_string(place(root)) {
            Ok(text) => Self::parse(&text, studies),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("cannot read {FILE}: {error}")),
        }
    }

    /// Refuses every line that `--stamp` would not have written.
    fn parse(text: &str, studies: &[&str]) -> Result<Self, String> {
        let mut found = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let refused = |problem: &str| {
                let line_number = index + 1;
                format!(
                    "{FILE}:{line_number}: {problem}\nhelp: delete the line; `cargo xtask ci --stamp` writes it when the study passes"
                )
            };
            let pair =
                line.split_once(" = \"").and_then(|(name, rest)| Some((name, rest.strip_suffix('"')?)));
            let Some((name, key)) = pair else {
                return Err(refused(&format!("expected `study = \"key\"`, found `{}`", line.escape_debug())));
            };
            if !studies.contains(&name) {
                return Err(refused(&format!("there is no study `{}`", name.escape_debug())));
            }
            let digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
            if key.len() != DIGITS || !key.chars().all(digit) {
                let found = key.escape_debug();
                return Err(refused(&format!(
                    "expected a key of {DIGITS} hexadecimal digits, found `{found}`"
                )));
            }
            if found.last_key_value().is_some_and(|(last, _): (&String, &String)| last.as_str() >= name) {
                return Err(refused(&format!("`{name}` is a duplicate or not in alphabetical order")));
            }
            found.insert(name.to_owned(), key.to_owned());
        }
        Ok(Self(found))
    }

    pub(super) fn knows(&self, name: &str, key: &str) -> bool {
        self.0.get(name).is_some_and(|known| known == key)
    }

    pub(super) fn insert(&mut self, name: &str, key: String) {
        self.0.insert(name.to_owned(), key);
    }

    pub(super) fn write(&self, root: &Path) -> Result<(), String> {
        fs::write(place(root), self.text()).map_err(|error| format!("cannot write {FILE}: {error}"))
    }

    fn text(&self) -> String {
        self.0.iter().fold(HEAD.to_owned(), |mut text, (name, key)| {
            let _ = writeln!(text, "{name} = \"{key}\"");
            text
        })
    }
}

fn place(root: &Path) -> PathBuf {
    root.join(FILE)
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::{INPUTS, checkout, tree, write};
    use super::*;

    fn key_of(root: &Path) -> String {
        key(&tree(root), "study", 1, &INPUTS).unwrap().0
    }

    #[test]
    fn an_unchanged_tree_has_the_same_key_wherever_it_is() {
        let (one, other) = (checkout(), checkout());
        assert_eq!(key_of(one.path()), key_of(one.path()));
        assert_eq!(key_of(one.path()), key_of(other.path()));
    }

    #[test]
    fn every_input_changes_the_key() {
        for (path, text) in [
            ("core/src/lib.rs", "pub fn two() {}\n"),
            ("core/src/more.rs", "\n"),
            ("tool/src/main.rs", "fn main() { }\n"),
            ("kernels/a.cu", "b\n"),
            ("kernels/b.cu", "a\n"),
            ("xtask/src/page.rs", "use core_library::one; // changed\n"),
            ("xtask/src/study/more.rs", "\n"),
            ("Cargo.toml", "[profile.dev]\nopt-level = 2\n"),
        ] {
            let place = checkout();
            let before = key_of(place.path());
            write(place.path(), path, text);
            assert_ne!(key_of(place.path()), before, "{path}");
        }
    }

    #[test]
    fn what_is_no_input_does_not_change_the_key() {
        for (path, text) in [
            ("apart/src/lib.rs", "// changed\n"),
            ("core/tests/one.rs", "// changed\n"),
            ("xtask/src/other.rs", "// changed\n"),
            ("xtask/known.toml", "study = \"\"\n"),
            ("Cargo.toml", "[workspace]\n# Another comment.\n[profile.dev]\nopt-level = 1\n"),
        ] {
            let place = checkout();
            let before = key_of(place.path());
            write(place.path(), path, text);
            assert_eq!(key_of(place.path()), before, "{path}");
        }
    }

    #[test]
    fn a_removed_input_and_another_name_or_version_change_the_key() {
        let place = checkout();
        let before = key_of(place.path());
        let tree_before = tree(place.path());
        assert_ne!(key(&tree_before, "study", 2, &INPUTS).unwrap().0, before);
        assert_ne!(key(&tree_before, "other", 1, &INPUTS).unwrap().0, before);
        fs::remove_file(place.path().join("xtask/src/study/case.rs")).unwrap();
        assert_ne!(key_of(place.path()), before);
    }

    #[test]
    fn the_stamps_are_no_input() {
        let place = checkout();
        write(place.path(), FILE, "");
        let error =
            key(&tree(place.path()), "study", 1, &Inputs { files: &["xtask/"], ..INPUTS }).unwrap_err();
        assert!(error.contains("its own key"), "{error}");
    }

    #[test]
    fn stamps_are_written_sorted_and_read_back() {
        let place = checkout();
        let studies = ["a", "b"];
        assert_eq!(Stamps::read(place.path(), &studies), Ok(Stamps::default()));
        let mut stamps = Stamps::default();
        let (one, other) = ("1".repeat(DIGITS), "f".repeat(DIGITS));
        stamps.insert("b", other.clone());
        stamps.insert("a", one.clone());
        fs::create_dir_all(place.path().join("xtask")).unwrap();
        stamps.write(place.path()).unwrap();
        assert_eq!(Stamps::read(place.path(), &studies), Ok(stamps));
        let text = fs::read_to_string(place.path().join(FILE)).unwrap();
        assert!(text.ends_with(&format!("a = \"{one}\"\nb = \"{other}\"\n")), "{text}");
        let read = Stamps::read(place.path(), &studies).unwrap();
        assert!(read.knows("a", &one) && !read.knows("a", &other) && !read.knows("c", &one));
    }

    #[test]
    fn garbage_is_refused_at_its_line() {
        let good = "0".repeat(DIGITS);
        for (text, expected) in [
            ("<<<<<<< ours\n".to_owned(), "known.toml:1: expected `study = \"key\"`, found `<<<<<<< ours`"),
            ("# head\na = \"\"\n".to_owned(), "known.toml:2: expected a key of 64 hexadecimal digits"),
            (format!("a = \"{}\"\n", "F".repeat(DIGITS)), "hexadecimal"),
            (format!("a = \"{good}\n"), "expected `study = \"key\"`"),
            (format!("c = \"{good}\"\n"), "there is no study `c`"),
            (format!("a = \"{good}\"\na = \"{good}\"\n"), "duplicate"),
            (format!("b = \"{good}\"\na = \"{good}\"\n"), "alphabetical"),
            ("a = \"passed\"\n".to_owned(), "found `passed`"),
        ] {
            let error = Stamps::parse(&text, &["a", "b"]).unwrap_err();
            assert!(error.contains(expected) && error.contains("help: "), "{error}");
        }
    }
}
