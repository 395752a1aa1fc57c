//! `tcgen05` with `.cta_group::2`: two blocks of a cluster that allocate together and multiply as one.
#![expect(
    clippy::unwrap_used,
    clippy::format_push_string,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::float_cmp,
    clippy::cast_possible_wrap,
    reason = "small numbers chosen by the test"
)]

use crate::harness::launch;
use crate::tcgen05::{drain, fill};
use warpproof_num::Rounding;
use warpproof_num::convert::cvt_f16_f32;
use warpproof_sim::schedule::{CopyTiming, Schedule};
use warpproof_sim::{Blame, Buffer, Device, Stop, StopKind};

/// Bytes of the operands in the shared memory of a block: A, then B.
const TILE: usize = 32768;
const B_START: usize = 16384;

/// Blocks of 128 threads in clusters of two. `%mem` is the address of 512 columns, `%own` the same at the first lane of the warp, `%t`
/// is the thread, `%rank` the block, `%in` is true in thread 0 of block 0. The first `words` columns are filled from global memory,
/// and so is the tile, before `body`; afterwards they are stored.
fn kernel(words: usize, body: &str) -> String {
    format!(
        ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out) .reqnctapercluster 2 {{
        .shared .align 16 .b8 slot[16]; .shared .align 1024 .b8 tile[{TILE}];
        .reg .b32 %t, %rank, %mem, %own, %x, %y; .reg .b64 %row, %result, %p, %q, %da, %db; .reg .pred %first, %go, %in;
        .reg .b32 %r<16>; .reg .b16 %both;
        mov.u32 %t, %tid.x; mov.u32 %rank, %cluster_ctarank;
        mad.lo.u32 %x, %rank, 128, %t; mul.wide.u32 %q, %x, {row};
        ld.param.u64 %row, [in]; add.u64 %row, %row, %q; ld.param.u64 %result, [out]; add.u64 %result, %result, %q;
        setp.lt.u32 %first, %t, 32; mov.u32 %x, slot;
        @%first tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%x], 512;
        tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
        ld.shared.u32 %mem, [slot]; and.b32 %own, %t, 96; shl.b32 %own, %own, 16; add.u32 %own, %own, %mem;
        ld.param.u64 %p, [in]; mul.wide.u32 %q, %rank, {TILE}; add.u64 %p, %p, %q; add.u64 %p, %p, {cells}; mul.lo.u32 %x, %t, 4;
        COPY: cvt.u64.u32 %q, %x; add.u64 %q, %q, %p; ld.global.u32 %y, [%q]; mov.u32 %r0, tile; add.u32 %r0, %r0, %x;
        st.shared.u32 [%r0], %y; add.u32 %x, %x, 512; setp.lt.u32 %go, %x, {TILE}; @%go bra COPY;
        {fill}
        or.b32 %x, %t, %rank; setp.eq.u32 %in, %x, 0; setp.eq.u32 %go, %t, 0; mov.b16 %both, 3;
        @%go mbarrier.init.shared::cta.b64 [slot+8], 1; fence.mbarrier_init.release.cluster;
        fence.proxy.async.shared::cta; tcgen05.fence::before_thread_sync;
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; tcgen05.fence::after_thread_sync;
        {body}
        @%first tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
        {drain}
        tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
        @%first tcgen05.dealloc.cta_group::2.sync.aligned.b32 %mem, 512;
        ret;\n}}\n",
        row = 4 * words,
        cells = 2 * 128 * 4 * words,
        fill = fill(words),
        drain = drain(words)
    )
}

