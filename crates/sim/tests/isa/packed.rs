//! Instructions of sm_100 and later on pairs of f32, on sources of 16 bits, on three sources, and `redux` of f32.
#![expect(
    clippy::as_conversions,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "parts of words"
)]

use crate::harness::{Column, eval, eval_on, levels, patterns, try_eval_on};
use warpproof_sim::Blame;

/// The halves of a pair are computed as two scalar instructions compute them.
#[test]
fn pairs_of_singles() {
    let sources: Vec<Column> = (0..3)
        .map(|turn| {
            let mut words = patterns(512);
            words.rotate_left(37 * turn);
            words
        })
        .collect();
    let half = |upper: bool| -> Vec<(&str, Column)> {
        let shift = if upper { 32 } else { 0 };
        let column = |words: &Column| words.iter().map(|word| word >> shift & 0xffff_ffff).collect();
        sources.iter().map(|words| ("b32", column(words))).collect()
    };
    let wide: Vec<(&str, Column)> = sources.iter().map(|words| ("b64", words.clone())).collect();
    for rounding in ["rn", "rz", "rm", "rp"] {
        for ftz in ["", ".ftz"] {
            for (opcode, operands) in
                [("add", "%s0, %s1"), ("sub", "%s0, %s1"), ("mul", "%s0, %s1"), ("fma", "%s0, %s1, %s2")]
            {
                let name = format!("{opcode}.{rounding}{ftz}");
                let pair = eval_on("sm_120", &format!("{name}.f32x2 %d0, {operands};"), &["b64"], &wide);
                let single = |upper: bool| {
                    eval_on("sm_120", &format!("{name}.f32 %d0, {operands};"), &["b32"], &half(upper))
                        .remove(0)
                };
                let want: Column = single(true)
                    .iter()
                    .zip(single(false))
                    .map(|(upper, lower)| upper << 32 | lower)
                    .collect();
                assert_eq!(pair[0], want, "{name}");
            }
        }
    }
}

#[test]
fn sources_of_sixteen_bits() {
    let narrow: Column = (0..2048).map(|i| (i * 40503) & 0xffff).collect();
    let other: Column = (0..2048).map(|i| (i * 30011 + 5) & 0xffff).collect();
    let single: Column = patterns(2048).iter().map(|word| word & 0xffff_ffff).collect();
    let sources = [("b16", narrow), ("b16", other), ("b32", single)];
    for ty in ["f16", "bf16"] {
        let wide = format!(".reg .f32 %x0, %x1; cvt.f32.{ty} %x0, %s0; cvt.f32.{ty} %x1, %s1;");
        for modifiers in [".rn", ".rz.sat", ".rp", ".rm.sat"] {
            for (opcode, mixed, single) in [
                ("add", "%s0, %s2", "%x0, %s2"),
                ("sub", "%s0, %s2", "%x0, %s2"),
                ("fma", "%s0, %s1, %s2", "%x0, %x1, %s2"),
            ] {
                let got = eval(&format!("{opcode}{modifiers}.f32.{ty} %d0, {mixed};"), &["b32"], &sources);
                let want =
                    eval(&format!("{wide} {opcode}{modifiers}.f32 %d0, {single};"), &["b32"], &sources);
                assert_eq!(got, want, "{opcode}{modifiers}.f32.{ty}");
            }
        }
    }
}

const NAN: u64 = 0x7fff_ffff;

