//! Kernels of one matrix instruction each.
//!
//! A warp multiplies one pair of matrices: it loads the fragments, executes the instruction, and stores the
//! result. In memory, A, C and D are row-major and B is column-major. For `mma`, each lane loads the
//! registers that the manual's fragment formulas name (PTX ISA, "Matrix Fragments for mma") with ordinary
//! loads, so that the layout in the software GPU is tested against the manual and not against itself. For
//! `wmma`, the `wmma` loads do that.

use std::fmt::Write;

/// The type of a matrix's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Format {
    E4m3,
    E5m2,
    F16,
    Bf16,
    Tf32,
    F32,
    F64,
}

impl Format {
    fn named(name: &str) -> Option<Self> {
        use Format::{Bf16, E4m3, E5m2, F16, F32, F64, Tf32};
        [E4m3, E5m2, F16, Bf16, Tf32, F32, F64].into_iter().find(|format| format.name() == name)
    }

    /// As instructions call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::E4m3 => "e4m3",
            Self::E5m2 => "e5m2",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Tf32 => "tf32",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }

    /// Bytes of an element.
    pub(super) fn size(self) -> usize {
        match self {
            Self::E4m3 | Self::E5m2 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::Tf32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Hexadecimal digits of a code.
    pub(super) fn digits(self) -> usize {
        2 * self.size()
    }
}

/// A matrix instruction: shape, and the types of A, B and of C and D.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Op {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) a: Format,
    pub(super) b: Format,
    pub(super) c: Format,
}

