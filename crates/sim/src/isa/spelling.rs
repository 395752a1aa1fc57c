//! Self-consistency of the table: every spelling of every form finds that form and binds.

use super::{Bound, Form, Op, Refusal, Shape, Slot, Spec, find, table};
use crate::machine::Type;
use crate::simd::Level;
use std::collections::BTreeSet;

/// Entries whose routine is not built by `bind`: the decoder builds `call`, because it takes names that are not in the
/// table.
const BUILT_BY_DECODING: &[&str] = &["call"];

/// One operand of a form as written in its box.
#[derive(Clone, Debug, PartialEq)]
struct Operand {
    text: &'static str,
    optional: bool,
}

/// Splits `d, [a], b{, cache-policy}, {!}c` at its commas; `{, x}` is optional.
fn operands(form: &Form) -> Vec<Operand> {
    let mut rest = form.operands;
    let mut found = Vec::new();
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix("{,") {
            let not = if inner.trim_start().starts_with("{!}") {
                inner.find('}').map_or(0, |at| at + 1)
            } else {
                0
            };
            let end = inner[not..].find('}').map_or(inner.len(), |at| at + not);
            found.push(Operand { text: inner[..end].trim(), optional: true });
            rest = inner[end..].trim_start_matches(['}', ' ']);
            continue;
        }
        rest = rest.trim_start_matches([',', ' ']);
        let not = if rest.starts_with("{!}") { 3 } else { 0 };
        let list = match rest.chars().next() {
            Some('(') => rest.find(')').unwrap_or(0),
            Some('[') => rest.find(']').unwrap_or(0),
            // The elements of a vector.
            Some('{') if not == 0 => rest.find('}').unwrap_or(0),
            _ => 0,
        };
        let end = rest[not + list..].find([',', '{']).map_or(rest.len(), |at| at + not + list);
        found.push(Operand { text: rest[..end].trim(), optional: false });
        rest = rest[end..].trim_start();
    }
    found
}

/// Registers with the widths of the spelled types: the first type is that of the result, the last that of the other
/// operands.
fn register(spelling: &[&str], first: bool) -> Shape {
    let mut types = spelling.iter().filter_map(|modifier| Type::parse(modifier));
    let ty = if first { types.next() } else { types.next_back() };
    let bits = ty.map_or(32, |ty| match ty {
        Type::Pred => 1,
        ty => ty.bytes().max(2) * 8,
    });
    let elements = spelling.iter().find_map(|modifier| match *modifier {
        "v2" => Some(2),
        "v4" => Some(4),
        "v8" => Some(8),
        _ => None,
    });
    match elements {
        Some(count) => Shape::Vector(vec![Shape::Register(bits); count]),
        None => Shape::Register(bits),
    }
}

/// The possible forms of an operand; most have one.
fn shapes(text: &str, position: usize, spelling: &[&str]) -> Vec<Shape> {
    let plain = register(spelling, position == 0);
    let pair = || Shape::Pair(Box::new((Shape::Register(32), Shape::Register(1))));
    let words = |count: usize| Shape::Vector(vec![Shape::Register(32); count]);
    match text {
        "[tensorMap, tensorCoords]" => vec![Shape::Image(vec![words(tensor_rank(spelling))])],
        "im2colOffsets" => vec![Shape::Vector(vec![Shape::Register(16); tensor_rank(spelling) - 2])],
        "byteMask" | "ctaMask" | "scale-factor" => vec![Shape::Register(16)],
        "ord" | "initval" => vec![Shape::Integer(0)],
        "new_val"
            if ["elemtype", "interleave_layout", "swizzle_mode", "fill_mode"]
                .iter()
                .any(|f| spelling.contains(f)) =>
        {
            vec![Shape::Integer(0)]
        }
        _ if text.starts_with('[') && text.contains(',') => {
            vec![Shape::Image(vec![words(coordinates(spelling, true))])]
        }
        "offsets" | "dPdx" | "dPdy" => vec![words(coordinates(spelling, false))],
        "lod" => vec![Shape::Register(32)],
        "d[|p]" if matches!(plain, Shape::Vector(_)) => {
            vec![plain.clone(), Shape::Pair(Box::new((plain, Shape::Register(1))))]
        }
        _ if text.starts_with('[') => vec![Shape::Address],
        _ if text.contains("[|") => vec![plain, pair()],
        "src-size | ignore-src" => vec![Shape::Register(32), Shape::Register(1)],
        _ if text.contains('|') => vec![pair()],
        "r" if spelling.iter().any(|name| name.starts_with("16x") || *name == "32x32b") => {
            vec![words(tensor_registers(spelling))]
        }
        "s-desc" | "b-desc" if !spelling.contains(&"mma_async") => vec![Shape::Register(64)],
        "a-operand" => vec![Shape::Register(64), Shape::Address],
        "disable-output-lane" => vec![words(if spelling.contains(&"cta_group::2") { 8 } else { 4 })],
        "try_cancel_response" => vec![Shape::Register(128)],
        "enable-input-d" => vec![Shape::Register(1)],
        "tgt" | "tlist" => vec![Shape::Other],
        "immLut" | "N" | "imm-reg-count" => vec![Shape::Integer(24)],
        // The sparsity selector.
        "f" if position == 5 => vec![Shape::Integer(0)],
        "sp-sel" | "immHalfSplitoff" | "scale-input-d" => vec![Shape::Integer(0)],
        "a" if spelling.contains(&"mma_async") => vec![Shape::Register(64), words(4)],
        "scale-d" => vec![Shape::Register(1), Shape::Integer(1)],
        "imm-scale-a" | "imm-scale-b" | "imm-trans-a" | "imm-trans-b" => vec![Shape::Integer(1)],
        "ids-a" | "ids-b" => vec![Shape::Vector(vec![Shape::Integer(0); 2])],
        "immAlign" => vec![Shape::Integer(16)],
        "cache-policy" => vec![Shape::Register(64)],
        "cp-size" => [4, 8, 16].map(Shape::Integer).to_vec(),
        _ if text.parse::<i64>().is_ok() => vec![Shape::Integer(text.parse().unwrap_or(0))],
        // Any source may be an immediate instead.
        _ => vec![plain],
    }
}

