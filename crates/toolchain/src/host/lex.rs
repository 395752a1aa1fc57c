//! Tokenizes CUDA C++ as far as needed to find the start and end of definitions. Accepts any text.

use std::ops::Range;

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name or a keyword.
    Word,
    /// One byte of punctuation.
    Punct(u8),
    /// A number, a string or a character.
    Literal,
}

/// A token and its byte range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) span: Range<usize>,
}

/// A `#define`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Macro {
    pub(super) name: String,
    /// Whether it takes arguments.
    pub(super) function: bool,
    /// Its replacement text, without parameters.
    pub(super) replacement: String,
}

/// A text's tokens and preprocessor lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Lexed {
    /// The tokens of every branch of a conditional, or only of its first branch if a branch has unbalanced braces.
    pub(super) tokens: Vec<Token>,
    /// The byte ranges of preprocessor lines, in order.
    pub(super) directives: Vec<Range<usize>>,
    pub(super) macros: Vec<Macro>,
}

/// Tokenizes a text.
pub(super) fn lex(text: &str) -> Lexed {
    let mut lexer = Lexer { bytes: text.as_bytes(), at: 0, line_start: true };
    let mut lexed = Lexed::default();
    let mut branches = Branches::default();
    while lexer.skip_blanks() {
        let start = lexer.at;
        if lexer.line_start && lexer.bytes[start] == b'#' {
            lexer.directive();
            let span = start..lexer.at;
            directive(&text[span.clone()], &mut branches, &mut lexed.macros);
            lexed.directives.push(span);
            continue;
        }
        lexer.line_start = false;
        let kind = lexer.token();
        branches.push(Token { kind, span: start..lexer.at });
    }
    lexed.tokens = branches.finish();
    lexed
}

struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Whether only whitespace precedes on this line.
    line_start: bool,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Moves to the next token. `false` at the end.
    fn skip_blanks(&mut self) -> bool {
        while let Some(&byte) = self.bytes.get(self.at) {
            match (byte, self.peek(1)) {
                (b'\n', _) => {
                    self.line_start = true;
                    self.at += 1;
                }
                (b'\\', b'\n') => self.at += 2,
                (b'\\', b'\r') if self.peek(2) == b'\n' => self.at += 3,
                (b'/', b'/') => self.skip_line(),
                (b'/', b'*') => self.block_comment(),
                _ if byte.is_ascii_whitespace() => self.at += 1,
                _ => return true,
            }
        }
        false
    }

    /// Skips to the newline that ends a line, including lines joined by a backslash.
    fn skip_line(&mut self) {
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'\n' => return,
                b'\\' if self.peek(1) == b'\n' => self.at += 2,
                b'\\' if self.peek(1) == b'\r' && self.peek(2) == b'\n' => self.at += 3,
                _ => self.at += 1,
            }
        }
    }

    fn block_comment(&mut self) {
        self.at += 2;
        while self.at < self.bytes.len() {
            if self.peek(0) == b'*' && self.peek(1) == b'/' {
                self.at += 2;
                return;
            }
            self.at += 1;
        }
    }

    /// Reads a whole preprocessor line, including a comment that continues past its end.
    fn directive(&mut self) {
        while let Some(&byte) = self.bytes.get(self.at) {
            match (byte, self.peek(1)) {
                (b'\n', _) => return,
                (b'\\', b'\n') => self.at += 2,
                (b'\\', b'\r') if self.peek(2) == b'\n' => self.at += 3,
                (b'/', b'/') => return self.skip_line(),
                (b'/', b'*') => self.block_comment(),
                (b'"', _) => self.quoted(b'"'),
                _ => self.at += 1,
            }
        }
    }

    fn token(&mut self) -> Kind {
        let start = self.at;
        let byte = self.peek(0);
        if is_word(byte) && !byte.is_ascii_digit() {
            while is_word(self.peek(0)) {
                self.at += 1;
            }
            let word = &self.bytes[start..self.at];
            return match (word, self.peek(0)) {
                (b"R" | b"u8R" | b"uR" | b"UR" | b"LR", b'"') => self.raw_string(),
                (b"u8" | b"u" | b"U" | b"L", quote @ (b'"' | b'\'')) => {
                    self.quoted(quote);
                    Kind::Literal
                }
                _ => Kind::Word,
            };
        }
        if byte.is_ascii_digit() || (byte == b'.' && self.peek(1).is_ascii_digit()) {
            self.number();
            return Kind::Literal;
        }
        if byte == b'"' || byte == b'\'' {
            self.quoted(byte);
            return Kind::Literal;
        }
        self.at += 1;
        Kind::Punct(byte)
    }

    fn number(&mut self) {
        loop {
            let byte = self.peek(0);
            let exponent = matches!(byte, b'e' | b'E' | b'p' | b'P') && matches!(self.peek(1), b'+' | b'-');
            let separator = byte == b'\'' && is_word(self.peek(1));
            if exponent || separator {
                self.at += 2;
            } else if is_word(byte) || byte == b'.' {
                self.at += 1;
            } else {
                return;
            }
        }
    }

    /// Reads a string or a character. An unclosed one ends with its line.
    fn quoted(&mut self, quote: u8) {
        self.at += 1;
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'\\' if self.at + 1 < self.bytes.len() => self.at += 2,
                b'\n' => return,
                _ => self.at += 1,
            }
            if byte == quote {
                return;
            }
        }
    }

    /// Reads `R"mark( … )mark"`, starting at its quote.
    fn raw_string(&mut self) -> Kind {
        self.at += 1;
        let rest = &self.bytes[self.at..];
        let Some(open) = rest.iter().take(17).position(|byte| *byte == b'(') else { return Kind::Literal };
        let close = [b")", &rest[..open], b"\""].concat();
        let found = rest[open..].windows(close.len()).position(|window| window == close);
        self.at += found.map_or(rest.len(), |at| open + at + close.len());
        Kind::Literal
    }
}

