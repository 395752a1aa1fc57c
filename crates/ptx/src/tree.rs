//! The tree of a PTX module. It borrows every name from the source and can be edited.
//!
//! The tree represents directives and the syntax of operands; it has no list of instructions. Names of types, modifiers and
//! attributes are kept as text, so that a module of a later PTX version is preserved unchanged.

use smallvec::SmallVec;

use crate::{Expr, Integer, Span};

/// A whole module, in source order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module<'s> {
    /// Everything in the outermost scope.
    pub directives: Vec<Directive<'s>>,
}

impl<'s> Module<'s> {
    /// The functions and kernels, declarations included.
    pub fn functions(&self) -> impl Iterator<Item = &Function<'s>> {
        self.directives.iter().filter_map(|directive| match directive {
            Directive::Function(function) => Some(&**function),
            _ => None,
        })
    }

    /// The functions and kernels, mutable.
    pub fn functions_mut(&mut self) -> impl Iterator<Item = &mut Function<'s>> {
        self.directives.iter_mut().filter_map(|directive| match directive {
            Directive::Function(function) => Some(&mut **function),
            _ => None,
        })
    }

    /// The variables of the module scope.
    pub fn variables(&self) -> impl Iterator<Item = &Variable<'s>> {
        self.directives.iter().filter_map(|directive| match directive {
            Directive::Variable(variable) => Some(&**variable),
            _ => None,
        })
    }

    /// `.version` as major and minor number.
    pub fn version(&self) -> Option<(u32, u32)> {
        self.directives.iter().find_map(|directive| match directive {
            Directive::Version(version) => Some((version.major, version.minor)),
            _ => None,
        })
    }

    /// The words of `.target`: the architecture first, then options such as `debug`.
    pub fn target(&self) -> &[&'s str] {
        self.directives
            .iter()
            .find_map(|directive| match directive {
                Directive::Target(target) => Some(&target.names[..]),
                _ => None,
            })
            .unwrap_or(&[])
    }
}

/// One item in the outermost scope.
#[derive(Clone, Debug, PartialEq)]
pub enum Directive<'s> {
    /// `.version 8.7`
    Version(Version),
    /// `.target sm_89, debug`
    Target(Target<'s>),
    /// `.address_size 64`
    AddressSize(AddressSize),
    /// `.file 1 "a.cu", 0, 0`
    File(Box<File<'s>>),
    /// `.section .debug_str { … }`
    Section(Box<Section<'s>>),
    /// `.pragma "…";`
    Pragma(Pragma<'s>),
    /// `.visible .global .align 4 .u32 counter = 1;`
    Variable(Box<Variable<'s>>),
    /// `.entry` and `.func`, with or without a body
    Function(Box<Function<'s>>),
    /// `.alias name, function;`
    Alias(Alias<'s>),
    /// `.loc` outside a function
    Loc(Loc<'s>),
    /// A line of the debug syntax that `.section` replaced: `@@DWARF .byte 1`
    Dwarf(DwarfLine<'s>),
}

/// `.version major.minor`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The number before the point.
    pub major: u32,
    /// The number after the point.
    pub minor: u32,
    /// The whole directive.
    pub span: Span,
}

/// `.target name, …`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target<'s> {
    /// The architecture, then options.
    pub names: Vec<&'s str>,
    /// The whole directive.
    pub span: Span,
}

/// `.address_size bits`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressSize {
    /// 32 or 64.
    pub bits: u32,
    /// The whole directive.
    pub span: Span,
}

/// `.file index "name" {, time, size}`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File<'s> {
    /// The number by which `.loc` names the file.
    pub index: u32,
    /// The name between the quotes, escapes as written.
    pub name: &'s str,
    /// Time of modification and size in bytes.
    pub stamp: Option<(u64, u64)>,
    /// The whole directive.
    pub span: Span,
}

/// `.section name { … }`
#[derive(Clone, Debug, PartialEq)]
pub struct Section<'s> {
    /// The name as written, such as `.debug_str`.
    pub name: &'s str,
    /// Labels and data.
    pub lines: Vec<SectionLine<'s>>,
    /// The whole directive.
    pub span: Span,
}

/// A line of a `.section`.
#[derive(Clone, Debug, PartialEq)]
pub enum SectionLine<'s> {
    /// `name:`
    Label(&'s str),
    /// `.b8 1, 2` or `.b64 label+4`; consecutive lines of one type are one item.
    Data {
        /// The type without its dot: `b8`, `b16`, `b32`, `b64`.
        ty: &'s str,
        /// At least one value.
        values: Vec<SectionValue<'s>>,
    },
}

/// A value in a `.section`.
#[derive(Clone, Debug, PartialEq)]
pub enum SectionValue<'s> {
    /// A number.
    Integer(Integer),
    /// `label`, `label+4`; a section's own name keeps its dot: `.debug_str+4`
    Label(Box<Address<'s>>),
    /// `label1-label2`
    Difference(Box<(&'s str, &'s str)>),
}

/// `.pragma "…", "…";`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pragma<'s> {
    /// The strings between the quotes, escapes as written.
    pub texts: SmallVec<[&'s str; 1]>,
    /// The whole directive.
    pub span: Span,
}

/// `.alias name, function;`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias<'s> {
    /// The second name.
    pub name: &'s str,
    /// The function it stands for.
    pub function: &'s str,
    /// The whole directive.
    pub span: Span,
}

/// `@@DWARF …`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DwarfLine<'s> {
    /// The rest of the line after `@@DWARF`, trimmed.
    pub text: &'s str,
    /// The whole line.
    pub span: Span,
}

/// The linkage of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Linkage {
    /// `.extern`
    Extern,
    /// `.visible`
    Visible,
    /// `.weak`
    Weak,
    /// `.common`
    Common,
}

