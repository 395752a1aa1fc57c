//! Surface accesses, and properties of surfaces.
//!
//! A surface is an object of the device, named by a handle in a 64-bit register; `.surfref` variables are not supported. The manual
//! leaves open, and this module decides: what a store without `.clamp` does outside the surface (it stops, as with `.trap`), that
//! `sust.p` clamps integers to the range of the format, and that it writes 0 to channels without a source.

use super::texture::{coordinates, extent, geometry, handle, lane_number, place};
use super::{Args, Bound, Definition, Refusal, Shape, Slot, Spec, Unit};
use crate::bind_plain;
use crate::machine::{Flow, Geometry, LANES, Row, Type, Warp, Width, at, lanes_of};
use crate::memory::{Image, Layout, Space};
use crate::program::Communication;
use crate::stop::{Blame, StopKind};
use std::sync::Arc;

macro_rules! op {
    ($form:expr, $section:literal, $since:expr, $bind:ident) => {
        Definition {
            form: $form,
            manual: concat!("surface-instructions-", $section),
            unit: Unit::Tex,
            since: $since,
            bind: bind_plain!($bind),
        }
    };
}

pub(super) const DEFINITIONS: &[Definition] = &[
    op!(
        "suld.b.geom{.cop}{.vec}.dtype{.clamp} d, [a, b]; .geom = .1d .2d .3d .a1d .a2d; .cop = .ca .cg .cs .cv; .vec = .v2 .v4; .dtype = .b8 .b16 .b32 .b64; .clamp = .trap .clamp .zero",
        "suld",
        (1, 5, 10),
        load
    ),
    op!(
        "sust.b.geom{.cop}{.vec}.ctype{.clamp} [a, b], c; .geom = .1d .2d .3d .a1d .a2d; .cop = .wb .cg .cs .wt; .vec = .v2 .v4; .ctype = .b8 .b16 .b32 .b64; .clamp = .trap .clamp .zero",
        "sust",
        (1, 5, 10),
        store
    ),
    op!(
        "sust.p.geom{.vec}.b32{.clamp} [a, b], c; .geom = .1d .2d .3d; .vec = .v2 .v4; .clamp = .trap .clamp .zero",
        "sust",
        (2, 0, 20),
        store_texels
    ),
    op!(
        "sured.b.add.geom.ctype{.clamp} [a, b], c; .geom = .1d .2d .3d; .ctype = .u32 .u64 .s32; .clamp = .trap .clamp .zero",
        "sured",
        (2, 0, 20),
        reduce
    ),
    op!(
        "sured.b.op.geom.ctype{.clamp} [a, b], c; .op = .min .max; .geom = .1d .2d .3d; .ctype = .u32 .s32; .clamp = .trap .clamp .zero",
        "sured",
        (2, 0, 20),
        reduce
    ),
    op!(
        "sured.b.op.geom.ctype{.clamp} [a, b], c; .op = .min .max; .geom = .1d .2d .3d; .ctype = .u64 .s64; .clamp = .trap .clamp .zero",
        "sured",
        (8, 1, 50),
        reduce
    ),
    op!(
        "sured.b.op.geom.b32{.clamp} [a, b], c; .op = .and .or; .geom = .1d .2d .3d; .clamp = .trap .clamp .zero",
        "sured",
        (2, 0, 20),
        reduce
    ),
    op!(
        "sured.p.op.geom.b32{.clamp} [a, b], c; .op = .add .min .max .and .or; .geom = .1d .2d .3d; .clamp = .trap .clamp .zero",
        "sured",
        (2, 0, 20),
        reduce
    ),
    op!(
        "suq.query.b32 d, [a]; .query = .width .height .depth .array_size .memory_layout",
        "suq",
        (1, 5, 10),
        query
    ),
];

/// What happens outside a surface.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outside {
    Trap,
    Clamp,
    Zero,
}

