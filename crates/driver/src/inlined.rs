//! Calls that the compiler inlined, from the entries of DWARF (versions 2 to 5): where the code at an address comes from.
//!
//! Without them a site in optimized code can be a line of CUDA's headers, whose functions are inlined into the program's. As in
//! `debug_info`, everything read is untrusted: every number is checked, and what is not understood gives no calls.

use std::collections::BTreeMap;

use crate::debug_info::{Reader, string_at};

/// Entries of a list of ranges that are read at most.
const MOST_RANGES: usize = 4096;
/// References from entry to entry that are followed for a name.
const HOPS: usize = 4;

/// Sections that describe functions.
#[derive(Debug, Default)]
pub struct Entries {
    /// `.debug_info`
    pub info: Vec<u8>,
    /// `.debug_abbrev`
    pub abbreviations: Vec<u8>,
    /// `.debug_ranges`, before version 5.
    pub ranges: Vec<u8>,
    /// `.debug_rnglists`
    pub lists: Vec<u8>,
    /// `.debug_addr`
    pub addresses: Vec<u8>,
}

/// An inlined call that contains an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The function that is inlined, as the linker would name it.
    pub function: Option<String>,
    /// The offset of the unit's line table, and the number of the calling file in it.
    pub file: (u64, u64),
    /// The calling line.
    pub line: u32,
}

/// `DW_TAG_…`
const INLINED_SUBROUTINE: u64 = 0x1d;
/// `DW_AT_…`
const NAME: u64 = 0x03;
const LINE_TABLE: u64 = 0x10;
const LOW: u64 = 0x11;
const HIGH: u64 = 0x12;
const ORIGIN: u64 = 0x31;
const SPECIFICATION: u64 = 0x47;
const RANGES: u64 = 0x55;
const CALL_FILE: u64 = 0x58;
const CALL_LINE: u64 = 0x59;
const LINKAGE_NAME: u64 = 0x6e;
const ADDRESS_BASE: u64 = 0x73;
const LIST_BASE: u64 = 0x74;

/// The value of an attribute.
#[derive(Clone, Copy, Debug)]
enum Value<'a> {
    Address(u64),
    /// An index of the table of addresses.
    AddressIndex(u64),
    Number(u64),
    /// An index of the table of lists.
    ListIndex(u64),
    /// An offset from the start of the unit.
    Entry(u64),
    Text(&'a [u8]),
    /// An offset in `.debug_str` or `.debug_line_str`.
    TextAt(usize, u64),
    Other,
}

/// The shape of entries: a tag, and attributes with their forms and constants.
#[derive(Debug, Default)]
struct Shape {
    tag: u64,
    attributes: Vec<(u64, u64, u64)>,
}

/// An entry.
#[derive(Debug)]
struct Entry<'a> {
    tag: u64,
    values: Vec<(u64, Value<'a>)>,
}

impl Entry<'_> {
    fn get(&self, wanted: u64) -> Option<Value<'_>> {
        self.values.iter().find(|(attribute, _)| *attribute == wanted).map(|(_, value)| *value)
    }

    fn number(&self, attribute: u64) -> Option<u64> {
        match self.get(attribute)? {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    fn text(&self, attribute: u64, strings: [&[u8]; 2]) -> Option<String> {
        match self.get(attribute)? {
            Value::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
            Value::TextAt(section, at) => string_at(strings.get(section)?, at),
            _ => None,
        }
    }
}

/// A unit of `.debug_info`.
#[derive(Debug)]
struct Unit<'a> {
    /// The bytes from its first length on, to which references are relative.
    whole: &'a [u8],
    version: u64,
    offset_size: u64,
    address_size: u64,
    shapes: BTreeMap<u64, Shape>,
    base: u64,
    address_base: u64,
    list_base: u64,
    line_table: u64,
}

impl Entries {
    /// The inlined calls that contain an address, innermost first. `strings` are `.debug_str` and `.debug_line_str`.
    pub fn calls(&self, address: u64, strings: [&[u8]; 2]) -> Vec<Call> {
        let mut all = Reader { bytes: &self.info };
        while !all.bytes.is_empty() {
            let before = all.bytes;
            let Some((offset_size, length)) = all.length() else { break };
            let Some(unit) = all.take(length) else { break };
            let head = before.len() - all.bytes.len() - unit.len();
            let Some(whole) = before.get(..head + unit.len()) else { break };
            // A unit that is not understood does not hide the others.
            if let Some(calls) = self.in_unit(whole, head, offset_size, address, strings)
                && !calls.is_empty()
            {
                return calls;
            }
        }
        Vec::new()
    }

