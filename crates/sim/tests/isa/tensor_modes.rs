//! Copies of four rows of a tensor, and im2col copies along W, compared with loops over rows and pixels.
#![expect(clippy::unwrap_used, reason = "a setup failure fails the test")]

use crate::tensor::{ROOM, list, load_body, pattern, pitch, run, stop, store_body, swizzled, try_run};
use warpproof_sim::schedule::CopyTiming;
use warpproof_sim::tensor_map::{Columns, DataType, Fill, Mode, Swizzle, TensorMap};
use warpproof_sim::{Blame, StopKind};

fn index(value: i32, size: u64) -> Option<usize> {
    usize::try_from(value).ok().filter(|value| *value < usize::try_from(size).unwrap())
}

/// For each element of four rows: where it is in shared memory, and its offset in the tensor if it is inside.
fn four_rows(map: &TensorMap, column: i32, rows: [i32; 4], base: usize) -> Vec<(usize, Option<usize>)> {
    let Mode::Tiled { sizes } = map.mode else { panic!("a tiled map") };
    let size = usize::try_from(map.data_type.bits() / 8).unwrap();
    let width = usize::try_from(sizes[0]).unwrap();
    let mut found = Vec::new();
    for (i, row) in rows.into_iter().enumerate() {
        for element in 0..width {
            let column = index(column + i32::try_from(element).unwrap(), map.dims[0]);
            let from = column
                .zip(index(row, map.dims[1]))
                .map(|(column, row)| row * usize::try_from(map.strides[0]).unwrap() + column * size);
            let at = base + i * pitch(map.swizzle, width * size) + element * size;
            found.push((swizzled(map.swizzle, at), from));
        }
    }
    found
}

fn map_of_rows(data_type: DataType, width: u32, swizzle: Swizzle) -> TensorMap {
    TensorMap { swizzle, ..TensorMap::tiled(data_type, 0, &[80, 40], &[width, 1]) }
}

const ROWS: [(i32, [i32; 4]); 5] = [
    (0, [0, 1, 2, 3]),
    (16, [39, 7, 7, 0]),
    (72, [5, 40, 12, 1000]),
    (-4, [3, -1, -100, 8]),
    (200, [1, 2, 3, 4]),
];

#[test]
fn four_rows_are_gathered() {
    let data = pattern(40_000);
    for (data_type, width, swizzle, fill) in [
        (DataType::Float16, 16, Swizzle::None, Fill::Zero),
        (DataType::Float16, 64, Swizzle::Bytes128, Fill::Nan),
        (DataType::Uint8, 32, Swizzle::Bytes32, Fill::Zero),
        (DataType::Float32, 16, Swizzle::Bytes64, Fill::Nan),
        (DataType::Float32, 8, Swizzle::Bytes128Atom32, Fill::Zero),
        (DataType::Uint64, 2, Swizzle::Bytes128, Fill::Zero),
    ] {
        let map = TensorMap { fill, ..map_of_rows(data_type, width, swizzle) };
        let size = usize::try_from(data_type.bits() / 8).unwrap();
        for (column, rows) in ROWS {
            let coordinates = [&[column][..], &rows].concat();
            let mut expected = vec![0xee; ROOM];
            let outside = if fill == Fill::Nan { [0xf7, 0x7f].repeat(4) } else { vec![0; 8] };
            let elements = four_rows(&map, column, rows, 256);
            for (at, from) in &elements {
                let bytes = from.map_or(&outside[..size], |from| &data[from..from + size]);
                expected[*at..at + size].copy_from_slice(bytes);
            }
            for (space, more, rest) in [
                ("cta", "", ""),
                ("cta", ".cta_group::1.L2::cache_hint", ", %p"),
                ("cluster", "", ""),
                ("cluster", ".cta_group::1", ""),
                ("cluster", ".multicast::cluster", ", 1"),
                ("cluster", ".multicast::cluster.cta_group::1.L2::cache_hint", ", 1, %p"),
            ] {
                let form = format!(
                    "cp.async.bulk.tensor.2d.shared::{space}.global.tile::gather4.mbarrier::complete_tx::bytes{more}"
                );
                let body = load_body(&form, elements.len() * size, &coordinates, 256, rest);
                let left = run(&map, &data, &body);
                assert!(left.shared == expected, "{form} {map:?} {coordinates:?}");
            }
            for hint in ["", ".L2::cache_hint"] {
                let rest = if hint.is_empty() { "" } else { ", %p" };
                let at = list(&coordinates);
                let form = "cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4";
                let left = run(&map, &data, &format!("@%q {form}{hint} [%p, {{{at}}}]{rest};"));
                assert!(left.tensor == data && left.shared == vec![0xee; ROOM]);
            }
        }
    }
}

