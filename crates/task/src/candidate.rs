//! From TOML to a task: candidates.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::DeValue;

use super::attention::{self, AttentionOptions};
use super::model::{
    Argument, Candidate, Kernel, Launch, Notes, Program, Scratch, Step, StructMember, Symbol, SymbolValue,
    TensorType,
};
use super::policy::macro_value;
use super::problem::At;
use super::section::{File, Section, check_identifier, dtype_of, expr_of, text_of};

/// A path relative to the task, so that the task means the same on every machine.
pub(super) fn checked_path(file: &mut File<'_>, path: At<String>) -> At<String> {
    let absolute = path.starts_with(['/', '~']) || path.contains('\\') || path.get(1..2) == Some(":");
    if absolute || path.is_empty() || path.len() > 1024 || path.contains(|c: char| c.is_control()) {
        let help = "write a path relative to the task file, with `/` as the separator";
        file.wrong_with(path.span.clone(), "expected a path relative to the task file", help);
    }
    path
}

pub(super) fn candidates(file: &mut File<'_>, root: &mut Section<'_, '_>) -> Vec<Candidate> {
    root.sections(file, "candidate").into_iter().map(|section| candidate(file, section)).collect()
}

fn candidate(file: &mut File<'_>, mut section: Section<'_, '_>) -> Candidate {
    section.missing(file, "name", "every candidate needs a name");
    let name = section.name(file, "name").unwrap_or_default();
    let (source, ptx, rung) =
        (section.text(file, "source"), section.text(file, "ptx"), section.text(file, "rung"));
    let launch = section.sections(file, "launch");
    let scratch = section.sections(file, "scratch");
    let symbols = section.sections(file, "symbol");
    let options = section.section(file, "options");
    let program = program(file, &section, Parts { source, ptx, rung, launch, scratch, symbols, options });
    let mut macros = |file: &mut File<'_>, key| {
        let mut found = BTreeMap::new();
        if let Some(mut table) = section.section(file, key) {
            for (name, value) in table.entries() {
                if check_identifier(file, &name)
                    && let Some(value) = macro_value(file, &name, value)
                {
                    // Keep the span of the name for the error that the name is not declared.
                    found.insert(name.value, At::new(value.value, name.span.start..value.span.end));
                }
            }
        }
        found
    };
    let (toggles, defines) = (macros(file, "toggles"), macros(file, "defines"));
    let flags = section.texts(file, "flags").unwrap_or_default();
    let mut known = true;
    for flag in &flags {
        let plain = flag.trim_start_matches('-');
        if plain.starts_with("arch") || plain.starts_with("gpu-architecture") || plain.starts_with("gpu-code")
        {
            known = false;
            file.wrong(flag.span.clone(), "set the architecture in [target]");
        } else if flag.starts_with("-D") || plain.starts_with("define-macro") || plain.starts_with('U') {
            known = false;
            file.wrong(flag.span.clone(), "set macros in toggles or defines, not in flags");
        }
    }
    // A task is not trusted: some options read or write arbitrary files.
    let texts: Vec<&str> = flags.iter().map(|flag| flag.value.as_str()).collect();
    if known && let Err(refused) = warpproof_toolchain::nvrtc_options(&texts) {
        let flag = flags.iter().find(|flag| flag.value == refused.option).or(flags.first());
        let span = flag.map_or_else(|| section.span.clone(), |flag| flag.span.clone());
        file.wrong_with(
            span,
            refused.to_string(),
            "the book's page on compiler options lists those that are allowed",
        );
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
    symbols: Vec<Section<'d, 't>>,
    options: Option<Section<'d, 't>>,
}

fn program(file: &mut File<'_>, section: &Section<'_, '_>, parts: Parts<'_, '_>) -> Program {
    let span = section.span.clone();
    if let (Some(rung), None, None) = (&parts.rung, &parts.source, &parts.ptx) {
        if !parts.launch.is_empty() || !parts.scratch.is_empty() || !parts.symbols.is_empty() {
            file.wrong(span, "a rung has its own launch");
        }
        let options =
            parts.options.map_or_else(AttentionOptions::default, |section| attention::options(file, section));
        return Program::Rung { rung: rung.clone(), options };
    }
    if let Some(options) = &parts.options {
        file.wrong(options.span.clone(), "options apply only to kernels of the attention family");
    }
    if parts.launch.is_empty() {
        let help = "[[candidate.launch]] with kernel, grid, block and arguments";
        file.wrong_with(span.clone(), "a candidate needs a launch", help);
    }
    let launch = Launch {
        scratch: parts.scratch.into_iter().map(|section| scratch(file, section)).collect(),
        symbols: parts.symbols.into_iter().filter_map(|section| symbol(file, section)).collect(),
        steps: parts.launch.into_iter().map(|section| step(file, section)).collect(),
    };
    match (parts.source, parts.ptx, parts.rung) {
        (Some(path), None, None) => Program::Source { file: checked_path(file, path), launch },
        (None, Some(path), None) => Program::Ptx { file: checked_path(file, path), launch },
        _ => {
            let help = "source = \"kernel.cu\", ptx = \"kernel.ptx\" or rung = \"n4\"";
            file.wrong_with(span, "expected exactly one of source, ptx and rung", help);
            Program::Source { file: At::default(), launch }
        }
    }
}

