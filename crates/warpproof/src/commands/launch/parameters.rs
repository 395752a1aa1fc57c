//! The kernel's parameters: their form in messages, and whether arguments match them.

use warpproof_gate::parameter::Packed;
use warpproof_ptx::{Operand, Statement};
use warpproof_sim::Kernel;
use warpproof_sim::program::Parameter;
use warpproof_task::dtype::Dtype;
use warpproof_toolchain::Source;

use super::spec::{ArgumentValue, Spec};
use crate::report::{Kind, Report};
use warpproof_toolchain::symbol;

/// The kernel's parameters for messages: as the source declares them, or as the module does.
pub(crate) fn shown(kernel: &Kernel, source: &Source) -> String {
    let program = kernel.program();
    let called = symbol::name(&program.name);
    let called = called.rsplit("::").next().unwrap_or(&called);
    if let Some(list) = declared(&source.text, called.split('<').next().unwrap_or(called)) {
        let several = list.split(',').filter(|part| !part.trim().is_empty()).count();
        // Commas of template arguments would split the list in wrong places.
        if several == program.params.len() {
            return format!("{called}({list})");
        }
    }
    if let Some(signature) = symbol::signature(&program.name) {
        return signature;
    }
    let all: Vec<String> = program.params.iter().map(|p| format!("{} {}", in_ptx(p), p.name)).collect();
    format!("{}({})", program.name, all.join(", "))
}

/// The parameter list of a kernel in CUDA C++, its blanks as single spaces.
fn declared(text: &str, name: &str) -> Option<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for (global, _) in text.match_indices("__global__") {
        // Up to the body or the end of a declaration.
        let rest = text.get(global..)?;
        let head = rest.get(..rest.find(['{', ';'])?)?;
        for (at, _) in head.match_indices(name) {
            let (before, after) = (head.get(..at)?, head.get(at + name.len()..)?);
            if before.ends_with(is_part) {
                continue;
            }
            if let Some(list) = after.trim_start().strip_prefix('(') {
                let list = list.get(..list.rfind(')')?)?;
                return Some(list.split_whitespace().collect::<Vec<_>>().join(" "));
            }
        }
    }
    None
}

/// The type as the PTX declares it.
fn in_ptx(parameter: &Parameter) -> String {
    let single = match parameter.ty.as_str() {
        "b8" | "u8" | "s8" => 1,
        "b16" | "u16" | "s16" | "f16" => 2,
        "b32" | "u32" | "s32" | "f32" => 4,
        _ => 8,
    };
    if parameter.size == single {
        format!(".{}", parameter.ty)
    } else {
        format!("struct of {} bytes", parameter.size)
    }
}

/// Checks the arguments against the kernel's parameters: their number, their order if names determine it,
/// sizes and types. Structs get the trailing padding of their parameter.
pub(crate) fn check(
    specs: &[Spec],
    packed: &mut [Packed],
    kernel: &Kernel,
    source: &Source,
) -> Result<(), Box<Report>> {
    let program = kernel.program();
    let name = symbol::name(&program.name);
    let help = || format!("the kernel is {}", shown(kernel, source));
    let wrong = |sentence: String| Box::new(Report::error(Kind::Usage, sentence).help(help()));
    let types = symbol::parameters(&program.name).filter(|types| types.len() == program.params.len());
    if specs.len() != program.params.len() {
        let count = |n: usize| if n == 1 { "1 argument".to_owned() } else { format!("{n} arguments") };
        let (given, taken) = (count(specs.len()), count(program.params.len()));
        let verb = if specs.len() == 1 { "is" } else { "are" };
        return Err(wrong(format!("kernel `{name}` takes {taken}, but {given} {verb} given")));
    }
    for (i, ((spec, packed), parameter)) in specs.iter().zip(packed).zip(&program.params).enumerate() {
        let elsewhere = program.params.iter().position(|other| other.name == spec.name);
        if let Some(other) = elsewhere.filter(|other| *other != i) {
            let (other, i) = (other + 1, i + 1);
            return Err(wrong(format!(
                "argument `{}` is in position {i}, but parameter {other} of the kernel has this name",
                spec.name
            )));
        }
        let in_source = types.as_ref().and_then(|types| types.get(i)).map(|name| format!("`{name}`"));
        let takes = in_source.unwrap_or_else(|| format!("a {}", in_ptx(parameter)));
        if packed.is_structure() {
            let align = usize::try_from(parameter.align).unwrap_or(1);
            *packed = std::mem::take(packed).padded(size_of(parameter), align);
            if packed.size() != size_of(parameter) {
                let reads = reads(program.text(), &program.name, &parameter.name);
                let sentence = format!(
                    "argument `{}` is a struct of {} bytes, but parameter {} of `{name}`, {takes}, has {}",
                    spec.name,
                    packed.size(),
                    i + 1,
                    parameter.size
                );
                let report = Report::error(Kind::Usage, sentence);
                let report = report.note(format!("the argument has {packed}"), None);
                let report = if reads.is_empty() {
                    report
                } else {
                    report.note(format!("the kernel reads at least {reads}"), None)
                };
                return Err(Box::new(
                    report.help("place a member with name@offset, or add the missing members"),
                ));
            }
        }
        fits(spec, parameter, &takes).map_err(|cause| {
            let position = i + 1;
            wrong(format!(
                "argument `{}` does not match parameter {position} of `{name}`: {cause}",
                spec.name
            ))
        })?;
    }
    Ok(())
}