impl Linkage {
    /// The directive without its dot.
    pub fn name(self) -> &'static str {
        match self {
            Linkage::Extern => "extern",
            Linkage::Visible => "visible",
            Linkage::Weak => "weak",
            Linkage::Common => "common",
        }
    }
}

/// The state space of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// `.reg`
    Reg,
    /// `.sreg`
    Sreg,
    /// `.const`
    Const,
    /// `.global`
    Global,
    /// `.local`
    Local,
    /// `.param`
    Param,
    /// `.shared`
    Shared,
    /// `.tex`
    Tex,
}

impl Space {
    /// The space of a directive's name (without dot).
    pub fn from_name(name: &str) -> Option<Space> {
        Some(match name {
            "reg" => Space::Reg,
            "sreg" => Space::Sreg,
            "const" => Space::Const,
            "global" => Space::Global,
            "local" => Space::Local,
            "param" => Space::Param,
            "shared" => Space::Shared,
            "tex" => Space::Tex,
            _ => return None,
        })
    }

    /// The directive without its dot.
    pub fn name(self) -> &'static str {
        match self {
            Space::Reg => "reg",
            Space::Sreg => "sreg",
            Space::Const => "const",
            Space::Global => "global",
            Space::Local => "local",
            Space::Param => "param",
            Space::Shared => "shared",
            Space::Tex => "tex",
        }
    }
}

/// A declaration of one or more variables, registers or parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable<'s> {
    /// `.visible` and its like.
    pub linkage: Option<Linkage>,
    /// The state space.
    pub space: Space,
    /// The bank of the old `.const[n]`.
    pub bank: Option<u32>,
    /// `.align n` of the variable itself.
    pub align: Option<u32>,
    /// Elements of a vector: 2, 4 or 8.
    pub vector: Option<u32>,
    /// The type without its dot, such as `b32`, `pred`, `texref`.
    pub ty: &'s str,
    /// `.ptr …` of a kernel parameter.
    pub pointer: Option<Pointer>,
    /// `.attribute(…)`
    pub attributes: Vec<Attribute<'s>>,
    /// The names; never empty in a tree from `parse`.
    pub names: SmallVec<[Declarator<'s>; 1]>,
    /// The whole declaration.
    pub span: Span,
}

/// What a kernel parameter points to: `.ptr .global .align 16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// The space, generic if absent.
    pub space: Option<Space>,
    /// Alignment of the pointee.
    pub align: Option<u32>,
}