/// The multiplication, and a commit that arrives at both blocks.
fn multiply(modifiers: &str, descriptors: (u64, u64), idesc: u32, operands: (&str, &str)) -> String {
    let (a, b) = descriptors;
    let (first, rest) = operands;
    format!(
        "mov.u32 %y, tile; shr.u32 %y, %y, 4; and.b32 %y, %y, 0x3fff; cvt.u64.u32 %q, %y; setp.eq.u32 %go, %y, %y;
        mov.u64 %da, {a:#x}; add.u64 %da, %da, %q; mov.u64 %db, {b:#x}; add.u64 %db, %db, %q;
        mov.u32 %r0, {idesc:#x}; mov.u32 %y, slot; add.u32 %y, %y, 8; mov.u32 %r1, 0; mov.u32 %r2, 0xff00ff00;
        @%in tcgen05.mma.cta_group::2.{modifiers} [%mem], {first}, %db, %r0, {rest} %go;
        @%in tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%y], %both;
        WAIT: mbarrier.try_wait.parity.shared::cta.b64 %go, [slot+8], 0; @!%go bra WAIT;
        tcgen05.fence::after_thread_sync;\n"
    )
}

fn run_with(source: &str, input: &[u32], words: usize, schedule: Schedule) -> Result<Vec<u32>, Box<Stop>> {
    let mut device = Device::new().with_threads(1);
    device.schedule = schedule;
    let module = device.load(source)?;
    let buffer: Buffer<u32> = device.upload(input).unwrap();
    let out: Buffer<u32> = device.alloc(256 * words).unwrap();
    let prepared = module.kernel("k")?.launch().grid(2).block(128).arg(buffer).arg(out);
    match launch(&mut device, &prepared).stop {
        Some(stop) => Err(stop),
        None => Ok(device.read(&out).unwrap()),
    }
}

/// What both blocks store, from the cells and the tiles of both.
fn run(words: usize, cells: &[u32], tiles: &[u8], body: &str) -> Result<Vec<u32>, Box<Stop>> {
    let mut input = cells.to_vec();
    input.resize(256 * words, 0);
    input.extend(tiles.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)));
    input.resize(256 * words + TILE / 2, 0);
    let source = kernel(words, body);
    let got = run_with(&source, &input, words, Schedule::default())?;
    let early = Schedule { copies: CopyTiming::Early, ..Schedule::default() };
    assert!(run_with(&source, &input, words, early)? == got, "early copies");
    Ok(got)
}

/// The offset of byte `byte` of row `row`, of rows of 32 bytes, without swizzle, and the descriptor.
fn place(row: usize, byte: usize) -> usize {
    row / 8 * 256 + byte / 16 * 128 + row % 8 * 16 + byte % 16
}

fn descriptor(start: usize) -> u64 {
    (start / 16) as u64 | 8 << 16 | 16 << 32 | 1 << 46
}

fn small(i: usize) -> f32 {
    (i * 7 % 11) as f32 - 5.0
}

fn half(value: f32) -> u16 {
    cvt_f16_f32(value.to_bits(), Rounding::Rn, false)
}

/// Elements of A and B.
fn a(m: usize, k: usize) -> f32 {
    small(3 * m + k)
}

fn b(n: usize, k: usize) -> f32 {
    small(n + 5 * k + 2)
}

fn product(m: usize, n: usize) -> f32 {
    (0..16).map(|k| a(m, k) * b(n, k)).sum()
}

/// A and B in f16, split between the blocks.
fn tiles(m: usize, n: usize) -> Vec<u8> {
    let mut tiles = vec![0; 2 * TILE];
    for rank in 0..2 {
        let tile = &mut tiles[rank * TILE..][..TILE];
        for k in 0..16 {
            for row in 0..m / 2 {
                tile[place(row, 2 * k)..][..2].copy_from_slice(&half(a(rank * m / 2 + row, k)).to_le_bytes());
            }
            for row in 0..n / 2 {
                let bytes = half(b(rank * n / 2 + row, k)).to_le_bytes();
                tile[B_START + place(row, 2 * k)..][..2].copy_from_slice(&bytes);
            }
        }
    }
    tiles
}

/// The block, the lane and the column of an element of D.
fn cell(m: usize, (row, column): (usize, usize), n: usize) -> (usize, usize, usize) {
    let local = row % (m / 2);
    let (lane, column) =
        if m == 256 { (local, column) } else { (local + 64 * (column / (n / 2)), column % (n / 2)) };
    (row / (m / 2), lane, column)
}

fn idesc(fields: u32, m: usize, n: usize) -> u32 {
    fields | (n as u32 / 8) << 17 | (m as u32 / 16) << 24
}

#[test]
fn halves_of_operands_and_results_are_in_both_blocks() {
    for (m, n) in [(256, 16), (256, 256), (128, 16), (128, 32), (128, 256)] {
        let words = if m == 256 { n } else { (n / 2).max(8) };
        // D starts from the number of its cell.
        let cells: Vec<u32> = (0..256 * words).map(|i| ((i % 509) as f32).to_bits()).collect();
        let body =
            multiply("kind::f16", (descriptor(0), descriptor(B_START)), idesc(1 << 4, m, n), ("%da", ""));
        let got = run(words, &cells, &tiles(m, n), &body).unwrap();
        for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
            let (block, lane, at) = cell(m, (row, column), n);
            let i = (block * 128 + lane) * words + at;
            let want = product(row, column) + f32::from_bits(cells[i]);
            assert_eq!(f32::from_bits(got[i]), want, "M {m} N {n} row {row} column {column}");
        }
    }
}

