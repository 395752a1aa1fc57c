//! The kernels from whose machine code latencies are read.

use std::fmt::Write as _;

use warpproof_model::sass::Instruction;

/// What is read from the machine code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Cycles from a result to its use.
    Latency,
    /// Cycles between independent instructions of one kind.
    Issue,
}

impl What {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Issue => "issue",
        }
    }
}

/// A few lines of PTX, repeated many times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel {
    pub(super) name: &'static str,
    pub(super) what: What,
    /// `#` is replaced by the number of the repetition, for independent registers.
    body: &'static str,
    /// Prefix of the opcode of the machine instruction whose latency or interval is read.
    from: &'static str,
    /// Prefix of the opcode of the instruction that uses its result.
    to: &'static str,
    /// The oldest architecture.
    since: u32,
}

const fn latency(name: &'static str, body: &'static str, from: &'static str, to: &'static str) -> Kernel {
    Kernel { name, what: What::Latency, body, from, to, since: 80 }
}

const fn issue(name: &'static str, body: &'static str, from: &'static str) -> Kernel {
    Kernel { name, what: What::Issue, body, from, to: from, since: 80 }
}

const fn since(since: u32, kernel: Kernel) -> Kernel {
    Kernel { since, ..kernel }
}

const KERNELS: &[Kernel] = &[
    latency("fadd", "add.f32 %f0, %f0, %f1;", "FADD", "FADD"),
    latency("fmul", "mul.f32 %f0, %f0, %f1;", "FMUL", "FMUL"),
    latency("ffma", "fma.rn.f32 %f0, %f0, %f1, %f2;", "FFMA", "FFMA"),
    latency("imad", "mad.lo.s32 %r0, %r0, %r1, %r2;", "IMAD", "IMAD"),
    latency("iadd", "add.s32 %r0, %r0, %r1; xor.b32 %r0, %r0, %r2;", "IADD3", "LOP3"),
    latency("lop3", "lop3.b32 %r0, %r0, %r1, %r2, 0x1e;", "LOP3", "LOP3"),
    latency("shf", "shf.l.wrap.b32 %r0, %r0, %r1, %r2;", "SHF", "SHF"),
    latency("prmt", "prmt.b32 %r0, %r0, %r1, %r2;", "PRMT", "PRMT"),
    latency("hfma2", "fma.rn.f16x2 %r0, %r0, %r1, %r2;", "HFMA2", "HFMA2"),
    latency("dp4a", "dp4a.s32.s32 %r0, %r0, %r1, %r2;", "IDP", "IDP"),
    latency("fmnmx-to-fadd", "max.f32 %f0, %f0, %f1; add.f32 %f0, %f0, %f2;", "FMNMX", "FADD"),
    latency("fadd-to-fmnmx", "max.f32 %f0, %f0, %f1; add.f32 %f0, %f0, %f2;", "FADD", "FMNMX"),
    latency(
        "setp-to-guard",
        "setp.lt.s32 %p0, %r0, %r1; @%p0 st.global.b32 [%rd1], %r2; add.s32 %r0, %r0, %r2;",
        "ISETP",
        "STG",
    ),
    latency("setp-to-select", "setp.lt.f32 %p0, %f0, %f1; selp.f32 %f0, %f2, %f0, %p0;", "FSETP", "FSEL"),
    latency("dfma", "fma.rn.f64 %d0, %d0, %d1, %d2;", "DFMA", "DFMA"),
    latency("mufu", "ex2.approx.ftz.f32 %f0, %f0;", "MUFU", "MUFU"),
    latency("shfl", "shfl.sync.bfly.b32 %r0, %r0, 1, 31, -1;", "SHFL", "SHFL"),
    latency("lds", "ld.shared.b32 %r0, [%r0];", "LDS", "LDS"),
    latency(
        "hmma-16816-f32",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%f0,%f1,%f2,%f3};",
        "HMMA.16816",
        "HMMA.16816",
    ),
    latency(
        "hmma-16816-f16",
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r6,%r7}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%r6,%r7};",
        "HMMA.16816",
        "HMMA.16816",
    ),
    latency(
        "hmma-1688-f32",
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1}, {%r4}, {%f0,%f1,%f2,%f3};",
        "HMMA.1688",
        "HMMA.1688",
    ),
    latency(
        "hmma-to-fadd",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%f0,%f1,%f2,%f3}; add.f32 %f0, %f0, %f4;",
        "HMMA.16816",
        "FADD",
    ),
    latency(
        "imma-16832",
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r6,%r7,%r8,%r9}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%r6,%r7,%r8,%r9};",
        "IMMA",
        "IMMA",
    ),
    since(
        89,
        latency(
            "qmma-16832",
            "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%f0,%f1,%f2,%f3};",
            "QMMA",
            "QMMA",
        ),
    ),
    issue("ffma", "fma.rn.f32 %g#, %g#, %f1, %f2;", "FFMA"),
    issue("imad", "mad.lo.s32 %s#, %s#, %r1, %r2;", "IMAD"),
    issue("lop3", "lop3.b32 %s#, %s#, %r1, %r2, 0x1e;", "LOP3"),
    issue("mufu", "ex2.approx.ftz.f32 %g#, %g#;", "MUFU"),
    issue("shfl", "shfl.sync.bfly.b32 %s#, %s#, 1, 31, -1;", "SHFL"),
    issue("redux", "redux.sync.add.u32 %s#, %s#, -1;", "REDUX"),
    issue("dfma", "fma.rn.f64 %e#, %e#, %d1, %d2;", "DFMA"),
    issue("lds", "ld.shared.b32 %s#, [%r9+#];", "LDS"),
    issue(
        "hmma-16816-f32",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%a#,%b#,%c#,%h#}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%a#,%b#,%c#,%h#};",
        "HMMA.16816",
    ),
    issue(
        "hmma-16816-f16",
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%s#,%t#}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%s#,%t#};",
        "HMMA.16816",
    ),
    issue(
        "imma-16832",
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%s#,%t#,%u#,%v#}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%s#,%t#,%u#,%v#};",
        "IMMA",
    ),
    since(
        89,
        issue(
            "qmma-16832",
            "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%a#,%b#,%c#,%h#}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%a#,%b#,%c#,%h#};",
            "QMMA",
        ),
    ),
];

