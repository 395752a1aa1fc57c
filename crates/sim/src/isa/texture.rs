//! Texture fetches, and properties of textures.
//!
//! A texture is an object of the device, named by a handle in a 64-bit register ("unified mode", "indirect access"). Not supported:
//! `.texref` variables and separate samplers, multi-sample textures and depth comparison, which no function of CUDA creates, and
//! queries whose result is an enumeration that the manual does not number.

use super::{Args, Bound, Definition, Refusal, Shape, Slot, Spec, Unit};
use crate::bind_plain;
use crate::machine::{Detail, Fetch, FetchKind, Flow, Geometry, LANES, Row, Type, Warp, Width, at, lanes_of};
use crate::memory::{ImageLevel, Layout};
use crate::stop::{Blame, StopKind};
use warpproof_num::Rounding;
use warpproof_num::convert::cvt_f16_f32;

/// The forms of `tex` that differ in their results: four values, four halves, two pairs of halves.
macro_rules! tex {
    ($since:expr, $head:literal, $tail:literal) => {
        [
            op!(concat!($head, ".v4.dtype.ctype", $tail, "; .dtype = .u32 .s32 .f32"), "tex", $since, fetch),
            op!(concat!($head, ".v4.f16.ctype", $tail), "tex", (4, 2, 53), fetch),
            op!(concat!($head, ".v2.f16x2.ctype", $tail), "tex", (4, 2, 53), fetch),
        ]
    };
}

macro_rules! op {
    ($form:expr, $section:literal, $since:expr, $bind:ident) => {
        Definition {
            form: $form,
            manual: concat!("texture-instructions-", $section),
            unit: Unit::Tex,
            since: $since,
            bind: bind_plain!($bind),
        }
    };
}

const BASE: [Definition; 3] = tex!(
    (1, 0, 10),
    "tex{.base}.geom",
    " d[|p], [a, c]{, offsets}; .geom = .1d .2d .3d .a1d .a2d; .ctype = .s32 .f32"
);
const BASE_CUBE: [Definition; 3] =
    tex!((3, 0, 20), "tex{.base}.geom", " d[|p], [a, c]; .geom = .cube .acube; .ctype = .f32");
const LEVEL: [Definition; 3] = tex!(
    (3, 1, 20),
    "tex.level.geom",
    " d[|p], [a, c], lod{, offsets}; .geom = .1d .2d .3d .a1d .a2d; .ctype = .s32 .f32"
);
const LEVEL_CUBE: [Definition; 3] =
    tex!((3, 1, 20), "tex.level.geom", " d[|p], [a, c], lod; .geom = .cube .acube; .ctype = .f32");
const GRAD: [Definition; 3] = tex!(
    (3, 1, 20),
    "tex.grad.geom",
    " d[|p], [a, c], dPdx, dPdy{, offsets}; .geom = .1d .2d .3d .a1d .a2d; .ctype = .f32"
);
const GRAD_CUBE: [Definition; 3] =
    tex!((4, 3, 20), "tex.grad.geom", " d[|p], [a, c], dPdx, dPdy; .geom = .cube .acube; .ctype = .f32");