    fn in_unit(
        &self,
        whole: &[u8],
        head: usize,
        offset_size: u64,
        address: u64,
        strings: [&[u8]; 2],
    ) -> Option<Vec<Call>> {
        let mut reader = Reader { bytes: whole.get(head..)? };
        let version = reader.number(2)?;
        let (table, address_size) = match version {
            2..=4 => (reader.number(offset_size)?, reader.number(1)?),
            // `DW_UT_compile`, `DW_UT_partial`
            5 if matches!(reader.byte()?, 1 | 3) => {
                let address_size = reader.number(1)?;
                (reader.number(offset_size)?, address_size)
            }
            _ => return None,
        };
        if !matches!(address_size, 4 | 8) {
            return None;
        }
        let shapes = shapes(self.abbreviations.get(usize::try_from(table).ok()?..)?)?;
        let mut unit = Unit {
            whole,
            version,
            offset_size,
            address_size,
            shapes,
            base: 0,
            address_base: 0,
            list_base: 0,
            line_table: 0,
        };
        let root = unit.entry(&mut reader, |_| true)?;
        unit.address_base = root.number(ADDRESS_BASE).unwrap_or(0);
        unit.list_base = root.number(LIST_BASE).unwrap_or(0);
        unit.line_table = root.number(LINE_TABLE)?;
        unit.base = root.get(LOW).and_then(|low| self.address(&unit, low)).unwrap_or(0);
        if self.contains(&unit, &root, address) == Some(false) {
            return None;
        }
        let mut calls = Vec::new();
        while !reader.bytes.is_empty() {
            let entry = unit.entry(&mut reader, |tag| tag == INLINED_SUBROUTINE)?;
            if entry.tag != INLINED_SUBROUTINE || self.contains(&unit, &entry, address) != Some(true) {
                continue;
            }
            let file = (unit.line_table, entry.number(CALL_FILE).unwrap_or(0));
            let line = u32::try_from(entry.number(CALL_LINE).unwrap_or(0)).unwrap_or(0);
            calls.push(Call { function: unit.name(&entry, strings), file, line });
        }
        // An entry comes before those inside of it.
        calls.reverse();
        Some(calls)
    }

    /// An address, also from the table of addresses.
    fn address(&self, unit: &Unit<'_>, value: Value<'_>) -> Option<u64> {
        match value {
            Value::Address(address) => Some(address),
            Value::AddressIndex(index) => {
                let at = index.checked_mul(unit.address_size)?.checked_add(unit.address_base)?;
                let mut reader = Reader { bytes: self.addresses.get(usize::try_from(at).ok()?..)? };
                reader.number(unit.address_size)
            }
            _ => None,
        }
    }

    /// Whether the code of an entry contains an address; `None` if the entry has no addresses.
    fn contains(&self, unit: &Unit<'_>, entry: &Entry<'_>, wanted: u64) -> Option<bool> {
        match entry.get(RANGES) {
            Some(Value::Number(at)) if unit.version >= 5 => return self.in_list(unit, at, wanted),
            Some(Value::Number(at)) => return self.in_ranges(unit, at, wanted),
            Some(Value::ListIndex(index)) => {
                let at = index.checked_mul(unit.offset_size)?.checked_add(unit.list_base)?;
                let mut reader = Reader { bytes: self.lists.get(usize::try_from(at).ok()?..)? };
                let at = unit.list_base.checked_add(reader.number(unit.offset_size)?)?;
                return self.in_list(unit, at, wanted);
            }
            _ => {}
        }
        let low = self.address(unit, entry.get(LOW)?)?;
        let high = match entry.get(HIGH)? {
            Value::Number(length) => low.checked_add(length)?,
            value => self.address(unit, value)?,
        };
        Some((low..high).contains(&wanted))
    }

