//! Reads the files next to a kernel's PTX in Triton's cache: `NAME.json`, which describes the launch, and
//! `NAME.ttir`, whose signature has the names, types and alignments of its parameters.

use serde_json::Value;

use super::parameter::{Parameter, What};
use super::traffic::{Access, Traffic};
use warpproof_task::dtype::Dtype;

/// Triton's description of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Triton {
    /// Threads of a block.
    pub threads: Option<u32>,
    /// Dynamic shared memory, in bytes.
    pub shared: Option<u32>,
    /// Bytes per block that the first and the second of Triton's appended pointers need.
    scratch: [u64; 2],
    arguments: Vec<Argument>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Argument {
    name: String,
    pointer: bool,
    dtype: Option<Dtype>,
    /// The type as it is written.
    ty: String,
    /// A number that its values are multiples of.
    multiple: u64,
}

impl Triton {
    /// Reads the available files. JSON that is not Triton's, or that describes another kernel, is ignored.
    pub fn read(json: Option<&str>, ttir: Option<&str>, symbol: &str) -> Option<Triton> {
        let arguments = ttir.and_then(|text| signature(text, symbol));
        let metadata = json.and_then(|text| serde_json::from_str::<Value>(text).ok());
        let metadata = metadata.filter(|json| {
            json.get("num_warps").is_some()
                && json.get("name").is_none_or(|name| name.as_str() == Some(symbol))
        });
        if arguments.is_none() && metadata.is_none() {
            return None;
        }
        let number = |key: &str| metadata.as_ref().and_then(|json| json.get(key)).and_then(Value::as_u64);
        let warp = number("warp_size").unwrap_or(32);
        let threads = number("num_warps").and_then(|warps| u32::try_from(warps.checked_mul(warp)?).ok());
        Some(Triton {
            threads: threads.filter(|threads| (1..=1024).contains(threads)),
            shared: number("shared").and_then(|bytes| u32::try_from(bytes).ok()),
            scratch: ["global_scratch_size", "profile_scratch_size"].map(|key| number(key).unwrap_or(0)),
            arguments: arguments.unwrap_or_default(),
        })
    }

    /// The parameters, if the signature matches those of the PTX: its own, and at most two pointers to scratch
    /// memory.
    pub(super) fn parameters(&self, traffic: &[Traffic]) -> Option<Vec<Parameter>> {
        let own = self.arguments.len();
        if own == 0 || !(own..=own + 2).contains(&traffic.len()) {
            return None;
        }
        let named = self.arguments.iter().zip(traffic).map(|(argument, seen)| {
            let what = match (argument.dtype, argument.pointer) {
                (Some(dtype), true) => What::Array { dtype, lanes: 1, access: seen.access, because: None },
                (Some(dtype), false) => What::Scalar(dtype),
                (None, _) => What::Other(argument.ty.clone()),
            };
            Parameter { name: argument.name.clone(), what, multiple: argument.multiple }
        });
        let appended = traffic.iter().skip(own).zip(self.scratch).zip(["global_scratch", "profile_scratch"]);
        let appended = appended.map(|((_, bytes), name)| Parameter {
            name: name.to_owned(),
            what: What::Scratch { bytes_per_block: bytes },
            multiple: 1,
        });
        Some(named.chain(appended).collect())
    }

    /// The number of pointers that Triton appended, if only the PTX is known: the last two, if the kernel does not
    /// use them.
    pub(super) fn appended(traffic: &[Traffic]) -> usize {
        let unused = |seen: &&Traffic| seen.address && seen.access == Access::default();
        traffic.iter().rev().take_while(unused).count().min(2)
    }
}

/// The parameters of a function of Triton's intermediate representation.
fn signature(ttir: &str, symbol: &str) -> Option<Vec<Argument>> {
    let start = ttir.find(&format!("@{symbol}("))? + symbol.len() + 2;
    let mut arguments = Vec::new();
    let (mut depth, mut quoted, mut begin) = (0i32, false, start);
    for (at, c) in ttir.get(start..)?.char_indices() {
        let at = start + at;
        match c {
            '"' => quoted = !quoted,
            _ if quoted => {}
            ')' if depth == 0 => {
                arguments.push(ttir.get(begin..at)?);
                break;
            }
            '(' | '{' | '<' | '[' => depth += 1,
            ')' | '}' | '>' | ']' => depth -= 1,
            ',' if depth == 0 => {
                arguments.push(ttir.get(begin..at)?);
                begin = at + 1;
            }
            _ => {}
        }
    }
    arguments.into_iter().filter(|text| !text.trim().is_empty()).map(argument).collect()
}