impl Op {
    /// Parses `m16n8k32.f32.e4m3.e4m3.f32`; `None` if the instruction cannot be tested.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let shape = parts.next()?;
        let mut next = || Format::named(parts.next()?);
        let (d, a, b, c) = (next()?, next()?, next()?, next()?);
        let (m, n, k) = match shape {
            "m8n8k4" => (8, 8, 4),
            "m16n8k4" => (16, 8, 4),
            "m16n8k8" => (16, 8, 8),
            "m16n8k16" => (16, 8, 16),
            "m16n8k32" => (16, 8, 32),
            _ => return None,
        };
        let op = Self { m, n, k, a, b, c };
        let accumulates = matches!(c, Format::F32 | Format::F16);
        let known = match (a, b, k) {
            (Format::F64, Format::F64, 4) => m == 8 && c == Format::F64,
            (Format::Tf32, Format::Tf32, 4 | 8) | (Format::Bf16, Format::Bf16, 8 | 16) => c == Format::F32,
            (Format::F16, Format::F16, 8 | 16)
            | (Format::E4m3 | Format::E5m2, Format::E4m3 | Format::E5m2, 16 | 32) => accumulates,
            _ => false,
        };
        (parts.next().is_none() && d == c && known && (m == 16) != (a == Format::F64)).then_some(op)
    }

    /// `m16n8k32.f32.e4m3.e4m3.f32`.
    pub(super) fn name(&self) -> String {
        let c = self.c.name();
        format!("{}.{c}.{}.{}.{c}", self.shape(), self.a.name(), self.b.name())
    }

    fn shape(&self) -> String {
        format!("m{}n{}k{}", self.m, self.n, self.k)
    }

    /// The same product with `wmma`, whose smallest tiles are 16 wide; `None` if `wmma` does not support
    /// the type or depth.
    pub(super) fn by_wmma(&self) -> Option<Self> {
        match (self.a, self.k) {
            (Format::F16 | Format::Bf16, 16) | (Format::Tf32, 8) => Some(Self { n: 16, ..*self }),
            (Format::F64, 4) => Some(*self),
            _ => None,
        }
    }

    /// Bytes of one A, B and C.
    pub(super) fn bytes(&self) -> [usize; 3] {
        [self.m * self.k * self.a.size(), self.k * self.n * self.b.size(), self.m * self.n * self.c.size()]
    }

    /// The kernel `product` with `mma`: matrices are consecutive, one warp for each.
    pub(super) fn mma_kernel(&self) -> String {
        let wide = self.a == Format::F64;
        let width = if wide { 8 } else { 4 };
        // Elements per register, and columns of A that four lanes hold in one register.
        let per = width / self.a.size();
        let chunk = 4 * per;
        let halves = self.m / 8;
        let a_registers = halves * (self.k / chunk);
        let b_registers = self.k / chunk;
        let c_per = width.min(2 * self.c.size()) / self.c.size();
        let c_registers = self.m * self.n / 32 / c_per;
        let mut loads = String::new();
        // A: row lane/4 (+8 for every other register), columns from (lane%4)·per, plus one chunk for every
        // pair of registers.
        for r in 0..a_registers {
            let offset = (8 * (r % halves) * self.k + chunk * (r / halves)) * self.a.size();
            let _ = writeln!(loads, "    ld.global.b{} %a{r}, [%pa+{offset}];", 8 * width);
        }
        // B: column lane/4, rows from (lane%4)·per, plus one chunk for every register; column-major in
        // memory.
        for r in 0..b_registers {
            let offset = chunk * r * self.b.size();
            let _ = writeln!(loads, "    ld.global.b{} %b{r}, [%pb+{offset}];", 8 * width);
        }
        let mut stores = String::new();
        // C and D: row lane/4, then row +8; columns 2·(lane%4) and the next.
        for r in 0..c_registers {
            let element = r * c_per;
            let offset = (8 * (element / 2) * self.n + element % 2) * self.c.size();
            let _ = writeln!(loads, "    ld.global.b{} %c{r}, [%pc+{offset}];", 8 * width);
            let _ = writeln!(stores, "    st.global.b{} [%pd+{offset}], %d{r};", 8 * width);
        }
        let lane_a = format!(
            "mul.lo.u32 %x, %row, {}; mad.lo.u32 %x, %column, {}, %x;",
            self.k * self.a.size(),
            per * self.a.size()
        );
        let lane_b = format!(
            "mul.lo.u32 %y, %row, {}; mad.lo.u32 %y, %column, {}, %y;",
            self.k * self.b.size(),
            per * self.b.size()
        );
        let lane_c = format!(
            "mul.lo.u32 %z, %row, {}; mad.lo.u32 %z, %column, {}, %z;",
            self.n * self.c.size(),
            2 * self.c.size()
        );
        let place = format!(
            "    shr.u32 %row, %lane, 2; and.b32 %column, %lane, 3;
    {lane_a}
    {lane_b}
    {lane_c}
    cvt.u64.u32 %offset, %x; add.u64 %pa, %pa, %offset;
    cvt.u64.u32 %offset, %y; add.u64 %pb, %pb, %offset;
    cvt.u64.u32 %offset, %z; add.u64 %pc, %pc, %offset; add.u64 %pd, %pd, %offset;
"
        );
        let instruction = format!(
            "    mma.sync.aligned.{}.row.col.{c}.{}.{}.{c} {}, {}, {}, {};\n",
            self.shape(),
            self.a.name(),
            self.b.name(),
            registers("d", c_registers),
            registers("a", a_registers),
            registers("b", b_registers),
            registers("c", c_registers),
            c = self.c.name(),
        );
        self.kernel(wide, &format!("{place}{loads}{instruction}{stores}"))
    }

    /// The kernel `product` with `wmma`.
    pub(super) fn wmma_kernel(&self) -> String {
        let (shape, a, b, c) = (self.shape(), self.a.name(), self.b.name(), self.c.name());
        // Registers according to the manual's table of wmma fragments; fragments of f16 hold every element
        // twice.
        let (ab, cd) = match (self.a, self.c) {
            (Format::F16, Format::F16) => (8, 4),
            (Format::F16, _) => (8, 8),
            (Format::F64, _) => (1, 2),
            _ => (4, 8),
        };
        let types = if self.a == Format::F16 { format!("{c}.{c}") } else { format!("{c}.{a}.{b}.{c}") };
        let (ra, rb) = (registers("a", ab), registers("b", ab));
        let (rc, rd) = (registers("c", cd), registers("d", cd));
        let body = format!(
            "    wmma.load.a.sync.aligned.row.{shape}.global.{a} {ra}, [%pa], {k};
    wmma.load.b.sync.aligned.col.{shape}.global.{b} {rb}, [%pb], {k};
    wmma.load.c.sync.aligned.row.{shape}.global.{c} {rc}, [%pc], {n};
    wmma.mma.sync.aligned.row.col.{shape}.{types} {rd}, {ra}, {rb}, {rc};
    wmma.store.d.sync.aligned.row.{shape}.global.{c} [%pd], {rd}, {n};
",
            k = self.k,
            n = self.n,
        );
        self.kernel(self.a == Format::F64, &body)
    }

    /// The part that both kernels share: every warp finds its own matrices.
    fn kernel(&self, wide: bool, body: &str) -> String {
        let [a, b, c] = self.bytes();
        let class = if wide { "b64" } else { "b32" };
        format!(
            ".version 8.7
.target sm_89
.address_size 64
.visible .entry product(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d, .param .u32 count)
{{
    .reg .{class} %a<8>, %b<8>, %c<8>, %d<8>;
    .reg .b64 %pa, %pb, %pc, %pd, %offset;
    .reg .b32 %lane, %warp, %block, %size, %count, %row, %column, %x, %y, %z;
    .reg .pred %beyond;
    mov.u32 %x, %tid.x; and.b32 %lane, %x, 31; shr.u32 %x, %x, 5;
    mov.u32 %block, %ctaid.x; mov.u32 %size, %ntid.x; shr.u32 %size, %size, 5;
    mad.lo.u32 %warp, %block, %size, %x;
    ld.param.u32 %count, [count]; setp.ge.u32 %beyond, %warp, %count; @%beyond ret;
    ld.param.u64 %pa, [a]; mul.wide.u32 %offset, %warp, {a}; add.u64 %pa, %pa, %offset;
    ld.param.u64 %pb, [b]; mul.wide.u32 %offset, %warp, {b}; add.u64 %pb, %pb, %offset;
    ld.param.u64 %pc, [c]; mul.wide.u32 %offset, %warp, {c}; add.u64 %pc, %pc, %offset;
    ld.param.u64 %pd, [d]; add.u64 %pd, %pd, %offset;
{body}    ret;
}}
"
        )
    }
}

fn registers(prefix: &str, count: usize) -> String {
    let names: Vec<String> = (0..count).map(|i| format!("%{prefix}{i}")).collect();
    format!("{{{}}}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for name in ["m16n8k32.f32.e4m3.e5m2.f32", "m16n8k16.f16.f16.f16.f16", "m8n8k4.f64.f64.f64.f64"] {
            assert_eq!(Op::parse(name).unwrap().name(), name);
        }
        for name in [
            "",
            "m16n8k32",
            "m16n8k32.f32.e4m3.e5m2",
            "m16n8k32.f32.e4m3.e5m2.f32.f32",
            "m16n8k32.f32.f16.f16.f32",
            "m8n8k4.f32.f16.f16.f32",
            "m16n8k4.f64.f64.f64.f64",
            "m16n8k16.f32.e4m3.e4m3.f16",
            "m16n8k8.f16.tf32.tf32.f16",
        ] {
            assert_eq!(Op::parse(name), None, "{name}");
        }
    }

    #[test]
    fn the_kernel_of_one_instruction() {
        insta::assert_snapshot!(Op::parse("m16n8k32.f16.e4m3.e5m2.f16").unwrap().mma_kernel());
    }
}
