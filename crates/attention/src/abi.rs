//! The C interface, `include/warpproof_attention.h`.
//!
//! A struct begins with its size, so that it can grow at its end: what an older caller does not have is 0, and what a newer
//! caller has must be 0. No panic leaves the library.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use warpproof_kernels::format::OutputFormat;
use warpproof_kernels::params::Strides;
use warpproof_kernels::problem::{Granularity, Layout, Lengths, Mask, Shape, Window};
use warpproof_kernels::quantize::Element;
use warpproof_kernels::{Format, Request, Scales};

use crate::prepared::{Arguments, Operand, Prepared, Problem, Tensor};
use crate::{Error, VERSION};

/// `wpa_status`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "documented in the header")]
pub enum Status {
    Ok = 0,
    Invalid = 1,
    Unsupported = 2,
    Driver = 3,
    Internal = 4,
}

/// `wpa_request`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "documented in the header")]
pub struct CRequest {
    pub size: u32,
    pub batch: u32,
    pub heads: u32,
    pub kv_heads: u32,
    pub head_dim: u32,
    pub queries: u32,
    pub keys: u32,
    pub input: u32,
    pub scales: u32,
    pub causal: u32,
    pub lengths_on_device: u32,
    pub lse: u32,
    pub softmax_scale: f32,
    pub output: u32,
    pub smooth_keys: u32,
    pub window: u32,
    pub window_left: u32,
    pub window_right: u32,
    pub softcap: f32,
    pub sinks: u32,
    pub alibi: u32,
    pub page_size: u32,
}

/// `wpa_tensor`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "documented in the header")]
pub struct CTensor {
    pub data: u64,
    pub batch_stride: u64,
    pub head_stride: u64,
    pub row_stride: u64,
}

/// `wpa_arguments`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "documented in the header")]
pub struct CArguments {
    pub size: u64,
    pub q: CTensor,
    pub k: CTensor,
    pub v: CTensor,
    pub o: CTensor,
    pub q_scales: u64,
    pub k_scales: u64,
    pub v_scales: u64,
    pub lse: u64,
    pub query_starts: u64,
    pub key_starts: u64,
    pub workspace: u64,
    pub workspace_bytes: u64,
    pub sinks: u64,
    pub slopes: u64,
    pub pages: u64,
    pub pages_per_sequence: u64,
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Runs a call: its error becomes a status and the thread's message.
fn call(work: impl FnOnce() -> Result<(), Error>) -> Status {
    let (status, text) = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return Status::Ok,
        Ok(Err(error)) => {
            let status = match error {
                Error::Invalid(_) => Status::Invalid,
                Error::Unsupported(_) => Status::Unsupported,
                Error::Driver(_) => Status::Driver,
            };
            (status, error.to_string())
        }
        Err(_) => (Status::Internal, "a bug in the library: it panicked".to_owned()),
    };
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    // During the end of a thread its storage is gone; the status is still returned.
    let _gone = LAST_ERROR.try_with(|last| last.replace(text));
    status
}

/// A struct of numbers, all bits of which are valid, that begins with its size in bytes.
///
/// # Safety
///
/// Every byte pattern is a value of the type, which has no padding.
unsafe trait Versioned: Copy + Default {
    /// Bytes of the size at its beginning.
    const PREFIX: usize;
}

// SAFETY: 22 numbers of four bytes.
unsafe impl Versioned for CRequest {
    const PREFIX: usize = 4;
}

// SAFETY: numbers of eight bytes, and structs of such.
unsafe impl Versioned for CArguments {
    const PREFIX: usize = 8;
}

