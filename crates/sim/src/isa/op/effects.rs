//! What an instruction does besides computing: one description that the machine, the checks, the counters and the book share.

use super::{
    Atomic, Barrier, BarrierOp, Bulk, Combine, Element, Fence, Load, Mbarrier, MbarrierOp, Op, Scope,
    Semantics, Store, Surface, TensorOp, Tile,
};
use crate::memory::Space;
use std::fmt;

/// What an instruction does besides computing from its registers. Which registers it reads and writes is
/// [`Meta::reads`](crate::program::Meta::reads) and [`Meta::writes`](crate::program::Meta::writes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effects {
    /// The access to memory.
    pub memory: Option<Memory>,
    /// Where control goes.
    pub control: Control,
    /// Which threads have a part in it.
    pub participants: Participants,
    /// The fence.
    pub fence: Option<Fence>,
    /// Asynchronous copies that it starts or waits for.
    pub copies: Copies,
    /// Asynchronous multiplications that it starts or waits for.
    pub multiplies: Multiplies,
}

/// An access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What kind.
    pub kind: MemoryKind,
    /// The state space; `Generic` if the address decides.
    pub space: Space,
    /// Bytes of one lane, where the instruction alone decides.
    pub bytes: Option<u32>,
    /// What it promises.
    pub semantics: Semantics,
    /// To which threads.
    pub scope: Option<Scope>,
    /// Through the cache for data that no thread writes.
    pub read_only: bool,
}

/// Kinds of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryKind {
    /// `ld`, `ldu`.
    Load,
    /// `st`.
    Store,
    /// `atom`.
    Atomic,
    /// `red`.
    Reduce,
    /// `cp.async`.
    AsyncCopy,
    /// `ldmatrix`.
    LoadMatrix,
    /// `stmatrix`.
    StoreMatrix,
    /// `wmma.load`.
    LoadTile,
    /// `wmma.store`.
    StoreTile,
    /// `tex`, `tld4`.
    Texture,
    /// `suld`.
    SurfaceLoad,
    /// `sust`.
    SurfaceStore,
    /// `sured`.
    SurfaceReduce,
    /// `mbarrier`, `cp.async.mbarrier.arrive`.
    Mbarrier,
    /// `prefetch` and the like: no byte is read or written.
    Hint,
    /// `discard`: the bytes become undefined.
    Discard,
}

/// Where control goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Control {
    /// To the next instruction.
    Next,
    /// To a label.
    Branch,
    /// To one of a list of labels.
    Table,
    /// To a function.
    Call,
    /// Back from one.
    Return,
    /// The thread ends.
    Exit,
    /// The launch ends.
    Trap,
}

/// Which threads have a part in an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Participants {
    /// Each lane for itself.
    Lane,
    /// The lanes of a member mask, which is the last operand. They wait for each other.
    Members,
    /// The lanes that happen to execute it together.
    Active,
    /// All lanes of the warp. They wait for each other.
    Warp,
    /// The threads of the block at a barrier.
    Block,
    /// The threads of the cluster at its barrier.
    Cluster,
}

/// What an instruction does to asynchronous copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Copies {
    /// Nothing.
    None,
    /// Starts one.
    Start,
    /// Closes a group.
    Commit,
    /// Waits until at most this many groups are in flight.
    Wait(u32),
    /// Waits for all.
    WaitAll,
    /// Arrives at an mbarrier when those before it are complete.
    Arrive,
    /// Starts a bulk copy.
    Bulk,
    /// Closes a group of bulk copies.
    BulkCommit,
    /// Waits for groups of bulk copies.
    BulkWait,
}

/// What an instruction does to asynchronous multiplications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Multiplies {
    /// Nothing.
    None,
    /// Starts one.
    Start,
    /// Orders accesses to their registers.
    Fence,
    /// Closes a group.
    Commit,
    /// Waits until at most this many groups are in flight.
    Wait(u32),
}

impl Effects {
    /// Computes from registers to registers.
    const NONE: Effects = Effects {
        memory: None,
        control: Control::Next,
        participants: Participants::Lane,
        fence: None,
        copies: Copies::None,
        multiplies: Multiplies::None,
    };

    fn memory(memory: Memory) -> Effects {
        Effects { memory: Some(memory), ..Effects::NONE }
    }

    fn control(control: Control) -> Effects {
        Effects { control, ..Effects::NONE }
    }

    fn participants(participants: Participants) -> Effects {
        Effects { participants, ..Effects::NONE }
    }
}

impl Memory {
    /// An ordinary access.
    fn weak(kind: MemoryKind, space: Space, bytes: Option<u32>) -> Memory {
        Memory { kind, space, bytes, semantics: Semantics::Weak, scope: None, read_only: false }
    }
}

