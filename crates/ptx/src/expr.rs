//! Numbers and constant expressions.

/// How an integer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Radix {
    /// `0b101`
    Binary,
    /// `017`
    Octal,
    /// `15`
    Decimal,
    /// `0xF`
    Hexadecimal,
}

/// An integer constant as PTX defines it: 64 bits, signed unless it ends in `U` or does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Integer {
    /// The digits' value.
    pub magnitude: u64,
    /// Whether a minus sign precedes it.
    pub negative: bool,
    /// Whether it ends in `U`.
    pub unsigned: bool,
    /// The base in which it was written and in which the printer prints it.
    pub radix: Radix,
}

impl Integer {
    /// A decimal constant, for building operands.
    pub fn new(value: i64) -> Self {
        Self { magnitude: value.unsigned_abs(), negative: value < 0, unsigned: false, radix: Radix::Decimal }
    }

    /// The constant as a 64-bit pattern, two's complement.
    pub fn bits(self) -> u64 {
        if self.negative { self.magnitude.wrapping_neg() } else { self.magnitude }
    }

    /// The pattern read as a signed number.
    pub fn signed(self) -> i64 {
        self.bits().cast_signed()
    }
}

/// Operators with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unary {
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `!`
    Not,
    /// `~`
    Complement,
    /// `(.s64)`
    ToSigned,
    /// `(.u64)`
    ToUnsigned,
}

impl Unary {
    /// The operator as written.
    pub fn symbol(self) -> &'static str {
        match self {
            Unary::Plus => "+",
            Unary::Minus => "-",
            Unary::Not => "!",
            Unary::Complement => "~",
            Unary::ToSigned => "(.s64)",
            Unary::ToUnsigned => "(.u64)",
        }
    }
}

/// Operators with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the variant names are self-explanatory, and `symbol` gives the spelling")]
pub enum Binary {
    Multiply,
    Divide,
    Remainder,
    Add,
    Subtract,
    ShiftLeft,
    ShiftRight,
    Less,
    Greater,
    LessEqual,
    GreaterEqual,
    Equal,
    NotEqual,
    And,
    Xor,
    Or,
    LogicalAnd,
    LogicalOr,
}

impl Binary {
    /// The operator as written.
    pub fn symbol(self) -> &'static str {
        match self {
            Binary::Multiply => "*",
            Binary::Divide => "/",
            Binary::Remainder => "%",
            Binary::Add => "+",
            Binary::Subtract => "-",
            Binary::ShiftLeft => "<<",
            Binary::ShiftRight => ">>",
            Binary::Less => "<",
            Binary::Greater => ">",
            Binary::LessEqual => "<=",
            Binary::GreaterEqual => ">=",
            Binary::Equal => "==",
            Binary::NotEqual => "!=",
            Binary::And => "&",
            Binary::Xor => "^",
            Binary::Or => "|",
            Binary::LogicalAnd => "&&",
            Binary::LogicalOr => "||",
        }
    }

    /// How tightly it binds, as in C: a larger number binds tighter.
    pub(crate) fn precedence(self) -> u8 {
        match self {
            Binary::Multiply | Binary::Divide | Binary::Remainder => 11,
            Binary::Add | Binary::Subtract => 10,
            Binary::ShiftLeft | Binary::ShiftRight => 9,
            Binary::Less | Binary::Greater | Binary::LessEqual | Binary::GreaterEqual => 8,
            Binary::Equal | Binary::NotEqual => 7,
            Binary::And => 6,
            Binary::Xor => 5,
            Binary::Or => 4,
            Binary::LogicalAnd => 3,
            Binary::LogicalOr => 2,
        }
    }
}

