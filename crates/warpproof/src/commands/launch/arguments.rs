//! Arguments of a launch, laid out in device memory.

use warpproof_check::{BufferRole, Role};
use warpproof_gate::parameter::{Member, Packed};
use warpproof_gate::tensor_file;
use warpproof_sim::Device;
use warpproof_sim::memory::HeapError;
use warpproof_task::dtype::Dtype;

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

/// Arguments before memory is allocated for them.
#[derive(Debug)]
pub(crate) struct Packing<'s> {
    /// The arguments, in the kernel's order. Arrays are numbered: those of earlier launches, then those of this one.
    pub(crate) packed: Vec<Packed>,
    /// The arrays that this launch adds.
    pub(crate) fresh: Vec<&'s Spec>,
}

/// Lays out arguments, with arrays by number.
pub(crate) fn pack<'s>(specs: &'s [Spec], earlier: &[Array]) -> Result<Packing<'s>, Box<Report>> {
    let is_array = |spec: &&Spec| matches!(spec.value, ArgumentValue::Array { .. });
    let fresh: Vec<&Spec> = specs.iter().flat_map(Spec::leaves).filter(is_array).collect();
    let names = Names { earlier, fresh: &fresh };
    let packed = specs.iter().map(|spec| names.pack(spec)).collect::<Result<_, _>>()?;
    Ok(Packing { packed, fresh })
}

/// The arrays that a launch may name.
#[derive(Clone, Copy)]
pub(super) struct Names<'a> {
    pub(super) earlier: &'a [Array],
    pub(super) fresh: &'a [&'a Spec],
}

impl Names<'_> {
    /// An array's number, and the type of its elements. Arrays of this launch take precedence over those of
    /// earlier launches.
    fn find(self, name: &str) -> Option<(usize, Dtype)> {
        let own = self.fresh.iter().position(|spec| spec.name == name);
        if let Some(own) = own {
            return Some((self.earlier.len() + own, self.fresh.get(own)?.element));
        }
        let earlier = self.earlier.iter().rposition(|array| array.name == name)?;
        Some((earlier, self.earlier.get(earlier)?.element))
    }

    /// The extents of an array, if they are known before it is filled.
    fn shape(self, array: usize) -> Option<Vec<usize>> {
        if let Some(earlier) = self.earlier.get(array) {
            return Some(earlier.shape.clone());
        }
        match &self.fresh.get(array - self.earlier.len())?.value {
            ArgumentValue::Array { shape, .. } => shape.clone(),
            _ => None,
        }
    }

    /// An argument, or the value of a variable.
    pub(super) fn pack(self, spec: &Spec) -> Result<Packed, Box<Report>> {
        let wrong = |cause: String| {
            Box::new(Report::error(Kind::Usage, format!("argument `{}`: {cause}", spec.name)))
        };
        let unknown = |name: &str| {
            let mut known: Vec<&str> = self.earlier.iter().map(|array| array.name.as_str()).collect();
            known.extend(self.fresh.iter().map(|spec| spec.name.as_str()));
            let list = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Box::new(wrong(format!("unknown array `{name}`")).help(format!("arrays: {list}")))
        };
        match &spec.value {
            ArgumentValue::ByValue(_) => Ok(Packed::value(spec.bytes(), spec.element.size())),
            ArgumentValue::Array { .. } => self
                .find(&spec.name)
                .map(|(array, _)| Packed::address(array, 0))
                .ok_or_else(|| unknown(&spec.name)),
            ArgumentValue::Struct(members) => {
                let mut all = Vec::new();
                for member in members {
                    let name = member.spec.name.rsplit('.').next().unwrap_or_default().to_owned();
                    all.push(Member { name, at: member.at, value: self.pack(&member.spec)? });
                }
                Packed::structure(all).map_err(wrong)
            }
            ArgumentValue::Alias { of, elements } => {
                // A member may name another member of its struct.
                let sibling = spec.name.rsplit_once('.').map(|(prefix, _)| format!("{prefix}.{of}"));
                let found = sibling.and_then(|sibling| self.find(&sibling)).or_else(|| self.find(of));
                let (array, element) = found.ok_or_else(|| unknown(of))?;
                let size = u64::try_from(element.size()).unwrap_or(u64::MAX);
                let offset = elements.checked_mul(size);
                Ok(Packed::address(array, offset.ok_or_else(|| wrong("the offset is too large".to_owned()))?))
            }
            ArgumentValue::Map(map) => {
                let sibling = spec.name.rsplit_once('.').map(|(prefix, _)| format!("{prefix}.{}", map.of));
                let found = sibling.and_then(|sibling| self.find(&sibling)).or_else(|| self.find(&map.of));
                let (array, element) = found.ok_or_else(|| unknown(&map.of))?;
                let shape = self.shape(array).unwrap_or_default();
                let (map, offset) = map.over(element, &shape).map_err(wrong)?;
                Ok(Packed::tensor_map(array, offset, map))
            }
            ArgumentValue::Earlier => {
                let earlier = self.earlier.iter().rposition(|array| array.name == spec.name);
                earlier.map(|array| Packed::address(array, 0)).ok_or_else(|| {
                    Box::new(
                        wrong(
                            "it has no type, and no earlier launch line has an array of this name".to_owned(),
                        )
                        .help(format!("write {0}:type=value or {0}:type[count]=fill", spec.name)),
                    )
                })
            }
        }
    }
}

