//! Checks that the parts of a task file agree with each other.

use std::collections::BTreeSet;
use std::ops::Range;

use warpproof_kernels::ladder;
use warpproof_model::{Capability, Device};

use super::model::{
    Argument, Candidate, Launch, NonFinite, Operator, Peer, Policy, Program, Reference, Role, SymbolValue,
    Task, TensorType, Values,
};
use super::problem::{At, in_file};
use super::section::{File, shown};
use super::{attention, operands};
use crate::Stage;
use crate::dtype::Dtype;
use crate::expr::Expr;

pub(super) fn check(file: &mut File<'_>, task: &Task) {
    names(file, task);
    shapes(file, task);
    data(file, task);
    reference(file, task);
    targets(file, task);
    references_to_candidates(file, task);
    for candidate in &task.candidates {
        self::candidate(file, task, candidate);
    }
    if is_attention(task) {
        attention::check(file, task);
    }
    super::space::check(file, task);
}

/// Names of a kind must differ. A name that could not be read is empty and was already reported.
fn distinct<'a>(file: &mut File<'_>, what: &str, names: impl Iterator<Item = &'a At<String>>) {
    let mut seen = BTreeSet::new();
    for name in names.filter(|name| !name.is_empty()) {
        if !seen.insert(name.as_str()) {
            file.wrong(name.span.clone(), format!("duplicate {what} `{}`", name.value));
        }
    }
}

fn names(file: &mut File<'_>, task: &Task) {
    distinct(file, "shape", task.shapes.iter().map(|shape| &shape.name));
    distinct(file, "distribution", task.data.distributions.iter().map(|distribution| &distribution.name));
    let tensors = task.data.inputs.iter().map(|input| &input.name);
    distinct(file, "tensor", tensors.chain(task.data.outputs.iter().map(|output| &output.name)));
    distinct(file, "toggle", task.toggles.iter().map(|toggle| &toggle.name));
    distinct(file, "candidate", task.candidates.iter().map(|candidate| &candidate.name));
}

fn is_attention(task: &Task) -> bool {
    matches!(task.reference, Reference::BuiltIn { operator: Operator::Attention(_) })
}

fn shapes(file: &mut File<'_>, task: &Task) {
    const REQUIRED: [&str; 4] = ["b", "h", "s", "d"];
    const OPTIONAL: [&str; 2] = ["kv", "keys"];
    if task.shapes.iter().all(|shape| shape.hidden) && !task.shapes.is_empty() {
        file.wrong(task.shapes[0].name.span.clone(), "at least one shape must not be hidden");
    }
    if is_attention(task) {
        for shape in &task.shapes {
            let span = || shape.name.span.clone();
            for axis in REQUIRED.iter().filter(|axis| !shape.axes.contains_key(**axis)) {
                let help = "attention has b, h, s and d, and may have kv (heads of K and V) and keys";
                file.wrong_with(span(), format!("shape `{}` has no axis `{axis}`", shape.name.value), help);
            }
            for axis in shape
                .axes
                .keys()
                .filter(|axis| !REQUIRED.contains(&axis.as_str()) && !OPTIONAL.contains(&axis.as_str()))
            {
                file.wrong(span(), format!("attention has no axis `{axis}`"));
            }
        }
        return;
    }
    let Some(first) = task.shapes.first() else { return };
    for shape in &task.shapes {
        if !shape.axes.keys().eq(first.axes.keys()) {
            let axes: Vec<&str> = first.axes.keys().map(String::as_str).collect();
            let help = format!("shape `{}` has {}", first.name.value, axes.join(", "));
            file.wrong_with(
                shape.name.span.clone(),
                format!("shape `{}` has different axes", shape.name.value),
                help,
            );
        }
    }
}

fn axes(task: &Task) -> Vec<&str> {
    let mut axes: Vec<&str> =
        task.shapes.first().map_or_else(Vec::new, |s| s.axes.keys().map(String::as_str).collect());
    if is_attention(task) {
        axes.extend(["kv", "keys"]);
    }
    axes
}

fn expression(file: &mut File<'_>, expr: &At<Expr>, known: &[&str], integers: bool) {
    for error in expr.problems(known, integers) {
        let problem = in_file(error, file.text, &expr.span);
        file.problems.push(problem);
    }
}

