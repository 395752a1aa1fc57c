//! Loads and stores.

use super::map::merge;
use super::{AddressArg, Args, Bound, Definition, Inline, Refusal, Shape, Slot, Spec, Unit};
use crate::bind;
use crate::machine::{Flow, LANES, Row, Type, Warp, Width, at};
use crate::memory::Space;
use crate::program::Communication;
use crate::simd::Simd;

/// The syntax box of a form, its own classes, and the classes that `ld` and `st` share; classes that the box does not
/// mention are ignored.
macro_rules! boxed {
    ($head:literal, $classes:literal) => {
        concat!(
            $head,
            $classes,
            "; .evict = .L1::evict_normal .L1::evict_unchanged .L1::evict_first .L1::evict_last .L1::no_allocate",
            "; .prefetch = .L2::64B .L2::128B .L2::256B; .scope = .cta .cluster .gpu .sys; .vec = .v2 .v4",
            "; .type = .b8 .b16 .b32 .b64 .b128 .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64 .f32 .f64"
        )
    };
}

/// A form of 32 bytes.
macro_rules! wide {
    ($head:literal, $types:literal) => {
        concat!(
            $head,
            "; .evict = .L1::evict_normal .L1::evict_unchanged .L1::evict_first .L1::evict_last .L1::no_allocate",
            "; .evict2 = .L2::evict_normal .L2::evict_first .L2::evict_last; .prefetch = .L2::64B .L2::128B .L2::256B",
            "; .type = ",
            $types
        )
    };
}

/// A form of 32 bytes with an order.
macro_rules! ordered {
    ($head:literal, words) => {
        wide!($head, ".b32 .u32 .s32 .f32; .scope = .cta .cluster .gpu .sys")
    };
    ($head:literal, pairs) => {
        wide!($head, ".b64 .u64 .s64 .f64; .scope = .cta .cluster .gpu .sys")
    };
}

macro_rules! op {
    ($form:expr, $section:literal, $since:expr, $bind:ident) => {
        Definition {
            form: $form,
            manual: concat!("data-movement-and-conversion-instructions-", $section),
            unit: Unit::Lsu,
            since: $since,
            bind: bind!($bind),
        }
    };
}

