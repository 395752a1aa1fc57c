//! Pointers that C handed over.
//!
//! Who calls the API promises what its manual asks for: a pointer is null, or valid for what the call reads or writes there. That
//! promise is made once, by calling an `unsafe` function with one of these; what they do with it is safe.

use std::ffi::{CStr, c_char};

use crate::abi::{Answer, Error};

/// Where an answer goes.
#[repr(transparent)]
#[derive(Debug)]
pub struct Out<T>(*mut T);

/// Where something is read.
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
    /// The pointer is null, or valid for writing what the call answers there.
    pub unsafe fn new(pointer: *mut T) -> Out<T> {
        Out(pointer)
    }

    /// Nobody wants the answer.
    pub fn none() -> Out<T> {
        Out(std::ptr::null_mut())
    }

    /// Whether nobody wants the answer.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The pointer as a number, for calls that hand over numbers so.
    pub fn number(self) -> usize {
        self.0.addr()
    }

    /// Writes an answer; it must be wanted.
    pub fn put(self, value: T) -> Answer {
        if self.0.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: whoever made this promised that the place is valid for the answer.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes an answer that need not be wanted.
    pub fn offer(self, value: T) {
        let _unwanted = self.put(value);
    }

    /// The place of the answer with this number, where there is room for several.
    #[must_use]
    pub fn at(self, index: usize) -> Out<T> {
        Out(if self.0.is_null() { self.0 } else { self.0.wrapping_add(index) })
    }

    /// The same place for an answer of another type.
    pub fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }

    /// The same place, to be read before it is answered.
    pub fn read(self) -> In<T> {
        In(self.0)
    }
}

impl Out<c_char> {
    /// Writes a text with its end, as much as there is room for.
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
    /// The pointer is null, or valid for reading what the call reads there.
    pub unsafe fn new(pointer: *const T) -> In<T> {
        In(pointer)
    }

    /// Nothing.
    pub fn none() -> In<T> {
        In(std::ptr::null())
    }

    /// Whether there is nothing.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The same place as another type.
    pub fn cast<U>(self) -> In<U> {
        In(self.0.cast())
    }

    /// So many values further.
    #[must_use]
    pub fn at(self, index: usize) -> In<T> {
        In(if self.0.is_null() { self.0 } else { self.0.wrapping_add(index) })
    }
}

impl<T: Copy> In<T> {
    /// The value.
    pub fn get(self) -> Answer<T> {
        if self.0.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: whoever made this promised that the place is valid for what is read.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// So many values.
    pub fn list(self, count: usize) -> Answer<Vec<T>> {
        if self.0.is_null() && count > 0 {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: whoever made this promised that so many are there.
        Ok((0..count).map(|i| unsafe { self.0.wrapping_add(i).read_unaligned() }).collect())
    }
}

impl In<c_char> {
    /// A text with its end.
    pub fn text(self) -> Answer<String> {
        if self.0.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: whoever made this promised a text with its end.
        unsafe { CStr::from_ptr(self.0) }.to_str().map(str::to_owned).map_err(|_| Error::INVALID_VALUE)
    }
}