impl Op {
    /// What it does besides computing. A new instruction is decided on here.
    pub fn effects(&self) -> Effects {
        match self {
            Op::Arithmetic(_)
            | Op::Logic(_)
            | Op::Bits(_)
            | Op::Compare(_)
            | Op::Test(_)
            | Op::Select(_)
            | Op::Move(_)
            | Op::ConvertAddress
            | Op::TestSpace
            | Op::Convert(_)
            | Op::CachePolicy
            | Op::Event
            | Op::Sleep
            | Op::GridDependency { .. }
            | Op::SetRegisters
            | Op::Stack(_)
            | Op::Parameter
            | Op::ImageQuery
            | Op::Refused
            // Asynchronous work on tensor memory, and its order.
            | Op::Tensor(TensorOp::Copy | TensorOp::Shift | TensorOp::Multiply | TensorOp::Fence { .. })
            // The state of a phase is in a register.
            | Op::Mbarrier(Mbarrier { action: MbarrierOp::PendingCount, .. }) => Effects::NONE,
            Op::Load(load) => Effects::memory(load.memory()),
            Op::Store(store) => Effects::memory(store.memory()),
            Op::Atomic(atomic) => Effects::memory(atomic.memory()),
            // Caches of textures are not coherent with writes of the launch, and surfaces are read through them too.
            Op::Texture(_) => Effects::memory(Memory {
                read_only: true,
                ..Memory::weak(MemoryKind::Texture, Space::Global, None)
            }),
            Op::SurfaceLoad(surface) => Effects::memory(Memory {
                read_only: true,
                ..surface.memory(MemoryKind::SurfaceLoad)
            }),
            Op::SurfaceStore(surface) => Effects::memory(surface.memory(MemoryKind::SurfaceStore)),
            Op::SurfaceReduce(surface) => Effects::memory(Memory {
                semantics: Semantics::Relaxed,
                ..surface.memory(MemoryKind::SurfaceReduce)
            }),
            Op::CacheHint => Effects::memory(Memory::weak(MemoryKind::Hint, Space::Generic, None)),
            Op::Discard => Effects::memory(Memory::weak(MemoryKind::Discard, Space::Global, Some(128))),
            Op::CopyAsync(_) => Effects {
                memory: Some(Memory::weak(MemoryKind::AsyncCopy, Space::Generic, None)),
                copies: Copies::Start,
                ..Effects::NONE
            },
            Op::Bulk(Bulk::Copy) => Effects {
                memory: Some(Memory::weak(MemoryKind::AsyncCopy, Space::Generic, None)),
                copies: Copies::Bulk,
                ..Effects::NONE
            },
            Op::Bulk(Bulk::Store) => Effects {
                memory: Some(Memory::weak(MemoryKind::AsyncCopy, Space::Shared, None)),
                copies: Copies::Bulk,
                ..Effects::NONE
            },
            Op::Bulk(Bulk::Prefetch) => Effects::memory(Memory::weak(MemoryKind::Hint, Space::Global, None)),
            Op::Bulk(Bulk::Commit) => Effects { copies: Copies::BulkCommit, ..Effects::NONE },
            Op::Bulk(Bulk::Wait { .. }) => Effects { copies: Copies::BulkWait, ..Effects::NONE },
            Op::Fill => Effects::memory(Memory::weak(MemoryKind::Store, Space::Shared, None)),
            Op::TensorMap => Effects::memory(Memory::weak(MemoryKind::Store, Space::Generic, Some(128))),
            Op::CommitGroup => Effects { copies: Copies::Commit, ..Effects::NONE },
            Op::WaitGroup(left) => Effects { copies: Copies::Wait(*left), ..Effects::NONE },
            Op::WaitAll => Effects { copies: Copies::WaitAll, ..Effects::NONE },
            Op::CopiesArrive => Effects {
                memory: Some(Memory::weak(MemoryKind::Mbarrier, Space::Shared, Some(8))),
                copies: Copies::Arrive,
                ..Effects::NONE
            },
            Op::Mbarrier(mbarrier) => {
                Effects::memory(Memory::weak(MemoryKind::Mbarrier, mbarrier.space, Some(8)))
            }
            Op::Fence(fence) => Effects { fence: Some(*fence), ..Effects::NONE },
            Op::Barrier(_) => Effects::participants(Participants::Block),
            Op::ClusterBarrier { .. } => Effects::participants(Participants::Cluster),
            Op::Vote { sync: false, .. } | Op::ActiveMask => Effects::participants(Participants::Active),
            Op::Shuffle(shuffle) => {
                Effects::participants(if shuffle.sync { Participants::Members } else { Participants::Active })
            }
            Op::WarpSync { .. } | Op::Vote { .. } | Op::Match { .. } | Op::Redux { .. } | Op::Elect => {
                Effects::participants(Participants::Members)
            }
            Op::LoadMatrix(_) => Effects {
                memory: Some(Memory::weak(MemoryKind::LoadMatrix, Space::Shared, Some(16))),
                ..Effects::participants(Participants::Warp)
            },
            Op::StoreMatrix(_) => Effects {
                memory: Some(Memory::weak(MemoryKind::StoreMatrix, Space::Shared, Some(16))),
                ..Effects::participants(Participants::Warp)
            },
            Op::LoadTile(Tile { space, .. }) => Effects {
                memory: Some(Memory::weak(MemoryKind::LoadTile, *space, None)),
                ..Effects::participants(Participants::Warp)
            },
            Op::StoreTile(Tile { space, .. }) => Effects {
                memory: Some(Memory::weak(MemoryKind::StoreTile, *space, None)),
                ..Effects::participants(Participants::Warp)
            },
            Op::TransposeMatrix
            | Op::Multiply(_)
            | Op::Tensor(
                TensorOp::Free | TensorOp::Relinquish | TensorOp::Load | TensorOp::Store | TensorOp::Wait { .. },
            ) => Effects::participants(Participants::Warp),
            Op::MultiplyAsync(_) => Effects { multiplies: Multiplies::Start, ..Effects::participants(Participants::Warp) },
            Op::MultiplyFence => Effects { multiplies: Multiplies::Fence, ..Effects::participants(Participants::Warp) },
            Op::MultiplyCommit => Effects { multiplies: Multiplies::Commit, ..Effects::participants(Participants::Warp) },
            Op::MultiplyWait(left) => {
                Effects { multiplies: Multiplies::Wait(*left), ..Effects::participants(Participants::Warp) }
            }
            Op::Tensor(TensorOp::Allocate) => Effects {
                memory: Some(Memory::weak(MemoryKind::Store, Space::Generic, Some(4))),
                ..Effects::participants(Participants::Warp)
            },
            Op::Tensor(TensorOp::Commit) => Effects::memory(Memory::weak(MemoryKind::Mbarrier, Space::Shared, Some(8))),
            Op::Branch => Effects::control(Control::Branch),
            Op::BranchTable => Effects::control(Control::Table),
            Op::Call(_) => Effects::control(Control::Call),
            Op::Return => Effects::control(Control::Return),
            Op::Exit => Effects::control(Control::Exit),
            Op::Trap => Effects::control(Control::Trap),
        }
    }

