//! Declarations of variables, registers and parameters.

use smallvec::SmallVec;

use super::{Parsed, Parser};
use crate::lexer::Token;
use crate::{Address, Attribute, Declarator, Expr, Initializer, Integer, Linkage, Pointer, Space, Variable};

pub(super) fn linkage(name: &str) -> Option<Linkage> {
    Some(match name {
        "extern" => Linkage::Extern,
        "visible" => Linkage::Visible,
        "weak" => Linkage::Weak,
        "common" => Linkage::Common,
        _ => return None,
    })
}

impl<'s> Parser<'s> {
    /// A whole declaration, from linkage to `;`.
    pub(super) fn variable(&mut self) -> Parsed<Variable<'s>> {
        let start = self.start();
        let mut variable = self.declaration()?;
        loop {
            let mut declarator = self.declarator()?;
            if self.eat(Token::Equals) {
                declarator.initializer = Some(self.initializer()?);
            }
            variable.names.push(declarator);
            if !self.eat(Token::Comma) {
                break;
            }
        }
        self.end_of_statement("`,` or `;`")?;
        variable.span = self.span_from(start);
        Ok(variable)
    }

    /// A parameter: one name, no initializer.
    pub(super) fn param(&mut self) -> Parsed<Variable<'s>> {
        let start = self.start();
        if self.token() != Token::Dotted {
            return Err(self.unexpected("a parameter such as `.param .u32 name`"));
        }
        let mut variable = self.declaration()?;
        let declarator = self.declarator()?;
        variable.names.push(declarator);
        variable.span = self.span_from(start);
        Ok(variable)
    }

    /// The dotted words before the names, in any order.
    fn declaration(&mut self) -> Parsed<Variable<'s>> {
        let mut space = None;
        let mut ty = None;
        let mut variable = Variable {
            linkage: None,
            space: Space::Reg,
            bank: None,
            align: None,
            vector: None,
            ty: "",
            pointer: None,
            attributes: Vec::new(),
            names: SmallVec::new(),
            span: self.span(),
        };
        while self.token() == Token::Dotted {
            let name = self.dotted();
            let span = self.span();
            if let Some(found) = Space::from_name(name) {
                match (&mut variable.pointer, space) {
                    (Some(pointer), _) if pointer.space.is_none() => pointer.space = Some(found),
                    (None, None) => space = Some(found),
                    _ => {
                        if self.lexer.first_on_line {
                            return Err(self.unexpected("a name"));
                        }
                        return Err(
                            self.error(span, format!("`.{name}` is a second state space; expected only one"))
                        );
                    }
                }
                self.advance();
                if found == Space::Const && variable.pointer.is_none() && self.eat(Token::OpenBracket) {
                    variable.bank = Some(self.number32("the bank")?);
                    self.expect(Token::CloseBracket, "`]` after the bank")?;
                }
                continue;
            }
            if let Some(found) = linkage(name) {
                if variable.linkage.is_some() {
                    return Err(self.error(span, format!("`.{name}` is a second linkage; expected only one")));
                }
                variable.linkage = Some(found);
                self.advance();
                continue;
            }
            match name {
                "align" => {
                    self.advance();
                    let at = self.span();
                    let align = self.number32("the alignment")?;
                    if !align.is_power_of_two() {
                        // The rest of the declaration can still be parsed.
                        self.error(at, "an alignment must be a power of two");
                    }
                    match &mut variable.pointer {
                        Some(pointer) => pointer.align = Some(align),
                        None => variable.align = Some(align),
                    }
                }
                "ptr" => {
                    variable.pointer = Some(Pointer { space: None, align: None });
                    self.advance();
                }
                "v2" | "v4" | "v8" => {
                    variable.vector = name.get(1..).and_then(|digits| digits.parse().ok());
                    self.advance();
                }
                "attribute" => self.attributes(&mut variable.attributes)?,
                _ if ty.is_none() => {
                    ty = Some(name);
                    self.advance();
                }
                _ if self.lexer.first_on_line => return Err(self.unexpected("a name")),
                _ => return Err(self.error(span, format!("`.{name}` is a second type; expected only one"))),
            }
        }
        let Some(space) = space else {
            return Err(self.unexpected("a state space such as `.global` or `.param`"));
        };
        let Some(ty) = ty else {
            return Err(self.unexpected("a type such as `.b32`"));
        };
        variable.space = space;
        variable.ty = ty;
        Ok(variable)
    }

    /// `.attribute(.managed, .unified(1, 2))`
    pub(super) fn attributes(&mut self, attributes: &mut Vec<Attribute<'s>>) -> Parsed<()> {
        self.advance();
        self.expect(Token::OpenParen, "`(` after `.attribute`")?;
        loop {
            if self.token() != Token::Dotted {
                return Err(self.unexpected("an attribute such as `.managed`"));
            }
            let name = self.dotted();
            self.advance();
            let mut arguments = Vec::new();
            if self.eat(Token::OpenParen) {
                loop {
                    arguments.push(self.integer("a number")?);
                    if !self.eat(Token::Comma) {
                        break;
                    }
                }
                self.expect(Token::CloseParen, "`,` or `)`")?;
            }
            attributes.push(Attribute { name, arguments });
            if !self.eat(Token::Comma) {
                break;
            }
        }
        self.expect(Token::CloseParen, "`,` or `)`")
    }

    /// `name`, `name<5>`, `name[4][]`
    fn declarator(&mut self) -> Parsed<Declarator<'s>> {
        let span = self.span();
        let name = self.word("a name")?;
        let count = self.range_count()?;
        let mut dimensions = SmallVec::new();
        while self.eat(Token::OpenBracket) {
            if self.eat(Token::CloseBracket) {
                dimensions.push(None);
                continue;
            }
            let at = self.start();
            let size = self.constant("the size of the array")?;
            let Ok(size) = u64::try_from(size) else {
                return Err(self.error(self.span_from(at), "the size of an array cannot be negative"));
            };
            dimensions.push(Some(size));
            self.expect(Token::CloseBracket, "`]`")?;
        }
        Ok(Declarator { name, count, dimensions, initializer: None, span })
    }

    /// The `<5>` of `%r<5>`.
    pub(super) fn range_count(&mut self) -> Parsed<Option<u32>> {
        if !self.eat(Token::Less) {
            return Ok(None);
        }
        let count = self.number32("the number of names")?;
        self.expect(Token::Greater, "`>`")?;
        Ok(Some(count))
    }

    /// Parses the initializer after `=`.
    fn initializer(&mut self) -> Parsed<Initializer<'s>> {
        if self.token() != Token::OpenBrace {
            return self.scalar_initializer();
        }
        self.nested(|parser| {
            let open = parser.span();
            parser.advance();
            let mut values = Vec::new();
            if parser.eat(Token::CloseBrace) {
                return Ok(Initializer::List(values));
            }
            loop {
                values.push(parser.initializer()?);
                if parser.eat(Token::Comma) {
                    continue;
                }
                if parser.eat(Token::CloseBrace) {
                    return Ok(Initializer::List(values));
                }
                if matches!(parser.token(), Token::Semicolon | Token::End) {
                    return Err(parser.error_with_help(
                        open,
                        "this `{` is not closed",
                        "add `}` before the `;`",
                    ));
                }
                return Err(parser.unexpected("`,` or `}`"));
            }
        })
    }

    fn scalar_initializer(&mut self) -> Parsed<Initializer<'s>> {
        match self.token() {
            Token::Word if self.text() == "generic" => {
                let mut address = self.generic()?;
                if matches!(self.token(), Token::Plus | Token::Minus) {
                    address.offset = address.offset.wrapping_add(self.signed_offset()?);
                }
                Ok(Initializer::Generic(address))
            }
            Token::Word if self.text() != "WARP_SZ" => Ok(Initializer::Symbol(self.address()?)),
            Token::Number => {
                let expr = self.expr("a value")?;
                match expr {
                    Expr::Integer(mask) if self.token() == Token::OpenParen => self.mask(mask),
                    Expr::Integer(_) | Expr::Float(_) => Ok(Initializer::Constant(expr)),
                    _ => self.constant_initializer(expr),
                }
            }
            _ => {
                let expr = self.expr("a value")?;
                self.constant_initializer(expr)
            }
        }
    }

    fn constant_initializer(&mut self, expr: Expr<'s>) -> Parsed<Initializer<'s>> {
        if let Expr::Name(name) = expr
            && name != "WARP_SZ"
            && name != "generic"
        {
            return Ok(Initializer::Symbol(Address::new(Some(name), 0)));
        }
        self.free_of_symbols(&expr)?;
        Ok(Initializer::Constant(expr))
    }

    /// `generic(name)`
    fn generic(&mut self) -> Parsed<Address<'s>> {
        self.advance();
        self.expect(Token::OpenParen, "`(` after `generic`")?;
        if self.token() != Token::Word || self.text() == "WARP_SZ" {
            return Err(self.unexpected("a variable's name"));
        }
        let address = self.address()?;
        self.expect(Token::CloseParen, "`)`")?;
        Ok(Address::new(address.base, address.offset))
    }

    /// The parentheses after a mask.
    fn mask(&mut self, mask: Integer) -> Parsed<Initializer<'s>> {
        self.nested(|parser| {
            parser.advance();
            let value = Box::new(parser.scalar_initializer()?);
            parser.expect(Token::CloseParen, "`)`")?;
            Ok(Initializer::Mask { mask, value })
        })
    }
}
