//! The linker: its options and its log.

use std::ffi::{CString, c_void};

use warpproof_driver::abi::Handle;
use warpproof_driver::api::{self, In, Out};

use crate::answer;
use crate::ok;
use crate::program::{self, PTX, chars, from, null, out, start};

/// Adds a text under a name.
fn add(link: Handle, name: &str, ptx: &str) {
    let (name, ptx) = (CString::new(name).unwrap(), CString::new(ptx).unwrap());
    let bytes = ptx.as_bytes_with_nul();
    ok!(api::cuLinkAddData_v2(
        link,
        1,
        from(bytes),
        bytes.len(),
        from(chars(&name)),
        0,
        In::none(),
        In::none()
    ));
}

/// A kernel that uses a function of another module.
const CALLER: &str = "
.version 8.7
.target sm_89
.address_size 64
.extern .func elsewhere();
.visible .entry caller()
{
    call elsewhere, ();
    ret;
}
";

#[test]
fn the_log_names_the_function_that_is_not_defined_and_the_text_that_uses_it() {
    start();
    let mut log = [0u8; 100];
    let (mut link, mut image) = (null(), std::ptr::null());
    let values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(log.len())];
    ok!(api::cuLinkCreate_v2(2, from(&[5, 6]), from(&values), out(&mut link)));
    add(link, "first", PTX);
    add(link, "second", CALLER);
    assert_eq!(answer!(api::cuLinkComplete(link, out(&mut image), Out::none())), 218);
    let text = std::ffi::CStr::from_bytes_until_nul(&log).unwrap().to_str().unwrap();
    assert_eq!(text, "error   : Undefined reference to 'elsewhere' in 'second'");
}

#[test]
fn a_kernel_has_at_most_the_registers_that_the_linker_was_given() {
    start();
    let (mut link, mut image, mut module, mut function, mut registers) =
        (null(), std::ptr::null(), null(), null(), 0);
    ok!(api::cuLinkCreate_v2(1, from(&[0]), from(&[std::ptr::without_provenance_mut(9)]), out(&mut link)));
    add(link, "all", PTX);
    ok!(api::cuLinkComplete(link, out(&mut image), Out::none()));
    ok!(api::cuModuleLoadData(out(&mut module), program::image(image)));
    ok!(api::cuModuleGetFunction(out(&mut function), module, from(chars(&CString::new("add").unwrap()))));
    ok!(api::cuFuncGetAttribute(out(&mut registers), 4, function));
    assert_eq!(registers, 9);
}

/// Two translation units: the first uses a function, a constant and a variable of the second. Both have a variable and a function
/// of their own under the same names, a weak function, source lines, and dynamic shared memory.
const FIRST: &str = "
.version 8.0
.target sm_80
.address_size 64
.file 1 \"first.cu\"
.extern .func (.param .b32 out) twice (.param .b32 x);
.extern .const .align 4 .f32 factor;
.extern .global .align 4 .u32 calls;
.extern .shared .align 16 .b8 dynamic[];
.global .align 4 .f32 own = 0f3F800000;
.weak .func (.param .b32 out) generic (.param .b32 x)
{ .reg .f32 %f; ld.param.f32 %f, [x]; add.f32 %f, %f, 0f40800000; st.param.f32 [out], %f; ret; }
.func (.param .b32 out) hidden (.param .b32 x)
{ .reg .f32 %f, %g; ld.param.f32 %f, [x]; ld.global.f32 %g, [own]; add.f32 %f, %f, %g; st.param.f32 [out], %f; ret; }
.visible .entry run(.param .u64 data, .param .u32 number)
{
    .reg .b64 %rd<4>; .reg .b32 %r<3>; .reg .f32 %f<4>;
    .loc 1 7 3
    ld.param.u64 %rd1, [data];
    ld.global.f32 %f1, [%rd1];
    { .param .b32 a; .param .b32 b; st.param.f32 [a], %f1; call (b), twice, (a); ld.param.f32 %f1, [b]; }
    { .param .b32 a; .param .b32 b; st.param.f32 [a], %f1; call (b), hidden, (a); ld.param.f32 %f1, [b]; }
    { .param .b32 a; .param .b32 b; st.param.f32 [a], %f1; call (b), generic, (a); ld.param.f32 %f1, [b]; }
    ld.const.f32 %f2, [factor];
    mul.f32 %f1, %f1, %f2;
    st.global.f32 [%rd1], %f1;
    ld.global.u32 %r1, [calls];
    st.global.u32 [%rd1+4], %r1;
    ret;
}
";
const SECOND: &str = "
.version 8.7
.target sm_89
.address_size 64
.file 1 \"second.cu\"
.visible .const .align 4 .f32 factor = 0f41200000;
.visible .global .align 4 .u32 calls = 0;
.extern .shared .align 16 .b8 dynamic[];
.global .align 4 .f32 own = 0f42C80000;
.weak .func (.param .b32 out) generic (.param .b32 x)
{ .reg .f32 %f; ld.param.f32 %f, [x]; st.param.f32 [out], %f; ret; }
.func (.param .b32 out) hidden (.param .b32 x)
{ .reg .f32 %f, %g; ld.param.f32 %f, [x]; ld.global.f32 %g, [own]; mul.f32 %f, %f, %g; st.param.f32 [out], %f; ret; }
.visible .func (.param .b32 out) twice (.param .b32 x)
{
    .reg .f32 %f; .reg .b32 %r;
    .loc 1 4 1
    ld.param.f32 %f, [x];
    { .param .b32 a; .param .b32 b; st.param.f32 [a], %f; call (b), hidden, (a); ld.param.f32 %f, [b]; }
    add.f32 %f, %f, %f;
    st.param.f32 [out], %f;
    ld.global.u32 %r, [calls];
    add.u32 %r, %r, 1;
    st.global.u32 [calls], %r;
    ret;
}
";

