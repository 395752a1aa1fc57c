//! Which CUDA runtime an executable or a shared library uses, and whether its fat binaries contain PTX.
//!
//! The file is untrusted: it is read in parts of bounded size, and a field that points outside of it ends the search. Only
//! 64-bit little-endian ELF files with section headers are understood; nothing is known about others.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

use warpproof_ptx::elf::{
    self, DYNAMIC, DYNAMIC_SYMBOLS, Elf, ElfError, NO_BITS, SYMBOL, SYMBOLS, Section, bytes_at,
};
use warpproof_ptx::elf::{u16_at, u32_at, u64_at};

/// A function that every program with kernels calls before `main`, and that only the runtime defines.
const REGISTER: &[u8] = b"__cudaRegisterFatBinary\0";
/// The sections of fat binaries: of whole programs, and of parts that nvlink linked.
const WHOLE: &[u8] = b".nv_fatbin";
const PARTS: &[u8] = b"__nv_relfatbin";
/// The first word of a fat binary.
const FATBIN: u32 = 0xBA55_ED50;

/// Entries of the dynamic section, and the longest name in it.
const MAX_DYNAMIC: u64 = 4096;
const MAX_NAME: u64 = 4096;
/// Fat binaries and their entries in one file.
const MAX_ENTRIES: u64 = 1 << 20;
const CHUNK: usize = 1 << 20;
/// Bits of an entry's flags: its payload is compressed (LZ4, zstd).
const PACKED: u64 = 1 << 13 | 1 << 15;
/// Machine code without functions is smaller than this.
const LEAST_CODE: u64 = 2048;

const NEEDED: u64 = 1;
const RPATH: u64 = 15;
const RUNPATH: u64 = 29;

/// How a file gets the CUDA runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CudaRuntime {
    /// It does not use it, as far as the file shows.
    None,
    /// From a shared library.
    Shared,
    /// The file contains it.
    Static,
}

/// The properties of an executable or a shared library.
#[derive(Clone, Debug)]
pub struct Executable {
    /// Its CUDA runtime.
    pub runtime: CudaRuntime,
    /// The number of its fat binaries with code.
    pub fat_binaries: u64,
    /// How many of them have no PTX. Parts of a linked program are not counted if one of them has PTX.
    pub without_ptx: u64,
    /// Architectures of the machine code, ascending.
    pub machine_code: Vec<u32>,
    /// Names of the libraries that it needs.
    pub needed: Vec<String>,
    /// Directories in which the loader looks for them.
    pub search: Vec<PathBuf>,
}

impl Executable {
    /// Reads a file; `None` if it is not an ELF file that is understood.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        let file = File::open(path)?;
        // A pipe or a device could block.
        if !file.metadata()?.is_file() {
            return Ok(None);
        }
        let origin = path.canonicalize()?;
        let mut program = Program { file };
        Ok(program.executable(origin.parent().unwrap_or(Path::new("/"))))
    }
}

#[derive(Debug)]
struct Program<R> {
    file: R,
}

/// Contents of the fat binaries of a section.
#[derive(Debug, Default)]
struct Tally {
    binaries: u64,
    without_ptx: u64,
    architectures: Vec<u32>,
}

