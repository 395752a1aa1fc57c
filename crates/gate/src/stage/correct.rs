//! Compares outputs with the reference: every type, distribution and seed on every size.
//!
//! All cases of a size run one after another on one loaded module, with fresh inputs at the same addresses,
//! and the first case runs again at the end: a kernel that caches its output then returns it for the wrong
//! inputs. A kernel that first compares the inputs would never be caught, so kernels must not keep state:
//! after each case, module variables must have the values that loading gave them.
//!
//! Arrays are placed at addresses drawn for the run. The first case also runs at other addresses and must give the
//! same bits.
//!
//! Timed launches follow each other on the same memory. So the first case is launched again on the memory it left: if
//! it issues the same number of instructions and leaves the same memory, then every later launch starts from the same
//! state.

use std::collections::BTreeMap;

use warpproof_sim::cover::Coverage;
use warpproof_tolerance::error::Errors;
use warpproof_tolerance::{Judgement, Tolerance};

use super::build::Module;
use super::launch::{OTHER_POISON, POISON, Stand, Work};
use super::{
    Bench, Built, Case, CaseName, Ending, Part, Trouble, audit, computed, covered, limited, reach, unfit,
};
use crate::family::attention;
use crate::inputs::{self, Input};
use crate::limits::Purpose;
use crate::reference::files::Loaded;
use crate::reference::python::Python;
use crate::reference::{self, Expected, Null, Tensor};
use warpproof_evidence::counterexample::Counterexample;
use warpproof_evidence::record::{Comparison, Figure, Obstacle, Outcome};
use warpproof_evidence::vocabulary as topic;
use warpproof_task::dtype::Dtype;
use warpproof_task::{Accumulate, Candidate, NonFinite, Operator, Policy, Program, Reference, Role, dims};

/// The first case of a dtype: its inputs, the outputs it gave, and its names.
type First = (Dtype, Vec<Input>, Vec<(String, Vec<u8>)>, String, CaseName);

/// How a null kernel's figure begins.
const REFUSES: &str = "cases that refuse ";

/// The cases of one size or one of them, and further ones for coverage that those do not reach.
pub(crate) fn part(
    bench: &Bench<'_>,
    candidate: &Candidate,
    module: Module<'_>,
    baseline: Option<(&Candidate, &Built)>,
    (part, one): (&Part, Option<usize>),
) -> Result<Ending, Trouble> {
    let cases = bench.cases_of(candidate, one);
    if cases.is_empty() {
        return Err(unfit("the candidate supports none of the task's types"));
    }
    let mut covered = Coverage::default();
    let mut ending = judge(bench, candidate, module, baseline, (part, cases), &mut covered)?;
    if ending.outcome == Outcome::Pass {
        for (part, cases) in reach::further(bench, candidate, module, part, &covered)? {
            let more = judge(bench, candidate, module, baseline, (&part, cases), &mut covered)?;
            let ends = vec![(part.name.clone(), ending), (part.name.clone(), more)];
            ending = super::sum(ends);
        }
    }
    Ok(covered::keep(ending, &format!("{} {}", part.name, module.arch), &covered))
}