fn scratch(file: &mut File<'_>, mut section: Section<'_, '_>) -> Scratch {
    for key in ["name", "dtype", "count"] {
        section.missing(file, key, "scratch memory needs name, dtype and count");
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
        section.missing(file, key, "a launch needs kernel, grid, block and arguments");
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
    let cooperative = section.flag(file, "cooperative").unwrap_or(false);
    let mut arguments = Vec::new();
    if let Some((span, values)) = section.list(file, "arguments", false) {
        if values.len() > 256 {
            file.wrong(span, "a kernel takes at most 256 arguments");
        }
        arguments.extend(values.into_iter().take(256).filter_map(|value| argument(file, value, 0)));
    }
    section.close(file);
    Step { kernel, grid, block, shared_bytes, cooperative, arguments }
}

/// Maximum nesting of structs.
const MAX_DEPTH: usize = 16;
/// The forms of an argument.
const ARGUMENT: &str = "the name of a tensor, { value = \"n\", dtype = \"u32\" }, { tensor = \"x\", offset = \"n\" } or \
                        { struct = [ … ] }";

/// The name of a tensor, `{ value = "n", dtype = "u32" }`, `{ tensor = "x", offset = "n" }` or `{ struct = [ … ] }`.
fn argument(file: &mut File<'_>, value: &Spanned<DeValue<'_>>, depth: usize) -> Option<Argument> {
    if let DeValue::String(name) = value.get_ref() {
        return Some(Argument::Address(At::new(name.to_string(), value.span())));
    }
    let mut section = Section::of("argument", value, file)?;
    let argument = described(file, &mut section, depth);
    section.close(file);
    argument
}

fn described(file: &mut File<'_>, section: &mut Section<'_, '_>, depth: usize) -> Option<Argument> {
    if section.has("struct") {
        let (span, list) = section.list(file, "struct", false)?;
        if depth >= MAX_DEPTH || list.is_empty() {
            file.wrong(span, "expected a struct with members, nested at most 16 levels deep");
            return None;
        }
        let members = list.into_iter().take(256).filter_map(|one| member(file, one, depth + 1));
        return Some(Argument::Struct(members.collect()));
    }
    if section.has("tensor") {
        let tensor = section.text(file, "tensor");
        let offset =
            section.expr(file, "offset").unwrap_or_else(|| At::unsaid(crate::expr::Expr::constant(0)));
        return Some(Argument::Within { tensor: tensor?, offset });
    }
    let (dtype, values) = typed_values(file, section, ARGUMENT)?;
    Some(Argument::Value { dtype, values })
}

/// An argument with `name` and `at`.
fn member(file: &mut File<'_>, value: &Spanned<DeValue<'_>>, depth: usize) -> Option<StructMember> {
    if !value.get_ref().is_table() {
        return argument(file, value, depth).map(|argument| StructMember { name: None, at: None, argument });
    }
    let mut section = Section::of("member", value, file)?;
    let name = section.text(file, "name").map(|name| name.value);
    let at = section.within(file, "at", 0, 32_763).and_then(|at| u32::try_from(at.value).ok());
    let argument = described(file, &mut section, depth);
    section.close(file);
    Some(StructMember { name, at, argument: argument? })
}

/// `value` and `dtype`.
fn typed_values(
    file: &mut File<'_>,
    section: &mut Section<'_, '_>,
    help: &str,
) -> Option<(At<crate::dtype::Dtype>, Vec<At<crate::expr::Expr>>)> {
    section.missing(file, "value", help);
    section.missing(file, "dtype", help);
    let dtype = section.dtype(file, "dtype");
    let mut values = Vec::new();
    if let Some((_, list)) = section.list(file, "value", true) {
        for value in list {
            // 0.125 as well as "1 / sqrt(d)".
            if let DeValue::Float(number) = value.get_ref() {
                match crate::expr::Expr::parse(number.as_str()) {
                    Ok(expr) => values.push(At::new(expr, value.span())),
                    Err(_) => file.wrong(value.span(), "expected a finite number or an expression"),
                }
            } else {
                values.extend(expr_of(file, "value", value));
            }
        }
    }
    Some((dtype?, values))
}

/// `name` with `input`, or with `value` and `dtype`.
fn symbol(file: &mut File<'_>, mut section: Section<'_, '_>) -> Option<Symbol> {
    const HELP: &str = "name = \"coef\" with input = \"w\", or with value = [1, 2, 1] and dtype = \"f32\"";
    section.missing(file, "name", HELP);
    let name = section.text(file, "name");
    let value = match section.text(file, "input") {
        Some(input) => Some(SymbolValue::Input(input)),
        None => typed_values(file, &mut section, HELP)
            .map(|(dtype, values)| SymbolValue::Values { dtype, values }),
    };
    section.close(file);
    Some(Symbol { name: name?, value: value? })
}
