//! Helpers for test programs: pointers to their variables, and kernels in PTX.

use std::ffi::{CString, c_void};

use warpproof_driver::abi::Handle;
use warpproof_driver::api::{self, In, Out};

/// An output pointer to a variable.
pub(crate) fn out<T>(place: &mut T) -> Out<T> {
    // SAFETY: it is a variable of the test, and lives until the call returns.
    unsafe { Out::new(place) }
}

/// An input pointer to values.
pub(crate) fn from<T>(values: &[T]) -> In<T> {
    // SAFETY: the values live until the call returns.
    unsafe { In::new(values.as_ptr()) }
}

/// An input pointer to an image that the driver returned.
pub(crate) fn image(pointer: *const c_void) -> In<u8> {
    // SAFETY: the driver keeps it valid until its linker is destroyed.
    unsafe { In::new(pointer.cast()) }
}

/// Handles of an array that the driver returned.
pub(crate) fn handles(array: *const Handle, count: usize) -> Vec<Handle> {
    // SAFETY: the driver keeps this many valid until its next call.
    unsafe { In::new(array) }.list(count).unwrap()
}

/// A null handle.
pub(crate) fn null() -> Handle {
    std::ptr::null_mut()
}

/// Calls a function that must succeed.
#[macro_export]
macro_rules! ok {
    ($call:expr) => {{
        // SAFETY: all pointers refer to the test's own variables.
        let code = unsafe { $call };
        assert_eq!(code, 0, "{}", stringify!($call));
    }};
}

/// Calls a function and returns its error code.
#[macro_export]
macro_rules! answer {
    ($call:expr) => {{
        // SAFETY: all pointers refer to the test's own variables.
        unsafe { $call }
    }};
}

/// Creates a context on the first device.
pub(crate) fn start() -> Handle {
    let mut context = null();
    ok!(api::cuInit(0));
    ok!(api::cuCtxCreate_v2(out(&mut context), 0, 0));
    context
}

/// Loads a module and looks up a kernel.
pub(crate) fn kernel(ptx: &str, name: &str) -> Handle {
    let text = CString::new(ptx).unwrap();
    let (mut module, mut function) = (null(), null());
    ok!(api::cuModuleLoadData(out(&mut module), from(text.as_bytes_with_nul())));
    let name = CString::new(name).unwrap();
    ok!(api::cuModuleGetFunction(out(&mut function), module, from(chars(&name))));
    function
}

/// A name as C characters.
pub(crate) fn chars(name: &CString) -> &[std::ffi::c_char] {
    let bytes = name.as_bytes_with_nul();
    // SAFETY: `c_char` has the layout of `u8`.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
}

/// Copies numbers to new device memory.
pub(crate) fn upload(values: &[f32]) -> u64 {
    let mut address = 0;
    ok!(api::cuMemAlloc_v2(out(&mut address), size_of_val(values)));
    ok!(api::cuMemcpyHtoD_v2(address, values.as_ptr().cast(), size_of_val(values)));
    address
}

/// Copies numbers from device memory.
pub(crate) fn download(address: u64, count: usize) -> Vec<f32> {
    let mut values = vec![0f32; count];
    ok!(api::cuMemcpyDtoH_v2(values.as_mut_ptr().cast(), address, count * 4));
    values
}

/// Launches a kernel with a pointer and a number as arguments, and returns the error code.
pub(crate) fn launch(function: Handle, threads: u32, data: u64, number: u32, stream: Handle) -> u32 {
    let arguments =
        [from(std::slice::from_ref(&data)).cast::<u8>(), from(std::slice::from_ref(&number)).cast::<u8>()];
    answer!(api::cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, stream, from(&arguments), In::none()))
}

/// The name of an error code.
pub(crate) fn named(code: u32) -> String {
    let mut name = std::ptr::null();
    ok!(api::cuGetErrorName(code, out(&mut name)));
    // SAFETY: the library's names are NUL-terminated and static.
    unsafe { std::ffi::CStr::from_ptr(name) }.to_str().unwrap().to_owned()
}

/// A host function that increments a counter.
pub(crate) unsafe extern "C" fn count(data: *mut c_void) {
    // SAFETY: tests pass an atomic counter that outlives the call.
    let counter = unsafe { &*data.cast::<std::sync::atomic::AtomicU32>() };
    counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
}

/// `data[tid] += number`, as floats; and kernels that fail.
pub(crate) const PTX: &str = "
.version 8.7
.target sm_89
.address_size 64
.const .align 4 .f32 factor = 0f40000000;
.global .align 4 .u32 launches;
.visible .entry add(.param .u64 data, .param .u32 number)
{
    .reg .b64 %rd<4>; .reg .b32 %r<3>; .reg .f32 %f<4>;
    ld.param.u64 %rd1, [data];
    ld.param.u32 %r2, [number];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    cvt.rn.f32.u32 %f2, %r2;
    ld.global.f32 %f1, [%rd3];
    add.rn.f32 %f3, %f1, %f2;
    st.global.f32 [%rd3], %f3;
    ret;
}
.visible .entry long(.param .u64 data, .param .u32 rounds)
{
    .reg .b64 %rd<2>; .reg .b32 %r<3>; .reg .pred %p;
    ld.param.u64 %rd1, [data];
    ld.param.u32 %r1, [rounds];
    mov.u32 %r2, 0;
LOOP:
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p, %r2, %r1;
    @%p bra LOOP;
    st.global.u32 [%rd1], %r2;
    ret;
}
.visible .entry scale(.param .u64 data, .param .u32 number)
{
    .reg .b64 %rd<4>; .reg .b32 %r<3>; .reg .f32 %f<4>;
    ld.param.u64 %rd1, [data];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.f32 %f1, [%rd3];
    ld.const.f32 %f2, [factor];
    mul.rn.f32 %f3, %f1, %f2;
    st.global.f32 [%rd3], %f3;
    atom.global.add.u32 %r2, [launches], 1;
    ret;
}
.visible .entry misaligned(.param .u64 data, .param .u32 number)
{
    .reg .b64 %rd<4>; .reg .b32 %r<3>;
    ld.param.u64 %rd1, [data];
    ld.global.u32 %r1, [%rd1+2];
    st.global.u32 [%rd1], %r1;
    ret;
}
.visible .entry forever(.param .u64 data, .param .u32 number)
{
again:
    bra again;
}
.visible .entry stopped(.param .u64 data, .param .u32 number)
{
    trap;
    ret;
}
";