/// What all lanes of an access have in common.
#[derive(Clone, Copy)]
struct Access {
    geometry: Geometry,
    outside: Outside,
    /// Bytes of a lane; `None` for a texel.
    bytes: Option<u32>,
    /// The position of the handle among the rows; the coordinates follow.
    handle: usize,
}

fn access(spec: &Spec<'_>, position: usize, bytes: Option<u32>) -> Result<(Access, Slot), Refusal> {
    let geometry = geometry(spec)?;
    let outside = match spec.get("clamp") {
        Some("clamp") => Outside::Clamp,
        Some("zero") => Outside::Zero,
        _ => Outside::Trap,
    };
    let types = coordinates(spec, position, geometry, Type::S32)?;
    Ok((Access { geometry, outside, bytes, handle: 0 }, Slot::Image(types)))
}

/// The registers of a vector: how many, and their bits.
fn registers(spec: &Spec<'_>, position: usize, least: u32) -> Result<Vec<u32>, Refusal> {
    let count = match spec.get("vec") {
        Some("v2") => 2,
        Some(_) => 4,
        None => 1,
    };
    let bits = |shape: &Shape| match shape {
        Shape::Register(bits) => *bits,
        _ => least,
    };
    let found: Vec<u32> = match spec.operands.get(position) {
        Some(Shape::Vector(items)) => items.iter().map(bits).collect(),
        Some(other) => vec![bits(other)],
        None => return Err(Refusal::Malformed("an operand is missing".into())),
    };
    if found.len() != count {
        return Err(Refusal::Malformed(format!("{} registers for a vector of {count}", found.len())));
    }
    match found.iter().find(|bits| **bits < least) {
        Some(narrow) => Err(Refusal::Malformed(format!("a register of {narrow} bits for a type of {least}"))),
        None => Ok(found),
    }
}

fn width(bits: u32) -> Width {
    if bits > 32 { Width::W64 } else { Width::W32 }
}

fn bit_type(bits: u32) -> Type {
    if bits > 32 { Type::B64 } else { Type::B32 }
}

/// The addresses of the lanes that access memory; the others are outside.
struct Located {
    addresses: Row<u64>,
    lanes: u32,
    surfaces: [Option<Arc<Image>>; LANES],
}

/// The surface object of a lane.
fn surface(w: &mut Warp<'_, '_>, args: &Args, access: Access, lane: usize) -> Result<Arc<Image>, Flow> {
    let number = handle(w, args, access.handle, lane);
    let Some(image) = w.global.heap().images().surface(number).cloned() else {
        return Err(w.no_image(lane, number, false));
    };
    if !access.geometry.fits(&image) {
        let sentence = format!(
            "an access of geometry .{} to surface object {number:#x}, which is {}",
            access.geometry.name(),
            image.describe()
        );
        return Err(w.halt_lane(Blame::Kernel, StopKind::Malformed, lane_number(lane), sentence));
    }
    Ok(image)
}

