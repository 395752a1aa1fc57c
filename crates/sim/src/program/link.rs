//! Linking: addresses and initial values of the variables of a module.

use super::NameMap;
use crate::device_functions;
use crate::machine::at;
use crate::memory::{FUNCTION_WINDOW, Heap, HeapError, Space};
use crate::stop::{Blame, Stop, StopKind};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use warpproof_ptx as ptx;

/// A module whose variables have addresses.
#[derive(Clone, Debug)]
pub struct Linked {
    /// The PTX text.
    pub text: Arc<str>,
    /// The module's symbols.
    pub symbols: NameMap<String, Symbol>,
    /// Names of the functions, by number, kernels included.
    pub functions: Vec<String>,
    /// Constant memory.
    pub constants: ConstantBank,
    /// The architecture as `.target` spells it: `sm_90a`.
    pub target: String,
    /// The number in the target's name: 89 for `sm_89`.
    pub sm: u32,
    /// `.version` as major and minor number.
    pub version: (u32, u32),
    /// Names of the kernels, in source order.
    pub kernels: Vec<String>,
    /// Functions that are declared, but neither defined here nor provided by the device: they cannot be called.
    pub missing: Vec<String>,
    /// Functions whose address is in a variable.
    pub(super) taken: BTreeSet<u32>,
    /// The directives from which a kernel is decoded, in source order.
    parts: Vec<Part>,
}

/// A directive that is read again when a kernel is decoded.
#[derive(Clone, Debug)]
struct Part {
    span: ptx::Span,
    /// Its name if it is a kernel; other kernels do not need it.
    kernel: Option<String>,
}

impl Linked {
    /// The functions and files of the module without the other kernels.
    pub(super) fn tree(&self, kernel: &str) -> ptx::Module<'_> {
        let needed = |part: &&Part| part.kernel.as_ref().is_none_or(|name| name == kernel);
        let spans: Vec<ptx::Span> = self.parts.iter().filter(needed).map(|part| part.span).collect();
        // The whole module was parsed without errors before.
        ptx::parse_parts(&self.text, &spans).0
    }
}

/// The parts of a module that decoding reads.
fn parts(module: &ptx::Module<'_>) -> Vec<Part> {
    let part = |directive: &ptx::Directive<'_>| match directive {
        ptx::Directive::Function(function) => {
            let kernel = function.entry.then(|| function.name.to_owned());
            Some(Part { span: function.span, kernel })
        }
        ptx::Directive::File(file) => Some(Part { span: file.span, kernel: None }),
        _ => None,
    };
    module.directives.iter().filter_map(part).collect()
}

/// The module's constant memory.
pub type ConstantBank = Vec<u8>;

/// The meaning of a module-level name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Symbol {
    /// A variable in device memory.
    Global {
        /// Its address.
        address: u64,
        /// Its size in bytes.
        size: u64,
    },
    /// A variable in constant memory.
    Const {
        /// Its offset there.
        offset: u64,
        /// Its size in bytes.
        size: u64,
    },
    /// A variable in shared memory; its offset is assigned per kernel. `None` for `extern` arrays without a size.
    Shared {
        /// Its size in bytes.
        size: Option<u32>,
        /// Its alignment.
        align: u32,
    },
    /// A function, by number.
    Function(u32),
}

/// A kernel parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in the PTX.
    pub name: String,
    /// Its type, without the dot.
    pub ty: String,
    /// Offset in the parameter memory.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// Its alignment, as declared.
    pub align: u32,
}

/// The maximum constant memory of a module: the hardware's limit.
const MAX_CONST: u64 = 64 * 1024;
/// The maximum size of a variable that is not in device memory.
const MAX_VARIABLE: u64 = 1 << 24;

/// Adds the functions whose address an initializer holds.
fn functions_in(
    initializer: &ptx::Initializer<'_>,
    symbols: &NameMap<String, Symbol>,
    out: &mut BTreeSet<u32>,
) {
    match initializer {
        ptx::Initializer::List(items) => items.iter().for_each(|item| functions_in(item, symbols, out)),
        ptx::Initializer::Symbol(address) | ptx::Initializer::Generic(address) => {
            if let Some(Symbol::Function(number)) = address.base.and_then(|base| symbols.get(base)) {
                out.insert(*number);
            }
        }
        ptx::Initializer::Mask { value, .. } => functions_in(value, symbols, out),
        ptx::Initializer::Constant(_) => {}
    }
}

