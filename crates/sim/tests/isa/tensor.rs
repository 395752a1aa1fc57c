//! Copies of tensors, compared with a loop over coordinates; changes of tensor maps.

#![expect(
    clippy::unwrap_used,
    clippy::format_collect,
    clippy::needless_range_loop,
    clippy::float_cmp,
    reason = "a setup failure fails the test; kernels are short texts; sums of small integers are exact"
)]

use crate::harness::launch;
use warpproof_sim::schedule::CopyTiming;
use warpproof_sim::tensor_map::{Columns, DataType, Fill, Interleave, Mode, Swizzle, TensorMap};
use warpproof_sim::{Blame, Device, Stop, StopKind};

/// Bytes of shared memory that the kernels copy.
pub(crate) const ROOM: usize = 10 << 10;

/// A block of 128 threads (or a cluster of them) with `buffer` at `%b`, filled from the second argument, and an mbarrier `%m` for
/// one arrival. `%p` is the generic address of the map, `%q` is true in thread 0. At the end `buffer` goes to the third argument.
/// `WAIT` waits for the first phase.
fn kernel(body: &str) -> String {
    let later =
        ["cta_group", "tile::gather4", "tile::scatter4", "im2col::w"].iter().any(|part| body.contains(part));
    let target = if later { "sm_100a" } else { "sm_90a" };
    let wait = "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%m], 0; @!%p1 bra W;";
    let copy = |name: &str, load: &str, store: &str| {
        format!(
            "mul.lo.u32 %i, %v, 16; {name}: add.u32 %a, %b, %i; cvt.u64.u32 %o, %i; add.u64 %o, %o, %g;
             {load} {store} add.u32 %i, %i, 2048; setp.lt.u32 %p1, %i, {ROOM}; @%p1 bra {name};"
        )
    };
    format!(
        ".version 9.1\n.target {target}\n.address_size 64
         .visible .entry k(.param .align 64 .b8 map[128], .param .u64 from, .param .u64 out, .param .u64 spare) {{
         .shared .align 1024 .b8 buffer[{ROOM}]; .shared .align 128 .b8 copy[128]; .shared .align 8 .b8 bar[8];
         .reg .b64 %p, %g, %o, %s; .reg .b32 %a, %b, %m, %v, %i, %c, %r, %w<4>; .reg .b16 %h; .reg .pred %q, %p1, %first;
         mov.u32 %b, buffer; mov.u32 %m, bar; mov.u32 %c, copy; mov.u32 %v, %tid.x; mov.b64 %o, map; cvta.param.u64 %p, %o;
         setp.eq.u32 %q, %v, 0; mov.u32 %r, %ctaid.x; setp.eq.and.u32 %first, %r, 0, %q; ld.param.u64 %s, [spare];
         @%q mbarrier.init.shared::cta.b64 [%m], 1; fence.mbarrier_init.release.cluster;
         ld.param.u64 %g, [from]; {}
         fence.proxy.async; bar.sync 0; barrier.cluster.arrive; barrier.cluster.wait;
         {}
         bar.sync 0; ld.param.u64 %g, [out]; mul.wide.u32 %o, %r, {ROOM}; add.u64 %g, %g, %o; {}
         barrier.cluster.arrive; barrier.cluster.wait; ret; }}",
        copy(
            "IN",
            "ld.global.v4.b32 {%w0, %w1, %w2, %w3}, [%o];",
            "st.shared.v4.b32 [%a], {%w0, %w1, %w2, %w3};"
        ),
        body.replace("WAIT", wait),
        copy(
            "OUT",
            "ld.shared.v4.b32 {%w0, %w1, %w2, %w3}, [%a];",
            "st.global.v4.b32 [%o], {%w0, %w1, %w2, %w3};"
        ),
    )
}

/// What a run leaves: `buffer` of each block, the tensor, and 256 spare bytes.
pub(crate) struct Left {
    pub(crate) shared: Vec<u8>,
    pub(crate) tensor: Vec<u8>,
    spare: Vec<u8>,
}

/// Runs a body with a map of the tensor, whose bytes are `data`.
pub(crate) fn try_run(
    map: &TensorMap,
    data: &[u8],
    shared: &[u8],
    body: &str,
    cluster: u32,
    copies: CopyTiming,
) -> Result<Left, Box<Stop>> {
    let mut device = Device::new().with_threads(1);
    device.schedule.copies = copies;
    let tensor = device.upload(data).unwrap();
    let from = device.upload(shared).unwrap();
    let out = device.alloc::<u8>(ROOM * usize::try_from(cluster).unwrap()).unwrap();
    let bytes =
        TensorMap { address: tensor.address(), ..*map }.encode().unwrap_or_else(|error| panic!("{error}"));
    let spare = device.upload(&[bytes, bytes].concat()).unwrap();
    let module = device.load(&kernel(body))?;
    let mut prepared = module.kernel("k")?.launch().grid(cluster).block(128);
    if cluster > 1 {
        prepared = prepared.cluster(cluster);
    }
    let prepared = prepared.arg(bytes.to_vec()).arg(from).arg(out).arg(spare);
    match launch(&mut device, &prepared).stop {
        Some(stop) => Err(stop),
        None => Ok(Left {
            shared: device.read(&out).unwrap(),
            tensor: device.read(&tensor).unwrap(),
            spare: device.read(&spare).unwrap(),
        }),
    }
}

