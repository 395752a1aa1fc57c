//! A table of places in a C header: `int lut[32][8][2] = { … };`.

use super::LANES;

/// The places of each element of each lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) places: Vec<Vec<(usize, usize)>>,
}

/// An initializer: numbers, and the number of its outermost parts.
#[derive(Debug, Default)]
struct Initializer {
    numbers: Vec<usize>,
    parts: usize,
}

impl Table {
    /// Parses the table of this name, or the first. Its innermost values are a row and a column, or the index
    /// `row * columns + column`; outermost are lanes or elements.
    pub(super) fn parse(
        text: &str,
        wanted: Option<&str>,
        elements: usize,
        columns: usize,
    ) -> Result<Self, String> {
        let text = without_comments(text);
        let mut rest = &*text;
        while let Some(at) = rest.find('=') {
            let (before, after) = (&rest[..at], rest[at + 1..].trim_start());
            rest = &rest[at + 1..];
            if !after.starts_with('{') {
                continue;
            }
            let Some(name) = declared(before) else { continue };
            if wanted.is_some_and(|wanted| wanted != name) {
                continue;
            }
            let found = initializer(after).map_err(|why| format!("the table {name} {why}"))?;
            let places =
                places(&found, elements, columns).map_err(|why| format!("the table {name} {why}"))?;
            return Ok(Self { name: name.to_owned(), places });
        }
        Err(match wanted {
            Some(name) => format!("no table `{}`", name.escape_debug()),
            None => "no table".to_owned(),
        })
    }
}

/// The text with spaces for comments.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('/') {
        out.push_str(&rest[..at]);
        let comment = &rest[at..];
        let end = if comment.starts_with("//") {
            comment.find('\n').unwrap_or(comment.len())
        } else if comment.starts_with("/*") {
            comment.find("*/").map_or(comment.len(), |end| end + 2)
        } else {
            out.push('/');
            1
        };
        out.push(' ');
        rest = &comment[end..];
    }
    out.push_str(rest);
    out
}

/// The name that a declaration ends with, before its extents: `LUT` of `const int LUT[32][8][2]`.
fn declared(before: &str) -> Option<&str> {
    let mut text = before.trim_end();
    while let Some(inner) = text.strip_suffix(']') {
        text = inner[..inner.rfind('[')?].trim_end();
    }
    let start = text.rfind(|c: char| !(c.is_alphanumeric() || c == '_')).map_or(0, |at| at + 1);
    text.get(start..).filter(|name| !name.is_empty())
}

fn initializer(text: &str) -> Result<Initializer, String> {
    let mut found = Initializer::default();
    let (mut depth, mut word) = (0_usize, String::new());
    for c in text.chars() {
        if c.is_alphanumeric() || matches!(c, '_' | '\'') {
            word.push(c);
            continue;
        }
        if !word.is_empty() {
            found
                .numbers
                .push(number(&word).ok_or_else(|| format!("has `{word}`, which is not an integer"))?);
            word.clear();
            found.parts += usize::from(depth == 1);
        }
        match c {
            '{' => {
                depth += 1;
                found.parts += usize::from(depth == 2);
            }
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Ok(found);
                }
            }
            ',' => {}
            c if c.is_whitespace() => {}
            c => return Err(format!("has `{c}` among its values")),
        }
    }
    Err("has no end".to_owned())
}

/// A literal of C: decimal or hexadecimal, with a suffix.
fn number(word: &str) -> Option<usize> {
    let word = word.replace('\'', "");
    let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
    match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => usize::from_str_radix(digits, 16).ok(),
        None => digits.parse().ok(),
    }
}

fn places(found: &Initializer, elements: usize, columns: usize) -> Result<Vec<Vec<(usize, usize)>>, String> {
    let all: Vec<(usize, usize)> = if found.numbers.len() == LANES * elements * 2 {
        found.numbers.as_chunks::<2>().0.iter().map(|[row, column]| (*row, *column)).collect()
    } else if found.numbers.len() == LANES * elements {
        found.numbers.iter().map(|index| (index / columns, index % columns)).collect()
    } else {
        let (count, pairs) = (found.numbers.len(), LANES * elements);
        return Err(format!("has {count} numbers; expected {pairs} pairs or {pairs} indices"));
    };
    if found.parts == elements && elements != LANES {
        let of = |lane: usize| all.iter().skip(lane).step_by(LANES).copied().collect();
        return Ok((0..LANES).map(of).collect());
    }
    Ok(all.chunks(elements).map(<[_]>::to_vec).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table in which lane l holds (l, 0) and (l, 1).
    fn header(name: &str, form: impl Fn(usize, usize) -> String) -> String {
        let lanes: Vec<String> =
            (0..32).map(|lane| format!("{{{}, {}}}", form(lane, 0), form(lane, 1))).collect();
        format!("// = {{\n#pragma once\nstatic const int {name}[32][2][2] = {{\n{}\n}};\n", lanes.join(",\n"))
    }

    #[test]
    fn tables_of_several_forms_are_the_same() {
        let expected: Vec<Vec<(usize, usize)>> = (0..32).map(|lane| vec![(lane, 0), (lane, 1)]).collect();
        let pairs = header("lut", |lane, e| format!("{{{lane}, {e}u}}"));
        let indices = header("lut", |lane, e| format!("0x{:x} /* {lane} */", lane * 2 + e));
        let across = (0..2).map(|e| {
            let places: Vec<String> = (0..32).map(|lane| format!("{{{lane},{e}}}")).collect();
            format!("{{{}}}", places.join(","))
        });
        let across = format!("int lut[2][32][2]={{{}}};", across.collect::<Vec<_>>().join(","));
        for text in [&pairs, &indices, &across] {
            let table = Table::parse(text, None, 2, 2).unwrap();
            assert_eq!((table.name.as_str(), &table.places), ("lut", &expected), "{text}");
        }
        let both = format!("int x = 1; int first[2] = {{1, 2}};\n{pairs}");
        assert!(Table::parse(&both, None, 2, 2).unwrap_err().contains("the table first has 2 numbers"));
        assert_eq!(Table::parse(&both, Some("lut"), 2, 2).unwrap().places, expected);
    }

    #[test]
    fn other_texts_are_refused() {
        for (text, why) in [
            ("", "no table"),
            ("int x = 3;", "no table"),
            ("int lut[2] = {1, 2", "has no end"),
            ("int lut[2] = {A, 2};", "has `A`, which is not an integer"),
            ("int lut[2] = {-1, 2};", "has `-` among its values"),
        ] {
            assert!(Table::parse(text, None, 2, 2).unwrap_err().contains(why), "{text}");
        }
        assert!(Table::parse("", Some("lut"), 2, 2).unwrap_err().contains("no table `lut`"));
    }
}
