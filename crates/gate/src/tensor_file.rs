//! Tensors in files: reads and writes `.npy` and `.safetensors`. Files are not trusted: a malformed file gives an
//! error, and memory use is bounded by the limit and the file's size.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype as Safe, TensorView};

use warpproof_task::dtype::Dtype;

pub mod npy;

/// A tensor as a file holds it: elements by row, the last index fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileTensor {
    /// The type of its elements.
    pub dtype: Dtype,
    /// Extents.
    pub dims: Vec<usize>,
    /// Codes, in little-endian order.
    pub bytes: Vec<u8>,
}

/// The element type that a file declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// This type.
    As(Dtype),
    /// Bytes without a type; the number per element.
    Raw(usize),
}

impl Stored {
    /// Whether an array of `dtype` may be filled with it. Formats without bf16 and fp8 hold their codes as unsigned
    /// integers or as raw bytes.
    fn holds(self, dtype: Dtype) -> bool {
        let codes_of_other = matches!(dtype, Dtype::Bf16 | Dtype::E4m3 | Dtype::E5m2);
        match self {
            Self::As(stored) if stored == dtype => true,
            Self::As(Dtype::U8 | Dtype::U16) | Self::Raw(_) => {
                let size = match self {
                    Self::As(stored) => stored.size(),
                    Self::Raw(size) => size,
                };
                codes_of_other && size == dtype.size()
            }
            Self::As(_) => false,
        }
    }

    fn name(self) -> String {
        match self {
            Self::As(dtype) => dtype.name().to_owned(),
            Self::Raw(size) => format!("raw elements of {size} bytes"),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Npy,
    Safetensors,
}

fn format(path: &Path) -> Result<Format, String> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("npy") => Ok(Format::Npy),
        Some("safetensors") => Ok(Format::Safetensors),
        _ => Err(format!("expected a .npy or .safetensors file, found {}", path.display())),
    }
}

/// Whether a tensor can be written to a file of this name.
pub fn check_name(path: &Path) -> Result<(), String> {
    format(path).map(|_| ())
}

/// Reads a tensor of the wanted type, up to a limit in bytes.
pub fn read(path: &Path, tensor: Option<&str>, wanted: Dtype, limit: u64) -> Result<FileTensor, String> {
    read_any(path, tensor, &[wanted], limit)
}

/// Reads a tensor of the first of some types that the file holds.
pub fn read_any(
    path: &Path,
    tensor: Option<&str>,
    wanted: &[Dtype],
    limit: u64,
) -> Result<FileTensor, String> {
    let format = format(path)?;
    let shown = path.display();
    let file = File::open(path).map_err(|cause| format!("cannot read {shown}: {cause}"))?;
    let mut content = Vec::new();
    // A pipe or a device has no size to check beforehand. A header takes some bytes in addition to the elements.
    let most = limit.saturating_add(1 << 20);
    file.take(most.saturating_add(1))
        .read_to_end(&mut content)
        .map_err(|cause| format!("cannot read {shown}: {cause}"))?;
    if u64::try_from(content.len()).unwrap_or(u64::MAX) > most {
        return Err(format!("{shown} is larger than the limit of {limit} bytes"));
    }
    let (stored, dims, bytes) = match format {
        Format::Npy => {
            npy::read(&content).map_err(|cause| format!("{shown} is not a valid .npy file: {cause}"))?
        }
        Format::Safetensors => {
            let file = SafeTensors::deserialize(&content)
                .map_err(|cause| format!("{shown} is not a valid safetensors file: {cause}"))?;
            let view = choose(&file, tensor).map_err(|cause| format!("{shown} {cause}"))?;
            let stored = stored(view.dtype())
                .ok_or_else(|| format!("{shown} contains elements of unsupported type {:?}", view.dtype()))?;
            (stored, view.shape().to_vec(), view.data().to_vec())
        }
    };
    let Some(dtype) = wanted.iter().copied().find(|dtype| stored.holds(*dtype)) else {
        let names: Vec<&str> = wanted.iter().map(|dtype| dtype.name()).collect();
        let names = match names.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => names.concat(),
        };
        return Err(format!("{shown} contains {}; expected {names}", stored.name()));
    };
    Ok(FileTensor { dtype, dims, bytes })
}

fn choose<'a>(file: &SafeTensors<'a>, tensor: Option<&str>) -> Result<TensorView<'a>, String> {
    let mut names = file.names();
    names.sort_unstable();
    let list = || {
        let some: Vec<&str> = names.iter().take(8).copied().collect();
        let rest = if names.len() > some.len() { ", …" } else { "" };
        format!("it contains {}{rest}", if some.is_empty() { "nothing".to_owned() } else { some.join(", ") })
    };
    let name = match (tensor, names.as_slice()) {
        (Some(name), _) => name,
        (None, [only]) => only,
        (None, _) => {
            return Err(format!("contains {} tensors: select one with `#NAME` ({})", names.len(), list()));
        }
    };
    file.tensor(name).map_err(|_| format!("has no tensor `{name}` ({})", list()))
}

