//! Arguments of a launch: checked against the kernel's parameters, laid out in device memory.

use warpproof_sim::memory::HeapError;
use warpproof_sim::program::Parameter;
use warpproof_sim::{Device, Kernel, Launch};

use super::element::Element;
use super::fill;
use super::spec::{ArgumentValue, Fill, Spec};
use super::tensor;
use crate::report::{Kind, Report};
use crate::symbol;

/// Bytes written to device memory at a time while an array is filled.
const CHUNK: usize = 1 << 20;

/// An array in device memory.
#[derive(Clone, Debug)]
pub(super) struct Array {
    pub(super) name: String,
    pub(super) element: Element,
    pub(super) shape: Vec<usize>,
    pub(super) address: u64,
    pub(super) bytes: usize,
    /// The hash of what it held before the launch.
    pub(super) before: blake3::Hash,
}

impl Array {
    /// `f32[4x8]`.
    pub(super) fn type_name(&self) -> String {
        let extents: Vec<String> = self.shape.iter().map(ToString::to_string).collect();
        format!("{}[{}]", self.element.name(), extents.join("x"))
    }

    /// What it holds now.
    pub(super) fn content<'a>(&self, device: &'a mut Device) -> &'a [u8] {
        device.memory().read(self.address, self.bytes).unwrap_or(&[])
    }
}

/// How the kernel's parameters read, for messages.
pub(super) fn parameters(kernel: &Kernel) -> String {
    let program = kernel.program();
    if let Some(signature) = symbol::signature(&program.name) {
        return signature;
    }
    let all: Vec<String> = program.params.iter().map(|p| format!("{} {}", described(p), p.name)).collect();
    format!("{}({})", program.name, all.join(", "))
}

fn described(parameter: &Parameter) -> String {
    let single = match parameter.ty.as_str() {
        "b8" | "u8" | "s8" => 1,
        "b16" | "u16" | "s16" | "f16" => 2,
        "b32" | "u32" | "s32" | "f32" => 4,
        _ => 8,
    };
    if parameter.size == single {
        format!(".{}", parameter.ty)
    } else {
        format!("struct of {} bytes", parameter.size)
    }
}

/// Checks the arguments against the kernel's parameters: their number, their order where names tell it, sizes and types.
pub(super) fn check(specs: &[Spec], kernel: &Kernel) -> Result<(), Box<Report>> {
    let program = kernel.program();
    let name = symbol::name(&program.name);
    let help = || format!("the kernel is {}", parameters(kernel));
    let wrong = |sentence: String| Box::new(Report::error(Kind::Usage, sentence).help(help()));
    if specs.len() != program.params.len() {
        let count = |n: usize| if n == 1 { "1 argument".to_owned() } else { format!("{n} arguments") };
        let (given, taken) = (count(specs.len()), count(program.params.len()));
        let verb = if specs.len() == 1 { "is" } else { "are" };
        return Err(wrong(format!("kernel `{name}` takes {taken}, and {given} {verb} given")));
    }
    for (i, (spec, parameter)) in specs.iter().zip(&program.params).enumerate() {
        let elsewhere = program.params.iter().position(|other| other.name == spec.name);
        if let Some(other) = elsewhere.filter(|other| *other != i) {
            let (other, i) = (other + 1, i + 1);
            return Err(wrong(format!(
                "argument `{}` is given as number {i}, and is number {other} of the kernel's parameters",
                spec.name
            )));
        }
        fits(spec, parameter).map_err(|cause| {
            let position = i + 1;
            wrong(format!("argument `{}` does not fit parameter {position} of `{name}`: {cause}", spec.name))
        })?;
    }
    Ok(())
}

fn fits(spec: &Spec, parameter: &Parameter) -> Result<(), String> {
    let takes = described(parameter);
    match &spec.value {
        ArgumentValue::Array { .. } if parameter.size == 8 && parameter.ty != "f64" => Ok(()),
        ArgumentValue::Array { .. } => {
            Err(format!("an array is passed by its address, and it takes a {takes}"))
        }
        ArgumentValue::ByValue(codes) => {
            let bytes = codes.len().saturating_mul(spec.element.size());
            if u32::try_from(bytes).ok() != Some(parameter.size) {
                return Err(format!("a value of {bytes} bytes, and it takes a {takes}"));
            }
            // Only a declared floating-point type tells what the bits mean; integers of both signs are `.u32`.
            let real = match parameter.ty.as_str() {
                "f32" => Some(Element::F32),
                "f64" => Some(Element::F64),
                _ => None,
            };
            let clashes = match real {
                Some(real) => spec.element != real,
                None => {
                    matches!(parameter.ty.as_str(), "u32" | "s32" | "u64" | "s64")
                        && !spec.element.is_integer()
                }
            };
            if clashes {
                Err(format!("a value of type {}, and it takes a {takes}", spec.element.name()))
            } else {
                Ok(())
            }
        }
    }
}