/// Registers of a load from tensor memory or a store to it.
fn tensor_registers(spelling: &[&str]) -> usize {
    let each = |name: &&str| match *name {
        "16x128b" => 2,
        "16x256b" => 4,
        _ => 1,
    };
    let number = |name: &&str| name.strip_prefix('x')?.parse::<usize>().ok();
    spelling.iter().find_map(number).unwrap_or(1) * spelling.iter().map(each).max().unwrap_or(1)
}

/// Coordinates of a tensor.
fn tensor_rank(spelling: &[&str]) -> usize {
    (1..=5).find(|rank| spelling.contains(&format!("{rank}d").as_str())).unwrap_or(0)
}

/// Coordinates of a texture or surface, with the layer and the padding or without.
fn coordinates(spelling: &[&str], all: bool) -> usize {
    let of = |name: &&&str| matches!(**name, "1d" | "2d" | "3d" | "a1d" | "a2d" | "cube" | "acube");
    match spelling.iter().find(of).copied() {
        Some("1d") => 1,
        Some("a1d") => 1 + usize::from(all),
        Some("2d") => 2,
        Some("a2d") if !all => 2,
        _ => 4,
    }
}

/// Optional operands that are present exactly if the instruction has one of these modifiers.
const TIED: &[(&str, &[&str])] = &[
    ("cache-policy", &["L2::cache_hint"]),
    ("scale-factor", &["scaled::n2::ue8m0"]),
    ("{!}c", &["and", "or", "xor"]),
];

/// Every operand list of a spelling: with and without the optional operands.
fn lists(form: &Form, spelling: &[&str]) -> Vec<Vec<Shape>> {
    let mut lists = vec![Vec::new()];
    for (position, operand) in operands(form).iter().enumerate() {
        let tied = TIED.iter().find(|(text, _)| operand.optional && *text == operand.text);
        let given = tied.map(|(_, modifiers)| modifiers.iter().any(|modifier| spelling.contains(modifier)));
        let (with, without) = given.map_or((true, operand.optional), |given| (given, !given));
        let mut longer = if without { lists.clone() } else { Vec::new() };
        if with {
            for list in &lists {
                let shapes = shapes(operand.text, position, spelling);
                longer.extend(shapes.into_iter().map(|shape| [list.clone(), vec![shape]].concat()));
            }
        }
        lists = longer;
    }
    // `wgmma` transposes A only if it is in shared memory.
    if form.text.contains("imm-trans-a") {
        lists.retain(|list| matches!(list.get(1), Some(Shape::Vector(_))) == (list.len() % 2 == 1));
    }
    lists
}

/// Whether the routine accepts the operands as written.
fn fits(bound: &Bound, written: &[Shape]) -> bool {
    bound.slots.len() == written.len()
        && bound.slots.iter().zip(written).all(|(slot, shape)| match (slot, shape) {
            (Slot::Static, _) | (Slot::Image(_) | Slot::Tensor(_), Shape::Image(_)) => true,
            (Slot::Image(types), Shape::Address) => types.is_empty(),
            (Slot::Address, shape) | (_, shape @ Shape::Address) => {
                *slot == Slot::Address && *shape == Shape::Address
            }
            (Slot::Label | Slot::Table, shape) | (_, shape @ Shape::Other) => {
                matches!(slot, Slot::Label | Slot::Table) && *shape == Shape::Other
            }
            (slot, Shape::Pair(_)) => {
                matches!(slot, Slot::DstPair(_) | Slot::DstVec(_) | Slot::DstVecPair(_))
            }
            (Slot::DstVec(slots), Shape::Vector(items)) => slots.len() == items.len(),
            (Slot::SrcVec(slots), Shape::Vector(items)) => slots.len() == items.len(),
            (_, shape) => !matches!(shape, Shape::Vector(_)),
        })
}

