//! `cargo xtask attention`: evaluates every rung of the attention ladder.
//!
//! Every rung runs on every named shape, seed and distribution on the software GPU. Its errors against exact attention must be
//! within the limits of the formats, and its bits must equal those of the oracle that follows the rung's own blocking. Outputs of
//! kernels that do not compute attention must fail every shape. Every rung and feature also runs with all checks under eight
//! schedules, without a finding. The figures go to `book/src/attention/accuracy.csv`, and from there into the book's page; those of
//! the cost of quantization to `quantized.csv`.

mod cases;
mod page;
mod quantized;
mod silence;

use std::{
    fs,
    io::{IsTerminal, Write},
    path::PathBuf,
};

use warpproof_kernels::attention::Attention;
use warpproof_kernels::format::Format;
use warpproof_kernels::inputs::{Distribution, Inputs, generate};
use warpproof_kernels::judge::judge;
use warpproof_kernels::ladder::precision;
use warpproof_kernels::null::Null;
use warpproof_kernels::oracle::{
    bitwise::{Arithmetic, Bits, Parts},
    exact::Exact,
};
use warpproof_kernels::plan::{Plan, Request};
use warpproof_kernels::tolerance::Precision;
use warpproof_model::Device as Model;
use warpproof_toolchain::{Options, Toolchain};

use crate::cores;
use crate::in_release;
use crate::part::Part;
use crate::root;
use cases::{Shaped, Variant, shapes, variants};
use page::Line;

const SEEDS: u64 = 3;

fn folder() -> PathBuf {
    root().join("book/src/attention")
}

/// Runs the study. `quick` leaves out long shapes and all seeds except the first, and compares the rest with the committed table.
/// All errors are reported at the end. `bless` writes tables and page after all runs; with `quick`, it writes the table of
/// quantization, which takes minutes, and the page, otherwise from the committed table.
pub(crate) fn run(part: &Part, quick: bool, rung: Option<&str>, bless: bool) -> Result<String, String> {
    if bless && rung.is_some() {
        return Err("--bless needs all rungs: leave out --rung".to_owned());
    }
    if bless && quick {
        return write_page(&Committed::read()?.csv, &write_quantized()?).map(|()| String::new());
    }
    if !part.is_whole() {
        return sample(part);
    }
    if quick {
        return study(quick, rung, bless).map(|()| "all inputs of small shapes".to_owned());
    }
    let mut task = vec!["attention"];
    task.extend(bless.then_some("--bless"));
    task.extend(rung.into_iter().flat_map(|rung| ["--rung", rung]));
    // Thousands of launches, many under eight schedules.
    in_release(&task, || study(quick, rung, bless)).map(|()| "all inputs".to_owned())
}

/// An item of a sample.
enum Item {
    /// A rung on one input: the indices of its shape and of the rung.
    Case(usize, Distribution, usize),
    /// A plan under the checks.
    Plan(Request),
}

/// Rungs on inputs of small shapes, and plans under the checks, each alone.
fn sample(part: &Part) -> Result<String, String> {
    let toolchain = Toolchain::find(&Options::from_env().with_cuda(12)).map_err(|error| error.to_string())?;
    let committed = Committed::read()?;
    let (shapes, variants) = (shapes(), variants());
    let mut items: Vec<Item> = silence::requests(true).into_iter().map(Item::Plan).collect();
    for (shape, _) in shapes.iter().enumerate().filter(|(_, shape)| shape.quick) {
        for distribution in Distribution::ALL {
            items.extend((0..variants.len()).map(|variant| Item::Case(shape, distribution, variant)));
        }
    }
    let results = part.each(cores(), &items, |item| match item {
        Item::Plan(request) => silence::checked(&toolchain, request).map(|_| Vec::new()),
        Item::Case(shape, distribution, variant) => {
            let mut study =
                Study { toolchain: &toolchain, lines: Vec::new(), nulls: Vec::new(), wrong: Vec::new() };
            let (Some(shape), Some(variant)) = (shapes.get(*shape), variants.get(*variant)) else {
                return Err("internal error: no such case".to_owned());
            };
            study.case(shape, *distribution, 0, std::slice::from_ref(variant))?;
            study.wrong.extend(committed.compare(&study.lines, false));
            Ok(study.wrong)
        }
    });
    let results = results.all()?;
    let note = results.note("inputs of rungs and plans under the checks");
    let wrong: Vec<String> = results.into_results().flatten().collect();
    if wrong.is_empty() { Ok(note) } else { Err(format!("{} wrong:\n{}", wrong.len(), wrong.join("\n"))) }
}

