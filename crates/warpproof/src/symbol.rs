//! Names of kernels: as in the source, from their symbols in the module.

use cpp_demangle::{DemangleOptions, Symbol};

/// The name without C++ mangling: `_ZN4attn7forwardIfEEvPT_` is `attn::forward<float>`. A symbol that is not mangled, or
/// not well, is its own name.
pub(crate) fn name(symbol: &str) -> String {
    demangled(symbol, DemangleOptions::new().no_params().no_return_type())
}

/// The name with the types of the parameters, if the symbol tells them.
pub(crate) fn signature(symbol: &str) -> Option<String> {
    let signature = demangled(symbol, DemangleOptions::new().no_return_type());
    (signature != symbol).then_some(signature)
}

/// A sentence with every symbol in it by its name: `_ZZ7reverseE4tile` is `reverse::tile`.
pub(crate) fn readable(text: &str) -> String {
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

/// The types of the parameters, if the symbol tells them.
pub(crate) fn parameters(symbol: &str) -> Option<Vec<String>> {
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
    // Everything else is a C name, even where it happens to read as a mangled type.
    if !symbol.starts_with("_Z") {
        return symbol.to_owned();
    }
    let parsed = Symbol::new(symbol).ok();
    parsed.and_then(|parsed| parsed.demangle_with_options(&options).ok()).unwrap_or_else(|| symbol.to_owned())
}

/// Whether a user who says `asked` means this symbol: the symbol itself, its name in the source, or the last part of
/// that name without template arguments.
pub(crate) fn is_called(symbol: &str, asked: &str) -> bool {
    let squeeze = |text: &str| text.split_whitespace().collect::<String>();
    let (name, asked) = (squeeze(&name(symbol)), squeeze(asked));
    let plain = name.split('<').next().unwrap_or(&name);
    let last = plain.rsplit("::").next().unwrap_or(plain);
    [symbol, &name, plain, last].contains(&asked.as_str())
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
}
