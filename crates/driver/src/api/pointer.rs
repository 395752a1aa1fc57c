//! Pointers received from C.
//!
//! The caller of the API promises what CUDA's manual requires: a pointer is null, or valid for the access of the call. The caller
//! makes this promise once, by passing the pointer to an `unsafe` function; the methods of these types rely on it and are safe.

use std::ffi::{CStr, c_char};

use crate::abi::{Answer, Error};

/// An output pointer.
#[repr(transparent)]
#[derive(Debug)]
pub struct Out<T>(*mut T);

/// An input pointer.
#[repr(transparent)]
#[derive(Debug)]
pub struct In<T>(*const T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Out<T> {}
impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for In<T> {}

impl<T> Out<T> {
    /// # Safety
    /// The pointer is null, or valid for the writes of the call.
    pub unsafe fn new(pointer: *mut T) -> Out<T> {
        Out(pointer)
    }

    /// A null pointer: the caller does not want this output.
    pub fn none() -> Out<T> {
        Out(std::ptr::null_mut())
    }

    /// The pointer at an address that the program passed earlier, with the promise to keep it valid.
    pub(crate) fn exposed(address: usize) -> Out<T> {
        Out(std::ptr::with_exposed_provenance_mut(address))
    }

    /// Whether the pointer is null.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The pointer as a number, for calls that pass numbers as pointers.
    pub fn number(self) -> usize {
        self.0.addr()
    }

    /// Writes the output; a null pointer is an error.
    pub fn put(self, value: T) -> Answer {
        if self.0.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: the creator of this pointer promised that it is valid for this write.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes the output unless the pointer is null.
    pub fn offer(self, value: T) {
        let _unwanted = self.put(value);
    }

    /// A pointer to the element with this index.
    #[must_use]
    pub fn at(self, index: usize) -> Out<T> {
        Out(if self.0.is_null() { self.0 } else { self.0.wrapping_add(index) })
    }

    /// The same address with another element type.
    pub fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }

    /// The same address as an input, for parameters that are both read and written.
    pub fn read(self) -> In<T> {
        In(self.0)
    }
}

impl Out<c_char> {
    /// Writes a NUL-terminated text, truncated to the buffer.
    pub fn put_text(self, room: usize, text: &str) -> Answer {
        if self.0.is_null() || room == 0 {
            return Err(Error::INVALID_VALUE);
        }
        let shown = text.as_bytes().get(..text.len().min(room - 1)).unwrap_or_default();
        for (i, byte) in shown.iter().chain(&[0]).enumerate() {
            self.at(i).put(c_char::from_ne_bytes([*byte]))?;
        }
        Ok(())
    }
}

impl<T> In<T> {
    /// # Safety
    /// The pointer is null, or valid for the reads of the call.
    pub unsafe fn new(pointer: *const T) -> In<T> {
        In(pointer)
    }

    /// A null pointer.
    pub fn none() -> In<T> {
        In(std::ptr::null())
    }

    /// Whether the pointer is null.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The same address with another element type.
    pub fn cast<U>(self) -> In<U> {
        In(self.0.cast())
    }

    /// A pointer to the element with this index.
    #[must_use]
    pub fn at(self, index: usize) -> In<T> {
        In(if self.0.is_null() { self.0 } else { self.0.wrapping_add(index) })
    }
}

impl<T> In<In<T>> {
    /// Addresses that the driver keeps, as an array of pointers for the program.
    pub(crate) fn kept(addresses: &[usize]) -> In<In<T>> {
        In(addresses.as_ptr().cast())
    }
}

impl<T: Copy> In<T> {
    /// Reads the value.
    pub fn get(self) -> Answer<T> {
        if self.0.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: the creator of this pointer promised that it is valid for this read.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Reads `count` values.
    pub fn list(self, count: usize) -> Answer<Vec<T>> {
        if self.0.is_null() && count > 0 {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: the creator of this pointer promised that `count` values are readable.
        Ok((0..count).map(|i| unsafe { self.0.wrapping_add(i).read_unaligned() }).collect())
    }
}

impl In<c_char> {
    /// Reads a NUL-terminated text.
    pub fn text(self) -> Answer<String> {
        if self.0.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: the creator of this pointer promised a NUL-terminated text.
        unsafe { CStr::from_ptr(self.0) }.to_str().map(str::to_owned).map_err(|_| Error::INVALID_VALUE)
    }
}
