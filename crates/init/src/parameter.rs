//! Parameters of a kernel: from their types in the source, and from their use in the PTX.

use super::names::safe;
use super::source::Declared;
use super::traffic::{Access, Traffic};
use super::triton::Triton;
use warpproof_task::dtype::Dtype;

/// A parameter of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub what: What,
    /// A number that its values must be a multiple of.
    pub multiple: u64,
}

/// The kind of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// The address of an array.
    Array {
        /// The type of its elements.
        dtype: Dtype,
        /// Elements that are read at once: the 4 of `float4`.
        lanes: u32,
        /// How the kernel accesses it.
        access: Access,
        /// The reason for the type, if it is guessed.
        because: Option<String>,
    },
    /// A number.
    Scalar(Dtype),
    /// A pointer that Triton appends, and the memory it needs for each block.
    Scratch {
        /// Bytes; 0 if the pointer is not used.
        bytes_per_block: u64,
    },
    /// Any other kind: its declaration.
    Other(String),
}

/// The element type of a C++ type name, and the number of elements.
fn element(name: &str) -> Option<(Dtype, u32)> {
    let lanes = name.chars().last().and_then(|c| c.to_digit(10)).filter(|lanes| (2..=4).contains(lanes));
    let vector =
        |base: &str, dtype| (name.strip_suffix(['2', '3', '4']) == Some(base)).then_some((dtype, lanes?));
    let single = match name {
        "float" => Dtype::F32,
        "double" => Dtype::F64,
        "__half" | "half" | "_Float16" => Dtype::F16,
        "__nv_bfloat16" | "nv_bfloat16" | "__bfloat16" => Dtype::Bf16,
        "__nv_fp8_e4m3" => Dtype::E4m3,
        "__nv_fp8_e5m2" => Dtype::E5m2,
        "char" | "signed char" | "int8_t" => Dtype::I8,
        "unsigned char" | "uint8_t" | "bool" => Dtype::U8,
        "short" | "int16_t" => Dtype::I16,
        "unsigned short" | "uint16_t" | "ushort" => Dtype::U16,
        "int" | "int32_t" | "signed" | "signed int" => Dtype::I32,
        "unsigned" | "unsigned int" | "uint32_t" | "uint" => Dtype::U32,
        "long" | "long long" | "int64_t" | "ptrdiff_t" | "long int" | "long long int" => Dtype::I64,
        "unsigned long" | "unsigned long long" | "uint64_t" | "size_t" => Dtype::U64,
        _ => {
            return vector("float", Dtype::F32)
                .or_else(|| vector("double", Dtype::F64))
                .or_else(|| vector("half", Dtype::F16).or_else(|| vector("__half", Dtype::F16)))
                .or_else(|| vector("__nv_bfloat16", Dtype::Bf16).or_else(|| vector("int", Dtype::I32)))
                .or_else(|| vector("uint", Dtype::U32));
        }
    };
    Some((single, 1))
}

/// A type without irrelevant parts: whether it is a pointer, whether its target is constant, and its name.
fn plain(ty: &str) -> (bool, bool, String) {
    let points = ty.contains(['*', '&']);
    let mut constant = false;
    let mut words = Vec::new();
    for word in ty.split(|c: char| c.is_whitespace() || c == '*' || c == '&').filter(|word| !word.is_empty())
    {
        match word {
            "const" => constant = true,
            "__restrict__" | "__restrict" | "restrict" | "volatile" | "__grid_constant__" => {}
            _ => words.push(word.strip_prefix("std::").unwrap_or(word)),
        }
    }
    (points, constant, words.join(" "))
}

/// A PTX type as a dtype; untyped bits give only a size, and the most likely type of that size.
fn of_ptx(ty: &str) -> Option<(Dtype, bool)> {
    Some(match ty {
        "f64" => (Dtype::F64, true),
        "f32" => (Dtype::F32, true),
        "f16" => (Dtype::F16, true),
        "bf16" => (Dtype::Bf16, true),
        "u8" | "s8" | "b8" => (Dtype::U8, false),
        "u16" | "s16" | "b16" => (Dtype::F16, false),
        "s32" => (Dtype::I32, true),
        "u32" => (Dtype::U32, true),
        "b32" => (Dtype::F32, false),
        "s64" => (Dtype::I64, true),
        "u64" => (Dtype::U64, true),
        "b64" => (Dtype::F64, false),
        _ => return None,
    })
}

