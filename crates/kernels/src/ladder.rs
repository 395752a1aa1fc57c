//! The ladder: every kernel variant ("rung"), its one change over the rung before, and its features.

use crate::format::{Format, OutputFormat};
use crate::oracle::bitwise::{Arithmetic, Scores, Values};
use crate::tolerance::{InputPrecision, PFormat, Precision, ScorePrecision, ValueChain};

/// A kernel variant.
#[derive(Debug)]
pub struct Rung {
    /// `n4`.
    pub id: &'static str,
    /// `n4-mma-fp8`.
    pub name: &'static str,
    /// The one change over the rung before.
    pub change: &'static str,
    /// Its source file, unless [`crate::fit`] selects another.
    pub source: &'static str,
    /// The macros its source is compiled with; toggles that are not listed are 0.
    pub settings: &'static [(&'static str, &'static str)],
    /// The toggles that a request may change.
    pub toggles: &'static [Toggle],
    /// Threads per block.
    pub threads: u32,
    /// Query rows per block.
    pub rows: usize,
    /// Keys per step.
    pub keys: usize,
    /// Formats that it reads.
    pub formats: &'static [Format],
    /// Row lengths that it supports.
    pub dims: &'static [usize],
    /// The other features it supports.
    pub features: &'static [Feature],
    /// How work is distributed over its blocks; `threads` and `rows` describe the usual block.
    pub cut: Cut,
    /// The arithmetic that decides its bits under its own settings.
    pub arithmetic: Arithmetic,
}

/// How rows and keys are distributed over blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Every block has the rung's own rows and threads.
    Fixed,
    /// As [`Cut::Fixed`], but macros pass the sizes to the source.
    Streamed,
    /// As many units of 16 rows per block as spread evenly over the device ([`crate::fit`]).
    Fitted,
    /// As [`Cut::Fitted`], but where that leaves sub-cores idle, two warps share the keys of a unit.
    Paired,
    /// As [`Cut::Paired`], but with many rows and scales per head or coarser: tiles of 32 keys, and registers
    /// for more warps.
    Dense,
    /// As [`Cut::Dense`], but where rows fill the device unevenly and there is no mask: equal runs of steps
    /// ([`crate::stream_k`]).
    StreamK,
}

/// Features beyond sequences of equal length with one scale per head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Causal masks.
    Causal,
    /// Sequences of different lengths.
    Varlen,
    /// Scales per block and per row.
    FineScales,
    /// The log-sum-exp as a second output.
    Lse,
    /// Keys spread over several blocks.
    Split,
    /// The output in bf16.
    Bf16,
    /// Windows around a query's own place.
    Window,
    /// Soft caps on the scores.
    Softcap,
    /// A logit for each head that joins the sum of the softmax.
    Sinks,
    /// A bias for each head in proportion to the distance of key and query.
    Alibi,
    /// Keys and values in pages of a pool.
    Pages,
}

/// A macro with the value 0 or 1 that changes a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Toggle {
    /// The macro.
    pub name: &'static str,
    /// The effect of the value 1.
    pub effect: &'static str,
}

const SWIZZLE: Toggle = Toggle {
    name: "USE_SMEM_SWIZZLE_XOR",
    effect: "16-byte chunks of a tile are permuted by row (XOR swizzle), which avoids shared-memory bank conflicts",
};
const TWO_LEVEL: Toggle = Toggle {
    name: "USE_TWO_LEVEL",
    effect: "the sums of each tile of keys are added in f32, outside the tensor core's 13-bit accumulator",
};
const CP_ASYNC: Toggle =
    Toggle { name: "USE_CP_ASYNC", effect: "the next tile is copied while this one is used" };
const WMMA_PV: Toggle = Toggle { name: "USE_WMMA_PV", effect: "P·V by WMMA" };
const SCORE_REUSE: Toggle = Toggle { name: "USE_SCORE_REUSE", effect: "P is stored over the scores" };
const FUSED_SOFTMAX: Toggle =
    Toggle { name: "USE_FUSED_SOFTMAX_PV", effect: "softmax in registers, each row owned by one warp" };
const THREE_STAGE: Toggle =
    Toggle { name: "USE_CP_ASYNC_3STAGE", effect: "a ring of three stages instead of two" };