pub(crate) fn run(map: &TensorMap, data: &[u8], body: &str) -> Left {
    let shared = vec![0xee; ROOM];
    let late = try_run(map, data, &shared, body, 1, CopyTiming::Late);
    let late = late.unwrap_or_else(|stop| panic!("{map:?} {body}: {stop}"));
    let early = try_run(map, data, &shared, body, 1, CopyTiming::Early).unwrap();
    assert!(early.shared == late.shared && early.tensor == late.tensor, "{body}");
    late
}

pub(crate) fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|i| u8::try_from((i * 7 + i / 251) % 256).unwrap()).collect()
}

/// Where a byte of a box is: bits 4 and up of the shared address are combined with bits 7 and up.
pub(crate) fn swizzled(swizzle: Swizzle, address: usize) -> usize {
    match swizzle {
        Swizzle::None => address,
        Swizzle::Bytes32 => address ^ (address >> 7 & 1) << 4,
        Swizzle::Bytes64 => address ^ (address >> 7 & 3) << 4,
        Swizzle::Bytes128 => address ^ (address >> 7 & 7) << 4,
        Swizzle::Bytes128Atom32 => address ^ (address >> 7 & 3) << 5,
        Swizzle::Bytes128Atom32Flip8 => address ^ (address >> 7 & 3) << 5 ^ (address >> 7 & 1) << 3,
        Swizzle::Bytes128Atom64 => address ^ (address >> 7 & 1) << 6,
    }
}

/// Bytes between rows of a box: a swizzle needs its span.
pub(crate) fn pitch(swizzle: Swizzle, row: usize) -> usize {
    let span = match swizzle {
        Swizzle::None => 0,
        Swizzle::Bytes32 => 32,
        Swizzle::Bytes64 => 64,
        _ => 128,
    };
    row.max(span)
}

/// For each element of a tiled box: where it is in shared memory from `base`, and its offset in the tensor if it is inside.
fn elements(map: &TensorMap, coordinates: &[i32], base: usize) -> Vec<(usize, Option<usize>)> {
    let Mode::Tiled { sizes } = map.mode else { panic!("a tiled map") };
    let size = usize::try_from(map.data_type.bits() / 8).unwrap();
    let counts: Vec<usize> = (0..coordinates.len())
        .map(|i| if i == 0 { sizes[0] } else { sizes[i].div_ceil(map.element_strides[i]) })
        .map(|count| usize::try_from(count).unwrap())
        .collect();
    let mut found = Vec::new();
    for index in 0..counts.iter().product() {
        let (mut rest, mut offset) = (index, Some(0i64));
        for (i, count) in counts.iter().enumerate() {
            let step = if i == 0 { 1 } else { i64::from(map.element_strides[i]) };
            let at = i64::from(coordinates[i]) + i64::try_from(rest % count).unwrap() * step;
            rest /= count;
            let stride = if i == 0 {
                i64::try_from(size).unwrap()
            } else {
                i64::try_from(map.strides[i - 1]).unwrap()
            };
            let inside = at >= 0 && at < i64::try_from(map.dims[i]).unwrap();
            offset = offset.filter(|_| inside).map(|offset| offset + at * stride);
        }
        let row = counts[0] * size;
        let linear = base + index / counts[0] * pitch(map.swizzle, row) + index % counts[0] * size;
        found.push((swizzled(map.swizzle, linear), offset.map(|offset| usize::try_from(offset).unwrap())));
    }
    found
}

/// Bytes that a copy moves.
fn moved(map: &TensorMap, coordinates: &[i32]) -> usize {
    elements(map, coordinates, 0).len() * usize::try_from(map.data_type.bits() / 8).unwrap()
}

pub(crate) fn list(coordinates: &[i32]) -> String {
    coordinates.iter().map(i32::to_string).collect::<Vec<_>>().join(", ")
}

/// Thread 0 loads the box to `base`, all threads wait.
pub(crate) fn load_body(
    form: &str,
    map_bytes: usize,
    coordinates: &[i32],
    base: usize,
    rest: &str,
) -> String {
    format!(
        "@%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], {map_bytes};
         @%q {form} [%b+{base}], [%p, {{{}}}], [%m]{rest}; WAIT",
        list(coordinates)
    )
}

/// Loads a box in tile mode, and compares every byte of shared memory.
fn check_load(map: &TensorMap, data: &[u8], coordinates: &[i32], base: usize) {
    let mut expected = vec![0xee; ROOM];
    let size = usize::try_from(map.data_type.bits() / 8).unwrap();
    for (at, from) in elements(map, coordinates, base) {
        let outside = if map.fill == Fill::Nan { [0xf7, 0x7f].repeat(4) } else { vec![0; 8] };
        let bytes = from.map_or(&outside[..size], |from| &data[from..from + size]);
        expected[at..at + size].copy_from_slice(bytes);
    }
    let dim = coordinates.len();
    for (space, group) in [("cluster", ""), ("cluster", ".cta_group::1"), ("cta", ".cta_group::1")] {
        let form = format!(
            "cp.async.bulk.tensor.{dim}d.shared::{space}.global.tile.mbarrier::complete_tx::bytes{group}"
        );
        let body = load_body(&form, moved(map, coordinates), coordinates, base, "");
        let left = try_run(map, data, &vec![0xee; ROOM], &body, 1, CopyTiming::Late);
        let left = left.unwrap_or_else(|stop| panic!("{map:?} {coordinates:?}: {stop}"));
        let wrong = left.shared.iter().zip(&expected).position(|(found, expected)| found != expected);
        assert_eq!(wrong, None, "{form} {map:?} {coordinates:?}");
    }
}

