//! What the build scripts of `driver` and `runtime` share: which functions of a C interface are implemented, and stubs for the
//! others.
//!
//! An implementation is `fn name | name | name => (arguments) {…}` inside of a macro such as `api!`. A stub calls
//! `crate::api::unsupported` with its name and returns the result.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

/// The names that the macros of the files of a folder define.
pub fn implemented(folder: &Path, macros: &[&str]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        for name in macros {
            for block in text.split(&format!("{name}! {{")).skip(1) {
                // A comment comes before the function.
                let Some((_, after)) = block.split_once("\n    fn ") else { continue };
                let list = after.split("=>").next().unwrap_or_default();
                names.extend(list.split('|').map(|name| name.trim().to_owned()));
            }
        }
    }
    names
}

/// The names of a list with one name per line and comments that start with `#`.
pub fn listed(list: &str) -> impl Iterator<Item = &str> {
    list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The text of a function that is not supported, with the attribute that exports its symbol.
pub fn stub(name: &str, attribute: &str) -> String {
    let call = format!("crate::api::unsupported(\"{name}\")");
    format!("/// Not supported.\n#[unsafe({attribute})]\npub extern \"C\" fn {name}() -> u32 {{ {call} }}\n")
}

/// Writes the text that `src/api/symbols.rs` includes. A failure is an error of the build.
#[expect(clippy::print_stdout, reason = "build scripts report to cargo this way")]
pub fn write(text: &str) {
    let folder = env::var("OUT_DIR").unwrap_or_default();
    if let Err(error) = fs::write(Path::new(&folder).join("symbols.rs"), text) {
        println!("cargo::error=cannot write symbols.rs: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_each_macro_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let text = "macro_rules! api {}\napi! {\n    /// One.\n    fn one | one_v2 => () { plain() }\n}\n\
                    plain! {\n    /// Two.\n    fn two => () -> u32, 0, {}\n}\nother! {\n    /// No.\n    fn no => () {}\n}\n";
        fs::write(folder.path().join("a.rs"), text).unwrap();
        fs::write(
            folder.path().join("b.rs"),
            "api! {\n    /// Three.\n    fn three\n    | four => () {}\n}\n",
        )
        .unwrap();
        let found = |macros: &[&str]| implemented(folder.path(), macros).into_iter().collect::<Vec<_>>();
        assert_eq!(found(&["api"]), ["four", "one", "one_v2", "three"]);
        assert_eq!(found(&["plain"]), ["two"]);
        assert_eq!(found(&["api", "plain"]).len(), 5);
        assert!(implemented(&folder.path().join("absent"), &["api"]).is_empty());
    }

    #[test]
    fn a_list_has_comments() {
        assert_eq!(listed("# names\n\n one\ntwo\n").collect::<Vec<_>>(), ["one", "two"]);
    }

    #[test]
    fn a_stub_names_itself() {
        let text = stub("cuNothing", "no_mangle");
        assert!(text.contains("#[unsafe(no_mangle)]\npub extern \"C\" fn cuNothing() -> u32"), "{text}");
        assert!(text.contains("crate::api::unsupported(\"cuNothing\")"), "{text}");
    }
}
