//! NVRTC through its C interface.
#![expect(unsafe_code, reason = "calling a library opened at run time is unsafe")]

use std::error::Error as _;
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

/// `NVRTC_ERROR_COMPILATION` of NVRTC's header: the source has errors, which are in the log.
const COMPILATION: c_int = 6;

/// An error with the message of the system's loader.
fn describe(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

/// An opened NVRTC.
pub(crate) struct Nvrtc {
    // Never closed: NVRTC has thread-local state whose destructors must still be mapped when a thread ends.
    library: ManuallyDrop<Library>,
    version: Version,
}

impl fmt::Debug for Nvrtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NVRTC {}", self.version)
    }
}

/// Result of NVRTC.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The PTX, unless the source has errors.
    pub(crate) ptx: Option<String>,
    /// Its messages.
    pub(crate) log: String,
    /// The symbol of each name expression, in the same order; empty unless there is PTX.
    pub(crate) symbols: Vec<String>,
}

/// Serializes a result for another process: a tag, then each text prefixed with its length.
#[cfg(target_os = "linux")]
pub(crate) fn to_bytes(answer: &Result<Answer, String>) -> Vec<u8> {
    let (tag, texts) = match answer {
        Err(error) => (0, vec![error]),
        Ok(Answer { ptx: None, log, .. }) => (1, vec![log]),
        Ok(Answer { ptx: Some(ptx), log, symbols }) => (2, [log, ptx].into_iter().chain(symbols).collect()),
    };
    let mut bytes = vec![tag];
    for text in texts {
        bytes.extend(text.len().to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    bytes
}

/// Parses the output of [`to_bytes`].
#[cfg(target_os = "linux")]
pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Answer, String> {
    let cut = || "NVRTC's result is truncated".to_owned();
    let (tag, mut rest) = bytes.split_first().ok_or_else(cut)?;
    let mut texts = Vec::new();
    while !rest.is_empty() {
        let (length, after) = rest.split_first_chunk().ok_or_else(cut)?;
        let (text, after) = after.split_at_checked(usize::from_le_bytes(*length)).ok_or_else(cut)?;
        texts.push(String::from_utf8(text.to_vec()).map_err(|_| cut())?);
        rest = after;
    }
    let mut texts = texts.into_iter();
    let log = texts.next().ok_or_else(cut)?;
    match tag {
        0 => Err(log),
        1 => Ok(Answer { ptx: None, log, symbols: Vec::new() }),
        _ => Ok(Answer { ptx: Some(texts.next().ok_or_else(cut)?), log, symbols: texts.collect() }),
    }
}

impl Nvrtc {
    /// Opens the library at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        #[cfg(target_os = "linux")]
        let _alone = crate::fork::LOADER.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        // SAFETY: NVRTC's initializers only set up its own state. The path was found as an NVRTC library; an attacker who can place
        // another file there can also replace this program.
        let library = unsafe { Library::new(path) }.map_err(|error| describe(&error))?;
        let mut nvrtc = Self { library: ManuallyDrop::new(library), version: Version::new(0, 0) };
        let (mut major, mut minor): (c_int, c_int) = (0, 0);
        // SAFETY: the type matches NVRTC's header.
        let version =
            unsafe { nvrtc.symbol::<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int>("nvrtcVersion") }?;
        // SAFETY: both pointers refer to live integers.
        let result = unsafe { version(&raw mut major, &raw mut minor) };
        nvrtc.check(result, "nvrtcVersion")?;
        nvrtc.version = Version::new(u32::try_from(major).unwrap_or(0), u32::try_from(minor).unwrap_or(0));
        Ok(nvrtc)
    }

    /// The release; NVRTC does not report its patch version.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// # Safety
    /// `T` must be the type of the function of that name.
    unsafe fn symbol<T>(&self, name: &str) -> Result<Symbol<'_, T>, String> {
        // SAFETY: the caller guarantees the type.
        unsafe { self.library.get(name.as_bytes()) }.map_err(|error| describe(&error))
    }

    fn check(&self, result: c_int, what: &str) -> Result<(), String> {
        if result == 0 {
            return Ok(());
        }
        // SAFETY: the type matches NVRTC's header.
        let name =
            unsafe { self.symbol::<unsafe extern "C" fn(c_int) -> *const c_char>("nvrtcGetErrorString") }?;
        // SAFETY: every integer is accepted; the result is a static string, or null, which is checked.
        let text = unsafe {
            let text = name(result);
            if text.is_null() { "unknown error".into() } else { CStr::from_ptr(text).to_string_lossy() }
        };
        Err(format!("{what}: {text}"))
    }

    /// Compiles to PTX, with in-memory headers (name and text), and with the instances requested by name expressions. `Err` is a
    /// failure of NVRTC itself, not of the source.
    pub(crate) fn compile(
        &self,
        name: &str,
        text: &str,
        headers: &[(String, String)],
        options: &[CString],
        expressions: &[CString],
    ) -> Result<Answer, String> {
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

        let text = CString::new(text).map_err(|_| "the source contains a NUL byte".to_owned())?;
        let name = CString::new(name).map_err(|_| "the source's name contains a NUL byte".to_owned())?;
        let c_texts = |texts: Vec<&String>| -> Result<Vec<CString>, String> {
            let texts = texts.into_iter().map(|text| CString::new(text.as_str()));
            texts.collect::<Result<_, _>>().map_err(|_| "a header contains a NUL byte".to_owned())
        };
        let header_names = c_texts(headers.iter().map(|(name, _)| name).collect())?;
        let header_texts = c_texts(headers.iter().map(|(_, text)| text).collect())?;
        let header_count = c_int::try_from(headers.len()).map_err(|_| "too many headers".to_owned())?;
        let name_pointers: Vec<*const c_char> = header_names.iter().map(|name| name.as_ptr()).collect();
        let text_pointers: Vec<*const c_char> = header_texts.iter().map(|text| text.as_ptr()).collect();
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(pointers.len()).map_err(|_| "too many options".to_owned())?;
        // SAFETY: the types match NVRTC's header.
        let (create, compile, destroy) = unsafe {
            (
                self.symbol::<Create>("nvrtcCreateProgram")?,
                self.symbol::<Compile>("nvrtcCompileProgram")?,
                self.symbol::<Destroy>("nvrtcDestroyProgram")?,
            )
        };
        let mut program: Program = ptr::null_mut();
        // SAFETY: all strings are NUL-terminated and outlive the program; both arrays have `header_count` elements.
        let result = unsafe {
            create(
                &raw mut program,
                text.as_ptr(),
                name.as_ptr(),
                header_count,
                text_pointers.as_ptr(),
                name_pointers.as_ptr(),
            )
        };
        self.check(result, "nvrtcCreateProgram")?;
        let asked = self.ask(program, expressions);
        // SAFETY: the program is live, and the array has `count` NUL-terminated strings that outlive the call.
        let result = unsafe { compile(program, count, pointers.as_ptr()) };
        let log = asked.and_then(|()| self.text(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog"));
        let answer = match (result, log) {
            (_, Err(error)) => Err(error),
            (0, Ok(log)) => self.text(program, "nvrtcGetPTXSize", "nvrtcGetPTX").and_then(|ptx| {
                let symbols = self.symbols(program, expressions)?;
                Ok(Answer { ptx: Some(ptx), log, symbols })
            }),
            (COMPILATION, Ok(log)) => Ok(Answer { ptx: None, log, symbols: Vec::new() }),
            // An invalid option has its own result code, and the log names the option.
            (other, Ok(log)) => match self.check(other, "nvrtcCompileProgram") {
                Err(error) if !log.trim().is_empty() => Err(format!("{error}: {}", log.trim())),
                Err(error) => Err(error),
                Ok(()) => Ok(Answer { ptx: None, log, symbols: Vec::new() }),
            },
        };
        // SAFETY: the program is live and not used afterwards.
        unsafe { destroy(&raw mut program) };
        answer
    }

    /// Requests the instances of name expressions.
    fn ask(&self, program: Program, expressions: &[CString]) -> Result<(), String> {
        type Ask = unsafe extern "C" fn(Program, *const c_char) -> c_int;
        if expressions.is_empty() {
            return Ok(());
        }
        // SAFETY: the type matches NVRTC's header.
        let ask = unsafe { self.symbol::<Ask>("nvrtcAddNameExpression") }?;
        for expression in expressions {
            // SAFETY: the program is live and not compiled yet, and the text is NUL-terminated.
            let result = unsafe { ask(program, expression.as_ptr()) };
            self.check(result, "nvrtcAddNameExpression")?;
        }
        Ok(())
    }

    /// The symbols of name expressions, after the program was compiled.
    fn symbols(&self, program: Program, expressions: &[CString]) -> Result<Vec<String>, String> {
        type Lowered = unsafe extern "C" fn(Program, *const c_char, *mut *const c_char) -> c_int;
        if expressions.is_empty() {
            return Ok(Vec::new());
        }
        // SAFETY: the type matches NVRTC's header.
        let lowered = unsafe { self.symbol::<Lowered>("nvrtcGetLoweredName") }?;
        let mut symbols = Vec::with_capacity(expressions.len());
        for expression in expressions {
            let mut symbol: *const c_char = ptr::null();
            // SAFETY: the program is live and compiled, the text is NUL-terminated, and the pointer refers to a live pointer.
            let result = unsafe { lowered(program, expression.as_ptr(), &raw mut symbol) };
            self.check(result, "nvrtcGetLoweredName")?;
            if symbol.is_null() {
                return Err("nvrtcGetLoweredName: no name".to_owned());
            }
            // SAFETY: the text is NUL-terminated and lives as long as the program.
            symbols.push(unsafe { CStr::from_ptr(symbol) }.to_string_lossy().into_owned());
        }
        Ok(symbols)
    }

    fn text(&self, program: Program, size: &str, get: &str) -> Result<String, String> {
        // SAFETY: the types match NVRTC's header.
        let (size_of, text_of) = unsafe { (self.symbol::<Size>(size)?, self.symbol::<Text>(get)?) };
        let mut length = 0;
        // SAFETY: the program is live, and the pointer refers to a live integer.
        self.check(unsafe { size_of(program, &raw mut length) }, size)?;
        let mut buffer = vec![0_u8; length];
        // SAFETY: the buffer has the size that NVRTC reported.
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
            Ok(Answer { ptx: None, log: "k.cu(1): error: ä".to_owned(), symbols: Vec::new() }),
            Ok(Answer { ptx: Some(".version 8.8".to_owned()), log: String::new(), symbols: Vec::new() }),
            Ok(Answer {
                ptx: Some(String::new()),
                log: "a warning".to_owned(),
                symbols: vec!["_Z1k".into()],
            }),
        ];
        for answer in answers {
            let bytes = to_bytes(&answer);
            assert_eq!(from_bytes(&bytes), answer);
            assert!(from_bytes(&bytes[..8]).is_err());
        }
    }
}
