//! The space of variants of a candidate: macros with their values, and the allowed combinations. `warpproof tune`
//! searches it.

use std::collections::BTreeMap;

use serde::Serialize;
use toml::Spanned;
use toml::de::DeValue;

use super::model::{Candidate, Program, Task};
use super::policy::macro_value;
use super::problem::{At, in_file};
use super::section::{File, Section, check_identifier, integer_of, shown};
use crate::expr::Expr;

/// Maximum values of one macro.
const MAX_VALUES: usize = 64;
/// Maximum macros of one space.
const MAX_KNOBS: usize = 32;
/// Maximum combinations that a space forbids.
const MAX_FORBIDDEN: usize = 64;

/// The space of variants of a candidate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Space {
    /// The candidate.
    pub candidate: At<String>,
    /// The macros that are varied, by name.
    pub knobs: Vec<Knob>,
    /// Expressions over the macros that must not be 0 for an allowed combination.
    pub require: Vec<At<Expr>>,
    /// Forbidden combinations, each some macros with their values.
    pub forbid: Vec<BTreeMap<String, String>>,
}

/// A macro and its values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Knob {
    /// The macro.
    pub name: At<String>,
    /// Its values; adjacent ones are neighbors in a search.
    pub values: Vec<String>,
}

pub(super) fn spaces(file: &mut File<'_>, root: &mut Section<'_, '_>) -> Vec<Space> {
    root.sections(file, "space").into_iter().map(|section| space(file, section)).collect()
}

fn space(file: &mut File<'_>, mut section: Section<'_, '_>) -> Space {
    section.missing(file, "candidate", "the candidate whose macros are varied");
    section.missing(file, "values", "values = { TILE = [16, 32, 64] }");
    let candidate = section.text(file, "candidate").unwrap_or_default();
    let mut knobs = Vec::new();
    if let Some(mut table) = section.section(file, "values") {
        for (name, value) in table.entries() {
            if check_identifier(file, &name) {
                let values = values(file, &name, value);
                knobs.push(Knob { name, values });
            }
        }
        if knobs.is_empty() || knobs.len() > MAX_KNOBS {
            file.wrong(table.span.clone(), format!("a space varies 1 to {MAX_KNOBS} macros"));
        }
    }
    let require = section.exprs(file, "require", 64).map_or_else(Vec::new, |require| require.value);
    let mut forbid = Vec::new();
    for mut combination in section.sections(file, "forbid") {
        // Every point of the space is compared with each.
        if forbid.len() == MAX_FORBIDDEN {
            let text = format!(
                "a space forbids at most {MAX_FORBIDDEN} combinations; use `require` to exclude many at once"
            );
            file.wrong(combination.span.clone(), text);
            break;
        }
        let mut one = BTreeMap::new();
        for (name, value) in combination.entries() {
            let knob = knobs.iter().find(|knob| knob.name.value == name.value);
            let Some(value) = macro_value(file, &name, value) else { continue };
            match knob {
                None => {
                    file.unknown(
                        name.span,
                        "macro",
                        &name.value,
                        knobs.iter().map(|knob| knob.name.as_str()),
                    );
                }
                Some(knob) if !knob.values.contains(&value.value) => {
                    file.unknown(value.span, "value", &value.value, knob.values.iter().map(String::as_str));
                }
                Some(_) => {
                    one.insert(name.value, value.value);
                }
            }
        }
        if one.is_empty() {
            file.wrong(combination.span.clone(), "a combination without macros forbids everything");
        }
        forbid.push(one);
    }
    section.close(file);
    Space { candidate, knobs, require, forbid }
}

