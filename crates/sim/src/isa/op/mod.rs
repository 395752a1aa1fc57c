//! What an instruction is: a typed opcode with typed modifiers.
//!
//! [`Op::of`] makes an [`Op`] from the modifiers that a syntax box matched and the shapes of the operands. Everything that asks
//! what an instruction does (the machine, the checks, the counters, the model) asks its `Op` or its [`Effects`]; no other module
//! looks at how an instruction is spelled. A match on `Op` has no catch-all arm where a new instruction must be decided on.

mod effects;
mod read;

pub use effects::{Control, Copies, Effects, Memory, MemoryKind, Multiplies, Participants};

use crate::machine::Type;
use crate::memory::Space;

/// An instruction.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Arithmetic within a lane.
    Arithmetic(Arithmetic),
    /// `and`, `or`, `xor`, `not`, `lop3`: a bit of the result depends on the same bit of the sources.
    Logic(Logic),
    /// Bits of the first sources move as the others direct.
    Bits(Bits),
    /// `setp`, `set`.
    Compare(Compare),
    /// `testp`.
    Test(Property),
    /// `selp`.
    Select(Type),
    /// `mov`.
    Move(Move),
    /// `cvta`, `mapa`: the same address in another state space or in another block of the cluster.
    ConvertAddress,
    /// `isspacep`, `getctarank`: which memory an address is in.
    TestSpace,
    /// `cvt`.
    Convert(Convert),
    /// `ld`, `ldu`.
    Load(Load),
    /// `st`.
    Store(Store),
    /// `atom`, `red`.
    Atomic(Atomic),
    /// `tex`, `tld4`: reads texels.
    Texture(Texture),
    /// `suld`.
    SurfaceLoad(Surface),
    /// `sust`.
    SurfaceStore(Surface),
    /// `sured`.
    SurfaceReduce(Surface),
    /// `txq`, `suq`, `istypep`: properties of a texture or surface.
    ImageQuery,
    /// `prefetch`, `prefetchu`, `applypriority`: hints to the caches.
    CacheHint,
    /// `discard`: memory that need not be written back.
    Discard,
    /// `createpolicy`.
    CachePolicy,
    /// `cp.async`: a copy from global to shared memory.
    CopyAsync(CopyAsync),
    /// `cp.async.commit_group`.
    CommitGroup,
    /// `cp.async.wait_group`, with the number of groups that may stay in flight.
    WaitGroup(u32),
    /// `cp.async.wait_all`.
    WaitAll,
    /// `cp.async.mbarrier.arrive`.
    CopiesArrive,
    /// `cp.async.bulk`, `cp.reduce.async.bulk`, `st.async`, `red.async`.
    Bulk(Bulk),
    /// `st.bulk`: zeros in shared memory.
    Fill,
    /// `tensormap.replace`, `tensormap.cp_fenceproxy`.
    TensorMap,
    /// `mbarrier`.
    Mbarrier(Mbarrier),
    /// `fence`, `membar`.
    Fence(Fence),
    /// `bar`, `barrier`: the barriers of a block.
    Barrier(Barrier),
    /// `barrier.cluster`.
    ClusterBarrier {
        /// Waits; arrives otherwise.
        waits: bool,
        /// All threads of a warp execute it together.
        aligned: bool,
        /// Orders no memory.
        relaxed: bool,
    },
    /// `bar.warp.sync`.
    WarpSync {
        /// The mask is a constant that names all lanes.
        everyone: bool,
    },
    /// `shfl`.
    Shuffle(Shuffle),
    /// `vote`.
    Vote {
        /// What it computes.
        mode: VoteMode,
        /// Lanes meet by a member mask.
        sync: bool,
    },
    /// `match`.
    Match {
        /// All lanes must agree; any of them otherwise.
        all: bool,
        /// Of the values.
        ty: Type,
    },
    /// `redux.sync`.
    Redux {
        /// What it computes.
        combine: Combine,
        /// Of the values.
        ty: Type,
    },
    /// `elect.sync`.
    Elect,
    /// `activemask`.
    ActiveMask,
    /// `ldmatrix`.
    LoadMatrix(MatrixTile),
    /// `stmatrix`.
    StoreMatrix(MatrixTile),
    /// `movmatrix`.
    TransposeMatrix,
    /// `wmma.load`.
    LoadTile(Tile),
    /// `wmma.store`.
    StoreTile(Tile),
    /// `mma`, `wmma.mma`.
    Multiply(Multiply),
    /// `wgmma.mma_async`.
    MultiplyAsync(MultiplyAsync),
    /// `wgmma.fence`.
    MultiplyFence,
    /// `wgmma.commit_group`.
    MultiplyCommit,
    /// `wgmma.wait_group`, with the number of groups that may stay in flight.
    MultiplyWait(u32),
    /// `tcgen05`.
    Tensor(TensorOp),
    /// `bra`.
    Branch,
    /// `brx.idx`.
    BranchTable,
    /// `call`.
    Call(Callee),
    /// `ret`.
    Return,
    /// `exit`.
    Exit,
    /// `trap`.
    Trap,
    /// `brkpt`, `pmevent`: for debuggers and profilers.
    Event,
    /// `nanosleep`.
    Sleep,
    /// `griddepcontrol`: it waits for the grids that this one depends on, or lets those that depend on it start.
    GridDependency {
        /// Whether it waits.
        waits: bool,
    },
    /// `setmaxnreg`.
    SetRegisters,
    /// `stacksave`, `stackrestore`, `alloca`.
    Stack(StackOp),
    /// A parameter that is a register is handed over at the beginning of a function or at its `ret`. Not in the text of the module.
    Parameter,
    /// Not supported, or malformed: it stops the launch when it is executed.
    Refused,
}