fn data(file: &mut File<'_>, task: &Task) {
    let axes = axes(task);
    let each = |file: &mut File<'_>, dtype: &At<TensorType>| {
        if dtype.value == TensorType::Each && task.data.dtypes.is_empty() && !dtype.span.is_empty() {
            file.wrong_with(dtype.span.clone(), "the task has no dtypes", "dtypes = [\"f32\", \"f16\"]");
        }
    };
    for input in &task.data.inputs {
        each(file, &input.dtype);
        input.dims.iter().for_each(|dim| expression(file, dim, &axes, true));
        let integer = matches!(input.dtype.value, TensorType::Fixed(dtype) if dtype.is_integer());
        match &input.range {
            Some((low, high)) => {
                expression(file, low, &axes, true);
                expression(file, high, &axes, true);
                if !integer {
                    file.wrong(
                        low.span.clone(),
                        "only integer inputs have a range; others have distributions",
                    );
                }
            }
            None if integer => {
                let sentence = format!("integer input `{}` has no range", input.name.value);
                file.wrong_with(input.dtype.span.clone(), sentence, "range = [0, \"n - 1\"]");
            }
            None => {}
        }
    }
    for output in &task.data.outputs {
        each(file, &output.dtype);
        output.dims.iter().for_each(|dim| expression(file, dim, &axes, true));
        if let Some(input) = &output.in_place {
            known_input(file, task, input);
        }
    }
    for distribution in &task.data.distributions {
        distribution.inputs.iter().for_each(|input| known_input(file, task, input));
    }
}

fn known_input(file: &mut File<'_>, task: &Task, name: &At<String>) {
    let names = task.data.inputs.iter().map(|input| input.name.as_str());
    if !names.clone().any(|known| known == name.value) {
        file.unknown(name.span.clone(), "input", name, names);
    }
}

fn known_output(file: &mut File<'_>, task: &Task, name: &At<String>) {
    let names = task.data.outputs.iter().map(|output| output.name.as_str());
    if !names.clone().any(|known| known == name.value) {
        file.unknown(name.span.clone(), "output", name, names);
    }
}

fn reference(file: &mut File<'_>, task: &Task) {
    special_values(file, task);
    match &task.reference {
        Reference::BuiltIn { operator } => operator_of(file, task, operator),
        Reference::Files { cases } => {
            for case in cases {
                known_shape(file, task, &case.shape);
                let tensors = |names: &mut dyn Iterator<Item = &String>, all: Vec<&str>| {
                    let given: BTreeSet<&str> = names.map(String::as_str).collect();
                    let all: BTreeSet<&str> = all.into_iter().collect();
                    given.symmetric_difference(&all).map(|name| (*name).to_owned()).collect::<Vec<_>>()
                };
                let inputs = task.data.inputs.iter().map(|input| input.name.as_str()).collect();
                let outputs = task.data.outputs.iter().map(|output| output.name.as_str()).collect();
                let mut wrong = tensors(&mut case.inputs.keys(), inputs);
                wrong.extend(tensors(&mut case.outputs.keys(), outputs));
                for name in wrong {
                    let sentence =
                        format!("`{}` is not a tensor of the task, or its file is missing", shown(&name));
                    file.wrong(case.shape.span.clone(), sentence);
                }
            }
        }
        Reference::Python { .. } => {}
    }
    let own = matches!(task.reference, Reference::BuiltIn { .. });
    let empty = matches!(&task.reference, Reference::Files { cases } if cases.is_empty());
    if !own && !empty && matches!(task.tolerance.policy, Policy::Derived { .. }) {
        let span = task.name.span.clone();
        let help = "policy = \"stated\" with absolute, relative, rmse, bias, and their derivation as text";
        file.wrong_with(span, "limits can be derived only for built-in references", help);
    }
}

/// Values that do not give a finite output need a reference that defines the output.
fn special_values(file: &mut File<'_>, task: &Task) {
    let refused = task.tolerance.non_finite == NonFinite::Refuse;
    for one in task.data.distributions.iter().filter(|_| refused) {
        if matches!(one.values, Values::Nan { .. }) {
            let help = "non_finite = \"match\" in [tolerance]";
            let sentence = "non-finite inputs give non-finite outputs, which the task refuses";
            file.wrong_with(one.name.span.clone(), sentence, help);
        }
    }
}

