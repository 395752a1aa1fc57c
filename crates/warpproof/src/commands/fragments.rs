//! `warpproof fragments`: prints which lane holds which element of a matrix, and verifies a table in a C header.

mod table;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use warpproof_sim::isa::fragments::{Fragment, Matrix, element_bits, shapes};

use super::flags::{JsonFlag, ended};
use crate::report::{Kind, Outcome, Report};
use crate::terminal::Terminal;
use table::Table;

/// Lanes of a warp.
const LANES: usize = 32;
/// Maximum number of wrong places that are named.
const MAX_NAMED: usize = 8;

/// Print which lane holds which element of a matrix fragment
///
/// Rows and columns are those of the matrix; each cell is LANE.ELEMENT, the lane and the index in its
/// fragment (`fragment.x[i]` of wmma). --verify checks that a table in a C header covers each row and
/// column exactly once, and that it is this layout.
///
///   warpproof fragments wmma16x16x16
///   warpproof fragments mma16x8x32 --matrix a --bits 8
///   warpproof fragments wmma16x16x16 --verify wmma16x16_accum_lut.h
///
/// A table has a row and a column for each lane and element: `int lut[32][8][2]`.
///
/// Exit codes: 0 success · 1 the table is wrong · 2 wrong usage.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Fragments {
    /// The instruction and its shape: wmma16x16x16, wmma.m32n8k16, mma16x8x16
    shape: String,
    /// Select the matrix
    #[arg(long, value_enum, default_value_t = Which::C)]
    matrix: Which,
    /// Select the bits of an element of A and B [default: 16 if the shape supports it]
    #[arg(long, value_name = "N")]
    bits: Option<u32>,
    /// Verify a table in this C header
    #[arg(long, value_name = "FILE")]
    verify: Option<PathBuf>,
    /// Select the table in the header [default: the first]
    #[arg(long, value_name = "NAME", requires = "verify")]
    table: Option<String>,
    #[command(flatten)]
    json: JsonFlag,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    /// The left factor
    A,
    /// The right factor
    B,
    /// The accumulators, and the result
    C,
}

impl From<Which> for Matrix {
    fn from(which: Which) -> Self {
        match which {
            Which::A => Self::A,
            Which::B => Self::B,
            Which::C => Self::C,
        }
    }
}

/// An instruction: its name and its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Product {
    wmma: bool,
    shape: (usize, usize, usize),
}

impl Product {
    /// Parses `wmma16x16x16`, `wmma.m16n16k16`, `mma16x8x16` and `m16n8k16`; without a name, a shape of `mma` first.
    fn parse(text: &str) -> Option<Self> {
        let lower = text.to_ascii_lowercase();
        let (wmma, rest) = match (lower.strip_prefix("wmma"), lower.strip_prefix("mma")) {
            (Some(rest), _) => (Some(true), rest),
            (None, Some(rest)) => (Some(false), rest),
            (None, None) => (None, &*lower),
        };
        let rest = rest.strip_prefix(['.', '_', '-']).unwrap_or(rest);
        let rest = rest.strip_prefix('m').unwrap_or(rest);
        let mut numbers = rest.split(['n', 'k', 'x']).map(|number| number.parse::<usize>().ok());
        let shape = (numbers.next()??, numbers.next()??, numbers.next()??);
        if numbers.next().is_some() {
            return None;
        }
        let known = |wmma: &bool| element_bits(*wmma, shape).next().is_some();
        let wmma = wmma.map_or_else(|| [false, true].into_iter().find(known), Some).filter(known)?;
        Some(Self { wmma, shape })
    }

    fn name(self) -> String {
        let (m, n, k) = self.shape;
        format!("{} m{m}n{n}k{k}", if self.wmma { "wmma" } else { "mma" })
    }
}

impl Fragments {
    pub(crate) fn run(&self, terminal: &mut Terminal) -> Outcome {
        let shown = self.show(terminal);
        ended(shown, terminal)
    }

