//! Writes the text of a first task file.

use std::fmt::Write;

use super::Seen;
use super::builtin;
use super::explore::Found;
use super::operator::{Guess, Kind, guess};
use super::parameter::{Parameter, What};
use super::sizes::{self, Axis};
use super::traffic::Access;
use warpproof_task::dtype::Dtype;

/// Paths and names of the file and the kernel.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// The kernel's file, relative to the task.
    pub file: &'a str,
    /// The file's name without directory and extension, if the file has only one kernel: it may indicate the
    /// operator.
    pub stem: Option<&'a str>,
    /// The task's name: if a file has several kernels, each has its own task.
    pub name: &'a str,
    /// Whether it holds PTX.
    pub is_ptx: bool,
    /// The operator that the user named.
    pub operator: Option<Kind>,
    /// Why the operator in its name is wrong, as a run showed.
    pub refuted: Option<&'a str>,
    /// The architecture it was compiled for.
    pub architecture: &'a str,
}

impl Target<'_> {
    /// The task's name in a form that task files and file systems accept.
    pub(super) fn file_name(&self) -> String {
        super::text::name(self.name)
    }
}

/// A task file, with notes for the user.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// The text.
    pub text: String,
    /// The operator.
    pub operator: Kind,
    /// Guesses, with reasons.
    pub guesses: Vec<String>,
    /// Open questions.
    pub questions: Vec<String>,
    /// The text of a Python file to complete, for an unknown operator.
    pub python: Option<(String, String)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Array {
    pub(super) name: String,
    pub(super) dtype: Option<Dtype>,
    pub(super) dims: Vec<String>,
    /// Its initial contents.
    pub(super) before: Option<String>,
    pub(super) remark: Option<String>,
    range: Option<String>,
}

/// Everything that goes into the file.
pub(super) struct Plan<'a> {
    seen: &'a Seen,
    found: &'a Found,
    pub(super) inputs: Vec<Array>,
    pub(super) outputs: Vec<Array>,
    pub(super) scratch: Vec<Array>,
    /// The value of each scalar, by the name of its parameter.
    scalars: Vec<(String, String, Option<String>)>,
    pub(super) reference: Vec<String>,
    pub(super) guesses: Vec<String>,
    pub(super) questions: Vec<String>,
}

/// A first task for a kernel, or why it failed. `found` is the result of trial runs, or why they found nothing.
pub fn draft(seen: &Seen, found: Result<&Found, &str>, target: &Target<'_>) -> Result<Draft, String> {
    for parameter in &seen.parameters {
        if let What::Other(ty) = &parameter.what {
            return Err(format!("parameter `{}` is a `{ty}`, which init does not support", parameter.name));
        }
    }
    let mut guess = guess(&seen.name, target.stem);
    if let Some(kind) = target.operator {
        guess.kind = kind;
        "the user set it".clone_into(&mut guess.because);
    }
    let assumed;
    let known = if let Ok(found) = found {
        found
    } else {
        assumed = super::assume::assume(seen);
        &assumed
    };
    let mut plan = Plan {
        seen,
        found: known,
        inputs: Vec::new(),
        outputs: Vec::new(),
        scratch: Vec::new(),
        scalars: Vec::new(),
        reference: Vec::new(),
        guesses: Vec::new(),
        questions: known.questions.clone(),
    };
    if let Err(why) = found {
        plan.questions.push(format!(
            "are extents, grid and block correct? Trial runs could not find them: {}",
            why.replace('\n', " ")
        ));
    }
    plan.arrays();
    if plan.outputs.is_empty() {
        return Err(format!("`{}` writes to none of its parameters: it has no output", seen.name));
    }
    if let Some(why) = target.refuted.filter(|_| target.operator.is_none() && guess.kind != Kind::Custom) {
        guess.because = format!("{}, but {why}", guess.because);
        guess.kind = Kind::Custom;
    }
    if guess.kind != Kind::Custom {
        match builtin::reference(&mut plan, &guess) {
            Ok(lines) => plan.reference = lines,
            Err(why) if target.operator.is_some() => {
                return Err(format!("`{}` cannot be a {}: {why}", seen.name, guess.kind.name()));
            }
            Err(why) => {
                guess.because = format!("{}, but {why}", guess.because);
                guess.kind = Kind::Custom;
            }
        }
    }
    if guess.kind == Kind::Custom {
        plan.custom(target);
    }
    plan.guesses.insert(0, format!("operator = {}, because {}", guess.kind.name(), guess.because));
    Ok(plan.write(&guess, target))
}

