//! Writes `libcudart.so.12` and `libcudart.so.13`: ELF shared objects whose functions jump into this library.
//!
//! A program asks the dynamic linker for `cudaMalloc` with the version `libcudart.so.13`. The shared object of that name has one
//! function per name of its major version; each is a jump through a slot, which the linker fills with the address of
//! `warpproof_cudaMalloc` in `libcuda.so.1`. So both versions share one implementation and one state, and this library exports
//! no name of the runtime itself.

use std::collections::BTreeMap;

use crate::api::symbols::{FUNCTIONS_12, FUNCTIONS_13};

/// The processor that the code is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// 64-bit x86.
    X86_64,
    /// 64-bit Arm.
    Aarch64,
}

impl Machine {
    /// The processor of this program, if it is supported.
    pub const fn own() -> Option<Machine> {
        if cfg!(target_arch = "x86_64") {
            Some(Machine::X86_64)
        } else if cfg!(target_arch = "aarch64") {
            Some(Machine::Aarch64)
        } else {
            None
        }
    }
}

/// A shared object to write.
#[derive(Clone, Copy, Debug)]
pub struct Shim {
    /// File name, soname and version of its functions.
    pub name: &'static str,
    /// Names of its functions, and the symbol that implements each.
    pub functions: &'static [(&'static str, &'static str)],
}

/// The shared objects of all major versions.
pub const ALL: [Shim; 2] = [
    Shim { name: "libcudart.so.12", functions: FUNCTIONS_12 },
    Shim { name: "libcudart.so.13", functions: FUNCTIONS_13 },
];

/// The library with the implementations.
const NEEDED: &str = "libcuda.so.1";

/// Distance of the addresses of two segments, so that no page of any size belongs to both.
const PAGE: u64 = 0x1_0000;
/// Bytes of a function.
const FUNCTION: u64 = 16;
const HEADER: u64 = 64;
const SEGMENT: u64 = 56;
const SECTION: u64 = 64;
const SYMBOL: u64 = 24;
const RELOCATION: u64 = 24;
const SEGMENTS: u64 = 5;

/// Little-endian bytes.
#[derive(Debug, Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn half(&mut self, value: u16) -> &mut Bytes {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn word(&mut self, value: u32) -> &mut Bytes {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn wide(&mut self, value: u64) -> &mut Bytes {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn len(&self) -> u64 {
        size(self.0.len())
    }

    /// Pads with zeros up to an offset.
    fn pad(&mut self, offset: u64) {
        self.0.resize(usize::try_from(offset).unwrap_or(self.0.len()).max(self.0.len()), 0);
    }
}

fn size(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// The lower 32 bits: for values known to fit, and for differences of addresses.
fn low(value: u64) -> u32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// The lower 16 bits.
fn lower(value: u64) -> u16 {
    let [a, b, ..] = value.to_le_bytes();
    u16::from_le_bytes([a, b])
}

/// A table of strings, each once.
#[derive(Debug)]
struct Strings {
    bytes: Vec<u8>,
    known: BTreeMap<String, u32>,
}

impl Strings {
    fn new() -> Strings {
        Strings { bytes: vec![0], known: BTreeMap::new() }
    }

    fn add(&mut self, text: &str) -> u32 {
        if let Some(known) = self.known.get(text) {
            return *known;
        }
        let at = low(size(self.bytes.len()));
        self.bytes.extend(text.bytes().chain([0]));
        self.known.insert(text.to_owned(), at);
        at
    }
}

/// The hash of names in `.gnu.hash`.
fn gnu_hash(name: &str) -> u32 {
    name.bytes().fold(5381, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)))
}

/// The hash of version names, from the System V ABI.
fn elf_hash(name: &str) -> u32 {
    name.bytes().fold(0, |hash: u32, byte| {
        let hash = (hash << 4).wrapping_add(u32::from(byte));
        let high = hash & 0xf000_0000;
        (hash ^ (high >> 24)) & !high
    })
}

