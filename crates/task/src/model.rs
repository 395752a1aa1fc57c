//! A task file after parsing. Every type serializes to its canonical form, from which hashes are computed.

use std::collections::BTreeMap;

use serde::Serialize;
use warpproof_kernels::inputs::Distribution as AttentionDistribution;

use super::attention::{AttentionOperator, AttentionOptions, AttentionShape};
use super::operands;
use super::problem::At;
use super::space::Space;
use crate::Accumulate;
use crate::dtype::Dtype;
use crate::expr::Expr;
use crate::{Comparison, Stage};

/// A task: one operator, how it is evaluated, and the candidates.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Task {
    /// Its name.
    pub name: At<String>,
    /// Its version, from 1. Results of different versions are not comparable.
    pub version: At<u32>,
    /// Its description.
    pub description: String,
    /// Sizes.
    pub shapes: Vec<Shape>,
    /// Inputs, outputs, and the values of inputs.
    pub data: Data,
    /// The expected outputs.
    pub reference: Reference,
    /// How far outputs may be from it.
    pub tolerance: Tolerance,
    /// Limits of resources.
    pub budgets: Vec<Budget>,
    /// Macros that candidates may set.
    pub toggles: Vec<Toggle>,
    /// Architectures to compile for, and devices whose resources count.
    pub target: Target,
    /// What candidates are compared with.
    pub baselines: Vec<Baseline>,
    /// The stages in order.
    pub gates: Vec<Gate>,
    /// How speed is measured, and the required improvement.
    pub timing: Option<Timing>,
    /// The candidates to evaluate.
    pub candidates: Vec<Candidate>,
    /// The spaces of variants.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spaces: Vec<Space>,
}

/// A named size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shape {
    /// Its name.
    pub name: At<String>,
    /// The extent of each axis.
    pub axes: BTreeMap<String, Extent>,
    /// Whether candidates do not know it: extents may then be ranges, drawn anew for each run.
    pub hidden: bool,
    /// Further sizes: this one with one axis replaced.
    pub tails: BTreeMap<String, Vec<u64>>,
    /// For attention.
    #[serde(flatten)]
    pub attention: AttentionShape,
}

/// The extent of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Extent {
    /// Fixed.
    Fixed(u64),
    /// Drawn for each run, both ends inclusive.
    Range(u64, u64),
}

/// Inputs, outputs, and the values of inputs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Data {
    /// Types that tensors of dtype `each` take in turn.
    pub dtypes: Vec<Dtype>,
    /// Seeds of the inputs.
    pub seeds: Vec<u64>,
    /// Additional seeds, drawn for each run and stored in its record.
    pub secret_seeds: u32,
    /// Distributions of values.
    pub distributions: Vec<Distribution>,
    /// What kernels read.
    #[serde(serialize_with = "operands::stated_inputs")]
    pub inputs: Vec<Input>,
    /// What kernels write.
    #[serde(serialize_with = "operands::stated_outputs")]
    pub outputs: Vec<Output>,
}

impl Data {
    /// The type of sums of integers: 64 bits if an output has 64, else 32. `None` if the task has other tensors.
    pub fn integer_sums(&self) -> Option<Accumulate> {
        let all = |of: TensorType| match of {
            TensorType::Each => self.dtypes.clone(),
            TensorType::Fixed(dtype) => vec![dtype],
        };
        let inputs: Vec<Dtype> = self.inputs.iter().flat_map(|input| all(input.dtype.value)).collect();
        let outputs: Vec<Dtype> = self.outputs.iter().flat_map(|output| all(output.dtype.value)).collect();
        let integers = |list: &[Dtype]| !list.is_empty() && list.iter().all(|dtype| dtype.is_integer());
        let of = |dtype: Dtype| match dtype {
            Dtype::U64 => Accumulate::U64,
            Dtype::I64 => Accumulate::I64,
            Dtype::U32 => Accumulate::U32,
            _ => Accumulate::I32,
        };
        let widest = outputs.iter().copied().max_by_key(|dtype| dtype.size())?;
        (integers(&inputs) && integers(&outputs)).then(|| of(widest))
    }
}

