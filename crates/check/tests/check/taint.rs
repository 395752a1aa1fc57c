//! Results that depend on the machine.

use super::Case;
use warpproof_check::{Check, CheckLaunch, Class, Role};

/// The lines of the findings of `body` in 64 threads, with an output `%a0` and an input `%a1`.
fn lines(body: &str) -> Vec<Vec<u32>> {
    lines_of(body, "")
}

fn lines_of(body: &str, functions: &str) -> Vec<Vec<u32>> {
    let buffers = &[("out", Role::Out, 64), ("in", Role::In, 64)];
    let found = Case { functions, body, grid: 1, block: 64, buffers, checks: &[Check::Machine] }.findings();
    let lines = found.into_iter().map(|(class, lines)| {
        assert_eq!(class, Class::MachineDependent);
        lines
    });
    lines.collect()
}

/// Stores `%r0` to the thread's element of the output.
const STORE: &str = "add.u64 %d0, %a0, %d15; st.global.u32 [%d0], %r0;";
/// The line of the harness that reads addresses from parameters; it is before the first line of the body.
const PARAMETERS: u32 = 0;

#[test]
fn machine_dependent_registers_are_reported_where_they_are_stored() {
    for name in ["%clock", "%smid", "%nsmid", "%warpid", "%nwarpid", "%globaltimer_lo"] {
        assert_eq!(
            lines(&format!("mov.u32 %r1, {name};\nadd.u32 %r0, %r1, 1;\n{STORE}")),
            [[3, 1]],
            "{name}"
        );
    }
    for name in ["%clock64", "%globaltimer", "%gridid"] {
        let body = format!("mov.u64 %d1, {name};\ncvt.u32.u64 %r0, %d1;\n{STORE}");
        assert_eq!(lines(&body), [[3, 1]], "{name}");
    }
    for name in ["%tid.x", "%ctaid.x", "%laneid", "%lanemask_lt", "%nctaid.x", "%dynamic_smem_size"] {
        assert!(lines(&format!("mov.u32 %r0, {name};\n{STORE}")).is_empty(), "{name}");
    }
}

#[test]
fn control_flow_is_a_sink() {
    let branch =
        "mov.u32 %r1, %smid;\nsetp.eq.u32 %p1, %r1, 7;\nmov.u32 %r0, 1;\n@%p1 bra L;\nmov.u32 %r0, 2;\nL:\n";
    assert_eq!(lines(&format!("{branch}{STORE}")), [[4, 1]]);
    let guard = "mov.u32 %r1, %clock;\nand.b32 %r1, %r1, 1;\nsetp.eq.u32 %p1, %r1, 7;\nmov.u32 %r0, 1;\n@%p1 mov.u32 %r0, 2;\n";
    assert_eq!(lines(&format!("{guard}{STORE}")), [[5, 1]], "a guard that is false in all lanes");
    let select = "mov.u32 %r1, %clock;\nsetp.eq.u32 %p1, %r1, 7;\nselp.b32 %r0, 1, 2, %p1;\n";
    assert_eq!(lines(&format!("{select}{STORE}")), [[4, 1]]);
    let jump = "ts: .branchtargets L, M;\nmov.u32 %r7, %smid;\nand.b32 %r7, %r7, 1;\nmov.u32 %r0, 1;\nbrx.idx %r7, ts;\nL:\nM:\n";
    assert_eq!(lines(&format!("{jump}{STORE}")), [[5, 2]]);
}

#[test]
fn memory_shuffles_and_votes_propagate_taint() {
    let shared = ".shared .align 16 .b8 s[256];\nmov.u32 %r1, %clock;\nshl.b32 %r2, %t, 2; mov.u32 %r3, s; add.u32 %r2, %r2, %r3;\n\
                  st.shared.u32 [%r2], %r1;\nbar.sync 0;\nld.shared.u32 %r0, [%r2];\n";
    assert_eq!(lines(&format!("{shared}{STORE}")), [[7, 2]]);
    let shuffle = "mov.u32 %r1, %t;\nsetp.eq.u32 %p1, %t, 3;\n@%p1 mov.u32 %r1, %clock;\nshfl.sync.idx.b32 %r0, %r1, 3, 31, -1;\n";
    assert_eq!(lines(&format!("{shuffle}{STORE}")), [[5, 3]]);
    let other = shuffle.replace("%r1, 3, 31", "%r1, 4, 31");
    assert!(lines(&format!("{other}{STORE}")).is_empty(), "another lane's value");
    let vote = "mov.u32 %r1, %clock;\nsetp.gt.u32 %p1, %r1, 77;\nvote.sync.ballot.b32 %r0, %p1, -1;\n";
    assert_eq!(lines(&format!("{vote}{STORE}")), [[4, 1]]);
    let index = "mov.u32 %r1, %smid;\nand.b32 %r1, %r1, 63;\nmul.wide.u32 %d1, %r1, 4;\nadd.u64 %d1, %d1, %a1;\nld.global.u32 %r0, [%d1];\n";
    assert_eq!(lines(&format!("{index}{STORE}")), [[6, 1]], "which element is read");
    let place = index.replace("%a1;\nld.global.u32 %r0, [%d1]", "%a0;\nst.global.u32 [%d1], %t");
    assert_eq!(lines(&place), [[5, 1]], "which element is written");
    let atomic = "mov.u32 %r1, %clock;\natom.global.max.u32 %r1, [%a0], %r1;\n";
    assert_eq!(lines(atomic), [[2, 1]]);
}

