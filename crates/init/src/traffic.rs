//! Analyzes how a kernel's PTX uses its parameters, and how it divides work among blocks.

use std::collections::{BTreeMap, BTreeSet};

use warpproof_ptx::{Argument, Function, Instruction, Operand, Space, Statement};
use warpproof_task::dtype::Dtype;

/// Maximum passes over a kernel until the contents of registers are known; loops carry addresses back to registers of
/// earlier lines.
const ROUNDS: usize = 16;

/// How a kernel accesses an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Whether it reads it.
    pub read: bool,
    /// Whether it writes it.
    pub written: bool,
    /// Whether it changes it with atomics.
    pub atomic: bool,
}

/// A parameter as the PTX declares and uses it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Its bytes.
    pub bytes: u64,
    /// Its type.
    pub declared: String,
    /// Whether it is used as an address.
    pub address: bool,
    /// How its target is accessed.
    pub access: Access,
    /// The type of the first access.
    pub ty: Option<String>,
    /// Whether the first access is a vector access.
    pub vector: bool,
    /// Whether the PTX declares it as a pointer, as LLVM does.
    pub pointer: bool,
    /// The 16-bit format that the kernel converts from or to, if there is only one.
    pub half: Option<Dtype>,
}

/// The part of the work that a block does along an axis of the grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// All: the kernel does not read its block index.
    #[default]
    Whole,
    /// One for each block.
    Block,
    /// One for each thread.
    Thread,
    /// This number for each block.
    Tile(u32),
}

/// How a kernel divides work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Geometry {
    /// Along x and y.
    pub shares: [Share; 2],
    /// Whether it reads its block index along x, y and z.
    pub grid: [bool; 3],
    /// The tile of a block along x, if each thread processes the element with its own index: as many threads as
    /// elements.
    pub tile_of_threads: Option<u32>,
    /// Whether it uses a grid-stride loop: any number of blocks works.
    pub strides: bool,
    /// Whether it uses `threadIdx.y`.
    pub two_dimensional: bool,
    /// Whether it has dynamic shared memory.
    pub dynamic_shared: bool,
    /// Whether it uses tensor cores, and whether on 8 bits.
    pub tensor_cores: Option<bool>,
    /// The threads that it requires, or its launch bounds.
    pub bound: Option<[u32; 3]>,
}

