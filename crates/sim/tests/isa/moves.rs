//! `mov`, `cvta`, `prmt` and similar instructions.

use crate::harness::{Column, check, levels, pairs, patterns, try_eval};
use warpproof_sim::{Blame, StopKind};

#[test]
fn mov_copies_bits() {
    let values = patterns(300);
    check("mov.b32 %d0, %s0;", &["b32"], &[("b32", values.clone())], |s| vec![s[0] & 0xffff_ffff]);
    check("mov.b64 %d0, %s0;", &["b64"], &[("b64", values.clone())], |s| vec![s[0]]);
    for ty in ["u16", "s16", "b16", "u32", "s32", "f32", "u64", "s64", "f64"] {
        let mask = match &ty[1..] {
            "16" => 0xffff,
            "32" => 0xffff_ffff,
            _ => u64::MAX,
        };
        check(&format!("mov.{ty} %d0, %s0;"), &[ty], &[(ty, values.clone())], |s| vec![s[0] & mask]);
    }
    let body = "mov.pred %d0, %s0; @%s0 mov.b32 %d1, 5; @!%s0 mov.b32 %d1, 9; mov.pred %d2, 1;";
    let flags: Column = (0..256).map(|i| i & 1).collect();
    check(body, &["pred", "b32", "pred"], &[("pred", flags)], |s| {
        vec![s[0], if s[0] != 0 { 5 } else { 9 }, 1]
    });
    check("mov.u32 %d0, %laneid;", &["b32"], &[("b32", (0..256).collect())], |s| vec![s[0] % 32]);
}

#[test]
fn mov_of_immediates_fits_the_register() {
    // A predicate computed from the whole row would see bits above a narrow register.
    let body = "mov.b16 %d0, -1; mov.u16 %d1, 65535; mov.b32 %d2, {%d0, %d1}; mov.f32 %d3, 0f3F800000; mov.f64 %d4, 0.5;
                mov.s64 %d5, -2; setp.eq.b16 %d6, %d0, %d1;";
    check(body, &["b16", "b16", "b32", "b32", "b64", "b64", "pred"], &[("b32", patterns(32))], |_| {
        vec![0xffff, 0xffff, 0xffff_ffff, 0x3f80_0000, 0x3fe0 << 48, u64::MAX - 1, 1]
    });
}

#[test]
fn mov_packs_and_unpacks() {
    let values = patterns(300);
    check("mov.b64 {%d0, %d1}, %s0;", &["b32", "b32"], &[("b64", values.clone())], |s| {
        vec![s[0] & 0xffff_ffff, s[0] >> 32]
    });
    check("mov.b32 {%d0, %d1}, %s0;", &["b16", "b16"], &[("b32", values.clone())], |s| {
        vec![s[0] & 0xffff, s[0] >> 16 & 0xffff]
    });
    check("mov.b64 {_, %d0}, %s0;", &["b32"], &[("b64", values.clone())], |s| vec![s[0] >> 32]);
    let body = ".reg .b32 %w<2>; mov.b64 {%w0, %w1}, %s0; mov.b64 %d0, {%w1, %w0};
                .reg .b16 %h<4>; mov.b64 {%h0, %h1, %h2, %h3}, %s0; mov.b64 %d1, {%h3, %h2, %h1, %h0};
                mov.b32 %d2, {%h1, %h0};
                .reg .b8 %b<4>; mov.b32 {%b0, %b1, %b2, %b3}, %w0; mov.b32 %d3, {%b3, %b2, %b1, %b0};
                mov.b16 {%b0, %b1}, %h0; mov.b16 %d4, {%b1, %b0};
                .reg .b128 %q; .reg .b64 %l<2>; mov.b128 %q, {%s0, %d0}; mov.b128 %q, %q; mov.b128 {%l0, %l1}, %q;
                mov.b64 %d5, %l1;";
    check(body, &["b64", "b64", "b32", "b32", "b16", "b64"], &[("b64", values)], |s| {
        let [h0, h1, h2, h3] = [0, 16, 32, 48].map(|shift| s[0] >> shift & 0xffff);
        let swapped = s[0].rotate_left(32);
        let bytes = (s[0] & 0xffff_ffff).swap_bytes() >> 32;
        let half = (h0 << 8 | h0 >> 8) & 0xffff;
        vec![swapped, h3 | h2 << 16 | h1 << 32 | h0 << 48, h1 | h0 << 16, bytes, half, swapped]
    });
}

