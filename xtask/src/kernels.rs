//! `cargo xtask kernels`: compiles the kernels of the attention library to machine code and PTX.
//!
//! The files are compared exactly: the compiler's version is pinned, and its output is deterministic. PTX gets the lowest version
//! that has its instructions, so that older drivers can compile it; the machine code is made from the same text.

use std::fmt::Write as _;
use std::fs;

use warpproof_attention::catalog::{self, Kernels};
use warpproof_attention::image::{self, Place};
use warpproof_kernels::source;
use warpproof_model::Device;
use warpproof_toolchain::{CompileOptions, Options, Source, Toolchain};

use crate::part::Part;
use crate::{cores, root};

const INDEX: &str = "crates/attention/data/kernels.csv";
const CODE: &str = "crates/attention/data/kernels.bin";

/// The lowest version of PTX with matrix products of 8-bit floats for sm_89.
const PTX_VERSION: &str = ".version 8.4";
const ARCH: &str = "sm_89";

/// The frames of zstd have about as many bytes before they are compressed: more compress better, and take longer to unpack.
const FRAME: usize = 3 << 20;
/// The best level that is not named "ultra".
const LEVEL: i32 = 19;

/// Machine code and PTX.
type Images = (Vec<u8>, Vec<u8>);

/// Compares the files with what the compiler gives, or writes them.
pub(crate) fn run(bless: bool) -> Result<String, String> {
    let toolchain = Toolchain::find(&Options::from_env().with_cuda(12)).map_err(|error| error.to_string())?;
    let device = Device::named("l4").ok_or("the L4 is not in the device table")?;
    let all = catalog::kernels(device).map_err(|error| error.to_string())?;
    let images = compile(&all, &toolchain)?;
    let (index, code) = files(&all, &images)?;
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
    Ok(format!("{} kernels", all.len()))
}

/// The images of each module, in their order.
fn compile(all: &[Kernels], toolchain: &Toolchain) -> Result<Vec<Images>, String> {
    let results = Part::whole().each(cores(), all, |kernels| {
        one(kernels, toolchain).map_err(|error| format!("{}: {error}", kernels.name()))
    });
    Ok(results.all()?.into_results().collect())
}

fn one(kernels: &Kernels, toolchain: &Toolchain) -> Result<Images, String> {
    let text = source::expanded(kernels.source).ok_or("there is no such source")?;
    let options = CompileOptions { line_info: false, ..source::options(&kernels.defines, ARCH) };
    let source = Source::new(kernels.source, text);
    let ptx = lowered(&toolchain.compile(&source, &options).map_err(|error| error.to_string())?.ptx)?;
    let cubin = toolchain.ptxas(&ptx, ARCH, &[]).map_err(|error| error.to_string())?.cubin;
    Ok((cubin, ptx.into_bytes()))
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

/// The index, and the file that it refers to.
fn files(all: &[Kernels], images: &[Images]) -> Result<(String, Vec<u8>), String> {
    let mut code = Vec::new();
    let cubins = pack(images.iter().map(|(cubin, _)| cubin), &mut code)?;
    let ptx = pack(images.iter().map(|(_, ptx)| ptx), &mut code)?;
    let mut index = format!("{}\n", image::HEADER);
    for ((kernels, cubin), ptx) in all.iter().zip(cubins).zip(ptx) {
        index.push_str(&kernels.name());
        for Place { frame, image } in [cubin, ptx] {
            let _infallible = write!(index, ",{},{},{},{}", frame.0, frame.1, image.0, image.1);
        }
        index.push('\n');
    }
    Ok((index, code))
}

/// Appends images in frames, and returns the place of each.
fn pack<'a>(images: impl Iterator<Item = &'a Vec<u8>>, code: &mut Vec<u8>) -> Result<Vec<Place>, String> {
    let mut places: Vec<Place> = Vec::new();
    let (mut contents, mut first) = (Vec::new(), 0);
    let mut end_frame = |contents: &mut Vec<u8>, places: &mut [Place]| {
        let frame = zstd::bulk::compress(contents, LEVEL).map_err(|error| error.to_string())?;
        for place in places {
            place.frame = (code.len(), frame.len());
        }
        code.extend_from_slice(&frame);
        contents.clear();
        Ok::<_, String>(())
    };
    for image in images {
        if !contents.is_empty() && contents.len() + image.len() > FRAME {
            end_frame(&mut contents, &mut places[first..])?;
            first = places.len();
        }
        places.push(Place { frame: (0, 0), image: (contents.len(), image.len()) });
        contents.extend_from_slice(image);
    }
    end_frame(&mut contents, &mut places[first..])?;
    Ok(places)
}
