//! What CUDA C++ says of a kernel: names and types of its parameters, and constants. It is read by its shape, not parsed: what
//! is not understood is left to the PTX.

/// A parameter as the source declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// Its type, without the name.
    pub ty: String,
}

/// Names of macros and constants that are block sizes, the surest first.
const BLOCK_NAMES: [&str; 14] = [
    "THREADS",
    "BLOCK_SIZE",
    "BLOCKSIZE",
    "NUM_THREADS",
    "THREADS_PER_BLOCK",
    "BLOCK_THREADS",
    "NTHREADS",
    "TPB",
    "BLOCK",
    "BLOCK_DIM",
    "TILE",
    "TILE_SIZE",
    "TILE_DIM",
    "kThreads",
];

/// The source without comments; what they held is blank, so that places stay.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('/') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let end = if from.starts_with("//") {
            from.find('\n').unwrap_or(from.len())
        } else if from.starts_with("/*") {
            from.find("*/").map_or(from.len(), |end| end + 2)
        } else {
            out.push('/');
            rest = from.get(1..).unwrap_or("");
            continue;
        };
        out.push(' ');
        rest = from.get(end..).unwrap_or("");
    }
    out + rest
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// What stands between the bracket that the text begins with and its partner.
fn bracketed(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some((text.get(1..at)?, text.get(at + 1..)?));
                }
            }
            _ => {}
        }
    }
    None
}

/// The parameters of the kernel of a name, where the source defines it with names for all.
pub fn declared(text: &str, name: &str) -> Option<Vec<Declared>> {
    let text = without_comments(text);
    // `attn::forward<float>` is defined as `forward`.
    let plain = name.split('<').next().unwrap_or(name);
    let plain = plain.rsplit("::").next().unwrap_or(plain).trim();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("__global__") {
        rest = rest.get(at + "__global__".len()..)?;
        let mut here = rest;
        // Attributes have brackets of their own; the kernel's name is the word before the first other bracket.
        while let Some(open) = here.find(['(', ';', '{']) {
            let (head, tail) = here.split_at(open);
            let word = head.trim_end().rsplit(|c: char| !is_word(c)).next().unwrap_or("");
            if !tail.starts_with('(') {
                break;
            }
            let Some((inside, after)) = bracketed(tail) else { break };
            if word.starts_with("__") && word.ends_with("__") {
                here = after;
                continue;
            }
            if word == plain
                && let Some(all) = parameters(inside)
            {
                return Some(all);
            }
            break;
        }
    }
    None
}

fn parameters(list: &str) -> Option<Vec<Declared>> {
    let mut parts = vec![String::new()];
    let mut depth = 0i32;
    for c in list.chars() {
        match c {
            '(' | '<' | '[' => depth += 1,
            ')' | '>' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut()?.push(c);
    }
    let mut all = Vec::new();
    for part in parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty() && *part != "void") {
        let part = part.split('=').next().unwrap_or(part).trim_end();
        let (part, array) = match part.find('[') {
            Some(at) => (part.get(..at)?.trim_end(), true),
            None => (part, false),
        };
        let start = part.char_indices().rev().take_while(|(_, c)| is_word(*c)).last().map(|(at, _)| at)?;
        let (ty, name) = part.split_at(start);
        // A type alone: `float`, `const float*`.
        if ty.trim().is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let ty = if array { format!("{}*", ty.trim()) } else { ty.trim().to_owned() };
        all.push(Declared { name: name.to_owned(), ty });
    }
    Some(all)
}

/// The constant that says how many threads a block has, and its value.
pub(super) fn block_constant(text: &str) -> Option<(&'static str, u32)> {
    let text = without_comments(text);
    BLOCK_NAMES.iter().find_map(|name| {
        let value = constant(&text, name)?;
        (1..=1024).contains(&value).then_some((*name, value))
    })
}

/// `#define NAME 128`, or `NAME = 128` of a constant.
fn constant(text: &str, name: &str) -> Option<u32> {
    for line in text.lines() {
        let Some(at) = line.find(name) else { continue };
        let (before, after) = (line.get(..at)?, line.get(at + name.len()..)?);
        if before.ends_with(is_word) || after.starts_with(is_word) {
            continue;
        }
        let macro_head = before.trim().strip_prefix('#').is_some_and(|word| word.trim() == "define");
        let after = after.trim_start();
        let value = match after.strip_prefix('=') {
            Some(value) if before.contains("const") || before.contains("enum") => value,
            _ if macro_head => after,
            _ => continue,
        };
        let digits: String =
            value.trim_start().trim_start_matches('(').chars().take_while(char::is_ascii_digit).collect();
        if let Ok(value) = digits.parse() {
            return Some(value);
        }
    }
    None
}
