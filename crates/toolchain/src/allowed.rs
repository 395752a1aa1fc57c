//! Which options of NVIDIA's compilers a source, a task or a submission may set.
//!
//! Options of both compilers can read and write any file of the user who compiles. The tables list every option that NVRTC and
//! ptxas of CUDA 12.9 and 13.x accept, documented or not. Options not marked as allowed are refused, and so is every spelling that
//! is not in the table: abbreviations, response files, values of another kind. `book/src/compiler-options.md` is generated from the
//! tables.

mod nvrtc;
mod ptxas;

use std::fmt::{self, Write as _};

pub use nvrtc::NVRTC_OPTIONS;
pub use ptxas::PTXAS_OPTIONS;

/// The value that an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing.
    None,
    /// `true` or `false`.
    Switch,
    /// A whole number.
    Number,
    /// Whole numbers separated by commas.
    Numbers,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Some of these words, separated by commas.
    SomeOf(&'static [&'static str]),
    /// Letters, digits and `_`.
    Word,
    /// `NAME` or `NAME=VALUE`, without spaces, quotes and backslashes.
    Macro,
    /// A file or a directory.
    Path,
    /// Any other value; only for options that are refused.
    Text,
}

/// Whether a source, a task or a submission may set an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It is passed to the compiler.
    Allowed,
    /// It is refused for this reason.
    Refused(&'static str),
}

/// An option of a compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompilerOption {
    /// The long spelling.
    pub long: &'static str,
    /// The short spelling, or the long one with a single dash.
    pub short: &'static str,
    /// The value it takes.
    pub value: Value,
    /// Whether it is allowed.
    pub ruling: Ruling,
}

/// An option that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedOption {
    /// The compiler.
    pub compiler: &'static str,
    /// The option, as written by the user.
    pub option: String,
    /// The reason.
    pub why: String,
}

impl fmt::Display for RefusedOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { compiler, option, why } = self;
        write!(f, "{compiler} option `{}` is refused: {why}", option.escape_debug())
    }
}

impl std::error::Error for RefusedOption {}

