//! The driver API in safe Rust: handles that are released when they are dropped, and calls that need them.
//!
//! Most `unsafe` code of this crate is here; the rest is in `nvml.rs`. Only the driver creates handles, and
//! `Drop` destroys each once; a handle that needs another one to be alive owns a reference to it. Handles
//! stay in the thread that created them.

use std::ffi::{CStr, CString, c_int, c_void};
use std::fmt;
use std::rc::Rc;

use cudarc::driver::{result, sys};

/// Maximum bytes of a kernel's parameters: 4 KB, and 32,764 bytes since CUDA 12.1.
const PARAMETER_BYTES: usize = 32_764;
/// Every driver function that this file calls. A library that lacks one is rejected before the first call,
/// because the binding panics at a missing function.
const FUNCTIONS: [&str; 41] = [
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceGetUuid",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuGraphUpload",
    "cuInit",
    "cuLaunchCooperativeKernel",
    "cuLaunchKernel",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemcpyDtoH_v2",
    "cuMemcpyHtoD_v2",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleGetGlobal_v2",
    "cuModuleLoadDataEx",
    "cuModuleUnload",
    "cuStreamBeginCapture_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamEndCapture",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
];
/// Maximum number of functions that a message names.
const NAMED: usize = 3;
/// Bytes of the compiler's log that are read.
const LOG: usize = 8192;

/// Why a driver request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CudaError {
    /// There is no driver library, or it does not respond.
    NoDriver(String),
    /// There is no device with this number.
    NoDevice {
        /// The requested number.
        asked: u32,
        /// The number of devices.
        count: u32,
    },
    /// A call failed.
    Call {
        /// The function.
        function: &'static str,
        /// The driver's name of the error.
        name: String,
        /// The driver's description of the error.
        text: String,
    },
    /// The request is invalid.
    Request(String),
}

impl fmt::Display for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CudaError::NoDriver(why) => write!(f, "no NVIDIA driver: {why}"),
            CudaError::NoDevice { asked, count } => {
                write!(f, "there is no device {asked}: the driver has {count}")
            }
            CudaError::Call { function, name, text } => write!(f, "{function}: {name}, {text}"),
            CudaError::Request(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for CudaError {}

/// Converts an error of a function.
fn failed(function: &'static str) -> impl Fn(result::DriverError) -> CudaError {
    move |error| {
        let text = |said: Result<&CStr, result::DriverError>| {
            said.map_or_else(|_| "unknown".to_owned(), |said| said.to_string_lossy().into_owned())
        };
        CudaError::Call { function, name: text(error.error_name()), text: text(error.error_string()) }
    }
}

/// Whether the open driver library has a function.
fn has(name: &str) -> bool {
    // SAFETY: the address is looked up and not used; its type does not matter.
    unsafe { sys::culib().get::<*const c_void>(name.as_bytes()).is_ok() }
}

/// What the library and the device report about themselves.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    pub(crate) name: String,
    pub(crate) uuid: [u8; 16],
    pub(crate) cuda: (u32, u32),
    pub(crate) capability: (u32, u32),
    pub(crate) l2_bytes: u64,
    /// The library is Warpproof's own, on the software GPU.
    pub(crate) software: bool,
}

/// The primary context of a device.
pub(crate) struct Context {
    device: sys::CUdevice,
    handle: sys::CUcontext,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context({})", self.device)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was retained once, and nothing that lives in it is left: all of that holds it.
        let _lost = unsafe { result::primary_ctx::release(self.device) };
    }
}