#[test]
fn four_rows_are_scattered() {
    let (data, shared) = (pattern(40_000), pattern(ROOM + 3)[3..].to_vec());
    for (width, swizzle, hint, rest) in [
        (16, Swizzle::None, "", ""),
        (64, Swizzle::Bytes128, ".L2::cache_hint", ", %p"),
        (16, Swizzle::Bytes32, "", ""),
    ] {
        let map = map_of_rows(DataType::Float16, width, swizzle);
        for (column, rows) in [(0, [3, 2, 1, 0]), (8, [39, 40, 0, 100]), (72, [4, 8, 12, 16])] {
            let form = format!("cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group{hint}");
            let body = store_body(&form, &[&[column][..], &rows].concat(), 128, rest);
            let left = try_run(&map, &data, &shared, &body, 1, CopyTiming::Late).unwrap();
            let mut expected = data.clone();
            for (from, to) in four_rows(&map, column, rows, 128) {
                if let Some(to) = to {
                    expected[to..to + 2].copy_from_slice(&shared[from..from + 2]);
                }
            }
            assert!(left.tensor == expected, "{map:?} {column} {rows:?}");
            assert_eq!(left.shared, shared);
        }
    }
}

/// A gather to the other block, whose mbarrier is that of the first of a pair.
#[test]
fn four_rows_are_gathered_to_a_pair() {
    let data = pattern(20_000);
    let map = map_of_rows(DataType::Uint32, 16, Swizzle::None);
    let body = "@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], 512;
        mov.u16 %h, 3; barrier.cluster.arrive; barrier.cluster.wait; @%first
        cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes.multicast::cluster.cta_group::2
        [%b], [%p, {8, 4, 3, 2, 1}], [%m], %h;
        setp.eq.u32 %p1, %r, 1; @%p1 bra DONE; WAIT DONE: barrier.cluster.arrive; barrier.cluster.wait;";
    let left = try_run(&map, &data, &vec![0xee; ROOM], body, 2, CopyTiming::Late)
        .unwrap_or_else(|stop| panic!("{stop}"));
    for block in 0..2 {
        let mut expected = vec![0xee; ROOM];
        for (at, from) in four_rows(&map, 8, [4, 3, 2, 1], 0) {
            expected[at..at + 4].copy_from_slice(&data[from.unwrap()..from.unwrap() + 4]);
        }
        assert!(left.shared[block * ROOM..][..ROOM] == expected, "block {block}");
    }
}

fn gather(coordinates: &str) -> String {
    format!(
        "@%q cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%b], [%p, {{{coordinates}}}], [%m];"
    )
}

#[test]
fn maps_that_do_not_fit_stop() {
    let rows = map_of_rows(DataType::Float16, 16, Swizzle::None);
    assert_eq!(
        stop(&TensorMap::tiled(DataType::Float16, 0, &[80, 40], &[16, 4]), &gather("0, 1, 2, 3, 4")),
        StopKind::TensorMap
    );
    assert_eq!(
        stop(&TensorMap::tiled(DataType::Float16, 0, &[80, 40, 2], &[16, 1, 1]), &gather("0, 1, 2, 3, 4")),
        StopKind::TensorMap
    );
    let scatter = store_body(
        "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group",
        &[0, 1, -2, 3, 4],
        0,
        "",
    );
    assert_eq!(stop(&rows, &scatter), StopKind::TensorMap);
    let wide = wide_map(&[32, 9, 3], columns(0, 0, 8), true, [1, 1]);
    assert_eq!(stop(&wide, &gather("0, 1, 2, 3, 4")), StopKind::TensorMap);
    let along = |mode: &str, start: &str, info: &str| {
        format!(
            "@%q cp.async.bulk.tensor.3d.shared::cta.global.{mode}.mbarrier::complete_tx::bytes [%b], [%p, {{{start}}}], [%m], {{{info}}};"
        )
    };
    assert_eq!(stop(&wide, &along("im2col::w", "0, 0, 0", "0, 0")), StopKind::TensorMap);
    assert_eq!(stop(&wide, &along("im2col::w::128", "0, 9, 0", "0, 0")), StopKind::TensorMap);
    assert_eq!(stop(&wide, &along("im2col::w::128", "0, 0, 0", "32, 0")), StopKind::TensorMap);
    assert_eq!(stop(&wide, &along("im2col::w::128", "0, 0, 0", "0, 32")), StopKind::TensorMap);
    assert_eq!(stop(&wide, &along("im2col", "0, 0, 0", "0")), StopKind::TensorMap);
    let body = along("im2col::w::128", "0, 0, 0", "2, 0");
    let stop = try_run(&wide, &pattern(20_000), &vec![0; ROOM], &body, 1, CopyTiming::Late).err().unwrap();
    assert_eq!((stop.blame, stop.kind), (Blame::Gap, StopKind::Unsupported), "{stop}");
}

fn columns(lower: i32, upper: i32, pixels: u32) -> Columns {
    Columns { lower: [lower, 0, 0], upper: [upper, 0, 0], channels: 32, pixels }
}

