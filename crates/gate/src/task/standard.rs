//! The distributions that a task for an operator begins with.

use crate::dtype::Dtype;

/// Distributions for a first task about an operator, by its name in a task file, on inputs of a type. Each has outputs that are
/// finite and that a right kernel computes within derived limits, whether or not it flushes denormal numbers.
pub fn standard_distributions(operator: &str, dtype: Dtype) -> &'static [&'static str] {
    match operator {
        _ if dtype.is_integer() => &["normal", "structured", "extreme"],
        "softmax" => &["normal", "wide", "structured", "masked", "magnitudes", "signed_zero", "denormal"],
        "elementwise" => &["normal", "wide", "structured", "signed_zero", "denormal"],
        "reduction" | "gemm" | "layer_norm" => &["normal", "wide", "structured", "signed_zero"],
        _ => &["normal", "wide", "structured"],
    }
}