fn operator_of(file: &mut File<'_>, task: &Task, operator: &Operator) {
    let exact = matches!(task.tolerance.policy, Policy::Derived { accumulate } if accumulate.is_integer());
    if let (true, Operator::Softmax { input, .. } | Operator::LayerNorm { input, .. }) = (exact, operator) {
        let help = "operator = \"custom\" with a reference of its own";
        file.wrong_with(input.span.clone(), "this operator has no integer form", help);
    }
    match operator {
        Operator::Attention(_) => {
            let outputs = task.data.outputs.iter().map(|output| &output.name);
            let mut stated = task.data.inputs.iter().map(|input| &input.name).chain(outputs);
            if let Some(name) = stated.find(|name| !name.span.is_empty()) {
                let help = "kernels of your own take q, k, v, q_scale, k_scale, v_scale and o as arguments";
                let sentence = "attention tasks have built-in inputs and outputs";
                file.wrong_with(name.span.clone(), sentence, help);
            }
        }
        Operator::Gemm { a, b, output, .. } => {
            known_input(file, task, a);
            known_input(file, task, b);
            known_output(file, task, output);
        }
        Operator::Softmax { input, output } | Operator::Reduction { input, output, .. } => {
            known_input(file, task, input);
            known_output(file, task, output);
            if let (Operator::Reduction { axis, .. }, Some(tensor)) =
                (operator, task.data.inputs.iter().find(|tensor| tensor.name == *input))
                && usize::try_from(*axis).is_ok_and(|axis| axis >= tensor.dims.len())
            {
                let sentence =
                    format!("`{}` has {} axes; axis {axis} does not exist", input.value, tensor.dims.len());
                file.wrong_with(input.span.clone(), sentence, "axes count from 0");
            }
        }
        Operator::LayerNorm { input, weight, bias, output, .. } => {
            [Some(input), weight.as_ref(), bias.as_ref()]
                .into_iter()
                .flatten()
                .for_each(|n| known_input(file, task, n));
            known_output(file, task, output);
        }
        Operator::Elementwise { expression: expr, output } => {
            known_output(file, task, output);
            let mut known = axes(task);
            known.extend(task.data.inputs.iter().map(|input| input.name.as_str()));
            expression(file, expr, &known, false);
        }
    }
}

fn known_shape(file: &mut File<'_>, task: &Task, name: &At<String>) {
    let names = task.shapes.iter().map(|shape| shape.name.as_str());
    if !names.clone().any(|known| known == name.value) {
        file.unknown(name.span.clone(), "shape", name, names);
    }
}

fn targets(file: &mut File<'_>, task: &Task) {
    for arch in &task.target.architectures {
        let number = arch.strip_prefix("sm_").or_else(|| arch.strip_prefix("compute_"));
        let digits = number.is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()) && n.len() <= 5);
        if !digits {
            file.wrong_with(
                arch.span.clone(),
                format!("`{}` is not an architecture", shown(arch)),
                "sm_89 is one",
            );
        } else if Capability::of_arch(arch).is_none() {
            file.wrong(arch.span.clone(), format!("unknown architecture {}", shown(arch)));
        }
    }
    for device in &task.target.devices {
        match Device::named(device) {
            None => {
                let ids = warpproof_model::DEVICES.iter().map(|device| device.id);
                file.unknown(device.span.clone(), "device", device, ids);
            }
            Some(known) => {
                let runs = |arch: &At<String>| known.capability.runs(arch);
                if !task.target.architectures.is_empty() && !task.target.architectures.iter().any(runs) {
                    let sentence = format!("{} runs none of the target's architectures", known.name);
                    file.wrong(device.span.clone(), sentence);
                }
            }
        }
    }
}

fn known_candidate(file: &mut File<'_>, task: &Task, name: &At<String>) -> bool {
    let names = task.candidates.iter().map(|candidate| candidate.name.as_str());
    let known = names.clone().any(|known| known == name.value);
    if !known {
        file.unknown(name.span.clone(), "candidate", name, names);
    }
    known
}