impl Plan<'_> {
    /// Read-only arrays are inputs. An array that is read and written begins with the contents of an input.
    fn arrays(&mut self) {
        for (at, parameter) in self.seen.parameters.iter().enumerate() {
            let What::Array { dtype, access, because, .. } = &parameter.what else { continue };
            let known = self.found.arrays.get(at).and_then(Option::as_ref);
            let access = known.map_or(*access, |known| known.access);
            if access == Access::default() {
                continue;
            }
            let dims = known.map_or_else(Vec::new, |known| known.dims.clone());
            let name = parameter.name.clone();
            let remark = because.as_ref().map(|why| format!("guessed: {dtype}, because {why}"));
            self.guesses.extend(
                remark.as_ref().map(|remark| format!("{name}: {}", remark.trim_start_matches("guessed: "))),
            );
            let mut array =
                Array { name: name.clone(), dtype: Some(*dtype), dims, remark, ..Array::default() };
            if !access.written {
                self.inputs.push(array);
                continue;
            }
            if access.read {
                let before = format!("{name}_before");
                let mut input = Array {
                    name: before.clone(),
                    dtype: Some(*dtype),
                    dims: array.dims.clone(),
                    ..Array::default()
                };
                if access.atomic {
                    // A task can fix contents only as ranges of integers, and 0 has the same bits in every type.
                    input.dtype = Some(match dtype.size() {
                        1 => Dtype::U8,
                        2 => Dtype::U16,
                        4 => Dtype::U32,
                        _ => Dtype::U64,
                    });
                    input.range = Some("[0, 0]".into());
                    let why = format!("atomics update `{name}`, so it needs initial contents");
                    input.remark = Some(format!("guessed: all bits 0, because {why}"));
                    self.guesses.push(format!("{name} begins with zeros, because atomics update it"));
                } else {
                    input.remark = Some(format!("initial contents of `{name}`, which the kernel also reads"));
                }
                self.inputs.push(input);
                array.before = Some(before);
            }
            self.outputs.push(array);
        }
    }

    /// Sets the value of a scalar.
    fn give(&mut self, name: &str, value: &str, remark: Option<String>) {
        self.guesses.extend(remark.as_ref().map(|remark| format!("{name} = {value}, because {remark}")));
        let remark = remark.map(|remark| format!("guessed: {value}, because {remark}"));
        self.scalars.push((name.to_owned(), value.to_owned(), remark));
    }

    fn ask(&mut self, name: &str, value: &str, question: String) {
        self.scalars.push((name.to_owned(), value.to_owned(), Some(format!("question: {question}"))));
        self.questions.push(question);
    }

    /// An unknown kernel gets a Python reference.
    fn custom(&mut self, target: &Target<'_>) {
        self.questions.push(format!(
            "what does `{}` compute? Write it in {}_reference.py",
            self.seen.name,
            target.file_name()
        ));
        if self.outputs.iter().any(|output| output.dtype.is_some_and(|dtype| !dtype.is_integer())) {
            self.questions
                .push("how much may outputs differ from the reference? The limits are a guess".into());
        }
        self.reference.extend([
            format!("python = \"{}_reference.py\"", target.file_name()),
            "function = \"reference\"".to_owned(),
        ]);
    }

    /// Values of scalars: integers from the runs, reals by their names.
    fn values(&mut self, guess: &Guess) {
        let seen = self.seen;
        for (at, parameter) in seen.parameters.iter().enumerate() {
            let What::Scalar(dtype) = parameter.what else { continue };
            let (name, lower) = (parameter.name.as_str(), parameter.name.to_lowercase());
            if dtype.is_integer() {
                match self.found.values.get(at).cloned().flatten() {
                    Some(value) => {
                        let own = value == lower || value.trim_end_matches('_') == lower;
                        self.give(name, &value, (!own).then(|| "rows are contiguous".into()));
                    }
                    None => {
                        self.ask(
                            name,
                            "1",
                            format!("what is the value of `{name}`? The task uses 1 for now"),
                        );
                    }
                }
                continue;
            }
            match guess.kind {
                _ if lower.starts_with("eps") => {
                    self.give(name, "1e-5", Some("it is the usual value".into()));
                }
                Kind::Gemm if lower == "alpha" => {
                    self.give(name, "1.0", Some("the reference does not scale the product".into()));
                }
                Kind::Gemm if lower == "beta" => {
                    self.give(name, "0.0", Some("the reference adds nothing to the product".into()));
                }
                Kind::Elementwise if guess.expression.is_some_and(|(_, text)| text.contains("{a}")) => {
                    self.give(name, "2.5", Some("the reference uses the same value".into()));
                }
                _ => {
                    self.ask(
                        name,
                        "1.0",
                        format!("what is the value of `{name}`? The task uses 1.0 for now"),
                    );
                }
            }
        }
    }

    /// Bytes of dynamic shared memory, with the reason.
    fn shared(&mut self) -> Option<(String, String)> {
        let (bytes, why) = match (self.seen.dynamic_shared, &self.found.shared) {
            (Some(0), _) => return None,
            (Some(bytes), _) => {
                (bytes.to_string(), "the launch line or Triton's metadata states it".to_owned())
            }
            (None, Some(bytes)) => (bytes.clone(), "the trial runs used this much".to_owned()),
            (None, None) if self.seen.geometry.dynamic_shared => {
                let element = self.inputs.first().and_then(|array| array.dtype).map_or(4, Dtype::size);
                let threads = self.seen.block.threads();
                let bytes = u32::try_from(element).unwrap_or(4).saturating_mul(threads);
                self.questions
                    .push("how much dynamic shared memory does the kernel need? The value is a guess".into());
                (bytes.to_string(), format!("it is one element for each of {threads} threads"))
            }
            (None, None) => return None,
        };
        self.guesses.push(format!("shared_bytes = {bytes}, because {why}"));
        Some((bytes, why))
    }

    fn write(mut self, guess: &Guess, target: &Target<'_>) -> Draft {
        self.values(guess);
        self.unused();
        let shared = self.shared();
        let ran = !self.found.block.is_empty();
        let grid_because =
            if ran { "this many blocks did work in the trial runs" } else { "of how it uses blockIdx" };
        self.guesses.push(format!("grid = [{}], because {grid_because}", self.found.grid.join(", ")));
        let mut block = self.seen.block.clone();
        if ran && block.because.is_some() {
            if block.extents != self.found.block {
                block.because = Some("the kernel runs with it, but not with the first guess".into());
                block.extents.clone_from(&self.found.block);
            } else if !block.evidence {
                block.because = Some("the kernel runs with it, and the source states no other size".into());
            }
            block.evidence = true;
        }
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
        let axes = sizes::axes(self.found, &self.largest(), block.threads());
        for axis in &self.found.axes {
            if axis.multiple > 1 {
                self.guesses.push(format!(
                    "{} is a multiple of {}, because the kernel did not run as expected with other extents",
                    axis.name, axis.multiple
                ));
            }
            if let Some(most) = axis.at_most {
                self.guesses.push(format!(
                    "{} is at most {most}, because the kernel does not process elements beyond it",
                    axis.name
                ));
            }
        }
        let indices = self.found.indices.as_deref();
        let line = |array: &Array, output: bool| array.line(output, self.main_type(), indices);
        let text = super::text::task(&super::text::Parts {
            seen: self.seen,
            target,
            kind: guess.kind,
            because: &guess.because,
            axes: &axes,
            inputs: &self.inputs.iter().map(|array| line(array, false)).collect::<Vec<_>>(),
            outputs: &self.outputs.iter().map(|array| line(array, true)).collect::<Vec<_>>(),
            scratch: &self.scratch_lines(),
            dtype: self.main_type(),
            unit: self.coarsest(),
            narrow: self.narrow(),
            real: self.inputs.iter().any(|array| array.dtype.is_some_and(|dtype| !dtype.is_integer())),
            arguments: &self.arguments(),
            grid: &self.found.grid,
            grid_because,
            block: &block,
            shared: shared.as_ref().map(|(bytes, why)| (bytes.as_str(), why.as_str())),
            reference: &self.reference,
            questions: &self.questions,
        });
        let python = (guess.kind == Kind::Custom)
            .then(|| (format!("{}_reference.py", target.file_name()), self.python(&axes)));
        Draft { text, operator: guess.kind, guesses: self.guesses, questions: self.questions, python }
    }

    /// Parameters that the kernel never reads.
    fn unused(&mut self) {
        for parameter in &self.seen.parameters {
            let named = |array: &Array| array.name == parameter.name;
            let known = self.inputs.iter().chain(&self.outputs).chain(&self.scratch).any(named);
            if matches!(parameter.what, What::Array { .. }) && !known {
                self.questions.push(format!(
                    "is `{0}` unused? No trial run accesses it, and the task passes null",
                    parameter.name
                ));
            }
        }
    }

    /// The axes of the array with the most axes.
    fn largest(&self) -> Vec<String> {
        let all = self.inputs.iter().chain(&self.outputs);
        all.map(|array| &array.dims).max_by_key(|dims| dims.len()).cloned().unwrap_or_default()
    }

    /// The type that determines tolerances.
    fn main_type(&self) -> Dtype {
        self.outputs.first().and_then(|array| array.dtype).unwrap_or(Dtype::F32)
    }

    /// The coarsest rounding of an output; 0 if all are integers.
    fn coarsest(&self) -> f64 {
        let units = self.outputs.iter().filter_map(|array| array.dtype).map(|dtype| dtype.unit().relative);
        units.fold(0.0, f64::max)
    }

    /// Whether a tensor has a format of 16 bits or fewer, which sums of a wide distribution overflow.
    fn narrow(&self) -> bool {
        let narrow =
            |array: &Array| array.dtype.is_some_and(|dtype| !dtype.is_integer() && dtype.size() <= 2);
        self.inputs.iter().chain(&self.outputs).any(narrow)
    }

    fn scratch_lines(&self) -> Vec<String> {
        let appended = self.seen.parameters.iter().filter_map(|parameter| match parameter.what {
            What::Scratch { bytes_per_block } if bytes_per_block > 0 => Some(Array {
                name: parameter.name.clone(),
                dtype: Some(Dtype::U8),
                dims: [vec![bytes_per_block.to_string()], self.found.grid.clone()].concat(),
                remark: Some("scratch memory that Triton requires for each block".into()),
                ..Array::default()
            }),
            _ => None,
        });
        self.scratch.iter().cloned().chain(appended).map(|array| array.scratch_line()).collect()
    }

    fn arguments(&self) -> Vec<(String, Option<String>)> {
        const NULL: &str = "{ value = 0, dtype = \"u64\" }";
        let text = |parameter: &Parameter| match parameter.what {
            What::Scalar(dtype) => {
                let found = self.scalars.iter().find(|(name, ..)| *name == parameter.name);
                let (value, remark) = found.map_or(("1", None), |(_, value, remark)| (value, remark.clone()));
                let value =
                    if value.parse::<f64>().is_ok() { value.to_owned() } else { format!("\"{value}\"") };
                (format!("{{ value = {value}, dtype = \"{dtype}\" }}"), remark)
            }
            What::Scratch { bytes_per_block: 0 } => (
                NULL.to_owned(),
                Some(format!("Triton's `{}`, which this kernel does not use", parameter.name)),
            ),
            What::Array { .. } => {
                let named = |array: &Array| array.name == parameter.name;
                if self.inputs.iter().chain(&self.outputs).chain(&self.scratch).any(named) {
                    (format!("\"{}\"", parameter.name), None)
                } else {
                    (NULL.to_owned(), Some(format!("question: is `{}` unused?", parameter.name)))
                }
            }
            _ => (format!("\"{}\"", parameter.name), None),
        };
        self.seen.parameters.iter().map(text).collect()
    }

    /// A Python file with the known arrays; the user writes the computation.
    fn python(&self, axes: &[Axis]) -> String {
        let names: Vec<&str> = self
            .inputs
            .iter()
            .map(|array| array.name.as_str())
            .chain(axes.iter().map(|axis| axis.name.as_str()))
            .collect();
        let shape = |array: &Array| {
            format!("# {}[{}]: {}", array.name, array.dims.join(", "), array.dtype.map_or("f32", Dtype::name))
        };
        let mut text = String::new();
        let _ = write!(
            text,
            "# What `{}` should compute. Inputs hold the values that the kernel reads: numpy arrays if numpy is installed, else\n\
             # memoryviews, which have `x.shape`, `x[i, j]` and `x.tolist()` too.\n#\n# Inputs:\n",
            self.seen.name,
        );
        for line in self.inputs.iter().map(shape) {
            let _ = writeln!(text, "{line}");
        }
        for (name, value, _) in self.scalars.iter().filter(|(_, value, _)| value.parse::<f64>().is_ok()) {
            let _ = writeln!(text, "# The kernel is launched with {name} = {value}.");
        }
        text.push_str("#\n# Returns:\n");
        for line in self.outputs.iter().map(shape) {
            let _ = writeln!(text, "{line}");
        }
        if self.outputs.len() > 1 {
            let outputs: Vec<String> =
                self.outputs.iter().map(|array| format!("\"{0}\": …", array.name)).collect();
            let _ = writeln!(text, "# as a dict {{{}}}", outputs.join(", "));
        }
        let _ = write!(
            text,
            "\n\ndef reference({}):\n    # TODO\n    raise NotImplementedError(\"compute the outputs of {} here\")\n",
            names.join(", "),
            self.seen.name,
        );
        text
    }
}

