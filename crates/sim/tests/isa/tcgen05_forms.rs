//! Less frequent forms of `tcgen05`: `.ws`, shifts, copies of four rows and copies that widen elements, A with elements of less than a byte
//! in tensor memory, MN-major tf32.
#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::float_cmp,
    reason = "small numbers chosen by the test"
)]

use crate::tcgen05::{drain, fill, kernel, run};
use warpproof_num::Rounding;
use warpproof_num::convert::cvt_f16_f32;
use warpproof_sim::{Blame, StopKind};

/// Bytes of the operands in shared memory: A, then B.
const TILE: usize = 40960;
const B_START: usize = 16384;

/// The cells after an instruction of thread 0, from the cells and the tile before it. The instruction finds the descriptors of A and B
/// in `%da` and `%db`, the instruction descriptor in `%r0`, and a false predicate in `%go`.
fn after(
    words: usize,
    cells: &[u32],
    tile: &[u8],
    (a, b): (u64, u64),
    idesc: u32,
    instruction: &str,
) -> Vec<u32> {
    let mut input = cells.to_vec();
    input.resize(128 * words, 0);
    input.extend(tile.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)));
    input.resize(128 * words + TILE / 4, 0);
    let body = format!(
        "ld.param.u64 %p, [in]; add.u64 %p, %p, {}; mul.lo.u32 %x, %t, 4;
        COPY: cvt.u64.u32 %q, %x; add.u64 %q, %q, %p; ld.global.u32 %y, [%q]; mov.u32 %r0, tile; add.u32 %r0, %r0, %x;
        st.shared.u32 [%r0], %y; add.u32 %x, %x, 512; setp.lt.u32 %go, %x, {TILE}; @%go bra COPY;
        {}
        setp.eq.u32 %in, %t, 0; @%in mbarrier.init.shared::cta.b64 [slot+8], 1;
        fence.proxy.async.shared::cta; tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
        mov.u32 %y, tile; shr.u32 %y, %y, 4; cvt.u64.u32 %q, %y; mov.u32 %r0, {idesc:#x}; setp.ne.u32 %go, %t, %t;
        mov.u64 %da, {a:#x}; add.u64 %da, %da, %q; mov.u64 %db, {b:#x}; add.u64 %db, %db, %q;
        mov.u32 %y, slot; add.u32 %y, %y, 8; mov.u64 %p, 0;
        @%in {instruction}
        @%in tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%y];
        WAIT: mbarrier.try_wait.parity.shared::cta.b64 %go, [slot+8], 0; @!%go bra WAIT;
        tcgen05.fence::after_thread_sync;\n{}",
        4 * 128 * words,
        fill(words),
        drain(words)
    );
    run(&kernel(words, 16, &body), 128, &input).unwrap_or_else(|stop| panic!("{instruction}: {stop}"))
}

fn place(row: usize, byte: usize) -> usize {
    row / 8 * 256 + byte / 16 * 128 + row % 8 * 16 + byte % 16
}

fn descriptor(start: usize) -> u64 {
    (start / 16) as u64 | 8 << 16 | 16 << 32 | 1 << 46
}

fn idesc(fields: u32, m: usize, n: usize) -> u32 {
    fields | (n as u32 / 8) << 17 | (m as u32 / 16) << 24
}

fn small(i: usize) -> f32 {
    (i * 7 % 11) as f32 - 5.0
}