/// Runs the kernel of the two units: `((2 · 100 · x) + 1 + 4) · 10`, and the count of calls.
fn run_units(module: Handle) {
    let mut function = null();
    ok!(api::cuModuleGetFunction(out(&mut function), module, from(chars(&CString::new("run").unwrap()))));
    let data = program::upload(&[3.0, 0.0]);
    assert_eq!(program::launch(function, 1, data, 0, null()), 0);
    ok!(api::cuCtxSynchronize());
    let found = program::download(data, 2);
    assert_eq!((found[0], found[1].to_bits()), (6050.0, 1));
}

#[test]
fn units_share_names_with_linkage_and_keep_their_own() {
    start();
    for order in [[FIRST, SECOND], [SECOND, FIRST]] {
        let (mut link, mut image, mut module) = (null(), std::ptr::null(), null());
        ok!(api::cuLinkCreate_v2(0, In::none(), In::none(), out(&mut link)));
        add(link, "a", order[0]);
        add(link, "b", order[1]);
        ok!(api::cuLinkComplete(link, out(&mut image), Out::none()));
        let text = program::image(image);
        ok!(api::cuModuleLoadData(out(&mut module), text));
        if order[0] == FIRST {
            run_units(module);
        }
    }
}

/// nvcc's wrapper around the fat binaries of a program with several units.
#[repr(C)]
struct Wrapper {
    magic: u32,
    version: u32,
    data: *const u8,
    list: *const *const std::ffi::c_char,
}

#[test]
fn the_wrapper_of_a_program_with_several_units_loads_all_of_them() {
    start();
    // The linked machine code is not read; the list ends with a null pointer.
    let (first, second) = (CString::new(FIRST).unwrap(), CString::new(SECOND).unwrap());
    let list = [first.as_ptr(), second.as_ptr(), std::ptr::null()];
    let wrapper = Wrapper { magic: 0x4662_43b1, version: 2, data: std::ptr::null(), list: list.as_ptr() };
    let (mut module, mut library) = (null(), null());
    let image = from(std::slice::from_ref(&wrapper)).cast();
    ok!(api::cuModuleLoadData(out(&mut module), image));
    run_units(module);
    ok!(api::cuLibraryLoadData(
        out(&mut library),
        image,
        In::none(),
        In::none(),
        0,
        In::none(),
        In::none(),
        0
    ));
    run_units(library);
    // The same for Rust callers; a unit is missing.
    let units = [FIRST.as_bytes().to_vec(), SECOND.as_bytes().to_vec()];
    assert!(api::load_images(&units, false).is_ok());
    assert_eq!(api::load_images(&[units[0].clone(), PTX.as_bytes().to_vec()], false).unwrap_err().0, 218);
}

#[test]
fn a_name_that_two_units_define_or_none_does_is_an_error() {
    start();
    let complete = |parts: &[&str]| {
        let mut log = [0u8; 100];
        let (mut link, mut image) = (null(), std::ptr::null());
        let values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(log.len())];
        ok!(api::cuLinkCreate_v2(2, from(&[5, 6]), from(&values), out(&mut link)));
        for (i, part) in parts.iter().enumerate() {
            add(link, &format!("unit {i}"), part);
        }
        let code = answer!(api::cuLinkComplete(link, out(&mut image), Out::none()));
        let text = std::ffi::CStr::from_bytes_until_nul(&log).unwrap().to_str().unwrap().to_owned();
        (code, text)
    };
    let twice = SECOND.replace(".weak .func (.param .b32 out) generic", ".func (.param .b32 out) other");
    assert_eq!(
        complete(&[SECOND, &twice]),
        (218, "error   : Multiple definition of 'factor' in 'unit 1'".to_owned())
    );
    let without =
        SECOND.replace(".visible .global .align 4 .u32 calls", ".extern .global .align 4 .u32 calls");
    let without = without.replace("calls = 0", "calls");
    assert_eq!(
        complete(&[FIRST, &without]),
        (218, "error   : Undefined reference to 'calls' in 'unit 0'".to_owned())
    );
}