/// Reads a struct of this or another version of the interface.
///
/// # Safety
///
/// `from` is null, or points to as many readable bytes as the size at its beginning, and at least to that.
unsafe fn read<T: Versioned>(name: &str, from: *const T) -> Result<T, Error> {
    if from.is_null() {
        return Err(Error::Invalid(format!("{name}: expected a pointer, found null")));
    }
    let bytes = from.cast::<u8>();
    let mut prefix = [0; 8];
    // SAFETY: the size is readable by the caller's promise, and the destination has 8 bytes; PREFIX is at most 8.
    unsafe { bytes.copy_to_nonoverlapping(prefix.as_mut_ptr(), T::PREFIX) };
    let size = usize::try_from(u64::from_le_bytes(prefix)).unwrap_or(usize::MAX);
    let own = size_of::<T>();
    if size < T::PREFIX || size > 4096 {
        return Err(Error::Invalid(format!(
            "{name}: expected the size of the struct in its field `size`, found {size}"
        )));
    }
    // SAFETY: `size` bytes are readable by the caller's promise.
    let given = unsafe { std::slice::from_raw_parts(bytes, size) };
    if given.iter().skip(own).any(|byte| *byte != 0) {
        return Err(Error::Unsupported(format!(
            "{name} has fields that this version of the library does not know"
        )));
    }
    let mut value = T::default();
    // SAFETY: both have at least that many bytes, and every byte pattern is a value of the type.
    unsafe { bytes.copy_to_nonoverlapping((&raw mut value).cast::<u8>(), size.min(own)) };
    Ok(value)
}

fn problem(from: &CRequest) -> Result<Problem, Error> {
    let wide = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
    let choice = |name: &str, value: u32| match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Error::Invalid(format!("{name}: expected 0 or 1, found {value}"))),
    };
    let (format, values) = match from.input {
        0 => (Format::E4m3, None),
        1 => (Format::E5m2, None),
        2 => (Format::E4m3, Some(Element::F16)),
        3 => (Format::E4m3, Some(Element::Bf16)),
        other => return Err(Error::Invalid(format!("input: {other} is not a type of inputs"))),
    };
    let granularity = match from.scales {
        0 => Granularity::Head,
        1 => Granularity::Block,
        other => return Err(Error::Invalid(format!("scales: {other} is not a granularity"))),
    };
    let output = match from.output {
        0 => OutputFormat::F16,
        1 => OutputFormat::Bf16,
        other => return Err(Error::Invalid(format!("output: {other} is not a type of outputs"))),
    };
    // A limit far above any device: sequences are a list here.
    if from.batch > 1 << 20 {
        return Err(Error::Invalid(format!("batch: expected at most {}, found {}", 1 << 20, from.batch)));
    }
    let lengths = Lengths { queries: wide(from.queries), keys: wide(from.keys) };
    let shape = Shape {
        heads: wide(from.heads),
        kv_heads: wide(from.kv_heads),
        dim: wide(from.head_dim),
        sequences: vec![lengths; wide(from.batch)],
    };
    let request = Request {
        mask: if choice("causal", from.causal)? { Mask::Causal } else { Mask::Full },
        format,
        output,
        scales: Scales::all(granularity),
        layout: Layout::Bshd,
        lse: choice("lse", from.lse)?,
        softmax_scale: (from.softmax_scale != 0.0).then(|| f64::from(from.softmax_scale)),
        window: window(from)?,
        softcap: (from.softcap != 0.0).then(|| f64::from(from.softcap)),
        sinks: choice("sinks", from.sinks)?,
        alibi: choice("alibi", from.alibi)?,
        page_size: (from.page_size != 0).then(|| wide(from.page_size)),
        lengths_on_device: choice("lengths_on_device", from.lengths_on_device)?,
        ..Request::new(shape)
    };
    Ok(Problem { request, values, smooth_keys: choice("smooth_keys", from.smooth_keys)? })
}

fn window(from: &CRequest) -> Result<Window, Error> {
    if from.window > 3 {
        return Err(Error::Invalid(format!(
            "window: expected WPA_WINDOW_LEFT, WPA_WINDOW_RIGHT or both, found {}",
            from.window
        )));
    }
    let side =
        |bit: u32, keys: u32| (from.window & bit != 0).then(|| usize::try_from(keys).unwrap_or(usize::MAX));
    Ok(Window { left: side(1, from.window_left), right: side(2, from.window_right) })
}