#[test]
fn calls_propagate_taint() {
    let function = ".func (.param .b32 v) f(.param .b32 x) { .reg .b32 %x; ld.param.b32 %x, [x]; add.u32 %x, %x, 1; \
                    st.param.b32 [v], %x; ret; }";
    let body = "mov.u32 %r1, %clock;\n{ .param .b32 x; st.param.b32 [x], %r1; .param .b32 v; call.uni (v), f, (x); \
                ld.param.b32 %r0, [v]; }\n";
    assert_eq!(lines_of(&format!("{body}{STORE}"), function), [[3, 1]]);
}

#[test]
fn addresses_as_values_are_reported() {
    let stored = format!("shr.u64 %d1, %a1, 8;\ncvt.u32.u64 %r0, %d1;\n{STORE}");
    assert_eq!(lines(&stored), [[3, PARAMETERS]]);
    let branch = format!(
        "shr.u64 %d1, %a1, 8;\nand.b64 %d1, %d1, 1;\nsetp.eq.s64 %p1, %d1, 0;\nmov.u32 %r0, 1;\n@%p1 bra L;\n\
         mov.u32 %r0, 2;\nL:\n{STORE}"
    );
    assert_eq!(lines(&branch), [[5, PARAMETERS]]);
    let between = format!("sub.s64 %d1, %a1, %a0;\ncvt.u32.u64 %r0, %d1;\n{STORE}");
    assert_eq!(lines(&between), [[3, PARAMETERS]], "the distance between two arrays");
    let hash = format!(
        "shr.u64 %d1, %a1, 8;\nand.b64 %d1, %d1, 15;\nshl.b64 %d1, %d1, 2;\nadd.s64 %d1, %d1, %a1;\n\
         ld.global.u32 %r0, [%d1];\n{STORE}"
    );
    assert_eq!(lines(&hash), [[6, PARAMETERS]], "an index computed from an address");
    let global = ".global .align 4 .b32 counter;";
    let variable = format!("mov.u64 %d1, counter;\nshr.u64 %d1, %d1, 9;\ncvt.u32.u64 %r0, %d1;\n{STORE}");
    assert_eq!(lines_of(&variable, global), [[4]]);
}

#[test]
fn ordinary_pointer_arithmetic_is_not_reported() {
    let aligned =
        "and.b64 %d1, %a1, 15; setp.ne.s64 %p1, %d1, 0; mov.u32 %r0, 1; @%p1 bra L; mov.u32 %r0, 2; L:";
    let both = "or.b64 %d1, %a1, %a0; cvt.u32.u64 %r1, %d1; and.b32 %r1, %r1, 15; setp.ne.s32 %p1, %r1, 0; mov.u32 %r0, 1; \
                @%p1 bra L; mov.u32 %r0, 2; L:";
    let end = "mov.u32 %r0, 0; mov.u64 %d1, %a1; add.s64 %d2, %a1, 16; L: ld.global.u32 %r1, [%d1]; add.u32 %r0, %r0, %r1; \
               add.s64 %d1, %d1, 4; setp.lt.u64 %p1, %d1, %d2; @%p1 bra L;";
    let difference =
        "mad.wide.u32 %d1, %t, 4, %a1; sub.s64 %d1, %d1, %a1; shr.u64 %d1, %d1, 2; cvt.u32.u64 %r0, %d1;";
    let null = "setp.eq.s64 %p1, %a1, 0; mov.u32 %r0, 1; @%p1 bra L; mov.u32 %r0, 2; L:";
    let halves = "mov.b64 {%r1, %r2}, %a1; shfl.sync.idx.b32 %r1, %r1, 0, 31, -1; shfl.sync.idx.b32 %r2, %r2, 0, 31, -1; \
                  mov.b64 %d1, {%r1, %r2}; ld.global.u32 %r0, [%d1];";
    let generic = "cvta.to.global.u64 %d1, %a1; or.b64 %d1, %d1, 4; ld.global.u32 %r0, [%d1];";
    let rounded = "add.s64 %d1, %a1, 15; and.b64 %d1, %d1, -16; sub.s64 %d1, %d1, %a1; cvt.u32.u64 %r0, %d1;";
    let choice = "and.b32 %r1, %t, 1; setp.eq.u32 %p1, %r1, 0; add.s64 %d1, %a0, 4; selp.b64 %d1, %a1, %d1, %p1; \
                  ld.global.u32 %r0, [%d1];";
    let same_array = "setp.eq.s64 %p1, %a1, %a0; mov.u32 %r0, 1; @%p1 bra L; mov.u32 %r0, 2; L:";
    for body in [same_array, aligned, both, end, difference, null, halves, generic, rounded, choice] {
        assert!(lines(&format!("{body}\n{STORE}")).is_empty(), "{body}");
    }
}

