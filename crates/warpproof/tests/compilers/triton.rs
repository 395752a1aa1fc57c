//! Triton's kernels: the committed modules of `corpus/triton` for sm_89 and sm_90a, launched according to
//! their manifest.
//!
//! In addition to random inputs with bounded errors, matrix products and attention run on inputs for which
//! every step is exact: small integers, and queries that each match one key. Then the result must be
//! bit-exact, so that the coarseness of a format cannot hide a misplaced element.

mod attention;
mod matmul;
mod persistent;
mod rows;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde::Deserialize;
use warpproof_check::Role;

use crate::data::{Data, Type};
use crate::launch::{Argument, Case, Launched};
use crate::reference::TensorCore;

#[derive(Deserialize)]
struct Manifest {
    modules: Vec<Module>,
}

#[derive(Deserialize)]
struct Parameter {
    name: String,
    #[serde(rename = "type")]
    ty: String,
    aligned: bool,
    #[serde(default)]
    scratch: bool,
}

/// A module as the manifest describes it.
#[derive(Deserialize)]
pub(crate) struct Module {
    name: String,
    file: String,
    kernel: String,
    arch: String,
    grid: [String; 3],
    block: u32,
    shared_bytes: u32,
    scratch_bytes: BTreeMap<String, u64>,
    arguments: Vec<Parameter>,
    constants: BTreeMap<String, serde_json::Value>,
}

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../corpus/triton")
}

/// All modules.
pub(crate) fn modules() -> Vec<Module> {
    let text = fs::read_to_string(corpus().join("manifest.json")).unwrap();
    let manifest: Manifest = serde_json::from_str(&text).unwrap();
    manifest.modules
}

fn module(name: &str, arch: &str) -> Module {
    let found = modules().into_iter().find(|module| module.name == name && module.arch == arch);
    found.unwrap_or_else(|| panic!("no module {name} for {arch}"))
}

fn element_type(name: &str) -> Type {
    match name.trim_start_matches('*') {
        "fp32" => Type::F32,
        "fp16" => Type::F16,
        "bf16" => Type::Bf16,
        "fp8e4nv" => Type::E4m3,
        "fp8e5" => Type::E5m2,
        "i8" => Type::I8,
        "i32" => Type::I32,
        "i64" => Type::I64,
        other => panic!("unknown type {other}"),
    }
}

impl Module {
    /// How the tensor core of its architecture adds.
    fn tensor_core(&self, ty: Type) -> TensorCore {
        match self.arch.as_str() {
            "sm_90" => TensorCore::of_hopper(ty),
            _ => TensorCore::of(ty),
        }
    }

    fn constant(&self, name: &str) -> usize {
        usize::try_from(self.constants[name].as_u64().unwrap()).unwrap()
    }

    /// The element type of an argument.
    fn ty(&self, argument: &str) -> Type {
        element_type(&self.arguments.iter().find(|parameter| parameter.name == argument).unwrap().ty)
    }

    /// The launch with these arguments; `extents` are the names in the grid's formulas that are not
    /// arguments.
    fn case(&self, values: &[(&str, Data)], extents: &[(&str, u32)]) -> Case {
        let value = |name: &str| -> u32 {
            let given = extents.iter().find(|(extent, _)| *extent == name).map(|(_, size)| *size);
            given.unwrap_or_else(|| {
                let (_, data) = values.iter().find(|(argument, _)| *argument == name).unwrap();
                u32::try_from(data.integers()[0]).unwrap()
            })
        };
        // A product of numbers, names and cdiv(name, number).
        let factor = |text: &str| match text.strip_prefix("cdiv(").and_then(|rest| rest.strip_suffix(')')) {
            Some(inside) => {
                let (name, divisor) = inside.split_once(", ").unwrap();
                value(name).div_ceil(divisor.parse().unwrap())
            }
            None => text.parse().unwrap_or_else(|_| value(text)),
        };
        let grid = [0, 1, 2].map(|i: usize| self.grid[i].split(" * ").map(factor).product());
        let argument = |parameter: &Parameter| {
            let name = parameter.name.clone();
            if parameter.scratch {
                // Each block has its part.
                let blocks: u32 = grid.iter().product();
                let bytes = usize::try_from(self.scratch_bytes[&name]).unwrap() * blocks as usize;
                let (data, scalar) = match bytes {
                    0 => (Data::of_bits(Type::U64, [0]), true),
                    _ => (Data::unwritten(Type::I8, bytes), false),
                };
                return Argument { name, data, scalar, role: Role::InOut };
            }
            let (_, data) = values.iter().find(|(given, _)| *given == name).unwrap();
            let scalar = !parameter.ty.starts_with('*');
            assert!(data.ty == element_type(&parameter.ty), "{name} of {}", self.name);
            assert!(!scalar || !parameter.aligned || data.integers()[0] % 16 == 0, "{name} of {}", self.name);
            // The padding between the rows of a result must stay unchanged, so not all of the array is
            // written.
            let in_place = self.kernel == "cross_entropy" && name == "logits";
            let role = if data.is_unwritten() || in_place { Role::InOut } else { Role::In };
            Argument { name, data: data.clone(), scalar, role }
        };
        Case {
            kernel: self.name.clone(),
            grid,
            block: [self.block, 1, 1],
            shared: self.shared_bytes,
            arguments: self.arguments.iter().map(argument).collect(),
        }
    }

    fn check(&self, values: &[(&str, Data)], extents: &[(&str, u32)], check: impl Fn(&Launched<'_>)) {
        let ptx = fs::read_to_string(corpus().join(&self.file)).unwrap();
        self.case(values, extents).check(&ptx, &self.kernel, check);
    }
}

fn int(value: usize) -> Data {
    Data::of_bits(Type::I32, [value as u64])
}

fn float(value: f64) -> Data {
    Data::of_floats(Type::F32, [value])
}

/// Asserts that the padding between the rows of a matrix is unchanged.
fn untouched_beside_rows(run: &Launched<'_>, name: &str, stride: usize, columns: usize) {
    let (before, after) = (run.given(name).bits(), run.after(name).bits());
    for (i, (before, after)) in before.iter().zip(&after).enumerate() {
        assert!(
            i % stride < columns || before == after,
            "{}: {name}[{i}] is in the padding between rows",
            run.case.kernel
        );
    }
}

/// The rows of a matrix without the padding between them.
fn rows_of(data: &Data, stride: usize, columns: usize) -> Data {
    let rows = data.bytes.chunks(stride * data.ty.size());
    Data { ty: data.ty, bytes: rows.flat_map(|row| row[..columns * data.ty.size()].to_vec()).collect() }
}

#[test]
fn every_module_is_tested() {
    let tested: Vec<(&str, &str)> =
        [rows::TESTED, matmul::TESTED, persistent::TESTED, attention::TESTED].concat();
    for module in modules() {
        let (name, arch) = (module.name.as_str(), module.arch.as_str());
        assert!(tested.contains(&(name, arch)), "{name} has no test for {arch}");
    }
}
