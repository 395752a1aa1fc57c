//! Code images passed by the program: PTX text, a fat binary, or machine code.
//!
//! The software GPU executes PTX, so this module finds the PTX that an image carries for a device. A fat binary is a header and
//! entries, each with its own header, a kind, an architecture and a payload that may be compressed (LZ4 by older compilers, zstd by
//! newer ones). Machine code is an ELF file; it contains PTX only in a debug section. The layouts were determined from the output
//! of `fatbinary` and `ptxas` of CUDA 13.2.
//!
//! The bytes are untrusted: a field that points outside of the image is an error, and the unpacked size of an entry is limited
//! before unpacking.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io::{Cursor, Read};

use warpproof_ptx::elf::{self, Elf, ElfError, u16_at, u32_at, u64_at};

/// The first word of a fat binary.
const FATBIN: u32 = 0xBA55_ED50;
/// The first word of an ELF file.
const ELF: u32 = u32::from_le_bytes(elf::MAGIC);

/// The size of a fat binary's header, and the minimum size of an entry's header.
const FATBIN_HEADER: usize = 16;
const ENTRY_HEADER: usize = 64;

/// Bits of an entry's flags.
const LZ4: u64 = 1 << 13;
const ZSTD: u64 = 1 << 15;
const ARCHITECTURE_ONLY: u64 = 1 << 20;
const FAMILY_ONLY: u64 = 1 << 21;

/// Largest unpacked text of an entry. The largest modules of today's libraries have a few tens of megabytes.
const MAX_TEXT: usize = 1 << 29;
const MAX_DEBUG_TEXT: u64 = 1 << 29;
/// Maximum compression ratio of an LZ4 block.
const LZ4_RATIO: usize = 255;

/// The ELF section in which ptxas stores the source PTX for debuggers.
const DEBUG_PTX: &[u8] = b".nv_debug_ptx_txt";

/// Content of a fat binary's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// PTX text.
    Ptx,
    /// Machine code.
    MachineCode,
    /// Something else, by its number: intermediate code for linking, an index.
    Other(u16),
}

/// Which devices can run the code; the suffix of the architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// `sm_90`: this and every later architecture.
    Onward,
    /// `sm_100f`: this and later architectures of its family, which is the number without its last digit.
    Family,
    /// `sm_90a`: only this architecture.
    Exact,
}

/// Compression of an entry's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Uncompressed.
    Plain,
    /// An LZ4 block.
    Lz4,
    /// A zstd frame.
    Zstd,
}

/// An entry of a fat binary.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Its content.
    pub kind: Kind,
    /// The number of its architecture, such as 89.
    pub sm: u32,
    /// The letter of its architecture.
    pub reach: Reach,
    /// Its compression.
    pub packing: Packing,
    /// The stored bytes.
    payload: &'a [u8],
    /// Uncompressed size of a compressed payload.
    unpacked: usize,
}

/// Why an image has no PTX for a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageError {
    /// The bytes are not PTX text, a fat binary or an ELF file.
    Unknown,
    /// The image is truncated, or a field has an invalid value.
    Damaged(&'static str),
    /// There is machine code but no PTX.
    MachineCodeOnly,
    /// There is PTX, but only for other devices.
    OtherDevices {
        /// The architectures of the PTX.
        found: Vec<String>,
        /// The architecture of the device.
        sm: u32,
    },
    /// The unpacked size of an entry exceeds the limit.
    TooLarge(usize),
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("the image is neither PTX text, nor a fat binary, nor an ELF file"),
            Self::Damaged(what) => write!(f, "the image is damaged: {what}"),
            Self::MachineCodeOnly => f.write_str(
                "the image contains machine code but no PTX, and only PTX can run here; build with PTX: nvcc \
                 -gencode arch=compute_89,code=[sm_89,compute_89], or -ptx, or nvrtcGetPTX instead of nvrtcGetCUBIN",
            ),
            Self::OtherDevices { found, sm } => {
                write!(f, "the image has PTX only for {}, but the device is sm_{sm}", found.join(", "))
            }
            Self::TooLarge(size) => write!(f, "an entry of the image is too large: {size} bytes unpacked"),
        }
    }
}

impl Error for ImageError {}

/// The PTX text that an image holds for a device of this architecture, such as 89.
///
/// Among several entries, it chooses the highest architecture that the device can run, and among those the most specific one, as
/// the CUDA driver does.
pub fn ptx_of(image: &[u8], sm: u32) -> Result<String, ImageError> {
    match u32_at(image, 0) {
        Some(FATBIN) => ptx_of_fatbin(image, sm),
        Some(ELF) => debug_ptx(image)?.ok_or(ImageError::MachineCodeOnly),
        _ => text(image).filter(|text| looks_like_ptx(text)).map(Cow::into_owned).ok_or(ImageError::Unknown),
    }
}