/// Size and alignment of a declared name; `None` for an array without a size.
pub(super) fn extent(
    variable: &ptx::Variable<'_>,
    name: &ptx::Declarator<'_>,
) -> Result<(Option<u64>, u32), String> {
    let bits = ptx::type_bits(variable.ty).filter(|bits| *bits >= 8);
    let Some(bits) = bits else {
        return Err(format!("a variable of type .{} is not supported", variable.ty));
    };
    let element = u64::from(bits / 8 * variable.vector.unwrap_or(1));
    let align = variable.align.unwrap_or(u32::try_from(element).unwrap_or(16));
    if !align.is_power_of_two() || align > 1 << 20 {
        return Err(format!("an alignment of {align} is not valid"));
    }
    let mut count = Some(1u64);
    for dimension in &name.dimensions {
        count = match (count, dimension) {
            (Some(n), Some(d)) => Some(n.checked_mul(*d).ok_or("an array too large to address")?),
            _ => None,
        };
    }
    let open = count.is_none();
    let size = count.and_then(|n| n.checked_mul(element));
    if size.is_none() && !open {
        return Err("an array too large to address".into());
    }
    Ok((size, align))
}

fn input(sentence: impl Into<String>) -> Box<Stop> {
    Box::new(Stop::general(Blame::Input, StopKind::Malformed, sentence))
}

/// Provides the memory of a managed variable, given its name and size: memory that the host accesses at the same address.
pub type Managed<'a> = dyn FnMut(&mut Heap, &str, u64) -> Result<u64, HeapError> + 'a;

/// Assigns an address and an initial value to every module-level variable.
pub fn link(text: &str, heap: &mut Heap, managed: &mut Managed<'_>) -> Result<Linked, Box<Stop>> {
    let (module, errors) = ptx::parse(text);
    if let Some(error) = errors.first() {
        let position = ptx::LineIndex::new(text).position(error.span.start);
        let more =
            if errors.len() > 1 { format!(" (and {} more errors)", errors.len() - 1) } else { String::new() };
        return Err(input(format!("the PTX does not parse: {position}: {}{more}", error.message)));
    }
    let arch = module.target().first().copied().unwrap_or("");
    let digits: String = arch.trim_start_matches("sm_").chars().take_while(char::is_ascii_digit).collect();
    let sm = digits
        .parse()
        .map_err(|_| input(format!("the module's target `{arch}` is not an sm_ architecture")))?;

    let mut linked = Linked {
        text: text.into(),
        symbols: NameMap::default(),
        functions: Vec::new(),
        constants: Vec::new(),
        target: arch.to_owned(),
        sm,
        version: module.version().unwrap_or((0, 0)),
        kernels: Vec::new(),
        missing: Vec::new(),
        taken: BTreeSet::new(),
        parts: parts(&module),
    };
    if let Some(stop) = linked.too_old() {
        return Err(stop);
    }
    let mut kernels = HashSet::new();
    for function in module.functions() {
        if let std::collections::hash_map::Entry::Vacant(slot) =
            linked.symbols.entry(function.name.to_owned())
        {
            let number = u32::try_from(linked.functions.len()).map_err(|_| input("too many functions"))?;
            slot.insert(Symbol::Function(number));
            linked.functions.push(function.name.to_owned());
        }
        if function.entry && function.body.is_some() && kernels.insert(function.name) {
            linked.kernels.push(function.name.to_owned());
        }
    }
    let defined: HashSet<&str> =
        module.functions().filter(|function| function.body.is_some()).map(|function| function.name).collect();
    linked.missing =
        linked.functions.iter().filter(|name| !defined.contains(name.as_str())).cloned().collect();
    linked.missing.retain(|name| device_functions::find(name).is_none());
    for directive in &module.directives {
        if let ptx::Directive::Alias(alias) = directive
            && let Some(symbol) = linked.symbols.get(alias.function).cloned()
        {
            linked.symbols.insert(alias.name.to_owned(), symbol);
        }
    }
    // First the addresses of all variables, then their values: an initializer may name a later variable.
    let mut values = Vec::new();
    for variable in module.variables() {
        for name in &variable.names {
            let placed = place(&mut linked, heap, variable, name, managed).map_err(|mut stop| {
                stop.sentence = format!("variable `{}`: {}", name.name, stop.sentence);
                stop
            })?;
            if let Some(initializer) = &name.initializer {
                functions_in(initializer, &linked.symbols, &mut linked.taken);
            }
            if let (Some(symbol), Some(initializer)) = (placed, &name.initializer) {
                values.push((symbol, variable, name, initializer));
            }
        }
    }
    for (symbol, variable, name, initializer) in values {
        let width = ptx::type_bits(variable.ty).unwrap_or(8) / 8;
        let mut bytes = Vec::new();
        let room = match symbol {
            Symbol::Global { size, .. } | Symbol::Const { size, .. } => usize::try_from(size).unwrap_or(0),
            Symbol::Shared { .. } | Symbol::Function(_) => 0,
        };
        let target = Initialized { symbols: &linked.symbols, width, ty: variable.ty, room };
        write_initializer(target, initializer, &name.dimensions, &mut bytes)
            .map_err(|e| input(format!("initializer of `{}`: {e}", name.name)))?;
        match symbol {
            Symbol::Global { address, size } => {
                bytes.truncate(at(u32::try_from(size).unwrap_or(u32::MAX)));
                heap.write(address, &bytes)
                    .map_err(|_| input(format!("initializer of `{}` does not fit", name.name)))?;
            }
            Symbol::Const { offset, size } => {
                bytes.truncate(at(u32::try_from(size).unwrap_or(u32::MAX)));
                let start = at(u32::try_from(offset).unwrap_or(u32::MAX));
                if let Some(target) = linked.constants.get_mut(start..start + bytes.len()) {
                    target.copy_from_slice(&bytes);
                }
            }
            Symbol::Shared { .. } | Symbol::Function(_) => {}
        }
    }
    Ok(linked)
}