    /// Whether all threads of a warp must execute it together, at one place of the program: `bar`, and what is `.aligned`.
    pub fn aligned_barrier(&self) -> bool {
        match self {
            Op::Barrier(barrier) => barrier.aligned,
            Op::ClusterBarrier { aligned, .. } => *aligned,
            _ => false,
        }
    }
}

impl Load {
    fn memory(&self) -> Memory {
        Memory {
            kind: MemoryKind::Load,
            space: self.space,
            bytes: Some(self.ty.bytes() * self.vector),
            semantics: self.semantics,
            scope: self.scope,
            read_only: self.read_only,
        }
    }
}

impl Surface {
    fn memory(self, kind: MemoryKind) -> Memory {
        // The size of a texel is a property of the surface.
        let bytes = (!self.formatted).then(|| self.ty.bytes() * self.vector);
        Memory::weak(kind, Space::Global, bytes)
    }
}

impl Store {
    fn memory(&self) -> Memory {
        Memory {
            kind: MemoryKind::Store,
            space: self.space,
            bytes: Some(self.ty.bytes() * self.vector),
            semantics: self.semantics,
            scope: self.scope,
            read_only: false,
        }
    }
}

impl Atomic {
    fn memory(self) -> Memory {
        Memory {
            kind: if self.returns { MemoryKind::Atomic } else { MemoryKind::Reduce },
            space: self.space,
            bytes: Some(self.ty.bytes() * self.vector),
            semantics: self.semantics,
            scope: self.scope,
            read_only: false,
        }
    }

    /// Whether it orders no other access: if its result is unused, it can be done when the block has ended.
    pub fn is_reduction(&self) -> bool {
        self.combine != Combine::CompareAndSwap
            && matches!(self.semantics, Semantics::Weak | Semantics::Relaxed)
    }
}

impl Combine {
    /// Whether two of the same kind may change places: the sum, the minimum, the bits that are set.
    pub fn commutes(self) -> bool {
        match self {
            Combine::Add | Combine::Min | Combine::Max | Combine::And | Combine::Or | Combine::Xor => true,
            Combine::Inc | Combine::Dec | Combine::Exchange | Combine::CompareAndSwap => false,
        }
    }
}

