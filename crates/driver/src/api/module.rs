//! Modules and libraries.

use std::ffi::{c_char, c_int};

use super::{In, Out, driver, handle, number};
use crate::abi::{Answer, Error, Handle};
use crate::image;

/// What a fatbin is wrapped in by nvcc: a magic number, a version, and where it lies.
const WRAPPER: u32 = 0x4662_43b1;
/// The most bytes of an image: what nobody compiles.
const LARGEST: usize = 1 << 31;

/// The bytes of an image, whose length only it knows.
fn image_at(mut image: In<u8>) -> Answer<Vec<u8>> {
    // An image has at least four bytes: a magic number, or the beginning of a text.
    if image.cast::<u32>().get()? == WRAPPER {
        // A wrapper has its image behind two numbers.
        image = image.at(8).cast::<In<u8>>().get()?;
    }
    let magic = image.list(4)?;
    let binary = magic == [0x50, 0xed, 0x55, 0xba] || magic == [0x7f, b'E', b'L', b'F'];
    if binary {
        // These say in their heads how long they are.
        let length = image::length_of(&image.list(64)?).filter(|length| *length <= LARGEST);
        return image.list(length.ok_or(Error::INVALID_IMAGE)?);
    }
    // A text ends with a zero.
    let mut text = Vec::new();
    while text.len() < LARGEST {
        match image.at(text.len()).get()? {
            0 => break,
            byte => text.push(byte),
        }
    }
    Ok(text)
}

/// Loads an image for the current context, or for nobody; tells what went wrong in words.
fn load(bytes: &[u8], library: bool, log: Option<&Log>) -> Answer<u64> {
    let mut driver = driver();
    let (device, owner) = match (driver.current(), library) {
        (Ok((device, context)), false) => (device, Some(context)),
        (Ok((device, _)), true) => (device, None),
        (Err(_), true) => (driver.device(0)?.0, None),
        (Err(error), false) => return Err(error),
    };
    driver.load(bytes, owner, device).map_err(|(error, sentence)| {
        driver.report.say(&format!("a module was not loaded: {sentence}"));
        if let Some(log) = log {
            log.write(&sentence);
        }
        error
    })
}

/// Where a program wants the compiler's words: `CU_JIT_ERROR_LOG_BUFFER` and the size of it.
struct Log {
    buffer: Out<c_char>,
    room: usize,
}

impl Log {
    fn write(&self, sentence: &str) {
        let _unwanted = self.buffer.put_text(self.room, sentence);
    }
}

/// Reads options of the compiler; all but the error log change nothing.
fn log_of(count: u32, options: In<u32>, values: In<Out<c_char>>) -> Answer<Option<Log>> {
    let count = usize::try_from(count).map_err(|_| Error::INVALID_VALUE)?;
    let (options, values) = (options.list(count)?, values.list(count)?);
    let value =
        |wanted: u32| options.iter().position(|option| *option == wanted).and_then(|at| values.get(at));
    // 5 is the error log, 6 its size; of the values, the size is a number in place of a pointer.
    let log = value(5).zip(value(6)).map(|(buffer, size)| Log { buffer: *buffer, room: size.number() });
    Ok(log.filter(|log| !log.buffer.is_null() && log.room > 0))
}

api! {
    /// From a file.
    fn cuModuleLoad => (module: Out<Handle>, path: In<c_char>) {
        let path = path.text()?;
        let bytes = std::fs::read(path).map_err(|_| Error::FILE_NOT_FOUND)?;
        let loaded = load(&bytes, false, None)?;
        module.put(handle(loaded))
    }
}

api! {
    /// From memory.
    fn cuModuleLoadData | cuModuleLoadFatBinary => (module: Out<Handle>, image: In<u8>) {
        let bytes = image_at(image)?;
        let loaded = load(&bytes, false, None)?;
        module.put(handle(loaded))
    }
}

api! {
    /// From memory, with options of the compiler.
    fn cuModuleLoadDataEx => (module: Out<Handle>, image: In<u8>, count: u32, options: In<u32>, values: In<Out<c_char>>) {
        let bytes = image_at(image)?;
        let log = log_of(count, options, values)?;
        let loaded = load(&bytes, false, log.as_ref())?;
        module.put(handle(loaded))
    }
}

api! {
    /// A module goes.
    fn cuModuleUnload => (module: Handle) {
        let mut driver = driver();
        driver.current()?;
        driver.unload(number(module))
    }
}

api! {
    /// Functions are made ready when they are asked for.
    fn cuModuleGetLoadingMode => (mode: Out<u32>) {
        mode.put(2)
    }
}

/// A function of a module or library by its name.
fn function_of(module: Handle, name: &str) -> Answer<u64> {
    let mut driver = driver();
    driver.get_function(number(module), name).map_err(|(error, sentence)| {
        if error != Error::NOT_FOUND && !sentence.is_empty() {
            driver.report.say(&format!("kernel `{name}` cannot be made ready: {sentence}"));
        }
        error
    })
}

