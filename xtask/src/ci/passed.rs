//! What passed on this machine: the keys of studies and of the tests of packages.
//!
//! A key is a hash over everything that the work depends on, so it is the same on every machine and at every date. The keys are
//! kept outside of the checkout and are never committed: only the job that ran the work writes them.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use super::tree::{Inputs, Tree};

/// Keys that are kept for each name. A key is the same again when a change is undone or a branch is left.
const KEPT: usize = 50;

/// How much of the work passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Extent {
    Sample,
    Whole,
}

impl Extent {
    fn name(self) -> &'static str {
        match self {
            Self::Sample => "sample",
            Self::Whole => "whole",
        }
    }
}

/// The key of some work, and the list of its inputs.
pub(super) fn key(
    tree: &Tree,
    name: &str,
    version: u32,
    inputs: &Inputs<'_>,
) -> Result<(String, String), String> {
    let manifest = format!("study {name} {version}\n{}", tree.manifest(inputs)?);
    Ok((blake3::hash(manifest.as_bytes()).to_hex().to_string(), manifest))
}

/// A directory with a file for each name, in which each line is a key and its extent.
#[derive(Clone, Debug)]
pub(super) struct Passed(PathBuf);

impl Passed {
    /// Those of this machine: `$WARPPROOF_CI_HOME/passed`, as `.ci/run` has it.
    pub(super) fn of_machine() -> Option<Self> {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = set("WARPPROOF_CI_HOME")
            .or_else(|| Some(set("XDG_CACHE_HOME")?.join("warpproof-ci")))
            .or_else(|| Some(set("HOME")?.join(".cache").join("warpproof-ci")))?;
        Some(Self::at(&home.join("passed")))
    }

    fn at(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// The largest extent in which the work with this key passed. A file that cannot be read knows nothing.
    pub(super) fn extent(&self, name: &str, key: &str) -> Option<Extent> {
        let text = fs::read_to_string(self.0.join(name)).ok()?;
        let known = text.lines().filter_map(|line| line.strip_prefix(key));
        known
            .filter_map(|rest| match rest.trim() {
                "sample" => Some(Extent::Sample),
                "whole" => Some(Extent::Whole),
                _ => None,
            })
            .max()
    }

    pub(super) fn insert(&self, name: &str, key: &str, extent: Extent) -> Result<(), String> {
        let file = self.0.join(name);
        let old = fs::read_to_string(&file).unwrap_or_default();
        let line = format!("{key} {}", extent.name());
        let mut lines: Vec<&str> = old.lines().filter(|known| *known != line).collect();
        lines.push(&line);
        let first = lines.len().saturating_sub(KEPT);
        let text = lines[first..].join("\n") + "\n";
        fs::create_dir_all(&self.0)
            .and_then(|()| fs::write(&file, text))
            .map_err(|error| format!("cannot write {}: {error}", file.display()))
    }
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
            ("tool/src/main.rs", "fn main() { one(); }\n"),
            ("kernels/a.cu", "b\n"),
            ("kernels/b.cu", "a\n"),
            ("xtask/src/page.rs", "use core_library::one as two;\n"),
            ("xtask/src/study/more.rs", "\n"),
            ("Cargo.toml", "[workspace]\n[profile.dev]\nopt-level = 2\n"),
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
            ("apart/src/lib.rs", "pub fn changed() {}\n"),
            ("core/tests/one.rs", "fn changed() {}\n"),
            ("xtask/src/other.rs", "fn changed() {}\n"),
            ("Cargo.toml", "[workspace]\n# Another comment.\n[profile.dev]\nopt-level = 1\n"),
            // Comments and layout of Rust code.
            ("core/src/lib.rs", "//! About one.\n\n/// One.\npub fn one()\n{ /* nothing */ }\n"),
            ("xtask/src/page.rs", "// About the page.\nuse core_library::one;\n"),
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
    fn keys_are_kept_with_their_largest_extent() {
        let place = tempfile::tempdir().unwrap();
        let passed = Passed::at(&place.path().join("passed"));
        assert_eq!(passed.extent("mutants", "k1"), None);
        passed.insert("mutants", "k1", Extent::Whole).unwrap();
        passed.insert("mutants", "k1", Extent::Sample).unwrap();
        passed.insert("mutants", "k2", Extent::Sample).unwrap();
        assert_eq!(passed.extent("mutants", "k1"), Some(Extent::Whole));
        assert_eq!(passed.extent("mutants", "k2"), Some(Extent::Sample));
        assert_eq!(passed.extent("mutants", "k3"), None);
        assert_eq!(passed.extent("hopper", "k1"), None);
    }

    #[test]
    fn old_keys_make_room() {
        let place = tempfile::tempdir().unwrap();
        let passed = Passed::at(place.path());
        for number in 0..=KEPT {
            passed.insert("book", &format!("key{number:03}"), Extent::Sample).unwrap();
        }
        assert_eq!(passed.extent("book", "key000"), None);
        assert_eq!(passed.extent("book", "key001"), Some(Extent::Sample));
    }
}