#[test]
fn boxes_of_every_rank_and_type() {
    use DataType::{Bfloat16, Float16, Float32, Float64, Int32, Int64, Uint8, Uint16, Uint32, Uint64};

    let data = pattern(200_000);
    for data_type in [Uint8, Uint16, Uint32, Int32, Uint64, Int64, Float16, Float32, Float64, Bfloat16] {
        let map = TensorMap::tiled(data_type, 0, &[160, 9], &[32, 4]);
        check_load(&map, &data, &[16, 3], 0);
        check_load(&map, &data, &[150, 7], 256);
        check_load(&map, &data, &[-5, -2], 128);
    }
    check_load(&TensorMap::tiled(Float32, 0, &[100], &[64]), &data, &[80], 0);
    check_load(&TensorMap::tiled(Uint16, 0, &[16, 5, 7], &[8, 3, 4]), &data, &[4, 4, -1], 0);
    check_load(&TensorMap::tiled(Uint8, 0, &[32, 5, 3, 6], &[16, 3, 2, 4]), &data, &[8, 3, 2, 3], 0);
    check_load(
        &TensorMap::tiled(Uint8, 0, &[32, 3, 3, 2, 4], &[16, 2, 2, 2, 3]),
        &data,
        &[-3, 2, -1, 1, 2],
        0,
    );
    // Rows with padding, and every second or third element.
    let mut map = TensorMap::tiled(Float16, 0, &[60, 20, 4], &[16, 8, 2]);
    (map.strides, map.element_strides) = ([144, 3200, 0, 0], [5, 3, 2, 1, 1]);
    check_load(&map, &data, &[50, 9, 2], 0);
}

#[test]
fn every_swizzle() {
    let data = pattern(100_000);
    for (swizzle, widest) in [
        (Swizzle::None, 64),
        (Swizzle::Bytes32, 16),
        (Swizzle::Bytes64, 32),
        (Swizzle::Bytes128, 64),
        (Swizzle::Bytes128Atom32, 64),
        (Swizzle::Bytes128Atom32Flip8, 64),
        (Swizzle::Bytes128Atom64, 64),
    ] {
        for width in [8, widest] {
            let mut map = TensorMap::tiled(DataType::Float16, 0, &[200, 40], &[width, 24]);
            map.swizzle = swizzle;
            check_load(&map, &data, &[190, 30], 1024);
            // The pattern depends on the address in shared memory.
            check_load(&map, &data, &[-4, 5], 384);
        }
    }
}

#[test]
fn elements_outside_are_zero_or_nan() {
    let data = pattern(40_000);
    for data_type in [DataType::Float16, DataType::Bfloat16, DataType::Float32, DataType::Float64] {
        let mut map = TensorMap::tiled(data_type, 0, &[40, 20], &[16, 8]);
        map.fill = Fill::Nan;
        check_load(&map, &data, &[32, 16], 0);
        check_load(&map, &data, &[400, 16], 0);
        check_load(&map, &data, &[-400, -16], 0);
    }
}

#[test]
fn tf32_is_rounded_and_ftz_is_not_applied() {
    let values =
        [1.0f32, 1.000_488_3, 1.001_464_8, -1.000_488_4, f32::NAN, f32::INFINITY, f32::from_bits(1), 3.3];
    let data: Vec<u8> = values.repeat(4).iter().flat_map(|value| value.to_bits().to_le_bytes()).collect();
    let rounded =
        [0x3f80_0000u32, 0x3f80_0000, 0x3f80_4000, 0xbf80_2000, 0x7fff_e000, 0x7f80_0000, 0, 0x4053_4000];
    for (data_type, converts) in [
        (DataType::Tfloat32, true),
        (DataType::Tfloat32Ftz, true),
        (DataType::Float32Ftz, false),
        (DataType::Float32, false),
    ] {
        let map = TensorMap::tiled(data_type, 0, &[8], &[8]);
        let form = "cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes";
        let left = run(&map, &data, &load_body(form, 32, &[0], 0, ""));
        let expected: Vec<u8> = if converts {
            rounded.iter().flat_map(|bits| bits.to_le_bytes()).collect()
        } else {
            data[..32].to_vec()
        };
        assert_eq!(left.shared[..32], expected, "{data_type:?}");
    }
}

#[test]
fn channels_in_groups() {
    // The first dimension counts groups of 16 or 32 bytes; the last but one selects the group of channels.
    let data = pattern(60_000);
    for (interleave, swizzle, group) in
        [(Interleave::Bytes16, Swizzle::None, 16), (Interleave::Bytes32, Swizzle::Bytes32, 32)]
    {
        let mut map = TensorMap::tiled(DataType::Float16, 0, &[10, 6, 4, 3], &[4, 3, 2, 2]);
        (map.interleave, map.swizzle) = (interleave, swizzle);
        map.strides = [group * 10, group * 60, group * 240, 0];
        let body = load_body(
            "cp.async.bulk.tensor.4d.shared::cta.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint",
            usize::try_from(group * 24).unwrap(),
            &[8, 4, 1, 1],
            0,
            ", %p",
        );
        let left = run(&map, &data, &body);
        let mut expected = vec![0xee; ROOM];
        let group = usize::try_from(group).unwrap();
        for (n, h, w) in (0..2).flat_map(|n| (0..3).flat_map(move |h| (0..4).map(move |w| (n, h, w)))) {
            for byte in 0..group {
                let from = ((((1 + n) * 4 + 1) * 6 + 4 + h) * 10 + 8 + w) * group + byte;
                let inside = 4 + h < 6 && 8 + w < 10;
                let at = swizzled(swizzle, (((n * 3 + h) * 4) + w) * group + byte);
                expected[at] = if inside { data[from] } else { 0 };
            }
        }
        assert!(left.shared == expected, "{interleave:?}");
    }
}

