//! Static facts about the instructions of a kernel that the counters need: computed once per program, then looked up by
//! index.

use super::atomics::Atomics;
use super::counters::{Flow, MemoryOp};
use warpproof_sim::isa::op::{
    CacheOperator, Control, Copies, Element, MemoryKind, Scope, Semantics, Sparsity,
};
use warpproof_sim::isa::{self, Op, Unit};
use warpproof_sim::machine::at;
use warpproof_sim::program::Program;

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
            let meta = &program.metas[pc];
            let entry = meta.entry.and_then(|i| isa::table().get(i));
            let pipe = entry.map_or(Unit::None, |entry| entry.definition.unit);
            let op = match memory_op(&meta.op) {
                MemoryOp::Atomic if atomics.reduces(program, pc) => MemoryOp::Reduction,
                op => op,
            };
            let merges = atomics.merges(program, pc);
            let uncached = uncached(&meta.op);
            sites.push(Site { guard, op, flow: flow(&meta.op), pipe, uncached, merges });
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
pub(crate) fn opcode(program: &Program, pc: usize) -> String {
    match program.metas.get(pc).map(|meta| &meta.op) {
        None | Some(Op::Parameter | Op::Refused) => "(parameter)".to_owned(),
        Some(_) => program.opcode(pc).to_string(),
    }
}

fn memory_op(op: &Op) -> MemoryOp {
    // An instruction for asynchronous copies goes through the same queue as an mbarrier.
    let effects = op.effects();
    if effects.copies == Copies::Bulk {
        return MemoryOp::Bulk;
    }
    let Some(memory) = effects.memory else {
        return match effects.copies {
            Copies::None => MemoryOp::Other,
            Copies::Start | Copies::Commit | Copies::Wait(_) | Copies::WaitAll | Copies::Arrive => {
                MemoryOp::AsyncCopy
            }
            Copies::Bulk | Copies::BulkCommit | Copies::BulkWait => MemoryOp::Bulk,
        };
    };
    match memory.kind {
        MemoryKind::Load => MemoryOp::Load,
        MemoryKind::Store => MemoryOp::Store,
        MemoryKind::Atomic => MemoryOp::Atomic,
        MemoryKind::Reduce => MemoryOp::Reduction,
        MemoryKind::AsyncCopy => MemoryOp::AsyncCopy,
        MemoryKind::LoadMatrix => MemoryOp::LoadMatrix,
        MemoryKind::StoreMatrix => MemoryOp::StoreMatrix,
        MemoryKind::LoadTile => MemoryOp::LoadTile,
        MemoryKind::StoreTile => MemoryOp::StoreTile,
        MemoryKind::Texture => MemoryOp::Texture,
        MemoryKind::SurfaceLoad => MemoryOp::SurfaceLoad,
        MemoryKind::SurfaceStore => MemoryOp::SurfaceStore,
        MemoryKind::SurfaceReduce => MemoryOp::SurfaceReduction,
        MemoryKind::Mbarrier => MemoryOp::Mbarrier,
        MemoryKind::Hint | MemoryKind::Discard => MemoryOp::Other,
    }
}

/// Whether a load goes past the first-level cache: by its cache operator, or because others may write what it reads.
fn uncached(op: &Op) -> bool {
    let past = |cache: CacheOperator| match cache {
        CacheOperator::Cg | CacheOperator::Cv => true,
        CacheOperator::Ca | CacheOperator::Cs | CacheOperator::Lu | CacheOperator::Wb | CacheOperator::Wt => {
            false
        }
    };
    match op {
        Op::CopyAsync(copy) => past(copy.cache),
        Op::Load(load) => {
            load.cache.is_some_and(past)
                || match load.semantics {
                    Semantics::Weak => false,
                    Semantics::Volatile | Semantics::Mmio => true,
                    Semantics::Relaxed
                    | Semantics::Acquire
                    | Semantics::Release
                    | Semantics::AcquireRelease => load.scope != Some(Scope::Cta),
                }
        }
        _ => false,
    }
}

