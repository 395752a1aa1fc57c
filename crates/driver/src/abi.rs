//! Building blocks of the C ABI: error codes with their names and descriptions, and the structures passed across the boundary.

use std::ffi::c_void;

use crate::api::In;

/// An opaque handle in C: a pointer that is never dereferenced.
pub type Handle = *mut c_void;

/// A host function, which gets the argument that the program passed with it.
pub type HostFunction = unsafe extern "C" fn(*mut c_void);

/// A `CUresult` other than `CUDA_SUCCESS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error(pub u32);

/// Result of a driver function.
pub type Answer<T = ()> = Result<T, Error>;

macro_rules! errors {
    ($($name:ident = $code:literal, $symbol:literal, $sentence:literal;)*) => {
        impl Error {
            $(#[doc = $sentence] pub const $name: Error = Error($code);)*
        }
        /// Every `CUresult`: its number, name and description, both NUL-terminated for C.
        pub static ANSWERS: &[(u32, &str, &str)] = &[
            (0, "CUDA_SUCCESS\0", "no error\0"),
            $(($code, concat!($symbol, "\0"), concat!($sentence, "\0")),)*
        ];
    };
}

/// Name of a `CUresult`.
pub fn error_name(error: u32) -> Option<String> {
    let (_, name, _) = ANSWERS.iter().find(|(code, ..)| *code == error)?;
    Some(name.trim_end_matches('\0').to_owned())
}

errors! {
    INVALID_VALUE = 1, "CUDA_ERROR_INVALID_VALUE", "invalid argument";
    OUT_OF_MEMORY = 2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory";
    NOT_INITIALIZED = 3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error";
    DEINITIALIZED = 4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down";
    PROFILER_DISABLED = 5, "CUDA_ERROR_PROFILER_DISABLED", "profiler disabled while using external profiling tool";
    STUB_LIBRARY = 34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library";
    DEVICE_UNAVAILABLE = 46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable";
    NO_DEVICE = 100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected";
    INVALID_DEVICE = 101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal";
    INVALID_IMAGE = 200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid";
    INVALID_CONTEXT = 201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context";
    MAP_FAILED = 205, "CUDA_ERROR_MAP_FAILED", "mapping of buffer object failed";
    NO_BINARY_FOR_GPU = 209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device";
    UNSUPPORTED_LIMIT = 215, "CUDA_ERROR_UNSUPPORTED_LIMIT", "limit is not supported on this architecture";
    PEER_ACCESS_UNSUPPORTED = 217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported between these two devices";
    INVALID_PTX = 218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed";
    UNSUPPORTED_PTX_VERSION = 222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain.";
    INVALID_SOURCE = 300, "CUDA_ERROR_INVALID_SOURCE", "device kernel image is invalid";
    FILE_NOT_FOUND = 301, "CUDA_ERROR_FILE_NOT_FOUND", "file not found";
    OPERATING_SYSTEM = 304, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS";
    INVALID_HANDLE = 400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle";
    ILLEGAL_STATE = 401, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state";
    NOT_FOUND = 500, "CUDA_ERROR_NOT_FOUND", "named symbol not found";
    NOT_READY = 600, "CUDA_ERROR_NOT_READY", "device not ready";
    ILLEGAL_ADDRESS = 700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES = 701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch";
    LAUNCH_TIMEOUT = 702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated";
    PEER_ACCESS_ALREADY_ENABLED = 704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled";
    PEER_ACCESS_NOT_ENABLED = 705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled";
    PRIMARY_CONTEXT_ACTIVE = 708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", "cannot set while device is active in this process";
    CONTEXT_IS_DESTROYED = 709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed";
    ASSERT = 710, "CUDA_ERROR_ASSERT", "device-side assert triggered";
    HOST_MEMORY_ALREADY_REGISTERED = 712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped";
    HOST_MEMORY_NOT_REGISTERED = 713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region";
    HARDWARE_STACK_ERROR = 714, "CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error";
    ILLEGAL_INSTRUCTION = 715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered";
    MISALIGNED_ADDRESS = 716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address";
    INVALID_ADDRESS_SPACE = 717, "CUDA_ERROR_INVALID_ADDRESS_SPACE", "operation not supported on global/shared address space";
    INVALID_PC = 718, "CUDA_ERROR_INVALID_PC", "invalid program counter";
    LAUNCH_FAILED = 719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure";
    COOPERATIVE_LAUNCH_TOO_LARGE = 720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch";
    NOT_PERMITTED = 800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted";
    NOT_SUPPORTED = 801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported";
    STREAM_CAPTURE_UNSUPPORTED = 900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing";
    STREAM_CAPTURE_INVALIDATED = 901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture";
    STREAM_CAPTURE_MERGE = 902, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would result in a merge of separate capture sequences";
    STREAM_CAPTURE_UNMATCHED = 903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began";
    STREAM_CAPTURE_UNJOINED = 904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work";
    STREAM_CAPTURE_IMPLICIT = 906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on a capturing blocking stream";
    CAPTURED_EVENT = 907, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream";
    STREAM_CAPTURE_WRONG_THREAD = 908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "attempt to terminate a thread-local capture sequence from another thread";
    TIMEOUT = 909, "CUDA_ERROR_TIMEOUT", "wait operation timed out";
    GRAPH_EXEC_UPDATE_FAILURE = 910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update";
    FUNCTION_NOT_LOADED = 913, "CUDA_ERROR_FUNCTION_NOT_LOADED", "the requested device function is not loaded";
    PROFILER_NOT_INITIALIZED = 6, "CUDA_ERROR_PROFILER_NOT_INITIALIZED", "profiler not initialized";
    PROFILER_ALREADY_STARTED = 7, "CUDA_ERROR_PROFILER_ALREADY_STARTED", "profiler already started";
    PROFILER_ALREADY_STOPPED = 8, "CUDA_ERROR_PROFILER_ALREADY_STOPPED", "profiler already stopped";
    DEVICE_NOT_LICENSED = 102, "CUDA_ERROR_DEVICE_NOT_LICENSED", "device not licensed";
    CONTEXT_ALREADY_CURRENT = 202, "CUDA_ERROR_CONTEXT_ALREADY_CURRENT", "context already current";
    UNMAP_FAILED = 206, "CUDA_ERROR_UNMAP_FAILED", "unmap failed";
    ARRAY_IS_MAPPED = 207, "CUDA_ERROR_ARRAY_IS_MAPPED", "array is mapped";
    ALREADY_MAPPED = 208, "CUDA_ERROR_ALREADY_MAPPED", "already mapped";
    ALREADY_ACQUIRED = 210, "CUDA_ERROR_ALREADY_ACQUIRED", "already acquired";
    NOT_MAPPED = 211, "CUDA_ERROR_NOT_MAPPED", "not mapped";
    NOT_MAPPED_AS_ARRAY = 212, "CUDA_ERROR_NOT_MAPPED_AS_ARRAY", "not mapped as array";
    NOT_MAPPED_AS_POINTER = 213, "CUDA_ERROR_NOT_MAPPED_AS_POINTER", "not mapped as pointer";
    ECC_UNCORRECTABLE = 214, "CUDA_ERROR_ECC_UNCORRECTABLE", "ecc uncorrectable";
    CONTEXT_ALREADY_IN_USE = 216, "CUDA_ERROR_CONTEXT_ALREADY_IN_USE", "context already in use";
    INVALID_GRAPHICS_CONTEXT = 219, "CUDA_ERROR_INVALID_GRAPHICS_CONTEXT", "invalid graphics context";
    NVLINK_UNCORRECTABLE = 220, "CUDA_ERROR_NVLINK_UNCORRECTABLE", "nvlink uncorrectable";
    JIT_COMPILER_NOT_FOUND = 221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "jit compiler not found";
    JIT_COMPILATION_DISABLED = 223, "CUDA_ERROR_JIT_COMPILATION_DISABLED", "jit compilation disabled";
    UNSUPPORTED_EXEC_AFFINITY = 224, "CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY", "unsupported exec affinity";
    UNSUPPORTED_DEVSIDE_SYNC = 225, "CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC", "unsupported devside sync";
    CONTAINED = 226, "CUDA_ERROR_CONTAINED", "contained";
    SHARED_OBJECT_SYMBOL_NOT_FOUND = 302, "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND", "shared object symbol not found";
    SHARED_OBJECT_INIT_FAILED = 303, "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED", "shared object init failed";
    LOSSY_QUERY = 402, "CUDA_ERROR_LOSSY_QUERY", "lossy query";
    LAUNCH_INCOMPATIBLE_TEXTURING = 703, "CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING", "launch incompatible texturing";
    TOO_MANY_PEERS = 711, "CUDA_ERROR_TOO_MANY_PEERS", "too many peers";
    TENSOR_MEMORY_LEAK = 721, "CUDA_ERROR_TENSOR_MEMORY_LEAK", "tensor memory leak";
    SYSTEM_NOT_READY = 802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not ready";
    SYSTEM_DRIVER_MISMATCH = 803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system driver mismatch";
    COMPAT_NOT_SUPPORTED_ON_DEVICE = 804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "compat not supported on device";
    MPS_CONNECTION_FAILED = 805, "CUDA_ERROR_MPS_CONNECTION_FAILED", "mps connection failed";
    MPS_RPC_FAILURE = 806, "CUDA_ERROR_MPS_RPC_FAILURE", "mps rpc failure";
    MPS_SERVER_NOT_READY = 807, "CUDA_ERROR_MPS_SERVER_NOT_READY", "mps server not ready";
    MPS_MAX_CLIENTS_REACHED = 808, "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED", "mps max clients reached";
    MPS_MAX_CONNECTIONS_REACHED = 809, "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED", "mps max connections reached";
    MPS_CLIENT_TERMINATED = 810, "CUDA_ERROR_MPS_CLIENT_TERMINATED", "mps client terminated";
    CDP_NOT_SUPPORTED = 811, "CUDA_ERROR_CDP_NOT_SUPPORTED", "cdp not supported";
    CDP_VERSION_MISMATCH = 812, "CUDA_ERROR_CDP_VERSION_MISMATCH", "cdp version mismatch";
    STREAM_CAPTURE_ISOLATION = 905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "stream capture isolation";
    EXTERNAL_DEVICE = 911, "CUDA_ERROR_EXTERNAL_DEVICE", "external device";
    INVALID_CLUSTER_SIZE = 912, "CUDA_ERROR_INVALID_CLUSTER_SIZE", "invalid cluster size";
    INVALID_RESOURCE_TYPE = 914, "CUDA_ERROR_INVALID_RESOURCE_TYPE", "invalid resource type";
    INVALID_RESOURCE_CONFIGURATION = 915, "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION", "invalid resource configuration";
    KEY_ROTATION = 916, "CUDA_ERROR_KEY_ROTATION", "key rotation";
    UNKNOWN = 999, "CUDA_ERROR_UNKNOWN", "unknown error";
}

/// `CUlaunchConfig`: launch configuration of `cuLaunchKernelEx`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LaunchConfig {
    /// Grid size in blocks.
    pub grid: [u32; 3],
    /// Block size in threads.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// The stream.
    pub stream: Handle,
    /// Attributes.
    pub attributes: In<LaunchAttribute>,
    /// Number of attributes.
    pub count: u32,
}