pub(super) const DEFINITIONS: &[Definition] = &[
    BASE[0],
    BASE[1],
    BASE[2],
    BASE_CUBE[0],
    BASE_CUBE[1],
    BASE_CUBE[2],
    LEVEL[0],
    LEVEL[1],
    LEVEL[2],
    LEVEL_CUBE[0],
    LEVEL_CUBE[1],
    LEVEL_CUBE[2],
    GRAD[0],
    GRAD[1],
    GRAD[2],
    GRAD_CUBE[0],
    GRAD_CUBE[1],
    GRAD_CUBE[2],
    op!(
        "tld4.comp.geom.v4.dtype.f32 d[|p], [a, c]{, offsets}; .comp = .r .g .b .a; .geom = .2d .a2d; .dtype = .u32 .s32 .f32",
        "tld4",
        (2, 2, 20),
        fetch
    ),
    op!(
        "tld4.comp.geom.v4.dtype.f32 d[|p], [a, c]; .comp = .r .g .b .a; .geom = .cube .acube; .dtype = .u32 .s32 .f32",
        "tld4",
        (4, 3, 30),
        fetch
    ),
    op!(
        "txq.tquery.b32 d, [a]; .tquery = .width .height .depth .normalized_coords .array_size .num_mipmap_levels .num_samples",
        "txq",
        (1, 5, 10),
        query
    ),
    op!("txq.level.tlquery.b32 d, [a], lod; .tlquery = .width .height .depth", "txq", (4, 3, 30), query),
    op!("txq.squery.b32 d, [a]; .squery = .force_unnormalized_coords", "txq", (2, 2, 20), query),
    Definition {
        form: "istypep.type p, a; .type = .texref .samplerref .surfref",
        manual: "texture-instructions-istypep",
        unit: Unit::Alu,
        since: (4, 0, 30),
        bind: bind_plain!(is_type),
    },
];

/// The coordinates of `[a, {…}]` as types: the needed ones, and those that are written besides and ignored.
pub(super) fn coordinates(
    spec: &Spec<'_>,
    position: usize,
    geometry: Geometry,
    ty: Type,
) -> Result<Vec<Type>, Refusal> {
    let Some(Shape::Image(parts)) = spec.operands.get(position) else {
        return Err(Refusal::Malformed("expected coordinates in the brackets".into()));
    };
    let written = match parts.as_slice() {
        [Shape::Vector(items)] => items.len(),
        [_] => 1,
        [_, _] => return Err(spec.gap("a separate sampler")),
        _ => return Err(Refusal::Malformed("expected one vector of coordinates".into())),
    };
    let needed = usize::from(geometry.layered()) + geometry.coordinates();
    if written < needed || written > needed.max(4) {
        return Err(Refusal::Malformed(format!(
            "{written} coordinates; expected {needed} for .{}",
            geometry.name()
        )));
    }
    let of = |i: usize| if i == 0 && geometry.layered() { Type::U32 } else { ty };
    Ok((0..written).map(of).collect())
}

/// The geometry that an instruction names.
pub(super) fn geometry(spec: &Spec<'_>) -> Result<Geometry, Refusal> {
    spec.get("geom").and_then(Geometry::parse).ok_or_else(|| spec.gap("this geometry"))
}

/// Where the level comes from, as positions among the rows.
#[derive(Clone, Copy)]
enum DetailRows {
    Base,
    Level { row: usize, integer: bool },
    Gradient([usize; 2]),
}

/// Positions of the operands among the rows of an instruction.
struct Places {
    kind: FetchKind,
    results: Vec<Type>,
    resident: bool,
    handle: usize,
    detail: DetailRows,
    offset: Option<usize>,
}

/// How many elements a vector operand has.
fn elements(shape: Option<&Shape>) -> usize {
    match shape {
        Some(Shape::Vector(items)) => items.len(),
        _ => 1,
    }
}

