//! Typed access to the tables of a TOML file; collects every problem.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{At, Problem, in_file, nearest};
use crate::dtype::Dtype;
use crate::expr::Expr;

/// Elements of the longest list.
pub(super) const MAX_LIST: usize = 4096;
/// Bytes of the longest name.
const MAX_NAME: usize = 64;

/// The file and its problems.
pub(super) struct File<'t> {
    pub(super) text: &'t str,
    pub(super) problems: Vec<Problem>,
}

impl File<'_> {
    pub(super) fn wrong(&mut self, span: Range<usize>, sentence: impl Into<String>) {
        self.problems.push(Problem::new(span, sentence));
    }

    pub(super) fn wrong_with(
        &mut self,
        span: Range<usize>,
        sentence: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.problems.push(Problem::new(span, sentence).help(help));
    }

    /// Reports a name that is not among the allowed ones.
    pub(super) fn unknown<'a>(
        &mut self,
        span: Range<usize>,
        what: &str,
        name: &str,
        known: impl Iterator<Item = &'a str> + Clone,
    ) {
        let help = nearest(name, known.clone()).map_or_else(
            || {
                let known: Vec<&str> = known.take(32).collect();
                if known.is_empty() {
                    "none are defined".to_owned()
                } else {
                    format!("expected one of {}", known.join(", "))
                }
            },
            |near| format!("did you mean `{near}`?"),
        );
        self.wrong_with(span, format!("there is no {what} `{}`", shown(name)), help);
    }
}

/// A name in a message: on one line and of limited length.
pub(super) fn shown(name: &str) -> String {
    let short: String = name.chars().take(MAX_NAME).collect();
    let dots = if short.len() < name.len() { "…" } else { "" };
    format!("{}{dots}", short.escape_debug())
}

/// A table that is being read. Keys that no caller requested are unknown.
pub(super) struct Section<'d, 't> {
    /// Its name in messages: `candidate`, `tolerance`.
    pub(super) what: &'static str,
    pub(super) span: Range<usize>,
    table: &'d DeTable<'t>,
    asked: Vec<&'static str>,
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

impl<'d, 't> Section<'d, 't> {
    pub(super) fn new(what: &'static str, span: Range<usize>, table: &'d DeTable<'t>) -> Self {
        Section { what, span, table, asked: Vec::new() }
    }

