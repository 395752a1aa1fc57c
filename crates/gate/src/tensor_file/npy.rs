//! The `.npy` format of NumPy: a magic, a version, a header that is a Python dictionary, then the elements.
//!
//! NumPy does not have bf16 or fp8: their codes are written as `<u2` and `|u1`, and read from those or from raw `V2`
//! and `V1`. Big-endian elements and column-major arrays are converted when read.
//!
//! This reader exists because the crates for the format either depend on a matrix library or parse the
//! header with a grammar and a dozen packages, and none of them limits the memory that an untrusted header
//! may request.

use super::{FileTensor, Stored};
use warpproof_task::dtype::Dtype;

const MAGIC: &[u8] = b"\x93NUMPY";
/// A header has three entries; a longer one is malformed.
const MAX_HEADER: usize = 64 << 10;

struct Header {
    stored: Stored,
    swapped: bool,
    by_column: bool,
    shape: Vec<usize>,
}

/// Reads a whole file: its element type, its extents, and its bytes by row in little-endian order.
pub fn read(file: &[u8]) -> Result<(Stored, Vec<usize>, Vec<u8>), String> {
    let rest = file.strip_prefix(MAGIC).ok_or("the magic number is missing")?;
    let (version, rest) = rest.split_first_chunk::<2>().ok_or("the file ends within the version")?;
    let (length, rest) = match version[0] {
        1 => {
            let (length, rest) = rest.split_first_chunk::<2>().ok_or("the file ends within the header")?;
            (usize::from(u16::from_le_bytes(*length)), rest)
        }
        2 | 3 => {
            let (length, rest) = rest.split_first_chunk::<4>().ok_or("the file ends within the header")?;
            (usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX), rest)
        }
        other => return Err(format!("unsupported version {other}")),
    };
    if length > MAX_HEADER {
        return Err(format!("the header is too long: {length} bytes"));
    }
    let (header, data) = rest.split_at_checked(length).ok_or("the file ends within the header")?;
    let header = std::str::from_utf8(header).map_err(|_| "the header is not valid UTF-8")?;
    let header = parse_header(header)?;
    let size = match header.stored {
        Stored::As(dtype) => dtype.size(),
        Stored::Raw(size) => size,
    };
    let count = header.shape.iter().try_fold(1usize, |n, extent| n.checked_mul(*extent));
    let wanted = count.and_then(|count| count.checked_mul(size)).ok_or("the shape is too large")?;
    let data = data
        .get(..wanted)
        .ok_or_else(|| format!("the shape requires {wanted} bytes, found {}", data.len()))?;
    let mut bytes = if header.by_column { by_row(data, &header.shape, size) } else { data.to_vec() };
    if header.swapped {
        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    Ok((header.stored, header.shape, bytes))
}

/// Converts a column-major array to row-major.
fn by_row(data: &[u8], shape: &[usize], size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len());
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = size;
    for extent in shape {
        strides.push(stride);
        stride = stride.saturating_mul(*extent);
    }
    let mut index = vec![0usize; shape.len()];
    while out.len() < data.len() {
        let start: usize = index.iter().zip(&strides).map(|(i, stride)| i * stride).sum();
        out.extend_from_slice(data.get(start..start + size).unwrap_or(&[]));
        for (i, extent) in index.iter_mut().zip(shape).rev() {
            *i += 1;
            if *i < *extent {
                break;
            }
            *i = 0;
        }
    }
    out
}

fn parse_header(text: &str) -> Result<Header, String> {
    let descr = entry(text, "descr").and_then(quoted).ok_or("the header has no `descr`")?;
    let (order, kind) = match descr.as_bytes().first() {
        Some(b'<' | b'>' | b'|' | b'=') => descr.split_at(1),
        _ => ("|", descr),
    };
    let stored = match kind {
        "u1" | "b1" => Stored::As(Dtype::U8),
        "i1" => Stored::As(Dtype::I8),
        "u2" => Stored::As(Dtype::U16),
        "i2" => Stored::As(Dtype::I16),
        "u4" => Stored::As(Dtype::U32),
        "i4" => Stored::As(Dtype::I32),
        "u8" => Stored::As(Dtype::U64),
        "i8" => Stored::As(Dtype::I64),
        "f2" => Stored::As(Dtype::F16),
        "f4" => Stored::As(Dtype::F32),
        "f8" => Stored::As(Dtype::F64),
        "V1" => Stored::Raw(1),
        "V2" => Stored::Raw(2),
        other => return Err(format!("unsupported element type `{other}`")),
    };
    let by_column = match entry(text, "fortran_order") {
        Some(value) if value.starts_with("True") => true,
        Some(value) if value.starts_with("False") => false,
        _ => return Err("the header has no `fortran_order`".into()),
    };
    let shape = entry(text, "shape").and_then(|value| value.strip_prefix('(')?.split_once(')'));
    let (extents, _) = shape.ok_or("the header has no `shape`")?;
    let mut shape = Vec::new();
    for extent in extents.split(',').map(str::trim).filter(|extent| !extent.is_empty()) {
        shape.push(extent.trim_end_matches('L').parse().map_err(|_| format!("invalid extent `{extent}`"))?);
    }
    if shape.len() > 64 {
        return Err(format!("{} extents", shape.len()));
    }
    Ok(Header { stored, swapped: order == ">", by_column, shape })
}

