//! Words that documentation, comments and messages avoid: phrases of a private dialect, and British spellings.
//!
//! The rule reads prose only: Markdown outside of code, comments and string literals of Rust, and comments of TOML, YAML and
//! scripts. Names of the code are not prose: text between backticks, parts such as `a_b`, `a::b`, `a/b` and `a.b`, placeholders
//! of format strings, words in double quotes inside a literal, and literals without a space.

use std::collections::BTreeMap;

use super::{File, rust};

/// Phrases to avoid, each with what to write instead. A `*` at the end of a word matches any ending; if the replacement ends in
/// `*` too, the ending is kept. Words of a phrase may be separated by a line break, but not by punctuation.
const PHRASES: &[(&str, &str)] = &[
    ("held against", "compared with"),
    ("hold against", "compare with"),
    ("holds against", "compares with"),
    ("holding against", "comparing with"),
    ("mend", "fix"),
    ("mends", "fixes"),
    ("mended", "fixed"),
    ("mending", "fixing"),
    ("tell", "report, detect, distinguish"),
    ("tells", "reports, detects, distinguishes"),
    ("told", "reported, detected, distinguished"),
    ("telling", "reporting, detecting, distinguishing"),
    ("say", "print, show, report, state"),
    ("says", "prints, shows, reports, states"),
    ("whoever", "the user, the caller"),
    ("nobody", "no user, no thread, no process"),
    ("somebody", "a user, a thread, a process"),
    ("what there is", "supported, available, installed"),
    ("what is there", "supported, available, installed"),
    ("so many", "the count"),
    ("as much again", "twice"),
    ("apart from", "except"),
    ("give way", "yield"),
    ("gives way", "yields"),
    ("go on", "continue"),
    ("goes on", "continues"),
    ("is over", "ends"),
    ("judge", "evaluate"),
    ("judges", "evaluates"),
    ("judged", "evaluated"),
    ("judging", "evaluating"),
    ("is no", "is not a"),
    ("are no", "are not"),
    // British spellings.
    ("analyse", "analyze"),
    ("analysed", "analyzed"),
    ("analysing", "analyzing"),
    ("artefact*", "artifact*"),
    ("authoris*", "authoriz*"),
    ("behaviour*", "behavior*"),
    ("canonicalis*", "canonicaliz*"),
    ("catalogue*", "catalog*"),
    ("categoris*", "categoriz*"),
    ("centimetre*", "centimeter*"),
    ("centre", "center"),
    ("centred", "centered"),
    ("centres", "centers"),
    ("characteris*", "characteriz*"),
    ("colour*", "color*"),
    ("customis*", "customiz*"),
    ("defence*", "defense*"),
    ("denormalis*", "denormaliz*"),
    ("dequantis*", "dequantiz*"),
    ("deserialis*", "deserializ*"),
    ("emphasise*", "emphasize*"),
    ("equalis*", "equaliz*"),
    ("favour*", "favor*"),
    ("finalis*", "finaliz*"),
    ("fulfil", "fulfill"),
    ("fulfils", "fulfills"),
    ("generalis*", "generaliz*"),
    ("grey", "gray"),
    ("harbour*", "harbor*"),
    ("honour*", "honor*"),
    ("initialis*", "initializ*"),
    ("labelled", "labeled"),
    ("labelling", "labeling"),
    ("licence*", "license*"),
    ("linearis*", "lineariz*"),
    ("localis*", "localiz*"),
    ("materialis*", "materializ*"),
    ("maximis*", "maximiz*"),
    ("memoris*", "memoriz*"),
    ("minimis*", "minimiz*"),
    ("modelled", "modeled"),
    ("modelling", "modeling"),
    ("neighbour*", "neighbor*"),
    ("normalis*", "normaliz*"),
    ("optimisa*", "optimiza*"),
    ("optimise*", "optimize*"),
    ("optimising", "optimizing"),
    ("organis*", "organiz*"),
    ("parallelisa*", "paralleliza*"),
    ("parallelise*", "parallelize*"),
    ("parallelising", "parallelizing"),
    ("parametris*", "parametriz*"),
    ("penalis*", "penaliz*"),
    ("prioritis*", "prioritiz*"),
    ("programme", "program"),
    ("programmes", "programs"),
    ("quantis*", "quantiz*"),
    ("randomis*", "randomiz*"),
    ("realise*", "realize*"),
    ("realising", "realizing"),
    ("recognis*", "recogniz*"),
    ("reorganis*", "reorganiz*"),
    ("rumour*", "rumor*"),
    ("sanitis*", "sanitiz*"),
    ("serialis*", "serializ*"),
    ("specialisa*", "specializa*"),
    ("specialise*", "specialize*"),
    ("specialising", "specializing"),
    ("standardis*", "standardiz*"),
    ("summaris*", "summariz*"),
    ("symbolis*", "symboliz*"),
    ("synchronis*", "synchroniz*"),
    ("tokenis*", "tokeniz*"),
    ("travelled", "traveled"),
    ("travelling", "traveling"),
    ("uncoloured", "uncolored"),
    ("uninitialis*", "uninitializ*"),
    ("unlabelled", "unlabeled"),
    ("unoptimised", "unoptimized"),
    ("unrecognis*", "unrecogniz*"),
    ("unsynchronis*", "unsynchroniz*"),
    ("utilis*", "utiliz*"),
    ("vectoris*", "vectoriz*"),
    ("virtualis*", "virtualiz*"),
    ("visualis*", "visualiz*"),
];

