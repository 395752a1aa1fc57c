//! How values flow through each instruction, and which uses of a value are observable. Decoded once from the program
//! and shared by the checks that follow values (`init`, `taint`).

use super::fragment::{Shape, shape_of};
use super::site::Words;
use crate::machine::{Registers, Type, Width, at};
use crate::program::{Meta, Program};

/// An operand that is not a register: a constant, a special register, `_`.
pub(super) const NO_ROW: u32 = u32::MAX;

/// A use of a value that makes it observable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Address,
    /// Decides a branch.
    Branch,
    /// Decides whether another instruction is executed, or how much it copies.
    Condition,
    /// The target of a branch or call.
    Target,
    /// An operand of a matrix multiplication.
    Matrix,
    /// An operand of a barrier.
    Barrier,
    /// Chooses lanes.
    Lanes,
    /// Stored to global memory.
    Store,
    /// Memory that an atomic operation modifies.
    Atomic,
}

/// How results depend on sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// All bytes of a result are poisoned if any byte of a source is.
    Any,
    /// The results come from memory or a callee: they are clean until the access or the return is observed.
    Fresh,
    /// The same for each half of a word.
    Halves,
    /// The consecutive parts of the source; bytes of a part.
    Unpack(u32),
    Pack(u32),
    /// Each bit of the result depends on the same bit of the sources, by the truth table of up to three inputs.
    Bitwise(u8),
    /// Bits are moved.
    Shuffle(BitMove),
    /// `selp`.
    Select,
    /// `setp` combined with a predicate, which alone decides the result if it has this value.
    Compare(bool),
    /// Each lane's result depends on all lanes that take part in the exchange.
    Vote,
    /// The same, without an exchange.
    VoteHere,
    /// A lane's result is the value of another lane, known from the exchange.
    Lanes,
    /// `movmatrix`.
    Transpose,
    /// Integer arithmetic on whole registers.
    Arithmetic(Arithmetic),
    /// `mma` or `wmma.mma`: an element depends on a row of A, a column of B, and an element of C.
    Multiply(Shape),
}

/// Integer arithmetic under which a sum of addresses stays a sum of addresses, and comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Sub,
    /// Whether the result is twice as wide as the factors.
    Multiply {
        wide: bool,
    },
    MultiplyAdd {
        wide: bool,
    },
    /// `cvta`: the same address in another space.
    Space,
    /// `setp` without another predicate.
    Compare,
}

/// An instruction that moves bits of its first operands, controlled by the last ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BitMove {
    Shl(u32),
    Shr(u32, bool),
    Funnel {
        left: bool,
        wrap: bool,
    },
    Extract(u32, bool),
    Insert(u32),
    Permute,
    /// Bytes and sign of the source, and of the result.
    Convert((u32, bool), (u32, bool)),
}

impl BitMove {
    /// How many of the sources are moved; the others control the move.
    pub(super) fn moved(self) -> usize {
        match self {
            BitMove::Shl(_) | BitMove::Shr(..) | BitMove::Extract(..) | BitMove::Convert(..) => 1,
            BitMove::Funnel { .. } | BitMove::Insert(_) | BitMove::Permute => 2,
        }
    }
}

/// Which part of an access is in which register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traffic {
    /// No data in registers that the checks follow.
    None,
    /// Elements of `bytes` bytes, one per row, sign-extended or not.
    Elements { bytes: u32, signed: bool },
    /// `ldmatrix`, `stmatrix`: transposed or not.
    Matrix { trans: bool },
    /// `wmma.load`, `wmma.store`: register by register, each in one access or element by element.
    Fragment,
    /// Any of the rows.
    Any,
}

/// The part that the fast path needs: where the rows of an instruction are listed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hot {
    start: u32,
    reads: u16,
    writes: u16,
    /// The guard's row, or [`NO_ROW`].
    pub(super) guard: u32,
}

