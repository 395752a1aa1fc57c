//! Small expressions of task files: sizes and launches over the axes of a shape (`ceil_div(s, 64)`), and elementwise
//! references over the inputs (`where(x > 0, x, 0.1 * x)`). One parser; [`integer`] and [`real`] evaluate.
//!
//! ```text
//! expression := sum [("<" | "<=" | ">" | ">=" | "==" | "!=") sum]
//! sum        := product {("+" | "-") product}
//! product    := sign {("*" | "/" | "%") sign}
//! sign       := {"-"} atom
//! atom       := number | name | function "(" expression {"," expression} ")" | "(" expression ")"
//! ```
//!
//! Texts come from untrusted files: their length, the number of their nodes and their depth are limited, which bounds
//! the time and the stack of parsing and evaluating.

pub mod integer;
mod parse;
pub mod real;

use std::fmt;
use std::ops::Range;

use serde::{Serialize, Serializer};

/// Bytes of the longest expression.
pub const MAX_TEXT: usize = 4096;
/// Nodes of the largest expression.
pub const MAX_NODES: usize = 512;
/// Nesting of parentheses, calls and signs.
pub const MAX_DEPTH: usize = 64;

/// An error in an expression, with its place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExprError {
    /// Bytes of the text.
    pub span: Range<usize>,
    /// The error.
    pub sentence: String,
    /// The fix.
    pub help: Option<String>,
}

impl fmt::Display for ExprError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for ExprError {}

/// An expression. Two that differ only in blanks or redundant parentheses are equal.
#[derive(Clone, Debug)]
pub struct Expr {
    root: Node,
}

#[derive(Clone, Debug)]
struct Node {
    kind: Kind,
    span: Range<usize>,
}

#[derive(Clone, Debug)]
enum Kind {
    Number(Number),
    Name(String),
    Negate(Box<Node>),
    Binary(Binary, Box<Node>, Box<Node>),
    Call(Function, Vec<Node>),
}

/// A literal.
#[derive(Clone, Copy, Debug)]
struct Number {
    real: f64,
    /// The integer value, if written without point and exponent.
    integer: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

impl Binary {
    fn symbol(self) -> &'static str {
        match self {
            Binary::Add => "+",
            Binary::Subtract => "-",
            Binary::Multiply => "*",
            Binary::Divide => "/",
            Binary::Remainder => "%",
            Binary::Less => "<",
            Binary::LessOrEqual => "<=",
            Binary::Greater => ">",
            Binary::GreaterOrEqual => ">=",
            Binary::Equal => "==",
            Binary::NotEqual => "!=",
        }
    }

    /// Its precedence.
    fn level(self) -> u8 {
        match self {
            Binary::Multiply | Binary::Divide | Binary::Remainder => 3,
            Binary::Add | Binary::Subtract => 2,
            _ => 1,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Ceil,
    CeilDiv,
    RoundUp,
    Min,
    Max,
    Where,
    Abs,
    Exp,
    Log,
    Tanh,
    Sqrt,
    Pow,
    Floor,
}

/// Every function: its name, its least and most arguments, and whether it is defined on integers.
const FUNCTIONS: [(Function, &str, usize, usize, bool); 13] = [
    (Function::Ceil, "ceil", 1, 1, true),
    (Function::CeilDiv, "ceil_div", 2, 2, true),
    (Function::RoundUp, "round_up", 2, 2, true),
    (Function::Min, "min", 2, 16, true),
    (Function::Max, "max", 2, 16, true),
    (Function::Where, "where", 3, 3, true),
    (Function::Abs, "abs", 1, 1, true),
    (Function::Exp, "exp", 1, 1, false),
    (Function::Log, "log", 1, 1, false),
    (Function::Tanh, "tanh", 1, 1, false),
    (Function::Sqrt, "sqrt", 1, 1, false),
    (Function::Pow, "pow", 2, 2, false),
    (Function::Floor, "floor", 1, 1, false),
];

impl Function {
    fn name(self) -> &'static str {
        FUNCTIONS.iter().find(|row| row.0 == self).map_or("", |row| row.1)
    }

    fn takes_integers(self) -> bool {
        FUNCTIONS.iter().any(|row| row.0 == self && row.4)
    }
}

impl Expr {
    /// Parses an expression.
    pub fn parse(text: &str) -> Result<Expr, ExprError> {
        parse::parse(text).map(|root| Expr { root })
    }