/// Longer phrases in which a phrase of the list is good English.
const ALLOWED: &[&str] = &[
    "there is no",
    "there are no",
    "is no longer",
    "are no longer",
    "is no more",
    "are no more",
    "is no less",
    "are no less",
];

/// Beginnings of paths whose text is not ours to change, each with its reason.
const EXEMPT: &[(&str, &str)] = &[
    ("xtask/src/tidy/words.rs", "the list above, and its tests"),
    ("book/samples/", "recorded inputs and outputs"),
    ("corpus/", "kernels of other projects"),
    ("crates/report/tests/view/ladder.rs", "builds the recorded ledger of book/samples word for word"),
];

pub(super) fn to_avoid(files: &[File]) -> Vec<String> {
    let phrases = Phrases::new();
    let mut found = Vec::new();
    for file in files.iter().filter(|file| !EXEMPT.iter().any(|(path, _)| file.path.starts_with(path))) {
        for prose in prose_of(file) {
            for (line, message) in phrases.find(&prose) {
                found.push(file.at(line, &message));
            }
        }
    }
    found
}

/// The list, by the first two letters of each phrase.
struct Phrases {
    by_letters: BTreeMap<String, Vec<Phrase>>,
    allowed: Vec<Vec<&'static str>>,
}

struct Phrase {
    words: Vec<&'static str>,
    replacement: &'static str,
}

impl Phrases {
    fn new() -> Phrases {
        let mut by_letters: BTreeMap<String, Vec<Phrase>> = BTreeMap::new();
        for (phrase, replacement) in PHRASES {
            let words = phrase.split(' ').collect();
            by_letters.entry(letters(phrase)).or_default().push(Phrase { words, replacement });
        }
        Phrases { by_letters, allowed: ALLOWED.iter().map(|phrase| phrase.split(' ').collect()).collect() }
    }

    /// The phrases that a piece of prose contains: line and message of each.
    fn find(&self, prose: &Prose) -> Vec<(usize, String)> {
        let words = words(prose);
        let mut found = Vec::new();
        for (start, (line, word)) in words.iter().enumerate() {
            let candidates = self.by_letters.get(&letters(word)).map_or(&[][..], Vec::as_slice);
            for phrase in candidates.iter().filter(|phrase| matches_at(&words, start, &phrase.words)) {
                if !self.is_allowed(&words, start, phrase.words.len()) {
                    let written: Vec<&str> =
                        words.iter().skip(start).take(phrase.words.len()).map(|(_, word)| &**word).collect();
                    let better = phrase.instead_of(word);
                    found.push((*line, format!("write `{better}` instead of `{}`", written.join(" "))));
                }
            }
        }
        found
    }

    /// Whether the phrase of `length` words at `start` is a part of an allowed one.
    fn is_allowed(&self, words: &[(usize, String)], start: usize, length: usize) -> bool {
        self.allowed.iter().any(|allowed| {
            let first = (start + length).saturating_sub(allowed.len());
            (first..=start).any(|at| at + allowed.len() >= start + length && matches_at(words, at, allowed))
        })
    }
}