fn flow(op: &Op) -> Flow {
    match op.effects().control {
        Control::Branch => Flow::Branch,
        Control::Table => Flow::Table,
        Control::Call => Flow::Call,
        Control::Return => Flow::Return,
        Control::Exit => Flow::Exit,
        Control::Next | Control::Trap => Flow::Next,
    }
}

/// The shape and types of a matrix product, such as `m16n8k32.f32.e4m3.e4m3.f32`; `None` for anything else.
pub(crate) fn tensor(op: &Op) -> Option<String> {
    if let Op::MultiplyAsync(product) = op {
        let ([m, n, k], [d, a, b]) = (product.shape, product.elements.map(Element::name));
        let sparse = if product.sparse { "sp." } else { "" };
        return Some(format!("{sparse}m{m}n{n}k{k}.{d}.{a}.{b}"));
    }
    let Op::Multiply(product) = op else { return None };
    let [m, n, k] = product.shape;
    let mut words = match product.sparse {
        Sparsity::Dense => Vec::new(),
        Sparsity::Any => vec!["sp".to_owned()],
        Sparsity::Ordered => vec!["sp::ordered_metadata".to_owned()],
    };
    let operator = product.bits.map(|bits| bits.name().to_owned());
    // `wmma` has the operator before the shape, `mma` behind the types.
    if product.wmma {
        words.extend(operator.clone());
    }
    words.push(format!("m{m}n{n}k{k}"));
    let [d, _, _, c] = product.elements;
    if product.wmma && product.elements[1] == Element::F16 {
        words.extend([d.name().to_owned(), c.name().to_owned()]);
    } else {
        words.extend(product.elements.iter().map(|element| element.name().to_owned()));
    }
    if !product.wmma {
        words.extend(operator);
    }
    words.extend(product.scale.map(|scale| scale.ty.name().to_owned()));
    Some(words.join("."))
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
        // Four warps share the 64 rows of `wgmma`.
        let m = if m == 64 { 16 } else { m };
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
    use warpproof_sim::isa::{Spec, find};

    /// The instruction of an opcode with its modifiers, without operands.
    fn spelled(text: &str) -> Op {
        let mut words = text.split('.');
        let opcode = words.next().unwrap();
        let given: Vec<&str> = words.collect();
        let (_, modifiers) = find(opcode, &given).unwrap();
        Op::of(&Spec { modifiers, operands: Vec::new(), sm: 90, used: u32::MAX }).unwrap()
    }

    #[test]
    fn opcodes_say_what_they_do() {
        assert_eq!(memory_op(&spelled("ld.global.nc.v4.f32")), MemoryOp::Load);
        assert_eq!(memory_op(&spelled("cp.async.cg.shared.global")), MemoryOp::AsyncCopy);
        assert_eq!(memory_op(&spelled("cp.async.mbarrier.arrive.b64")), MemoryOp::Mbarrier);
        assert_eq!(memory_op(&spelled("add.u32")), MemoryOp::Other);
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
            assert_eq!(uncached(&spelled(opcode)), past, "{opcode}");
        }
        assert_eq!(
            (flow(&spelled("bra.uni")), flow(&spelled("brx.idx")), flow(&spelled("mov.b32"))),
            (Flow::Branch, Flow::Table, Flow::Next)
        );
    }

    #[test]
    fn products_have_shapes() {
        let fp8 = tensor(&spelled("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32")).unwrap();
        assert_eq!(fp8, "m16n8k32.f32.e4m3.e4m3.f32");
        assert_eq!(multiply_adds(&fp8), 16 * 8 * 32);
        let wmma = tensor(&spelled("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32")).unwrap();
        assert_eq!((wmma.as_str(), multiply_adds(&wmma)), ("m16n16k16.f32.f32", 4096));
        assert_eq!(tensor(&spelled("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16")), None);
        assert_eq!(tensor(&spelled("mad.lo.s32")), None);
    }
}
