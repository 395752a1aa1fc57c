//! Prints a tree as text in one canonical layout. It prints everything in the tree: the result parses to the same tree.

use std::fmt::{self, Display, Formatter, Write};

use crate::{
    Address, Argument, Attribute, CallPrototype, Compound, Declarator, Directive, Expr, File, Float,
    Function, FunctionDirective, Initializer, Instruction, Integer, LabeledList, Loc, Module, Operand,
    Pragma, Radix, Section, SectionLine, SectionValue, Statement, Variable,
};

/// The module as PTX text.
pub fn print(module: &Module<'_>) -> String {
    module.to_string()
}

impl Display for Module<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.directives.iter().try_for_each(|directive| writeln!(f, "{directive}"))
    }
}

impl Display for Directive<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Directive::Version(version) => write!(f, ".version {}.{}", version.major, version.minor),
            Directive::Target(target) => {
                f.write_str(".target ")?;
                join(f, &target.names, ", ")
            }
            Directive::AddressSize(size) => write!(f, ".address_size {}", size.bits),
            Directive::File(file) => file.fmt(f),
            Directive::Section(section) => section.fmt(f),
            Directive::Pragma(pragma) => pragma.fmt(f),
            Directive::Variable(variable) => write!(f, "{variable};"),
            Directive::Function(function) => function.fmt(f),
            Directive::Alias(alias) => write!(f, ".alias {}, {};", alias.name, alias.function),
            Directive::Loc(loc) => loc.fmt(f),
            Directive::Dwarf(line) => write!(f, "@@DWARF {}", line.text),
        }
    }
}

fn join<T: Display>(
    f: &mut Formatter<'_>,
    items: impl IntoIterator<Item = T>,
    separator: &str,
) -> fmt::Result {
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            f.write_str(separator)?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}

impl Display for File<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, ".file {} \"{}\"", self.index, self.name)?;
        match self.stamp {
            Some((time, size)) => write!(f, ", {time}, {size}"),
            None => Ok(()),
        }
    }
}

impl Display for Section<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, ".section {} {{", self.name)?;
        for line in &self.lines {
            match line {
                SectionLine::Label(name) => writeln!(f, "{name}:")?,
                SectionLine::Data { ty, values } => data(f, ty, values)?,
            }
        }
        f.write_char('}')
    }
}

/// Up to 16 numbers per line; a label has its own line, as in the manual's syntax.
fn data(f: &mut Formatter<'_>, ty: &str, values: &[SectionValue<'_>]) -> fmt::Result {
    let mut numbers = 0;
    for value in values {
        let number = matches!(value, SectionValue::Integer(_));
        if number && (1..16).contains(&numbers) {
            write!(f, ", {value}")?;
            numbers += 1;
            continue;
        }
        if numbers > 0 {
            f.write_char('\n')?;
        }
        write!(f, ".{ty} {value}")?;
        // A label's line counts as full.
        numbers = if number { 1 } else { 16 };
    }
    f.write_char('\n')
}

impl Display for SectionValue<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            SectionValue::Integer(integer) => integer.fmt(f),
            SectionValue::Label(address) => section_label(f, address),
            SectionValue::Difference(labels) => write!(f, "{}-{}", labels.0, labels.1),
        }
    }
}

fn section_label(f: &mut Formatter<'_>, address: &Address<'_>) -> fmt::Result {
    f.write_str(address.base.unwrap_or("0"))?;
    match address.offset {
        0 => Ok(()),
        offset if offset < 0 => write!(f, "-{}", offset.unsigned_abs()),
        offset => write!(f, "+{offset}"),
    }
}

impl Display for Pragma<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(".pragma ")?;
        join(f, self.texts.iter().map(|text| format!("\"{text}\"")), ", ")?;
        f.write_char(';')
    }
}

impl Display for Loc<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, ".loc {} {} {}", self.file, self.line, self.column)?;
        let Some(inlined) = &self.inlined else { return Ok(()) };
        if let Some(name) = &inlined.function_name {
            f.write_str(", function_name ")?;
            section_label(f, name)?;
        }
        write!(f, ", inlined_at {} {} {}", inlined.file, inlined.line, inlined.column)
    }
}

fn attributes(f: &mut Formatter<'_>, attributes: &[Attribute<'_>]) -> fmt::Result {
    if attributes.is_empty() {
        return Ok(());
    }
    f.write_str(" .attribute(")?;
    for (index, attribute) in attributes.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        write!(f, ".{}", attribute.name)?;
        if !attribute.arguments.is_empty() {
            f.write_char('(')?;
            join(f, &attribute.arguments, ", ")?;
            f.write_char(')')?;
        }
    }
    f.write_char(')')
}

