//! The kernels that a module declares.

use warpproof_ptx::{Argument, Function, Space, Statement, parse};

use warpproof_toolchain::symbol;

/// A kernel of a module.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    /// Its name in the module.
    pub(super) symbol: String,
    /// Its name without C++ mangling, if it has any.
    pub(super) name: String,
    /// The most threads a block may have.
    pub(super) launch_bound: Option<u32>,
    /// Why it may have a stack frame.
    pub(super) stack: Stack,
}

/// Where a stack frame comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stack {
    /// The kernel declares local memory and calls nothing: an array that registers cannot hold.
    LocalArray,
    /// It may come from a call.
    Unknown,
}

/// The kernels of a module, in its order.
pub(super) fn all(ptx: &str) -> Vec<Kernel> {
    let (module, _) = parse(ptx);
    let functions = module.functions().filter(|function| function.entry && function.body.is_some());
    functions
        .map(|function| Kernel {
            symbol: function.name.to_owned(),
            name: symbol::name(function.name),
            launch_bound: launch_bound(function),
            stack: stack(function),
        })
        .collect()
}

/// `.maxntid` or `.reqntid`, all dimensions multiplied.
fn launch_bound(function: &Function<'_>) -> Option<u32> {
    let directive = function.directives.iter().find(|d| matches!(d.name, "maxntid" | "reqntid"))?;
    let mut threads: u32 = 1;
    for argument in &directive.arguments {
        let Argument::Integer(number) = argument else { return None };
        threads = threads.checked_mul(u32::try_from(number.bits()).ok()?)?;
    }
    Some(threads).filter(|threads| (1..=1024).contains(threads))
}

fn stack(function: &Function<'_>) -> Stack {
    let mut declares_local = false;
    let mut pending: Vec<&[Statement<'_>]> = function.body.iter().map(Vec::as_slice).collect();
    while let Some(statements) = pending.pop() {
        for statement in statements {
            match statement {
                Statement::Instruction(instruction) if instruction.opcode == "call" => return Stack::Unknown,
                Statement::Variable(variable) => declares_local |= variable.space == Space::Local,
                Statement::Block(block) => pending.push(&block.statements),
                _ => {}
            }
        }
    }
    if declares_local { Stack::LocalArray } else { Stack::Unknown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_and_local_memory_are_read_from_the_module() {
        let ptx = ".version 8.8\n.target sm_89\n.address_size 64\n\
                   .visible .entry a()\n.maxntid 16, 8, 1\n{\n.local .align 4 .b8 d[64];\nret;\n}\n\
                   .visible .entry b()\n{\nret;\n}\n.func f()\n{\nret;\n}\n";
        let kernels = all(ptx);
        assert_eq!(kernels.len(), 2);
        assert_eq!((kernels[0].launch_bound, kernels[0].stack), (Some(128), Stack::LocalArray));
        assert_eq!((kernels[1].launch_bound, kernels[1].stack), (None, Stack::Unknown));
    }
}
