//! Which registers an instruction reads and writes.

use serde::Serialize;

/// A register that holds a value; `RZ`, `URZ`, `PT` and `UPT` are constants and are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Register {
    /// `R7`: one for each lane.
    General(u8),
    /// `UR7`: one for the warp.
    Uniform(u8),
    /// `P3`: a predicate for each lane.
    Predicate(u8),
    /// `UP3`: one for the warp.
    UniformPredicate(u8),
}

/// The registers of an instruction, ascending, without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Registers {
    /// Registers that it reads, including its guard.
    pub reads: Vec<Register>,
    /// Registers that it writes.
    pub writes: Vec<Register>,
}

/// Opcodes that write no register.
const WRITE_NOTHING: &[&str] = &[
    "ST",
    "STG",
    "STS",
    "STL",
    "STSM",
    "STAS",
    "RED",
    "REDG",
    "REDAS",
    "LDGSTS",
    "LDGDEPBAR",
    "DEPBAR",
    "BAR",
    "BRA",
    "BRX",
    "JMP",
    "EXIT",
    "RET",
    "CALL",
    "BSSY",
    "BSYNC",
    "BREAK",
    "WARPSYNC",
    "NOP",
    "MEMBAR",
    "ERRBAR",
    "CCTL",
    "CCTLL",
    "FENCE",
    "NANOSLEEP",
    "YIELD",
    "KILL",
    "BPT",
    "ARRIVES",
    "ACQBULK",
    "CGAERRBAR",
    "UCGABAR_ARV",
    "UCGABAR_WAIT",
    "UTMALDG",
    "UTMASTG",
    "UTMAPF",
    "UTMAREDG",
    "UTMACCTL",
    "UTMACMDFLUSH",
    "UBLKRED",
    "USETMAXREG",
    "UBLKCP",
    "UBLKPF",
    "WARPGROUP",
    "PREEXIT",
    "PMTRIG",
];

/// How many 32-bit registers each operand takes: the result, and the sources in order.
struct Widths {
    result: u8,
    sources: [u8; 4],
}

pub(super) fn registers(opcode: &str, operands: &[String], guard: Option<Register>) -> Registers {
    let base = opcode.split('.').next().unwrap_or(opcode);
    let widths = widths(base, opcode);
    let wgmma = matches!(base, "HGMMA" | "QGMMA" | "IGMMA" | "BGMMA");
    let results = if WRITE_NOTHING.contains(&base) { 0 } else { results(base, operands) };
    let mut found = Registers { reads: guard.into_iter().collect(), writes: Vec::new() };
    let mut source = 0_usize;
    for (index, operand) in operands.iter().enumerate() {
        if index < results {
            named(operand, widths.result, &mut found.writes);
        } else {
            let width = widths.sources.get(source).copied().unwrap_or(1);
            if let (true, Some(first)) = (wgmma, operand.strip_prefix("gdesc[")) {
                // Two descriptors of 64 bits if A is in shared memory too, otherwise one.
                named(first, if source == 0 { 4 } else { 2 }, &mut found.reads);
            } else {
                named(operand, width, &mut found.reads);
            }
            source += 1;
        }
    }
    for list in [&mut found.reads, &mut found.writes] {
        list.sort_unstable();
        list.dedup();
    }
    found
}

/// How many of the leading operands are results.
fn results(base: &str, operands: &[String]) -> usize {
    let is_predicate = |index: usize| operands.get(index).is_some_and(|text| predicate_name(text));
    let uniform = base.strip_prefix('U').unwrap_or(base);
    if uniform.contains("SETP") || uniform == "PLOP3" {
        return if is_predicate(1) { 2 } else { 1 };
    }
    match uniform {
        "FCHK" | "PSETP" | "R2P" | "SYNCS" => 1,
        // A register and one predicate, in either order.
        "VOTE" | "OTE" | "VOTEU" | "OTEU" | "SHFL" | "MATCH" | "ATOM" | "ATOMG" | "ATOMS" | "ELECT" => {
            if is_predicate(0) || is_predicate(1) {
                2.min(operands.len())
            } else {
                1
            }
        }
        _ => {
            let mut count = 0;
            while is_predicate(count) {
                count += 1;
            }
            count += 1;
            // A carry follows the result: IADD3 R0, P0, R1, …
            while matches!(uniform, "IADD3" | "IADD" | "LEA" | "IMAD") && is_predicate(count) && count < 3 {
                count += 1;
            }
            count.min(operands.len())
        }
    }
}

