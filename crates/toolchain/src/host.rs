//! Finds and removes host code in a CUDA file.
//!
//! NVRTC rejects every function and variable that is not marked for the device. Each rejected definition is replaced with spaces,
//! so that all other code keeps its lines and columns. Code marked for the device, and every type and constant it mentions, is
//! never changed: errors there are shown to the user.

mod items;
mod lex;
mod macros;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::diagnostic::Diagnostic;
use items::{Item, What};
use lex::{Kind, Lexed, Macro};
use macros::Macros;

/// Replaces `constexpr` in unmarked functions that device code uses; a macro expands it to device annotations. It has the same
/// length.
pub(crate) const CONSTEXPR: &str = "__wpcexpr";

/// Start of NVRTC's messages about host functions, host variables and host lambdas.
const HOST: [&str; 4] = [
    "A function without execution space annotations",
    "A function explicitly marked as a __host__ function",
    "A namespace scope variable without memory space annotations",
    "The execution space for the lambda closure class members was inferred to be __host__",
];

/// Whether a message of NVRTC classifies the code as host code.
pub(crate) fn is_host_message(message: &str) -> bool {
    HOST.iter().any(|start| message.starts_with(start))
}

/// Removed lines, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lines {
    pub(crate) first: usize,
    pub(crate) last: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// Replaced with spaces.
    Cut,
    /// Marked for the device: a `constexpr` function, which device code may use without annotation.
    Marked,
}

/// A file of the user.
#[derive(Debug)]
struct File {
    text: String,
    lexed: Lexed,
    items: Vec<Item>,
    changes: BTreeMap<usize, Change>,
}

/// The user's files of one compilation, with the changes made to them.
#[derive(Debug)]
pub(crate) struct Files {
    files: Vec<File>,
    /// The words that device code may refer to.
    needed: BTreeSet<String>,
}

impl Files {
    /// Parses the structure of the texts. `defines` are `NAME` or `NAME=VALUE`.
    pub(crate) fn new(texts: Vec<String>, defines: &[String]) -> Self {
        let mut files: Vec<File> = texts
            .into_iter()
            .map(|text| File { lexed: lex::lex(&text), text, items: Vec::new(), changes: BTreeMap::new() })
            .collect();
        let given: Vec<Macro> = defines
            .iter()
            .map(|define| {
                let (name, value) = define.split_once('=').unwrap_or((define, "1"));
                Macro { name: name.to_owned(), function: false, replacement: value.to_owned() }
            })
            .collect();
        let macros = Macros::new(files.iter().flat_map(|file| &file.lexed.macros).chain(&given));
        for file in &mut files {
            file.items = items::items(&file.text, &file.lexed, &macros);
        }
        let needed = needed(&files, &macros);
        Self { files, needed }
    }

    /// Removes the item that an error refers to, if it is host code. `false`: it is not host code, or is already removed.
    pub(crate) fn blame(&mut self, file: usize, error: &Diagnostic) -> bool {
        let Some(place) = &error.place else { return false };
        let Some(of) = self.files.get(file) else { return false };
        let Some(at) = of.item_at(place.line, place.column) else { return false };
        let Some((item, change)) = self.verdict(of, at, is_host_message(&error.message)) else {
            return false;
        };
        self.files[file].changes.insert(item, change) != Some(change)
    }

    /// Removes every function of a file that is not marked for the device: NVRTC rejects them all but stops after 100 errors.
    /// Functions with unknown macros are removed only after NVRTC reports them.
    pub(crate) fn cut_functions(&mut self, file: usize) {
        let Some(of) = self.files.get(file) else { return };
        let certain = |item: &Item| item.what == What::Function && !item.constant && !item.doubtful;
        let found: Vec<_> = (0..of.items.len())
            .filter(|at| certain(&of.items[*at]) && !of.is_cut(*at))
            .filter_map(|at| self.verdict(of, at, true))
            .collect();
        self.files[file].changes.extend(found);
    }

    /// The allowed change for an error at this position, and the item to change.
    fn verdict(&self, file: &File, at: usize, said_host: bool) -> Option<(usize, Change)> {
        let item = &file.items[at];
        if item.device || file.is_cut(at) {
            return None;
        }
        let class = item.class.map(|class| (class, &file.items[class]));
        let needed = |item: &Item| item.device || item.names.iter().any(|name| self.needed.contains(name));
        let cut = Some((at, Change::Cut));
        match item.what {
            What::Fixed => None,
            What::Using => cut,
            What::Type => (!needed(item)).then_some((at, Change::Cut)),
            // A virtual function is part of the layout of its class.
            What::Function | What::Declaration
                if item.dispatched && class.is_some_and(|(_, class)| needed(class)) =>
            {
                None
            }
            What::Function if !item.constant => cut,
            What::Function if !needed(item) => cut,
            What::Function => (said_host && file.marks(item).is_some()).then_some((at, Change::Marked)),
            What::Declaration => match class {
                // A member variable is part of the layout.
                Some(_) if said_host && item.prototype => cut,
                Some((class, of)) => (!needed(of)).then_some((class, Change::Cut)),
                None if item.constant && needed(item) => None,
                None => cut,
            },
        }
    }