/// The type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum TensorType {
    /// Each of the task's dtypes in turn.
    #[serde(rename = "each")]
    Each,
    /// Always this one.
    #[serde(untagged)]
    Fixed(Dtype),
}

impl TensorType {
    /// The type if the task's is `each`.
    pub fn with(self, each: Dtype) -> Dtype {
        match self {
            TensorType::Each => each,
            TensorType::Fixed(dtype) => dtype,
        }
    }
}

/// A tensor that kernels read.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Input {
    /// Its name.
    pub name: At<String>,
    /// Its type.
    pub dtype: At<TensorType>,
    /// Its extents over the axes.
    pub dims: Vec<At<Expr>>,
    /// For integers: the smallest and the largest value.
    pub range: Option<(At<Expr>, At<Expr>)>,
}

/// A tensor that kernels write.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Output {
    /// Its name.
    pub name: At<String>,
    /// Its type.
    pub dtype: At<TensorType>,
    /// Its extents over the axes.
    pub dims: Vec<At<Expr>>,
    /// The input whose contents it begins with.
    pub in_place: Option<At<String>>,
}

/// A distribution of values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Distribution {
    /// Its name.
    pub name: At<String>,
    /// What it is.
    #[serde(flatten)]
    pub values: Values,
    /// The inputs it applies to; the others are normal. Empty: all.
    pub inputs: Vec<At<String>>,
}

/// Values of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the fields are the parameters of the named distribution")]
pub enum Values {
    /// Normal.
    Normal { mean: f64, std: f64 },
    /// Uniform from `low` to `high`.
    Uniform { low: f64, high: f64 },
    /// Either sign, magnitudes log-uniform from 2^-octaves to 2^octaves.
    Wide { octaves: u32 },
    /// The same everywhere.
    Constant { value: f64 },
    /// `value` at one position of each row, else `background`.
    OneHot { value: f64, background: f64 },
    /// Normal, times this fraction of the largest number that the type holds.
    Large { fraction: f64 },
    /// A ramp that repeats after a prime number of elements in memory, so that swapped elements are detected.
    Structured,
    /// Normal, with minus infinity at this fraction of the positions of each row, and never at all of them.
    Masked { fraction: f64 },
    /// Normal, with NaN at this fraction of the positions.
    Nan { fraction: f64 },
    /// Either sign, magnitudes below the smallest normal number of the type.
    Denormal,
    /// Normal, with zeros of either sign at half of the positions.
    SignedZero,
    /// Normal, with the largest finite number of either sign (integers: both ends) at this fraction of the positions.
    Extreme { fraction: f64 },
    /// Either sign. The largest magnitude of a row is log-uniform over the whole range of the type, from its smallest
    /// normal number to its largest, and the others of the row are log-uniform below it.
    Magnitudes,
    /// One of the attention family's own.
    Attention {
        #[serde(serialize_with = "displayed")]
        family: AttentionDistribution,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn displayed<S: serde::Serializer>(value: &AttentionDistribution, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// The expected outputs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum Reference {
    /// A built-in operator, computed in f64.
    BuiltIn {
        /// Which, and how.
        operator: Operator,
    },
    /// Inputs and outputs in `.npy` or safetensors files.
    Files {
        /// One for each shape.
        cases: Vec<FileCase>,
    },
    /// A Python file. It is not trusted: it runs as a separate child process.
    Python {
        /// The file, relative to the task.
        file: At<String>,
        /// Its function.
        function: String,
        /// Its timeout in seconds.
        timeout_seconds: u32,
        /// Its memory limit in megabytes, in addition to what its tensors need.
        #[serde(skip_serializing_if = "is_default_memory")]
        memory_mb: u32,
    },
}

/// The memory limit of a Python reference, if the task does not set one.
pub(super) const REFERENCE_MEMORY_MB: u32 = 1024;

// A task without the key must keep the hash it had before the key existed.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_default_memory(memory: &u32) -> bool {
    *memory == REFERENCE_MEMORY_MB
}

/// Files that hold one shape's inputs and outputs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileCase {
    /// The shape.
    pub shape: At<String>,
    /// For each input, its file.
    pub inputs: BTreeMap<String, At<String>>,
    /// For each output, its file.
    pub outputs: BTreeMap<String, At<String>>,
}