/// The rest, needed only if an operand is poisoned.
#[derive(Clone, Debug)]
pub(super) struct Cold {
    pub(super) rule: Rule,
    pub(super) uses: Vec<(u32, Use, u32)>,
    /// The operands that the rule refers to, results first; includes constants.
    pub(super) operands: Vec<u32>,
    /// Which of them are negated predicates.
    pub(super) not: u32,
    pub(super) traffic: Traffic,
    /// The registers that `traffic` refers to.
    pub(super) rows: Vec<u32>,
    /// Whether the access loads into the registers.
    pub(super) loads: bool,
    /// The rows of the addresses.
    pub(super) addresses: Vec<u32>,
    pub(super) branch: bool,
    /// Compares for equality or its opposite.
    pub(super) equality: bool,
}

impl Cold {
    /// How many of the operands are results.
    pub(super) fn results(&self) -> usize {
        match self.rule {
            Rule::Compare(_) => 2,
            Rule::Arithmetic(Arithmetic::Compare) => self.operands.len().saturating_sub(2),
            _ => 1,
        }
    }
}

/// Numbers the rows of all register files consecutively: 32 bits, 64, 128, predicates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbering {
    starts: [u32; 4],
    count: u32,
}

impl Numbering {
    fn of(program: &Program) -> Numbering {
        let regs = &program.registers;
        let length = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let lengths = [regs.w32.len(), regs.w64.len(), regs.w128.len(), regs.preds.len()].map(length);
        let mut starts = [0; 4];
        let mut count = 0u32;
        for (start, length) in starts.iter_mut().zip(lengths) {
            *start = count;
            count = count.saturating_add(length);
        }
        Numbering { starts, count }
    }

    pub(super) fn number(&self, width: Width, row: u32) -> u32 {
        row + self.starts[match width {
            Width::W32 => 0,
            Width::W64 => 1,
            Width::W128 => 2,
            Width::Pred => 3,
        }]
    }

    pub(super) fn row(&self, number: u32) -> (Width, u32) {
        let files = [Width::W32, Width::W64, Width::W128, Width::Pred];
        let file = self.starts.iter().rposition(|start| number >= *start).unwrap_or(0);
        (files[file], number - self.starts[file])
    }

    /// All bytes of a row; a predicate counts as one.
    pub(super) fn full(&self, number: u32) -> u16 {
        match self.row(number).0 {
            Width::Pred => 1,
            Width::W32 => 0xf,
            Width::W64 => 0xff,
            Width::W128 => 0xffff,
        }
    }
}

/// The facts about all instructions of a program.
#[derive(Debug)]
pub(crate) struct Facts {
    hot: Vec<Hot>,
    cold: Vec<Cold>,
    rows: Vec<u32>,
    pub(super) numbering: Numbering,
    /// The lanes of each row that are uninitialized when a warp starts: all lanes of every register.
    pub(super) start: Vec<u32>,
}

impl Facts {
    pub(crate) fn of(program: &Program) -> Facts {
        let numbering = Numbering::of(program);
        let mut facts = Facts {
            hot: Vec::with_capacity(program.code.len()),
            cold: Vec::with_capacity(program.code.len()),
            rows: Vec::new(),
            numbering,
            start: vec![0; at(numbering.count)],
        };
        for meta in &program.metas {
            for (width, row) in meta.reads.iter().chain(&meta.writes) {
                if let Some(start) = facts.start.get_mut(at(numbering.number(*width, *row))) {
                    *start = u32::MAX;
                }
            }
        }
        for pc in 0..program.code.len().min(program.metas.len()) {
            facts.add(program, pc);
        }
        facts
    }

