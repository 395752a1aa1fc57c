//! The lists of `crates/sim/tests/vectors/forms.txt`, assembled by ptxas for their architectures.

use std::fs;
use std::path::Path;

use warpproof_toolchain::{AssembleError, Options, Toolchain, WITHOUT_TOOLCHAIN};

/// As in `crates/sim/tests/device/forms.rs`.
const HEAD: &str = ".version 9.2\n.target sm_90a\n.address_size 64
.extern .shared .align 128 .b8 sm[];\n.global .align 128 .b8 gm[4096];\n.const .align 128 .b8 cm[256];
.visible .entry k(.param .align 128 .b8 par[256]) {\n.local .align 128 .b8 lm[256];
.reg .pred p<8>; .reg .b16 h<64>; .reg .b32 r<300>; .reg .b64 d<64>; .reg .f32 f<300>; .reg .f64 e<64>; .reg .b128 q<8>;
.reg .b8 c<8>;\n";

fn lists() -> Vec<(String, Vec<String>)> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/tests/vectors/forms.txt");
    let mut lists: Vec<(String, Vec<String>)> = Vec::new();
    for line in fs::read_to_string(file).unwrap().lines() {
        match line.strip_prefix("# ") {
            Some(title) => lists.push((title.to_owned(), Vec::new())),
            None => lists.last_mut().unwrap().1.push(line.to_owned()),
        }
    }
    lists.retain(|(_, lines)| !lines.is_empty());
    lists
}

/// Whether ptxas assembles these instructions; its messages otherwise.
fn assembled(toolchain: &Toolchain, target: &str, lines: &[String]) -> Result<(), String> {
    let text = format!("{}{}\nret;\n}}\n", HEAD.replace("sm_90a", target), lines.join("\n"));
    match toolchain.ptxas(&text, target, &[]) {
        Ok(_) => Ok(()),
        Err(AssembleError::Rejected { log, .. }) => Err(log),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn toolchain_ptxas_accepts_the_forms_and_no_others() {
    let newest = Toolchain::find(&Options::from_env().with_cuda(13));
    let toolchain = newest.unwrap_or_else(|error| panic!("{error}\n{WITHOUT_TOOLCHAIN}"));
    let lists = lists();
    assert_eq!(lists.len(), 7);
    for (title, lines) in &lists {
        let target = title.split_once(": ").map(|(target, _)| target).filter(|name| name.starts_with("sm_"));
        let target = target.unwrap_or("sm_90a");
        if title.starts_with("refused") {
            // Each of the lines has an error; ptxas reports all of a module.
            for part in lines.chunks(100) {
                let log = assembled(&toolchain, target, part).unwrap_err();
                let head = HEAD.lines().count();
                for (i, line) in part.iter().enumerate() {
                    assert!(log.contains(&format!("line {};", head + 1 + i)), "ptxas accepts {line}\n{log}");
                }
            }
            continue;
        }
        // A kernel has only one `.cta_group`; ptxas's time grows with the square of a kernel's length.
        let (pairs, others): (Vec<String>, Vec<String>) =
            lines.iter().cloned().partition(|line| line.contains("cta_group::2"));
        for part in pairs.chunks(20).chain(others.chunks(20)) {
            if let Err(log) = assembled(&toolchain, target, part) {
                panic!("{title}: {log}\n{}", part.join("\n"));
            }
        }
    }
}