fn study(quick: bool, rung: Option<&str>, bless: bool) -> Result<(), String> {
    let toolchain = Toolchain::find(&Options::from_env().with_cuda(12)).map_err(|error| error.to_string())?;
    let asked = |variant: &Variant| rung.is_none_or(|rung| variant.rung.id == rung);
    let variants: Vec<Variant> = variants().into_iter().filter(asked).collect();
    if variants.is_empty() {
        return Err(format!("there is no rung `{}`", rung.unwrap_or_default()));
    }
    // Read first: hours of work would be wasted if there were no table to compare with.
    let committed = if bless { None } else { Some(Committed::read()?) };
    let mut study = Study { toolchain: &toolchain, lines: Vec::new(), nulls: Vec::new(), wrong: Vec::new() };
    for shape in shapes().into_iter().filter(|shape| !quick || shape.quick) {
        for distribution in Distribution::ALL {
            for seed in 0..if quick { 1 } else { SEEDS } {
                if let Err(error) = study.case(&shape, distribution, seed, &variants) {
                    study.wrong.push(format!("{} {distribution} seed {seed}: {error}", shape.shape));
                }
            }
        }
        study.nulls_of(&shape);
    }
    if rung.is_none() && !bless {
        study.quantization(quick, committed.as_ref())?;
    }
    let silence = silence::run(study.toolchain, rung, quick);
    println!("{}", silence.summary);
    study.wrong.extend(silence.wrong);
    match committed {
        Some(committed) => study.wrong.extend(committed.compare(&study.lines, !quick && rung.is_none())),
        None if study.wrong.is_empty() => write(&study.lines)?,
        None => study.wrong.push("the table and the page were not written".to_owned()),
    }
    println!("{}", page::summary(&study.lines));
    if study.wrong.is_empty() {
        return Ok(());
    }
    Err(format!("{} wrong:\n{}", study.wrong.len(), study.wrong.join("\n")))
}

struct Study<'t> {
    toolchain: &'t Toolchain,
    lines: Vec<Line>,
    /// For the current shape: each null output, and whether some input has detected it.
    nulls: Vec<(Null, bool)>,
    wrong: Vec<String>,
}

/// Oracles of one input, computed when first needed.
struct Known {
    inputs: Inputs,
    exact: Vec<(Precision, Exact)>,
    /// The bits of an arithmetic with separately summed tiles of keys.
    bits: Vec<((Arithmetic, Parts), Bits)>,
}

impl Known {
    fn of(&mut self, plan: &Plan) -> Result<(usize, usize), String> {
        let arithmetic = plan.arithmetic();
        let order = (arithmetic, plan.tiles_apart());
        let precision = precision(&arithmetic, plan.request.format);
        let mut exact = self.exact.iter().position(|(known, _)| *known == precision);
        if exact.is_none() {
            self.exact.push((precision, plan.exact(&self.inputs).map_err(|error| error.to_string())?));
        }
        let exact = exact.get_or_insert(self.exact.len() - 1);
        let mut bits = self.bits.iter().position(|(known, _)| *known == order);
        if bits.is_none() {
            self.bits.push((order, plan.bits(&self.inputs).map_err(|error| error.to_string())?));
        }
        let bits = bits.get_or_insert(self.bits.len() - 1);
        Ok((*exact, *bits))
    }
}

