//! The dynamic linker loads the shared objects and finds every function under its version.
#![allow(unsafe_code, reason = "it calls the dynamic linker")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use warpproof_cuda::shim::{ALL, Machine, write};

unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

/// `cudaRuntimeGetVersion`.
type Version = unsafe extern "C" fn(*mut c_int) -> u32;

/// This crate's shared library, which cargo builds next to the tests.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let places = test.ancestors().skip(1).map(|folder| folder.join("libwarpproof_cuda.so"));
    places.into_iter().find(|place| place.is_file()).expect("libwarpproof_cuda.so")
}

#[test]
fn the_linker_finds_every_function_under_its_version() {
    let folder = tempfile::tempdir().expect("a directory");
    let machine = Machine::own().expect("a supported processor");
    symlink(library(), folder.path().join("libcuda.so.1")).expect("a link");
    // SAFETY: the library is ours and runs no code when it is loaded.
    let driver = unsafe { libloading::Library::new(folder.path().join("libcuda.so.1")) };
    let _driver = driver.expect("libcuda.so.1");
    for shim in ALL {
        let place = folder.path().join(shim.name);
        std::fs::write(&place, write(&shim, machine)).expect("written");
        let path = CString::new(place.to_str().expect("text")).expect("no NUL");
        // SAFETY: the file is a shared object; loading it resolves all of its symbols (RTLD_NOW).
        let handle = unsafe { dlopen(path.as_ptr(), 2) };
        // SAFETY: a failed call leaves a message.
        assert!(!handle.is_null(), "{:?}", unsafe { std::ffi::CStr::from_ptr(dlerror()) });
        let version = CString::new(shim.name).expect("no NUL");
        let find = |name: &str| {
            let name = CString::new(name).expect("no NUL");
            // SAFETY: the handle is open, and both texts end with NUL.
            unsafe { dlvsym(handle, name.as_ptr(), version.as_ptr()) }
        };
        for (name, _) in shim.functions {
            assert!(!find(name).is_null(), "{name} of {}", shim.name);
        }
        assert!(find("cudaNothing").is_null());
        // SAFETY: the function has this signature.
        let version = unsafe { std::mem::transmute::<*mut c_void, Version>(find("cudaRuntimeGetVersion")) };
        let mut number = 0;
        // SAFETY: the pointer is that of a variable.
        assert_eq!(unsafe { version(&raw mut number) }, 0);
        assert_eq!(format!("libcudart.so.{}", number / 1000), shim.name);
    }
}