pub(super) const DEFINITIONS: &[Definition] = &[
    // The manual gives one box to cache operators and one to eviction priorities: they exclude each other.
    op!(
        boxed!(
            "ld{.weak}{.ss}{.cop}{.L2::cache_hint}{.prefetch}{.vec}.type d, [a]{, cache-policy}",
            "; .ss = .global .const .local .param .param::entry .param::func .shared .shared::cta .shared::cluster; .cop = .ca .cg .cs .lu .cv"
        ),
        "ld",
        (1, 0, 10),
        load
    ),
    op!(
        boxed!("ld{.weak}{.global}.evict{.L2::cache_hint}{.prefetch}{.vec}.type d, [a]{, cache-policy}", ""),
        "ld",
        (7, 4, 70),
        load
    ),
    op!(
        wide!(
            "ld{.weak}{.global}{.evict}{.evict2}{.L2::cache_hint}{.prefetch}.v8.type d, [a]{, cache-policy}",
            ".b32 .u32 .s32 .f32"
        ),
        "ld",
        (8, 8, 100),
        load
    ),
    op!(
        wide!(
            "ld{.weak}{.global}{.evict}.evict2{.L2::cache_hint}{.prefetch}.v4.type d, [a]{, cache-policy}",
            ".b64 .u64 .s64 .f64"
        ),
        "ld",
        (8, 8, 100),
        load
    ),
    op!(
        wide!(
            "ld{.weak}{.global}.cop{.L2::cache_hint}{.prefetch}.v8.type d, [a]{, cache-policy}; .cop = .ca .cg .cs .lu .cv",
            ".b32 .u32 .s32 .f32"
        ),
        "ld",
        (8, 8, 100),
        load
    ),
    op!(
        boxed!(
            "ld.volatile{.ss}{.prefetch}{.vec}.type d, [a]",
            "; .ss = .global .shared .shared::cta .shared::cluster"
        ),
        "ld",
        (1, 1, 10),
        load_ordered
    ),
    op!(boxed!("ld.volatile.local{.vec}.type d, [a]", ""), "ld", (9, 1, 10), load_ordered),
    op!(
        boxed!(
            "ld.order.scope{.ss}{.evict}{.L2::cache_hint}{.prefetch}{.vec}.type d, [a]{, cache-policy}",
            "; .order = .relaxed .acquire; .ss = .global .shared .shared::cta .shared::cluster"
        ),
        "ld",
        (6, 0, 70),
        load_ordered
    ),
    op!(ordered!("ld.volatile{.global}{.prefetch}.v8.type d, [a]", words), "ld", (8, 8, 100), load_ordered),
    op!(
        ordered!(
            "ld.order.scope{.global}{.evict}{.evict2}{.L2::cache_hint}{.prefetch}.v8.type d, [a]{, cache-policy}; .order = .relaxed .acquire",
            words
        ),
        "ld",
        (8, 8, 100),
        load_ordered
    ),
    op!(
        ordered!(
            "ld.order.scope{.global}{.evict}.evict2{.L2::cache_hint}{.prefetch}.v4.type d, [a]{, cache-policy}; .order = .relaxed .acquire",
            pairs
        ),
        "ld",
        (8, 8, 100),
        load_ordered
    ),
    op!(boxed!("ld.mmio.relaxed.sys{.global}.type d, [a]", ""), "ld", (8, 2, 70), load_ordered),
    op!(
        boxed!(
            "ld.global{.cop}.nc{.L2::cache_hint}{.prefetch}{.vec}.type d, [a]{, cache-policy}",
            "; .cop = .ca .cg .cs"
        ),
        "ld-global-nc",
        (3, 1, 32),
        load
    ),
    op!(
        boxed!("ld.global.nc.evict{.L2::cache_hint}{.prefetch}{.vec}.type d, [a]{, cache-policy}", ""),
        "ld-global-nc",
        (7, 4, 70),
        load
    ),
    op!(
        wide!(
            "ld.global.nc{.evict}{.evict2}{.L2::cache_hint}{.prefetch}.v8.type d, [a]{, cache-policy}",
            ".b32 .u32 .s32 .f32"
        ),
        "ld-global-nc",
        (8, 8, 100),
        load
    ),
    op!(
        wide!(
            "ld.global.nc{.evict}.evict2{.L2::cache_hint}{.prefetch}.v4.type d, [a]{, cache-policy}",
            ".b64 .u64 .s64 .f64"
        ),
        "ld-global-nc",
        (8, 8, 100),
        load
    ),
    op!(
        wide!(
            "ld.global.cop.nc{.L2::cache_hint}{.prefetch}.v8.type d, [a]{, cache-policy}; .cop = .ca .cg .cs",
            ".b32 .u32 .s32 .f32"
        ),
        "ld-global-nc",
        (8, 8, 100),
        load
    ),
    op!(boxed!("ldu{.global}{.vec}.type d, [a]", ""), "ldu", (2, 0, 20), load),
    op!(
        boxed!(
            "st{.weak}{.ss}{.cop}{.L2::cache_hint}{.vec}.type [a], b{, cache-policy}",
            "; .ss = .global .local .param .param::func .shared .shared::cta .shared::cluster; .cop = .wb .cg .cs .wt"
        ),
        "st",
        (1, 0, 10),
        store
    ),
    op!(
        boxed!("st{.weak}{.global}.evict{.L2::cache_hint}{.vec}.type [a], b{, cache-policy}", ""),
        "st",
        (7, 4, 70),
        store
    ),
    op!(
        wide!(
            "st{.weak}{.global}{.evict}{.evict2}{.L2::cache_hint}.v8.type [a], b{, cache-policy}",
            ".b32 .u32 .s32 .f32"
        ),
        "st",
        (8, 8, 100),
        store
    ),
    op!(
        wide!(
            "st{.weak}{.global}{.evict}.evict2{.L2::cache_hint}.v4.type [a], b{, cache-policy}",
            ".b64 .u64 .s64 .f64"
        ),
        "st",
        (8, 8, 100),
        store
    ),
    op!(
        wide!(
            "st{.weak}{.global}.cop{.L2::cache_hint}.v8.type [a], b{, cache-policy}; .cop = .wb .cg .cs .wt",
            ".b32 .u32 .s32 .f32"
        ),
        "st",
        (8, 8, 100),
        store
    ),
    op!(
        boxed!("st.volatile{.ss}{.vec}.type [a], b", "; .ss = .global .shared .shared::cta .shared::cluster"),
        "st",
        (1, 1, 10),
        store_ordered
    ),
    op!(boxed!("st.volatile.local{.vec}.type [a], b", ""), "st", (9, 1, 10), store_ordered),
    op!(
        boxed!(
            "st.order.scope{.ss}{.evict}{.L2::cache_hint}{.vec}.type [a], b{, cache-policy}",
            "; .order = .relaxed .release; .ss = .global .shared .shared::cta .shared::cluster"
        ),
        "st",
        (6, 0, 70),
        store_ordered
    ),
    op!(ordered!("st.volatile{.global}.v8.type [a], b", words), "st", (8, 8, 100), store_ordered),
    op!(
        ordered!(
            "st.order.scope{.global}{.evict}{.evict2}{.L2::cache_hint}.v8.type [a], b{, cache-policy}; .order = .relaxed .release",
            words
        ),
        "st",
        (8, 8, 100),
        store_ordered
    ),
    op!(
        ordered!(
            "st.order.scope{.global}{.evict}.evict2{.L2::cache_hint}.v4.type [a], b{, cache-policy}; .order = .relaxed .release",
            pairs
        ),
        "st",
        (8, 8, 100),
        store_ordered
    ),
    op!(
        "st.async{.mmio}.release.scope{.global}.type [a], b; .scope = .gpu .sys; .type = .b8 .b16 .b32 .b64 .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64 .f32 .f64",
        "st-async",
        (8, 7, 100),
        store_ordered
    ),
    op!(boxed!("st.mmio.relaxed.sys{.global}.type [a], b", ""), "st", (8, 2, 70), store_ordered),
];

