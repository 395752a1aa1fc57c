//! Moves between registers, special registers and addresses.
#![expect(clippy::unnecessary_wraps, reason = "all binders share one signature, and most can fail")]

use super::map::{map1, map3, merge, test1};
use super::{Bound, Definition, Refusal, Shape, Slot, Spec, Unit};
use crate::bind;
use crate::machine::{Flow, LANES, Row, Type, Warp, Width, at};
use crate::memory::Space;
use crate::simd::Simd;
use warpproof_num::bits::{self, Permute};

pub(super) const DEFINITIONS: &[Definition] = &[
    Definition {
        form: "mov.type d, a; .type = .pred .b16 .b32 .b64 .b128 .u16 .u32 .u64 .s16 .s32 .s64 .f32 .f64",
        manual: "data-movement-and-conversion-instructions-mov",
        unit: Unit::Alu,
        since: (1, 0, 10),
        bind: bind!(mov),
    },
    Definition {
        form: "prmt.b32{.mode} d, a, b, c; .mode = .f4e .b4e .rc8 .ecl .ecr .rc16",
        manual: "data-movement-and-conversion-instructions-prmt",
        unit: Unit::Alu,
        since: (2, 0, 20),
        bind: bind!(prmt),
    },
    Definition {
        form: "isspacep.space p, a; .space = .const .global .local .shared .shared::cta .shared::cluster .param .param::entry",
        manual: "data-movement-and-conversion-instructions-isspacep",
        unit: Unit::Alu,
        since: (2, 0, 20),
        bind: bind!(isspacep),
    },
    // Addresses of 32 bits went with the targets that had them.
    Definition {
        form: "cvta{.to}.space.u64 p, a; .space = .const .global .local .shared .shared::cta .shared::cluster .param .param::entry",
        manual: "data-movement-and-conversion-instructions-cvta",
        unit: Unit::Alu,
        since: (2, 0, 20),
        bind: bind!(cvta),
    },
];

fn mov<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let ty = spec.ty("type")?;
    match (spec.operands.first(), spec.operands.get(1)) {
        (Some(Shape::Vector(parts)), Some(_)) => return unpack::<I>(ty, parts),
        (Some(_), Some(Shape::Vector(parts))) => return pack::<I>(ty, parts),
        (Some(_), Some(Shape::Special(name))) => {
            if let Some(bound) = clock(ty, name) {
                return Ok(bound);
            }
        }
        (Some(_), Some(Shape::Frame(offset))) => return Ok(frame_address(ty, *offset)),
        _ => {}
    }
    Ok(match ty.width() {
        Width::Pred => Bound::new([Slot::Dst(Width::Pred), Slot::Src(Type::Pred)], |w, args| {
            let bits = w.pred_arg(args, 1);
            w.set_pred(args.o[0], bits);
            Flow::Next
        }),
        // An immediate may have more bits than a narrow register.
        Width::W32 if ty.bytes() == 2 => with_type(map1::<I, u16, u16>(|a| a), ty),
        Width::W32 => with_type(map1::<I, u32, u32>(|a| a), ty),
        Width::W64 => with_type(map1::<I, u64, u64>(|a| a), ty),
        Width::W128 => map1::<I, u128, u128>(|a| a),
    })
}

/// The routine copies bits; an immediate is read as the instruction's own type.
fn with_type(mut bound: Bound, ty: Type) -> Bound {
    if let Some(Slot::Src(source)) = bound.slots.get_mut(1) {
        *source = ty;
    }
    bound
}

/// The address of a frame variable is known only when its function runs.
fn frame_address(ty: Type, offset: u32) -> Bound {
    Bound::new([Slot::Dst(ty.width()), Slot::Static], move |w, args| {
        let address = w.state.subwarp.sp.wrapping_add(offset);
        w.put_row(ty.width(), args.o[0], &Row::splat(u128::from(address)));
        Flow::Next
    })
}

/// Clocks count the warp's own instructions, so they are the same in every run.
fn clock(ty: Type, name: &str) -> Option<Bound> {
    let read: fn(&mut Warp<'_, '_>) -> u64 = match name {
        "%clock" | "%globaltimer_lo" => |w| w.time() & 0xffff_ffff,
        "%clock_hi" | "%globaltimer_hi" => |w| w.time() >> 32,
        "%clock64" | "%globaltimer" => |w| w.time(),
        _ if name.starts_with("%pm") => |_| 0,
        _ => return None,
    };
    Some(Bound::new([Slot::Dst(ty.width()), Slot::Static], move |w, args| {
        let value = read(w);
        w.put_row(ty.width(), args.o[0], &Row::splat(u128::from(value)));
        Flow::Next
    }))
}

