//! Operands of instructions.

use super::expr::{Number, binary_operator};
use super::{Parsed, Parser};
use crate::lexer::Token;
use crate::{Address, Compound, Element, Expr, Operand, Unary};

impl<'s> Parser<'s> {
    /// One operand. In a `call`, parentheses hold a list; elsewhere they may group a constant.
    #[inline]
    pub(super) fn operand(&mut self, call: bool) -> Parsed<Operand<'s>> {
        match self.token() {
            Token::Word => self.named_operand(),
            Token::OpenBracket => self.address_operand(),
            Token::Number => {
                let first = match self.number()? {
                    Number::Integer(integer) => Expr::Integer(integer),
                    Number::Float(float) => Expr::Float(float),
                };
                if matches!(self.token(), Token::Comma | Token::Semicolon | Token::CloseBrace) {
                    return self.constant_operand(first);
                }
                self.constant_from(first)
            }
            Token::OpenBrace => {
                let open = self.span();
                let elements =
                    self.nested(|parser| parser.operand_list(Token::CloseBrace, "`}`", open, call))?;
                let vector = Operand::Vector(elements);
                // The results of a texture fetch and whether they are resident.
                if self.token() == Token::Pipe {
                    self.advance();
                    let second = self.nested(Self::second_of_pair)?;
                    return Ok(Operand::Pair(Box::new((vector, second))));
                }
                Ok(vector)
            }
            Token::OpenParen => self.parenthesised(call),
            Token::Minus | Token::Bang => self.signed_operand(),
            _ => {
                let expr = self.expr("an operand")?;
                self.constant_operand(expr)
            }
        }
    }

    fn constant_from(&mut self, first: Expr<'s>) -> Parsed<Operand<'s>> {
        let expr = self.expr_from(first)?;
        self.constant_operand(expr)
    }

    #[inline]
    fn named_operand(&mut self) -> Parsed<Operand<'s>> {
        self.lexer.take_component();
        let name = self.text();
        self.advance();
        let operand = if name == "_" { Operand::Sink } else { Operand::Name(name) };
        match self.token() {
            Token::Comma | Token::Semicolon | Token::CloseBrace => Ok(operand),
            // A predefined constant cannot be a result; after it, `|` is the operator.
            Token::Pipe if name != "WARP_SZ" => {
                self.advance();
                let second = self.nested(Self::second_of_pair)?;
                Ok(Operand::Pair(Box::new((operand, second))))
            }
            Token::OpenBracket if name != "_" && !name.starts_with('%') => {
                self.advance();
                let index = self.constant("the index")?;
                self.expect(Token::CloseBracket, "`]`")?;
                Ok(Operand::Element(Element { name, index }))
            }
            // A predefined constant starts an expression; any other name is a symbol with an offset.
            token if name == "WARP_SZ" && (binary_operator(token).is_some() || token == Token::Question) => {
                self.constant_from(Expr::Name(name))
            }
            Token::Plus | Token::Minus => {
                let offset = self.signed_offset()?;
                Ok(Operand::Offset(Address { base: Some(name), offset, plus_zero: offset == 0 }))
            }
            Token::Dotted => {
                let message = format!("expected `,` or `;`, found {}", self.found());
                let help = "write a component directly after the name, as in `%tid.x`";
                Err(self.error_with_help(self.span(), message, help))
            }
            _ => Ok(operand),
        }
    }

    fn second_of_pair(&mut self) -> Parsed<Operand<'s>> {
        match self.token() {
            Token::Word => {
                self.lexer.take_component();
                let name = self.text();
                self.advance();
                Ok(if name == "_" { Operand::Sink } else { Operand::Name(name) })
            }
            _ => Err(self.unexpected("a name after `|`")),
        }
    }

    /// `+4`, `+-4`, `-4` after a name.
    pub(super) fn signed_offset(&mut self) -> Parsed<i64> {
        // The minus is not consumed: it is the sign of the first term, so that `a-4+2` is `a+(-4+2)`.
        if self.token() == Token::Plus {
            self.advance();
        }
        self.constant("the offset")
    }

    /// `-…` or `!…`
    fn signed_operand(&mut self) -> Parsed<Operand<'s>> {
        let minus = self.token() == Token::Minus;
        self.advance();
        if self.token() == Token::Word {
            self.lexer.take_component();
            let name = self.text();
            if name != "WARP_SZ" {
                self.advance();
                return Ok(if minus { Operand::Negated(name) } else { Operand::Not(name) });
            }
        }
        // The sign binds tighter than any operator that follows.
        let operator = if minus { Unary::Minus } else { Unary::Not };
        let operand = self.nested(|parser| parser.unary("an operand"))?;
        let first = self.apply(operator, operand)?;
        self.constant_from(first)
    }

    /// `(a, b)` of a call, or a constant in parentheses.
    fn parenthesised(&mut self, call: bool) -> Parsed<Operand<'s>> {
        if !call {
            let expr = self.expr("an operand")?;
            return self.constant_operand(expr);
        }
        let open = self.span();
        let elements = self.nested(|parser| parser.operand_list(Token::CloseParen, "`)`", open, true))?;
        Ok(Operand::List(elements))
    }

    /// Operands up to the closing token; the current token is the opening one.
    fn operand_list(
        &mut self,
        close: Token,
        expected: &str,
        open: crate::Span,
        call: bool,
    ) -> Parsed<Vec<Operand<'s>>> {
        self.advance();
        let mut elements = Vec::new();
        if self.eat(close) {
            return Ok(elements);
        }
        loop {
            elements.push(self.operand(call)?);
            if self.eat(Token::Comma) {
                continue;
            }
            if self.eat(close) {
                return Ok(elements);
            }
            if matches!(self.token(), Token::Semicolon | Token::End) || self.starts_statement() {
                let opened = if close == Token::CloseBrace { "`{`" } else { "`(`" };
                return Err(self.error_with_help(
                    open,
                    format!("this {opened} is not closed"),
                    format!("add {expected} before the `;`"),
                ));
            }
            return Err(self.unexpected(&format!("`,` or {expected}")));
        }
    }

    /// `[…]`
    #[inline]
    fn address_operand(&mut self) -> Parsed<Operand<'s>> {
        let open = self.span();
        self.advance();
        let address = self.address()?;
        let mut rest = Vec::new();
        while self.eat(Token::Comma) {
            rest.push(self.nested(|parser| parser.operand(false))?);
        }
        if self.token() != Token::CloseBracket {
            if matches!(self.token(), Token::Semicolon | Token::End) || self.starts_statement() {
                return Err(self.error_with_help(open, "this `[` is not closed", "add `]` before the `;`"));
            }
            return Err(self.unexpected("`]`"));
        }
        self.advance();
        let suffix = (self.token() == Token::Dotted && !self.starts_statement()).then(|| self.dotted());
        if suffix.is_some() {
            self.advance();
        }
        if rest.is_empty() && suffix.is_none() {
            return Ok(Operand::Address(address));
        }
        Ok(Operand::Compound(Box::new(Compound { address, rest, suffix })))
    }

    /// `base`, `base+4`, `16`
    #[inline]
    pub(super) fn address(&mut self) -> Parsed<Address<'s>> {
        if self.token() != Token::Word || self.text() == "WARP_SZ" {
            let offset = self.constant("an address")?;
            return Ok(Address::new(None, offset));
        }
        self.lexer.take_component();
        let base = Some(self.text());
        self.advance();
        if !matches!(self.token(), Token::Plus | Token::Minus) {
            return Ok(Address::new(base, 0));
        }
        let offset = self.signed_offset()?;
        Ok(Address { base, offset, plus_zero: offset == 0 })
    }

    fn constant_operand(&mut self, expr: Expr<'s>) -> Parsed<Operand<'s>> {
        Ok(match expr {
            Expr::Integer(integer) => Operand::Integer(integer),
            Expr::Float(float) => Operand::Float(float),
            Expr::Name("_") => Operand::Sink,
            Expr::Name(name) => Operand::Name(name),
            other => {
                self.free_of_symbols(&other)?;
                Operand::Constant(Box::new(other))
            }
        })
    }
}
