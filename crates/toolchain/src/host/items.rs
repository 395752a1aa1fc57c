//! Finds the definitions of a CUDA C++ text, and which of them are visible to the device.
//!
//! This is not a C++ parser: it follows brackets and a few keywords, accepts any text and never fails. Text that it cannot classify
//! belongs to no item and is never removed.

use std::ops::Range;

use super::lex::{Kind, Lexed, Token};
use super::macros::Macros;

/// Deeper nested scopes are not examined.
const MAX_DEPTH: usize = 64;

/// Kind of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A function with its body.
    Function,
    /// A class, a struct, a union or an enumeration with its members.
    Type,
    /// A variable, an alias or the declaration of a function.
    Declaration,
    /// `using a::b;`, `using namespace a;` and aliases of namespaces.
    Using,
    /// An item that is never removed, such as `static_assert`.
    Fixed,
}

/// A definition or declaration in a namespace or a class.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent of each other")]
pub(super) struct Item {
    pub(super) what: What,
    /// Its byte range.
    pub(super) span: Range<usize>,
    /// Its token range.
    pub(super) tokens: Range<usize>,
    /// Byte range of a function's body, starting at its brace or at the colon of its initializers.
    pub(super) body: Option<Range<usize>>,
    /// The names by which other code can refer to it.
    pub(super) names: Vec<String>,
    /// Whether it, or one of its members, is marked for the device.
    pub(super) device: bool,
    /// Whether it is `constexpr`, or a declaration that is `const` or an alias: device code may use it without annotation.
    pub(super) constant: bool,
    /// Whether it is virtual, and thus part of its class's layout.
    pub(super) dispatched: bool,
    /// Whether it declares a function.
    pub(super) prototype: bool,
    /// Whether its head contains a macro of unknown meaning.
    pub(super) doubtful: bool,
    /// The class that contains it.
    pub(super) class: Option<usize>,
}

/// The items of a text. Members follow their class.
pub(super) fn items(text: &str, lexed: &Lexed, macros: &Macros) -> Vec<Item> {
    let mut reader =
        Reader { text, tokens: &lexed.tokens, closes: closes(&lexed.tokens), macros, items: Vec::new() };
    reader.scope(0..lexed.tokens.len(), None, 0);
    reader.items
}

/// For each opening bracket the index of its closing bracket, or of the end.
fn closes(tokens: &[Token]) -> Vec<usize> {
    let mut closes = vec![tokens.len(); tokens.len()];
    let mut open: Vec<(u8, usize)> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Punct(byte @ (b'(' | b'[' | b'{')) => open.push((byte, at)),
            Kind::Punct(byte @ (b')' | b']' | b'}')) => {
                let opens = match byte {
                    b')' => b'(',
                    b']' => b'[',
                    _ => b'{',
                };
                if let Some(found) = open.iter().rposition(|(byte, _)| *byte == opens) {
                    // Brackets opened inside of it were never closed; they end here too.
                    for (_, start) in open.drain(found..) {
                        closes[start] = at;
                    }
                }
            }
            _ => {}
        }
    }
    closes
}

struct Reader<'a> {
    text: &'a str,
    tokens: &'a [Token],
    closes: Vec<usize>,
    macros: &'a Macros,
    items: Vec<Item>,
}

/// The parts of a declaration read so far.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    /// The keyword of a type.
    type_keyword: Option<usize>,
    /// Parameters, or tokens that look like them.
    parameters: bool,
    /// The colon before a constructor's initializers.
    initializers: Option<usize>,
    /// An `=`: braces after it contain values.
    assigned: bool,
}

