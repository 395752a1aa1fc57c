//! Reads the ELF files that contain PTX or its kernels: cubins, programs and libraries.
//!
//! Headers, sections, segments, symbols and strings of 64-bit little-endian files, wherever the file is: in memory, on disk, or
//! inside of a fat binary. Everything is untrusted: a field that points outside of the file is an error, tables have a limit, and
//! memory is used for what the file has, not for what a field claims.

use std::error::Error;
use std::fmt;
use std::io::{Read, Seek, SeekFrom};

/// The first bytes of every ELF file.
pub const MAGIC: [u8; 4] = *b"\x7fELF";
/// The size of the header of the file.
pub const HEADER: usize = 64;

/// Kinds of a section: symbols, dynamic linking, no bytes in the file, symbols of dynamic linking.
pub const SYMBOLS: u32 = 2;
/// See [`SYMBOLS`].
pub const DYNAMIC: u32 = 6;
/// See [`SYMBOLS`].
pub const NO_BITS: u32 = 8;
/// See [`SYMBOLS`].
pub const DYNAMIC_SYMBOLS: u32 = 11;
/// The kind of a segment that is loaded.
pub const LOADED: u32 = 1;
/// The kind of a symbol that is a function.
pub const FUNCTION: u8 = 2;

/// Sizes of the headers of a section and of a segment, and of a symbol.
const SECTION: u16 = 64;
const SEGMENT: u16 = 56;
/// The size of a symbol in its table.
pub const SYMBOL: usize = 24;

/// The flag of a section whose bytes are compressed.
const COMPRESSED: u64 = 1 << 11;
/// The number of the section with the names if the header has no room for it.
const ELSEWHERE: u16 = 0xffff;
/// The largest table of headers: 100,000 sections.
const LARGEST_TABLE: u64 = 100_000 * 64;
/// Bytes of the names of sections that are read; the largest cubins of libraries have a few megabytes.
const LARGEST_NAMES: u64 = 1 << 24;

/// Why an ELF file cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElfError {
    /// The bytes are not an ELF file, or it has another class or byte order.
    Unknown,
    /// The file ends inside of its header.
    Cut,
    /// A table points outside of the file.
    Outside,
    /// The entries of a table are too small.
    SmallEntries,
    /// A table has too many entries.
    TooMany,
}

impl ElfError {
    /// The error as a clause.
    pub fn text(self) -> &'static str {
        match self {
            Self::Unknown => "the ELF file is not 64-bit little-endian",
            Self::Cut => "the ELF file ends inside of its header",
            Self::Outside => "a section points outside of the ELF file",
            Self::SmallEntries => "the ELF file's section headers are too small",
            Self::TooMany => "the ELF file has too many sections",
        }
    }
}

impl fmt::Display for ElfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl Error for ElfError {}

/// A table of headers, as the header of the file describes it.
#[derive(Clone, Copy, Debug)]
struct Table {
    at: u64,
    stride: u16,
    count: u64,
}

/// The header of a file.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    segments: Table,
    sections: Table,
    names: u16,
}

/// A section.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Where its name is among the names of sections.
    name: u32,
    /// Its kind, such as [`SYMBOLS`].
    pub kind: u32,
    flags: u64,
    /// Its offset in the file.
    pub offset: u64,
    /// Its size.
    pub size: u64,
    /// The number of a section that belongs to it: that of a table's strings.
    pub link: u32,
}

/// A segment.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Its kind, such as [`LOADED`].
    pub kind: u32,
    /// Its offset in the file.
    pub offset: u64,
    /// Its address.
    pub address: u64,
    /// Its size in the file.
    pub size: u64,
}

/// A symbol.
#[derive(Clone, Copy, Debug)]
pub struct Symbol {
    /// Where its name is among the strings of its table.
    pub name: u32,
    /// Its kind, such as [`FUNCTION`].
    pub kind: u8,
    /// Whether the file defines it.
    pub defined: bool,
    /// Its address.
    pub address: u64,
    /// Its size.
    pub size: u64,
}

/// The sections of a file and what else its header describes.
#[derive(Clone, Debug)]
pub struct Elf {
    base: u64,
    header: Header,
    /// The sections.
    pub sections: Vec<Section>,
    /// The names of the sections, if they are inside of the file.
    pub names: Option<Vec<u8>>,
}

