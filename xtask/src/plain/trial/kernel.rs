//! Random kernels: divergence and loops, loads and stores of all widths and patterns, atomics, barriers, exchanges between lanes,
//! asynchronous copies and matrix products. Some have defects: uninitialized values, races, accesses out of bounds.

use super::choices::Choices;
use std::fmt::Write as _;

/// Bytes of each buffer of the kernel, except its output.
pub(crate) const BUFFER: u32 = 4096;

/// A kernel and its launch. It has four buffers: an input, an output of a word for each thread, one to read and write, and scratch
/// memory; and a number.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub(crate) text: String,
    pub(crate) grid: u32,
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
}

impl Kernel {
    /// Threads of the grid.
    pub(crate) fn threads(&self) -> u32 {
        self.grid * self.block.iter().product::<u32>()
    }

    /// Writes a kernel.
    pub(crate) fn new(choices: &mut Choices<'_>) -> Kernel {
        let block = choices.of(&[
            [32, 1, 1],
            [64, 1, 1],
            [64, 1, 1],
            [96, 1, 1],
            [128, 1, 1],
            [128, 1, 1],
            [33, 1, 1],
            [50, 1, 1],
            [1, 1, 1],
            [16, 4, 1],
            [8, 3, 2],
            [160, 1, 1],
        ]);
        let grid = if choices.one_in(40) { 70 } else { choices.of(&[1, 1, 2, 2, 3, 5]) };
        let shared = choices.of(&[0, 0, 256, 1024]);
        let mut writer = Writer {
            text: String::new(),
            labels: 0,
            depth: 0,
            budget: 4 + choices.below(28),
            defects: [8, 3, 10, 6, 4, 6].map(|odds| choices.one_in(odds)),
            addresses: [Address::default(); 8],
            choices,
        };
        writer.kernel();
        Kernel { text: writer.text, grid, block, shared }
    }
}

/// What only some kernels have, because everything else in a kernel would be lost in its effects.
#[derive(Clone, Copy)]
pub(super) enum Defect {
    /// Accesses that are misaligned or out of bounds.
    Wild,
    /// Reads of registers and memory that were not written.
    Unset,
    /// Blocks that communicate by the results of atomics, volatile accesses and fences.
    Talks,
    /// Stores to any element, and not only to the thread's own.
    Races,
    /// No fills of shared memory before it is used.
    Bare,
    /// Barriers and exchanges in divergent code.
    Apart,
}

/// What is known of a register with an address.
#[derive(Clone, Copy, Default)]
struct Address {
    /// It is a multiple of this.
    align: u32,
    /// It is in the input.
    input: bool,
}

/// The width of an access: its suffix, its registers, and its bytes.
pub(super) const WIDTHS: [(&str, Registers, u32); 16] = [
    ("u32", Registers::Word, 4),
    ("u32", Registers::Word, 4),
    ("f32", Registers::Float, 4),
    ("b32", Registers::Word, 4),
    ("u8", Registers::Word, 1),
    ("s8", Registers::Word, 1),
    ("u16", Registers::Short, 2),
    ("s16", Registers::Word, 2),
    ("b64", Registers::Double, 8),
    ("f64", Registers::Wide, 8),
    ("v2.u32", Registers::Words(2), 8),
    ("v2.f32", Registers::Floats(2), 8),
    ("v4.u32", Registers::Words(4), 16),
    ("v4.f32", Registers::Floats(4), 16),
    ("v2.b64", Registers::Doubles(2), 16),
    ("v2.u16", Registers::Shorts(2), 4),
];

#[derive(Clone, Copy)]
pub(super) enum Registers {
    Word,
    Short,
    Float,
    Double,
    Wide,
    Words(u32),
    Floats(u32),
    Doubles(u32),
    Shorts(u32),
}

pub(super) fn at(number: u32) -> usize {
    usize::try_from(number).unwrap_or(0)
}

/// Registers of each kind that instructions compute with.
pub(super) const VALUES: u32 = 8;