macro_rules! names {
    ($(#[$doc:meta])* $name:ident { $($(#[$one:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "the manual's own names")]
        pub enum $name { $($(#[$one])* $variant),* }

        impl $name {
            /// All of them.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// The name in PTX.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }

            /// The one that a name of PTX means.
            pub fn parse(name: &str) -> Option<$name> {
                Some(match name { $($text => $name::$variant,)* _ => return None })
            }
        }
    };
}

names! {
    /// Arithmetic, by the opcode.
    ArithmeticKind {
        Add = "add", Sub = "sub", Mul = "mul", Mad = "mad", Fma = "fma", Div = "div", Rem = "rem", Abs = "abs",
        Neg = "neg", Min = "min", Max = "max", Mul24 = "mul24", Mad24 = "mad24", Sad = "sad", Addc = "addc",
        Subc = "subc", Madc = "madc", Dp4a = "dp4a", Dp2a = "dp2a", Copysign = "copysign", Rcp = "rcp",
        Sqrt = "sqrt", Rsqrt = "rsqrt", Sin = "sin", Cos = "cos", Lg2 = "lg2", Ex2 = "ex2", Tanh = "tanh",
        Popc = "popc", Clz = "clz", Bfind = "bfind", Fns = "fns", Brev = "brev", Bmsk = "bmsk", Szext = "szext",
        Cnot = "cnot", Slct = "slct", Vadd2 = "vadd2", Vsub2 = "vsub2", Vavrg2 = "vavrg2",
        Vabsdiff2 = "vabsdiff2", Vmin2 = "vmin2", Vmax2 = "vmax2", Vadd4 = "vadd4", Vsub4 = "vsub4",
        Vavrg4 = "vavrg4", Vabsdiff4 = "vabsdiff4", Vmin4 = "vmin4", Vmax4 = "vmax4",
        Vset2 = "vset2", Vset4 = "vset4",
    }
}

names! {
    /// The operators of `atom`, `red` and `redux`.
    Combine {
        And = "and", Or = "or", Xor = "xor", Add = "add", Inc = "inc", Dec = "dec", Min = "min", Max = "max",
        Exchange = "exch", CompareAndSwap = "cas",
    }
}

names! {
    /// The comparisons of `setp` and `set`.
    Comparison {
        Eq = "eq", Ne = "ne", Lt = "lt", Le = "le", Gt = "gt", Ge = "ge", Lo = "lo", Ls = "ls", Hi = "hi", Hs = "hs",
        Equ = "equ", Neu = "neu", Ltu = "ltu", Leu = "leu", Gtu = "gtu", Geu = "geu", Num = "num", Nan = "nan",
    }
}

names! {
    /// The properties of `testp`.
    Property {
        Finite = "finite", Infinite = "infinite", Number = "number", NotANumber = "notanumber", Normal = "normal",
        Subnormal = "subnormal",
    }
}

names! {
    /// The modes of `vote`.
    VoteMode { All = "all", Any = "any", Uni = "uni", Ballot = "ballot" }
}

names! {
    /// Elements of matrices.
    Element {
        F16 = "f16", BF16 = "bf16", TF32 = "tf32", F32 = "f32", F64 = "f64", E4M3 = "e4m3", E5M2 = "e5m2", E3M2 = "e3m2",
        E2M3 = "e2m3", E2M1 = "e2m1", U8 = "u8",
        S8 = "s8", U4 = "u4", S4 = "s4", B1 = "b1", S32 = "s32",
    }
}

names! {
    /// How an access uses the caches.
    CacheOperator { Ca = "ca", Cg = "cg", Cs = "cs", Lu = "lu", Cv = "cv", Wb = "wb", Wt = "wt" }
}

names! {
    /// The threads that an ordered access or a fence speaks to. `.gl` of `membar` is the device.
    Scope { Cta = "cta", Cluster = "cluster", Gpu = "gpu", Sys = "sys" }
}

/// Which bits of a product are the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The lower half, or all of a sum.
    Low,
    /// The upper half.
    High,
    /// All.
    Wide,
}

/// Arithmetic within a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arithmetic {
    /// The opcode.
    pub kind: ArithmeticKind,
    /// The last type it names; `None` for pairs of 16-bit integers, which no register type has.
    pub ty: Option<Type>,
    /// Two elements in a register.
    pub pairs: bool,
    /// Each byte of a word on its own.
    pub quads: bool,
    /// Which bits of a product.
    pub part: Part,
    /// Writes the condition code.
    pub carries: bool,
}

/// The truth table of `and`.
pub const AND: u8 = 0xf0 & 0xcc;
/// The truth table of `or`.
pub const OR: u8 = 0xf0 | 0xcc;
/// The truth table of `xor`.
pub const XOR: u8 = 0xf0 ^ 0xcc;
/// The truth table of `not`.
pub const NOT: u8 = 0x0f;

/// Logic on bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logic {
    /// The truth table over up to three sources, as `lop3` numbers it.
    pub table: u8,
    /// How many sources it has.
    pub sources: u8,
    /// Of the sources.
    pub ty: Type,
    /// `lop3` with a predicate as a second result.
    pub tests: bool,
}

/// Moves of bits within a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bits {
    /// `shl`.
    ShiftLeft(Type),
    /// `shr`.
    ShiftRight(Type),
    /// `shf`.
    Funnel {
        /// Left; right otherwise.
        left: bool,
        /// The amount wraps; it is clamped otherwise.
        wrap: bool,
    },
    /// `bfe`.
    Extract(Type),
    /// `bfi`.
    Insert(Type),
    /// `prmt`; a mode of its own selects bytes otherwise than by a nibble each.
    Permute {
        /// Whether it has such a mode.
        mode: bool,
    },
}