impl Barrier {
    /// Whether it is the barrier of all threads of the block, as `__syncthreads()` is.
    pub fn whole_block(&self) -> bool {
        self.id == Some(0) && !self.counted && self.action != BarrierOp::Arrive
    }
}

impl Element {
    /// Bits of an element.
    pub fn bits(self) -> u32 {
        match self {
            Element::F64 => 64,
            Element::F32 | Element::TF32 | Element::S32 => 32,
            Element::F16 | Element::BF16 => 16,
            Element::E4M3 | Element::E5M2 | Element::U8 | Element::S8 => 8,
            Element::E3M2 | Element::E2M3 => 6,
            Element::E2M1 | Element::U4 | Element::S4 => 4,
            Element::B1 => 1,
        }
    }
}

impl fmt::Display for Effects {
    /// In a few words, for the table of the book; nothing for an instruction that only computes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        if let Some(memory) = &self.memory {
            words.push(memory.to_string());
        }
        match self.control {
            Control::Next => {}
            Control::Branch => words.push("branches".to_owned()),
            Control::Table => words.push("branches by a table".to_owned()),
            Control::Call => words.push("calls".to_owned()),
            Control::Return => words.push("returns".to_owned()),
            Control::Exit => words.push("ends the thread".to_owned()),
            Control::Trap => words.push("ends the launch".to_owned()),
        }
        match self.participants {
            Participants::Lane => {}
            Participants::Members => words.push("lanes of a mask meet".to_owned()),
            Participants::Active => words.push("active lanes".to_owned()),
            Participants::Warp => words.push("all lanes meet".to_owned()),
            Participants::Block => words.push("barrier of the block".to_owned()),
            Participants::Cluster => words.push("barrier of the cluster".to_owned()),
        }
        match self.fence {
            None => {}
            Some(Fence::Memory { scope, sequential: true, .. }) => {
                words.push(format!("fence.sc of {}", scope.name()));
            }
            Some(Fence::Memory { scope, sequential: false, .. }) => {
                words.push(format!("fence of {}", scope.name()));
            }
            Some(Fence::Proxy { .. }) => words.push("fence of proxies".to_owned()),
        }
        match self.copies {
            Copies::None => {}
            Copies::Start => words.push("starts a copy".to_owned()),
            Copies::Commit => words.push("closes a group of copies".to_owned()),
            Copies::Wait(_) => words.push("waits for groups of copies".to_owned()),
            Copies::WaitAll => words.push("waits for all copies".to_owned()),
            Copies::Arrive => words.push("arrives after copies".to_owned()),
            Copies::Bulk => words.push("starts a bulk copy".to_owned()),
            Copies::BulkCommit => words.push("closes a group of bulk copies".to_owned()),
            Copies::BulkWait => words.push("waits for groups of bulk copies".to_owned()),
        }
        match self.multiplies {
            Multiplies::None => {}
            Multiplies::Start => words.push("starts a multiplication".to_owned()),
            Multiplies::Fence => words.push("orders registers of multiplications".to_owned()),
            Multiplies::Commit => words.push("closes a group of multiplications".to_owned()),
            Multiplies::Wait(_) => words.push("waits for groups of multiplications".to_owned()),
        }
        f.write_str(&words.join("; "))
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            MemoryKind::Load
            | MemoryKind::LoadMatrix
            | MemoryKind::LoadTile
            | MemoryKind::Texture
            | MemoryKind::SurfaceLoad => "reads",
            MemoryKind::Store
            | MemoryKind::StoreMatrix
            | MemoryKind::StoreTile
            | MemoryKind::SurfaceStore => "writes",
            MemoryKind::Atomic | MemoryKind::Reduce | MemoryKind::SurfaceReduce => "atomic",
            MemoryKind::AsyncCopy => "copies",
            MemoryKind::Mbarrier => "mbarrier",
            MemoryKind::Hint => "hint",
            MemoryKind::Discard => "discards",
        })?;
        match self.semantics {
            Semantics::Weak => Ok(()),
            Semantics::Volatile => f.write_str(", volatile"),
            Semantics::Mmio => f.write_str(", mmio"),
            Semantics::Relaxed => f.write_str(", relaxed"),
            Semantics::Acquire => f.write_str(", acquire"),
            Semantics::Release => f.write_str(", release"),
            Semantics::AcquireRelease => f.write_str(", acquire and release"),
        }?;
        f.write_str(if self.read_only { ", read-only" } else { "" })
    }
}