fn stored(dtype: Safe) -> Option<Stored> {
    Some(Stored::As(match dtype {
        Safe::BOOL | Safe::U8 => Dtype::U8,
        Safe::I8 => Dtype::I8,
        Safe::U16 => Dtype::U16,
        Safe::I16 => Dtype::I16,
        Safe::U32 => Dtype::U32,
        Safe::I32 => Dtype::I32,
        Safe::U64 => Dtype::U64,
        Safe::I64 => Dtype::I64,
        Safe::F16 => Dtype::F16,
        Safe::BF16 => Dtype::Bf16,
        Safe::F32 => Dtype::F32,
        Safe::F64 => Dtype::F64,
        Safe::F8_E4M3 => Dtype::E4m3,
        Safe::F8_E5M2 => Dtype::E5m2,
        _ => return None,
    }))
}

fn safe(dtype: Dtype) -> Safe {
    match dtype {
        Dtype::U8 => Safe::U8,
        Dtype::I8 => Safe::I8,
        Dtype::U16 => Safe::U16,
        Dtype::I16 => Safe::I16,
        Dtype::U32 => Safe::U32,
        Dtype::I32 => Safe::I32,
        Dtype::U64 => Safe::U64,
        Dtype::I64 => Safe::I64,
        Dtype::F16 => Safe::F16,
        Dtype::Bf16 => Safe::BF16,
        Dtype::F32 => Safe::F32,
        Dtype::F64 => Safe::F64,
        Dtype::E4m3 => Safe::F8_E4M3,
        Dtype::E5m2 => Safe::F8_E5M2,
    }
}

/// Writes tensors, each to its file; a safetensors file gets all that name it.
pub fn write(tensors: &[(PathBuf, String, FileTensor)]) -> Result<(), String> {
    let mut together: BTreeMap<&Path, Vec<(&str, &FileTensor)>> = BTreeMap::new();
    for (path, name, tensor) in tensors {
        match format(path)? {
            Format::Npy => store(path, &npy::write(tensor))?,
            Format::Safetensors => together.entry(path).or_default().push((name, tensor)),
        }
    }
    for (path, tensors) in together {
        let mut views = BTreeMap::new();
        for (name, tensor) in tensors {
            let view = TensorView::new(safe(tensor.dtype), tensor.dims.clone(), &tensor.bytes)
                .map_err(|cause| format!("cannot write `{name}` to {}: {cause}", path.display()))?;
            views.insert(name, view);
        }
        let content = safetensors::serialize(views, None)
            .map_err(|cause| format!("cannot write {}: {cause}", path.display()))?;
        store(path, &content)?;
    }
    Ok(())
}

fn store(path: &Path, content: &[u8]) -> Result<(), String> {
    fs::write(path, content).map_err(|cause| format!("cannot write {}: {cause}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_types_a_format_lacks_are_read_from_integers() {
        assert!(Stored::As(Dtype::U16).holds(Dtype::Bf16));
        assert!(Stored::Raw(1).holds(Dtype::E4m3));
        assert!(Stored::As(Dtype::E4m3).holds(Dtype::E4m3));
        assert!(!Stored::As(Dtype::U16).holds(Dtype::E4m3));
        assert!(!Stored::As(Dtype::U8).holds(Dtype::I8));
        assert!(!Stored::As(Dtype::F64).holds(Dtype::F32));
        assert!(!Stored::Raw(4).holds(Dtype::F32));
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let all = [Dtype::U8, Dtype::I16, Dtype::Bf16, Dtype::F16, Dtype::F64, Dtype::E4m3, Dtype::E5m2];
        for dtype in all {
            let bytes: Vec<u8> = (0..6 * dtype.size()).map(|i| u8::try_from(i).unwrap()).collect();
            let tensor = FileTensor { dtype, dims: vec![2, 3], bytes };
            let (npy, safe) = (dir.path().join("x.npy"), dir.path().join("x.safetensors"));
            let other = FileTensor { dtype: Dtype::U8, dims: vec![], bytes: vec![9] };
            write(&[
                (npy.clone(), "x".into(), tensor.clone()),
                (safe.clone(), "x".into(), tensor.clone()),
                (safe.clone(), "y".into(), other.clone()),
            ])
            .unwrap();
            assert_eq!(read(&npy, None, dtype, 1000), Ok(tensor.clone()));
            assert_eq!(read(&safe, Some("x"), dtype, 1000), Ok(tensor));
            assert_eq!(read(&safe, Some("y"), Dtype::U8, 1000), Ok(other));
            assert!(read(&safe, None, dtype, 1000).unwrap_err().contains("contains 2 tensors"));
            assert!(read(&safe, Some("z"), dtype, 1000).unwrap_err().contains("it contains x, y"));
        }
    }
}
