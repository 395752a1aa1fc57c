//! References stored in files: the inputs of a shape and the expected outputs.

use std::collections::BTreeMap;
use std::path::Path;

use super::{MAX_ELEMENTS, Tensor, Unfit};
use crate::inputs::Input;
use crate::tensor_file;
use warpproof_task::dtype::Dtype;
use warpproof_task::{At, FileCase, Size, Task, dims};

/// Bytes of the largest file: the largest tensor in the widest type.
const MAX_FILE: u64 = 8 << 28;

/// What the files of a case hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// Inputs, in the task's order.
    pub inputs: Vec<Input>,
    /// The expected outputs, by name.
    pub outputs: BTreeMap<String, Tensor>,
}

/// Reads the files of a case; paths are relative to the task's directory. Inputs have the task's types. Outputs may
/// be more precise than the kernel's: their own type, or a wider one.
pub fn load(
    task: &Task,
    case: &FileCase,
    size: &Size,
    each: Dtype,
    directory: &Path,
) -> Result<Loaded, Unfit> {
    let read = |name: &str, file: Option<&At<String>>, wanted: &[Dtype], dims: Vec<usize>| {
        let file = file.ok_or_else(|| Unfit(format!("no file contains `{name}` for shape {}", size.name)))?;
        let (path, tensor) = match file.split_once('#') {
            Some((path, tensor)) => (path, Some(tensor)),
            None => (file.as_str(), None),
        };
        let found = tensor_file::read_any(&directory.join(path), tensor, wanted, MAX_FILE).map_err(Unfit)?;
        if found.dims != dims {
            return Err(Unfit(format!(
                "{}: expected extents {dims:?} for `{name}` of shape {}, found {:?}",
                file.value, size.name, found.dims
            )));
        }
        let values = found.dtype.values(&found.bytes);
        if found.dtype.is_integer() && found.dtype.bytes(&values) != found.bytes {
            return Err(Unfit(format!(
                "{}: `{name}` contains integers beyond 2^53, which f64 cannot represent exactly",
                file.value
            )));
        }
        Ok((found.dtype, Tensor::new(dims, values)?))
    };
    let extents = |name: &str, exprs| {
        let dims = dims(exprs, &size.axes).map_err(|problem| Unfit(problem.sentence))?;
        // Computing the extents already bounded the product.
        if dims.iter().product::<usize>() > MAX_ELEMENTS {
            return Err(Unfit(format!("`{name}` has {dims:?} elements; the maximum is {MAX_ELEMENTS}")));
        }
        Ok(dims)
    };
    let mut inputs = Vec::with_capacity(task.data.inputs.len());
    for input in &task.data.inputs {
        let name = input.name.value.clone();
        let dims = extents(&name, &input.dims)?;
        let wanted = input.dtype.with(each);
        let (dtype, tensor) = read(&name, case.inputs.get(&name), &[wanted], dims)?;
        inputs.push(Input { name, dtype, tensor });
    }
    let mut outputs = BTreeMap::new();
    for output in &task.data.outputs {
        let name = output.name.value.clone();
        let dims = extents(&name, &output.dims)?;
        let own = output.dtype.with(each);
        let (_, tensor) = read(&name, case.outputs.get(&name), exact_enough(own), dims)?;
        outputs.insert(name, tensor);
    }
    Ok(Loaded { inputs, outputs })
}

/// The types that hold every value of a type, itself first.
fn exact_enough(own: Dtype) -> &'static [Dtype] {
    use Dtype::{Bf16, E4m3, E5m2, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    match own {
        F64 => &[F64],
        F32 => &[F32, F64],
        F16 => &[F16, F32, F64],
        Bf16 => &[Bf16, F32, F64],
        E4m3 => &[E4m3, F16, Bf16, F32, F64],
        E5m2 => &[E5m2, F16, Bf16, F32, F64],
        I8 => &[I8, I16, I32, I64],
        I16 => &[I16, I32, I64],
        I32 => &[I32, I64],
        I64 => &[I64],
        U8 => &[U8, U16, U32, U64],
        U16 => &[U16, U32, U64],
        U32 => &[U32, U64],
        U64 => &[U64],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor_file::{FileTensor, write};
    use warpproof_task::Reference;

    const TASK: &str = r#"
name = "copy"
version = 1
operator = "custom"
dtypes = ["f16"]
seeds = [1]
distributions = ["normal"]
shape = [{ name = "main", axes = { n = 2, m = 3 } }]
input = [{ name = "x", dtype = "each", dims = ["n", "m"] }]
output = [{ name = "y", dtype = "each", dims = ["m"] }]
gate = [{ stage = "build" }]
target = { architectures = ["sm_89"], devices = ["l4"] }
[reference]
case = [{ shape = "main", inputs = { x = "x.npy" }, outputs = { y = "all.safetensors#y" } }]
[tolerance]
policy = "stated"
absolute = 0.1
relative = 0.1
rmse = 0.1
bias = 0.1
derivation = "a test"
"#;

    fn loaded(x: FileTensor, y: FileTensor) -> Result<Loaded, String> {
        let task = Task::parse(TASK).map_err(|problems| format!("{problems:?}"))?;
        let Reference::Files { cases } = &task.reference else { return Err("no files".into()) };
        let directory = tempfile::tempdir().unwrap();
        let other = FileTensor { dtype: Dtype::U8, dims: vec![1], bytes: vec![0] };
        let safe = directory.path().join("all.safetensors");
        write(&[
            (directory.path().join("x.npy"), "x".into(), x),
            (safe.clone(), "y".into(), y),
            (safe, "other".into(), other),
        ])?;
        load(&task, &cases[0], &task.sizes(0)[0], Dtype::F16, directory.path())
            .map_err(|unfit| unfit.0.replace(&directory.path().display().to_string(), "DIR"))
    }

    fn tensor(dtype: Dtype, dims: &[usize]) -> FileTensor {
        let values: Vec<f64> = (0..dims.iter().product()).map(super::super::real).collect();
        FileTensor { dtype, dims: dims.to_vec(), bytes: dtype.bytes(&values) }
    }

    #[test]
    fn what_fits_is_read() {
        for own in [Dtype::F16, Dtype::F64] {
            let loaded = loaded(tensor(Dtype::F16, &[2, 3]), tensor(own, &[3])).unwrap();
            assert_eq!(loaded.inputs[0].tensor.values, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
            assert_eq!(loaded.inputs[0].dtype, Dtype::F16);
            assert_eq!(loaded.outputs["y"], Tensor::new(vec![3], vec![0.0, 1.0, 2.0]).unwrap());
        }
    }

    #[test]
    fn what_does_not_fit_is_named_with_what_would() {
        let right = || (tensor(Dtype::F16, &[2, 3]), tensor(Dtype::F16, &[3]));
        let wrong = |x, y| loaded(x, y).unwrap_err();
        assert_eq!(wrong(tensor(Dtype::F32, &[2, 3]), right().1), "DIR/x.npy contains f32; expected f16");
        assert_eq!(
            wrong(right().0, tensor(Dtype::Bf16, &[3])),
            "DIR/all.safetensors contains bf16; expected f16, f32 or f64"
        );
        assert_eq!(
            wrong(tensor(Dtype::F16, &[3, 2]), right().1),
            "x.npy: expected extents [2, 3] for `x` of shape main, found [3, 2]"
        );
        assert_eq!(
            wrong(right().0, tensor(Dtype::F16, &[6])),
            "all.safetensors#y: expected extents [3] for `y` of shape main, found [6]"
        );
    }
}
