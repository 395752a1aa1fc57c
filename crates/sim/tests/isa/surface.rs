//! `suld`, `sust`, `sured`, `suq`.

#![expect(
    clippy::unwrap_used,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "a setup failure fails the test; numbers are small"
)]

use crate::harness::{Column, patterns};
use crate::texture::{F32, array, run};
use warpproof_sim::memory::{Channel, Image, Layout, Texel};
use warpproof_sim::{Blame, Device, StopKind};

const WORDS: Texel = Texel { channel: Channel::U32, channels: 1 };

fn surface(device: &mut Device, image: Image) -> Column {
    vec![device.memory().images_mut().add_surface(image).unwrap(); 32]
}

fn empty(device: &mut Device, texel: Texel, layout: Layout, extents: [u32; 3]) -> Image {
    array(device, texel, layout, extents, 1, |_, _| vec![0; texel.bytes() as usize])
}

#[test]
fn every_size_is_stored_and_loaded() {
    let geometries = [
        ("1d", Layout::Array, [1024, 0, 0], "{%o}"),
        ("2d", Layout::Array, [1024, 2, 0], "{%o, 1}"),
        ("3d", Layout::Array, [1024, 2, 2], "{%o, 1, 1, 0}"),
        ("a1d", Layout::Layered, [1024, 0, 3], "{2, %o}"),
        ("a2d", Layout::Layered, [1024, 2, 3], "{2, %o, 1, 0}"),
    ];
    for (geometry, layout, extents, coordinates) in geometries {
        for (ty, bits) in [("b8", 8u32), ("b16", 16), ("b32", 32), ("b64", 64)] {
            for (vector, count) in [("", 1usize), (".v2", 2), (".v4", 4)] {
                let mut device = Device::new().with_threads(1);
                let image = empty(&mut device, WORDS, layout, extents);
                let handle = surface(&mut device, image.clone());
                let step = bits / 8 * count as u32;
                let list =
                    |prefix: &str| (0..count).map(|i| format!("%{prefix}{i}")).collect::<Vec<_>>().join(", ");
                let coordinates = coordinates.replace("%o", "%at");
                let body = format!(
                    ".reg .b32 %at; mul.lo.u32 %at, %lane, {step};
                    sust.b.{geometry}{vector}.{ty}.trap [%s4, {coordinates}], {{{}}};
                    suld.b.{geometry}{vector}.{ty}.trap {{{}}}, [%s4, {coordinates}];",
                    list("s"),
                    list("d")
                );
                let mut sources: Vec<(&str, Column)> = vec![(ty, patterns(32)); 4];
                sources.push(("b64", handle));
                for (i, (_, column)) in sources.iter_mut().enumerate().take(4) {
                    column.rotate_left(3 * i);
                }
                let got = run(&mut device, &body, &vec![ty; count], &sources)
                    .unwrap_or_else(|stop| panic!("{body}: {stop}"));
                let mask = u64::MAX >> (64 - bits);
                for (i, column) in got.iter().enumerate() {
                    let wanted: Column = sources[i].1.iter().map(|value| value & mask).collect();
                    assert_eq!(*column, wanted, "{body}");
                }
                // The bytes are where the layout has them.
                let level = image.base();
                let place = match geometry {
                    "1d" => level.texel(WORDS, [0, 0, 0]),
                    "2d" => level.texel(WORDS, [0, 1, 0]),
                    "3d" => level.texel(WORDS, [0, 1, 1]),
                    "a1d" => level.texel(WORDS, [0, 0, 2]),
                    _ => level.texel(WORDS, [0, 1, 2]),
                };
                let first = device.heap().read(place + u64::from(step), (bits / 8) as usize).unwrap();
                assert_eq!(first, &sources[0].1[1].to_le_bytes()[..(bits / 8) as usize], "{body}");
            }
        }
    }
}

