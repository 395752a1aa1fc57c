//! A tensor map as an argument: `name:map(array+elements, box=8x64, swizzle=128)`. Extents are in the order of the array's, the
//! contiguous one last; the map has them in CUDA's order.

use warpproof_sim::tensor_map::{DataType, Fill, Interleave, Mode, RANK, Swizzle, TensorMap};
use warpproof_task::dtype::Dtype;

use super::spec::{ArgumentValue, SpecError, alias, outside_brackets, wrong};

/// A tensor map as the user described it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MapSpec {
    /// The array.
    pub(crate) of: String,
    /// Elements from its beginning.
    elements: u64,
    data_type: Option<DataType>,
    dims: Option<Vec<u64>>,
    strides: Option<Vec<u64>>,
    sizes: Vec<u64>,
    steps: Option<Vec<u64>>,
    swizzle: Swizzle,
    interleave: Interleave,
    fill: Fill,
}

const HELP: &str = "write map(array, box=8x64), and if needed type=tf32, dims=100x64, strides=256 (bytes), steps=1x1, \
                    swizzle=32 (64, 128), interleave=16 (32), fill=nan";

/// The names of types that only tensor maps have.
const TYPES: [(&str, DataType); 3] =
    [("tf32", DataType::Tfloat32), ("f32_ftz", DataType::Float32Ftz), ("tf32_ftz", DataType::Tfloat32Ftz)];

fn data_type(element: Dtype) -> DataType {
    match element {
        Dtype::E4m3 | Dtype::E5m2 | Dtype::I8 | Dtype::U8 => DataType::Uint8,
        Dtype::I16 | Dtype::U16 => DataType::Uint16,
        Dtype::I32 => DataType::Int32,
        Dtype::U32 => DataType::Uint32,
        Dtype::I64 => DataType::Int64,
        Dtype::U64 => DataType::Uint64,
        Dtype::F16 => DataType::Float16,
        Dtype::Bf16 => DataType::Bfloat16,
        Dtype::F32 => DataType::Float32,
        Dtype::F64 => DataType::Float64,
    }
}

/// `8x64`.
fn extents(text: &str) -> Result<Vec<u64>, SpecError> {
    let one = |part: &str| {
        part.trim().parse().map_err(|_| wrong(format!("expected numbers like 8x64, found `{text}`"), HELP))
    };
    let all: Vec<u64> = text.split('x').map(one).collect::<Result<_, _>>()?;
    if all.len() > RANK {
        return Err(wrong(format!("a tensor map has at most {RANK} dimensions, found `{text}`"), HELP));
    }
    Ok(all)
}

