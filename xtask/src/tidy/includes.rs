//! Files that a package includes at compile time are inside the package: a published package contains nothing else.

use super::File;

/// The macros that read a file at compile time.
const MACROS: [&str; 2] = ["include_str!(", "include_bytes!("];

pub(super) fn stay_in_the_package(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.has_extension("rs")) {
        let Some(package) = package_of(&file.path) else { continue };
        for (index, line) in file.text.lines().enumerate() {
            for call in MACROS.iter().flat_map(|name| line.split(name).skip(1)) {
                let Some(path) = call.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next())
                else {
                    // A path built from variables of cargo, which are absolute.
                    continue;
                };
                if !is_below(&file.path, path, package) {
                    let message = format!("`{path}` is outside of the package; link it into tests/data");
                    found.push(file.at(index + 1, &message));
                }
            }
        }
    }
    found
}

/// The folder of a file's package: `crates/NAME` or `xtask`. Others are not published.
fn package_of(path: &str) -> Option<&str> {
    if path.starts_with("xtask/") {
        return Some("xtask");
    }
    let rest = path.strip_prefix("crates/")?;
    let name = rest.split('/').next()?;
    path.get(.."crates/".len() + name.len())
}

/// Whether a path from a file leads to a place below a folder.
fn is_below(file: &str, path: &str, folder: &str) -> bool {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                if parts.pop().is_none() {
                    return false;
                }
            }
            part => parts.push(part),
        }
    }
    !path.starts_with('/') && parts.join("/").strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::{super::tests::file, *};

    fn errors(path: &str, text: &str) -> Vec<String> {
        stay_in_the_package(&[file(path, text)])
    }

    #[test]
    fn a_path_that_leaves_the_package_is_found() {
        let text = format!("let a = 1;\nlet b = {}\"../../fleet/a.txt\");\n", MACROS[0]);
        let found = errors("crates/gate/src/lib.rs", &text);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/gate/src/lib.rs:2:"), "{found:?}");
        let other = format!("{}\"../../../gate-files/x\")", MACROS[1]);
        assert_eq!(errors("crates/gate/src/a/b.rs", &other).len(), 1);
        let absolute = format!("{}\"/etc/x\")", MACROS[1]);
        assert_eq!(errors("crates/gate/src/a.rs", &absolute).len(), 1);
        assert_eq!(errors("crates/gate/src/a.rs", &format!("{}\"../../../../x\")", MACROS[1])).len(), 1);
    }

    #[test]
    fn a_path_that_stays_is_not() {
        for path in ["a.css", "../data/a.csv", "../../gate/a.txt", "./x/../a"] {
            let text = format!("{}\"{path}\")", MACROS[0]);
            assert!(errors("crates/gate/src/lib.rs", &text).is_empty(), "{path}");
        }
        let made = format!("{}env!(\"X\"))", MACROS[1]);
        assert!(errors("crates/gate/src/lib.rs", &made).is_empty());
        assert!(errors("fuzz/a.rs", &format!("{}\"../x\")", MACROS[0])).is_empty());
    }
}
