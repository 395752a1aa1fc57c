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
