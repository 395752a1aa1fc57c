//! Modules and libraries.

use std::ffi::{c_char, c_int};

use super::{In, Out, driver, handle, idle, number};
use crate::abi::{Answer, Error, Handle};
use crate::image;

/// Magic number of nvcc's wrapper around a fat binary: the magic number, a version, a pointer to the fat binary, and in version 2
/// a pointer to a list of fat binaries.
const WRAPPER: u32 = 0x4662_43b1;
/// Version of the wrapper of a program built with `-rdc=true`. The fat binary is the linked machine code; the list has that of
/// each translation unit, with its PTX, and ends with a null pointer.
const LINKED: u32 = 2;
/// The maximum number of translation units.
const MOST_UNITS: usize = 1 << 16;
/// Largest accepted image in bytes; no compiler produces larger ones.
const LARGEST: usize = 1 << 31;

/// The images to which a pointer of the program refers: one, or those of all translation units.
fn images_at(image: In<u8>) -> Answer<Vec<Vec<u8>>> {
    // An image has at least four bytes: a magic number, or the start of a PTX text.
    if image.cast::<u32>().get()? != WRAPPER {
        return Ok(vec![image_at(image)?]);
    }
    // The wrapper stores the image pointer after two 32-bit numbers, and the list after it.
    let list = image.at(16).cast::<In<In<u8>>>();
    let list = if image.at(4).cast::<u32>().get()? == LINKED { list.get()? } else { In::none() };
    let mut images = Vec::new();
    while !list.is_null() && images.len() < MOST_UNITS {
        let unit = list.at(images.len()).get()?;
        if unit.is_null() {
            break;
        }
        images.push(image_at(unit)?);
    }
    if images.is_empty() {
        images.push(image_at(image.at(8).cast::<In<u8>>().get()?)?);
    }
    Ok(images)
}

/// The bytes of an image, whose length follows from its contents.
fn image_at(image: In<u8>) -> Answer<Vec<u8>> {
    let magic = image.list(4)?;
    let binary = magic == [0x50, 0xed, 0x55, 0xba] || magic == [0x7f, b'E', b'L', b'F'];
    if binary {
        // Binary formats store their length in the header.
        let length = image::length_of(&image.list(64)?).filter(|length| *length <= LARGEST);
        return image.list(length.ok_or(Error::INVALID_IMAGE)?);
    }
    // Text ends with a NUL byte.
    let mut text = Vec::new();
    while text.len() < LARGEST {
        match image.at(text.len()).get()? {
            0 => break,
            byte => text.push(byte),
        }
    }
    Ok(text)
}

/// Links images, if there are several, and loads them into the current context as one module, or as a library without a context.
/// The handle is that of `cuModuleLoadData` or `cuLibraryLoadData`. Errors are reported as text.
pub fn load_images(images: &[Vec<u8>], library: bool) -> Answer<u64> {
    load(images, library, None)
}

fn load(images: &[Vec<u8>], library: bool, log: Option<&Log>) -> Answer<u64> {
    let mut driver = driver();
    let (device, owner) = match (driver.current(), library) {
        (Ok((device, context)), false) => (device, Some(context)),
        (Ok((device, _)), true) => (device, None),
        (Err(_), true) => (driver.device(0)?.0, None),
        (Err(error), false) => return Err(error),
    };
    let loaded = match images {
        [only] => driver.load(only, owner, device),
        images => driver.load_linked(images, owner, device),
    };
    loaded.map_err(|(error, sentence)| {
        driver.report.say(&format!("cannot load module: {sentence}"));
        if let Some(log) = log {
            log.write(&sentence);
        }
        error
    })
}

/// The program's buffer for compiler errors: `CU_JIT_ERROR_LOG_BUFFER` and its size.
struct Log {
    buffer: Out<c_char>,
    room: usize,
}

impl Log {
    fn write(&self, sentence: &str) {
        let _unwanted = self.buffer.put_text(self.room, sentence);
    }
}

