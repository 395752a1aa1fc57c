//! Where an output differs from its reference: how many elements, the first and the worst of them, and a map.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use warpproof_tolerance::error::{NonFinite, deviation};

use super::pattern;

/// Rows and columns of the map.
const MAP: usize = 16;

/// Where an output is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// The output's name.
    pub output: String,
    /// Its extents.
    pub dims: Vec<u64>,
    /// Its elements.
    pub elements: u64,
    /// Those outside their own limit.
    pub wrong: u64,
    /// The first of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Element>,
    /// The element with the largest error relative to its limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst: Option<Element>,
    /// Where the wrong elements are, in one sentence.
    pub pattern: String,
    /// Rows and columns of the matrix that the map shows.
    pub matrix: [u64; 2],
    /// The map, a text for each row: `.` all correct, `+` some wrong, `#` all wrong, a space outside the output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub map: Vec<String>,
}

/// One element. Values are texts, so that NaN and infinities can be stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Element {
    /// Its index, the last axis running fastest.
    pub index: Vec<u64>,
    /// What the kernel wrote.
    pub got: String,
    /// The reference value.
    pub expected: String,
    /// The largest difference that is allowed.
    pub limit: String,
}

/// An output and its reference.
#[derive(Clone, Copy, Debug)]
pub struct Output<'a> {
    /// The output's name.
    pub name: &'a str,
    /// The name of each axis.
    pub axes: &'a [String],
    /// Its extents.
    pub dims: &'a [usize],
    /// What the kernel wrote.
    pub got: &'a [f64],
    /// The reference values.
    pub expected: &'a [f64],
    /// The limit of each element.
    pub limits: &'a [f32],
    /// How a value that is not finite counts.
    pub non_finite: NonFinite,
}

impl Mismatch {
    /// Compares an output with its reference. The count may be zero: then no single element is wrong, but the output
    /// as a whole is.
    pub fn of(output: &Output<'_>) -> Self {
        let limit_at = |at: usize| output.limits.get(at).map_or(0.0, |limit| f64::from(*limit));
        let mut wrong = vec![false; output.expected.len()];
        let (mut first, mut worst): (Option<usize>, Option<(usize, f64)>) = (None, None);
        for (at, exact) in output.expected.iter().enumerate() {
            let Some(error) = deviation(output.got.get(at).copied(), *exact, output.non_finite) else {
                continue;
            };
            let limit = limit_at(at);
            // As for the verdict: an element that cannot be compared is outside.
            let within = error.abs() <= limit;
            if !within {
                wrong[at] = true;
                first.get_or_insert(at);
            }
            let share = error.abs() / limit;
            let share = match (share.is_nan(), within) {
                (true, true) => 0.0,
                (true, false) => f64::INFINITY,
                (false, _) => share,
            };
            if worst.is_none_or(|(_, most)| share > most) {
                worst = Some((at, share));
            }
        }
        let element = |at: usize| Element {
            index: index(at, output.dims),
            got: output.got.get(at).map_or_else(|| "nothing".to_owned(), |value| shown(*value)),
            expected: output.expected.get(at).map_or_else(String::new, |value| shown(*value)),
            limit: shown(limit_at(at)),
        };
        let count = wrong.iter().filter(|wrong| **wrong).count();
        let (matrix, map) = if count > 0 { map(&wrong, output.dims) } else { ([0, 0], Vec::new()) };
        Self {
            output: output.name.to_owned(),
            dims: output.dims.iter().map(|extent| wide(*extent)).collect(),
            elements: wide(wrong.len()),
            wrong: wide(count),
            first: first.map(element),
            worst: worst.map(|(at, _)| element(at)),
            pattern: pattern::sentence(&wrong, output.dims, output.axes),
            matrix,
            map,
        }
    }

    /// `y[3, 7] is NaN, expected 0.125 ± 1e-6`.
    fn element(&self, element: &Element) -> String {
        let index: Vec<String> = element.index.iter().map(ToString::to_string).collect();
        format!(
            "{}[{}] is {}, expected {} ± {}",
            self.output,
            index.join(", "),
            element.got,
            element.expected,
            element.limit
        )
    }

    /// The first and the worst wrong element, a line each; one line if they are the same.
    pub fn elements(&self) -> Vec<(&'static str, String)> {
        match (&self.first, &self.worst) {
            (Some(first), Some(worst)) if first == worst => vec![("first and worst", self.element(first))],
            (Some(first), Some(worst)) => {
                vec![("first", self.element(first)), ("worst", self.element(worst))]
            }
            (None, Some(worst)) => vec![("largest error", self.element(worst))],
            (Some(first), None) => vec![("first", self.element(first))],
            (None, None) => Vec::new(),
        }
    }

    /// Whether the map shows more than that every element is wrong.
    pub fn has_map(&self) -> bool {
        self.map.iter().any(|row| row.contains(['.', '+']))
    }

    /// What the map shows: `y as 16 × 1024`.
    pub fn caption(&self) -> String {
        format!("{} as {} rows × {} columns", self.output, self.matrix[0], self.matrix[1])
    }

    /// All of it as lines for a terminal.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        for (which, element) in self.elements() {
            let _ = writeln!(text, "{which}: {element}");
        }
        let _ = writeln!(text, "where: {}", self.pattern);
        if self.has_map() {
            let _ = writeln!(text, "map: {} (. right, + some wrong, # all wrong)", self.caption());
            for row in &self.map {
                let _ = writeln!(text, "  {row}");
            }
        }
        text
    }
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// The index of an element.
fn index(at: usize, dims: &[usize]) -> Vec<u64> {
    let mut rest = at;
    let mut index: Vec<u64> = dims
        .iter()
        .rev()
        .map(|extent| {
            let extent = (*extent).max(1);
            let here = rest % extent;
            rest /= extent;
            wide(here)
        })
        .collect();
    index.reverse();
    index
}

