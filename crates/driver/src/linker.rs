//! Joins the PTX texts of several translation units into one text, as `nvlink` and the linker of the driver API do.
//!
//! A name with linkage (`.visible`, `.weak`, `.common`, a kernel) means the same in all units; every other name of a unit is
//! its own and gets another name if it clashes. Declarations of what another unit defines are removed, so are repeated weak
//! definitions. Numbers of source files are shifted. Debug sections except the table of names are removed: their
//! contents are offsets that a joined text does not keep.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use warpproof_ptx::{Directive, Linkage, SectionLine, Space, Span, parse};

/// Why texts cannot be joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkError {
    /// No text was given.
    Empty,
    /// Two units define the same name.
    Multiple {
        /// The name.
        name: String,
        /// The unit with the second definition.
        unit: String,
    },
    /// A variable is declared and used, but no unit defines it.
    Undefined {
        /// The name.
        name: String,
        /// The unit that uses it.
        unit: String,
    },
}

impl fmt::Display for LinkError {
    /// In the words of NVIDIA's linker, which programs look for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkError::Empty => f.write_str("error   : no input"),
            LinkError::Multiple { name, unit } => {
                write!(f, "error   : Multiple definition of '{name}' in '{unit}'")
            }
            LinkError::Undefined { name, unit } => {
                write!(f, "error   : Undefined reference to '{name}' in '{unit}'")
            }
        }
    }
}

/// How strongly a unit defines a name. Of several definitions the strongest is kept, of equal ones the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    Strong,
    Weak,
    Common,
}

/// A definition of a name with linkage.
#[derive(Clone, Copy, Debug)]
struct Definition {
    unit: usize,
    strength: Strength,
    span: Span,
}

