//! Names of kernels and variables: in the source and in the module.

use std::collections::BTreeMap;

use cpp_demangle::{DemangleOptions, Symbol};

/// The demangled name: `_ZN4attn7forwardIfEEvPT_` is `attn::forward<float>`. A symbol that is not mangled, or that cannot be
/// demangled, is returned unchanged.
pub fn name(symbol: &str) -> String {
    demangled(symbol, DemangleOptions::new().no_params().no_return_type())
}

/// The name with its parameter types, if the symbol contains them.
pub fn signature(symbol: &str) -> Option<String> {
    let signature = demangled(symbol, DemangleOptions::new().no_return_type());
    (signature != symbol).then_some(signature)
}

/// Demangles every symbol in a sentence: `_ZZ7reverseE4tile` becomes `reverse::tile`.
pub fn readable(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$';
    let mut all = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("_Z") {
        let inside = rest[..start].ends_with(is_part);
        let end = start + rest[start..].find(|c| !is_part(c)).unwrap_or(rest.len() - start);
        let symbol = &rest[start..end];
        all.push_str(&rest[..start]);
        all.push_str(&if inside { symbol.to_owned() } else { name(symbol) });
        rest = &rest[end..];
    }
    all + rest
}

/// The parameter types, if the symbol contains them.
pub fn parameters(symbol: &str) -> Option<Vec<String>> {
    let signature = signature(symbol)?;
    let list = signature.get(name(symbol).len()..)?.strip_prefix('(')?.strip_suffix(')')?;
    let mut types = vec![String::new()];
    let mut depth = 0;
    for letter in list.chars() {
        match letter {
            '(' | '<' | '[' => depth += 1,
            ')' | '>' | ']' => depth -= 1,
            ',' if depth == 0 => {
                types.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = types.last_mut() {
            last.push(letter);
        }
    }
    let types = types.into_iter().map(|text| text.trim().to_owned());
    Some(types.filter(|text| !text.is_empty() && text != "void").collect())
}

fn demangled(symbol: &str, options: DemangleOptions) -> String {
    // Everything else is a C name, even if it could be parsed as a mangled type.
    if !symbol.starts_with("_Z") {
        return symbol.to_owned();
    }
    let parsed = Symbol::new(symbol).ok();
    parsed.and_then(|parsed| parsed.demangle_with_options(&options).ok()).unwrap_or_else(|| symbol.to_owned())
}

/// A spelling without spaces: `f< int, 4 >` and `f<int,4>` are the same.
fn squeeze(text: &str) -> String {
    text.split_whitespace().collect()
}

/// Whether two spellings differ at most in spaces.
pub fn same(a: &str, b: &str) -> bool {
    squeeze(a) == squeeze(b)
}

/// Whether `asked` refers to this symbol: the symbol itself, its name in the source, that name without template arguments or with
/// its parameter types, each with all or some of its namespaces.
pub fn is_called(symbol: &str, asked: &str) -> bool {
    let asked = squeeze(asked);
    if symbol == asked {
        return true;
    }
    let name = name(symbol);
    let plain = without_arguments(&name);
    let spellings = [Some(plain), Some(name), signature(symbol)];
    spellings.iter().flatten().any(|spelling| {
        let spelling = squeeze(spelling);
        std::iter::successors(Some(spelling.as_str()), |rest| inside(rest)).any(|rest| rest == asked)
    })
}

/// The name without its own template arguments: `a<int>::f<4>` is `a<int>::f`.
fn without_arguments(name: &str) -> String {
    if !name.ends_with('>') {
        return name.to_owned();
    }
    let mut depth = 0;
    for (at, letter) in name.char_indices().rev() {
        match letter {
            '>' => depth += 1,
            '<' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return name.get(..at).unwrap_or(name).to_owned();
        }
    }
    name.to_owned()
}

/// The name without its outermost namespace.
fn inside(name: &str) -> Option<&str> {
    let mut depth = 0;
    for (at, letter) in name.char_indices() {
        match letter {
            '<' | '(' => depth += 1,
            '>' | ')' => depth -= 1,
            ':' if depth == 0 => return name.get(at..)?.strip_prefix("::"),
            _ => {}
        }
    }
    None
}

/// Why a name does not refer to exactly one symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotOne {
    /// No symbol matches.
    None,
    /// Several symbols match: their signatures.
    Several(Vec<String>),
}

/// The symbol that `asked` refers to. A full name takes precedence over a partial one.
pub fn find<'s>(symbols: &'s [String], asked: &str) -> Result<&'s String, NotOne> {
    let exact = |symbol: &&String| symbol.as_str() == asked || same(&name(symbol), asked);
    let several = |found: Vec<&'s String>| match found.as_slice() {
        [only] => Ok(*only),
        [] => Err(NotOne::None),
        _ => Err(NotOne::Several(
            found.iter().map(|symbol| signature(symbol).unwrap_or_else(|| (*symbol).clone())).collect(),
        )),
    };
    match several(symbols.iter().filter(exact).collect()) {
        Err(NotOne::None) => several(symbols.iter().filter(|symbol| is_called(symbol, asked)).collect()),
        found => found,
    }
}

/// Requested instances of kernel templates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instances {
    /// Symbols by spelling.
    pub(crate) symbols: BTreeMap<String, String>,
    /// Instances that the compiler rejected, each with its message.
    pub(crate) refused: Vec<(String, String)>,
}