/// `tex` and `tld4`.
fn fetch(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let geometry = geometry(spec)?;
    let integer = spec.get("ctype") == Some("s32");
    let ty = if integer { Type::S32 } else { Type::F32 };
    let result = if spec.has("f16x2") {
        Type::F16x2
    } else if spec.has("f16") {
        Type::F16
    } else {
        Type::B32
    };
    let results = vec![result; if result == Type::F16x2 { 2 } else { 4 }];
    let widths = results.iter().map(|ty| ty.width()).collect();
    let resident = matches!(spec.operands.first(), Some(Shape::Pair(_)));
    let mut slots = vec![if resident { Slot::DstVecPair(widths) } else { Slot::DstVec(widths) }];
    let handle = results.len() + usize::from(resident);
    let types = coordinates(spec, 1, geometry, ty)?;
    let mut next = handle + 1 + types.len();
    slots.push(Slot::Image(types));
    let detail = if spec.has("level") {
        slots.push(Slot::Src(ty));
        next += 1;
        DetailRows::Level { row: next - 1, integer }
    } else if spec.has("grad") {
        let mut rows = [0; 2];
        for (i, row) in rows.iter_mut().enumerate() {
            let count = elements(spec.operands.get(2 + i));
            if count < geometry.coordinates() || count > 4 {
                return Err(Refusal::Malformed(format!("a gradient of {count} elements")));
            }
            *row = next;
            next += count;
            slots.push(Slot::SrcVec(vec![Type::F32; count]));
        }
        DetailRows::Gradient(rows)
    } else {
        DetailRows::Base
    };
    let rest = spec.operands.get(slots.len()..).unwrap_or(&[]);
    let offset = match rest {
        [] => None,
        _ if geometry.is_cube() => return Err(spec.gap("a depth comparison")),
        [Shape::Vector(items)] if items.len() >= geometry.coordinates() && items.len() <= 4 => {
            slots.push(Slot::SrcVec(vec![Type::S32; items.len()]));
            Some(next)
        }
        _ => return Err(spec.gap("a depth comparison")),
    };
    let gather = spec.get("comp").map(|name| match name {
        "r" => 0,
        "g" => 1,
        "b" => 2,
        _ => 3,
    });
    let kind = FetchKind { geometry, integer, gather };
    let places = Places { kind, results, resident, handle, detail, offset };
    Ok(Bound::fallible(slots, move |w, args| run_fetch(w, args, &places)))
}

fn word(w: &Warp<'_, '_>, args: &Args, position: usize, lane: usize) -> u32 {
    args.all.get(position).map_or(0, |row| w.state.regs.w32[at(*row)].0[lane])
}

/// The handle of a lane.
pub(super) fn handle(w: &Warp<'_, '_>, args: &Args, position: usize, lane: usize) -> u64 {
    args.all.get(position).map_or(0, |row| w.state.regs.w64[at(*row)].0[lane])
}

/// The layer and the coordinates of a lane, which follow the handle.
pub(super) fn place(
    w: &Warp<'_, '_>,
    args: &Args,
    position: usize,
    geometry: Geometry,
    lane: usize,
) -> (u32, [u32; 3]) {
    let layer = if geometry.layered() { word(w, args, position + 1, lane) } else { 0 };
    let first = position + 1 + usize::from(geometry.layered());
    let count = geometry.coordinates();
    (layer, std::array::from_fn(|i| if i < count { word(w, args, first + i, lane) } else { 0 }))
}

fn run_fetch(w: &mut Warp<'_, '_>, args: &Args, places: &Places) -> Result<Flow, Flow> {
    let Places { kind, handle: first, detail, offset, .. } = *places;
    let count = kind.geometry.coordinates();
    let values = w.fetch_texels(kind, |w, lane| {
        let (layer, coordinates) = place(w, args, first, kind.geometry, lane);
        let float = |position: usize| f32::from_bits(word(w, args, position, lane));
        let detail = match detail {
            DetailRows::Base => Detail::Base,
            DetailRows::Level { row, integer: false } => Detail::Level(float(row)),
            DetailRows::Level { row, integer: true } => Detail::Level(level(word(w, args, row, lane))),
            DetailRows::Gradient(rows) => Detail::Gradient(
                rows.map(|row| std::array::from_fn(|i| if i < count { float(row + i) } else { 0.0 })),
            ),
        };
        let offset = offset.map_or([0; 3], |row| {
            std::array::from_fn(|i| if i < count { word(w, args, row + i, lane).cast_signed() } else { 0 })
        });
        Fetch { handle: handle(w, args, first, lane), layer, at: coordinates, detail, offset }
    })?;
    let half = |bits: u32| cvt_f16_f32(bits, Rounding::Rn, false);
    for (i, ty) in places.results.iter().enumerate() {
        let mut row = Row([0u128; LANES]);
        for lane in lanes_of(w.exec) {
            let value = values[lane];
            row.0[lane] = u128::from(match ty {
                Type::F16x2 => {
                    u32::from(half(value[(2 * i) & 3])) | u32::from(half(value[(2 * i + 1) & 3])) << 16
                }
                Type::F16 => u32::from(half(value[i & 3])),
                _ => value[i & 3],
            });
        }
        if let Some(target) = args.all.get(i) {
            w.put_row(Width::W32, *target, &row);
        }
    }
    if places.resident
        && let Some(row) = args.all.get(places.results.len())
    {
        // Sparse arrays do not exist here: everything is resident.
        w.set_pred(*row, u32::MAX);
    }
    Ok(Flow::Next)
}