/// A part of the file, with its section header.
struct Part {
    name: &'static str,
    kind: u32,
    flags: u64,
    offset: u64,
    address: u64,
    bytes: u64,
    link: u32,
    info: u32,
    align: u64,
    entry: u64,
}

/// Writes the file.
pub fn write(shim: &Shim, machine: Machine) -> Vec<u8> {
    let mut functions: Vec<(&str, &str)> = shim.functions.to_vec();
    let buckets = low(size(functions.len() / 2).max(1));
    // The symbols of a bucket must be adjacent.
    functions.sort_by_key(|(name, _)| (gnu_hash(name) % buckets, *name));
    let mut targets: Vec<&str> = functions.iter().map(|(_, target)| *target).collect();
    targets.sort_unstable();
    targets.dedup();

    let mut strings = Strings::new();
    let (soname, needed) = (strings.add(shim.name), strings.add(NEEDED));
    for name in targets.iter().copied().chain(functions.iter().map(|(name, _)| *name)) {
        strings.add(name);
    }

    // Where everything is.
    let symbols = 1 + size(targets.len()) + size(functions.len());
    let hash_table = hash(&functions, buckets, low(1 + size(targets.len())));
    let hash_at = HEADER + SEGMENTS * SEGMENT;
    let symbols_at = (hash_at + hash_table.len()).next_multiple_of(8);
    let strings_at = symbols_at + symbols * SYMBOL;
    let versions_at = (strings_at + size(strings.bytes.len())).next_multiple_of(8);
    let definitions_at = (versions_at + symbols * 2).next_multiple_of(8);
    let definitions = definitions(shim.name, soname);
    let relocations_at = (definitions_at + definitions.len()).next_multiple_of(8);
    let relocations = size(targets.len()) * RELOCATION;
    let text_at = (relocations_at + relocations).next_multiple_of(16);
    let text = size(functions.len()) * FUNCTION;
    let dynamic_at = (text_at + text).next_multiple_of(16);
    let text_address = |offset: u64| offset + PAGE;
    let data_address = |offset: u64| offset + 2 * PAGE;

    let entries = [
        (1, u64::from(needed)),
        (14, u64::from(soname)),
        (0x6fff_fef5, hash_at),
        (5, strings_at),
        (6, symbols_at),
        (10, size(strings.bytes.len())),
        (11, SYMBOL),
        (7, relocations_at),
        (8, relocations),
        (9, RELOCATION),
        (0x6fff_fff0, versions_at),
        (0x6fff_fffc, definitions_at),
        (0x6fff_fffd, 2),
        (0, 0),
    ];
    let dynamic = size(entries.len()) * 16;
    let slots_at = dynamic_at + dynamic;
    let slots = size(targets.len()) * 8;
    let end = slots_at + slots;
    let slot = |target: &str| {
        let index = targets.binary_search(&target).unwrap_or(0);
        data_address(slots_at) + size(index) * 8
    };

    let mut file = Bytes::default();
    let names_at = end;
    let parts = [
        part(".gnu.hash", 0x6fff_fff6, 2, hash_at, hash_at, hash_table.len(), [2, 0], 8, 0),
        part(".dynsym", 11, 2, symbols_at, symbols_at, symbols * SYMBOL, [3, 1], 8, SYMBOL),
        part(".dynstr", 3, 2, strings_at, strings_at, size(strings.bytes.len()), [0, 0], 1, 0),
        part(".gnu.version", 0x6fff_ffff, 2, versions_at, versions_at, symbols * 2, [2, 0], 2, 2),
        part(
            ".gnu.version_d",
            0x6fff_fffd,
            2,
            definitions_at,
            definitions_at,
            definitions.len(),
            [3, 2],
            8,
            0,
        ),
        part(".rela.dyn", 4, 2, relocations_at, relocations_at, relocations, [2, 0], 8, RELOCATION),
        part(".text", 1, 6, text_at, text_address(text_at), text, [0, 0], 16, 0),
        part(".dynamic", 6, 3, dynamic_at, data_address(dynamic_at), dynamic, [3, 0], 8, 16),
        part(".got", 1, 3, slots_at, data_address(slots_at), slots, [0, 0], 8, 8),
    ];
    let mut names = Strings::new();
    for part in &parts {
        names.add(part.name);
    }
    let own_name = names.add(".shstrtab");
    let sections_at = (names_at + size(names.bytes.len())).next_multiple_of(8);

    header(&mut file, machine, sections_at, lower(size(parts.len()) + 2));
    let read = (4, 0, 0, relocations_at + relocations);
    let execute = (5, text_at, text_address(text_at), text);
    let write = (6, dynamic_at, data_address(dynamic_at), end - dynamic_at);
    for (flags, offset, address, bytes) in [read, execute, write] {
        segment(&mut file, 1, flags, offset, address, bytes, PAGE);
    }
    segment(&mut file, 2, 6, dynamic_at, data_address(dynamic_at), dynamic, 8);
    // The stack is not executable.
    segment(&mut file, 0x6474_e551, 6, 0, 0, 0, 16);

    file.pad(hash_at);
    file.0.extend(hash_table.0);
    file.pad(symbols_at + SYMBOL);
    for target in &targets {
        // A function that another library defines.
        file.word(strings.add(target)).half(0x12).half(0).wide(0).wide(0);
    }
    let text_section = 7;
    for (index, (name, _)) in functions.iter().enumerate() {
        let address = text_address(text_at) + size(index) * FUNCTION;
        file.word(strings.add(name)).half(0x12).half(text_section).wide(address).wide(FUNCTION);
    }
    file.pad(strings_at);
    file.0.extend(&strings.bytes);
    file.pad(versions_at + 2);
    for _ in &targets {
        file.half(1);
    }
    for _ in &functions {
        file.half(2);
    }
    file.pad(definitions_at);
    file.0.extend(definitions.0);
    file.pad(relocations_at);
    for (index, target) in targets.iter().enumerate() {
        let kind = match machine {
            Machine::X86_64 => 6,
            Machine::Aarch64 => 1025,
        };
        file.wide(slot(target)).wide(((1 + size(index)) << 32) | kind).wide(0);
    }
    file.pad(text_at);
    for (index, (_, target)) in functions.iter().enumerate() {
        jump(&mut file, machine, text_address(text_at) + size(index) * FUNCTION, slot(target));
    }
    file.pad(dynamic_at);
    for (tag, value) in entries {
        file.wide(tag).wide(value);
    }
    file.pad(names_at);
    file.0.extend(&names.bytes);
    file.pad(sections_at + SECTION);
    let own = part(".shstrtab", 3, 0, names_at, 0, size(names.bytes.len()), [0, 0], 1, 0);
    for part in parts.iter().chain([&own]) {
        let name = if part.name == own.name { own_name } else { names.add(part.name) };
        file.word(name).word(part.kind).wide(part.flags).wide(part.address).wide(part.offset);
        file.wide(part.bytes).word(part.link).word(part.info).wide(part.align).wide(part.entry);
    }
    file.0
}

