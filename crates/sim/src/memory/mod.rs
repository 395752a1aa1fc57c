//! The memories of the device and their shared address map.
//!
//! The window of a *generic* address determines which memory it refers to; an address in a named space is an offset into
//! that memory, except for global memory, whose addresses are already generic. Windows are 4 GiB apart, so an overrun never
//! reaches another memory.

mod concurrent;
mod earlier;
mod heap;
mod image;
mod local;
mod overlay;
mod shared;
mod tensor;

pub use concurrent::{ConcurrentHeap, Memory, Reading, Writing};
pub use earlier::{Dependence, Earlier};
pub use heap::{Allocation, Bytes, Heap, HeapError};
pub use image::{
    AddressMode, Channel, Image, ImageLevel, Images, Layout, Sampler, Texel, TexelReading, Texture,
};
pub use local::LocalMemory;
pub use overlay::PageHasher;
pub use overlay::{Global, Operation, Overlay, Postponed};
pub use shared::{MAX_SHARED, SharedMemory};
pub use tensor::{TENSOR_COLUMNS, TENSOR_LANES, TENSOR_UNIT, TensorAllocation, TensorMemory};

/// A state space that instructions address. Exhaustive on purpose: counters and cost models decide on each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// Determined by the window of the address.
    Generic,
    /// Device memory.
    Global,
    /// The block's shared memory.
    Shared,
    /// The thread's own memory: local variables and the parameters of device functions.
    Local,
    /// Module constants.
    Const,
    /// Kernel parameters.
    Param,
}

impl Space {
    /// The name of the space in messages.
    pub fn name(self) -> &'static str {
        match self {
            Space::Generic => "generic",
            Space::Global => "global",
            Space::Shared => "shared",
            Space::Local => "local",
            Space::Const => "constant",
            Space::Param => "parameter",
        }
    }

    /// Where the window of this space begins in the generic address space.
    pub fn window(self) -> u64 {
        match self {
            Space::Generic | Space::Global => 0,
            Space::Shared => SHARED_WINDOW,
            Space::Local => LOCAL_WINDOW,
            Space::Const => CONST_WINDOW,
            Space::Param => PARAM_WINDOW,
        }
    }

    /// The space of a generic address and the address in that space.
    pub fn resolve(generic: u64) -> (Space, u64) {
        match generic & !(WINDOW_SIZE - 1) {
            SHARED_WINDOW => (Space::Shared, generic - SHARED_WINDOW),
            LOCAL_WINDOW => (Space::Local, generic - LOCAL_WINDOW),
            CONST_WINDOW => (Space::Const, generic - CONST_WINDOW),
            PARAM_WINDOW => (Space::Param, generic - PARAM_WINDOW),
            _ => (Space::Global, generic),
        }
    }
}

const WINDOW_SIZE: u64 = 1 << 32;
const SHARED_WINDOW: u64 = WINDOW_SIZE;
const LOCAL_WINDOW: u64 = 2 * WINDOW_SIZE;
const CONST_WINDOW: u64 = 3 * WINDOW_SIZE;
const PARAM_WINDOW: u64 = 4 * WINDOW_SIZE;
/// Function addresses: a function's number times 16, plus this base. They cannot be loaded from.
pub const FUNCTION_WINDOW: u64 = 5 * WINDOW_SIZE;
/// The first address of device memory.
pub const HEAP_BASE: u64 = 0x7f00_0000_0000;
/// The first address of the texels of arrays: beyond all memory that programs can address.
pub const ARRAY_BASE: u64 = 1 << 54;

/// An invalid memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The space of the access, after a generic address was resolved.
    pub space: Space,
    /// The address in that space.
    pub address: u64,
    /// The reason.
    pub kind: FaultKind,
}

/// Why an access is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// The first page, where null pointers and small offsets from them point.
    Null,
    /// No allocation contains the address. The nearest one is given by its index and the distance of the access from its
    /// end (positive) or from its start (negative).
    OutOfBounds {
        /// Index and signed distance in bytes of the nearest allocation, if there is any.
        nearest: Option<(usize, i64)>,
        /// The size of the memory, if it is a single block.
        size: Option<u64>,
    },
    /// The allocation was freed.
    Freed(usize),
    /// The block of the cluster with this linear index has exited, and its shared memory with it.
    Exited(u32),
    /// The device has no access to the allocation.
    Hidden(usize),
    /// The address is reserved, but no memory is mapped there.
    Unmapped,
    /// The address is not a multiple of the access size.
    Misaligned(u32),
    /// A store to memory that kernels may only read.
    ReadOnly,
}