fn locate(w: &mut Warp<'_, '_>, args: &Args, access: Access) -> Result<Located, Flow> {
    let mut located = Located { addresses: Row([0; LANES]), lanes: 0, surfaces: [const { None }; LANES] };
    for lane in lanes_of(w.exec) {
        let image = surface(w, args, access, lane)?;
        let (layer, coordinates) = place(w, args, access.handle, access.geometry, lane);
        let [x, y, mut z] = coordinates.map(|bits| i64::from(bits.cast_signed()));
        if access.geometry.layered() {
            z = i64::from(layer);
        }
        let level = image.base();
        let texel = i64::from(image.texel.bytes());
        let row = i64::from(level.width) * texel;
        let (x, bytes) = match access.bytes {
            Some(bytes) => (x, i64::from(bytes)),
            None => (x * texel, texel),
        };
        let limits = [row - bytes, i64::from(level.height) - 1, i64::from(level.slices) - 1];
        let mut at = [x, y, z];
        let inside = at.iter().zip(limits).all(|(place, last)| (0..=last).contains(place));
        if !inside {
            match access.outside {
                Outside::Trap => {
                    let [x, y, z] = at;
                    let sentence = format!(
                        "a surface access of {bytes} bytes at byte {x}, row {y}, slice {z}, outside of {}",
                        image.describe()
                    );
                    return Err(w.halt_lane(Blame::Kernel, StopKind::Bounds, lane_number(lane), sentence));
                }
                Outside::Zero => continue,
                Outside::Clamp if limits.iter().any(|last| *last < 0) => continue,
                Outside::Clamp => {
                    for (place, last) in at.iter_mut().zip(limits) {
                        *place = (*place).clamp(0, last);
                    }
                }
            }
        }
        let [x, y, z] = at.map(|place| u64::try_from(place).unwrap_or(0));
        let start = level.address.wrapping_add(x).wrapping_add(y.wrapping_mul(level.pitch));
        located.addresses.0[lane] = start.wrapping_add(z.wrapping_mul(level.slice));
        located.lanes |= 1 << lane;
        located.surfaces[lane] = Some(image);
    }
    Ok(located)
}

fn load(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let ty = spec.ty("dtype")?;
    let registers = registers(spec, 0, 8 * ty.bytes())?;
    let count = registers.len();
    let total = ty.bytes() * u32::try_from(count).unwrap_or(1);
    let (found, slot) = access(spec, 1, Some(total))?;
    let access = Access { handle: count, ..found };
    let slots = [Slot::DstVec(registers.iter().map(|bits| width(*bits)).collect()), slot];
    let bound = Bound::fallible(slots, move |w, args| {
        let located = locate(w, args, access)?;
        let exec = std::mem::replace(&mut w.exec, located.lanes);
        let words =
            if located.lanes == 0 { Ok([Row([0; LANES]); 8]) } else { read(w, &located.addresses, total) };
        w.exec = exec;
        let words = words?;
        for (i, bits) in registers.iter().enumerate() {
            let mut row = Row([0u128; LANES]);
            for lane in lanes_of(located.lanes) {
                row.0[lane] = element(&words, lane, i * at(ty.bytes()), ty.bytes());
            }
            if let Some(target) = args.all.get(i) {
                w.put_row(width(*bits), *target, &row);
            }
        }
        Ok(Flow::Next)
    });
    Ok(if spec.get("cop") == Some("cv") { bound.communicating(Communication::Any) } else { bound })
}

/// Reads up to 32 bytes of each active lane.
fn read(w: &mut Warp<'_, '_>, addresses: &Row<u64>, bytes: u32) -> Result<[Row<u32>; 8], Flow> {
    let mut out = [Row([0; LANES]); 8];
    let mut put = |rows: &[Row<u32>]| out.iter_mut().zip(rows).for_each(|(to, from)| *to = *from);
    match bytes {
        32 => put(&w.load_at::<8>(Space::Global, addresses, bytes)?),
        16 => put(&w.load_at::<4>(Space::Global, addresses, bytes)?),
        8 => put(&w.load_at::<2>(Space::Global, addresses, bytes)?),
        _ => put(&w.load_at::<1>(Space::Global, addresses, bytes)?),
    }
    Ok(out)
}

/// Writes up to 32 bytes of each active lane.
fn write(w: &mut Warp<'_, '_>, addresses: &Row<u64>, bytes: u32, words: &[Row<u32>; 8]) -> Result<(), Flow> {
    let [a, b, c, d, ..] = *words;
    match bytes {
        32 => w.store_at(Space::Global, addresses, bytes, words),
        16 => w.store_at(Space::Global, addresses, bytes, &[a, b, c, d]),
        8 => w.store_at(Space::Global, addresses, bytes, &[a, b]),
        _ => w.store_at(Space::Global, addresses, bytes, &[a]),
    }
}

