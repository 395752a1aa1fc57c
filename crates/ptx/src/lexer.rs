//! The lexer: converts bytes to tokens, one at a time and without allocation.

use memchr::{memchr, memchr2, memmem};

/// The kind of a token; the token's text is a slice of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    End,
    /// A name: `add`, `%r1`, `$L__BB0_1`, `_`.
    Word,
    /// A dot and a name, `::` included: `.f32`, `.L2::128B`, `.1d`.
    Dotted,
    /// Anything that starts with a digit.
    Number,
    /// A string in quotes.
    Text,
    /// A string that is not closed on its line.
    OpenText,
    /// A `/*` comment that is never closed.
    OpenComment,
    /// A character that PTX does not use.
    Stray,
    Comma,
    Semicolon,
    Colon,
    OpenBrace,
    CloseBrace,
    OpenParen,
    CloseParen,
    OpenBracket,
    CloseBracket,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    Bang,
    Tilde,
    Less,
    Greater,
    LessEqual,
    GreaterEqual,
    ShiftLeft,
    ShiftRight,
    Equals,
    EqualEqual,
    BangEqual,
    Ampersand,
    AmpersandAmpersand,
    Pipe,
    PipePipe,
    Caret,
    Question,
    At,
    AtAt,
}

const SPACE: u8 = 1;
/// Whether the byte may continue a name.
const FOLLOW: u8 = 2;
/// Whether the byte may start a name.
const START: u8 = 4;
const DIGIT: u8 = 8;

static CLASS: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0u8;
    loop {
        let index: usize = byte_index(byte);
        table[index] = match byte {
            b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c => SPACE,
            b'0'..=b'9' => FOLLOW | DIGIT,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' => FOLLOW | START,
            b'%' => START,
            _ => 0,
        };
        if byte == 255 {
            break;
        }
        byte += 1;
    }
    table
};

#[expect(clippy::as_conversions, reason = "u8 to usize is lossless; From is not const")]
const fn byte_index(byte: u8) -> usize {
    byte as usize
}

#[inline]
fn is(byte: u8, class: u8) -> bool {
    CLASS[usize::from(byte)] & class != 0
}

/// Reads tokens; the fields describe the token read last.
#[derive(Clone, Debug)]
pub(crate) struct Lexer<'s> {
    source: &'s str,
    /// The current token.
    pub(crate) token: Token,
    /// Offset of its first byte.
    pub(crate) start: usize,
    /// Offset just past it.
    pub(crate) end: usize,
    /// Whether a line ended between the previous token and this one.
    pub(crate) first_on_line: bool,
    /// The token before the current one, and where it ended.
    pub(crate) previous: Token,
    pub(crate) previous_end: usize,
}

impl<'s> Lexer<'s> {
    /// A lexer positioned on the first token.
    pub(crate) fn new(source: &'s str) -> Self {
        let mut lexer = Self {
            source,
            token: Token::Semicolon,
            start: 0,
            end: 0,
            first_on_line: true,
            previous: Token::Semicolon,
            previous_end: 0,
        };
        lexer.advance();
        lexer.first_on_line = true;
        lexer
    }