api! {
    /// A function by its name.
    fn cuModuleGetFunction => (function: Out<Handle>, module: Handle, name: In<c_char>) {
        driver().current()?;
        let name = name.text()?;
        let found = function_of(module, &name)?;
        function.put(handle(found))
    }
}

api! {
    /// How many functions there are.
    fn cuModuleGetFunctionCount => (count: Out<u32>, module: Handle) {
        let driver = driver();
        let kernels = driver.module(number(module))?.loaded.kernels().len();
        count.put(u32::try_from(kernels).unwrap_or(u32::MAX))
    }
}

/// Writes handles of functions, as many as there is room for.
fn enumerate(place: Out<Handle>, room: u32, module: Handle) -> Answer {
    let all = driver().all_functions(number(module))?;
    for (i, function) in all.into_iter().enumerate().take(usize::try_from(room).unwrap_or(0)) {
        place.at(i).put(handle(function))?;
    }
    Ok(())
}

api! {
    /// All functions.
    fn cuModuleEnumerateFunctions => (functions: Out<Handle>, count: u32, module: Handle) {
        enumerate(functions, count, module)
    }
}

/// Writes where a variable is.
fn variable(address: Out<u64>, size: Out<usize>, module: Handle, name: In<c_char>) -> Answer {
    let name = name.text()?;
    let (at, bytes) = driver().variable(number(module), &name)?;
    address.offer(at);
    size.offer(usize::try_from(bytes).unwrap_or(usize::MAX));
    Ok(())
}

api! {
    /// Where a variable is.
    fn cuModuleGetGlobal_v2 => (address: Out<u64>, size: Out<usize>, module: Handle, name: In<c_char>) {
        variable(address, size, module, name)
    }
}

api! {
    /// A library from memory.
    fn cuLibraryLoadData => (library: Out<Handle>, code: In<u8>, jit: In<u32>, values: In<Out<c_char>>, count: u32, _library_options: In<u32>, _library_values: In<Out<c_char>>, _library_count: u32) {
        let bytes = image_at(code)?;
        let log = log_of(count, jit, values)?;
        let loaded = load(&bytes, true, log.as_ref())?;
        library.put(handle(loaded))
    }
}

api! {
    /// A library from a file.
    fn cuLibraryLoadFromFile => (library: Out<Handle>, path: In<c_char>, jit: In<u32>, values: In<Out<c_char>>, count: u32, _library_options: In<u32>, _library_values: In<Out<c_char>>, _library_count: u32) {
        let path = path.text()?;
        let bytes = std::fs::read(path).map_err(|_| Error::FILE_NOT_FOUND)?;
        let log = log_of(count, jit, values)?;
        let loaded = load(&bytes, true, log.as_ref())?;
        library.put(handle(loaded))
    }
}

api! {
    /// A library goes.
    fn cuLibraryUnload => (library: Handle) {
        let mut driver = driver();
        driver.ready()?;
        driver.unload(number(library))
    }
}

api! {
    /// A kernel of a library, which is a function here.
    fn cuLibraryGetKernel => (kernel: Out<Handle>, library: Handle, name: In<c_char>) {
        let name = name.text()?;
        let found = function_of(library, &name)?;
        kernel.put(handle(found))
    }
}

api! {
    /// How many kernels there are.
    fn cuLibraryGetKernelCount => (count: Out<u32>, library: Handle) {
        let driver = driver();
        let kernels = driver.module(number(library))?.loaded.kernels().len();
        count.put(u32::try_from(kernels).unwrap_or(u32::MAX))
    }
}

api! {
    /// All kernels.
    fn cuLibraryEnumerateKernels => (kernels: Out<Handle>, count: u32, library: Handle) {
        enumerate(kernels, count, library)
    }
}

api! {
    /// The module of a library in the current context, which is itself.
    fn cuLibraryGetModule => (module: Out<Handle>, library: Handle) {
        driver().module(number(library))?;
        module.put(library)
    }
}

api! {
    /// Where a variable of a library is.
    fn cuLibraryGetGlobal | cuLibraryGetManaged => (address: Out<u64>, size: Out<usize>, library: Handle, name: In<c_char>) {
        variable(address, size, library, name)
    }
}

api! {
    /// The function of a kernel, which is itself.
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
    /// Sets one.
    fn cuKernelSetAttribute => (attribute: u32, value: c_int, kernel: Handle, device: c_int) {
        let mut driver = driver();
        driver.device(device)?;
        driver.set_function_attribute(number(kernel), attribute, value)
    }
}

api! {
    /// Changes nothing here.
    fn cuKernelSetCacheConfig => (kernel: Handle, _config: u32, device: c_int) {
        let driver = driver();
        driver.device(device)?;
        driver.function(number(kernel)).map(drop)
    }
}