pub(super) struct Writer<'w, 'c> {
    pub(super) text: String,
    labels: u32,
    pub(super) depth: u32,
    /// Remaining statements.
    budget: u32,
    defects: [bool; 6],
    /// Of the registers `%s0` to `%s3` for shared memory, and `%g0` to `%g3` for global memory.
    addresses: [Address; 8],
    pub(super) choices: &'w mut Choices<'c>,
}

impl Writer<'_, '_> {
    pub(super) fn has(&self, defect: Defect) -> bool {
        let number = match defect {
            Defect::Wild => 0,
            Defect::Unset => 1,
            Defect::Talks => 2,
            Defect::Races => 3,
            Defect::Bare => 4,
            Defect::Apart => 5,
        };
        self.defects[number]
    }

    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// A register of a kind; rarely one that nothing has written.
    pub(super) fn register(&mut self, kind: char) -> String {
        if self.has(Defect::Unset) && self.choices.one_in(24) {
            return format!("%{kind}{VALUES}");
        }
        self.target(kind)
    }

    /// A register of a kind to be written.
    pub(super) fn target(&mut self, kind: char) -> String {
        format!("%{kind}{}", self.choices.below(VALUES))
    }

    fn kernel(&mut self) {
        self.text.push_str(concat!(
            ".version 8.7\n.target sm_90\n.address_size 64\n",
            ".const .align 16 .b32 table[64] = {1, 2, 3, 5, 8, 13, 21, 34, 55, 89};\n",
            ".global .align 16 .b32 words[64] = {7, 6, 5, 4, 3, 2, 1};\n",
            ".global .align 1 .b8 format[8] = {37, 117, 32, 37, 117, 10, 0};\n",
            ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n",
            ".func (.param .b32 r) twice(.param .b32 a) {\n.reg .b32 %v; .reg .pred %q;\n",
            "ld.param.b32 %v, [a]; setp.gt.u32 %q, %v, 40; @%q bra END; add.u32 %v, %v, %v;\nEND:\n",
            "st.param.b32 [r], %v; ret;\n}\n",
            ".visible .entry k(.param .u64 in, .param .u64 out, .param .u64 both, .param .u64 scratch, .param .u32 n) {\n",
            ".reg .pred %p<10>; .reg .b16 %h<10>; .reg .b32 %x<10>; .reg .f32 %f<10>; .reg .b64 %d<10>;\n",
            ".reg .f64 %e<10>; .reg .b32 %s<8>; .reg .b64 %g<8>; .reg .b64 %v<4>; .reg .b64 %in, %out, %both, %scratch;\n",
            ".reg .b32 %t, %lane, %cta, %size, %id, %i, %j, %c<8>, %n, %own; .reg .b64 %wide, %to, %mine;\n",
            ".shared .align 128 .b8 tile[2048]; .shared .align 16 .b8 more[256];\n",
            ".extern .shared .align 16 .b8 dynamic[]; .local .align 16 .b8 frame[128];\n",
            ".param .b32 pr; .param .b32 pa; .param .b64 pf; .param .b64 pv;\n",
            "ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; ld.param.u64 %both, [both];\n",
            "ld.param.u64 %scratch, [scratch]; ld.param.u32 %n, [n];\n",
            "mov.u32 %t, %tid.x; mov.u32 %i, %tid.y; mov.u32 %j, %ntid.x; mad.lo.u32 %t, %i, %j, %t;\n",
            "mov.u32 %size, %ntid.y; mul.lo.u32 %size, %size, %j; mov.u32 %i, %tid.z; mad.lo.u32 %t, %i, %size, %t;\n",
            "mov.u32 %j, %ntid.z; mul.lo.u32 %size, %size, %j;\n",
            "mov.u32 %lane, %laneid; mov.u32 %cta, %ctaid.x; mad.lo.u32 %id, %cta, %size, %t;\n",
            "mul.wide.u32 %to, %id, 4; add.u64 %to, %to, %out; shl.b32 %i, %id, 2; and.b32 %i, %i, 4092;\n",
            "cvt.u64.u32 %mine, %i; add.u64 %mine, %mine, %both; mov.u32 %own, tile; shl.b32 %i, %t, 2;\n",
            "add.u32 %own, %own, %i;\n",
        ));
        for i in 0..VALUES {
            let start = self.choices.of(&["%t", "%lane", "%cta", "%n", "7", "0x3f800000", "-3", "%id"]);
            let float = self.choices.of(&["0f00000000", "0f3f800000", "0fbfc00000", "0f4b000000"]);
            let test = self.choices.of(&["%lane, 16", "%t, 40", "%cta, 1", "%lane, 3", "%t, 1000"]);
            writeln!(
                self.text,
                "add.u32 %x{i}, {start}, {i}; cvt.rn.f32.u32 %f{i}, %x{i}; add.f32 %f{i}, %f{i}, {float};\n\
                 cvt.u64.u32 %d{i}, %x{i}; cvt.f64.f32 %e{i}, %f{i}; cvt.u16.u32 %h{i}, %x{i};\n\
                 setp.lt.u32 %p{i}, {test};"
            )
            .ok();
        }
        if !self.has(Defect::Bare) {
            self.fill();
        }
        for number in 0..8 {
            self.address(number);
        }
        self.body();
        self.end();
    }

