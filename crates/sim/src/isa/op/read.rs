//! From the modifiers that a syntax box matched to an [`Op`].

use super::{
    AND, Arithmetic, ArithmeticKind, Atomic, Barrier, BarrierOp, Bits, BlockScale, Bulk, ByteMatrix,
    ByteShape, CacheOperator, Combine, Compare, Comparison, Convert, CopyAsync, Counter, Element, Fence,
    Load, Logic, MatrixTile, Mbarrier, MbarrierOp, Move, MoveShape, Multiply, MultiplyAsync, NOT, OR, Op,
    Part, Property, ScaleType, Scope, Semantics, Shuffle, ShuffleMode, Sparsity, StackOp, Store, Surface,
    TensorOp, Texture, Tile, VoteMode, XOR,
};
use crate::isa::memory::space_of;
use crate::isa::{Shape, Spec};
use crate::machine::Type;
use crate::memory::Space;

/// All lanes of a warp, as a mask.
const EVERYONE: i64 = 0xffff_ffff;

impl Op {
    /// The instruction that matched a syntax box. `None` only for an opcode that this file does not know, which a test excludes
    /// for every box of the table.
    pub fn of(spec: &Spec<'_>) -> Option<Op> {
        let opcode = spec.modifiers.form().opcode;
        let read = Read { spec, given: spec.modifiers.values().collect() };
        if let Some(kind) = ArithmeticKind::parse(opcode) {
            return Some(Op::Arithmetic(read.arithmetic(kind)));
        }
        Some(match opcode {
            "and" | "or" | "xor" | "not" | "lop3" => Op::Logic(read.logic(opcode)?),
            "shl" => Op::Bits(Bits::ShiftLeft(read.ty()?)),
            "shr" => Op::Bits(Bits::ShiftRight(read.ty()?)),
            "shf" => Op::Bits(Bits::Funnel { left: read.has("l"), wrap: read.has("wrap") }),
            "bfe" => Op::Bits(Bits::Extract(read.ty()?)),
            "bfi" => Op::Bits(Bits::Insert(read.ty()?)),
            "prmt" => Op::Bits(Bits::Permute { mode: spec.has("mode") }),
            "setp" | "set" => Op::Compare(Compare {
                comparison: read.first(Comparison::parse)?,
                join: spec.get("BoolOp").and_then(Combine::parse),
                ty: read.ty()?,
                predicate: opcode == "setp",
            }),
            "testp" => Op::Test(read.first(Property::parse)?),
            "selp" => Op::Select(read.ty()?),
            "mov" => Op::Move(read.mov()?),
            "cvta" | "mapa" => Op::ConvertAddress,
            "clusterlaunchcontrol" if read.has("try_cancel") => Op::Bulk(Bulk::Store),
            "isspacep" | "getctarank" | "clusterlaunchcontrol" => Op::TestSpace,
            "cvt" => Op::Convert(read.convert()?),
            "ld" | "ldu" => Op::Load(Load {
                space: read.space(),
                ty: read.ty()?,
                vector: read.vector(),
                semantics: read.semantics(),
                scope: read.scope(),
                read_only: read.has("nc"),
                cache: read.first(CacheOperator::parse),
                uniform: opcode == "ldu",
            }),
            "st" | "red" if read.has("async") && !read.has("release") => Op::Bulk(Bulk::Store),
            "st" if read.has("bulk") => Op::Fill,
            "st" => Op::Store(Store {
                space: read.space(),
                ty: read.ty()?,
                vector: read.vector(),
                semantics: read.semantics(),
                scope: read.scope(),
                cache: read.first(CacheOperator::parse),
            }),
            "atom" | "red" => Op::Atomic(Atomic {
                combine: read.first(Combine::parse)?,
                space: read.space(),
                ty: read.ty()?,
                vector: read.vector(),
                semantics: match read.semantics() {
                    Semantics::Weak => Semantics::Relaxed,
                    named => named,
                },
                scope: read.scope(),
                returns: opcode == "atom",
            }),
            "tex" | "tld4" => Op::Texture(Texture { gather: opcode == "tld4" }),
            "suld" => Op::SurfaceLoad(read.surface()?),
            "sust" => Op::SurfaceStore(read.surface()?),
            "sured" => Op::SurfaceReduce(read.surface()?),
            "txq" | "suq" | "istypep" => Op::ImageQuery,
            "prefetch" | "prefetchu" | "applypriority" => Op::CacheHint,
            "discard" => Op::Discard,
            "createpolicy" => Op::CachePolicy,
            "cp" if read.has("bulk") => Op::Bulk(read.bulk()?),
            "cp" => read.copy()?,
            "tensormap" => Op::TensorMap,
            "mbarrier" => Op::Mbarrier(Mbarrier {
                action: read.mbarrier()?,
                space: read.space(),
                relaxed: read.has("relaxed"),
                narrow: read.has("cta"),
            }),
            "fence" | "membar" => Op::Fence(read.fence(opcode)),
            "bar" if read.has("warp") => Op::WarpSync { everyone: read.everyone() },
            "barrier" if read.has("cluster") => Op::ClusterBarrier {
                waits: read.has("wait"),
                aligned: read.has("aligned"),
                relaxed: read.has("relaxed"),
            },
            "bar" | "barrier" => Op::Barrier(read.barrier(opcode)),
            "shfl" => Op::Shuffle(Shuffle {
                sync: read.has("sync"),
                mode: match spec.get("mode")? {
                    "up" => ShuffleMode::Up,
                    "down" => ShuffleMode::Down,
                    "bfly" => ShuffleMode::Bfly,
                    _ => ShuffleMode::Idx,
                },
            }),
            "vote" => Op::Vote { mode: read.first(VoteMode::parse)?, sync: read.has("sync") },
            "match" => Op::Match { all: read.has("all"), ty: read.ty()? },
            "redux" => Op::Redux { combine: read.first(Combine::parse)?, ty: read.ty()? },
            "elect" => Op::Elect,
            "activemask" => Op::ActiveMask,
            "ldmatrix" => Op::LoadMatrix(read.matrix()),
            "stmatrix" => Op::StoreMatrix(read.matrix()),
            "movmatrix" => Op::TransposeMatrix,
            "wmma" if read.has("load") => Op::LoadTile(read.tile()?),
            "wmma" if read.has("store") => Op::StoreTile(read.tile()?),
            "mma" | "wmma" => Op::Multiply(read.multiply(opcode)?),
            "wgmma" if read.has("fence") => Op::MultiplyFence,
            "wgmma" if read.has("commit_group") => Op::MultiplyCommit,
            "wgmma" if read.has("wait_group") => Op::MultiplyWait(u32::try_from(spec.integer(0)?).ok()?),
            "wgmma" => Op::MultiplyAsync(read.multiply_async()?),
            "tcgen05" => Op::Tensor(read.tensor()?),
            "bra" => Op::Branch,
            "brx" => Op::BranchTable,
            "ret" => Op::Return,
            "exit" => Op::Exit,
            "trap" => Op::Trap,
            "brkpt" | "pmevent" => Op::Event,
            "nanosleep" => Op::Sleep,
            "griddepcontrol" => Op::GridDependency { waits: read.has("wait") },
            "setmaxnreg" => Op::SetRegisters,
            "stacksave" => Op::Stack(StackOp::Save),
            "stackrestore" => Op::Stack(StackOp::Restore),
            "alloca" => Op::Stack(StackOp::Allocate),
            _ => return None,
        })
    }
}