/// A constant expression. Parentheses are not kept; the printer adds those that are needed.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr<'s> {
    /// An integer.
    Integer(Integer),
    /// A floating-point number; the sign is the only operator that accepts one.
    Float(crate::Float<'s>),
    /// `WARP_SZ` or a symbol.
    Name(&'s str),
    /// `-a`
    Unary(Unary, Box<Expr<'s>>),
    /// `a + b`
    Binary(Binary, Box<(Expr<'s>, Expr<'s>)>),
    /// `a ? b : c`
    Conditional(Box<(Expr<'s>, Expr<'s>, Expr<'s>)>),
}

/// A 64-bit value with the signedness that the expression rules give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// The bits.
    pub bits: u64,
    /// `.u64` rather than `.s64`.
    pub unsigned: bool,
}

impl Expr<'_> {
    /// The value of an integer expression; `None` for a symbol, a float, or a division by zero. `WARP_SZ` is 32.
    pub fn value(&self) -> Option<Value> {
        let signed = |bits| Value { bits, unsigned: false };
        Some(match self {
            Expr::Integer(integer) => {
                let unsigned =
                    integer.unsigned || (!integer.negative && i64::try_from(integer.magnitude).is_err());
                Value { bits: integer.bits(), unsigned }
            }
            Expr::Name("WARP_SZ") => signed(32),
            Expr::Name(_) | Expr::Float(_) => return None,
            Expr::Unary(operator, operand) => {
                let value = operand.value()?;
                match operator {
                    Unary::Plus => value,
                    Unary::Minus => Value { bits: value.bits.wrapping_neg(), ..value },
                    Unary::Not => signed(u64::from(value.bits == 0)),
                    Unary::Complement => Value { bits: !value.bits, ..value },
                    Unary::ToSigned => signed(value.bits),
                    Unary::ToUnsigned => Value { unsigned: true, ..value },
                }
            }
            Expr::Binary(operator, operands) => binary(*operator, operands.0.value()?, operands.1.value()?)?,
            Expr::Conditional(parts) => {
                let (then, otherwise) = (parts.1.value()?, parts.2.value()?);
                let chosen = if parts.0.value()?.bits == 0 { otherwise } else { then };
                Value { bits: chosen.bits, unsigned: then.unsigned || otherwise.unsigned }
            }
        })
    }
}

fn binary(operator: Binary, left: Value, right: Value) -> Option<Value> {
    let (a, b) = (left.bits, right.bits);
    let (sa, sb) = (a.cast_signed(), b.cast_signed());
    let unsigned = left.unsigned || right.unsigned;
    let same = |bits| Value { bits, unsigned };
    let truth = |condition: bool| Value { bits: u64::from(condition), unsigned: false };
    // A shift by 64 or more gives 0 (or copies of the sign).
    let count = u32::try_from(b).unwrap_or(u32::MAX);
    Some(match operator {
        Binary::Multiply => same(a.wrapping_mul(b)),
        Binary::Divide if unsigned => same(a.checked_div(b)?),
        Binary::Divide if b == 0 => return None,
        Binary::Divide => same(sa.wrapping_div(sb).cast_unsigned()),
        Binary::Remainder if unsigned => same(a.checked_rem(b)?),
        Binary::Remainder if b == 0 => return None,
        Binary::Remainder => same(sa.wrapping_rem(sb).cast_unsigned()),
        Binary::Add => same(a.wrapping_add(b)),
        Binary::Subtract => same(a.wrapping_sub(b)),
        Binary::ShiftLeft => Value { bits: a.checked_shl(count).unwrap_or(0), ..left },
        Binary::ShiftRight if left.unsigned => Value { bits: a.checked_shr(count).unwrap_or(0), ..left },
        Binary::ShiftRight => Value { bits: (sa >> count.min(63)).cast_unsigned(), ..left },
        Binary::Less => truth(if unsigned { a < b } else { sa < sb }),
        Binary::Greater => truth(if unsigned { a > b } else { sa > sb }),
        Binary::LessEqual => truth(if unsigned { a <= b } else { sa <= sb }),
        Binary::GreaterEqual => truth(if unsigned { a >= b } else { sa >= sb }),
        Binary::Equal => truth(a == b),
        Binary::NotEqual => truth(a != b),
        Binary::And => same(a & b),
        Binary::Xor => same(a ^ b),
        Binary::Or => same(a | b),
        Binary::LogicalAnd => truth(a != 0 && b != 0),
        Binary::LogicalOr => truth(a != 0 || b != 0),
    })
}
