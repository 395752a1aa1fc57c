//! The checks on instructions of sm_100 and sm_120: scales and elements of block-scaled products, pairs of f32, matrices of
//! bytes, and accesses of 32 bytes.
#![expect(clippy::format_collect, reason = "kernels are short texts")]

use warpproof_check::{BufferRole, Check, CheckLaunch, Checked, Class, Role, Settings};
use warpproof_sim::Device;

/// Checks one warp of a kernel for sm_120a with a buffer of 512 words that is only written. `%t` is the lane, `%o` the address
/// of its four words.
fn check(body: &str) -> Checked {
    let ptx = format!(
        ".version 8.8\n.target sm_120a\n.address_size 64\n.visible .entry k(.param .u64 out) {{\n\
         .shared .align 16 .b8 tile[1024];\n\
         .reg .b32 %t, %s, %r<32>; .reg .f32 %f<8>; .reg .b64 %o, %d<8>; .reg .pred %p, %q;\n\
         mov.u32 %t, %tid.x; ld.param.u64 %o, [out]; mad.wide.u32 %o, %t, 16, %o; mov.u32 %s, tile;\n\
         {body}\nret;\n}}\n"
    );
    let mut device = Device::new().with_threads(1);
    let module = device.load(&ptx).unwrap();
    let out = device.upload(&vec![0u32; 512]).unwrap();
    let launch = module.kernel("k").unwrap().launch().grid(1).block(32).arg(out);
    let role = BufferRole {
        name: "out".to_owned(),
        address: out.address(),
        element: 4,
        extents: vec![512],
        role: Role::Out,
        initialized: false,
    };
    let checks = vec![Check::Init, Check::Race];
    let checked = device.check(&launch, &Settings { checks, buffers: vec![role], ..Settings::default() });
    assert!(checked.outcome.stop.is_none(), "{:?}\n{ptx}", checked.outcome.stop);
    checked
}

/// The instructions of the findings of a class; there must be no other class.
fn found(body: &str, class: Class) -> Vec<String> {
    let checked = check(body);
    assert!(checked.findings.iter().all(|finding| finding.class == class), "{:?}", checked.findings);
    checked.findings.iter().map(|finding| finding.places[0].place.instruction.clone()).collect()
}

/// A product with these selectors, whose scales are `%r8` and `%r9`; the sources of all other operands are set.
fn product(set: &str, selectors: [&str; 2]) -> String {
    let set_all: String = (0..8).map(|i| format!("mov.b32 %r{i}, 0x22222222; ")).collect();
    let c: String = (0..4).map(|i| format!("mov.f32 %f{i}, 0f00000000; ")).collect();
    format!(
        "{set_all}{c}{set}\n\
         mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3 \
         {{%f0, %f1, %f2, %f3}}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}}, {{%f0, %f1, %f2, %f3}}, \
         %r8, {{0, {}}}, %r9, {{0, {}}};\n\
         st.global.v4.f32 [%o], {{%f0, %f1, %f2, %f3}};",
        selectors[0], selectors[1]
    )
}

#[test]
fn lanes_that_are_not_selected_need_no_scales() {
    // Lanes 0 and 1 of each group have the scales of A, lane 3 that of B.
    let set = "and.b32 %r20, %t, 3; setp.lt.u32 %p, %r20, 2; @%p mov.b32 %r8, 0x38383838; \
               setp.eq.u32 %q, %r20, 3; @%q mov.b32 %r9, 0x38383838;";
    assert_eq!(found(&product(set, ["0", "3"]), Class::Uninitialized), Vec::<String>::new());
    // Other lanes are selected: their scales were never set, and all results depend on them.
    for selectors in [["1", "3"], ["0", "2"]] {
        let found = found(&product(set, selectors), Class::Uninitialized);
        assert!(!found.is_empty(), "{selectors:?}");
        assert!(found.iter().all(|place| place.starts_with("st.global.v4.f32")), "{found:?}");
    }
}