fn predicate_name(operand: &str) -> bool {
    let name = operand.trim_start_matches('!').trim_start_matches('U');
    name == "PT" || name == "PR" || name.strip_prefix('P').is_some_and(is_number)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The number of words of a memory access or move.
fn words(opcode: &str) -> u8 {
    opcode.split('.').skip(1).fold(1, |found, part| match part {
        "64" => 2,
        "128" => 4,
        "256" => 8,
        _ => found,
    })
}

fn widths(base: &str, opcode: &str) -> Widths {
    let has = |part: &str| opcode.split('.').any(|p| p == part);
    let plain = |result: u8| Widths { result, sources: [1; 4] };
    match base {
        "HMMA" | "IMMA" | "QMMA" | "OMMA" | "BMMA" | "DMMA" => mma(base, opcode),
        "HGMMA" | "QGMMA" | "IGMMA" | "BGMMA" => wgmma(opcode),
        "LDSM" | "STSM" => {
            let count = if has("4") {
                4
            } else if has("2") {
                2
            } else {
                1
            };
            Widths { result: count, sources: [1, count, 1, 1] }
        }
        // The address, then the value; an address specifies its own width.
        "ST" | "STG" | "STS" | "STL" | "RED" | "REDG" => {
            Widths { result: 0, sources: [1, words(opcode), 1, 1] }
        }
        "ATOM" | "ATOMG" | "ATOMS" => {
            Widths { result: words(opcode), sources: [1, words(opcode), words(opcode), 1] }
        }
        "LDGSTS" => plain(0),
        "DADD" | "DMUL" | "DFMA" | "DSETP" | "DMNMX" | "FADD2" | "FMUL2" | "FFMA2" => {
            Widths { result: if base == "DSETP" { 1 } else { 2 }, sources: [2; 4] }
        }
        "IMAD" | "UIMAD" if has("WIDE") => Widths { result: 2, sources: [1, 1, 2, 1] },
        "CS2R" => plain(if has("32") { 1 } else { 2 }),
        "I2F" | "F2F" | "F2I" | "I2I" => {
            let double = |part: &str| matches!(part, "F64" | "S64" | "U64");
            let mut types = opcode.split('.').skip(1).filter(|part| {
                double(part) || matches!(*part, "F32" | "F16" | "S32" | "U32" | "S16" | "U16" | "S8" | "U8")
            });
            let (to, from) = (types.next().unwrap_or("F32"), types.next().unwrap_or("S32"));
            let width = |part: &str| if double(part) { 2 } else { 1 };
            Widths { result: width(to), sources: [width(from), 1, 1, 1] }
        }
        _ => plain(words(opcode)),
    }
}

/// The fragments of a matrix multiplication: D, then A, B and C.
fn mma(base: &str, opcode: &str) -> Widths {
    let mut parts = opcode.split('.').skip(1);
    let shape = parts.find(|part| is_number(part)).unwrap_or("16816");
    let small = opcode.split('.').nth(2) == Some("F16") || opcode.contains(&format!("{shape}.F16"));
    let (a, b, c) = match (base, shape) {
        ("DMMA", "884" | "8x8x4") => (2, 2, 4),
        ("HMMA", "1684") | ("IMMA" | "QMMA", "16816") => (2, 1, 4),
        ("HMMA", "1688") => {
            if opcode.contains("TF32") {
                (4, 2, 4)
            } else {
                (2, 1, 4)
            }
        }
        ("IMMA" | "BMMA", "8816" | "8832" | "88128") => (1, 1, 2),
        ("HMMA", "884") => (2, 2, 8),
        // m16n8k16 of 16 bits, m16n8k32 of 8, m16n8k64 of 4, m16n8k8 of 32.
        _ => (4, 2, 4),
    };
    let c = if small { c / 2 } else { c };
    Widths { result: c, sources: [a, b, c, 1] }
}

/// The accumulators of a product of a warpgroup are in the registers of 128 threads. A, if it is in registers, takes four; then
/// the descriptor of B precedes the accumulators.
fn wgmma(opcode: &str) -> Widths {
    let shape = opcode.split('.').find(|part| part.starts_with("64x")).unwrap_or("64x8x16");
    let columns = shape.split('x').nth(1).and_then(|n| n.parse::<u16>().ok()).unwrap_or(8).min(256);
    let half = opcode.split('.').nth(2) == Some("F16");
    let result = u8::try_from(columns / if half { 4 } else { 2 }).unwrap_or(128);
    Widths { result, sources: [4, result, result, 1] }
}

/// Adds the registers that an operand names. `width` applies to a plain register; an address specifies its
/// own.
fn named(operand: &str, width: u8, into: &mut Vec<Register>) {
    let mut rest = operand;
    let mut inside = 0_u32;
    while let Some(first) = rest.chars().next() {
        if first == '[' {
            inside += 1;
        } else if first == ']' {
            inside = inside.saturating_sub(1);
        }
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        if length == 0 {
            rest = rest.get(first.len_utf8()..).unwrap_or_default();
            continue;
        }
        let (word, after) = rest.split_at(length);
        if let Some(register) = register(word) {
            let wide = after.starts_with(".64");
            let count = match (inside > 0, wide) {
                (_, true) => 2,
                (true, false) => 1,
                (false, false) => width,
            };
            push(register, count, into);
        }
        rest = after;
        // Modifiers (.reuse, .H0_H0, .X4) are not registers.
        while let Some(modifier) = rest.strip_prefix('.') {
            let end =
                modifier.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(modifier.len());
            rest = modifier.get(end..).unwrap_or_default();
        }
    }
}

pub(super) fn register(name: &str) -> Option<Register> {
    let number = |digits: &str| is_number(digits).then(|| digits.parse().ok()).flatten();
    if let Some(digits) = name.strip_prefix("UR") {
        number(digits).map(Register::Uniform)
    } else if let Some(digits) = name.strip_prefix("UP") {
        number(digits).map(Register::UniformPredicate)
    } else if let Some(digits) = name.strip_prefix('R') {
        number(digits).map(Register::General)
    } else {
        name.strip_prefix('P').and_then(number).map(Register::Predicate)
    }
}

fn push(register: Register, count: u8, into: &mut Vec<Register>) {
    for step in 0..count.max(1) {
        into.push(match register {
            Register::General(first) => Register::General(first.saturating_add(step)),
            Register::Uniform(first) => Register::Uniform(first.saturating_add(step)),
            other => other,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sass::text::split;

    fn names(list: &[Register]) -> String {
        let name = |register: &Register| match register {
            Register::General(n) => format!("R{n}"),
            Register::Uniform(n) => format!("UR{n}"),
            Register::Predicate(n) => format!("P{n}"),
            Register::UniformPredicate(n) => format!("UP{n}"),
        };
        list.iter().map(name).collect::<Vec<String>>().join(" ")
    }

    #[test]
    fn reads_and_writes_of_what_compilers_write() {
        for (text, writes, reads) in [
            ("FFMA R147, R96.reuse, R147, -R97", "R147", "R96 R97 R147"),
            ("IADD3 R0, P0, R1, c[0x0][0x160], RZ", "R0 P0", "R1"),
            ("IADD3.X R3, RZ, R3, RZ, P0, !PT", "R3", "R3 P0"),
            ("ISETP.GE.AND.EX P6, PT, R57.reuse, R9, PT, P6", "P6", "R9 R57 P6"),
            ("LDG.E.128 R8, [R2.64+0x10]", "R8 R9 R10 R11", "R2 R3"),
            ("LDG.E R8, desc[UR4][R2.64]", "R8", "R2 R3 UR4"),
            ("STS.64 [R95+UR4], R4", "", "R4 R5 R95 UR4"),
            ("LDSM.16.MT88.4 R16, [R135+0x4000]", "R16 R17 R18 R19", "R135"),
            ("HMMA.16816.F32 R48, R60.reuse, R84, RZ", "R48 R49 R50 R51", "R60 R61 R62 R63 R84 R85"),
            ("HMMA.16816.F16 R8, R4, R2, R6", "R8 R9", "R2 R3 R4 R5 R6 R7"),
            ("QMMA.16832.F32.E4M3.E4M3 R20, R92.ROW, R80.COL, R20", "R20 R21 R22 R23", {
                "R20 R21 R22 R23 R80 R81 R92 R93 R94 R95"
            }),
            ("IMAD.WIDE R14, R102.reuse, 0x2, R114", "R14 R15", "R102 R114 R115"),
            ("SHFL.BFLY PT, R17, R4, 0x2, 0x1f", "R17", "R4"),
            ("VOTE.ANY R4, PT, P0", "R4", "P0"),
            ("LDGSTS.E.BYPASS.128 [R113+0x1000], [R16.64], !P4", "", "R16 R17 R113 P4"),
            ("CS2R R8, SRZ", "R8 R9", ""),
            ("UIADD3 UR10, UR7, UR5, URZ", "UR10", "UR5 UR7"),
            ("LOP3.LUT P0, RZ, R102, 0xf, RZ, 0xc0, !PT", "P0", "R102"),
            ("FSETP.GEU.AND P1, PT, |R147|.reuse, 1.175494350822287508e-38, PT", "P1", "R147"),
            ("DFMA R2, R4, R6, R8", "R2 R3", "R4 R5 R6 R7 R8 R9"),
            ("PLOP3.LUT P4, PT, PT, PT, UP0, 0x40, 0x0", "P4", "UP0"),
            ("BAR.SYNC.DEFER_BLOCKING 0x0", "", ""),
            ("HGMMA.64x8x16.F32 R24, gdesc[UR8], R24, gsb0", "R24 R25 R26 R27", {
                "R24 R25 R26 R27 UR8 UR9 UR10 UR11"
            }),
            ("HGMMA.64x8x16.F16 R24, R4, gdesc[UR8], R24", "R24 R25", "R4 R5 R6 R7 R24 R25 UR8 UR9"),
            ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR5], R0", "P0", "R0 UR5"),
            ("SYNCS.ARRIVE.TRANS64.RED.A1T0 RZ, [R2+URZ+0x8], RZ", "", "R2"),
            ("UTMALDG.2D [UR4], [UR12]", "", "UR4 UR12"),
            ("UBLKRED.G.S.ADD [UR16], [UR4], UR5", "", "UR4 UR5 UR16"),
            ("ELECT P0, UR6, PT", "UR6 P0", ""),
            ("WARPGROUP.DEPBAR.LE gsb0, 0x0", "", ""),
        ] {
            let (opcode, operands) = split(text);
            let found = registers(&opcode, &operands, None);
            assert_eq!(names(&found.writes), writes, "{text}");
            assert_eq!(names(&found.reads), reads, "{text}");
        }
    }
}
