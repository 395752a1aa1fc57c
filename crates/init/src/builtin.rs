//! Built-in references: matches their inputs and outputs with the arrays by extents.

use super::draft::{Array, Plan};
use super::operator::{Guess, Kind};

/// The lines of `[reference]`, or why the arrays do not match the operator.
pub(super) fn reference(plan: &mut Plan<'_>, guess: &Guess) -> Result<Vec<String>, String> {
    let outputs = plan.outputs.len();
    if outputs > 1 && guess.kind != Kind::LayerNorm {
        return Err(format!("it writes {outputs} arrays, but the operator has one output"));
    }
    let (lines, used) = match guess.kind {
        Kind::Softmax => softmax(plan)?,
        Kind::LayerNorm => layer_norm(plan)?,
        Kind::Gemm => gemm(plan, guess)?,
        Kind::Reduction => reduction(plan, guess)?,
        Kind::Elementwise => elementwise(plan, guess)?,
        Kind::Attention => return Err("its operands are not known".to_owned()),
        Kind::Custom => return Err("a custom operator has no built-in reference".to_owned()),
    };
    for input in plan.inputs.iter().filter(|input| !used.contains(&input.name)) {
        // Zeros that an atomic starts from are part of the launch.
        let start = plan.outputs.iter().any(|output| output.before.as_ref() == Some(&input.name));
        if !start {
            plan.questions.push(format!(
                "is it right that the reference does not use `{}`? The kernel reads it",
                input.name
            ));
        }
    }
    Ok(lines)
}

type Lines = (Vec<String>, Vec<String>);

fn first(outputs: &[Array]) -> Result<&Array, String> {
    outputs.first().ok_or_else(|| "it writes no array".to_owned())
}

/// The input with an output's extents: a separate one, else the output's previous contents.
fn alike<'p>(plan: &'p Plan<'_>, output: &Array) -> Result<&'p Array, String> {
    let fits = |input: &&Array| input.dims == output.dims;
    let own = |input: &&Array| Some(&input.name) != output.before.as_ref();
    let found = plan.inputs.iter().filter(fits).find(own).or_else(|| plan.inputs.iter().find(fits));
    found.ok_or_else(|| format!("no array that it reads has the extents of `{}`", output.name))
}

fn softmax(plan: &Plan<'_>) -> Result<Lines, String> {
    let output = first(&plan.outputs)?;
    let input = alike(plan, output)?.name.clone();
    Ok((vec![format!("input = \"{input}\""), format!("output = \"{}\"", output.name)], vec![input]))
}

fn layer_norm(plan: &mut Plan<'_>) -> Result<Lines, String> {
    let output = first(&plan.outputs)?.clone();
    let input = alike(plan, &output)?.name.clone();
    let last = output.dims.last().cloned().into_iter().collect::<Vec<_>>();
    let rows: Vec<&Array> = plan.inputs.iter().filter(|one| one.name != input && one.dims == last).collect();
    let named = |list: &[&str]| {
        let fits = |array: &&&Array| {
            let name = array.name.to_lowercase();
            list.iter().any(|word| name.starts_with(word))
        };
        rows.iter().find(fits).map(|array| array.name.clone())
    };
    let mut weight = named(&["weight", "gamma", "w", "g", "scale"]);
    let mut bias = named(&["bias", "beta", "b", "shift"]).filter(|name| Some(name) != weight.as_ref());
    let mut others = rows
        .iter()
        .map(|array| array.name.clone())
        .filter(|name| Some(name) != weight.as_ref() && Some(name) != bias.as_ref())
        .collect::<Vec<_>>()
        .into_iter();
    weight = weight.or_else(|| others.next());
    bias = bias.or_else(|| others.next());
    let mut lines = vec![format!("input = \"{input}\"")];
    let mut used = vec![input];
    for (key, name) in [("weight", weight), ("bias", bias)] {
        if let Some(name) = name {
            plan.guesses.push(format!("{key} = {name}, because of its name and extents"));
            lines.push(format!("{key} = \"{name}\""));
            used.push(name);
        }
    }
    // The kernel writes means and deviations for the backward pass; the reference does not compute them.
    for mut array in plan.outputs.split_off(1) {
        let question = format!(
            "should `{}` be compared too? It is scratch memory: the reference has one output",
            array.name
        );
        array.remark = Some(format!("question: {question}"));
        plan.questions.push(question);
        plan.scratch.push(array);
    }
    lines.extend(["epsilon = 1e-5".to_owned(), format!("output = \"{}\"", output.name)]);
    Ok((lines, used))
}