    /// Each thread writes its part of shared memory, and all wait.
    fn fill(&mut self) {
        let label = self.label();
        writeln!(
            self.text,
            "mov.u32 %i, tile; mad.lo.u32 %i, %t, 4, %i; mov.u32 %j, %t;\nL{label}:\n\
             st.shared.u32 [%i], %j; shl.b32 %c7, %size, 2; add.u32 %i, %i, %c7; add.u32 %j, %j, %size;\n\
             setp.lt.u32 %p9, %j, 576; @%p9 bra L{label}; bar.sync 0;"
        )
        .ok();
    }

    /// All that a thread has computed goes into its element of the output.
    fn end(&mut self) {
        let parts = 1 + self.choices.below(VALUES);
        self.line("mov.u32 %i, 17;");
        for _ in 0..parts {
            let (x, f, d, p) = (self.target('x'), self.target('f'), self.target('d'), self.target('p'));
            writeln!(
                self.text,
                "mad.lo.u32 %i, %i, 5, {x}; mov.b32 %j, {f}; xor.b32 %i, %i, %j; cvt.u32.u64 %j, {d};\n\
                 add.u32 %i, %i, %j; selp.u32 %j, 1, 0, {p}; add.u32 %i, %i, %j;"
            )
            .ok();
        }
        self.line("st.global.u32 [%to], %i;\nret;\n}");
    }

    pub(super) fn label(&mut self) -> u32 {
        self.labels += 1;
        self.labels
    }

    /// Puts addresses into a register: of shared memory into the first four, of global memory into the others.
    fn address(&mut self, number: usize) {
        let factor = 3 + 2 * self.choices.below(20);
        let place = 4 * self.choices.below(24);
        let value = self.register('x');
        let index = match self.choices.below(12) {
            0..=2 => "mov.u32 %i, %t;".to_owned(),
            3 => "mov.u32 %i, %lane;".to_owned(),
            4 => "shr.u32 %i, %t, 4;".to_owned(),
            5 => format!("mov.u32 %i, {place};"),
            6 => format!("mul.lo.u32 %i, %t, {factor};"),
            7 => format!("xor.b32 %i, %t, {place};"),
            8 => format!("mul.lo.u32 %i, %t, 0x9e3779b1; shr.u32 %i, %i, {};", 18 + self.choices.below(6)),
            9 => format!("mov.u32 %i, {value};"),
            10 => format!("setp.lt.u32 %p9, %lane, 16; selp.u32 %i, %t, {place}, %p9;"),
            _ => "sub.u32 %i, 200, %t;".to_owned(),
        };
        let align = self.choices.of(&[4, 4, 4, 8, 16, 16, 2, 1]);
        let mask = 1023 & !(align - 1);
        writeln!(self.text, "{index} mul.lo.u32 %i, %i, {align}; and.b32 %i, %i, {mask};").ok();
        self.addresses[number] = Address { align, input: false };
        if number < 4 {
            let base = self.choices.of(&["tile", "tile", "tile", "tile+64"]);
            writeln!(
                self.text,
                "mov.u32 %s{number}, {base}; add.u32 %s{number}, %s{number}, %i; cvt.u64.u32 %v{number}, %s{number};"
            )
            .ok();
        } else {
            let other = if self.has(Defect::Races) { "%both" } else { "%in" };
            let base = self.choices.of(&["%in", other, "%scratch"]);
            self.addresses[number].input = base == "%in";
            let number = number - 4;
            writeln!(self.text, "cvt.u64.u32 %g{number}, %i; add.u64 %g{number}, %g{number}, {base};").ok();
        }
    }