#[test]
fn elements_that_are_not_set_are_found() {
    let all = "mov.b32 %r8, 0x38383838; mov.b32 %r9, 0x38383838;";
    assert_eq!(found(&product(all, ["0", "0"]), Class::Uninitialized), Vec::<String>::new());
    let body = product(all, ["0", "0"]).replace("mov.b32 %r3, 0x22222222; ", "");
    assert!(!found(&body, Class::Uninitialized).is_empty());
}

#[test]
fn the_halves_of_a_pair_are_separate() {
    let pair = |set: &str, half: &str| {
        format!(
            "mov.b64 %d1, 0; {set} mov.b64 %d2, {{%r0, %r1}}; add.rn.f32x2 %d3, %d1, %d2; mov.b64 {{%r2, %r3}}, %d3;\n\
             st.global.b32 [%o], {half};"
        )
    };
    let low = "mov.b32 %r0, 1;";
    assert_eq!(found(&pair(low, "%r2"), Class::Uninitialized), Vec::<String>::new());
    assert!(!found(&pair(low, "%r3"), Class::Uninitialized).is_empty());
    let high = "mov.b32 %r1, 1;";
    assert_eq!(found(&pair(high, "%r3"), Class::Uninitialized), Vec::<String>::new());
    assert!(!found(&pair(high, "%r2"), Class::Uninitialized).is_empty());
}

#[test]
fn matrices_of_bytes_read_what_was_stored() {
    // Rows of 16 bytes; the first `count` bytes of each are set. Lane l reads the row at its address.
    let load = |stores: &str, instruction: &str, registers: &str, stored: &str| {
        format!(
            "shl.b32 %r20, %t, 4; add.u32 %s, %s, %r20; mov.b64 %d1, 0; {stores} bar.warp.sync -1;\n\
             {instruction} {{{registers}}}, [%s];\nst.global.b32 [%o], {stored};"
        )
    };
    let (half, all) = ("st.shared.b64 [%s], %d1;", "st.shared.b64 [%s], %d1; st.shared.b64 [%s+8], %d1;");
    let narrow = "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b4x16_p64";
    assert_eq!(
        found(&load(half, narrow, "%r0", "%r0"), Class::Uninitialized),
        Vec::<String>::new(),
        "padding"
    );
    let six = "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b6x16_p32";
    assert!(!found(&load(half, six, "%r0", "%r0"), Class::Uninitialized).is_empty());
    let wide = "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8";
    assert_eq!(found(&load(all, wide, "%r0, %r1", "%r1"), Class::Uninitialized), Vec::<String>::new());
    assert!(!found(&load(half, wide, "%r0, %r1", "%r1"), Class::Uninitialized).is_empty());
}

#[test]
fn a_matrix_that_is_stored_without_a_barrier_is_a_race() {
    let body = |barrier: &str| {
        format!(
            "shl.b32 %r20, %t, 4; add.u32 %r21, %s, %r20; mov.b32 %r0, %t; mov.b32 %r1, %t; mov.b32 %r2, %t; mov.b32 %r3, %t;\n\
             stmatrix.sync.aligned.m16n8.x4.trans.shared.b8 [%r21], {{%r0, %r1, %r2, %r3}};\n{barrier}\
             xor.b32 %r20, %r20, 16; add.u32 %r21, %s, %r20; ld.shared.b32 %r4, [%r21]; st.global.b32 [%o], %r4;"
        )
    };
    assert_eq!(found(&body("bar.warp.sync -1;"), Class::SharedRace), Vec::<String>::new());
    assert_eq!(found(&body(""), Class::SharedRace).len(), 1);
}

#[test]
fn accesses_of_32_bytes_are_checked() {
    let body = |step: u32, set: &str| {
        format!(
            "ld.param.u64 %o, [out]; mad.wide.u32 %o, %t, {step}, %o; {set}\n\
             st.global.v8.b32 [%o], {{%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}};"
        )
    };
    let set: String = (0..8).map(|i| format!("mov.b32 %r{i}, %t; ")).collect();
    assert_eq!(found(&body(32, &set), Class::GlobalRace), Vec::<String>::new());
    let partly = set.replace("mov.b32 %r7, %t; ", "");
    assert!(!found(&body(32, &partly), Class::Uninitialized).is_empty());
}
