//! Parses budgets, toggles, targets, baselines, gates and timing from TOML.

use toml::de::DeValue;
use warpproof_check::Source;

use super::model::{
    Baseline, Budget, FigureThreshold, Gate, Grades, L2, Peer, Resource, Role, Target, Threshold, Timing,
    Toggle,
};
use super::problem::At;
use super::section::{File, Section, choice_of, integer_of, text_of};
use crate::{Comparison, Stage};

const RESOURCES: [(&str, Resource); 10] = [
    ("registers", Resource::Registers),
    ("shared_bytes", Resource::SharedBytes),
    ("stack_bytes", Resource::StackBytes),
    ("spill_store_bytes", Resource::SpillStoreBytes),
    ("spill_load_bytes", Resource::SpillLoadBytes),
    ("local_bytes", Resource::LocalBytes),
    ("barriers", Resource::Barriers),
    ("constant_bytes", Resource::ConstantBytes),
    ("occupancy", Resource::Occupancy),
    ("blocks_per_multiprocessor", Resource::BlocksPerMultiprocessor),
];

impl Resource {
    /// Its name.
    pub fn name(self) -> &'static str {
        RESOURCES.iter().find(|(_, resource)| *resource == self).map_or("", |(name, _)| name)
    }

    /// Whether a larger value is better.
    pub fn more_is_better(self) -> bool {
        matches!(self, Resource::Occupancy | Resource::BlocksPerMultiprocessor)
    }
}

/// `at_most` or `at_least`, and `source`.
fn threshold(file: &mut File<'_>, section: &mut Section<'_, '_>) -> Threshold {
    let (most, least) = (section.real(file, "at_most"), section.real(file, "at_least"));
    let source = section.prose(file, "source");
    if !section.has("source") {
        let sentence = format!("{} has a threshold without a source", section.what);
        file.wrong_with(section.span.clone(), sentence, "source = \"where the number comes from\"");
    }
    let (comparison, value) = match (most, least) {
        (Some(value), None) => (Comparison::AtMost, value.value),
        (None, Some(value)) => (Comparison::AtLeast, value.value),
        (Some(_), Some(_)) => {
            file.wrong(
                section.span.clone(),
                format!("{} has both at_most and at_least; write two of them", section.what),
            );
            (Comparison::AtMost, 0.0)
        }
        (None, None) => {
            if !section.has("at_most") && !section.has("at_least") {
                let help = "at_most = … or at_least = …";
                file.wrong_with(section.span.clone(), format!("{} has no threshold", section.what), help);
            }
            (Comparison::AtMost, 0.0)
        }
    };
    Threshold { comparison, value, source: source.unwrap_or_default().value }
}

pub(super) fn budgets(file: &mut File<'_>, root: &mut Section<'_, '_>) -> Vec<Budget> {
    let mut budgets = Vec::new();
    for mut section in root.sections(file, "budget") {
        section.missing(file, "resource", "resource = \"registers\"");
        let resource = section.choice(file, "resource", &RESOURCES);
        let threshold = threshold(file, &mut section);
        let candidates = section.texts(file, "candidates").unwrap_or_default();
        let span = section.span.clone();
        section.close(file);
        let Some(resource) = resource else { continue };
        let wanted = if resource.value.more_is_better() { Comparison::AtLeast } else { Comparison::AtMost };
        if threshold.comparison != wanted {
            let right = if resource.value.more_is_better() { "at_least" } else { "at_most" };
            file.wrong(span, format!("expected {right} for a budget of {}", resource.value.name()));
        }
        if resource.value == Resource::Occupancy && !(0.0..=1.0).contains(&threshold.value) {
            file.wrong_with(resource.span.clone(), "occupancy must be from 0 to 1", "0.5 is 50 %");
        } else if threshold.value < 0.0 {
            file.wrong(resource.span.clone(), "a budget must not be negative");
        }
        budgets.push(Budget { resource, threshold, candidates });
    }
    budgets
}

/// A macro's value: an integer, true or false (1 or 0), or a string.
pub(super) fn macro_value(
    file: &mut File<'_>,
    key: &str,
    value: &toml::Spanned<DeValue<'_>>,
) -> Option<At<String>> {
    match value.get_ref() {
        DeValue::Boolean(flag) => Some(At::new(u8::from(*flag).to_string(), value.span())),
        DeValue::Integer(_) => {
            integer_of(file, key, value).map(|number| At::new(number.value.to_string(), number.span))
        }
        DeValue::String(text) => {
            let plain = text.len() <= 256 && !text.contains(|c: char| c.is_control());
            if !plain {
                file.wrong(value.span(), format!("`{key}` must be one line of at most 256 bytes"));
            }
            plain.then(|| At::new(text.to_string(), value.span()))
        }
        _ => {
            file.wrong(value.span(), format!("`{key}` must be an integer, true, false or a string"));
            None
        }
    }
}

