//! Audits the precision in which a kernel really computes: a candidate that uses a narrower type than the task's
//! types and sums call for is refused, however small its errors are on the tested inputs.
//!
//! The audit evaluates executed instructions, not the source. Conversions, loads and stores of a type are allowed if
//! the task has an equally narrow tensor; arithmetic is allowed if sums may be kept in that type. Tensor-core inputs
//! may be as narrow as the task's `accumulate` allows. A task with its own limits (`stated`) states what it accepts
//! and is not audited.

use std::collections::BTreeSet;

use warpproof_task::dtype::Dtype;
use warpproof_task::{Accumulate, Policy, Task};

/// Types of PTX that are narrower than f32, with the digits of their mantissa.
const NARROW: [(&str, u32); 12] = [
    ("f16", 11),
    ("f16x2", 11),
    ("tf32", 11),
    ("bf16", 8),
    ("bf16x2", 8),
    ("e4m3", 4),
    ("e4m3x2", 4),
    ("e5m2", 3),
    ("e5m2x2", 3),
    ("e2m3", 4),
    ("e3m2", 3),
    ("e2m1", 2),
];

/// Instructions that round.
const ARITHMETIC: [&str; 16] = [
    "add", "sub", "mul", "fma", "mad", "ex2", "lg2", "tanh", "rcp", "rsqrt", "sqrt", "sin", "cos", "div",
    "atom", "red",
];

/// Integers that tensor cores multiply.
const INTEGERS: [&str; 4] = ["s8", "u8", "s4", "u4"];

fn digits(dtype: Dtype) -> u32 {
    match dtype {
        Dtype::F64 => 53,
        Dtype::F16 => 11,
        Dtype::Bf16 => 8,
        Dtype::E4m3 => 4,
        Dtype::E5m2 => 3,
        _ => 24,
    }
}

/// The first executed instruction that is narrower than it may be, and why.
pub(super) fn downgrade(task: &Task, each: Dtype, executed: &[String]) -> Option<String> {
    let Policy::Derived { accumulate } = task.tolerance.policy else { return None };
    let inputs = task.data.inputs.iter().map(|input| input.dtype.with(each));
    let outputs = task.data.outputs.iter().map(|output| output.dtype.with(each));
    let tensors = inputs.chain(outputs).map(digits).min().unwrap_or(24);
    let multiplied = match accumulate {
        Accumulate::TensorF16 => tensors.min(8),
        Accumulate::TensorFp8 => tensors.min(3),
        _ => tensors,
    };
    let sums = digits(accumulate.dtype());
    let floats = task.data.inputs.iter().all(|input| !input.dtype.with(each).is_integer());
    let distinct: BTreeSet<&str> = executed.iter().map(|text| opcode(text)).collect();
    distinct.into_iter().find_map(|opcode| {
        let why = if floats { quantized(opcode) } else { None };
        let why = why.or_else(|| too_narrow(opcode, tensors.min(sums), multiplied, sums))?;
        Some(format!("the executed instruction `{opcode}` {why}"))
    })
}

/// `@%p1 fma.rn.f32 %f1, …` is `fma.rn.f32`.
fn opcode(text: &str) -> &str {
    let text = text.trim_start();
    let text = match text.strip_prefix('@') {
        Some(guarded) => guarded.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim_start()),
        None => text,
    };
    text.split([' ', '\t', ';']).next().unwrap_or_default()
}

/// Products of small integers in a task without integer tensors.
fn quantized(opcode: &str) -> Option<String> {
    let mut words = opcode.split('.');
    let base = words.next().unwrap_or_default();
    let small = words.find(|word| INTEGERS.contains(word));
    match base {
        "dp4a" | "dp2a" => Some("multiplies 8-bit integers; the task has no integer tensors".to_owned()),
        "mma" | "wmma" => {
            small.map(|small| format!("multiplies integers of type {small}; the task has no integer tensors"))
        }
        _ => None,
    }
}

fn too_narrow(opcode: &str, held: u32, multiplied: u32, sums: u32) -> Option<String> {
    let mut words = opcode.split('.');
    let base = words.next().unwrap_or_default();
    let types: Vec<(&str, u32)> =
        words.filter_map(|word| NARROW.iter().find(|(name, _)| *name == word).copied()).collect();
    let (narrowest, least) = types.iter().min_by_key(|(_, digits)| *digits).copied()?;
    // Loads and stores of fragments only move data.
    if base == "wmma" && !opcode.contains(".mma.") {
        return (least < held.min(multiplied))
            .then(|| format!("moves {narrowest}; the task has no tensor of that type"));
    }
    if matches!(base, "mma" | "wmma" | "wgmma") {
        // `.d.a.b.c`: the two in the middle are multiplied.
        let all: Vec<&str> = opcode.split('.').collect();
        let of =
            |name: &str| NARROW.iter().find(|(narrow, _)| *narrow == name).map_or(24, |(_, digits)| *digits);
        let sum = all.last().map_or(24, |last| of(last));
        if sum < sums {
            return Some(format!("keeps sums with {sum} significand bits; the task requires {sums}"));
        }
        // `wmma.mma` names the types of the sums alone.
        return (base != "wmma" && least < multiplied).then(|| {
            format!("multiplies {narrowest}; the task's tensors have {multiplied} significand bits")
        });
    }
    if ARITHMETIC.contains(&base) && least < sums {
        return Some(format!("computes in {narrowest}; the task keeps sums with {sums} significand bits"));
    }
    (least < held.min(multiplied))
        .then(|| format!("uses {narrowest}; the task's narrowest type has {held} significand bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_work_is_told_and_wide_work_is_not() {
        // held, multiplied, sums
        let f32_task = (24, 24, 24);
        let half_task = (11, 11, 24);
        let tensor_task = (11, 8, 24);
        let fp8_task = (4, 3, 24);
        let told =
            |opcode: &str, (held, multiplied, sums)| too_narrow(opcode, held, multiplied, sums).is_some();
        assert!(told("cvt.rn.f16.f32", f32_task));
        assert!(told("cvt.rna.tf32.f32", f32_task));
        assert!(told("fma.rn.f16x2", half_task));
        assert!(!told("cvt.f32.f16", half_task));
        assert!(!told("cvt.rn.f16.f32", half_task));
        assert!(!told("fma.rn.f32", f32_task));
        assert!(told("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", tensor_task));
        assert!(!told("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", tensor_task));
        assert!(told("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", f32_task));
        assert!(told("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", tensor_task));
        assert!(!told("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", fp8_task));
        assert!(told("red.global.add.noftz.f16x2", half_task));
        assert!(!told("atom.global.add.f32", f32_task));
        assert!(!told("wmma.load.a.sync.aligned.row.m16n16k16.global.f16", tensor_task));
        assert!(!told("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", tensor_task));
        assert!(told("wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16", tensor_task));
        assert!(quantized("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32").is_some());
        assert!(quantized("dp4a.s32.s32").is_some());
        assert!(quantized("fma.rn.f32").is_none());
        assert_eq!(opcode("@%p1 fma.rn.f32 %f1, %f2;"), "fma.rn.f32");
        assert_eq!(opcode("ret;"), "ret");
    }
}
