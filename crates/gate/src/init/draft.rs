//! The text of a first task file.

use std::fmt::Write;

use super::Seen;
use super::operator::{Guess, Kind, guess};
use super::parameter::{Parameter, What};
use super::sizes::{Axis, blocks};
use super::traffic::Share;
use crate::dtype::Dtype;

/// Where the file and the kernel are.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// The kernel's file, relative to the task.
    pub file: &'a str,
    /// Its name without directory and extension.
    pub stem: &'a str,
    /// What the task is called: where a file has several kernels, each has a task of its own.
    pub name: &'a str,
    /// Whether it holds PTX.
    pub is_ptx: bool,
    /// What the user says it computes.
    pub operator: Option<Kind>,
    /// What was compiled for.
    pub architecture: &'a str,
}

impl Target<'_> {
    /// The task's name as a task file and a file system take it.
    pub(super) fn file_name(&self) -> String {
        super::text::name(self.name)
    }
}

/// A task file, and what its user should know of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// The text.
    pub text: String,
    /// The operator.
    pub operator: Kind,
    /// What was guessed, and why.
    pub guesses: Vec<String>,
    /// What could not be guessed.
    pub questions: Vec<String>,
    /// The text of a Python file to complete, for an operator that is not known.
    pub python: Option<(String, String)>,
}

#[derive(Default)]
struct Array {
    name: String,
    dtype: Option<Dtype>,
    dims: Vec<String>,
    /// What it begins with.
    before: Option<String>,
    remark: Option<String>,
    range: Option<String>,
}

/// Everything that will stand in the file.
struct Plan<'a> {
    seen: &'a Seen,
    axes: Vec<Axis>,
    inputs: Vec<Array>,
    outputs: Vec<Array>,
    scratch: Vec<Array>,
    /// What each scalar is given, by the name of its parameter.
    scalars: Vec<(String, String, Option<String>)>,
    grid: Vec<String>,
    grid_because: String,
    reference: Vec<String>,
    guesses: Vec<String>,
    questions: Vec<String>,
}

