//! Generates stubs for API functions without a handwritten implementation.
//!
//! `data/api.txt` lists every symbol of the driver API. Symbols named in an `api!` of `src/api` are implemented; each other symbol
//! becomes a function that returns `CUDA_ERROR_NOT_SUPPORTED`. Both sets together form the table of `cuGetProcAddress`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=data/api.txt");
    println!("cargo::rerun-if-changed=src/api");
    let listed = fs::read_to_string("data/api.txt").unwrap_or_default();
    let listed: BTreeSet<&str> = warpproof_stubs::listed(&listed).collect();
    let done = warpproof_stubs::implemented(Path::new("src/api"), &["api"]);
    let mut text = String::from("// Written by build.rs from data/api.txt.\n");
    for name in listed.iter().filter(|name| !done.contains(**name)) {
        text.push_str(&warpproof_stubs::stub(name, "no_mangle"));
    }
    let _ = writeln!(
        text,
        "/// Every exported function and its address.\npub static SYMBOLS: &[(&str, Symbol)] = &["
    );
    let all: BTreeSet<&str> = done.iter().map(String::as_str).chain(listed.iter().copied()).collect();
    for name in all {
        let path = if done.contains(name) { format!("crate::api::{name}") } else { name.to_owned() };
        let _ = writeln!(text, "(\"{name}\", Symbol({path} as *const ())),");
    }
    text.push_str("];\n");
    warpproof_stubs::write(&text);
}