    /// Whether a list of ranges of version 5 contains an address.
    fn in_list(&self, unit: &Unit<'_>, at: u64, wanted: u64) -> Option<bool> {
        let mut reader = Reader { bytes: self.lists.get(usize::try_from(at).ok()?..)? };
        let mut base = unit.base;
        let size = unit.address_size;
        for _ in 0..MOST_RANGES {
            let indexed = |index| self.address(unit, Value::AddressIndex(index));
            let (start, end) = match reader.byte()? {
                0 => return Some(false),
                1 => {
                    base = indexed(reader.uleb()?)?;
                    continue;
                }
                2 => (indexed(reader.uleb()?)?, indexed(reader.uleb()?)?),
                3 => {
                    let start = indexed(reader.uleb()?)?;
                    (start, start.checked_add(reader.uleb()?)?)
                }
                4 => (base.checked_add(reader.uleb()?)?, base.checked_add(reader.uleb()?)?),
                5 => {
                    base = reader.number(size)?;
                    continue;
                }
                6 => (reader.number(size)?, reader.number(size)?),
                7 => {
                    let start = reader.number(size)?;
                    (start, start.checked_add(reader.uleb()?)?)
                }
                _ => return None,
            };
            if (start..end).contains(&wanted) {
                return Some(true);
            }
        }
        None
    }

    /// Whether a list of ranges before version 5 contains an address.
    fn in_ranges(&self, unit: &Unit<'_>, at: u64, wanted: u64) -> Option<bool> {
        let mut reader = Reader { bytes: self.ranges.get(usize::try_from(at).ok()?..)? };
        let mut base = unit.base;
        let largest = u64::MAX >> (64 - 8 * unit.address_size);
        for _ in 0..MOST_RANGES {
            let (start, end) = (reader.number(unit.address_size)?, reader.number(unit.address_size)?);
            if (start, end) == (0, 0) {
                return Some(false);
            }
            if start == largest {
                base = end;
            } else if (base.checked_add(start)?..base.checked_add(end)?).contains(&wanted) {
                return Some(true);
            }
        }
        None
    }
}

/// The shapes of a table of abbreviations.
fn shapes(bytes: &[u8]) -> Option<BTreeMap<u64, Shape>> {
    let mut reader = Reader { bytes };
    let mut shapes = BTreeMap::new();
    loop {
        let code = reader.uleb()?;
        if code == 0 {
            return Some(shapes);
        }
        let mut shape = Shape { tag: reader.uleb()?, attributes: Vec::new() };
        // Whether entries of it contain others: the order of entries is enough here.
        reader.byte()?;
        loop {
            let (attribute, form) = (reader.uleb()?, reader.uleb()?);
            let constant = if form == 0x21 { reader.sleb()?.cast_unsigned() } else { 0 };
            if (attribute, form) == (0, 0) {
                break;
            }
            shape.attributes.push((attribute, form, constant));
        }
        shapes.insert(code, shape);
    }
}

