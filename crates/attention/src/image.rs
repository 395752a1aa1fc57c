//! The compiled kernels: `data/kernels.csv` names them, `data/kernels.bin` has their machine code and PTX.
//!
//! Both files are written by `cargo xtask kernels`.

use std::io::Read;

use flate2::read::DeflateDecoder;

const INDEX: &str = include_str!("../data/kernels.csv");
const CODE: &[u8] = include_bytes!("../data/kernels.bin");

/// The most bytes that an image may have.
const MOST: u64 = 16 << 20;

/// A line of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The kernels' name; see [`crate::catalog::Kernels::name`].
    pub name: &'static str,
    /// Where the compressed machine code is in the file, and its size, which is 0 if there is none.
    pub cubin: (usize, usize),
    /// Where the compressed PTX is in the file, and its size.
    pub ptx: (usize, usize),
}

/// The header of the index.
pub const HEADER: &str = "name,cubin_offset,cubin_bytes,ptx_offset,ptx_bytes";

/// The kernels of the library. Lines that do not parse are skipped; a test compares the number.
pub fn entries() -> impl Iterator<Item = Entry> {
    INDEX.lines().skip(1).filter_map(|line| {
        let mut fields = line.split(',');
        let name = fields.next()?;
        let mut number = || fields.next()?.parse::<usize>().ok();
        Some(Entry { name, cubin: (number()?, number()?), ptx: (number()?, number()?) })
    })
}

/// The kernels with this name.
pub fn find(name: &str) -> Option<Entry> {
    entries().find(|entry| entry.name == name)
}

impl Entry {
    /// Whether it has machine code.
    pub fn is_assembled(&self) -> bool {
        self.cubin.1 > 0
    }

    /// The machine code for sm_89.
    pub fn cubin(&self) -> Option<Vec<u8>> {
        unpack(self.cubin)
    }

    /// The PTX, which ends with a zero byte.
    pub fn ptx(&self) -> Option<Vec<u8>> {
        let mut text = unpack(self.ptx)?;
        text.push(0);
        Some(text)
    }
}

fn unpack((at, bytes): (usize, usize)) -> Option<Vec<u8>> {
    let packed = CODE.get(at..at.checked_add(bytes)?)?;
    let mut image = Vec::new();
    DeflateDecoder::new(packed).take(MOST).read_to_end(&mut image).ok()?;
    Some(image)
}