/// Without the `;`, because a parameter has none.
impl Display for Variable<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(linkage) = self.linkage {
            write!(f, ".{} ", linkage.name())?;
        }
        write!(f, ".{}", self.space.name())?;
        if let Some(bank) = self.bank {
            write!(f, "[{bank}]")?;
        }
        attributes(f, &self.attributes)?;
        if let Some(align) = self.align {
            write!(f, " .align {align}")?;
        }
        if let Some(vector) = self.vector {
            write!(f, " .v{vector}")?;
        }
        write!(f, " .{}", self.ty)?;
        if let Some(pointer) = self.pointer {
            f.write_str(" .ptr")?;
            if let Some(space) = pointer.space {
                write!(f, " .{}", space.name())?;
            }
            if let Some(align) = pointer.align {
                write!(f, " .align {align}")?;
            }
        }
        f.write_char(' ')?;
        join(f, &self.names, ", ")
    }
}

impl Display for Declarator<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if let Some(count) = self.count {
            write!(f, "<{count}>")?;
        }
        for dimension in &self.dimensions {
            match dimension {
                Some(size) => write!(f, "[{size}]")?,
                None => f.write_str("[]")?,
            }
        }
        match &self.initializer {
            Some(value) => write!(f, " = {value}"),
            None => Ok(()),
        }
    }
}

impl Display for Initializer<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Initializer::List(values) => {
                f.write_char('{')?;
                join(f, values, ", ")?;
                f.write_char('}')
            }
            Initializer::Constant(expr) => expr.fmt(f),
            Initializer::Symbol(address) => address.fmt(f),
            Initializer::Generic(address) => {
                write!(f, "generic({})", address.base.unwrap_or("0"))?;
                if address.offset == 0 { Ok(()) } else { write!(f, "+{}", address.offset) }
            }
            Initializer::Mask { mask, value } => write!(f, "{mask}({value})"),
        }
    }
}

fn params(f: &mut Formatter<'_>, params: &[Variable<'_>]) -> fmt::Result {
    f.write_char('(')?;
    join(f, params, ", ")?;
    f.write_char(')')
}

impl Display for Function<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(linkage) = self.linkage {
            write!(f, ".{} ", linkage.name())?;
        }
        f.write_str(if self.entry { ".entry" } else { ".func" })?;
        attributes(f, &self.attributes)?;
        f.write_char(' ')?;
        if !self.returns.is_empty() {
            params(f, &self.returns)?;
            f.write_char(' ')?;
        }
        write!(f, "{}(", self.name)?;
        for (index, param) in self.params.iter().enumerate() {
            f.write_str(if index > 0 { ",\n\t" } else { "\n\t" })?;
            param.fmt(f)?;
        }
        f.write_str(if self.params.is_empty() { ")" } else { "\n)" })?;
        for directive in &self.directives {
            write!(f, "\n{directive}")?;
        }
        let Some(body) = &self.body else { return f.write_char(';') };
        f.write_str("\n{\n")?;
        for statement in body {
            statement.print(f, 1)?;
        }
        f.write_char('}')
    }
}

impl Display for FunctionDirective<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, ".{}", self.name)?;
        for (index, argument) in self.arguments.iter().enumerate() {
            f.write_str(if index > 0 { ", " } else { " " })?;
            match argument {
                Argument::Integer(integer) => integer.fmt(f)?,
                Argument::Name(name) => f.write_str(name)?,
                Argument::Text(text) => write!(f, "\"{text}\"")?,
            }
        }
        // Unlike the other directives here, a pragma ends in `;`.
        f.write_str(if self.name == "pragma" { ";" } else { "" })
    }
}

impl Display for Statement<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.print(f, 0)
    }
}

impl Statement<'_> {
    /// Prints the statement and its line end at the given brace depth.
    fn print(&self, f: &mut Formatter<'_>, depth: usize) -> fmt::Result {
        let tabs = |f: &mut Formatter<'_>, depth: usize| (0..depth).try_for_each(|_| f.write_char('\t'));
        // Labels are not indented.
        if !matches!(self, Statement::Label(_)) {
            tabs(f, depth)?;
        }
        match self {
            Statement::Label(label) => writeln!(f, "{}:", label.name),
            Statement::Instruction(instruction) => writeln!(f, "{instruction}"),
            Statement::Variable(variable) => writeln!(f, "{variable};"),
            Statement::Block(block) => {
                f.write_str("{\n")?;
                for statement in &block.statements {
                    statement.print(f, depth + 1)?;
                }
                tabs(f, depth)?;
                f.write_str("}\n")
            }
            Statement::Loc(loc) => writeln!(f, "{loc}"),
            Statement::Pragma(pragma) => writeln!(f, "{pragma}"),
            Statement::CallPrototype(prototype) => writeln!(f, "{prototype}"),
            Statement::CallTargets(list) => labeled_list(f, list, "calltargets"),
            Statement::BranchTargets(list) => labeled_list(f, list, "branchtargets"),
            Statement::Dwarf(line) => writeln!(f, "@@DWARF {}", line.text),
        }
    }
}

impl Display for CallPrototype<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: .callprototype ", self.label)?;
        if !self.returns.is_empty() {
            params(f, &self.returns)?;
            f.write_char(' ')?;
        }
        write!(f, "{} ", self.name)?;
        params(f, &self.params)?;
        for directive in &self.directives {
            write!(f, " {directive}")?;
        }
        f.write_char(';')
    }
}