impl Reader<'_> {
    fn word(&self, at: usize) -> &str {
        match self.tokens.get(at) {
            Some(token) if token.kind == Kind::Word => &self.text[token.span.clone()],
            _ => "",
        }
    }

    fn punct(&self, at: usize) -> u8 {
        match self.tokens.get(at).map(|token| token.kind) {
            Some(Kind::Punct(byte)) => byte,
            _ => 0,
        }
    }

    /// The index after the bracket that closes the one at `at`.
    fn past(&self, at: usize) -> usize {
        self.closes[at].saturating_add(1).min(self.tokens.len())
    }

    /// Reads the items between two braces.
    fn scope(&mut self, range: Range<usize>, class: Option<usize>, depth: usize) {
        let mut at = range.start;
        while at < range.end {
            let label = matches!(self.word(at), "public" | "private" | "protected");
            if label && self.punct(at + 1) == b':' {
                at += 2;
            } else if matches!(self.punct(at), b';' | b'}' | b')' | b']') {
                at += 1;
            } else {
                at = self.item(at, range.end, class, depth).max(at + 1);
            }
        }
    }

    /// Reads one item, and returns where the next begins.
    fn item(&mut self, start: usize, end: usize, class: Option<usize>, depth: usize) -> usize {
        if let Some(next) = self.block(start, end, depth) {
            return next;
        }
        if let Some(next) = self.expansion(start, class) {
            return next;
        }
        let mut head = Head::default();
        let mut at = start;
        while at < end {
            match self.punct(at) {
                b';' => {
                    self.declaration(start..at + 1, head, class);
                    return at + 1;
                }
                b'(' => {
                    head.parameters |= !self.is_attribute(at, head);
                    at = self.past(at);
                }
                b'[' => at = self.past(at),
                b'=' => {
                    head.assigned = true;
                    at += 1;
                }
                b':' if self.punct(at + 1) == b':' => at += 2,
                b':' => {
                    if head.parameters && !head.assigned && head.initializers.is_none() {
                        head.initializers = Some(at);
                    }
                    at += 1;
                }
                b'{' => match self.brace(start, at, head, class, depth) {
                    Some(next) => return next,
                    None => at = self.past(at),
                },
                // Closes a bracket that this item did not open.
                b'}' | b')' | b']' => return at + 1,
                _ => match self.word(at) {
                    "template" if self.punct(at + 1) == b'<' => at = self.past_angles(at + 1),
                    "operator" => at = self.past_operator(at),
                    "struct" | "class" | "union" | "enum" => {
                        if !head.parameters && !head.assigned && head.type_keyword.is_none() {
                            head.type_keyword = Some(at);
                        }
                        at += 1;
                    }
                    _ => at += 1,
                },
            }
        }
        end
    }

    /// `namespace a { … }` and `extern "C" { … }`: their contents are read as items.
    fn block(&mut self, start: usize, end: usize, depth: usize) -> Option<usize> {
        let mut at = start;
        if self.word(at) == "inline" && self.word(at + 1) == "namespace" {
            at += 1;
        }
        let brace = match self.word(at) {
            "namespace" => {
                let stop = (at..end).find(|at| matches!(self.punct(*at), b'{' | b';'))?;
                if self.punct(stop) == b';' {
                    self.push(What::Using, start..stop + 1, None);
                    return Some(stop + 1);
                }
                stop
            }
            "extern" if self.tokens.get(at + 1)?.kind == Kind::Literal && self.punct(at + 2) == b'{' => {
                at + 2
            }
            _ => return None,
        };
        if depth < MAX_DEPTH {
            self.scope(brace + 1..self.closes[brace].min(end), None, depth + 1);
        }
        Some(self.past(brace))
    }

    /// A macro that expands to a whole definition, such as `DEFINE_KERNEL(float)`.
    fn expansion(&mut self, start: usize, class: Option<usize>) -> Option<usize> {
        if !self.macros.is_definition(self.word(start)) {
            return None;
        }
        let next = if self.punct(start + 1) == b'(' { self.past(start + 1) } else { start + 1 };
        self.push(What::Declaration, start..next, class);
        Some(next)
    }

    /// Handles a brace outside of parentheses. `Some`: it ends the item, and the next one begins there.
    fn brace(
        &mut self,
        start: usize,
        at: usize,
        head: Head,
        class: Option<usize>,
        depth: usize,
    ) -> Option<usize> {
        if head.assigned {
            return None;
        }
        if let Some(keyword) = head.type_keyword.filter(|_| !head.parameters) {
            return Some(self.type_definition(start, keyword, at, class, depth));
        }
        if head.parameters {
            // `: a{1}, b(2) {`: a name precedes the braces of an initializer, but not those of the body.
            let initializer =
                head.initializers.is_some() && (!self.word(at - 1).is_empty() || self.punct(at - 1) == b'>');
            if initializer {
                return None;
            }
            let next = self.past(at);
            let body = head.initializers.unwrap_or(at);
            self.function(start, body, next, class);
            return Some(next);
        }
        if at == start + 1 {
            // The head is a macro of unknown meaning, so the item is not removed.
            let next = self.past(at);
            self.push(What::Fixed, start..next, class);
            return Some(next);
        }
        None
    }

    fn type_definition(
        &mut self,
        start: usize,
        keyword: usize,
        brace: usize,
        class: Option<usize>,
        depth: usize,
    ) -> usize {
        let close = self.closes[brace];
        let stop =
            (self.past(brace)..self.tokens.len()).find(|at| matches!(self.punct(*at), b';' | b'{' | b'}'));
        let next = match stop {
            Some(stop) if self.punct(stop) == b';' => stop + 1,
            _ => self.past(brace),
        };
        let own = self.push(What::Type, start..next, class);
        let is_enum = self.word(keyword) == "enum";
        // An enumerator is used without the name of its type.
        let inside = if is_enum { brace..close } else { brace..brace };
        let base = (keyword + 1..brace).find(|at| matches!(self.punct(*at), b':' | b'<')).unwrap_or(brace);
        let names: Vec<String> = (keyword + 1..base)
            .chain(inside)
            .chain(close..next)
            .map(|at| self.word(at))
            .filter(|word| !word.is_empty() && !matches!(*word, "class" | "struct" | "final"))
            .map(str::to_owned)
            .collect();
        self.items[own].names = names;
        if !is_enum && depth < MAX_DEPTH {
            self.scope(brace + 1..close, Some(own), depth + 1);
        }
        next
    }

    fn function(&mut self, start: usize, body: usize, next: usize, class: Option<usize>) {
        let device = self.is_device(start..body);
        let own = self.push(What::Function, start..next, class);
        let words: Vec<&str> = (start..body).map(|at| self.word(at)).collect();
        let constant = words.iter().any(|word| matches!(*word, "constexpr" | "consteval"));
        let dispatched = words.contains(&"virtual") || words.contains(&"override");
        // The name precedes the first parenthesis.
        let open =
            (start + 1..body).find(|at| self.punct(*at) == b'(' && !self.is_attribute(*at, Head::default()));
        let names = open.map(|open| self.word(open - 1).to_owned()).into_iter().collect();
        let end = self.items[own].span.end;
        let body = self.tokens[body].span.start..end;
        let doubtful = words.iter().any(|word| self.macros.is_doubtful(word));
        let item = &mut self.items[own];
        *item = Item { body: Some(body), names, device, constant, dispatched, doubtful, ..item.clone() };
    }

    fn declaration(&mut self, range: Range<usize>, head: Head, class: Option<usize>) {
        let what = match self.word(range.start) {
            "static_assert" | "_Static_assert" | "asm" => What::Fixed,
            "using" if !head.assigned => What::Using,
            _ => What::Declaration,
        };
        let own = self.push(what, range.clone(), class);
        let words: Vec<&str> = range.clone().map(|at| self.word(at)).collect();
        let has = |wanted: &[&str]| words.iter().any(|word| wanted.contains(word));
        let prototype = head.parameters && !head.assigned;
        let constant = has(&["constexpr", "typedef", "using"]) || (has(&["const"]) && !prototype);
        let dispatched = has(&["virtual", "override"]);
        let names = self.declared(range);
        let item = &mut self.items[own];
        *item = Item { names, constant, dispatched, prototype, ..item.clone() };
    }

    /// The names that a declaration may declare, possibly too many: words followed by a token that ends a declarator.
    fn declared(&self, range: Range<usize>) -> Vec<String> {
        let mut names = Vec::new();
        let (mut at, mut value) = (range.start, false);
        while at < range.end {
            match self.punct(at) {
                b'[' | b'{' => {
                    at = self.past(at);
                    continue;
                }
                b'=' => value = true,
                b',' => value = false,
                _ => {}
            }
            let word = self.word(at);
            if !word.is_empty()
                && !value
                && matches!(self.punct(at + 1), b'=' | b'[' | b',' | b';' | b'{' | b'(' | b')')
            {
                names.push(word.to_owned());
            }
            at += 1;
        }
        names
    }

    fn push(&mut self, what: What, tokens: Range<usize>, class: Option<usize>) -> usize {
        let end = tokens.end.min(self.tokens.len());
        let bytes =
            match (self.tokens.get(tokens.start), end.checked_sub(1).and_then(|at| self.tokens.get(at))) {
                (Some(first), Some(last)) => first.span.start..last.span.end.max(first.span.start),
                _ => 0..0,
            };
        self.items.push(Item {
            what,
            span: bytes,
            device: self.is_device(tokens.start..end),
            tokens: tokens.start..end,
            body: None,
            names: Vec::new(),
            constant: false,
            dispatched: false,
            prototype: false,
            doubtful: false,
            class,
        });
        self.items.len() - 1
    }

    fn is_device(&self, tokens: Range<usize>) -> bool {
        tokens.into_iter().any(|at| self.macros.marks_device(self.word(at)))
    }

    /// Whether the parenthesis at `at` belongs to an attribute or a specifier, and not to a function.
    fn is_attribute(&self, at: usize, head: Head) -> bool {
        let before = at.checked_sub(1).map(|at| self.word(at)).unwrap_or_default();
        let known = matches!(
            before,
            "alignas"
                | "__align__"
                | "__builtin_align__"
                | "__attribute__"
                | "__declspec"
                | "__launch_bounds__"
                | "decltype"
                | "explicit"
                | "noexcept"
                | "requires"
        );
        let shouted = !before.is_empty() && !before.bytes().any(|byte| byte.is_ascii_lowercase());
        known || (head.type_keyword.is_some() && shouted)
    }

    /// The index after template parameters, or after the opening bracket if they do not end.
    fn past_angles(&self, open: usize) -> usize {
        let (mut at, mut depth) = (open, 0_usize);
        while at < self.tokens.len() {
            match self.punct(at) {
                b'<' => depth += 1,
                b'>' if depth == 1 => return at + 1,
                b'>' => depth -= 1,
                b'(' | b'[' => {
                    at = self.past(at);
                    continue;
                }
                b';' | b'{' | b'}' => break,
                _ => {}
            }
            at += 1;
        }
        open + 1
    }

    /// The index of the parameters after `operator=`, `operator()` and similar names.
    fn past_operator(&self, operator: usize) -> usize {
        let mut at = operator + 1;
        if self.punct(at) == b'(' && self.punct(at + 1) == b')' {
            return at + 2;
        }
        while !matches!(self.punct(at), 0 | b'(' | b';' | b'{' | b'}') {
            at += 1;
        }
        at
    }
}