#[test]
fn extrema_of_three() {
    let one = |x: f32| u64::from(x.to_bits());
    let values = [one(1.0), one(-3.0), one(2.0), 0x7fc0_0001, one(0.0), one(-0.0), 1, one(f32::INFINITY)];
    let mut columns = vec![Column::new(); 3];
    for a in values {
        for b in values {
            for c in values {
                [a, b, c].iter().zip(&mut columns).for_each(|(value, column)| column.push(*value));
            }
        }
    }
    let sources: Vec<(&str, Column)> = columns.iter().map(|column| ("b32", column.clone())).collect();
    for opcode in ["min", "max"] {
        for ftz in ["", ".ftz"] {
            for nan in ["", ".NaN"] {
                for abs in [false, true] {
                    let name = format!("{opcode}{ftz}{nan}");
                    let body = format!("{name}{}.f32 %d0, %s0, %s1, %s2;", if abs { ".abs" } else { "" });
                    let got = eval_on("sm_120", &body, &["b32"], &sources);
                    let magnitudes = if abs {
                        "abs.f32 %x0, %s0; abs.f32 %x1, %s1; abs.f32 %x2, %s2;"
                    } else {
                        "mov.f32 %x0, %s0; mov.f32 %x1, %s1; mov.f32 %x2, %s2;"
                    };
                    let nested = format!(
                        ".reg .f32 %x0, %x1, %x2; {magnitudes} {name}.f32 %x0, %x0, %x1; {name}.f32 %d0, %x0, %x2;"
                    );
                    assert_eq!(got, eval_on("sm_120", &nested, &["b32"], &sources), "{body}");
                    // The order of the sources does not matter.
                    let turned = body.replace("%s0, %s1, %s2", "%s2, %s0, %s1");
                    assert_eq!(got, eval_on("sm_120", &turned, &["b32"], &sources), "{body}");
                }
            }
        }
    }
    let body = "max.f32 %d0, %s0, %s1, %s2;";
    let stop = try_eval_on("sm_90", levels()[0], body, &["b32"], &sources).unwrap_err();
    assert_eq!(stop.blame, Blame::Input, "{stop}");
    assert!(stop.sentence.contains("three sources need sm_100"), "{stop}");
}

#[test]
fn reductions_of_singles() {
    let values: Column =
        (0..32u32).map(|i| u64::from((f32::from((i * 7 % 32) as u16) - 20.0).to_bits())).collect();
    let mut with_nan = values.clone();
    with_nan[5] = 0x7fc0_1234;
    let all_nan = vec![0xffc0_0001; 32];
    let run = |modifiers: &str, mask: &str, column: &Column| {
        let body = format!("redux.sync.{modifiers}.f32 %d0, %s0, {mask};");
        eval_on("sm_100a", &body, &["b32"], &[("b32", column.clone())]).remove(0)
    };
    let code = |x: f32| u64::from(x.to_bits());
    for (modifiers, column, want) in [
        ("min", &values, code(-20.0)),
        ("max", &values, code(11.0)),
        ("min.abs", &values, code(0.0)),
        ("max.abs", &values, code(20.0)),
        ("max", &with_nan, code(11.0)),
        ("max.NaN", &with_nan, NAN),
        ("max.abs.NaN", &with_nan, NAN),
        ("min", &all_nan, NAN),
    ] {
        assert_eq!(run(modifiers, "-1", column), vec![want; 32], "{modifiers}");
    }
    // A lane alone: its own value, with the sign removed.
    let body = "@%p0 redux.sync.max.abs.f32 %d0, %s0, 8;";
    let body = format!(".reg .pred %p0; setp.eq.u32 %p0, %lane, 3; mov.b32 %d0, 0; {body}");
    let got = eval_on("sm_100a", &body, &["b32"], &[("b32", values.clone())]).remove(0);
    assert_eq!(got[3], values[3] & 0x7fff_ffff);
    for target in ["sm_100", "sm_110a", "sm_120a"] {
        let body = "redux.sync.max.f32 %d0, %s0, -1;";
        let stop = try_eval_on(target, levels()[0], body, &["b32"], &[("b32", values.clone())]).unwrap_err();
        assert!(stop.sentence.contains("needs sm_100a"), "{stop}");
    }
}

/// Loads and stores of 32 bytes.
#[test]
fn words_of_256_bits() {
    // Each of the first 64 threads has 32 bytes; it stores them with the outer words exchanged, and reads the first half.
    let body = ".reg .b64 %q; .reg .b32 %e<8>; .reg .b64 %w<4>; .reg .pred %p0; setp.lt.u32 %p0, %t, 64; \
         ld.param.u64 %q, [in0]; and.b32 %x, %t, 63; mul.wide.u32 %o, %x, 32; add.u64 %q, %q, %o; \
         ld.global.L1::no_allocate.L2::evict_first.v8.b32 {%e0, %e1, %e2, %e3, %e4, %e5, %e6, %e7}, [%q]; \
         ld.global.L2::evict_last.v4.b64 {%w0, %w1, %w2, %w3}, [%q]; \
         xor.b64 %d0, %w0, %w1; xor.b64 %w2, %w2, %w3; xor.b64 %d0, %d0, %w2; mov.b64 %d1, 0; \
         @%p0 st.global.L2::evict_last.v8.b32 [%q], {%e7, %e1, %e2, %e3, %e4, %e5, %e6, %e0}; \
         @%p0 ld.global.b64 %d1, [%q]; mul.wide.u32 %o, %t, 8;";
    let words: Column = patterns(256);
    let got = eval_on("sm_120", body, &["b64", "b64"], &[("b64", words.clone())]);
    for t in 0..64 {
        let four = &words[4 * t..4 * t + 4];
        assert_eq!(got[0][t], four[0] ^ four[1] ^ four[2] ^ four[3], "thread {t}");
        assert_eq!(got[1][t], four[3] >> 32 | four[0] & !0xffff_ffff, "thread {t}");
    }
}

