//! Requirements of a spelling beyond those of its form: types, shapes and modifiers that were added later than the form
//! itself.
//!
//! The rules are the manual's; where the manual and ptxas differ, this follows ptxas, because it decides what can be
//! compiled. `tests/vectors/architectures.tsv` lists the requirements of ptxas, spelling by spelling.

use super::{Modifiers, Since, table};

/// The module requirements of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The minimum PTX version, major and minor.
    pub version: (u32, u32),
    /// The minimum architecture.
    pub sm: u32,
    /// Whether it is an architecture-specific feature, so that the target must be one like `sm_90a`.
    pub specific: bool,
    /// The first later architecture that does not have it.
    pub until: Option<u32>,
}

/// A rule: instructions of these opcodes (any, if the list is empty) with all these modifiers have these requirements.
type Rule = (&'static [&'static str], &'static [&'static str], Since);

const RULES: &[Rule] = &[
    (&[], &["relaxed"], (6, 0, 70)),
    (&[], &["acquire"], (6, 0, 70)),
    (&[], &["release"], (6, 0, 70)),
    (&[], &["acq_rel"], (6, 0, 70)),
    (&["atom", "red"], &["cta"], (5, 0, 60)),
    (&["atom", "red"], &["gpu"], (5, 0, 60)),
    (&["atom", "red"], &["sys"], (5, 0, 60)),
    (&[], &["cluster"], (7, 8, 90)),
    (&[], &["shared::cluster"], (7, 8, 90)),
    (&["atom", "red", "ld", "st", "cvta", "isspacep", "ldmatrix"], &["shared::cta"], (7, 8, 10)),
    (&["bar", "barrier"], &["cta"], (7, 8, 10)),
    (&[], &["L2::cache_hint"], (7, 4, 80)),
    (&[], &["L2::64B"], (7, 4, 75)),
    (&[], &["L2::128B"], (7, 4, 75)),
    (&[], &["L2::256B"], (7, 4, 80)),
    (&[], &["L1::evict_normal"], (7, 4, 70)),
    (&[], &["L1::evict_unchanged"], (7, 4, 70)),
    (&[], &["L1::evict_first"], (7, 4, 70)),
    (&[], &["L1::evict_last"], (7, 4, 70)),
    (&[], &["L1::no_allocate"], (7, 4, 70)),
    (&["ld", "ldu", "st", "mov"], &["b128"], (8, 3, 70)),
    (&["ld", "st"], &["v4", "b64"], (8, 8, 100)),
    (&["ld", "st"], &["v4", "u64"], (8, 8, 100)),
    (&["ld", "st"], &["v4", "s64"], (8, 8, 100)),
    (&["ld", "st"], &["v4", "f64"], (8, 8, 100)),
    (&["cvta", "isspacep"], &["param"], (7, 7, 70)),
    (&["cvta", "isspacep"], &["param::entry"], (8, 3, 70)),
    (&["ld", "st"], &["param::entry"], (8, 3, 10)),
    (&["ld", "st"], &["param::func"], (8, 3, 10)),
    (&["set"], &["u32", "f16x2"], (6, 5, 53)),
    (&["set"], &["s32", "f16x2"], (6, 5, 53)),
    (&["cvt"], &["relu"], (7, 0, 80)),
    (&["mma"], &["m16n8k16"], (7, 0, 80)),
    (&["mma"], &["m16n8k32"], (7, 0, 80)),
    (&["mma"], &["m16n8k64"], (7, 0, 80)),
    (&["mma"], &["m16n8k128"], (7, 0, 80)),
    (&["mma"], &["m16n8k256"], (7, 0, 80)),
    (&["mma"], &["m16n8k16", "e4m3"], (8, 7, 89)),
    (&["mma"], &["m16n8k16", "e5m2"], (8, 7, 89)),
    (&["mma", "wmma"], &["and", "popc"], (7, 1, 80)),
    (&["wmma"], &["bf16"], (7, 0, 80)),
    (&["wmma"], &["m8n32k16"], (6, 1, 70)),
    (&["wmma"], &["m32n8k16"], (6, 1, 70)),
    (&["wmma"], &["s8"], (6, 3, 72)),
    (&["wmma"], &["u8"], (6, 3, 72)),
    (&["wmma"], &["s32"], (6, 3, 72)),
    (&["tcgen05"], &["block16"], (8, 8, 100)),
    (&["tcgen05"], &["block32"], (8, 8, 100)),
];