/// `setp`, `set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compare {
    /// The comparison.
    pub comparison: Comparison,
    /// How the result is joined with a predicate.
    pub join: Option<Combine>,
    /// Of what is compared.
    pub ty: Type,
    /// The result is a predicate (`setp`); a number otherwise (`set`).
    pub predicate: bool,
}

/// `mov`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Of the whole.
    pub ty: Type,
    /// From one register, or several, or to several.
    pub shape: MoveShape,
    /// The register that counts, if the source is one.
    pub counter: Option<Counter>,
}

/// Special registers that differ each time they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counter {
    /// `%clock`, `%clock64`, `%clock_hi`.
    Clock,
    /// `%globaltimer` and its halves.
    Timer,
    /// `%pm0` and the like: performance monitors.
    Monitor,
}

/// The operands of `mov`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveShape {
    /// One to one.
    Copy,
    /// Several to one.
    Pack,
    /// One to several.
    Unpack,
}

/// `cvt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convert {
    /// Of the result; `None` for parts of a byte.
    pub to: Option<Type>,
    /// Of the source.
    pub from: Option<Type>,
    /// It has no rounding, saturation or other modifier.
    pub plain: bool,
    /// `cvt.pack`: integers that are saturated and packed.
    pub pack: bool,
}

/// What an access promises besides its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Semantics {
    /// Nothing.
    Weak,
    /// The compiler keeps it.
    Volatile,
    /// Memory-mapped: it happens as written.
    Mmio,
    /// Other threads of the scope may access the bytes at the same time.
    Relaxed,
    /// What the writer of the value saw is visible afterwards.
    Acquire,
    /// What the thread did before is visible to those that see it.
    Release,
    /// Both.
    AcquireRelease,
}