pub(super) fn toggles(file: &mut File<'_>, root: &mut Section<'_, '_>, attention: bool) -> Vec<Toggle> {
    let mut toggles = Vec::new();
    for mut section in root.sections(file, "toggle") {
        for (key, help) in [("name", "the macro"), ("values", "values = [0, 1]")] {
            section.missing(file, key, help);
        }
        if !attention {
            section.missing(file, "default", "the value if a candidate does not set it");
        }
        let name = section.identifier(file, "name").unwrap_or_default();
        let mut values: Vec<String> = Vec::new();
        if let Some((span, list)) = section.list(file, "values", false) {
            if list.len() < 2 {
                file.wrong(span, "a toggle needs at least two values");
            }
            for value in
                list.into_iter().filter_map(|value| macro_value(file, "values", value)).collect::<Vec<_>>()
            {
                if values.contains(&value.value) {
                    file.wrong(value.span, format!("duplicate value {}", value.value));
                } else {
                    values.push(value.value);
                }
            }
        }
        let default = section.get("default").and_then(|value| macro_value(file, "default", value));
        if let Some(default) = &default
            && !values.contains(&default.value)
        {
            file.unknown(default.span.clone(), "value", default, values.iter().map(String::as_str));
        }
        let description = section.prose(file, "description").map(|text| text.value);
        section.close(file);
        toggles.push(Toggle { name, values, default: default.map(|default| default.value), description });
    }
    toggles
}

pub(super) fn target(file: &mut File<'_>, root: &mut Section<'_, '_>) -> Target {
    root.missing(file, "target", "[target] with architectures = [\"sm_89\"]");
    let Some(mut section) = root.section(file, "target") else {
        return Target { architectures: Vec::new(), devices: Vec::new() };
    };
    section.missing(file, "architectures", "architectures = [\"sm_89\"]");
    let architectures = section.texts(file, "architectures").unwrap_or_default();
    let devices = section.texts(file, "devices").unwrap_or_default();
    section.close(file);
    Target { architectures, devices }
}

pub(super) fn baselines(file: &mut File<'_>, root: &mut Section<'_, '_>) -> Vec<Baseline> {
    const ROLES: [(&str, Role); 3] =
        [("speed", Role::Speed), ("bitwise", Role::Bitwise), ("context", Role::Context)];
    let mut baselines = Vec::new();
    for mut section in root.sections(file, "baseline") {
        section.missing(file, "role", "role = \"speed\", \"bitwise\" or \"context\"");
        let role = section.choice(file, "role", &ROLES);
        let (candidate, external) = (section.text(file, "candidate"), section.name(file, "external"));
        let candidates = section.texts(file, "for").unwrap_or_default();
        let span = section.span.clone();
        section.close(file);
        let who = match (candidate, external) {
            (Some(name), None) => Peer::Candidate(name),
            (None, Some(name)) => Peer::External(name),
            _ => {
                let help = "candidate = \"…\" or external = \"…\"";
                file.wrong_with(span, "expected either a candidate or an external kernel", help);
                continue;
            }
        };
        let Some(role) = role else { continue };
        if matches!(who, Peer::External(_)) && role.value == Role::Bitwise {
            file.wrong(role.span, "an external kernel cannot be a bitwise baseline");
        }
        baselines.push(Baseline { who, role: role.value, candidates });
    }
    baselines
}

