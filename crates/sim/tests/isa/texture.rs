//! `tex`, `tld4`, `txq`, `istypep`.

#![expect(
    clippy::unwrap_used,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::float_cmp,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a setup failure fails the test; numbers are small and exact"
)]

use crate::harness::{Column, kernel, launch};
use warpproof_sim::memory::{AddressMode, Channel, Image, Layout, Sampler, Texel, TexelReading, Texture};
use warpproof_sim::{Blame, Buffer, Device, Stop, StopKind};

pub(crate) const F32: Texel = Texel { channel: Channel::F32, channels: 1 };

/// Runs a body on one warp of a device.
pub(crate) fn run(
    device: &mut Device,
    body: &str,
    results: &[&str],
    sources: &[(&str, Column)],
) -> Result<Vec<Column>, Box<Stop>> {
    let types: Vec<&str> = sources.iter().map(|(ty, _)| *ty).collect();
    let module = device.load(&kernel(body, results, &types))?;
    let prepared = module.kernel("k")?;
    let outputs: Vec<Buffer<u64>> = results.iter().map(|_| device.alloc(32).unwrap()).collect();
    let mut prepared = prepared.launch().block(32);
    for buffer in &outputs {
        prepared = prepared.arg(buffer);
    }
    for (_, column) in sources {
        assert_eq!(column.len(), 32);
        prepared = prepared.arg(device.upload(column).unwrap());
    }
    match launch(device, &prepared).stop {
        Some(stop) => Err(stop),
        None => Ok(outputs.iter().map(|buffer| device.read(buffer).unwrap()).collect()),
    }
}

/// An array whose texels are given by their place: bytes of one texel for x, y, slice and level.
pub(crate) fn array(
    device: &mut Device,
    texel: Texel,
    layout: Layout,
    extents: [u32; 3],
    levels: u32,
    value: impl Fn([u32; 3], usize) -> Vec<u8>,
) -> Image {
    let (_, bytes) = Image::array(texel, layout, extents, levels, 0).unwrap();
    let base = device.memory().allocate_array("array", bytes).unwrap();
    let (image, _) = Image::array(texel, layout, extents, levels, base).unwrap();
    for (number, level) in image.levels.iter().enumerate() {
        for z in 0..level.slices {
            for y in 0..level.height {
                for x in 0..level.width {
                    let bytes = value([x, y, z], number);
                    assert_eq!(bytes.len(), texel.bytes() as usize);
                    device.memory().write(level.texel(texel, [x, y, z]), &bytes).unwrap();
                }
            }
        }
    }
    image
}

fn texture(device: &mut Device, image: Image, sampler: Sampler) -> Column {
    vec![device.memory().images_mut().add_texture(Texture { image, sampler }).unwrap(); 32]
}

fn floats(values: impl Fn(usize) -> f32) -> Column {
    (0..32).map(|t| u64::from(values(t).to_bits())).collect()
}

fn as_f32(column: &[u64]) -> Vec<f32> {
    column.iter().map(|bits| f32::from_bits(*bits as u32)).collect()
}

/// Texels of the tests of filtering.
fn height(x: i64, y: i64, z: i64) -> f64 {
    ((7 * x + 13 * y + 5 * z) % 11) as f64 - 3.5
}

const LINEAR: Sampler = Sampler {
    address: [AddressMode::Clamp; 3],
    linear: true,
    normalized: false,
    reading: TexelReading::Element,
    border: [0.0; 4],
    linear_levels: false,
    level_bias: 0.0,
    level_clamp: [0.0, 100.0],
    anisotropy: 0,
};

/// The formula of the guide over a texture of any size, with an index function by dimension.
fn expected(at: [f64; 3], dimensions: usize, texel: &dyn Fn([i64; 3]) -> f64) -> f32 {
    let mut sum = 0.0;
    for corner in 0..1 << dimensions {
        let (mut index, mut weight) = ([0i64; 3], 1.0);
        for d in 0..dimensions {
            let place = at[d] - 0.5;
            let alpha = ((place - place.floor()) * 256.0 + 0.5).floor() / 256.0;
            let upper = corner >> d & 1;
            index[d] = place.floor() as i64 + upper;
            weight *= if upper == 1 { alpha } else { 1.0 - alpha };
        }
        if weight > 0.0 {
            sum += weight * texel(index);
        }
    }
    sum as f32
}

