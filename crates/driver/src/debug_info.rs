//! Functions and lines of a program or library: the symbol table of its ELF file and the line table of its DWARF (versions 2 to 5).
//!
//! Only what a report needs is read, so no crate for debugging formats is among the dependencies. A file that is not understood, and
//! compressed debugging sections, give no lines. Everything read is untrusted: every number is checked, and sizes are limited.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;

use warpproof_ptx::elf::{self, Elf, Section};

use crate::inlined::Entries;

/// Bytes of a section that are read at most.
const LARGEST: u64 = 256 << 20;

/// File and line.
type Line = (String, u32);

/// A loaded program or library.
#[derive(Debug)]
pub struct Image {
    /// Offset in the file, size, and address of each loaded segment.
    segments: Vec<[u64; 3]>,
    /// Start, size and name of the functions, by start.
    functions: Vec<(u64, u64, String)>,
    tables: Tables,
    entries: Entries,
    /// Lines that were looked up before.
    known: RefCell<BTreeMap<u64, Option<(String, u32)>>>,
}

/// Sections of the line table.
#[derive(Debug, Default)]
struct Tables {
    line: Vec<u8>,
    line_strings: Vec<u8>,
    strings: Vec<u8>,
}

impl Image {
    /// Reads a file.
    pub fn open(path: &str) -> Option<Image> {
        let mut file = File::open(path).ok()?;
        let elf = Elf::read(&mut file, 0).ok().filter(|elf| !elf.sections.is_empty())?;
        let segments = elf.segments(&mut file).ok()?;
        let loaded = segments.iter().filter(|segment| segment.kind == elf::LOADED);
        let segments = loaded.map(|segment| [segment.offset, segment.size, segment.address]).collect();
        let mut contents = |section: &Section| elf.contents(&mut file, section, LARGEST).unwrap_or_default();
        let mut image = Image {
            segments,
            functions: Vec::new(),
            tables: Tables::default(),
            entries: Entries::default(),
            known: RefCell::default(),
        };
        for section in &elf.sections {
            let place = match (elf.name(section).unwrap_or_default(), section.kind) {
                (b".debug_line", _) => &mut image.tables.line,
                (b".debug_line_str", _) => &mut image.tables.line_strings,
                (b".debug_str", _) => &mut image.tables.strings,
                (b".debug_info", _) => &mut image.entries.info,
                (b".debug_abbrev", _) => &mut image.entries.abbreviations,
                (b".debug_ranges", _) => &mut image.entries.ranges,
                (b".debug_rnglists", _) => &mut image.entries.lists,
                (b".debug_addr", _) => &mut image.entries.addresses,
                (_, elf::SYMBOLS | elf::DYNAMIC_SYMBOLS) => {
                    let strings = elf.linked(section).map(&mut contents).unwrap_or_default();
                    image.functions.extend(functions(&contents(section), &strings));
                    continue;
                }
                _ => continue,
            };
            *place = contents(section);
        }
        image.functions.sort();
        Some(image)
    }

    /// The address in the file's own numbering of a byte of the file.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        let holds =
            |segment: &&[u64; 3]| offset.checked_sub(segment[0]).is_some_and(|skip| skip < segment[1]);
        let [start, _, address] = self.segments.iter().find(holds)?;
        address.checked_add(offset - start)
    }

    /// The function that contains an address.
    pub fn function(&self, address: u64) -> Option<String> {
        let end = self.functions.partition_point(|(start, ..)| *start <= address);
        let (start, size, name) = self.functions.get(..end)?.last()?;
        // Functions written in assembly have no size.
        (*size == 0 || address - start < *size).then(|| name.clone())
    }

    /// File and line of an address.
    pub fn line(&self, address: u64) -> Option<(String, u32)> {
        if let Some(known) = self.known.borrow().get(&address) {
            return known.clone();
        }
        let found = self.tables.find(address);
        self.known.borrow_mut().insert(address, found.clone());
        found
    }

    /// The calls that are inlined at an address, innermost first: the function, and file and line of the call.
    pub fn inlined(&self, address: u64) -> Vec<(Option<String>, Option<Line>)> {
        let calls = self.entries.calls(address, [&self.tables.strings, &self.tables.line_strings]);
        let place = |(table, file), line| Some((self.tables.file(table, file)?, line));
        calls.into_iter().map(|call| (call.function, place(call.file, call.line))).collect()
    }
}

