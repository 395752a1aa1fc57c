//! The cost of quantization: attention of quantized tensors compared with f64 attention of the tensors before quantization.
//!
//! The output of a case is the one that the plan's kernel must have, from its bit-exact oracle; the rest of the study proves that
//! the kernels have these bits. No compiler is needed.

use std::fmt::Write;

use warpproof_kernels::inputs::{Distribution, Tensors};
use warpproof_kernels::oracle::exact::{self, Options};
use warpproof_kernels::plan::{Plan, Request, Scales};
use warpproof_kernels::problem::{Granularity, Layout, Mask, Shape};
use warpproof_kernels::{Format, Inputs};
use warpproof_tolerance::Tolerance;
use warpproof_tolerance::error::{Errors, NonFinite};

use super::{SEEDS, l4, progress};

/// Columns of the table.
const HEADER: &str =
    "values,shape,format,scales,smooth,seed,max,relative_l1,rmse,cosine,relative_l1_of_inputs";

/// What is quantized: the values, and how.
#[derive(Clone, Copy)]
struct Case {
    values: &'static str,
    format: Format,
    granularity: Granularity,
    smooth: bool,
}

const VALUES: [&str; 3] = ["activations", "outliers", "normal"];

fn shapes() -> [Shape; 2] {
    [64, 128].map(|dim| Shape::equal(1, 2, 512, dim))
}

fn cases() -> impl Iterator<Item = Case> {
    let ways = [
        (Format::E4m3, Granularity::Head),
        (Format::E4m3, Granularity::Block),
        (Format::E4m3, Granularity::Row),
        (Format::E5m2, Granularity::Head),
    ];
    VALUES.into_iter().flat_map(move |values| {
        ways.into_iter().flat_map(move |(format, granularity)| {
            [false, true].map(|smooth| Case { values, format, granularity, smooth })
        })
    })
}

/// The lines of the table, without its header. `quick`: the first shape and seed.
pub(super) fn lines(quick: bool) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    for shape in shapes().into_iter().take(if quick { 1 } else { 2 }) {
        for case in cases() {
            for seed in 0..if quick { 1 } else { SEEDS } {
                progress(&format!("quantization: {} {shape} seed {seed}", case.values));
                lines.push(line(&shape, case, seed)?);
            }
        }
    }
    progress("");
    Ok(lines)
}

fn line(shape: &Shape, case: Case, seed: u64) -> Result<String, String> {
    let Case { values, format, granularity, smooth } = case;
    let tensors = match values {
        "activations" => Tensors::activations(shape, seed, Layout::Bhsd),
        "outliers" => Tensors::generate(shape, Distribution::Outliers, seed, Layout::Bhsd),
        _ => Tensors::generate(shape, Distribution::Normal, seed, Layout::Bhsd),
    };
    let exact = |result: Result<exact::Exact, _>| {
        result
            .map(|exact| exact.output)
            .map_err(|error: warpproof_kernels::inputs::Inconsistent| error.to_string())
    };
    let options = Options::default();
    let truth = exact(exact::of_tensors(&tensors, Mask::Full, &options))?;
    let scales = Scales::all(granularity);
    let inputs: Inputs = tensors.quantize(format, scales, smooth).map_err(|error| error.to_string())?;
    let request = Request { format, scales, ..Request::new(shape.clone()) };
    let plan = Plan::new(&request, l4()?).map_err(|error| error.to_string())?;
    let output = plan.bits(&inputs).map_err(|error| error.to_string())?.output;
    let none = Tolerance::new(Vec::new(), Vec::new(), &[]);
    let errors = Errors::of(&output, &truth, shape.dim, &none);
    let inputs = exact(exact::attention(&inputs, Mask::Full, &options))?;
    let alone = Errors::measure(|at| inputs.get(at).copied(), &truth, shape.dim, &none, NonFinite::Refuse);
    Ok(format!(
        "{values},{shape},{format},{},{smooth},{seed},{:.3e},{:.3e},{:.3e},{:.6},{:.3e}",
        name(granularity),
        errors.max,
        errors.relative_l1,
        errors.rmse,
        errors.cosine,
        alone.relative_l1
    ))
}

fn name(granularity: Granularity) -> &'static str {
    match granularity {
        Granularity::Tensor => "tensor",
        Granularity::Head => "head",
        Granularity::Block => "block",
        Granularity::Row => "row",
    }
}

/// All lines under their header.
pub(super) fn csv(lines: &[String]) -> String {
    let mut text = format!("{HEADER}\n");
    for line in lines {
        text += line;
        text.push('\n');
    }
    text
}

/// The section of the book's page.
pub(super) fn section(csv: &str) -> Result<String, String> {
    let mut lines = csv.lines();
    if lines.next() != Some(HEADER) {
        return Err("quantized.csv: unexpected header".to_owned());
    }
    let rows = lines
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            let numbers: Vec<f64> = cells.iter().skip(6).filter_map(|cell| cell.parse().ok()).collect();
            let numbers: [f64; 5] = numbers.try_into().ok()?;
            let key: [&str; 5] = cells.get(..5)?.try_into().ok()?;
            Some((key, numbers))
        })
        .collect::<Option<Vec<_>>>()
        .ok_or("quantized.csv: a line cannot be parsed")?;
    let mut text = String::from(include_str!("quantized_head.md"));
    let _ = write!(
        text,
        "\nThe mean of {SEEDS} seeds, except for the largest error.\n\n| values | shape | format | scales | smooth | relative L1 | inputs alone | RMSE | \
         cosine | max |\n|---|---|---|---|---|---|---|---|---|---|\n"
    );
    let mut done: Vec<[&str; 5]> = Vec::new();
    for (key, _) in &rows {
        if done.contains(key) {
            continue;
        }
        done.push(*key);
        let mine: Vec<[f64; 5]> = rows.iter().filter(|row| row.0 == *key).map(|row| row.1).collect();
        let count = f64::from(u32::try_from(mine.len()).unwrap_or(1));
        let mean = |column: usize| mine.iter().map(|row| row[column]).sum::<f64>() / count;
        let max = mine.iter().map(|row| row[0]).fold(0.0, f64::max);
        let [values, shape, format, scales, smooth] = key;
        let smooth = if *smooth == "true" { "yes" } else { "no" };
        let _ = writeln!(
            text,
            "| {values} | {shape} | {format} | {scales} | {smooth} | {:.2} % | {:.2} % | {:.1e} | {:.5} | {max:.1e} |",
            100.0 * mean(1),
            100.0 * mean(4),
            mean(2),
            mean(3),
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_section_has_a_line_for_each_case_with_means_over_seeds() {
        let line = |seed: u64, error: f64| {
            format!("normal,B1 H1 S32 D64,e4m3,head,true,{seed},{error},{error},{error},1,{error}")
        };
        let text = section(&csv(&[line(0, 0.01), line(1, 0.03)])).unwrap();
        let last = text.lines().last().unwrap();
        assert_eq!(
            last,
            "| normal | B1 H1 S32 D64 | e4m3 | head | yes | 2.00 % | 2.00 % | 2.0e-2 | 1.00000 | 3.0e-2 |"
        );
        assert!(section("nothing").is_err());
        assert!(section(&csv(&["normal".to_owned()])).is_err());
    }
}