impl Header {
    /// Reads it from the first bytes of a file.
    pub fn parse(bytes: &[u8]) -> Result<Self, ElfError> {
        // 64-bit, little-endian.
        if !bytes.starts_with(&MAGIC) || bytes.get(4..6) != Some(&[2, 1]) {
            return Err(ElfError::Unknown);
        }
        let table = |at, stride, count| {
            let count = u64::from(u16_at(bytes, count)?);
            Some(Table { at: u64_at(bytes, at)?, stride: u16_at(bytes, stride)?, count })
        };
        let header = || {
            Some(Self {
                segments: table(32, 54, 56)?,
                sections: table(40, 58, 60)?,
                names: u16_at(bytes, 62)?,
            })
        };
        header().ok_or(ElfError::Cut)
    }

    /// Where the last table ends: the size of a file whose tables come last, as in cubins.
    pub fn end(&self) -> Option<u64> {
        let end = |table: Table| table.at.checked_add(table.count * u64::from(table.stride));
        let header = u64::try_from(HEADER).ok()?;
        Some(end(self.segments)?.max(end(self.sections)?).max(header))
    }
}

impl Table {
    /// The bytes of each entry, of which `least` are needed.
    fn entries<R: Read + Seek>(
        self,
        reader: &mut R,
        base: u64,
        least: u16,
    ) -> Result<Vec<Vec<u8>>, ElfError> {
        if self.count == 0 {
            return Ok(Vec::new());
        }
        if self.stride < least {
            return Err(ElfError::SmallEntries);
        }
        let size = self.count.checked_mul(u64::from(self.stride)).filter(|size| *size <= LARGEST_TABLE);
        let size = size.ok_or(ElfError::TooMany)?;
        let all =
            base.checked_add(self.at).and_then(|at| bytes_at(reader, at, size)).ok_or(ElfError::Outside)?;
        Ok(all.chunks_exact(usize::from(self.stride)).map(<[u8]>::to_vec).collect())
    }
}

impl Elf {
    /// Reads the file that begins at `base`; its own offsets are relative to it.
    pub fn read<R: Read + Seek>(reader: &mut R, base: u64) -> Result<Self, ElfError> {
        let bytes = u64::try_from(HEADER).ok().and_then(|size| bytes_at(reader, base, size));
        let header = Header::parse(&bytes.ok_or(ElfError::Cut)?)?;
        let mut table = header.sections;
        if table.at == 0 {
            return Ok(Self { base, header, sections: Vec::new(), names: None });
        }
        if table.count == 0 {
            // A file with many sections has their number in the first.
            let first = Table { count: 1, ..table }.entries(reader, base, SECTION)?;
            table.count = first.first().and_then(|first| u64_at(first, 32)).ok_or(ElfError::Outside)?;
        }
        let sections = table.entries(reader, base, SECTION)?;
        let sections: Option<Vec<_>> = sections.iter().map(|bytes| Section::parse(bytes)).collect();
        let sections = sections.ok_or(ElfError::Outside)?;
        let names = match header.names {
            ELSEWHERE => sections.first().and_then(|first| usize::try_from(first.link).ok()),
            index => Some(usize::from(index)),
        };
        let names = names.and_then(|index| sections.get(index)).and_then(|section| {
            bytes_at(reader, base.checked_add(section.offset)?, section.size.min(LARGEST_NAMES))
        });
        Ok(Self { base, header, sections, names })
    }

    /// The segments.
    pub fn segments<R: Read + Seek>(&self, reader: &mut R) -> Result<Vec<Segment>, ElfError> {
        let segments = self.header.segments.entries(reader, self.base, SEGMENT)?;
        segments.iter().map(|bytes| Segment::parse(bytes).ok_or(ElfError::Outside)).collect()
    }

    /// The name of a section.
    pub fn name(&self, section: &Section) -> Option<&[u8]> {
        string_at(self.names.as_deref()?, u64::from(section.name))
    }

    /// The first section of a kind, and the one with its strings.
    pub fn with_strings(&self, kind: u32) -> Option<(Section, Section)> {
        let section = self.sections.iter().find(|section| section.kind == kind)?;
        Some((*section, *self.linked(section)?))
    }

    /// The section that belongs to another.
    pub fn linked(&self, section: &Section) -> Option<&Section> {
        self.sections.get(usize::try_from(section.link).ok()?)
    }

    /// The bytes of a section; `None` if it is compressed, has no bytes in the file, or has more than `most`.
    pub fn contents<R: Read + Seek>(&self, reader: &mut R, section: &Section, most: u64) -> Option<Vec<u8>> {
        if section.flags & COMPRESSED != 0 || section.kind == NO_BITS || section.size > most {
            return None;
        }
        bytes_at(reader, self.base.checked_add(section.offset)?, section.size)
    }
}

impl Section {
    fn parse(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            name: u32_at(bytes, 0)?,
            kind: u32_at(bytes, 4)?,
            flags: u64_at(bytes, 8)?,
            offset: u64_at(bytes, 24)?,
            size: u64_at(bytes, 32)?,
            link: u32_at(bytes, 40)?,
        })
    }
}

