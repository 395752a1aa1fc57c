//! From TOML to a task: candidates.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::DeValue;

use super::model::{
    Argument, AttentionOptions, Candidate, Kernel, Launch, Notes, Program, Scratch, Step, TensorType,
};
use super::policy::macro_value;
use super::problem::At;
use super::section::{File, Section, check_identifier, dtype_of, expr_of, text_of};

/// A path relative to the task, so that the task means the same on every machine.
pub(super) fn checked_path(file: &mut File<'_>, path: At<String>) -> At<String> {
    let absolute = path.starts_with(['/', '~']) || path.contains('\\') || path.get(1..2) == Some(":");
    if absolute || path.is_empty() || path.len() > 1024 || path.contains(|c: char| c.is_control()) {
        let help = "with `/` between folders, relative to the task file";
        file.wrong_with(path.span.clone(), "a task names files relative to itself", help);
    }
    path
}

pub(super) fn candidates(file: &mut File<'_>, root: &mut Section<'_, '_>) -> Vec<Candidate> {
    root.sections(file, "candidate").into_iter().map(|section| candidate(file, section)).collect()
}

fn candidate(file: &mut File<'_>, mut section: Section<'_, '_>) -> Candidate {
    section.missing(file, "name", "every candidate has a name");
    let name = section.name(file, "name").unwrap_or_default();
    let (source, ptx, rung) =
        (section.text(file, "source"), section.text(file, "ptx"), section.text(file, "rung"));
    let launch = section.sections(file, "launch");
    let scratch = section.sections(file, "scratch");
    let options = section.section(file, "options");
    let program = program(file, &section, Parts { source, ptx, rung, launch, scratch, options });
    let mut macros = |file: &mut File<'_>, key| {
        let mut found = BTreeMap::new();
        if let Some(mut table) = section.section(file, key) {
            for (name, value) in table.entries() {
                if check_identifier(file, &name)
                    && let Some(value) = macro_value(file, &name, value)
                {
                    // The place of the name: what may be wrong with it is that nobody declared it.
                    found.insert(name.value, At::new(value.value, name.span.start..value.span.end));
                }
            }
        }
        found
    };
    let (toggles, defines) = (macros(file, "toggles"), macros(file, "defines"));
    let flags = section.texts(file, "flags").unwrap_or_default();
    for flag in &flags {
        let plain = flag.trim_start_matches('-');
        if plain.starts_with("arch") || plain.starts_with("gpu-architecture") || plain.starts_with("gpu-code")
        {
            file.wrong(flag.span.clone(), "what is compiled for is said in [target]");
        } else if flag.starts_with("-D") || plain.starts_with("define-macro") || plain.starts_with('U') {
            file.wrong(flag.span.clone(), "macros are set by toggles and defines, where they are seen");
        }
    }
    let dtypes = section
        .texts(file, "dtypes")
        .map(|texts| texts.iter().filter_map(|text| dtype_of(file, text)).map(|dtype| dtype.value).collect());
    let shapes = section.texts(file, "shapes");
    let parent = section.text(file, "parent");
    let mut note = |key| section.prose(file, key).map(|text| text.value);
    let notes = Notes { hypothesis: note("hypothesis"), expected: note("expected"), cost: note("cost") };
    section.close(file);
    Candidate { name, program, toggles, defines, flags, dtypes, shapes, parent, variant_of: None, notes }
}

struct Parts<'d, 't> {
    source: Option<At<String>>,
    ptx: Option<At<String>>,
    rung: Option<At<String>>,
    launch: Vec<Section<'d, 't>>,
    scratch: Vec<Section<'d, 't>>,
    options: Option<Section<'d, 't>>,
}

fn program(file: &mut File<'_>, section: &Section<'_, '_>, parts: Parts<'_, '_>) -> Program {
    let span = section.span.clone();
    if let (Some(rung), None, None) = (&parts.rung, &parts.source, &parts.ptx) {
        if !parts.launch.is_empty() || !parts.scratch.is_empty() {
            file.wrong(span, "a rung brings its own launch");
        }
        let options = parts.options.map_or_else(AttentionOptions::default, |section| options(file, section));
        return Program::Rung { rung: rung.clone(), options };
    }
    if let Some(options) = &parts.options {
        file.wrong(options.span.clone(), "options are for rungs of the attention ladder");
    }
    if parts.launch.is_empty() {
        let help = "[[candidate.launch]] with kernel, grid, block and arguments";
        file.wrong_with(span.clone(), "a candidate needs a launch", help);
    }
    let launch = Launch {
        scratch: parts.scratch.into_iter().map(|section| scratch(file, section)).collect(),
        steps: parts.launch.into_iter().map(|section| step(file, section)).collect(),
    };
    match (parts.source, parts.ptx, parts.rung) {
        (Some(path), None, None) => Program::Source { file: checked_path(file, path), launch },
        (None, Some(path), None) => Program::Ptx { file: checked_path(file, path), launch },
        _ => {
            let help = "source = \"kernel.cu\", ptx = \"kernel.ptx\" or rung = \"n4\"";
            file.wrong_with(span, "a candidate has one of source, ptx and rung", help);
            Program::Source { file: At::default(), launch }
        }
    }
}