/// The space of a `.ss` modifier.
pub(super) fn space_of(name: Option<&str>) -> Space {
    match name {
        None => Space::Generic,
        Some("const") => Space::Const,
        Some("global") => Space::Global,
        Some("local") => Space::Local,
        Some(name) if name.starts_with("param") => Space::Param,
        Some(_) => Space::Shared,
    }
}

/// The space of an access: a class of the form, or a literal in it.
fn space(spec: &Spec<'_>) -> Space {
    space_of(spec.get("ss").or(spec.get("global")).or(spec.get("local")))
}

/// Parameters of device functions are in the frame, those of the kernel in parameter memory.
fn actual(space: Space, arg: AddressArg, w: &Warp<'_, '_>) -> Space {
    if space == Space::Param && (arg.frame || !w.state.subwarp.frames.is_empty()) {
        Space::Local
    } else {
        space
    }
}

/// How the elements of an access are laid out in registers.
struct Layout {
    /// Bytes of an element in memory, and whether it is sign-extended into a wider register.
    bytes: u32,
    signed: bool,
    /// Bits of each register; 0 for `_`.
    registers: Vec<u32>,
}

fn layout(spec: &Spec<'_>, operand: usize) -> Result<Layout, Refusal> {
    let ty = spec.ty("type")?;
    let count = match spec.get("vec").or(spec.get("v8")).or(spec.get("v4")) {
        None => 1,
        Some("v2") => 2,
        Some("v4") => 4,
        Some(_) => 8,
    };
    let bits = |shape: &Shape| match shape {
        Shape::Register(bits) => *bits,
        Shape::Sink => 0,
        _ => ty.bytes() * 8,
    };
    let registers: Vec<u32> = match spec.operands.get(operand) {
        Some(Shape::Vector(items)) => items.iter().map(bits).collect(),
        Some(other) => vec![bits(other)],
        None => return Err(Refusal::Malformed("an operand is missing".into())),
    };
    if registers.len() != count {
        return Err(Refusal::Malformed(format!("{} registers for a vector of {count}", registers.len())));
    }
    if let Some(narrow) = registers.iter().find(|bits| **bits != 0 && **bits < ty.bytes() * 8) {
        return Err(Refusal::Malformed(format!(
            "a register of {narrow} bits for a type of {}",
            ty.bytes() * 8
        )));
    }
    if ty.bytes() * u32::try_from(count).unwrap_or(8) > 32 || (ty == Type::B128 && count > 1) {
        return Err(Refusal::Malformed("a vector that is too large".into()));
    }
    Ok(Layout { bytes: ty.bytes(), signed: ty.is_signed(), registers })
}

