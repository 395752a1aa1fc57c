//! The linker: PTX in, PTX out.

use std::ffi::{c_char, c_void};

use super::{In, Out, driver, handle, number};
use crate::abi::{Answer, Error, Handle};
use crate::image;
use crate::module::Link;

/// `CUjitInputType` values that can contain PTX: cubin, PTX, fatbin.
const READABLE: [u32; 3] = [0, 1, 2];

api! {
    /// Creates a linker.
    fn cuLinkCreate | cuLinkCreate_v2 => (_count: u32, _options: In<u32>, _values: In<*mut c_void>, link: Out<Handle>) {
        let mut driver = driver();
        let (_, context) = driver.current()?;
        let made = driver.handle();
        driver.links.insert(made, Link { context, ..Link::default() });
        link.put(handle(made))
    }
}

fn add(link: Handle, kind: u32, bytes: &[u8]) -> Answer {
    let mut driver = driver();
    let (device, _) = driver.current()?;
    if !READABLE.contains(&kind) {
        driver.report.unsupported("linking of objects, archives and NVVM");
        return Err(Error::NOT_SUPPORTED);
    }
    let sm = driver.devices[device].sm();
    let text = image::ptx_of(bytes, sm).map_err(|error| {
        driver.report.say(&format!("linker: cannot read the input: {error}"));
        Error::INVALID_IMAGE
    })?;
    driver.links.get_mut(&number(link)).ok_or(Error::INVALID_HANDLE)?.parts.push(text);
    Ok(())
}

api! {
    /// Adds an image from memory.
    fn cuLinkAddData | cuLinkAddData_v2 => (link: Handle, kind: u32, data: In<u8>, size: usize, _name: In<c_char>, _count: u32, _options: In<u32>, _values: In<*mut c_void>) {
        let bytes = data.list(size)?;
        add(link, kind, &bytes)
    }
}

api! {
    /// Adds an image from a file.
    fn cuLinkAddFile | cuLinkAddFile_v2 => (link: Handle, kind: u32, path: In<c_char>, _count: u32, _options: In<u32>, _values: In<*mut c_void>) {
        let path = path.text()?;
        let bytes = std::fs::read(path).map_err(|_| Error::FILE_NOT_FOUND)?;
        add(link, kind, &bytes)
    }
}

api! {
    /// Returns the linked image; it is valid until the linker is destroyed.
    fn cuLinkComplete => (link: Handle, image: Out<*const c_void>, size: Out<usize>) {
        let mut driver = driver();
        let (device, _) = driver.current()?;
        let known = driver.links.get_mut(&number(link)).ok_or(Error::INVALID_HANDLE)?;
        let text = known.complete()?.to_vec();
        driver.resolves(&text, device).map_err(|(error, sentence)| {
            driver.report.say(&format!("linker: cannot complete the module: {sentence}"));
            error
        })?;
        let known = driver.links.get_mut(&number(link)).ok_or(Error::INVALID_HANDLE)?;
        let made = known.complete()?;
        image.put(made.as_ptr().cast())?;
        size.offer(made.len());
        Ok(())
    }
}

api! {
    /// Destroys a linker.
    fn cuLinkDestroy => (link: Handle) {
        let mut driver = driver();
        driver.ready()?;
        driver.links.remove(&number(link)).map(drop).ok_or(Error::INVALID_HANDLE)
    }
}