fn gemm(plan: &Plan<'_>, guess: &Guess) -> Result<Lines, String> {
    let output = first(&plan.outputs)?;
    let [rows, columns] = output.dims.as_slice() else {
        return Err(format!(
            "`{}` has {} axes, but a matrix product has two",
            output.name,
            output.dims.len()
        ));
    };
    let planes: Vec<&Array> = plan
        .inputs
        .iter()
        .filter(|input| input.dims.len() == 2 && Some(&input.name) != output.before.as_ref())
        .collect();
    let square = rows == columns;
    let a = planes.iter().find(|input| input.dims.contains(rows));
    let a = a.ok_or_else(|| format!("no matrix that it reads has {rows} rows"))?;
    let b = planes.iter().find(|input| input.name != a.name && input.dims.contains(columns));
    let b = b.ok_or_else(|| format!("no second matrix that it reads has {columns} columns"))?;
    let (ta, tb) = if square {
        guess.transposed
    } else {
        (a.dims.first() != Some(rows), b.dims.last() != Some(columns))
    };
    let inner =
        |array: &Array, transposed: bool, at: usize| array.dims.get(usize::from(transposed) ^ at).cloned();
    if inner(a, ta, 1) != inner(b, tb, 0) {
        return Err(format!("`{}` and `{}` share no axis to sum over", a.name, b.name));
    }
    let mut lines = vec![
        format!("a = \"{}\"", a.name),
        format!("b = \"{}\"", b.name),
        format!("output = \"{}\"", output.name),
    ];
    for (key, transposed) in [("transpose_a", ta), ("transpose_b", tb)] {
        if transposed {
            lines.push(format!("{key} = true"));
        }
    }
    Ok((lines, vec![a.name.clone(), b.name.clone()]))
}

fn reduction(plan: &mut Plan<'_>, guess: &Guess) -> Result<Lines, String> {
    let output = first(&plan.outputs)?.clone();
    let own = |input: &&mut Array| Some(&input.name) != output.before.as_ref();
    let input = plan.inputs.iter_mut().find(own).ok_or("it reads no array")?;
    let axis = if output.dims == ["1"] && input.dims.len() == 1 {
        // All elements reduce to one: treat them as one row.
        input.dims.insert(0, "1".to_owned());
        1
    } else {
        let missing: Vec<usize> = (0..input.dims.len())
            .filter(|axis| {
                let mut rest = input.dims.clone();
                rest.remove(*axis);
                rest == output.dims
            })
            .collect();
        *missing.last().ok_or_else(|| {
            format!("the axes of `{}` are not those of `{}` minus one", output.name, input.name)
        })?
    };
    let lines = vec![
        format!("input = \"{}\"", input.name),
        format!("output = \"{}\"", output.name),
        format!("op = \"{}\" # guessed: because {}", guess.op, guess.because),
        format!("axis = {axis}"),
    ];
    Ok((lines, vec![input.name.clone()]))
}

fn elementwise(plan: &mut Plan<'_>, guess: &Guess) -> Result<Lines, String> {
    let output = first(&plan.outputs)?.clone();
    let mut sources: Vec<String> = plan
        .inputs
        .iter()
        .filter(|input| input.dims == output.dims)
        .map(|input| input.name.clone())
        .collect();
    // The previous contents of the output come last, as in axpy.
    sources.sort_by_key(|name| Some(name) == output.before.as_ref());
    let wanted = guess.expression.map_or(1, |(count, _)| count);
    if sources.len() < wanted {
        return Err(format!(
            "it reads {} arrays with the output's extents, but the operator takes {wanted}",
            sources.len()
        ));
    }
    sources.truncate(wanted);
    let of = |at: usize| sources.get(at).cloned().unwrap_or_default();
    let line = if let Some((_, template)) = guess.expression {
        let text = template.replace("{0}", &of(0)).replace("{1}", &of(1)).replace("{a}", "2.5");
        format!("expression = \"{text}\" # guessed: because {}", guess.because)
    } else {
        let question = "which expression of its inputs does it compute?".to_owned();
        let line = format!("expression = \"{}\" # question: {question}", of(0));
        plan.questions.push(question);
        line
    };
    Ok((vec![line, format!("output = \"{}\"", output.name)], sources))
}