fn wide_map(dims: &[u64], columns: Columns, w128: bool, steps: [u32; 2]) -> TensorMap {
    let map = TensorMap::tiled(DataType::Float16, 0, dims, &[]);
    let element_strides = [steps[0], steps[1], 1, 1, 1];
    TensorMap { mode: Mode::Im2colWide { columns, w128 }, swizzle: Swizzle::Bytes64, element_strides, ..map }
}

/// Every pixel of the row in each image, from the first one.
fn row_of_images(
    map: &TensorMap,
    columns: &Columns,
    start: &[i32],
    offset: i32,
    count: usize,
) -> Vec<Option<usize>> {
    let rank = start.len();
    let step = usize::try_from(map.element_strides[1]).unwrap();
    let width = i32::try_from(map.dims[1]).unwrap();
    let mut found = Vec::new();
    let mut image = start[rank - 1];
    while found.len() < count {
        let first = if image == start[rank - 1] { start[1] } else { columns.lower[0] };
        for w in (first..width + columns.upper[0]).step_by(step) {
            let mut place = start.to_vec();
            (place[1], place[rank - 1]) = (w + offset, image);
            let inside: Option<Vec<usize>> = (1..rank).map(|i| index(place[i], map.dims[i])).collect();
            found.push(inside.map(|at| {
                at.iter().zip(&map.strides).map(|(at, stride)| at * usize::try_from(*stride).unwrap()).sum()
            }));
        }
        image += 1;
    }
    found.truncate(count);
    found
}

/// The dimensions, the bounding box, the steps, the coordinates, and the offset.
type Case<'a> = (&'a [u64], Columns, [u32; 2], &'a [i32], i32);

#[test]
fn pixels_along_width() {
    let data = pattern(60_000);
    let cases: [Case<'_>; 7] = [
        (&[32, 9, 7, 12], columns(0, 0, 100), [1, 1], &[0, 3, 2, 0], 0),
        // A filter of three elements with a padding of 1, element by element.
        (&[32, 9, 7, 12], columns(-1, -1, 90), [1, 1], &[0, -1, 2, 1], 0),
        (&[32, 9, 7, 12], columns(-1, -1, 90), [1, 1], &[0, -1, 2, 1], 1),
        (&[32, 9, 7, 12], columns(-1, -1, 90), [1, 1], &[0, 4, 6, 1], 2),
        (&[48, 9, 3], columns(-1, 0, 40), [1, 2], &[24, -3, 1], 1),
        (&[32, 7, 2, 3, 5], columns(0, -2, 60), [1, 3], &[0, 1, 1, 2, 1], 0),
        (&[32, 9, 7, 12], columns(0, 0, 20), [1, 1], &[0, 0, 7, 0], 0),
    ];
    for (map_w128, (dims, columns, steps, start, offset)) in
        [false, true].into_iter().flat_map(|w128| cases.map(|case| (w128, case)))
    {
        let map = wide_map(dims, columns, map_w128, steps);
        let count = if map_w128 { 128 } else { usize::try_from(columns.pixels).unwrap() };
        let mut expected = vec![0xee; ROOM];
        for (pixel, from) in row_of_images(&map, &columns, start, offset, count).into_iter().enumerate() {
            for channel in 0..32 {
                let at = swizzled(Swizzle::Bytes64, pixel * 64 + channel * 2);
                let channel = index(start[0] + i32::try_from(channel).unwrap(), map.dims[0]);
                let from = from.zip(channel).map(|(from, channel)| from + 2 * channel);
                let bytes = from.map_or([0, 0], |from| [data[from], data[from + 1]]);
                expected[at..at + 2].copy_from_slice(&bytes);
            }
        }
        let (dim, mode) = (start.len(), if map_w128 { "im2col::w::128" } else { "im2col::w" });
        for (space, more, rest) in [
            ("cta", "", ""),
            ("cluster", ".L2::cache_hint", ", %p"),
            ("cluster", ".multicast::cluster", ", 1"),
            ("cluster", ".multicast::cluster.cta_group::1", ", 1"),
        ] {
            let form = format!(
                "cp.async.bulk.tensor.{dim}d.shared::{space}.global.{mode}.mbarrier::complete_tx::bytes{more}"
            );
            let body = load_body(&form, count * 64, start, 0, &format!(", {{0, {offset}}}{rest}"));
            let left = run(&map, &data, &body);
            assert!(left.shared == expected, "{form} {map:?} {start:?} {offset}");
        }
        let at = list(start);
        let body = format!(
            "@%q cp.async.bulk.prefetch.tensor.{dim}d.L2.global.{mode} [%p, {{{at}}}], {{0, {offset}}};"
        );
        assert!(run(&map, &data, &body).shared == vec![0xee; ROOM]);
    }
}