fn place(
    linked: &mut Linked,
    heap: &mut Heap,
    variable: &ptx::Variable<'_>,
    name: &ptx::Declarator<'_>,
    managed: &mut Managed<'_>,
) -> Result<Option<Symbol>, Box<Stop>> {
    if matches!(variable.ty, "texref" | "surfref" | "samplerref") {
        // A valid declaration, but unsupported; an instruction that uses it stops as unsupported.
        return Ok(None);
    }
    let (size, align) = extent(variable, name).map_err(input)?;
    let initial = name.initializer.as_ref().map_or(0, |i| match i {
        ptx::Initializer::List(list) => u64::try_from(list.len()).unwrap_or(0),
        _ => 1,
    });
    let element = u64::from(ptx::type_bits(variable.ty).unwrap_or(8) / 8);
    let symbol = match variable.space {
        ptx::Space::Global => {
            if variable.linkage == Some(ptx::Linkage::Extern) {
                return Ok(None);
            }
            let size = size.unwrap_or(initial * element);
            let is_managed = variable.attributes.iter().any(|attribute| attribute.name == "managed");
            let address =
                if is_managed { managed(heap, name.name, size) } else { heap.allocate(name.name, size) };
            let address = address.map_err(|e: HeapError| {
                Box::new(Stop::general(Blame::Limit, StopKind::Limit, e.to_string()))
            })?;
            Symbol::Global { address, size }
        }
        ptx::Space::Const if variable.linkage == Some(ptx::Linkage::Extern) => return Ok(None),
        ptx::Space::Const => {
            let size = size.unwrap_or(initial * element);
            let offset =
                u64::try_from(linked.constants.len()).unwrap_or(u64::MAX).next_multiple_of(u64::from(align));
            let end = offset.checked_add(size).filter(|end| *end <= MAX_CONST);
            let Some(end) = end else { return Err(input("constant memory holds at most 65536 bytes")) };
            linked.constants.resize(at(u32::try_from(end).unwrap_or(0)), 0);
            Symbol::Const { offset, size }
        }
        ptx::Space::Shared => {
            let size = match size {
                Some(size) if size <= MAX_VARIABLE => Some(u32::try_from(size).unwrap_or(0)),
                Some(size) => return Err(input(format!("{size} bytes of shared memory"))),
                None => None,
            };
            Symbol::Shared { size, align }
        }
        other => {
            return Err(input(format!("a module-level variable in .{} is not supported", other.name())));
        }
    };
    linked.symbols.insert(name.name.to_owned(), symbol.clone());
    Ok(Some(symbol))
}