/// An integer level as a number; levels are few.
fn level(bits: u32) -> f32 {
    let small = bits.cast_signed().clamp(-1000, 1000);
    i16::try_from(small).map_or(0.0, f32::from)
}

/// `txq`.
fn query(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let names = ["tquery", "tlquery", "squery"];
    let asked = names.iter().find_map(|name| spec.get(name)).ok_or_else(|| spec.gap("this query"))?;
    let mut slots = vec![Slot::Dst(Width::W32), Slot::Image(Vec::new())];
    let leveled = spec.has("level");
    if leveled {
        slots.push(Slot::Src(Type::U32));
    }
    Ok(Bound::fallible(slots, move |w, args| {
        let mut row = Row([0u128; LANES]);
        for lane in lanes_of(w.exec) {
            let number = handle(w, args, 1, lane);
            let level = if leveled { word(w, args, 2, lane) } else { 0 };
            let Some(texture) = w.global.heap().images().texture(number).cloned() else {
                return Err(w.no_image(lane, number, true));
            };
            let image = &texture.image;
            let Some(size) = image.levels.get(at(level)) else {
                let sentence =
                    format!("a query of level {level} of a texture with {} levels", image.levels.len());
                return Err(w.halt_lane(Blame::Kernel, StopKind::Bounds, lane_number(lane), sentence));
            };
            let normalized = texture.sampler.normalized;
            let levels = u32::try_from(image.levels.len()).unwrap_or(u32::MAX);
            row.0[lane] = u128::from(match asked {
                "normalized_coords" => u32::from(normalized),
                "force_unnormalized_coords" => u32::from(!normalized),
                "num_mipmap_levels" => levels,
                "num_samples" => 1,
                dimension => extent(dimension, image.layout, size),
            });
        }
        w.put_row(Width::W32, args.o[0], &row);
        Ok(Flow::Next)
    }))
}

/// Width, height, depth or number of layers.
pub(super) fn extent(name: &str, layout: Layout, level: &ImageLevel) -> u32 {
    match (name, layout) {
        ("width", _) => level.width,
        ("height", _) => level.height,
        ("depth", Layout::Array) | ("array_size", Layout::Layered) => level.slices,
        ("array_size", Layout::Cube) => level.slices / 6,
        // No such dimension.
        _ => 1,
    }
}

pub(super) fn lane_number(lane: usize) -> u32 {
    u32::try_from(lane).unwrap_or(0)
}

/// `istypep`.
fn is_type(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let wanted = spec.get("type").unwrap_or("");
    Ok(Bound::new([Slot::Dst(Width::Pred), Slot::Src(Type::B64)], move |w, args| {
        let mut found = 0u32;
        for lane in lanes_of(w.exec) {
            let number = w.state.regs.w64[at(args.o[1])].0[lane];
            let images = w.global.heap().images();
            let is = match wanted {
                "texref" => images.texture(number).is_some(),
                "surfref" => images.surface(number).is_some(),
                // A texture object has its own sampler.
                _ => false,
            };
            found |= u32::from(is) << lane;
        }
        w.set_pred(args.o[0], found);
        Flow::Next
    }))
}
