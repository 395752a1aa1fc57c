//! A candidate with its own launches on one size, independent of any device: its buffers, their contents, and its
//! arguments.

use warpproof_check::Role;
use warpproof_sim::Module as Loaded;
use warpproof_toolchain::symbol::{self, Instances, NotOne};

use super::build::Module;
use super::{Bench, Trouble, unfit};
use crate::inputs::Input;
use crate::parameter::{Member, Packed};
use crate::variable::Variable;
use warpproof_task::dtype::Dtype;
use warpproof_task::{Argument, Candidate, Launch, Size, Step, SymbolValue, dims};

/// The kernel of a module that a task names.
pub(super) fn kernel<'s>(
    kernels: &'s [String],
    name: &str,
    instances: &Instances,
) -> Result<&'s String, Trouble> {
    instances.find(kernels, name).map_err(|error| match error {
        NotOne::None => {
            let names: Vec<String> = kernels.iter().map(|symbol| symbol::name(symbol)).collect();
            unfit(format!("the module has no kernel `{name}`; its kernels are {}", names.join(", ")))
        }
        NotOne::Several(all) => {
            unfit(format!("several kernels are called `{name}`; name one as {}", all.join(" or ")))
        }
    })
}

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Input,
    Output,
    Scratch,
}

/// A buffer of a launch.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) name: String,
    pub(super) what: What,
    /// For an output: the input whose contents it begins with.
    pub(super) begins_as: Option<String>,
    pub(super) dtype: Dtype,
    pub(super) dims: Vec<usize>,
    pub(super) bytes: usize,
}

impl Room {
    /// Its contents before the launch: its input, or a fill value that is not a plausible answer.
    pub(super) fn filled(&self, inputs: &[Input], poison: u8) -> Vec<u8> {
        let bytes_of = |name: &str| inputs.iter().find(|input| input.name == name).map(Input::bytes);
        let given = match self.what {
            What::Input => bytes_of(&self.name),
            What::Output => self.begins_as.as_deref().and_then(bytes_of),
            What::Scratch => None,
        };
        given.unwrap_or_else(|| vec![poison; self.bytes])
    }
}

impl Room {
    /// Its role for the checks, depending on whether the candidate has one launch or several.
    pub(super) fn role(&self, launches: usize) -> Role {
        match (self.what, &self.begins_as) {
            (What::Input, _) => Role::In,
            // An output that several kernels write is complete only after the last one and is checked there.
            (What::Output, None) if launches == 1 => Role::Out,
            (What::Output, _) => Role::InOut,
            (What::Scratch, _) => Role::Scratch,
        }
    }

    /// Whether it holds data before the first launch that a kernel may read.
    pub(super) fn is_initialized(&self) -> bool {
        self.what == What::Input || self.begins_as.is_some()
    }
}

/// What a variable of the module is set to.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// These bytes.
    Value(Vec<u8>),
    /// An input of the task.
    Input(String),
}

impl Content {
    /// The bytes for one set of inputs.
    pub(super) fn bytes(&self, inputs: &[Input]) -> Result<Vec<u8>, Trouble> {
        match self {
            Content::Value(bytes) => Ok(bytes.clone()),
            Content::Input(name) => {
                let input = inputs.iter().find(|input| input.name == *name).map(Input::bytes);
                input.ok_or_else(|| unfit(format!("the task has no input `{name}`")))
            }
        }
    }
}

/// A launch.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) symbol: String,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) shared: u32,
    pub(super) cooperative: bool,
    /// Arguments; arrays are indices of rooms.
    pub(super) arguments: Vec<Packed>,
}

/// Rooms and launches of a candidate on one size.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) rooms: Vec<Room>,
    pub(super) launches: Vec<Planned>,
    /// Variables by the names of the source.
    variables: Vec<(String, Content)>,
}

impl Layout {
    /// Lays out a candidate whose module has these kernels.
    pub(super) fn new(
        bench: &Bench<'_>,
        candidate: &Candidate,
        module: Module<'_>,
        kernels: &[String],
        size: &Size,
        dtype: Dtype,
    ) -> Result<Layout, Trouble> {
        let rooms = rooms(bench, candidate, module.launch, size, dtype)?;
        let mut launches = Vec::new();
        for step in &module.launch.steps {
            let name = step.kernel.named(dtype);
            let name = name.ok_or_else(|| unfit(format!("the candidate names no kernel for {dtype}")))?;
            let symbol = kernel(kernels, name, module.instances)?.clone();
            launches.push(planned(bench, candidate, step, symbol, size, &rooms)?);
        }
        let mut variables = Vec::new();
        for symbol in &module.launch.symbols {
            let content = match &symbol.value {
                SymbolValue::Input(name) => Content::Input(name.value.clone()),
                SymbolValue::Values { dtype, values } => {
                    Content::Value(value_bytes(bench, candidate, size, dtype.value, values)?)
                }
            };
            variables.push((symbol.name.value.clone(), content));
        }
        Ok(Layout { rooms, launches, variables })
    }

    /// The variables that are set, found in a loaded module.
    pub(super) fn variables(&self, module: &Loaded) -> Result<Vec<(Variable, Content)>, Trouble> {
        let found = self.variables.iter().map(|(name, content)| {
            let variable = Variable::find(module, name).map_err(|unknown| {
                let known = unknown.known.join(", ");
                let known = if known.is_empty() { "none".to_owned() } else { known };
                unfit(format!("{}; the module has {known}", unknown.sentence))
            })?;
            Ok((variable, content.clone()))
        });
        found.collect()
    }
}