    fn body(&mut self) {
        while self.budget > 0 {
            self.budget -= 1;
            match self.choices.below(24) {
                0..=6 => self.compute(),
                7..=9 => self.load(),
                10 | 11 => self.store(),
                12 => self.row_of_loads(),
                13 => self.sum(),
                14 => self.atomic(),
                15 => self.barrier(),
                16 => self.exchange(),
                17 => {
                    let number = self.choices.below(8);
                    self.address(at(number));
                }
                18 | 19 => self.branch(),
                20 => self.repeat(),
                21 => self.local(),
                22 => self.rare(),
                _ if self.depth > 0 && self.choices.one_in(3) => return,
                _ => self.constant(),
            }
        }
    }

    /// `@%p `, or nothing.
    pub(super) fn guard(&mut self) -> String {
        if !self.choices.one_in(6) {
            return String::new();
        }
        let not = self.choices.of(&["", "!"]);
        format!("@{not}{} ", self.register('p'))
    }

    fn compute(&mut self) {
        let guard = self.guard();
        let (to, a, b, c) = (self.target('x'), self.register('x'), self.register('x'), self.register('x'));
        let (f, fa, fb, fc) = (self.target('f'), self.register('f'), self.register('f'), self.register('f'));
        let (d, da, db) = (self.target('d'), self.register('d'), self.register('d'));
        let (e, ea, eb) = (self.target('e'), self.register('e'), self.register('e'));
        let (h, ha, hb) = (self.target('h'), self.register('h'), self.register('h'));
        let (p, pa, pb) = (self.target('p'), self.register('p'), self.register('p'));
        let small = self.choices.below(33);
        let text = match self.choices.below(44) {
            0 => format!("add.u32 {to}, {a}, {b};"),
            1 => format!("sub.s32 {to}, {a}, {b};"),
            2 => format!("mul.lo.u32 {to}, {a}, {b};"),
            3 => format!("mad.lo.u32 {to}, {a}, {b}, {c};"),
            4 => format!("and.b32 {to}, {a}, {b};"),
            5 => format!("or.b32 {to}, {a}, {small};"),
            6 => format!("xor.b32 {to}, {a}, {b};"),
            7 => format!("shl.b32 {to}, {a}, {small};"),
            8 => format!("shr.u32 {to}, {a}, {b};"),
            9 => format!("shr.s32 {to}, {a}, {small};"),
            10 => format!("min.s32 {to}, {a}, {b};"),
            11 => format!("max.u32 {to}, {a}, {b};"),
            12 => format!("selp.u32 {to}, {a}, {b}, {pa};"),
            13 => format!("setp.lt.s32 {p}, {a}, {b};"),
            14 => format!("setp.eq.u32 {p}, {a}, {small};"),
            15 => format!("setp.ge.and.u32 {p}, {a}, {b}, {pa};"),
            16 => format!("setp.gt.f32 {p}, {fa}, {fb};"),
            17 => format!("popc.b32 {to}, {a};"),
            18 => format!("clz.b32 {to}, {a};"),
            19 => format!("bfe.u32 {to}, {a}, {small}, 7;"),
            20 => format!("prmt.b32 {to}, {a}, {b}, 0x{small:02x}41;"),
            21 => format!("lop3.b32 {to}, {a}, {b}, {c}, 0x{:x};", 7 * small),
            22 => format!("mul.hi.u32 {to}, {a}, {b};"),
            23 => format!("div.u32 {to}, {a}, {};", small + 1),
            24 => format!("rem.u32 {to}, {a}, {};", small + 1),
            25 => format!("add.f32 {f}, {fa}, {fb};"),
            26 => format!("mul.f32 {f}, {fa}, {fb};"),
            27 | 28 => format!("fma.rn.f32 {f}, {fa}, {fb}, {fc};"),
            29 => format!("min.f32 {f}, {fa}, {fb};"),
            30 => format!("sqrt.rn.f32 {f}, {fa};"),
            31 => format!("ex2.approx.ftz.f32 {f}, {fa};"),
            32 => format!("rcp.rn.f32 {f}, {fa};"),
            33 => format!("cvt.rzi.s32.f32 {to}, {fa};"),
            34 => format!("cvt.rn.f32.s32 {f}, {a};"),
            35 => format!("add.u64 {d}, {da}, {db};"),
            36 => format!("mad.wide.u32 {d}, {a}, {b}, {da};"),
            37 => format!("fma.rn.f64 {e}, {ea}, {eb}, {ea};"),
            38 => format!("cvt.rn.f32.f64 {f}, {ea}; cvt.f64.f32 {e}, {fb};"),
            39 => format!("add.u16 {h}, {ha}, {hb}; mul.wide.u16 {to}, {ha}, {hb};"),
            40 => format!("fma.rn.f16x2 {to}, {a}, {b}, {c};"),
            41 => format!("and.pred {p}, {pa}, {pb};"),
            42 => format!("mov.b32 {to}, {fa}; mov.b32 {f}, {a};"),
            _ => format!("mov.b64 {d}, {{{a}, {b}}}; mov.b64 {{{to}, _}}, {da};"),
        };
        self.line(&format!("{guard}{text}"));
    }