fn options(file: &mut File<'_>, mut section: Section<'_, '_>) -> AttentionOptions {
    if let Some(value) = section.get("causal") {
        let help = "write it in [reference] or in a [[shape]]";
        file.wrong_with(value.span(), "a causal mask is part of the operator, not of a candidate", help);
    }
    let mut word = |file: &mut File<'_>, key, words: &[&'static str]| {
        let text = section.text(file, key)?;
        if !words.contains(&text.as_str()) {
            file.unknown(text.span.clone(), key, &text, words.iter().copied());
        }
        Some(text)
    };
    let format = word(file, "format", &["e4m3", "e5m2", "linear8"]);
    let scales = word(file, "scales", &["tensor", "head", "block", "row"]);
    let layout = word(file, "layout", &["bhsd", "bshd"]);
    let lse = section.flag(file, "lse").unwrap_or(false);
    let splits = section.within(file, "splits", 1, 1024).and_then(|splits| u32::try_from(splits.value).ok());
    section.close(file);
    AttentionOptions { format, scales, layout, lse, splits }
}

fn scratch(file: &mut File<'_>, mut section: Section<'_, '_>) -> Scratch {
    for key in ["name", "dtype", "count"] {
        section.missing(file, key, "scratch memory has name, dtype and count");
    }
    let name = section.identifier(file, "name").unwrap_or_default();
    let dtype = section.dtype(file, "dtype");
    let dtype =
        dtype.map_or_else(|| At::unsaid(TensorType::Each), |d| At::new(TensorType::Fixed(d.value), d.span));
    let count = section.expr(file, "count").unwrap_or_else(|| At::unsaid(crate::expr::Expr::constant(1)));
    section.close(file);
    Scratch { name, dtype, count }
}

fn step(file: &mut File<'_>, mut section: Section<'_, '_>) -> Step {
    for key in ["kernel", "grid", "block", "arguments"] {
        section.missing(file, key, "a launch has kernel, grid, block and arguments");
    }
    let kernel = match section.get("kernel") {
        Some(value) if value.get_ref().is_table() => {
            let mut names = BTreeMap::new();
            if let Some(mut table) = Section::of("kernel", value, file) {
                for (dtype, name) in table.entries() {
                    if dtype_of(file, &dtype).is_some()
                        && let Some(name) = text_of(file, "kernel", name)
                    {
                        names.insert(dtype.value, name);
                    }
                }
            }
            Kernel::ByDtype(names)
        }
        Some(value) => Kernel::One(text_of(file, "kernel", value).unwrap_or_default()),
        None => Kernel::One(At::default()),
    };
    let grid = section.exprs(file, "grid", 3).map_or_else(Vec::new, |grid| grid.value);
    let block = section.exprs(file, "block", 3).map_or_else(Vec::new, |block| block.value);
    let shared_bytes = section.expr(file, "shared_bytes");
    let mut arguments = Vec::new();
    if let Some((span, values)) = section.list(file, "arguments", false) {
        if values.len() > 256 {
            file.wrong(span, "a kernel takes at most 256 arguments here");
        }
        arguments.extend(values.into_iter().take(256).filter_map(|value| argument(file, value)));
    }
    section.close(file);
    Step { kernel, grid, block, shared_bytes, arguments }
}

/// The name of a tensor, or `{ value = "n", dtype = "u32" }`.
fn argument(file: &mut File<'_>, value: &Spanned<DeValue<'_>>) -> Option<Argument> {
    if let DeValue::String(name) = value.get_ref() {
        return Some(Argument::Address(At::new(name.to_string(), value.span())));
    }
    let mut section = Section::of("argument", value, file)?;
    section.missing(file, "value", "{ value = \"n\", dtype = \"u32\" }, or the name of a tensor");
    section.missing(file, "dtype", "{ value = \"n\", dtype = \"u32\" }, or the name of a tensor");
    let dtype = section.dtype(file, "dtype");
    let mut values = Vec::new();
    if let Some((_, list)) = section.list(file, "value", true) {
        for value in list.into_iter().take(64) {
            // 0.125 as well as "1 / sqrt(d)".
            if let DeValue::Float(number) = value.get_ref() {
                match crate::expr::Expr::parse(number.as_str()) {
                    Ok(expr) => values.push(At::new(expr, value.span())),
                    Err(_) => file.wrong(value.span(), "a value is a finite number or an expression"),
                }
            } else {
                values.extend(expr_of(file, "value", value));
            }
        }
    }
    section.close(file);
    Some(Argument::Value { dtype: dtype?, values })
}