fn size_of(parameter: &Parameter) -> usize {
    usize::try_from(parameter.size).unwrap_or(usize::MAX)
}

/// The bytes of a parameter that the kernel loads, by offset: `8 bytes at 0, 4 bytes at 16`.
fn reads(ptx: &str, kernel: &str, parameter: &str) -> String {
    let (module, _) = warpproof_ptx::parse(ptx);
    let mut loads = std::collections::BTreeSet::new();
    let mut pending: Vec<&[Statement<'_>]> = module
        .functions()
        .filter(|function| function.name == kernel)
        .filter_map(|function| function.body.as_deref())
        .collect();
    while let Some(statements) = pending.pop() {
        for statement in statements {
            match statement {
                Statement::Block(block) => pending.push(&block.statements),
                Statement::Instruction(one) if one.opcode == "ld" && one.modifiers.contains(&"param") => {
                    let vector = one.modifiers.iter().find_map(|word| word.strip_prefix('v')?.parse().ok());
                    let bits = one.modifiers.last().and_then(|ty| warpproof_ptx::type_bits(ty)).unwrap_or(0);
                    for operand in &one.operands {
                        if let Operand::Address(address) = operand
                            && address.base == Some(parameter)
                        {
                            loads.insert((address.offset, bits / 8 * vector.unwrap_or(1u32)));
                        }
                    }
                }
                _ => {}
            }
        }
    }
    let loads: Vec<String> = loads.iter().map(|(at, bytes)| format!("{bytes} bytes at {at}")).collect();
    loads.join(", ")
}

/// Whether an argument can be passed; `takes` is the parameter's type in messages.
fn fits(spec: &Spec, parameter: &Parameter, takes: &str) -> Result<(), String> {
    match &spec.value {
        ArgumentValue::Struct(_) => Ok(()),
        ArgumentValue::Map(_) if parameter.size == 128 => Ok(()),
        ArgumentValue::Map(_) => Err(format!("expected {takes}, found a tensor map, which has 128 bytes")),
        ArgumentValue::Array { .. } | ArgumentValue::Alias { .. } | ArgumentValue::Earlier
            if parameter.size == 8 && parameter.ty != "f64" =>
        {
            Ok(())
        }
        ArgumentValue::Array { .. } | ArgumentValue::Alias { .. } | ArgumentValue::Earlier => {
            Err(format!("expected {takes}, found the address of an array"))
        }
        ArgumentValue::ByValue(codes) => {
            let bytes = codes.len().saturating_mul(spec.element.size());
            if u32::try_from(bytes).ok() != Some(parameter.size) {
                return Err(format!("expected {takes}, found a value of {bytes} bytes"));
            }
            // Only a declared floating-point type determines the meaning of the bits; signed and unsigned
            // integers are both `.u32`.
            let real = match parameter.ty.as_str() {
                "f32" => Some(Dtype::F32),
                "f64" => Some(Dtype::F64),
                _ => None,
            };
            let clashes = match real {
                Some(real) => spec.element != real,
                None => {
                    matches!(parameter.ty.as_str(), "u32" | "s32" | "u64" | "s64")
                        && !spec.element.is_integer()
                }
            };
            if clashes {
                Err(format!("expected {takes}, found a value of type {}", spec.element.name()))
            } else {
                Ok(())
            }
        }
    }
}
