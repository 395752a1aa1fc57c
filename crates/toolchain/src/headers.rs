//! Which headers a source may read, for the key of the build cache.
//!
//! NVRTC does not report dependencies, so this module searches the text for include directives, without evaluating conditions or
//! macros. The result is conservative: the key may include a header that is not read, but never misses one that is read. Therefore
//! a name counts in every search directory where it exists, not only in the first; and if the text is inconclusive (a header named
//! by a macro, the time of day), the source is not cached at all.
//!
//! A macro that names a header inside CUDA's own headers refers to other CUDA headers, and their release is in the key.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use warpproof_sandbox::{Outside, Roots};

use crate::cache::KeyBuilder;

/// Limits of a scan; a source that exceeds them is not cached.
const MAX_FILES: usize = 20_000;
const MAX_BYTES: usize = 512 << 20;

/// Result of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scan {
    /// Every header is in the key.
    Whole,
    /// Every header is in the key, but the PTX depends on the time of day.
    TimeOfDay,
    /// A macro names a header, or there are too many headers: the set of files is unknown.
    Unknown,
}

/// Adds every header that `text` may read to the key. A user header outside of the roots is an error and is not read.
pub(crate) fn add_to_key(
    key: &mut KeyBuilder,
    text: &str,
    directory: &Path,
    user_dirs: &[PathBuf],
    toolkit_dirs: &[PathBuf],
    roots: &Roots,
) -> Result<Scan, Outside> {
    let mut scan = Scan::Whole;
    let mut searched: Vec<&Path> = vec![directory];
    searched.extend(user_dirs.iter().map(PathBuf::as_path));
    searched.extend(toolkit_dirs.iter().map(PathBuf::as_path));

    let mut seen: BTreeSet<PathBuf> = BTreeSet::new();
    let mut tried: BTreeSet<(String, PathBuf)> = BTreeSet::new();
    let Some(names) = names_in(text, false) else { return Ok(Scan::Unknown) };
    if asks_for_time(text) {
        scan = Scan::TimeOfDay;
    }
    let mut pending: Vec<(PathBuf, Vec<String>)> = vec![(directory.to_owned(), names)];
    let mut bytes = 0_usize;
    while let Some((from, names)) = pending.pop() {
        for name in names {
            if !tried.insert((name.clone(), from.clone())) {
                continue;
            }
            for dir in std::iter::once(from.as_path()).chain(searched.iter().copied()) {
                let path = dir.join(&name);
                if seen.contains(&path) || !path.is_file() {
                    continue;
                }
                // Headers of the toolkit include each other through `../` and symbolic links.
                let resolved = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
                let within = |dir: &PathBuf| fs::canonicalize(dir).is_ok_and(|dir| resolved.starts_with(dir));
                let of_toolkit = toolkit_dirs.iter().any(within);
                if !of_toolkit {
                    roots.check(&path)?;
                }
                let Ok(content) = fs::read(&path) else { return Ok(Scan::Unknown) };
                bytes = bytes.saturating_add(content.len());
                if seen.len() >= MAX_FILES || bytes > MAX_BYTES {
                    return Ok(Scan::Unknown);
                }
                key.add(path.as_os_str().as_encoded_bytes()).add(&content);
                let content = String::from_utf8_lossy(&content);
                if !of_toolkit && asks_for_time(&content) {
                    scan = Scan::TimeOfDay;
                }
                let Some(names) = names_in(&content, of_toolkit) else { return Ok(Scan::Unknown) };
                let parent = path.parent().unwrap_or(dir).to_owned();
                seen.insert(path);
                pending.push((parent, names));
            }
        }
    }
    Ok(scan)
}

/// Whether a text depends on the time of compilation.
fn asks_for_time(text: &str) -> bool {
    ["__TIME__", "__DATE__", "__TIMESTAMP__"].iter().any(|word| text.contains(word))
}

