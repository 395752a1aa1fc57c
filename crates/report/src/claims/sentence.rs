//! Interprets the sentence around a number: its subject, and whether the number is a prediction or a limit.

use super::prose::Line;

/// Words that make a sentence about speed.
pub(super) const SPEED: [&str; 8] =
    ["faster", "slower", "quicker", "speed", "speedup", "speedups", "latency", "latencies"];
/// Words that mark a number as a threshold.
const LIMIT: [&str; 13] = [
    "threshold",
    "thresholds",
    "limit",
    "limits",
    "required",
    "requires",
    "asks",
    "asked",
    "demands",
    "allowed",
    "allows",
    "budget",
    "tolerance",
];

/// A sentence of a paragraph.
#[derive(Clone, Debug, Default)]
pub(super) struct Sentence {
    words: Vec<String>,
    /// Whether it mentions a prediction or a model.
    pub(super) predicted: bool,
    /// Whether it is about speed.
    pub(super) speed: bool,
    /// Whether it mentions a limit.
    pub(super) limit: bool,
}

impl Sentence {
    fn of(text: &str) -> Self {
        let words = words(text);
        let any = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
        Self {
            predicted: words.iter().any(|word| word.starts_with("predict") || word.starts_with("model")),
            speed: any(&SPEED),
            limit: any(&LIMIT),
            words,
        }
    }

    /// Whether it has one of the words, in the singular or the plural.
    pub(super) fn names(&self, any: &[String]) -> bool {
        let singular = |word: &str| word.strip_suffix('s').unwrap_or(word).to_owned();
        self.words.iter().any(|word| any.iter().any(|name| singular(name) == singular(word)))
    }
}

/// The words of a text, in lowercase.
pub(super) fn words(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| !c.is_alphanumeric());
    parts.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// The sentences of a paragraph, with their places.
pub(super) struct Sentences {
    all: Vec<Sentence>,
    /// Line, column from one, and the sentence that begins there.
    starts: Vec<(usize, usize, usize)>,
}

impl Sentences {
    /// A sentence ends with a period and a space, a heading with its line; an item of a list begins one. A table is
    /// one sentence, because its header describes its rows.
    pub(super) fn of(paragraph: &[Line]) -> Self {
        let mut texts = vec![String::new()];
        let mut starts = Vec::new();
        let mut open = true;
        for line in paragraph {
            let start = line.text.trim_start();
            let table = start.starts_with('|');
            let item = ["- ", "* ", "+ "].iter().any(|mark| start.starts_with(mark));
            let heading = start.starts_with('#');
            if !open || item || heading {
                texts.push(String::new());
            }
            open = true;
            starts.push((line.number, 1, texts.len() - 1));
            let mut letters = line.text.chars().enumerate().peekable();
            while let Some((at, letter)) = letters.next() {
                if let Some(text) = texts.last_mut() {
                    text.push(letter);
                }
                if table || !matches!(letter, '.' | '!' | '?') {
                    continue;
                }
                match letters.peek() {
                    None => open = false,
                    Some((_, next)) if next.is_whitespace() => {
                        texts.push(String::new());
                        starts.push((line.number, at + 2, texts.len() - 1));
                    }
                    Some(_) => {}
                }
            }
            if let Some(text) = texts.last_mut() {
                text.push(' ');
            }
            open = open && !heading;
        }
        Self { all: texts.iter().map(|text| Sentence::of(text)).collect(), starts }
    }

    /// The sentence at a place; lines and columns from one.
    pub(super) fn at(&self, line: usize, column: usize) -> Option<&Sentence> {
        let after = self.starts.partition_point(|(l, c, _)| (*l, *c) <= (line, column));
        let (_, _, sentence) = self.starts.get(after.checked_sub(1)?)?;
        self.all.get(*sentence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::prose::lines;

    #[test]
    fn sentences_are_told_apart() {
        let lines = lines(
            "It is 1.5 faster. The model\npredicts it.\n- an item of a limit\n| latency | x. y |",
            false,
        );
        let found = Sentences::of(&lines);
        let at =
            |line, column| found.at(line, column).map(|one| (one.speed, one.predicted, one.limit)).unwrap();
        assert_eq!(at(1, 7), (true, false, false));
        assert_eq!(at(1, 20), (false, true, false));
        assert_eq!(at(2, 1), (false, true, false));
        assert_eq!(at(3, 4), (true, false, true));
        assert!(found.at(1, 1).unwrap().names(&["fasters".to_owned()]));
        assert!(found.at(9, 9).is_some() && Sentences::of(&[]).at(1, 1).is_none());
    }
}