fn labeled_list(f: &mut Formatter<'_>, list: &LabeledList<'_>, directive: &str) -> fmt::Result {
    write!(f, "{}: .{directive} ", list.label)?;
    for (index, name) in list.names.iter().enumerate() {
        f.write_str(if index > 0 { ", " } else { "" })?;
        f.write_str(name.name)?;
        if let Some(count) = name.count {
            write!(f, "<{count}>")?;
        }
    }
    f.write_str(";\n")
}

impl Display for Instruction<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(guard) = self.guard {
            write!(f, "@{}{} ", if guard.negated { "!" } else { "" }, guard.register)?;
        }
        f.write_str(self.opcode)?;
        for modifier in &self.modifiers {
            f.write_char('.')?;
            f.write_str(modifier)?;
        }
        if !self.operands.is_empty() {
            f.write_char(' ')?;
            join(f, &self.operands, ", ")?;
        }
        f.write_char(';')
    }
}

impl Display for Operand<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Name(name) => f.write_str(name),
            Operand::Sink => f.write_char('_'),
            Operand::Integer(integer) => integer.fmt(f),
            Operand::Float(float) => float.fmt(f),
            Operand::Constant(expr) => expr.fmt(f),
            Operand::Negated(name) => write!(f, "-{name}"),
            Operand::Not(name) => write!(f, "!{name}"),
            Operand::Address(address) => write!(f, "[{address}]"),
            Operand::Compound(compound) => compound.fmt(f),
            Operand::Offset(address) => write!(f, "{}+{}", address.base.unwrap_or("0"), address.offset),
            Operand::Element(element) => write!(f, "{}[{}]", element.name, element.index),
            Operand::Vector(elements) => {
                f.write_char('{')?;
                join(f, elements, ", ")?;
                f.write_char('}')
            }
            Operand::Pair(pair) => write!(f, "{}|{}", pair.0, pair.1),
            Operand::List(elements) => {
                f.write_char('(')?;
                join(f, elements, ", ")?;
                f.write_char(')')
            }
        }
    }
}

/// Without brackets.
impl Display for Address<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.base {
            None => write!(f, "{}", self.offset),
            Some(base) if self.offset == 0 && !self.plus_zero => f.write_str(base),
            Some(base) => write!(f, "{base}+{}", self.offset),
        }
    }
}

impl Display for Compound<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "[{}", self.address)?;
        for part in &self.rest {
            write!(f, ", {part}")?;
        }
        f.write_char(']')?;
        match self.suffix {
            Some(suffix) => write!(f, ".{suffix}"),
            None => Ok(()),
        }
    }
}

impl Display for Integer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.negative {
            f.write_char('-')?;
        }
        match self.radix {
            Radix::Binary => write!(f, "0b{:b}", self.magnitude),
            Radix::Octal => write!(f, "0{:o}", self.magnitude),
            Radix::Decimal => write!(f, "{}", self.magnitude),
            Radix::Hexadecimal => write!(f, "0x{:X}", self.magnitude),
        }?;
        f.write_str(if self.unsigned { "U" } else { "" })
    }
}

impl Display for Float<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Float::Single(bits) => write!(f, "0f{bits:08X}"),
            Float::Double(bits) => write!(f, "0d{bits:016X}"),
            Float::Decimal { negative, text } => write!(f, "{}{text}", if *negative { "-" } else { "" }),
        }
    }
}

impl Display for Expr<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Integer(integer) => integer.fmt(f),
            Expr::Float(float) => float.fmt(f),
            Expr::Name(name) => f.write_str(name),
            Expr::Unary(operator, operand) => {
                f.write_str(operator.symbol())?;
                // `- -4` must not be printed as `--4`.
                let signed = matches!(**operand, Expr::Integer(integer) if integer.negative);
                group(f, operand, signed || compound(operand) || matches!(**operand, Expr::Unary(..)))
            }
            Expr::Binary(operator, operands) => {
                group(f, &operands.0, compound(&operands.0))?;
                write!(f, " {} ", operator.symbol())?;
                group(f, &operands.1, compound(&operands.1))
            }
            Expr::Conditional(parts) => {
                group(f, &parts.0, compound(&parts.0))?;
                f.write_str(" ? ")?;
                group(f, &parts.1, compound(&parts.1))?;
                f.write_str(" : ")?;
                group(f, &parts.2, compound(&parts.2))
            }
        }
    }
}

/// Whether a subexpression gets parentheses; with them, the output does not depend on operator precedence.
fn compound(expr: &Expr<'_>) -> bool {
    matches!(expr, Expr::Binary(..) | Expr::Conditional(_))
}

fn group(f: &mut Formatter<'_>, expr: &Expr<'_>, parentheses: bool) -> fmt::Result {
    if parentheses { write!(f, "({expr})") } else { expr.fmt(f) }
}
