//! Reads the golden data of the tensor cores: whole matrices from a published model, and dot products captured on hardware.
//!
//! The full set is in `WARPPROOF_VECTORS`, or else next to the repository; a subset is committed and always tested.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a panic fails the test")]

use std::path::{Path, PathBuf};
use warpproof_num::mma::Accumulator;

pub(crate) fn committed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

pub(crate) fn full() -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/vectors");
    let place = std::env::var_os("WARPPROOF_VECTORS").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let found = place.join("mma-ada.jsonl").is_file();
    if !found {
        println!("no vectors in {}: only the committed subset is tested", place.display());
    }
    found.then_some(place)
}

/// One multiplication: codes of A, B, C and D by row.
pub(crate) struct Case {
    pub(crate) op: String,
    pub(crate) kind: String,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) a: Vec<u64>,
    pub(crate) b: Vec<u64>,
    pub(crate) c: Vec<u64>,
    pub(crate) d: Vec<u64>,
    /// Scales of A and B by row; empty if the multiplication has none.
    pub(crate) scales: (Vec<u64>, Vec<u64>),
}

pub(crate) fn cases_of(file: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines()
        .map(|line| {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            let codes = |key: &str| -> Vec<u64> {
                let hex = value[key].as_str().unwrap();
                hex.split(' ').map(|code| u64::from_str_radix(code, 16).unwrap()).collect()
            };
            let scales = |key: &str| if value[key].is_null() { Vec::new() } else { codes(key) };
            let op = value["op"].as_str().unwrap().to_owned();
            let shape = op.split('.').next().unwrap();
            let sizes: Vec<usize> =
                shape.split(['m', 'n', 'k']).filter_map(|size| size.parse().ok()).collect();
            Case {
                kind: value["kind"].as_str().unwrap().to_owned(),
                m: sizes[0],
                n: sizes[1],
                k: sizes[2],
                a: codes("a"),
                b: codes("b"),
                c: codes("c"),
                d: codes("d"),
                scales: (scales("scale_a"), scales("scale_b")),
                op,
            }
        })
        .collect()
}

/// One captured dot product.
pub(crate) struct Capture {
    pub(crate) row: Vec<u32>,
    pub(crate) column: Vec<u32>,
    pub(crate) c: u32,
    /// The type of the accumulator, and the f32 code of the result.
    pub(crate) results: Vec<(Accumulator, u32)>,
    /// The f32 result of `wgmma` that starts from zero instead of c.
    pub(crate) from_zero: Option<u32>,
}

pub(crate) fn captures(folder: &Path, name: &str) -> Vec<Capture> {
    let text = std::fs::read_to_string(folder.join(name).with_extension("txt")).unwrap();
    let mut lines = text.lines();
    let heads: Vec<&str> = lines.next().unwrap().trim_start_matches("# ").split(' ').collect();
    let digits = match name {
        "e4m3" | "e5m2" => 2,
        "tf32" => 8,
        _ => 4,
    };
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let codes = |text: &str| -> Vec<u32> {
                text.as_bytes()
                    .chunks(digits)
                    .map(|code| u32::from_str_radix(std::str::from_utf8(code).unwrap(), 16).unwrap())
                    .collect()
            };
            let (mut results, mut from_zero) = (Vec::new(), None);
            for (head, code) in heads[3..].iter().zip(&fields[3..]) {
                let code = u32::from_str_radix(code, 16).unwrap();
                let kind = if head.starts_with("d_f16") { Accumulator::F16 } else { Accumulator::F32 };
                if head.ends_with("_c0") {
                    from_zero = Some(code);
                } else {
                    results.push((kind, code));
                }
            }
            Capture {
                row: codes(fields[0]),
                column: codes(fields[1]),
                c: u32::from_str_radix(fields[2], 16).unwrap(),
                results,
                from_zero,
            }
        })
        .collect()
}