/// Reads JIT options; all except the error log are ignored.
fn log_of(count: u32, options: In<u32>, values: In<Out<c_char>>) -> Answer<Option<Log>> {
    let count = usize::try_from(count).map_err(|_| Error::INVALID_VALUE)?;
    let (options, values) = (options.list(count)?, values.list(count)?);
    let value =
        |wanted: u32| options.iter().position(|option| *option == wanted).and_then(|at| values.get(at));
    // 5 is the error log, 6 its size; the size is stored in place of a pointer.
    let log = value(5).zip(value(6)).map(|(buffer, size)| Log { buffer: *buffer, room: size.number() });
    Ok(log.filter(|log| !log.buffer.is_null() && log.room > 0))
}

api! {
    /// Loads a module from a file.
    fn cuModuleLoad => (module: Out<Handle>, path: In<c_char>) {
        let path = path.text()?;
        let bytes = std::fs::read(path).map_err(|_| Error::FILE_NOT_FOUND)?;
        let loaded = load(&[bytes], false, None)?;
        module.put(handle(loaded))
    }
}

api! {
    /// Loads a module from memory.
    fn cuModuleLoadData | cuModuleLoadFatBinary => (module: Out<Handle>, image: In<u8>) {
        let images = images_at(image)?;
        let loaded = load(&images, false, None)?;
        module.put(handle(loaded))
    }
}

api! {
    /// Loads a module from memory, with JIT options.
    fn cuModuleLoadDataEx => (module: Out<Handle>, image: In<u8>, count: u32, options: In<u32>, values: In<Out<c_char>>) {
        let images = images_at(image)?;
        let log = log_of(count, options, values)?;
        let loaded = load(&images, false, log.as_ref())?;
        module.put(handle(loaded))
    }
}

api! {
    /// Unloads a module.
    fn cuModuleUnload => (module: Handle) {
        let mut driver = idle();
        driver.current()?;
        driver.unload(number(module))
    }
}

api! {
    /// Lazy: functions are compiled when the program looks them up.
    fn cuModuleGetLoadingMode => (mode: Out<u32>) {
        mode.put(2)
    }
}

/// Looks up a function of a module or library.
fn function_of(module: Handle, name: &str) -> Answer<u64> {
    let mut driver = driver();
    driver.get_function(number(module), name).map_err(|(error, sentence)| {
        if error != Error::NOT_FOUND && !sentence.is_empty() {
            driver.report.say(&format!("cannot prepare kernel `{name}`: {sentence}"));
        }
        error
    })
}

api! {
    /// Looks up a function by name.
    fn cuModuleGetFunction => (function: Out<Handle>, module: Handle, name: In<c_char>) {
        driver().current()?;
        let name = name.text()?;
        let found = function_of(module, &name)?;
        function.put(handle(found))
    }
}

api! {
    /// Number of functions.
    fn cuModuleGetFunctionCount => (count: Out<u32>, module: Handle) {
        let driver = driver();
        let kernels = driver.module(number(module))?.loaded.kernels().len();
        count.put(u32::try_from(kernels).unwrap_or(u32::MAX))
    }
}

/// Writes at most as many function handles as fit.
fn enumerate(place: Out<Handle>, room: u32, module: Handle) -> Answer {
    let all = driver().all_functions(number(module))?;
    for (i, function) in all.into_iter().enumerate().take(usize::try_from(room).unwrap_or(0)) {
        place.at(i).put(handle(function))?;
    }
    Ok(())
}

api! {
    /// Handles of all functions.
    fn cuModuleEnumerateFunctions => (functions: Out<Handle>, count: u32, module: Handle) {
        enumerate(functions, count, module)
    }
}

/// Writes address and size of a variable.
fn variable(address: Out<u64>, size: Out<usize>, module: Handle, name: In<c_char>) -> Answer {
    let name = name.text()?;
    let (at, bytes) = driver().variable(number(module), &name)?;
    address.offer(at);
    size.offer(usize::try_from(bytes).unwrap_or(usize::MAX));
    Ok(())
}

api! {
    /// Address and size of a variable.
    fn cuModuleGetGlobal_v2 => (address: Out<u64>, size: Out<usize>, module: Handle, name: In<c_char>) {
        variable(address, size, module, name)
    }
}