/// `CUlaunchAttribute`: an ID, and a union of 64 bytes at offset 8.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
pub struct LaunchAttribute {
    /// `CUlaunchAttributeID`.
    pub id: u32,
    /// Padding.
    pub pad: u32,
    /// The value.
    pub value: [u32; 16],
}

/// `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Copy2d {
    /// Bytes to skip in each source row.
    pub source_x: usize,
    /// Source rows to skip.
    pub source_y: usize,
    /// `CUmemorytype` of the source.
    pub source_type: u32,
    /// Source address in host memory.
    pub source_host: u64,
    /// Source address in device memory.
    pub source_device: u64,
    /// Source array.
    pub source_array: u64,
    /// Source pitch: bytes from row to row.
    pub source_pitch: usize,
    /// Bytes to skip in each destination row.
    pub target_x: usize,
    /// Destination rows to skip.
    pub target_y: usize,
    /// `CUmemorytype` of the destination.
    pub target_type: u32,
    /// Destination address in host memory.
    pub target_host: u64,
    /// Destination address in device memory.
    pub target_device: u64,
    /// Destination array.
    pub target_array: u64,
    /// Destination pitch: bytes from row to row.
    pub target_pitch: usize,
    /// Bytes to copy per row.
    pub width: usize,
    /// Rows to copy.
    pub height: usize,
}