/// A first task for a kernel, or why there is none.
pub fn draft(seen: &Seen, target: &Target<'_>) -> Result<Draft, String> {
    for parameter in &seen.parameters {
        if let What::Other(ty) = &parameter.what {
            return Err(format!(
                "parameter `{}` is a `{ty}`: what its members are for is not to be seen from outside",
                parameter.name
            ));
        }
    }
    let mut guess = guess(&seen.name, target.stem);
    if let Some(kind) = target.operator {
        guess.kind = kind;
        "the user said so".clone_into(&mut guess.because);
    }
    let mut plan = Plan {
        seen,
        axes: Vec::new(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        scratch: Vec::new(),
        scalars: Vec::new(),
        grid: Vec::new(),
        grid_because: String::new(),
        reference: Vec::new(),
        guesses: Vec::new(),
        questions: Vec::new(),
    };
    plan.arrays();
    if plan.outputs.is_empty() {
        return Err(format!("`{}` writes to none of its parameters: there is nothing to judge", seen.name));
    }
    if let Some(why) = plan.unfit(&guess) {
        if target.operator.is_some() {
            return Err(format!("`{}` cannot be a {}: {why}", seen.name, guess.kind.name()));
        }
        guess.because = format!("{}, but {why}", guess.because);
        guess.kind = Kind::Custom;
    }
    match guess.kind {
        Kind::Softmax | Kind::LayerNorm => plan.rows(&guess),
        Kind::Reduction => plan.reduction(&guess),
        Kind::Gemm => plan.gemm(&guess),
        Kind::Elementwise | Kind::Custom => plan.elementwise(&guess, target),
    }
    plan.guesses.insert(0, format!("operator = {}, because {}", guess.kind.name(), guess.because));
    Ok(plan.write(&guess, target))
}

impl Plan<'_> {
    fn integers(&self) -> Vec<&Parameter> {
        let integer = |parameter: &&Parameter| {
            matches!(parameter.what, What::Scalar(dtype) if dtype.is_integer()) && !is_factor(parameter)
        };
        self.seen.parameters.iter().filter(integer).collect()
    }

    fn lanes(&self) -> u64 {
        let lanes = self.seen.parameters.iter().map(|parameter| match parameter.what {
            What::Array { lanes, .. } => u64::from(lanes),
            _ => 1,
        });
        lanes.max().unwrap_or(1)
    }

    fn threads(&self) -> u32 {
        self.seen.block.threads()
    }

    /// Arrays that are read only are inputs. One that is read and written begins with the contents of an input.
    fn arrays(&mut self) {
        for parameter in &self.seen.parameters {
            let What::Array { dtype, lanes, access, because } = &parameter.what else { continue };
            let name = parameter.name.clone();
            let mut remark = because.as_ref().map(|why| format!("guessed: {dtype}, because {why}"));
            if *lanes > 1 {
                remark = Some(format!(
                    "guessed: extents are multiples of {lanes}, because it is read {lanes} at a time"
                ));
            }
            self.guesses.extend(
                remark.as_ref().map(|remark| format!("{name}: {}", remark.trim_start_matches("guessed: "))),
            );
            let mut array = Array { name: name.clone(), dtype: Some(*dtype), remark, ..Array::default() };
            if !access.written {
                self.inputs.push(array);
                continue;
            }
            if access.read {
                let before = format!("{name}_before");
                let mut input = Array { name: before.clone(), dtype: Some(*dtype), ..Array::default() };
                if access.atomic {
                    // The only contents that a task can fix are ranges of integers, and 0 is the same bits in every type.
                    input.dtype = Some(match dtype.size() {
                        1 => Dtype::U8,
                        2 => Dtype::U16,
                        4 => Dtype::U32,
                        _ => Dtype::U64,
                    });
                    input.range = Some("[0, 0]".into());
                    let why =
                        format!("`{name}` is changed with atomics, so that something must be there before");
                    input.remark = Some(format!("guessed: all bits 0, because {why}"));
                    self.guesses
                        .push(format!("{name} begins with zeros, because it is changed with atomics"));
                } else {
                    input.remark = Some(format!("what is in `{name}` before the kernel, which reads it too"));
                }
                self.inputs.push(input);
                array.before = Some(before);
            }
            self.outputs.push(array);
        }
    }

    /// Why the kernel cannot be what its name says.
    fn unfit(&self, guess: &Guess) -> Option<String> {
        let before = self.outputs.iter().filter(|output| output.before.is_some()).count();
        // Softmax and the like may work in place; what changes extents cannot.
        let in_place = matches!(guess.kind, Kind::Softmax | Kind::LayerNorm | Kind::Elementwise);
        let inputs = self.inputs.len() - if in_place { 0 } else { before };
        let outputs = self.outputs.len();
        let wanted = match guess.kind {
            Kind::Softmax | Kind::Reduction | Kind::LayerNorm => 1,
            Kind::Gemm => 2,
            Kind::Elementwise => guess.expression.map_or(1, |(count, _)| count),
            Kind::Custom => 0,
        };
        if inputs < wanted {
            return Some(format!("it reads {inputs} arrays, and that takes {wanted}"));
        }
        let single = matches!(guess.kind, Kind::Softmax | Kind::Gemm | Kind::Reduction | Kind::Elementwise);
        if single && outputs > 1 {
            return Some(format!("it writes {outputs} arrays, and that gives one"));
        }
        None
    }

    /// What a scalar is given.
    fn give(&mut self, name: &str, value: &str, remark: Option<String>) {
        self.guesses.extend(remark.as_ref().map(|remark| format!("{name} = {value}, because {remark}")));
        let remark = remark.map(|remark| format!("guessed: {value}, because {remark}"));
        self.scalars.push((name.to_owned(), value.to_owned(), remark));
    }

    fn ask(&mut self, name: &str, value: &str, question: String) {
        self.scalars.push((name.to_owned(), value.to_owned(), Some(format!("question: {question}"))));
        self.questions.push(question);
    }

    /// Rows and columns by the names of integers, else by their order.
    fn rows_and_columns(&mut self) {
        const ROWS: [&str; 12] = [
            "rows",
            "row",
            "nrows",
            "numrows",
            "batch",
            "batchsize",
            "b",
            "height",
            "h",
            "tokens",
            "numtokens",
            "nrow",
        ];
        const COLUMNS: [&str; 16] = [
            "cols",
            "columns",
            "col",
            "ncols",
            "numcols",
            "width",
            "w",
            "hidden",
            "hiddensize",
            "dim",
            "d",
            "c",
            "features",
            "rowsize",
            "length",
            "len",
        ];
        let squeezed = |name: &str| name.to_lowercase().replace('_', "");
        let names: Vec<String> = self.integers().iter().map(|parameter| parameter.name.clone()).collect();
        let known = |list: &[&str]| names.iter().position(|name| list.contains(&squeezed(name).as_str()));
        let (mut rows, mut columns) = (known(&ROWS), known(&COLUMNS));
        let by_name = (rows.is_some(), columns.is_some());
        if columns.is_none() {
            // A kernel learns the number of rows from its grid, but must be told the length of a row.
            let free: Vec<usize> = (0..names.len()).filter(|at| Some(*at) != rows).collect();
            columns = if rows.is_none() && free.len() > 1 { free.get(1) } else { free.first() }.copied();
        }
        if rows.is_none() {
            rows = (0..names.len()).find(|at| Some(*at) != columns).filter(|_| names.len() > 1);
        }
        for (at, name) in names.iter().enumerate() {
            let why = |what: &str| format!("{name} seems to be the number of {what}");
            if Some(at) == rows {
                self.give(name, "n", (!by_name.0 && squeezed(name) != "n").then(|| why("rows")));
            } else if Some(at) == columns {
                let sure = by_name.1 || squeezed(name) == "m";
                self.give(name, "m", (!sure).then(|| why("columns")));
            } else if name.to_lowercase().contains("stride") {
                self.give(name, "m", Some("rows lie one after another".into()));
            } else {
                self.ask(name, "1", format!("what is `{name}`? 1 stands there for now"));
            }
        }
        if columns.is_none() {
            self.questions.push("the kernel is not told how long a row is: which m does it take?".into());
        }
    }

    /// Extents of rows and columns, and a grid over the rows.
    fn over_rows(&mut self) {
        let lanes = self.lanes();
        let threads = u64::from(self.threads());
        let share = self.seen.geometry.shares[0];
        let per_block = match share {
            Share::Thread => threads,
            Share::Tile(tile) => u64::from(tile),
            _ => 1,
        };
        let around: &[u64] = if per_block > 1 { &[per_block] } else { &[] };
        self.axes.push(Axis::new("n", 16, around, 1));
        let mut columns = Axis::new("m", 1024, &[32, threads], lanes);
        // Neither a multiple of a warp nor of a block.
        let odd = 1000u64.next_multiple_of(lanes.max(1));
        if !columns.tails.contains(&odd) {
            columns.tails.push(odd);
        }
        self.axes.push(columns);
        let share = if self.seen.geometry.strides { Share::Block } else { share };
        self.grid = vec![blocks(share, self.threads(), "n")];
        let what = match share {
            Share::Whole => "it does not look at blockIdx".to_owned(),
            Share::Block => "a block seems to take a row".to_owned(),
            Share::Thread => "a thread seems to take a row".to_owned(),
            Share::Tile(tile) => format!("a block seems to take {tile} rows"),
        };
        self.grid_because = what;
    }

    fn set_dims(&mut self, input: &[&str], output: &[&str]) {
        let all = |dims: &[&str]| dims.iter().map(|dim| (*dim).to_owned()).collect::<Vec<_>>();
        let before: Vec<String> = self.outputs.iter().filter_map(|output| output.before.clone()).collect();
        for array in &mut self.inputs {
            array.dims = all(if before.contains(&array.name) { output } else { input });
        }
        for array in &mut self.outputs {
            array.dims = all(output);
        }
    }

    fn first_input(&self) -> String {
        // Where the kernel works in place, what was there before is the input.
        let before: Vec<&String> = self.outputs.iter().filter_map(|output| output.before.as_ref()).collect();
        let own = self.inputs.iter().find(|input| !before.contains(&&input.name));
        own.or(self.inputs.first()).map_or_else(String::new, |input| input.name.clone())
    }

    fn rows(&mut self, guess: &Guess) {
        self.rows_and_columns();
        self.over_rows();
        self.set_dims(&["n", "m"], &["n", "m"]);
        let input = self.first_input();
        self.reference.push(format!("input = \"{input}\""));
        if guess.kind == Kind::LayerNorm {
            let of = |list: &[&str], inputs: &[Array]| {
                let named = |array: &&Array| {
                    let name = array.name.to_lowercase();
                    array.name != input && list.iter().any(|word| name.starts_with(word))
                };
                inputs.iter().find(named).map(|array| array.name.clone())
            };
            let mut weight = of(&["weight", "gamma", "w", "g", "scale"], &self.inputs);
            let mut bias = of(&["bias", "beta", "b", "shift"], &self.inputs);
            let mut others: Vec<String> =
                self.inputs.iter().map(|a| a.name.clone()).filter(|name| *name != input).collect();
            others.retain(|name| Some(name) != weight.as_ref() && Some(name) != bias.as_ref());
            let mut others = others.into_iter();
            weight = weight.or_else(|| others.next());
            bias = bias.or_else(|| others.next());
            for name in [&weight, &bias].into_iter().flatten() {
                if let Some(array) = self.inputs.iter_mut().find(|array| array.name == *name) {
                    array.dims = vec!["m".into()];
                }
            }
            for (key, name) in [("weight", weight), ("bias", bias)] {
                if let Some(name) = name {
                    self.guesses.push(format!("{key} = {name}, because of its name and place"));
                    self.reference.push(format!("{key} = \"{name}\""));
                }
            }
            // Means and deviations that are kept for the backward pass are written, and not judged.
            for mut array in self.outputs.split_off(1) {
                array.dims = vec!["n".into()];
                let note = "guessed: one for each row, and not judged, because the reference has one output";
                array.remark = Some(note.into());
                self.guesses
                    .push(format!("{} is scratch memory, because the reference has one output", array.name));
                self.scratch.push(array);
            }
            self.reference.push("epsilon = 1e-5".into());
        }
        self.reference.push(format!("output = \"{}\"", self.outputs[0].name));
    }

    fn reduction(&mut self, guess: &Guess) {
        let count = self.integers().len();
        let whole =
            count <= 1 && (self.seen.geometry.shares[0] != Share::Block || self.seen.geometry.strides);
        let input = self.first_input();
        if whole {
            let name = self.integers().first().map(|parameter| parameter.name.clone());
            if let Some(name) = name {
                self.give(&name, "n", None);
            }
            let threads = u64::from(self.threads());
            self.axes.push(Axis::new("n", 4096, &[32, threads], self.lanes()));
            self.set_dims(&["1", "n"], &["1"]);
            let atomic = self.outputs[0].before.is_some();
            let share = if self.seen.geometry.strides { Share::Whole } else { self.seen.geometry.shares[0] };
            self.grid = vec![blocks(share, self.threads(), "n")];
            if !atomic && share != Share::Whole {
                self.questions.push(format!(
                    "does each block write a sum of its own to `{}`? One result is expected, that of all",
                    self.outputs[0].name
                ));
            }
            self.grid_because = match share {
                Share::Whole => "one block can do all, and there is one result".to_owned(),
                _ => "of how it uses blockIdx".to_owned(),
            };
            self.guesses.push("all elements become one, because the kernel is told one extent".into());
        } else {
            self.rows_and_columns();
            self.over_rows();
            self.set_dims(&["n", "m"], &["n"]);
        }
        let output = self.outputs[0].name.clone();
        self.reference.extend([
            format!("input = \"{input}\""),
            format!("output = \"{output}\""),
            format!("op = \"{}\" # guessed: because {}", guess.op, guess.because),
            "axis = 1".to_owned(),
        ]);
    }

    fn gemm(&mut self, guess: &Guess) {
        let names: Vec<String> = self.integers().iter().map(|parameter| parameter.name.clone()).collect();
        let square = names.len() == 1;
        let (m, n, k) = if square { ("n", "n", "n") } else { ("m", "n", "k") };
        let order = ["m", "n", "k"];
        let mut left = order.iter().filter(|axis| !names.iter().any(|name| name.to_lowercase() == **axis));
        for name in &names {
            let lower = name.to_lowercase();
            match lower.as_str() {
                _ if square => {
                    self.give(name, "n", (lower != "n").then(|| "there is one extent for all".into()));
                }
                "m" | "n" | "k" => self.give(name, &lower, None),
                "lda" | "ldb" | "ldc" => {
                    let (ta, tb) = guess.transposed;
                    let value = match (lower.as_str(), ta, tb) {
                        ("lda", true, _) => m,
                        ("lda", false, _) | ("ldb", _, true) => k,
                        _ => n,
                    };
                    self.give(name, value, Some("rows lie one after another".into()));
                }
                _ => match left.next() {
                    Some(axis) => self.give(name, axis, Some("extents come as m, n, k".into())),
                    None => self.ask(name, "1", format!("what is `{name}`? 1 stands there for now")),
                },
            }
        }
        let tile = self.seen.block.extents.first().copied().map_or(32, u64::from);
        let around = if tile < 64 { [tile, 32] } else { [16, 32] };
        if square {
            self.axes.push(Axis::new("n", 96, &around, self.lanes()));
        } else {
            for (axis, main) in [("m", 96), ("n", 80), ("k", 64)] {
                self.axes.push(Axis::new(axis, main, &around, self.lanes()));
            }
        }
        let output = self.outputs[0].name.clone();
        let before = self.outputs[0].before.clone();
        let own: Vec<String> =
            self.inputs.iter().map(|a| a.name.clone()).filter(|name| Some(name) != before.as_ref()).collect();
        self.set_dims(&[m, n], &[m, n]);
        let (a, b) = (own.first().cloned().unwrap_or_default(), own.get(1).cloned().unwrap_or_default());
        let (ta, tb) = guess.transposed;
        for (name, transposed, rows, columns) in [(&a, ta, m, k), (&b, tb, k, n)] {
            if let Some(array) = self.inputs.iter_mut().find(|array| array.name == *name) {
                let (first, second) = if transposed { (columns, rows) } else { (rows, columns) };
                array.dims = vec![first.into(), second.into()];
            }
        }
        self.reference.extend([
            format!("a = \"{a}\""),
            format!("b = \"{b}\""),
            format!("output = \"{output}\""),
        ]);
        if ta {
            self.reference.push("transpose_a = true".into());
        }
        if tb {
            self.reference.push("transpose_b = true".into());
        }
        let [x, y] = self.seen.geometry.shares;
        let side = |at: usize| self.seen.block.extents.get(at).copied().unwrap_or(1);
        self.grid = if y == Share::Whole {
            vec![
                blocks(x, self.threads(), if x == Share::Thread { "m * n" } else { m })
                    .replace("m * n", &format!("{m} * {n}")),
            ]
        } else {
            vec![blocks(x, side(0), n), blocks(y, side(1), m)]
        };
        "x seems to run over columns and y over rows".clone_into(&mut self.grid_because);
    }

    /// One element for each thread or so, and kernels of which nothing is known: every integer is an extent.
    fn elementwise(&mut self, guess: &Guess, target: &Target<'_>) {
        let names: Vec<String> = self.integers().iter().map(|parameter| parameter.name.clone()).collect();
        let mut dims: Vec<String> = Vec::new();
        let threads = u64::from(self.threads());
        let lanes = self.lanes();
        for (at, name) in names.iter().enumerate() {
            let mut axis = name.to_lowercase();
            while self.inputs.iter().chain(&self.outputs).any(|array| array.name == axis)
                || dims.contains(&axis)
            {
                axis.push('_');
            }
            let last = at + 1 == names.len();
            let main = if names.len() == 1 { 4096 } else { [64, 256][usize::from(last)] };
            let around = [32, threads];
            let (around, multiple) = if last { (around.as_slice(), lanes) } else { (&[][..], 1) };
            self.axes.push(Axis::new(&axis, main, around, multiple));
            self.give(
                name,
                &axis,
                (guess.kind == Kind::Custom).then(|| "integers are taken for extents".into()),
            );
            dims.push(axis);
        }
        if dims.is_empty() {
            let blocks = if self.seen.geometry.shares[0] == Share::Whole { 1 } else { 8 };
            let step = threads * lanes;
            let mut axis = Axis::new("n", blocks * step, &[], step);
            axis.tails = if blocks > 1 { vec![step] } else { Vec::new() };
            self.axes.push(axis);
            dims.push("n".into());
            self.guesses.push(format!(
                "n is a multiple of {}, because the kernel is not told how many elements there are",
                threads * lanes
            ));
        }
        let total = dims.join(" * ");
        let all: Vec<&str> = dims.iter().map(String::as_str).collect();
        self.set_dims(&all, &all);
        let [x, y] = self.seen.geometry.shares;
        let per = |share: Share, threads: u32| match share {
            Share::Tile(tile) => u64::from(tile.max(1)),
            // Each thread of a vector type takes several.
            _ => u64::from(threads) * lanes,
        };
        let side = |at: usize| self.seen.block.extents.get(at).copied().unwrap_or(1);
        self.grid = match (x, y, dims.as_slice()) {
            (Share::Whole, Share::Whole, _) => vec!["1".into()],
            (Share::Block, Share::Whole, [rows, _, ..]) => vec![rows.clone()],
            (x, Share::Whole, _) => vec![format!("ceil_div({total}, {})", per(x, self.threads()))],
            (x, y, [rows, columns, ..]) => vec![
                format!("ceil_div({columns}, {})", per(x, side(0))),
                format!("ceil_div({rows}, {})", per(y, side(1))),
            ],
            (x, _, _) => vec![format!("ceil_div({total}, {})", per(x, self.threads()))],
        };
        "of how it uses blockIdx".clone_into(&mut self.grid_because);
        if guess.kind == Kind::Custom {
            let question = format!(
                "what does `{}` compute? Say it in {}_reference.py, and what each array's extents are",
                self.seen.name,
                target.file_name()
            );
            self.questions.push(question);
            self.questions.push("how far may outputs be from the reference? The limits are a guess".into());
            self.reference.extend([
                format!("python = \"{}_reference.py\"", target.file_name()),
                "function = \"reference\"".to_owned(),
            ]);
            return;
        }
        let mut sources: Vec<String> = self.inputs.iter().map(|array| array.name.clone()).collect();
        // What was in the output before comes last, as in axpy.
        let before: Vec<String> = self.outputs.iter().filter_map(|output| output.before.clone()).collect();
        sources.sort_by_key(|name| before.contains(name));
        let output = self.outputs[0].name.clone();
        let (first, second) =
            (sources.first().cloned().unwrap_or_default(), sources.get(1).cloned().unwrap_or_default());
        let line = if let Some((_, template)) = guess.expression {
            let text = template.replace("{0}", &first).replace("{1}", &second).replace("{a}", "2.5");
            format!("expression = \"{text}\" # guessed: because {}", guess.because)
        } else {
            let question = format!("which expression of its inputs does `{}` compute?", self.seen.name);
            let line = format!("expression = \"{first}\" # question: {question}");
            self.questions.push(question);
            line
        };
        self.reference.extend([line, format!("output = \"{output}\"")]);
    }

    /// Values of real scalars, by their names.
    fn reals(&mut self, guess: &Guess) {
        let real = |parameter: &&Parameter| {
            matches!(parameter.what, What::Scalar(dtype) if !dtype.is_integer()) || is_factor(parameter)
        };
        let names: Vec<String> = self.seen.parameters.iter().filter(real).map(|p| p.name.clone()).collect();
        for name in names {
            let lower = name.to_lowercase();
            let whole = self.seen.parameters.iter().any(|parameter| {
                parameter.name == name && matches!(parameter.what, What::Scalar(dtype) if dtype.is_integer())
            });
            match guess.kind {
                _ if whole => self.ask(&name, "1", format!("what is `{name}`? 1 stands there for now")),
                Kind::LayerNorm if lower.starts_with("eps") => {
                    self.give(&name, "1e-5", Some("that is the usual one".into()));
                }
                Kind::Gemm if lower == "alpha" => {
                    self.give(&name, "1.0", Some("the product is taken as it is".into()));
                }
                Kind::Gemm if lower == "beta" => {
                    self.give(&name, "0.0", Some("the reference adds nothing to the product".into()));
                }
                Kind::Elementwise if guess.expression.is_some_and(|(_, text)| text.contains("{a}")) => {
                    self.give(&name, "2.5", Some("the expression says the same".into()));
                }
                _ => self.ask(&name, "1.0", format!("what is `{name}`? 1.0 stands there for now")),
            }
        }
    }

    fn write(mut self, guess: &Guess, target: &Target<'_>) -> Draft {
        self.reals(guess);
        let mut shared = None;
        if self.seen.geometry.dynamic_shared {
            let element = self.inputs.first().and_then(|array| array.dtype).map_or(4, Dtype::size);
            let bytes = u32::try_from(element).unwrap_or(4).saturating_mul(self.threads());
            let (bytes, why) = match self.seen.dynamic_shared {
                Some(bytes) => (bytes, "the launch line says so".to_owned()),
                None => (bytes, format!("that is an element for each of {} threads", self.threads())),
            };
            if self.seen.dynamic_shared.is_none() {
                self.questions.push("how much dynamic shared memory does it take? That is a guess".into());
            }
            self.guesses.push(format!("shared_bytes = {bytes}, because {why}"));
            shared = Some((bytes, why));
        }
        self.guesses.push(format!("grid = [{}], because {}", self.grid.join(", "), self.grid_because));
        let block = &self.seen.block;
        match &block.because {
            Some(why) if block.evidence => {
                self.guesses.push(format!("block = {:?}, because {why}", block.extents));
            }
            Some(why) => self.questions.push(format!(
                "how many threads does a block have? {:?} is guessed without evidence: check it ({why})",
                block.extents
            )),
            None => {}
        }
        let text = super::text::task(&super::text::Parts {
            seen: self.seen,
            target,
            kind: guess.kind,
            because: &guess.because,
            axes: &self.axes,
            inputs: &self.inputs.iter().map(|array| array.line(false, self.main_type())).collect::<Vec<_>>(),
            outputs: &self.outputs.iter().map(|array| array.line(true, self.main_type())).collect::<Vec<_>>(),
            scratch: &self.scratch.iter().map(Array::scratch_line).collect::<Vec<_>>(),
            dtype: self.main_type(),
            narrow: self.narrow(),
            arguments: &self.arguments(),
            grid: &self.grid,
            grid_because: &self.grid_because,
            shared: shared.as_ref().map(|(bytes, why)| (*bytes, why.as_str())),
            reference: &self.reference,
            questions: &self.questions,
        });
        let python = (guess.kind == Kind::Custom)
            .then(|| (format!("{}_reference.py", target.file_name()), self.python()));
        Draft { text, operator: guess.kind, guesses: self.guesses, questions: self.questions, python }
    }

    /// The type that tolerances are about.
    fn main_type(&self) -> Dtype {
        self.outputs.first().and_then(|array| array.dtype).unwrap_or(Dtype::F32)
    }

    /// Whether a tensor has a format of 16 bits or less, whose range the sums of a wide distribution leave.
    fn narrow(&self) -> bool {
        let narrow =
            |array: &Array| array.dtype.is_some_and(|dtype| !dtype.is_integer() && dtype.size() <= 2);
        self.inputs.iter().chain(&self.outputs).any(narrow)
    }

    fn arguments(&self) -> Vec<(String, Option<String>)> {
        let text = |parameter: &Parameter| match parameter.what {
            What::Scalar(dtype) => {
                let found = self.scalars.iter().find(|(name, ..)| *name == parameter.name);
                let (value, remark) = found.map_or(("1", None), |(_, value, remark)| (value, remark.clone()));
                let value =
                    if value.parse::<f64>().is_ok() { value.to_owned() } else { format!("\"{value}\"") };
                (format!("{{ value = {value}, dtype = \"{dtype}\" }}"), remark)
            }
            _ => (format!("\"{}\"", parameter.name), None),
        };
        self.seen.parameters.iter().map(text).collect()
    }

    /// A Python file that says what is asked, and nothing more.
    fn python(&self) -> String {
        let names: Vec<&str> = self
            .inputs
            .iter()
            .map(|array| array.name.as_str())
            .chain(self.axes.iter().map(|axis| axis.name.as_str()))
            .collect();
        let outputs: Vec<&str> = self.outputs.iter().map(|array| array.name.as_str()).collect();
        let mut text = String::new();
        let _ = write!(
            text,
            "# What `{}` should compute. Inputs hold the values that the kernel reads: numpy arrays if numpy is installed, else\n\
             # memoryviews, which have `x.shape`, `x[i, j]` and `x.tolist()` too.\n\
             # Return {}.\n\n\n\
             def reference({}):\n    raise NotImplementedError(\"say here what {} computes\")\n",
            self.seen.name,
            match outputs.as_slice() {
                [one] => format!("`{one}` as an array or as nested lists"),
                all => format!("a dict with {}", all.join(", ")),
            },
            names.join(", "),
            self.seen.name,
        );
        text
    }
}