/// Evaluates the cases of a size, and records their coverage.
fn judge(
    bench: &Bench<'_>,
    candidate: &Candidate,
    module: Module<'_>,
    baseline: Option<(&Candidate, &Built)>,
    (part, cases): (&Part, Vec<Case<'_>>),
    covered: &mut Coverage,
) -> Result<Ending, Trouble> {
    let further = cases.iter().any(|case| case.planted.is_some());
    let peer = match (bitwise(bench, candidate), baseline) {
        (false, _) => None,
        (true, Some((peer, built))) => {
            let module = built
                .module(module.arch)
                .ok_or_else(|| unfit("its bitwise baseline is not a kernel of the task"))?;
            Some((peer, module))
        }
        (true, None) => return Err(unfit("its bitwise baseline has no compiled program")),
    };
    let mut stands: Vec<(Dtype, Stand)> = Vec::new();
    let mut peers: Vec<(Dtype, Stand)> = Vec::new();
    let mut worst = Worst::default();
    let mut nulls: BTreeMap<String, u64> = BTreeMap::new();
    let mut tried: Vec<(Dtype, String)> = Vec::new();
    let mut firsts: Vec<First> = Vec::new();
    let mut first_call: Option<(Case<'_>, Vec<Input>, BTreeMap<String, Expected>)> = None;
    let tested = bench.tested(part, &cases, 0);
    for case in cases {
        bench.check_stop()?;
        let name = format!("{}, {}", part.name, case.name);
        let shown = bench.case_name(part, &case);
        let fail = |reason: String| Trouble::from(Ending::fail(reason, Vec::new()).shown_by(&shown));
        let inputs = inputs_of(bench, part, &case)?;
        let at = standing(bench, candidate, module, part, case.dtype, &mut stands)?;
        let Some((_, stand)) = stands.get_mut(at) else {
            return Err(unfit("internal error: a loaded module is missing"));
        };
        stand.fill(&inputs, POISON)?;
        let fresh = !firsts.iter().any(|first| first.0 == case.dtype);
        let mut executed = Work::default();
        stand.run(&name, Some(&mut executed)).map_err(|end| end.shown_by(&shown))?;
        covered.merge(&executed.coverage);
        if let Some(variable) = stand.kept_variable() {
            let reason = format!(
                "{name}: the kernel keeps state between launches in `{variable}`; use [[candidate.scratch]] for \
                 temporary memory"
            );
            return Err(fail(reason));
        }
        if let Some(input) = stand.changed_input()? {
            return Err(fail(format!("{name}: the kernel changed its input `{input}`")));
        }
        if let Some(why) = audit::downgrade(bench.task, case.dtype, &executed.instructions) {
            return Err(fail(format!("{}: less precise than the task requires: {why}", part.name)));
        }
        let got: Vec<(String, Vec<u8>)> =
            stand.outputs()?.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
        let expected = expectations(bench, part, &case, &inputs)?;
        let finite =
            |one: &Expected| one.tensor.values.iter().all(|value| value.abs() <= one.dtype.largest());
        if further && bench.task.tolerance.non_finite == NonFinite::Refuse && !expected.values().all(finite) {
            // The planted values have no answer that the task accepts.
            continue;
        }
        if let Some(reason) = incomparable(bench, &name, &expected) {
            // A kernel that already failed is wrong, whatever is wrong with the task.
            if worst.first_failure.is_some() {
                break;
            }
            let ending = Ending::inconclusive(reason, Some(Obstacle::Input));
            return Err(ending.shown_by(&shown).into());
        }
        for (output, bytes) in &got {
            let Some(expected) = expected.get(output) else {
                return Err(unfit(format!("the reference has no output `{output}`")));
            };
            let (errors, judgement) = expected.judge(bytes, bench.task.tolerance.non_finite);
            let unwritten = unwritten(bytes, element(bench, output, case.dtype));
            if unwritten > 0 && !judgement.passed {
                let all = expected.tensor.values.len();
                worst
                    .blame(format!("{name}: {unwritten} of {all} elements of `{output}` were never written"));
            }
            worst.add(&name, &errors, &judgement, &expected.tolerance);
            if !judgement.passed {
                worst.show(|| mismatch(bench, &shown, output, bytes, expected));
            }
        }
        if let Some((peer, module)) = peer {
            let at = standing(bench, peer, module, part, case.dtype, &mut peers)?;
            if let Some((_, stand)) = peers.get_mut(at) {
                stand.fill(&inputs, POISON)?;
                // A baseline that stops is not the candidate's fault.
                stand.run(&name, None).map_err(|end| {
                    unfit(format!("its bitwise baseline does not complete: {}", end.reason))
                })?;
                for ((output, bytes), (_, other)) in got.iter().zip(stand.outputs()?) {
                    worst.compare_bits(bytes, &other, element(bench, output, case.dtype));
                }
            }
        }
        let kind = (case.dtype, case.distribution.name.value.clone());
        if !further && !tried.contains(&kind) {
            tried.push(kind);
            try_nulls(bench, &case, part, &inputs, &expected, &mut nulls)?;
        }
        if first_call.is_none() && matches!(bench.task.reference, Reference::Python { .. }) {
            first_call = Some((case.clone(), inputs.clone(), expected));
        }
        if fresh && !further {
            firsts.push((case.dtype, inputs, got, name, shown));
        }
    }
    if let Some((case, inputs, expected)) = &first_call {
        called_again(bench, part, case, inputs, expected)?;
    }
    // Once more after all other cases, if they passed: an error is already reported otherwise.
    for first in firsts.iter().filter(|_| worst.first_failure.is_none()) {
        let (dtype, inputs, before, name, shown) = first;
        let Some((_, stand)) = stands.iter_mut().find(|(own, _)| own == dtype) else { continue };
        bench.check_stop()?;
        // A different fill value: elements that no kernel writes then differ too.
        stand.fill(inputs, OTHER_POISON)?;
        let mut work = Work::default();
        stand.run(name, Some(&mut work)).map_err(|end| end.shown_by(shown))?;
        let same = stand.outputs()?.iter().zip(before).all(|((_, now), (_, then))| now == then);
        if !same {
            let reason = format!(
                "{name}: the output changes when memory has other contents before the launch; the kernel leaves outputs \
                 unwritten, reads uninitialized memory, or keeps state between launches"
            );
            return Err(Ending::fail(reason, Vec::new()).shown_by(shown).into());
        }
        bench.check_stop()?;
        launched_again(stand, inputs, name, work.issued).map_err(|end| end.shown_by(shown))?;
        bench.check_stop()?;
        elsewhere(bench, candidate, module, part, first)?;
    }
    Ok(Ending { tested: Some(Box::new(tested)), ..worst.ending(&part.name, &nulls) })
}

/// Why no output can be compared with the reference: an error of the task, not of the kernel.
fn incomparable(bench: &Bench<'_>, case: &str, expected: &BTreeMap<String, Expected>) -> Option<String> {
    let non_finite = bench.task.tolerance.non_finite;
    let (output, expected, (index, value)) = expected
        .iter()
        .find_map(|(output, expected)| Some((output, expected, expected.incomparable(non_finite)?)))?;
    let index: Vec<String> = index.iter().map(ToString::to_string).collect();
    let dtype = expected.dtype;
    let what = if value.is_finite() {
        format!("{value}, which {dtype} cannot represent,")
    } else {
        value.to_string()
    };
    Some(format!(
        "{case}: error in the task, not in the kernel: the reference is {what} at {output}[{}], and the task rejects outputs \
         that are not finite, so that no kernel can pass; fix the reference or the range of its inputs, or set `non_finite = \
         \"match\"` in [tolerance]",
        index.join(", ")
    ))
}

/// Where an output is wrong, for the record.
fn mismatch(
    bench: &Bench<'_>,
    case: &CaseName,
    output: &str,
    bytes: &[u8],
    expected: &Expected,
) -> Counterexample {
    let declared = bench.task.data.outputs.iter().find(|one| one.name.value == output);
    let axes = declared.map(|one| one.dims.iter().map(|extent| extent.value.to_string()).collect());
    let axes: Vec<String> = axes.unwrap_or_default();
    let mismatch = expected.mismatch(output, &axes, bytes, bench.task.tolerance.non_finite);
    Counterexample { mismatch: Some(mismatch), ..Counterexample::of_case(case.to_string()) }
}

/// Calls a Python reference again for the first case, after all others. The same process serves the call, so it could
/// keep state between calls; its result must not depend on that.
fn called_again(
    bench: &Bench<'_>,
    part: &Part,
    case: &Case<'_>,
    inputs: &[Input],
    before: &BTreeMap<String, Expected>,
) -> Result<(), Trouble> {
    let again = expectations(bench, part, case, inputs)?;
    for (name, first) in before {
        let Some(second) = again.get(name) else { continue };
        let bits = |one: &Expected| one.tensor.values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        if bits(first) == bits(second) {
            continue;
        }
        // It may differ within the limits: libraries round differently when memory is aligned differently.
        let bytes = dtype_of(bench, name, case.dtype).bytes(&second.tensor.values);
        let (_, judgement) = first.judge(&bytes, bench.task.tolerance.non_finite);
        if !judgement.passed {
            return Err(unfit(format!(
                "{}, {}: the reference returns a different `{name}` when called again with the same inputs; it is random, or \
                 keeps something between calls",
                part.name, case.name
            )));
        }
    }
    Ok(())
}

/// Runs the first case with arrays at other addresses; it must give the same bits.
fn elsewhere(
    bench: &Bench<'_>,
    candidate: &Candidate,
    module: Module<'_>,
    part: &Part,
    (dtype, inputs, before, name, shown): &First,
) -> Result<(), Trouble> {
    let mut stand = Stand::elsewhere(bench, candidate, module, &part.size, *dtype)?;
    stand.fill(inputs, POISON)?;
    stand.run(name, None).map_err(|end| end.shown_by(shown))?;
    let moved = stand.outputs()?;
    match moved.iter().zip(before).find(|((_, now), (_, then))| now != then) {
        None => Ok(()),
        Some(((output, _), _)) => {
            let reason = format!(
                "{name}: `{output}` changes when arrays are placed at other addresses; outputs must not depend on addresses, \
                 and the CUDA runtime guarantees only 256-byte alignment"
            );
            Err(Ending::fail(reason, Vec::new()).shown_by(shown).into())
        }
    }
}

/// Launches again on the memory that the last launch left, as timed launches do. A kernel that finds its work already
/// done there would be timed doing nothing.
fn launched_again(stand: &mut Stand, inputs: &[Input], name: &str, issued: u64) -> Result<(), Ending> {
    let before = stand.left()?;
    // Outputs that begin as an input have changed, so only they are filled again.
    stand.refill_in_place(inputs, OTHER_POISON)?;
    let mut again = Work::default();
    stand.run(name, Some(&mut again))?;
    let fail = |what: String| {
        let reason = format!(
            "{name}: launched again on the memory that it left, as timed launches are, the kernel {what}; every launch must \
             do the same work"
        );
        Err(Ending::fail(reason, Vec::new()))
    };
    if again.issued != issued {
        return fail(format!("issues {} warp instructions instead of {issued}", again.issued));
    }
    let after = stand.left()?;
    match before.iter().zip(&after).find(|(before, after)| before != after) {
        Some(((changed, _), _)) => fail(format!("leaves different contents in `{changed}`")),
        None => Ok(()),
    }
}

/// The index of the stand for a dtype, created if missing.
fn standing(
    bench: &Bench<'_>,
    candidate: &Candidate,
    module: Module<'_>,
    part: &Part,
    dtype: Dtype,
    stands: &mut Vec<(Dtype, Stand)>,
) -> Result<usize, Trouble> {
    if let Some(at) = stands.iter().position(|(own, _)| *own == dtype) {
        return Ok(at);
    }
    stands.push((dtype, Stand::new(bench, candidate, module, &part.size, dtype, Purpose::Run)?));
    Ok(stands.len() - 1)
}

/// The inputs of a case: made from its seed, or read from the files that the task names.
pub(crate) fn inputs_of(bench: &Bench<'_>, part: &Part, case: &Case<'_>) -> Result<Vec<Input>, Trouble> {
    if let Some(loaded) = files_of(bench, part, case)? {
        return Ok(loaded.inputs);
    }
    let mut inputs = inputs::generate(bench.task, &part.size.axes, case.dtype, case.distribution, case.seed)?;
    if let Some(planted) = &case.planted {
        planted.plant(bench, &mut inputs, case.seed);
    }
    Ok(inputs)
}

/// What the files of a size hold, where the reference is files.
fn files_of(bench: &Bench<'_>, part: &Part, case: &Case<'_>) -> Result<Option<Loaded>, Trouble> {
    let Reference::Files { cases } = &bench.task.reference else { return Ok(None) };
    let files = cases.iter().find(|files| files.shape.value == part.name);
    let files = files.ok_or_else(|| unfit(format!("the reference has no files for shape {}", part.name)))?;
    let loaded = reference::files::load(bench.task, files, &part.size, case.dtype, bench.directory);
    loaded.map(Some).map_err(|error| unfit(error.to_string()))
}

/// The expected value of each output.
pub(crate) fn expectations(
    bench: &Bench<'_>,
    part: &Part,
    case: &Case<'_>,
    inputs: &[Input],
) -> Result<BTreeMap<String, Expected>, Trouble> {
    let unfit = |error: reference::Unfit| self::unfit(format!("{}: {error}", part.name));
    let exact: Vec<(String, Dtype, Tensor)> = match &bench.task.reference {
        Reference::BuiltIn { operator } => {
            let tensors = inputs::tensors(inputs);
            let problem = problem(bench, operator, part, case, &tensors);
            let expected = match operator {
                Operator::Attention(_) => attention::own::expected(bench.task, &part.size, inputs),
                _ => reference::expected(&problem),
            }
            .map_err(unfit)?;
            if let Policy::Derived { .. } = bench.task.tolerance.policy {
                return Ok([(output_of(operator).to_owned(), expected)].into());
            }
            vec![(output_of(operator).to_owned(), problem.output, expected.tensor)]
        }
        Reference::Files { .. } => {
            let outputs = files_of(bench, part, case)?.map(|loaded| loaded.outputs).unwrap_or_default();
            outputs
                .into_iter()
                .map(|(name, tensor)| (name.clone(), dtype_of(bench, &name, case.dtype), tensor))
                .collect()
        }
        Reference::Python { .. } => {
            let mut outputs = Vec::new();
            for output in &bench.task.data.outputs {
                outputs.push((output.name.value.clone(), dims(&output.dims, &part.size.axes)?));
            }
            let allowed = bench.toolchain.allowed();
            let python = Python::of(&bench.task.reference, bench.directory, allowed, bench.python);
            let python = python.ok_or_else(|| self::unfit("the reference is not in Python"))?;
            let found = python.run(inputs, &outputs, &part.size.axes).map_err(|error| {
                let obstacle = if error.limit { Obstacle::Limit } else { Obstacle::Input };
                Trouble::from(Ending::inconclusive(format!("{}: {error}", part.name), Some(obstacle)))
            })?;
            found
                .into_iter()
                .map(|(name, tensor)| (name.clone(), dtype_of(bench, &name, case.dtype), tensor))
                .collect()
        }
    };
    let Policy::Stated { absolute, relative, rmse, bias } = bench.task.tolerance.policy else {
        return Err(self::unfit("a Python or file reference requires stated limits"));
    };
    let stated = exact.into_iter().map(|(name, dtype, tensor)| {
        (name, reference::stated(tensor, dtype, absolute, relative, rmse, bias))
    });
    Ok(stated.collect())
}

fn problem<'p>(
    bench: &'p Bench<'_>,
    operator: &'p Operator,
    part: &'p Part,
    case: &Case<'_>,
    inputs: &'p BTreeMap<String, Tensor>,
) -> reference::Problem<'p> {
    let accumulate = match bench.task.tolerance.policy {
        Policy::Derived { accumulate } => accumulate,
        Policy::Stated { .. } => bench.task.data.integer_sums().unwrap_or(Accumulate::F64),
    };
    let output = output_of(operator);
    reference::Problem {
        operator,
        inputs,
        axes: &part.size.axes,
        output: dtype_of(bench, output, case.dtype),
        accumulate,
    }
}