#[test]
fn linear_filtering_follows_the_formula_of_the_guide() {
    let mut device = Device::new().with_threads(1);
    let sizes = [5u32, 4, 3];
    let place = |t: usize, d: usize| (t * (3 + d)) as f32 * 0.171 - 1.3;
    let columns: Vec<Column> = (0..3).map(|d| floats(|t| place(t, d))).collect();
    for (dimensions, body) in [
        (1, "tex.1d.v4.f32.f32 {%d0, %d1, %d2, %d3}, [%s0, {%s1}];"),
        (2, "tex.2d.v4.f32.f32 {%d0, %d1, %d2, %d3}, [%s0, {%s1, %s2}];"),
        (3, "tex.3d.v4.f32.f32 {%d0, %d1, %d2, %d3}, [%s0, {%s1, %s2, %s3, %s3}];"),
    ] {
        for normalized in [false, true] {
            for mode in [AddressMode::Clamp, AddressMode::Border, AddressMode::Wrap, AddressMode::Mirror] {
                let extents = std::array::from_fn(|d| if d < dimensions { sizes[d] } else { 0 });
                let image = array(&mut device, F32, Layout::Array, extents, 1, |[x, y, z], _| {
                    (height(x.into(), y.into(), z.into()) as f32).to_le_bytes().to_vec()
                });
                let sampler =
                    Sampler { address: [mode; 3], normalized, border: [9.0, 8.0, 7.0, 6.0], ..LINEAR };
                let handle = texture(&mut device, image, sampler);
                let sources = [
                    ("b64", handle),
                    ("f32", columns[0].clone()),
                    ("f32", columns[1].clone()),
                    ("f32", columns[2].clone()),
                ];
                let got = run(&mut device, body, &["f32"; 4], &sources).unwrap();
                for (t, found) in as_f32(&got[0]).into_iter().enumerate() {
                    let at = std::array::from_fn(|d| {
                        f64::from(place(t, d)) * if normalized { f64::from(sizes[d]) } else { 1.0 }
                    });
                    let wanted = expected(at, dimensions, &|index| {
                        let mut inside = [0i64; 3];
                        for d in 0..dimensions {
                            let n = i64::from(sizes[d]);
                            inside[d] = match mode {
                                AddressMode::Wrap if normalized => index[d].rem_euclid(n),
                                AddressMode::Mirror if normalized => {
                                    let m = index[d].rem_euclid(2 * n);
                                    m.min(2 * n - 1 - m)
                                }
                                AddressMode::Border if !(0..n).contains(&index[d]) => return 9.0,
                                _ => index[d].clamp(0, n - 1),
                            };
                        }
                        height(inside[0], inside[1], inside[2])
                    });
                    assert_eq!(found, wanted, "{dimensions}D, {mode:?}, normalized {normalized}, {at:?}");
                }
            }
        }
    }
}