    fn add(&mut self, program: &Program, pc: usize) {
        let numbering = self.numbering;
        let (inst, meta) = (&program.code[pc], &program.metas[pc]);
        let guard = inst.guard.map_or(NO_ROW, |(row, _)| numbering.number(Width::Pred, row));
        let reads = meta.reads.len() - usize::from(inst.guard.is_some()).min(meta.reads.len());
        let text = program.text().get(at(meta.span.0)..at(meta.span.1)).unwrap_or("");
        let words = Words::of(text);
        let start = self.rows.len();
        self.rows.extend(meta.reads[..reads].iter().map(|(width, row)| numbering.number(*width, *row)));
        let mid = self.rows.len();
        self.rows.extend(meta.writes.iter().map(|(width, row)| numbering.number(*width, *row)));
        // When a recursive function returns, the registers of the caller's frame are restored.
        if words.opcode == "ret"
            && let Some(callee) =
                meta.function.and_then(|i| program.callees.get(at(i))).filter(|f| f.recursive)
        {
            let files = [Width::W32, Width::W64, Width::W128, Width::Pred];
            for (width, (from, to)) in files.into_iter().zip(callee.rows) {
                self.rows.extend((from..to).map(|row| numbering.number(width, row)));
            }
        }
        let short = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
        self.hot.push(Hot {
            start: u32::try_from(start).unwrap_or(u32::MAX),
            reads: short(mid - start),
            writes: short(self.rows.len() - mid),
            guard,
        });
        let reader = Reader { program, pc, numbering, words, text, reads: &meta.reads[..reads] };
        self.cold.push(reader.cold(meta));
    }

    /// The rows an instruction reads and writes, and its guard.
    #[inline]
    pub(super) fn rows(&self, pc: u32) -> (&[u32], &[u32], u32) {
        let Some(hot) = self.hot.get(at(pc)) else { return (&[], &[], NO_ROW) };
        let (start, reads) = (at(hot.start), usize::from(hot.reads));
        let rows = self.rows.get(start..start + reads + usize::from(hot.writes)).unwrap_or(&[]);
        let (reads, writes) = rows.split_at(reads.min(rows.len()));
        (reads, writes, hot.guard)
    }

    pub(super) fn cold(&self, pc: u32) -> Option<&Cold> {
        self.cold.get(at(pc))
    }

    /// The value of a row.
    pub(super) fn value(&self, registers: &Registers, row: u32, lane: usize) -> u64 {
        let (width, row) = self.numbering.row(row);
        match width {
            Width::W32 => registers.w32.get(at(row)).map_or(0, |row| u64::from(row.0[lane])),
            Width::W64 => registers.w64.get(at(row)).map_or(0, |row| row.0[lane]),
            Width::W128 => 0,
            Width::Pred => registers.preds.get(at(row)).map_or(0, |row| u64::from(row >> lane & 1)),
        }
    }
}

/// Whether a type is a scalar integer type.
fn integer(ty: Option<Type>) -> bool {
    use Type::{S16, S32, S64, U16, U32, U64};
    matches!(ty, Some(U16 | S16 | U32 | S32 | U64 | S64))
}

/// The register file of a product that is twice as wide as its factors.
fn wider(width: Width, bytes: u32) -> Width {
    if bytes < 4 { width } else { Width::W64 }
}

/// An instruction being decoded.
struct Reader<'a> {
    program: &'a Program,
    pc: usize,
    numbering: Numbering,
    words: Words<'a>,
    text: &'a str,
    /// Rows it reads, except the guard.
    reads: &'a [(Width, u32)],
}

