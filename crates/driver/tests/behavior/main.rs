//! The driver from the view of a C program: tests call the exported functions, each test in its own process.
#![allow(unsafe_code, reason = "it calls a C API")]
#![allow(
    clippy::float_cmp,
    clippy::unwrap_used,
    clippy::as_conversions,
    clippy::cast_precision_loss,
    clippy::fn_to_numeric_cast_any,
    clippy::macro_metavars_in_unsafe,
    reason = "numbers are exact here; a test fails by panicking; addresses of functions are compared"
)]

mod arrays;
mod cooperative;
mod devices;
mod exit;
mod faults;
mod graphs;
mod link;
mod mapping;
mod memory;
mod nodes;
mod program;
mod results;
mod threads;
