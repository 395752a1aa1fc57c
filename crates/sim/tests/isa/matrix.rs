//! `ldmatrix`, `stmatrix`, `movmatrix`: elements encode their own position, so a wrong lane is detected.
#![expect(
    clippy::precedence,
    clippy::format_push_string,
    clippy::unwrap_used,
    clippy::needless_range_loop,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "small numbers chosen by the test"
)]

use crate::harness::{eval, launch, levels};
use warpproof_sim::{Buffer, Device};

/// Loads matrices of 8 × 8 elements of value `100 matrix + 10 row + column` and returns each lane's registers.
fn ldmatrix(count: usize, trans: &str, space: &str) -> Vec<Vec<u32>> {
    let registers: Vec<String> = (0..count).map(|i| format!("%r{i}")).collect();
    let mut stores = String::new();
    for i in 0..count {
        stores += &format!("st.global.u32 [%o+{}], %r{i};\n", 4 * i);
    }
    let text = format!(
        ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out) {{
        .reg .b32 %r<4>, %x, %lane, %a; .reg .b64 %p, %o, %t; .shared .align 16 .b8 buffer[640];
        ld.param.u64 %p, [in]; ld.param.u64 %o, [out]; mov.u32 %lane, %laneid;
        mul.wide.u32 %t, %lane, 16; add.u64 %p, %p, %t; add.u64 %o, %o, %t;
        mov.u32 %a, buffer; mad.lo.u32 %a, %lane, 16, %a;
        ld.global.u32 %x, [%p]; st.shared.u32 [%a], %x; ld.global.u32 %x, [%p+4]; st.shared.u32 [%a+4], %x;
        ld.global.u32 %x, [%p+8]; st.shared.u32 [%a+8], %x; ld.global.u32 %x, [%p+12]; st.shared.u32 [%a+12], %x;
        bar.warp.sync -1;
        ldmatrix.sync.aligned.m8n8.x{count}{trans}{space}.b16 {{{}}}, [%a];
        {stores} ret; }}",
        registers.join(", ")
    );
    // Row r of matrix i is at 16 (8 i + r).
    let halves: Vec<u16> =
        (0..32 * 8).map(|i| u16::try_from(100 * (i / 64) + 10 * (i / 8 % 8) + i % 8).unwrap()).collect();
    let mut device = Device::new();
    let module = device.load(&text).unwrap();
    let input = device.upload(&halves).unwrap();
    let output: Buffer<u32> = device.alloc(128).unwrap();
    let text_space = if space.is_empty() { "generic" } else { space };
    let prepared = module.kernel("k").unwrap().launch().block(32).arg(input).arg(output);
    if let Some(stop) = launch(&mut device, &prepared).stop {
        panic!("{text_space}: {stop}");
    }
    device.read(&output).unwrap().chunks(4).map(<[u32]>::to_vec).collect()
}

#[test]
fn each_lane_gets_its_elements() {
    for count in [1usize, 2, 4] {
        for trans in ["", ".trans"] {
            for space in [".shared", ".shared::cta"] {
                let lanes = ldmatrix(count, trans, space);
                for (lane, registers) in lanes.iter().enumerate() {
                    for (matrix, register) in registers.iter().enumerate().take(count) {
                        let (g, t) = (lane / 4, lane % 4);
                        let element = |row: usize, column: usize| {
                            u32::try_from(100 * matrix + 10 * row + column).unwrap()
                        };
                        let (low, high) = if trans.is_empty() {
                            (element(g, 2 * t), element(g, 2 * t + 1))
                        } else {
                            (element(2 * t, g), element(2 * t + 1, g))
                        };
                        assert_eq!(*register, low | high << 16, "x{count}{trans} lane {lane}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_generic_address_works_too() {
    let body = ".shared .align 16 .b8 rows[512]; .reg .b64 %g, %w; .reg .b32 %sa;
        mov.u32 %sa, rows; mad.lo.u32 %sa, %lane, 16, %sa; st.shared.u32 [%sa], %lane; st.shared.u32 [%sa+4], 0;
        st.shared.u32 [%sa+8], 0; st.shared.u32 [%sa+12], 7; bar.warp.sync -1;
        cvt.u64.u32 %w, %sa; cvta.shared.u64 %g, %w; ldmatrix.sync.aligned.m8n8.x1.b16 {%d0}, [%g];";
    let columns = eval(body, &["b32"], &[("b32", (0..32).collect())]);
    for lane in 0..32usize {
        let wanted = match lane % 4 {
            0 => lane / 4,
            3 => 7,
            _ => 0,
        };
        assert_eq!(columns[0][lane], wanted as u64);
    }
}

#[test]
fn stmatrix_is_the_inverse() {
    for count in [1usize, 2, 4] {
        for trans in ["", ".trans"] {
            for level in levels() {
                let registers: Vec<String> = (0..count).map(|i| format!("%r{i}")).collect();
                let list = registers.join(", ");
                let mut fill = String::new();
                let mut stores = String::new();
                for i in 0..count {
                    fill += &format!("mad.lo.u32 %r{i}, %lane, 65537, {};\n", 1000 * i);
                    stores += &format!("st.global.u32 [%o+{}], %r{i};\n", 4 * i);
                }
                let text = format!(
                    ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out) {{
                    .reg .b32 %r<4>, %lane, %a; .reg .b64 %o, %t; .shared .align 16 .b8 buffer[512];
                    ld.param.u64 %o, [out]; mov.u32 %lane, %laneid; mul.wide.u32 %t, %lane, 16; add.u64 %o, %o, %t;
                    mov.u32 %a, buffer; mad.lo.u32 %a, %lane, 16, %a; {fill}
                    stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%a], {{{list}}};
                    bar.warp.sync -1;
                    ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{list}}}, [%a];
                    {stores} ret; }}"
                );
                let mut device = Device::new().with_level(level);
                let module = device.load(&text).unwrap();
                let output: Buffer<u32> = device.alloc(128).unwrap();
                let prepared = module.kernel("k").unwrap().launch().block(32).arg(output);
                if let Some(stop) = launch(&mut device, &prepared).stop {
                    panic!("{stop}");
                }
                for (lane, got) in device.read(&output).unwrap().chunks(4).enumerate() {
                    for (i, value) in got.iter().enumerate().take(count) {
                        assert_eq!(
                            *value,
                            u32::try_from(lane * 65537 + 1000 * i).unwrap(),
                            "x{count}{trans}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn movmatrix_transposes() {
    let source: Vec<u64> = (0..32u64)
        .map(|lane| lane / 4 * 10 + lane % 4 * 2 | (lane / 4 * 10 + lane % 4 * 2 + 1) << 16)
        .collect();
    let got = eval("movmatrix.sync.aligned.m8n8.trans.b16 %d0, %s0;", &["b32"], &[("b32", source)]);
    for lane in 0..32u64 {
        let (g, t) = (lane / 4, lane % 4);
        assert_eq!(got[0][lane as usize], 20 * t + g | (20 * t + 10 + g) << 16);
    }
}