/// `[16, 32]`, `{ from = 1, to = 4 }`, `{ from = 16, to = 128, times = 2 }`.
fn values(file: &mut File<'_>, name: &At<String>, value: &Spanned<DeValue<'_>>) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    match value.get_ref() {
        DeValue::Array(list) => {
            for value in list.iter().take(MAX_VALUES + 1) {
                let Some(value) = macro_value(file, name, value) else { continue };
                if values.contains(&value.value) {
                    file.wrong(value.span, format!("duplicate value {}", shown(&value.value)));
                } else {
                    values.push(value.value);
                }
            }
        }
        DeValue::Table(table) => {
            let mut section = Section::new("range", value.span(), table);
            section.missing(file, "from", "{ from = 1, to = 4 }");
            section.missing(file, "to", "{ from = 1, to = 4 }");
            let mut number = |key| {
                let value = section.get(key)?;
                integer_of(file, key, value).map(|number| number.value)
            };
            let (from, to, step, times) = (number("from"), number("to"), number("step"), number("times"));
            section.close(file);
            if step.is_some_and(|step| step < 1)
                || times.is_some_and(|times| times < 2 || from.is_some_and(|from| from < 1))
                || (step.is_some() && times.is_some())
            {
                let help = "step = 8 adds, times = 2 multiplies, from 1 on";
                file.wrong_with(
                    value.span(),
                    format!("the range of `{}` never reaches its end", name.value),
                    help,
                );
                return values;
            }
            let (Some(mut at), Some(to)) = (from, to) else { return values };
            while at <= to && values.len() <= MAX_VALUES {
                values.push(at.to_string());
                let next = match times {
                    Some(times) => at.checked_mul(times),
                    None => at.checked_add(step.unwrap_or(1)),
                };
                let Some(next) = next else { break };
                at = next;
            }
        }
        _ => {
            let help = "[16, 32, 64] or { from = 16, to = 64, times = 2 }";
            file.wrong_with(
                value.span(),
                format!("expected a list or a range as the values of `{}`", name.value),
                help,
            );
            return values;
        }
    }
    if let Some(odd) = values.iter().find(|value| value.contains([',', '[', ']'])) {
        let sentence = format!("`{}` cannot be varied: variants are named by their values", shown(odd));
        file.wrong(value.span(), sentence);
    }
    if values.is_empty() || values.len() > MAX_VALUES {
        file.wrong(value.span(), format!("`{}` has 1 to {MAX_VALUES} values", name.value));
        values.truncate(MAX_VALUES);
    }
    values
}

pub(super) fn check(file: &mut File<'_>, task: &Task) {
    for (index, space) in task.spaces.iter().enumerate() {
        let span = space.candidate.span.clone();
        let Some(candidate) = task.candidate(&space.candidate) else {
            let names = task.candidates.iter().map(|candidate| candidate.name.as_str());
            file.unknown(span, "candidate", &space.candidate, names);
            continue;
        };
        if task.spaces.iter().take(index).any(|other| other.candidate == space.candidate) {
            file.wrong(span, format!("candidate `{}` has two spaces", space.candidate.value));
        }
        for knob in &space.knobs {
            let toggle = task.toggles.iter().find(|toggle| toggle.name.value == knob.name.value);
            match toggle {
                Some(toggle) => {
                    for value in knob.values.iter().filter(|value| !toggle.values.contains(value)) {
                        let sentence = format!("toggle `{}` cannot be {}", knob.name.value, shown(value));
                        let help = format!("it is one of {}", toggle.values.join(", "));
                        file.wrong_with(knob.name.span.clone(), sentence, help);
                    }
                }
                None if candidate.defines.contains_key(&knob.name.value) => {}
                None => {
                    let sentence =
                        format!("`{}` is neither a toggle nor a define of the candidate", knob.name.value);
                    let help = "set its start value in the candidate's defines";
                    file.wrong_with(knob.name.span.clone(), sentence, help);
                }
            }
            if let Program::Rung { rung, .. } = &candidate.program
                && let Some(rung) = warpproof_kernels::ladder::rung(rung)
                && rung.toggles.iter().all(|toggle| toggle.name != knob.name.value)
            {
                let sentence = format!("rung {} has no toggle `{}`", rung.id, knob.name.value);
                file.wrong(knob.name.span.clone(), sentence);
            }
        }
        let integer = |knob: &&Knob| knob.values.iter().all(|value| value.parse::<i64>().is_ok());
        let fixed = task.integers(candidate);
        let varied = |name: &str| space.knobs.iter().any(|knob| knob.name.value == name);
        let mut known: Vec<&str> =
            space.knobs.iter().filter(integer).map(|knob| knob.name.as_str()).collect();
        known.extend(fixed.keys().map(String::as_str).filter(|name| !varied(name)));
        for expr in &space.require {
            for error in expr.problems(&known, true) {
                let problem = in_file(error, file.text, &expr.span);
                file.problems.push(problem);
            }
        }
    }
}

impl Task {
    /// The integer macros of a candidate.
    pub fn integers(&self, candidate: &Candidate) -> BTreeMap<String, i64> {
        let macros = self.macros(candidate);
        let split = macros.iter().filter_map(|one| one.split_once('='));
        split.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
    }

