//! Reads a kernel's CUDA C++ source: names and types of its parameters, and constants. It matches patterns
//! instead of parsing; the PTX supplies what the patterns do not match.

/// A parameter as the source declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// Its type, without the name.
    pub ty: String,
}

/// Names of macros and constants that are block sizes, the most certain first.
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

/// The source with comments replaced by blanks, so that positions stay.
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

/// The text between the opening bracket at its start and the matching one.
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

/// A definition of a kernel.
struct Definition<'a> {
    parameters: &'a str,
    /// Its template parameters, if it is a template.
    template: Option<&'a str>,
    /// Empty for a declaration.
    body: &'a str,
}

/// Definitions and declarations of a kernel in a source without comments.
fn definitions<'a>(text: &'a str, name: &str) -> Vec<Definition<'a>> {
    // `attn::forward<float>` is defined as `forward`.
    let plain = name.split('<').next().unwrap_or(name);
    let plain = plain.rsplit("::").next().unwrap_or(plain).trim();
    let mut all = Vec::new();
    for (at, mark) in text.match_indices("__global__") {
        let (before, here) = (text.get(..at).unwrap_or(""), text.get(at + mark.len()..).unwrap_or(""));
        let mut here = here;
        // Attributes have their own brackets; the kernel's name is the word before the first other bracket.
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
            if word == plain {
                let after = after.trim_start();
                let body = if after.starts_with('{') { bracketed(after).map(|(body, _)| body) } else { None };
                // The template's head ends right before the kernel, or before its linkage.
                let own = before.rfind([';', '}']).map_or(before, |end| before.get(end + 1..).unwrap_or(""));
                let template = own.rfind("template").and_then(|at| own.get(at + "template".len()..));
                let template = template.and_then(|list| list.trim_start().strip_prefix('<'));
                let template = template.and_then(|list| list.rfind('>').and_then(|end| list.get(..end)));
                all.push(Definition { parameters: inside, template, body: body.unwrap_or("") });
            }
            break;
        }
    }
    all
}

/// The parameters of a kernel, if the source defines it with names for all.
pub fn declared(text: &str, name: &str) -> Option<Vec<Declared>> {
    let text = without_comments(text);
    definitions(&text, name).into_iter().find_map(|found| parameters(found.parameters))
}

/// The threads of a block that a kernel's own lines assume, and the line that shows it: the step of a loop that
/// begins at `threadIdx.x`, or the factor of `blockIdx.x` before `threadIdx.x` is added.
pub(super) fn block_assumed(text: &str, name: &str) -> Option<(u32, String)> {
    let text = without_comments(text);
    let all = definitions(&text, name);
    let found = all.iter().find(|found| !found.body.is_empty())?;
    let body: String = found.body.chars().filter(|c| !c.is_whitespace()).collect();
    let value = |word: &str| -> Option<u32> {
        let number = word.trim_end_matches(['u', 'U', 'l', 'L']).parse().ok();
        let given = || template_argument(found.template?, name, word);
        number.or_else(given).or_else(|| constant(&text, word)).filter(|value| (1..=1024).contains(value))
    };
    let names = ["threadIdx.x".to_owned()].into_iter().chain(thread_names(&body));
    let names: Vec<String> = names.collect();
    let is_thread = |word: &str| names.iter().any(|name| name == word);
    for (at, _) in body.match_indices("for(") {
        let Some((head, _)) = body.get(at + 3..).and_then(bracketed) else { continue };
        let mut parts = head.split(';');
        let (Some(first), Some(_), Some(step)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let Some((_, start)) = first.split_once('=') else { continue };
        let by = step.split_once("+=").map(|(_, by)| by);
        if is_thread(start)
            && let Some(by) = by
            && let Some(threads) = value(by)
        {
            return Some((threads, format!("a loop over threadIdx.x steps by {by}")));
        }
    }
    for (at, mark) in body.match_indices("blockIdx.x") {
        let (before, after) = (body.get(..at).unwrap_or(""), body.get(at + mark.len()..).unwrap_or(""));
        let word_of = |text: &str| text.chars().take_while(|c| is_word(*c)).collect::<String>();
        // Both orders of the product; the addend is after it or before it.
        let (word, before, after) = if let Some(rest) = after.strip_prefix('*') {
            let word = word_of(rest);
            let after = rest.get(word.len()..).unwrap_or("");
            (word, before, after)
        } else if let Some(rest) = before.strip_suffix('*') {
            let start = rest
                .char_indices()
                .rev()
                .take_while(|(_, c)| is_word(*c))
                .last()
                .map_or(rest.len(), |(at, _)| at);
            (rest.get(start..).unwrap_or("").to_owned(), rest.get(..start).unwrap_or(""), after)
        } else {
            continue;
        };
        let added = |name: &String| {
            let follows = |rest: &str| {
                !rest.starts_with(|c: char| is_word(c) || matches!(c, '*' | '/' | '%' | '.' | '['))
            };
            after.strip_prefix('+').and_then(|rest| rest.strip_prefix(name.as_str())).is_some_and(follows)
                || before.strip_suffix('+').and_then(|rest| rest.strip_suffix(name.as_str())).is_some_and(
                    |rest| !rest.ends_with(|c: char| is_word(c) || matches!(c, '*' | '/' | '%' | '.')),
                )
        };
        if names.iter().any(added)
            && let Some(threads) = value(&word)
        {
            return Some((threads, format!("it computes blockIdx.x * {word} + threadIdx.x")));
        }
    }
    None
}

/// Names that a body assigns only `threadIdx.x`.
fn thread_names(body: &str) -> impl Iterator<Item = String> {
    const TYPES: [&str; 6] = ["unsignedint", "unsigned", "constauto", "int", "auto", "uint32_t"];
    body.match_indices("=threadIdx.x;").filter_map(|(at, _)| {
        let before = body.get(..at)?;
        let start = before.char_indices().rev().take_while(|(_, c)| is_word(*c)).last().map(|(at, _)| at)?;
        let mut word = before.get(start..)?;
        word = word.strip_prefix("const").unwrap_or(word);
        // Without spaces the type and the name are one word.
        let name = TYPES.iter().find_map(|ty| word.strip_prefix(ty)).unwrap_or(word);
        (!name.is_empty()).then(|| name.to_owned())
    })
}

/// The argument of a template parameter in an instance: 64 for `BLOCK` of `sum<float, 64>`.
fn template_argument(template: &str, name: &str, word: &str) -> Option<u32> {
    let (_, given) = name.split_once('<')?;
    let given = given.trim_end().strip_suffix('>')?;
    let named = |parameter: &&str| {
        let parameter = parameter.split('=').next().unwrap_or(parameter).trim_end();
        parameter.rsplit(|c: char| !is_word(c)).next() == Some(word)
    };
    let at = split(template).iter().position(|parameter| named(&parameter.as_str()))?;
    let given = split(given);
    // A cast as compilers write it: `(int)64`.
    let argument = given.get(at)?.rsplit(')').next()?.trim().trim_end_matches(['u', 'U', 'l', 'L']);
    argument.parse().ok()
}

/// The parts of a list between top-level commas.
fn split(list: &str) -> Vec<String> {
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
        if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts
}

fn parameters(list: &str) -> Option<Vec<Declared>> {
    let parts = split(list);
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

/// The constant that defines the threads of a block, and its value.
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