#[test]
fn waiting_and_printing_are_not_reported() {
    let delay = "mov.u64 %d1, %clock64; L: mov.u64 %d2, %clock64; sub.s64 %d3, %d2, %d1; setp.lt.s64 %p1, %d3, 40; @%p1 bra L; \
                 mov.u32 %r0, 1;";
    assert!(lines(&format!("{delay}\n{STORE}")).is_empty());
    let counted = "mov.u32 %r0, 0; mov.u64 %d1, %clock64;\nL: mov.u64 %d2, %clock64; sub.s64 %d3, %d2, %d1; add.u32 %r0, %r0, 1; \
                   setp.lt.s64 %p1, %d3, 40;\n@%p1 bra L;";
    assert_eq!(lines(&format!("{counted}\n{STORE}")), [[3, 2]], "the iterations are counted");
    let late = "mov.u32 %r0, 1; mov.u64 %d1, %clock64; setp.lt.s64 %p1, %d1, 0; @!%p1 bra L; trap; L:";
    assert!(lines(&format!("{late}\n{STORE}")).is_empty(), "a timeout that ends the launch");
    let sleep = "mov.u32 %r1, %clock; and.b32 %r1, %r1, 63; nanosleep.u32 %r1; mov.u32 %r0, 1;";
    assert!(lines(&format!("{sleep}\n{STORE}")).is_empty());
    let local =
        ".local .align 8 .b8 room[16]; mov.u32 %r1, %clock; st.local.u32 [room], %r1; mov.u32 %r0, 1;";
    assert!(lines(&format!("{local}\n{STORE}")).is_empty());
    let overwritten = "mov.u32 %r0, %clock; mov.u32 %r0, 3;";
    assert!(lines(&format!("{overwritten}\n{STORE}")).is_empty());
}

#[test]
fn allowed_sources_are_not_reported() {
    use warpproof_check::{Settings, Source};
    use warpproof_sim::Device;
    let ptx = ".version 8.7\n.target sm_89\n.address_size 64\n.visible .entry k(.param .u64 out) {\n\
               .reg .b64 %d<4>; .reg .b32 %r<4>;\nld.param.u64 %d0, [out];\nmov.u32 %r0, %clock;\n\
               st.global.u32 [%d0], %r0;\nmov.u32 %r1, %smid;\nst.global.u32 [%d0+4], %r1;\n\
               st.global.u64 [%d0+8], %d0;\nret;\n}\n";
    let found = |checks: &[Check], allowed: &[Source]| {
        let mut device = Device::new().with_threads(1);
        let module = device.load(ptx).unwrap();
        let out = device.alloc::<u32>(4).unwrap();
        let launch = module.kernel("k").unwrap().launch().arg(out);
        let settings = Settings { checks: checks.to_vec(), allowed: allowed.to_vec(), ..Settings::default() };
        let findings = device.check(&launch, &settings).findings;
        findings
            .iter()
            .filter_map(|finding| Some(finding.places.first()?.place.ptx_line))
            .collect::<Vec<u32>>()
    };
    assert_eq!(found(&[Check::Machine], &[]), [8, 10, 11]);
    assert_eq!(found(&[Check::Machine], &[Source::Clock]), [10, 11]);
    assert_eq!(found(&[Check::Machine], &[Source::Machine, Source::Address]), [8]);
    assert!(found(&[Check::Machine], &Source::ALL).is_empty());
    assert!(found(&Check::DEFAULT, &[]).is_empty(), "disabled by default");
}