/// Allocates and fills the arrays, and gives the launch its arguments.
pub(super) fn lay_out(
    specs: &[Spec],
    mut launch: Launch,
    device: &mut Device,
    limit: u64,
) -> Result<(Launch, Vec<Array>), Box<Report>> {
    let mut arrays = Vec::new();
    for spec in specs {
        match &spec.value {
            ArgumentValue::ByValue(codes) => {
                let mut bytes = Vec::new();
                for code in codes {
                    spec.element.push(*code, &mut bytes);
                }
                launch = launch.arg(bytes);
            }
            ArgumentValue::Array { shape, fill } => {
                let array = allocate(spec, shape.as_deref(), fill, device, limit)?;
                launch = launch.arg(array.address);
                arrays.push(array);
            }
        }
    }
    Ok((launch, arrays))
}

fn allocate(
    spec: &Spec,
    shape: Option<&[usize]>,
    fill: &Fill,
    device: &mut Device,
    limit: u64,
) -> Result<Array, Box<Report>> {
    let element = spec.element;
    let about =
        |kind, cause: String| Box::new(Report::error(kind, format!("argument `{}`: {cause}", spec.name)));
    let given: Option<(Vec<usize>, Vec<u8>)> = match fill {
        Fill::List(codes) => {
            let mut bytes = Vec::new();
            for code in codes {
                element.push(*code, &mut bytes);
            }
            Some((vec![codes.len()], bytes))
        }
        Fill::File { path, tensor } => {
            let tensor = tensor::read(path, tensor.as_deref(), element, limit)
                .map_err(|cause| about(Kind::Missing, cause))?;
            Some((tensor.shape, tensor.bytes))
        }
        _ => None,
    };
    let count = |shape: &[usize]| shape.iter().try_fold(1usize, |n, extent| n.checked_mul(*extent));
    let shape = match (shape, &given) {
        (Some(shape), Some((held, _))) if count(shape) != count(held) => {
            let text = |shape: &[usize]| shape.iter().map(ToString::to_string).collect::<Vec<_>>().join("x");
            let sentence =
                format!("[{}] elements are asked for, and [{}] are given", text(shape), text(held));
            return Err(about(Kind::Usage, sentence));
        }
        (Some(shape), _) => shape.to_vec(),
        (None, Some((held, _))) => held.clone(),
        (None, None) => return Err(about(Kind::Usage, "the count is missing".into())),
    };
    let elements = count(&shape).unwrap_or(usize::MAX);
    let bytes = elements.saturating_mul(element.size());
    let asked = u64::try_from(bytes).unwrap_or(u64::MAX);
    let address = device.memory().allocate(&spec.name, asked).map_err(|error| {
        let report = about(Kind::Limit, error.to_string());
        match error {
            HeapError::OutOfMemory { .. } => Box::new(report.help("give the device more with --max-memory")),
            HeapError::TooMany | HeapError::NotAllocated(_) => report,
        }
    })?;
    let lost = |_| about(Kind::Bug, "its memory cannot be written".into());
    if let Some((_, content)) = given {
        device.memory().write(address, &content).map_err(lost)?;
    } else if let Some(mut next) = fill::codes(fill, element) {
        let per_chunk = CHUNK / element.size();
        let mut chunk = Vec::with_capacity(CHUNK);
        let (mut left, mut at) = (elements, address);
        while left > 0 {
            chunk.clear();
            let now = left.min(per_chunk);
            (0..now).for_each(|_| element.push(next(), &mut chunk));
            device.memory().write(at, &chunk).map_err(lost)?;
            at += u64::try_from(chunk.len()).unwrap_or(0);
            left -= now;
        }
    }
    let before = blake3::hash(device.memory().read(address, bytes).unwrap_or(&[]));
    Ok(Array { name: spec.name.clone(), element, shape, address, bytes, before })
}
