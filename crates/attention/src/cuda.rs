//! The calls of the CUDA driver, opened at run time.
//!
//! The library works in the context that is current in the calling thread, like CUDA's own libraries.

use std::collections::BTreeMap;
use std::ffi::{CString, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use cudarc::driver::{result, sys};
use sys::CUdevice_attribute as Attribute;
use sys::CUfunction_attribute as FunctionAttribute;
use warpproof_kernels::plan::Step;

use crate::Error;
use crate::image::Entry;

/// Every function that this file calls. A library that lacks one is rejected before the first call: the binding panics at a
/// missing function.
const FUNCTIONS: [&str; 10] = [
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
];

/// The oldest driver, as `cuDriverGetVersion` gives it: that of CUDA 12.0. ptxas 12.9 wrote the machine code, and NVIDIA's
/// guide to CUDA compatibility lets applications of any 12.x toolkit run on drivers from 525 on, the first of CUDA 12
/// (<https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html>).
pub const OLDEST_DRIVER: i32 = 12_000;
/// The oldest driver that compiles the library's PTX, whose version is 8.4: that of CUDA 12.4. Devices newer than sm_89 need it.
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

/// A kernel, in a module that stays loaded until its context ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    handle: sys::CUfunction,
}

// SAFETY: a handle of the driver may be used in every thread; all use of it here is through calls of the driver, which are
// thread-safe.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// A loaded module.
#[derive(Clone, Copy, Debug)]
struct Module {
    handle: sys::CUmodule,
}

// SAFETY: as for `Function`.
unsafe impl Send for Module {}

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
        Some(name) => {
            Err(Error::Driver(format!("the CUDA driver has no function {name}; update the driver")))
        }
        None => Ok(()),
    }
}

impl Current {
    /// The device of the thread's current context.
    pub(crate) fn get() -> Result<Current, Error> {
        driver()?;
        let mut version: c_int = 0;
        // SAFETY: the pointer is to a number that lives.
        unsafe { sys::cuDriverGetVersion(&raw mut version) }
            .result()
            .map_err(failed("cuDriverGetVersion"))?;
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

    /// The kernels of these steps. Their module is loaded once per context, and stays loaded: launches may still be running when
    /// the last plan that uses it is dropped.
    pub(crate) fn functions(&self, entry: &Entry, steps: &[Step]) -> Result<Vec<(Step, Function)>, Error> {
        static LOADED: Mutex<BTreeMap<(usize, &str), Module>> = Mutex::new(BTreeMap::new());
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (self.context, entry.name);
        let all = |module: Module| -> Result<Vec<(Step, Function)>, Error> {
            steps.iter().map(|step| Ok((*step, Function::new(module, step.kernel)?))).collect()
        };
        // A context that ended can have the same address: its modules are gone.
        if let Some(found) = loaded.get(&key).and_then(|module| all(*module).ok()) {
            return Ok(found);
        }
        let module = self.load(entry)?;
        loaded.insert(key, module);
        all(module)
    }

    /// Loads machine code on the devices that it is for, and PTX elsewhere, which the driver compiles.
    fn load(&self, entry: &Entry) -> Result<Module, Error> {
        let damaged = || Error::Invalid(format!("the library's kernels `{}` are damaged", entry.name));
        if self.capability == (8, 9) && !self.software {
            return Module::new(&entry.cubin().ok_or_else(damaged)?);
        }
        if self.version < OLDEST_DRIVER_FOR_PTX {
            return Err(Error::Driver(format!(
                "the CUDA driver is of CUDA {}.{}; on sm_{}{} this library needs a driver of CUDA 12.4 or later",
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
        // SAFETY: the image is one of the library's, which `cargo xtask kernels` compares with the compiler's
        // output: an ELF file that contains all that its headers refer to, or text with its zero byte. It lives until the call
        // returns; there are no options.
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
    fn new(module: Module, name: &str) -> Result<Function, Error> {
        let text =
            CString::new(name).map_err(|_| Error::Invalid("a kernel's name has a zero byte".to_owned()))?;
        // SAFETY: the handle is the driver's. Of a module that is gone it returns an error.
        let handle = unsafe { result::module::get_function(module.handle, text) }
            .map_err(failed("cuModuleGetFunction"))?;
        let carveout = FunctionAttribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
        // SAFETY: the function is the driver's. The value is a percentage.
        unsafe { result::function::set_function_attribute(handle, carveout, 100) }
            .map_err(failed("cuFuncSetAttribute"))?;
        Ok(Function { handle })
    }

    /// Launches on a stream, with one parameter of these bytes.
    ///
    /// # Safety
    ///
    /// The parameter must be the one that the kernel has, with addresses that the kernel may use until the stream has
    /// executed it. The stream must be one of the current context, which is the one that the module was loaded in.
    pub(crate) unsafe fn launch(
        &self,
        step: &Step,
        stream: sys::CUstream,
        parameter: &[u8],
    ) -> Result<(), Error> {
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