/// `%x: !tt.ptr<f16> {tt.divisibility = 16 : i32} loc("x"(#loc))`
fn argument(text: &str) -> Option<Argument> {
    let (name, rest) = text.trim().strip_prefix('%')?.split_once(':')?;
    let rest = rest.trim_start();
    // Older releases number arguments and keep the name in the location.
    let located = rest.split_once("loc(\"").and_then(|(_, name)| name.split('"').next());
    let numbered = name.strip_prefix("arg").is_some_and(|digits| digits.chars().all(|c| c.is_ascii_digit()));
    let name = located.filter(|_| numbered).unwrap_or(name);
    let ty = rest.split(" {").next().unwrap_or(rest).split(" loc(").next().unwrap_or(rest).trim();
    let element = ty.strip_prefix("!tt.ptr<").map(|inside| inside.split([',', '>']).next().unwrap_or(inside));
    let dtype = match element.unwrap_or(ty).trim() {
        "f64" => Some(Dtype::F64),
        "f32" => Some(Dtype::F32),
        "f16" => Some(Dtype::F16),
        "bf16" => Some(Dtype::Bf16),
        "f8E4M3FN" => Some(Dtype::E4m3),
        "f8E5M2" => Some(Dtype::E5m2),
        // Integers have no sign here; the sign of the source type is not recorded.
        "i1" => Some(Dtype::U8),
        "i8" => Some(Dtype::I8),
        "i16" => Some(Dtype::I16),
        "i32" => Some(Dtype::I32),
        "i64" => Some(Dtype::I64),
        _ => None,
    };
    let multiple = rest
        .split_once("tt.divisibility = ")
        .and_then(|(_, number)| number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
    Some(Argument {
        name: name.to_owned(),
        pointer: element.is_some(),
        dtype,
        ty: ty.to_owned(),
        multiple: multiple.filter(|n| (1..=1024).contains(n) && element.is_none()).unwrap_or(1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTIR: &str = "module {\n  tt.func public @add(%x: !tt.ptr<bf16> {tt.divisibility = 16 : i32} loc(\"x\"(#loc)), \
        %arg1: !tt.ptr<f8E4M3FN> loc(\"a,b\"(#loc)), %n: i32 {tt.divisibility = 16 : i32}, %s: f32 loc(\"s\"(#loc))) {";

    #[test]
    fn the_cache_tells_names_types_and_the_launch() {
        let json =
            r#"{"num_warps": 8, "warp_size": 32, "shared": 512, "name": "add", "global_scratch_size": 64}"#;
        let triton = Triton::read(Some(json), Some(TTIR), "add").unwrap();
        assert_eq!((triton.threads, triton.shared), (Some(256), Some(512)));
        let traffic = vec![Traffic::default(); 6];
        let all = triton.parameters(&traffic).unwrap();
        let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["x", "a,b", "n", "s", "global_scratch", "profile_scratch"]);
        assert!(matches!(all[0].what, What::Array { dtype: Dtype::Bf16, .. }));
        assert!(matches!(all[1].what, What::Array { dtype: Dtype::E4m3, .. }));
        assert_eq!((all[0].multiple, all[2].multiple), (1, 16));
        assert_eq!(all[4].what, What::Scratch { bytes_per_block: 64 });
        assert_eq!(triton.parameters(&traffic[..3]), None);
    }

    #[test]
    fn what_is_not_tritons_is_nothing() {
        assert_eq!(Triton::read(Some("{\"name\": \"other\", \"num_warps\": 4}"), None, "add"), None);
        assert_eq!(Triton::read(Some("[1, 2"), Some("module { @add("), "other"), None);
        assert_eq!(Triton::read(None, None, "add"), None);
        for broken in ["@add(", "@add(%", "@add(%x", "@add(%x: )", "@add())", "@add(\"", "@add(<<<"] {
            let _ = Triton::read(None, Some(broken), "add");
        }
    }
}