impl<R: Read + Seek> Program<R> {
    fn executable(&mut self, origin: &Path) -> Option<Executable> {
        let elf = Elf::read(&mut self.file, 0).ok().filter(|elf| elf.names.is_some())?;
        let mut found = Executable {
            runtime: CudaRuntime::None,
            fat_binaries: 0,
            without_ptx: 0,
            machine_code: Vec::new(),
            needed: Vec::new(),
            search: Vec::new(),
        };
        if let Some((dynamic, names)) = elf.with_strings(DYNAMIC) {
            self.dynamic(dynamic, names, origin, &mut found);
        }
        let mut budget = MAX_ENTRIES;
        let (mut whole, mut parts, mut complete) = (Tally::default(), Tally::default(), true);
        for section in elf.sections.iter().filter(|section| section.kind != NO_BITS) {
            let read = match elf.name(section).unwrap_or_default() {
                WHOLE => self.fat_binaries(section, &mut budget, &mut whole),
                PARTS => self.fat_binaries(section, &mut budget, &mut parts),
                _ => continue,
            };
            complete &= read.is_some();
        }
        found.fat_binaries = whole.binaries + parts.binaries;
        // nvlink writes machine code; the PTX of such a program is in its parts.
        let linked = parts.binaries > parts.without_ptx;
        // What was not read may have PTX.
        found.without_ptx = if linked || !complete { 0 } else { whole.without_ptx + parts.without_ptx };
        found.machine_code = whole.architectures;
        found.machine_code.append(&mut parts.architectures);
        found.machine_code.sort_unstable();
        found.machine_code.dedup();
        found.runtime = self.runtime(&elf, &found);
        Some(found)
    }

    /// Where the runtime's functions are. The symbols are certain; a stripped program with kernels that needs no library of
    /// CUDA can only have them inside.
    fn runtime(&mut self, elf: &Elf, found: &Executable) -> CudaRuntime {
        let needs = |prefix: &str| found.needed.iter().any(|name| name.starts_with(prefix));
        if needs("libcudart.so") {
            return CudaRuntime::Shared;
        }
        let mut symbols = |kind| {
            let (table, names) = elf.with_strings(kind)?;
            self.symbol(table, names, REGISTER)
        };
        match (symbols(SYMBOLS), symbols(DYNAMIC_SYMBOLS)) {
            (Some(true), _) | (_, Some(true)) => return CudaRuntime::Static,
            (Some(false), _) | (_, Some(false)) => return CudaRuntime::Shared,
            (None, None) => {}
        }
        let stripped = elf.with_strings(SYMBOLS).is_none();
        if stripped && found.fat_binaries > 0 && !needs("libcuda.so") {
            return CudaRuntime::Static;
        }
        CudaRuntime::None
    }

    /// Whether machine code has a function. nvcc adds machine code without any to every program that it links.
    fn has_functions(&mut self, base: u64, budget: &mut u64) -> Option<bool> {
        let code = match Elf::read(&mut self.file, base) {
            Ok(code) => code,
            Err(ElfError::Cut) => return None,
            Err(_) => return Some(true),
        };
        let Some(names) = &code.names else { return Some(true) };
        let cost = code.sections.len().saturating_add(names.len() / 64);
        *budget = budget.checked_sub(u64::try_from(cost).ok()?)?;
        let mut named = code.sections.iter().filter_map(|section| code.name(section));
        Some(named.any(|name| name.starts_with(b".text.")))
    }