/// One element of the loaded words.
fn element(words: &[Row<u32>; 8], lane: usize, start: usize, bytes: u32) -> u128 {
    let mut value = 0u128;
    for i in 0..at(bytes) {
        let byte = words[((start + i) / 4) & 7].0[lane] >> (8 * ((start + i) % 4)) & 0xff;
        value |= u128::from(byte) << (8 * i);
    }
    value
}

fn store(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let ty = spec.ty("ctype")?;
    let registers = registers(spec, 1, 8 * ty.bytes())?;
    let total = ty.bytes() * u32::try_from(registers.len()).unwrap_or(1);
    let (access, slot) = access(spec, 0, Some(total))?;
    let Slot::Image(types) = &slot else { return Err(spec.gap("this operand")) };
    let first = 1 + types.len();
    let slots = [slot, Slot::SrcVec(registers.iter().map(|bits| bit_type(*bits)).collect())];
    let bound = Bound::fallible(slots, move |w, args| {
        let located = locate(w, args, access)?;
        let mut words = [Row([0u32; LANES]); 8];
        for (i, bits) in registers.iter().enumerate() {
            let Some(source) = args.all.get(first + i) else { continue };
            let row = w.get_row(width(*bits), *source);
            for lane in lanes_of(located.lanes) {
                for byte in 0..at(ty.bytes()) {
                    let place = i * at(ty.bytes()) + byte;
                    let value = u32::try_from(row.0[lane] >> (8 * byte) & 0xff).unwrap_or(0);
                    words[(place / 4) & 7].0[lane] |= value << (8 * (place % 4));
                }
            }
        }
        put(w, &located.addresses, located.lanes, total, &words)
    });
    Ok(if spec.get("cop") == Some("wt") { bound.communicating(Communication::Any) } else { bound })
}

fn put(
    w: &mut Warp<'_, '_>,
    addresses: &Row<u64>,
    lanes: u32,
    bytes: u32,
    words: &[Row<u32>; 8],
) -> Result<Flow, Flow> {
    if lanes == 0 {
        return Ok(Flow::Next);
    }
    let exec = std::mem::replace(&mut w.exec, lanes);
    let written = write(w, addresses, bytes, words);
    w.exec = exec;
    written.map(|()| Flow::Next)
}

/// `sust.p`.
fn store_texels(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let registers = registers(spec, 1, 32)?;
    let (access, slot) = access(spec, 0, None)?;
    let Slot::Image(types) = &slot else { return Err(spec.gap("this operand")) };
    let first = 1 + types.len();
    let count = registers.len();
    let slots = [slot, Slot::SrcVec(vec![Type::B32; count])];
    Ok(Bound::fallible(slots, move |w, args| {
        let located = locate(w, args, access)?;
        // Lanes may name surfaces of different formats.
        for bytes in [1, 2, 4, 8, 16] {
            let mut words = [Row([0u32; LANES]); 8];
            let mut lanes = 0;
            for lane in lanes_of(located.lanes) {
                let Some(image) = &located.surfaces[lane] else { continue };
                if image.texel.bytes() != bytes {
                    continue;
                }
                let value = |i: usize| match args.all.get(first + i).filter(|_| i < count) {
                    Some(row) => w.state.regs.w32[at(*row)].0[lane],
                    None => 0,
                };
                let texel = image.texel.encode(std::array::from_fn(value));
                for (row, word) in words.iter_mut().zip(texel) {
                    row.0[lane] = word;
                }
                lanes |= 1 << lane;
            }
            put(w, &located.addresses, lanes, bytes, &words)?;
        }
        Ok(Flow::Next)
    }))
}