/// The size of an image in bytes, determined from its first bytes; 64 bytes are enough for binary formats. PTX text ends at its
/// NUL, if that is among the given bytes. `None` if the size is unknown.
pub fn length_of(beginning: &[u8]) -> Option<usize> {
    match u32_at(beginning, 0) {
        Some(FATBIN) => usize::from(u16_at(beginning, 6)?).checked_add(size(beginning, 8)?),
        // ptxas writes one of the tables of headers last.
        Some(ELF) => usize::try_from(elf::Header::parse(beginning).ok()?.end()?).ok(),
        _ => beginning.iter().position(|&byte| byte == 0),
    }
}

/// The entries of a fat binary.
pub fn entries(image: &[u8]) -> Result<Vec<Entry<'_>>, ImageError> {
    if u32_at(image, 0) != Some(FATBIN) {
        return Err(ImageError::Unknown);
    }
    let cut = || ImageError::Damaged("the fat binary is shorter than its header states");
    let end = length_of(image).ok_or_else(cut)?;
    let start = usize::from(u16_at(image, 6).ok_or_else(cut)?);
    if start < FATBIN_HEADER {
        return Err(ImageError::Damaged("the fat binary's header is too small"));
    }
    let mut rest = image.get(start..end).ok_or_else(cut)?;
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (entry, after) = entry(rest)?;
        found.push(entry);
        rest = after;
    }
    Ok(found)
}

impl Entry<'_> {
    /// Whether a device of this architecture can run it.
    fn runs_on(&self, sm: u32) -> bool {
        match self.reach {
            Reach::Onward => self.sm <= sm,
            Reach::Family => self.sm <= sm && self.sm / 10 == sm / 10,
            Reach::Exact => self.sm == sm,
        }
    }

    /// The name of its architecture.
    fn architecture(&self) -> String {
        let letter = match self.reach {
            Reach::Onward => "",
            Reach::Family => "f",
            Reach::Exact => "a",
        };
        format!("sm_{}{letter}", self.sm)
    }

    /// The payload, unpacked.
    fn unpack(&self) -> Result<Cow<'_, [u8]>, ImageError> {
        if self.packing != Packing::Plain && self.unpacked > MAX_TEXT {
            return Err(ImageError::TooLarge(self.unpacked));
        }
        let wrong = ImageError::Damaged("a packed entry does not unpack");
        match self.packing {
            Packing::Plain => Ok(Cow::Borrowed(self.payload)),
            Packing::Lz4 => {
                // The size determines how much is allocated, so it is compared with the maximum that the block can unpack to.
                if self.unpacked > self.payload.len().saturating_mul(LZ4_RATIO) {
                    return Err(wrong);
                }
                let unpacked = lz4_flex::block::decompress(self.payload, self.unpacked);
                unpacked.map(Cow::Owned).map_err(|_| wrong)
            }
            Packing::Zstd => {
                let Ok(frame) = ruzstd::decoding::StreamingDecoder::new(self.payload) else {
                    return Err(wrong);
                };
                let mut unpacked = Vec::new();
                // Reading one byte more than announced detects a frame that is larger.
                let limit = u64::try_from(self.unpacked).map_or(u64::MAX, |size| size.saturating_add(1));
                match frame.take(limit).read_to_end(&mut unpacked) {
                    Ok(read) if read == self.unpacked => Ok(Cow::Owned(unpacked)),
                    _ => Err(wrong),
                }
            }
        }
    }
}

/// The first entry of these bytes, and the remaining bytes.
fn entry(bytes: &[u8]) -> Result<(Entry<'_>, &[u8]), ImageError> {
    let cut = || ImageError::Damaged("an entry points outside of the fat binary");
    let kind = match u16_at(bytes, 0).ok_or_else(cut)? {
        1 => Kind::Ptx,
        2 => Kind::MachineCode,
        other => Kind::Other(other),
    };
    let header = u32_at(bytes, 4).and_then(|size| usize::try_from(size).ok()).ok_or_else(cut)?;
    if header < ENTRY_HEADER {
        return Err(ImageError::Damaged("an entry's header is too small"));
    }
    let end = size(bytes, 8).and_then(|payload| header.checked_add(payload)).ok_or_else(cut)?;
    let stored = bytes.get(header..end).ok_or_else(cut)?;
    let packed = u32_at(bytes, 16).and_then(|size| usize::try_from(size).ok()).ok_or_else(cut)?;
    let sm = u32_at(bytes, 28).ok_or_else(cut)?;
    let flags = u64_at(bytes, 40).ok_or_else(cut)?;
    let unpacked = size(bytes, 56).ok_or_else(cut)?;

    let packing = match flags {
        flags if flags & ZSTD != 0 => Packing::Zstd,
        flags if flags & LZ4 != 0 => Packing::Lz4,
        _ => Packing::Plain,
    };
    let reach = match flags {
        flags if flags & ARCHITECTURE_ONLY != 0 => Reach::Exact,
        flags if flags & FAMILY_ONLY != 0 => Reach::Family,
        _ => Reach::Onward,
    };
    // Stored payloads are padded: plain text ends at its NUL, compressed payloads have an explicit size.
    let payload = match packing {
        Packing::Plain => stored,
        Packing::Lz4 | Packing::Zstd => stored.get(..packed).ok_or_else(cut)?,
    };
    let after = bytes.get(end..).unwrap_or_default();
    Ok((Entry { kind, sm, reach, packing, payload, unpacked }, after))
}

