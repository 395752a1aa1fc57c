//! Parses the text of nvdisasm (`-c -hex`, `-gp`) and of cuobjdump (`-sass`) into instructions.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use super::{
    control::Control,
    operand::{self, Register, Registers},
};

/// Maximum number of machine instructions of one function; more is an error.
const MOST_INSTRUCTIONS: usize = 1 << 20;

/// The file name that nvdisasm `-gp` prints for the PTX text.
const PTX_FILE: &str = ".nv_debug_ptx_txt";

/// A predicate in front of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Guard {
    /// `P0`; `None` is `PT`, which is always true.
    pub register: Option<Register>,
    /// Whether the instruction executes if the predicate is false.
    pub negated: bool,
}

/// One machine instruction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Instruction {
    /// Bytes from the start of the function.
    pub offset: u32,
    /// The predicate it runs under.
    pub guard: Option<Guard>,
    /// With its modifiers: `HMMA.16816.F32`.
    pub opcode: String,
    /// Operand texts, including modifiers.
    pub operands: Vec<String>,
    /// The registers that it reads and writes.
    pub registers: Registers,
    /// The scheduling bits.
    pub control: Control,
    /// The line of the PTX text that it was compiled from.
    pub ptx_line: Option<u32>,
    /// The file and line of the source, if the text contains them.
    pub source: Option<(String, u32)>,
    /// The target of a jump, as an index into the function's instructions.
    pub target: Option<usize>,
}

impl Instruction {
    /// The opcode without modifiers: `HMMA`.
    pub fn base(&self) -> &str {
        self.opcode.split('.').next().unwrap_or(&self.opcode)
    }

    /// Whether the opcode has that modifier.
    pub fn has(&self, modifier: &str) -> bool {
        self.opcode.split('.').skip(1).any(|part| part == modifier)
    }

    /// Whether a predicate may disable it.
    pub fn is_guarded(&self) -> bool {
        self.guard.is_some_and(|guard| guard.register.is_some() || guard.negated)
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.opcode, self.operands.join(", "))
    }
}

/// A kernel or function.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Function {
    /// The linker symbol.
    pub name: String,
    /// In the order of their addresses.
    pub instructions: Vec<Instruction>,
}

/// Why the text cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// An instruction has no encoding; the text was printed without `-hex`.
    NoEncoding {
        /// The line of the text.
        line: usize,
    },
    /// The target of a jump is not an instruction of its function.
    NoTarget {
        /// The line of the text.
        line: usize,
        /// The label of the jump.
        label: String,
    },
    /// More instructions than the limit.
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// The text contains no instruction.
    Empty,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEncoding { line } => write!(f, "line {line}: the instruction has no encoding"),
            Self::NoTarget { line, label } => {
                write!(f, "line {line}: the jump target {label} does not exist")
            }
            Self::TooLong { limit } => write!(f, "a function has more than {limit} instructions"),
            Self::Empty => f.write_str("the text contains no machine instruction"),
        }
    }
}

impl std::error::Error for ParseError {}

/// An instruction whose jump is not resolved yet.
struct Pending {
    line: usize,
    low: u64,
    instruction: Instruction,
}

#[derive(Default)]
struct Reader {
    functions: Vec<Function>,
    name: String,
    instructions: Vec<(usize, Instruction)>,
    labels: BTreeMap<String, usize>,
    pending: Option<Pending>,
    ptx_line: Option<u32>,
    source: Option<(String, u32)>,
}

