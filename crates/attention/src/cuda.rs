//! The calls of the CUDA driver, opened at run time.
//!
//! The library works in the context that is current in the calling thread, like CUDA's own libraries.

use std::collections::BTreeMap;
use std::ffi::{CString, c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use cudarc::driver::{result, sys};
use sys::CUdevice_attribute as Attribute;
use sys::CUfunction_attribute as FunctionAttribute;
use warpproof_kernels::plan::Step;

use crate::Error;
use crate::image::Entry;

/// Every function that this file calls. A library that lacks one is rejected before the first call: the binding panics at a
/// missing function.
const FUNCTIONS: [&str; 11] = [
    "cuCtxGetCurrent",
    "cuCtxGetDevice",
    "cuDeviceGetAttribute",
    "cuDriverGetVersion",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuLaunchKernel",
    "cuModuleGetFunction",
    "cuModuleLoadDataEx",
    "cuModuleUnload",
];

/// The oldest driver, as `cuDriverGetVersion` gives it: that of CUDA 12.0. Drivers of one major version load machine code of all
/// its releases.
pub const OLDEST_DRIVER: i32 = 12_000;
/// The oldest driver that compiles the library's PTX, whose version is 8.4: that of CUDA 12.4. Devices newer than sm_89 need it, and
/// kernels without machine code.
pub const OLDEST_DRIVER_FOR_PTX: i32 = 12_040;

/// The device of the current context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Current {
    context: usize,
    version: i32,
    /// The driver is Warpproof's, which executes PTX and no machine code.
    software: bool,
    pub(crate) capability: (u32, u32),
    pub(crate) multiprocessors: u32,
}

/// A loaded module. It is unloaded when the last plan that uses it is dropped.
#[derive(Debug)]
pub(crate) struct Module {
    handle: sys::CUmodule,
}

// SAFETY: a handle of the driver may be used in every thread; all use of it here is through calls of the driver, which are
// thread-safe.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: the handle was created by the driver and is destroyed once. If its context was destroyed before, or the
        // process ends, the driver returns an error, which has no consequence.
        let _lost = unsafe { result::module::unload(self.handle) };
    }
}

/// A kernel of a module.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    _loaded: Arc<Module>,
    handle: sys::CUfunction,
}

// SAFETY: as for `Module`, which it keeps loaded.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

fn failed(function: &str) -> impl Fn(result::DriverError) -> Error + '_ {
    move |error| {
        let name = error.error_name().map_or_else(|_| "unknown error".into(), |name| name.to_string_lossy());
        Error::Driver(format!("{function}: {name}"))
    }
}

/// Whether the open driver library has a function.
fn has(name: &str) -> bool {
    // SAFETY: the address is looked up and not used; its type does not matter.
    unsafe { sys::culib().get::<*const c_void>(name.as_bytes()).is_ok() }
}

/// Checks that there is a driver with all functions.
fn driver() -> Result<(), Error> {
    // SAFETY: opening a library runs its initializers; those of a CUDA driver are intended for it.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::Driver("there is no CUDA driver: libcuda.so.1 was not found".to_owned()));
    }
    match FUNCTIONS.into_iter().find(|name| !has(name)) {
        Some(name) => Err(Error::Driver(format!("the CUDA driver has no function {name}; update the driver"))),
        None => Ok(()),
    }
}