impl Segment {
    fn parse(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            kind: u32_at(bytes, 0)?,
            offset: u64_at(bytes, 8)?,
            address: u64_at(bytes, 16)?,
            size: u64_at(bytes, 32)?,
        })
    }
}

impl Symbol {
    fn parse(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            name: u32_at(bytes, 0)?,
            kind: bytes.get(4)? & 15,
            defined: u16_at(bytes, 6)? != 0,
            address: u64_at(bytes, 8)?,
            size: u64_at(bytes, 16)?,
        })
    }
}

/// The symbols of a table's bytes.
pub fn symbols(table: &[u8]) -> impl Iterator<Item = Symbol> {
    table.chunks_exact(SYMBOL).filter_map(Symbol::parse)
}

/// Bytes at an offset; `None` if the end comes first.
pub fn bytes_at<R: Read + Seek>(reader: &mut R, at: u64, length: u64) -> Option<Vec<u8>> {
    /// Memory for more is used only as it is read.
    const AT_ONCE: u64 = 1 << 16;
    reader.seek(SeekFrom::Start(at)).ok()?;
    let mut bytes = Vec::with_capacity(usize::try_from(length.min(AT_ONCE)).ok()?);
    reader.by_ref().take(length).read_to_end(&mut bytes).ok()?;
    (u64::try_from(bytes.len()).ok()? == length).then_some(bytes)
}

/// A string of a table, which ends with a zero.
pub fn string_at(strings: &[u8], at: u64) -> Option<&[u8]> {
    let rest = strings.get(usize::try_from(at).ok()?..)?;
    rest.get(..memchr::memchr(0, rest)?)
}

