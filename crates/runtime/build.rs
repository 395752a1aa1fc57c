//! Sets the library's soname to that of the CUDA driver, generates stubs for functions of the runtime without a handwritten
//! implementation, and lists the functions of each major version with the symbols that implement them.
//!
//! `data/api-12.txt` and `data/api-13.txt` list the functions. Those named in an `api!` or `plain!` of `src/api` are implemented;
//! each other one becomes a function that returns `cudaErrorNotSupported`. Where the versions differ, an implementation is named
//! `cudaName_in12` or `cudaName_in13`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo::rerun-if-changed=data");
    println!("cargo::rerun-if-changed=src/api");
    let mut done = BTreeSet::new();
    for entry in fs::read_dir("src/api").into_iter().flatten().flatten() {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        for block in text.split("api! {").flat_map(|block| block.split("plain! {")).skip(1) {
            // `fn name | name | name => (arguments) {…}`, with a comment before it.
            let Some((_, after)) = block.split_once("\n    fn ") else { continue };
            let names = after.split("=>").next().unwrap_or_default();
            done.extend(names.split('|').map(|name| name.trim().to_owned()));
        }
    }
    let mut text = String::from("// Written by build.rs from data/.\n");
    let mut missing = BTreeSet::new();
    for major in ["12", "13"] {
        let listed = fs::read_to_string(format!("data/api-{major}.txt")).unwrap_or_default();
        let _ = writeln!(
            text,
            "/// The functions of version {major}, and the symbol of each.\npub static FUNCTIONS_{major}: &[(&str, &str)] = &["
        );
        for name in listed.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let own = format!("{name}_in{major}");
            let symbol = if done.contains(&own) { own } else { name.to_owned() };
            if !done.contains(&symbol) {
                missing.insert(symbol.clone());
            }
            let _ = writeln!(text, "(\"{name}\", \"warpproof_{symbol}\"),");
        }
        text.push_str("];\n");
    }
    for name in missing {
        let _ = writeln!(
            text,
            "/// Not supported.\n#[unsafe(export_name = \"warpproof_{name}\")]\npub extern \"C\" fn {name}() -> u32 {{ crate::api::unsupported(\"{name}\") }}"
        );
    }
    let out = env::var("OUT_DIR").unwrap_or_default();
    if let Err(error) = fs::write(Path::new(&out).join("symbols.rs"), text) {
        println!("cargo::error=cannot write the list of functions: {error}");
    }
}