#[test]
fn points_are_read_without_filtering_and_integers_as_they_are() {
    let mut device = Device::new().with_threads(1);
    let bytes = Texel { channel: Channel::U8, channels: 4 };
    let texel = |[x, y, _]: [u32; 3], _| vec![x as u8, y as u8, 200, 255];
    let image = array(&mut device, bytes, Layout::Array, [8, 8, 0], 1, texel);
    let whole = texture(&mut device, image.clone(), Sampler::default());
    let normalized = Sampler { reading: TexelReading::Normalized, normalized: true, ..LINEAR };
    let read = texture(&mut device, image, normalized);
    let x = floats(|t| t as f32 / 4.0);
    let y = floats(|t| 7.9 - t as f32 / 8.0);
    let body = "tex.2d.v4.u32.f32 {%d0, %d1, %d2, %d3}, [%s0, {%s1, %s2}];";
    let got = run(&mut device, body, &["u32"; 4], &[("b64", whole.clone()), ("f32", x), ("f32", y)]).unwrap();
    for t in 0..32u64 {
        let lane = t as usize;
        assert_eq!(
            [got[0][lane], got[1][lane], got[2][lane], got[3][lane]],
            [t / 4, (79 * 8 - 10 * t) / 80, 200, 255]
        );
    }
    // In the middle of a texel, linear filtering of normalized bytes reads that texel.
    let body = "tex.2d.v4.f32.f32 {%d0, %d1, %d2, %d3}, [%s0, {%s1, 0f3F100000}];";
    let middle = floats(|t| ((t % 8) as f32 + 0.5) / 8.0);
    let got = run(&mut device, body, &["f32"; 4], &[("b64", read), ("f32", middle)]).unwrap();
    let reds: Vec<f32> = (0..32).map(|t| (t % 8) as f32 / 255.0).collect();
    assert_eq!(as_f32(&got[0]), reds);
    assert_eq!(as_f32(&got[1]), [4.0 / 255.0; 32]);
    assert_eq!(as_f32(&got[3]), [1.0; 32]);
    // Integer coordinates, with an offset.
    let body = "tex.2d.v4.s32.s32 {%d0, %d1, _, _}, [%s0, {%s1, 2}], {1, -1};";
    let columns: Column = (0..32u32).map(|t| u64::from(t.wrapping_sub(4))).collect();
    let got = run(&mut device, body, &["s32"; 2], &[("b64", whole), ("s32", columns)]).unwrap();
    let wanted: Column = (0..32i64).map(|t| (t - 3).clamp(0, 7) as u64).collect();
    assert_eq!((got[0].clone(), got[1].clone()), (wanted, vec![1; 32]));
}

#[test]
fn memory_of_the_program_is_a_texture() {
    let mut device = Device::new().with_threads(1);
    let data = device.upload(&(0..64).map(|i| i as f32).collect::<Vec<f32>>()).unwrap();
    let linear = texture(&mut device, Image::linear(F32, data.address(), 20), Sampler::default());
    let body = "tex.1d.v4.f32.s32 {%d0, _, _, %d1}, [%s0, {%s1}];";
    let index: Column = (0..32u32).map(|t| u64::from(t.wrapping_sub(2))).collect();
    let got = run(&mut device, body, &["f32"; 2], &[("b64", linear.clone()), ("s32", index)]).unwrap();
    let inside = |t: usize| (2..22).contains(&t).then(|| (t - 2) as f32);
    assert_eq!(as_f32(&got[0]), (0..32).map(|t| inside(t).unwrap_or(0.0)).collect::<Vec<_>>());
    let pitched = texture(&mut device, Image::pitched(F32, data.address(), 5, 6, 32), Sampler::default());
    let body = "tex.2d.v4.f32.f32 {%d0, _, _, _}, [%s0, {%s1, 0f40200000}];";
    let x = floats(|t| t as f32);
    let got = run(&mut device, body, &["f32"], &[("b64", pitched), ("f32", x.clone())]).unwrap();
    assert_eq!(as_f32(&got[0]), (0..32).map(|t: usize| 16.0 + t.min(4) as f32).collect::<Vec<_>>());
    // Only integer coordinates select texels of linear memory.
    let body = "tex.1d.v4.f32.f32 {%d0, _, _, _}, [%s0, {%s1}];";
    let stop = run(&mut device, body, &["f32"], &[("b64", linear), ("f32", x)]).unwrap_err();
    assert!(stop.sentence.contains("linear memory of 20 texels"), "{stop}");
}