impl Unit<'_> {
    /// The next entry. One with the tag 0 is the end of a list of entries. Only entries whose tag is wanted have values.
    fn entry<'a>(&self, reader: &mut Reader<'a>, wanted: impl Fn(u64) -> bool) -> Option<Entry<'a>> {
        let code = reader.uleb()?;
        if code == 0 {
            return Some(Entry { tag: 0, values: Vec::new() });
        }
        let shape = self.shapes.get(&code)?;
        let keep = wanted(shape.tag);
        let mut values = Vec::new();
        for (attribute, form, constant) in &shape.attributes {
            let value = self.value(reader, *form, *constant)?;
            if keep {
                values.push((*attribute, value));
            }
        }
        Some(Entry { tag: shape.tag, values })
    }

    fn value<'a>(&self, reader: &mut Reader<'a>, form: u64, constant: u64) -> Option<Value<'a>> {
        let offset = self.offset_size;
        let skip = |reader: &mut Reader<'a>, count: u64| reader.take(count).map(|_| Value::Other);
        Some(match form {
            0x01 => Value::Address(reader.number(self.address_size)?),
            0x03 => {
                let length = reader.number(2)?;
                skip(reader, length)?
            }
            0x04 => {
                let length = reader.number(4)?;
                skip(reader, length)?
            }
            0x05 => Value::Number(reader.number(2)?),
            0x06 => Value::Number(reader.number(4)?),
            0x07 => Value::Number(reader.number(8)?),
            0x08 => {
                let end = reader.bytes.iter().position(|byte| *byte == 0)?;
                let text = reader.take(u64::try_from(end).ok()?)?;
                reader.byte()?;
                Value::Text(text)
            }
            0x09 | 0x18 => {
                let length = reader.uleb()?;
                skip(reader, length)?
            }
            0x0a => {
                let length = reader.number(1)?;
                skip(reader, length)?
            }
            0x0b => Value::Number(reader.number(1)?),
            0x0c | 0x25 => skip(reader, 1)?,
            0x0d => Value::Number(reader.sleb()?.cast_unsigned()),
            0x0e => Value::TextAt(0, reader.number(offset)?),
            0x0f => Value::Number(reader.uleb()?),
            0x10 => skip(reader, if self.version == 2 { self.address_size } else { offset })?,
            0x11 => Value::Entry(reader.number(1)?),
            0x12 => Value::Entry(reader.number(2)?),
            0x13 => Value::Entry(reader.number(4)?),
            0x14 => Value::Entry(reader.number(8)?),
            0x15 => Value::Entry(reader.uleb()?),
            0x17 => Value::Number(reader.number(offset)?),
            0x19 => Value::Other,
            0x1a | 0x22 | 0x1f02 => {
                reader.uleb()?;
                Value::Other
            }
            0x1b | 0x1f01 => Value::AddressIndex(reader.uleb()?),
            0x1c | 0x28 => skip(reader, 4)?,
            0x1d | 0x1f20 | 0x1f21 => skip(reader, offset)?,
            0x1e => skip(reader, 16)?,
            0x1f => Value::TextAt(1, reader.number(offset)?),
            0x20 | 0x24 => skip(reader, 8)?,
            0x21 => Value::Number(constant),
            0x23 => Value::ListIndex(reader.uleb()?),
            0x26 => skip(reader, 2)?,
            0x27 => skip(reader, 3)?,
            0x29 => Value::AddressIndex(reader.number(1)?),
            0x2a => Value::AddressIndex(reader.number(2)?),
            0x2b => Value::AddressIndex(reader.number(3)?),
            0x2c => Value::AddressIndex(reader.number(4)?),
            _ => return None,
        })
    }

    /// The name of the function of an entry, which another entry may have.
    fn name(&self, entry: &Entry<'_>, strings: [&[u8]; 2]) -> Option<String> {
        let mut next;
        let mut entry = entry;
        for _ in 0..HOPS {
            if let Some(name) = entry.text(LINKAGE_NAME, strings) {
                return Some(name);
            }
            let Some(Value::Entry(at)) = entry.get(ORIGIN).or(entry.get(SPECIFICATION)) else {
                return entry.text(NAME, strings);
            };
            let mut reader = Reader { bytes: self.whole.get(usize::try_from(at).ok()?..)? };
            next = self.entry(&mut reader, |_| true)?;
            entry = &next;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A unit of version 5 with a function `f` at 0x100, into which `g` is inlined by line 7 of file 2, at 0x110 to 0x120.
    fn entries() -> Entries {
        let shapes = [
            // The unit: line table, first address, length.
            &[1u8, 0x11, 1, 0x10, 0x17, 0x11, 0x01, 0x12, 0x06, 0, 0][..],
            // A function with a name only.
            &[2, 0x2e, 0, 0x6e, 0x08, 0, 0],
            // An inlined call.
            &[3, 0x1d, 0, 0x31, 0x13, 0x11, 0x01, 0x12, 0x0b, 0x58, 0x0b, 0x59, 0x21, 7, 0, 0],
            &[0],
        ]
        .concat();
        let mut unit = vec![5, 0, 1, 8, 0, 0, 0, 0];
        unit.extend([1, 9, 0, 0, 0]);
        unit.extend(0x100u64.to_le_bytes());
        unit.extend(0x100u32.to_le_bytes());
        let name = u8::try_from(4 + unit.len()).unwrap();
        unit.extend(b"\x02_Z1gv\0");
        unit.extend([3, name, 0, 0, 0]);
        unit.extend(0x110u64.to_le_bytes());
        unit.extend([0x10, 2, 0]);
        let mut info = u32::try_from(unit.len()).unwrap().to_le_bytes().to_vec();
        info.extend(unit);
        Entries { info, abbreviations: shapes, ..Entries::default() }
    }

    #[test]
    fn an_inlined_call_has_its_line() {
        let entries = entries();
        let call = Call { function: Some("_Z1gv".to_owned()), file: (9, 2), line: 7 };
        assert_eq!(entries.calls(0x11f, [b"", b""]), [call]);
        for outside in [0x10f, 0x120, 0x300] {
            assert_eq!(entries.calls(outside, [b"", b""]), []);
        }
    }

    #[test]
    fn a_part_of_a_file_is_not_a_problem() {
        let whole = entries();
        for length in 0..whole.info.len() {
            let info = whole.info.get(..length).unwrap().to_vec();
            let part = Entries { info, abbreviations: whole.abbreviations.clone(), ..Entries::default() };
            assert_eq!(part.calls(0x11f, [b"", b""]), []);
        }
    }
}