#[test]
fn weight_stationary_products_have_their_columns_in_groups_of_lanes() {
    for (m, n, extra) in [(32, 64, ""), (64, 128, ", %p"), (128, 64, ""), (32, 256, "")] {
        let mut tile = vec![0; TILE];
        for k in 0..16 {
            let bytes = |value: f32| cvt_f16_f32(value.to_bits(), Rounding::Rn, false).to_le_bytes();
            for row in 0..m {
                tile[place(row, 2 * k)..][..2].copy_from_slice(&bytes(small(3 * row + k)));
            }
            for row in 0..n {
                tile[B_START + place(row, 2 * k)..][..2].copy_from_slice(&bytes(small(row + 5 * k)));
            }
        }
        let words = n * m / 128;
        let collector = if extra.is_empty() { "" } else { ".collector::b2::fill" };
        let mma =
            format!("tcgen05.mma.ws.cta_group::1.kind::f16{collector} [%mem], %da, %db, %r0, %go{extra};");
        let got = after(words, &[], &tile, (descriptor(0), descriptor(B_START)), idesc(1 << 4, m, n), &mma);
        for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
            let want: f32 = (0..16).map(|k| small(3 * row + k) * small(column + 5 * k)).sum();
            let (lane, at) = (row + column / words * m, column % words);
            assert_eq!(f32::from_bits(got[lane * words + at]), want, "M {m} N {n} row {row} column {column}");
        }
    }
}

#[test]
fn four_rows_are_copied_to_a_lane_of_each_warp() {
    let tile: Vec<u8> = (0..TILE).map(|i| (i * 5 + i / 256) as u8).collect();
    let copy = "tcgen05.cp.cta_group::1.4x256b [%mem+0x1f0000], %da;";
    let got = after(8, &[], &tile, (descriptor(0), 0), 0, copy);
    for (lane, row) in got.chunks(8).take(128).enumerate() {
        for (i, word) in row.iter().enumerate() {
            let at = place(lane / 32, 4 * i);
            let bytes = [tile[at], tile[at + 1], tile[at + 2], tile[at + 3]];
            let want = if lane % 32 == 31 { u32::from_le_bytes(bytes) } else { 0 };
            assert_eq!(*word, want, "lane {lane} column {i}");
        }
    }
}

/// The cell of a lane and column before a shift.
fn number(lane: usize, column: usize) -> u32 {
    (lane << 16 | column) as u32 + 1
}

#[test]
fn rows_of_a_warp_are_shifted() {
    let words = 24;
    let cells: Vec<u32> =
        (0..128).flat_map(|lane| (0..words).map(move |column| number(lane, column))).collect();
    for (first, column) in [(0, 0), (32, 8), (64, 3), (96, 16)] {
        let shift = format!("tcgen05.shift.cta_group::1.down [%mem+{:#x}];", first << 16 | column);
        let got = after(words, &cells, &[], (0, 0), 0, &shift);
        for (lane, at) in (0..128).flat_map(|lane| (0..words).map(move |at| (lane, at))) {
            let moves = (first..first + 31).contains(&lane) && (column..column + 8).contains(&at);
            let want = number(lane + usize::from(moves), at);
            assert_eq!(
                got[lane * words + at],
                want,
                "from lane {first} column {column}: lane {lane} column {at}"
            );
        }
    }
}

/// A convolution shifts its pixels, and copies the next ones to the last lanes; the instructions of a thread are executed in order.
#[test]
fn shifts_and_copies_are_executed_in_order() {
    let tile: Vec<u8> = (0..TILE).map(|i| (i * 5 + i / 256) as u8).collect();
    let cells: Vec<u32> = (0..128).flat_map(|lane| (0..8).map(move |column| number(lane, column))).collect();
    let shifts = [0, 32, 64, 96]
        .map(|lane: u32| format!("@%in tcgen05.shift.down.cta_group::1 [%mem+{:#x}];\n", lane << 16));
    let copy = "@%in tcgen05.cp.cta_group::1.4x256b [%mem+0x1f0000], %da;\n";
    let all = format!("{0}{copy}{0}", shifts.concat());
    let got = after(8, &cells, &tile, (descriptor(0), 0), 0, all.trim_start_matches("@%in "));
    for (lane, row) in got.chunks(8).take(128).enumerate() {
        for (column, word) in row.iter().enumerate() {
            let from = place(lane / 32, 4 * column);
            let copied = u32::from_le_bytes([tile[from], tile[from + 1], tile[from + 2], tile[from + 3]]);
            let want = if lane % 32 < 30 { number(lane + 2, column) } else { copied };
            assert_eq!(*word, want, "lane {lane} column {column}");
        }
    }
}

