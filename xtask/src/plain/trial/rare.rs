//! Statements of random kernels that are rarer than computing, loading and storing.

use super::kernel::{Defect, VALUES, WIDTHS, Writer};
use std::fmt::Write as _;

impl Writer<'_, '_> {
    /// Local memory of the thread.
    pub(super) fn local(&mut self) {
        let unset = self.has(Defect::Unset);
        let guard = if unset { self.guard() } else { String::new() };
        let (suffix, registers, bytes) = self.choices.of(&WIDTHS);
        let (place, data) = (16 * self.choices.below(6), self.data(registers, false));
        if !unset || self.choices.one_in(2) {
            self.line(&format!("{guard}st.local.{suffix} [frame+{place}], {data};"));
        }
        if unset || self.choices.one_in(2) {
            let data = self.data(registers, true);
            writeln!(
                self.text,
                "mov.u64 %wide, frame; and.b32 %i, %lane, 3; mad.wide.u32 %wide, %i, {bytes}, %wide;"
            )
            .ok();
            let from = if !unset || self.choices.one_in(2) { "frame" } else { "%wide" };
            self.line(&format!("{guard}ld.local.{suffix} {data}, [{from}+{place}];"));
        }
    }

    /// Constant memory, parameters, and the output.
    pub(super) fn constant(&mut self) {
        let to = self.target('x');
        let text = match self.choices.below(5) {
            0 => format!("ld.const.u32 {to}, [table+{}];", 4 * self.choices.below(16)),
            1 => format!(
                "and.b32 %i, {}, 63; mov.u64 %wide, table; mad.wide.u32 %wide, %i, 4, %wide; ld.const.u32 {to}, [%wide];",
                self.register('x')
            ),
            2 => format!("ld.param.u32 {to}, [n];"),
            3 => format!("ld.global.u32 {to}, [words+{}];", 4 * self.choices.below(16)),
            _ => format!("ld.global.u32 {to}, [%mine];"),
        };
        let guard = if text.contains("%i") { String::new() } else { self.guard() };
        self.line(&format!("{guard}{text}"));
    }

    /// What a kernel has at most once or twice.
    pub(super) fn rare(&mut self) {
        let (a, x, q) = (self.register('x'), self.target('x'), self.register('p'));
        match self.choices.below(14) {
            0 if self.depth == 0 && self.has(Defect::Apart) => self.line(&format!("@{q} exit;")),
            0 | 1 => {
                self.line(&format!(
                    "st.param.b32 [pa], {a}; call (pr), twice, (pa); ld.param.b32 {x}, [pr];"
                ));
            }
            2 => {
                let tests = self.choices.of(&["%t, 5", "%lane, 31", "%id, 0"]);
                let label = self.label();
                writeln!(
                    self.text,
                    "setp.ne.u32 %p9, {tests}; @%p9 bra L{label};\nst.local.u32 [frame+112], {a}; st.local.u32 [frame+116], %t;\n\
                     mov.u64 %wide, frame; add.u64 %wide, %wide, 112; cvta.local.u64 %wide, %wide; st.param.b64 [pv], %wide;\n\
                     mov.u64 %wide, format; cvta.global.u64 %wide, %wide; st.param.b64 [pf], %wide; call (pr), vprintf, (pf, pv);\n\
                     L{label}:"
                )
                .ok();
            }
            3 if self.has(Defect::Talks) => {
                let scope = self.choices.of(&["gl", "cta"]);
                self.line(&format!("membar.{scope};"));
            }
            4..=6 => self.copy(),
            7..=9 if self.depth == 0 => self.matrix(),
            10 if self.has(Defect::Wild) => self.line("setp.eq.u32 %p9, %id, 70; @%p9 trap;"),
            11 => self.line(&format!("brev.b32 {x}, {a}; add.cc.u32 {x}, {x}, {a}; addc.u32 {x}, {x}, 0;")),
            12 => self.line(&format!("mov.u32 {x}, %clock; and.b32 {x}, {x}, 0;")),
            _ => {
                let (one, two, end) = (self.label(), self.label(), self.label());
                writeln!(
                    self.text,
                    "and.b32 %i, {a}, 1;\nT{one}: .branchtargets L{one}, L{two};\nbrx.idx %i, T{one};\nL{one}: add.u32 {x}, {x}, 3;\n\
                     bra L{end};\nL{two}: add.u32 {x}, {x}, 9;\nL{end}:"
                )
                .ok();
            }
        }
    }

    /// An asynchronous copy of the thread, almost always with its wait.
    fn copy(&mut self) {
        let races = self.has(Defect::Races);
        if !races && !self.separated() {
            return;
        }
        let bytes = self.choices.of(&[4, 8, 16]);
        let from = if races { self.choices.of(&["%in", "%scratch"]) } else { "%in" };
        let cache = if bytes == 16 { "cg" } else { "ca" };
        writeln!(
            self.text,
            "shl.b32 %i, %t, 4; and.b32 %i, %i, 1008; cvt.u64.u32 %wide, %i; add.u64 %wide, %wide, {from};\n\
             mov.u32 %j, tile; add.u32 %j, %j, %i;"
        )
        .ok();
        let guard = if races {
            self.guard()
        } else {
            // More threads would write the same bytes.
            self.line("setp.lt.u32 %p9, %t, 64;");
            "@%p9 ".to_owned()
        };
        self.line(&format!("{guard}cp.async.{cache}.shared.global [%j], [%wide], {bytes};"));
        if self.choices.one_in(2) {
            self.line("cp.async.commit_group;");
            let left = if races { self.choices.of(&[0, 0, 1]) } else { 0 };
            self.line(&format!("cp.async.wait_group {left};"));
        } else if !races || !self.choices.one_in(5) {
            self.line("cp.async.wait_all;");
        }
        if !races || !self.choices.one_in(5) {
            self.sync();
        }
    }

    /// Fragments of matrices.
    fn matrix(&mut self) {
        let Some(number) = self.aligned(false, 16) else { return };
        let x: Vec<String> = (0..6).map(|_| self.register('x')).collect();
        let f: Vec<String> = (0..4).map(|i| format!("%f{}", (i + self.choices.below(2)) % VALUES)).collect();
        match self.choices.below(5) {
            0 => self.line(&format!(
                "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%x0, %x1, %x2, %x3}}, [%s{number}];"
            )),
            1 => self.line(&format!(
                "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {{%x4, %x5}}, [%s{number}];"
            )),
            2 if self.has(Defect::Races) => self.line(&format!(
                "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%s{number}], {{%x2, %x3}};"
            )),
            3 => self.line(&format!(
                "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {{%f0, %f1, %f2, %f3}}, {{{}, {}, {}, {}}}, {{{}, {}}}, {{{}, {}, {}, {}}};",
                x[0], x[1], x[2], x[3], x[4], x[5], f[0], f[1], f[2], f[3]
            )),
            _ => self.line(&format!(
                "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%f0, %f1, %f2, %f3}}, {{{}, {}, {}, {}}}, {{{}, {}}}, {{{}, {}, {}, {}}};",
                x[0], x[1], x[2], x[3], x[4], x[5], f[0], f[1], f[2], f[3]
            )),
        }
    }
}