/// At most nine digits: enough for every f32, and short enough to read.
fn shown(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() { "NaN".to_owned() } else { format!("{value}") };
    }
    let rounded: f64 = format!("{value:.8e}").parse().unwrap_or(value);
    let text = format!("{rounded:?}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// The output as a matrix: its last axis across, all others down. A vector is folded into lines of a power of two.
fn matrix(elements: usize, dims: &[usize]) -> (usize, usize) {
    match dims {
        [.., columns] if dims.len() > 1 && *columns > 0 => (elements / columns, *columns),
        _ => {
            let columns = elements.div_ceil(MAP).next_power_of_two().max(MAP).min(elements.max(1));
            (elements.div_ceil(columns), columns)
        }
    }
}

/// The map of wrong elements, and the matrix that it is of.
fn map(wrong: &[bool], dims: &[usize]) -> ([u64; 2], Vec<String>) {
    let (rows, columns) = matrix(wrong.len(), dims);
    let (down, across) = (rows.min(MAP), columns.min(MAP));
    // The number of elements of each cell, and how many of them are wrong.
    let mut cells = vec![(0usize, 0usize); down * across];
    for (at, is_wrong) in wrong.iter().enumerate() {
        let (row, column) = (at / columns, at % columns);
        let cell = row * down / rows.max(1) * across + column * across / columns.max(1);
        if let Some((all, some)) = cells.get_mut(cell) {
            *all += 1;
            *some += usize::from(*is_wrong);
        }
    }
    let sign = |(all, some): &(usize, usize)| match (all, some) {
        (0, _) => ' ',
        (_, 0) => '.',
        (all, some) if all == some => '#',
        _ => '+',
    };
    let lines = cells.chunks(across.max(1)).map(|line| line.iter().map(sign).collect()).collect();
    ([wide(rows), wide(columns)], lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(dims: &[usize], wrong: &dyn Fn(usize) -> bool) -> Mismatch {
        let count = dims.iter().product::<usize>();
        let expected = vec![1.0; count];
        let got: Vec<f64> = (0..count).map(|at| if wrong(at) { 1.5 } else { 1.0 }).collect();
        let limits = vec![0.25; count];
        let axes: Vec<String> = (0..dims.len()).map(|axis| ["n", "m", "k"][axis].to_owned()).collect();
        Mismatch::of(&Output {
            name: "y",
            axes: &axes,
            dims,
            got: &got,
            expected: &expected,
            limits: &limits,
            non_finite: NonFinite::Refuse,
        })
    }

    #[test]
    fn the_first_and_the_worst_element_are_named() {
        let expected = [1.0, 1.0, 1.0, 1.0, 0.0, 3.0];
        let got = [1.0, 1.5, 1.0, f64::NAN, 0.0, 3.0];
        let mismatch = Mismatch::of(&Output {
            name: "out",
            axes: &["n".to_owned(), "m".to_owned()],
            dims: &[2, 3],
            got: &got,
            expected: &expected,
            limits: &[0.25; 6],
            non_finite: NonFinite::Refuse,
        });
        assert_eq!((mismatch.wrong, mismatch.elements), (2, 6));
        let lines = mismatch.elements();
        assert_eq!(lines[0], ("first", "out[0, 1] is 1.5, expected 1 ± 0.25".to_owned()));
        assert_eq!(lines[1], ("worst", "out[1, 0] is NaN, expected 1 ± 0.25".to_owned()));
        assert_eq!(mismatch.map, [".#.", "#.."]);
    }

    #[test]
    fn what_is_infinite_as_it_should_be_is_right() {
        let of = |non_finite| {
            let values = [f64::INFINITY, 2.0];
            let (axes, limits) = (["n".to_owned()], [0.0; 2]);
            Mismatch::of(&Output {
                name: "y",
                axes: &axes,
                dims: &[2],
                got: &values,
                expected: &values,
                limits: &limits,
                non_finite,
            })
        };
        assert_eq!((of(NonFinite::Match).wrong, of(NonFinite::Refuse).wrong), (0, 1));
    }

    #[test]
    fn maps_are_small_and_show_where() {
        let tail = compared(&[64, 100], &|at| at % 100 >= 97);
        assert_eq!((tail.map.len(), tail.matrix), (16, [64, 100]));
        assert!(tail.map.iter().all(|row| row == "...............+"), "{:?}", tail.map);
        let vector = compared(&[1000], &|at| at >= 512);
        assert_eq!(vector.matrix, [16, 64]);
        assert_eq!(vector.map[7], "................");
        assert_eq!(vector.map[8], "################");
        assert_eq!(vector.map[15], "##########      ");
        let all = compared(&[16, 1], &|_| true);
        assert!(!all.text().contains("map:"), "{}", all.text());
        assert!(vector.text().contains("map:"), "{}", vector.text());
        let rows = compared(&[4, 8], &|at| at / 8 == 2);
        assert_eq!(rows.map, ["........", "........", "########", "........"]);
    }

    #[test]
    fn errors_that_are_wrong_together_alone_have_no_map() {
        let none = compared(&[8], &|_| false);
        assert_eq!((none.wrong, none.map.len()), (0, 0));
        assert!(none.elements().is_empty() || none.elements()[0].0 == "largest error");
    }

    #[test]
    fn values_are_short() {
        assert_eq!(shown(f64::from(0.1f32)), "0.100000001");
        assert_eq!((shown(3.0), shown(f64::NEG_INFINITY)), ("3".to_owned(), "-inf".to_owned()));
        assert_eq!(shown(1.0 / 3.0 * 1e-9), "3.33333333e-10");
    }
}
