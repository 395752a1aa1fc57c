//! The structures that programs pass to the runtime, as in CUDA's `driver_types.h` and `vector_types.h`.

/// `dim3`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dim3 {
    /// Along x.
    pub x: u32,
    /// Along y.
    pub y: u32,
    /// Along z.
    pub z: u32,
}

impl Dim3 {
    /// The three numbers.
    pub fn list(self) -> [u32; 3] {
        [self.x, self.y, self.z]
    }
}

/// `cudaPitchedPtr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PitchedPointer {
    /// The address.
    pub address: u64,
    /// Bytes from row to row.
    pub pitch: usize,
    /// Elements per row.
    pub width: usize,
    /// Rows per slice.
    pub height: usize,
}

/// `cudaExtent`: elements of an array, or bytes of linear memory, then rows and slices.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Elements or bytes per row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Slices.
    pub depth: usize,
}

/// `cudaPos`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Elements or bytes to skip in each row.
    pub x: usize,
    /// Rows to skip.
    pub y: usize,
    /// Slices to skip.
    pub z: usize,
}

/// `cudaMemcpy3DParms`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy3dParms {
    /// Source array, or null.
    pub source_array: u64,
    /// Where the source starts.
    pub source_position: Position,
    /// Source memory, if there is no array.
    pub source: PitchedPointer,
    /// Destination array, or null.
    pub target_array: u64,
    /// Where the destination starts.
    pub target_position: Position,
    /// Destination memory, if there is no array.
    pub target: PitchedPointer,
    /// What to copy.
    pub extent: Extent,
    /// `cudaMemcpyKind`.
    pub kind: u32,
}

/// `cudaMemcpy3DPeerParms`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCopy3dParms {
    /// Source array, or null.
    pub source_array: u64,
    /// Where the source starts.
    pub source_position: Position,
    /// Source memory, if there is no array.
    pub source: PitchedPointer,
    /// Source device.
    pub source_device: i32,
    /// Destination array, or null.
    pub target_array: u64,
    /// Where the destination starts.
    pub target_position: Position,
    /// Destination memory, if there is no array.
    pub target: PitchedPointer,
    /// Destination device.
    pub target_device: i32,
    /// What to copy.
    pub extent: Extent,
}

/// `cudaMemcpy3DOperand`: memory or an array.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyOperand {
    /// `cudaMemcpy3DOperandType`.
    pub kind: u32,
    /// An address, the length of a row, the height of a layer, and a hint; or an array and a position in it.
    pub values: [u64; 4],
}

/// `cudaMemcpy3DBatchOp`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchCopy3d {
    /// Source.
    pub source: CopyOperand,
    /// Destination.
    pub target: CopyOperand,
    /// What to copy.
    pub extent: Extent,
    /// `cudaMemcpySrcAccessOrder`.
    pub order: u32,
    /// Hints.
    pub flags: u32,
}

/// `cudaFuncAttributes`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionAttributes {
    /// Bytes of static shared memory.
    pub shared: usize,
    /// Bytes of constant memory.
    pub constant: usize,
    /// Bytes of local memory of a thread.
    pub local: usize,
    /// Threads of a block at most.
    pub threads: i32,
    /// Registers of a thread.
    pub registers: i32,
    /// PTX target.
    pub ptx: i32,
    /// Architecture of the machine code.
    pub binary: i32,
    /// Whether it was compiled to cache everything in L1.
    pub cache: i32,
    /// Bytes of dynamic shared memory at most.
    pub dynamic: i32,
    /// Preferred share of shared memory.
    pub carveout: i32,
    /// Whether a cluster size must be set.
    pub cluster_required: i32,
    /// Required cluster size.
    pub cluster: [i32; 3],
    /// Preferred scheduling of clusters.
    pub cluster_policy: i32,
    /// Whether clusters of a size that not every device supports are allowed.
    pub cluster_nonportable: i32,
    /// Fields of CUDA 13 that are 0, and reserved ones.
    pub rest: [i32; 16],
}

/// `cudaPointerAttributes` of CUDA 12, and the start of that of CUDA 13.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerAttributes {
    /// `cudaMemoryType`.
    pub kind: u32,
    /// The device, or -2.
    pub device: i32,
    /// The address for kernels, or 0.
    pub device_pointer: u64,
    /// The address for the host, or 0.
    pub host_pointer: u64,
}