impl Study<'_> {
    /// All variants on one input in each format.
    fn case(
        &mut self,
        shaped: &Shaped,
        distribution: Distribution,
        seed: u64,
        variants: &[Variant],
    ) -> Result<(), String> {
        for format in Format::ALL {
            let mine: Vec<&Variant> =
                variants.iter().filter(|variant| variant.rung.formats.first() == Some(&format)).collect();
            if mine.is_empty() {
                continue;
            }
            let request = Request { format, ..Request::new(shaped.shape.clone()) };
            let inputs = generate(&shaped.shape, distribution, seed, request.spec());
            let mut known = Known { inputs, exact: Vec::new(), bits: Vec::new() };
            for variant in mine {
                progress(&format!("{} {distribution} seed {seed} {}", shaped.shape, variant.name));
                self.variant(shaped, (distribution, seed), variant, &request, &mut known)?;
            }
            progress("");
            if format == Format::E4m3 {
                self.try_nulls(&known, &request)?;
            }
        }
        Ok(())
    }

    fn variant(
        &mut self,
        shaped: &Shaped,
        (distribution, seed): (Distribution, u64),
        variant: &Variant,
        request: &Request,
        known: &mut Known,
    ) -> Result<(), String> {
        let request = Request {
            rung: Some(variant.rung.id.to_owned()),
            toggles: variant.toggles.clone(),
            ..request.clone()
        };
        let plan = Plan::new(&request, l4()?).map_err(|error| error.to_string())?;
        let ptx = plan.compile(self.toolchain).map_err(|error| error.to_string())?;
        let (exact, bits) = known.of(&plan)?;
        let mut gpu = warpproof_sim::Device::new();
        let attention = Attention::load(plan, &ptx, &mut gpu).map_err(|error| error.to_string())?;
        let Inputs { q, k, v, .. } = &known.inputs;
        let answer = attention.run(&mut gpu, q, k, v).map_err(|error| error.to_string())?;
        let (Some((_, exact)), Some((_, bits))) = (known.exact.get(exact), known.bits.get(bits)) else {
            return Err("internal error: an oracle is missing".to_owned());
        };
        let verdict = judge(exact, bits, request.lse, &answer);
        let line = Line::new(variant.name, &shaped.shape, distribution, seed, &verdict);
        if !verdict.passed() {
            let other = verdict.other_bits;
            self.wrong.push(format!(
                "{line}: {other} elements differ in their bits; {:?}",
                verdict.judgement.reasons
            ));
        }
        self.lines.push(line);
        Ok(())
    }

    /// Compares outputs that are not attention with the limits of the widest format; it is enough if one input detects them.
    fn try_nulls(&mut self, known: &Known, request: &Request) -> Result<(), String> {
        let widest = known.exact.iter().find(|(precision, _)| {
            *precision == warpproof_kernels::ladder::precision(&Arithmetic::N4, request.format)
        });
        let Some((_, exact)) = widest else { return Ok(()) };
        let Some(tolerance) = &exact.tolerance else { return Ok(()) };
        for null in Null::ALL {
            if null.is_right(&known.inputs, request.mask) {
                continue;
            }
            let output = null
                .output(&known.inputs, request.mask, request.layout)
                .map_err(|error| error.to_string())?;
            let errors =
                warpproof_tolerance::error::Errors::of(&output, &exact.output, exact.rows.dim, tolerance);
            let detected = !tolerance.judge(&errors).passed;
            match self.nulls.iter_mut().find(|(known, _)| *known == null) {
                Some((_, before)) => *before |= detected,
                None => self.nulls.push((null, detected)),
            }
        }
        Ok(())
    }

    /// Compares the cost of quantization with the committed table.
    fn quantization(&mut self, quick: bool, committed: Option<&Committed>) -> Result<(), String> {
        let lines = quantized::lines(quick)?;
        if let Some(committed) = committed {
            let missing =
                lines.iter().filter(|line| !committed.quantized.lines().any(|known| known == *line));
            self.wrong.extend(missing.map(|line| format!("not in quantized.csv: {line}")));
        }
        Ok(())
    }

    /// Reports the null outputs that no input of this shape has detected.
    fn nulls_of(&mut self, shaped: &Shaped) {
        for (null, detected) in self.nulls.drain(..) {
            if !detected {
                self.wrong.push(format!("{}: {null} passes", shaped.shape));
            }
        }
    }
}