impl Context {
    /// Opens the driver and the device with a number.
    pub(crate) fn open(ordinal: u32) -> Result<Rc<Context>, CudaError> {
        // SAFETY: opening a library runs its initializers; those of a CUDA driver are intended for it.
        if !unsafe { sys::is_culib_present() } {
            return Err(CudaError::NoDriver("libcuda.so.1 is not found".to_owned()));
        }
        let missing: Vec<&str> = FUNCTIONS.into_iter().filter(|name| !has(name)).collect();
        if !missing.is_empty() {
            let named = missing[..missing.len().min(NAMED)].join(", ");
            let more = missing.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            return Err(CudaError::NoDriver(format!(
                "the libcuda.so.1 that was found is not a CUDA driver this program can use: it lacks {named}{more}; update the \
                 driver, or take the directory of that library out of LD_LIBRARY_PATH"
            )));
        }
        result::init().map_err(|error| CudaError::NoDriver(failed("cuInit")(error).to_string()))?;
        let count = result::device::get_count().map_err(failed("cuDeviceGetCount"))?;
        let count = u32::try_from(count).unwrap_or(0);
        let none = || CudaError::NoDevice { asked: ordinal, count };
        let number = c_int::try_from(ordinal).ok().filter(|_| ordinal < count).ok_or_else(none)?;
        let device = result::device::get(number).map_err(failed("cuDeviceGet"))?;
        // SAFETY: the device is the driver's; the context is released when it is dropped.
        let handle =
            unsafe { result::primary_ctx::retain(device) }.map_err(failed("cuDevicePrimaryCtxRetain"))?;
        let context = Rc::new(Context { device, handle });
        context.enter()?;
        Ok(context)
    }

    /// Makes it the current context of the thread: another device may have been used in between.
    fn enter(&self) -> Result<(), CudaError> {
        // SAFETY: the context is retained as long as this lives.
        unsafe { result::ctx::set_current(self.handle) }.map_err(failed("cuCtxSetCurrent"))
    }

    pub(crate) fn describe(&self) -> Result<Described, CudaError> {
        let name = result::device::get_name(self.device).map_err(failed("cuDeviceGetName"))?;
        let uuid = result::device::get_uuid(self.device).map_err(failed("cuDeviceGetUuid"))?;
        let uuid = uuid.bytes.map(|byte| byte.to_ne_bytes()[0]);
        let mut version: c_int = 0;
        // SAFETY: the pointer is to a number that lives.
        unsafe { sys::cuDriverGetVersion(&raw mut version) }
            .result()
            .map_err(failed("cuDriverGetVersion"))?;
        let version = u32::try_from(version).unwrap_or(0);
        let attribute = |which| {
            // SAFETY: the device is the driver's.
            let value = unsafe { result::device::get_attribute(self.device, which) };
            value.map(|value| u32::try_from(value).unwrap_or(0)).map_err(failed("cuDeviceGetAttribute"))
        };
        let major = attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let l2 = attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?;
        let software = has("warpproof_driver");
        Ok(Described {
            name,
            uuid,
            cuda: (version / 1000, version % 1000 / 10),
            capability: (major, minor),
            l2_bytes: u64::from(l2),
            software,
        })
    }

    /// Waits for all work.
    pub(crate) fn synchronize(&self) -> Result<(), CudaError> {
        self.enter()?;
        result::ctx::synchronize().map_err(failed("cuCtxSynchronize"))
    }
}

/// Device memory.
pub(crate) struct Allocation {
    context: Rc<Context>,
    pub(crate) address: u64,
    pub(crate) bytes: usize,
}

impl fmt::Debug for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Allocation({:#x}, {})", self.address, self.bytes)
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            // SAFETY: it was allocated once and is freed once; a launch that still uses it is waited for by the driver.
            let _lost = unsafe { result::free_sync(self.address) };
        }
    }
}

impl Allocation {
    pub(crate) fn new(context: &Rc<Context>, bytes: usize) -> Result<Allocation, CudaError> {
        context.enter()?;
        // SAFETY: what is allocated is freed when it is dropped.
        let address = unsafe { result::malloc_sync(bytes) }.map_err(failed("cuMemAlloc"))?;
        Ok(Allocation { context: context.clone(), address, bytes })
    }