fn part_bits(ty: Type, parts: usize) -> Result<u32, Refusal> {
    let bits = ty.bytes() * 8 / u32::try_from(parts.max(1)).unwrap_or(1);
    if matches!(bits, 8 | 16 | 32 | 64) && parts > 1 {
        Ok(bits)
    } else {
        Err(Refusal::Malformed(format!("{parts} parts of a value of {} bits", ty.bytes() * 8)))
    }
}

fn part_type(bits: u32) -> Type {
    match bits {
        8 => Type::B8,
        16 => Type::B16,
        32 => Type::B32,
        _ => Type::B64,
    }
}

fn unpack<I: Simd>(ty: Type, parts: &[Shape]) -> Result<Bound, Refusal> {
    let bits = part_bits(ty, parts.len())?;
    let width = part_type(bits).width();
    let count = parts.len();
    match (bits, count) {
        (32, 2) => return Ok(unpack_words::<I>(ty)),
        (16, 2) => return Ok(unpack_halves::<I>(ty)),
        _ => {}
    }
    Ok(Bound::new([Slot::DstVec(vec![width; count]), Slot::Src(ty)], move |w, args| {
        let value = w.get_row(ty.width(), args.all[count]);
        let mask = (1u128 << bits) - 1;
        for (i, shift) in (0..count).zip((0..).step_by(at(bits))) {
            let mut part = Row([0u128; 32]);
            for (out, value) in part.0.iter_mut().zip(value.0) {
                *out = value >> shift & mask;
            }
            w.put_row(width, args.all[i], &part);
        }
        Flow::Next
    }))
}

fn pack<I: Simd>(ty: Type, parts: &[Shape]) -> Result<Bound, Refusal> {
    let bits = part_bits(ty, parts.len())?;
    let part = part_type(bits);
    let count = parts.len();
    match (bits, count) {
        (32, 2) => return Ok(pack_words::<I>()),
        (16, 2) => return Ok(pack_halves::<I>()),
        _ => {}
    }
    Ok(Bound::new([Slot::Dst(ty.width()), Slot::SrcVec(vec![part; count])], move |w, args| {
        let mut value = Row([0u128; 32]);
        let mask = (1u128 << bits) - 1;
        for (i, shift) in (0..count).zip((0..).step_by(at(bits))) {
            let part = w.get_row(part.width(), args.all[i + 1]);
            for (out, part) in value.0.iter_mut().zip(part.0) {
                *out |= (part & mask) << shift;
            }
        }
        w.put_row(ty.width(), args.o[0], &value);
        Flow::Next
    }))
}

/// `{lo, hi} = a` of 64 bits.
#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "the words of a register")]
fn unpack_words<I: Simd>(ty: Type) -> Bound {
    Bound::new([Slot::DstVec(vec![Width::W32; 2]), Slot::Src(ty)], |w, args| {
        I::vectorize(|| {
            let (mut low, mut high) = (Row([0; LANES]), Row([0; LANES]));
            let a = &w.state.regs.w64[at(args.o[2])];
            for lane in 0..LANES {
                low.0[lane] = a.0[lane] as u32;
                high.0[lane] = (a.0[lane] >> 32) as u32;
            }
            merge(&mut w.state.regs.w32[at(args.o[0])], &low, w.exec);
            merge(&mut w.state.regs.w32[at(args.o[1])], &high, w.exec);
        });
        Flow::Next
    })
}

/// `{lo, hi} = a` of 32 bits.
fn unpack_halves<I: Simd>(ty: Type) -> Bound {
    Bound::new([Slot::DstVec(vec![Width::W32; 2]), Slot::Src(ty)], |w, args| {
        I::vectorize(|| {
            let (mut low, mut high) = (Row([0; LANES]), Row([0; LANES]));
            let a = &w.state.regs.w32[at(args.o[2])];
            for lane in 0..LANES {
                low.0[lane] = a.0[lane] & 0xffff;
                high.0[lane] = a.0[lane] >> 16;
            }
            merge(&mut w.state.regs.w32[at(args.o[0])], &low, w.exec);
            merge(&mut w.state.regs.w32[at(args.o[1])], &high, w.exec);
        });
        Flow::Next
    })
}