/// A built-in operator. Names are those of the task's inputs and outputs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the fields are named after the operator's own operands")]
pub enum Operator {
    /// O = softmax(scale · Q Kᵀ) V, of the attention family.
    Attention(AttentionOperator),
    /// output = alpha · A B.
    Gemm {
        a: At<String>,
        b: At<String>,
        output: At<String>,
        transpose_a: bool,
        transpose_b: bool,
        alpha: f64,
    },
    /// Over the last axis.
    Softmax { input: At<String>, output: At<String> },
    /// Over the last axis.
    LayerNorm {
        input: At<String>,
        weight: Option<At<String>>,
        bias: Option<At<String>>,
        output: At<String>,
        epsilon: f64,
    },
    /// Over one axis of the input, counted from 0.
    Reduction { input: At<String>, output: At<String>, op: Reduction, axis: u32 },
    /// Of inputs of equal extents.
    Elementwise { expression: At<Expr>, output: At<String> },
}

/// What a reduction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub enum Reduction {
    Sum,
    Mean,
    Max,
}

/// How far outputs may be from the reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tolerance {
    /// How limits are determined.
    pub policy: Policy,
    /// Where they come from, as text.
    pub derivation: String,
    /// How outputs that are not finite count.
    pub non_finite: NonFinite,
}

/// How limits are determined.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Policy {
    /// From the formats and the length of the sums, by the built-in reference.
    Derived {
        /// How sums are kept.
        accumulate: Accumulate,
    },
    /// Stated by the task.
    Stated {
        /// The maximum error of an element if the reference is 0.
        absolute: f64,
        /// Added for each unit of the reference's magnitude.
        relative: f64,
        /// The maximum root mean square error.
        rmse: f64,
        /// The maximum mean error.
        bias: f64,
    },
}

/// How outputs that are not finite count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NonFinite {
    /// They fail.
    Refuse,
    /// They pass if the reference, in the output's type, is the same infinity or also NaN.
    Match,
}

/// A limit and its source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Threshold {
    /// The direction of the limit.
    pub comparison: Comparison,
    /// The limit.
    pub value: f64,
    /// Its source.
    pub source: String,
}

/// A limit on a resource.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Budget {
    /// Which.
    pub resource: At<Resource>,
    /// The limit.
    #[serde(flatten)]
    pub threshold: Threshold,
    /// The candidates it applies to. Empty: all.
    pub candidates: Vec<At<String>>,
}

/// A resource that a kernel uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Registers of a thread.
    Registers,
    /// Static and dynamic shared memory of a block.
    SharedBytes,
    /// The stack frame of a thread.
    StackBytes,
    /// Spilled bytes, stored.
    SpillStoreBytes,
    /// Spilled bytes, loaded.
    SpillLoadBytes,
    /// Local memory of a thread.
    LocalBytes,
    /// Barriers of a block.
    Barriers,
    /// Constant memory.
    ConstantBytes,
    /// Resident warps as a fraction of the maximum, 0 to 1, on the target's devices.
    Occupancy,
    /// Resident blocks of a multiprocessor, on the target's devices.
    BlocksPerMultiprocessor,
}

/// A macro that candidates may set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Toggle {
    /// The macro.
    pub name: At<String>,
    /// Its allowed values.
    pub values: Vec<String>,
    /// Its value if a candidate does not set it; `None`: the value that the candidate's attention rung sets.
    pub default: Option<String>,
    /// Its description.
    pub description: Option<String>,
}

/// Architectures to compile for, and devices whose resources count.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Target {
    /// `sm_89`.
    pub architectures: Vec<At<String>>,
    /// `l4`: ids of the device table.
    pub devices: Vec<At<String>>,
}

/// A program that candidates are compared with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Baseline {
    /// The program.
    pub who: Peer,
    /// Its role.
    pub role: Role,
    /// The candidates that are compared with it. Empty: all others.
    pub candidates: Vec<At<String>>,
}

