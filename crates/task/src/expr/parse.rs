//! Parses text into a tree.

use std::ops::Range;

use super::{Binary, ExprError, FUNCTIONS, Kind, MAX_DEPTH, MAX_NODES, MAX_TEXT, Node, Number, real};

#[derive(Clone, Debug, PartialEq)]
enum Token<'t> {
    Number(&'t str),
    Name(&'t str),
    Symbol(&'t str),
    End,
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    token: Token<'t>,
    span: Range<usize>,
    nodes: usize,
    depth: usize,
}

pub(super) fn parse(text: &str) -> Result<Node, ExprError> {
    if text.len() > MAX_TEXT {
        return Err(error(0..text.len(), format!("an expression has at most {MAX_TEXT} bytes"), None));
    }
    let mut parser = Parser { text, at: 0, token: Token::End, span: 0..0, nodes: 0, depth: 0 };
    parser.next()?;
    let root = parser.comparison()?;
    match parser.token {
        Token::End => Ok(root),
        _ => Err(parser.unexpected("an operator")),
    }
}

fn error(span: Range<usize>, sentence: String, help: Option<String>) -> ExprError {
    ExprError { span, sentence, help }
}

/// Longer ones first.
const SYMBOLS: [&str; 14] = ["<=", ">=", "==", "!=", "<", ">", "+", "-", "*", "/", "%", "(", ")", ","];

impl<'t> Parser<'t> {
    fn next(&mut self) -> Result<(), ExprError> {
        let rest = self.text.get(self.at..).unwrap_or("");
        let blanks = rest.len() - rest.trim_start().len();
        let start = self.at + blanks;
        let rest = rest.trim_start();
        let (token, length) = if rest.is_empty() {
            (Token::End, 0)
        } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            (Token::Symbol(symbol), symbol.len())
        } else if rest.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            let length = number_length(rest.as_bytes());
            (Token::Number(rest.get(..length).unwrap_or("")), length)
        } else if rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            (Token::Name(rest.get(..length).unwrap_or("")), length)
        } else {
            let length = rest.chars().next().map_or(0, char::len_utf8);
            let sign = rest.get(..length).unwrap_or("").escape_debug();
            return Err(error(start..start + length, format!("unexpected `{sign}` in an expression"), None));
        };
        self.token = token;
        self.span = start..start + length;
        self.at = start + length;
        Ok(())
    }

    fn take(&mut self, symbol: &str) -> Result<bool, ExprError> {
        let is = self.token == Token::Symbol(SYMBOLS.iter().find(|s| **s == symbol).copied().unwrap_or(""));
        if is {
            self.next()?;
        }
        Ok(is)
    }

    fn unexpected(&self, wanted: &str) -> ExprError {
        let sentence = match &self.token {
            Token::End => format!("expected {wanted}, found the end of the expression"),
            Token::Number(text) | Token::Name(text) | Token::Symbol(text) => {
                format!("expected {wanted}, found `{text}`")
            }
        };
        error(self.span.clone(), sentence, None)
    }

    fn node(&mut self, kind: Kind, span: Range<usize>) -> Result<Node, ExprError> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            let sentence = format!("an expression has at most {MAX_NODES} parts");
            return Err(error(span, sentence, None));
        }
        Ok(Node { kind, span })
    }

    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, ExprError>) -> Result<T, ExprError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let sentence = format!("an expression is at most {MAX_DEPTH} levels deep");
            return Err(error(self.span.clone(), sentence, None));
        }
        let inner = inner(self)?;
        self.depth -= 1;
        Ok(inner)
    }

    fn binary(&mut self, operator: Binary, a: Node, b: Node) -> Result<Node, ExprError> {
        let span = a.span.start..b.span.end;
        self.node(Kind::Binary(operator, Box::new(a), Box::new(b)), span)
    }

    fn operator(&self, choices: &[Binary]) -> Option<Binary> {
        let Token::Symbol(symbol) = self.token else { return None };
        choices.iter().find(|operator| operator.symbol() == symbol).copied()
    }

    fn comparison(&mut self) -> Result<Node, ExprError> {
        const CHOICES: [Binary; 6] = [
            Binary::Less,
            Binary::LessOrEqual,
            Binary::Greater,
            Binary::GreaterOrEqual,
            Binary::Equal,
            Binary::NotEqual,
        ];
        let a = self.sum()?;
        let Some(operator) = self.operator(&CHOICES) else { return Ok(a) };
        self.next()?;
        let b = self.sum()?;
        if self.operator(&CHOICES).is_some() {
            let help = "write where(a < b, b < c, 0)".to_owned();
            return Err(error(self.span.clone(), "comparisons cannot be chained".to_owned(), Some(help)));
        }
        self.binary(operator, a, b)
    }

    fn sum(&mut self) -> Result<Node, ExprError> {
        let mut a = self.product()?;
        while let Some(operator) = self.operator(&[Binary::Add, Binary::Subtract]) {
            self.next()?;
            let b = self.product()?;
            a = self.binary(operator, a, b)?;
        }
        Ok(a)
    }

    fn product(&mut self) -> Result<Node, ExprError> {
        let mut a = self.sign()?;
        while let Some(operator) = self.operator(&[Binary::Multiply, Binary::Divide, Binary::Remainder]) {
            self.next()?;
            let b = self.sign()?;
            a = self.binary(operator, a, b)?;
        }
        Ok(a)
    }

    fn sign(&mut self) -> Result<Node, ExprError> {
        let start = self.span.start;
        if self.take("-")? {
            let of = self.deeper(Self::sign)?;
            let span = start..of.span.end;
            return self.node(Kind::Negate(Box::new(of)), span);
        }
        self.atom()
    }

    fn atom(&mut self) -> Result<Node, ExprError> {
        let (token, span) = (self.token.clone(), self.span.clone());
        match token {
            Token::Number(text) => {
                self.next()?;
                let number = number(text)
                    .ok_or_else(|| error(span.clone(), format!("number out of range: `{text}`"), None))?;
                self.node(Kind::Number(number), span)
            }
            Token::Name(name) => {
                self.next()?;
                if self.take("(")? {
                    return self.call(name, span);
                }
                self.node(Kind::Name(name.to_owned()), span)
            }
            Token::Symbol("(") => {
                self.next()?;
                let mut inner = self.deeper(Self::comparison)?;
                let end = self.span.end;
                if !self.take(")")? {
                    return Err(self.unexpected("`)`"));
                }
                inner.span = span.start..end;
                Ok(inner)
            }
            _ => Err(self.unexpected("a number, a name or `(`")),
        }
    }

    fn call(&mut self, name: &'t str, span: Range<usize>) -> Result<Node, ExprError> {
        let Some((function, _, least, most, _)) = FUNCTIONS.iter().find(|row| row.1 == name).copied() else {
            let names = FUNCTIONS.map(|row| row.1);
            let help = crate::nearest(name, names.into_iter()).map_or_else(
                || format!("expected one of {}", names.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            return Err(error(span, format!("there is no function `{name}`"), Some(help)));
        };
        let mut arguments = vec![self.deeper(Self::comparison)?];
        while self.take(",")? {
            arguments.push(self.deeper(Self::comparison)?);
        }
        let whole = span.start..self.span.end;
        if !self.take(")")? {
            return Err(self.unexpected("`,` or `)`"));
        }
        if !(least..=most).contains(&arguments.len()) {
            let sentence = if least == most {
                format!("`{name}` takes {least} arguments, not {}", arguments.len())
            } else {
                format!("`{name}` takes {least} to {most} arguments, not {}", arguments.len())
            };
            return Err(error(whole, sentence, None));
        }
        self.node(Kind::Call(function, arguments), whole)
    }
}

/// The length of digits with a point and an exponent.
fn number_length(text: &[u8]) -> usize {
    let digits = |from: usize| {
        text.iter().skip(from).take_while(|byte| byte.is_ascii_digit() || **byte == b'_').count()
    };
    let mut at = digits(0);
    if text.get(at) == Some(&b'.') {
        at += 1;
        at += digits(at);
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        let exponent = digits(at + 1 + sign);
        if exponent > 0 {
            at += 1 + sign + exponent;
        }
    }
    at
}

fn number(text: &str) -> Option<Number> {
    let digits: String = text.chars().filter(|c| *c != '_').collect();
    if digits.contains(['.', 'e', 'E']) {
        let real: f64 = digits.parse().ok()?;
        return real.is_finite().then_some(Number { real, integer: None });
    }
    let integer: i64 = digits.parse().ok()?;
    Some(Number { real: real::of_integer(integer), integer: Some(integer) })
}
