//! NVIDIA's management library (NVML) through its C interface: the nine functions needed for clocks, power
//! and temperature.
//!
//! The common wrapper crate would add thirteen packages and an older loader for these nine calls.

use std::error::Error as _;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::fmt;

use libloading::{Library, Symbol};

type Handle = *mut c_void;
type OfDevice = unsafe extern "C" fn(Handle) -> c_int;
type Read = unsafe extern "C" fn(Handle, *mut c_uint) -> c_int;
type ReadOne = unsafe extern "C" fn(Handle, c_int, *mut c_uint) -> c_int;

/// A clock, as `nvmlClockType_t` numbers it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Clock {
    /// The multiprocessors.
    Sm,
    /// The memory.
    Memory,
}

impl Clock {
    fn number(self) -> c_int {
        match self {
            Self::Sm => 1,
            Self::Memory => 2,
        }
    }
}

/// `NVML_TEMPERATURE_GPU`, the sensor of the chip.
const CHIP: c_int = 0;
/// `NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE`: bytes of the longest version.
const VERSION: usize = 80;

/// The error, with the cause that the system's loader reports.
fn load_error(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

/// The library, opened and initialized; it is shut down on drop.
pub(crate) struct Nvml {
    library: Library,
}

impl fmt::Debug for Nvml {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NVML")
    }
}

impl Drop for Nvml {
    fn drop(&mut self) {
        // SAFETY: the type is that of NVML's header.
        if let Ok(shutdown) = unsafe { self.symbol::<unsafe extern "C" fn() -> c_int>("nvmlShutdown") } {
            // SAFETY: it was initialized, and no device of it is left: each borrows this.
            let _ignored = unsafe { shutdown() };
        }
    }
}

/// A device of the library.
pub(crate) struct Device<'n> {
    nvml: &'n Nvml,
    handle: Handle,
}

impl Nvml {
    /// Opens and initializes the library with this name.
    pub(crate) fn open(name: &str) -> Result<Self, String> {
        // SAFETY: the initializers of NVIDIA's library only set up its own state. The system's loader
        // searches for its name; a user who can put another file there can also replace this program.
        let library = unsafe { Library::new(name) }.map_err(|error| load_error(&error))?;
        // SAFETY: the type is that of NVML's header.
        let init = unsafe { library.get::<unsafe extern "C" fn() -> c_int>(b"nvmlInit_v2\0") };
        // SAFETY: it takes nothing, and may be called at any time.
        let result = unsafe { init.map_err(|error| load_error(&error))?() };
        if result != 0 {
            return Err(format!("nvmlInit_v2 returned {result}"));
        }
        Ok(Self { library })
    }

    /// # Safety
    /// `T` must be the type of the function of that name.
    unsafe fn symbol<T>(&self, name: &str) -> Result<Symbol<'_, T>, String> {
        // SAFETY: the caller vouches for the type.
        unsafe { self.library.get(name.as_bytes()) }.map_err(|error| load_error(&error))
    }

    fn check(&self, result: c_int) -> Result<(), String> {
        if result == 0 {
            return Ok(());
        }
        // SAFETY: the type is that of NVML's header.
        let text = unsafe { self.symbol::<unsafe extern "C" fn(c_int) -> *const c_char>("nvmlErrorString") }?;
        // SAFETY: every integer is accepted; the result is a static string, or null, which is checked.
        let text = unsafe {
            let text = text(result);
            if text.is_null() { "unknown error".into() } else { CStr::from_ptr(text).to_string_lossy() }
        };
        Err(text.into_owned())
    }

    /// The driver's version.
    pub(crate) fn driver(&self) -> Result<String, String> {
        type Version = unsafe extern "C" fn(*mut c_char, c_uint) -> c_int;
        // SAFETY: the type is that of NVML's header.
        let version = unsafe { self.symbol::<Version>("nvmlSystemGetDriverVersion") }?;
        let mut text = [0u8; VERSION];
        // SAFETY: the buffer has the length that is passed.
        let result = unsafe { version(text.as_mut_ptr().cast(), VERSION.try_into().unwrap_or(0)) };
        self.check(result)?;
        let text = CStr::from_bytes_until_nul(&text).map_err(|error| error.to_string())?;
        Ok(text.to_string_lossy().into_owned())
    }

    /// The device with an id in the format of NVIDIA's programs.
    pub(crate) fn device(&self, uuid: &str) -> Result<Device<'_>, String> {
        type ByUuid = unsafe extern "C" fn(*const c_char, *mut Handle) -> c_int;
        let uuid = CString::new(uuid).map_err(|error| error.to_string())?;
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: the type is that of NVML's header.
        let by_uuid = unsafe { self.symbol::<ByUuid>("nvmlDeviceGetHandleByUUID") }?;
        // SAFETY: the string ends with a null byte, and the handle is written to a live variable.
        let result = unsafe { by_uuid(uuid.as_ptr(), &raw mut handle) };
        self.check(result)?;
        Ok(Device { nvml: self, handle })
    }
}

impl Device<'_> {
    fn read_one(&self, name: &str, which: c_int) -> Result<u32, String> {
        let mut value = 0;
        // SAFETY: every function that is passed here has this type in NVML's header.
        let read = unsafe { self.nvml.symbol::<ReadOne>(name) }?;
        // SAFETY: the handle is the library's own, and the value is written to a live variable.
        let result = unsafe { read(self.handle, which, &raw mut value) };
        self.nvml.check(result).map(|()| value)
    }

    /// A clock, in MHz.
    pub(crate) fn clock(&self, clock: Clock) -> Result<u32, String> {
        self.read_one("nvmlDeviceGetClockInfo", clock.number())
    }

    /// The temperature of the chip, in °C.
    pub(crate) fn temperature(&self) -> Result<u32, String> {
        self.read_one("nvmlDeviceGetTemperature", CHIP)
    }

    /// The power it draws, in mW.
    pub(crate) fn power(&self) -> Result<u32, String> {
        let mut value = 0;
        // SAFETY: the type is that of NVML's header.
        let read = unsafe { self.nvml.symbol::<Read>("nvmlDeviceGetPowerUsage") }?;
        // SAFETY: the handle is the library's own, and the value is written to a live variable.
        let result = unsafe { read(self.handle, &raw mut value) };
        self.nvml.check(result).map(|()| value)
    }

    /// Locks the clock of the multiprocessors at one frequency.
    pub(crate) fn lock_clock(&self, mhz: u32) -> Result<(), String> {
        type Lock = unsafe extern "C" fn(Handle, c_uint, c_uint) -> c_int;
        // SAFETY: the type is that of NVML's header.
        let lock = unsafe { self.nvml.symbol::<Lock>("nvmlDeviceSetGpuLockedClocks") }?;
        // SAFETY: the handle is the library's own.
        self.nvml.check(unsafe { lock(self.handle, mhz, mhz) })
    }

    /// Unlocks it.
    pub(crate) fn unlock_clock(&self) -> Result<(), String> {
        // SAFETY: the type is that of NVML's header.
        let unlock = unsafe { self.nvml.symbol::<OfDevice>("nvmlDeviceResetGpuLockedClocks") }?;
        // SAFETY: the handle is the library's own.
        self.nvml.check(unsafe { unlock(self.handle) })
    }
}