    /// The operand of an access of this width: registers to be written, or read.
    pub(super) fn data(&mut self, registers: Registers, loads: bool) -> String {
        let start = self.choices.below(VALUES);
        let sink = loads && self.choices.one_in(12);
        let vector = |kind: char, count: u32| {
            let names = (0..count).map(|i| match i {
                1 if sink => "_".to_owned(),
                _ => format!("%{kind}{}", (start + i) % VALUES),
            });
            format!("{{{}}}", names.collect::<Vec<_>>().join(", "))
        };
        let kind = match registers {
            Registers::Words(count) => return vector('x', count),
            Registers::Floats(count) => return vector('f', count),
            Registers::Doubles(count) => return vector('d', count),
            Registers::Shorts(count) => return vector('h', count),
            Registers::Word => 'x',
            Registers::Short => 'h',
            Registers::Float => 'f',
            Registers::Double => 'd',
            Registers::Wide => 'e',
        };
        if loads { self.target(kind) } else { self.register(kind) }
    }

    /// A distance from an address for an access of this width.
    fn offset(&mut self, bytes: u32) -> u32 {
        let offset = self.choices.of(&[0, 0, 0, 4, 8, 16, 32, 64, 128, 256, 512]);
        let wild = if self.has(Defect::Wild) && self.choices.one_in(8) {
            self.choices.of(&[1, 2, 2000, 8192])
        } else {
            0
        };
        offset / bytes * bytes + wild
    }