pub(super) fn gates(file: &mut File<'_>, root: &mut Section<'_, '_>) -> Vec<Gate> {
    root.missing(file, "gate", "[[gate]] with stage = \"build\"");
    let mut gates: Vec<Gate> = Vec::new();
    for mut section in root.sections(file, "gate") {
        section.missing(file, "stage", "stage = \"build\"");
        let stage = section.choice(
            file,
            "stage",
            &Stage::ALL.iter().map(|stage| (stage.as_str(), *stage)).collect::<Vec<_>>(),
        );
        let thresholds =
            section.sections(file, "threshold").into_iter().map(|section| figure(file, section)).collect();
        let checks = stage.as_ref().is_some_and(|stage| stage.value == Stage::Checks);
        let allow = if checks { section.texts(file, "allow").unwrap_or_default() } else { Vec::new() };
        let sources = Source::ALL.map(Source::name);
        for source in allow.iter().filter(|source| Source::parse(&source.value).is_none()) {
            file.unknown(source.span.clone(), "source", &source.value, sources.into_iter());
        }
        let schedules = if checks {
            section.within(file, "schedules", 1, 10_000).and_then(|n| u32::try_from(n.value).ok())
        } else {
            None
        };
        let regressions = if stage.as_ref().is_some_and(|stage| stage.value == Stage::Counters) {
            let listed = section.sections(file, "regression");
            listed.into_iter().map(|section| figure(file, section)).collect()
        } else {
            Vec::new()
        };
        let parts = [Stage::Correct, Stage::Checks, Stage::Counters];
        let shapes = if stage.as_ref().is_some_and(|stage| parts.contains(&stage.value)) {
            section.texts(file, "shapes")
        } else {
            None
        };
        let optional = section.flag(file, "optional").unwrap_or(false);
        section.close(file);
        let Some(stage) = stage else { continue };
        if let Some(before) = gates.last()
            && before.stage.value >= stage.value
        {
            let (name, before) = (stage.value.as_str(), before.stage.value.as_str());
            let order: Vec<&str> = Stage::ALL.iter().map(|stage| stage.as_str()).collect();
            let sentence = if name == before {
                format!("duplicate stage {name}")
            } else {
                format!("stage {name} cannot run after {before}")
            };
            file.wrong_with(stage.span.clone(), sentence, format!("the order is {}", order.join(", ")));
        }
        gates.push(Gate { stage, thresholds, schedules, allow, regressions, shapes, optional });
    }
    gates
}

fn figure(file: &mut File<'_>, mut section: Section<'_, '_>) -> FigureThreshold {
    section.missing(file, "figure", "the name of a figure of the stage");
    // Names of figures are free text.
    let figure = section.prose(file, "figure").unwrap_or_default();
    let threshold = threshold(file, &mut section);
    section.close(file);
    FigureThreshold { figure, threshold }
}

pub(super) fn timing(file: &mut File<'_>, root: &mut Section<'_, '_>) -> Option<Timing> {
    const STATES: [(&str, L2); 2] = [("warm", L2::Warm), ("cold", L2::Cold)];
    let mut section = root.section(file, "timing")?;
    section.missing(file, "l2", "l2 = [\"warm\", \"cold\"]: a time depends on the state of the cache");
    section.missing(file, "reduction", "reduction = { at_least = 0.05, source = \"…\" }");
    let mut l2 = Vec::new();
    if let Some((span, values)) = section.list(file, "l2", true) {
        for value in values {
            let Some(text) = text_of(file, "l2", value) else { continue };
            let Some(state) = choice_of(file, "l2", &text, &STATES) else { continue };
            if l2.contains(&state) {
                file.wrong(text.span, format!("duplicate {}", text.value));
            } else {
                l2.push(state);
            }
        }
        if l2.is_empty() {
            file.wrong(span, "l2 must name a warm or a cold cache");
        }
    }
    let pairs = section.within(file, "pairs", 2, 100_000).map_or(100, |pairs| pairs.value);
    let confidence = section.real_within(file, "confidence", 0.5, 0.9999).map_or(0.95, |number| number.value);
    let reduction = section.section(file, "reduction").map(|mut inner| {
        let threshold = threshold(file, &mut inner);
        if threshold.comparison != Comparison::AtLeast || !(-1.0..1.0).contains(&threshold.value) {
            let help = "0.05 is 5 % less latency";
            file.wrong_with(
                inner.span.clone(),
                "expected at_least with a number below 1 for a latency reduction",
                help,
            );
        }
        inner.close(file);
        threshold
    });
    let grades = section.section(file, "grades").map(|inner| grades(file, inner, reduction.as_ref()));
    section.close(file);
    let none = || Threshold { comparison: Comparison::AtLeast, value: 0.0, source: String::new() };
    Some(Timing {
        l2,
        pairs: u32::try_from(pairs).unwrap_or(100),
        confidence,
        reduction: reduction.unwrap_or_else(none),
        grades,
    })
}

fn grades(file: &mut File<'_>, mut section: Section<'_, '_>, reduction: Option<&Threshold>) -> Grades {
    let mut least = reduction.map_or(f64::NEG_INFINITY, |threshold| threshold.value);
    let mut grade = |key| {
        section.missing(file, key, "grades need good, excellent, outstanding and source");
        let Some(grade) = section.real(file, key) else { return 0.0 };
        if grade.value >= 1.0 || grade.value < least {
            let sentence = format!(
                "grade {key} is {}; grades must rise from the threshold and stay below 1",
                grade.value
            );
            file.wrong(grade.span.clone(), sentence);
        }
        least = grade.value;
        grade.value
    };
    let (good, excellent, outstanding) = (grade("good"), grade("excellent"), grade("outstanding"));
    section.missing(file, "source", "where the grades come from");
    let source = section.prose(file, "source").unwrap_or_default().value;
    section.close(file);
    Grades { good, excellent, outstanding, source }
}