/// Disabled lanes keep their values, in both blocks.
#[test]
fn lanes_are_disabled_in_both_blocks() {
    let (m, n, words) = (256, 16, 16);
    let vector = "{%r1, %r2, %r1, %r1, %r1, %r2, %r1, %r1},";
    let body =
        multiply("kind::f16", (descriptor(0), descriptor(B_START)), idesc(1 << 4, m, n), ("%da", vector));
    let got = run(words, &vec![7; 256 * words], &tiles(m, n), &body).unwrap();
    for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
        let disabled = (32..64).contains(&(row % 128)) && row % 32 / 8 % 2 == 1;
        assert_eq!(got[row * words + column] == 7, disabled, "row {row}");
    }
    let vector = vector.replacen("%r2", "%r1", 1);
    let body =
        multiply("kind::f16", (descriptor(0), descriptor(B_START)), idesc(1 << 4, m, n), ("%da", &vector));
    let stop = run(words, &[], &tiles(m, n), &body).unwrap_err();
    assert_eq!((stop.blame, stop.kind), (Blame::Gap, StopKind::Unsupported), "{stop}");
}

/// A in tensor memory: each group of lanes has its own.
#[test]
fn a_is_in_the_tensor_memory_of_both_blocks() {
    for (m, n) in [(256, 32), (128, 32)] {
        let words = 48;
        let mut cells = vec![0; 256 * words];
        for (block, lane) in (0..2).flat_map(|block| (0..128).map(move |lane| (block, lane))) {
            let row = block * m / 2 + lane % (m / 2);
            for k in 0..8 {
                let pair = u32::from(half(a(row, 2 * k))) | u32::from(half(a(row, 2 * k + 1))) << 16;
                cells[(block * 128 + lane) * words + 40 + k] = pair;
            }
        }
        let body = multiply(
            "kind::f16",
            (descriptor(0), descriptor(B_START)),
            idesc(1 << 4, m, n),
            ("[%mem+40]", ""),
        );
        let got = run(words, &cells, &tiles(m, n), &body).unwrap();
        for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
            let (block, lane, at) = cell(m, (row, column), n);
            let found = f32::from_bits(got[(block * 128 + lane) * words + at]);
            assert_eq!(found, product(row, column), "M {m} row {row} column {column}");
        }
    }
}

/// A shift acts in both blocks.
#[test]
fn rows_of_both_blocks_are_shifted() {
    let words = 16;
    let cells: Vec<u32> = (0..256 * words).map(|i| i as u32 + 1).collect();
    let body = "mov.u32 %y, slot; add.u32 %y, %y, 8;
        @%in tcgen05.shift.cta_group::2.down [%mem+0x200008];
        @%in tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%y], %both;
        WAIT: mbarrier.try_wait.parity.shared::cta.b64 %go, [slot+8], 0; @!%go bra WAIT;
        tcgen05.fence::after_thread_sync;\n";
    let got = run(words, &cells, &[], body).unwrap();
    for (row, column) in (0..256).flat_map(|row| (0..words).map(move |column| (row, column))) {
        let moves = (32..63).contains(&(row % 128)) && column >= 8;
        let want = cells[(row + usize::from(moves)) * words + column];
        assert_eq!(got[row * words + column], want, "row {row} column {column}");
    }
}

/// Scales of 2^x: those of A are of the block's own rows, those of B of all columns of the group of lanes. They are copied by both
/// blocks, each from its own shared memory.
#[test]
fn scales_are_copied_and_used_in_both_blocks() {
    for (m, n) in [(256, 64), (128, 128)] {
        let words = 80;
        let (row_scale, column_scale) = (|row: usize| 120 + row % 7, |column: usize| 125 + column % 5);
        let mut tiles = vec![0x38; 2 * TILE];
        // Rows of 16 bytes: lane by lane, the cells of four columns.
        let start = 24576;
        for rank in 0..2 {
            for lane in 0..128 {
                for column in 0..4 {
                    let row = rank * m / 2 + (column * 32 + lane % 32) % (m / 2);
                    let b = if m == 256 {
                        column * 32 + lane % 32
                    } else {
                        lane / 64 * (n / 2) + column * 32 + lane % 32
                    };
                    let at = rank * TILE + start + lane * 16 + column * 4;
                    tiles[at] = row_scale(row) as u8;
                    tiles[at + 2048] = column_scale(b) as u8;
                }
            }
        }
        let mut body = String::new();
        for (from, column) in [(start, 64), (start + 2048, 68)] {
            let descriptor = (from / 16) as u64 | 8 << 16 | 8 << 32 | 1 << 46;
            body += &format!(
                "mov.u32 %y, tile; shr.u32 %y, %y, 4; and.b32 %y, %y, 0x3fff; cvt.u64.u32 %q, %y; mov.u64 %p, {descriptor:#x}; add.u64 %p, %p, %q;
                @%in tcgen05.cp.cta_group::2.128x128b [%mem+{column}], %p;\n"
            );
        }
        body += &multiply(
            "kind::mxf8f6f4.block_scale.scale_vec::1X",
            (descriptor(0), descriptor(B_START)),
            idesc(1 << 23, m, n),
            ("%da", "[%mem+64], [%mem+68],"),
        );
        let got = run(words, &[], &tiles, &body).unwrap();
        for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
            let (block, lane, at) = cell(m, (row, column), n);
            let found = f32::from_bits(got[(block * 128 + lane) * words + at]);
            let power = (row_scale(row) + column_scale(column)) as i32 - 254;
            assert_eq!(found, 32.0 * f32::powi(2.0, power), "M {m} row {row} column {column}");
        }
    }
}