fn width(bits: u32) -> Width {
    match bits {
        0..=32 => Width::W32,
        33..=64 => Width::W64,
        _ => Width::W128,
    }
}

fn any_type(bits: u32) -> Type {
    match bits {
        0..=8 => Type::B8,
        9..=16 => Type::B16,
        17..=32 => Type::B32,
        33..=64 => Type::B64,
        _ => Type::B128,
    }
}

fn load<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let space = space(spec);
    let bound = load_from::<I>(spec, space)?;
    Ok(if spec.get("cop") == Some("cv") { talking(bound, space) } else { bound })
}

/// Whether blocks can communicate by this access: ordered accesses and, from older PTX, `.cv` loads (fetch again) and `.wt`
/// stores (write through).
fn talking(bound: Bound, space: Space) -> Bound {
    if matches!(space, Space::Generic | Space::Global) {
        bound.communicating(Communication::Any)
    } else {
        bound
    }
}

fn load_ordered<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let space = space(spec);
    let bound = Bound { inline: Inline::No, ..load_from::<I>(spec, space)? };
    Ok(talking(bound, space))
}

fn hint_slot(spec: &Spec<'_>, slots: &mut Vec<Slot>) {
    // A cache policy does not affect values.
    if spec.has("L2::cache_hint") {
        slots.push(Slot::Src(Type::B64));
    }
}

