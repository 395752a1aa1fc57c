//! Static facts about the instructions of a kernel that the counters need: computed once per program, then looked up by
//! index.

use super::atomics::Atomics;
use super::counters::{Flow, MemoryOp};
use crate::isa::{self, Unit};
use crate::machine::at;
use crate::program::Program;

/// One instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    /// Its number among the instructions with a guard.
    pub guard: Option<u32>,
    /// Its memory operation, if it has one.
    pub op: MemoryOp,
    /// Its control-flow kind.
    pub flow: Flow,
    /// The pipe it runs on.
    pub pipe: Unit,
    /// Whether it loads past L1.
    pub uncached: bool,
    /// Whether ptxas merges the lanes of a warp into one operation if they all use one address.
    pub merges: bool,
}

/// The instructions of a program by number.
#[derive(Debug)]
pub(crate) struct Sites {
    sites: Vec<Site>,
    /// The number of instructions with a guard.
    pub guards: usize,
}

const NOTHING: Site = Site {
    guard: None,
    op: MemoryOp::Other,
    flow: Flow::Next,
    pipe: Unit::None,
    uncached: false,
    merges: false,
};

impl Sites {
    pub(crate) fn of(program: &Program) -> Sites {
        let mut guards = 0u32;
        let mut sites = Vec::with_capacity(program.code.len());
        let atomics = Atomics::of(program);
        for (pc, inst) in program.code.iter().enumerate() {
            let guard = inst.guard.is_some().then_some(guards);
            guards += u32::from(guard.is_some());
            let opcode = opcode(program, pc);
            let entry = program.metas.get(pc).and_then(|meta| meta.entry);
            let pipe = entry.and_then(|i| isa::table().get(i)).map_or(Unit::None, |entry| entry.op.unit);
            let op = match op(opcode) {
                MemoryOp::Atomic if atomics.reduces(program, pc, opcode) => MemoryOp::Reduction,
                op => op,
            };
            let merges = atomics.merges(program, pc, opcode);
            sites.push(Site { guard, op, flow: flow(opcode), pipe, uncached: uncached(opcode), merges });
        }
        Sites { sites, guards: at(guards) }
    }

    /// An instruction by its number.
    #[inline]
    pub(crate) fn get(&self, pc: u32) -> Site {
        self.sites.get(at(pc)).copied().unwrap_or(NOTHING)
    }
}

/// The opcode of an instruction with its modifiers. Instructions without a table entry do not occur in the text; the
/// simulator adds them to pass parameters that are registers, at the beginning of a function or at its `ret`.
pub(crate) fn opcode(program: &Program, pc: usize) -> &str {
    let held = program.metas.get(pc).is_some_and(|meta| meta.entry.is_some());
    if held { program.opcode(pc) } else { "(parameter)" }
}

fn op(opcode: &str) -> MemoryOp {
    let mut words = opcode.split('.');
    match (words.next().unwrap_or(""), words.next().unwrap_or("")) {
        ("ld" | "ldu", _) => MemoryOp::Load,
        ("st", _) => MemoryOp::Store,
        ("atom", _) => MemoryOp::Atomic,
        ("red", _) => MemoryOp::Reduction,
        ("cp", "async") if !opcode.contains("mbarrier") => MemoryOp::AsyncCopy,
        ("ldmatrix", _) => MemoryOp::LoadMatrix,
        ("stmatrix", _) => MemoryOp::StoreMatrix,
        ("wmma", "load") => MemoryOp::LoadTile,
        ("wmma", "store") => MemoryOp::StoreTile,
        ("mbarrier" | "cp", _) => MemoryOp::Mbarrier,
        _ => MemoryOp::Other,
    }
}

/// Whether a load bypasses L1: because of its cache operator, or because other threads may write the location.
fn uncached(opcode: &str) -> bool {
    let mut words = opcode.split('.');
    let load = matches!(words.next(), Some("ld" | "cp"));
    let near = opcode.contains(".cta");
    load && words.any(|word| match word {
        "cg" | "cv" | "volatile" | "mmio" => true,
        "relaxed" | "acquire" => !near,
        _ => false,
    })
}

fn flow(opcode: &str) -> Flow {
    match opcode.split('.').next().unwrap_or("") {
        "bra" => Flow::Branch,
        "brx" => Flow::Table,
        "call" => Flow::Call,
        "ret" => Flow::Return,
        "exit" => Flow::Exit,
        _ => Flow::Next,
    }
}

/// The shape and types of a matrix product, such as `m16n8k32.f32.e4m3.e4m3.f32`; `None` for anything else.
pub(crate) fn tensor(opcode: &str) -> Option<String> {
    let mut words = opcode.split('.');
    let product = match words.next()? {
        "mma" => true,
        "wmma" => opcode.contains(".mma."),
        _ => false,
    };
    if !product {
        return None;
    }
    let is_shape_or_type = |word: &&str| {
        let shape = word.starts_with('m') && word.contains('n') && word.contains('k');
        shape
            || crate::machine::Type::parse(word).is_some()
            || matches!(*word, "bf16" | "tf32" | "e4m3" | "e5m2" | "s4" | "u4" | "b1" | "sp" | "xor" | "and")
            || word.starts_with("sp::")
    };
    Some(words.filter(is_shape_or_type).collect::<Vec<_>>().join("."))
}

/// Multiply-adds of one execution by a warp, from a shape as [`Totals::tensor`](super::Totals::tensor) names it.
pub fn multiply_adds(shape: &str) -> u64 {
    let extent = |name: char, text: &str| -> Option<(u64, usize)> {
        let start = text.find(name)? + 1;
        let digits: String = text[start..].chars().take_while(char::is_ascii_digit).collect();
        Some((digits.parse().ok()?, start + digits.len()))
    };
    let product = || {
        let (m, rest) = extent('m', shape)?;
        let shape = shape.get(rest..)?;
        let (n, rest) = extent('n', shape)?;
        let (k, _) = extent('k', shape.get(rest..)?)?;
        Some(m * n * k)
    };
    product().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_say_what_they_do() {
        assert_eq!(op("ld.global.nc.v4.f32"), MemoryOp::Load);
        assert_eq!(op("cp.async.cg.shared.global"), MemoryOp::AsyncCopy);
        assert_eq!(op("cp.async.mbarrier.arrive.b64"), MemoryOp::Mbarrier);
        assert_eq!(op("add.u32"), MemoryOp::Other);
        for (opcode, past) in [
            ("ld.global.cg.u32", true),
            ("ld.volatile.global.u32", true),
            ("ld.acquire.gpu.global.u32", true),
            ("ld.relaxed.cta.global.u32", false),
            ("ld.global.nc.v4.f32", false),
            ("cp.async.cg.shared.global", true),
            ("cp.async.ca.shared.global", false),
            ("st.global.cg.u32", false),
        ] {
            assert_eq!(uncached(opcode), past, "{opcode}");
        }
        assert_eq!(
            (flow("bra.uni"), flow("brx.idx"), flow("mov.b32")),
            (Flow::Branch, Flow::Table, Flow::Next)
        );
    }

    #[test]
    fn products_have_shapes() {
        let fp8 = tensor("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32").unwrap();
        assert_eq!(fp8, "m16n8k32.f32.e4m3.e4m3.f32");
        assert_eq!(multiply_adds(&fp8), 16 * 8 * 32);
        let wmma = tensor("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32").unwrap();
        assert_eq!((wmma.as_str(), multiply_adds(&wmma)), ("m16n16k16.f32.f32", 4096));
        assert_eq!(tensor("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16"), None);
        assert_eq!(tensor("mad.lo.s32"), None);
    }
}