/// The PTX of a fat binary that fits a device best.
fn ptx_of_fatbin(image: &[u8], sm: u32) -> Result<String, ImageError> {
    let entries = entries(image)?;
    let texts = || entries.iter().filter(|entry| entry.kind == Kind::Ptx);
    // The first one among equals.
    let best = texts().rev().filter(|entry| entry.runs_on(sm)).max_by_key(|entry| (entry.sm, entry.reach));
    if let Some(best) = best {
        let bytes = best.unpack()?;
        let text = text(&bytes).ok_or(ImageError::Damaged("the PTX of an entry is not valid text"))?;
        return Ok(text.into_owned());
    }
    if texts().next().is_some() {
        let found = texts().map(Entry::architecture).collect();
        return Err(ImageError::OtherDevices { found, sm });
    }
    // Machine code built for debugging contains its PTX.
    for entry in entries.iter().filter(|entry| entry.kind == Kind::MachineCode && entry.runs_on(sm)) {
        if let Some(text) = debug_ptx(&entry.unpack()?)? {
            return Ok(text);
        }
    }
    Err(ImageError::MachineCodeOnly)
}

/// The debug PTX of machine code, if any. Its lines end in NUL.
fn debug_ptx(code: &[u8]) -> Result<Option<String>, ImageError> {
    let damaged = |error: ElfError| ImageError::Damaged(error.text());
    let outside = || damaged(ElfError::Outside);
    let mut reader = Cursor::new(code);
    let elf = Elf::read(&mut reader, 0).map_err(damaged)?;
    for section in &elf.sections {
        if elf.name(section).ok_or_else(outside)? != DEBUG_PTX {
            continue;
        }
        let mut text = elf.contents(&mut reader, section, MAX_DEBUG_TEXT).ok_or_else(outside)?;
        for byte in text.iter_mut().filter(|byte| **byte == 0) {
            *byte = b'\n';
        }
        let text = String::from_utf8(text).map_err(|_| ImageError::Damaged("its PTX is not valid UTF-8"))?;
        return Ok(looks_like_ptx(&text).then_some(text));
    }
    Ok(None)
}

/// Bytes as text, up to the first NUL. Invalid UTF-8 can occur only in comments and is replaced.
fn text(bytes: &[u8]) -> Option<Cow<'_, str>> {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    bytes.get(..end).map(String::from_utf8_lossy)
}

/// Whether a text can be PTX: every module has a `.version` directive.
fn looks_like_ptx(text: &str) -> bool {
    text.contains(".version")
}

