//! Numbers and constant expressions.

use super::{MAX_NESTING, Parsed, Parser};
use crate::lexer::Token;
use crate::{Binary, Expr, Float, Integer, Radix, Unary};

/// The value of a number token.
pub(super) enum Number<'s> {
    Integer(Integer),
    Float(Float<'s>),
}

impl<'s> Parser<'s> {
    /// The current number, which must be an integer.
    pub(super) fn integer_literal(&mut self) -> Parsed<Integer> {
        let span = self.span();
        match self.number()? {
            Number::Integer(integer) => Ok(integer),
            Number::Float(_) => {
                Err(self.error(span, "expected an integer, found a floating-point number".to_owned()))
            }
        }
    }

    /// Takes the current number.
    #[inline]
    pub(super) fn number(&mut self) -> Parsed<Number<'s>> {
        let text = self.text();
        let bytes = text.as_bytes();
        // Most numbers are short and decimal.
        if bytes.len() < 19 && bytes.iter().all(u8::is_ascii_digit) && (bytes[0] != b'0' || bytes.len() == 1)
        {
            let magnitude = bytes.iter().fold(0, |value, byte| value * 10 + u64::from(byte - b'0'));
            self.advance();
            return Ok(Number::Integer(Integer {
                magnitude,
                negative: false,
                unsigned: false,
                radix: Radix::Decimal,
            }));
        }
        let span = self.span();
        self.advance();
        match read_number(text) {
            Ok(number) => Ok(number),
            Err(message) => Err(self.error(span, message)),
        }
    }

    /// A constant expression whose value is needed during parsing: an offset, an index, a dimension.
    pub(super) fn constant(&mut self, expected: &str) -> Parsed<i64> {
        let start = self.start();
        let expr = self.expr(expected)?;
        match expr.value() {
            Some(value) => Ok(value.bits.cast_signed()),
            None => Err(self.error(self.span_from(start), format!("{expected} must be an integer constant"))),
        }
    }

    /// A whole constant expression.
    pub(super) fn expr(&mut self, expected: &str) -> Parsed<Expr<'s>> {
        self.operators = 0;
        self.conditional(expected)
    }

    /// Continues an expression whose first part is already parsed.
    pub(super) fn expr_from(&mut self, first: Expr<'s>) -> Parsed<Expr<'s>> {
        self.operators = 0;
        let condition = self.binary_from(first, 0)?;
        self.conditional_from(condition)
    }

    fn conditional(&mut self, expected: &str) -> Parsed<Expr<'s>> {
        let first = self.unary(expected)?;
        let condition = self.binary_from(first, 0)?;
        self.conditional_from(condition)
    }

    fn conditional_from(&mut self, condition: Expr<'s>) -> Parsed<Expr<'s>> {
        if !self.eat(Token::Question) {
            return Ok(condition);
        }
        self.integral(&condition)?;
        self.nested(|parser| {
            let then = parser.conditional("a constant")?;
            parser.integral(&then)?;
            parser.expect(Token::Colon, "`:` of the conditional expression")?;
            let otherwise = parser.conditional("a constant")?;
            parser.integral(&otherwise)?;
            Ok(Expr::Conditional(Box::new((condition, then, otherwise))))
        })
    }

    /// Names other than `WARP_SZ` cannot be part of a constant expression.
    pub(super) fn free_of_symbols(&mut self, expr: &Expr<'s>) -> Parsed<()> {
        match symbol(expr) {
            Some(name) => {
                let message = format!("`{}` is not a constant", shorten(name));
                let help = "a constant expression contains constants only; a symbol may have an offset, as in `name+4`";
                Err(self.error_with_help(self.after_previous(), message, help))
            }
            None => Ok(()),
        }
    }

    /// Operators take integers only.
    fn integral(&mut self, operand: &Expr<'s>) -> Parsed<()> {
        if let Expr::Float(_) = operand {
            let message = "a constant expression takes integers only, not floating-point numbers";
            return Err(self.error(self.after_previous(), message));
        }
        Ok(())
    }

    fn binary_from(&mut self, mut left: Expr<'s>, least: u8) -> Parsed<Expr<'s>> {
        while let Some(operator) = binary_operator(self.token()) {
            let precedence = operator.precedence();
            if precedence < least {
                break;
            }
            self.operators += 1;
            if self.operators > MAX_NESTING {
                let message = format!("expected at most {MAX_NESTING} operators in an expression");
                return Err(self.error(self.span(), message));
            }
            self.integral(&left)?;
            self.advance();
            let right = self.unary("a constant")?;
            let right = self.nested(|parser| parser.binary_from(right, precedence + 1))?;
            self.integral(&right)?;
            left = Expr::Binary(operator, Box::new((left, right)));
        }
        Ok(left)
    }

    /// An operand of an operator, with its signs.
    pub(super) fn unary(&mut self, expected: &str) -> Parsed<Expr<'s>> {
        let operator = match self.token() {
            Token::Number => {
                return Ok(match self.number()? {
                    Number::Integer(integer) => Expr::Integer(integer),
                    Number::Float(float) => Expr::Float(float),
                });
            }
            Token::Word => {
                let name = self.text();
                self.advance();
                return Ok(Expr::Name(name));
            }
            Token::OpenParen => return self.parenthesis(),
            Token::Minus => Unary::Minus,
            Token::Plus => Unary::Plus,
            Token::Bang => Unary::Not,
            Token::Tilde => Unary::Complement,
            _ => return Err(self.unexpected(expected)),
        };
        self.advance();
        let operand = self.nested(|parser| parser.unary("a constant"))?;
        self.apply(operator, operand)
    }

    /// A cast or an expression in parentheses.
    fn parenthesis(&mut self) -> Parsed<Expr<'s>> {
        self.advance();
        if self.token() == Token::Dotted {
            let cast = match self.dotted() {
                "s64" => Some(Unary::ToSigned),
                "u64" => Some(Unary::ToUnsigned),
                _ => None,
            };
            if let Some(cast) = cast {
                self.advance();
                self.expect(Token::CloseParen, "`)` after the cast's type")?;
                let operand = self.nested(|parser| parser.unary("a constant"))?;
                return self.apply(cast, operand);
            }
        }
        let inner = self.nested(|parser| parser.conditional("a constant"))?;
        self.expect(Token::CloseParen, "`)`")?;
        Ok(inner)
    }

    /// A minus sign before a number belongs to the number.
    pub(super) fn apply(&mut self, operator: Unary, operand: Expr<'s>) -> Parsed<Expr<'s>> {
        Ok(match (operator, operand) {
            (Unary::Minus, Expr::Integer(integer)) if !integer.negative => {
                Expr::Integer(Integer { negative: true, ..integer })
            }
            (Unary::Minus, Expr::Float(float)) => Expr::Float(float.negated()),
            (Unary::Plus, Expr::Float(float)) => Expr::Float(float),
            (operator, operand) => {
                self.integral(&operand)?;
                Expr::Unary(operator, Box::new(operand))
            }
        })
    }
}

