//! Default distributions of a new task, by operator.

use crate::dtype::Dtype;

/// Distributions for a new task, given the operator's name in a task file and the type of the inputs. Each gives
/// finite outputs that a correct kernel computes within derived limits, whether or not it flushes denormal numbers.
pub fn standard_distributions(operator: &str, dtype: Dtype) -> &'static [&'static str] {
    match operator {
        _ if dtype.is_integer() => &["normal", "structured", "extreme"],
        "softmax" => &["normal", "wide", "structured", "masked", "magnitudes", "signed_zero", "denormal"],
        "elementwise" => &["normal", "wide", "structured", "signed_zero", "denormal"],
        "reduction" | "gemm" | "layer_norm" => &["normal", "wide", "structured", "signed_zero"],
        _ => &["normal", "wide", "structured"],
    }
}