#[test]
fn multicast_writes_to_every_block_of_the_mask() {
    let data = pattern(20_000);
    let map = TensorMap::tiled(DataType::Uint32, 0, &[40, 20], &[16, 8]);
    let form =
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster";
    for (mask, hint, rest) in
        [(0b11, "", ""), (0b11, ".L2::cache_hint", ", %p"), (0b10, "", ""), (0b11, ".cta_group::1", "")]
    {
        let body = format!(
            "@%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], {}; barrier.cluster.arrive; barrier.cluster.wait;
             mov.u16 %h, {mask}; @%first {form}{hint} [%b], [%p, {{8, 4}}], [%m], %h{rest};
             shr.u32 %i, {mask}, %r; and.b32 %i, %i, 1; setp.eq.u32 %p1, %i, 0; @%p1 bra DONE; WAIT DONE:",
            512
        );
        let left = try_run(&map, &data, &vec![0xee; ROOM], &body, 2, CopyTiming::Late).unwrap();
        for block in 0..2 {
            let mut expected = vec![0xee; ROOM];
            for (at, from) in elements(&map, &[8, 4], 0).into_iter().filter(|_| mask >> block & 1 != 0) {
                expected[at..at + 4].copy_from_slice(&data[from.unwrap()..from.unwrap() + 4]);
            }
            assert!(left.shared[block * ROOM..][..ROOM] == expected, "block {block} of {mask:b}");
        }
    }
    let body = format!("mov.u16 %h, 4; @%first {form} [%b], [%p, {{8, 4}}], [%m], %h;");
    let stop = try_run(&map, &data, &vec![0; ROOM], &body, 2, CopyTiming::Late).err().unwrap();
    assert_eq!((stop.kind, stop.blame), (StopKind::Bounds, Blame::Kernel));
}

/// For each pixel of an im2col copy: the offset of its first channel in the tensor, if it is inside.
fn pixels(map: &TensorMap, columns: &Columns, start: &[i32], offsets: &[i32]) -> Vec<Option<usize>> {
    let rank = usize::try_from(map.rank).unwrap();
    let spatial = rank - 2;
    // Positions of the bounding box along each dimension of a pixel.
    let count = |i: usize| {
        let last = i32::try_from(map.dims[i + 1]).unwrap() - 1 + columns.upper[i];
        let step = i32::try_from(map.element_strides[i + 1]).unwrap();
        ((last - columns.lower[i]) / step + 1, step)
    };
    let mut first = start[rank - 1];
    for i in (0..spatial).rev() {
        let (count, step) = count(i);
        first = first * count + (start[i + 1] - columns.lower[i]) / step;
    }
    (0..i32::try_from(columns.pixels).unwrap())
        .map(|pixel| {
            let (mut rest, mut offset) = (first + pixel, Some(0i64));
            for i in 0..=spatial {
                let at = if i < spatial {
                    let (count, step) = count(i);
                    let at = columns.lower[i] + rest % count * step + offsets[i];
                    rest /= count;
                    at
                } else {
                    rest
                };
                let inside = at >= 0 && at < i32::try_from(map.dims[i + 1]).unwrap();
                offset = offset
                    .filter(|_| inside)
                    .map(|offset| offset + i64::from(at) * i64::try_from(map.strides[i]).unwrap());
            }
            offset.map(|offset| usize::try_from(offset).unwrap())
        })
        .collect()
}

fn im2col(dims: &[u64], columns: Columns) -> TensorMap {
    let map = TensorMap::tiled(DataType::Float16, 0, dims, &[]);
    TensorMap { mode: Mode::Im2col(columns), ..map }
}