/// The device that plans are made for.
fn l4() -> Result<&'static Model, String> {
    Model::named("L4").ok_or_else(|| "the L4 is not in the device table".to_owned())
}

/// Shows progress, on a terminal only.
fn progress(text: &str) {
    let mut terminal = std::io::stderr();
    if terminal.is_terminal() {
        let _lost = write!(terminal, "\r\x1b[K{text}");
        let _lost = terminal.flush();
    }
}

/// Paths of the table and of the page that is made from it.
fn places() -> (PathBuf, PathBuf) {
    (folder().join("accuracy.csv"), folder().join("accuracy.md"))
}

/// Writes table and page.
fn write(lines: &[Line]) -> Result<(), String> {
    let (table, _) = places();
    let csv = page::csv(lines);
    fs::write(&table, &csv).map_err(|error| format!("{}: {error}", table.display()))?;
    write_page(&csv, &write_quantized()?)
}

/// Writes the table of quantization, and returns it.
fn write_quantized() -> Result<String, String> {
    let table = folder().join("quantized.csv");
    let csv = quantized::csv(&quantized::lines(false)?);
    fs::write(&table, &csv).map_err(|error| format!("{}: {error}", table.display()))?;
    Ok(csv)
}

/// Writes the page that the tables make.
fn write_page(csv: &str, quantized: &str) -> Result<(), String> {
    let (_, page) = places();
    fs::write(&page, page::page(csv, quantized)?).map_err(|error| format!("{}: {error}", page.display()))
}

/// Tables and page as they were committed.
struct Committed {
    csv: String,
    quantized: String,
    page: String,
}

impl Committed {
    fn read() -> Result<Committed, String> {
        let read =
            |path: PathBuf| fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()));
        let (table, page) = places();
        // Without a table of quantization, the page and every line of it differ.
        let quantized = read(folder().join("quantized.csv")).unwrap_or_default();
        Ok(Committed { csv: read(table)?, quantized, page: read(page)? })
    }

    /// Lists the differences: lines that are not in the table; after all runs, lines of the table that no run gave; and the page.
    fn compare(&self, lines: &[Line], all: bool) -> Vec<String> {
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        let missing = lines.iter().filter(|line| !self.csv.lines().any(|known| known == *line));
        let mut wrong: Vec<String> = missing.map(|line| format!("not in accuracy.csv: {line}")).collect();
        if all {
            let left = self.csv.lines().skip(1).filter(|known| !lines.iter().any(|line| line == known));
            wrong.extend(left.map(|known| format!("only in accuracy.csv, no run gives it: {known}")));
        }
        match page::page(&self.csv, &self.quantized) {
            Ok(page) if page == self.page => {}
            Ok(_) => wrong.push("accuracy.md does not match accuracy.csv and quantized.csv".to_owned()),
            Err(error) => wrong.push(error),
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_compared_both_ways_after_all_runs() {
        let line = |seed: u64| format!("n1-tiled,B1 H1 S32 D64,normal,{seed},0,0,0,0,0,0,1,0,0,true");
        let csv = page::csv(&[Line::read(&line(0)), Line::read(&line(1))]);
        let quantized = quantized::csv(&[]);
        let committed = Committed { page: page::page(&csv, &quantized).unwrap(), csv, quantized };
        let given = [Line::read(&line(1)), Line::read(&line(2))];
        assert_eq!(committed.compare(&given[..1], false), Vec::<String>::new());
        let expected = [
            format!("not in accuracy.csv: {}", line(2)),
            format!("only in accuracy.csv, no run gives it: {}", line(0)),
        ];
        assert_eq!(committed.compare(&given, true), expected);
        let committed = Committed { page: String::new(), ..committed };
        assert_eq!(
            committed.compare(&[], false),
            ["accuracy.md does not match accuracy.csv and quantized.csv"]
        );
    }
}
