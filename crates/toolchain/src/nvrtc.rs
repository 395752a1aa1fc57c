//! NVRTC through its C interface.
#![expect(unsafe_code, reason = "a library opened at run time can be called in no other way")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::ptr;

use libloading::{Library, Symbol};

use crate::version::Version;

type Program = *mut c_void;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Text = unsafe extern "C" fn(Program, *mut c_char) -> c_int;

/// The result `NVRTC_ERROR_COMPILATION` of NVRTC's header: the log says what is wrong with the source.
const COMPILATION: c_int = 6;

/// An opened NVRTC.
pub(crate) struct Nvrtc {
    // Never closed: NVRTC keeps thread-local state whose destructors must still be there when a thread ends.
    library: ManuallyDrop<Library>,
    version: Version,
}

impl fmt::Debug for Nvrtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NVRTC {}", self.version)
    }
}

/// What NVRTC answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The PTX, unless the source is wrong.
    pub(crate) ptx: Option<String>,
    /// Its messages.
    pub(crate) log: String,
}

/// An answer as it goes from one process to another: a tag, the length of the log, the log, the PTX.
#[cfg(target_os = "linux")]
pub(crate) fn to_bytes(answer: &Result<Answer, String>) -> Vec<u8> {
    let (tag, log, ptx) = match answer {
        Err(error) => (0, error.as_str(), ""),
        Ok(Answer { ptx: None, log }) => (1, log.as_str(), ""),
        Ok(Answer { ptx: Some(ptx), log }) => (2, log.as_str(), ptx.as_str()),
    };
    [&[tag], &log.len().to_le_bytes()[..], log.as_bytes(), ptx.as_bytes()].concat()
}

/// What [`to_bytes`] wrote.
#[cfg(target_os = "linux")]
pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Answer, String> {
    let cut = || "NVRTC's answer is cut off".to_owned();
    let mut text = String::from_utf8(bytes.get(9..).ok_or_else(cut)?.to_vec()).map_err(|_| cut())?;
    let length = bytes[1..9].try_into().map(usize::from_le_bytes).map_err(|_| cut())?;
    if !text.is_char_boundary(length) {
        return Err(cut());
    }
    let ptx = text.split_off(length);
    match bytes[0] {
        0 => Err(text),
        1 => Ok(Answer { ptx: None, log: text }),
        _ => Ok(Answer { ptx: Some(ptx), log: text }),
    }
}