    /// Writes bytes at its beginning.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<(), CudaError> {
        self.fits(bytes.len())?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.context.enter()?;
        // SAFETY: the allocation has at least this number of bytes, and the copy has ended when this returns.
        unsafe { result::memcpy_htod_sync(self.address, bytes) }.map_err(failed("cuMemcpyHtoD"))
    }

    pub(crate) fn read(&self) -> Result<Vec<u8>, CudaError> {
        let mut bytes = vec![0; self.bytes];
        if bytes.is_empty() {
            return Ok(bytes);
        }
        self.context.enter()?;
        // SAFETY: the allocation has at least this number of bytes, and the copy has ended when this returns.
        unsafe { result::memcpy_dtoh_sync(&mut bytes, self.address) }.map_err(failed("cuMemcpyDtoH"))?;
        Ok(bytes)
    }

    fn fits(&self, bytes: usize) -> Result<(), CudaError> {
        if bytes <= self.bytes {
            return Ok(());
        }
        let why = format!("{bytes} bytes do not fit into {}", self.bytes);
        Err(CudaError::Request(why))
    }
}

/// A loaded module.
pub(crate) struct Module {
    context: Rc<Context>,
    handle: sys::CUmodule,
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Module({:?})", self.handle)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            // SAFETY: it was loaded once and is unloaded once; functions and graphs that use it hold it.
            let _lost = unsafe { result::module::unload(self.handle) };
        }
    }
}

impl Module {
    /// Loads PTX, which the driver compiles.
    pub(crate) fn load(context: &Rc<Context>, ptx: &str) -> Result<Rc<Module>, CudaError> {
        let image = CString::new(ptx)
            .map_err(|_| CudaError::Request("the module's text contains a zero byte".to_owned()))?;
        Module::of(context, image.as_bytes_with_nul())
    }

    /// Loads machine code for the device.
    pub(crate) fn load_cubin(context: &Rc<Context>, cubin: &[u8]) -> Result<Rc<Module>, CudaError> {
        // The driver reads the length of an image from the image itself.
        if !is_whole(cubin) {
            return Err(CudaError::Request("expected a cubin, found something else".to_owned()));
        }
        Module::of(context, cubin)
    }

