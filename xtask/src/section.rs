//! Generated sections of the book's pages: a task writes the text between two marks; the rest is written by hand.

use std::fs;

use crate::root;

/// A section of a page.
pub(crate) struct Section {
    /// The page, from the root.
    pub(crate) page: &'static str,
    /// Its name in the marks.
    pub(crate) name: &'static str,
    /// The task that writes it.
    pub(crate) task: &'static str,
}

impl Section {
    /// Writes the section, or reports where the page differs.
    pub(crate) fn compare_or_write(&self, text: &str, bless: bool) -> Result<(), String> {
        let Section { page, task, .. } = self;
        let path = root().join(page);
        let found = fs::read_to_string(&path).map_err(|error| format!("cannot read {page}: {error}"))?;
        let expected = self.replaced(&found, text)?;
        if bless {
            return fs::write(&path, expected).map_err(|error| format!("cannot write {page}: {error}"));
        }
        match difference(&expected, &found) {
            Some(difference) => {
                Err(format!("{page}:{difference}\nrun `cargo xtask {task} --bless` to write the page"))
            }
            None => Ok(()),
        }
    }

    /// Whether the section has each of these lines, for a study of which only a part ran.
    pub(crate) fn contains(&self, lines: &[String]) -> Result<(), String> {
        let Section { page, task, .. } = self;
        let path = root().join(page);
        let found = fs::read_to_string(&path).map_err(|error| format!("cannot read {page}: {error}"))?;
        let known: Vec<&str> = self.text(&found)?.lines().collect();
        match lines.iter().find(|line| !known.contains(&line.as_str())) {
            Some(line) => Err(format!(
                "{page} lacks the line `{line}`\nrun `cargo xtask {task} --bless` to write the page"
            )),
            None => Ok(()),
        }
    }

    /// The text between the marks.
    fn text<'p>(&self, page: &'p str) -> Result<&'p str, String> {
        Ok(self.parts(page)?.1)
    }

    /// The page with this text between its marks.
    fn replaced(&self, page: &str, text: &str) -> Result<String, String> {
        let (before, _, after) = self.parts(page)?;
        let [begin, end] = self.marks();
        Ok(format!("{before}{begin}\n\n{}\n\n{end}{after}", text.trim_matches('\n')))
    }

    /// What is before the marks, between them, and after them.
    fn parts<'p>(&self, page: &'p str) -> Result<(&'p str, &'p str, &'p str), String> {
        let [begin, end] = self.marks();
        let parts = page.split_once(&begin).and_then(|(before, rest)| {
            let (inside, after) = rest.split_once(&end)?;
            Some((before, inside, after))
        });
        parts.ok_or_else(|| format!("{}: expected `{begin}` and then `{end}`", self.page))
    }

    fn marks(&self) -> [String; 2] {
        [
            format!("<!-- {}: written by `cargo xtask {} --bless` -->", self.name, self.task),
            format!("<!-- end of {} -->", self.name),
        ]
    }
}

/// The first line in which two texts differ, with both.
pub(crate) fn difference(expected: &str, found: &str) -> Option<String> {
    if expected == found {
        return None;
    }
    let (mut expected, mut found) = (expected.split('\n'), found.split('\n'));
    let mut line = 1;
    loop {
        match (expected.next(), found.next()) {
            (None, None) => return None,
            (one, other) if one != other => {
                let quoted = |text: Option<&str>| {
                    text.map_or_else(|| "the end".to_owned(), |text| format!("`{}`", text.escape_debug()))
                };
                return Some(format!("{line}: expected {}\n  found {}", quoted(one), quoted(other)));
            }
            _ => line += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTION: Section = Section { page: "page.md", name: "figures", task: "study" };

    #[test]
    fn only_what_stands_between_the_marks_is_replaced() {
        let page = "above\n<!-- figures: written by `cargo xtask study --bless` -->\nold\n<!-- end of figures -->\nbelow\n";
        let written = SECTION.replaced(page, "new\n").unwrap();
        assert_eq!(written, page.replace("old", "\nnew\n"));
        assert_eq!(SECTION.replaced(&written, "\nnew").unwrap(), written);
        assert!(SECTION.replaced("above", "new").unwrap_err().contains("page.md: expected"));
        let exchanged = "<!-- end of figures --><!-- figures: written by `cargo xtask study --bless` -->";
        assert!(SECTION.replaced(exchanged, "new").is_err());
    }

    #[test]
    fn the_first_line_that_differs_is_shown_with_both_texts() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(difference("a\nb\nc\n", "a\nx\ny\n").unwrap(), "2: expected `b`\n  found `x`");
        assert_eq!(difference("a\nb", "a").unwrap(), "2: expected `b`\n  found the end");
        assert_eq!(difference("a", "a\r").unwrap(), "1: expected `a`\n  found `a\\r`");
    }
}