/// The functions of a symbol table.
fn functions(symbols: &[u8], names: &[u8]) -> Vec<(u64, u64, String)> {
    let functions = elf::symbols(symbols).filter(|symbol| symbol.kind == elf::FUNCTION && symbol.defined);
    functions
        .filter_map(|symbol| Some((symbol.address, symbol.size, string_at(names, u64::from(symbol.name))?)))
        .collect()
}

/// A string that ends with a zero.
pub(crate) fn string_at(strings: &[u8], at: u64) -> Option<String> {
    elf::string_at(strings, at).map(|text| String::from_utf8_lossy(text).into_owned())
}

/// A reader of DWARF.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    pub(crate) bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, count: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(usize::try_from(count).ok()?)?;
        self.bytes = rest;
        Some(taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    /// The length of a unit, and the size of offsets in it.
    pub(crate) fn length(&mut self) -> Option<(u64, u64)> {
        match self.number(4)? {
            0xffff_ffff => Some((8, self.number(8)?)),
            length => Some((4, length)),
        }
    }

    /// A number of up to 8 bytes.
    pub(crate) fn number(&mut self, bytes: u64) -> Option<u64> {
        Some(self.take(bytes)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    pub(crate) fn uleb(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.byte()?;
            if shift < 64 {
                value |= u64::from(byte & 127) << shift;
            }
            shift += 7;
            if byte & 128 == 0 {
                return Some(value);
            }
        }
    }

    pub(crate) fn sleb(&mut self) -> Option<i64> {
        let (mut value, mut shift) = (0i64, 0);
        loop {
            let byte = self.byte()?;
            if shift < 64 {
                value |= i64::from(byte & 127) << shift;
            }
            shift += 7;
            if byte & 128 == 0 {
                return Some(if byte & 64 != 0 && shift < 64 { value | -1 << shift } else { value });
            }
        }
    }

    pub(crate) fn string(&mut self) -> Option<String> {
        let end = self.bytes.iter().position(|byte| *byte == 0)?;
        let text = self.take(u64::try_from(end).ok()?)?;
        self.byte()?;
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

/// The header of a unit's line program.
#[derive(Debug)]
struct Unit {
    offset_size: u64,
    version: u64,
    least_instruction: u64,
    line_base: i64,
    line_range: u64,
    opcode_base: u8,
    lengths: Vec<u8>,
    folders: Vec<String>,
    /// Name and folder.
    files: Vec<(String, u64)>,
}

impl Tables {
    /// File and line of an address.
    fn find(&self, address: u64) -> Option<(String, u32)> {
        let mut all = Reader { bytes: &self.line };
        while !all.bytes.is_empty() {
            let (offset_size, length) = all.length()?;
            let unit = Reader { bytes: all.take(length)? };
            // A unit that is not understood does not hide the others.
            if let Some(found) = self.find_in(unit, offset_size, address) {
                return Some(found);
            }
        }
        None
    }

    fn find_in(&self, mut reader: Reader<'_>, offset_size: u64, address: u64) -> Option<(String, u32)> {
        let unit = self.unit(&mut reader, offset_size)?;
        let (file, line) = rows(&unit, reader, address)?;
        Some((unit.path(file)?, line))
    }

    /// A file of the line table at an offset, by its number.
    fn file(&self, offset: u64, number: u64) -> Option<String> {
        let mut reader = Reader { bytes: self.line.get(usize::try_from(offset).ok()?..)? };
        let (offset_size, length) = reader.length()?;
        let mut reader = Reader { bytes: reader.take(length)? };
        self.unit(&mut reader, offset_size)?.path(number)
    }

    /// The header of a line table; the reader is then at its program.
    fn unit(&self, reader: &mut Reader<'_>, offset_size: u64) -> Option<Unit> {
        let version = reader.number(2)?;
        if !(2..=5).contains(&version) {
            return None;
        }
        if version == 5 {
            reader.take(2)?;
        }
        let length = reader.number(offset_size)?;
        let mut header = Reader { bytes: reader.take(length)? };
        self.header(&mut header, version, offset_size)
    }

    fn header(&self, header: &mut Reader<'_>, version: u64, offset_size: u64) -> Option<Unit> {
        let least_instruction = header.number(1)?;
        if version >= 4 {
            header.byte()?;
        }
        header.byte()?;
        let line_base = i64::from(header.byte()?.cast_signed());
        let line_range = header.number(1)?;
        let opcode_base = header.byte()?;
        let lengths = header.take(u64::from(opcode_base.saturating_sub(1)))?.to_vec();
        let (mut folders, mut files) = (Vec::new(), Vec::new());
        let mut unit = Unit {
            offset_size,
            version,
            least_instruction,
            line_base,
            line_range,
            opcode_base,
            lengths,
            folders: Vec::new(),
            files: Vec::new(),
        };
        if version == 5 {
            folders.extend(self.entries(header, &unit)?.into_iter().map(|(name, _)| name));
            files = self.entries(header, &unit)?;
        } else {
            loop {
                let folder = header.string()?;
                if folder.is_empty() {
                    break;
                }
                folders.push(folder);
            }
            loop {
                let name = header.string()?;
                if name.is_empty() {
                    break;
                }
                let folder = header.uleb()?;
                // Time and size of the file.
                header.uleb()?;
                header.uleb()?;
                files.push((name, folder));
            }
        }
        (unit.folders, unit.files) = (folders, files);
        (line_range > 0).then_some(unit)
    }

    /// Folders or files of version 5: a description of the fields, then the entries.
    fn entries(&self, header: &mut Reader<'_>, unit: &Unit) -> Option<Vec<(String, u64)>> {
        let mut fields = Vec::new();
        for _ in 0..header.byte()? {
            fields.push((header.uleb()?, header.uleb()?));
        }
        let count = header.uleb()?;
        let mut entries = Vec::new();
        for _ in 0..count {
            let (mut name, mut folder) = (String::new(), 0);
            let before = header.bytes.len();
            for (content, form) in &fields {
                let mut text = None;
                let mut value = 0;
                match form {
                    0x08 => text = header.string(),
                    0x1f => text = string_at(&self.line_strings, header.number(unit.offset_size)?),
                    0x0e => text = string_at(&self.strings, header.number(unit.offset_size)?),
                    0x0f => value = header.uleb()?,
                    0x0b => value = header.number(1)?,
                    0x05 => value = header.number(2)?,
                    0x06 => value = header.number(4)?,
                    0x07 => value = header.number(8)?,
                    0x1e => drop(header.take(16)?),
                    0x09 => {
                        let length = header.uleb()?;
                        header.take(length)?;
                    }
                    _ => return None,
                }
                match content {
                    1 => name = text?,
                    2 => folder = value,
                    _ => {}
                }
            }
            if header.bytes.len() == before {
                // Entries without bytes: the count means nothing.
                return None;
            }
            entries.push((name, folder));
        }
        Some(entries)
    }
}

impl Unit {
    /// The path of a file by its number.
    fn path(&self, number: u64) -> Option<String> {
        let (name, folder) = self.file(number)?;
        Some(join(self.folders.first().filter(|_| self.version == 5), folder, name))
    }

    /// Name and folder of a file by its number.
    fn file(&self, number: u64) -> Option<(&str, Option<&str>)> {
        // Before version 5, files count from 1, and folder 0 is the directory of the compilation.
        let first = u64::from(self.version < 5);
        let at = |number: u64| usize::try_from(number.checked_sub(first)?).ok();
        let (name, folder) = self.files.get(at(number)?)?;
        Some((name, at(*folder).and_then(|folder| self.folders.get(folder)).map(String::as_str)))
    }
}

fn join(compilation: Option<&String>, folder: Option<&str>, name: &str) -> String {
    if name.starts_with('/') {
        return name.to_owned();
    }
    let folder = folder.unwrap_or_default();
    let folder = match compilation {
        Some(base) if !folder.starts_with('/') && folder != base => format!("{base}/{folder}"),
        _ => folder.to_owned(),
    };
    let folder = folder.trim_end_matches('/');
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

#[derive(Clone, Copy, Debug)]
struct Row {
    address: u64,
    file: u64,
    line: i64,
}

/// Runs a line program up to the row that contains an address; file number and line.
fn rows(unit: &Unit, mut program: Reader<'_>, wanted: u64) -> Option<(u64, u32)> {
    let start = Row { address: 0, file: 1, line: 1 };
    let (mut row, mut before) = (start, None::<Row>);
    let range = unit.line_range;
    let found = |row: Row, before: &mut Option<Row>| {
        let hit = before.filter(|before| before.address <= wanted && wanted < row.address);
        *before = Some(row);
        hit.map(|hit| (hit.file, u32::try_from(hit.line).unwrap_or(0)))
    };
    while !program.bytes.is_empty() {
        let opcode = program.byte()?;
        let advance = |row: &mut Row, operations: u64| {
            row.address = row.address.wrapping_add(operations.wrapping_mul(unit.least_instruction));
        };
        if opcode >= unit.opcode_base {
            let adjusted = u64::from(opcode - unit.opcode_base);
            advance(&mut row, adjusted / range);
            row.line = row.line.wrapping_add(unit.line_base).wrapping_add_unsigned(adjusted % range);
            if let Some(hit) = found(row, &mut before) {
                return Some(hit);
            }
            continue;
        }
        match opcode {
            0 => {
                let length = program.uleb()?;
                let mut extended = Reader { bytes: program.take(length)? };
                match extended.byte()? {
                    1 => {
                        if let Some(hit) = found(row, &mut before) {
                            return Some(hit);
                        }
                        (row, before) = (start, None);
                    }
                    2 => row.address = extended.number(length - 1)?,
                    _ => {}
                }
            }
            1 => {
                if let Some(hit) = found(row, &mut before) {
                    return Some(hit);
                }
            }
            2 => advance(&mut row, program.uleb()?),
            3 => row.line = row.line.wrapping_add(program.sleb()?),
            4 => row.file = program.uleb()?,
            5 => drop(program.uleb()?),
            8 => advance(&mut row, u64::from(255 - unit.opcode_base) / range),
            9 => row.address = row.address.wrapping_add(program.number(2)?),
            other => {
                let count = unit.lengths.get(usize::from(other) - 1).copied().unwrap_or(0);
                for _ in 0..count {
                    program.uleb()?;
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line table of version 4 with one file and two lines.
    fn version_4() -> Vec<u8> {
        let mut header = vec![1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1];
        header.extend(b"src\0\0a.c\0\x01\0\0\0");
        let mut program = vec![0, 9, 2];
        program.extend(0x1000u64.to_le_bytes());
        // Line 10 at 0x1000; line 12 eight bytes later; the end eight bytes later.
        program.extend([3, 9, 1, 2, 8, 3, 2, 1, 2, 8, 0, 1, 1]);
        let mut unit = 4u16.to_le_bytes().to_vec();
        unit.extend(u32::try_from(header.len()).unwrap().to_le_bytes());
        unit.extend(header);
        unit.extend(program);
        let mut all = u32::try_from(unit.len()).unwrap().to_le_bytes().to_vec();
        all.extend(unit);
        all
    }

    #[test]
    fn a_line_is_found_by_its_address() {
        let tables = Tables { line: version_4(), ..Tables::default() };
        assert_eq!(tables.find(0x1000), Some(("src/a.c".to_owned(), 10)));
        assert_eq!(tables.find(0x1007), Some(("src/a.c".to_owned(), 10)));
        assert_eq!(tables.find(0x100f), Some(("src/a.c".to_owned(), 12)));
        assert_eq!((tables.find(0xfff), tables.find(0x1010)), (None, None));
    }

    #[test]
    fn damaged_tables_give_no_line_and_no_panic() {
        let whole = version_4();
        for length in 0..whole.len() {
            let tables = Tables { line: whole[..length].to_vec(), ..Tables::default() };
            assert_eq!(tables.find(0x1000), None);
        }
        for at in 0..whole.len() {
            for byte in [0, 1, 5, 127, 255] {
                let mut line = whole.clone();
                line[at] = byte;
                let _ = Tables { line, ..Tables::default() }.find(0x1007);
            }
        }
    }

    /// The C library, whose dynamic symbols are never stripped: this program's own may be.
    #[test]
    fn a_library_has_functions() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let library = maps.split_whitespace().find(|word| word.ends_with("/libc.so.6")).unwrap();
        let image = Image::open(library).unwrap();
        let (start, _, name) = image.functions.iter().find(|(_, size, _)| *size > 8).unwrap();
        assert_eq!(image.function(*start).as_ref(), Some(name));
        assert!(image.functions.iter().any(|(.., name)| name == "malloc"));
        assert!(Image::open("/dev/null").is_none());
    }
}