#[expect(clippy::too_many_arguments, reason = "one row of a table")]
fn part(
    name: &'static str,
    kind: u32,
    flags: u64,
    offset: u64,
    address: u64,
    bytes: u64,
    [link, info]: [u32; 2],
    align: u64,
    entry: u64,
) -> Part {
    Part { name, kind, flags, offset, address, bytes, link, info, align, entry }
}

fn header(file: &mut Bytes, machine: Machine, sections_at: u64, sections: u16) {
    // 64 bits, little endian, version 1, System V.
    file.0.extend([0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let machine = match machine {
        Machine::X86_64 => 62,
        Machine::Aarch64 => 183,
    };
    // A shared object without an entry point.
    file.half(3).half(machine).word(1).wide(0).wide(HEADER).wide(sections_at).word(0);
    file.half(lower(HEADER)).half(lower(SEGMENT)).half(lower(SEGMENTS));
    // The names of sections are in the last one.
    file.half(lower(SECTION)).half(sections).half(sections - 1);
}

fn segment(file: &mut Bytes, kind: u32, flags: u32, offset: u64, address: u64, bytes: u64, align: u64) {
    file.word(kind).word(flags).wide(offset).wide(address).wide(address).wide(bytes).wide(bytes).wide(align);
}

/// The hash table of the functions, which start at the symbol `first`. The filter lets everything pass: a library of one purpose
/// is rarely asked for other names.
fn hash(functions: &[(&str, &str)], buckets: u32, first: u32) -> Bytes {
    let mut table = Bytes::default();
    table.word(buckets).word(first).word(1).word(6).wide(u64::MAX);
    let hashes: Vec<u32> = functions.iter().map(|(name, _)| gnu_hash(name)).collect();
    for bucket in 0..buckets {
        let start = hashes.iter().position(|hash| hash % buckets == bucket);
        table.word(start.map_or(0, |start| first + low(size(start))));
    }
    for (index, hash) in hashes.iter().enumerate() {
        let last = hashes.get(index + 1).is_none_or(|next| next % buckets != hash % buckets);
        table.word((hash & !1) | u32::from(last));
    }
    table
}

/// The versions that the file defines: its own, as every file has it, and that of its functions, which has the same name.
fn definitions(name: &str, string: u32) -> Bytes {
    let mut table = Bytes::default();
    for (flags, index, next) in [(1, 1, 28), (0, 2, 0)] {
        table.half(1).half(flags).half(index).half(1).word(elf_hash(name)).word(20).word(next);
        table.word(string).word(0);
    }
    table
}

/// A function: a jump to the address in a slot.
fn jump(file: &mut Bytes, machine: Machine, at: u64, slot: u64) {
    match machine {
        Machine::X86_64 => {
            // endbr64; jmp *slot(%rip); the distance counts from the end of the jump.
            file.0.extend([0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25]);
            file.word(low(slot.wrapping_sub(at + 10)));
            file.0.extend([0xcc; 6]);
        }
        Machine::Aarch64 => {
            let pages = low((slot >> 12).wrapping_sub(at >> 12));
            let page = 0x9000_0010 | ((pages & 3) << 29) | (((pages >> 2) & 0x7_ffff) << 5);
            let load = 0xf940_0211 | (low((slot & 0xfff) / 8) << 10);
            // bti c; adrp x16, slot; ldr x17, [x16, slot]; br x17
            file.word(0xd503_245f).word(page).word(load).word(0xd61f_0220);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hashes_are_those_of_the_abi() {
        // From the examples of the generic ABI and of glibc.
        assert_eq!(gnu_hash("printf"), 0x156b_2bb8);
        assert_eq!(gnu_hash("exit"), 0x7c96_7e3f);
        assert_eq!(elf_hash("GLIBC_2.2.5"), 0x0969_1a75);
    }

    #[test]
    fn the_arm_code_loads_its_slot() {
        let mut file = Bytes::default();
        jump(&mut file, Machine::Aarch64, 0x1_1230, 0x2_5678);
        // adrp x16, #0x14000; ldr x17, [x16, #0x678]
        let words: Vec<u32> =
            file.0.chunks(4).map(|four| u32::from_le_bytes(four.try_into().expect("4 bytes"))).collect();
        assert_eq!(words, [0xd503_245f, 0x9000_00b0, 0xf943_3e11, 0xd61f_0220]);
    }

    #[test]
    fn every_function_of_a_version_has_a_target() {
        for shim in ALL {
            assert!(shim.functions.len() > 400, "{}", shim.name);
            assert!(shim.functions.iter().all(|(_, target)| target.starts_with("warpproof_")));
        }
    }
}