/// `sured`.
fn reduce(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let formatted = spec.has("p");
    let ty = spec.get("ctype").and_then(Type::parse).unwrap_or(Type::B32);
    let operator = spec.get("op").or(spec.get("add")).ok_or_else(|| spec.gap("this operator"))?;
    let (access, slot) = access(spec, 0, (!formatted).then(|| ty.bytes()))?;
    let Slot::Image(types) = &slot else { return Err(spec.gap("this operand")) };
    let first = 1 + types.len();
    let slots = [slot, Slot::Src(ty)];
    let bound = Bound::fallible(slots, move |w, args| {
        let located = locate(w, args, access)?;
        let operands = w.get_row(ty.width(), args.all.get(first).copied().unwrap_or(0));
        let mut types = [ty; LANES];
        for lane in lanes_of(located.lanes).filter(|_| formatted) {
            let Some(image) = &located.surfaces[lane] else { continue };
            let texel = image.texel;
            if texel.bytes() != 4 || texel.channels != 1 || texel.channel.is_float() {
                let sentence = "sured.p of a surface whose texels are not 32-bit integers".to_owned();
                return Err(w.halt_lane(Blame::Kernel, StopKind::Malformed, lane_number(lane), sentence));
            }
            types[lane] = if texel.channel.is_signed() { Type::S32 } else { Type::U32 };
        }
        if located.lanes == 0 {
            return Ok(Flow::Next);
        }
        let exec = std::mem::replace(&mut w.exec, located.lanes);
        let updated = w.update(Space::Global, &located.addresses, ty.bytes(), |lane, old| {
            reduced(operator, types[lane], old, operands.0[lane])
        });
        w.exec = exec;
        updated.map(|_| Flow::Next)
    });
    Ok(bound.communicating(Communication::Any))
}

/// The new value of a cell.
fn reduced(operator: &str, ty: Type, old: u128, operand: u128) -> u128 {
    let mask = if ty.bytes() == 8 { u128::from(u64::MAX) } else { u128::from(u32::MAX) };
    let (old, operand) = (old & mask, operand & mask);
    // With the sign bit flipped, signed numbers compare as unsigned ones.
    let key = |value: u128| if ty.is_signed() { value ^ (mask ^ mask >> 1) } else { value };
    match operator {
        "add" => old.wrapping_add(operand) & mask,
        "min" => {
            if key(operand) < key(old) {
                operand
            } else {
                old
            }
        }
        "max" => {
            if key(operand) > key(old) {
                operand
            } else {
                old
            }
        }
        "and" => old & operand,
        _ => old | operand,
    }
}

/// `suq`.
fn query(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let asked = spec.get("query").ok_or_else(|| spec.gap("this query"))?;
    Ok(Bound::fallible([Slot::Dst(Width::W32), Slot::Image(Vec::new())], move |w, args| {
        let mut row = Row([0u128; LANES]);
        for lane in lanes_of(w.exec) {
            let number = handle(w, args, 1, lane);
            let Some(image) = w.global.heap().images().surface(number).cloned() else {
                return Err(w.no_image(lane, number, false));
            };
            row.0[lane] = u128::from(match asked {
                "memory_layout" => u32::from(matches!(image.layout, Layout::Linear | Layout::Pitched)),
                dimension => extent(dimension, image.layout, &image.base()),
            });
        }
        w.put_row(Width::W32, args.o[0], &row);
        Ok(Flow::Next)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reductions_keep_their_width_and_sign() {
        let minus = u128::from((-2i32).cast_unsigned());
        assert_eq!(reduced("min", Type::S32, 1, minus), minus);
        assert_eq!(reduced("min", Type::U32, 1, minus), 1);
        assert_eq!(reduced("max", Type::S32, 1, minus), 1);
        assert_eq!(reduced("add", Type::U32, u128::from(u32::MAX), 2), 1);
        assert_eq!(reduced("add", Type::U64, u128::from(u32::MAX), 2), 1 << 32 | 1);
        assert_eq!((reduced("and", Type::B32, 6, 3), reduced("or", Type::B32, 6, 3)), (2, 7));
    }
}