fn load_from<I: Simd>(spec: &Spec<'_>, space: Space) -> Result<Bound, Refusal> {
    let layout = layout(spec, 0)?;
    let mut slots =
        vec![Slot::DstVec(layout.registers.iter().map(|bits| width(*bits)).collect()), Slot::Address];
    hint_slot(spec, &mut slots);
    let total = layout.bytes * u32::try_from(layout.registers.len()).unwrap_or(1);
    let (used, all) = (spec.used, u32::MAX >> 32_u32.saturating_sub(total).min(31));
    if used & all != all {
        return Ok(match total {
            0..=4 => {
                Bound::fallible(slots, move |w, args| load_used::<1>(w, args, space, total, used, &layout))
            }
            5..=8 => {
                Bound::fallible(slots, move |w, args| load_used::<2>(w, args, space, total, used, &layout))
            }
            9..=16 => {
                Bound::fallible(slots, move |w, args| load_used::<4>(w, args, space, total, used, &layout))
            }
            _ => Bound::fallible(slots, move |w, args| load_used::<8>(w, args, space, total, used, &layout)),
        });
    }
    let whole = layout.registers.iter().all(|bits| *bits == 32) && layout.bytes == 4;
    let whole = whole && space == Space::Shared;
    if total == 4 && layout.registers == [32] {
        // The most common load.
        let bound = Bound::fallible(slots, move |w, args| {
            if space == Space::Shared && I::vectorize(|| w.get_shared_words::<I, 1>(args.at[0], &args.o[..1]))
            {
                return Ok(Flow::Next);
            }
            if space == Space::Global && I::vectorize(|| w.get_global_word::<I>(args.at[0], args.o[0])) {
                return Ok(Flow::Next);
            }
            let [row] = w.load(actual(space, args.at[0], w), args.at[0], 4)?;
            merge(&mut w.state.regs.w32[at(args.o[0])], &row, w.exec);
            Ok(Flow::Next)
        });
        let inline = if whole { Inline::SharedWords(1) } else { Inline::No };
        return Ok(Bound { inline, ..bound });
    }
    if whole && total == 8 {
        let bound = Bound::fallible(slots, move |w, args| {
            if I::vectorize(|| w.get_shared_words::<I, 2>(args.at[0], &args.o[..2])) {
                return Ok(Flow::Next);
            }
            load_words::<2>(w, args, space, total, &layout)
        });
        return Ok(Bound { inline: Inline::SharedWords(2), ..bound });
    }
    if whole && total == 16 {
        let bound = Bound::fallible(slots, move |w, args| {
            if I::vectorize(|| w.get_shared_words::<I, 4>(args.at[0], &args.o[..4])) {
                return Ok(Flow::Next);
            }
            load_words::<4>(w, args, space, total, &layout)
        });
        return Ok(Bound { inline: Inline::SharedWords(4), ..bound });
    }
    Ok(match total {
        0..=4 => Bound::fallible(slots, move |w, args| load_words::<1>(w, args, space, total, &layout)),
        5..=8 => Bound::fallible(slots, move |w, args| load_words::<2>(w, args, space, total, &layout)),
        9..=16 => Bound::fallible(slots, move |w, args| load_words::<4>(w, args, space, total, &layout)),
        _ => Bound::fallible(slots, move |w, args| load_words::<8>(w, args, space, total, &layout)),
    })
}

fn load_words<const WORDS: usize>(
    w: &mut Warp<'_, '_>,
    args: &Args,
    space: Space,
    total: u32,
    layout: &Layout,
) -> Result<Flow, Flow> {
    let words = w.load::<WORDS>(actual(space, args.at[0], w), args.at[0], total)?;
    spread(w, args, &words, layout);
    Ok(Flow::Next)
}

/// A load that reads more bytes than it uses.
fn load_used<const WORDS: usize>(
    w: &mut Warp<'_, '_>,
    args: &Args,
    space: Space,
    total: u32,
    used: u32,
    layout: &Layout,
) -> Result<Flow, Flow> {
    let words = w.load_used::<WORDS>(actual(space, args.at[0], w), args.at[0], total, used)?;
    spread(w, args, &words, layout);
    Ok(Flow::Next)
}

/// Writes the loaded data to the registers.
fn spread<const WORDS: usize>(w: &mut Warp<'_, '_>, args: &Args, words: &[Row<u32>; WORDS], layout: &Layout) {
    for (i, &bits) in layout.registers.iter().enumerate() {
        if bits == 0 {
            continue;
        }
        let row = args.all[i];
        let start = i * at(layout.bytes);
        if layout.bytes == 4 && bits == 32 {
            merge(&mut w.state.regs.w32[at(row)], &words[start / 4], w.exec);
        } else if layout.bytes == 8 && bits == 64 {
            let mut value = Row([0u64; LANES]);
            let (low, high) = (&words[start / 4], &words[start / 4 + 1]);
            for lane in 0..LANES {
                value.0[lane] = u64::from(low.0[lane]) | u64::from(high.0[lane]) << 32;
            }
            merge(&mut w.state.regs.w64[at(row)], &value, w.exec);
        } else {
            let mut value = Row([0u128; LANES]);
            for lane in 0..LANES {
                value.0[lane] = element(words, lane, start, layout, bits);
            }
            w.put_row(width(bits), row, &value);
        }
    }
}