    pub(super) fn of(
        what: &'static str,
        value: &'d Spanned<DeValue<'t>>,
        file: &mut File<'_>,
    ) -> Option<Self> {
        match value.get_ref() {
            DeValue::Table(table) => Some(Section::new(what, value.span(), table)),
            other => {
                let sentence = format!("expected a table for {what}, found {}", kind(other));
                match what {
                    "toggles" | "defines" => {
                        file.wrong_with(value.span(), sentence, format!("{what} = {{ NAME = 1 }}"));
                    }
                    _ => file.wrong(value.span(), sentence),
                }
                None
            }
        }
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    pub(super) fn get(&mut self, key: &'static str) -> Option<&'d Spanned<DeValue<'t>>> {
        self.asked.push(key);
        self.table.get(key)
    }

    /// Reports a missing required key.
    pub(super) fn missing(&self, file: &mut File<'_>, key: &str, help: &str) {
        if !self.has(key) {
            file.wrong_with(self.span.clone(), format!("{} has no `{key}`", self.what), help);
        }
    }

    fn mistyped(file: &mut File<'_>, key: &str, wanted: &str, value: &Spanned<DeValue<'_>>) {
        file.wrong(value.span(), format!("expected {wanted} for `{key}`, found {}", kind(value.get_ref())));
    }

    pub(super) fn text(&mut self, file: &mut File<'_>, key: &'static str) -> Option<At<String>> {
        let value = self.get(key)?;
        text_of(file, key, value)
    }

    /// A text that is not blank.
    pub(super) fn prose(&mut self, file: &mut File<'_>, key: &'static str) -> Option<At<String>> {
        let text = self.text(file, key)?;
        if text.trim().is_empty() {
            file.wrong(text.span, format!("`{key}` is empty"));
            return None;
        }
        Some(text)
    }

    /// A name: letters, digits, `_`, `-`, `.`, beginning with a letter or digit.
    pub(super) fn name(&mut self, file: &mut File<'_>, key: &'static str) -> Option<At<String>> {
        let text = self.text(file, key)?;
        let fits = text.len() <= MAX_NAME
            && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
        if !fits {
            let help = format!("letters, digits, `_`, `-` and `.`, at most {MAX_NAME}");
            file.wrong_with(text.span.clone(), format!("`{}` is not a valid name", shown(&text)), help);
            return None;
        }
        Some(text)
    }

    /// A name that expressions can use.
    pub(super) fn identifier(&mut self, file: &mut File<'_>, key: &'static str) -> Option<At<String>> {
        let text = self.name(file, key)?;
        check_identifier(file, &text).then_some(text)
    }

    pub(super) fn flag(&mut self, file: &mut File<'_>, key: &'static str) -> Option<bool> {
        let value = self.get(key)?;
        if let DeValue::Boolean(flag) = value.get_ref() {
            return Some(*flag);
        }
        Self::mistyped(file, key, "true or false", value);
        None
    }

    pub(super) fn integer(&mut self, file: &mut File<'_>, key: &'static str) -> Option<At<i64>> {
        let value = self.get(key)?;
        integer_of(file, key, value)
    }

    /// An integer from `least` to `most`.
    pub(super) fn within(
        &mut self,
        file: &mut File<'_>,
        key: &'static str,
        least: i64,
        most: i64,
    ) -> Option<At<i64>> {
        let number = self.integer(file, key)?;
        if (least..=most).contains(&number.value) {
            return Some(number);
        }
        file.wrong(
            number.span.clone(),
            format!("`{key}` is {}; it must be from {least} to {most}", number.value),
        );
        None
    }

    /// A finite number, with or without a point.
    pub(super) fn real(&mut self, file: &mut File<'_>, key: &'static str) -> Option<At<f64>> {
        let value = self.get(key)?;
        real_of(file, key, value)
    }

    pub(super) fn real_within(
        &mut self,
        file: &mut File<'_>,
        key: &'static str,
        least: f64,
        most: f64,
    ) -> Option<At<f64>> {
        let number = self.real(file, key)?;
        if (least..=most).contains(&number.value) {
            return Some(number);
        }
        file.wrong(
            number.span.clone(),
            format!("`{key}` is {}; it must be from {least} to {most}", number.value),
        );
        None
    }

    /// One of several keywords.
    pub(super) fn choice<T: Copy>(
        &mut self,
        file: &mut File<'_>,
        key: &'static str,
        words: &[(&'static str, T)],
    ) -> Option<At<T>> {
        let text = self.text(file, key)?;
        choice_of(file, key, &text, words).map(|value| At::new(value, text.span))
    }

    pub(super) fn dtype(&mut self, file: &mut File<'_>, key: &'static str) -> Option<At<Dtype>> {
        let text = self.text(file, key)?;
        dtype_of(file, &text)
    }

    /// The elements of a list; one element may be given without brackets if `alone` is set.
    pub(super) fn list(
        &mut self,
        file: &mut File<'_>,
        key: &'static str,
        alone: bool,
    ) -> Option<(Range<usize>, Vec<&'d Spanned<DeValue<'t>>>)> {
        let value = self.get(key)?;
        match value.get_ref() {
            DeValue::Array(array) => {
                if array.len() > MAX_LIST {
                    file.wrong(
                        value.span(),
                        format!("`{key}` has {} elements; the maximum is {MAX_LIST}", array.len()),
                    );
                }
                Some((value.span(), array.iter().take(MAX_LIST).collect()))
            }
            _ if alone => Some((value.span(), vec![value])),
            _ => {
                Self::mistyped(file, key, "a list", value);
                None
            }
        }
    }

    pub(super) fn texts(&mut self, file: &mut File<'_>, key: &'static str) -> Option<Vec<At<String>>> {
        let (_, values) = self.list(file, key, false)?;
        Some(values.into_iter().filter_map(|value| text_of(file, key, value)).collect())
    }

    /// The tables of `[[key]]`.
    pub(super) fn sections(&mut self, file: &mut File<'_>, key: &'static str) -> Vec<Section<'d, 't>> {
        let Some((_, values)) = self.list(file, key, false) else { return Vec::new() };
        values.into_iter().filter_map(|value| Section::of(key, value, file)).collect()
    }

    pub(super) fn section(&mut self, file: &mut File<'_>, key: &'static str) -> Option<Section<'d, 't>> {
        let value = self.get(key)?;
        Section::of(key, value, file)
    }

    /// All keys with their values, of a table whose keys the file chooses.
    pub(super) fn entries(
        &mut self,
    ) -> impl Iterator<Item = (At<String>, &'d Spanned<DeValue<'t>>)> + use<'d, 't> {
        let table = self.table;
        table
            .iter()
            .take(MAX_LIST)
            .map(|(key, value)| (At::new(key.get_ref().to_string(), key.span()), value))
    }

    /// Expressions, one to `most`.
    pub(super) fn exprs(
        &mut self,
        file: &mut File<'_>,
        key: &'static str,
        most: usize,
    ) -> Option<At<Vec<At<Expr>>>> {
        let (span, values) = self.list(file, key, true)?;
        if values.is_empty() || values.len() > most {
            file.wrong(span, format!("expected 1 to {most} elements in `{key}`, found {}", values.len()));
            return None;
        }
        // If one does not parse, the others are still checked; the task is refused anyway.
        let exprs = values.into_iter().filter_map(|value| expr_of(file, key, value)).collect();
        Some(At::new(exprs, span))
    }

    pub(super) fn expr(&mut self, file: &mut File<'_>, key: &'static str) -> Option<At<Expr>> {
        let value = self.get(key)?;
        expr_of(file, key, value)
    }

    /// Reports the keys that no caller requested.
    pub(super) fn close(self, file: &mut File<'_>) {
        for (key, _) in self.table.iter().filter(|(key, _)| !self.asked.contains(&key.get_ref().as_ref())) {
            let name = key.get_ref();
            let help = nearest(name, self.asked.iter().copied()).map_or_else(
                || format!("expected one of {}", self.asked.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            file.wrong_with(key.span(), format!("{} has no key `{}`", self.what, shown(name)), help);
        }
    }
}

pub(super) fn check_identifier(file: &mut File<'_>, name: &At<String>) -> bool {
    let fits = name.len() <= MAX_NAME
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !fits {
        let help = "use letters, digits and `_`, starting with a letter";
        file.wrong_with(name.span.clone(), format!("`{}` is not an identifier", shown(name)), help);
    }
    fits
}

pub(super) fn text_of(file: &mut File<'_>, key: &str, value: &Spanned<DeValue<'_>>) -> Option<At<String>> {
    if let DeValue::String(text) = value.get_ref() {
        return Some(At::new(text.to_string(), value.span()));
    }
    Section::mistyped(file, key, "a string", value);
    None
}

pub(super) fn integer_of(file: &mut File<'_>, key: &str, value: &Spanned<DeValue<'_>>) -> Option<At<i64>> {
    let DeValue::Integer(number) = value.get_ref() else {
        Section::mistyped(file, key, "an integer", value);
        return None;
    };
    let read = i64::from_str_radix(number.as_str(), number.radix());
    if read.is_err() {
        file.wrong(value.span(), format!("`{key}` does not fit 64 bits"));
    }
    read.ok().map(|number| At::new(number, value.span()))
}

pub(super) fn real_of(file: &mut File<'_>, key: &str, value: &Spanned<DeValue<'_>>) -> Option<At<f64>> {
    let read = match value.get_ref() {
        DeValue::Float(number) => number.as_str().parse::<f64>().ok(),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse::<f64>().ok(),
        _ => {
            Section::mistyped(file, key, "a number", value);
            return None;
        }
    };
    let finite = read.filter(|number| number.is_finite());
    if finite.is_none() {
        file.wrong(value.span(), format!("`{key}` is not a finite number"));
    }
    finite.map(|number| At::new(number, value.span()))
}

pub(super) fn choice_of<T: Copy>(
    file: &mut File<'_>,
    key: &str,
    text: &At<String>,
    words: &[(&'static str, T)],
) -> Option<T> {
    let found = words.iter().find(|(word, _)| *word == text.value).map(|(_, value)| *value);
    if found.is_none() {
        file.unknown(text.span.clone(), key, text, words.iter().map(|(word, _)| *word));
    }
    found
}

pub(super) fn dtype_of(file: &mut File<'_>, text: &At<String>) -> Option<At<Dtype>> {
    let found = Dtype::named(text).map(|dtype| At::new(dtype, text.span.clone()));
    if found.is_none() {
        file.unknown(text.span.clone(), "dtype", text, Dtype::names().into_iter());
    }
    found
}

/// An expression as a string, or an integer literal.
pub(super) fn expr_of(file: &mut File<'_>, key: &str, value: &Spanned<DeValue<'_>>) -> Option<At<Expr>> {
    if matches!(value.get_ref(), DeValue::Integer(_)) {
        return integer_of(file, key, value).map(|number| At::new(Expr::constant(number.value), number.span));
    }
    let text = text_of(file, key, value)?;
    match Expr::parse(&text) {
        Ok(expr) => Some(At::new(expr, text.span)),
        Err(error) => {
            let problem = in_file(error, file.text, &text.span);
            file.problems.push(problem);
            None
        }
    }
}