/// One attribute of `.attribute(.managed, .unified(1, 2))`.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute<'s> {
    /// The name without its dot.
    pub name: &'s str,
    /// The numbers in its parentheses.
    pub arguments: Vec<Integer>,
}

/// One name of a declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct Declarator<'s> {
    /// The name; for `%r<5>` the prefix `%r`. `_` stands for an unnamed parameter.
    pub name: &'s str,
    /// The 5 of `%r<5>`: names `%r0` to `%r4`.
    pub count: Option<u32>,
    /// Array dimensions; `None` for `[]`.
    pub dimensions: SmallVec<[Option<u64>; 2]>,
    /// Its initial value.
    pub initializer: Option<Initializer<'s>>,
    /// The name.
    pub span: Span,
}

/// The initial value of a variable.
#[derive(Clone, Debug, PartialEq)]
pub enum Initializer<'s> {
    /// `{ …, … }`
    List(Vec<Initializer<'s>>),
    /// A number or a constant expression.
    Constant(Expr<'s>),
    /// `symbol`, `symbol+4`
    Symbol(Address<'s>),
    /// `generic(symbol)+4`
    Generic(Address<'s>),
    /// `0xFF00(…)`: the byte that the mask selects.
    Mask {
        /// The mask: one byte of ones at one of eight positions.
        mask: Integer,
        /// The value from which the mask selects a byte; never a list.
        value: Box<Initializer<'s>>,
    },
}

/// A kernel or a device function.
#[derive(Clone, Debug, PartialEq)]
pub struct Function<'s> {
    /// `.visible` and its like.
    pub linkage: Option<Linkage>,
    /// `.entry` (true) or `.func`.
    pub entry: bool,
    /// `.attribute(…)`
    pub attributes: Vec<Attribute<'s>>,
    /// What a `.func` returns.
    pub returns: Vec<Variable<'s>>,
    /// The name.
    pub name: &'s str,
    /// The parameters.
    pub params: Vec<Variable<'s>>,
    /// `.maxntid`, `.noreturn` and so on, in source order.
    pub directives: Vec<FunctionDirective<'s>>,
    /// The statements; `None` for a declaration.
    pub body: Option<Vec<Statement<'s>>>,
    /// The span of the name.
    pub name_span: Span,
    /// The whole function.
    pub span: Span,
}

/// A directive between a function's parameters and its body.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionDirective<'s> {
    /// The name without its dot.
    pub name: &'s str,
    /// The arguments.
    pub arguments: SmallVec<[Argument<'s>; 3]>,
    /// The whole directive.
    pub span: Span,
}

/// An argument of a [`FunctionDirective`].
#[derive(Clone, Debug, PartialEq)]
pub enum Argument<'s> {
    /// A number.
    Integer(Integer),
    /// A name.
    Name(&'s str),
    /// The string between the quotes.
    Text(&'s str),
}

/// One item in a function's body.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all statements are instructions, and boxing each of them would be slow"
)]
pub enum Statement<'s> {
    /// `name:`
    Label(Label<'s>),
    /// `@%p1 add.s32 %r1, %r2, 4;`
    Instruction(Instruction<'s>),
    /// `.reg .b32 %r<5>;`
    Variable(Box<Variable<'s>>),
    /// `{ … }`
    Block(Box<Block<'s>>),
    /// `.loc 1 10 3`
    Loc(Loc<'s>),
    /// `.pragma "nounroll";`
    Pragma(Box<Pragma<'s>>),
    /// `name: .callprototype (…) _ (…);`
    CallPrototype(Box<CallPrototype<'s>>),
    /// `name: .calltargets f, g;`
    CallTargets(Box<LabeledList<'s>>),
    /// `name: .branchtargets a, b;`
    BranchTargets(Box<LabeledList<'s>>),
    /// A line of the debug syntax that `.section` replaced.
    Dwarf(Box<DwarfLine<'s>>),
}

impl Statement<'_> {
    /// The span of the statement.
    pub fn span(&self) -> Span {
        match self {
            Statement::Label(label) => label.span,
            Statement::Instruction(instruction) => instruction.span,
            Statement::Variable(variable) => variable.span,
            Statement::Block(block) => block.span,
            Statement::Loc(loc) => loc.span,
            Statement::Pragma(pragma) => pragma.span,
            Statement::CallPrototype(prototype) => prototype.span,
            Statement::CallTargets(list) | Statement::BranchTargets(list) => list.span,
            Statement::Dwarf(line) => line.span,
        }
    }
}

/// `name:`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label<'s> {
    /// The name.
    pub name: &'s str,
    /// The name and its colon.
    pub span: Span,
}

/// `{ … }`: a scope of its own for names.
#[derive(Clone, Debug, PartialEq)]
pub struct Block<'s> {
    /// The statements between the braces.
    pub statements: Vec<Statement<'s>>,
    /// From the opening to the closing brace.
    pub span: Span,
}

/// `.loc file line column {, function_name label {+ offset}, inlined_at file line column}`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loc<'s> {
    /// The index of a `.file`.
    pub file: u32,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1; 0 if unknown.
    pub column: u32,
    /// Set when the instructions come from an inlined function.
    pub inlined: Option<Box<Inlined<'s>>>,
    /// The whole directive.
    pub span: Span,
}

/// The second half of a `.loc`: where an inlined function was called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inlined<'s> {
    /// The inlined function's name: a label in `.debug_str` and an offset.
    pub function_name: Option<Address<'s>>,
    /// The index of the call's `.file`.
    pub file: u32,
    /// The call's line.
    pub line: u32,
    /// The call's column.
    pub column: u32,
}

/// `label: .callprototype (returns) name (params) directives;`
#[derive(Clone, Debug, PartialEq)]
pub struct CallPrototype<'s> {
    /// The label by which `call` names it.
    pub label: &'s str,
    /// What the callee returns.
    pub returns: Vec<Variable<'s>>,
    /// Usually `_`.
    pub name: &'s str,
    /// The callee's parameters.
    pub params: Vec<Variable<'s>>,
    /// `.noreturn` and its like.
    pub directives: Vec<FunctionDirective<'s>>,
    /// Including the label.
    pub span: Span,
}

/// `label: .calltargets …;` or `label: .branchtargets …;`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabeledList<'s> {
    /// The label by which an instruction names the list.
    pub label: &'s str,
    /// Functions or labels; `N<4>` stands for `N0` to `N3`.
    pub names: Vec<ListedName<'s>>,
    /// Including the label.
    pub span: Span,
}

/// A name in a [`LabeledList`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedName<'s> {
    /// The name, or the prefix of a range of names.
    pub name: &'s str,
    /// The 4 of `N<4>`.
    pub count: Option<u32>,
}

/// `@guard opcode.modifier… operand, …;`
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction<'s> {
    /// `@%p1` or `@!%p1`
    pub guard: Option<Guard<'s>>,
    /// The word before the first dot.
    pub opcode: &'s str,
    /// The modifiers, without dots, in source order; `::` is kept.
    pub modifiers: SmallVec<[&'s str; 4]>,
    /// The operands in source order.
    pub operands: SmallVec<[Operand<'s>; 4]>,
    /// From the guard to the semicolon.
    pub span: Span,
}

impl Instruction<'_> {
    /// Whether the instruction has the modifier (without its dot).
    pub fn has(&self, modifier: &str) -> bool {
        self.modifiers.contains(&modifier)
    }
}

/// The predicate under which an instruction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard<'s> {
    /// `@!`
    pub negated: bool,
    /// The predicate register.
    pub register: &'s str,
}

/// An operand of an instruction.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand<'s> {
    /// A register, label, symbol, special register or `WARP_SZ`, including a component: `%r1`, `%tid.x`, `%v1.y`.
    /// [`component`] splits off the component.
    Name(&'s str),
    /// `_`: a result or element that is discarded.
    Sink,
    /// A number without a point.
    Integer(Integer),
    /// A number with a point, or the bits of one.
    Float(Float<'s>),
    /// A constant expression other than a plain number: `(1<<4)+2`.
    Constant(Box<Expr<'s>>),
    /// `-name`
    Negated(&'s str),
    /// `!name`
    Not(&'s str),
    /// `[base]`, `[base+4]`, `[16]`
    Address(Address<'s>),
    /// `[tensor, {x, y}]`, `[texture, sampler, {x, y}]`, `[address].unified`
    Compound(Box<Compound<'s>>),
    /// `symbol+4`: the address itself, not the value at that address.
    Offset(Address<'s>),
    /// `array[4]`
    Element(Element<'s>),
    /// `{a, b, _}`
    Vector(Vec<Operand<'s>>),
    /// `p|q`, `{a, b}|q`: two results.
    Pair(Box<(Operand<'s>, Operand<'s>)>),
    /// `(a, b)`: results or arguments of a call.
    List(Vec<Operand<'s>>),
}

/// A base and an offset in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address<'s> {
    /// A register or symbol; `None` for an absolute address.
    pub base: Option<&'s str>,
    /// Bytes after the base (or the absolute address itself, as a 64-bit pattern).
    pub offset: i64,
    /// Whether an offset of 0 is written out, as in `[%SP+0]`: without optimization ptxas then emits an addition.
    pub plus_zero: bool,
}

impl<'s> Address<'s> {
    /// An address, for building operands.
    pub fn new(base: Option<&'s str>, offset: i64) -> Self {
        Self { base, offset, plus_zero: false }
    }
}

/// An address of several parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Compound<'s> {
    /// The first part.
    pub address: Address<'s>,
    /// The operands after the first comma inside the brackets.
    pub rest: Vec<Operand<'s>>,
    /// The suffix after the bracket, without its dot: `unified`.
    pub suffix: Option<&'s str>,
}

/// `name[index]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element<'s> {
    /// The array.
    pub name: &'s str,
    /// The constant index.
    pub index: i64,
}

/// A floating-point constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Float<'s> {
    /// `0f3F800000`: bits of an f32.
    Single(u32),
    /// `0d3FF0000000000000`: bits of an f64.
    Double(u64),
    /// `1.5`, `-2e-3`: always an f64 first, as the manual specifies.
    Decimal {
        /// Whether a minus sign precedes it.
        negative: bool,
        /// The digits as written.
        text: &'s str,
    },
}

impl Float<'_> {
    /// The value as f64.
    pub fn value(self) -> f64 {
        match self {
            Float::Single(bits) => f64::from(f32::from_bits(bits)),
            Float::Double(bits) => f64::from_bits(bits),
            Float::Decimal { negative, text } => {
                let value = text.parse::<f64>().unwrap_or(f64::NAN);
                if negative { -value } else { value }
            }
        }
    }

    /// The same constant with the other sign.
    #[must_use]
    pub fn negated(self) -> Self {
        match self {
            Float::Single(bits) => Float::Single(bits ^ (1 << 31)),
            Float::Double(bits) => Float::Double(bits ^ (1 << 63)),
            Float::Decimal { negative, text } => Float::Decimal { negative: !negative, text },
        }
    }
}

/// Splits `%tid.x` into `%tid` and `x`.
pub fn component(name: &str) -> (&str, Option<&str>) {
    match name.split_once('.') {
        Some((base, component)) => (base, Some(component)),
        None => (name, None),
    }
}

/// Bits of a fundamental type, given without its dot: 32 for `f32`, 1 for `pred`; `None` for opaque and unknown types.
pub fn type_bits(ty: &str) -> Option<u32> {
    Some(match ty {
        "pred" => 1,
        "b8" | "u8" | "s8" | "e4m3" | "e5m2" | "e2m1x2" | "ue8m0" => 8,
        "b16" | "u16" | "s16" | "f16" | "bf16" | "e4m3x2" | "e5m2x2" | "ue8m0x2" | "e2m1x4" => 16,
        "b32" | "u32" | "s32" | "f32" | "f16x2" | "bf16x2" | "tf32" | "s16x2" | "u16x2" | "e4m3x4"
        | "e5m2x4" => 32,
        "b64" | "u64" | "s64" | "f64" | "f32x2" => 64,
        "b128" => 128,
        _ => return None,
    })
}