/// Eight bytes at an offset, as a size.
fn size(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64_at(bytes, at)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Machine code for sm_89, and PTX for sm_75, sm_89, sm_90a and sm_100f that stores the architecture's number; created by
    /// `fatbinary` of CUDA 13.2 with `--compress-mode` none, speed (LZ4) and default (zstd).
    const PLAIN: &[u8] = include_bytes!("../tests/data/plain.fatbin");
    const LZ4: &[u8] = include_bytes!("../tests/data/lz4.fatbin");
    const ZSTD: &[u8] = include_bytes!("../tests/data/zstd.fatbin");
    /// The machine code of the fat binaries above, and the same code built with `-g`.
    const CUBIN: &[u8] = include_bytes!("../tests/data/store.cubin");
    const DEBUG_CUBIN: &[u8] = include_bytes!("../tests/data/store-debug.cubin");

    const FATBINS: [(&[u8], Packing); 3] =
        [(PLAIN, Packing::Plain), (LZ4, Packing::Lz4), (ZSTD, Packing::Zstd)];

    #[test]
    fn entries_say_what_they_are() {
        for (image, packing) in FATBINS {
            let entries = entries(image).expect("a fat binary");
            let found: Vec<_> = entries.iter().map(|entry| (entry.kind, entry.sm, entry.reach)).collect();
            let expected = [
                (Kind::MachineCode, 89, Reach::Onward),
                (Kind::Ptx, 75, Reach::Onward),
                (Kind::Ptx, 89, Reach::Onward),
                (Kind::Ptx, 90, Reach::Exact),
                (Kind::Ptx, 100, Reach::Family),
            ];
            assert_eq!(found, expected);
            assert!(entries.iter().skip(1).all(|entry| entry.packing == packing), "{entries:?}");
        }
    }

    #[test]
    fn the_best_text_for_a_device_is_given() {
        for (image, _) in FATBINS {
            for (sm, target, value) in [
                (75, "sm_75", 75),
                (86, "sm_75", 75),
                (89, "sm_89", 89),
                (90, "sm_90a", 90),
                (91, "sm_89", 89),
                (100, "sm_100f", 100),
                (103, "sm_100f", 100),
                (120, "sm_89", 89),
            ] {
                let text = ptx_of(image, sm).expect("PTX");
                assert!(text.contains(&format!(".target {target}\n")), "sm_{sm}: {text}");
                assert!(text.contains(&format!("mov.u32 %r1, {value};")), "sm_{sm}: {text}");
                assert!(text.ends_with("}\n"), "{text:?}");
            }
        }
    }

    #[test]
    fn an_older_device_is_told_what_there_is() {
        let error = ptx_of(ZSTD, 70).expect_err("nothing for sm_70");
        assert_eq!(
            error.to_string(),
            "the image has PTX only for sm_75, sm_89, sm_90a, sm_100f, but the device is sm_70"
        );
    }

    #[test]
    fn machine_code_gives_its_ptx_where_it_has_any() {
        let text = ptx_of(DEBUG_CUBIN, 89).expect("PTX for debuggers");
        assert!(text.starts_with(".version") && text.contains("mov.u32 %r1, 89;\nst.global.u32"), "{text}");
        let error = ptx_of(CUBIN, 89).expect_err("no PTX");
        assert_eq!(error, ImageError::MachineCodeOnly);
        assert!(error.to_string().starts_with("the image contains machine code but no PTX"), "{error}");
    }

    #[test]
    fn text_ends_at_its_nul() {
        assert_eq!(
            ptx_of(b".version 8.0\n.target sm_80\0rest", 89).as_deref(),
            Ok(".version 8.0\n.target sm_80")
        );
        assert_eq!(ptx_of(b"// \xFF\n.version 8.0", 89).as_deref(), Ok("// \u{FFFD}\n.version 8.0"));
        assert_eq!(ptx_of(b"hello", 89), Err(ImageError::Unknown));
        assert_eq!(ptx_of(b"", 89), Err(ImageError::Unknown));
    }

    #[test]
    fn the_beginning_tells_the_length() {
        for image in [PLAIN, LZ4, ZSTD, CUBIN, DEBUG_CUBIN] {
            assert_eq!(length_of(&image[..64]), Some(image.len()));
        }
        assert_eq!(length_of(b".version\0"), Some(8));
        assert_eq!(length_of(b".version"), None);
        assert_eq!(length_of(&PLAIN[..10]), None);
    }

    #[test]
    fn every_cut_is_an_error_and_no_byte_makes_a_panic() {
        for image in [PLAIN, LZ4, ZSTD, CUBIN, DEBUG_CUBIN] {
            for length in 0..image.len() {
                let cut = &image[..length];
                if u32_at(image, 0) == Some(FATBIN) {
                    assert!(ptx_of(cut, 89).is_err(), "{length}");
                }
                let _ = (ptx_of(cut, 89), length_of(cut));
            }
            let mut changed = image.to_vec();
            for at in 0..changed.len() {
                let before = changed[at];
                for value in [0, 0x7F, 0xFF, before ^ 1, before ^ 0x80] {
                    changed[at] = value;
                    let _ = (ptx_of(&changed, 89), length_of(&changed));
                }
                changed[at] = before;
            }
        }
    }

    #[test]
    fn an_announced_size_is_not_believed() {
        for (image, offset) in [(LZ4, 16 + 64 + 2984), (ZSTD, 16 + 64 + 2984)] {
            // The unpacked size of the PTX for sm_75.
            let mut changed = image.to_vec();
            changed[offset + 56..offset + 64].copy_from_slice(&(1_u64 << 28).to_le_bytes());
            assert!(matches!(ptx_of(&changed, 75), Err(ImageError::Damaged(_))));
            changed[offset + 56..offset + 64].copy_from_slice(&(1_u64 << 40).to_le_bytes());
            assert_eq!(ptx_of(&changed, 75), Err(ImageError::TooLarge(1 << 40)));
            changed[offset + 56..offset + 64].copy_from_slice(&100_u64.to_le_bytes());
            assert!(matches!(ptx_of(&changed, 75), Err(ImageError::Damaged(_))));
        }
    }
}