/// `CUDA_MEMCPY3D`; its reserved fields are the contexts of `CUDA_MEMCPY3D_PEER`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Copy3d {
    /// Bytes to skip in each source row.
    pub source_x: usize,
    /// Source rows to skip.
    pub source_y: usize,
    /// Source slices to skip.
    pub source_z: usize,
    /// Mipmap level of the source.
    pub source_lod: usize,
    /// `CUmemorytype` of the source.
    pub source_type: u32,
    /// Source address in host memory.
    pub source_host: u64,
    /// Source address in device memory.
    pub source_device: u64,
    /// Source array.
    pub source_array: u64,
    /// Source context, or 0.
    pub source_context: u64,
    /// Source pitch: bytes from row to row.
    pub source_pitch: usize,
    /// Source rows per slice.
    pub source_height: usize,
    /// Bytes to skip in each destination row.
    pub target_x: usize,
    /// Destination rows to skip.
    pub target_y: usize,
    /// Destination slices to skip.
    pub target_z: usize,
    /// Mipmap level of the destination.
    pub target_lod: usize,
    /// `CUmemorytype` of the destination.
    pub target_type: u32,
    /// Destination address in host memory.
    pub target_host: u64,
    /// Destination address in device memory.
    pub target_device: u64,
    /// Destination array.
    pub target_array: u64,
    /// Destination context, or 0.
    pub target_context: u64,
    /// Destination pitch: bytes from row to row.
    pub target_pitch: usize,
    /// Destination rows per slice.
    pub target_height: usize,
    /// Bytes to copy per row.
    pub width: usize,
    /// Rows to copy per slice.
    pub height: usize,
    /// Slices to copy.
    pub depth: usize,
}