/// `ld`, `ldu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// The state space.
    pub space: Space,
    /// Of an element.
    pub ty: Type,
    /// How many elements.
    pub vector: u32,
    /// What it promises.
    pub semantics: Semantics,
    /// To which threads.
    pub scope: Option<Scope>,
    /// Through the cache for data that no thread writes (`.nc`).
    pub read_only: bool,
    /// How it uses the caches.
    pub cache: Option<CacheOperator>,
    /// `ldu`.
    pub uniform: bool,
}

/// `st`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    /// The state space.
    pub space: Space,
    /// Of an element.
    pub ty: Type,
    /// How many elements.
    pub vector: u32,
    /// What it promises.
    pub semantics: Semantics,
    /// To which threads.
    pub scope: Option<Scope>,
    /// How it uses the caches.
    pub cache: Option<CacheOperator>,
}

/// `atom`, `red`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atomic {
    /// What it computes.
    pub combine: Combine,
    /// The state space.
    pub space: Space,
    /// Of the memory cell.
    pub ty: Type,
    /// How many cells next to each other.
    pub vector: u32,
    /// What it promises.
    pub semantics: Semantics,
    /// To which threads; the device if it names none.
    pub scope: Option<Scope>,
    /// It returns the old value (`atom`).
    pub returns: bool,
}

/// `tex`, `tld4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Texture {
    /// One channel of four texels (`tld4`).
    pub gather: bool,
}

/// `suld`, `sust`, `sured`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surface {
    /// Of an element.
    pub ty: Type,
    /// How many elements.
    pub vector: u32,
    /// Texels are converted from registers (`.p`); bytes are copied otherwise (`.b`).
    pub formatted: bool,
    /// How it uses the caches.
    pub cache: Option<CacheOperator>,
}

/// `cp.async`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyAsync {
    /// How it uses the caches.
    pub cache: CacheOperator,
}

/// `tcgen05`: tensor memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TensorOp {
    /// Allocates columns, and writes their address to shared memory.
    Allocate,
    /// Frees columns.
    Free,
    /// The block allocates no more.
    Relinquish,
    /// Loads from tensor memory to registers.
    Load,
    /// Stores registers to tensor memory.
    Store,
    /// Waits for the loads of the warp, or for its stores.
    Wait {
        /// For stores.
        stores: bool,
    },
    /// Copies from shared to tensor memory.
    Copy,
    /// Shifts lanes of tensor memory.
    Shift,
    /// Multiplies.
    Multiply,
    /// Arrives at an mbarrier when the copies, shifts and multiplications before it are complete.
    Commit,
    /// Orders accesses to tensor memory before or after a synchronization of threads.
    Fence {
        /// After it.
        after: bool,
    },
}

/// `mbarrier`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mbarrier {
    /// What it does.
    pub action: MbarrierOp,
    /// The state space.
    pub space: Space,
    /// Whether it orders no other accesses.
    pub relaxed: bool,
    /// Whether it names the scope of the block.
    pub narrow: bool,
}

/// What an instruction does to an mbarrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the manual's own names")]
pub enum MbarrierOp {
    Init,
    Inval,
    Arrive,
    ArriveDrop,
    ExpectTx,
    CompleteTx,
    TestWait,
    TryWait,
    PendingCount,
}

/// `fence`, `membar`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// Orders memory accesses.
    Memory {
        /// For which threads.
        scope: Scope,
        /// Sequentially consistent.
        sequential: bool,
        /// Only for initializations of mbarriers (`fence.mbarrier_init`).
        init: bool,
    },
    /// Orders accesses by different ways to the same memory.
    Proxy {
        /// Whether it orders the async proxy's accesses to shared memory.
        shared: bool,
    },
}