/// The target of an initializer: the size and type of its elements, and the size of the variable.
#[derive(Clone, Copy)]
struct Initialized<'a> {
    symbols: &'a NameMap<String, Symbol>,
    width: u32,
    ty: &'a str,
    room: usize,
}

fn write_initializer(
    target: Initialized<'_>,
    initializer: &ptx::Initializer<'_>,
    dimensions: &[Option<u64>],
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let Initialized { symbols, width, ty, room } = target;
    let mut push = |bits: u64| out.extend_from_slice(&bits.to_le_bytes()[..at(width.min(8))]);
    match initializer {
        ptx::Initializer::List(items) => {
            let inner = dimensions.get(1..).unwrap_or(&[]);
            let stride: Option<u64> =
                inner.iter().try_fold(u64::from(width), |n, d| d.and_then(|d| n.checked_mul(d)));
            for item in items {
                let start = out.len();
                write_initializer(target, item, inner, out)?;
                // A short row of a nested list is filled with zeros.
                if let (ptx::Initializer::List(_), Some(stride)) = (item, stride) {
                    let end = start.saturating_add(usize::try_from(stride).unwrap_or(usize::MAX)).min(room);
                    if out.len() < end {
                        out.resize(end, 0);
                    }
                }
            }
        }
        ptx::Initializer::Constant(expression) => match expression {
            ptx::Expr::Float(float) => push(float_bits(*float, ty)),
            ptx::Expr::Unary(ptx::Unary::Minus, inner) if matches!(**inner, ptx::Expr::Float(_)) => {
                if let ptx::Expr::Float(float) = **inner {
                    push(float_bits(float.negated(), ty));
                }
            }
            expression => {
                let value = expression.value().ok_or("not a constant")?;
                if ty == "f32" || ty == "f64" {
                    let text = if value.unsigned {
                        value.bits.to_string()
                    } else {
                        value.bits.cast_signed().to_string()
                    };
                    let number: f64 = text.parse().map_err(|_| "not a number")?;
                    push(if ty == "f64" { number.to_bits() } else { u64::from(narrow(number).to_bits()) });
                } else {
                    push(value.bits);
                }
            }
        },
        ptx::Initializer::Symbol(address) | ptx::Initializer::Generic(address) => {
            let generic = matches!(initializer, ptx::Initializer::Generic(_));
            push(address_of(symbols, address, generic)?);
        }
        ptx::Initializer::Mask { mask, value } => {
            let mut whole = Vec::new();
            write_initializer(Initialized { width: 8, ty: "b64", ..target }, value, &[], &mut whole)?;
            let shift = mask.bits().trailing_zeros() / 8;
            out.push(whole.get(at(shift)).copied().unwrap_or(0));
        }
    }
    Ok(())
}

fn address_of(
    symbols: &NameMap<String, Symbol>,
    address: &ptx::Address<'_>,
    generic: bool,
) -> Result<u64, String> {
    let base = match address.base {
        None => 0,
        Some(name) => match symbols.get(name) {
            Some(Symbol::Global { address, .. }) => *address,
            Some(Symbol::Const { offset, .. }) => offset + if generic { Space::Const.window() } else { 0 },
            Some(Symbol::Function(number)) => FUNCTION_WINDOW + 16 * u64::from(*number),
            Some(Symbol::Shared { .. }) => return Err(format!("the address of shared variable `{name}`")),
            None => return Err(format!("`{name}` is not defined in this module")),
        },
    };
    Ok(base.wrapping_add_signed(address.offset))
}

/// The bits of a floating-point constant in a type.
pub(super) fn float_bits(float: ptx::Float<'_>, ty: &str) -> u64 {
    match (float, ty) {
        (ptx::Float::Single(bits), "f32" | "b32" | "u32" | "s32") => u64::from(bits),
        (ptx::Float::Double(bits), "f64" | "b64" | "u64" | "s64") => bits,
        (float, "f32" | "b32") => u64::from(narrow(float.value()).to_bits()),
        (ptx::Float::Single(bits), _) if ty != "f64" => u64::from(bits),
        (float, _) => float.value().to_bits(),
    }
}

#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "rounds to nearest, as the manual requires"
)]
fn narrow(value: f64) -> f32 {
    value as f32
}