api! {
    /// Loads a library from memory.
    fn cuLibraryLoadData => (library: Out<Handle>, code: In<u8>, jit: In<u32>, values: In<Out<c_char>>, count: u32, _library_options: In<u32>, _library_values: In<Out<c_char>>, _library_count: u32) {
        let images = images_at(code)?;
        let log = log_of(count, jit, values)?;
        let loaded = load(&images, true, log.as_ref())?;
        library.put(handle(loaded))
    }
}

api! {
    /// Loads a library from a file.
    fn cuLibraryLoadFromFile => (library: Out<Handle>, path: In<c_char>, jit: In<u32>, values: In<Out<c_char>>, count: u32, _library_options: In<u32>, _library_values: In<Out<c_char>>, _library_count: u32) {
        let path = path.text()?;
        let bytes = std::fs::read(path).map_err(|_| Error::FILE_NOT_FOUND)?;
        let log = log_of(count, jit, values)?;
        let loaded = load(&[bytes], true, log.as_ref())?;
        library.put(handle(loaded))
    }
}

api! {
    /// Unloads a library.
    fn cuLibraryUnload => (library: Handle) {
        let mut driver = idle();
        driver.ready()?;
        driver.unload(number(library))
    }
}

api! {
    /// Looks up a kernel of a library; kernels and functions are the same here.
    fn cuLibraryGetKernel => (kernel: Out<Handle>, library: Handle, name: In<c_char>) {
        let name = name.text()?;
        let found = function_of(library, &name)?;
        kernel.put(handle(found))
    }
}

api! {
    /// Number of kernels.
    fn cuLibraryGetKernelCount => (count: Out<u32>, library: Handle) {
        let driver = driver();
        let kernels = driver.module(number(library))?.loaded.kernels().len();
        count.put(u32::try_from(kernels).unwrap_or(u32::MAX))
    }
}

api! {
    /// Handles of all kernels.
    fn cuLibraryEnumerateKernels => (kernels: Out<Handle>, count: u32, library: Handle) {
        enumerate(kernels, count, library)
    }
}

/// The module of a library on the current device; without a context, on the first one.
fn here(library: Handle) -> Answer<Handle> {
    let mut driver = driver();
    let device = driver.current().map_or(0, |(device, _)| device);
    driver.module_on(number(library), device).map(handle)
}

api! {
    /// The module of a library on the current device.
    fn cuLibraryGetModule => (module: Out<Handle>, library: Handle) {
        module.put(here(library)?)
    }
}

api! {
    /// Address and size of a library's variable.
    fn cuLibraryGetGlobal | cuLibraryGetManaged => (address: Out<u64>, size: Out<usize>, library: Handle, name: In<c_char>) {
        variable(address, size, here(library)?, name)
    }
}

api! {
    /// The function of a kernel; both are the same here.
    fn cuKernelGetFunction => (function: Out<Handle>, kernel: Handle) {
        driver().function(number(kernel))?;
        function.put(kernel)
    }
}

api! {
    /// The library of a kernel.
    fn cuKernelGetLibrary => (library: Out<Handle>, kernel: Handle) {
        let module = driver().function(number(kernel))?.module;
        library.put(handle(module))
    }
}

api! {
    /// An attribute of a kernel on a device.
    fn cuKernelGetAttribute => (value: Out<c_int>, attribute: u32, kernel: Handle, device: c_int) {
        let driver = driver();
        driver.device(device)?;
        value.put(driver.function_attribute(number(kernel), attribute)?)
    }
}

api! {
    /// Sets an attribute of a kernel on a device.
    fn cuKernelSetAttribute => (attribute: u32, value: c_int, kernel: Handle, device: c_int) {
        let mut driver = driver();
        driver.device(device)?;
        driver.set_function_attribute(number(kernel), attribute, value)
    }
}

api! {
    /// Ignored.
    fn cuKernelSetCacheConfig => (kernel: Handle, _config: u32, device: c_int) {
        let driver = driver();
        driver.device(device)?;
        driver.function(number(kernel)).map(drop)
    }
}