/// `bar`, `barrier`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// What it does.
    pub action: BarrierOp,
    /// All threads of a warp execute it together.
    pub aligned: bool,
    /// Which barrier, if that is a constant.
    pub id: Option<u32>,
    /// It names a number of threads; all of the block otherwise.
    pub counted: bool,
}

/// What a thread does at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BarrierOp {
    /// Waits.
    Sync,
    /// Arrives and does not wait.
    Arrive,
    /// Waits, and the number of threads with a predicate is returned.
    Count,
    /// Waits, and whether all have a predicate is returned.
    All,
    /// Waits, and whether any has a predicate is returned.
    Any,
}

/// `shfl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shuffle {
    /// Lanes meet by a member mask.
    pub sync: bool,
    /// Which lane is read.
    pub mode: ShuffleMode,
}

/// From which lane `shfl` takes its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the manual's own names")]
pub enum ShuffleMode {
    Up,
    Down,
    Bfly,
    Idx,
}

/// `ldmatrix`, `stmatrix`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixTile {
    /// Matrices of 8 rows of 16 bytes.
    pub count: u32,
    /// Transposed.
    pub trans: bool,
    /// Elements are bytes in registers; of 16 bits otherwise.
    pub bytes: Option<ByteMatrix>,
}

/// How `ldmatrix` and `stmatrix` place 8-bit elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteMatrix {
    /// Of the matrix.
    pub shape: ByteShape,
    /// Bits of an element in shared memory: 8, 6 or 4.
    pub bits: u32,
}

names! {
    /// Shapes of matrices of 8-bit elements.
    ByteShape { M8N16 = "m8n16", M16N16 = "m16n16", M16N8 = "m16n8" }
}

/// `wmma.load`, `wmma.store`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The state space.
    pub space: Space,
    /// Of the matrix.
    pub element: Element,
    /// m, n, k.
    pub shape: [u32; 3],
    /// It names a stride.
    pub stride: bool,
}

/// `mma`, `wmma.mma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multiply {
    /// m, n, k.
    pub shape: [u32; 3],
    /// Of D, A, B, C. `wmma.mma` in f16 names only D and C.
    pub elements: [Element; 4],
    /// `wmma.mma`.
    pub wmma: bool,
    /// `.sp`: half of A is zero and not stored.
    pub sparse: Sparsity,
    /// `.xor` or `.and` of single bits.
    pub bits: Option<Combine>,
    /// `.block_scale`: blocks of A and B have factors of this type.
    pub scale: Option<BlockScale>,
}

/// The factors of a block-scaled multiplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockScale {
    /// Of a factor.
    pub ty: ScaleType,
    /// How many a row of A has: 1, 2 or 4.
    pub count: u32,
}

names! {
    /// Types of the factors of a block-scaled multiplication.
    ScaleType { UE8M0 = "ue8m0", UE4M3 = "ue4m3" }
}

/// How a sparse A names the elements that it stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sparsity {
    /// A is dense.
    Dense,
    /// `.sp`.
    Any,
    /// `.sp::ordered_metadata`.
    Ordered,
}

/// What `call` calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Callee {
    /// A function of the module.
    Function,
    /// `vprintf`, `malloc`, `free`, `__assertfail`: functions of the device that act on more than registers and memory.
    System,
    /// Through a pointer.
    Pointer,
}

/// What an instruction does with bulk copies and stores of asynchronous agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bulk {
    /// Starts a copy between memories; it may combine the bytes with those of the destination.
    Copy,
    /// Starts a store of registers.
    Store,
    /// A hint to the cache.
    Prefetch,
    /// Closes a group of copies.
    Commit,
    /// Waits until at most this many groups are in flight, or only until their sources are read.
    Wait {
        /// How many.
        left: u32,
        /// Only until the sources are read.
        read: bool,
    },
}

/// `wgmma.mma_async`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultiplyAsync {
    /// m, n, k.
    pub shape: [u32; 3],
    /// Of D, A, B.
    pub elements: [Element; 3],
    /// A is in registers.
    pub registers: bool,
    /// `.sp`: half of A is zero and not stored.
    pub sparse: bool,
}

/// What an instruction does to the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the manual's own names")]
pub enum StackOp {
    Save,
    Restore,
    Allocate,
}
