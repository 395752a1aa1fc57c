//! Parses the statements of a body.

use smallvec::SmallVec;

use super::{Parsed, Parser, Reported, module_directive, statement_directive};
use crate::lexer::Token;
use crate::{
    Address, Block, CallPrototype, DwarfLine, Guard, Inlined, Instruction, Label, LabeledList, ListedName,
    Loc, Pragma, Space, Span, Statement,
};

impl<'s> Parser<'s> {
    /// Parses statements up to and including the `}` that closes `open`. Returns false, after reporting it, if that `}`
    /// is missing.
    pub(super) fn statements(&mut self, open: Span, statements: &mut Vec<Statement<'s>>) -> bool {
        loop {
            match self.token() {
                Token::CloseBrace => {
                    self.advance();
                    return true;
                }
                Token::Semicolon => self.advance(),
                Token::End => {
                    self.error_with_help(open, "this `{` is never closed", "add the closing `}`");
                    return false;
                }
                Token::Dotted if self.starts_module_directive() => {
                    let message = format!("this `{{` is not closed before {}", self.found());
                    self.error_with_help(open, message, "add the closing `}`");
                    return false;
                }
                Token::OpenBrace => match self.block() {
                    Ok((block, closed)) => {
                        statements.push(Statement::Block(Box::new(block)));
                        if !closed {
                            return false;
                        }
                    }
                    Err(Reported) => self.skip_deep_block(),
                },
                _ => self.statement_or_skip(statements),
            }
        }
    }

    /// Parses one statement; records an error and skips the statement if it is broken.
    pub(super) fn statement_or_skip(&mut self, statements: &mut Vec<Statement<'s>>) {
        let before = self.lexer.start;
        if self.statement(statements).is_err() {
            if self.lexer.start == before {
                self.advance();
            }
            self.skip_statement();
        }
    }

    #[inline]
    fn statement(&mut self, statements: &mut Vec<Statement<'s>>) -> Parsed<()> {
        match self.token() {
            Token::Word => self.labeled_or_instruction(statements),
            Token::At => {
                let start = self.start();
                self.advance();
                let negated = self.eat(Token::Bang);
                if self.token() == Token::Word {
                    self.lexer.take_component();
                }
                let register = self.word("a predicate register after `@`")?;
                let opcode_at = self.span();
                let opcode = self.word("an instruction after the guard")?;
                let guard = Some(Guard { negated, register });
                self.opcode(opcode, opcode_at)?;
                self.instruction(statements, guard, opcode, start)
            }
            Token::AtAt => {
                let line = self.dwarf_line()?;
                statements.push(Statement::Dwarf(Box::new(line)));
                Ok(())
            }
            Token::Dotted => {
                let statement = self.body_directive()?;
                statements.push(statement);
                Ok(())
            }
            _ => Err(self.unexpected("an instruction, a label or a directive")),
        }
    }

    fn block(&mut self) -> Parsed<(Block<'s>, bool)> {
        self.nested(|parser| {
            let open = parser.span();
            parser.advance();
            let mut statements = Vec::new();
            let closed = parser.statements(open, &mut statements);
            Ok((Block { statements, span: parser.span_from(open.start) }, closed))
        })
    }