    /// A register with addresses that are aligned for an access of this width, unless the kernel is wild.
    pub(super) fn aligned(&mut self, global: bool, bytes: u32) -> Option<u32> {
        let start = self.choices.below(4);
        let wild = self.has(Defect::Wild) && self.choices.one_in(8);
        let fits = |number: &u32| {
            wild || self.addresses[at(number + 4 * u32::from(global))].align.is_multiple_of(bytes)
        };
        (start..start + 4).map(|number| number % 4).find(fits)
    }

    fn load(&mut self) {
        let guard = self.guard();
        let (suffix, registers, bytes) = self.choices.of(&WIDTHS);
        let global = self.choices.one_in(2);
        let Some(number) = self.aligned(global, bytes) else { return };
        let offset = self.offset(bytes);
        let to = self.data(registers, true);
        if global && !self.has(Defect::Races) && !self.addresses[at(number + 4)].input {
            return;
        }
        let talks = self.has(Defect::Talks) && self.choices.one_in(4);
        let (space, base) = match (global, self.choices.below(8)) {
            (true, 0) if !suffix.contains("16") => (".global.nc", "%g"),
            (true, _) if talks => (".volatile.global", "%g"),
            (true, 1) => (".global.cg", "%g"),
            (true, 2) => ("", "%g"),
            (true, _) => (".global", "%g"),
            (false, 0) => (".shared", "%v"),
            (false, 1) if talks => (".volatile.shared", "%s"),
            (false, _) => (".shared", "%s"),
        };
        self.line(&format!("{guard}ld{space}.{suffix} {to}, [{base}{number}+{offset}];"));
    }

    fn store(&mut self) {
        let guard = self.guard();
        let (suffix, registers, bytes) = self.choices.of(&WIDTHS);
        let global = self.choices.one_in(3);
        let from = self.data(registers, false);
        let space = if global { "global" } else { "shared" };
        let races = self.has(Defect::Races);
        if !global && !races && (self.depth > 0 || !self.separated()) {
            return;
        }
        if races && self.choices.one_in(2) {
            let Some(number) = self.aligned(global, bytes) else { return };
            if global && self.addresses[at(number + 4)].input && !self.has(Defect::Wild) {
                return;
            }
            let (base, offset) = (if global { 'g' } else { 's' }, self.offset(bytes));
            self.line(&format!("{guard}st.{space}.{suffix} [%{base}{number}+{offset}], {from};"));
        } else if bytes <= 4 {
            let own = if global { "%mine" } else { "%own" };
            self.line(&format!("{guard}st.{space}.{suffix} [{own}], {from};"));
        } else if !global {
            // Sixteen bytes for each thread, in a part that nothing else reads unless it races.
            writeln!(
                self.text,
                "mov.u32 %i, tile; shl.b32 %j, %t, 4; and.b32 %j, %j, 2032; add.u32 %i, %i, %j;"
            )
            .ok();
            self.line(&format!("{guard}st.shared.{suffix} [%i], {from};"));
        }
        if !global && (!races || self.choices.one_in(2)) {
            self.sync();
        }
    }

    /// All threads of the block wait, if the kernel is to have no race. Returns whether they do.
    pub(super) fn separated(&mut self) -> bool {
        if self.depth == 0 && !self.has(Defect::Races) {
            self.line("bar.sync 0;");
        }
        self.depth == 0
    }

    /// Loads from one register, which are often executed as one.
    fn row_of_loads(&mut self) {
        let Some(number) = self.aligned(false, 4) else { return };
        let base = self.choices.of(&["%s", "%s", "%v"]);
        for _ in 0..2 + self.choices.below(8) {
            let kind = self.choices.of(&['x', 'f']);
            let to = self.target(kind);
            let offset = 4 * self.choices.below(64);
            self.line(&format!("ld.shared.b32 {to}, [{base}{number}+{offset}];"));
            if self.choices.one_in(3) {
                let (to, a, b) = (self.target('x'), self.register('x'), self.register('x'));
                self.line(&format!("add.u32 {to}, {a}, {b};"));
            }
        }
    }