/// Two bytes at an offset.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Four bytes at an offset.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Eight bytes at an offset.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    const FLAGS: usize = 8;
    const LINK: usize = 40;

    /// A file with one segment and the sections `.symtab` and `.strtab`; the latter has the names of sections too.
    fn file() -> Vec<u8> {
        let strings = b"\0.symtab\0.strtab\0main\0";
        let mut symbols = vec![0; 2 * SYMBOL];
        symbols[SYMBOL..SYMBOL + 4].copy_from_slice(&17_u32.to_le_bytes());
        symbols[SYMBOL + 4] = 0x10 | FUNCTION;
        symbols[SYMBOL + 6] = 1;
        symbols[SYMBOL + 8..SYMBOL + 16].copy_from_slice(&0x1000_u64.to_le_bytes());
        symbols[SYMBOL + 16..].copy_from_slice(&32_u64.to_le_bytes());

        let mut file = vec![0; HEADER];
        let put = |file: &mut Vec<u8>, at: usize, value: usize, size: usize| {
            file[at..at + size].copy_from_slice(&u64::try_from(value).unwrap().to_le_bytes()[..size]);
        };
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        put(&mut file, 32, HEADER, 8);
        put(&mut file, 54, usize::from(SEGMENT), 2);
        put(&mut file, 56, 1, 2);
        let segment = file.len();
        file.resize(segment + usize::from(SEGMENT), 0);
        for (at, value, size) in [(0, 1, 4), (8, 0x200, 8), (16, 0x1200, 8), (32, 0x80, 8)] {
            put(&mut file, segment + at, value, size);
        }
        let contents = [(1, SYMBOLS, symbols), (9, 3, strings.to_vec())];
        let mut headers = vec![0; usize::from(SECTION)];
        for (name, kind, bytes) in &contents {
            let start = headers.len();
            headers.resize(start + usize::from(SECTION), 0);
            put(&mut headers, start, *name, 4);
            put(&mut headers, start + 4, usize::try_from(*kind).unwrap(), 4);
            put(&mut headers, start + 24, file.len(), 8);
            put(&mut headers, start + 32, bytes.len(), 8);
            put(&mut headers, start + LINK, if *kind == SYMBOLS { 2 } else { 0 }, 4);
            file.extend(bytes);
        }
        let table = file.len();
        put(&mut file, 40, table, 8);
        put(&mut file, 58, usize::from(SECTION), 2);
        put(&mut file, 60, 3, 2);
        put(&mut file, 62, 2, 2);
        file.extend(headers);
        file
    }

    /// Where the header of a section is.
    fn section_at(file: &[u8], index: usize) -> usize {
        usize::try_from(u64_at(file, 40).unwrap()).unwrap() + index * usize::from(SECTION)
    }

    fn read(file: &[u8]) -> Result<Elf, ElfError> {
        Elf::read(&mut Cursor::new(file), 0)
    }

    /// Reads all that a file has.
    fn read_all(file: &[u8], base: u64) -> Result<Vec<(Vec<u8>, Symbol)>, ElfError> {
        let mut reader = Cursor::new(file);
        let elf = Elf::read(&mut reader, base)?;
        let _ = elf.segments(&mut reader);
        let mut found = Vec::new();
        for section in &elf.sections {
            let contents = elf.contents(&mut reader, section, 4096).unwrap_or_default();
            if elf.name(section) == Some(b".symtab") {
                let strings =
                    elf.linked(section).and_then(|strings| elf.contents(&mut reader, strings, 4096));
                let strings = strings.unwrap_or_default();
                let name = |symbol: Symbol| string_at(&strings, u64::from(symbol.name)).map(<[u8]>::to_vec);
                found.extend(symbols(&contents).filter_map(|symbol| Some((name(symbol)?, symbol))));
            }
        }
        Ok(found)
    }

    #[test]
    fn sections_segments_and_symbols_are_read_at_any_place() {
        for base in [0, 24] {
            let mut whole = vec![0xff; base];
            whole.extend(file());
            let base = u64::try_from(base).unwrap();
            let found = read_all(&whole, base).unwrap();
            let (name, symbol) = &found[1];
            assert_eq!((found.len(), name.as_slice()), (2, &b"main"[..]));
            assert_eq!((symbol.kind, symbol.defined), (FUNCTION, true));
            assert_eq!((symbol.address, symbol.size), (0x1000, 32));
            let mut reader = Cursor::new(&whole);
            let elf = Elf::read(&mut reader, base).unwrap();
            let segments = elf.segments(&mut reader).unwrap();
            let [segment] = segments.as_slice() else { panic!("{segments:?}") };
            assert_eq!(
                (segment.kind, segment.offset, segment.address, segment.size),
                (LOADED, 0x200, 0x1200, 0x80)
            );
            assert!(elf.with_strings(SYMBOLS).is_some() && elf.with_strings(DYNAMIC).is_none());
        }
        let file = file();
        let end = Header::parse(&file).unwrap().end().unwrap();
        assert_eq!(usize::try_from(end).unwrap(), file.len());
    }

    /// The number of sections and that of their names are in the first section if they do not fit the header.
    #[test]
    fn a_file_with_many_sections_is_read() {
        let mut many = file();
        let first = section_at(&many, 0);
        many[60..64].copy_from_slice(&[0, 0, 0xff, 0xff]);
        many[first + 32] = 3;
        many[first + LINK] = 2;
        assert_eq!(read(&many).unwrap().sections.len(), 3);
        assert_eq!(read_all(&many, 0).unwrap().len(), 2);
        // More than any file has.
        many[first + 36] = 1;
        assert_eq!(read(&many).unwrap_err(), ElfError::TooMany);
    }

    #[test]
    fn what_is_not_in_the_file_is_not_read() {
        let good = file();
        let contents = |file: &[u8], most| {
            let elf = read(file).unwrap();
            elf.contents(&mut Cursor::new(file), &elf.sections[1], most).map(|bytes| bytes.len())
        };
        assert_eq!((contents(&good, 48), contents(&good, 47)), (Some(48), None));
        let header = section_at(&good, 1);
        // Compressed, without bytes, larger than the file.
        for (at, value) in [(FLAGS + 1, 8), (4, 8), (24 + 7, 0x7f), (32 + 7, 0x7f)] {
            let mut changed = good.clone();
            changed[header + at] = value;
            assert_eq!(contents(&changed, u64::MAX), None, "{at}");
        }
    }

    #[test]
    fn another_class_another_order_and_small_headers_are_refused() {
        for at in [0, 3, 4, 5] {
            let mut changed = file();
            changed[at] ^= 3;
            assert_eq!(read(&changed).unwrap_err(), ElfError::Unknown);
        }
        let mut changed = file();
        changed[58] = 63;
        assert_eq!(read(&changed).unwrap_err(), ElfError::SmallEntries);
        let mut changed = file();
        changed[40..48].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(read(&changed).unwrap_err(), ElfError::Outside);
        assert_eq!(Header::parse(&changed).unwrap().end(), None);
        // A file without sections is valid.
        changed[40..48].fill(0);
        assert!(read(&changed).unwrap().sections.is_empty());
    }

    #[test]
    fn no_cut_and_no_byte_makes_a_panic() {
        let good = file();
        for length in 0..good.len() {
            assert!(read_all(&good[..length], 0).is_err(), "{length}");
        }
        for at in 0..good.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = good.clone();
                changed[at] = value;
                let _ = (read_all(&changed, 0), read_all(&changed, u64::MAX));
            }
        }
    }
}