/// The first name in the expression that is not a predefined constant.
fn symbol<'s>(expr: &Expr<'s>) -> Option<&'s str> {
    match expr {
        Expr::Integer(_) | Expr::Float(_) | Expr::Name("WARP_SZ") => None,
        Expr::Name(name) => Some(name),
        Expr::Unary(_, operand) => symbol(operand),
        Expr::Binary(_, operands) => symbol(&operands.0).or_else(|| symbol(&operands.1)),
        Expr::Conditional(parts) => {
            symbol(&parts.0).or_else(|| symbol(&parts.1)).or_else(|| symbol(&parts.2))
        }
    }
}

pub(super) fn binary_operator(token: Token) -> Option<Binary> {
    Some(match token {
        Token::Star => Binary::Multiply,
        Token::Slash => Binary::Divide,
        Token::Percent => Binary::Remainder,
        Token::Plus => Binary::Add,
        Token::Minus => Binary::Subtract,
        Token::ShiftLeft => Binary::ShiftLeft,
        Token::ShiftRight => Binary::ShiftRight,
        Token::Less => Binary::Less,
        Token::Greater => Binary::Greater,
        Token::LessEqual => Binary::LessEqual,
        Token::GreaterEqual => Binary::GreaterEqual,
        Token::EqualEqual => Binary::Equal,
        Token::BangEqual => Binary::NotEqual,
        Token::Ampersand => Binary::And,
        Token::Caret => Binary::Xor,
        Token::Pipe => Binary::Or,
        Token::AmpersandAmpersand => Binary::LogicalAnd,
        Token::PipePipe => Binary::LogicalOr,
        _ => return None,
    })
}

/// Reads the text of a number, which starts with a digit.
fn read_number(text: &str) -> Result<Number<'_>, String> {
    let (prefix, rest) = text.split_at_checked(2).unwrap_or((text, ""));
    match prefix {
        "0f" | "0F" => {
            return float_bits(rest, 8)
                .map(|bits| Number::Float(Float::Single(u32::try_from(bits).unwrap_or(u32::MAX))));
        }
        "0d" | "0D" => return float_bits(rest, 16).map(|bits| Number::Float(Float::Double(bits))),
        _ => {}
    }
    let hexadecimal = matches!(prefix, "0x" | "0X");
    if !hexadecimal && text.contains(['.', 'e', 'E']) {
        let legal = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
        return match text.parse::<f64>() {
            Ok(_) if legal => Ok(Number::Float(Float::Decimal { negative: false, text })),
            _ => Err(format!("`{}` is not a number", shorten(text))),
        };
    }
    let (digits, unsigned) = match text.strip_suffix(['U', 'u']) {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    let (radix, base, digits) = match prefix {
        "0x" | "0X" => (Radix::Hexadecimal, 16, digits.get(2..).unwrap_or("")),
        "0b" | "0B" => (Radix::Binary, 2, digits.get(2..).unwrap_or("")),
        _ if digits.len() > 1 && digits.starts_with('0') => (Radix::Octal, 8, digits.get(1..).unwrap_or("")),
        _ => (Radix::Decimal, 10, digits),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(base)) {
        let kind = match radix {
            Radix::Binary => "a binary number",
            Radix::Octal => "an octal number (a leading 0 means octal)",
            Radix::Decimal => "a number",
            Radix::Hexadecimal => "a hexadecimal number",
        };
        return Err(format!("`{}` is not {kind}", shorten(text)));
    }
    match u64::from_str_radix(digits, base) {
        Ok(magnitude) => Ok(Number::Integer(Integer { magnitude, negative: false, unsigned, radix })),
        Err(_) => Err(format!("`{}` does not fit in 64 bits", shorten(text))),
    }
}

fn float_bits(digits: &str, length: usize) -> Result<u64, String> {
    if digits.len() == length && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        u64::from_str_radix(digits, 16).map_err(|error| error.to_string())
    } else {
        let prefix = if length == 8 { "0f" } else { "0d" };
        Err(format!("expected exactly {length} hexadecimal digits after `{prefix}`"))
    }
}

fn shorten(text: &str) -> &str {
    text.get(..40).unwrap_or(text)
}