    /// The text of the current token.
    #[inline]
    pub(crate) fn text(&self) -> &'s str {
        self.slice(self.start, self.end)
    }

    /// A slice of the source; empty if the bounds are not at character boundaries.
    #[inline]
    pub(crate) fn slice(&self, start: usize, end: usize) -> &'s str {
        self.source.get(start..end).unwrap_or("")
    }

    #[inline]
    fn byte(&self, at: usize) -> u8 {
        self.source.as_bytes().get(at).copied().unwrap_or(0)
    }

    /// The byte just after the current token; 0 at the end.
    #[inline]
    pub(crate) fn following(&self) -> u8 {
        self.byte(self.end)
    }

    /// Advances to the next token.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.previous = self.token;
        self.previous_end = self.end;
        self.first_on_line = false;
        let bytes = self.source.as_bytes();
        let mut at = self.end;
        loop {
            let Some(&byte) = bytes.get(at) else {
                self.start = bytes.len();
                self.end = bytes.len();
                self.token = Token::End;
                self.first_on_line = true;
                return;
            };
            if is(byte, SPACE) {
                self.first_on_line |= byte == b'\n';
                at += 1;
                continue;
            }
            if byte == b'/' {
                match self.byte(at + 1) {
                    b'/' => {
                        at = memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |length| at + length);
                        continue;
                    }
                    b'*' => {
                        let Some(length) = memmem::find(&bytes[at + 2..], b"*/") else {
                            self.set(Token::OpenComment, at, bytes.len());
                            return;
                        };
                        let end = at + 2 + length + 2;
                        self.first_on_line |= memchr(b'\n', &bytes[at..end]).is_some();
                        at = end;
                        continue;
                    }
                    _ => {}
                }
            }
            self.lex(byte, at);
            return;
        }
    }

    /// Advances to the first token at or after an offset.
    pub(crate) fn skip_to(&mut self, offset: usize) {
        self.end = offset;
        self.advance();
        self.first_on_line = true;
    }

    #[inline]
    fn set(&mut self, token: Token, start: usize, end: usize) {
        self.token = token;
        self.start = start;
        self.end = end;
    }

    /// The end of the name whose characters start at `at`.
    #[inline]
    fn follow(&self, mut at: usize) -> usize {
        let bytes = self.source.as_bytes();
        while at < bytes.len() && is(bytes[at], FOLLOW) {
            at += 1;
        }
        at
    }

    #[inline]
    fn lex(&mut self, byte: u8, at: usize) {
        if is(byte, START) {
            let end = self.follow(at + 1);
            if byte == b'%' && end == at + 1 {
                self.set(Token::Percent, at, end);
            } else {
                self.set(Token::Word, at, end);
            }
            return;
        }
        if byte == b'.' {
            self.lex_dotted(at);
            return;
        }
        if is(byte, DIGIT) {
            let end = self.number_end(at);
            self.set(Token::Number, at, end);
            return;
        }
        let next = self.byte(at + 1);
        let (token, length) = match (byte, next) {
            (b',', _) => (Token::Comma, 1),
            (b';', _) => (Token::Semicolon, 1),
            (b':', _) => (Token::Colon, 1),
            (b'{', _) => (Token::OpenBrace, 1),
            (b'}', _) => (Token::CloseBrace, 1),
            (b'(', _) => (Token::OpenParen, 1),
            (b')', _) => (Token::CloseParen, 1),
            (b'[', _) => (Token::OpenBracket, 1),
            (b']', _) => (Token::CloseBracket, 1),
            (b'+', _) => (Token::Plus, 1),
            (b'-', _) => (Token::Minus, 1),
            (b'*', _) => (Token::Star, 1),
            (b'/', _) => (Token::Slash, 1),
            (b'~', _) => (Token::Tilde, 1),
            (b'^', _) => (Token::Caret, 1),
            (b'?', _) => (Token::Question, 1),
            (b'!', b'=') => (Token::BangEqual, 2),
            (b'!', _) => (Token::Bang, 1),
            (b'<', b'<') => (Token::ShiftLeft, 2),
            (b'<', b'=') => (Token::LessEqual, 2),
            (b'<', _) => (Token::Less, 1),
            (b'>', b'>') => (Token::ShiftRight, 2),
            (b'>', b'=') => (Token::GreaterEqual, 2),
            (b'>', _) => (Token::Greater, 1),
            (b'=', b'=') => (Token::EqualEqual, 2),
            (b'=', _) => (Token::Equals, 1),
            (b'&', b'&') => (Token::AmpersandAmpersand, 2),
            (b'&', _) => (Token::Ampersand, 1),
            (b'|', b'|') => (Token::PipePipe, 2),
            (b'|', _) => (Token::Pipe, 1),
            (b'@', b'@') => (Token::AtAt, 2),
            (b'@', _) => (Token::At, 1),
            (b'"', _) => {
                self.lex_text(at);
                return;
            }
            _ => {
                let length =
                    self.source.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8);
                (Token::Stray, length)
            }
        };
        self.set(token, at, at + length);
    }

    fn lex_dotted(&mut self, at: usize) {
        let mut end = self.follow(at + 1);
        if end == at + 1 {
            self.set(Token::Stray, at, end);
            return;
        }
        while self.byte(end) == b':' && self.byte(end + 1) == b':' && is(self.byte(end + 2), FOLLOW) {
            end = self.follow(end + 2);
        }
        self.set(Token::Dotted, at, end);
    }

    /// The end of a number: digits and letters, and for a decimal one its point and signed exponent.
    fn number_end(&self, at: usize) -> usize {
        let mut end = self.follow(at);
        if self.byte(at) == b'0'
            && matches!(self.byte(at + 1), b'x' | b'X' | b'f' | b'F' | b'd' | b'D' | b'b' | b'B')
        {
            return end;
        }
        let digits_only = self.source.as_bytes()[at..end].iter().all(u8::is_ascii_digit);
        if digits_only && self.byte(end) == b'.' {
            end = self.follow(end + 1);
        }
        if matches!(self.byte(end - 1), b'e' | b'E') && matches!(self.byte(end), b'+' | b'-') {
            let after = self.follow(end + 1);
            if after > end + 1 {
                end = after;
            }
        }
        end
    }

    /// Extends the current word by `.component` if that follows it directly.
    #[inline]
    pub(crate) fn take_component(&mut self) {
        if self.following() == b'.' && is(self.byte(self.end + 1), FOLLOW) {
            self.end = self.follow(self.end + 1);
        }
    }

    fn lex_text(&mut self, at: usize) {
        let bytes = self.source.as_bytes();
        let mut from = at + 1;
        while let Some(length) = bytes.get(from..).and_then(|rest| memchr2(b'"', b'\n', rest)) {
            let stop = from + length;
            if bytes[stop] == b'\n' {
                break;
            }
            let backslashes = bytes[at + 1..stop].iter().rev().take_while(|&&byte| byte == b'\\').count();
            if backslashes % 2 == 0 {
                self.set(Token::Text, at, stop + 1);
                return;
            }
            from = stop + 1;
        }
        let end = memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |length| at + length);
        let end = if end > at + 1 && bytes[end - 1] == b'\r' { end - 1 } else { end };
        self.set(Token::OpenText, at, end);
    }

    /// After the current `.b8`, `.b16`, … of a debug section: reads the plain decimal numbers as one token, including
    /// those of following lines of the same type. Such lines are most of a debug build. Returns false if no such number
    /// follows.
    pub(crate) fn take_plain_data(&mut self, ty: &str, mut take: impl FnMut(u64)) -> bool {
        let bytes = self.source.as_bytes();
        let mut at = self.end;
        let mut taken = false;
        loop {
            while matches!(self.byte(at), b' ' | b'\t') {
                at += 1;
            }
            let start = at;
            let mut value = 0u64;
            // 18 digits always fit; a leading zero would mean octal.
            while let digit @ b'0'..=b'9' = self.byte(at)
                && at - start < 18
            {
                value = value * 10 + u64::from(digit - b'0');
                at += 1;
            }
            let octal = self.byte(start) == b'0' && at > start + 1;
            if at == start || octal || is(self.byte(at), FOLLOW) || self.byte(at) == b'.' {
                break;
            }
            take(value);
            taken = true;
            self.token = Token::Number;
            self.end = at;
            if self.byte(at) == b',' {
                at += 1;
                continue;
            }
            while is(self.byte(at), SPACE) {
                at += 1;
            }
            let rest = bytes.get(at..).unwrap_or(&[]);
            let again = rest.strip_prefix(b".").and_then(|rest| rest.strip_prefix(ty.as_bytes()));
            match again {
                Some([b' ' | b'\t', ..]) => at += 1 + ty.len(),
                _ => break,
            }
        }
        taken
    }

    /// Extends the current token by the rest of the line and returns that rest.
    pub(crate) fn take_line(&mut self) -> &'s str {
        let bytes = self.source.as_bytes();
        let end = memchr(b'\n', &bytes[self.end..]).map_or(bytes.len(), |length| self.end + length);
        let text = self.slice(self.end, end);
        self.end = end;
        text.trim()
    }
}