impl Array {
    fn remark(&self) -> String {
        self.remark.as_ref().map_or_else(String::new, |remark| format!(" # {remark}"))
    }

    /// The keys of an input or output; the task's own type is written once.
    fn line(&self, output: bool, main: Dtype, indices: Option<&str>) -> String {
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
            let range = match (dtype, indices) {
                (Dtype::I8, _) => "[-128, 127]".to_owned(),
                (Dtype::U8, _) => "[0, 255]".to_owned(),
                (_, Some(axis)) => format!(
                    "[0, \"{axis} - 1\"] # guessed: because another array is indexed with such values"
                ),
                (Dtype::I16 | Dtype::I32 | Dtype::I64, None) => {
                    "[-1000, 1000] # guessed: because no array is indexed with them".to_owned()
                }
                (_, None) => "[0, 1000] # guessed: because no array is indexed with them".to_owned(),
            };
            let _ = writeln!(text, "range = {range}");
        }
        text
    }

    fn scratch_line(&self) -> String {
        let count = if self.dims.is_empty() { "1".to_owned() } else { self.dims.join(" * ") };
        let dtype = self.dtype.unwrap_or(Dtype::F32);
        format!("name = \"{}\"{}\ndtype = \"{dtype}\"\ncount = \"{count}\"\n", self.name, self.remark())
    }
}