impl Nvrtc {
    /// Opens the library at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        #[cfg(target_os = "linux")]
        let _alone = crate::fork::LOADER.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        // SAFETY: NVRTC's initialisers only set up its own state. The path was found as an NVRTC library; whoever
        // can put another file there can also replace this program.
        let library = unsafe { Library::new(path) }.map_err(|e| e.to_string())?;
        let mut nvrtc = Self { library: ManuallyDrop::new(library), version: Version::new(0, 0) };
        let (mut major, mut minor): (c_int, c_int) = (0, 0);
        // SAFETY: the type is that of NVRTC's header.
        let version =
            unsafe { nvrtc.symbol::<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int>("nvrtcVersion") }?;
        // SAFETY: both pointers are to live integers.
        let result = unsafe { version(&raw mut major, &raw mut minor) };
        nvrtc.check(result, "nvrtcVersion")?;
        nvrtc.version = Version::new(u32::try_from(major).unwrap_or(0), u32::try_from(minor).unwrap_or(0));
        Ok(nvrtc)
    }

    /// The release; NVRTC tells no patch.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// # Safety
    /// `T` must be the type of the function of that name.
    unsafe fn symbol<T>(&self, name: &str) -> Result<Symbol<'_, T>, String> {
        // SAFETY: the caller vouches for the type.
        unsafe { self.library.get(name.as_bytes()) }.map_err(|e| e.to_string())
    }

    fn check(&self, result: c_int, what: &str) -> Result<(), String> {
        if result == 0 {
            return Ok(());
        }
        // SAFETY: the type is that of NVRTC's header.
        let name =
            unsafe { self.symbol::<unsafe extern "C" fn(c_int) -> *const c_char>("nvrtcGetErrorString") }?;
        // SAFETY: every integer is accepted; the answer is a static string, or null, which is tested for.
        let text = unsafe {
            let text = name(result);
            if text.is_null() { "unknown error".into() } else { CStr::from_ptr(text).to_string_lossy() }
        };
        Err(format!("{what}: {text}"))
    }

    /// Compiles to PTX. `Err` is a failure of NVRTC itself, not of the source.
    pub(crate) fn compile(&self, name: &str, text: &str, options: &[CString]) -> Result<Answer, String> {
        type Create = unsafe extern "C" fn(
            *mut Program,
            *const c_char,
            *const c_char,
            c_int,
            *const *const c_char,
            *const *const c_char,
        ) -> c_int;
        type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
        type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;

        let text = CString::new(text).map_err(|_| "the source holds a NUL byte".to_owned())?;
        let name = CString::new(name).map_err(|_| "the source's name holds a NUL byte".to_owned())?;
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(pointers.len()).map_err(|_| "too many options".to_owned())?;
        // SAFETY: the types are those of NVRTC's header.
        let (create, compile, destroy) = unsafe {
            (
                self.symbol::<Create>("nvrtcCreateProgram")?,
                self.symbol::<Compile>("nvrtcCompileProgram")?,
                self.symbol::<Destroy>("nvrtcDestroyProgram")?,
            )
        };
        let mut program: Program = ptr::null_mut();
        // SAFETY: both strings end in NUL and outlive the program; no headers are passed, so the arrays may be null.
        let result =
            unsafe { create(&raw mut program, text.as_ptr(), name.as_ptr(), 0, ptr::null(), ptr::null()) };
        self.check(result, "nvrtcCreateProgram")?;
        // SAFETY: the program is live, and the array holds `count` strings that end in NUL and outlive the call.
        let result = unsafe { compile(program, count, pointers.as_ptr()) };
        let log = self.text(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog");
        let answer = match (result, log) {
            (_, Err(error)) => Err(error),
            (0, Ok(log)) => {
                self.text(program, "nvrtcGetPTXSize", "nvrtcGetPTX").map(|ptx| Answer { ptx: Some(ptx), log })
            }
            (COMPILATION, Ok(log)) => Ok(Answer { ptx: None, log }),
            // An invalid option is a result of its own, and the log names the option.
            (other, Ok(log)) => match self.check(other, "nvrtcCompileProgram") {
                Err(error) if !log.trim().is_empty() => Err(format!("{error}: {}", log.trim())),
                Err(error) => Err(error),
                Ok(()) => Ok(Answer { ptx: None, log }),
            },
        };
        // SAFETY: the program is live, and not used after this.
        unsafe { destroy(&raw mut program) };
        answer
    }

    fn text(&self, program: Program, size: &str, get: &str) -> Result<String, String> {
        // SAFETY: the types are those of NVRTC's header.
        let (size_of, text_of) = unsafe { (self.symbol::<Size>(size)?, self.symbol::<Text>(get)?) };
        let mut length = 0;
        // SAFETY: the program is live, and the pointer is to a live integer.
        self.check(unsafe { size_of(program, &raw mut length) }, size)?;
        let mut buffer = vec![0_u8; length];
        // SAFETY: the buffer has the size that NVRTC asked for.
        self.check(unsafe { text_of(program, buffer.as_mut_ptr().cast()) }, get)?;
        if let Some(end) = buffer.iter().position(|byte| *byte == 0) {
            buffer.truncate(end);
        }
        Ok(match String::from_utf8(buffer) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn answers_go_from_process_to_process() {
        let answers = [
            Err("NVRTC_ERROR_INVALID_INPUT".to_owned()),
            Ok(Answer { ptx: None, log: "k.cu(1): error: ä".to_owned() }),
            Ok(Answer { ptx: Some(".version 8.8".to_owned()), log: String::new() }),
            Ok(Answer { ptx: Some(String::new()), log: "a warning".to_owned() }),
        ];
        for answer in answers {
            let bytes = to_bytes(&answer);
            assert_eq!(from_bytes(&bytes), answer);
            assert!(from_bytes(&bytes[..8]).is_err());
        }
    }
}
