//! Guesses the operator of a kernel from its name and its parameters.

/// An operator that a task supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the operators")]
pub enum Kind {
    Attention,
    Softmax,
    LayerNorm,
    Gemm,
    Reduction,
    Elementwise,
    Custom,
}

const KINDS: [(Kind, &str); 7] = [
    (Kind::Attention, "attention"),
    (Kind::Softmax, "softmax"),
    (Kind::LayerNorm, "layer_norm"),
    (Kind::Gemm, "gemm"),
    (Kind::Reduction, "reduction"),
    (Kind::Elementwise, "elementwise"),
    (Kind::Custom, "custom"),
];

impl Kind {
    /// The operator with this name.
    pub fn named(name: &str) -> Option<Kind> {
        KINDS.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        KINDS.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    /// Every name.
    pub fn names() -> [&'static str; 7] {
        KINDS.map(|(_, name)| name)
    }
}

/// Words in names of elementwise kernels, their number of inputs, and their expression over inputs {0}, {1} and a
/// scalar {a}.
const EXPRESSIONS: [(&str, usize, &str); 27] = [
    ("axpy", 2, "{a} * {0} + {1}"),
    ("saxpy", 2, "{a} * {0} + {1}"),
    ("daxpy", 2, "{a} * {0} + {1}"),
    ("add", 2, "{0} + {1}"),
    ("vecadd", 2, "{0} + {1}"),
    ("vadd", 2, "{0} + {1}"),
    ("sub", 2, "{0} - {1}"),
    ("mul", 2, "{0} * {1}"),
    ("multiply", 2, "{0} * {1}"),
    ("div", 2, "{0} / {1}"),
    ("scale", 1, "{a} * {0}"),
    ("scal", 1, "{a} * {0}"),
    ("copy", 1, "{0}"),
    ("relu", 1, "max({0}, 0)"),
    ("relu2", 1, "max({0}, 0) * max({0}, 0)"),
    ("sqrelu", 1, "max({0}, 0) * max({0}, 0)"),
    ("swiglu", 2, "{0} / (1 + exp(-{0})) * {1}"),
    ("sigmoid", 1, "1 / (1 + exp(-{0}))"),
    ("silu", 1, "{0} / (1 + exp(-{0}))"),
    ("swish", 1, "{0} / (1 + exp(-{0}))"),
    ("gelu", 1, "0.5 * {0} * (1 + tanh(0.7978845608028654 * ({0} + 0.044715 * {0} * {0} * {0})))"),
    ("tanh", 1, "tanh({0})"),
    ("exp", 1, "exp({0})"),
    ("log", 1, "log({0})"),
    ("sqrt", 1, "sqrt({0})"),
    ("square", 1, "{0} * {0}"),
    ("negate", 1, "-{0}"),
];

/// The guess from a name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Guess {
    pub(super) kind: Kind,
    /// For a reduction.
    pub(super) op: &'static str,
    /// For an elementwise kernel: the number of inputs, and the expression.
    pub(super) expression: Option<(usize, &'static str)>,
    /// For a product: whether A and B are transposed.
    pub(super) transposed: (bool, bool),
    pub(super) because: String,
}

/// The words of a name: `softmaxRows_v2` is softmax, rows, v2.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut lower = false;
    for c in name.chars() {
        if c.is_alphanumeric() {
            if c.is_uppercase() && lower {
                words.push(String::new());
            }
            if let Some(word) = words.last_mut() {
                word.extend(c.to_lowercase());
            }
        } else {
            words.push(String::new());
        }
        lower = c.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The guess from a kernel's name, or else from the name of a file that holds only this kernel. A run confirms or
/// refutes it.
pub(super) fn guess(kernel: &str, file: Option<&str>) -> Guess {
    let plain = kernel.split('<').next().unwrap_or(kernel);
    let of_file = || file.and_then(|file| of_name(file, "the file"));
    of_name(plain, "the kernel").or_else(of_file).unwrap_or_else(|| Guess {
        kind: Kind::Custom,
        op: "sum",
        expression: None,
        transposed: (false, false),
        because: format!("the name {plain} matches no known operator"),
    })
}

fn of_name(name: &str, whose: &str) -> Option<Guess> {
    let words = words(name);
    let joined = words.concat();
    let any = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    let mut guess = Guess {
        kind: Kind::Custom,
        op: "sum",
        expression: None,
        transposed: (any(&["tn", "tt"]), any(&["nt", "tt"])),
        because: format!("{whose} is called {name}"),
    };
    guess.op = if any(&["max", "maximum"]) || joined.contains("rowmax") {
        "max"
    } else if any(&["mean", "average", "avg"]) {
        "mean"
    } else {
        "sum"
    };
    // The gradient of an operator is another operator.
    if any(&["backward", "bwd", "grad", "dx", "dgamma"]) {
        return None;
    }
    let word = |ends: &[&str]| words.iter().any(|word| ends.iter().any(|end| word.ends_with(end)));
    guess.kind = if word(&["softmax"]) {
        Kind::Softmax
    } else if word(&["layernorm"])
        || joined.contains("layernorm")
        || words.first().is_some_and(|word| word == "ln")
    {
        Kind::LayerNorm
    } else if word(&["gemm", "matmul"]) || joined.contains("matmul") || any(&["mm", "matrixmul"]) {
        Kind::Gemm
    } else if any(&["reduce", "reduction", "sum", "max", "mean", "rowsum", "rowmax"]) {
        Kind::Reduction
    } else {
        let found =
            words.iter().find_map(|word| EXPRESSIONS.iter().find(|known| known.0 == word.as_str()))?;
        guess.expression = Some((found.1, found.2));
        Kind::Elementwise
    };
    Some(guess)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_operators() {
        for (name, kind, op) in [
            ("softmax_rows", Kind::Softmax, "sum"),
            ("onlineSoftmax", Kind::Softmax, "sum"),
            ("layer_norm_half", Kind::LayerNorm, "sum"),
            ("attn::sgemm_tiled<float, 16>", Kind::Gemm, "sum"),
            ("MatMul", Kind::Gemm, "sum"),
            ("reduce_max", Kind::Reduction, "max"),
            ("row_mean", Kind::Reduction, "mean"),
            ("vector_add", Kind::Elementwise, "sum"),
            ("saxpy", Kind::Elementwise, "sum"),
            ("histogram", Kind::Custom, "sum"),
            ("softmax_backward", Kind::Custom, "sum"),
            ("maximize", Kind::Custom, "sum"),
        ] {
            let guess = guess(name, Some("kernel"));
            assert_eq!((guess.kind, guess.op), (kind, op), "{name}");
        }
        assert_eq!(guess("k", Some("gelu")).kind, Kind::Elementwise);
        // The name of a file with several kernels does not describe any one of them.
        assert_eq!(guess("k", None).kind, Kind::Custom);
        let squared = guess("relu2", Some("gelu"));
        assert_eq!(squared.expression, Some((1, "max({0}, 0) * max({0}, 0)")));
        assert_eq!(guess("gemm_nt", None).transposed, (false, true));
        assert_eq!(Kind::named("gemm").map(Kind::name), Some("gemm"));
    }
}