    /// Skips a block that nests too deep, counting braces instead of recursing.
    fn skip_deep_block(&mut self) {
        let mut depth = 0u64;
        loop {
            match self.token() {
                Token::End => return,
                Token::OpenBrace => depth += 1,
                Token::CloseBrace => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        self.advance();
                        return;
                    }
                }
                Token::Dotted if self.starts_module_directive() => return,
                _ => {}
            }
            self.advance();
        }
    }

    /// Whether the current dotted word is valid only outside a function, which means that the body is not closed.
    pub(super) fn starts_module_directive(&self) -> bool {
        if !self.lexer.first_on_line {
            return false;
        }
        match self.dotted() {
            "visible" | "extern" | "weak" | "common" => {
                let mut ahead = self.lexer.clone();
                ahead.advance();
                ahead.token == Token::Dotted && matches!(ahead.text(), ".entry" | ".func")
            }
            name => module_directive(name),
        }
    }

    #[inline]
    fn labeled_or_instruction(&mut self, statements: &mut Vec<Statement<'s>>) -> Parsed<()> {
        let start = self.start();
        let name = self.text();
        let name_at = self.span();
        self.advance();
        if self.token() != Token::Colon {
            self.opcode(name, name_at)?;
            return self.instruction(statements, None, name, start);
        }
        self.advance();
        let span = self.span_from(start);
        if self.token() == Token::Dotted {
            match self.dotted() {
                "callprototype" => {
                    let prototype = self.call_prototype(name, start)?;
                    statements.push(Statement::CallPrototype(Box::new(prototype)));
                    return Ok(());
                }
                "calltargets" => {
                    let list = self.labeled_list(name, start)?;
                    statements.push(Statement::CallTargets(Box::new(list)));
                    return Ok(());
                }
                "branchtargets" => {
                    let list = self.labeled_list(name, start)?;
                    statements.push(Statement::BranchTargets(Box::new(list)));
                    return Ok(());
                }
                _ => {}
            }
        }
        statements.push(Statement::Label(Label { name, span }));
        Ok(())
    }

    /// Whether a word can be an opcode.
    #[inline]
    fn opcode(&mut self, opcode: &str, span: Span) -> Parsed<()> {
        if opcode.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Ok(());
        }
        let message = format!("expected an instruction, found `{}`", opcode.get(..60).unwrap_or(opcode));
        Err(self.error(span, message))
    }

    /// Parses an instruction whose guard and opcode are already parsed. The value is large, so it is written to its
    /// destination directly.
    #[inline]
    fn instruction(
        &mut self,
        statements: &mut Vec<Statement<'s>>,
        guard: Option<Guard<'s>>,
        opcode: &'s str,
        start: u32,
    ) -> Parsed<()> {
        let mut modifiers = SmallVec::new();
        while self.token() == Token::Dotted {
            let name = self.dotted();
            if self.lexer.first_on_line && (statement_directive(name) || module_directive(name)) {
                break;
            }
            modifiers.push(name);
            self.advance();
        }
        let mut operands = SmallVec::new();
        if self.token() != Token::Semicolon && !self.without_operands() {
            let call = opcode == "call";
            loop {
                operands.push(self.operand(call)?);
                if !self.eat(Token::Comma) {
                    break;
                }
            }
        }
        self.end_of_statement("`,` or `;`")?;
        let span = self.span_from(start);
        statements.push(Statement::Instruction(Instruction { guard, opcode, modifiers, operands, span }));
        Ok(())
    }

    /// After an opcode: whether the next statement starts here, so that only `;` is missing. A name on its own line may
    /// also be the first operand, because compilers write calls like that; the token after the name decides.
    fn without_operands(&self) -> bool {
        match self.token() {
            Token::CloseBrace | Token::End => true,
            Token::Dotted | Token::At => self.starts_statement(),
            Token::Word if self.starts_statement() => {
                let mut ahead = self.lexer.clone();
                ahead.advance();
                let opcode =
                    matches!(ahead.token, Token::Dotted | Token::Word | Token::Colon | Token::OpenBrace);
                opcode && !ahead.first_on_line
            }
            _ => false,
        }
    }

    /// Expects the `;` of a statement. If only that is missing, the statement is kept.
    #[inline]
    pub(super) fn end_of_statement(&mut self, expected: &str) -> Parsed<()> {
        if self.eat(Token::Semicolon) {
            return Ok(());
        }
        if self.starts_statement() || matches!(self.token(), Token::CloseBrace | Token::End) {
            let at = self.after_previous();
            self.error_with_help(at, "this statement does not end in `;`", "add `;` here");
            return Ok(());
        }
        Err(self.unexpected(expected))
    }

    /// A statement that starts with a dot.
    fn body_directive(&mut self) -> Parsed<Statement<'s>> {
        let name = self.dotted();
        match name {
            "loc" => Ok(Statement::Loc(self.loc()?)),
            "pragma" => Ok(Statement::Pragma(Box::new(self.pragma()?))),
            "visible" | "extern" | "weak" | "common" => Ok(Statement::Variable(Box::new(self.variable()?))),
            "callprototype" | "calltargets" | "branchtargets" => {
                let message = format!("`.{name}` needs a label before it");
                Err(self.error_with_help(self.span(), message, format!("write `name: .{name} …;`")))
            }
            _ if Space::from_name(name).is_some() => Ok(Statement::Variable(Box::new(self.variable()?))),
            _ => {
                let message = format!("unknown directive {} in a function", self.found());
                Err(self.error(self.span(), message))
            }
        }
    }

    /// `.loc …`
    pub(super) fn loc(&mut self) -> Parsed<Loc<'s>> {
        let start = self.start();
        self.advance();
        let file = self.number32("the file index of `.loc`")?;
        let line = self.number32("the line of `.loc`")?;
        let column = self.number32("the column of `.loc`")?;
        let mut inlined = None;
        if self.token() == Token::Comma && !self.stopped {
            self.advance();
            let mut function_name = None;
            if self.token() == Token::Word && self.text() == "function_name" {
                self.advance();
                function_name = Some(self.section_label()?);
                self.expect(Token::Comma, "`, inlined_at`")?;
            }
            if self.token() != Token::Word || self.text() != "inlined_at" {
                return Err(self.unexpected("`inlined_at`"));
            }
            self.advance();
            inlined = Some(Box::new(Inlined {
                function_name,
                file: self.number32("the file index of `inlined_at`")?,
                line: self.number32("the line of `inlined_at`")?,
                column: self.number32("the column of `inlined_at`")?,
            }));
        }
        Ok(Loc { file, line, column, inlined, span: self.span_from(start) })
    }

    /// `label`, `label+4`, `.debug_str+4`
    pub(super) fn section_label(&mut self) -> Parsed<Address<'s>> {
        if !matches!(self.token(), Token::Word | Token::Dotted) {
            return Err(self.unexpected("a label"));
        }
        let base = Some(self.text());
        self.advance();
        let mut offset = 0;
        if matches!(self.token(), Token::Plus | Token::Minus) {
            let negative = self.token() == Token::Minus;
            self.advance();
            let value = self.integer("the offset")?.signed();
            offset = if negative { value.wrapping_neg() } else { value };
        }
        Ok(Address::new(base, offset))
    }

    /// `.pragma "…", …;`
    pub(super) fn pragma(&mut self) -> Parsed<Pragma<'s>> {
        let start = self.start();
        self.advance();
        let mut texts = SmallVec::new();
        loop {
            texts.push(self.quoted("a string after `.pragma`")?);
            if !self.eat(Token::Comma) {
                break;
            }
        }
        self.end_of_statement("`,` or `;`")?;
        Ok(Pragma { texts, span: self.span_from(start) })
    }

    /// `@@DWARF …`, to the end of the line
    pub(super) fn dwarf_line(&mut self) -> Parsed<DwarfLine<'s>> {
        let start = self.start();
        self.advance();
        if self.token() != Token::Word || self.text() != "DWARF" {
            return Err(self.unexpected("`DWARF` after `@@`"));
        }
        let text = self.lexer.take_line();
        self.advance();
        Ok(DwarfLine { text, span: self.span_from(start) })
    }

    /// `label: .callprototype (…) _ (…) …;`
    fn call_prototype(&mut self, label: &'s str, start: u32) -> Parsed<CallPrototype<'s>> {
        self.advance();
        let returns = if self.token() == Token::OpenParen { self.params() } else { Vec::new() };
        let name = self.word("`_`, the name of the prototype")?;
        let params = if self.token() == Token::OpenParen { self.params() } else { Vec::new() };
        let mut directives = Vec::new();
        while self.token() == Token::Dotted && !self.starts_statement() {
            directives.push(self.function_directive()?);
        }
        self.end_of_statement("`;`")?;
        Ok(CallPrototype { label, returns, name, params, directives, span: self.span_from(start) })
    }

    /// `label: .calltargets a, b;`
    fn labeled_list(&mut self, label: &'s str, start: u32) -> Parsed<LabeledList<'s>> {
        self.advance();
        let mut names = Vec::new();
        loop {
            let name = self.word("a name")?;
            let count = self.range_count()?;
            names.push(ListedName { name, count });
            if !self.eat(Token::Comma) {
                break;
            }
        }
        self.end_of_statement("`,` or `;`")?;
        Ok(LabeledList { label, names, span: self.span_from(start) })
    }
}