    /// A sum of products of loaded words, which are in registers of their own.
    fn sum(&mut self) {
        let (Some(one), Some(other)) = (self.aligned(false, 4), self.aligned(false, 4)) else { return };
        let label = self.label();
        let count = 1 + self.choices.below(6);
        writeln!(self.text, "{{\n.reg .f32 %q{label}_<20>;").ok();
        let total = self.target('f');
        for i in 0..count {
            let (a, b) = (2 * i, 2 * i + 1);
            let (x, y) = (4 * self.choices.below(32), 4 * self.choices.below(32));
            writeln!(
                self.text,
                "ld.shared.f32 %q{label}_{a}, [%s{one}+{x}]; ld.shared.f32 %q{label}_{b}, [%s{other}+{y}];\n\
                 fma.rn.f32 {total}, %q{label}_{a}, %q{label}_{b}, {total};"
            )
            .ok();
        }
        self.line("}");
    }

    fn atomic(&mut self) {
        let guard = self.guard();
        let global = self.choices.one_in(2);
        let (operation, ty, from, to) = match self.choices.below(9) {
            0 | 1 => ("add", "u32", self.register('x'), self.target('x')),
            2 => ("add", "f32", self.register('f'), self.target('f')),
            3 => ("min", "s32", self.register('x'), self.target('x')),
            4 => ("max", "u32", self.register('x'), self.target('x')),
            5 => ("and", "b32", self.register('x'), self.target('x')),
            6 => ("xor", "b32", self.register('x'), self.target('x')),
            7 => ("add", "u64", self.register('d'), self.target('d')),
            _ => ("inc", "u32", self.register('x'), self.target('x')),
        };
        let bytes = if ty == "u64" { 8 } else { 4 };
        let Some(number) = self.aligned(global, bytes) else { return };
        let races = self.has(Defect::Races);
        if global && self.addresses[at(number + 4)].input && !self.has(Defect::Wild) {
            return;
        }
        if !global && !races && !self.separated() {
            return;
        }
        let offset = self.offset(bytes);
        let (space, base) = if global { ("global", 'g') } else { ("shared", 's') };
        if global && !self.has(Defect::Talks) || self.choices.one_in(3) {
            self.line(&format!("{guard}red.{space}.{operation}.{ty} [%{base}{number}+{offset}], {from};"));
        } else if ty == "u32" && self.choices.one_in(3) {
            let compare = self.register('x');
            self.line(&format!(
                "{guard}atom.{space}.cas.b32 {to}, [%{base}{number}+{offset}], {compare}, {from};"
            ));
        } else {
            self.line(&format!(
                "{guard}atom.{space}.{operation}.{ty} {to}, [%{base}{number}+{offset}], {from};"
            ));
        }
        if !global && !races {
            self.sync();
        }
    }

    /// All threads of the block wait, if all are here.
    pub(super) fn sync(&mut self) {
        if self.depth == 0 || self.has(Defect::Apart) {
            self.line("bar.sync 0;");
        }
    }

    fn barrier(&mut self) {
        if self.depth > 0 && !self.has(Defect::Apart) {
            return;
        }
        let (p, q, x) = (self.target('p'), self.register('p'), self.target('x'));
        let text = match self.choices.below(10) {
            0 => format!("bar.red.popc.u32 {x}, 0, {q};"),
            1 => format!("bar.red.or.pred {p}, 0, {q};"),
            2 | 3 => "bar.warp.sync 0xffffffff;".to_owned(),
            4 => "bar.sync 1;".to_owned(),
            _ => "bar.sync 0;".to_owned(),
        };
        self.line(&text);
    }