#[test]
fn layers_and_faces_are_selected() {
    let mut device = Device::new().with_threads(1);
    let slice = |[_, _, z]: [u32; 3], _| (z as f32).to_le_bytes().to_vec();
    let layered = array(&mut device, F32, Layout::Layered, [4, 4, 5], 1, slice);
    let handle = texture(&mut device, layered, LINEAR);
    let layer: Column = (0..32).collect();
    let body = "tex.a2d.v4.f32.f32 {%d0, _, _, _}, [%s0, {%s1, 0f3F800000, 0f3F800000, 0f00000000}];";
    let got = run(&mut device, body, &["f32"], &[("b64", handle), ("u32", layer.clone())]).unwrap();
    assert_eq!(as_f32(&got[0]), (0..32).map(|t: usize| t.min(4) as f32).collect::<Vec<_>>());

    let cubes = array(&mut device, F32, Layout::Cube, [4, 4, 12], 1, slice);
    let handle = texture(&mut device, cubes, LINEAR);
    let direction = |d: usize| {
        floats(move |t| match t % 6 {
            face if face / 2 == d => {
                if face % 2 == 0 {
                    2.0
                } else {
                    -2.0
                }
            }
            _ => 0.25,
        })
    };
    let sources = [
        ("b64", handle),
        ("f32", direction(0)),
        ("f32", direction(1)),
        ("f32", direction(2)),
        ("u32", layer),
    ];
    let body = "tex.cube.v4.f32.f32 {%d0, _, _, _}, [%s0, {%s1, %s2, %s3, %s3}];
        tex.acube.v4.f32.f32 {%d1, _, _, _}, [%s0, {%s4, %s1, %s2, %s3}];";
    let got = run(&mut device, body, &["f32"; 2], &sources).unwrap();
    for (t, (one, many)) in as_f32(&got[0]).into_iter().zip(as_f32(&got[1])).enumerate() {
        assert_eq!((one, many), ((t % 6) as f32, (t % 6 + 6 * t.min(1)) as f32), "{t}");
    }
}

#[test]
fn mipmap_levels_are_selected_and_mixed() {
    let mut device = Device::new().with_threads(1);
    let texel = |_: [u32; 3], level: usize| ((level * level) as f32).to_le_bytes().to_vec();
    let image = array(&mut device, F32, Layout::Array, [16, 16, 0], 5, texel);
    let sampler = Sampler { normalized: true, linear_levels: true, ..LINEAR };
    let mixed = texture(&mut device, image.clone(), sampler);
    let sampler = Sampler { linear_levels: false, level_bias: 1.0, level_clamp: [1.0, 3.0], ..sampler };
    let nearest = texture(&mut device, image, sampler);
    let levels = floats(|t| t as f32 / 4.0 - 1.0);
    let body = "tex.level.2d.v4.f32.f32 {%d0, _, _, _}, [%s0, {0f3F000000, 0f3F000000}], %s2;
        tex.level.2d.v4.f32.f32 {%d1, _, _, _}, [%s1, {0f3F000000, 0f3F000000}], %s2;
        tex.base.2d.v4.f32.f32 {%d2, _, _, _}, [%s0, {0f3F000000, 0f3F000000}];";
    let got =
        run(&mut device, body, &["f32"; 3], &[("b64", mixed.clone()), ("b64", nearest), ("f32", levels)])
            .unwrap();
    for t in 0..32 {
        let asked = t as f32 / 4.0 - 1.0;
        let level = asked.clamp(0.0, 4.0);
        let (low, high) = (level.floor(), (level.floor() + 1.0).min(4.0));
        let part = level - low;
        let one = (asked + 1.0).clamp(1.0, 3.0);
        let one = (one + 0.5).floor();
        assert_eq!(as_f32(&got[0])[t], (1.0 - part) * low * low + part * high * high, "{asked}");
        assert_eq!(as_f32(&got[1])[t], one * one, "{asked}");
    }
    assert_eq!(as_f32(&got[2]), [0.0; 32]);
    // A step of one texel of level t: the gradient is 2^t / 16.
    let step = floats(|t| 2f32.powi((t % 5) as i32) / 16.0);
    let body = "tex.grad.2d.v4.f32.f32 {%d0, _, _, _}, [%s0, {0f3F000000, 0f3F000000}], {%s1, 0f00000000}, {0f00000000, 0f00000000};";
    let got = run(&mut device, body, &["f32"], &[("b64", mixed), ("f32", step)]).unwrap();
    assert_eq!(as_f32(&got[0]), (0..32).map(|t| ((t % 5) * (t % 5)) as f32).collect::<Vec<_>>());
}