    /// A constant expression.
    pub fn constant(value: i64) -> Expr {
        let number = Number { real: real::of_integer(value), integer: Some(value) };
        Expr { root: Node { kind: Kind::Number(number), span: 0..0 } }
    }

    /// Every name it uses, in the order of the text, with its place.
    pub fn names(&self) -> Vec<(&str, Range<usize>)> {
        let mut names = Vec::new();
        self.root.visit(&mut |node| {
            if let Kind::Name(name) = &node.kind {
                names.push((name.as_str(), node.span.clone()));
            }
        });
        names
    }

    /// Reasons why it has no value under these names, for any values: unknown names and, for an integer expression,
    /// operations that integers do not have.
    pub fn problems(&self, known: &[&str], integers: bool) -> Vec<ExprError> {
        let mut found = Vec::new();
        self.root.visit(&mut |node| match &node.kind {
            Kind::Name(name) if !known.contains(&name.as_str()) => found.push(unknown(name, known, node)),
            Kind::Number(Number { integer: None, .. }) if integers => found.push(ExprError {
                span: node.span.clone(),
                sentence: "expected an integer".to_owned(),
                help: None,
            }),
            Kind::Call(function, _) if integers && !function.takes_integers() => found.push(ExprError {
                span: node.span.clone(),
                sentence: format!("`{}` is not defined for integers", function.name()),
                help: None,
            }),
            _ => {}
        });
        found
    }
}

fn unknown(name: &str, known: &[&str], node: &Node) -> ExprError {
    let help = match crate::nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "no names are defined here".to_owned(),
        None => format!("expected one of {}", known.join(", ")),
    };
    ExprError { span: node.span.clone(), sentence: format!("`{name}` is not known here"), help: Some(help) }
}

impl Node {
    fn visit<'a>(&'a self, seen: &mut impl FnMut(&'a Node)) {
        seen(self);
        match &self.kind {
            Kind::Number(_) | Kind::Name(_) => {}
            Kind::Negate(of) => of.visit(seen),
            Kind::Binary(_, a, b) => {
                a.visit(seen);
                b.visit(seen);
            }
            Kind::Call(_, arguments) => {
                for argument in arguments {
                    argument.visit(seen);
                }
            }
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, least: u8) -> fmt::Result {
        let level = match &self.kind {
            Kind::Binary(operator, ..) => operator.level(),
            Kind::Negate(_) => 4,
            _ => 5,
        };
        if level < least {
            f.write_str("(")?;
        }
        match &self.kind {
            Kind::Number(Number { integer: Some(integer), .. }) => write!(f, "{integer}")?,
            Kind::Number(Number { real, .. }) => write!(f, "{real:?}")?,
            Kind::Name(name) => f.write_str(name)?,
            Kind::Negate(of) => {
                f.write_str("-")?;
                of.write(f, 4)?;
            }
            Kind::Binary(operator, a, b) => {
                // Comparisons do not chain; the other operators are left-associative.
                a.write(f, if level == 1 { 2 } else { level })?;
                write!(f, " {} ", operator.symbol())?;
                b.write(f, level + 1)?;
            }
            Kind::Call(function, arguments) => {
                write!(f, "{}(", function.name())?;
                for (index, argument) in arguments.iter().enumerate() {
                    if index > 0 {
                        f.write_str(", ")?;
                    }
                    argument.write(f, 0)?;
                }
                f.write_str(")")?;
            }
        }
        if level < least { f.write_str(")") } else { Ok(()) }
    }
}

impl fmt::Display for Expr {
    /// The canonical form: one blank around operators, no redundant parentheses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.root.write(f, 0)
    }
}

impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Serialize for Expr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