    /// Lanes exchange values.
    fn exchange(&mut self) {
        let apart = self.depth > 0;
        if apart && !self.has(Defect::Apart) {
            return;
        }
        let mask = if apart || self.choices.one_in(8) {
            self.line("activemask.b32 %j;");
            "%j"
        } else {
            "0xffffffff"
        };
        let (to, a, p, q) = (self.target('x'), self.register('x'), self.target('p'), self.register('p'));
        let (f, fa) = (self.target('f'), self.register('f'));
        let distance = self.choices.of(&["1", "2", "4", "8", "16", "%lane", "3"]);
        let text = match self.choices.below(11) {
            0 => format!("shfl.sync.bfly.b32 {to}, {a}, {distance}, 31, {mask};"),
            1 => format!("shfl.sync.down.b32 {f}, {fa}, {distance}, 31, {mask};"),
            2 => format!("shfl.sync.up.b32 {to}|{p}, {a}, {distance}, 0, {mask};"),
            3 => format!("shfl.sync.idx.b32 {to}, {a}, {distance}, 0x1c1f, {mask};"),
            4 => format!("vote.sync.ballot.b32 {to}, {q}, {mask};"),
            5 => format!("vote.sync.any.pred {p}, {q}, {mask};"),
            6 => format!("vote.sync.all.pred {p}, !{q}, {mask};"),
            7 => format!("match.any.sync.b32 {to}, {a}, {mask};"),
            8 => format!("redux.sync.add.u32 {to}, {a}, {mask};"),
            9 => format!("elect.sync {to}|{p}, {mask};"),
            _ => format!("activemask.b32 {to};"),
        };
        self.line(&text);
    }

    fn nested(&mut self) {
        self.depth += 1;
        let before = self.budget;
        self.budget = before.min(1 + self.choices.below(8));
        let given = self.budget;
        // What a branch has put into a register with addresses is not known after it, only how it is aligned.
        let known = self.addresses;
        self.body();
        for (now, before) in self.addresses.iter_mut().zip(known) {
            *now = Address { align: now.align.min(before.align), input: now.input && before.input };
        }
        self.budget = before - (given - self.budget);
        self.depth -= 1;
    }

    /// A condition: the predicate of a branch.
    fn condition(&mut self) -> String {
        if self.choices.one_in(3) {
            return self.register('p');
        }
        let test = match self.choices.below(7) {
            0 => format!("lt.u32 %p9, %lane, {}", self.choices.below(33)),
            1 => format!("lt.u32 %p9, %t, {}", 32 * self.choices.below(4)),
            2 => format!("eq.u32 %p9, %cta, {}", self.choices.below(3)),
            3 => format!("gt.s32 %p9, {}, 5", self.register('x')),
            4 => "ge.u32 %p9, %n, 3".to_owned(),
            5 => "lt.u32 %p9, %lane, 16".to_owned(),
            _ => format!("ne.u32 %p9, %t, {}", self.choices.below(64)),
        };
        self.line(&format!("setp.{test};"));
        "%p9".to_owned()
    }

    fn branch(&mut self) {
        if self.depth >= 3 {
            return;
        }
        let condition = self.condition();
        let (other, end) = (self.label(), self.label());
        let not = self.choices.of(&["", "!"]);
        self.line(&format!("@{not}{condition} bra L{other};"));
        self.nested();
        if self.choices.one_in(2) {
            self.line(&format!("bra L{end};\nL{other}:"));
            self.nested();
            self.line(&format!("L{end}:"));
        } else {
            self.line(&format!("L{other}:"));
        }
    }

    /// A loop of a few rounds, as many for each thread or not.
    fn repeat(&mut self) {
        if self.depth >= 3 {
            return;
        }
        let (label, counter) = (self.label(), self.depth);
        let rounds = if self.choices.one_in(2) {
            format!("mov.u32 %c{counter}, {};", self.choices.below(5))
        } else {
            let from = self.choices.of(&["%t", "%lane", "%cta"]);
            format!("and.b32 %c{counter}, {from}, {};", self.choices.of(&[1, 3, 2]))
        };
        self.line(&format!("{rounds}\nL{label}:"));
        self.nested();
        self.line(&format!(
            "sub.s32 %c{counter}, %c{counter}, 1; setp.ge.s32 %p9, %c{counter}, 0; @%p9 bra L{label};"
        ));
    }
}
