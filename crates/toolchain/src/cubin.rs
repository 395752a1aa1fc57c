//! Reads the sections of a cubin, which is an ELF file.
//!
//! Since sm_90, ptxas no longer prints the constant memory of a kernel, but its size is in the cubin.

/// Bytes of constant memory of a kernel per bank, ascending by bank. Empty if the file cannot be parsed.
pub(crate) fn constant_banks(cubin: &[u8], kernel: &str) -> Vec<(u32, u32)> {
    let mut banks: Vec<(u32, u32)> = sections(cubin)
        .filter_map(|(name, size)| {
            let name = std::str::from_utf8(name).ok()?;
            let (bank, of) = name.strip_prefix(".nv.constant")?.split_once('.')?;
            (of == kernel).then_some((bank.parse().ok()?, u32::try_from(size).ok()?))
        })
        .collect();
    banks.sort_unstable();
    banks
}

/// Name and size of every section of a 64-bit little-endian ELF file.
fn sections(elf: &[u8]) -> impl Iterator<Item = (&[u8], u64)> {
    let is_elf = elf.starts_with(b"\x7fELF\x02\x01");
    let table = number::<8>(elf, 0x28).filter(|_| is_elf).unwrap_or(u64::MAX);
    let entry = number::<2>(elf, 0x3a).unwrap_or(0);
    let count = number::<2>(elf, 0x3c).unwrap_or(0);
    let names = number::<2>(elf, 0x3e).unwrap_or(0);
    let header = move |index: u64| usize::try_from(table.checked_add(index.checked_mul(entry)?)?).ok();
    let names_at = header(names).and_then(|at| number::<8>(elf, at.checked_add(0x18)?));
    (0..count).filter_map(move |index| {
        let at = header(index)?;
        let name = usize::try_from(names_at?.checked_add(number::<4>(elf, at)?)?).ok()?;
        let name = elf.get(name..)?.split(|byte| *byte == 0).next()?;
        Some((name, number::<8>(elf, at.checked_add(0x20)?)?))
    })
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(N)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file with a section of names and one of constants.
    fn elf() -> Vec<u8> {
        let mut file = vec![0; 0x40];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        let names = b"\0.nv.constant0.k\0.nv.constant3.other\0";
        let table = u64::try_from(0x40 + names.len()).unwrap();
        file[0x28..0x30].copy_from_slice(&table.to_le_bytes());
        file[0x3a..0x3c].copy_from_slice(&0x40_u16.to_le_bytes());
        file[0x3c..0x3e].copy_from_slice(&3_u16.to_le_bytes());
        file.extend_from_slice(names);
        for (name, offset, size) in [(0_u32, 0x40_u64, 0_u64), (1, 0, 540), (17, 0, 8)] {
            let mut header = vec![0; 0x40];
            header[..4].copy_from_slice(&name.to_le_bytes());
            header[0x18..0x20].copy_from_slice(&offset.to_le_bytes());
            header[0x20..0x28].copy_from_slice(&size.to_le_bytes());
            file.extend_from_slice(&header);
        }
        file
    }

    #[test]
    fn finds_the_constants_of_one_kernel() {
        assert_eq!(constant_banks(&elf(), "k"), [(0, 540)]);
        assert_eq!(constant_banks(&elf(), "other"), [(3, 8)]);
        assert!(constant_banks(&elf(), "none").is_empty());
    }

    #[test]
    fn damaged_files_are_read_without_panic() {
        let good = elf();
        for length in 0..good.len() {
            let _ = constant_banks(&good[..length], "k");
        }
        for at in 0..good.len() {
            for value in [0, 0x7f, 0xff] {
                let mut bad = good.clone();
                bad[at] = value;
                let _ = constant_banks(&bad, "k");
            }
        }
    }
}
