//! The driver as a C program sees it: through the exported functions, each test in a process of its own.
#![allow(unsafe_code, reason = "the API is C's")]
#![allow(
    clippy::float_cmp,
    clippy::unwrap_used,
    clippy::as_conversions,
    clippy::cast_precision_loss,
    clippy::fn_to_numeric_cast_any,
    clippy::macro_metavars_in_unsafe,
    reason = "numbers are exact here; a test fails by panicking; addresses of functions are compared"
)]

mod faults;
mod graphs;
mod memory;
mod program;
mod results;
mod threads;