#[test]
fn a_gather_is_counterclockwise_from_the_lower_left() {
    let mut device = Device::new().with_threads(1);
    let texel = |[x, y, _]: [u32; 3], _| {
        [x as f32, y as f32, (10 * y + x) as f32, 1.0].iter().flat_map(|v| v.to_le_bytes()).collect()
    };
    let format = Texel { channel: Channel::F32, channels: 4 };
    let image = array(&mut device, format, Layout::Array, [4, 4, 0], 1, texel);
    let handle = texture(&mut device, image, Sampler::default());
    let body = "tld4.b.2d.v4.f32.f32 {%d0, %d1, %d2, %d3}, [%s0, {0f3FC00000, 0f40000000}];
        tld4.r.2d.v4.f32.f32 {%d4, %d5, %d6, %d7}|%q, [%s0, {0f3FC00000, 0f40000000}], {1, 0};";
    let body = format!(".reg .pred %q; {body}");
    let got = run(&mut device, &body, &["f32"; 8], &[("b64", handle)]).unwrap();
    let first: Vec<f32> = got.iter().map(|column| as_f32(column)[0]).collect();
    assert_eq!(first, [21.0, 22.0, 12.0, 11.0, 2.0, 3.0, 3.0, 2.0]);
}

/// Coordinates, layers included, and gradients or offsets of a geometry.
const GEOMETRIES: [(&str, Layout, [u32; 3], &str, &str); 7] = [
    ("1d", Layout::Array, [4, 0, 0], "{%c}", "{%g}"),
    ("2d", Layout::Array, [4, 4, 0], "{%c, %c}", "{%g, %g}"),
    ("3d", Layout::Array, [4, 4, 4], "{%c, %c, %c, %c}", "{%g, %g, %g, %g}"),
    ("a1d", Layout::Layered, [4, 0, 2], "{1, %c}", "{%g}"),
    ("a2d", Layout::Layered, [4, 4, 2], "{1, %c, %c, %c}", "{%g, %g}"),
    ("cube", Layout::Cube, [4, 4, 6], "{%c, %c, %c, %c}", "{%g, %g, %g, %g}"),
    ("acube", Layout::Cube, [4, 4, 12], "{1, %c, %c, %c}", "{%g, %g, %g, %g}"),
];

