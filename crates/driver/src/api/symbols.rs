//! Every exported symbol, and those that answer not-supported.
#![allow(clippy::pedantic, clippy::as_conversions, reason = "written by build.rs")]

/// The address of a function.
#[derive(Clone, Copy, Debug)]
pub struct Symbol(pub *const ());

// SAFETY: addresses of functions, which any thread may call.
unsafe impl Sync for Symbol {}

include!(concat!(env!("OUT_DIR"), "/symbols.rs"));