#[test]
fn misuse_of_shifts_stops() {
    for (address, kind, sentence) in [
        ("%mem+0x50000", StopKind::Malformed, "tcgen05.shift at lane 5"),
        ("%mem+0x800000", StopKind::Malformed, "tcgen05.shift at lane 128"),
        ("%mem+505", StopKind::Bounds, "tcgen05.shift uses column 512"),
    ] {
        let body = format!("setp.eq.u32 %in, %t, 0; @%in tcgen05.shift.cta_group::1.down [{address}];");
        let stop = run(&kernel(8, 8, &body), 128, &[0; 1024]).unwrap_err();
        assert_eq!((stop.blame, stop.kind), (Blame::Kernel, kind), "{stop}");
        assert!(stop.sentence.contains(sentence), "{stop}");
    }
}

/// Sixteen elements of 6 or 4 bits become bytes, in every shape.
#[test]
fn copies_widen_elements() {
    let tile: Vec<u8> = (0..TILE).map(|i| (i * 37 + i / 256 * 11) as u8).collect();
    for (format, bits) in [("b6x16_p32", 6), ("b4x16_p64", 4)] {
        for (shape, pieces, rows) in [
            ("128x256b", 2, 128),
            ("128x128b", 1, 128),
            ("4x256b", 2, 4),
            ("64x128b.warpx2::02_13", 1, 64),
            ("64x128b.warpx2::01_23", 1, 64),
            ("32x128b.warpx4", 1, 32),
        ] {
            let copy = format!("tcgen05.cp.cta_group::1.{shape}.b8x16.{format} [%mem], %da;");
            let got = after(8, &[], &tile, (descriptor(0), 0), 0, &copy);
            for (row, i) in (0..rows).flat_map(|row| (0..16 * pieces).map(move |i| (row, i))) {
                let lane = match shape {
                    "4x256b" => 32 * row,
                    "64x128b.warpx2::01_23" => row % 32 + 64 * (row / 32),
                    _ => row,
                };
                let (bit, piece) = (i % 16 * bits, i / 16 * 16);
                let byte = |more: usize| u32::from(tile[place(row, piece + bit / 8 + more)]);
                let code = (byte(0) | byte(1) << 8) >> (bit % 8) & ((1 << bits) - 1);
                let found = got[lane * 8 + i / 4] >> (i % 4 * 8) & 0xff;
                assert_eq!(found, code << (4 - bits / 2), "{shape} {format} row {row} element {i}");
            }
        }
    }
}

/// Elements of less than a byte in tensor memory have a byte each.
#[test]
fn small_elements_of_a_are_bytes_in_tensor_memory() {
    // 1.0 and 2.0 of e2m1 and e3m2.
    for (ty, one, two, shift) in [(5, 0b0010, 0b0100, 2), (4, 0b1100, 0b01_0000, 1)] {
        let mut tile = vec![0; TILE];
        for (row, k) in (0..16).flat_map(|row| (0..32).map(move |k| (row, k))) {
            // 1.0 of e4m3 in as many k as the number of the column.
            tile[B_START + place(row, k)] = if k < row { 0x38 } else { 0 };
        }
        let words = 24;
        let mut cells = vec![0; 128 * words];
        for (lane, k) in (0..128).flat_map(|lane| (0..32).map(move |k| (lane, k))) {
            let code: u32 = if k < lane % 8 { two } else { one };
            cells[lane * words + 16 + k / 4] |= (code << shift) << (k % 4 * 8);
        }
        let mma = "tcgen05.mma.cta_group::1.kind::f8f6f4 [%mem], [%mem+16], %db, %r0, %go;";
        let fields = idesc(1 << 4 | ty << 7, 128, 16);
        let got = after(words, &cells, &tile, (0, descriptor(B_START)), fields, mma);
        for (lane, column) in (0..128).flat_map(|lane| (0..16).map(move |column| (lane, column))) {
            let want = column + column.min(lane % 8);
            let found = f32::from_bits(got[lane * words + column]);
            assert_eq!(found, want as f32, "type {ty} lane {lane} column {column}");
        }
    }
}