/// The layouts of the header of `isa/matrix/bytes.rs`, one warp with 512 bytes of shared memory.
fn matrix(instruction: &str, registers: usize) -> Vec<Column> {
    let list: Vec<String> = (0..registers).map(|i| format!("%d{i}")).collect();
    let body = format!(
        ".shared .align 16 .b8 s[4096]; .reg .b32 %a, %b, %c; mov.u32 %a, s; shl.b32 %b, %t, 4; and.b32 %b, %b, 4080; \
         add.u32 %a, %a, %b; st.shared.b64 [%a], %s0; st.shared.b64 [%a+8], %s1; bar.sync 0; {instruction} {{{}}}, [%a];",
        list.join(", ")
    );
    // Byte i of row r is 16 r + i.
    let word = |r: u64, first: u64| (0..8).fold(0, |word, i| word | ((16 * r + first + i) & 0xff) << (8 * i));
    let column = |first| (0..32).map(|r| word(r, first)).collect::<Column>();
    let mut results =
        eval_on("sm_120a", &body, &vec!["b32"; registers], &[("b64", column(0)), ("b64", column(8))]);
    for column in &mut results {
        column.truncate(32);
    }
    results
}

#[test]
fn matrices_of_bytes() {
    for (count, num) in [(1, "x1"), (2, "x2")] {
        let got = matrix(&format!("ldmatrix.sync.aligned.m16n16.{num}.trans.shared.b8"), 2 * count);
        for (register, column) in got.iter().enumerate() {
            for (lane, word) in column.iter().enumerate() {
                let (g, t) = (lane / 4, lane % 4);
                for byte in 0..4 {
                    let (row, element) = (4 * t + 2 * (register % 2) + byte % 2, g + 8 * (byte / 2));
                    let want = (16 * (16 * (register / 2) + row) + element) as u64 & 0xff;
                    assert_eq!(
                        word >> (8 * byte) & 0xff,
                        want,
                        "{num} register {register} lane {lane} byte {byte}"
                    );
                }
            }
        }
    }
    for (count, num) in [(1, "x1"), (2, "x2"), (4, "x4")] {
        for (source, bits) in [("b6x16_p32", 6), ("b4x16_p64", 4)] {
            let name = format!("ldmatrix.sync.aligned.m8n16.{num}.shared.b8x16.{source}");
            for (register, column) in matrix(&name, count).iter().enumerate() {
                for (lane, word) in column.iter().enumerate() {
                    let (g, t) = (lane / 4, lane % 4);
                    let bytes = (0..16).fold(0u128, |row, i| {
                        row | ((16 * (8 * register + g) + i) as u128 & 0xff) << (8 * i)
                    });
                    for byte in 0..4 {
                        let want = bytes >> (bits * (4 * t + byte)) & ((1 << bits) - 1);
                        assert_eq!(
                            u128::from(word >> (8 * byte) & 0xff),
                            want,
                            "{name} {register} {lane} {byte}"
                        );
                    }
                }
            }
        }
    }
    let got = matrix("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8x16.b4x16_p64", 2);
    // Row 1, element 0 and row 1, element 8 of lane 0: the nibbles of byte 0x10 and of byte 0x14.
    assert_eq!((got[0][0] >> 8 & 0xff, got[0][0] >> 24), (0x0, 0x4));
}

