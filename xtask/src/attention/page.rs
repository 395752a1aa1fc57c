//! The table of errors: a line for each run as CSV, and the book's page made from it.

use std::fmt::{self, Write};

use warpproof_kernels::inputs::Distribution;
use warpproof_kernels::judge::Verdict;
use warpproof_kernels::problem::Shape;

use super::SEEDS;

/// Columns of the table.
const HEADER: &str =
    "variant,shape,distribution,seed,max,mean,bias,z,relative_l1,rmse,cosine,outside,other_bits,passed";

/// One run.
pub(super) struct Line(String);

impl Line {
    pub(super) fn new(
        variant: &str,
        shape: &Shape,
        distribution: Distribution,
        seed: u64,
        verdict: &Verdict,
    ) -> Line {
        let errors = &verdict.errors;
        Line(format!(
            "{variant},{shape},{distribution},{seed},{:.3e},{:.3e},{:.3e},{:.1},{:.3e},{:.3e},{:.7},{},{},{}",
            errors.max,
            errors.mean,
            errors.bias,
            errors.z,
            errors.relative_l1,
            errors.rmse,
            errors.cosine,
            errors.outside,
            verdict.other_bits,
            verdict.passed()
        ))
    }
}

#[cfg(test)]
impl Line {
    /// A line of the table.
    pub(super) fn read(text: &str) -> Line {
        Line(text.to_owned())
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// All lines under their header.
pub(super) fn csv(lines: &[Line]) -> String {
    let mut text = format!("{HEADER}\n");
    for line in lines {
        text += &line.0;
        text.push('\n');
    }
    text
}

/// How many runs there were, and how many of them passed.
pub(super) fn summary(lines: &[Line]) -> String {
    let rows: Vec<Row<'_>> = lines.iter().filter_map(|line| row(&line.0)).collect();
    format!("{} runs: {}", rows.len(), counts(&rows))
}

/// How many runs passed (errors within the limits, and all bits equal to the oracle's), and how many had equal bits.
fn counts(rows: &[Row<'_>]) -> String {
    let passed = rows.iter().filter(|row| row.passed).count();
    let same = rows.iter().filter(|row| row.other_bits == 0).count();
    format!(
        "{passed} passed, that is, with errors within the limits and every bit as the oracle's; {same} had every bit"
    )
}

/// A line parsed from the table.
struct Row<'a> {
    variant: &'a str,
    shape: &'a str,
    distribution: &'a str,
    max: f64,
    mean: f64,
    bias: f64,
    z: f64,
    relative_l1: f64,
    rmse: f64,
    cosine: f64,
    other_bits: u64,
    passed: bool,
}

fn rows(csv: &str) -> Result<Vec<Row<'_>>, String> {
    let mut lines = csv.lines();
    if lines.next() != Some(HEADER) {
        return Err("accuracy.csv: unexpected header".to_owned());
    }
    lines.map(|line| row(line).ok_or_else(|| format!("accuracy.csv: cannot parse line `{line}`"))).collect()
}

fn row(line: &str) -> Option<Row<'_>> {
    let cells: Vec<&str> = line.split(',').collect();
    let number = |at: usize| cells.get(at)?.parse::<f64>().ok();
    Some(Row {
        variant: cells.first()?,
        shape: cells.get(1)?,
        distribution: cells.get(2)?,
        max: number(4)?,
        mean: number(5)?,
        bias: number(6)?,
        z: number(7)?,
        relative_l1: number(8)?,
        rmse: number(9)?,
        cosine: number(10)?,
        other_bits: cells.get(12)?.parse().ok()?,
        passed: cells.get(13)? == &"true",
    })
}

/// Distinct values in the order of their first occurrence.
fn distinct<'a>(rows: &[Row<'a>], of: fn(&Row<'a>) -> &'a str) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for row in rows {
        if !found.contains(&of(row)) {
            found.push(of(row));
        }
    }
    found
}