fn arguments(from: &CArguments) -> Arguments {
    let tensor = |tensor: CTensor| Tensor {
        address: tensor.data,
        strides: Strides { batch: tensor.batch_stride, head: tensor.head_stride, row: tensor.row_stride },
    };
    let operand = |from, scales| Operand { tensor: tensor(from), scales };
    Arguments {
        q: operand(from.q, from.q_scales),
        k: operand(from.k, from.k_scales),
        v: operand(from.v, from.v_scales),
        o: tensor(from.o),
        lse: from.lse,
        sinks: from.sinks,
        slopes: from.slopes,
        pages: (from.pages, u32::try_from(from.pages_per_sequence).unwrap_or(u32::MAX)),
        starts: (from.query_starts, from.key_starts),
        workspace: from.workspace,
    }
}

/// The version of the interface, of which the header has the constant `WPA_VERSION`.
#[unsafe(no_mangle)]
pub extern "C" fn wpa_version() -> u32 {
    VERSION
}

/// Prepares a request in the current context.
///
/// # Safety
///
/// `from` points to a `wpa_request` whose size is in its first field; `into` to a pointer that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wpa_create(from: *const CRequest, into: *mut *mut Prepared) -> Status {
    call(|| {
        if into.is_null() {
            return Err(Error::Invalid("wpa_create: expected a place for the result, found null".to_owned()));
        }
        // SAFETY: by the caller.
        let prepared = Prepared::new(problem(&unsafe { read("the request", from)? })?)?;
        // SAFETY: it is not null, and may be written by the caller's promise.
        unsafe { into.write(Box::into_raw(Box::new(prepared))) };
        Ok(())
    })
}

/// Bytes of workspace that each run needs; 0 for null.
///
/// # Safety
///
/// `prepared` is null or a result of [`wpa_create`] that was not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wpa_workspace_bytes(prepared: *const Prepared) -> usize {
    // SAFETY: by the caller.
    unsafe { prepared.as_ref() }.map_or(0, Prepared::workspace)
}

/// Launches on a stream.
///
/// # Safety
///
/// As for [`Prepared::run`]; `prepared` is a result of [`wpa_create`] that was not destroyed, and `from` points to a
/// `wpa_arguments` whose size is in its first field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wpa_run(
    prepared: *const Prepared,
    from: *const CArguments,
    stream: *mut c_void,
) -> Status {
    call(|| {
        // SAFETY: by the caller.
        let prepared = unsafe { prepared.as_ref() }.ok_or_else(|| {
            Error::Invalid("wpa_run: expected the result of wpa_create, found null".to_owned())
        })?;
        // SAFETY: by the caller.
        let from = unsafe { read("the arguments", from)? };
        let needed = u64::try_from(prepared.workspace()).unwrap_or(u64::MAX);
        if from.workspace_bytes < needed {
            return Err(Error::Invalid(format!(
                "the workspace has {} bytes; expected at least {needed}",
                from.workspace_bytes
            )));
        }
        // SAFETY: by the caller.
        unsafe { prepared.run(&arguments(&from), stream) }
    })
}

/// Frees what [`wpa_create`] made. Runs that a stream has not executed yet are not affected.
///
/// # Safety
///
/// `prepared` is null or a result of [`wpa_create`] that was not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wpa_destroy(prepared: *mut Prepared) {
    if !prepared.is_null() {
        let _status = call(|| {
            // SAFETY: it was made by `Box::into_raw`, and is freed once by the caller's promise.
            drop(unsafe { Box::from_raw(prepared) });
            Ok(())
        });
    }
}

/// The message of the thread's last call that failed; valid until the thread's next call.
#[unsafe(no_mangle)]
pub extern "C" fn wpa_last_error() -> *const c_char {
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