#[test]
fn outside_of_a_surface() {
    let mut device = Device::new().with_threads(1);
    let image = array(&mut device, WORDS, Layout::Array, [16, 2, 0], 1, |[x, y, _], _| {
        (x + 100 * y + 1).to_le_bytes().to_vec()
    });
    let handle = surface(&mut device, image.clone());
    let x: Column = (0..32u32).map(|t| u64::from(t.wrapping_sub(8).wrapping_mul(4))).collect();
    let sources = [("b64", handle), ("b32", x)];
    let body = "suld.b.2d.b32.zero %d0, [%s0, {%s1, 1}]; suld.b.2d.b32.clamp %d1, [%s0, {%s1, 5}];";
    let got = run(&mut device, body, &["b32"; 2], &sources).unwrap();
    for t in 0..32u64 {
        let inside = (8..24).contains(&t);
        assert_eq!(got[0][t as usize], if inside { 101 + t - 8 } else { 0 });
        assert_eq!(got[1][t as usize], 101 + t.clamp(8, 23) - 8);
    }
    let body = "sust.b.2d.b32.zero [%s0, {%s1, 0}], %lane;";
    run(&mut device, body, &[], &sources).unwrap();
    let row: Vec<u8> = device.heap().read(image.base().address, 64).unwrap().to_vec();
    let words: Vec<u32> = row.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    assert_eq!(words, (8..24).collect::<Vec<u32>>());
    for body in
        ["suld.b.2d.b32.trap %d0, [%s0, {%s1, 0}];", "sust.b.2d.b32 [%s0, {%s1, 0}], %lane; mov.b32 %d0, 0;"]
    {
        let stop = run(&mut device, body, &["b32"], &sources).unwrap_err();
        assert_eq!((stop.blame, stop.kind), (Blame::Kernel, StopKind::Bounds));
        assert!(stop.sentence.contains("byte -32") && stop.sentence.contains("16 x 2 texels"), "{stop}");
    }
    let stop = run(&mut device, "suld.b.2d.b32.zero %d0, [%s0, {2, 0}];", &["b32"], &sources).unwrap_err();
    assert_eq!(stop.kind, StopKind::Alignment);
    let stop = run(&mut device, "suld.b.3d.b32.zero %d0, [%s1, {2, 0, 0, 0}];", &["b32"], &sources);
    assert!(stop.is_err(), "a handle must be in a 64-bit register");
}

#[test]
fn texels_are_converted() {
    let mut device = Device::new().with_threads(1);
    for (texel, stored, bytes) in [
        (Texel { channel: Channel::F16, channels: 2 }, "{0f3F800000, 0f40000000}", vec![0, 0x3c, 0, 0x40]),
        (Texel { channel: Channel::U8, channels: 4 }, "{1, 2, 300, 4}", vec![1, 2, 255, 4]),
        (Texel { channel: Channel::S16, channels: 1 }, "{-70000, 2}", vec![0, 0x80]),
    ] {
        for (geometry, extents, coordinates) in [
            ("1d", [40, 0, 0], "{%lane}"),
            ("2d", [40, 1, 0], "{%lane, 0}"),
            ("3d", [40, 1, 1], "{%lane, 0, 0, 0}"),
        ] {
            let image = empty(&mut device, texel, Layout::Array, extents);
            let handle = surface(&mut device, image.clone());
            let vector = if stored.matches(',').count() == 3 { "v4" } else { "v2" };
            let body = format!("sust.p.{geometry}.{vector}.b32.trap [%s0, {coordinates}], {stored};");
            run(&mut device, &body, &[], &[("b64", handle)]).unwrap();
            let found = device.heap().read(image.base().texel(texel, [31, 0, 0]), bytes.len()).unwrap();
            assert_eq!(found, bytes, "{body}");
        }
    }
}