fn dotted(form: &Form, spelling: &[&str]) -> String {
    std::iter::once(form.opcode).chain(spelling.iter().copied()).collect::<Vec<_>>().join(".")
}

#[test]
fn every_spelling_binds() {
    let mut wrong = BTreeSet::new();
    let mut count = 0;
    for entry in table().iter().filter(|entry| !BUILT_BY_DECODING.contains(&entry.form.opcode)) {
        for spelling in entry.form.spellings() {
            for written in lists(&entry.form, &spelling) {
                // The third source of `min` and `max` is later than their forms.
                let third = matches!(entry.form.opcode, "min" | "max") && written.len() == 4;
                let first = if third { 100 } else { 0 };
                for level in Level::ALL {
                    let modifiers = entry.form.matches(&spelling).expect("a form matches its own spelling");
                    let spec = Spec {
                        modifiers,
                        operands: written.clone(),
                        sm: entry.definition.since.2.max(first),
                        used: u32::MAX,
                    };
                    let line = dotted(&entry.form, &spelling);
                    if Op::of(&spec).is_none() {
                        wrong.insert(format!("{line} {written:?} is not described"));
                    }
                    match (entry.definition.bind.at(level))(&spec) {
                        Ok(bound) if fits(&bound, &written) => count += 1,
                        Ok(bound) => {
                            wrong.insert(format!("{line} {written:?} takes {:?}", bound.slots));
                        }
                        Err(Refusal::Gap(why) | Refusal::Malformed(why)) => {
                            wrong.insert(format!("{line} {written:?}: {why}"));
                        }
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{wrong:#?}", wrong.len());
    assert!(count > 5_000, "only {count} spellings");
}

/// A spelling finds its own form, or an earlier one of the same opcode and section: then the later box only extends the
/// earlier one. No form may be hidden completely.
#[test]
fn every_form_is_found() {
    let mut wrong = Vec::new();
    for (index, entry) in table().iter().enumerate() {
        let mut own = 0;
        for spelling in entry.form.spellings() {
            match find(entry.form.opcode, &spelling) {
                Ok((found, _)) if found == index => own += 1,
                Ok((found, _)) => {
                    let other = &table()[found];
                    if found > index || other.definition.manual != entry.definition.manual {
                        wrong.push(format!(
                            "{} of `{}` finds `{}`",
                            dotted(&entry.form, &spelling),
                            entry.form.text,
                            other.form.text
                        ));
                    }
                }
                Err(_) => wrong.push(format!("no form found for {}", dotted(&entry.form, &spelling))),
            }
        }
        if own == 0 {
            wrong.push(format!("`{}` is hidden by earlier forms", entry.form.text));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn boxes_are_well_formed() {
    let mut texts: Vec<&str> = table().iter().map(|entry| entry.form.text).collect();
    for text in &texts {
        let (mut depth, mut deepest) = (0i32, 0i32);
        for c in text.chars() {
            depth += i32::from(c == '{') - i32::from(c == '}');
            deepest = deepest.max(depth);
            assert!(depth >= 0, "unbalanced brace: {text}");
        }
        // One level for optional parts, and one more for a negation inside them.
        assert!(depth == 0 && deepest <= 2, "braces: {text}");
        for class in text.split(';').skip(1) {
            let (name, values) = class.split_once('=').unwrap_or_default();
            assert!(
                name.trim().starts_with('.') && !values.trim().is_empty(),
                "a class without name or values: {text}"
            );
            assert!(
                values.split_whitespace().all(|value| value.starts_with('.')),
                "a value without dot: {text}"
            );
        }
    }
    texts.sort_unstable();
    let twice: Vec<&&str> = texts.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| &pair[0]).collect();
    assert!(twice.is_empty(), "listed twice: {twice:#?}");
    for entry in table() {
        let (major, minor, sm) = entry.definition.since;
        assert!((1..=9).contains(&major) && minor <= 9 && sm >= 10, "since: {}", entry.form.text);
    }
}

#[test]
fn operand_texts_are_read() {
    let read =
        |text| operands(&Form::parse(text)).into_iter().map(|o| (o.text, o.optional)).collect::<Vec<_>>();
    assert_eq!(read("bar.red d, a{, b}, {!}c"), [("d", false), ("a", false), ("b", true), ("{!}c", false)]);
    assert_eq!(read("ld.b32 d, [a]{, cache-policy}"), [("d", false), ("[a]", false), ("cache-policy", true)]);
    assert_eq!(read("setp p[|q], a{, {!}c}"), [("p[|q]", false), ("a", false), ("{!}c", true)]);
    assert_eq!(read("match d[|p], a"), [("d[|p]", false), ("a", false)]);
    assert_eq!(read("exit"), []);
}