    fn show(&self, terminal: &mut Terminal) -> Result<Outcome, Box<Report>> {
        let product = Product::parse(&self.shape).ok_or_else(|| unknown(&self.shape))?;
        let known: Vec<u32> = element_bits(product.wmma, product.shape).collect();
        let bits = self.bits.or(known.first().copied()).unwrap_or(16);
        let fragment =
            Fragment::new(product.wmma, product.shape, self.matrix.into(), bits).ok_or_else(|| {
                let known: Vec<String> = known.iter().map(u32::to_string).collect();
                let sentence = format!("{} has no elements of {bits} bits", product.name());
                Box::new(
                    Report::error(Kind::Usage, sentence).help(format!("use --bits {}", known.join(" or "))),
                )
            })?;
        let Some(file) = &self.verify else {
            if self.json.wanted {
                terminal.json(&self.document(product, &fragment));
            } else {
                terminal.print(self.picture(product, &fragment));
            }
            return Ok(Outcome::Green);
        };
        let table = self.read(file, &fragment)?;
        let faults = faults(&table, &fragment);
        let shown = file.display();
        if self.json.wanted {
            let faults: Vec<&String> =
                faults.iter().flat_map(|(what, places)| std::iter::once(what).chain(places)).collect();
            let schema = "warpproof.fragments.verify/1";
            terminal.json(&serde_json::json!({ "schema": schema, "table": table.name, "faults": faults }));
        }
        let (rows, columns) = fragment.extents();
        let Some((first, rest)) = faults.split_first() else {
            if !self.json.wanted {
                let (name, places) = (&table.name, rows * columns);
                let of = product.name();
                terminal.print(format_args!(
                    "{shown}: {name} covers each of {places} places exactly once, in the layout of {of}\n"
                ));
            }
            return Ok(Outcome::Green);
        };
        let told = |(what, places): &(String, Vec<String>)| match places.len() {
            0 => what.clone(),
            count if count > MAX_NAMED => {
                format!("{what}: {}, and {} more", places[..MAX_NAMED].join(", "), count - MAX_NAMED)
            }
            _ => format!("{what}: {}", places.join(", ")),
        };
        let report = Report::error(Kind::Kernel, format!("{shown}: {} {}", table.name, told(first)));
        let report = rest.iter().fold(report, |report, fault| report.note(told(fault), None));
        Err(Box::new(report.help(format!("`warpproof fragments {}` prints the layout", self.shape))))
    }

    fn read(&self, file: &Path, fragment: &Fragment) -> Result<Table, Box<Report>> {
        let shown = file.display();
        let text = std::fs::read_to_string(file).map_err(|error| {
            Box::new(Report::error(Kind::Missing, format!("cannot read {shown}: {error}")))
        })?;
        let (_, columns) = fragment.extents();
        Table::parse(&text, self.table.as_deref(), fragment.elements(), columns).map_err(|why| {
            let help =
                format!("expected a table such as `int lut[{LANES}][{}][2] = {{ … }};`", fragment.elements());
            Box::new(Report::error(Kind::Usage, format!("{shown}: {why}")).help(help))
        })
    }