/// The files that a source in `directory` may read, except the toolkit's own headers. `None` if a macro names a header or if the
/// source depends on the time of day. Files outside of the roots are listed but not read.
pub fn included_files(text: &str, directory: &Path, roots: &Roots) -> Option<Vec<PathBuf>> {
    let mut seen: BTreeSet<PathBuf> = BTreeSet::new();
    if asks_for_time(text) {
        return None;
    }
    let mut pending: Vec<(PathBuf, Vec<String>)> = vec![(directory.to_owned(), names_in(text, false)?)];
    let mut bytes = 0_usize;
    while let Some((from, names)) = pending.pop() {
        for name in names {
            for dir in [from.as_path(), directory] {
                let path = dir.join(&name);
                if seen.contains(&path) || !path.is_file() {
                    continue;
                }
                if !roots.contain(&path) {
                    seen.insert(path);
                    continue;
                }
                let content = fs::read(&path).ok()?;
                bytes = bytes.saturating_add(content.len());
                if seen.len() >= MAX_FILES || bytes > MAX_BYTES {
                    return None;
                }
                let content = String::from_utf8_lossy(&content);
                if asks_for_time(&content) {
                    return None;
                }
                let names = names_in(&content, false)?;
                pending.push((path.parent().unwrap_or(dir).to_owned(), names));
                seen.insert(path);
            }
        }
    }
    Some(seen.into_iter().collect())
}

/// The names in a text's include directives.
pub(crate) fn includes(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for line in text.lines() {
        let Some(rest) = line.trim_start().strip_prefix('#') else { continue };
        let Some(rest) = rest.trim_start().strip_prefix("include") else { continue };
        let rest = skip_blanks(rest);
        let name = match rest.bytes().next() {
            Some(b'"') => rest[1..].split_once('"'),
            Some(b'<') => rest[1..].split_once('>'),
            _ => None,
        };
        names.extend(name.map(|(name, _)| name.to_owned()));
    }
    names
}

/// The names that a text may include, or `None` if they are unknown.
fn names_in(text: &str, of_toolkit: bool) -> Option<Vec<String>> {
    // Spliced lines are joined first, so that a directive is always on one line.
    let text: Cow<'_, str> = if text.contains("\\\n") || text.contains("\\\r\n") {
        text.replace("\\\r\n", "").replace("\\\n", "").into()
    } else {
        text.into()
    };
    let mut names = Vec::new();
    for line in text.lines() {
        let mut rest = line;
        while let Some(at) = rest.find("include") {
            let directive = is_directive(&line[..line.len() - rest.len() + at]);
            rest = &rest[at + "include".len()..];
            let after = skip_blanks(rest.strip_prefix("_next").unwrap_or(rest));
            // __has_include (name) and __has_include_next
            let after = skip_blanks(after.strip_prefix('(').unwrap_or(after));
            let quoted = match after.chars().next() {
                Some('"') => after[1..].split_once('"'),
                Some('<') => after[1..].split_once('>'),
                _ => None,
            };
            match quoted {
                Some((name, _)) => names.push(name.to_owned()),
                None if directive && !of_toolkit => return None,
                None => {}
            }
        }
        let trimmed = line.trim_start();
        if !of_toolkit && trimmed.starts_with('#') && skip_blanks(&trimmed[1..]).starts_with("embed") {
            return None;
        }
    }
    Some(names)
}

/// Whether the text before `include` makes it a directive.
fn is_directive(before: &str) -> bool {
    let mut text = before.trim_end();
    while text.ends_with("*/") {
        let Some(start) = text.rfind("/*") else { return false };
        text = text[..start].trim_end();
    }
    text.ends_with('#') || text.ends_with("%:") || text.ends_with("??=")
}