/// An integer that is a number to compute with, not an extent.
fn is_factor(parameter: &Parameter) -> bool {
    matches!(parameter.what, What::Scalar(dtype) if dtype.is_integer())
        && matches!(parameter.name.to_lowercase().as_str(), "a" | "alpha" | "beta" | "scale" | "factor")
}

impl Array {
    fn remark(&self) -> String {
        self.remark.as_ref().map_or_else(String::new, |remark| format!(" # {remark}"))
    }

    /// The keys of an input or output; the task's own type is said once.
    fn line(&self, output: bool, main: Dtype) -> String {
        let dims: Vec<String> = self.dims.iter().map(|dim| format!("\"{dim}\"")).collect();
        let dtype = self.dtype.unwrap_or(Dtype::F32);
        let said = if dtype == main && !dtype.is_integer() { "each" } else { dtype.name() };
        let mut text = format!(
            "name = \"{}\"{}\ndtype = \"{said}\"\ndims = [{}]\n",
            self.name,
            self.remark(),
            dims.join(", ")
        );
        if let Some(before) = &self.before {
            let _ = writeln!(text, "in_place = \"{before}\"");
        } else if let Some(range) = &self.range {
            let _ = writeln!(text, "range = {range}");
        } else if dtype.is_integer() && !output {
            let extent = self.dims.first().map_or("1", String::as_str);
            let _ = writeln!(text, "range = [0, \"{extent} - 1\"] # guessed: because they may be indices");
        }
        text
    }

    fn scratch_line(&self) -> String {
        let count = if self.dims.is_empty() { "1".to_owned() } else { self.dims.join(" * ") };
        let dtype = self.dtype.unwrap_or(Dtype::F32);
        format!("name = \"{}\"{}\ndtype = \"{dtype}\"\ncount = \"{count}\"\n", self.name, self.remark())
    }
}
