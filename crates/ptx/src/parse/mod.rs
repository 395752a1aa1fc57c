//! The parser: converts tokens to a tree. A parse function records the error and then returns `Err(Reported)`; its caller
//! skips to the next statement, so that one run finds every error.

mod expr;
mod function;
mod module;
mod operand;
mod statement;
mod variable;

use crate::lexer::{Lexer, Token};
use crate::{Error, Integer, Module, Span};

/// The maximum nesting of blocks, vectors, initializers and expressions. It bounds the stack of functions that recurse over
/// the tree.
pub(crate) const MAX_NESTING: u32 = 128;

/// The parser stops after this number of errors: the text is probably not PTX.
const MAX_ERRORS: usize = 10_000;

/// The error is already recorded.
#[derive(Debug)]
pub(crate) struct Reported;

type Parsed<T> = Result<T, Reported>;

/// Parses a module. Returns all errors in source order, and everything that could be parsed despite them.
pub fn parse(source: &str) -> (Module<'_>, Vec<Error>) {
    parse_with(source, Parser::module)
}

/// Parses only some directives of a module, given their spans. It takes time for these, not for the whole module: a kernel of
/// a large module can be read without the others. A span that is not that of a directive gives errors.
pub fn parse_parts<'s>(source: &'s str, parts: &[Span]) -> (Module<'s>, Vec<Error>) {
    parse_with(source, |parser| parser.parts(parts))
}

fn parse_with<'s>(
    source: &'s str,
    read: impl FnOnce(&mut Parser<'s>) -> Module<'s>,
) -> (Module<'s>, Vec<Error>) {
    if u32::try_from(source.len()).is_err() {
        let error = Error {
            span: Span::default(),
            message: "the module is larger than 4 GiB".to_owned(),
            help: Some("split the module".to_owned()),
        };
        return (Module::default(), vec![error]);
    }
    let mut parser =
        Parser { lexer: Lexer::new(source), errors: Vec::new(), nesting: 0, operators: 0, stopped: false };
    let module = read(&mut parser);
    let mut errors = parser.errors;
    errors.sort_by_key(|error| error.span.start);
    (module, errors)
}

/// Offsets fit in 32 bits: `parse` rejects longer sources.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

pub(crate) struct Parser<'s> {
    lexer: Lexer<'s>,
    errors: Vec<Error>,
    nesting: u32,
    /// Operators of the expression being parsed. They nest to the left, so the nesting limit applies to them.
    operators: u32,
    /// Set after too many errors: every further token then reads as the end of the source.
    stopped: bool,
}

impl<'s> Parser<'s> {
    #[inline]
    fn token(&self) -> Token {
        self.lexer.token
    }

    #[inline]
    fn advance(&mut self) {
        if !self.stopped {
            self.lexer.advance();
        }
    }