/// What `stmatrix` stores, `ld` reads where the layout puts it.
#[test]
fn stored_matrices_of_bytes() {
    for (count, num) in [(1usize, "x1"), (2, "x2"), (4, "x4")] {
        let list: Vec<String> = (0..count).map(|i| format!("%s{i}")).collect();
        let body = format!(
            ".shared .align 16 .b8 s[4096]; .reg .b32 %a, %b; mov.u32 %a, s; shl.b32 %b, %t, 4; and.b32 %b, %b, 4080; \
             add.u32 %a, %a, %b; mov.b64 %d0, 0; mov.b64 %d1, 0; st.shared.b64 [%a], %d0; st.shared.b64 [%a+8], %d0; bar.sync 0; \
             stmatrix.sync.aligned.m16n8.{num}.trans.shared.b8 [%a], {{{}}}; bar.sync 0; \
             ld.shared.b64 %d0, [%a]; ld.shared.b64 %d1, [%a+8];",
            list.join(", ")
        );
        let value = |register: usize, lane: usize, byte: usize| {
            (64 * register + 4 * lane / 2 + byte * 3 + 1) as u64 & 0xff
        };
        let column = |register: usize| -> Column {
            (0..32)
                .map(|lane| (0..4).fold(0, |word, byte| word | value(register, lane, byte) << (8 * byte)))
                .collect()
        };
        let sources: Vec<(&str, Column)> = (0..count).map(|register| ("b32", column(register))).collect();
        let got = eval_on("sm_120a", &body, &["b64", "b64"], &sources);
        for register in 0..count {
            for lane in 0..32 {
                for byte in 0..4 {
                    let (row, element) = (2 * (lane % 4) + byte % 2, lane / 4 + 8 * (byte / 2));
                    let stored = got[element / 8][8 * register + row] >> (8 * (element % 8)) & 0xff;
                    assert_eq!(stored, value(register, lane, byte), "{num} {register} {lane} {byte}");
                }
            }
        }
    }
}

/// Each element of `bits` bits on its own, as a number of 64 bits.
fn elements(a: u64, b: u64, bits: u32, signed: bool, f: impl Fn(i64, i64) -> i64) -> u64 {
    let wide = |word: u64, at: u32| {
        let code = (word >> at & ((1 << bits) - 1)) as i64;
        if signed && code >> (bits - 1) != 0 { code - (1 << bits) } else { code }
    };
    let ends = if signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
    (0..32)
        .step_by(bits as usize)
        .map(|at| {
            let value = f(wide(a, at), wide(b, at));
            // Saturation is part of the operation where there is one: all others wrap.
            let value = if value >= LIMITED { (value - 2 * LIMITED).clamp(ends.0, ends.1) } else { value };
            (value as u64 & ((1 << bits) - 1)) << at
        })
        .fold(0, |word, part| word | part)
}

/// Marks a value that saturates.
const LIMITED: i64 = 1 << 40;

#[test]
fn integers_in_parts_of_a_word() {
    let first = patterns(1024);
    let mut second = first.clone();
    second.rotate_left(333);
    let columns: Vec<Column> =
        [first, second].map(|words| words.iter().map(|word| word & 0xffff_ffff).collect()).to_vec();
    let sources: Vec<(&str, Column)> = columns.iter().map(|column| ("b32", column.clone())).collect();
    let run = |name: &str, bits: u32, signed: bool, f: &dyn Fn(i64, i64) -> i64| {
        let operands = if name.starts_with("neg") { "%s1" } else { "%s0, %s1" };
        let got = eval_on("sm_120a", &format!("{name} %d0, {operands};"), &["b32"], &sources);
        for (i, got) in got[0].iter().enumerate() {
            let (a, b) = (columns[0][i], columns[1][i]);
            assert_eq!(*got, elements(a, b, bits, signed, f), "{name} {a:#x} {b:#x}");
        }
    };
    for (ty, signed) in [("u8x4", false), ("s8x4", true)] {
        run(&format!("add.{ty}"), 8, signed, &|a, b| a + b);
        run(&format!("sub.{ty}"), 8, signed, &|a, b| a - b);
        run(&format!("add.sat.{ty}"), 8, signed, &|a, b| 2 * LIMITED + a + b);
        run(&format!("sub.sat.{ty}"), 8, signed, &|a, b| 2 * LIMITED + a - b);
        run(&format!("min.{ty}"), 8, signed, &|a, b| if a < b { a } else { b });
        run(&format!("max.{ty}"), 8, signed, &|a, b| if a > b { a } else { b });
    }
    run("neg.s8x4", 8, true, &|_, b| -b);
    run("min.relu.s8x4", 8, true, &|a, b| {
        if a < 0 || b < 0 {
            0
        } else if a < b {
            a
        } else {
            b
        }
    });
    run("max.relu.s8x4", 8, true, &|a, b| {
        if a < 0 && b < 0 {
            0
        } else if a > b {
            a
        } else {
            b
        }
    });
    run("add.sat.u16x2", 16, false, &|a, b| 2 * LIMITED + a + b);
    run("add.sat.s16x2", 16, true, &|a, b| 2 * LIMITED + a + b);
    run("add.sat.u32", 32, false, &|a, b| 2 * LIMITED + a + b);
}
