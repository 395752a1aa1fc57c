//! Names that are valid in task files, their expressions and Python references.

/// Keywords of Python, and names that a reference or an expression reserves.
const RESERVED: [&str; 69] = [
    "False",
    "None",
    "True",
    "and",
    "as",
    "assert",
    "async",
    "await",
    "break",
    "class",
    "continue",
    "def",
    "del",
    "elif",
    "else",
    "except",
    "finally",
    "for",
    "from",
    "global",
    "if",
    "import",
    "in",
    "is",
    "lambda",
    "nonlocal",
    "not",
    "or",
    "pass",
    "raise",
    "return",
    "try",
    "while",
    "with",
    "yield",
    "abs",
    "all",
    "any",
    "bool",
    "ceil",
    "ceil_div",
    "dict",
    "enumerate",
    "exp",
    "float",
    "floor",
    "int",
    "len",
    "list",
    "log",
    "map",
    "math",
    "max",
    "min",
    "numpy",
    "np",
    "pow",
    "print",
    "range",
    "reference",
    "round",
    "round_up",
    "sorted",
    "sqrt",
    "sum",
    "tanh",
    "tuple",
    "where",
    "zip",
];

/// The closest name that is an identifier, is not reserved, and is not taken.
pub(super) fn safe<'a>(name: &str, taken: impl Iterator<Item = &'a str>) -> String {
    let taken: Vec<&str> = taken.collect();
    let mut safe: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).take(48).collect();
    if !safe.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        safe.insert(0, 'p');
    }
    while RESERVED.contains(&safe.as_str()) || taken.contains(&safe.as_str()) {
        safe.push('_');
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::safe;

    #[test]
    fn reserved_and_taken_names_are_changed() {
        for (name, taken, expected) in [
            ("x", &[][..], "x"),
            ("in", &[], "in_"),
            ("in", &["in_"], "in__"),
            ("lambda", &[], "lambda_"),
            ("max", &[], "max_"),
            ("n", &["n"], "n_"),
            ("2x", &[], "p2x"),
            ("größe", &[], "gr__e"),
        ] {
            assert_eq!(safe(name, taken.iter().copied()), expected, "{name}");
        }
    }
}