#[test]
fn im2col_visits_the_pixels_of_a_bounding_box() {
    let data = pattern(200_000);
    // 3 x 3 filters with a padding of 1.
    let four = Columns { lower: [-1, -1, 0], upper: [-1, -1, 0], channels: 16, pixels: 50 };
    let three = Columns { lower: [-2, 0, 0], upper: [0, 0, 0], channels: 8, pixels: 30 };
    let five = Columns { lower: [-1, 0, -1], upper: [0, -1, 0], channels: 8, pixels: 70 };
    let strided = |map: TensorMap| TensorMap { element_strides: [1, 2, 2, 1, 1], ..map };
    let swizzled_map = |map: TensorMap| TensorMap { swizzle: Swizzle::Bytes64, ..map };
    let cases: [(TensorMap, Columns, &[i32], &[i32]); 6] = [
        (im2col(&[32, 9, 6, 3], four), four, &[16, -1, -1, 0], &[0, 0]),
        (im2col(&[32, 9, 6, 3], four), four, &[0, 3, 2, 1], &[2, 1]),
        (strided(im2col(&[32, 9, 6, 3], four)), four, &[0, 1, 1, 0], &[1, 2]),
        (swizzled_map(im2col(&[32, 9, 6, 3], four)), four, &[24, 5, 2, 2], &[2, 2]),
        (im2col(&[16, 9, 3], three), three, &[8, 4, 1], &[2]),
        (im2col(&[16, 5, 4, 3, 3], five), five, &[0, 0, 2, -1, 1], &[1, 1, 1]),
    ];
    for (map, columns, start, offsets) in cases {
        let (dim, channels) = (start.len(), usize::try_from(columns.channels).unwrap());
        let row = channels * 2;
        let mut expected = vec![0xee; ROOM];
        for (pixel, from) in pixels(&map, &columns, start, offsets).into_iter().enumerate() {
            for channel in 0..channels {
                let index = usize::try_from(start[0]).unwrap() + channel;
                let inside = index < usize::try_from(map.dims[0]).unwrap();
                let at = swizzled(map.swizzle, pixel * pitch(map.swizzle, row) + channel * 2);
                let bytes = match from.filter(|_| inside) {
                    Some(from) => [data[from + index * 2], data[from + index * 2 + 1]],
                    None => [0, 0],
                };
                expected[at..at + 2].copy_from_slice(&bytes);
            }
        }
        let bytes = row * usize::try_from(columns.pixels).unwrap();
        for (space, group) in
            [("cta", ""), ("cluster", ""), ("cta", ".cta_group::1"), ("cluster", ".cta_group::1")]
        {
            let form = format!(
                "cp.async.bulk.tensor.{dim}d.shared::{space}.global.im2col.mbarrier::complete_tx::bytes{group}"
            );
            let rest = format!(", {{{}}}", list(offsets));
            let left = run(&map, &data, &load_body(&form, bytes, start, 0, &rest));
            assert!(left.shared == expected, "{form} {map:?} {start:?}");
        }
        for group in ["", ".cta_group::1"] {
            let form = format!(
                "cp.async.bulk.tensor.{dim}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster{group}.L2::cache_hint"
            );
            let rest = format!(", {{{}}}, 1, %p", list(offsets));
            let left = run(&map, &data, &load_body(&form, bytes, start, 0, &rest));
            assert!(left.shared == expected, "{form} {map:?} {start:?}");
        }
    }
}

/// Thread 0 stores the box at `base`.
pub(crate) fn store_body(form: &str, coordinates: &[i32], base: usize, rest: &str) -> String {
    format!(
        "@%q {form} [%p, {{{}}}], [%b+{base}]{rest}; @%q cp.async.bulk.commit_group; @%q cp.async.bulk.wait_group 0;",
        list(coordinates)
    )
}

#[test]
fn stores_skip_elements_outside() {
    let (data, shared) = (pattern(40_000), pattern(ROOM + 3)[3..].to_vec());
    for (swizzle, hint, rest) in [
        (Swizzle::None, "", ""),
        (Swizzle::Bytes32, ".L2::cache_hint", ", %p"),
        (Swizzle::Bytes64, "", ""),
        (Swizzle::Bytes128, "", ""),
    ] {
        for (dims, sizes, at) in [
            (&[80u64, 20][..], &[16u32, 8][..], &[8, 3][..]),
            (&[80, 20], &[16, 8], &[70, 15]),
            (&[80, 4, 5], &[8, 3, 2], &[75, 2, 4]),
            (&[100], &[16], &[90]),
        ] {
            let mut map = TensorMap::tiled(DataType::Float16, 0, dims, sizes);
            map.swizzle = swizzle;
            let form =
                format!("cp.async.bulk.tensor.{}d.global.shared::cta.tile.bulk_group{hint}", dims.len());
            let body = store_body(&form, at, 128, rest);
            let left = try_run(&map, &data, &shared, &body, 1, CopyTiming::Late).unwrap();
            let mut expected = data.clone();
            for (from, to) in elements(&map, at, 128) {
                if let Some(to) = to {
                    expected[to..to + 2].copy_from_slice(&shared[from..from + 2]);
                }
            }
            assert!(left.tensor == expected, "{map:?} {at:?}");
            assert_eq!(left.shared, shared);
        }
    }
}

#[test]
fn stores_without_offsets() {
    let (data, shared) = (pattern(40_000), pattern(ROOM + 3)[3..].to_vec());
    let columns = Columns { lower: [1, 0, 0], upper: [-1, 0, 0], channels: 8, pixels: 40 };
    let map = im2col(&[16, 9, 6, 3], columns);
    for (form, adds) in [
        ("cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group", false),
        ("cp.reduce.async.bulk.tensor.4d.global.shared::cta.or.im2col_no_offs.bulk_group", true),
    ] {
        let data_type = if adds { DataType::Uint32 } else { DataType::Float16 };
        let wide = im2col(&[8, 9, 6, 3], Columns { channels: 4, ..columns });
        let map = if adds { TensorMap { data_type, strides: [32, 288, 1728, 0], ..wide } } else { map };
        let Mode::Im2col(columns) = map.mode else { panic!("im2col") };
        let start = [4, 3, 1, 1];
        let left =
            try_run(&map, &data, &shared, &store_body(form, &start, 0, ""), 1, CopyTiming::Late).unwrap();
        let mut expected = data.clone();
        let size = if adds { 4 } else { 2 };
        for (pixel, to) in pixels(&map, &columns, &start, &[0, 0]).into_iter().enumerate() {
            for byte in 0..16 {
                let inside = 4 * size + byte < usize::try_from(map.dims[0]).unwrap() * size;
                if let Some(to) = to.filter(|_| inside) {
                    let value = shared[pixel * 16 + byte];
                    let place = &mut expected[to + 4 * size + byte];
                    *place = if adds { *place | value } else { value };
                }
            }
        }
        assert!(left.tensor == expected, "{form}");
    }
}

