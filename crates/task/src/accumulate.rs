//! The types in which kernels keep sums.

use serde::Serialize;

use crate::dtype::Dtype;

/// How sums are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Accumulate {
    /// In f32, in any order.
    F32,
    /// In f64, in any order.
    F64,
    /// In f16, in any order.
    F16,
    /// Tensor cores on f16 or bf16, which truncate to 2^-24 of the largest term.
    TensorF16,
    /// Tensor cores on FP8, which truncate to 2^-13 of the largest term.
    TensorFp8,
    /// In 32-bit integers that wrap around: exact.
    I32,
    /// In unsigned 32-bit integers.
    U32,
    /// In 64-bit integers.
    I64,
    /// In unsigned 64-bit integers.
    U64,
}

impl Accumulate {
    /// The type in which sums and later results are kept.
    pub fn dtype(self) -> Dtype {
        match self {
            Accumulate::F64 => Dtype::F64,
            Accumulate::F16 => Dtype::F16,
            Accumulate::I32 => Dtype::I32,
            Accumulate::U32 => Dtype::U32,
            Accumulate::I64 => Dtype::I64,
            Accumulate::U64 => Dtype::U64,
            Accumulate::F32 | Accumulate::TensorF16 | Accumulate::TensorFp8 => Dtype::F32,
        }
    }

    /// Whether sums are integers: then nothing is rounded, and outputs are compared exactly.
    pub fn is_integer(self) -> bool {
        self.dtype().is_integer()
    }
}