/// The program of a baseline.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Peer {
    /// A candidate of the task.
    Candidate(At<String>),
    /// An external kernel, by the name of its driver.
    External(At<String>),
}

/// The role of a baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Latency reduction is measured against it.
    Speed,
    /// Outputs must equal its bits.
    Bitwise,
    /// It is shown next to the results and decides nothing.
    Context,
}

/// The task's settings of a stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gate {
    /// Which.
    pub stage: At<Stage>,
    /// Limits of its figures.
    pub thresholds: Vec<FigureThreshold>,
    /// `checks`: the number of schedules.
    pub schedules: Option<u32>,
    /// `checks`: what results may depend on, other than the inputs: clock, timer, machine, address.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<At<String>>,
    /// `counters`: limits on the ratio of a figure to the speed baseline's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub regressions: Vec<FigureThreshold>,
    /// `correct`, `checks` and `counters`: the shapes they work on; `None`: all.
    pub shapes: Option<Vec<At<String>>>,
    /// Whether it may be skipped for lack of a GPU or of permission.
    pub optional: bool,
}

/// A limit on a figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureThreshold {
    /// The figure.
    pub figure: At<String>,
    /// The limit.
    #[serde(flatten)]
    pub threshold: Threshold,
}

/// How speed is measured, and the required improvement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Timing {
    /// States of the L2 cache, each measured separately.
    pub l2: Vec<L2>,
    /// Interleaved pairs of baseline and candidate.
    pub pairs: u32,
    /// The confidence level of the interval of the ratio.
    pub confidence: f64,
    /// The minimum latency reduction, (baseline − candidate) / baseline, that counts as an improvement.
    pub reduction: Threshold,
    /// Latency reductions that earn a grade.
    pub grades: Option<Grades>,
}

/// The state of the L2 cache when a kernel begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub enum L2 {
    Warm,
    Cold,
}

/// Latency reductions that earn a grade.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names of the grades")]
pub struct Grades {
    pub good: f64,
    pub excellent: f64,
    pub outstanding: f64,
    /// Their source.
    pub source: String,
}

/// A kernel to evaluate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// Its name.
    pub name: At<String>,
    /// Its program.
    pub program: Program,
    /// The values of its toggles that differ from the default.
    pub toggles: BTreeMap<String, At<String>>,
    /// Further macros.
    pub defines: BTreeMap<String, At<String>>,
    /// Further flags of the compiler.
    pub flags: Vec<At<String>>,
    /// The dtypes it supports; `None`: all.
    pub dtypes: Option<Vec<Dtype>>,
    /// The shapes it supports; `None`: all.
    pub shapes: Option<Vec<At<String>>>,
    /// The candidate it was made from.
    pub parent: Option<At<String>>,
    /// For a variant: the candidate of the file whose macros were changed; `None` for a candidate of the file itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant_of: Option<String>,
    /// Notes for the ledger.
    pub notes: Notes,
}

/// Expectations about a candidate before it was evaluated. Notes decide nothing and are not part of its hash.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notes {
    /// Why it should be faster.
    pub hypothesis: Option<String>,
    /// The expected gain.
    pub expected: Option<String>,
    /// Its cost.
    pub cost: Option<String>,
}

impl Serialize for Notes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

/// The program of a candidate.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// CUDA C++, relative to the task.
    Source {
        /// The file.
        file: At<String>,
        /// How it is launched.
        launch: Launch,
    },
    /// PTX, relative to the task.
    Ptx {
        /// The file.
        file: At<String>,
        /// How it is launched.
        launch: Launch,
    },
    /// A kernel of the attention family, a rung of the ladder or another, which includes source and launch.
    Rung {
        /// Its id.
        rung: At<String>,
        /// Its options.
        options: AttentionOptions,
    },
}

/// How a candidate is launched.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Launch {
    /// Scratch memory, shared by all steps.
    pub scratch: Vec<Scratch>,
    /// Variables of the module that are set before the first step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub symbols: Vec<Symbol>,
    /// Kernels, one after the other.
    pub steps: Vec<Step>,
}