impl MapSpec {
    /// Parses the text after `map(`.
    pub(crate) fn parse(text: &str) -> Result<MapSpec, SpecError> {
        let inner =
            text.strip_suffix(')').ok_or_else(|| wrong("the tensor map has no closing parenthesis", HELP))?;
        let parts = outside_brackets(inner);
        let Some((first, words)) = parts.split_first() else {
            return Err(wrong("expected the array of the tensor map", HELP));
        };
        let ArgumentValue::Alias { of, elements } = alias(first)? else {
            return Err(wrong("expected the array of the tensor map", HELP));
        };
        let mut map = MapSpec {
            of,
            elements,
            data_type: None,
            dims: None,
            strides: None,
            sizes: Vec::new(),
            steps: None,
            swizzle: Swizzle::None,
            interleave: Interleave::None,
            fill: Fill::Zero,
        };
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            map.set(name.trim(), value.trim())?;
        }
        if map.sizes.is_empty() {
            return Err(wrong("the tensor map has no box", HELP));
        }
        Ok(map)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), SpecError> {
        let unknown = || wrong(format!("expected a value of `{name}`, found `{value}`"), HELP);
        match name {
            "box" => self.sizes = extents(value)?,
            "dims" => self.dims = Some(extents(value)?),
            "strides" => self.strides = Some(extents(value)?),
            "steps" => self.steps = Some(extents(value)?),
            "type" => {
                let own = TYPES.iter().find(|(name, _)| *name == value).map(|(_, found)| *found);
                let found = own.or_else(|| Dtype::named(value).map(data_type));
                self.data_type = Some(found.ok_or_else(unknown)?);
            }
            "swizzle" => {
                self.swizzle = match value {
                    "none" => Swizzle::None,
                    "32" => Swizzle::Bytes32,
                    "64" => Swizzle::Bytes64,
                    "128" => Swizzle::Bytes128,
                    _ => return Err(unknown()),
                }
            }
            "interleave" => {
                self.interleave = match value {
                    "none" => Interleave::None,
                    "16" => Interleave::Bytes16,
                    "32" => Interleave::Bytes32,
                    _ => return Err(unknown()),
                }
            }
            "fill" => {
                self.fill = match value {
                    "zero" => Fill::Zero,
                    "nan" => Fill::Nan,
                    _ => return Err(unknown()),
                }
            }
            _ => return Err(wrong(format!("a tensor map has no `{name}`"), HELP)),
        }
        Ok(())
    }

    /// The map of an array with these elements and extents, and the byte of the array where the tensor begins. The address of
    /// the map is not set.
    pub(crate) fn over(&self, element: Dtype, shape: &[usize]) -> Result<(TensorMap, u64), String> {
        let own: Vec<u64> = shape.iter().map(|extent| u64::try_from(*extent).unwrap_or(u64::MAX)).collect();
        let mut dims = self.dims.clone().unwrap_or(own);
        dims.reverse();
        if dims.is_empty() || dims.len() > RANK {
            return Err(format!(
                "a tensor map has 1 to {RANK} dimensions, found {}; write dims=8x64",
                dims.len()
            ));
        }
        let rank = dims.len();
        let fits = |name: &str, values: &[u64], wanted: usize| {
            if values.len() == wanted {
                return Ok(());
            }
            Err(format!(
                "`{name}` needs {wanted} numbers for a tensor of {rank} dimensions, found {}",
                values.len()
            ))
        };
        fits("box", &self.sizes, rank)?;
        let small = |value: &u64| u32::try_from(*value).unwrap_or(u32::MAX);
        let sizes: Vec<u32> = self.sizes.iter().rev().map(small).collect();
        let data_type = self.data_type.unwrap_or(data_type(element));
        let mut map = TensorMap::tiled(data_type, 0, &dims, &sizes);
        if let Some(strides) = &self.strides {
            fits("strides", strides, rank - 1)?;
            for (place, stride) in map.strides.iter_mut().zip(strides.iter().rev()) {
                *place = *stride;
            }
        }
        if let Some(steps) = &self.steps {
            fits("steps", steps, rank)?;
            for (place, step) in map.element_strides.iter_mut().zip(steps.iter().rev()) {
                *place = small(step);
            }
        }
        (map.swizzle, map.interleave, map.fill) = (self.swizzle, self.interleave, self.fill);
        debug_assert!(matches!(map.mode, Mode::Tiled { .. }), "only boxes can be described");
        map.validate().map_err(|error| format!("the tensor map is invalid: {error}"))?;
        let size = u64::try_from(element.size()).unwrap_or(1);
        let offset = self.elements.checked_mul(size).ok_or("the offset is too large")?;
        if !offset.is_multiple_of(16) {
            return Err(format!(
                "the tensor begins at byte {offset} of the array, which is not a multiple of 16"
            ));
        }
        Ok((map, offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_has_the_dimensions_of_its_array() {
        let spec = MapSpec::parse("a+32, box=8x64, swizzle=128, fill=nan)").expect("a map");
        let (map, offset) = spec.over(Dtype::F16, &[40, 96]).expect("valid");
        let mut expected = TensorMap::tiled(DataType::Float16, 0, &[96, 40], &[64, 8]);
        (expected.swizzle, expected.fill) = (Swizzle::Bytes128, Fill::Nan);
        assert_eq!((map, offset, spec.of.as_str()), (expected, 64, "a"));
        let spec =
            MapSpec::parse("a, box=4x8, type=tf32, dims=20x16, strides=128, steps=2x1)").expect("a map");
        let (map, _) = spec.over(Dtype::F32, &[]).expect("valid");
        assert_eq!(
            (map.data_type, map.strides[0], map.element_strides),
            (DataType::Tfloat32, 128, [1, 2, 1, 1, 1])
        );
    }

    #[test]
    fn errors_name_what_is_wrong() {
        for (text, expected) in [
            ("a)", "no box"),
            ("a, box=8x64", "closing parenthesis"),
            ("a, box=8y)", "found `8y`"),
            ("a, box=8x64, swizzle=96)", "found `96`"),
            ("a, box=8x64, size=3)", "no `size`"),
            (", box=8)", "name of an array"),
        ] {
            let error = MapSpec::parse(text).expect_err(text);
            assert!(error.sentence.contains(expected), "{text}: {}", error.sentence);
        }
        for (text, expected) in [
            ("a, box=8)", "`box` needs 2 numbers"),
            ("a, box=8x300)", "boxDim[0] must be from 1 to 256"),
            ("a, box=8x64, swizzle=64)", "at most 64 bytes"),
            ("a+1, box=8x64)", "not a multiple of 16"),
        ] {
            let error = MapSpec::parse(text).expect(text).over(Dtype::F16, &[40, 96]).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