/// Allocates and fills the arrays that a launch adds, and checks that addresses are inside of their arrays.
pub(crate) fn allocate_all(
    packing: &Packing<'_>,
    device: &mut Device,
    arrays: &mut Vec<Array>,
    limit: u64,
) -> Result<(), Box<Report>> {
    for spec in &packing.fresh {
        if let ArgumentValue::Array { shape, fill } = &spec.value {
            arrays.push(allocate(spec, shape.as_deref(), fill, device, limit)?);
        }
    }
    for one in packing.packed.iter().flat_map(Packed::addresses) {
        let Some(array) = arrays.get(one.array) else { continue };
        if one.offset > u64::try_from(array.bytes).unwrap_or(u64::MAX) {
            let size = u64::try_from(array.element.size()).unwrap_or(1);
            let sentence = format!(
                "an argument points to element {} of `{}`, a {}",
                one.offset / size,
                array.name,
                array.type_name()
            );
            return Err(Box::new(Report::error(Kind::Usage, sentence)));
        }
    }
    Ok(())
}

/// The arrays of a launch, for the checks.
pub(crate) fn roles(specs: &[Spec], packing: &Packing<'_>, arrays: &[Array]) -> Vec<BufferRole> {
    let wide = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let role = |array: &Array, role: Role, initialized: bool| BufferRole {
        name: array.name.clone(),
        address: array.address,
        element: u32::try_from(array.element.size()).unwrap_or(u32::MAX),
        extents: array.shape.iter().map(|extent| wide(*extent)).collect(),
        role,
        initialized,
    };
    let first = arrays.len().saturating_sub(packing.fresh.len());
    let (earlier, own) = arrays.split_at(first);
    let mut roles = Vec::new();
    for spec in specs.iter().flat_map(Spec::leaves).filter(|spec| spec.value == ArgumentValue::Earlier) {
        // The results of an earlier launch count as initialized.
        let array = earlier.iter().rev().find(|array| array.name == spec.name);
        roles.extend(array.map(|array| role(array, spec.role, true)));
    }
    roles
        .extend(own.iter().zip(&packing.fresh).map(|(array, spec)| role(array, spec.role, spec.is_filled())));
    roles
}

/// The extents and bytes that a list or a file gives an array.
type Given = (Vec<usize>, Vec<u8>);

/// The contents from a list or a file; none for any other fill.
fn given(spec: &Spec, fill: &Fill, limit: u64) -> Result<Option<Given>, Box<Report>> {
    Ok(match fill {
        Fill::List(codes) => {
            let mut bytes = Vec::new();
            for code in codes {
                spec.element.push(*code, &mut bytes);
            }
            Some((vec![codes.len()], bytes))
        }
        Fill::File { path, tensor } => {
            let tensor = tensor_file::read(path, tensor.as_deref(), spec.element, limit)
                .map_err(|cause| about(spec, Kind::Missing, &cause))?;
            Some((tensor.dims, tensor.bytes))
        }
        _ => None,
    })
}

fn about(spec: &Spec, kind: Kind, cause: &str) -> Box<Report> {
    Box::new(Report::error(kind, format!("argument `{}`: {cause}", spec.name)))
}

fn count(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |n, extent| n.checked_mul(*extent))
}

/// The extents of an array: as declared, or from its contents.
fn extents_of(
    spec: &Spec,
    shape: Option<&[usize]>,
    given: Option<&Given>,
) -> Result<Vec<usize>, Box<Report>> {
    match (shape, given) {
        (Some(shape), Some((held, _))) if count(shape) != count(held) => {
            let text = |shape: &[usize]| shape.iter().map(ToString::to_string).collect::<Vec<_>>().join("x");
            let sentence = format!("expected [{}] elements, found [{}]", text(shape), text(held));
            Err(about(spec, Kind::Usage, &sentence))
        }
        (Some(shape), _) => Ok(shape.to_vec()),
        (None, Some((held, _))) => Ok(held.clone()),
        (None, None) => Err(about(spec, Kind::Usage, "the count is missing")),
    }
}

/// The contents of an array of at most `most` bytes, for a variable of the module.
pub(super) fn contents(
    spec: &Spec,
    shape: Option<&[usize]>,
    fill: &Fill,
    most: u64,
) -> Result<Vec<u8>, Box<Report>> {
    let given = given(spec, fill, most)?;
    let elements = count(&extents_of(spec, shape, given.as_ref())?).unwrap_or(usize::MAX);
    let bytes = elements.saturating_mul(spec.element.size());
    if u64::try_from(bytes).unwrap_or(u64::MAX) > most {
        return Err(about(
            spec,
            Kind::Usage,
            &format!("expected at most {most} bytes for this variable, found {bytes}"),
        ));
    }
    if let Some((_, content)) = given {
        return Ok(content);
    }
    let mut content = Vec::with_capacity(bytes);
    match fill::codes(fill, spec.element) {
        Some(mut next) => (0..elements).for_each(|_| spec.element.push(next(), &mut content)),
        None => content.resize(bytes, 0),
    }
    Ok(content)
}

fn allocate(
    spec: &Spec,
    shape: Option<&[usize]>,
    fill: &Fill,
    device: &mut Device,
    limit: u64,
) -> Result<Array, Box<Report>> {
    let element = spec.element;
    let given = given(spec, fill, limit)?;
    let shape = extents_of(spec, shape, given.as_ref())?;
    let elements = count(&shape).unwrap_or(usize::MAX);
    let bytes = elements.saturating_mul(element.size());
    let asked = u64::try_from(bytes).unwrap_or(u64::MAX);
    let address = device.memory().allocate(&spec.name, asked).map_err(|error| {
        let report = about(spec, Kind::Limit, &error.to_string());
        match error {
            HeapError::OutOfMemory { .. } => Box::new(report.help("raise the limit with --max-memory")),
            _ => report,
        }
    })?;
    let lost = |_| about(spec, Kind::Bug, "cannot write its memory");
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