impl Value {
    /// Whether a text is a valid value.
    fn takes(self, text: &str) -> bool {
        let word = |text: &str| {
            (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        };
        let number = |text: &str| (1..=9).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        match self {
            Self::None | Self::Path | Self::Text => false,
            Self::Switch => ["true", "false"].contains(&text),
            Self::Number => number(text),
            Self::Numbers => text.len() <= 1024 && text.split(',').all(number),
            Self::OneOf(words) => words.contains(&text),
            Self::SomeOf(words) => text.split(',').all(|one| words.contains(&one)),
            Self::Word => word(text),
            Self::Macro => {
                let (name, value) = text.split_once('=').unwrap_or((text, ""));
                let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.+-*/%<>()[]{}:;&|^!~?=".contains(&b);
                word(name)
                    && !name.starts_with(|c: char| c.is_ascii_digit())
                    && value.len() <= 256
                    && value.bytes().all(plain)
            }
        }
    }

    /// Placeholder shown after an option's name.
    fn shown(self) -> String {
        match self {
            Self::None => String::new(),
            Self::Switch => "=true\\|false".to_owned(),
            Self::Number => "=N".to_owned(),
            Self::Numbers => "=N,…".to_owned(),
            Self::OneOf(words) => format!("={}", words.join("\\|")),
            Self::SomeOf(words) => format!("={},…", words.join("\\|")),
            Self::Word => "=WORD".to_owned(),
            Self::Macro => "=NAME[=VALUE]".to_owned(),
            Self::Path => "=PATH".to_owned(),
            Self::Text => "=…".to_owned(),
        }
    }

    fn expected(self) -> String {
        match self {
            Self::None => "no value".to_owned(),
            Self::Switch => "true or false".to_owned(),
            Self::Number => "a whole number".to_owned(),
            Self::Numbers => "whole numbers separated by commas".to_owned(),
            Self::OneOf(words) => format!("one of {}", words.join(", ")),
            Self::SomeOf(words) => format!("words of {}, separated by commas", words.join(", ")),
            Self::Word => "a word of letters, digits and _".to_owned(),
            Self::Macro => "NAME or NAME=VALUE without spaces, quotes and backslashes".to_owned(),
            Self::Path | Self::Text => "a value".to_owned(),
        }
    }
}

impl CompilerOption {
    /// Whether its short spelling is one letter, directly followed by the value: `-DNAME`.
    fn is_letter(&self) -> bool {
        self.short.len() == 2
    }
}

/// The NVRTC options that a source sets in lines `//@options: …`.
pub fn options_in(source: &str) -> Vec<String> {
    let lines = source.lines().filter_map(|line| line.trim().strip_prefix("//@options:"));
    lines.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

/// Options for NVRTC from untrusted input, each as one argument, or the first refused option.
pub fn nvrtc_options<S: AsRef<str>>(words: &[S]) -> Result<Vec<String>, RefusedOption> {
    allowed("NVRTC", NVRTC_OPTIONS, words)
}

/// Options for ptxas, each as one argument, or the first refused option.
pub fn ptxas_options<S: AsRef<str>>(words: &[S]) -> Result<Vec<String>, RefusedOption> {
    allowed("ptxas", PTXAS_OPTIONS, words)
}

fn allowed<S: AsRef<str>>(
    compiler: &'static str,
    table: &[CompilerOption],
    words: &[S],
) -> Result<Vec<String>, RefusedOption> {
    let mut passed = Vec::new();
    let mut words = words.iter().map(AsRef::as_ref).peekable();
    while let Some(word) = words.next() {
        let refuse =
            |option: &str, why: String| Err(RefusedOption { compiler, option: option.to_owned(), why });
        let Some((option, joined)) = find(table, word) else {
            let why = if word.starts_with('@') {
                "response files are not supported".to_owned()
            } else {
                "it is not in the list of options that a source or a task may set".to_owned()
            };
            return refuse(word, why);
        };
        if let Ruling::Refused(why) = option.ruling {
            return refuse(word, why.to_owned());
        }
        match (option.value, joined) {
            (Value::None, None) => passed.push(option.long.to_owned()),
            (Value::None, Some(_)) => return refuse(word, "it takes no value".to_owned()),
            (value, joined) => {
                let Some(text) = joined.or_else(|| words.next()) else {
                    return refuse(word, format!("expected {} after it", value.expected()));
                };
                if !value.takes(text) {
                    return refuse(
                        word,
                        format!("expected {}, found `{}`", value.expected(), text.escape_debug()),
                    );
                }
                passed.push(format!("{}={text}", option.long));
            }
        }
    }
    Ok(passed)
}

/// The option that an argument spells, and its attached value.
fn find<'t, 'w>(table: &'t [CompilerOption], word: &'w str) -> Option<(&'t CompilerOption, Option<&'w str>)> {
    let spelled = |name: &str| table.iter().find(|option| option.long == name || option.short == name);
    if let Some(option) = spelled(word) {
        return Some((option, None));
    }
    if let Some((name, value)) = word.split_once('=')
        && let Some(option) = spelled(name)
    {
        return Some((option, Some(value)));
    }
    let (name, value) = word.split_at_checked(2)?;
    let option = table.iter().find(|option| option.is_letter() && option.short == name)?;
    (option.value != Value::None).then_some((option, Some(value)))
}

/// The tables as a page of the book.
pub fn options_page() -> String {
    let mut page = String::from(HEAD);
    for (compiler, table) in [("NVRTC", NVRTC_OPTIONS), ("ptxas", PTXAS_OPTIONS)] {
        let allowed = table.iter().filter(|option| option.ruling == Ruling::Allowed).count();
        // Writing to a string cannot fail.
        let _ = write!(page, "\n## {compiler}: {allowed} of {} options allowed\n\n", table.len());
        page.push_str("| option | short | | reason |\n|---|---|---|---|\n");
        for CompilerOption { long, short, value, ruling } in table {
            let short = if *short == long.get(1..).unwrap_or_default() { "" } else { short };
            let short = if short.is_empty() { String::new() } else { format!("`{short}`") };
            let (ruled, why) = match ruling {
                Ruling::Allowed => ("allowed", ""),
                Ruling::Refused(why) => ("**refused**", *why),
            };
            let _ = writeln!(page, "| `{long}{}` | {short} | {ruled} | {why} |", value.shown());
        }
    }
    page
}

const HEAD: &str = "\
# Supported compiler options

<!-- Made from crates/toolchain/src/allowed. To change it: UPDATE_PAGES=1 cargo nextest run -p warpproof-toolchain page -->

Use these tables to see which compiler options a kernel or a task may set. A kernel's file names options of NVRTC in a comment, a task in `flags` of a candidate:

    //@options: --device-int128

Some compiler options read or write any file of the user who compiles, so Warpproof passes on only the options that are marked as allowed here. It
refuses every other option with exit code 2, before the compiler sees it. A task with such an option in `flags` is not valid, and a candidate with one in a
comment fails the stage `build`.

The tables have every option of NVRTC and ptxas of CUDA 12.9 and 13.x, including those that NVIDIA does not document. Options are compared as a whole:
abbreviations, response files (`@file`) and values of another kind are refused too. `--name value`, `--name=value` and, for one letter, `-Dvalue` are
equivalent. No flag passes on other options; `-D`, `-I` and `--std` on the command line are the user's own.

Sources and tasks cannot set options of ptxas. The options that Warpproof itself passes to ptxas are checked against the second table.

In addition, the compilers run [confined](security.md), so an overlooked option cannot write a file.
";

#[cfg(test)]
mod tests;