/// Parses every function of a disassembly with encodings.
pub fn parse(text: &str) -> Result<Vec<Function>, ParseError> {
    let mut reader = Reader::default();
    for (index, line) in text.lines().enumerate() {
        reader.line(index + 1, line.trim())?;
    }
    reader.finish()?;
    if reader.functions.is_empty() { Err(ParseError::Empty) } else { Ok(reader.functions) }
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) -> Result<(), ParseError> {
        if let Some(name) = line.strip_prefix(".section").and_then(section_name) {
            self.finish()?;
            name.clone_into(&mut self.name);
        } else if let Some(name) = line.strip_prefix("Function :") {
            self.finish()?;
            name.trim().clone_into(&mut self.name);
        } else if let Some(place) = line.strip_prefix("//##") {
            self.place(place);
        } else if line.starts_with("/*") {
            self.code(number, line)?;
        } else if let Some(label) = line.strip_suffix(':')
            && !label.contains(char::is_whitespace)
        {
            self.labels.insert(label.to_owned(), self.instructions.len());
        }
        Ok(())
    }

    /// `//## File "scale.cu", line 7 inlined at …`
    fn place(&mut self, text: &str) {
        let Some((file, rest)) = text.split_once('"').and_then(|(_, rest)| rest.split_once('"')) else {
            return;
        };
        let digits = rest.trim_start_matches(", line ");
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        let Some(line) = digits.get(..end).and_then(|digits| digits.parse().ok()) else { return };
        if file == PTX_FILE {
            self.ptx_line = Some(line);
        } else {
            self.source = Some((file.to_owned(), line));
        }
    }

    fn code(&mut self, number: usize, line: &str) -> Result<(), ParseError> {
        let Some((first, rest)) = comment(line) else { return Ok(()) };
        // The second half of an encoding is alone on its line.
        if let Some(high) = hexadecimal(first) {
            if let Some(Pending { line, low, mut instruction }) = self.pending.take() {
                instruction.control = Control::decode(u128::from(high) << 64 | u128::from(low));
                self.instructions.push((line, instruction));
                if self.instructions.len() > MOST_INSTRUCTIONS {
                    return Err(ParseError::TooLong { limit: MOST_INSTRUCTIONS });
                }
            }
            return Ok(());
        }
        let Ok(offset) = u32::from_str_radix(first, 16) else { return Ok(()) };
        if let Some(pending) = &self.pending {
            return Err(ParseError::NoEncoding { line: pending.line });
        }
        let Some((text, encoding)) = rest.split_once(';') else { return Ok(()) };
        let low = comment(encoding.trim()).and_then(|(inner, _)| hexadecimal(inner));
        let low = low.ok_or(ParseError::NoEncoding { line: number })?;
        let (guard, text) = guarded(text.trim());
        let (opcode, operands) = split(text);
        let read = guard.and_then(|guard| guard.register);
        let registers = operand::registers(&opcode, &operands, read);
        self.pending = Some(Pending {
            line: number,
            low,
            instruction: Instruction {
                offset,
                guard,
                opcode,
                operands,
                registers,
                control: Control::default(),
                ptx_line: self.ptx_line,
                source: self.source.clone(),
                target: None,
            },
        });
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ParseError> {
        if let Some(pending) = self.pending.take() {
            return Err(ParseError::NoEncoding { line: pending.line });
        }
        let labels = std::mem::take(&mut self.labels);
        let read = std::mem::take(&mut self.instructions);
        (self.ptx_line, self.source) = (None, None);
        if read.is_empty() {
            return Ok(());
        }
        let offsets: BTreeMap<u32, usize> =
            read.iter().enumerate().map(|(index, (_, i))| (i.offset, index)).collect();
        let count = read.len();
        let mut instructions = Vec::with_capacity(count);
        for (line, mut instruction) in read {
            if jumps(instruction.base())
                && let Some(label) = instruction.operands.iter().find_map(|o| label(o))
            {
                let at = match &label {
                    Label::Name(name) => labels.get(name).copied(),
                    Label::Offset(offset) => offsets.get(offset).copied(),
                };
                // A label after the last instruction ends the function: nothing jumps there.
                let at = at.filter(|at| *at < count);
                instruction.target =
                    Some(at.ok_or_else(|| ParseError::NoTarget { line, label: label.to_string() })?);
            }
            instructions.push(instruction);
        }
        self.functions.push(Function { name: std::mem::take(&mut self.name), instructions });
        Ok(())
    }
}

enum Label {
    Name(String),
    Offset(u32),
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Offset(offset) => write!(f, "{offset:#x}"),
        }
    }
}

fn jumps(base: &str) -> bool {
    matches!(base, "BRA" | "CALL" | "JMP" | "BSSY" | "BRX")
}

/// `` `(.L_x_0) `` of nvdisasm, `0x1230` of cuobjdump.
fn label(operand: &str) -> Option<Label> {
    if let Some(name) = operand.strip_prefix("`(") {
        return Some(Label::Name(name.trim_end_matches(')').to_owned()));
    }
    let digits = operand.strip_prefix("0x")?;
    u32::from_str_radix(digits, 16).ok().map(Label::Offset)
}

/// `.text.matmul` of `.section .text.matmul,"ax",@progbits`.
fn section_name(rest: &str) -> Option<&str> {
    rest.trim().split(',').next()?.strip_prefix(".text.")
}