/// D is divided by a power of two before the products are added.
#[test]
fn d_is_scaled_by_powers_of_two() {
    let (m, n) = (128, 16);
    for (kind, scale) in [("f16", 0u32), ("f16", 1), ("f16", 15), ("tf32", 3)] {
        let (ty, bytes) = if kind == "f16" { (0, 2) } else { (2, 4) };
        let mut tile = vec![0; TILE];
        let mut put = |at: usize, value: f32| match bytes {
            2 => tile[at..at + 2]
                .copy_from_slice(&cvt_f16_f32(value.to_bits(), Rounding::Rn, false).to_le_bytes()),
            _ => tile[at..at + 4].copy_from_slice(&value.to_le_bytes()),
        };
        for k in 0..32 / bytes {
            for row in 0..m {
                put(place(row, bytes * k), small(3 * row + k));
            }
            for row in 0..n {
                put(B_START + place(row, bytes * k), small(row + 5 * k));
            }
        }
        let before = |row: usize, column: usize| small(row + 2 * column) * 32768.0;
        let cells: Vec<u32> =
            (0..m).flat_map(|row| (0..n).map(move |column| before(row, column).to_bits())).collect();
        let mma = format!("tcgen05.mma.cta_group::1.kind::{kind} [%mem], %da, %db, %r0, %in, {scale};");
        let fields = idesc(1 << 4 | ty << 7 | ty << 10, m, n);
        let got = after(n, &cells, &tile, (descriptor(0), descriptor(B_START)), fields, &mma);
        for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
            let product: f32 = (0..32 / bytes).map(|k| small(3 * row + k) * small(column + 5 * k)).sum();
            let want = product + before(row, column) / (1 << scale) as f32;
            assert_eq!(
                f32::from_bits(got[row * n + column]),
                want,
                "{kind} {scale} row {row} column {column}"
            );
        }
    }
}

/// MN-major tf32 without swizzle, and with the swizzle of 128 bytes in units of 32 bytes.
#[test]
fn words_by_column() {
    let (m, n) = (128, 16);
    for coarse in [false, true] {
        let mut tile = vec![0; TILE];
        let by_column = |row: usize, k: usize, rows: usize| {
            let byte = 4 * row;
            if coarse {
                let at = byte / 128 * 1024 + k * 128 + byte % 128;
                return at ^ (at / 128 % 4 * 32);
            }
            k / 8 * (rows / 4 * 128) + byte / 16 * 128 + k % 8 * 16 + byte % 16
        };
        for k in 0..8 {
            for row in 0..m {
                tile[by_column(row, k, m)..][..4].copy_from_slice(&small(3 * row + k).to_le_bytes());
            }
            for row in 0..n {
                let at = B_START + by_column(row, k, n);
                tile[at..][..4].copy_from_slice(&small(row + 5 * k).to_le_bytes());
            }
        }
        let describe = |start: usize, rows: usize| {
            let (leading, stride, mode) = if coarse { (1024, 512, 1u64) } else { (rows / 4 * 128, 128, 0) };
            (start / 16) as u64 | (leading as u64 / 16) << 16 | (stride / 16) << 32 | 1 << 46 | mode << 61
        };
        let fields = idesc(1 << 4 | 2 << 7 | 2 << 10 | 1 << 15 | 1 << 16, m, n);
        let mma = "tcgen05.mma.cta_group::1.kind::tf32 [%mem], %da, %db, %r0, %go;";
        let got = after(n, &[], &tile, (describe(0, m), describe(B_START, n)), fields, mma);
        for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
            let want: f32 = (0..8).map(|k| small(3 * row + k) * small(column + 5 * k)).sum();
            assert_eq!(f32::from_bits(got[row * n + column]), want, "{coarse} row {row} column {column}");
        }
    }
}
