//! Parses PTX text to a tree, and prints a tree as PTX text.
//!
//! [`parse`] never fails: it returns everything that could be parsed and a list of all errors, each with its location.
//! The tree borrows its names from the source, can be edited, and prints as PTX again. It represents directives and the
//! syntax of operands but has no list of instructions: opcodes, modifiers and operands of PTX 6 to 9 and later are all
//! preserved.
//!
//! ```
//! use warpproof_ptx::{LineIndex, LineTable, Operand, Statement, parse, print};
//!
//! let source = r#"
//! .version 8.7
//! .target sm_89
//! .address_size 64
//! .file 1 "scale.cu"
//! .visible .entry scale(.param .u64 out)
//! {
//!     .reg .b64 %rd<2>;
//!     .loc 1 3 5
//!     ld.param.u64 %rd1, [out];
//!     st.global.f32 [%rd1+4], 0f40000000;
//!     ret;
//! }
//! "#;
//! let (mut module, errors) = parse(source);
//! assert!(errors.is_empty());
//!
//! let lines = LineTable::new(&module);
//! let kernel = module.functions_mut().next().unwrap();
//! let body = kernel.body.as_mut().unwrap();
//! for statement in body.iter() {
//!     if let Statement::Instruction(instruction) = statement
//!         && instruction.opcode == "st"
//!     {
//!         assert!(instruction.has("global"));
//!         assert!(matches!(&instruction.operands[0], Operand::Address(a) if a.offset == 4));
//!         assert_eq!(lines.location(instruction.span.start).unwrap().line, 3);
//!     }
//! }
//! body.retain(|statement| !matches!(statement, Statement::Instruction(i) if i.opcode == "st"));
//! assert!(!print(&module).contains("st.global"));
//!
//! // One run reports all errors, each with its location.
//! let broken = ".version 8.7\n.target sm_89\n.func f()\n{\n  add.s32 %r1, , 4;\n  ret\n}\n";
//! let (_, errors) = parse(broken);
//! let index = LineIndex::new(broken);
//! let places: Vec<String> = errors.iter().map(|e| index.position(e.span.start).to_string()).collect();
//! assert_eq!(places, ["5:16", "6:6"]);
//! ```
#![forbid(unsafe_code)]

pub mod elf;
mod erase;
mod expr;
mod lexer;
mod lines;
mod parse;
mod print;
mod span;
mod tree;

pub use expr::{Binary, Expr, Integer, Radix, Unary, Value};
pub use lines::{LineTable, Location};
pub use parse::{parse, parse_parts};
pub use print::print;
pub use span::{Error, LineIndex, Position, Span};
pub use tree::{
    Address, AddressSize, Alias, Argument, Attribute, Block, CallPrototype, Compound, Declarator, Directive,
    DwarfLine, Element, File, Float, Function, FunctionDirective, Guard, Initializer, Inlined, Instruction,
    Label, LabeledList, Linkage, ListedName, Loc, Module, Operand, Pointer, Pragma, Section, SectionLine,
    SectionValue, Space, Statement, Target, Variable, Version, component, type_bits,
};
