//! `cargo xtask kernels`: compiles the kernels of the attention library to machine code and PTX.
//!
//! The files are compared exactly: the compiler's version is pinned, and its output is deterministic. PTX gets the lowest version
//! that has its instructions, so that older drivers can compile it; the machine code is made from the same text.

use std::fs;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use warpproof_attention::catalog::{self, Kernels};
use warpproof_attention::image;
use warpproof_kernels::source;
use warpproof_model::Device;
use warpproof_toolchain::{CompileOptions, Options, Source, Toolchain};

use crate::{cores, root};

const INDEX: &str = "crates/attention/data/kernels.csv";
const CODE: &str = "crates/attention/data/kernels.bin";

/// The lowest version of PTX with matrix products of 8-bit floats for sm_89.
const PTX_VERSION: &str = ".version 8.4";
const ARCH: &str = "sm_89";

/// Compressed machine code and PTX.
type Images = (Vec<u8>, Vec<u8>);

/// Compares the files with what the compiler gives, or writes them.
pub(crate) fn run(bless: bool) -> Result<(), String> {
    let toolchain = Toolchain::find(&Options::from_env().with_cuda(12)).map_err(|error| error.to_string())?;
    let device = Device::named("l4").ok_or("the L4 is not in the device table")?;
    let all = catalog::kernels(device).map_err(|error| error.to_string())?;
    let images = compile(&all, &toolchain)?;
    let (index, code) = files(&all, &images);
    println!("kernels: {} kernels, {} KB", all.len(), code.len() / 1024);
    for (file, bytes) in [(INDEX, index.as_bytes()), (CODE, &code)] {
        let path = root().join(file);
        if bless {
            fs::write(&path, bytes).map_err(|error| format!("cannot write {file}: {error}"))?;
        } else if fs::read(&path).map_err(|error| format!("cannot read {file}: {error}"))? != bytes {
            return Err(format!(
                "{file} is not what the compiler gives; run `cargo xtask kernels --bless` to write it"
            ));
        }
    }
    Ok(())
}

/// The images of each module, in their order.
fn compile(all: &[Kernels], toolchain: &Toolchain) -> Result<Vec<Images>, String> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(kernels) = all.get(number) else { return Ok(done) };
            let images = one(kernels, toolchain).map_err(|error| format!("{}: {error}", kernels.name()))?;
            done.push((number, images));
        }
    };
    let mut made = thread::scope(|scope| {
        let threads: Vec<_> = (0..cores()).map(|_| scope.spawn(work)).collect();
        let mut made = Vec::new();
        for thread in threads {
            let done: Result<Vec<(usize, Images)>, String> =
                thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned()));
            made.extend(done?);
        }
        Ok::<_, String>(made)
    })?;
    made.sort_by_key(|(number, _)| *number);
    Ok(made.into_iter().map(|(_, images)| images).collect())
}

fn one(kernels: &Kernels, toolchain: &Toolchain) -> Result<Images, String> {
    let text = source::expanded(kernels.source).ok_or("there is no such source")?;
    let options = CompileOptions { line_info: false, ..source::options(&kernels.defines, ARCH) };
    let source = Source::new(kernels.source, text);
    let ptx = lowered(&toolchain.compile(&source, &options).map_err(|error| error.to_string())?.ptx)?;
    // Also if only the PTX is kept: a driver must be able to compile it.
    let cubin = toolchain.ptxas(&ptx, ARCH, &[]).map_err(|error| error.to_string())?.cubin;
    let cubin = if kernels.assembled() { pack(&cubin)? } else { Vec::new() };
    Ok((cubin, pack(ptx.as_bytes())?))
}

/// The text with the lowest version, and without comments and empty lines.
fn lowered(ptx: &str) -> Result<String, String> {
    let mut text = String::with_capacity(ptx.len());
    let mut versions = 0;
    for line in ptx.lines().filter(|line| !line.is_empty() && !line.starts_with("//")) {
        if line.starts_with(".version ") {
            versions += 1;
            text.push_str(PTX_VERSION);
        } else {
            text.push_str(line);
        }
        text.push('\n');
    }
    if versions == 1 {
        Ok(text)
    } else {
        Err(format!("expected one `.version` in the PTX, found {versions}"))
    }
}

fn pack(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut packed = DeflateEncoder::new(Vec::new(), Compression::best());
    packed.write_all(bytes).and_then(|()| packed.finish()).map_err(|error| error.to_string())
}

/// The index, and the file that it refers to.
fn files(all: &[Kernels], images: &[Images]) -> (String, Vec<u8>) {
    let mut index = format!("{}\n", image::HEADER);
    let mut code = Vec::new();
    for (kernels, (cubin, ptx)) in all.iter().zip(images) {
        index.push_str(&kernels.name());
        for image in [cubin, ptx] {
            index.push_str(&format!(",{},{}", code.len(), image.len()));
            code.extend_from_slice(image);
        }
        index.push('\n');
    }
    (index, code)
}