#[test]
fn every_form_reads_the_texel() {
    for (geometry, layout, extents, coordinates, gradient) in GEOMETRIES {
        let mut device = Device::new().with_threads(1);
        let format = Texel { channel: Channel::F16, channels: 4 };
        // 1, 2, 3 and 4 as halves.
        let texel = |_: [u32; 3], _| vec![0, 0x3c, 0, 0x40, 0, 0x42, 0, 0x44];
        let image = array(&mut device, format, layout, extents, 3, texel);
        let handle = texture(&mut device, image, Sampler { normalized: true, linear_levels: true, ..LINEAR });
        let cube = geometry.ends_with("cube");
        for mip in ["", ".base", ".level", ".grad"] {
            for ctype in ["f32", "s32"] {
                if ctype == "s32" && (cube || mip == ".grad") {
                    continue;
                }
                let (number, reg) = if ctype == "f32" { ("0f3F000000", "f32") } else { ("1", "b32") };
                let coordinates = coordinates.replace("%c", number);
                let gradient = gradient.replace("%g", "0f3F000000");
                let extra = match mip {
                    ".level" => format!(", {number}"),
                    ".grad" => format!(", {gradient}, {gradient}"),
                    _ => String::new(),
                };
                for offset in [false, true] {
                    if offset && cube {
                        continue;
                    }
                    let offset = if offset {
                        format!(", {}", gradient.replace("0f3F000000", "-1"))
                    } else {
                        String::new()
                    };
                    let rest = format!("[%s0, {coordinates}]{extra}{offset};");
                    let name = |result: &str| format!("tex{mip}.{geometry}.{result}.{ctype}");
                    let body = format!(
                        ".reg .pred %q; .reg .b16 %h<4>; .reg .{reg} %unused; .reg .b32 %x0, %x1;
                        {} {{%d0, %d1, %d2, %d3}}|%q, {rest}
                        {} {{%h0, %h1, %h2, %h3}}, {rest}
                        {} {{%x0, %x1}}, {rest}
                        mov.b32 %d4, {{%h0, %h1}}; mov.b32 %d5, {{%h2, %h3}}; mov.b32 %d6, %x0; mov.b32 %d7, %x1;
                        selp.u32 %d8, 1, 0, %q;",
                        name("v4.f32"),
                        name("v4.f16"),
                        name("v2.f16x2")
                    );
                    let got = run(&mut device, &body, &["b32"; 9], &[("b64", handle.clone())])
                        .unwrap_or_else(|stop| panic!("{body}: {stop}"));
                    let halves = [0x4000_3c00, 0x4400_4200];
                    let floats = [1f32, 2.0, 3.0, 4.0].map(|value| u64::from(value.to_bits()));
                    let wanted = [&floats[..], &halves, &halves, &[1]].concat();
                    let found: Column = got.iter().map(|column| column[31]).collect();
                    assert_eq!(found, wanted, "{body}");
                }
            }
        }
        if matches!(geometry, "2d" | "a2d" | "cube" | "acube") {
            let coordinates = coordinates.replace("%c", "0f3F000000");
            for (component, value) in [("r", 1f32), ("g", 2.0), ("b", 3.0), ("a", 4.0)] {
                let body = format!(
                    "tld4.{component}.{geometry}.v4.f32.f32 {{%d0, %d1, %d2, %d3}}, [%s0, {coordinates}];"
                );
                let got = run(&mut device, &body, &["f32"; 4], &[("b64", handle.clone())]).unwrap();
                assert!(got.iter().all(|column| as_f32(column) == [value; 32]), "{body}");
            }
        }
    }
}

#[test]
fn properties_are_asked_for() {
    let mut device = Device::new().with_threads(1);
    let zero = |_: [u32; 3], _| vec![0; 4];
    let image = array(&mut device, F32, Layout::Array, [16, 8, 4], 3, zero);
    let handle = texture(&mut device, image, Sampler { normalized: true, ..LINEAR });
    let body = "txq.width.b32 %d0, [%s0]; txq.height.b32 %d1, [%s0]; txq.depth.b32 %d2, [%s0];
        txq.num_mipmap_levels.b32 %d3, [%s0]; txq.normalized_coords.b32 %d4, [%s0]; txq.num_samples.b32 %d5, [%s0];
        txq.level.width.b32 %d6, [%s0], 2; txq.level.depth.b32 %d7, [%s0], 1; txq.array_size.b32 %d8, [%s0];
        txq.force_unnormalized_coords.b32 %d9, [%s0];";
    let got = run(&mut device, body, &["b32"; 10], &[("b64", handle.clone())]).unwrap();
    let first: Column = got.iter().map(|column| column[0]).collect();
    assert_eq!(first, [16, 8, 4, 3, 1, 1, 4, 2, 1, 0]);
    let body =
        ".reg .pred %q<3>; istypep.texref %q0, %s0; istypep.surfref %q1, %s0; istypep.samplerref %q2, %s0;
        selp.u32 %d0, 1, 0, %q0; selp.u32 %d1, 1, 0, %q1; selp.u32 %d2, 1, 0, %q2;";
    let mixed: Column = (0..32).map(|t| if t % 2 == 0 { handle[0] } else { 77 }).collect();
    let got = run(&mut device, body, &["b32"; 3], &[("b64", mixed)]).unwrap();
    assert_eq!(got[0], (0..32).map(|t| u64::from(t % 2 == 0)).collect::<Column>());
    assert_eq!((&got[1], &got[2]), (&vec![0; 32], &vec![0; 32]));
    let stop =
        run(&mut device, "txq.level.width.b32 %d0, [%s0], 3;", &["b32"], &[("b64", handle)]).unwrap_err();
    assert!(stop.sentence.contains("level 3 of a texture with 3 levels"), "{stop}");
}

