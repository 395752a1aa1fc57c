//! The syntax boxes: `add{.rnd}{.ftz}{.sat}.f32 d, a, b; .rnd = .rn .rz .rm .rp`, parsed once and matched against the
//! modifiers of an instruction, in any order.

use crate::machine::Type;
use std::sync::Arc;

/// A parsed syntax box.
#[derive(Debug, Clone)]
pub struct Form {
    /// The box as written in the table.
    pub text: &'static str,
    /// The part before the first modifier.
    pub opcode: &'static str,
    /// The operand list as written, for the documentation.
    pub operands: &'static str,
    parts: Vec<Part>,
}

#[derive(Debug, Clone)]
struct Part {
    /// The name of a class, or the literal modifier.
    name: &'static str,
    /// The accepted values: those of the class, or the literal itself.
    values: Vec<&'static str>,
    optional: bool,
}

/// The modifiers of an instruction, matched to the parts of a form.
#[derive(Debug, Clone)]
pub struct Modifiers<'f> {
    form: &'f Form,
    chosen: Arc<[Option<&'static str>]>,
}

impl Form {
    /// Parses a syntax box. The boxes are constants of this crate and a test checks them, so this does not report errors:
    /// it skips malformed parts.
    pub fn parse(text: &'static str) -> Form {
        let mut sections = text.split(';');
        let head = sections.next().unwrap_or("").trim();
        let classes: Vec<(&'static str, Vec<&'static str>)> = sections
            .filter_map(|section| section.split_once('='))
            .map(|(name, values)| {
                (
                    name.trim().trim_start_matches('.'),
                    values.split_whitespace().map(|v| v.trim_start_matches('.')).collect(),
                )
            })
            .collect();
        let (dotted, operands) = head.split_once(char::is_whitespace).unwrap_or((head, ""));
        let opcode_end = dotted.find(['.', '{']).unwrap_or(dotted.len());
        let (opcode, mut rest) = dotted.split_at(opcode_end);
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let optional = rest.starts_with('{');
            let body = rest.trim_start_matches(['{', '.']);
            let end = body.find(['.', '{', '}']).unwrap_or(body.len());
            let name = &body[..end];
            rest = body[end..].trim_start_matches('}');
            let values = classes
                .iter()
                .find(|(class, _)| *class == name)
                .map_or_else(|| vec![name], |(_, values)| values.clone());
            parts.push(Part { name, values, optional });
        }
        Form { text, opcode, operands: operands.trim(), parts }
    }

    /// Matches the modifiers of an instruction: each of them must be used, and every mandatory part must be present. The
    /// order is free, except for types and layouts: they fill the parts that accept them from left to right.
    pub fn matches<'f>(&'f self, given: &[&str]) -> Option<Modifiers<'f>> {
        let mut chosen = vec![None; self.parts.len()];
        let (mut next_type, mut next_layout) = (0, 0);
        for modifier in given {
            // `set.eq.u16.f16` and `set.eq.f16.u16` are different instructions: the order of types matters.
            let is_type = Type::parse(modifier).is_some();
            // The same holds for the layouts of the two matrices.
            let is_layout = matches!(*modifier, "row" | "col");
            let (slot, value) = self.parts.iter().enumerate().find_map(|(i, part)| {
                let free =
                    chosen[i].is_none() && (!is_type || i >= next_type) && (!is_layout || i >= next_layout);
                part.values.iter().find(|value| free && *value == modifier).map(|value| (i, *value))
            })?;
            chosen[slot] = Some(value);
            if is_type {
                next_type = slot + 1;
            }
            if is_layout {
                next_layout = slot + 1;
            }
        }
        let complete = self.parts.iter().zip(&chosen).all(|(part, value)| part.optional || value.is_some());
        complete.then(|| Modifiers { form: self, chosen: chosen.into() })
    }

    /// Spellings of the form that together use every value of every part at least once: the shortest first, then each
    /// alternative of each part, then all optional parts together.
    pub fn spellings(&self) -> Vec<Vec<&'static str>> {
        let base: Vec<Option<usize>> = self.parts.iter().map(|p| (!p.optional).then_some(0)).collect();
        let mut picks = vec![base.clone()];
        for (i, part) in self.parts.iter().enumerate() {
            for v in 0..part.values.len() {
                let mut pick = base.clone();
                pick[i] = Some(v);
                picks.push(pick);
            }
        }
        picks.push(vec![Some(0); self.parts.len()]);
        picks.sort();
        picks.dedup();
        picks
            .into_iter()
            .map(|pick| self.parts.iter().zip(pick).filter_map(|(p, v)| v.map(|v| p.values[v])).collect())
            .collect()
    }
}

impl<'f> Modifiers<'f> {
    /// The form that matched.
    pub fn form(&self) -> &'f Form {
        self.form
    }

    /// The value chosen for a class such as `rnd`, or for a literal such as `ftz`.
    pub fn get(&self, name: &str) -> Option<&'static str> {
        self.form
            .parts
            .iter()
            .zip(&*self.chosen)
            .find(|(part, _)| part.name == name)
            .and_then(|(_, value)| *value)
    }

    /// All modifiers of the instruction, in the order of the form.
    pub fn values(&self) -> impl Iterator<Item = &'static str> {
        self.chosen.iter().filter_map(|value| *value)
    }

    /// Whether the instruction has the optional literal (or any value of the optional class).
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_match_in_any_order_and_types_fill_from_the_left() {
        let form = Form::parse(
            "cvt{.rnd}{.sat}.dtype.atype d, a; .rnd = .rn .rz; .dtype = .f16 .f32; .atype = .f16 .f32",
        );
        assert_eq!((form.opcode, form.operands), ("cvt", "d, a"));
        let m = form.matches(&["f16", "rn", "f32"]).unwrap();
        assert_eq!(
            (m.get("rnd"), m.get("dtype"), m.get("atype"), m.has("sat")),
            (Some("rn"), Some("f16"), Some("f32"), false)
        );
        assert!(form.matches(&["rn", "f16"]).is_none(), "a type is missing");
        assert!(form.matches(&["rn", "rz", "f16", "f32"]).is_none(), "two roundings");
        assert!(form.matches(&["rn", "f16", "f32", "ftz"]).is_none(), "not in the box");
        let form = Form::parse("set.f16.stype d, a, b; .stype = .u16 .s16");
        assert!(
            form.matches(&["f16", "u16"]).is_some() && form.matches(&["u16", "f16"]).is_none(),
            "the order of types matters"
        );
    }

    #[test]
    fn spellings_use_every_value() {
        let form = Form::parse("op{.x}.type d; .x = .a .b; .type = .u32 .s32");
        let all = form.spellings();
        assert!(all.contains(&vec!["u32"]) && all.contains(&vec!["s32"]) && all.contains(&vec!["b", "u32"]));
        assert!(all.iter().all(|s| form.matches(s).is_some()));
    }
}
