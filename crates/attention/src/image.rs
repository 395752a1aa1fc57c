//! The compiled kernels: `data/kernels.csv` names them, `data/kernels.bin` has their machine code and PTX.
//!
//! Both files are written by `cargo xtask kernels`. Modules that follow each other are alike, so several are compressed together,
//! as one frame of zstd.

use std::io::Read;

use ruzstd::decoding::StreamingDecoder;

const INDEX: &str = include_str!("../data/kernels.csv");
const CODE: &[u8] = include_bytes!("../data/kernels.bin");

/// The most bytes that a frame may have.
const MOST: u64 = 64 << 20;

/// A line of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The kernels' name; see [`crate::catalog::Kernels::name`].
    pub name: &'static str,
    /// The machine code.
    pub cubin: Place,
    /// The PTX.
    pub ptx: Place,
}

/// Where an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where its frame is in the file, and the bytes of the frame.
    pub frame: (usize, usize),
    /// Where the image is in the contents of the frame, and its bytes.
    pub image: (usize, usize),
}

/// The header of the index.
pub const HEADER: &str =
    "name,cubin_frame,cubin_frame_bytes,cubin_at,cubin_bytes,ptx_frame,ptx_frame_bytes,ptx_at,ptx_bytes";

/// The kernels of the library. Lines that do not parse are skipped; a test compares the number.
pub fn entries() -> impl Iterator<Item = Entry> {
    INDEX.lines().skip(1).filter_map(|line| {
        let mut fields = line.split(',');
        let name = fields.next()?;
        let mut number = || fields.next()?.parse::<usize>().ok();
        let mut place = || Some(Place { frame: (number()?, number()?), image: (number()?, number()?) });
        Some(Entry { name, cubin: place()?, ptx: place()? })
    })
}

/// The kernels with this name.
pub fn find(name: &str) -> Option<Entry> {
    entries().find(|entry| entry.name == name)
}

impl Entry {
    /// The machine code for sm_89.
    pub fn cubin(&self) -> Option<Vec<u8>> {
        self.cubin.unpack()
    }

    /// The PTX, which ends with a zero byte.
    pub fn ptx(&self) -> Option<Vec<u8>> {
        let mut text = self.ptx.unpack()?;
        text.push(0);
        Some(text)
    }
}

impl Place {
    fn unpack(self) -> Option<Vec<u8>> {
        let part = |all: &'static [u8], (at, bytes): (usize, usize)| all.get(at..at.checked_add(bytes)?);
        let frame = StreamingDecoder::new(part(CODE, self.frame)?).ok()?;
        let (at, bytes) = self.image;
        let end = u64::try_from(at.checked_add(bytes)?).ok().filter(|end| *end <= MOST)?;
        let mut contents = Vec::new();
        // What follows the image in its frame is not unpacked.
        frame.take(end).read_to_end(&mut contents).ok()?;
        contents.get(at..).filter(|image| image.len() == bytes).map(<[u8]>::to_vec)
    }
}