impl Parameter {
    /// The parameters: names and types from Triton's description, else from the source if it has them (`declared`),
    /// else types from the symbol (`symbols`, which includes template arguments), else from the PTX. All names are
    /// distinct, and each is a valid parameter name in Python.
    pub fn all(
        traffic: &[Traffic],
        declared: Option<&[Declared]>,
        symbols: Option<&[String]>,
        triton: Option<&Triton>,
    ) -> Vec<Parameter> {
        let mut all = triton
            .and_then(|triton| triton.parameters(traffic))
            .unwrap_or_else(|| Parameter::seen(traffic, declared, symbols, triton.is_some()));
        for at in 0..all.len() {
            let taken = all.iter().take(at).map(|before| before.name.as_str());
            let name = all.get(at).map(|one| safe(&one.name, taken)).unwrap_or_default();
            if let Some(one) = all.get_mut(at) {
                one.name = name;
            }
        }
        all
    }

    fn seen(
        traffic: &[Traffic],
        declared: Option<&[Declared]>,
        symbols: Option<&[String]>,
        triton: bool,
    ) -> Vec<Parameter> {
        let appended =
            if triton || traffic.iter().any(|seen| seen.pointer) { Triton::appended(traffic) } else { 0 };
        let own = traffic.len() - appended;
        let declared = declared.filter(|all| all.len() == traffic.len());
        let symbols = symbols.filter(|all| all.len() == traffic.len());
        let mut all: Vec<Parameter> = Vec::with_capacity(traffic.len());
        let mut arrays = 0;
        for (at, seen) in traffic.iter().enumerate() {
            let source = declared.and_then(|all| all.get(at));
            // In a template, types are template parameters; the symbol has their arguments.
            let ty = symbols.and_then(|all| all.get(at)).or(source.map(|declared| &declared.ty));
            let mut what = what(seen, ty.map(String::as_str));
            if at >= own && source.is_none() {
                what = What::Scratch { bytes_per_block: 0 };
            }
            let name = match (source, &what) {
                (Some(declared), _) => declared.name.clone(),
                (None, What::Array { access, .. }) => {
                    arrays += 1;
                    let role = if access.written { "out" } else { "in" };
                    format!("{role}{arrays}")
                }
                (None, What::Scratch { .. }) => format!("scratch{at}"),
                (None, What::Scalar(dtype)) if dtype.is_integer() => format!("n{at}"),
                (None, _) => format!("value{at}"),
            };
            all.push(Parameter { name, what, multiple: 1 });
        }
        all
    }
}

fn what(seen: &Traffic, ty: Option<&str>) -> What {
    let Some(ty) = ty else {
        if seen.address || seen.access != Access::default() {
            let known = seen.ty.as_deref().and_then(of_ptx);
            let (dtype, sure) = match (known, seen.half) {
                // Loads move bits; the kernel's arithmetic determines their format.
                (Some((Dtype::F16, false)), Some(half)) => (half, false),
                (Some((Dtype::F32 | Dtype::F64, false)), Some(half)) if seen.vector => (half, false),
                (known, _) => known.unwrap_or((Dtype::F32, false)),
            };
            let because = (!sure)
                .then(|| format!("the PTX accesses it as .{}", seen.ty.as_deref().unwrap_or("unknown")));
            return What::Array { dtype, lanes: 1, access: seen.access, because };
        }
        let scalar = of_ptx(&seen.declared).filter(|_| seen.bytes <= 8).map(|(dtype, _)| dtype);
        return scalar.map_or_else(|| What::Other(format!("{} bytes", seen.bytes)), What::Scalar);
    };
    let (points, constant, name) = plain(ty);
    match (element(&name), points) {
        (Some((dtype, lanes)), true) => {
            let mut access = seen.access;
            if access == Access::default() {
                // The PTX does not determine it: the address could not be followed.
                access = Access { read: constant, written: !constant, atomic: false };
            }
            What::Array { dtype, lanes, access, because: None }
        }
        (Some((dtype, 1)), false) => What::Scalar(dtype),
        _ => What::Other(ty.to_owned()),
    }
}