#[track_caller]
fn stops(source: &str, kind: StopKind, sentence: &str) {
    let stop = run_with(source, &vec![0; 256 * 8 + TILE / 2], 8, Schedule::default()).unwrap_err();
    assert_eq!((stop.blame, stop.kind), (Blame::Kernel, kind), "{stop}");
    assert!(format!("{stop}").contains(sentence), "{stop}");
}

#[test]
fn misuse_of_a_pair_stops() {
    let fine =
        multiply("kind::f16", (descriptor(0), descriptor(B_START)), idesc(1 << 4, 256, 16), ("%da", ""));
    let whole = kernel(8, &fine);
    // One block allocates another number of columns, or none.
    let other = whole.replacen(".b32 [%x], 512;", ".b32 [%x], %y;", 1).replacen(
        "mov.u32 %x, slot;",
        "mov.u32 %x, slot; sub.u32 %y, 2, %rank; mul.lo.u32 %y, %y, 256;",
        1,
    );
    stops(&other, StopKind::Malformed, "the other block of the pair allocates");
    let only_first = |text: &str| {
        let guarded = format!("setp.eq.u32 %go, %rank, 0; and.pred %go, %go, %first; @%go {text}");
        whole.replacen(&format!("@%first {text}"), &guarded, 1)
    };
    stops(&only_first("tcgen05.alloc"), StopKind::Bounds, "not allocated");
    stops(&only_first("tcgen05.dealloc"), StopKind::Bounds, "after the other block of the pair has ended");
    let waits = only_first("tcgen05.alloc").replacen(
        "bar.sync 0;",
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        1,
    );
    stops(&waits, StopKind::Deadlock, "other block of its pair");
    stops(
        &whole.replacen("tcgen05.dealloc.cta_group::2", "tcgen05.dealloc.cta_group::1", 1),
        StopKind::Malformed,
        "all instructions must have the same",
    );
    stops(&whole.replacen(".reqnctapercluster 2", "", 1), StopKind::Malformed, "the pair has no block 1");
    // The second block does not wait for the multiplication, and ends.
    let early = whole.replacen("WAIT: mbarrier", "setp.eq.u32 %go, %rank, 1; @%go exit; WAIT: mbarrier", 1);
    stops(&early, StopKind::Bounds, "has ended");
    let shape = |m: usize, n: usize| {
        kernel(
            8,
            &multiply("kind::f16", (descriptor(0), descriptor(B_START)), idesc(1 << 4, m, n), ("%da", "")),
        )
    };
    stops(&shape(64, 16), StopKind::Malformed, "M 64");
    stops(&shape(256, 8), StopKind::Malformed, "N 8");
}

/// The work is charged, so that the instruction limit bounds time.
#[test]
fn multiplications_count_as_their_work() {
    let count = |n: usize| {
        let body =
            multiply("kind::f16", (descriptor(0), descriptor(B_START)), idesc(1 << 4, 256, n), ("%da", ""));
        let mut device = Device::new().with_threads(1);
        let module = device.load(&kernel(8, &body)).unwrap();
        let buffer: Buffer<u32> = device.alloc(256 * 8 + TILE / 2).unwrap();
        let out: Buffer<u32> = device.alloc(256 * 8).unwrap();
        let prepared = module.kernel("k").unwrap().launch().grid(2).block(128).arg(buffer).arg(out);
        launch(&mut device, &prepared).instructions
    };
    assert!(count(256) - count(16) >= 16 * 30, "{} {}", count(256), count(16));
}