/// `CUDA_KERNEL_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KernelNode {
    /// The function.
    pub function: Handle,
    /// Grid size in blocks.
    pub grid: [u32; 3],
    /// Block size in threads.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// Pointers to the arguments.
    pub arguments: In<In<u8>>,
    /// Alternative to `arguments`: all arguments in one buffer.
    pub extra: In<*mut c_void>,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KernelNodeV2 {
    /// The fields of the first version.
    pub node: KernelNode,
    /// A kernel of a library, if `function` is null.
    pub kernel: Handle,
    /// A context.
    pub context: Handle,
}

/// `CUDA_MEMSET_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SetNode {
    /// Destination address.
    pub target: u64,
    /// Bytes from row to row.
    pub pitch: usize,
    /// Value of each element.
    pub value: u32,
    /// Bytes per element.
    pub element: u32,
    /// Elements per row.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// `CUDA_HOST_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HostNode {
    /// Function to call.
    pub function: Option<HostFunction>,
    /// Argument of the call.
    pub data: *mut c_void,
}

/// `CU_MEM_ALLOCATION_TYPE_PINNED`, the type of memory that stays where it is.
pub const PINNED: u32 = 1;
/// `CU_MEM_LOCATION_TYPE_DEVICE`.
pub const LOCATION_DEVICE: u32 = 1;

/// `CUmemAllocationProp`: properties of physical memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationProp {
    /// `CUmemAllocationType`.
    pub kind: u32,
    /// `CUmemAllocationHandleType`; must be 0.
    pub handles: u32,
    /// `CUmemLocationType`.
    pub location: u32,
    /// The device, if the location is one.
    pub id: i32,
    /// Attributes of Windows; unused.
    pub attributes: u64,
    /// Flags: compression, remote access, usage; without effect.
    pub flags: u64,
}

/// `CUDA_MEM_ALLOC_NODE_PARAMS`: properties of a pool, then the allocation.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct AllocationNode {
    /// `CUmemAllocationType`.
    pub kind: u32,
    /// `CUmemAllocationHandleType`; must be 0.
    pub handles: u32,
    /// `CUmemLocationType`.
    pub location: u32,
    /// The device, if the location is one.
    pub device: i32,
    /// Security attributes of Windows, size, usage and reserved bytes of the pool; ignored.
    pub rest: [u64; 9],
    /// Devices that may access the memory; ignored, because all may.
    pub access: usize,
    /// Number of these devices.
    pub access_count: usize,
    /// Bytes.
    pub size: usize,
    /// The address, which is an output.
    pub address: u64,
}
