//! A candidate with launches of its own on one size, before any device: its buffers, what is in them, and its arguments.

use super::{Bench, Trouble, unfit};
use crate::dtype::Dtype;
use crate::inputs::Input;
use crate::task::{Argument, Candidate, Launch, Size, Step, dims};

/// Whether a symbol of a module is the kernel that the source calls so: `extern "C"`, or mangled.
pub(super) fn is(name: &str, symbol: &str) -> bool {
    let base = name.rsplit("::").next().unwrap_or(name);
    symbol == name
        || symbol.strip_prefix("_Z").is_some_and(|mangled| {
            let spelled = format!("{}{base}", base.len());
            mangled.starts_with(&spelled) || (mangled.starts_with('N') && mangled.contains(&spelled))
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
    /// Of an output: the input whose contents it begins with.
    pub(super) begins_as: Option<String>,
    pub(super) dtype: Dtype,
    pub(super) dims: Vec<usize>,
    pub(super) bytes: usize,
}

impl Room {
    /// What it holds before the launch: its input, or something that nobody takes for an answer.
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

/// An argument.
#[derive(Debug)]
pub(super) enum Passed {
    /// The address of a room, by its place.
    Room(usize),
    /// Bytes.
    Value(Vec<u8>),
}

/// A launch.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) symbol: String,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) shared: u32,
    pub(super) arguments: Vec<Passed>,
}

/// Rooms and launches of a candidate on one size.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) rooms: Vec<Room>,
    pub(super) launches: Vec<Planned>,
}

impl Layout {
    /// Lays out a candidate whose module has these kernels.
    pub(super) fn new(
        bench: &Bench<'_>,
        candidate: &Candidate,
        launch: &Launch,
        kernels: &[String],
        size: &Size,
        dtype: Dtype,
    ) -> Result<Layout, Trouble> {
        let rooms = rooms(bench, candidate, launch, size, dtype)?;
        let mut launches = Vec::new();
        for step in &launch.steps {
            launches.push(planned(bench, candidate, step, kernels, size, dtype, &rooms)?);
        }
        Ok(Layout { rooms, launches })
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
        let bytes = bytes.ok_or_else(|| unfit(format!("`{name}` is larger than memory")))?;
        // Nothing may be empty: a device has no address for it.
        Ok(Room { name, what, begins_as, dtype, dims, bytes: bytes.max(1) })
    });
    sized.collect()
}

fn planned(
    bench: &Bench<'_>,
    candidate: &Candidate,
    step: &Step,
    kernels: &[String],
    size: &Size,
    dtype: Dtype,
    rooms: &[Room],
) -> Result<Planned, Trouble> {
    let name = step.kernel.named(dtype).ok_or_else(|| unfit(format!("no kernel is named for {dtype}")))?;
    let mut symbols = kernels.iter().filter(|symbol| is(name, symbol));
    let symbol = match (symbols.next(), symbols.next()) {
        (Some(symbol), None) => symbol.clone(),
        (None, _) => {
            return Err(unfit(format!("there is no kernel `{name}`; the module has {}", kernels.join(", "))));
        }
        (Some(_), Some(_)) => {
            return Err(unfit(format!("several kernels are called `{name}`; name one by its symbol")));
        }
    };
    let geometry = bench.task.geometry(candidate, step, &size.axes)?;
    let mut arguments = Vec::new();
    for argument in &step.arguments {
        arguments.push(match argument {
            Argument::Address(name) => {
                let place = rooms.iter().position(|room| room.name == name.value);
                Passed::Room(place.ok_or_else(|| unfit(format!("there is no tensor `{}`", name.value)))?)
            }
            Argument::Value { dtype, values } => {
                Passed::Value(value_bytes(bench, candidate, size, dtype.value, values)?)
            }
        });
    }
    let (grid, block, shared) = (geometry.grid, geometry.block, geometry.shared_bytes);
    Ok(Planned { symbol, grid, block, shared, arguments })
}

fn value_bytes(
    bench: &Bench<'_>,
    candidate: &Candidate,
    size: &Size,
    dtype: Dtype,
    values: &[crate::task::At<crate::expr::Expr>],
) -> Result<Vec<u8>, Trouble> {
    let mut bytes = Vec::new();
    for value in values {
        let value = if dtype.is_integer() {
            let expr = value;
            let value = bench.task.size_of(candidate, &size.axes, value)?;
            let bits = u32::try_from(8 * dtype.size()).unwrap_or(64);
            // Signed or not, whatever the type's bits can hold.
            let fits = bits >= 64 || (-(1i64 << (bits - 1))..1i64 << bits).contains(&value);
            if !fits {
                return Err(unfit(format!(
                    "`{}` is {value} for {}, which no {dtype} holds",
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

#[cfg(test)]
mod tests {
    use super::is;

    #[test]
    fn kernels_are_known_by_the_name_of_the_source() {
        assert!(is("softmax", "softmax"));
        assert!(is("softmax", "_Z7softmaxPKfPfi"));
        assert!(is("softmax", "_Z7softmaxILi128EEvPKfPfi"));
        assert!(is("ops::softmax", "_ZN3ops7softmaxEPKf"));
        assert!(!is("softmax", "_Z11softmax_rowPKf"));
        assert!(!is("max", "_Z7softmaxPKf"));
    }
}