impl Phrase {
    /// What to write instead of a word that matches the phrase's first, with the ending of that word.
    fn instead_of(&self, word: &str) -> String {
        let stem = self.words.first().and_then(|first| first.strip_suffix('*'));
        match (stem, self.replacement.strip_suffix('*')) {
            (Some(stem), Some(replacement)) => {
                format!("{replacement}{}", word.strip_prefix(stem).unwrap_or_default())
            }
            _ => self.replacement.to_owned(),
        }
    }
}

fn letters(phrase: &str) -> String {
    phrase.chars().take(2).collect()
}

fn matches_at(words: &[(usize, String)], start: usize, phrase: &[&str]) -> bool {
    phrase.iter().enumerate().all(|(index, pattern)| {
        words.get(start + index).is_some_and(|(_, word)| match pattern.strip_suffix('*') {
            Some(stem) => word.starts_with(stem),
            None => word == pattern,
        })
    })
}

/// Text that a person reads, without a break in it: a comment, a literal, or a page.
#[derive(Debug)]
struct Prose {
    /// The line of the file in which it begins.
    line: usize,
    text: String,
}

fn prose_of(file: &File) -> Vec<Prose> {
    let is = |extensions: &[&str]| extensions.iter().any(|extension| file.has_extension(extension));
    if is(&["md"]) {
        vec![Prose { line: 1, text: file.text.clone() }]
    } else if is(&["rs"]) {
        of_rust(&file.text)
    } else if is(&["sh", "toml", "yml", "yaml", "py"])
        || (!file.name().contains('.') && file.text.starts_with("#!"))
    {
        of_script(&file.text)
    } else {
        Vec::new()
    }
}

/// Comments and string literals of Rust code. Comments on successive lines are one piece.
fn of_rust(text: &str) -> Vec<Prose> {
    let mut found = Vec::new();
    let mut comment: Option<Prose> = None;
    // White space since the last comment.
    let mut gap = String::new();
    let (mut line, mut in_word, mut rest) = (1, false, text);
    while let Some(first) = rest.chars().next() {
        let length = match rust::skipped(rest, in_word) {
            0 => code_length(rest, first),
            length => length,
        };
        let (part, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        if part.starts_with("//") || part.starts_with("/*") {
            let body = part.trim_start_matches(['/', '!', '*']);
            match &mut comment {
                Some(open) if gap.matches('\n').count() == 1 => {
                    open.text.push('\n');
                    open.text.push_str(body);
                }
                _ => found.extend(comment.replace(Prose { line, text: body.to_owned() })),
            }
            gap.clear();
        } else if part.trim().is_empty() {
            gap.push_str(part);
        } else {
            found.extend(comment.take());
            found.extend(literal(part).map(|text| Prose { line, text }));
        }
        in_word = part.chars().next_back().is_some_and(|last| last.is_alphanumeric() || last == '_');
        line += part.matches('\n').count();
        rest = after;
    }
    found.extend(comment);
    found
}

/// Bytes up to the next character that may begin a comment, a literal or white space; or those of the leading white space.
fn code_length(text: &str, first: char) -> usize {
    let space = first.is_whitespace();
    let ends = |c: char| c.is_whitespace() != space || matches!(c, '/' | '"' | '\'' | 'r' | 'b');
    let after = text.get(first.len_utf8()..).unwrap_or_default();
    first.len_utf8() + after.find(ends).unwrap_or(after.len())
}

/// The text of a string literal that contains a space, without escapes and placeholders; nothing for other code.
fn literal(part: &str) -> Option<String> {
    let (open, close) = (part.find('"')?, part.rfind('"')?);
    let body = part.get(open + 1..close).filter(|body| body.contains(' '))?;
    let raw = open > 0;
    let mut text = String::new();
    let mut chars = body.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if !raw => match chars.next() {
                Some(kept @ ('\n' | '"')) => text.push(kept),
                _ => text.push(' '),
            },
            // An escaped brace of a format string, or a placeholder.
            '{' if chars.next_if_eq(&'{').is_some() => text.push('{'),
            '{' => {
                text.push('{');
                let mut after = chars.clone();
                if after.by_ref().take_while(|c| *c != '\n').any(|c| c == '}') {
                    chars = after;
                }
            }
            _ => text.push(c),
        }
    }
    Some(text)
}