#[test]
fn reductions_of_every_operator() {
    use DataType::{Bfloat16, Float16, Float32, Int32, Int64, Uint32, Uint64};

    let one = |data_type: DataType, value: u64| {
        value.to_le_bytes()[..usize::try_from(data_type.bits() / 8).unwrap()].to_vec()
    };
    let cases: [(&str, DataType, u64, u64, u64); 18] = [
        ("add", Uint32, 3, 0xffff_ffff, 2),
        ("add", Int32, 3, 4, 7),
        ("add", Uint64, 3, 0xffff_ffff, 0x1_0000_0002),
        ("add", Float32, 0x3f80_0000, 0x4000_0000, 0x4040_0000),
        ("add", Float16, 0x3c00, 0x3c00, 0x4000),
        ("add", Bfloat16, 0x3f80, 0x3f80, 0x4000),
        ("min", Int32, 3, 0xffff_ffff, 0xffff_ffff),
        ("min", Uint32, 3, 0xffff_ffff, 3),
        ("max", Uint64, 3, u64::MAX, u64::MAX),
        ("max", Int64, 3, u64::MAX, 3),
        ("min", Float16, 0x3c00, 0xc000, 0xc000),
        ("max", Bfloat16, 0x3f80, 0xc000, 0x3f80),
        ("inc", Uint32, 9, 9, 0),
        ("dec", Uint32, 9, 3, 2),
        ("and", Uint32, 0b1100, 0b1010, 0b1000),
        ("or", Uint64, 0b1100, 0b1010, 0b1110),
        ("xor", Int32, 0b1100, 0b1010, 0b0110),
        ("and", Int64, 0b1100, 0b1010, 0b1000),
    ];
    for (name, data_type, given, before, after) in cases {
        let map = TensorMap::tiled(data_type, 0, &[16, 3], &[8, 2]);
        let data = one(data_type, before).repeat(48);
        let shared: Vec<u8> = one(data_type, given).repeat(ROOM)[..ROOM].to_vec();
        let form = format!("cp.reduce.async.bulk.tensor.2d.global.shared::cta.{name}.tile.bulk_group");
        let body = store_body(&form, &[8, 1], 0, "");
        let left =
            try_run(&map, &data, &shared, &body, 1, CopyTiming::Late).unwrap_or_else(|stop| panic!("{stop}"));
        let size = one(data_type, 0).len();
        for (i, found) in left.tensor.chunks(size).enumerate() {
            let hit = i >= 16 && i % 16 >= 8;
            assert_eq!(found, one(data_type, if hit { after } else { before }), "{name} {data_type:?} {i}");
        }
    }
    let map = TensorMap::tiled(Float32, 0, &[16, 3], &[8, 2]);
    let body = store_body(
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.min.bulk_group.L2::cache_hint",
        &[0, 0],
        0,
        ", %p",
    );
    assert_eq!(stop(&map, &body), StopKind::TensorMap);
}

/// Why a body stops, for which the kernel is to blame.
pub(crate) fn stop(map: &TensorMap, body: &str) -> StopKind {
    match try_run(map, &pattern(20_000), &vec![0; ROOM], body, 1, CopyTiming::Late) {
        Ok(_) => panic!("{body}: expected a stop"),
        Err(stop) => {
            assert_eq!(stop.blame, Blame::Kernel, "{stop}");
            stop.kind
        }
    }
}

#[test]
fn prefetches_change_nothing() {
    let data = pattern(20_000);
    let map = TensorMap::tiled(DataType::Uint8, 0, &[64, 8], &[32, 2]);
    for body in [
        "@%q cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%p, {8, 2}];",
        "@%q cp.async.bulk.prefetch.tensor.2d.L2.global.L2::cache_hint [%p, {8, 2}], %p;",
        "@%q prefetch.tensormap [%p];",
    ] {
        let left = run(&map, &data, body);
        assert!(left.tensor == data && left.shared == vec![0xee; ROOM]);
    }
    let columns = Columns { lower: [0; 3], upper: [0; 3], channels: 8, pixels: 4 };
    let body = "@%q cp.async.bulk.prefetch.tensor.3d.L2.global.im2col [%p, {0, 0, 0}], {1};";
    run(&im2col(&[8, 4, 3], columns), &data, body);
    assert_eq!(
        stop(&map, "@%q cp.async.bulk.prefetch.tensor.3d.L2.global [%p, {8, 2, 0}];"),
        StopKind::TensorMap
    );
}