impl Instances {
    /// The kernel of a module that `asked` refers to.
    pub fn find<'s>(&self, kernels: &'s [String], asked: &str) -> Result<&'s String, NotOne> {
        let lowered = self.symbols.get(asked);
        let made = lowered.and_then(|symbol| kernels.iter().find(|kernel| *kernel == symbol));
        made.map_or_else(|| find(kernels, asked), Ok)
    }

    /// Why the module has no kernel of this name, if the compiler or the source text explains it.
    pub fn why_not(&self, asked: &str, source: &str) -> Option<String> {
        if let Some((_, message)) = self.refused.iter().find(|(spelling, _)| spelling == asked) {
            return Some(format!("the compiler cannot instantiate `{asked}`: {message}"));
        }
        let parameters = template_parameters(source, asked)?;
        Some(format!(
            "`{asked}` is a template<{parameters}>: pass its arguments, as in `{asked}<…>`, to instantiate it"
        ))
    }
}

/// Whether a spelling names a template instance, which a module contains only if it is instantiated. The compiler parses it as C++,
/// so only characters of names and types are allowed.
pub(crate) fn is_instance(spelling: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_:<>,*&()[]+-. ".contains(c);
    spelling.trim().ends_with('>')
        && spelling.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == ':')
        && spelling.chars().all(plain)
}

/// The parameters of a kernel template in CUDA C++, as `typename T, int N`. `None` if no kernel template has this name.
pub fn template_parameters<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name = name.rsplit("::").next().unwrap_or(name).trim();
    for (global, _) in text.match_indices("__global__") {
        let rest = text.get(global..)?;
        let head = rest.get(..rest.find('(')?)?;
        // Attributes such as __launch_bounds__(128) may come in between.
        let head = if head.trim_end().ends_with("__") { rest.get(..rest.find(['{', ';'])?)? } else { head };
        let named = head.match_indices(name).any(|(at, _)| {
            let after = head.get(at + name.len()..).unwrap_or_default().trim_start();
            !head.get(..at).unwrap_or_default().ends_with(is_part)
                && (after.is_empty() || after.starts_with('('))
        });
        let before = text.get(..global)?.trim_end();
        if let Some(parameters) = before.strip_suffix('>').filter(|_| named) {
            let start = parameters.rfind("template")?;
            return parameters.get(start..)?.strip_prefix("template")?.trim_start().strip_prefix('<');
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_symbols() {
        for (symbol, expected) in [
            ("one", "one"),
            ("i", "i"),
            ("_Z1kPf", "k"),
            ("_ZN4attn7forwardIfEEvPT_", "attn::forward<float>"),
            ("_ZN6signal3firILi5EEEvPKfPf", "signal::fir<5>"),
            ("_Z", "_Z"),
            ("_Z99x", "_Z99x"),
            ("_Z1", "_Z1"),
            ("_ZN", "_ZN"),
        ] {
            assert_eq!(name(symbol), expected);
        }
    }

    #[test]
    fn symbols_in_sentences_are_read() {
        let text = "past the end of `_ZZ7reverseE4tile` (a_Z1kPf, _Z, é) by _Z1kPf";
        assert_eq!(readable(text), "past the end of `reverse::tile` (a_Z1kPf, _Z, é) by k");
    }

    #[test]
    fn a_kernel_is_found_by_any_of_its_names() {
        let symbol = "_ZN6signal3firILi5EEEvPKfPf";
        for asked in [symbol, "signal::fir<5>", "signal::fir< 5 >", "signal::fir", "fir"] {
            assert!(is_called(symbol, asked), "{asked}");
        }
        assert!(is_called(symbol, "fir<5>") && is_called(symbol, "fir<5>(float const*, float*)"));
        assert!(is_called("_Z1kIN1a1bEEvv", "k<a::b>") && !is_called("_Z1kIN1a1bEEvv", "b>"));
        assert!(!is_called(symbol, "signal::fir<3>"));
        assert!(!is_called("axpy", "axpy<float>"));
        assert_eq!(signature(symbol).as_deref(), Some("signal::fir<5>(float const*, float*)"));
        assert_eq!(signature("fir"), None);
        assert_eq!(
            parameters(symbol).as_deref(),
            Some(&["float const*".to_owned(), "float*".to_owned()][..])
        );
        assert_eq!(parameters("_Z1kv").as_deref(), Some(&[][..]));
        assert_eq!(parameters("fir"), None);
    }
    #[test]
    fn a_full_name_comes_before_a_part_of_one() {
        let symbols = ["_ZN1a1kEPf", "_Z1kPf", "_Z1sPf", "_Z1sPi"].map(str::to_owned);
        assert_eq!(find(&symbols, "k").map(String::as_str), Ok("_Z1kPf"));
        assert_eq!(find(&symbols, "a::k").map(String::as_str), Ok("_ZN1a1kEPf"));
        assert_eq!(find(&symbols, "s(int *)").map(String::as_str), Ok("_Z1sPi"));
        assert_eq!(find(&symbols, "s"), Err(NotOne::Several(vec!["s(float*)".into(), "s(int*)".into()])));
        assert_eq!(find(&symbols, "x"), Err(NotOne::None));
    }

    #[test]
    fn templates_are_found_in_the_source() {
        let text = "template <typename T, int N>\n__global__ void __launch_bounds__(N) f(T *x) {}\n\
                    template<class U> __global__ void g(U);\n__global__ void h(int *x) {}";
        assert_eq!(template_parameters(text, "f"), Some("typename T, int N"));
        assert_eq!(template_parameters(text, "ns::g"), Some("class U"));
        assert_eq!(template_parameters(text, "h"), None);
        assert_eq!(template_parameters(text, "x"), None);
    }
}