    /// `image` is text that ends with a zero byte, or a complete ELF file.
    fn of(context: &Rc<Context>, image: &[u8]) -> Result<Rc<Module>, CudaError> {
        context.enter()?;
        let mut log = vec![0u8; LOG];
        let mut options = [
            sys::CUjit_option_enum::CU_JIT_ERROR_LOG_BUFFER,
            sys::CUjit_option_enum::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        let mut values = [log.as_mut_ptr().cast::<c_void>(), std::ptr::without_provenance_mut(LOG)];
        let mut handle: sys::CUmodule = std::ptr::null_mut();
        // SAFETY: the image contains its terminating zero byte, or everything that its ELF headers refer to;
        // the log buffer has the size passed to the driver; both live until the call returns; two options,
        // two values.
        let code = unsafe {
            sys::cuModuleLoadDataEx(
                &raw mut handle,
                image.as_ptr().cast(),
                2,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        code.result().map_err(|error| {
            let said = CStr::from_bytes_until_nul(&log).unwrap_or_default().to_string_lossy();
            match failed("cuModuleLoadDataEx")(error) {
                CudaError::Call { function, name, text } if !said.trim().is_empty() => {
                    CudaError::Call { function, name, text: format!("{text}; {}", said.trim()) }
                }
                other => other,
            }
        })?;
        Ok(Rc::new(Module { context: context.clone(), handle }))
    }

    /// Writes a variable; its size must match the bytes.
    pub(crate) fn set(&self, symbol: &str, bytes: &[u8]) -> Result<(), CudaError> {
        self.context.enter()?;
        let name = CString::new(symbol)
            .map_err(|_| CudaError::Request("a variable's name contains a zero byte".to_owned()))?;
        // SAFETY: the module is loaded, and the name ends in NUL.
        let found = unsafe { result::module::get_global(self.handle, name) };
        let (address, size) = found.map_err(failed("cuModuleGetGlobal"))?;
        if size != bytes.len() {
            let sentence = format!("expected {size} bytes for `{symbol}`, found {}", bytes.len());
            return Err(CudaError::Request(sentence));
        }
        // SAFETY: the variable has as many bytes, and the module that holds it is loaded.
        unsafe { result::memcpy_htod_sync(address, bytes) }.map_err(failed("cuMemcpyHtoD"))
    }
}

/// Whether the bytes are a 64-bit ELF file that contains its section and segment tables and everything they
/// refer to.
fn is_whole(image: &[u8]) -> bool {
    const NOTHING: u64 = 8;
    let number = |at: u64, bytes: usize| -> Option<u64> {
        let at = usize::try_from(at).ok()?;
        let bytes = image.get(at..at.checked_add(bytes)?)?;
        Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    let within = |at: u64, bytes: u64| {
        at.checked_add(bytes).is_some_and(|end| usize::try_from(end).is_ok_and(|end| end <= image.len()))
    };
    let sections = || {
        let (at, size, count) = (number(0x28, 8)?, number(0x3a, 2)?, number(0x3c, 2)?);
        (0..count).try_for_each(|index| {
            let header = at.checked_add(index.checked_mul(size)?)?;
            let (kind, begin, bytes) =
                (number(header + 4, 4)?, number(header + 0x18, 8)?, number(header + 0x20, 8)?);
            (kind == NOTHING || within(begin, bytes)).then_some(())
        })
    };
    let segments = || {
        let (at, size, count) = (number(0x20, 8)?, number(0x36, 2)?, number(0x38, 2)?);
        (0..count).try_for_each(|index| {
            let header = at.checked_add(index.checked_mul(size)?)?;
            within(number(header + 8, 8)?, number(header + 0x20, 8)?).then_some(())
        })
    };
    image.starts_with(b"\x7fELF\x02") && sections().is_some() && segments().is_some()
}

/// A kernel of a module.
#[derive(Clone)]
pub(crate) struct Function {
    module: Rc<Module>,
    handle: sys::CUfunction,
}

impl Function {
    /// The kernel with this name, with `shared` bytes of dynamic shared memory allowed.
    pub(crate) fn new(module: &Rc<Module>, name: &str, shared: u32) -> Result<Function, CudaError> {
        module.context.enter()?;
        let text = CString::new(name)
            .map_err(|_| CudaError::Request("a kernel's name contains a zero byte".to_owned()))?;
        // SAFETY: the module is loaded, and the function holds it.
        let handle = unsafe { result::module::get_function(module.handle, text) }.map_err(|error| {
            match failed("cuModuleGetFunction")(error) {
                CudaError::Call { function, name: code, text } => {
                    CudaError::Call { function, name: code, text: format!("{text}: `{name}`") }
                }
                other => other,
            }
        })?;
        // Static and dynamic shared memory together may be 48 KiB without opt-in; the static size is not
        // known here.
        if shared > 0 {
            let which = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let bytes = i32::try_from(shared)
                .map_err(|_| CudaError::Request("more shared memory than any block can have".to_owned()))?;
            // SAFETY: the function is of a loaded module.
            unsafe { result::function::set_function_attribute(handle, which, bytes) }
                .map_err(failed("cuFuncSetAttribute"))?;
        }
        Ok(Function { module: module.clone(), handle })
    }
}

/// A launch with its arguments in the form that the driver expects.
pub(crate) struct Ready {
    function: Function,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    /// Whether it is launched cooperatively.
    pub(crate) cooperative: bool,
    /// The arguments one after another, followed by zeros for all parameters that a kernel can have. Never
    /// changed: `pointers` points into it.
    _bytes: Vec<u8>,
    /// A pointer to each argument, and a pointer to the zeros for each further parameter that a kernel can
    /// have.
    pointers: Vec<*mut c_void>,
}

impl Ready {
    pub(crate) fn new(
        function: Function,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        arguments: &[Vec<u8>],
    ) -> Ready {
        // The driver copies parameters byte by byte; the alignment is for an
        // implementation that would load them as values.
        let mut bytes: Vec<u8> = Vec::new();
        let mut starts = Vec::with_capacity(arguments.len());
        for argument in arguments {
            bytes.resize(bytes.len().next_multiple_of(16), 0);
            starts.push(bytes.len());
            bytes.extend(argument);
        }
        // The driver reads as many bytes as the kernel declares, regardless of the arguments: zeros follow
        // the last byte.
        let last = bytes.len();
        bytes.resize(last + PARAMETER_BYTES, 0);
        let base = bytes.as_mut_ptr();
        let at = |start: usize| base.wrapping_add(start).cast::<c_void>();
        let mut pointers: Vec<*mut c_void> = starts.into_iter().map(at).collect();
        // As many pointers as a kernel can have parameters of one byte each.
        pointers.resize(pointers.len().max(PARAMETER_BYTES), at(last));
        Ready { function, grid, block, shared, cooperative: false, _bytes: bytes, pointers }
    }

    /// Submits it to a stream.
    pub(crate) fn launch(&mut self, stream: &Stream) -> Result<(), CudaError> {
        let (grid, block) = (self.grid, self.block);
        let (launch, name): (unsafe fn(_, _, _, _, _, &mut [_]) -> _, _) = if self.cooperative {
            (result::launch_cooperative_kernel, "cuLaunchCooperativeKernel")
        } else {
            (result::launch_kernel, "cuLaunchKernel")
        };
        // SAFETY: function and stream are alive. However many parameters the kernel has and whatever their
        // sizes, each pointer is valid for as many bytes as all parameters of a kernel can have, and these
        // bytes live as long as `self`. The kernel's accesses to device memory cannot affect this process's
        // own memory.
        unsafe {
            launch(
                self.function.handle,
                (grid[0], grid[1], grid[2]),
                (block[0], block[1], block[2]),
                self.shared,
                stream.handle,
                &mut self.pointers,
            )
        }
        .map_err(failed(name))
    }
}

/// A stream. It synchronizes with the legacy stream, and so with copies.
pub(crate) struct Stream {
    context: Rc<Context>,
    handle: sys::CUstream,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({:?})", self.handle)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            // SAFETY: it was made once and is destroyed once.
            let _lost = unsafe { result::stream::destroy(self.handle) };
        }
    }
}

impl Stream {
    pub(crate) fn new(context: &Rc<Context>) -> Result<Stream, CudaError> {
        context.enter()?;
        let kind = result::stream::StreamKind::Default;
        let handle = result::stream::create(kind).map_err(failed("cuStreamCreate"))?;
        Ok(Stream { context: context.clone(), handle })
    }

    /// Makes the stream's context current before a series of calls.
    pub(crate) fn enter(&self) -> Result<(), CudaError> {
        self.context.enter()
    }

    /// Fills the first bytes of memory with zeros.
    pub(crate) fn zero(&self, memory: &Allocation, bytes: usize) -> Result<(), CudaError> {
        memory.fits(bytes)?;
        // SAFETY: the allocation has at least this number of bytes. Freeing it waits for the stream.
        unsafe { result::memset_d8_async(memory.address, 0, bytes, self.handle) }
            .map_err(failed("cuMemsetD8Async"))
    }

    pub(crate) fn record(&self, event: &Event) -> Result<(), CudaError> {
        // SAFETY: both live.
        unsafe { result::event::record(event.handle, self.handle) }.map_err(failed("cuEventRecord"))
    }

    pub(crate) fn launch(&self, graph: &Graph) -> Result<(), CudaError> {
        // SAFETY: both live.
        unsafe { result::graph::launch(graph.handle, self.handle) }.map_err(failed("cuGraphLaunch"))
    }

    /// Captures `repeat` repetitions of the launches as one graph: the device proceeds from one to the next
    /// without the host.
    pub(crate) fn capture(&self, launches: &mut [Ready], repeat: u32) -> Result<Graph, CudaError> {
        self.enter()?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream lives.
        unsafe { result::stream::begin_capture(self.handle, mode) }
            .map_err(failed("cuStreamBeginCapture"))?;
        let mut given = Ok(());
        'all: for _ in 0..repeat {
            for launch in &mut *launches {
                given = launch.launch(self);
                if given.is_err() {
                    break 'all;
                }
            }
        }
        // Also after an error: a stream that stays in capture accepts no other work.
        // SAFETY: the stream lives and is in capture.
        let graph = unsafe { result::stream::end_capture(self.handle) }.map_err(failed("cuStreamEndCapture"));
        if given.is_err() {
            if let Ok(graph) = graph {
                destroy(graph);
            }
            return Err(given.err().unwrap_or_else(|| CudaError::Request("nothing was captured".to_owned())));
        }
        let graph = graph?;
        let mut handle: sys::CUgraphExec = std::ptr::null_mut();
        // SAFETY: the graph was captured just now.
        let made = unsafe { sys::cuGraphInstantiateWithFlags(&raw mut handle, graph, 0) }.result();
        destroy(graph);
        made.map_err(failed("cuGraphInstantiateWithFlags"))?;
        let modules = launches.iter().map(|launch| launch.function.module.clone()).collect();
        let graph = Graph { context: self.context.clone(), handle, _modules: modules };
        // SAFETY: both live.
        unsafe { result::graph::upload(graph.handle, self.handle) }.map_err(failed("cuGraphUpload"))?;
        Ok(graph)
    }
}

/// Destroys a captured graph.
fn destroy(graph: sys::CUgraph) {
    if !graph.is_null() {
        // SAFETY: it was captured once and is destroyed once, here.
        let _lost = unsafe { result::graph::destroy(graph) };
    }
}

/// An executable graph.
pub(crate) struct Graph {
    context: Rc<Context>,
    handle: sys::CUgraphExec,
    /// The modules of its launches, kept loaded.
    _modules: Vec<Rc<Module>>,
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            // SAFETY: it was made once and is destroyed once.
            let _lost = unsafe { result::graph::exec_destroy(self.handle) };
        }
    }
}