#[test]
fn a_wrong_handle_stops_the_launch_at_its_line() {
    let mut device = Device::new().with_threads(1);
    let zero = |_: [u32; 3], _| vec![0; 4];
    let image = array(&mut device, F32, Layout::Array, [16, 8, 0], 1, zero);
    let base = image.base().address;
    let handle = texture(&mut device, image.clone(), LINEAR);
    let surface = vec![device.memory().images_mut().add_surface(image).unwrap(); 32];
    let body = "tex.2d.v4.f32.f32 {%d0, _, _, _}, [%s0, {0f3F000000, 0f3F000000}];";
    let fails = |device: &mut Device, body: &str, handle: &Column| {
        run(device, body, &["f32"], &[("b64", handle.clone())]).unwrap_err()
    };
    let stop = fails(&mut device, body, &vec![0; 32]);
    assert_eq!((stop.blame, stop.kind), (Blame::Kernel, StopKind::Bounds));
    assert!(stop.sentence.contains("0x0 is not a texture object"), "{stop}");
    assert!(stop.place.unwrap().instruction.starts_with("tex.2d"));
    assert!(fails(&mut device, body, &surface).sentence.contains("is a surface object"));
    let wrong = fails(&mut device, "tex.1d.v4.f32.f32 {%d0, _, _, _}, [%s0, {0f3F000000}];", &handle);
    assert!(
        wrong.sentence.contains(".1d") && wrong.sentence.contains("a 2D array of 16 x 8 texels"),
        "{wrong}"
    );
    device.memory().free(base).unwrap();
    assert!(fails(&mut device, body, &handle).sentence.contains("allocation `array` was freed"));
    device.memory().images_mut().remove_texture(handle[0]);
    assert!(fails(&mut device, body, &handle).sentence.contains("was destroyed"));
}

#[test]
fn what_is_not_supported_says_so() {
    let mut device = Device::new().with_threads(1);
    let zero = |_: [u32; 3], _| vec![0; 4];
    let image = array(&mut device, F32, Layout::Array, [16, 8, 0], 2, zero);
    let handle = texture(&mut device, image, Sampler { normalized: true, anisotropy: 8, ..LINEAR });
    for (body, sentence) in [
        ("tex.2d.v4.f32.f32 {%d0, _, _, _}, [t, {0f00000000, 0f00000000}];", "texture or surface reference"),
        ("tex.2d.v4.f32.f32 {%d0, _, _, _}, [%s0, %s0, {0f00000000, 0f00000000}];", "a separate sampler"),
        (
            "tex.2d.v4.f32.f32 {%d0, _, _, _}, [%s0, {0f00000000, 0f00000000}], 0f00000000;",
            "a depth comparison",
        ),
        ("tex.2dms.v4.f32.s32 {%d0, _, _, _}, [%s0, {0, 0, 0, 0}];", "is not supported"),
        (
            "tex.grad.2d.v4.f32.f32 {%d0, _, _, _}, [%s0, {0f00000000, 0f00000000}], {0f3F000000, 0f3F000000}, {0f3F000000, 0f3F000000};",
            "anisotropic filtering",
        ),
    ] {
        let stop = run(&mut device, body, &["f32"], &[("b64", handle.clone())]).unwrap_err();
        assert_eq!(stop.blame, Blame::Gap, "{stop}");
        assert!(stop.sentence.contains(sentence), "{stop}");
    }
}
