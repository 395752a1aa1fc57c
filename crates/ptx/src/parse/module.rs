//! Parses the outermost scope of a module.

use super::variable::linkage;
use super::{Parsed, Parser, module_directive};
use crate::lexer::Token;
use crate::{
    AddressSize, Alias, Directive, File, Integer, Module, Radix, Section, SectionLine, SectionValue, Space,
    Span, Target, Version,
};

impl<'s> Parser<'s> {
    pub(super) fn module(&mut self) -> Module<'s> {
        let mut module = Module::default();
        loop {
            let before = self.lexer.start;
            match self.token() {
                Token::End => return module,
                Token::Semicolon => self.advance(),
                Token::Dotted => match self.directive() {
                    Ok(directive) => module.directives.push(directive),
                    Err(_) => self.skip_directive(before),
                },
                Token::AtAt => match self.dwarf_line() {
                    Ok(line) => module.directives.push(Directive::Dwarf(line)),
                    Err(_) => self.skip_directive(before),
                },
                Token::Word | Token::At | Token::OpenBrace => self.stray_statements(),
                Token::CloseBrace => {
                    self.error(self.span(), "unmatched `}`");
                    self.advance();
                }
                _ => {
                    self.unexpected("a directive");
                    self.skip_directive(before);
                }
            }
        }
    }

    pub(super) fn parts(&mut self, parts: &[Span]) -> Module<'s> {
        let mut module = Module::default();
        for part in parts {
            if self.stopped {
                break;
            }
            self.lexer.skip_to(usize::try_from(part.start).unwrap_or(usize::MAX));
            if self.token() != Token::Dotted {
                self.unexpected("a directive");
            } else if let Ok(directive) = self.directive() {
                module.directives.push(directive);
            }
        }
        module
    }

    fn directive(&mut self) -> Parsed<Directive<'s>> {
        let start = self.start();
        let name = self.dotted();
        Ok(match name {
            "loc" => Directive::Loc(self.loc()?),
            "pragma" => Directive::Pragma(self.pragma()?),
            "entry" | "func" => Directive::Function(Box::new(self.function(None, start))),
            "file" => Directive::File(Box::new(self.file()?)),
            "section" => Directive::Section(Box::new(self.section()?)),
            "version" => Directive::Version(self.version()?),
            "target" => Directive::Target(self.target()?),
            "address_size" => {
                self.advance();
                let at = self.span();
                let bits = self.number32("32 or 64")?;
                if bits != 32 && bits != 64 {
                    return Err(self.error(at, "the address size must be 32 or 64"));
                }
                Directive::AddressSize(AddressSize { bits, span: self.span_from(start) })
            }
            "alias" => Directive::Alias(self.alias()?),
            "maxntid" | "reqntid" | "minnctapersm" | "maxnctapersm" | "maxnreg" | "noreturn" => {
                let message = format!("`.{name}` belongs between a function's parameters and its body");
                return Err(self.error(self.span(), message));
            }
            _ if Space::from_name(name).is_some() => Directive::Variable(Box::new(self.variable()?)),
            _ => return self.linked_directive(name),
        })
    }

    /// Parses a construct that starts with `.visible` or similar, or with an unknown directive.
    fn linked_directive(&mut self, name: &str) -> Parsed<Directive<'s>> {
        let Some(linkage) = linkage(name) else {
            let message = format!("unknown directive {}", self.found());
            return Err(self.error(self.span(), message));
        };
        let mut ahead = self.lexer.clone();
        ahead.advance();
        if ahead.token == Token::Dotted && matches!(ahead.text(), ".entry" | ".func") {
            let start = self.start();
            self.advance();
            return Ok(Directive::Function(Box::new(self.function(Some(linkage), start))));
        }
        Ok(Directive::Variable(Box::new(self.variable()?)))
    }

    /// Instructions outside a function: reports one error for that, and any other errors in them.
    fn stray_statements(&mut self) {
        let message = format!("{} is outside of a function", self.found());
        let help = "a `}` before it may be unmatched";
        self.error_with_help(self.span(), message, help);
        let mut discarded = Vec::new();
        loop {
            match self.token() {
                Token::End => return,
                // This brace belongs to the one that was closed too early.
                Token::CloseBrace => {
                    self.advance();
                    return;
                }
                Token::Semicolon => self.advance(),
                Token::OpenBrace => {
                    let open = self.span();
                    self.advance();
                    self.statements(open, &mut discarded);
                }
                Token::Dotted if self.starts_module_directive() || self.module_scope() => return,
                _ => self.statement_or_skip(&mut discarded),
            }
            discarded.clear();
        }
    }

    /// A dotted word at the start of a line that is valid in the outermost scope.
    fn module_scope(&self) -> bool {
        let name = self.dotted();
        self.lexer.first_on_line
            && (module_directive(name) || matches!(name, "weak" | "global" | "const" | "tex" | "shared"))
    }

    /// After a broken directive that started at `start`: skips past its `;` or `}`, or to the next directive. A body is
    /// still parsed for errors.
    fn skip_directive(&mut self, start: usize) {
        if self.lexer.start == start {
            self.advance();
        }
        loop {
            match self.token() {
                Token::End | Token::AtAt => return,
                Token::CloseBrace if self.closes_list() => self.advance(),
                Token::Semicolon | Token::CloseBrace => {
                    self.advance();
                    return;
                }
                Token::OpenBrace
                    if self.lexer.previous == Token::Equals || self.lexer.previous == Token::Comma =>
                {
                    self.skip_list();
                }
                Token::OpenBrace => {
                    let open = self.span();
                    self.advance();
                    let mut discarded = Vec::new();
                    self.statements(open, &mut discarded);
                    return;
                }
                Token::Dotted if self.module_scope() => return,
                Token::OpenText | Token::OpenComment | Token::Stray => self.lexical_error(),
                _ => self.advance(),
            }
        }
    }

    /// Skips the braces of an initializer.
    fn skip_list(&mut self) {
        let mut depth = 0u64;
        loop {
            match self.token() {
                Token::OpenBrace => depth += 1,
                Token::CloseBrace => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        self.advance();
                        return;
                    }
                }
                Token::End | Token::Semicolon => return,
                Token::Dotted if self.module_scope() => return,
                _ => {}
            }
            self.advance();
        }
    }

    /// `.version 8.7`
    fn version(&mut self) -> Parsed<Version> {
        let start = self.start();
        self.advance();
        let numbers = self
            .text()
            .split_once('.')
            .and_then(|(major, minor)| Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?)));
        match numbers {
            Some((major, minor)) if self.token() == Token::Number => {
                self.advance();
                Ok(Version { major, minor, span: self.span_from(start) })
            }
            _ => Err(self.unexpected("a version such as `8.7`")),
        }
    }

    /// `.target sm_89, debug`
    fn target(&mut self) -> Parsed<Target<'s>> {
        let start = self.start();
        self.advance();
        let mut names = Vec::new();
        loop {
            names.push(self.word("a target such as `sm_89`")?);
            if !self.eat(Token::Comma) {
                break;
            }
        }
        Ok(Target { names, span: self.span_from(start) })
    }

    /// `.file 1 "name", 0, 0`
    fn file(&mut self) -> Parsed<File<'s>> {
        let start = self.start();
        self.advance();
        let index = self.number32("the index of the file")?;
        let name = self.quoted("the file's name in quotes")?;
        let mut stamp = None;
        if self.eat(Token::Comma) {
            let time = self.integer("the file's time")?.bits();
            self.expect(Token::Comma, "`,` and the file's size")?;
            stamp = Some((time, self.integer("the file's size")?.bits()));
        }
        Ok(File { index, name, stamp, span: self.span_from(start) })
    }

    /// `.alias name, function;`
    fn alias(&mut self) -> Parsed<Alias<'s>> {
        let start = self.start();
        self.advance();
        let name = self.word("the alias")?;
        self.expect(Token::Comma, "`,`")?;
        let function = self.word("the function it stands for")?;
        self.end_of_statement("`;`")?;
        Ok(Alias { name, function, span: self.span_from(start) })
    }

    /// `.section name { … }`
    fn section(&mut self) -> Parsed<Section<'s>> {
        let start = self.start();
        self.advance();
        let mut name = "";
        if matches!(self.token(), Token::Dotted | Token::Word) {
            name = self.text();
            self.advance();
        } else {
            self.unexpected("a section's name such as `.debug_str`");
        }
        let open = self.span();
        if !self.eat(Token::OpenBrace) {
            return Err(self.unexpected("`{` after the section's name"));
        }
        let mut lines = Vec::new();
        loop {
            match self.token() {
                Token::CloseBrace => {
                    self.advance();
                    break;
                }
                Token::Semicolon => self.advance(),
                Token::End => {
                    self.error_with_help(open, "this `{` is never closed", "add the closing `}`");
                    break;
                }
                Token::Dotted if !data_type(self.dotted()) && self.starts_module_directive() => {
                    let message = format!("this `{{` is not closed before {}", self.found());
                    self.error_with_help(open, message, "add the closing `}`");
                    break;
                }
                _ => {
                    let before = self.lexer.start;
                    if self.section_line(&mut lines).is_err() {
                        self.skip_section_line(before);
                    }
                }
            }
        }
        Ok(Section { name, lines, span: self.span_from(start) })
    }

    fn section_line(&mut self, lines: &mut Vec<SectionLine<'s>>) -> Parsed<()> {
        match self.token() {
            Token::Word => {
                let name = self.text();
                self.advance();
                self.expect(Token::Colon, "`:` after the label")?;
                lines.push(SectionLine::Label(name));
                Ok(())
            }
            Token::Dotted => {
                let name = self.dotted();
                if !data_type(name) {
                    return Err(self.unexpected_here("`.b8`, `.b16`, `.b32` or `.b64`"));
                }
                // Compilers write one value per line, in millions of lines.
                if let Some(SectionLine::Data { ty, values }) = lines.last_mut()
                    && *ty == name
                {
                    return self.section_values(name, values);
                }
                let mut values = Vec::new();
                self.section_values(name, &mut values)?;
                lines.push(SectionLine::Data { ty: name, values });
                Ok(())
            }
            _ => Err(self.unexpected_here("a label or data")),
        }
    }

    fn section_values(&mut self, ty: &str, values: &mut Vec<SectionValue<'s>>) -> Parsed<()> {
        let plain = self.lexer.take_plain_data(ty, |magnitude| {
            let radix = Radix::Decimal;
            values.push(SectionValue::Integer(Integer {
                magnitude,
                negative: false,
                unsigned: false,
                radix,
            }));
        });
        self.advance();
        if plain && !self.eat(Token::Comma) {
            return Ok(());
        }
        loop {
            values.push(self.section_value()?);
            if !self.eat(Token::Comma) {
                return Ok(());
            }
        }
    }

    fn section_value(&mut self) -> Parsed<SectionValue<'s>> {
        if matches!(self.token(), Token::Number | Token::Minus) {
            return Ok(SectionValue::Integer(self.integer("a number")?));
        }
        // A name at the start of a line belongs to that line.
        let belongs = self.lexer.first_on_line && self.lexer.previous != Token::Comma;
        if belongs || !matches!(self.token(), Token::Word | Token::Dotted) {
            return Err(self.unexpected("a value"));
        }
        // `label1-label2` starts like `label1-4`.
        let mut ahead = self.lexer.clone();
        ahead.advance();
        if ahead.token == Token::Minus {
            ahead.advance();
            if matches!(ahead.token, Token::Word | Token::Dotted) {
                let left = self.text();
                self.advance();
                self.advance();
                let right = self.text();
                self.advance();
                return Ok(SectionValue::Difference(Box::new((left, right))));
            }
        }
        Ok(SectionValue::Label(Box::new(self.section_label()?)))
    }

    /// After a broken line of a section that started at `start`: skips to the next line.
    fn skip_section_line(&mut self, start: usize) {
        if self.lexer.start == start {
            self.lexical_or_advance();
        }
        while !matches!(self.token(), Token::End | Token::CloseBrace) && !self.lexer.first_on_line {
            self.lexical_or_advance();
        }
    }

    fn lexical_or_advance(&mut self) {
        match self.token() {
            Token::OpenText | Token::OpenComment | Token::Stray => self.lexical_error(),
            _ => self.advance(),
        }
    }
}

fn data_type(name: &str) -> bool {
    matches!(name, "b8" | "b16" | "b32" | "b64")
}