impl Launch {
    /// The names of all kernels.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().flat_map(|step| step.kernel.names()).map(|name| name.value.as_str())
    }

    /// Replaces every kernel name.
    #[must_use]
    pub(super) fn renamed(&self, name_of: impl Fn(&str) -> String) -> Launch {
        let mut launch = self.clone();
        for step in &mut launch.steps {
            step.kernel = step.kernel.renamed(&name_of);
        }
        launch
    }
}

/// Scratch memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scratch {
    /// Its name.
    pub name: At<String>,
    /// Its type.
    pub dtype: At<TensorType>,
    /// Its elements.
    pub count: At<Expr>,
}

/// A variable of the module, `__constant__` or `__device__`, and its value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Symbol {
    /// Its name in the source.
    pub name: At<String>,
    /// Its value.
    pub value: SymbolValue,
}

/// The value of a variable.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SymbolValue {
    /// The contents of an input.
    Input(At<String>),
    /// Values, like those of an argument.
    Values {
        /// Their type.
        dtype: At<Dtype>,
        /// Their expressions.
        values: Vec<At<Expr>>,
    },
}

/// One launch of a kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// The kernel's name in the source: one for all dtypes, or one for each.
    pub kernel: Kernel,
    /// Blocks, up to three.
    pub grid: Vec<At<Expr>>,
    /// Threads, up to three.
    pub block: Vec<At<Expr>>,
    /// Dynamic shared memory.
    pub shared_bytes: Option<At<Expr>>,
    /// Whether all blocks must run at the same time, as `grid.sync()` requires.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cooperative: bool,
    /// Its arguments.
    pub arguments: Vec<Argument>,
}

/// A kernel's name.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Kernel {
    /// For all dtypes.
    One(At<String>),
    /// For each dtype.
    ByDtype(BTreeMap<String, At<String>>),
}

impl Kernel {
    /// Its names for all dtypes.
    pub fn names(&self) -> impl Iterator<Item = &At<String>> {
        let (one, by_dtype) = match self {
            Kernel::One(name) => (Some(name), None),
            Kernel::ByDtype(names) => (None, Some(names.values())),
        };
        one.into_iter().chain(by_dtype.into_iter().flatten())
    }

    /// Replaces every name.
    #[must_use]
    fn renamed(&self, name_of: impl Fn(&str) -> String) -> Kernel {
        let renamed = |name: &At<String>| At::new(name_of(name), name.span.clone());
        match self {
            Kernel::One(name) => Kernel::One(renamed(name)),
            Kernel::ByDtype(names) => {
                Kernel::ByDtype(names.iter().map(|(dtype, name)| (dtype.clone(), renamed(name))).collect())
            }
        }
    }

    /// Its name for a dtype.
    pub fn named(&self, dtype: Dtype) -> Option<&str> {
        match self {
            Kernel::One(name) => Some(name),
            Kernel::ByDtype(names) => names.get(dtype.name()).map(|name| name.as_str()),
        }
    }
}

/// An argument of a kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Argument {
    /// The address of an input, an output or scratch memory.
    Address(At<String>),
    /// The address of an element of an input, an output or scratch memory.
    Within {
        /// The tensor.
        tensor: At<String>,
        /// Offset in elements.
        offset: At<Expr>,
    },
    /// A struct by value, laid out by the rules of C.
    Struct(Vec<StructMember>),
    /// Consecutive values: one for a scalar, several for a struct of equal members. Integers are sizes over the axes;
    /// others are real expressions over them.
    Value {
        /// Their type.
        dtype: At<Dtype>,
        /// Their expressions.
        values: Vec<At<Expr>>,
    },
}

/// A member of a struct.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StructMember {
    /// Its name in messages.
    pub name: Option<String>,
    /// Offset in bytes; `None`: where C puts it.
    pub at: Option<u32>,
    /// Its value.
    pub argument: Argument,
}

impl Argument {
    /// The argument itself or, for a struct, its members, including those of nested structs.
    pub fn leaves(&self) -> Vec<&Argument> {
        match self {
            Argument::Struct(members) => members.iter().flat_map(|member| member.argument.leaves()).collect(),
            _ => vec![self],
        }
    }
}