fn rooms(
    bench: &Bench<'_>,
    candidate: &Candidate,
    launch: &Launch,
    size: &Size,
    dtype: Dtype,
) -> Result<Vec<Room>, Trouble> {
    let mut rooms = Vec::new();
    for input in &bench.task.data.inputs {
        let dims = dims(&input.dims, &size.axes)?;
        rooms.push((input.name.value.clone(), What::Input, None, input.dtype.with(dtype), dims));
    }
    for output in &bench.task.data.outputs {
        let dims = dims(&output.dims, &size.axes)?;
        let begins_as = output.in_place.as_ref().map(|input| input.value.clone());
        rooms.push((output.name.value.clone(), What::Output, begins_as, output.dtype.with(dtype), dims));
    }
    for scratch in &launch.scratch {
        let count = bench.task.size_of(candidate, &size.axes, &scratch.count)?;
        let count = usize::try_from(count)
            .map_err(|_| unfit(format!("scratch `{}` has {count} elements", scratch.name.value)))?;
        let dtype = scratch.dtype.with(dtype);
        rooms.push((scratch.name.value.clone(), What::Scratch, None, dtype, vec![count]));
    }
    let sized = rooms.into_iter().map(|(name, what, begins_as, dtype, dims)| {
        let bytes = dims.iter().try_fold(dtype.size(), |all, extent| all.checked_mul(*extent));
        let bytes = bytes.ok_or_else(|| unfit(format!("`{name}` is larger than the address space")))?;
        // An array must not be empty: a device gives no address to an empty allocation.
        Ok(Room { name, what, begins_as, dtype, dims, bytes: bytes.max(1) })
    });
    sized.collect()
}

fn planned(
    bench: &Bench<'_>,
    candidate: &Candidate,
    step: &Step,
    symbol: String,
    size: &Size,
    rooms: &[Room],
) -> Result<Planned, Trouble> {
    let geometry = bench.task.geometry(candidate, step, &size.axes)?;
    let mut arguments = Vec::new();
    for argument in &step.arguments {
        arguments.push(packed(bench, candidate, argument, size, rooms)?);
    }
    let (grid, block, shared) = (geometry.grid, geometry.block, geometry.shared_bytes);
    Ok(Planned { symbol, grid, block, shared, cooperative: step.cooperative, arguments })
}

fn packed(
    bench: &Bench<'_>,
    candidate: &Candidate,
    argument: &Argument,
    size: &Size,
    rooms: &[Room],
) -> Result<Packed, Trouble> {
    let room = |name: &str| {
        let place = rooms.iter().position(|room| room.name == name);
        place.ok_or_else(|| unfit(format!("the task has no tensor `{name}`")))
    };
    match argument {
        Argument::Address(name) => Ok(Packed::address(room(name)?, 0)),
        Argument::Within { tensor, offset } => {
            let place = room(tensor)?;
            let elements = bench.task.size_of(candidate, &size.axes, offset)?;
            let bytes = rooms.get(place).map_or((0, 1), |room| (room.bytes, room.dtype.size()));
            let inside = usize::try_from(elements).ok().and_then(|elements| elements.checked_mul(bytes.1));
            let inside =
                inside.filter(|inside| *inside <= bytes.0).and_then(|inside| u64::try_from(inside).ok());
            let inside = inside.ok_or_else(|| {
                unfit(format!(
                    "`{}` points to element {elements} of `{}` for {}, beyond its end",
                    offset.value, tensor.value, size.name
                ))
            })?;
            Ok(Packed::address(place, inside))
        }
        Argument::Value { dtype, values } => {
            Ok(Packed::value(value_bytes(bench, candidate, size, dtype.value, values)?, dtype.value.size()))
        }
        Argument::Struct(members) => {
            let mut all = Vec::new();
            for (index, member) in members.iter().enumerate() {
                let name = member.name.clone().unwrap_or_else(|| format!("member {index}"));
                let at = member.at.and_then(|at| usize::try_from(at).ok());
                all.push(Member {
                    name,
                    at,
                    value: packed(bench, candidate, &member.argument, size, rooms)?,
                });
            }
            Packed::structure(all).map_err(unfit)
        }
    }
}

fn value_bytes(
    bench: &Bench<'_>,
    candidate: &Candidate,
    size: &Size,
    dtype: Dtype,
    values: &[warpproof_task::At<warpproof_task::expr::Expr>],
) -> Result<Vec<u8>, Trouble> {
    let mut bytes = Vec::new();
    for value in values {
        let value = if dtype.is_integer() {
            let expr = value;
            let value = bench.task.size_of(candidate, &size.axes, value)?;
            let bits = u32::try_from(8 * dtype.size()).unwrap_or(64);
            // Signed or unsigned, any value that the type's bits can hold.
            let fits = bits >= 64 || (-(1i64 << (bits - 1))..1i64 << bits).contains(&value);
            if !fits {
                return Err(unfit(format!(
                    "`{}` is {value} for {}, out of range for {dtype}",
                    expr.value, size.name
                )));
            }
            bytes.extend(value.to_le_bytes().iter().take(dtype.size()));
            continue;
        } else {
            let names: Vec<&str> = size.axes.keys().map(String::as_str).collect();
            let extents: Vec<f64> = size.axes.values().map(|extent| real(*extent)).collect();
            let bound = value.bind(&names).map_err(|error| unfit(error.sentence))?;
            bound.value(&extents)
        };
        bytes.extend(dtype.bytes(&[value]));
    }
    Ok(bytes)
}

#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "extents are far below 2^53")]
fn real(extent: u64) -> f64 {
    extent as f64
}