#[test]
fn misused_maps_stop_the_launch() {
    let map = TensorMap::tiled(DataType::Uint8, 0, &[64, 8], &[32, 2]);
    let load = "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes";
    for (body, kind) in [
        // The wrong rank, mode, address, alignment, space.
        (format!("@%q {} [%b], [%p, {{8}}], [%m];", load.replace("2d", "1d")), StopKind::TensorMap),
        (
            "@%q cp.async.bulk.tensor.3d.shared::cta.global.im2col.mbarrier::complete_tx::bytes [%b], [%p, {8, 0, 0}], [%m], {0};"
                .to_owned(),
            StopKind::TensorMap,
        ),
        (format!("@%q {load} [%b], [%p+16, {{8, 2}}], [%m];"), StopKind::TensorMap),
        (format!("@%q {load} [%b+64], [%p, {{8, 2}}], [%m];"), StopKind::Alignment),
        (format!("@%q {load} [%b+{ROOM}], [%p, {{8, 2}}], [%m];"), StopKind::Alignment),
        (format!("cvta.shared.u64 %g, buffer; @%q {load} [%b], [%g, {{8, 2}}], [%m];"), StopKind::TensorMap),
        (format!("ld.param.u64 %g, [from]; @%q {load} [%b], [%g, {{8, 2}}], [%m];"), StopKind::TensorMap),
        // A map in global memory with a changed byte.
        (format!("@%q st.global.u8 [%s+20], 9; @%q {load} [%b], [%s, {{8, 2}}], [%m];"), StopKind::TensorMap),
        (store_body("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group", &[-1, 0], 0, ""), StopKind::TensorMap),
    ] {
        let body = body.replace(&format!("+{ROOM}"), &format!("+{}", ROOM + 64));
        assert_eq!(stop(&map, &body), kind, "{body}");
    }
    // The tensor is smaller than the map states.
    let large = TensorMap::tiled(DataType::Uint8, 0, &[64, 8000], &[32, 2]);
    assert_eq!(stop(&large, &format!("@%q {load} [%b], [%p, {{8, 7000}}], [%m];")), StopKind::Bounds);
    // More bytes than expected.
    let body = load_body(load, 32, &[0, 0], 0, "");
    assert!(matches!(stop(&map, &body), StopKind::Mbarrier | StopKind::Deadlock));
}

#[test]
fn fields_are_replaced() {
    let data = pattern(40_000);
    let map = TensorMap::tiled(DataType::Uint8, 0, &[64, 8], &[32, 2]);
    let mut wanted = TensorMap::tiled(DataType::Bfloat16, 0, &[100, 7, 5], &[16, 4, 3]);
    (wanted.swizzle, wanted.fill) = (Swizzle::Bytes32, Fill::Nan);
    (wanted.strides, wanted.element_strides) = ([256, 2048, 0, 0], [1, 2, 1, 1, 1]);
    let fields = "
        tensormap.replace.tile.rank.global.b1024.b32 [%s], 2;
        tensormap.replace.tile.elemtype.global.b1024.b32 [%s], 10;
        tensormap.replace.tile.interleave_layout.global.b1024.b32 [%s], 0;
        tensormap.replace.tile.swizzle_mode.global.b1024.b32 [%s], 1;
        tensormap.replace.tile.fill_mode.b1024.b32 [%s], 1;
        tensormap.replace.tile.global_dim.global.b1024.b32 [%s], 0, 100;
        tensormap.replace.tile.global_dim.global.b1024.b32 [%s], 1, 7;
        tensormap.replace.tile.global_dim.global.b1024.b32 [%s], 2, 5;
        tensormap.replace.tile.global_stride.global.b1024.b64 [%s], 0, 256;
        tensormap.replace.tile.global_stride.global.b1024.b64 [%s], 1, 2048;
        tensormap.replace.tile.box_dim.global.b1024.b32 [%s], 0, 16;
        tensormap.replace.tile.box_dim.global.b1024.b32 [%s], 1, 4;
        tensormap.replace.tile.box_dim.global.b1024.b32 [%s], 2, 3;
        tensormap.replace.tile.element_stride.global.b1024.b32 [%s], 1, 2;";
    let load = "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes";
    let copy = format!("@%q {load} [%b], [%s, {{90, 4, 3}}], [%m]; WAIT");
    let expect = "@%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], 192;";
    let fences = "@%q fence.proxy.tensormap::generic.release.gpu; @%q fence.proxy.tensormap::generic.acquire.gpu [%s], 128;";
    let in_global: String = fields.replace("\n        ", "\n @%q ");
    // In shared memory, and published by a warp.
    let in_shared = fields
        .replace(".global.b1024", ".shared::cta.b1024")
        .replace("[%s]", "[%c]")
        .replace("fill_mode.b1024", "fill_mode.shared::cta.b1024");
    let bring: String = (0..128)
        .step_by(8)
        .map(|at| format!("@%q ld.global.b64 %o, [%s+{at}]; @%q st.shared.b64 [%c+{at}], %o;\n"))
        .collect();
    let publish = "bar.sync 0; setp.ge.u32 %p1, %v, 32; @%p1 bra PAST;
        tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%s], [%c], 128;
        PAST: bar.sync 0; @%q fence.proxy.tensormap::generic.acquire.gpu [%s], 128;";
    let in_shared = format!("{bring}{}{publish}", in_shared.replace("\n        ", "\n @%q "));
    // From zeros, as Triton makes its maps.
    let zeros: String = (0..128).step_by(8).map(|at| format!("@%q st.global.b64 [%s+{at}], 0;\n")).collect();
    let from_zeros = format!(
        "@%q ld.global.b64 %g, [%s+16]; {zeros}{in_global}
         @%q tensormap.replace.tile.global_address.global.b1024.b64 [%s], %g; {fences}"
    );
    for change in [format!("{in_global}{fences}"), in_shared, from_zeros] {
        let left = run(&map, &data, &format!("{change}{expect}{copy}"));
        let mut expected = vec![0xee; ROOM];
        for (at, from) in elements(&wanted, &[90, 4, 3], 0) {
            let bytes = from.map_or([0xf7, 0x7f], |from| [data[from], data[from + 1]]);
            expected[at..at + 2].copy_from_slice(&bytes);
        }
        assert!(left.shared == expected, "{change}");
        let mut found = TensorMap::decode(left.spare.first_chunk().unwrap()).unwrap();
        // Dimensions beyond the rank are 0 in a map that was made from zeros.
        found.dims[3..].copy_from_slice(&wanted.dims[3..]);
        if let Mode::Tiled { sizes } = &mut found.mode {
            sizes[3..].fill(1);
        }
        assert_eq!(TensorMap { address: 0, ..found }, wanted);
    }
    // Another address: that of the first argument's bytes.
    let body = format!(
        "ld.param.u64 %g, [from]; @%q tensormap.replace.tile.global_address.global.b1024.b64 [%s], %g; {fences}
         @%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], 64;
         @%q cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%b], [%s, {{0, 0}}], [%m]; WAIT"
    );
    let shared = pattern(ROOM);
    let left = try_run(&map, &data, &shared, &body, 1, CopyTiming::Late).unwrap();
    assert_eq!(left.shared[..64], [&shared[..32], &shared[64..96]].concat());
    for wrong in [
        "@%q tensormap.replace.tile.elemtype.global.b1024.b32 [%s], 16;",
        "@%q ld.global.b64 %g, [%s+16]; @%q tensormap.replace.tile.rank.global.b1024.b32 [%g], 1;",
        // A map that became invalid is found when it is used.
        "@%q tensormap.replace.tile.box_dim.global.b1024.b32 [%s], 0, 257;
         @%q cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%b], [%s, {0, 0}], [%m];",
    ] {
        assert_eq!(stop(&map, wrong), StopKind::TensorMap, "{wrong}");
    }
    let readonly = "@%q tensormap.replace.tile.rank.b1024.b32 [%p], 1;";
    assert_eq!(stop(&map, readonly), StopKind::Bounds);
}