#[test]
fn reductions_change_texels() {
    let cases = [
        ("b.add", "u32", 500u32),
        ("b.add", "s32", 500),
        ("b.min", "u32", 0),
        ("b.max", "s32", 31),
        ("b.and", "b32", 0),
        ("b.or", "b32", 31),
        ("p.add", "b32", 500),
        ("p.min", "b32", 0),
        ("p.max", "b32", 31),
        ("p.and", "b32", 0),
        ("p.or", "b32", 31),
    ];
    for (name, ty, wanted) in cases {
        let mut device = Device::new().with_threads(1);
        let start = if name.ends_with("add") { 4u32 } else { 16 };
        let image =
            array(&mut device, WORDS, Layout::Array, [4, 2, 0], 1, |_, _| start.to_le_bytes().to_vec());
        let handle = surface(&mut device, image.clone());
        let (kind, op) = name.split_at(1);
        let x = if kind == "b" { 4 } else { 1 };
        let body = format!("sured.{kind}{op}.2d.{ty}.trap [%s0, {{{x}, 1}}], %lane;");
        run(&mut device, &body, &[], &[("b64", handle)]).unwrap_or_else(|stop| panic!("{body}: {stop}"));
        let cell = device.heap().read(image.base().texel(WORDS, [1, 1, 0]), 4).unwrap();
        assert_eq!(cell, wanted.to_le_bytes(), "{body}");
        let other = device.heap().read(image.base().texel(WORDS, [0, 1, 0]), 4).unwrap();
        assert_eq!(other, start.to_le_bytes());
    }
    let mut device = Device::new().with_threads(1);
    let image = empty(&mut device, F32, Layout::Array, [4, 0, 0]);
    let handle = surface(&mut device, image.clone());
    let body = "sured.b.add.1d.u64.clamp [%s0, {800}], 0x100000001; ";
    run(&mut device, body, &[], &[("b64", handle.clone())]).unwrap();
    let cell = device.heap().read(image.base().address + 8, 8).unwrap();
    assert_eq!(cell, (32u64 << 32 | 32).to_le_bytes());
    // 64 bits: -1 is the least signed number and the largest unsigned one.
    for (op, wanted) in
        [("min.1d.s64", u64::MAX), ("max.1d.u64", u64::MAX), ("max.1d.s64", 7), ("min.1d.u64", 7)]
    {
        let body = format!("sured.b.min.1d.u64.clamp [%s0, {{8}}], 7; sured.b.{op}.clamp [%s0, {{8}}], -1;");
        run(&mut device, &body, &[], &[("b64", handle.clone())]).unwrap();
        let cell = device.heap().read(image.base().address + 8, 8).unwrap();
        assert_eq!(cell, wanted.to_le_bytes(), "{body}");
    }
    let stop =
        run(&mut device, "sured.p.add.1d.b32.zero [%s0, {0}], 1;", &[], &[("b64", handle)]).unwrap_err();
    assert!(stop.sentence.contains("not 32-bit integers"), "{stop}");
}

#[test]
fn properties_and_handles() {
    let mut device = Device::new().with_threads(1);
    let image = empty(&mut device, WORDS, Layout::Layered, [16, 8, 3]);
    let handle = surface(&mut device, image);
    let body = "suq.width.b32 %d0, [%s0]; suq.height.b32 %d1, [%s0]; suq.depth.b32 %d2, [%s0];
        suq.array_size.b32 %d3, [%s0]; suq.memory_layout.b32 %d4, [%s0];";
    let got = run(&mut device, body, &["b32"; 5], &[("b64", handle.clone())]).unwrap();
    assert_eq!(got.iter().map(|column| column[0]).collect::<Column>(), [16, 8, 1, 3, 0]);
    let fails = |device: &mut Device, body: &str, handle: u64| {
        run(device, body, &["b32"], &[("b64", vec![handle; 32])]).unwrap_err().sentence
    };
    assert!(fails(&mut device, "suq.width.b32 %d0, [%s0];", 9).contains("0x9 is not a surface object"));
    assert!(fails(&mut device, "suld.b.1d.b32.zero %d0, [%s0, {0}];", 9).contains("is not a surface object"));
    let wrong = fails(&mut device, "suld.b.2d.b32.zero %d0, [%s0, {0, 0}];", handle[0]);
    assert!(wrong.contains("a layered array of 3 layers of 16 x 8 texels"), "{wrong}");
}