    /// A candidate with some macros changed: `tiled[TILE=32,PAD=1]`. Otherwise it equals its base: budgets and
    /// baselines that name the base also apply to it.
    pub fn variant(&self, base: &str, settings: &[(String, String)]) -> Result<Candidate, String> {
        let Some(of) = self.candidate(base) else { return Err(format!("there is no candidate `{base}`")) };
        let mut variant = of.clone();
        let said: Vec<String> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        variant.name = At::unsaid(format!("{base}[{}]", said.join(",")));
        variant.variant_of = Some(of.variant_of.clone().unwrap_or_else(|| base.to_owned()));
        variant.parent = Some(At::unsaid(base.to_owned()));
        variant.notes = super::Notes::default();
        for (name, value) in settings {
            if let Some(toggle) = self.toggles.iter().find(|toggle| toggle.name.value == *name) {
                if !toggle.values.contains(value) {
                    let values = toggle.values.join(", ");
                    return Err(format!("toggle `{name}` cannot be {}; it is one of {values}", shown(value)));
                }
                variant.toggles.insert(name.clone(), At::unsaid(value.clone()));
            } else if variant.defines.contains_key(name) {
                variant.defines.insert(name.clone(), At::unsaid(value.clone()));
            } else {
                return Err(format!("`{}` is neither a toggle nor a define of `{base}`", shown(name)));
            }
        }
        Ok(variant)
    }

    /// The variant with a name such as `tiled[TILE=32,PAD=1]`; `None` if the name does not have that form.
    pub fn variant_named(&self, name: &str) -> Option<Result<Candidate, String>> {
        let (base, rest) = name.split_once('[')?;
        let said = rest.strip_suffix(']')?;
        let mut settings: Vec<(String, String)> = Vec::new();
        for one in said.split(',').map(str::trim).filter(|one| !one.is_empty()) {
            let Some((name, value)) = one.split_once('=') else {
                return Some(Err(format!("expected NAME=VALUE, found `{}`", shown(one))));
            };
            let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
            if settings.iter().any(|(other, _)| *other == name) {
                return Some(Err(format!("`{}` is set twice", shown(&name))));
            }
            settings.push((name, value));
        }
        Some(self.variant(base.trim(), &settings))
    }
}

impl Candidate {
    /// Whether a list of candidates includes this one: by its name, or by the name of the candidate it varies.
    pub fn is_among(&self, names: &[At<String>]) -> bool {
        names
            .iter()
            .any(|name| name.value == self.name.value || Some(&name.value) == self.variant_of.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNGS: &str = r#"
name = "rungs"
version = 1
operator = "attention"
seeds = [1]
distributions = ["normal"]
shape = [{ name = "small", axes = { b = 1, h = 1, s = 32, d = 64 } }]
tolerance = { policy = "derived", derivation = "that of the family" }
target = { architectures = ["sm_89"], devices = ["l4"] }
gate = [{ stage = "build" }, { stage = "correct" }]
toggle = [{ name = "USE_TWO_LEVEL", values = [0, 1] }, { name = "USE_SMEM_SWIZZLE_XOR", values = [0, 1] }]
candidate = [{ name = "n4", rung = "n4" }, { name = "single", rung = "n4", toggles = { USE_TWO_LEVEL = 0 } }]

[[space]]
candidate = "n4"
values = { USE_TWO_LEVEL = [0, 1], USE_SMEM_SWIZZLE_XOR = [0, 1] }
"#;

    #[test]
    fn what_is_wrong_with_a_space_is_said() {
        let told = |from: &str, to: &str| {
            assert!(RUNGS.contains(from), "{from}");
            let problems = Task::parse(&RUNGS.replacen(from, to, 1)).unwrap_err();
            problems.iter().map(|problem| problem.sentence.clone()).collect::<Vec<_>>().join("; ")
        };
        let values = "values = { USE_TWO_LEVEL = [0, 1], USE_SMEM_SWIZZLE_XOR = [0, 1] }";
        assert!(told("candidate = \"n4\"\n", "candidate = \"n9\"\n").contains("n9"));
        assert!(told(values, "").contains("has no `values`"));
        assert!(told(values, "values = { TILE = [16, 32] }").contains("neither a toggle nor a define"));
        assert!(told(values, "values = { USE_TWO_LEVEL = [0, 0] }").contains("duplicate value"));
        assert!(
            told(values, "values = { USE_TWO_LEVEL = { from = 0, to = 4, times = 2 } }")
                .contains("never reaches its end")
        );
        assert!(told(values, "values = { USE_TWO_LEVEL = { from = 0, to = 9 } }").contains("cannot be 2"));
        assert!(told(values, "values = { USE_TWO_LEVEL = 1 }").contains("a list or a range"));
        assert!(told(values, &format!("{values}\nforbid = [{{ OTHER = 1 }}]")).contains("OTHER"));
        assert!(told(values, &format!("{values}\nforbid = [{{ }}]")).contains("forbids everything"));
        assert!(
            told(values, &format!("{values}\nrequire = [\"OTHER > 1\"]"))
                .contains("`OTHER` is not known here")
        );
    }
}