/// Comments that begin with `#`. Those on successive lines are one piece.
fn of_script(text: &str) -> Vec<Prose> {
    let mut found: Vec<Prose> = Vec::new();
    let mut follows = false;
    for (index, line) in text.lines().enumerate() {
        let comment = script_comment(line);
        match (comment, found.last_mut()) {
            (Some(comment), Some(last)) if follows => {
                last.text.push('\n');
                last.text.push_str(comment);
            }
            (Some(comment), _) => found.push(Prose { line: index + 1, text: comment.to_owned() }),
            (None, _) => {}
        }
        follows = comment.is_some();
    }
    found
}

/// What follows a `#` that begins a line or follows a space, outside of quotes.
fn script_comment(line: &str) -> Option<&str> {
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '#') if before.is_whitespace() => return line.get(at + 1..),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), _) if open == c && before != '\\' => quote = None,
            _ => {}
        }
        before = c;
    }
    None
}

/// The words of a piece in lower case, each with its line. An empty word stands for punctuation and for code: no phrase
/// extends over it.
fn words(prose: &Prose) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (index, line) in without_code(&prose.text).lines().enumerate() {
        let at = prose.line + index;
        for part in line.split_whitespace() {
            if is_code(part) {
                found.push((at, String::new()));
                continue;
            }
            // Emphasis does not separate words.
            let part = part.replace('*', "").to_lowercase().replace('’', "'");
            let inside = |c: char| c.is_alphanumeric() || c == '-' || c == '\'';
            let mut rest = part.as_str();
            let mut quoted = false;
            while let Some(first) = rest.chars().next() {
                let length = if inside(first) {
                    rest.find(|c| !inside(c)).unwrap_or(rest.len())
                } else {
                    first.len_utf8()
                };
                let (word, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
                let name = !inside(first) || (quoted && after.starts_with('"'));
                let stem =
                    if name { "" } else { word.split('\'').find(|stem| !stem.is_empty()).unwrap_or("") };
                found.push((at, stem.to_owned()));
                quoted = first == '"';
                rest = after;
            }
        }
    }
    found
}

/// Whether a part between spaces is a name of the code or a path.
fn is_code(part: &str) -> bool {
    let part = part.trim_matches(|c: char| !c.is_alphanumeric());
    let dotted = part.split(['.', ':']).skip(1).any(|after| after.starts_with(char::is_alphanumeric));
    dotted || part.contains(['_', '/', '=', '\\', '@'])
}

