//! Expansion of macros, as far as needed to decide whether code is for the device.

use std::collections::{BTreeMap, BTreeSet};

use super::lex::{Kind, Macro, lex};

/// CUDA's annotations of functions and variables that exist on the device.
const MARKS: [&str; 6] =
    ["__device__", "__global__", "__constant__", "__shared__", "__managed__", "__grid_constant__"];

/// The macros of all files of a compilation.
#[derive(Clone, Debug, Default)]
pub(super) struct Macros {
    /// The words in each macro's expansion.
    words: BTreeMap<String, BTreeSet<String>>,
    /// Macros whose expansion marks device code.
    device: BTreeSet<String>,
    /// Macros that expand to whole definitions.
    definitions: BTreeSet<String>,
}

impl Macros {
    pub(super) fn new<'a>(macros: impl IntoIterator<Item = &'a Macro>) -> Self {
        let mut all = Self::default();
        for each in macros {
            let tokens = lex(&each.replacement).tokens;
            let words = tokens.iter().filter(|token| token.kind == Kind::Word);
            let words = words.map(|token| each.replacement[token.span.clone()].to_owned());
            all.words.entry(each.name.clone()).or_default().extend(words);
            let braces = tokens.iter().any(|token| token.kind == Kind::Punct(b'{'));
            let ended = tokens.last().is_some_and(|token| matches!(token.kind, Kind::Punct(b'}' | b';')));
            if each.function && braces && ended {
                all.definitions.insert(each.name.clone());
            }
        }
        loop {
            let marked = |word: &String| MARKS.contains(&word.as_str()) || all.device.contains(word);
            let more: Vec<String> = all
                .words
                .iter()
                .filter(|(name, words)| !all.device.contains(*name) && words.iter().any(marked))
                .map(|(name, _)| name.clone())
                .collect();
            if more.is_empty() {
                return all;
            }
            all.device.extend(more);
        }
    }

    /// Whether a word marks the following item as device code. For a macro defined elsewhere its name decides: keeping host code is
    /// better than removing device code.
    pub(super) fn marks_device(&self, word: &str) -> bool {
        if MARKS.contains(&word) || self.device.contains(word) {
            return true;
        }
        let shouted = !word.bytes().any(|byte| byte.is_ascii_lowercase());
        shouted && (word.contains("DEVICE") || word.contains("GLOBAL")) && !self.words.contains_key(word)
    }

    /// Whether a word looks like a macro that is defined elsewhere and may expand to anything.
    pub(super) fn is_doubtful(&self, word: &str) -> bool {
        let shouted = word.len() > 2 && !word.bytes().any(|byte| byte.is_ascii_lowercase());
        shouted && !self.words.contains_key(word)
    }

    pub(super) fn is_definition(&self, word: &str) -> bool {
        self.definitions.contains(word)
    }

    /// The words in the expansion of a macro; empty for other words.
    pub(super) fn words(&self, word: &str) -> impl Iterator<Item = &String> {
        self.words.get(word).into_iter().flatten()
    }
}
