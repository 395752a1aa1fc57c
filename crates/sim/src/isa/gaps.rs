//! Why instructions that ptxas assembles for sm_90a, sm_100a or sm_120a are not executed. The page *Supported instructions* lists
//! them with the same reasons; `tests/forms.rs` compares both with what ptxas accepts.

/// A part of the instruction set that is not supported.
pub struct Gap {
    /// The opcode.
    pub opcode: &'static str,
    /// Modifiers that the instruction has, one of each list.
    modifiers: &'static [&'static [&'static str]],
    /// Why it is not supported.
    pub reason: &'static str,
}

/// A spelling that ptxas assembles although the manual has no such form.
pub const UNDEFINED: &str = "the manual does not define it";

const VIDEO: &str = "scalar video instructions are not supported";
const QUERY: &str = "queries of formats, filters and address modes are not supported";
const SAMPLES: &str = "multi-sample textures are not supported";

macro_rules! gaps {
    ($($opcode:literal $([$($modifier:literal)*])* => $reason:expr;)*) => {
        &[$(Gap { opcode: $opcode, modifiers: &[$(&[$($modifier),*]),*], reason: $reason }),*]
    };
}

/// The first that fits has the reason.
pub const GAPS: &[Gap] = gaps! {
    "multimem" => "it accesses the memory of several devices at one multicast address, which one device does not have";
    "fma" ["oob"] => "the manual does not define the code of the NaN that marks elements out of bounds";
    "tensormap" ["swizzle_atomicity"] => "the field of a tensor map for the atomicity of its swizzle is not supported";
    "mma" ["sp" "sp::ordered_metadata"] ["kind::f8f6f4" "kind::mxf8f6f4" "kind::mxf4" "kind::mxf4nvf4"] =>
        "it is not known which products of a sparse matrix are added together";
    "cp" ["reduce"] ["tile::scatter4"] => UNDEFINED;
    "cp" ["ignore_oob"] => "bytes that a copy may leave out are not supported";
    "tcgen05" ["sp"] => "sparse multiplications in tensor memory are not supported";
    "tcgen05" ["ashift"] => "the manual does not define whether .ashift multiplies the shifted rows of A or shifts them in tensor memory for later";
    "tcgen05" ["red"] => "the manual defines tcgen05.ld.red for sm_101a and sm_103f, not for sm_100a";
    "vadd" => VIDEO; "vsub" => VIDEO; "vabsdiff" => VIDEO; "vmin" => VIDEO; "vmax" => VIDEO; "vshl" => VIDEO; "vshr" => VIDEO;
    "vmad" => VIDEO; "vset" => VIDEO;
    "tex" ["2dms" "a2dms"] => SAMPLES;
    "txq" => QUERY;
    "suq" => QUERY;
    "sured" ["p"] ["b64"] => "reductions of texels of 64 bits are not supported";
    "sust" ["p"] ["a1d" "a2d"] => UNDEFINED;
    "addc" ["u16" "s16"] => UNDEFINED; "subc" ["u16" "s16"] => UNDEFINED; "madc" ["u16" "s16"] => UNDEFINED;
    "sub" ["u16x2" "s16x2"] => UNDEFINED;
    "neg" ["s16x2"] => UNDEFINED;
    "fma" ["rz" "rm" "rp"] ["bf16" "bf16x2"] => UNDEFINED;
    "rcp" ["ftz"] ["f64"] => UNDEFINED;
    "cvt" ["rs"] ["f16x2"] => "the manual does not define the random bits of results below the normal range of f16";
    "cvt" ["rs"] ["e4m3x4" "e5m2x4" "e2m3x4" "e3m2x4" "e2m1x4"] =>
        "the manual does not define to which of the discarded bits the random bits are added";
    "cvt" ["satfinite"] ["s2f6x2"] ["f32" "bf16x2"] =>
        "the manual does not define whether a value below -127/64 becomes -127/64 or -2 in s2f6";
    "cvt" ["bf16"] => UNDEFINED;
    "ld" ["v8"] => UNDEFINED; "st" ["v8"] => UNDEFINED;
    "prefetch" ["L2::evict_last" "L2::evict_normal"] => UNDEFINED;
    "red" ["async"] ["relaxed"] ["s64"] => UNDEFINED;
    "red" ["async"] ["release"] ["min" "max" "inc" "dec" "and" "or" "xor"] => UNDEFINED;
};

/// Why an instruction is not supported, if it is one of the known gaps.
pub fn reason(opcode: &str, modifiers: &[&str]) -> Option<&'static str> {
    let fits = |gap: &&Gap| {
        let has = |any: &&[&str]| any.iter().any(|modifier| modifiers.contains(modifier));
        gap.opcode == opcode && gap.modifiers.iter().all(has)
    };
    GAPS.iter().find(fits).map(|gap| gap.reason)
}