/// Analyzes one kernel of a PTX module.
pub fn look(ptx: &str, symbol: &str) -> Option<(Vec<Traffic>, Geometry)> {
    let (module, _) = warpproof_ptx::parse(ptx);
    let function = module.functions().find(|function| function.entry && function.name == symbol)?;
    let mut instructions = Vec::new();
    let mut pending: Vec<&[Statement<'_>]> = function.body.iter().map(Vec::as_slice).collect();
    while let Some(statements) = pending.pop() {
        for statement in statements {
            match statement {
                Statement::Instruction(instruction) => instructions.push(instruction),
                Statement::Block(block) => pending.push(&block.statements),
                _ => {}
            }
        }
    }
    let dynamic = module.variables().any(|variable| {
        variable.space == Space::Shared
            && variable
                .names
                .iter()
                .any(|name| name.dimensions.iter().any(|extent| extent.is_none_or(|extent| extent == 0)))
    });
    let mut geometry = divide(&instructions);
    geometry.dynamic_shared = dynamic;
    geometry.bound = bound(function);
    Some((follow(function, &instructions), geometry))
}

fn bound(function: &Function<'_>) -> Option<[u32; 3]> {
    let directive = function.directives.iter().find(|d| matches!(d.name, "maxntid" | "reqntid"))?;
    let mut extents = [1; 3];
    for (extent, argument) in extents.iter_mut().zip(&directive.arguments) {
        let Argument::Integer(number) = argument else { return None };
        *extent = u32::try_from(number.bits()).ok().filter(|extent| (1..=1024).contains(extent))?;
    }
    Some(extents)
}

fn name_of<'a>(operand: &'a Operand<'_>) -> Option<&'a str> {
    match operand {
        Operand::Name(name) => Some(name),
        _ => None,
    }
}

fn base_of<'a>(operand: &'a Operand<'_>) -> Option<&'a str> {
    match operand {
        Operand::Address(address) => address.base,
        _ => None,
    }
}

/// The parameters that each register's address is derived from, and the accesses to it.
fn follow(function: &Function<'_>, instructions: &[&Instruction<'_>]) -> Vec<Traffic> {
    let uses = |name: &str| instructions.iter().any(|instruction| instruction.has(name));
    let half = match (uses("f16") || uses("f16x2"), uses("bf16") || uses("bf16x2")) {
        (true, false) => Some(Dtype::F16),
        (false, true) => Some(Dtype::Bf16),
        _ => None,
    };
    let mut all = Vec::with_capacity(function.params.len());
    let mut names = BTreeMap::new();
    for (at, parameter) in function.params.iter().enumerate() {
        let count = parameter.names.first().map_or(1, |name| {
            name.dimensions.iter().fold(1u64, |all, extent| all.saturating_mul(extent.unwrap_or(0)))
        });
        let bits = warpproof_ptx::type_bits(parameter.ty).unwrap_or(8);
        let bytes = count.saturating_mul(u64::from(bits / 8));
        if let Some(name) = parameter.names.first() {
            names.insert(name.name, at);
        }
        let pointer = parameter.pointer.is_some();
        all.push(Traffic {
            bytes,
            declared: parameter.ty.to_owned(),
            address: pointer,
            pointer,
            half,
            ..Traffic::default()
        });
    }
    let mut held: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for _ in 0..ROUNDS {
        let mut changed = false;
        for instruction in instructions {
            let Some(to) = instruction.operands.first().and_then(name_of) else { continue };
            let mut from: BTreeSet<usize> = BTreeSet::new();
            match instruction.opcode {
                "ld" if instruction.has("param")
                    && instruction.modifiers.last().is_some_and(|ty| ty.ends_with("64")) =>
                {
                    from.extend(
                        instruction.operands.get(1).and_then(base_of).and_then(|name| names.get(name)),
                    );
                }
                // An addend to an address is an offset; parameters that are numbers are separated from addresses
                // below.
                "mov" | "cvta" | "add" | "sub" | "mad" | "selp" | "or" => {
                    for name in instruction.operands.iter().skip(1).filter_map(name_of) {
                        from.extend(held.get(name).into_iter().flatten());
                    }
                }
                _ => continue,
            }
            if instruction.opcode == "cvta" {
                for at in &from {
                    if let Some(seen) = all.get_mut(*at) {
                        seen.address = true;
                    }
                }
            }
            if !from.is_empty() {
                let before = held.entry(to).or_default();
                let count = before.len();
                before.extend(from);
                changed |= before.len() > count;
            }
        }
        if !changed {
            break;
        }
    }
    for instruction in instructions {
        let (place, access) = match instruction.opcode {
            "ld" | "ldu" if !instruction.has("param") => (1, Access { read: true, ..Access::default() }),
            "st" => (0, Access { written: true, ..Access::default() }),
            "atom" => (1, Access { atomic: true, read: true, written: true }),
            "red" => (0, Access { atomic: true, read: true, written: true }),
            "cp" => (1, Access { read: true, ..Access::default() }),
            _ => continue,
        };
        if instruction.has("shared") && instruction.opcode != "cp" {
            continue;
        }
        let Some(base) = instruction.operands.get(place).and_then(base_of) else { continue };
        // A single parameter is the address, whether or not it was converted; among several, only those known to be
        // addresses.
        if let Some(only) = held.get(base).filter(|from| from.len() == 1).and_then(|from| from.first())
            && let Some(seen) = all.get_mut(*only)
        {
            seen.address = true;
        }
        let only_addresses = |at: &&usize| all.get(**at).is_some_and(|seen| seen.address);
        let places: Vec<usize> =
            held.get(base).into_iter().flatten().filter(only_addresses).copied().collect();
        for at in places {
            let Some(seen) = all.get_mut(at) else { continue };
            seen.access.read |= access.read;
            seen.access.written |= access.written;
            seen.access.atomic |= access.atomic;
            if seen.ty.is_none() && instruction.opcode != "cp" {
                seen.ty = instruction.modifiers.last().map(|ty| (*ty).to_owned());
                seen.vector = ["v2", "v4", "v8"].iter().any(|count| instruction.has(count));
            }
        }
    }
    all
}

