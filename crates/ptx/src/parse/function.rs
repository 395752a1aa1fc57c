//! Kernels and device functions.

use smallvec::SmallVec;

use super::{Parsed, Parser, Reported, module_directive, statement_directive};
use crate::lexer::Token;
use crate::{Argument, Function, FunctionDirective, Linkage, Space, Span, Variable};

impl<'s> Parser<'s> {
    /// From `.entry` or `.func`, the current token, to the closing `}` or `;`.
    pub(super) fn function(&mut self, linkage: Option<Linkage>, start: u32) -> Function<'s> {
        let entry = self.is_dotted("entry");
        self.advance();
        let mut function = Function {
            linkage,
            entry,
            attributes: Vec::new(),
            returns: Vec::new(),
            name: "",
            params: Vec::new(),
            directives: Vec::new(),
            body: None,
            name_span: self.span(),
            span: self.span(),
        };
        if self.header(&mut function).is_err() {
            self.skip_header();
        }
        self.body(&mut function);
        function.span = self.span_from(start);
        function
    }

    /// Parses the header, up to the token that ends it.
    fn header(&mut self, function: &mut Function<'s>) -> Parsed<()> {
        while self.is_dotted("attribute") {
            self.attributes(&mut function.attributes)?;
        }
        if self.token() == Token::OpenParen {
            let open = self.span();
            function.returns = self.params();
            if function.entry {
                self.error(open, "a kernel cannot return a value");
            }
        }
        function.name_span = self.span();
        function.name =
            self.word(if function.entry { "the kernel's name" } else { "the function's name" })?;
        if self.token() == Token::OpenParen {
            function.params = self.params();
        }
        while self.token() == Token::Dotted && !self.ends_header() {
            if self.is_dotted("attribute") {
                self.attributes(&mut function.attributes)?;
            } else {
                let directive = self.function_directive()?;
                function.directives.push(directive);
            }
        }
        Ok(())
    }

    /// Whether the current dotted word belongs to a body whose `{` is missing, or to the next function.
    fn ends_header(&self) -> bool {
        let name = self.dotted();
        if name == "pragma" {
            return false;
        }
        Space::from_name(name).is_some()
            || statement_directive(name)
            || module_directive(name)
            || name == "weak"
    }

    fn body(&mut self, function: &mut Function<'s>) {
        let open = match self.token() {
            Token::Semicolon => {
                self.advance();
                return;
            }
            Token::OpenBrace => {
                let open = self.span();
                self.advance();
                open
            }
            Token::Dotted if !module_directive(self.dotted()) && self.dotted() != "weak" => {
                self.missing_brace();
                self.span()
            }
            Token::Word | Token::At => {
                self.missing_brace();
                self.span()
            }
            _ => {
                self.unexpected("`{` or `;` after the function's header");
                self.skip_header();
                if self.token() != Token::OpenBrace {
                    self.eat(Token::Semicolon);
                    return;
                }
                let open = self.span();
                self.advance();
                open
            }
        };
        let mut statements = Vec::new();
        self.statements(open, &mut statements);
        function.body = Some(statements);
    }

    fn missing_brace(&mut self) {
        let message = format!("expected `{{` before {}", self.found());
        let at = self.after_previous();
        self.error_with_help(at, message, "add the `{` that opens the body");
    }

    /// After an error in a header: skips to its body or its end.
    fn skip_header(&mut self) {
        loop {
            match self.token() {
                Token::End | Token::OpenBrace | Token::CloseBrace | Token::Semicolon => return,
                Token::Dotted if self.lexer.first_on_line && self.ends_header() => return,
                Token::OpenText | Token::OpenComment | Token::Stray => self.lexical_error(),
                _ => self.advance(),
            }
        }
    }

    /// `( … )` of parameters; broken ones are reported and left out.
    pub(super) fn params(&mut self) -> Vec<Variable<'s>> {
        let open = self.span();
        self.advance();
        let mut params = Vec::new();
        if self.eat(Token::CloseParen) {
            return params;
        }
        loop {
            match self.param() {
                Ok(param) => {
                    params.push(param);
                    if !matches!(self.token(), Token::Comma | Token::CloseParen) && !self.ends_params() {
                        // `.param .u32 a .param .u32 b`: only the comma is missing.
                        let next = self.is_dotted("param") || self.is_dotted("reg");
                        self.unexpected("`,` or `)`");
                        if next {
                            continue;
                        }
                        self.skip_param();
                    }
                }
                Err(Reported) => self.skip_param(),
            }
            if self.eat(Token::Comma) {
                continue;
            }
            if !self.eat(Token::CloseParen) {
                self.unclosed_params(open);
            }
            return params;
        }
    }

    fn unclosed_params(&mut self, open: Span) {
        self.error_with_help(open, "this `(` is not closed", "add `)` after the last parameter");
    }

    fn ends_params(&self) -> bool {
        matches!(self.token(), Token::End | Token::OpenBrace | Token::CloseBrace | Token::Semicolon)
    }

    /// Skips to the next `,` or `)` of a parameter list, or to a token that shows that the list has ended.
    fn skip_param(&mut self) {
        loop {
            match self.token() {
                Token::Comma | Token::CloseParen => return,
                Token::Dotted if self.lexer.first_on_line && module_directive(self.dotted()) => return,
                Token::OpenText | Token::OpenComment | Token::Stray => self.lexical_error(),
                _ if self.ends_params() => return,
                _ => self.advance(),
            }
        }
    }

    /// `.name argument, …`
    pub(super) fn function_directive(&mut self) -> Parsed<FunctionDirective<'s>> {
        let start = self.start();
        let name = self.dotted();
        self.advance();
        let mut arguments = SmallVec::new();
        loop {
            let argument = match self.token() {
                Token::Number | Token::Minus => Argument::Integer(self.integer("a number")?),
                Token::Text | Token::OpenText => Argument::Text(self.quoted("a text")?),
                Token::Word if !self.lexer.first_on_line => Argument::Name(self.word("a name")?),
                _ if arguments.is_empty() => break,
                _ => return Err(self.unexpected("an argument after `,`")),
            };
            arguments.push(argument);
            if !self.eat(Token::Comma) {
                break;
            }
        }
        let span = self.span_from(start);
        // Unlike the other directives here, a pragma ends in `;`.
        if name == "pragma" {
            self.expect(Token::Semicolon, "`;` after the pragma")?;
        }
        Ok(FunctionDirective { name, arguments, span })
    }
}
