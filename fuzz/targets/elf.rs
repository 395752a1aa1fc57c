//! Any bytes are read as an ELF file without a panic, and what is returned is inside of them.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use warpproof_ptx::elf::{self, Elf, Header};

fuzz_target!(|input: (u8, &[u8])| {
    let (base, rest) = input;
    // Files with another beginning are refused by their first bytes.
    let mut file = vec![0; usize::from(base)];
    file.extend(b"\x7fELF\x02\x01");
    file.extend(rest);
    let size = u64::try_from(file.len()).expect("a size fits");
    let _ = Header::parse(&file).map(|header| header.end());

    let mut reader = Cursor::new(&file);
    let Ok(elf) = Elf::read(&mut reader, u64::from(base)) else { return };
    for section in &elf.sections {
        let name = elf.name(section).unwrap_or_default();
        assert!(!name.contains(&0) && name.len() <= file.len());
        let Some(contents) = elf.contents(&mut reader, section, size) else { continue };
        assert!(contents.is_empty() || u64::from(base) + section.offset + section.size <= size);
        let strings = elf.linked(section).and_then(|strings| elf.contents(&mut reader, strings, size));
        for symbol in elf::symbols(&contents) {
            let _ = elf::string_at(strings.as_deref().unwrap_or_default(), u64::from(symbol.name));
        }
    }
    let _ = (elf.segments(&mut reader), elf.with_strings(elf::DYNAMIC));
});