/// A box that is loaded with a swizzle is a matrix of `wgmma` with the same swizzle.
#[test]
fn wgmma_reads_what_a_swizzled_copy_wrote() {
    for (swizzle, mode, inner) in
        [(Swizzle::Bytes128, 1u64, 64u32), (Swizzle::Bytes64, 2, 32), (Swizzle::Bytes32, 3, 16)]
    {
        // A has 64 rows and B 8, of `inner` elements each: small integers, whose sums are exact.
        let depth = usize::try_from(inner).unwrap();
        let values: Vec<u16> =
            (0..72 * depth).map(|i| [0, 0x3c00, 0x4000, 0xbc00][(i * 7 + i / 13) % 4]).collect();
        let number = |bits: u16| match bits {
            0 => 0i32,
            0x3c00 => 1,
            0x4000 => 2,
            _ => -1,
        };
        let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut map = TensorMap::tiled(DataType::Float16, 0, &[u64::from(inner), 72], &[inner, 8]);
        map.swizzle = swizzle;
        let rows = depth * 2 * 8;
        let loads: String = (0..9)
            .map(|i| {
                let at = if i == 8 { 8 << 10 } else { i * rows };
                format!(
                    "@%q cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%b+{at}], [%p, {{0, {}}}], [%m];\n",
                    i * 8
                )
            })
            .collect();
        let high = mode << 62 | u64::try_from(rows >> 4).unwrap() << 32 | 1 << 16;
        let steps: String = (0..depth / 16)
            .map(|step| {
                format!(
                    "add.u64 %o, %g, {}; add.u64 %s, %g, {};
                     wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%w0, %w1, %w2, %w3}}, %o, %s, {}, 1, 1, 0, 0;\n",
                    step * 2,
                    (8 << 10 >> 4) + step * 2,
                    if step == 0 { "0" } else { "1" },
                )
            })
            .collect();
        let body = format!(
            "@%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], {}; {loads} WAIT bar.sync 0;
             shr.u32 %i, %b, 4; cvt.u64.u32 %g, %i; or.b64 %g, %g, {};
             mov.b32 %w0, 0; mov.b32 %w1, 0; mov.b32 %w2, 0; mov.b32 %w3, 0;
             wgmma.fence.sync.aligned; {steps} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
             bar.sync 0; mad.lo.u32 %a, %v, 16, %b; st.shared.v4.b32 [%a], {{%w0, %w1, %w2, %w3}};",
            rows * 9,
            high.cast_signed(),
        );
        let left = run(&map, &data, &body);
        for thread in 0..128 {
            for i in 0..4 {
                let row = thread / 32 * 16 + thread % 32 / 4 + i / 2 * 8;
                let column = thread % 4 * 2 + i % 2;
                let expected: i32 = (0..depth)
                    .map(|k| number(values[row * depth + k]) * number(values[(64 + column) * depth + k]))
                    .sum();
                let bytes = left.shared[thread * 16 + i * 4..].first_chunk().unwrap();
                let found = f32::from_bits(u32::from_le_bytes(*bytes));
                assert_eq!(found, f32::from(i16::try_from(expected).unwrap()), "{swizzle:?} {row} {column}");
            }
        }
    }
}