/// Opcodes that only architecture-specific targets support.
const SPECIFIC: &[&str] = &["setmaxnreg", "tcgen05", "wgmma"];

/// Spellings that only architecture-specific targets support: an opcode with all these modifiers.
const SPECIFIC_FORMS: &[(&str, &[&str])] = &[
    ("mma", &["kind::f8f6f4"]),
    ("mma", &["block_scale"]),
    ("cvt", &["e3m2x2"]),
    ("cvt", &["e2m3x2"]),
    ("cvt", &["e2m1x2"]),
    ("cvt", &["ue8m0x2"]),
    ("cvt", &["rs"]),
    ("cvt", &["s2f6x2"]),
    ("cvt", &["bf16x2", "e4m3x2"]),
    ("cvt", &["bf16x2", "e5m2x2"]),
    ("add", &["u8x4"]),
    ("add", &["s8x4"]),
    ("add", &["sat", "u32"]),
    ("add", &["sat", "u16x2"]),
    ("add", &["sat", "s16x2"]),
    ("sub", &["u8x4"]),
    ("sub", &["s8x4"]),
    ("min", &["u8x4"]),
    ("min", &["s8x4"]),
    ("max", &["u8x4"]),
    ("max", &["s8x4"]),
    ("neg", &["s8x4"]),
    ("ldmatrix", &["m8n16"]),
    ("ldmatrix", &["m16n16"]),
    ("stmatrix", &["m16n8"]),
    ("redux", &["f32"]),
    ("clusterlaunchcontrol", &["multicast::cluster::all"]),
    ("cp", &["cta_group::1"]),
    ("cp", &["cta_group::2"]),
    ("cp", &["tile::gather4", "shared::cluster"]),
    ("cp", &["tile::gather4", "prefetch"]),
    ("cp", &["tile::scatter4"]),
    ("cp", &["im2col::w", "shared::cluster"]),
    ("cp", &["im2col::w", "prefetch"]),
    ("cp", &["im2col::w::128"]),
];

/// Spellings that later architectures do not have, from the second number on.
const UNTIL: &[(&str, &[&str], u32)] =
    &[("wgmma", &[], 91), ("tcgen05", &[], 120), ("redux", &["f32"], 110), ("cvt", &["rs"], 110)];

/// The module requirements of an instruction with this form index and these modifiers.
pub fn needs(entry: usize, modifiers: &Modifiers<'_>) -> Needs {
    let form = modifiers.form();
    let (major, minor, sm) = table().get(entry).map_or((1, 0, 10), |entry| entry.definition.since);
    let mut needs = Needs {
        version: (u32::from(major), u32::from(minor)),
        sm,
        specific: SPECIFIC.contains(&form.opcode),
        until: None,
    };
    let has = |with: &[&str]| with.iter().all(|wanted| modifiers.values().any(|given| given == *wanted));
    needs.specific |= SPECIFIC_FORMS.iter().any(|(opcode, with)| *opcode == form.opcode && has(with));
    let until = UNTIL.iter().find(|(opcode, with, _)| *opcode == form.opcode && has(with));
    needs.until = until.map(|(_, _, sm)| *sm);
    for (opcodes, with, (major, minor, sm)) in RULES {
        let applies = opcodes.is_empty() || opcodes.contains(&form.opcode);
        if applies && has(with) {
            needs.version = needs.version.max((u32::from(*major), u32::from(*minor)));
            needs.sm = needs.sm.max(*sm);
        }
    }
    needs
}