/// What follows a key of the dictionary.
fn entry<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    for quote in ['\'', '"'] {
        let quoted = format!("{quote}{key}{quote}");
        if let Some((_, rest)) = text.split_once(&quoted) {
            return rest.trim_start().strip_prefix(':').map(str::trim_start);
        }
    }
    None
}

fn quoted(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    text.get(1..)?.split_once(quote).map(|(inner, _)| inner)
}

/// The file of a tensor.
pub fn write(tensor: &FileTensor) -> Vec<u8> {
    let descr = match tensor.dtype {
        Dtype::U8 | Dtype::E4m3 | Dtype::E5m2 => "|u1",
        Dtype::I8 => "|i1",
        Dtype::U16 | Dtype::Bf16 => "<u2",
        Dtype::I16 => "<i2",
        Dtype::U32 => "<u4",
        Dtype::I32 => "<i4",
        Dtype::U64 => "<u8",
        Dtype::I64 => "<i8",
        Dtype::F16 => "<f2",
        Dtype::F32 => "<f4",
        Dtype::F64 => "<f8",
    };
    let extents = match tensor.dims.as_slice() {
        // Python's syntax for a tuple of one.
        [only] => format!("{only},"),
        all => all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({extents}), }}");
    // The elements begin at a multiple of 64.
    let before = MAGIC.len() + 2 + 2;
    let padded = (before + header.len() + 1).next_multiple_of(64) - before;
    header.push_str(&" ".repeat(padded - header.len() - 1));
    header.push('\n');
    let mut file = MAGIC.to_vec();
    file.extend([1, 0]);
    // 32 extents of at most 20 digits stay far below the 65,535 bytes of this version.
    file.extend(u16::try_from(header.len()).unwrap_or(u16::MAX).to_le_bytes());
    file.extend(header.bytes());
    file.extend(&tensor.bytes);
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut file = MAGIC.to_vec();
        file.extend([1, 0]);
        file.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
        file.extend(header.bytes());
        file.extend(data);
        file
    }

    #[test]
    fn column_order_and_the_other_byte_order_are_turned_round() {
        let header = "{'descr': '>u2', 'fortran_order': True, 'shape': (2, 3), }\n";
        let data = [0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6];
        let (stored, shape, bytes) = read(&file(header, &data)).unwrap();
        assert_eq!((stored, shape), (Stored::As(Dtype::U16), vec![2, 3]));
        assert_eq!(bytes, [1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0]);
    }

    #[test]
    fn a_written_file_is_what_numpy_writes() {
        let one = write(&FileTensor { dtype: Dtype::F32, dims: vec![2], bytes: vec![0; 8] });
        assert_eq!(one.len() % 64, 8);
        let text = String::from_utf8_lossy(&one);
        assert!(text.contains("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"), "{text}");
        let none = write(&FileTensor { dtype: Dtype::E4m3, dims: vec![], bytes: vec![7] });
        assert!(String::from_utf8_lossy(&none).contains("'|u1', 'fortran_order': False, 'shape': (), }"));
        let two = write(&FileTensor { dtype: Dtype::Bf16, dims: vec![1, 2], bytes: vec![0; 4] });
        assert!(String::from_utf8_lossy(&two).contains("'<u2', 'fortran_order': False, 'shape': (1, 2), }"));
        assert_eq!(read(&two).unwrap().0, Stored::As(Dtype::U16));
    }

    #[test]
    fn a_broken_file_is_a_message() {
        let good = write(&FileTensor { dtype: Dtype::F32, dims: vec![2, 2], bytes: vec![0; 16] });
        for end in 0..good.len() {
            assert!(read(&good[..end]).is_err(), "{end}");
        }
        let mut random = warpproof_num::random::SplitMix(9);
        for _ in 0..5000 {
            let mut broken = good.clone();
            for _ in 0..3 {
                let at = usize::try_from(random.next() % 100).unwrap();
                broken[at] = random.next().to_le_bytes()[0];
            }
            let _ = read(&broken);
        }
        for shape in ["(99999999999999999999,)", "(18446744073709551615, 18446744073709551615)", "(-1,)", "3"]
        {
            let header = format!("{{'descr': '<f4', 'fortran_order': True, 'shape': {shape}, }}\n");
            assert!(read(&file(&header, &[])).is_err(), "{shape}");
        }
        let empty = "{'descr': '<f4', 'fortran_order': True, 'shape': (0, 4), }\n";
        assert_eq!(read(&file(empty, &[])).unwrap().1, [0, 4]);
    }
}