impl Current {
    /// The device of the thread's current context.
    pub(crate) fn get() -> Result<Current, Error> {
        driver()?;
        let mut version: c_int = 0;
        // SAFETY: the pointer is to a number that lives.
        unsafe { sys::cuDriverGetVersion(&raw mut version) }.result().map_err(failed("cuDriverGetVersion"))?;
        if version < OLDEST_DRIVER {
            return Err(Error::Driver(format!(
                "the CUDA driver is of CUDA {}.{}; this library needs a driver of CUDA 12.0 or later",
                version / 1000,
                version % 1000 / 10
            )));
        }
        let none = || {
            Error::Invalid("no CUDA context is current in this thread; make one current first (PyTorch: use a CUDA tensor; runtime API: cudaFree(0))".to_owned())
        };
        let context = result::ctx::get_current().map_err(failed("cuCtxGetCurrent"))?.ok_or_else(none)?;
        let mut device: sys::CUdevice = 0;
        // SAFETY: the pointer is to a number that lives.
        unsafe { sys::cuCtxGetDevice(&raw mut device) }.result().map_err(failed("cuCtxGetDevice"))?;
        let attribute = |which| {
            // SAFETY: the device is the driver's.
            let value = unsafe { result::device::get_attribute(device, which) };
            value.map(|value| u32::try_from(value).unwrap_or(0)).map_err(failed("cuDeviceGetAttribute"))
        };
        Ok(Current {
            context: context.addr(),
            version,
            software: has("warpproof_driver"),
            capability: (
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        })
    }

    /// The module with these kernels, loaded once per context.
    pub(crate) fn module(&self, entry: &Entry) -> Result<Arc<Module>, Error> {
        static LOADED: Mutex<BTreeMap<(usize, &str), Weak<Module>>> = Mutex::new(BTreeMap::new());
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (self.context, entry.name);
        if let Some(module) = loaded.get(&key).and_then(Weak::upgrade) {
            return Ok(module);
        }
        let module = Arc::new(self.load(entry)?);
        loaded.insert(key, Arc::downgrade(&module));
        Ok(module)
    }

    /// Loads machine code on the devices that it is for, and PTX elsewhere, which the driver compiles.
    fn load(&self, entry: &Entry) -> Result<Module, Error> {
        let damaged = || Error::Invalid(format!("the library's kernels `{}` are damaged", entry.name));
        if self.capability == (8, 9) && entry.is_assembled() && !self.software {
            return Module::new(&entry.cubin().ok_or_else(damaged)?);
        }
        if self.version < OLDEST_DRIVER_FOR_PTX {
            return Err(Error::Driver(format!(
                "the CUDA driver is of CUDA {}.{}; for this kernel on sm_{}{} this library needs a driver of CUDA 12.4 or later",
                self.version / 1000,
                self.version % 1000 / 10,
                self.capability.0,
                self.capability.1
            )));
        }
        Module::new(&entry.ptx().ok_or_else(damaged)?)
    }
}

impl Module {
    /// `image` is a whole cubin of the library, or text that ends with a zero byte.
    fn new(image: &[u8]) -> Result<Module, Error> {
        let mut handle: sys::CUmodule = std::ptr::null_mut();
        // SAFETY: the image is one of the library's, which `cargo xtask kernels --check` verifies: an ELF file that contains
        // all that its headers refer to, or text with its zero byte. It lives until the call returns; there are no options.
        let code = unsafe {
            sys::cuModuleLoadDataEx(
                &raw mut handle,
                image.as_ptr().cast(),
                0,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
        code.result().map_err(failed("cuModuleLoadDataEx"))?;
        Ok(Module { handle })
    }
}

impl Function {
    /// The kernel with this name. Its blocks get as much of the L1 cache as shared memory as they can use.
    pub(crate) fn new(module: &Arc<Module>, name: &str) -> Result<Function, Error> {
        let text = CString::new(name).map_err(|_| Error::Invalid("a kernel's name has a zero byte".to_owned()))?;
        // SAFETY: the module is loaded, and the function keeps it loaded.
        let handle = unsafe { result::module::get_function(module.handle, text) }
            .map_err(failed("cuModuleGetFunction"))?;
        let carveout = FunctionAttribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
        // SAFETY: the function is the driver's. The value is a percentage.
        unsafe { result::function::set_function_attribute(handle, carveout, 100) }
            .map_err(failed("cuFuncSetAttribute"))?;
        Ok(Function { _loaded: module.clone(), handle })
    }

    /// Launches on a stream, with one parameter of these bytes.
    ///
    /// # Safety
    ///
    /// The parameter must be the one that the kernel has, with addresses that the kernel may use until the stream has
    /// executed it. The stream must be one of the current context, which is the one that the module was loaded in.
    pub(crate) unsafe fn launch(&self, step: &Step, stream: sys::CUstream, parameter: &[u8]) -> Result<(), Error> {
        let mut parameters = [parameter.as_ptr().cast_mut().cast::<c_void>()];
        let [x, y, z] = step.geometry.grid;
        // SAFETY: by the caller; the driver copies the parameter before it returns.
        unsafe {
            result::launch_kernel(
                self.handle,
                (x, y, z),
                (step.geometry.block, 1, 1),
                step.geometry.shared,
                stream,
                &mut parameters,
            )
        }
        .map_err(failed("cuLaunchKernel"))
    }
}
