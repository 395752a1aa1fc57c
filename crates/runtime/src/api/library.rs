//! Libraries: device code that the program loads itself.

use std::ffi::{c_char, c_int};

use warpproof_driver::abi::Handle;
use warpproof_driver::api::{In, Out};

use super::context;

api! {
    /// Loads a library from memory.
    fn cudaLibraryLoadData => (library: Out<Handle>, code: In<u8>, jit: In<u32>, values: In<Out<c_char>>, count: u32, options: In<u32>, option_values: In<Out<c_char>>, option_count: u32) {
        context()?;
        cu!(cuLibraryLoadData(library, code, jit, values, count, options, option_values, option_count))
    }
}

api! {
    /// Loads a library from a file.
    fn cudaLibraryLoadFromFile => (library: Out<Handle>, path: In<c_char>, jit: In<u32>, values: In<Out<c_char>>, count: u32, options: In<u32>, option_values: In<Out<c_char>>, option_count: u32) {
        context()?;
        cu!(cuLibraryLoadFromFile(library, path, jit, values, count, options, option_values, option_count))
    }
}

api! {
    /// Unloads a library.
    fn cudaLibraryUnload => (library: Handle) {
        context()?;
        cu!(cuLibraryUnload(library))
    }
}

api! {
    /// A kernel of a library.
    fn cudaLibraryGetKernel => (kernel: Out<Handle>, library: Handle, name: In<c_char>) {
        context()?;
        cu!(cuLibraryGetKernel(kernel, library, name))
    }
}

api! {
    /// Number of kernels of a library.
    fn cudaLibraryGetKernelCount => (count: Out<u32>, library: Handle) {
        context()?;
        cu!(cuLibraryGetKernelCount(count, library))
    }
}

api! {
    /// Kernels of a library.
    fn cudaLibraryEnumerateKernels => (kernels: Out<Handle>, count: u32, library: Handle) {
        context()?;
        cu!(cuLibraryEnumerateKernels(kernels, count, library))
    }
}

api! {
    /// A variable of a library.
    fn cudaLibraryGetGlobal | cudaLibraryGetManaged => (address: Out<u64>, size: Out<usize>, library: Handle, name: In<c_char>) {
        context()?;
        cu!(cuLibraryGetGlobal(address, size, library, name))
    }
}

api! {
    /// Sets an attribute of a kernel.
    fn cudaKernelSetAttributeForDevice => (kernel: Handle, attribute: u32, value: c_int, device: c_int) {
        context()?;
        let function = super::register::function(kernel)?;
        cu!(cuKernelSetAttribute(attribute, value, function, device))
    }
}