/// One element out of the loaded words, extended to its register.
fn element<const WORDS: usize>(
    words: &[Row<u32>; WORDS],
    lane: usize,
    start: usize,
    layout: &Layout,
    bits: u32,
) -> u128 {
    let mut value = 0u128;
    for i in 0..at(layout.bytes) {
        let byte = words[(start + i) / 4].0[lane] >> (8 * ((start + i) % 4)) & 0xff;
        value |= u128::from(byte) << (8 * i);
    }
    if layout.signed {
        let unused = 128 - 8 * layout.bytes;
        value = ((value << unused).cast_signed() >> unused).cast_unsigned();
    }
    if bits < 128 { value & ((1 << bits) - 1) } else { value }
}

fn store<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let space = space(spec);
    let bound = store_to::<I>(spec, space)?;
    Ok(if spec.get("cop") == Some("wt") { talking(bound, space) } else { bound })
}

fn store_ordered<I: Simd>(spec: &Spec<'_>) -> Result<Bound, Refusal> {
    let space = space(spec);
    let bound = store_to::<I>(spec, space)?;
    Ok(talking(bound, space))
}

fn store_to<I: Simd>(spec: &Spec<'_>, space: Space) -> Result<Bound, Refusal> {
    let layout = layout(spec, 1)?;
    let mut slots =
        vec![Slot::Address, Slot::SrcVec(layout.registers.iter().map(|bits| any_type(*bits)).collect())];
    hint_slot(spec, &mut slots);
    let total = layout.bytes * u32::try_from(layout.registers.len()).unwrap_or(1);
    if total == 4 && layout.registers == [32] {
        return Ok(Bound::fallible(slots, move |w, args| {
            if space == Space::Shared && I::vectorize(|| w.put_shared_words::<I, 1>(args.at[0], &args.o[..1]))
            {
                return Ok(Flow::Next);
            }
            let row = w.state.regs.w32[at(args.o[0])];
            w.store(actual(space, args.at[0], w), args.at[0], 4, &[row])?;
            Ok(Flow::Next)
        }));
    }
    let whole =
        space == Space::Shared && layout.registers.iter().all(|bits| *bits == 32) && layout.bytes == 4;
    if whole && total == 16 {
        return Ok(Bound::fallible(slots, move |w, args| {
            if I::vectorize(|| w.put_shared_words::<I, 4>(args.at[0], &args.o[..4])) {
                return Ok(Flow::Next);
            }
            store_words::<4>(w, args, space, total, &layout)
        }));
    }
    Ok(match total {
        0..=4 => Bound::fallible(slots, move |w, args| store_words::<1>(w, args, space, total, &layout)),
        5..=8 => Bound::fallible(slots, move |w, args| store_words::<2>(w, args, space, total, &layout)),
        9..=16 => Bound::fallible(slots, move |w, args| store_words::<4>(w, args, space, total, &layout)),
        _ => Bound::fallible(slots, move |w, args| store_words::<8>(w, args, space, total, &layout)),
    })
}

#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "one byte at a time")]
fn store_words<const WORDS: usize>(
    w: &mut Warp<'_, '_>,
    args: &Args,
    space: Space,
    total: u32,
    layout: &Layout,
) -> Result<Flow, Flow> {
    let mut words = [Row([0u32; LANES]); WORDS];
    for (i, &bits) in layout.registers.iter().enumerate() {
        let row = args.all[i];
        let start = i * at(layout.bytes);
        if layout.bytes == 4 && bits == 32 {
            words[start / 4] = w.state.regs.w32[at(row)];
        } else {
            let value = w.get_row(width(bits), row);
            for lane in 0..LANES {
                for b in 0..at(layout.bytes) {
                    let byte = (value.0[lane] >> (8 * b)) as u32 & 0xff;
                    words[(start + b) / 4].0[lane] |= byte << (8 * ((start + b) % 4));
                }
            }
        }
    }
    w.store(actual(space, args.at[0], w), args.at[0], total, &words)?;
    Ok(Flow::Next)
}