fn references_to_candidates(file: &mut File<'_>, task: &Task) {
    for budget in &task.budgets {
        budget.candidates.iter().for_each(|name| {
            known_candidate(file, task, name);
        });
    }
    for baseline in &task.baselines {
        for name in &baseline.candidates {
            known_candidate(file, task, name);
        }
        if let Peer::Candidate(name) = &baseline.who
            && known_candidate(file, task, name)
            && baseline.candidates.contains(name)
        {
            file.wrong(name.span.clone(), format!("`{}` is compared with itself", name.value));
        }
    }
    for name in task.gates.iter().flat_map(|gate| gate.shapes.iter().flatten()) {
        known_shape(file, task, name);
    }
    let compared = task.gates.iter().find_map(|gate| gate.regressions.first());
    if let Some(limit) = compared
        && !task.baselines.iter().any(|baseline| baseline.role == Role::Speed)
    {
        let help = "[[baseline]] with role = \"speed\"";
        file.wrong_with(limit.figure.span.clone(), "there is no baseline to compare this figure with", help);
    }
    let speed = task.gates.iter().find(|gate| gate.stage.value == Stage::Speed);
    if let Some(gate) = speed {
        let span = || gate.stage.span.clone();
        if task.timing.is_none() {
            file.wrong_with(
                span(),
                "the stage speed requires a [timing] section",
                "[timing] with l2 and reduction",
            );
        }
        if !task.baselines.iter().any(|baseline| baseline.role == Role::Speed) {
            let help = "[[baseline]] with role = \"speed\"";
            file.wrong_with(span(), "the stage speed requires a baseline with role speed", help);
        }
        if !task.gates.iter().any(|gate| gate.stage.value == Stage::Correct && !gate.optional) {
            file.wrong(span(), "the stage speed requires the stage correct, not optional");
        }
    }
}

fn candidate(file: &mut File<'_>, task: &Task, candidate: &Candidate) {
    for name in candidate.shapes.iter().flatten() {
        known_shape(file, task, name);
    }
    if let Some(parent) = &candidate.parent {
        if parent.value == candidate.name.value {
            file.wrong(parent.span.clone(), format!("`{}` is its own parent", parent.value));
        } else {
            known_candidate(file, task, parent);
        }
    }
    for (name, value) in &candidate.toggles {
        match task.toggles.iter().find(|toggle| toggle.name.value == *name) {
            None if task.toggles.is_empty() => {
                let sentence = format!("there is no toggle `{}`", shown(name));
                let name = shown(name);
                let help = format!("declare it: [[toggle]] name = \"{name}\" values = [0, 1] default = 0");
                file.wrong_with(value.span.clone(), sentence, help);
            }
            None => {
                let names = task.toggles.iter().map(|toggle| toggle.name.as_str());
                file.unknown(value.span.clone(), "toggle", name, names);
            }
            // A toggle whose values cannot be read is a separate problem.
            Some(toggle) if !toggle.values.is_empty() && !toggle.values.contains(&value.value) => {
                let sentence = format!("toggle `{name}` cannot be {}", shown(value));
                let help = format!("it is one of {}", toggle.values.join(", "));
                file.wrong_with(value.span.clone(), sentence, help);
            }
            Some(_) => {}
        }
    }
    for (name, value) in &candidate.defines {
        if task.toggles.iter().any(|toggle| toggle.name.value == *name) {
            file.wrong(value.span.clone(), format!("`{name}` is a toggle: set it in toggles"));
        }
    }
    match &candidate.program {
        Program::Rung { rung, .. } => self::rung(file, task, candidate, rung),
        Program::Source { launch, .. } | Program::Ptx { launch, .. } => {
            operands::check(file, task, candidate);
            self::launch(file, task, candidate, launch);
        }
    }
}

fn rung(file: &mut File<'_>, task: &Task, candidate: &Candidate, name: &At<String>) {
    if !is_attention(task) {
        file.wrong(name.span.clone(), "rungs require operator = \"attention\"");
    }
    let rung = ladder::rung(name);
    if rung.is_none() && attention::kernels().all(|known| known != name.value) {
        file.unknown(name.span.clone(), "rung", name, attention::kernels());
        return;
    }
    // Kernels that are not rungs have no toggles.
    let known = rung.map_or(&[][..], |rung| rung.toggles);
    let id = rung.map_or(name.value.as_str(), |rung| rung.id);
    for (toggle, value) in &candidate.toggles {
        if known.iter().all(|known| known.name != toggle) {
            let names: Vec<&str> = known.iter().map(|toggle| toggle.name).collect();
            let help = if names.is_empty() {
                "it has none".to_owned()
            } else {
                format!("it has {}", names.join(", "))
            };
            file.wrong_with(value.span.clone(), format!("rung {id} has no toggle `{toggle}`"), help);
        }
    }
    for (what, first) in [("defines", candidate.defines.values().next()), ("flags", candidate.flags.first())]
    {
        if let Some(first) = first {
            file.wrong(
                first.span.clone(),
                format!("a rung has its own compiler settings; it takes no {what}"),
            );
        }
    }
}

