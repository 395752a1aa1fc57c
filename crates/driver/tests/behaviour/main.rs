//! The driver as a C program sees it: through the exported functions, each test in a process of its own.
#![allow(unsafe_code, reason = "the API is C's")]

mod faults;
mod graphs;
mod memory;
mod program;
mod results;
mod threads;