/// The book's page, from the table of runs and that of quantization.
pub(super) fn page(csv: &str, quantized: &str) -> Result<String, String> {
    let rows = rows(csv)?;
    let (variants, shapes) = (distinct(&rows, |row| row.variant), distinct(&rows, |row| row.shape));
    let distributions = distinct(&rows, |row| row.distribution);
    let mut text = String::from(include_str!("accuracy_head.md"));
    let _ = write!(
        text,
        "\n{} runs on the software GPU ({} variants, {} shapes, {} distributions, {SEEDS} seeds): {}. Errors are *counted*. \
         Outputs are the same on every machine; the exact attention takes `exp` from the platform, which may differ in \
         its last bit, so figures are rounded to four digits, which hides the difference except at the edge of a \
         rounding.\n",
        rows.len(),
        variants.len(),
        shapes.len(),
        distributions.len(),
        counts(&rows),
    );
    text += "\n## One accumulator against two levels\n\n";
    let _ = write!(
        text,
        "V with mean 1, mean over {SEEDS} seeds. The shrinkage is the signed bias over the mean of the output, which is 1.\n\n"
    );
    text += "| shape | single chain | two levels |\n|---|---|---|\n";
    for shape in &shapes {
        let shrinkage = |variant: &str| {
            let mine: Vec<f64> = rows
                .iter()
                .filter(|row| {
                    row.variant == variant && row.shape == *shape && row.distribution == "v-mean-one"
                })
                .map(|row| row.bias)
                .collect();
            mine.iter().sum::<f64>() / f64::from(u32::try_from(mine.len()).unwrap_or(1).max(1))
        };
        let _ = writeln!(
            text,
            "| {shape} | {:.1e} | {:.1e} |",
            shrinkage("n4 single chain"),
            shrinkage("n4-mma-fp8")
        );
    }
    text += "\nThe cast of the weights to E4M3 adds a bias to both columns. With equal weights, which are exact, the tests \
             require less than 4e-4 for two levels at 2048 keys, and find that one chain loses between 1 % and 4 %.\n";
    text += "\n## Relative L1 error\n\nThe worst of all distributions and seeds.\n\n| variant |";
    text.extend(shapes.iter().flat_map(|shape| [" ", shape, " |"]));
    text += "\n|---|";
    text += &"---|".repeat(shapes.len());
    text.push('\n');
    for variant in &variants {
        text.extend(["| ", variant, " |"]);
        for shape in &shapes {
            let mine = rows.iter().filter(|row| row.variant == *variant && row.shape == *shape);
            let _ = write!(text, " {:.1e} |", mine.map(|row| row.relative_l1).fold(0.0, f64::max));
        }
        text.push('\n');
    }
    text += &super::quantized::section(quantized)?;
    let _ = write!(text, "\n## All figures\n\nThe worst of {SEEDS} seeds.\n");
    for distribution in distributions {
        let _ = write!(text, "\n<details><summary>{distribution}</summary>\n\n");
        text += "| variant | shape | max | mean | bias | z | relative L1 | RMSE | cosine |\n";
        text += "|---|---|---|---|---|---|---|---|---|\n";
        for variant in &variants {
            for shape in &shapes {
                let mine: Vec<&Row<'_>> = rows
                    .iter()
                    .filter(|row| {
                        row.variant == *variant && row.shape == *shape && row.distribution == distribution
                    })
                    .collect();
                let worst = |of: fn(&Row<'_>) -> f64| {
                    mine.iter()
                        .map(|row| of(row))
                        .fold(0.0, |a: f64, b| if b.abs() > a.abs() { b } else { a })
                };
                let cosine = mine.iter().map(|row| row.cosine).fold(1.0, f64::min);
                let _ = writeln!(
                    text,
                    "| {variant} | {shape} | {:.1e} | {:.1e} | {:.1e} | {:.1} | {:.1e} | {:.1e} | {cosine:.6} |",
                    worst(|row| row.max),
                    worst(|row| row.mean),
                    worst(|row| row.bias),
                    worst(|row| row.z),
                    worst(|row| row.relative_l1),
                    worst(|row| row.rmse),
                );
            }
        }
        text += "\n</details>\n";
    }
    Ok(text)
}