/// Skips whitespace and comments.
fn skip_blanks(text: &str) -> &str {
    let mut text = text.trim_start();
    while let Some(rest) = text.strip_prefix("/*") {
        let Some((_, after)) = rest.split_once("*/") else { return text };
        text = after.trim_start();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Option<Vec<String>> {
        names_in(text, false)
    }

    #[test]
    fn finds_directives_however_they_are_spelled() {
        let text = "#include \"a.h\"\n  #  include <b/c.h> // x\n# /* y */ include /* z */ \"d.h\"\n%:include <e>\n\
                    #inc\\\nlude \"f.h\"\n#if __has_include(<g.h>)\n#endif\n#include_next <h.h>\r\n\
                    /* */ #include \"i.h\"\n#if 0\n#include \"j.h\"\n#endif\n#error do not include this\n";
        let found = names(text).unwrap();
        assert_eq!(found, ["a.h", "b/c.h", "d.h", "e", "f.h", "g.h", "h.h", "i.h", "j.h"]);
    }

    #[test]
    fn what_the_text_does_not_tell_is_not_cached() {
        assert_eq!(names("#include HEADER\n"), None);
        assert_eq!(names("%: include HEADER\n"), None);
        assert_eq!(names("#embed \"x\"\n"), None);
        assert_eq!(names_in("#include HEADER\n", true), Some(vec![]));
    }

    #[test]
    fn the_key_follows_every_header() {
        let dir = tempfile::tempdir().unwrap();
        let (user, toolkit) = (dir.path().join("user"), dir.path().join("toolkit"));
        fs::create_dir_all(&user).unwrap();
        fs::create_dir_all(&toolkit).unwrap();
        fs::write(user.join("a.h"), "#include \"b.h\"").unwrap();
        fs::write(user.join("b.h"), "#include \"a.h\"\nint x;").unwrap();
        fs::write(toolkit.join("c.h"), "#include MACRO\n").unwrap();
        let key = |text: &str| {
            let mut key = KeyBuilder::new("test");
            add_to_key(
                &mut key,
                text,
                dir.path(),
                std::slice::from_ref(&user),
                std::slice::from_ref(&toolkit),
                &Roots::new([dir.path()]),
            )
            .map(|scan| (scan, format!("{:?}", key.finish())))
        };
        let text = "#include <a.h>\n#include <c.h>\n";
        let first = key(text).unwrap();
        assert_eq!(key(text).unwrap(), first);
        fs::write(user.join("b.h"), "int y;").unwrap();
        let second = key(text).unwrap();
        assert_ne!(second, first);
        // A new header that shadows another one.
        fs::write(dir.path().join("c.h"), "").unwrap();
        assert_ne!(key(text).unwrap(), second);
        assert_eq!(key("#include M").unwrap().0, Scan::Unknown);
        assert_eq!(key("const char *t = __TIME__;").unwrap().0, Scan::TimeOfDay);
        assert_eq!(key(text).unwrap().0, Scan::Whole);
    }

    #[test]
    fn a_header_outside_of_the_roots_is_refused_and_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let (task, secret) = (dir.path().join("task"), dir.path().join("secret"));
        fs::create_dir_all(task.join("deep")).unwrap();
        fs::write(&secret, "#include HIDDEN").unwrap();
        fs::write(task.join("a.h"), "#include \"../secret\"").unwrap();
        fs::write(task.join("b.h"), "").unwrap();
        let scan = |text: &str| {
            let mut key = KeyBuilder::new("test");
            add_to_key(&mut key, text, &task.join("deep"), &[], &[], &Roots::new([&task]))
        };
        assert_eq!(scan("#include \"../b.h\""), Ok(Scan::Whole));
        for name in [secret.to_str().unwrap(), "../../secret", "../a.h", "../deep/../../secret"] {
            for spelling in ["#include \"", "#include_next \"", "#if 0\n#include \"", "%:include \""] {
                let outside = scan(&format!("{spelling}{name}\"")).unwrap_err();
                assert!(outside.path.ends_with("secret"), "{spelling}{name}: {outside}");
            }
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&secret, task.join("deep/link.h")).unwrap();
            assert!(scan("#include \"link.h\"").is_err());
        }
    }
}