fn divide(instructions: &[&Instruction<'_>]) -> Geometry {
    let mut geometry = Geometry::default();
    // Which registers hold special registers.
    let mut special: BTreeMap<&str, &str> = BTreeMap::new();
    for instruction in instructions {
        if let (Some(to), Some(from)) =
            (instruction.operands.first().and_then(name_of), instruction.operands.get(1).and_then(name_of))
            && matches!(instruction.opcode, "mov" | "cvt")
        {
            let known = special.get(from).copied();
            if let Some(name) = known.or(from.strip_prefix('%').filter(|name| name.contains("id."))) {
                special.insert(to, name);
            }
        }
        if matches!(instruction.opcode, "mma" | "wmma" | "wgmma") {
            let narrow = instruction.has("e4m3") || instruction.has("e5m2");
            geometry.tensor_cores = Some(geometry.tensor_cores.unwrap_or(false) || narrow);
        }
    }
    let uses = |name: &str| special.values().any(|used| *used == name);
    geometry.two_dimensional = uses("tid.y");
    geometry.strides = uses("nctaid.x");
    geometry.grid = ["ctaid.x", "ctaid.y", "ctaid.z"].map(uses);
    for (share, (block, threads)) in
        geometry.shares.iter_mut().zip([("ctaid.x", "ntid.x"), ("ctaid.y", "ntid.y")])
    {
        if !uses(block) {
            continue;
        }
        *share = Share::Block;
        for instruction in instructions {
            let of = |at: usize| {
                instruction.operands.get(at).and_then(name_of).and_then(|name| special.get(name)).copied()
            };
            let number = |at: usize| match instruction.operands.get(at) {
                Some(Operand::Integer(number)) => u32::try_from(number.bits()).ok(),
                _ => None,
            };
            let (first, second) = match (of(1), of(2)) {
                (Some(name), _) if name == block => (1, 2),
                (_, Some(name)) if name == block => (2, 1),
                _ => continue,
            };
            let found = match instruction.opcode {
                "mul" | "mad" if of(second) == Some(threads) => Some(Share::Thread),
                "mul" | "mad" => number(second).map(Share::Tile),
                "shl" if first == 1 => number(2).and_then(|by| 1u32.checked_shl(by)).map(Share::Tile),
                _ => None,
            };
            if let Some(found) = found {
                *share = found;
                if let Share::Tile(tile) = found
                    && block == "ctaid.x"
                    && (1..=1024).contains(&tile)
                    && adds_thread(instructions, instruction, &special)
                {
                    geometry.tile_of_threads = Some(tile);
                }
                break;
            }
        }
    }
    geometry
}

/// Whether the thread index is added to the result of an instruction, by that instruction or by another.
fn adds_thread(
    instructions: &[&Instruction<'_>],
    product: &Instruction<'_>,
    special: &BTreeMap<&str, &str>,
) -> bool {
    let is_thread =
        |operand: &Operand<'_>| name_of(operand).and_then(|name| special.get(name)) == Some(&"tid.x");
    if product.opcode == "mad" {
        return product.operands.get(3).is_some_and(is_thread);
    }
    let Some(result) = product.operands.first().and_then(name_of) else { return false };
    instructions.iter().any(|instruction| {
        let from = instruction.operands.get(1..).unwrap_or_default();
        matches!(instruction.opcode, "add" | "or")
            && from.iter().any(|operand| name_of(operand) == Some(result))
            && from.iter().any(is_thread)
    })
}