/// Markdown without fenced blocks, text between backticks, and targets of links. Line breaks stay where they are.
fn without_code(text: &str) -> String {
    let mut kept = String::new();
    let (mut fenced, mut code, mut target) = (false, false, false);
    for line in text.split('\n') {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        if fenced || fence || line.trim().is_empty() {
            (code, target) = (false, false);
        } else {
            for c in line.replace("``", "`").chars() {
                match c {
                    '`' => code = !code,
                    '(' if kept.ends_with(']') && !code => target = true,
                    ')' if target => target = false,
                    _ => {}
                }
                if c == '`' || !(code || target) {
                    kept.push(c);
                }
            }
        }
        kept.push('\n');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::{super::tests::file, *};

    fn found(path: &str, text: &str) -> Vec<String> {
        to_avoid(&[file(path, text)])
    }

    #[test]
    fn a_phrase_is_found_in_markdown() {
        assert_eq!(
            found("a.md", "# A\n\nResults are held against the CPU.\n"),
            ["a.md:3: write `compared with` instead of `held against`"]
        );
        assert_eq!(
            found("a.md", "It is *held\nagainst* it.\n"),
            ["a.md:1: write `compared with` instead of `held against`"]
        );
        assert_eq!(
            found("a.md", "[Nobody](judge.md)'s; Somebody’s\n"),
            [
                "a.md:1: write `no user, no thread, no process` instead of `nobody`",
                "a.md:1: write `a user, a thread, a process` instead of `somebody`"
            ]
        );
    }

    #[test]
    fn code_of_markdown_is_not_read() {
        assert!(found("a.md", "`judge`, ``tell`` and `a\nnobody`\n\n```rust\njudge();\n```\n").is_empty());
        assert!(found("a.md", "see [it](judge.md), [that][judge.rs] and src/judge\n").is_empty());
        assert_eq!(
            found("a.md", "```\njudge\n```\njudge\n"),
            ["a.md:4: write `evaluate` instead of `judge`"]
        );
    }

    #[test]
    fn a_phrase_is_found_in_comments() {
        let text = "//! Is mended.\nfn f() {} // a b\n    /// It goes\n    /// on.\n/* x\n nobody */\n";
        assert_eq!(
            found("a.rs", text),
            [
                "a.rs:1: write `fixed` instead of `mended`",
                "a.rs:3: write `continues` instead of `goes on`",
                "a.rs:6: write `no user, no thread, no process` instead of `nobody`"
            ]
        );
        assert!(found("a.rs", "f(); // it goes\n\n// on\n").is_empty(), "two comments are not one");
        assert!(found("a.rs", "// it goes\nf();\n// on\n").is_empty(), "nor here");
        assert!(found("a.rs", "/// ```\n/// judge();\n/// ```\nfn f() {}\n").is_empty());
    }

    #[test]
    fn a_phrase_is_found_in_literals() {
        let text = "let a = \"a b\\ntold \\\n    twice\";\nlet b = r#\"so \"x\" so\nmany\"#;\n";
        assert_eq!(
            found("a.rs", text),
            [
                "a.rs:1: write `reported, detected, distinguished` instead of `told`",
                "a.rs:3: write `the count` instead of `so many`"
            ]
        );
        assert_eq!(found("a.rs", "let c = '\"'; f(\"{{ a judge }}\");\n").len(), 1);
        assert_eq!(found("a.rs", "f(b\"a judge\");\n").len(), 1);
    }

    #[test]
    fn names_of_code_are_not_read() {
        let code = "use kernels::judge::judge;\nlet told = says(nobody); // `told`, x.judge(), judge_all, gate::judge\n";
        assert!(found("a.rs", code).is_empty());
        let literals =
            "f(\"judge\", \"a {told} {judge:?} {:?}\", \"{ \\\"judged\\\": 1 }\", \"is\", \"no\");\n";
        assert!(found("a.rs", literals).is_empty());
        assert!(found("a.rs", "f(r#\"{\"judged\": 1, \"b\": 2}\"#, \"a/judge b\", 'x');\n").is_empty());
    }

    #[test]
    fn comments_of_scripts_are_read() {
        let text = "#!/bin/sh\nsay \"told # nobody\" # whoever\n# it goes\n# on\necho $# ${judge#judge}\n";
        let expected = |path: &str| {
            [
                format!("{path}:2: write `the user, the caller` instead of `whoever`"),
                format!("{path}:3: write `continues` instead of `goes on`"),
            ]
        };
        for path in ["a.sh", "a.yml", "a.toml", ".ci/run"] {
            assert_eq!(found(path, text), expected(path), "{path}");
        }
        assert!(found("a.cu", text).is_empty());
        assert!(found("LICENSE", "nobody\n").is_empty());
    }

    #[test]
    fn is_no_is_allowed_where_it_is_plain() {
        let allowed =
            "There is no x. There are\nno y. It is no longer z; they are no more, is no less and is no-op.";
        assert!(found("a.md", allowed).is_empty());
        assert_eq!(found("a.md", "This is no number."), ["a.md:1: write `is not a` instead of `is no`"]);
        assert_eq!(found("a.md", "Which are no kernels."), ["a.md:1: write `are not` instead of `are no`"]);
        assert!(found("a.md", "That is, no. That is. No.").is_empty(), "punctuation separates");
    }

    #[test]
    fn british_spelling_is_found_with_its_ending() {
        assert_eq!(
            found("a.md", "Uninitialised colours, unsynchronised"),
            [
                "a.md:1: write `uninitialized` instead of `uninitialised`",
                "a.md:1: write `colors` instead of `colours`",
                "a.md:1: write `unsynchronized` instead of `unsynchronised`"
            ]
        );
        assert!(
            found("a.md", "optimistic parallelism, analyses, specialist, recommended, promise").is_empty()
        );
    }

    #[test]
    fn exempt_paths_are_not_read() {
        for (path, reason) in EXEMPT {
            assert!(found(&format!("{path}x.md"), "nobody").is_empty(), "{path}: {reason}");
        }
    }

    #[test]
    fn every_phrase_is_found_and_no_replacement_is() {
        for (phrase, _) in PHRASES {
            let text = phrase.replace('*', "e");
            assert_eq!(found("a.md", &text).len(), 1, "{text}");
        }
        for (phrase, replacement) in PHRASES {
            assert!(found("a.md", &replacement.replace('*', "e")).is_empty(), "{phrase}");
        }
    }
}