    fn matrix_name(&self) -> &'static str {
        match self.matrix {
            Which::A => "A",
            Which::B => "B",
            Which::C => "C and D",
        }
    }

    fn picture(&self, product: Product, fragment: &Fragment) -> String {
        let (rows, columns) = fragment.extents();
        let mut cells: BTreeMap<(usize, usize), String> = BTreeMap::new();
        for lane in 0..LANES {
            for element in 0..fragment.elements() {
                cells.insert(fragment.place(lane, element), format!("{lane}.{element}"));
            }
        }
        let width = cells.values().map(String::len).max().unwrap_or(1);
        // Writing to a string does not fail.
        let mut out =
            format!("{}, matrix {}: {rows} rows, {columns} columns\n", product.name(), self.matrix_name());
        let (elements, per) = (fragment.elements(), fragment.per_register());
        let _ = writeln!(
            out,
            "each of {LANES} lanes holds {elements} elements, {per} in a register; LANE.ELEMENT:\n"
        );
        let _ = write!(out, "    ");
        for column in 0..columns {
            let _ = write!(out, " {column:>width$}");
        }
        out.push('\n');
        for row in 0..rows {
            let _ = write!(out, "{row:>4}");
            for column in 0..columns {
                let cell = cells.get(&(row, column)).map_or("?", String::as_str);
                let _ = write!(out, " {cell:>width$}");
            }
            out.push('\n');
        }
        if product.wmma {
            out.push_str("\nThe PTX manual leaves the layout of wmma open; this one is that of mma.\n");
        }
        if product.wmma && self.matrix != Which::C && fragment.per_register() == 2 {
            out.push_str("A fragment of f16 in CUDA C++ has these elements and copies of them.\n");
        }
        out
    }

    fn document(&self, product: Product, fragment: &Fragment) -> serde_json::Value {
        let (rows, columns) = fragment.extents();
        let lanes: Vec<Vec<[usize; 2]>> = (0..LANES)
            .map(|lane| {
                (0..fragment.elements()).map(|element| fragment.place(lane, element).into()).collect()
            })
            .collect();
        serde_json::json!({
            "schema": "warpproof.fragments/1",
            "instruction": product.name(),
            "matrix": self.matrix_name(),
            "rows": rows,
            "columns": columns,
            "elements_per_register": fragment.per_register(),
            "lanes": lanes,
        })
    }
}

fn unknown(text: &str) -> Box<Report> {
    let mut all: Vec<String> = Vec::new();
    for wmma in [true, false] {
        all.extend(shapes(wmma).map(|shape| Product { wmma, shape }.name().replace(" m", ".m")));
    }
    all.dedup();
    let sentence = format!("expected an instruction with a shape, found `{}`", text.escape_debug());
    Box::new(Report::error(Kind::Usage, sentence).help(format!("use one of {}", all.join(", "))))
}

/// What is wrong with a table: kinds of errors, each with its places.
fn faults(table: &Table, fragment: &Fragment) -> Vec<(String, Vec<String>)> {
    let (rows, columns) = fragment.extents();
    let mut holders: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
    let (mut outside, mut other) = (Vec::new(), Vec::new());
    for (lane, elements) in table.places.iter().enumerate() {
        for (element, &(row, column)) in elements.iter().enumerate() {
            if row >= rows || column >= columns {
                outside.push(format!("{lane}.{element} = ({row}, {column})"));
                continue;
            }
            holders.entry((row, column)).or_default().push(format!("{lane}.{element}"));
            let expected = fragment.place(lane, element);
            if (row, column) != expected {
                let (expected_row, expected_column) = expected;
                other.push(format!(
                    "{lane}.{element} = ({row}, {column}), expected ({expected_row}, {expected_column})"
                ));
            }
        }
    }
    let all = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
    let missing = all.filter(|place| !holders.contains_key(place));
    let missing: Vec<String> = missing.map(|(row, column)| format!("({row}, {column})")).collect();
    let twice = holders.iter().filter(|(_, who)| who.len() > 1);
    let twice: Vec<String> =
        twice.map(|((row, column), who)| format!("({row}, {column}) by {}", who.join(" and "))).collect();
    let wrong = [
        ("has places outside of the matrix", outside),
        ("does not cover places", missing),
        ("covers places more than once", twice),
        ("differs from the layout of the instruction", other),
    ];
    wrong
        .into_iter()
        .filter(|(_, places)| !places.is_empty())
        .map(|(what, places)| (what.to_owned(), places))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_written_in_several_ways() {
        let parsed = |text: &str| Product::parse(text).map(Product::name);
        for text in ["wmma16x16x16", "wmma.m16n16k16", "WMMA_16x16x16", "m16n16k16", "16x16x16"] {
            assert_eq!(parsed(text).as_deref(), Some("wmma m16n16k16"), "{text}");
        }
        assert_eq!(parsed("mma16x8x32").as_deref(), Some("mma m16n8k32"));
        assert_eq!(parsed("m8n8k4").as_deref(), Some("mma m8n8k4"));
        for text in ["", "wmma", "wmma16x16", "mma16x16x16", "wmma16x16x16x16", "mma-1x8x16", "17x8x16"] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }
}
