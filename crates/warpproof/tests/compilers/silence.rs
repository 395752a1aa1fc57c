//! Counts the correct kernels for which the checks report nothing: every launch of this suite
//! (`Case::check` requires it) and every kernel of `tests/pass` (the UI suite requires it).

use std::fs;
use std::path::Path;

use crate::nvrtc;
use crate::triton;

/// Kernels below a directory: `.cu` files, and `.ptx` files that were written by hand.
fn kernels(directory: &Path) -> usize {
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    paths
        .map(|path| match path.extension().and_then(|extension| extension.to_str()) {
            _ if path.is_dir() => kernels(&path),
            Some("cu") => 1,
            Some("ptx") if !path.with_extension("cu").exists() => 1,
            _ => 0,
        })
        .sum()
}

#[test]
fn at_least_150_correct_kernels_are_silent() {
    let pass = kernels(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/pass"));
    let (cuda, triton) = (nvrtc::launches(), triton::modules().len());
    eprintln!(
        "silent: {} correct kernels; {pass} of the pass suite, {cuda} launches of corpus/cuda for sm_89 and {triton} \
         Triton modules for sm_89 and sm_90",
        pass + cuda + triton
    );
    assert!(pass + cuda + triton >= 150 && triton >= 40);
}
