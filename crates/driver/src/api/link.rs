//! The linker: PTX in, PTX out.

use std::ffi::{c_char, c_void};

use super::{In, Out, driver, handle, number};
use crate::abi::{Answer, Error, Handle};
use crate::image;
use crate::linker::LinkError;
use crate::module::Link;

/// `CUjitInputType` values that can contain PTX: cubin, PTX, fatbin.
const READABLE: [u32; 3] = [0, 1, 2];

api! {
    /// Creates a linker. Of the options, the limit of registers (0) and the error log (5) with its size (6) have an effect.
    fn cuLinkCreate | cuLinkCreate_v2 => (count: u32, options: In<u32>, values: In<*mut c_void>, link: Out<Handle>) {
        let count = usize::try_from(count).map_err(|_| Error::INVALID_VALUE)?;
        let (options, values) = (options.list(count)?, values.list(count)?);
        let value = |wanted: u32| {
            let at = options.iter().position(|option| *option == wanted)?;
            values.get(at).map(|value| value.expose_provenance())
        };
        // Numbers are stored in place of pointers.
        let registers = value(0).and_then(|most| u32::try_from(most).ok()).filter(|most| *most > 0);
        let log = value(5).zip(value(6)).filter(|(buffer, room)| *buffer != 0 && *room > 0);
        let mut driver = driver();
        let (_, context) = driver.current()?;
        let made = driver.handle();
        driver.links.insert(made, Link { context, registers, log, ..Link::default() });
        link.put(handle(made))
    }
}

/// Writes a sentence to the program's buffer for errors.
fn log(link: &Link, sentence: &str) {
    let Some((buffer, room)) = link.log else { return };
    // The buffer must stay valid until the linker is destroyed.
    let _unwanted = Out::<c_char>::exposed(buffer).put_text(room, sentence);
}

fn add(link: Handle, kind: u32, bytes: &[u8], name: String) -> Answer {
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
    driver.links.get_mut(&number(link)).ok_or(Error::INVALID_HANDLE)?.parts.push((name, text));
    Ok(())
}

api! {
    /// Adds an image from memory.
    fn cuLinkAddData | cuLinkAddData_v2 => (link: Handle, kind: u32, data: In<u8>, size: usize, name: In<c_char>, _count: u32, _options: In<u32>, _values: In<*mut c_void>) {
        let bytes = data.list(size)?;
        let name = if name.is_null() { String::new() } else { name.text()? };
        add(link, kind, &bytes, name)
    }
}

api! {
    /// Adds an image from a file.
    fn cuLinkAddFile | cuLinkAddFile_v2 => (link: Handle, kind: u32, path: In<c_char>, _count: u32, _options: In<u32>, _values: In<*mut c_void>) {
        let path = path.text()?;
        let bytes = std::fs::read(&path).map_err(|_| Error::FILE_NOT_FOUND)?;
        add(link, kind, &bytes, path)
    }
}

api! {
    /// Returns the linked image; it is valid until the linker is destroyed.
    fn cuLinkComplete => (link: Handle, image: Out<*const c_void>, size: Out<usize>) {
        let mut driver = driver();
        let (device, _) = driver.current()?;
        let known = driver.links.get_mut(&number(link)).ok_or(Error::INVALID_HANDLE)?;
        let joined = known.complete().map(<[u8]>::to_vec);
        let unresolved = match joined {
            Ok(text) => driver.unresolved(&text, device),
            Err(LinkError::Empty) => return Err(Error::INVALID_VALUE),
            Err(error) => Err((Error::INVALID_PTX, error.to_string())),
        };
        let known = driver.links.get(&number(link)).ok_or(Error::INVALID_HANDLE)?;
        let failed = match unresolved {
            Ok(None) => None,
            Ok(Some(name)) => {
                log(known, &known.undefined(&name));
                Some((Error::INVALID_PTX, format!("the function `{name}` is declared but not defined")))
            }
            Err((error, sentence)) => {
                log(known, &sentence);
                Some((error, sentence))
            }
        };
        if let Some((error, sentence)) = failed {
            driver.report.say(&format!("linker: cannot complete the module: {sentence}"));
            return Err(error);
        }
        let known = driver.links.get_mut(&number(link)).ok_or(Error::INVALID_HANDLE)?;
        let made = known.complete().map_err(|_| Error::INVALID_PTX)?;
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