/// The text of a comment at the start of the line, and the rest of the line.
fn comment(line: &str) -> Option<(&str, &str)> {
    let (inner, rest) = line.strip_prefix("/*")?.split_once("*/")?;
    Some((inner.trim(), rest))
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

fn guarded(text: &str) -> (Option<Guard>, &str) {
    let Some(rest) = text.strip_prefix('@') else { return (None, text) };
    let (name, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let negated = name.starts_with('!');
    let register = operand::register(name.trim_start_matches('!'));
    (Some(Guard { register, negated }), rest.trim())
}

/// The opcode, and the operands split at commas outside brackets.
pub(super) fn split(text: &str) -> (String, Vec<String>) {
    let (opcode, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let mut operands = Vec::new();
    let (mut depth, mut start) = (0_u32, 0);
    for (at, c) in rest.char_indices() {
        match c {
            '[' | '(' | '{' => depth += 1,
            ']' | ')' | '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                operands.push(rest.get(start..at).unwrap_or_default().trim().to_owned());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = rest.get(start..).unwrap_or_default().trim();
    if !last.is_empty() {
        operands.push(last.to_owned());
    }
    (opcode.to_owned(), operands)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
	.section	.text.scale,"ax",@progbits
scale:
.text.scale:
	//## File ".nv_debug_ptx_txt", line 26
	//## File "scale.cu", line 3
        /*0000*/                   IMAD.MOV.U32 R1, RZ, RZ, c[0x0][0x28] ;   /* 0x00000a00ff017624 */
                                                                             /* 0x000fe400078e00ff */
.L_x_2:
        /*0010*/              @!P2 LDG.E.128 R8, [R2.64] ;                   /* 0x0000000000057919 */
                                                                             /* 0x000ea80000002500 */
	//## File ".nv_debug_ptx_txt", line 30
        /*0020*/               @P0 BRA `(.L_x_2) ;                           /* 0x0000003f00007810 */
                                                                             /* 0x004fc80007ffe0ff */
        /*0030*/                   EXIT ;                                    /* 0x000000000000794d */
                                                                             /* 0x000fea0003800000 */
.L_x_5:
"#;

    #[test]
    fn a_function_with_lines_labels_and_control_bits() {
        let functions = parse(TEXT).unwrap();
        assert_eq!(functions.len(), 1);
        let [mov, load, jump, exit] = functions[0].instructions.as_slice() else { panic!("four") };
        assert_eq!(functions[0].name, "scale");
        assert_eq!((mov.ptx_line, mov.source.clone()), (Some(26), Some(("scale.cu".into(), 3))));
        assert_eq!((mov.control.stall, mov.control.yields), (2, false));
        assert_eq!(load.control.write_barrier, Some(2));
        assert!(load.is_guarded() && load.guard.is_some_and(|g| g.negated));
        assert_eq!(load.offset, 0x10);
        assert_eq!(jump.control.waits_for().collect::<Vec<u8>>(), [2]);
        assert_eq!((jump.target, jump.ptx_line), (Some(1), Some(30)));
        assert_eq!(exit.base(), "EXIT");
    }

    #[test]
    fn what_cannot_be_used_is_said() {
        assert_eq!(parse("nothing"), Err(ParseError::Empty));
        let bare = "/*0000*/ EXIT ;\n";
        assert_eq!(parse(bare), Err(ParseError::NoEncoding { line: 1 }));
        let cut = "/*0000*/ EXIT ; /* 0x000000000000794d */\n";
        assert_eq!(parse(cut), Err(ParseError::NoEncoding { line: 1 }));
        let lost = "/*0000*/ BRA `(.L_x_9) ; /* 0x000000000000794d */\n/* 0x000fea0003800000 */\n";
        assert!(matches!(parse(lost), Err(ParseError::NoTarget { line: 1, .. })));
    }

    #[test]
    fn damaged_text_is_read_without_panic() {
        for length in 0..TEXT.len() {
            let _ = parse(TEXT.get(..length).unwrap_or_default());
        }
        for byte in ['/', '*', ';', '@', '[', '"', '`', '\u{fffd}'] {
            for at in (0..TEXT.len()).step_by(3) {
                let mut text = TEXT.to_owned();
                text.insert(at, byte);
                let _ = parse(&text);
            }
        }
    }
}
