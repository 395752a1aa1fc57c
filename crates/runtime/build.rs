//! Sets the library's soname to that of the CUDA driver, generates stubs for functions of the runtime without a handwritten
//! implementation, and lists the functions of each major version with the symbols that implement them.
//!
//! `data/api-12.txt` and `data/api-13.txt` list the functions. Those named in an `api!` or `plain!` of `src/api` are implemented;
//! each other one becomes a function that returns `cudaErrorNotSupported`. Where the versions differ, an implementation is named
//! `cudaName_in12` or `cudaName_in13`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo::rerun-if-changed=data");
    println!("cargo::rerun-if-changed=src/api");
    let done = warpproof_stubs::implemented(Path::new("src/api"), &["api", "plain"]);
    let mut text = String::from("// Written by build.rs from data/.\n");
    let mut missing = BTreeSet::new();
    for major in ["12", "13"] {
        let listed = fs::read_to_string(format!("data/api-{major}.txt")).unwrap_or_default();
        let _ = writeln!(
            text,
            "/// The functions of version {major}, and the symbol of each.\npub static FUNCTIONS_{major}: &[(&str, &str)] = &["
        );
        for name in warpproof_stubs::listed(&listed) {
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
        text.push_str(&warpproof_stubs::stub(&name, &format!("export_name = \"warpproof_{name}\"")));
    }
    warpproof_stubs::write(&text);
}