/// Bytes 3 to 0 of the result for each value of the selector's low two bits.
const MODES: [(&str, [[usize; 4]; 4]); 6] = [
    ("f4e", [[3, 2, 1, 0], [4, 3, 2, 1], [5, 4, 3, 2], [6, 5, 4, 3]]),
    ("b4e", [[5, 6, 7, 0], [6, 7, 0, 1], [7, 0, 1, 2], [0, 1, 2, 3]]),
    ("rc8", [[0, 0, 0, 0], [1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3]]),
    ("ecl", [[3, 2, 1, 0], [3, 2, 1, 1], [3, 2, 2, 2], [3, 3, 3, 3]]),
    ("ecr", [[0, 0, 0, 0], [1, 1, 1, 0], [2, 2, 1, 0], [3, 2, 1, 0]]),
    ("rc16", [[1, 0, 1, 0], [3, 2, 3, 2], [1, 0, 1, 0], [3, 2, 3, 2]]),
];

fn low_byte(value: u64) -> u8 {
    value.to_le_bytes()[0]
}

fn word(bytes: [u8; 4]) -> u64 {
    u64::from(u32::from_be_bytes(bytes))
}

fn chosen(a: u64, b: u64, selector: u64) -> u64 {
    let both = a & 0xffff_ffff | b << 32;
    word([12, 8, 4, 0].map(|shift| {
        let nibble = selector >> shift & 15;
        let byte = low_byte(both >> (8 * (nibble & 7)));
        match nibble {
            0..8 => byte,
            _ if byte >= 0x80 => 0xff,
            _ => 0,
        }
    }))
}

#[test]
fn prmt_in_every_mode() {
    let (a, c) = pairs(&patterns(40), &patterns(60));
    let mut b = a.clone();
    b.rotate_left(333);
    let mut lines: Vec<String> = MODES
        .iter()
        .enumerate()
        .map(|(i, (mode, _))| format!("prmt.b32.{mode} %d{i}, %s0, %s1, %s2;"))
        .collect();
    lines.push(
        "prmt.b32 %d6, %s0, %s1, %s2; prmt.b32 %d7, %s0, %s1, 0x5410U; prmt.b32 %d8, %s0, %s1, 0xba97;"
            .into(),
    );
    let body = lines.join("\n");
    check(&body, &["b32"; 9], &[("b32", a), ("b32", b), ("b32", c)], |s| {
        let bytes = (s[0] & 0xffff_ffff | s[1] << 32).to_le_bytes();
        let by_mode =
            MODES.iter().map(|(_, table)| word(table[usize::from(low_byte(s[2] & 3))].map(|i| bytes[i])));
        by_mode.chain([s[2], 0x5410, 0xba97].map(|selector| chosen(s[0], s[1], selector))).collect()
    });
}

#[test]
fn generic_addresses_tell_their_space() {
    let body = ".shared .align 4 .b32 sv; .local .align 4 .b32 lv; .reg .b64 %g; .reg .b32 %v;
                mov.u64 %g, sv; cvta.shared.u64 %g, %g;
                isspacep.shared %d0, %g; isspacep.shared::cta %d1, %g; isspacep.shared::cluster %d2, %g; isspacep.global %d3, %g;
                st.b32 [%g], %t; cvta.to.shared.u64 %g, %g; ld.shared.b32 %v, [%g];
                mov.u64 %g, lv; cvta.local.u64 %g, %g;
                isspacep.local %d4, %g; isspacep.shared %d5, %g;
                st.b32 [%g], %lane; cvta.to.local.u64 %g, %g; ld.local.b32 %d10, [%g];
                mov.b64 %g, in0; cvta.param.u64 %g, %g;
                isspacep.param %d6, %g; isspacep.param::entry %d7, %g; isspacep.global %d8, %g;
                isspacep.const %d9, %g; ld.b64 %g, [%g];
                isspacep.global %d11, %g; isspacep.param %d12, %g; cvta.global.u64 %g, %g; cvta.to.global.u64 %g, %g;
                add.u64 %g, %g, %o; ld.global.b32 %d13, [%g]; sub.u32 %d10, %d10, %lane;";
    let mut results = ["pred"; 14];
    results[10] = "b32";
    results[13] = "b32";
    check(body, &results, &[("b32", patterns(300))], |s| {
        vec![1, 1, 1, 0, 1, 0, 1, 1, 1, 0, 0, 1, 0, s[0] & 0xffff_ffff]
    });
}