/// `d = {lo, hi}` of 64 bits.
fn pack_words<I: Simd>() -> Bound {
    Bound::new([Slot::Dst(Width::W64), Slot::SrcVec(vec![Type::B32; 2])], |w, args| {
        I::vectorize(|| {
            let mut d = Row([0; LANES]);
            let rows = &w.state.regs.w32;
            let (low, high) = (&rows[at(args.o[1])], &rows[at(args.o[2])]);
            for lane in 0..LANES {
                d.0[lane] = u64::from(low.0[lane]) | u64::from(high.0[lane]) << 32;
            }
            merge(&mut w.state.regs.w64[at(args.o[0])], &d, w.exec);
        });
        Flow::Next
    })
}

/// `d = {lo, hi}` of 32 bits.
fn pack_halves<I: Simd>() -> Bound {
    Bound::new([Slot::Dst(Width::W32), Slot::SrcVec(vec![Type::B16; 2])], |w, args| {
        I::vectorize(|| {
            let mut d = Row([0; LANES]);
            let rows = &w.state.regs.w32;
            let (low, high) = (&rows[at(args.o[1])], &rows[at(args.o[2])]);
            for lane in 0..LANES {
                d.0[lane] = (low.0[lane] & 0xffff) | high.0[lane] << 16;
            }
            merge(&mut w.state.regs.w32[at(args.o[0])], &d, w.exec);
        });
        Flow::Next
    })
}

fn prmt<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    // Compilers usually write a constant selector; then the shifts are the same in every lane.
    let constant = spec.integer(3).map(|c| c.cast_unsigned() & 0xffff).and_then(|c| u32::try_from(c).ok());
    Ok(match (spec.get("mode"), constant) {
        (None, Some(c)) => {
            map3::<I, u32, u32, u32, u32>(move |a, b, _| bits::prmt(a, b, c, Permute::Generic))
        }
        (None, None) => map3::<I, u32, u32, u32, u32>(|a, b, c| bits::prmt(a, b, c, Permute::Generic)),
        (Some("f4e"), _) => map3::<I, u32, u32, u32, u32>(|a, b, c| bits::prmt(a, b, c, Permute::F4e)),
        (Some("b4e"), _) => map3::<I, u32, u32, u32, u32>(|a, b, c| bits::prmt(a, b, c, Permute::B4e)),
        (Some("rc8"), _) => map3::<I, u32, u32, u32, u32>(|a, b, c| bits::prmt(a, b, c, Permute::Rc8)),
        (Some("ecl"), _) => map3::<I, u32, u32, u32, u32>(|a, b, c| bits::prmt(a, b, c, Permute::Ecl)),
        (Some("ecr"), _) => map3::<I, u32, u32, u32, u32>(|a, b, c| bits::prmt(a, b, c, Permute::Ecr)),
        (Some(_), _) => map3::<I, u32, u32, u32, u32>(|a, b, c| bits::prmt(a, b, c, Permute::Rc16)),
    })
}

fn isspacep<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let space = super::memory::space_of(spec.get("space"));
    let cluster = spec.get("space") == Some("shared::cluster");
    if space == Space::Shared && !cluster && spec.bits(1) != Some(32) {
        // Only the memory of the own block.
        return Ok(Bound::new([Slot::Dst(Width::Pred), Slot::Src(Type::B64)], |w, args| {
            let addresses = w.state.regs.w64[at(args.o[1])];
            let own = |(lane, address): (u32, u64)| {
                let (space, address) = Space::resolve(address);
                let here = space == Space::Shared && w.locate_shared(address).0 == w.cta.rank;
                u32::from(here) << lane
            };
            let bits = (0..32).zip(addresses.0).map(own).fold(0, |all, bit| all | bit);
            w.set_pred(args.o[0], bits);
            Flow::Next
        }));
    }
    let test = move |a: u64| {
        let found = Space::resolve(a).0;
        // The window of kernel parameters is inside that of global memory.
        found == space || (space == Space::Global && found == Space::Param)
    };
    Ok(match spec.bits(1) {
        // The assembler still accepts a 32-bit register; its address is below every window.
        Some(32) => test1::<I, u32>(move |a| test(u64::from(a))),
        _ => test1::<I, u64>(test),
    })
}

fn cvta<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let window = super::memory::space_of(spec.get("space")).window();
    if let Some(Shape::Frame(offset)) = spec.operands.get(1) {
        let offset = u64::from(*offset);
        return Ok(Bound::new([Slot::Dst(Width::W64), Slot::Static], move |w, args| {
            let address = window + offset + u64::from(w.state.subwarp.sp);
            merge(&mut w.state.regs.w64[at(args.o[0])], &Row::splat(address), w.exec);
            Flow::Next
        }));
    }
    Ok(if spec.has("to") {
        map1::<I, u64, u64>(move |a| a.wrapping_sub(window))
    } else {
        map1::<I, u64, u64>(move |a| a.wrapping_add(window))
    })
}