/// Every kernel.
pub(super) fn all() -> &'static [Kernel] {
    KERNELS
}

/// How often a body is repeated.
const TIMES: usize = 8;

impl Kernel {
    pub(super) fn fits(&self, arch: &str) -> bool {
        arch.strip_prefix("sm_")
            .and_then(|number| number.parse().ok())
            .is_some_and(|number: u32| number >= self.since)
    }

    pub(super) fn produces(&self, instruction: &Instruction) -> bool {
        // Moves between registers are written as multiplications by zero.
        instruction.opcode.starts_with(self.from) && !instruction.has("MOV")
    }

    pub(super) fn consumes(&self, instruction: &Instruction) -> bool {
        instruction.opcode.starts_with(self.to)
    }

    /// The module: inputs are loaded, the body is repeated, everything is stored.
    pub(super) fn ptx(&self, arch: &str) -> String {
        let mut text = format!(
            ".version 8.7\n.target {arch}\n.address_size 64\n\
             .shared .align 16 .b8 tile[4096];\n\
             .visible .entry k(.param .u64 in, .param .u64 out)\n{{\n\
             .reg .pred %p<2>; .reg .f32 %f<10>, %g<8>, %a<8>, %b<8>, %c<8>, %h<8>;\n\
             .reg .f64 %d<3>, %e<8>; .reg .b64 %rd<6>;\n\
             .reg .b32 %r<10>, %s<8>, %t<8>, %u<8>, %v<8>, %lane;\n\
             ld.param.u64 %rd0, [in]; ld.param.u64 %rd1, [out];\n\
             mov.u32 %lane, %tid.x; mul.wide.u32 %rd2, %lane, 4096; add.s64 %rd0, %rd0, %rd2; add.s64 %rd1, %rd1, %rd2;\n\
             bar.sync 0;\n"
        );
        let mut offset = 0;
        let mut all = |text: &mut String, load: bool| {
            for (kind, names, count) in [
                ("b32", "r", 10),
                ("f32", "f", 10),
                ("f64", "d", 3),
                ("f32", "g", 8),
                ("f64", "e", 8),
                ("b32", "s", 8),
                ("b32", "t", 8),
                ("b32", "u", 8),
                ("b32", "v", 8),
                ("f32", "a", 8),
                ("f32", "b", 8),
                ("f32", "c", 8),
                ("f32", "h", 8),
            ] {
                for number in 0..count {
                    let register = format!("%{names}{number}");
                    if !self.uses(&register) {
                        continue;
                    }
                    offset += 8;
                    // Writing to a string cannot fail.
                    let _ = if load {
                        writeln!(text, "ld.global.{kind} {register}, [%rd0+{offset}];")
                    } else {
                        writeln!(text, "st.global.{kind} [%rd1+{offset}], {register};")
                    };
                }
            }
        };
        all(&mut text, true);
        text += "ld.global.u64 %rd5, [%rd0];\nbar.sync 0;\n";
        for number in 0..TIMES {
            text += &self.body.replace('#', &number.to_string());
            text += "\n";
        }
        text += "bar.sync 0;\n";
        all(&mut text, false);
        text += "st.global.u64 [%rd1], %rd5;\nret;\n}\n";
        text
    }

    /// Whether any repetition names the register.
    fn uses(&self, register: &str) -> bool {
        (0..TIMES).any(|number| {
            let body = self.body.replace('#', &number.to_string());
            body.match_indices(register).any(|(at, _)| {
                !body
                    .get(at + register.len()..)
                    .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
            })
        })
    }
}