const LINEAR: &[Format] = &[Format::Linear8];
const E4M3: &[Format] = &[Format::E4m3];
const HISTORICAL: Rung = Rung {
    id: "h0",
    name: "h0-scalar",
    change: "scalar products on 32 × 32 tiles in shared memory",
    source: "historical.cu",
    settings: &[],
    toggles: &[SWIZZLE],
    threads: 128,
    rows: 32,
    keys: 32,
    formats: LINEAR,
    dims: &[64],
    features: &[],
    cut: Cut::Fixed,
    arithmetic: Arithmetic::H0,
};

const N4: Rung = Rung {
    id: "n4",
    name: "n4-mma-fp8",
    change: "both products by mma on FP8, summed in two levels",
    source: "n4.cu",
    settings: &[("USE_SMEM_SWIZZLE_XOR", "1"), ("USE_TWO_LEVEL", "1")],
    toggles: &[SWIZZLE, TWO_LEVEL],
    threads: 128,
    rows: 64,
    keys: 64,
    formats: &[Format::E4m3, Format::E5m2],
    dims: &[64, 96, 128, 256],
    features: &[Feature::Causal, Feature::Varlen, Feature::FineScales, Feature::Lse, Feature::Split],
    cut: Cut::Fixed,
    arithmetic: Arithmetic::N4,
};
const N5: Rung = Rung {
    id: "n5",
    name: "n5-overlap",
    change: "K and V are copied ahead, and the scale is folded into the exponent",
    source: "n5.cu",
    settings: &[("USE_SMEM_SWIZZLE_XOR", "1")],
    toggles: &[SWIZZLE],
    features: &[
        Feature::Causal,
        Feature::Varlen,
        Feature::FineScales,
        Feature::Lse,
        Feature::Split,
        Feature::Bf16,
        Feature::Window,
        Feature::Softcap,
        Feature::Sinks,
        Feature::Alibi,
        Feature::Pages,
    ],
    cut: Cut::Streamed,
    arithmetic: Arithmetic::N5,
    ..N4
};

/// Every rung, from the first to the fastest.
pub const LADDER: &[Rung] = &[
    HISTORICAL,
    Rung {
        id: "h1",
        name: "h1-cp-async",
        change: "K and V are copied by cp.async, two stages",
        settings: &[("USE_CP_ASYNC", "1")],
        toggles: &[SWIZZLE, CP_ASYNC],
        arithmetic: Arithmetic::H1,
        ..HISTORICAL
    },
    Rung {
        id: "h2",
        name: "h2-wmma-pv",
        change: "P·V by WMMA on f16",
        settings: &[("USE_CP_ASYNC", "1"), ("USE_WMMA_PV", "1")],
        toggles: &[SWIZZLE, CP_ASYNC, WMMA_PV],
        arithmetic: Arithmetic::H2,
        ..HISTORICAL
    },
    Rung {
        id: "h3a",
        name: "h3a-reuse-scores",
        change: "P is stored over the scores: 2 KB less shared memory",
        settings: &[("USE_CP_ASYNC", "1"), ("USE_WMMA_PV", "1"), ("USE_SCORE_REUSE", "1")],
        toggles: &[SWIZZLE, CP_ASYNC, SCORE_REUSE],
        arithmetic: Arithmetic::H3A,
        ..HISTORICAL
    },
    Rung {
        id: "h3b",
        name: "h3b-fused-softmax",
        change: "softmax in registers, each row owned by one warp",
        settings: &[("USE_CP_ASYNC", "1"), ("USE_WMMA_PV", "1"), ("USE_FUSED_SOFTMAX_PV", "1")],
        toggles: &[SWIZZLE, CP_ASYNC, FUSED_SOFTMAX],
        arithmetic: Arithmetic::H3B,
        ..HISTORICAL
    },
    Rung {
        id: "h4",
        name: "h4-three-stage",
        change: "a ring of three stages",
        settings: &[("USE_CP_ASYNC", "1"), ("USE_WMMA_PV", "1"), ("USE_CP_ASYNC_3STAGE", "1")],
        toggles: &[SWIZZLE, WMMA_PV, THREE_STAGE],
        arithmetic: Arithmetic::H4,
        ..HISTORICAL
    },
    Rung {
        id: "n1",
        name: "n1-tiled",
        change: "native E4M3, scalar; one warp for each row",
        source: "n1.cu",
        settings: &[],
        toggles: &[],
        threads: 128,
        rows: 16,
        keys: 32,
        formats: E4M3,
        dims: &[64],
        features: &[Feature::Causal, Feature::Lse],
        cut: Cut::Fixed,
        arithmetic: Arithmetic::N1,
    },
    Rung {
        id: "n2",
        name: "n2-mma-f16",
        change: "both products by mma on f16, scores through shared memory",
        source: "n2.cu",
        settings: &[],
        toggles: &[],
        threads: 128,
        rows: 64,
        keys: 64,
        formats: E4M3,
        dims: &[64],
        features: &[Feature::Causal, Feature::Lse],
        cut: Cut::Fixed,
        arithmetic: Arithmetic::N2,
    },
    Rung {
        id: "n3",
        name: "n3-register-p",
        change: "P stays in registers, operands by ldmatrix from swizzled tiles",
        source: "n3.cu",
        settings: &[("USE_SMEM_SWIZZLE_XOR", "1")],
        toggles: &[SWIZZLE],
        threads: 128,
        rows: 64,
        keys: 64,
        formats: E4M3,
        dims: &[64],
        features: &[Feature::Causal, Feature::Lse],
        cut: Cut::Fixed,
        arithmetic: Arithmetic::N3,
    },
    N4,
    N5,
    Rung {
        id: "n6",
        name: "n6-grid-fit",
        change: "blocks of as many rows as spread evenly over the device",
        cut: Cut::Fitted,
        arithmetic: Arithmetic::N6,
        ..N5
    },
    Rung {
        id: "n7",
        name: "n7-paired",
        change: "where rows are few, two warps share the keys of a unit",
        cut: Cut::Paired,
        arithmetic: Arithmetic::N7,
        ..N5
    },
    Rung {
        id: "n8",
        name: "n8-occupancy",
        change: "where rows are many, tiles of 32 keys and as many warps as registers allow",
        cut: Cut::Dense,
        arithmetic: Arithmetic::N8,
        ..N5
    },
    Rung {
        id: "n9",
        name: "n9-stream-k",
        change: "where tiles of rows fill the device unevenly, stream-K: equal runs of steps, and tiles shared by two blocks",
        cut: Cut::StreamK,
        arithmetic: Arithmetic::N9,
        ..N5
    },
];

