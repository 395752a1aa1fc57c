//! Generates stubs for API functions without a handwritten implementation.
//!
//! `data/api.txt` lists every symbol of the driver API. Symbols named in an `api!` of `src/api` are implemented; each other symbol
//! becomes a function that returns `CUDA_ERROR_NOT_SUPPORTED`. Both sets together form the table of `cuGetProcAddress`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=data/api.txt");
    println!("cargo::rerun-if-changed=src/api");
    let listed = fs::read_to_string("data/api.txt").unwrap_or_default();
    let listed: BTreeSet<&str> =
        listed.lines().map(str::trim).filter(|line| line.starts_with("cu")).collect();
    let mut done = BTreeSet::new();
    for entry in fs::read_dir("src/api").into_iter().flatten().flatten() {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        for block in text.split("api! {").skip(1) {
            // `fn name | name | name => (arguments) {…}`, with a comment before it.
            let Some((_, after)) = block.split_once("\n    fn ") else { continue };
            let names = after.split("=>").next().unwrap_or_default();
            done.extend(names.split('|').map(|name| name.trim().to_owned()));
        }
    }
    let mut text = String::from("// Written by build.rs from data/api.txt.\n");
    for name in listed.iter().filter(|name| !done.contains(**name)) {
        let _ = writeln!(
            text,
            "/// Not supported.\n#[unsafe(no_mangle)]\npub extern \"C\" fn {name}() -> u32 {{ crate::api::unsupported(\"{name}\") }}"
        );
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
    let out = env::var("OUT_DIR").unwrap_or_default();
    if let Err(error) = fs::write(Path::new(&out).join("symbols.rs"), text) {
        println!("cargo::error=cannot write the symbol table: {error}");
    }
}
