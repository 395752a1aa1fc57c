//! Links between the Markdown files of the checkout resolve.

use std::collections::{BTreeMap, BTreeSet};

use super::File;

pub(super) fn resolve(files: &[File]) -> Vec<String> {
    let pages: BTreeMap<&str, BTreeSet<String>> = files
        .iter()
        .filter(|file| file.has_extension("md"))
        .map(|file| (file.path.as_str(), anchors(&file.text)))
        .collect();
    // Links may also lead to folders.
    let mut places: BTreeSet<&str> = BTreeSet::new();
    for file in files {
        let mut path = file.path.as_str();
        places.insert(path);
        while let Some((folder, _)) = path.rsplit_once('/') {
            places.insert(folder);
            path = folder;
        }
    }
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.has_extension("md")) {
        for (line, target) in links(&file.text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let place = if path.is_empty() { Some(file.path.clone()) } else { join(&file.path, path) };
            let Some(place) = place.filter(|place| place.is_empty() || places.contains(place.as_str()))
            else {
                found.push(file.at(line, &format!("broken link `{target}`")));
                continue;
            };
            let known =
                anchor.is_empty() || pages.get(place.as_str()).is_some_and(|page| page.contains(anchor));
            if !known {
                found.push(file.at(line, &format!("`{place}` has no heading `#{anchor}`")));
            }
        }
    }
    found.extend(unlisted_chapters(files));
    found
}

/// Chapters of the book that are not in its table of contents, which readers would not find.
fn unlisted_chapters(files: &[File]) -> Vec<String> {
    const CONTENTS: &str = "book/src/SUMMARY.md";
    let listed: Vec<String> = files
        .iter()
        .filter(|file| file.path == CONTENTS)
        .flat_map(|file| links(&file.text))
        .filter_map(|(_, target)| join(CONTENTS, &target))
        .collect();
    files
        .iter()
        .filter(|file| {
            file.path.starts_with("book/src/") && file.has_extension("md") && file.path != CONTENTS
        })
        .filter(|file| !listed.contains(&file.path))
        .map(|file| file.at(1, &format!("is not listed in {CONTENTS}")))
        .collect()
}

/// `target` as seen from the folder of `from`; nothing when it leaves the checkout.
fn join(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Lines outside fenced blocks, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((index + 1, line))
    })
}

/// Targets of `[text](target)` and `[label]: target`.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        // Text between backticks is code: every second piece.
        let line: String =
            line.split('`').enumerate().map(|(i, s)| if i % 2 == 0 { s } else { "code" }).collect();
        for (at, open) in line.match_indices("](") {
            let rest = line.get(at + open.len()..).unwrap_or_default();
            if let Some((target, _)) = rest.split_once(')') {
                found.push((number, target.split(' ').next().unwrap_or_default().to_owned()));
            }
        }
        // A footnote begins like a label.
        if line.starts_with('[')
            && !line.starts_with("[^")
            && let Some((_, target)) = line.split_once("]: ")
        {
            found.push((number, target.trim().to_owned()));
        }
    }
    found
}

/// The anchors of a page's headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    headings.map(|(_, line)| slug(line.trim_start_matches('#').trim())).collect()
}

fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::{super::tests::file, *};

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let found = resolve(&[file("a/b.md", "# B\n\nsee [c](c.md)\n")]);
        assert_eq!(found, ["a/b.md:3: broken link `c.md`"]);
        assert_eq!(
            resolve(&[file("b.md", "[x](../c.md)"), file("c.md", "")]).len(),
            1,
            "it leaves the checkout"
        );
        assert_eq!(resolve(&[file("b.md", "[x]: gone.md\n")]).len(), 1);
    }

    #[test]
    fn a_heading_that_is_not_there_is_found() {
        let page = file("c.md", "# Exit codes, all\n```\n# not a heading\n```\n");
        assert!(resolve(&[file("b.md", "[x](c.md#exit-codes-all)"), page]).is_empty());
        let page = file("c.md", "# Exit codes\n```bash\n# not a heading\n```\n");
        assert_eq!(resolve(&[file("b.md", "[x](c.md#not-a-heading) [y](#none)"), page]).len(), 2);
    }

    #[test]
    fn code_footnotes_and_the_web_are_not_followed() {
        let text = "`[x](gone.md)` [y](https://example.com/z)\n```\n[z](gone.md)\n```\n[folder](a) [root](./)[^n]\n\n\
                    [^n]: a note\n";
        assert!(resolve(&[file("b.md", text), file("a/x.rs", "")]).is_empty());
    }

    #[test]
    fn a_chapter_outside_the_contents_is_found() {
        let contents = file("book/src/SUMMARY.md", "- [A](a.md)\n");
        let found = resolve(&[contents, file("book/src/a.md", ""), file("book/src/b.md", "")]);
        assert_eq!(found, ["book/src/b.md:1: is not listed in book/src/SUMMARY.md"]);
    }
}