fn dtype_of(bench: &Bench<'_>, output: &str, each: Dtype) -> Dtype {
    let output = bench.task.data.outputs.iter().find(|one| one.name.value == output);
    output.map_or(each, |one| one.dtype.with(each))
}

pub(crate) fn element(bench: &Bench<'_>, output: &str, each: Dtype) -> usize {
    dtype_of(bench, output, each).size()
}

/// The output of a built-in operator.
fn output_of(operator: &Operator) -> &str {
    match operator {
        Operator::Attention(_) => "o",
        Operator::Gemm { output, .. }
        | Operator::Softmax { output, .. }
        | Operator::LayerNorm { output, .. }
        | Operator::Reduction { output, .. }
        | Operator::Elementwise { output, .. } => output,
    }
}

/// Elements that still hold the fill value from before a launch.
fn unwritten(bytes: &[u8], element: usize) -> usize {
    bytes.chunks(element).filter(|element| element.iter().all(|byte| *byte == POISON)).count()
}

/// Whether the task requires the candidate's outputs to equal a baseline's bits.
fn bitwise(bench: &Bench<'_>, candidate: &Candidate) -> bool {
    !matches!(candidate.program, Program::Rung { .. })
        && bench.task.baselines.iter().any(|baseline| {
            baseline.role == Role::Bitwise
                && (baseline.candidates.is_empty() || candidate.is_among(&baseline.candidates))
        })
}