/// Non-ASCII bytes are treated as parts of names.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

fn directive(line: &str, branches: &mut Branches, macros: &mut Vec<Macro>) {
    let rest = line[1..].trim_start();
    let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    match name {
        "if" | "ifdef" | "ifndef" => branches.open(rest.trim() == "0"),
        "elif" | "else" | "elifdef" | "elifndef" => branches.next(),
        "endif" => branches.close(),
        "define" => macros.extend(definition(rest.trim_start())),
        _ => {}
    }
}

/// `NAME replacement` or `NAME(parameters) replacement`.
fn definition(text: &str) -> Option<Macro> {
    let end = text.bytes().position(|byte| !is_word(byte)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let function = rest.starts_with('(');
    let replacement = if function { rest.split_once(')').map_or("", |(_, after)| after) } else { rest };
    let replacement = replacement.replace("\\\r\n", " ").replace("\\\n", " ");
    (!name.is_empty()).then(|| Macro { name: name.to_owned(), function, replacement })
}

/// The tokens inside conditionals.
#[derive(Debug, Default)]
struct Branches {
    /// Tokens outside of any conditional.
    tokens: Vec<Token>,
    /// The branches of each open conditional, and whether it starts with `#if 0`.
    open: Vec<(bool, Vec<Vec<Token>>)>,
}

impl Branches {
    fn push(&mut self, token: Token) {
        let branch = self.open.last_mut().and_then(|(_, branches)| branches.last_mut());
        branch.unwrap_or(&mut self.tokens).push(token);
    }

    fn open(&mut self, zero: bool) {
        self.open.push((zero, vec![Vec::new()]));
    }

    fn next(&mut self) {
        if let Some((_, branches)) = self.open.last_mut() {
            branches.push(Vec::new());
        }
    }

    fn close(&mut self) {
        let Some((zero, mut branches)) = self.open.pop() else { return };
        if zero {
            branches.remove(0);
        }
        if !branches.iter().all(|branch| is_balanced(branch)) {
            branches.truncate(1);
        }
        let outer = self.open.last_mut().and_then(|(_, branches)| branches.last_mut());
        outer.unwrap_or(&mut self.tokens).extend(branches.into_iter().flatten());
    }

    fn finish(mut self) -> Vec<Token> {
        while !self.open.is_empty() {
            self.close();
        }
        self.tokens
    }
}

fn is_balanced(tokens: &[Token]) -> bool {
    let mut open = Vec::new();
    for token in tokens {
        match token.kind {
            Kind::Punct(byte @ (b'(' | b'[' | b'{')) => open.push(byte),
            Kind::Punct(byte @ (b')' | b']' | b'}')) => {
                let wanted = match byte {
                    b')' => b'(',
                    b']' => b'[',
                    _ => b'{',
                };
                if open.pop() != Some(wanted) {
                    return false;
                }
            }
            _ => {}
        }
    }
    open.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        lex(text).tokens.into_iter().map(|token| text[token.span].to_owned()).collect()
    }

    #[test]
    fn literals_and_comments_hide_what_they_hold() {
        let text = "a \"{\\\"}\" '{' 1'000.5e-3f /* { */ R\"x(} )\" )x\" // {\nb u8\"}\" c";
        assert_eq!(
            words(text),
            ["a", "\"{\\\"}\"", "'{'", "1'000.5e-3f", "R\"x(} )\" )x\"", "b", "u8\"}\"", "c"]
        );
    }

    #[test]
    fn directives_are_set_apart_and_macros_are_read() {
        let text = "#define HD __host__ \\\n  __device__\n  # define F(a, b) { a }\nx #y\n#include <z>";
        let lexed = lex(text);
        assert_eq!(words(text), ["x", "#", "y"]);
        assert_eq!(lexed.directives.len(), 3);
        assert_eq!(
            lexed.macros[0].replacement.split_whitespace().collect::<Vec<_>>(),
            ["__host__", "__device__"]
        );
        assert!(!lexed.macros[0].function && lexed.macros[1].function);
        assert_eq!(lexed.macros[1].replacement.trim(), "{ a }");
    }

    #[test]
    fn unbalanced_branches_give_one_structure() {
        assert_eq!(words("#if A\na {\n#else\nb {\n#endif\n}"), ["a", "{", "}"]);
        assert_eq!(words("#if A\na\n#elif B\nb\n#else\nc\n#endif"), ["a", "b", "c"]);
        assert_eq!(words("#if 0\nisn't {\n#else\nb\n#endif"), ["b"]);
        assert_eq!(words("#ifdef C\nextern {\n#endif\na\n#ifdef C\n}\n#endif"), ["extern", "{", "a", "}"]);
        assert_eq!(words("#else\n#endif\n#if X\na"), ["a"]);
    }
}