    /// The modified text of a file, with the same number of lines and bytes.
    pub(crate) fn text(&self, file: usize) -> Cow<'_, str> {
        self.files.get(file).map_or(Cow::Borrowed(""), File::changed)
    }

    /// Whether any part of a file was removed or marked.
    pub(crate) fn is_changed(&self, file: usize) -> bool {
        self.files.get(file).is_some_and(|file| !file.changes.is_empty())
    }

    /// The removed lines of a file.
    pub(crate) fn skipped(&self, file: usize) -> Vec<Lines> {
        let Some(file) = self.files.get(file) else { return Vec::new() };
        let mut lines: Vec<Lines> = Vec::new();
        for (item, change) in &file.changes {
            if *change == Change::Cut {
                let span = &file.items[*item].span;
                let line = |at: usize| file.text[..at].matches('\n').count() + 1;
                lines.push(Lines { first: line(span.start), last: line(span.end) });
            }
        }
        lines.sort_unstable();
        lines.dedup_by(|next, one| {
            let inside = next.first <= one.last + 1;
            if inside {
                one.last = one.last.max(next.last);
            }
            inside
        });
        lines
    }

    /// Location of a removed function of that name: file and line.
    pub(crate) fn skipped_function(&self, name: &str) -> Option<(usize, usize)> {
        self.files.iter().enumerate().find_map(|(number, file)| {
            let (at, _) = file.changes.iter().find(|(at, change)| {
                let item = &file.items[**at];
                **change == Change::Cut
                    && item.what == What::Function
                    && item.names.iter().any(|own| own == name)
            })?;
            let start = file.items[*at].span.start;
            Some((number, file.text[..start].matches('\n').count() + 1))
        })
    }

    /// Whether a location is in device code.
    pub(crate) fn is_device(&self, file: usize, line: u32, column: Option<u32>) -> bool {
        let Some(file) = self.files.get(file) else { return true };
        file.item_at(line, column).is_none_or(|at| file.items[at].device)
    }
}

impl File {
    /// The innermost item at a location.
    fn item_at(&self, line: u32, column: Option<u32>) -> Option<usize> {
        let number = usize::try_from(line).ok()?.checked_sub(1)?;
        let text = self.text.split_inclusive('\n').nth(number)?;
        let start = text.as_ptr().addr().checked_sub(self.text.as_ptr().addr())?;
        let blank = text.len() - text.trim_start().len();
        let column = column.and_then(|column| usize::try_from(column).ok()?.checked_sub(1)).unwrap_or(blank);
        let innermost = |touches: &dyn Fn(&Range<usize>) -> bool| {
            let items = self.items.iter().enumerate().filter(|(_, item)| touches(&item.span));
            items.min_by_key(|(_, item)| item.span.len()).map(|(at, _)| at)
        };
        // An error at the end of an item may point just past it.
        let at = start + column.min(text.trim_end().len());
        innermost(&|span| span.contains(&at))
            .or_else(|| innermost(&|span| span.start <= at && at <= span.end))
    }

    fn is_cut(&self, at: usize) -> bool {
        let own = self.changes.get(&at) == Some(&Change::Cut);
        own || self.items[at].class.is_some_and(|class| self.is_cut(class))
    }

    /// The range of a function's `constexpr`.
    fn marks(&self, item: &Item) -> Option<Range<usize>> {
        let tokens = self.lexed.tokens.get(item.tokens.clone())?;
        let token = tokens.iter().find(|token| &self.text[token.span.clone()] == "constexpr")?;
        Some(token.span.clone())
    }

    fn changed(&self) -> Cow<'_, str> {
        if self.changes.is_empty() {
            return Cow::Borrowed(&self.text);
        }
        let mut bytes = self.text.clone().into_bytes();
        for (item, change) in &self.changes {
            let item = &self.items[*item];
            match change {
                Change::Cut => self.blank(&mut bytes, item.span.clone()),
                Change::Marked => {
                    if let Some(span) = self.marks(item) {
                        bytes[span].copy_from_slice(CONSTEXPR.as_bytes());
                    }
                }
            }
        }
        // Whole characters were replaced with ASCII, so this is valid UTF-8.
        Cow::Owned(String::from_utf8(bytes).unwrap_or_else(|_| self.text.clone()))
    }

    /// Replaces a range with spaces, except for line ends and preprocessor lines.
    fn blank(&self, bytes: &mut [u8], range: Range<usize>) {
        let first = self.lexed.directives.partition_point(|directive| directive.end <= range.start);
        let mut directives = self.lexed.directives[first..].iter().peekable();
        for at in range {
            while directives.next_if(|directive| directive.end <= at).is_some() {}
            let kept = directives.peek().is_some_and(|directive| directive.contains(&at));
            if !kept && !matches!(bytes[at], b'\n' | b'\r') {
                bytes[at] = b' ';
            }
        }
    }

    fn words(&self, item: &Item) -> impl Iterator<Item = &str> {
        let tokens = self.lexed.tokens.get(item.tokens.clone()).unwrap_or_default();
        tokens.iter().filter(|token| token.kind == Kind::Word).map(|token| &self.text[token.span.clone()])
    }
}

/// All words of device code, and of the macros, types and constants that it mentions.
fn needed(files: &[File], macros: &Macros) -> BTreeSet<String> {
    let mut needed: BTreeSet<String> = BTreeSet::new();
    let mut pending: Vec<&str> = Vec::new();
    let all = || files.iter().flat_map(|file| file.items.iter().map(move |item| (file, item)));
    // Names and locations of unmarked types, aliases, constants and `constexpr` functions.
    let mut named: BTreeMap<&str, Vec<(&File, &Item)>> = BTreeMap::new();
    for (file, item) in all() {
        if item.device {
            pending.extend(file.words(item));
        } else if item.what == What::Type || item.constant {
            for name in &item.names {
                named.entry(name).or_default().push((file, item));
            }
        }
    }
    while let Some(word) = pending.pop() {
        if !needed.insert(word.to_owned()) {
            continue;
        }
        pending.extend(macros.words(word).map(String::as_str));
        for (file, item) in named.remove(word).unwrap_or_default() {
            pending.extend(file.words(item));
        }
    }
    needed
}

#[cfg(test)]
mod tests;