/// Compares outputs that are wrong on purpose with the same limits.
fn try_nulls(
    bench: &Bench<'_>,
    case: &Case<'_>,
    part: &Part,
    inputs: &[Input],
    expected: &BTreeMap<String, Expected>,
    nulls: &mut BTreeMap<String, u64>,
) -> Result<(), Trouble> {
    let non_finite = bench.task.tolerance.non_finite;
    let tensors = inputs::tensors(inputs);
    for expected in expected.values() {
        let outputs = match &bench.task.reference {
            Reference::BuiltIn { operator: Operator::Attention(_) } => {
                attention::own::wrong(bench.task, &part.size, inputs)
                    .map_err(|error| unfit(error.to_string()))?
            }
            Reference::BuiltIn { operator } => {
                let problem = problem(bench, operator, part, case, &tensors);
                let outputs = Null::ALL.map(|null| Ok((null.to_string(), null.output(&problem, expected)?)));
                outputs
                    .into_iter()
                    .collect::<Result<_, _>>()
                    .map_err(|error: reference::Unfit| unfit(error.to_string()))?
            }
            _ => {
                let outputs = Null::ALL.map(|null| Some((null.to_string(), null.of_values(expected)?)));
                outputs.into_iter().flatten().collect::<Vec<_>>()
            }
        };
        for (null, output) in outputs {
            // For some inputs the wrong output is correct: the mean of one element is that element.
            if output == expected.dtype.bytes(&expected.tensor.values) {
                continue;
            }
            let refused = !expected.judge(&output, non_finite).1.passed;
            *nulls.entry(null).or_default() += u64::from(refused);
        }
    }
    Ok(())
}