/// An instruction being read.
struct Read<'a> {
    spec: &'a Spec<'a>,
    /// Its modifiers, in the order of the box.
    given: Vec<&'static str>,
}

impl Read<'_> {
    fn has(&self, modifier: &str) -> bool {
        self.given.contains(&modifier)
    }

    /// The first modifier that is one of a kind.
    fn first<T>(&self, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        self.given.iter().find_map(|name| parse(name))
    }

    /// The last type.
    fn ty(&self) -> Option<Type> {
        self.given.iter().rev().find_map(|name| Type::parse(name))
    }

    fn scope(&self) -> Option<Scope> {
        self.first(Scope::parse)
    }

    fn space(&self) -> Space {
        let space = |name: &&&str| {
            matches!(**name, "global" | "const" | "local")
                || name.starts_with("param")
                || name.starts_with("shared")
        };
        space_of(self.given.iter().find(space).copied())
    }

    fn vector(&self) -> u32 {
        match self.first(|name| ["v2", "v4", "v8"].iter().position(|vector| *vector == name)) {
            Some(0) => 2,
            Some(1) => 4,
            Some(_) => 8,
            None => 1,
        }
    }

    fn surface(&self) -> Option<Surface> {
        Some(Surface {
            ty: self.ty()?,
            vector: self.vector(),
            formatted: self.has("p"),
            cache: self.first(CacheOperator::parse),
        })
    }

    fn semantics(&self) -> Semantics {
        let named = |name: &str| {
            Some(match name {
                "volatile" => Semantics::Volatile,
                "mmio" => Semantics::Mmio,
                "relaxed" => Semantics::Relaxed,
                "acquire" => Semantics::Acquire,
                "release" => Semantics::Release,
                "acq_rel" => Semantics::AcquireRelease,
                _ => return None,
            })
        };
        self.first(named).unwrap_or(Semantics::Weak)
    }

    fn arithmetic(&self, kind: ArithmeticKind) -> Arithmetic {
        Arithmetic {
            kind,
            ty: self.ty(),
            pairs: self.given.last().is_some_and(|name| name.ends_with("x2")),
            quads: self.given.last().is_some_and(|name| name.ends_with("x4")),
            part: if self.has("wide") {
                Part::Wide
            } else if self.has("hi") {
                Part::High
            } else {
                Part::Low
            },
            carries: self.has("cc"),
        }
    }

    fn logic(&self, opcode: &str) -> Option<Logic> {
        let (table, sources) = match opcode {
            "and" => (AND, 2),
            "or" => (OR, 2),
            "xor" => (XOR, 2),
            "not" => (NOT, 1),
            _ => (u8::try_from(self.spec.integer(4)?).ok()?, 3),
        };
        Some(Logic { table, sources, ty: self.ty()?, tests: self.spec.has("BoolOp") })
    }

    fn mov(&self) -> Option<Move> {
        let operand = |position: usize| self.spec.operands.get(position);
        let shape = match (operand(0), operand(1)) {
            (Some(Shape::Vector(_)), _) => MoveShape::Unpack,
            (_, Some(Shape::Vector(_))) => MoveShape::Pack,
            _ => MoveShape::Copy,
        };
        let counter = match operand(1) {
            Some(Shape::Special(name)) if name.starts_with("%clock") => Some(Counter::Clock),
            Some(Shape::Special(name)) if name.starts_with("%globaltimer") => Some(Counter::Timer),
            Some(Shape::Special(name)) if name.starts_with("%pm") => Some(Counter::Monitor),
            _ => None,
        };
        Some(Move { ty: self.ty()?, shape, counter })
    }

    fn convert(&self) -> Option<Convert> {
        let types: Vec<&str> = self.given.iter().copied().filter(|name| is_type(name)).collect();
        // `cvt.pack` may name the type of a third source, whose bytes are shifted.
        let [to, from, ..] = types[..] else { return None };
        Some(Convert {
            to: Type::parse(to),
            from: Type::parse(from),
            plain: self.given.len() == 2,
            pack: self.has("pack"),
        })
    }

    fn copy(&self) -> Option<Op> {
        Some(if self.has("mbarrier") {
            Op::CopiesArrive
        } else if self.has("commit_group") {
            Op::CommitGroup
        } else if self.has("wait_all") {
            Op::WaitAll
        } else if self.has("wait_group") {
            Op::WaitGroup(u32::try_from(self.spec.integer(0)?).ok()?)
        } else {
            Op::CopyAsync(CopyAsync { cache: self.first(CacheOperator::parse)? })
        })
    }

    fn bulk(&self) -> Option<Bulk> {
        Some(if self.has("prefetch") {
            Bulk::Prefetch
        } else if self.has("commit_group") {
            Bulk::Commit
        } else if self.has("wait_group") {
            Bulk::Wait { left: u32::try_from(self.spec.integer(0)?).ok()?, read: self.has("read") }
        } else {
            Bulk::Copy
        })
    }

    fn tensor(&self) -> Option<TensorOp> {
        self.first(|name| {
            Some(match name {
                "alloc" => TensorOp::Allocate,
                "dealloc" => TensorOp::Free,
                "relinquish_alloc_permit" => TensorOp::Relinquish,
                "ld" => TensorOp::Load,
                "st" => TensorOp::Store,
                "wait::ld" => TensorOp::Wait { stores: false },
                "wait::st" => TensorOp::Wait { stores: true },
                "cp" => TensorOp::Copy,
                "shift" => TensorOp::Shift,
                "mma" => TensorOp::Multiply,
                "commit" => TensorOp::Commit,
                "fence::before_thread_sync" => TensorOp::Fence { after: false },
                "fence::after_thread_sync" => TensorOp::Fence { after: true },
                _ => return None,
            })
        })
    }

    fn mbarrier(&self) -> Option<MbarrierOp> {
        self.first(|name| {
            Some(match name {
                "init" => MbarrierOp::Init,
                "inval" => MbarrierOp::Inval,
                "arrive" => MbarrierOp::Arrive,
                "arrive_drop" => MbarrierOp::ArriveDrop,
                "expect_tx" => MbarrierOp::ExpectTx,
                "complete_tx" => MbarrierOp::CompleteTx,
                "test_wait" => MbarrierOp::TestWait,
                "try_wait" => MbarrierOp::TryWait,
                "pending_count" => MbarrierOp::PendingCount,
                _ => return None,
            })
        })
    }

    fn fence(&self, opcode: &str) -> Fence {
        if self.has("proxy") {
            let asynchronous = self.given.iter().any(|name| name.starts_with("async"));
            return Fence::Proxy { shared: asynchronous && !self.has("global") };
        }
        // `membar` is `fence.sc` since sm_70.
        let sequential = opcode == "membar" || self.has("sc");
        let scope = if self.has("gl") { Scope::Gpu } else { self.scope().unwrap_or(Scope::Gpu) };
        Fence::Memory { scope, sequential, init: self.has("mbarrier_init") }
    }

    fn everyone(&self) -> bool {
        matches!(self.spec.integer(0), Some(-1 | EVERYONE))
    }

    fn barrier(&self, opcode: &str) -> Barrier {
        let action = if self.has("arrive") {
            BarrierOp::Arrive
        } else if self.has("popc") {
            BarrierOp::Count
        } else if self.has("and") {
            BarrierOp::All
        } else if self.has("or") {
            BarrierOp::Any
        } else {
            BarrierOp::Sync
        };
        // A reduction has a result before the number, and a predicate behind the count.
        let (first, most) = match action {
            BarrierOp::Count | BarrierOp::All | BarrierOp::Any => (1, 3),
            BarrierOp::Sync | BarrierOp::Arrive => (0, 1),
        };
        Barrier {
            action,
            aligned: opcode == "bar" || self.has("aligned"),
            id: self.spec.integer(first).and_then(|id| u32::try_from(id).ok()),
            counted: self.spec.operands.len() > most,
        }
    }

    fn matrix(&self) -> MatrixTile {
        let count = match self.spec.get("num") {
            Some("x1") => 1,
            Some("x2") => 2,
            _ => 4,
        };
        let bits = match self.spec.get("source") {
            Some("b6x16_p32") => 6,
            Some(_) => 4,
            None => 8,
        };
        let bytes = self.first(ByteShape::parse).map(|shape| ByteMatrix { shape, bits });
        let tall = self.has("m16n16");
        MatrixTile { count: if tall { 2 * count } else { count }, trans: self.has("trans"), bytes }
    }

    fn shape(&self) -> Option<[u32; 3]> {
        self.first(|name| {
            let mut numbers = name.strip_prefix('m')?.split(['n', 'k']).map(str::parse);
            let shape = [numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?];
            numbers.next().is_none().then_some(shape)
        })
    }

    fn tile(&self) -> Option<Tile> {
        let element = self.given.iter().rev().find_map(|name| Element::parse(name))?;
        let stride = self.spec.operands.len() > 2;
        Some(Tile { space: self.space(), element, shape: self.shape()?, stride })
    }

    fn multiply_async(&self) -> Option<MultiplyAsync> {
        let types: Vec<Element> = self.given.iter().filter_map(|name| Element::parse(name)).collect();
        let [d, a, b] = types[..] else { return None };
        let registers = matches!(self.spec.operands.get(1), Some(Shape::Vector(_)));
        Some(MultiplyAsync { shape: self.shape()?, elements: [d, a, b], registers, sparse: self.has("sp") })
    }

    fn multiply(&self, opcode: &str) -> Option<Multiply> {
        let types: Vec<Element> = self.given.iter().filter_map(|name| Element::parse(name)).collect();
        let elements = match types[..] {
            [d, a, b, c] => [d, a, b, c],
            // The box for f16 names the accumulators alone.
            [d, c] => [d, Element::F16, Element::F16, c],
            _ => return None,
        };
        let sparse = if self.has("sp") {
            Sparsity::Any
        } else if self.given.iter().any(|name| name.starts_with("sp::")) {
            Sparsity::Ordered
        } else {
            Sparsity::Dense
        };
        let bits = self.has("popc").then(|| self.first(Combine::parse)).flatten();
        // A block has 32 elements unless `.scale_vec` names another number of blocks.
        let count = match self.spec.get("vec") {
            Some("scale_vec::4X") => 4,
            _ if self.has("m16n8k64") => 2,
            _ => 1,
        };
        let scale = self.first(ScaleType::parse).map(|ty| BlockScale { ty, count });
        Some(Multiply { shape: self.shape()?, elements, wmma: opcode == "wmma", sparse, bits, scale })
    }
}

/// Whether a modifier of `cvt` is a type, also of parts of a byte, which no register type names.
fn is_type(name: &str) -> bool {
    Type::parse(name).is_some() || matches!(name, "u4" | "s4" | "u2" | "s2")
}