/// What a unit has at the level of the module.
#[derive(Debug, Default)]
struct Unit<'s> {
    /// Names with linkage.
    shared: BTreeSet<&'s str>,
    /// Names of the unit alone.
    own: BTreeSet<&'s str>,
    /// Definitions of names with linkage.
    defined: Vec<(&'s str, Strength, Span)>,
    /// Declarations of variables that another unit defines.
    declared: Vec<(&'s str, Span)>,
    /// Directives that a joined text has once, or not at all.
    removed: Vec<Span>,
    /// `.version`, the number of the target, and the text of `.target`.
    version: (u32, u32),
    target: (u32, &'s str),
    /// The largest number of a source file.
    files: u32,
}

impl<'s> Unit<'s> {
    fn of(text: &'s str) -> Unit<'s> {
        let (module, _) = parse(text);
        let mut unit = Unit { version: module.version().unwrap_or((0, 0)), ..Unit::default() };
        let mut unlinked = BTreeSet::new();
        for directive in &module.directives {
            match directive {
                Directive::Version(version) => unit.removed.push(version.span),
                Directive::AddressSize(size) => unit.removed.push(size.span),
                Directive::Target(target) => {
                    unit.removed.push(target.span);
                    let name = module.target().first().copied().unwrap_or("");
                    let digits: String = name.chars().filter(char::is_ascii_digit).collect();
                    unit.target = (digits.parse().unwrap_or(0), slice(text, target.span));
                }
                Directive::File(file) => unit.files = unit.files.max(file.index),
                Directive::Section(section) if section.name == ".debug_str" => {
                    unlinked.extend(section.lines.iter().filter_map(|line| match line {
                        SectionLine::Label(name) => Some(*name),
                        SectionLine::Data { .. } => None,
                    }));
                }
                Directive::Section(section) => unit.removed.push(section.span),
                Directive::Dwarf(line) => unit.removed.push(line.span),
                Directive::Function(function) => {
                    let linkage = function.linkage.or(function.entry.then_some(Linkage::Visible));
                    let names = if linkage.is_some() { &mut unit.shared } else { &mut unlinked };
                    names.insert(function.name);
                    if let (true, Some(strength)) = (function.body.is_some(), linkage.and_then(Strength::of))
                    {
                        unit.defined.push((function.name, strength, function.span));
                    }
                }
                Directive::Variable(variable) => {
                    for name in &variable.names {
                        let names = if variable.linkage.is_some() { &mut unit.shared } else { &mut unlinked };
                        names.insert(name.name);
                        match variable.linkage.map(Strength::of) {
                            Some(Some(strength)) => unit.defined.push((name.name, strength, variable.span)),
                            // Dynamic shared memory has no definition.
                            Some(None) if variable.space != Space::Shared => {
                                unit.declared.push((name.name, variable.span));
                            }
                            _ => {}
                        }
                    }
                }
                Directive::Alias(alias) => {
                    unlinked.insert(alias.name);
                }
                _ => {}
            }
        }
        // A prototype may leave out the linkage.
        unit.own = unlinked.difference(&unit.shared).copied().collect();
        unit
    }
}

impl Strength {
    /// That of a definition with this linkage; `None` for a declaration.
    fn of(linkage: Linkage) -> Option<Strength> {
        match linkage {
            Linkage::Visible => Some(Strength::Strong),
            Linkage::Weak => Some(Strength::Weak),
            Linkage::Common => Some(Strength::Common),
            Linkage::Extern => None,
        }
    }
}

/// Joins texts, each with the name of its unit for messages. One text stays as it is.
pub fn join(parts: &[(String, String)]) -> Result<String, LinkError> {
    let texts: Vec<&str> = parts.iter().map(|(_, text)| text.trim_end_matches('\0')).collect();
    let first = *texts.first().ok_or(LinkError::Empty)?;
    if texts.len() == 1 {
        return Ok(first.to_owned());
    }
    let name_of = |unit: usize| parts.get(unit).map_or_else(String::new, |(name, _)| name.clone());
    let mut units: Vec<Unit<'_>> = texts.iter().map(|text| Unit::of(text)).collect();

    let mut definitions: BTreeMap<&str, Definition> = BTreeMap::new();
    let mut dropped = Vec::new();
    for (unit, known) in units.iter().enumerate() {
        for (name, strength, span) in &known.defined {
            let this = Definition { unit, strength: *strength, span: *span };
            match definitions.get_mut(name) {
                None => drop(definitions.insert(name, this)),
                Some(other) if *strength < other.strength => {
                    dropped.push((other.unit, other.span));
                    *other = this;
                }
                Some(_) if *strength > Strength::Strong => dropped.push((unit, *span)),
                Some(_) => {
                    return Err(LinkError::Multiple { name: (*name).to_owned(), unit: name_of(unit) });
                }
            }
        }
    }
    for (unit, known) in units.iter().enumerate() {
        for (name, span) in &known.declared {
            if definitions.contains_key(name) {
                dropped.push((unit, *span));
            } else if crate::module::is_used(&texts[unit].replace(slice(texts[unit], *span), ""), name) {
                return Err(LinkError::Undefined { name: (*name).to_owned(), unit: name_of(unit) });
            }
        }
    }
    for (unit, span) in dropped {
        units[unit].removed.push(span);
    }

    let version = units.iter().map(|unit| unit.version).max().unwrap_or((0, 0));
    let target = units.iter().map(|unit| unit.target).max_by_key(|(number, _)| *number).unwrap_or((0, ""));
    let mut joined = format!(".version {}.{}\n{}\n.address_size 64\n", version.0, version.1, target.1);
    let mut taken: BTreeSet<String> =
        units.iter().flat_map(|unit| &unit.shared).map(|name| (*name).to_owned()).collect();
    let mut files = 0u32;
    for (number, (unit, text)) in units.iter_mut().zip(&texts).enumerate() {
        let mut renamed = BTreeMap::new();
        for name in &unit.own {
            let mut fresh = (*name).to_owned();
            while !taken.insert(fresh.clone()) {
                fresh = format!("{fresh}$unit{}", number + 1);
            }
            if fresh != *name {
                renamed.insert(*name, fresh);
            }
        }
        unit.removed.sort_unstable_by_key(|span| span.start);
        joined.push('\n');
        rewrite(text, &unit.removed, &renamed, files, &mut joined);
        joined.push('\n');
        files = files.saturating_add(unit.files);
    }
    Ok(joined)
}

fn slice(text: &str, span: Span) -> &str {
    text.get(offset(span.start)..offset(span.end)).unwrap_or("")
}

fn offset(place: u32) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX)
}

/// Copies a text without some spans (sorted), with other names, and with `files` added to the numbers of source files.
fn rewrite(text: &str, removed: &[Span], renamed: &BTreeMap<&str, String>, files: u32, out: &mut String) {
    let bytes = text.as_bytes();
    let find = |from: usize, end: &str| text[from..].find(end).map_or(text.len(), |at| from + at + end.len());
    let word = |from: usize| {
        let follows = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
        from + bytes[from..].iter().take_while(|byte| follows(byte)).count()
    };
    let mut removed = removed.iter().peekable();
    let (mut at, mut number_follows) = (0, false);
    while at < bytes.len() {
        if let Some(span) = removed.next_if(|span| offset(span.start) <= at) {
            at = at.max(offset(span.end).min(bytes.len()));
            continue;
        }
        let end = match bytes[at] {
            b'"' => find(at + 1, "\""),
            b'/' if bytes.get(at + 1) == Some(&b'/') => find(at, "\n"),
            b'/' if bytes.get(at + 1) == Some(&b'*') => find(at, "*/"),
            b'.' | b'%' => {
                let end = word(at + 1);
                number_follows |= matches!(&text[at..end], ".file" | ".loc");
                end
            }
            byte if byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$') => {
                let end = word(at);
                let name = &text[at..end];
                number_follows |= name == "inlined_at";
                // An opcode has a modifier after it, a name never.
                if let Some(other) = renamed.get(name).filter(|_| bytes.get(end) != Some(&b'.')) {
                    out.push_str(other);
                    at = end;
                    continue;
                }
                end
            }
            byte if byte.is_ascii_digit() => {
                let end = word(at);
                if std::mem::take(&mut number_follows)
                    && let Ok(number) = text[at..end].parse::<u32>()
                {
                    out.push_str(&number.saturating_add(files).to_string());
                    at = end;
                    continue;
                }
                end
            }
            // All other characters, also those of several bytes.
            _ => at + text[at..].chars().next().map_or(1, char::len_utf8),
        };
        out.push_str(&text[at..end]);
        at = end;
    }
}