/// The worst of several cases, figure by figure.
#[derive(Debug, Default)]
pub(crate) struct Worst {
    cases: u64,
    failed: u64,
    first_failure: Option<String>,
    /// Name, unit, value, case; the largest magnitude is kept.
    largest: Vec<(&'static str, f64, String)>,
    cosine: Option<(f64, String)>,
    other_bits: Option<(u64, &'static str)>,
    counterexample: Option<Counterexample>,
}

impl Worst {
    /// Adds the errors of one output.
    pub(crate) fn add(&mut self, case: &str, errors: &Errors, judgement: &Judgement, limits: &Tolerance) {
        self.cases += 1;
        if !judgement.passed {
            self.failed += 1;
            self.first_failure.get_or_insert_with(|| {
                let reasons: Vec<String> = judgement.reasons.iter().map(ToString::to_string).collect();
                format!("{case}: {}", reasons.join("; "))
            });
        }
        let share = |value: f64, limit: f64| if limit > 0.0 { value.abs() / limit } else { value.abs() };
        for (name, value) in [
            ("worst element, of its limit", errors.worst),
            ("rmse, of its limit", share(errors.rmse, limits.rmse)),
            ("bias, of its limit", share(errors.bias, limits.bias)),
            ("max error", errors.max),
            ("mean error", errors.mean),
            ("bias", errors.bias),
            ("bias magnitude", errors.bias.abs()),
            ("bias z", errors.z.abs()),
            ("relative L1 error", errors.relative_l1),
            ("rmse", errors.rmse),
            ("elements outside", errors.outside),
        ] {
            match self.largest.iter_mut().find(|one| one.0 == name) {
                // NaN is worse than any number.
                Some(one) if (value.is_nan() || value.abs() > one.1.abs()) && !one.1.is_nan() => {
                    (one.1, one.2) = (value, case.to_owned());
                }
                Some(_) => {}
                None => self.largest.push((name, value, case.to_owned())),
            }
        }
        if self.cosine.as_ref().is_none_or(|(least, _)| errors.cosine < *least) {
            self.cosine = Some((errors.cosine, case.to_owned()));
        }
    }

    /// Sets the reason for the next failing case, if more is known than its errors.
    fn blame(&mut self, reason: String) {
        self.first_failure.get_or_insert(reason);
    }

    /// Keeps the counterexample of the first failure.
    fn show(&mut self, shown: impl FnOnce() -> Counterexample) {
        self.counterexample.get_or_insert_with(shown);
    }

    /// Counts elements whose bits differ from those of another program.
    pub(crate) fn count_other_bits(&mut self, count: usize, of: &'static str) {
        let known = self.other_bits.map_or(0, |(count, _)| count);
        self.other_bits = Some((known.saturating_add(u64::try_from(count).unwrap_or(u64::MAX)), of));
    }

    fn compare_bits(&mut self, ours: &[u8], theirs: &[u8], element: usize) {
        let differing = ours.chunks(element).zip(theirs.chunks(element)).filter(|(a, b)| a != b).count();
        self.count_other_bits(differing, "bits other than the baseline's");
    }

    pub(crate) fn ending(self, at: &str, nulls: &BTreeMap<String, u64>) -> Ending {
        let mut figures = Vec::new();
        for (name, value, case) in &self.largest {
            let source = "the task's tolerance";
            if name.ends_with("of its limit") {
                limited(&mut figures, (name, *value, ""), (Comparison::AtMost, 1.0, source), Some(case));
            } else if *name == "elements outside" {
                limited(&mut figures, (name, *value, ""), (Comparison::AtMost, 0.0, source), Some(case));
            } else {
                computed(&mut figures, name, *value, "", case);
            }
        }
        if let Some((cosine, case)) = &self.cosine {
            computed(&mut figures, "cosine", *cosine, "", case);
        }
        let passed = self.cases.saturating_sub(self.failed);
        for (what, count) in [(topic::CASES, self.cases), (topic::CASES_PASSED, passed)] {
            figures.extend(Figure::counted(what, count, "").map(|figure| figure.at(at)));
        }
        let mut reason = self.first_failure.map(|first| match self.failed {
            1 => first,
            more => format!("{first} ({more} of {} cases fail here)", self.cases),
        });
        if let Some((count, of)) = self.other_bits {
            let figure = Figure::counted(of, count, "");
            let source = "the same operations in the same order give the same bits";
            figures.extend(
                figure.and_then(|one| one.held_to(Comparison::AtMost, 0.0, source)).map(|one| one.at(at)),
            );
            if count > 0 {
                reason.get_or_insert_with(|| format!("{at}: {count} elements have {of}"));
            }
        }
        for (null, refused) in nulls {
            figures.extend(Figure::counted(&format!("{REFUSES}{null}"), *refused, "").map(|one| one.at(at)));
        }
        match reason {
            Some(reason) => {
                Ending { counterexample: self.counterexample.map(Box::new), ..Ending::fail(reason, figures) }
            }
            None => Ending::pass(figures),
        }
    }
}

/// Combines the sizes. An output that is wrong on purpose must be refused on at least one of them.
pub(crate) fn sum(parts: Vec<(String, Ending)>) -> Ending {
    let mut all = super::sum(parts);
    let mut refused: BTreeMap<String, f64> = BTreeMap::new();
    all.figures.retain(|figure| {
        let Some(null) = figure.name.strip_prefix(REFUSES) else { return true };
        *refused.entry(null.to_owned()).or_default() += figure.value.get();
        false
    });
    for (null, cases) in refused {
        let source = "a task that accepts it in every case tests nothing";
        let figure = (&*format!("{REFUSES}{null}"), cases, "");
        let told = limited(&mut all.figures, figure, (Comparison::AtLeast, 1.0, source), None);
        if !told && all.outcome == Outcome::Pass {
            all.outcome = Outcome::Inconclusive;
            all.obstacle = Some(Obstacle::Input);
            all.reason = format!(
                "error in the task, not in the kernel: its limits accept the wrong output `{null}` in every case, so they \
                 decide nothing; narrow them in [tolerance]"
            );
        }
    }
    all
}
