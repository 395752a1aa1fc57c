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
    fn a_kernel_is_found_by_any_of_its_names() {
        let symbol = "_ZN6signal3firILi5EEEvPKfPf";
        for asked in [symbol, "signal::fir<5>", "signal::fir< 5 >", "signal::fir", "fir"] {
            assert!(is_called(symbol, asked), "{asked}");
        }
        assert!(!is_called(symbol, "signal::fir<3>"));
        assert!(!is_called("axpy", "axpy<float>"));
        assert_eq!(signature(symbol).as_deref(), Some("signal::fir<5>(float const*, float*)"));
        assert_eq!(signature("fir"), None);
    }
}