impl Reader<'_> {
    fn cold(&self, meta: &Meta) -> Cold {
        let args = &self.program.code[self.pc].args;
        let mut cold = Cold {
            rule: Rule::Any,
            uses: self.uses(),
            operands: Vec::new(),
            not: args.not,
            traffic: Traffic::None,
            rows: Vec::new(),
            loads: self.loads(),
            addresses: self
                .addresses()
                .iter()
                .map(|(width, row)| self.numbering.number(*width, *row))
                .collect(),
            branch: self.words.opcode == "bra",
            equality: self.words.has("eq") || self.words.has("ne"),
        };
        if meta.entry.is_none() {
            cold.rule = Rule::Fresh;
            return cold;
        }
        if let Some((rule, widths)) = self.rule()
            && widths.len() == args.all.len()
        {
            cold.rule = rule;
            cold.operands = widths
                .iter()
                .zip(&args.all)
                .map(|(width, row)| self.numbering.number(*width, *row))
                .collect();
        } else {
            cold.rule = self.plain_rule();
        }
        (cold.traffic, cold.rows) = self.traffic(meta);
        cold
    }

    fn ty(&self) -> Option<Type> {
        self.words.modifiers.last().and_then(|name| Type::parse(name))
    }

    /// Rules that need no operands.
    fn plain_rule(&self) -> Rule {
        match self.words.opcode {
            "ld" | "ldu" | "ldmatrix" | "st" | "stmatrix" | "atom" | "red" | "call" | "ret" | "cp" => {
                Rule::Fresh
            }
            "wmma" if !self.words.has("mma") => Rule::Fresh,
            "vote" if !self.words.has("sync") => Rule::VoteHere,
            "vote" | "match" | "redux" | "elect" => Rule::Vote,
            "add" | "sub" | "mul" | "fma" | "min" | "max" | "neg" | "abs" | "tanh" | "ex2"
                if self.words.modifiers.last().is_some_and(|ty| ty.ends_with("x2")) =>
            {
                Rule::Halves
            }
            _ => Rule::Any,
        }
    }

    /// Rules that depend on operands, and the register files of all operands.
    fn rule(&self) -> Option<(Rule, Vec<Width>)> {
        let ty = self.ty();
        let width = ty.map_or(Width::W32, Type::width);
        let bytes = ty.map_or(4, Type::bytes);
        let signed = ty.is_some_and(Type::is_signed);
        let all = self.program.code[self.pc].args.all.len();
        let word = Width::W32;
        Some(match self.words.opcode {
            "mov" if all == 2 => (Rule::Bitwise(0xf0), vec![width; 2]),
            "mov" if all > 2 && bytes > 0 => {
                let parts = all - 1;
                let part = bytes / u32::try_from(parts).ok()?;
                let file = match part {
                    0 => return None,
                    1..=4 => word,
                    _ => Width::W64,
                };
                let mut widths = vec![file; parts];
                if self.operands().starts_with('{') {
                    widths.push(width);
                    (Rule::Unpack(part), widths)
                } else {
                    widths.insert(0, width);
                    (Rule::Pack(part), widths)
                }
            }
            "and" => (Rule::Bitwise(0xf0 & 0xcc), vec![width; 3]),
            "or" => (Rule::Bitwise(0xf0 | 0xcc), vec![width; 3]),
            "xor" => (Rule::Bitwise(0xf0 ^ 0xcc), vec![width; 3]),
            "not" => (Rule::Bitwise(0x0f), vec![width; 2]),
            "lop3" if all == 4 => (Rule::Bitwise(self.table()?), vec![word; 4]),
            "shl" => (Rule::Shuffle(BitMove::Shl(bytes)), vec![width, width, word]),
            "shr" => (Rule::Shuffle(BitMove::Shr(bytes, signed)), vec![width, width, word]),
            "shf" => {
                let funnel = BitMove::Funnel { left: self.words.has("l"), wrap: self.words.has("wrap") };
                (Rule::Shuffle(funnel), vec![word; 4])
            }
            "bfe" => (Rule::Shuffle(BitMove::Extract(bytes, signed)), vec![width, width, word, word]),
            "bfi" => (Rule::Shuffle(BitMove::Insert(bytes)), vec![width, width, width, word, word]),
            "prmt" if self.words.modifiers == ["b32"] => (Rule::Shuffle(BitMove::Permute), vec![word; 4]),
            "cvt" if all == 2 && self.words.modifiers.len() == 2 => {
                let source = ty?;
                let target = Type::parse(self.words.modifiers[0])?;
                let integer = |ty: Type| !matches!(ty, Type::B16 | Type::B32 | Type::B64) && !ty.is_float();
                if !integer(source) || !integer(target) || source.bytes() == 0 || target.bytes() == 0 {
                    return None;
                }
                let from = (source.bytes(), source.is_signed());
                let to = (target.bytes(), target.is_signed());
                let target = self.program.metas[self.pc].writes.first().map_or(target.width(), |(w, _)| *w);
                let source = self.reads.first().map_or(source.width(), |(w, _)| *w);
                (Rule::Shuffle(BitMove::Convert(from, to)), vec![target, source])
            }
            "selp" => (Rule::Select, vec![width, width, width, Width::Pred]),
            "setp" if all == 5 && (self.words.has("and") || self.words.has("or")) => {
                let source = if ty? == Type::Pred { return None } else { width };
                (
                    Rule::Compare(self.words.has("or")),
                    vec![Width::Pred, Width::Pred, source, source, Width::Pred],
                )
            }
            "cvta" => (Rule::Arithmetic(Arithmetic::Space), vec![width; 2]),
            // One result or two.
            "setp" if (all == 3 || all == 4) && ty.is_some_and(|ty| ty != Type::Pred) => {
                let mut widths = vec![Width::Pred; all - 2];
                widths.extend([width; 2]);
                (Rule::Arithmetic(Arithmetic::Compare), widths)
            }
            "add" | "sub" | "mul" | "mad" if !integer(ty) || self.words.has("cc") || self.words.has("hi") => {
                return None;
            }
            "add" if all == 3 => (Rule::Arithmetic(Arithmetic::Add), vec![width; 3]),
            "sub" if all == 3 => (Rule::Arithmetic(Arithmetic::Sub), vec![width; 3]),
            "mul" if all == 3 => {
                let wide = self.words.has("wide");
                let result = if wide { wider(width, bytes) } else { width };
                (Rule::Arithmetic(Arithmetic::Multiply { wide }), vec![result, width, width])
            }
            "mad" if all == 4 => {
                let wide = self.words.has("wide");
                let result = if wide { wider(width, bytes) } else { width };
                (Rule::Arithmetic(Arithmetic::MultiplyAdd { wide }), vec![result, width, width, result])
            }
            "shfl" => {
                let mut widths = vec![word; all];
                *widths.get_mut(1)? = Width::Pred;
                (Rule::Lanes, widths)
            }
            "movmatrix" => (Rule::Transpose, vec![word; 2]),
            "mma" | "wmma" => (Rule::Multiply(shape_of(&self.words)?), vec![word; all]),
            _ => return None,
        })
    }

    /// The operands as written.
    fn operands(&self) -> &str {
        let text = self.text.trim();
        let text = if text.starts_with('@') {
            text.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim_start())
        } else {
            text
        };
        text.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim_start())
    }

    /// The truth table of `lop3`.
    fn table(&self) -> Option<u8> {
        let last = self.operands().rsplit(',').next()?.trim().trim_end_matches(';').trim();
        match last.strip_prefix("0x").or(last.strip_prefix("0X")) {
            Some(digits) => u8::from_str_radix(digits.trim_end_matches(['U', 'u']), 16).ok(),
            None => last.trim_end_matches(['U', 'u']).parse().ok(),
        }
    }

    fn addresses(&self) -> Vec<(Width, u32)> {
        let args = &self.program.code[self.pc].args;
        let bracketed = self.text.matches('[').count();
        let row = |i: usize| (if args.at[i].wide { Width::W64 } else { Width::W32 }, args.at[i].row);
        (0..bracketed.min(2)).map(row).filter(|row| self.reads.contains(row)).collect()
    }

    fn uses(&self) -> Vec<(u32, Use, u32)> {
        let all = &self.program.code[self.pc].args.all;
        let numbered = |(width, row): &(Width, u32)| self.numbering.number(*width, *row);
        let every = |used: Use| self.reads.iter().map(|row| (numbered(row), used, u32::MAX)).collect();
        // Rows of 32 bits; constants are never poisoned.
        let words = |rows: &[u32], used: Use| -> Vec<(u32, Use, u32)> {
            rows.iter().map(|row| (self.numbering.number(Width::W32, *row), used, u32::MAX)).collect()
        };
        match self.words.opcode {
            "ld" | "ldu" | "st" | "atom" | "red" | "mbarrier" => {
                self.addresses().iter().map(|row| (numbered(row), Use::Address, u32::MAX)).collect()
            }
            "ldmatrix" | "stmatrix" => {
                // Only the lanes that name a row need an address.
                let lanes = match self.words.modifiers.iter().find(|m| m.starts_with('x')) {
                    Some(&"x1") => 0xff,
                    Some(&"x2") => 0xffff,
                    _ => u32::MAX,
                };
                self.addresses().iter().map(|row| (numbered(row), Use::Address, lanes)).collect()
            }
            "cp" => {
                let addresses = self.addresses();
                let used = |row: &(Width, u32)| match (addresses.contains(row), row.0) {
                    (true, _) => Some((numbered(row), Use::Address, u32::MAX)),
                    (false, Width::W64) => None,
                    (false, _) => Some((numbered(row), Use::Condition, u32::MAX)),
                };
                self.reads.iter().filter_map(used).collect()
            }
            "mma" => every(Use::Matrix),
            "wmma" if self.words.has("mma") => every(Use::Matrix),
            "wmma" if self.words.has("load") => every(Use::Address),
            "wmma" => self.addresses().iter().map(|row| (numbered(row), Use::Address, u32::MAX)).collect(),
            "brx" => every(Use::Target),
            "call" => {
                let target = self.operands();
                let target = match target.strip_prefix('(') {
                    Some(rest) => {
                        rest.split_once(')').map_or("", |(_, rest)| rest.trim_start_matches([',', ' ']))
                    }
                    None => target,
                };
                let pointer = self.reads.last().filter(|row| target.starts_with('%') && row.0 == Width::W64);
                pointer.map(|row| (numbered(row), Use::Target, u32::MAX)).into_iter().collect()
            }
            "shfl" => words(all.get(3..).unwrap_or(&[]), Use::Lanes),
            "vote" | "match" | "redux" if self.words.has("sync") => {
                words(all.last().map_or(&[], std::slice::from_ref), Use::Lanes)
            }
            "elect" => every(Use::Lanes),
            "bar" if self.words.has("warp") => every(Use::Lanes),
            "bar" | "barrier" => every(Use::Barrier),
            _ => Vec::new(),
        }
    }

    /// Whether an access only loads into registers.
    fn loads(&self) -> bool {
        matches!(self.words.opcode, "ld" | "ldu" | "ldmatrix" | "wmma") && !self.words.has("store")
    }

    fn traffic(&self, meta: &Meta) -> (Traffic, Vec<u32>) {
        let all = &self.program.code[self.pc].args.all;
        let bytes = self.ty().map_or(4, Type::bytes);
        let signed = self.ty().is_some_and(Type::is_signed);
        let known = if self.loads() { &meta.writes[..] } else { self.reads };
        // The rows of one access are in one register file; the type gives its minimum width.
        let files = [Width::W32, Width::W64, Width::W128];
        let least = self.ty().map_or(Width::W32, Type::width);
        let rows = |count: usize| -> Vec<u32> {
            let rows = all.get(..count.min(all.len())).unwrap_or(&[]);
            let file = files
                .into_iter()
                .filter(|file| *file >= least)
                .find(|file| rows.iter().any(|row| known.contains(&(*file, *row))));
            let number = |row: &u32| {
                file.filter(|file| known.contains(&(*file, *row)))
                    .map_or(NO_ROW, |file| self.numbering.number(file, *row))
            };
            rows.iter().map(number).collect()
        };
        let every = |skipped: &[(Width, u32)]| -> Vec<u32> {
            let kept = known.iter().filter(|row| !skipped.contains(row));
            kept.map(|(width, row)| self.numbering.number(*width, *row)).collect()
        };
        match self.words.opcode {
            "ld" | "ldu" | "st" => {
                let vector = self.words.modifiers.iter().find_map(|m| m.strip_prefix('v')?.parse().ok());
                (Traffic::Elements { bytes, signed }, rows(vector.unwrap_or(1)))
            }
            "ldmatrix" | "stmatrix" => (Traffic::Matrix { trans: self.words.has("trans") }, rows(4)),
            "wmma" if self.words.has("load") => (Traffic::Fragment, rows(meta.writes.len())),
            "wmma" if self.words.has("store") => {
                let stride = self.text.rsplit('}').next().is_some_and(|rest| rest.contains(','));
                (Traffic::Fragment, rows(all.len() - usize::from(stride).min(all.len())))
            }
            "atom" | "red" => (Traffic::Any, every(&self.addresses())),
            _ => (Traffic::None, Vec::new()),
        }
    }
}
