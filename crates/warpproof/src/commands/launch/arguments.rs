//! Arguments of a launch, laid out in device memory.

use warpproof_gate::dtype::Dtype;
use warpproof_gate::tensor_file;
use warpproof_sim::check::BufferRole;
use warpproof_sim::memory::HeapError;
use warpproof_sim::{Device, Launch};

use super::fill;
use super::spec::{ArgumentValue, Fill, Spec};
use crate::report::{Kind, Report};

/// Bytes written to device memory at a time while an array is filled.
const CHUNK: usize = 1 << 20;

/// An array in device memory.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub(crate) name: String,
    pub(crate) element: Dtype,
    pub(crate) shape: Vec<usize>,
    pub(crate) address: u64,
    pub(crate) bytes: usize,
    /// The hash of what it held before the launch.
    pub(crate) before: blake3::Hash,
}

impl Array {
    /// `f32[4x8]`.
    pub(crate) fn type_name(&self) -> String {
        let extents: Vec<String> = self.shape.iter().map(ToString::to_string).collect();
        format!("{}[{}]", self.element.name(), extents.join("x"))
    }

    /// What it holds now.
    pub(crate) fn content<'a>(&self, device: &'a mut Device) -> &'a [u8] {
        device.memory().read(self.address, self.bytes).unwrap_or(&[])
    }
}

/// Allocates and fills the arrays, and gives the launch its arguments.
pub(crate) fn lay_out(
    specs: &[Spec],
    mut launch: Launch,
    device: &mut Device,
    limit: u64,
) -> Result<(Launch, Vec<Array>), Box<Report>> {
    let mut arrays = Vec::new();
    for spec in specs {
        match &spec.value {
            ArgumentValue::ByValue(_) => launch = launch.arg(spec.bytes()),
            ArgumentValue::Array { shape, fill } => {
                let array = allocate(spec, shape.as_deref(), fill, device, limit)?;
                launch = launch.arg(array.address);
                arrays.push(array);
            }
        }
    }
    Ok((launch, arrays))
}

/// What the checks are told of the arrays.
pub(crate) fn roles(specs: &[Spec], arrays: &[Array]) -> Vec<BufferRole> {
    let wide = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    arrays
        .iter()
        .filter_map(|array| {
            let spec = specs.iter().find(|spec| spec.name == array.name)?;
            Some(BufferRole {
                name: array.name.clone(),
                address: array.address,
                element: u32::try_from(array.element.size()).unwrap_or(u32::MAX),
                extents: array.shape.iter().map(|extent| wide(*extent)).collect(),
                role: spec.role,
                initialised: spec.is_filled(),
            })
        })
        .collect()
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
            let tensor = tensor_file::read(path, tensor.as_deref(), element, limit)
                .map_err(|cause| about(Kind::Missing, cause))?;
            Some((tensor.dims, tensor.bytes))
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
            HeapError::TooMany | HeapError::NotAllocated(_) | HeapError::Overlap(_) => report,
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