    #[inline]
    fn text(&self) -> &'s str {
        self.lexer.text()
    }

    /// The current dotted word without its dot.
    #[inline]
    fn dotted(&self) -> &'s str {
        self.lexer.slice(self.lexer.start + 1, self.lexer.end)
    }

    #[inline]
    fn is_dotted(&self, name: &str) -> bool {
        self.token() == Token::Dotted && self.dotted() == name
    }

    #[inline]
    fn start(&self) -> u32 {
        offset(self.lexer.start)
    }

    /// The span of the current token.
    #[inline]
    fn span(&self) -> Span {
        Span { start: offset(self.lexer.start), end: offset(self.lexer.end) }
    }

    /// From `start` to the end of the token before the current one.
    #[inline]
    fn span_from(&self, start: u32) -> Span {
        Span { start, end: offset(self.lexer.previous_end).max(start) }
    }

    /// The empty span right after the previous token.
    fn after_previous(&self) -> Span {
        let at = offset(self.lexer.previous_end);
        Span { start: at, end: at }
    }

    #[cold]
    fn error(&mut self, span: Span, message: impl Into<String>) -> Reported {
        self.report(span, message.into(), None)
    }

    #[cold]
    fn error_with_help(
        &mut self,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Reported {
        self.report(span, message.into(), Some(help.into()))
    }

    fn report(&mut self, span: Span, message: String, help: Option<String>) -> Reported {
        if self.stopped {
            return Reported;
        }
        if self.errors.len() >= MAX_ERRORS {
            self.errors.push(Error {
                span,
                message: format!("more than {MAX_ERRORS} errors; the rest of the module was not parsed"),
                help: Some("is this text PTX?".to_owned()),
            });
            self.stopped = true;
            self.lexer.token = Token::End;
            return Reported;
        }
        // A second error at the same location is a consequence of the first one.
        if !self.errors.iter().rev().take(4).any(|earlier| earlier.span == span) {
            self.errors.push(Error { span, message, help });
        }
        Reported
    }

    /// A description of the current token, for a message.
    fn found(&self) -> String {
        match self.token() {
            Token::End => "the end of the module".to_owned(),
            Token::Text => "a string".to_owned(),
            _ => {
                let text = self.text();
                // A name may be kilobytes long.
                match text.char_indices().nth(60) {
                    Some((cut, _)) => format!("`{}…`", text.get(..cut).unwrap_or("")),
                    None => format!("`{text}`"),
                }
            }
        }
    }

    /// Reports "expected …, found …" at the current token; a lexical error has a message of its own.
    #[cold]
    fn unexpected(&mut self, expected: &str) -> Reported {
        let span = self.span();
        match self.token() {
            Token::OpenText => {
                let open = Span { start: span.start, end: span.start + 1 };
                self.error_with_help(open, "this string is not closed on its line", "add the closing `\"`")
            }
            Token::OpenComment => {
                let open = Span { start: span.start, end: span.start + 2 };
                self.error_with_help(open, "this comment is never closed", "add the closing `*/`")
            }
            Token::Stray if self.text() == "." => self.error(span, "a name must follow the `.`"),
            Token::Stray => {
                let message = format!("the character {} is not used in PTX", self.found());
                if self.text().is_ascii() {
                    self.error(span, message)
                } else {
                    self.error_with_help(
                        span,
                        message,
                        "outside comments and strings PTX is ASCII; was it copied from a document?",
                    )
                }
            }
            // Something is missing at the end of the previous line, rather than wrong here.
            _ if self.lexer.first_on_line && self.token() != Token::End && !self.after_statement() => {
                let message = format!("expected {expected} before {}", self.found());
                self.error(self.after_previous(), message)
            }
            _ => {
                let message = format!("expected {expected}, found {}", self.found());
                self.error(span, message)
            }
        }
    }

    /// As above, for a token that is expected to start a line.
    #[cold]
    fn unexpected_here(&mut self, expected: &str) -> Reported {
        if matches!(self.token(), Token::OpenText | Token::OpenComment | Token::Stray) {
            return self.unexpected(expected);
        }
        let message = format!("expected {expected}, found {}", self.found());
        self.error(self.span(), message)
    }

    /// Whether the previous token ended a statement, or opened a body.
    fn after_statement(&self) -> bool {
        matches!(self.lexer.previous, Token::Semicolon | Token::OpenBrace | Token::CloseBrace | Token::Colon)
    }

    /// Consumes the token if it is the current one.
    #[inline]
    fn eat(&mut self, token: Token) -> bool {
        let there = self.token() == token;
        if there {
            self.advance();
        }
        there
    }

    #[inline]
    fn expect(&mut self, token: Token, expected: &str) -> Parsed<()> {
        if self.eat(token) { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    #[inline]
    fn word(&mut self, expected: &str) -> Parsed<&'s str> {
        if self.token() != Token::Word {
            return Err(self.unexpected(expected));
        }
        let text = self.text();
        self.advance();
        Ok(text)
    }

    /// A string, without its quotes.
    fn quoted(&mut self, expected: &str) -> Parsed<&'s str> {
        if self.token() != Token::Text {
            return Err(self.unexpected(expected));
        }
        let text = self.lexer.slice(self.lexer.start + 1, self.lexer.end - 1);
        self.advance();
        Ok(text)
    }

    /// An integer with an optional minus sign.
    fn integer(&mut self, expected: &str) -> Parsed<Integer> {
        let negative = self.eat(Token::Minus);
        if self.token() != Token::Number {
            return Err(self.unexpected(expected));
        }
        let mut integer = self.integer_literal()?;
        integer.negative = negative;
        Ok(integer)
    }

    /// A number that must fit in 32 bits without sign.
    fn number32(&mut self, expected: &str) -> Parsed<u32> {
        let span = self.span();
        let integer = self.integer(expected)?;
        if integer.negative {
            return Err(self.error(self.span_from(span.start), format!("{expected} cannot be negative")));
        }
        match u32::try_from(integer.magnitude) {
            Ok(value) => Ok(value),
            Err(_) => Err(self.error(span, format!("{expected} does not fit in 32 bits"))),
        }
    }

    /// Runs `inner` one level deeper, or reports that the source nests too deep.
    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.nesting >= MAX_NESTING {
            return Err(self.error(self.span(), format!("nested deeper than {MAX_NESTING} levels")));
        }
        self.nesting += 1;
        let result = inner(self);
        self.nesting -= 1;
        result
    }

    /// Whether the current token, first on its line, clearly starts a statement of its own.
    fn starts_statement(&self) -> bool {
        if !self.lexer.first_on_line {
            return false;
        }
        match self.token() {
            Token::Dotted => {
                let name = self.dotted();
                statement_directive(name) || module_directive(name) || crate::Space::from_name(name).is_some()
            }
            Token::At => true,
            // After a comma or an opening bracket, a name continues the previous statement.
            Token::Word => {
                let continues = matches!(
                    self.lexer.previous,
                    Token::Comma
                        | Token::OpenParen
                        | Token::OpenBracket
                        | Token::OpenBrace
                        | Token::Plus
                        | Token::Minus
                        | Token::Pipe
                        | Token::Bang
                );
                !continues && !self.text().starts_with('%')
            }
            _ => false,
        }
    }

    /// Skips the rest of a statement of a body: past its `;`, or up to `}`, the next statement, or the end.
    fn skip_statement(&mut self) {
        loop {
            match self.token() {
                Token::CloseBrace if self.closes_list() => self.advance(),
                Token::End | Token::CloseBrace => return,
                Token::Semicolon => {
                    self.advance();
                    return;
                }
                Token::OpenText | Token::OpenComment | Token::Stray => self.lexical_error(),
                _ if self.starts_statement() => return,
                Token::OpenBrace => self.skip_braces(),
                _ => self.advance(),
            }
        }
    }

    /// Whether the current `}` closes a vector or an initializer, as the rest of its line shows.
    fn closes_list(&self) -> bool {
        let mut ahead = self.lexer.clone();
        ahead.advance();
        !ahead.first_on_line && matches!(ahead.token, Token::Comma | Token::Semicolon | Token::CloseBrace)
    }

    /// Skips a vector that belongs to a broken statement, without crossing into the next one.
    fn skip_braces(&mut self) {
        self.advance();
        loop {
            match self.token() {
                Token::CloseBrace => {
                    self.advance();
                    return;
                }
                Token::End | Token::Semicolon | Token::OpenBrace => return,
                _ if self.starts_statement() => return,
                Token::OpenText | Token::OpenComment | Token::Stray => self.lexical_error(),
                _ => self.advance(),
            }
        }
    }

    /// Reports a lexical error found while skipping, unless it is the one just reported.
    fn lexical_error(&mut self) {
        let start = self.start();
        if self.errors.last().is_none_or(|error| error.span.start != start) {
            self.unexpected("something else");
        }
        self.advance();
    }
}

/// Directives that occur in a body and are never modifiers.
pub(crate) fn statement_directive(name: &str) -> bool {
    matches!(name, "reg" | "sreg" | "loc" | "pragma" | "callprototype" | "calltargets" | "branchtargets")
}

/// Directives that occur only in the outermost scope (or start such a construct) and are never modifiers.
pub(crate) fn module_directive(name: &str) -> bool {
    matches!(
        name,
        "version"
            | "target"
            | "address_size"
            | "file"
            | "section"
            | "entry"
            | "func"
            | "alias"
            | "visible"
            | "extern"
            | "common"
    )
}