/// An event with timing enabled.
pub(crate) struct Event {
    context: Rc<Context>,
    handle: sys::CUevent,
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({:?})", self.handle)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            // SAFETY: it was made once and is destroyed once.
            let _lost = unsafe { result::event::destroy(self.handle) };
        }
    }
}

impl Event {
    pub(crate) fn new(context: &Rc<Context>) -> Result<Event, CudaError> {
        context.enter()?;
        let flags = sys::CUevent_flags::CU_EVENT_DEFAULT;
        let handle = result::event::create(flags).map_err(failed("cuEventCreate"))?;
        Ok(Event { context: context.clone(), handle })
    }

    /// Waits for the event.
    pub(crate) fn wait(&self) -> Result<(), CudaError> {
        // SAFETY: the event lives.
        unsafe { result::event::synchronize(self.handle) }.map_err(failed("cuEventSynchronize"))
    }

    /// Milliseconds from this event to another.
    pub(crate) fn until(&self, end: &Event) -> Result<f32, CudaError> {
        // SAFETY: both live.
        unsafe { result::event::elapsed(self.handle, end.handle) }.map_err(failed("cuEventElapsedTime"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_ends_too_early_is_not_whole() {
        // A header, and one section of four bytes after its table.
        let mut image = vec![0u8; 0x40 + 0x40 + 4];
        image[..5].copy_from_slice(b"\x7fELF\x02");
        image[0x28] = 0x40;
        (image[0x3a], image[0x3c]) = (0x40, 1);
        (image[0x40 + 4], image[0x40 + 0x18], image[0x40 + 0x20]) = (1, 0x80, 4);
        assert!(is_whole(&image));
        assert!(!is_whole(&image[..image.len() - 1]));
        assert!(!is_whole(&image[..0x50]) && !is_whole(b"\x7fELF\x02") && !is_whole(b".version 8.8"));
    }
}