impl Rung {
    /// The arithmetic that decides its bits under the given settings of its toggles.
    pub fn arithmetic(&self, toggles: &[(String, bool)]) -> Arithmetic {
        let set = |name: &str| {
            let changed = toggles.iter().find(|(toggle, _)| toggle == name).map(|(_, on)| *on);
            changed.unwrap_or_else(|| self.setting(name))
        };
        let mut arithmetic = self.arithmetic;
        if let Values::Fp8 { two_level } = &mut arithmetic.values
            && self.toggles.contains(&TWO_LEVEL)
        {
            *two_level = set(TWO_LEVEL.name);
        }
        if self.source == HISTORICAL.source {
            if !set(WMMA_PV.name) {
                arithmetic.values = Values::Chain;
            }
            if !set(FUSED_SOFTMAX.name) {
                arithmetic.sum = Arithmetic::H0.sum;
            }
        }
        arithmetic
    }

    /// Whether it supports a feature.
    pub fn can(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// The value of a toggle on this rung.
    pub fn setting(&self, toggle: &str) -> bool {
        self.settings.iter().any(|(name, value)| *name == toggle && *value == "1")
    }
}

/// Where a kernel with this arithmetic rounds, for inputs of a format and an output in f16.
pub fn precision(arithmetic: &Arithmetic, format: Format) -> Precision {
    Precision {
        inputs: if format == Format::Linear8 { InputPrecision::F16 } else { InputPrecision::Exact },
        scores: match arithmetic.scores {
            Scores::Chain => ScorePrecision::Chain,
            Scores::F16 => ScorePrecision::F16Tensor,
            Scores::Fp8 => ScorePrecision::Fp8Tensor,
        },
        p: match arithmetic.values {
            Values::Chain => PFormat::F32,
            Values::F16 => PFormat::F16,
            Values::Fp8 { .. } => PFormat::E4m3,
        },
        chain: match arithmetic.values {
            Values::Chain => ValueChain::F32,
            Values::F16 => ValueChain::F16Tensor,
            Values::Fp8 { two_level: true } => ValueChain::Fp8Promoted,
            Values::Fp8 { two_level: false } => ValueChain::Fp8Single,
        },
        output: OutputFormat::F16,
    }
}

/// The rung with that id or name.
pub fn rung(name: &str) -> Option<&'static Rung> {
    LADDER.iter().find(|rung| rung.id == name || rung.name == name)
}