#[test]
fn constant_memory_has_a_window() {
    let body =
        ".reg .b64 %g; mov.u64 %g, 0; cvta.const.u64 %g, %g; isspacep.const %d0, %g; isspacep.global %d1, %g;
                cvta.to.const.u64 %d2, %g; cvta.param::entry.u64 %g, 0; cvta.to.param.u64 %d3, %g;
                cvta.shared::cta.u64 %g, 16; cvta.to.shared::cluster.u64 %d4, %g;";
    check(body, &["pred", "pred", "b64", "b64", "b64"], &[("b32", patterns(32))], |_| vec![1, 0, 0, 0, 16]);
}

#[test]
fn a_narrow_address_is_below_every_window() {
    let body =
        "isspacep.shared %d0, %s0; isspacep.local %d1, %s0; isspacep.const %d2, %s0; isspacep.param %d3, %s0;
                isspacep.global %d4, %s0;";
    check(body, &["pred"; 5], &[("b32", patterns(64))], |_| vec![0, 0, 0, 0, 1]);
}

#[test]
fn vector_registers_and_their_components() {
    let body = ".reg .v4 .b32 %v; .reg .v2 .b32 %u<2>; .reg .v2 .b64 w; .shared .align 16 .b8 buffer[8192]; .reg .b32 %m;
                mov.u32 %m, %tid.x; shl.b32 %m, %m, 4; mov.b32 %x, buffer; add.u32 %m, %m, %x;
                mov.b32 %v.x, %s0; mov.b32 %v.g, %s1; add.u32 %v.z, %v.r, 1; mov.b32 %v.a, 9;
                mov.b32 %d0, %v.r; mov.b32 %d1, %v.y; mov.b32 %d2, %v.b; mov.b32 %d3, %v.w;
                st.shared.v4.b32 [%m], %v; ld.shared.v2.b32 %u1, [%m+8]; mov.b32 %d4, %u1.x; mov.b32 %d5, %u1.g;
                ld.shared.v2.b64 w, [%m]; mov.b64 %d6, w.y; mov.b64 %d7, %u1;";
    let results = ["b32", "b32", "b32", "b32", "b32", "b32", "b64", "b64"];
    let (first, second) = pairs(&patterns(20), &patterns(20));
    check(body, &results, &[("b32", first), ("b32", second)], |s| {
        let (x, y) = (s[0] & 0xffff_ffff, s[1] & 0xffff_ffff);
        let z = (x + 1) & 0xffff_ffff;
        vec![x, y, z, 9, z, 9, 9 << 32 | z, 9 << 32 | z]
    });
}

#[test]
fn misused_vector_registers_are_malformed() {
    let kind = |body: &str| {
        let body = format!(".reg .v2 .b32 %v; .shared .align 16 .b8 buffer[16]; {body}");
        let stop = try_eval(levels()[0], &body, &["b32"], &[("b32", vec![0])]).unwrap_err();
        (stop.blame, stop.kind)
    };
    let malformed = (Blame::Input, StopKind::Malformed);
    assert_eq!(kind("ld.shared.v4.b32 %v, [buffer];"), malformed);
    assert_eq!(kind("ld.shared.v2.b64 %v, [buffer];"), malformed);
    assert_eq!(kind("mov.b32 %v.z, 1;"), malformed);
    assert_eq!(kind("mov.b32 %d0.x, 1;"), malformed);
}