/// `{NAME}` in a kernel's name is a macro with a value known to the compiler.
fn kernel_macros(file: &mut File<'_>, task: &Task, candidate: &Candidate, name: &At<String>, axes: &[&str]) {
    let known: Vec<&str> = task
        .toggles
        .iter()
        .map(|toggle| toggle.name.as_str())
        .chain(candidate.defines.keys().map(String::as_str))
        .collect();
    for place in super::size::macros_in(name).into_iter().filter(|place| !known.contains(place)) {
        if axes.contains(&place) {
            let sentence = format!("`{{{place}}}` is an axis, but a kernel is compiled once for all shapes");
            file.wrong_with(
                name.span.clone(),
                sentence,
                "use a toggle or a define, or pass it as an argument",
            );
        } else {
            file.unknown(name.span.clone(), "toggle or define", place, known.iter().copied());
        }
    }
}

fn launch(file: &mut File<'_>, task: &Task, candidate: &Candidate, launch: &Launch) {
    distinct(file, "scratch memory", launch.scratch.iter().map(|scratch| &scratch.name));
    let axes = axes(task);
    let mut known = axes.clone();
    let integer = |value: &String| value.parse::<i64>().is_ok();
    known.extend(task.toggles.iter().filter(|t| t.values.iter().all(integer)).map(|t| t.name.as_str()));
    known.extend(candidate.defines.iter().filter(|(_, v)| integer(&v.value)).map(|(name, _)| name.as_str()));
    let mut tensors: Vec<&str> = task.data.inputs.iter().map(|input| input.name.as_str()).collect();
    tensors.extend(task.data.outputs.iter().map(|output| output.name.as_str()));
    tensors.extend(launch.scratch.iter().map(|scratch| scratch.name.as_str()));
    for scratch in &launch.scratch {
        expression(file, &scratch.count, &known, true);
    }
    distinct(file, "variable", launch.symbols.iter().map(|symbol| &symbol.name));
    for symbol in &launch.symbols {
        match &symbol.value {
            SymbolValue::Input(input) => known_input(file, task, input),
            SymbolValue::Values { dtype, values } => {
                for value in values {
                    expression(file, value, &known, dtype.value.is_integer());
                }
            }
        }
    }
    let mut used: BTreeSet<&str> = BTreeSet::new();
    for step in &launch.steps {
        let sizes = step.grid.iter().chain(&step.block).chain(&step.shared_bytes);
        sizes.for_each(|size| expression(file, size, &known, true));
        for name in step.kernel.names() {
            kernel_macros(file, task, candidate, name, &axes);
        }
        if let super::model::Kernel::ByDtype(names) = &step.kernel {
            let all = candidate.dtypes.as_ref().unwrap_or(&task.data.dtypes);
            for dtype in all.iter().filter(|dtype| !names.contains_key(dtype.name())) {
                let span: Range<usize> =
                    names.values().next().map_or(candidate.name.span.clone(), |n| n.span.clone());
                file.wrong(span, format!("there is no kernel for {dtype}"));
            }
        }
        for argument in step.arguments.iter().flat_map(Argument::leaves) {
            if let Argument::Within { offset, .. } = argument {
                expression(file, offset, &known, true);
            }
            match argument {
                Argument::Address(name) | Argument::Within { tensor: name, .. }
                    if !tensors.contains(&name.as_str()) =>
                {
                    let what = "input, output or scratch memory";
                    file.unknown(name.span.clone(), what, name, tensors.iter().copied());
                }
                Argument::Address(name) | Argument::Within { tensor: name, .. } => {
                    used.insert(name.as_str());
                }
                Argument::Value { dtype, values } => {
                    for value in values {
                        expression(file, value, &known, dtype.value.is_integer());
                    }
                }
                Argument::Struct(_) => {}
            }
        }
    }
    for output in task.data.outputs.iter().filter(|output| !used.contains(output.name.as_str())) {
        if !output.name.is_empty() && !launch.steps.is_empty() {
            let sentence = format!(
                "candidate `{}` has no argument for output `{}`",
                candidate.name.value, output.name.value
            );
            file.wrong(candidate.name.span.clone(), sentence);
        }
    }
    for dtype in candidate.dtypes.iter().flatten().filter(|dtype| !task.data.dtypes.contains(dtype)) {
        let known: Vec<&str> = task.data.dtypes.iter().copied().map(Dtype::name).collect();
        let help = format!("the task has {}", known.join(", "));
        file.wrong_with(candidate.name.span.clone(), format!("{dtype} is not among the task's dtypes"), help);
    }
}