    fn dynamic(
        &mut self,
        dynamic: Section,
        names: Section,
        origin: &Path,
        found: &mut Executable,
    ) -> Option<()> {
        let entries = bytes_at(&mut self.file, dynamic.offset, dynamic.size.min(MAX_DYNAMIC * 16))?;
        for entry in entries.chunks_exact(16) {
            let tag = u64_at(entry, 0)?;
            if !matches!(tag, NEEDED | RPATH | RUNPATH) {
                continue;
            }
            let at = u64_at(entry, 8)?;
            let longest = names.size.checked_sub(at)?.min(MAX_NAME);
            let bytes = bytes_at(&mut self.file, names.offset.checked_add(at)?, longest)?;
            let text = String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next()?).into_owned();
            if tag == NEEDED {
                found.needed.push(text);
            } else {
                let origin = origin.to_string_lossy();
                let dirs = text.split(':').filter(|dir| !dir.is_empty());
                let dirs = dirs.map(|dir| dir.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin));
                found.search.extend(dirs.map(PathBuf::from));
            }
        }
        Some(())
    }

    /// Whether a symbol is defined; `None` if the table does not have it.
    fn symbol(&mut self, table: Section, names: Section, name: &[u8]) -> Option<bool> {
        let at = u64::try_from(self.position(names, name)?).ok()?;
        let chunk = u64::try_from(CHUNK / SYMBOL * SYMBOL).ok()?;
        let mut done = 0;
        while done < table.size {
            let bytes =
                bytes_at(&mut self.file, table.offset.checked_add(done)?, (table.size - done).min(chunk))?;
            if let Some(symbol) = elf::symbols(&bytes).find(|symbol| u64::from(symbol.name) == at) {
                return Some(symbol.defined);
            }
            done += chunk;
        }
        None
    }

    /// Where bytes first occur in a section.
    fn position(&mut self, section: Section, wanted: &[u8]) -> Option<usize> {
        let chunk = u64::try_from(CHUNK).ok()?;
        let overlap = u64::try_from(wanted.len()).ok()?.saturating_sub(1);
        let mut done: u64 = 0;
        while done < section.size {
            let bytes = bytes_at(
                &mut self.file,
                section.offset.checked_add(done)?,
                (section.size - done).min(chunk + overlap),
            )?;
            if let Some(at) = bytes.windows(wanted.len()).position(|window| window == wanted) {
                return usize::try_from(done).ok()?.checked_add(at);
            }
            done += chunk;
        }
        None
    }

    /// Walks the fat binaries of a section, of which only headers are read.
    fn fat_binaries(&mut self, section: &Section, budget: &mut u64, tally: &mut Tally) -> Option<()> {
        let end = section.offset.checked_add(section.size)?;
        let mut at = section.offset;
        while at.checked_add(16)? <= end {
            *budget = budget.checked_sub(1)?;
            let header = bytes_at(&mut self.file, at, 16)?;
            if u32_at(&header, 0)? != FATBIN {
                // Each fat binary is aligned; the gap is zero.
                at += 8;
                continue;
            }
            let mut entry = at.checked_add(u64::from(u16_at(&header, 6)?).max(16))?;
            let after = entry.checked_add(u64_at(&header, 8)?)?.min(end);
            let (mut ptx, mut machine_code) = (false, false);
            while entry.checked_add(64).is_some_and(|beyond| beyond <= after) {
                *budget = budget.checked_sub(1)?;
                let fields = bytes_at(&mut self.file, entry, 64)?;
                match u16_at(&fields, 0)? {
                    1 => ptx = true,
                    2 => {
                        let payload = entry.checked_add(u64::from(u32_at(&fields, 4)?))?;
                        let packed = u64_at(&fields, 40)? & PACKED != 0;
                        let functions = if packed {
                            u64_at(&fields, 56)? > LEAST_CODE
                        } else {
                            self.has_functions(payload, budget)?
                        };
                        if functions {
                            machine_code = true;
                            tally.architectures.push(u32_at(&fields, 28)?);
                        }
                    }
                    _ => {}
                }
                entry = entry
                    .checked_add(u64::from(u32_at(&fields, 4)?).max(64))?
                    .checked_add(u64_at(&fields, 8)?)?;
            }
            if ptx || machine_code {
                tally.binaries += 1;
                tally.without_ptx += u64::from(!ptx);
            }
            at = after.max(at + 16);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// A fat binary with entries of these kinds, for sm_89.
    fn fat_binary(kinds: &[u16]) -> Vec<u8> {
        let mut entries = Vec::new();
        for kind in kinds {
            let mut entry = vec![0; 64 + 24];
            entry[..2].copy_from_slice(&kind.to_le_bytes());
            entry[4..8].copy_from_slice(&64_u32.to_le_bytes());
            entry[8..16].copy_from_slice(&24_u64.to_le_bytes());
            entry[28..32].copy_from_slice(&89_u32.to_le_bytes());
            entries.extend(entry);
        }
        let mut binary = Vec::new();
        binary.extend(FATBIN.to_le_bytes());
        binary.extend([1, 0, 16, 0]);
        binary.extend(u64::try_from(entries.len()).unwrap().to_le_bytes());
        binary.extend(entries);
        binary
    }

    /// An ELF file from sections: name, kind, index of its names, content.
    fn elf(sections: &[(&str, u32, u32, Vec<u8>)]) -> Vec<u8> {
        let mut names = vec![0];
        let mut headers = vec![0; 64];
        let mut file = vec![0; 64];
        let own = ("names", 3, 0, Vec::new());
        for (name, kind, link, content) in sections.iter().chain([&own]) {
            let mut header = vec![0; 64];
            header[..4].copy_from_slice(&u32::try_from(names.len()).unwrap().to_le_bytes());
            header[4..8].copy_from_slice(&kind.to_le_bytes());
            header[0x18..0x20].copy_from_slice(&u64::try_from(file.len()).unwrap().to_le_bytes());
            names.extend(name.bytes().chain([0]));
            let content = if *name == "names" { &names } else { content };
            header[0x20..0x28].copy_from_slice(&u64::try_from(content.len()).unwrap().to_le_bytes());
            header[0x28..0x2c].copy_from_slice(&link.to_le_bytes());
            headers.extend(header);
            file.extend(content);
        }
        let count = u16::try_from(sections.len() + 2).unwrap();
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        let table = u64::try_from(file.len()).unwrap();
        file[0x28..0x30].copy_from_slice(&table.to_le_bytes());
        file[0x3a..0x3c].copy_from_slice(&64_u16.to_le_bytes());
        file[0x3c..0x3e].copy_from_slice(&count.to_le_bytes());
        file[0x3e..0x40].copy_from_slice(&(count - 1).to_le_bytes());
        file.extend(headers);
        file
    }

    fn dynamic(entries: &[(u64, u64)]) -> Vec<u8> {
        entries.iter().flat_map(|(tag, value)| [tag.to_le_bytes(), value.to_le_bytes()].concat()).collect()
    }

    /// A symbol table with one symbol of the name at an offset.
    fn symbols(name: u32, section: u16) -> Vec<u8> {
        let mut table = vec![0; 2 * SYMBOL];
        table[SYMBOL..SYMBOL + 4].copy_from_slice(&name.to_le_bytes());
        table[SYMBOL + 6..SYMBOL + 8].copy_from_slice(&section.to_le_bytes());
        table
    }

    fn read(file: &[u8]) -> Option<Executable> {
        Program { file: Cursor::new(file) }.executable(Path::new("/opt/app"))
    }

    const NAMES: &[u8] = b"\0libcudart.so.13\0$ORIGIN/../lib:/opt/lib\0x__cudaRegisterFatBinary\0";

    fn with_runtime(needed: bool, defined: u16) -> Vec<u8> {
        let tags: &[(u64, u64)] =
            if needed { &[(NEEDED, 1), (RUNPATH, 17), (0, 0)] } else { &[(RUNPATH, 17)] };
        elf(&[
            ("strings", 3, 0, NAMES.to_vec()),
            (".dynamic", DYNAMIC, 1, dynamic(tags)),
            (".symtab", SYMBOLS, 1, symbols(42, defined)),
            (".nv_fatbin", 1, 0, [fat_binary(&[2, 1]), vec![0; 8], fat_binary(&[1])].concat()),
        ])
    }

    #[test]
    fn a_shared_and_a_static_runtime_are_distinguished() {
        let shared = read(&with_runtime(true, 0)).unwrap();
        assert_eq!(shared.runtime, CudaRuntime::Shared);
        assert_eq!(shared.needed, ["libcudart.so.13"]);
        assert_eq!(shared.search, [PathBuf::from("/opt/app/../lib"), PathBuf::from("/opt/lib")]);
        assert_eq!((shared.fat_binaries, shared.without_ptx), (2, 0));
        assert_eq!(shared.machine_code, [89]);
        assert_eq!(read(&with_runtime(false, 7)).unwrap().runtime, CudaRuntime::Static);
        // Another library may contain the runtime and export it.
        assert_eq!(read(&with_runtime(false, 0)).unwrap().runtime, CudaRuntime::Shared);
    }

    #[test]
    fn a_stripped_program_with_kernels_and_without_libraries_of_cuda_is_static() {
        let kernels = (".nv_fatbin", 1, 0, fat_binary(&[2]));
        assert_eq!(read(&elf(std::slice::from_ref(&kernels))).unwrap().runtime, CudaRuntime::Static);
        let strings = b"\0libcuda.so.1\0".to_vec();
        let driver =
            elf(&[("strings", 3, 0, strings), (".dynamic", DYNAMIC, 1, dynamic(&[(NEEDED, 1)])), kernels]);
        assert_eq!(read(&driver).unwrap().runtime, CudaRuntime::None);
        assert_eq!(read(&elf(&[])).unwrap().runtime, CudaRuntime::None);
    }

    #[test]
    fn fat_binaries_without_ptx_are_counted() {
        let code = |whole: &[u16], parts: &[u16]| {
            let sections =
                [(".nv_fatbin", 1, 0, fat_binary(whole)), ("__nv_relfatbin", 1, 0, fat_binary(parts))];
            let found = read(&elf(&sections)).unwrap();
            (found.fat_binaries, found.without_ptx)
        };
        assert_eq!(code(&[2, 2], &[]), (1, 1));
        assert_eq!(code(&[2, 1], &[]), (1, 0));
        // The linked machine code of a program whose parts have PTX.
        assert_eq!(code(&[2], &[2, 1]), (2, 0));
        assert_eq!(code(&[2], &[2]), (2, 2));
        // Neither PTX nor machine code: an empty fat binary.
        assert_eq!(code(&[8], &[]), (0, 0));
    }

    #[test]
    fn machine_code_without_functions_does_not_count() {
        let code = |name: &str, flags: u64, unpacked: u64| {
            let payload = elf(&[(name, 1, 0, vec![0; 8])]);
            let mut binary = fat_binary(&[2]);
            binary.truncate(16 + 64);
            binary[8..16].copy_from_slice(&u64::try_from(64 + payload.len()).unwrap().to_le_bytes());
            binary[24..32].copy_from_slice(&u64::try_from(payload.len()).unwrap().to_le_bytes());
            binary[56..64].copy_from_slice(&flags.to_le_bytes());
            binary[72..80].copy_from_slice(&unpacked.to_le_bytes());
            binary.extend(payload);
            let found = read(&elf(&[(".nv_fatbin", 1, 0, binary)])).unwrap();
            (found.fat_binaries, found.without_ptx)
        };
        assert_eq!(code(".text.kernel", 0, 0), (1, 1));
        assert_eq!(code(".nv.info", 0, 0), (0, 0));
        assert_eq!(code(".nv.info", 1 << 13, 1500), (0, 0));
        assert_eq!(code(".nv.info", 1 << 15, 3000), (1, 1));
    }

    #[test]
    fn damaged_files_are_read_without_panic() {
        let good = with_runtime(true, 7);
        for length in 0..good.len() {
            let _ = read(&good[..length]);
        }
        for at in 0..good.len() {
            for value in [0, 0x7f, 0xff] {
                let mut bad = good.clone();
                bad[at] = value;
                let _ = read(&bad);
            }
        }
        assert!(read(b"#!/bin/sh\n").is_none());
        assert!(read(&[]).is_none());
    }

    #[test]
    fn other_files_are_not_executables() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        assert!(Executable::read(&script).unwrap().is_none());
        assert!(Executable::read(dir.path()).is_err() || Executable::read(dir.path()).unwrap().is_none());
        assert!(Executable::read(&dir.path().join("absent")).is_err());
        let found = Executable::read(&std::env::current_exe().unwrap()).unwrap();
        assert!(found.is_none_or(|found| found.runtime == CudaRuntime::None));
    }
}
