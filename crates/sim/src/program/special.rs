//! Special registers that do not change while a thread runs: they are rows, filled when the warp starts.

use crate::machine::{Registers, Row, Width, at};

/// A row that holds a special register.
#[derive(Clone, Copy, Debug)]
pub struct Special {
    /// Which register.
    pub kind: SpecialKind,
    /// The file it is read from.
    pub width: Width,
    /// The row.
    pub row: u32,
}

/// Bytes of shared memory per block that are reserved for system software: CUDA's cooperative groups keep the barriers of
/// tiles larger than a warp there (CUDA programming guide: 1 KB per block on compute capability 8.x).
pub const RESERVED_SHARED: u32 = 1024;

/// The special registers that are constant for a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the manual's own names")]
pub enum SpecialKind {
    Tid(usize),
    Ntid(usize),
    Ctaid(usize),
    Nctaid(usize),
    Laneid,
    Warpid,
    Nwarpid,
    Smid,
    Nsmid,
    Gridid,
    LanemaskEq,
    LanemaskLe,
    LanemaskLt,
    LanemaskGe,
    LanemaskGt,
    DynamicSharedSize,
    TotalSharedSize,
    /// An offset into the shared memory that is reserved for system software.
    Reserved(u32),
    ReservedSize,
    /// A value that the driver passes to a launch, by number.
    Environment(u32),
    ClusterId(usize),
    NclusterId(usize),
    ClusterCtaid(usize),
    ClusterNctaid(usize),
    ClusterCtarank,
    ClusterNctarank,
    IsExplicitCluster,
    Zero,
}

impl SpecialKind {
    /// The register that a name such as `%tid.x` denotes, and its width in bits.
    pub fn parse(name: &str) -> Option<(SpecialKind, u32)> {
        let (base, component) = warpproof_ptx::component(name);
        let axis = match component {
            Some("x") => 0,
            Some("y") => 1,
            Some("z") => 2,
            _ => 3,
        };
        let by_axis = |kind: fn(usize) -> SpecialKind| if axis < 3 { Some((kind(axis), 32)) } else { None };
        let plain = |kind: SpecialKind| component.is_none().then_some((kind, 32));
        match base {
            "%tid" => by_axis(SpecialKind::Tid),
            "%ntid" => by_axis(SpecialKind::Ntid),
            "%ctaid" => by_axis(SpecialKind::Ctaid),
            "%nctaid" => by_axis(SpecialKind::Nctaid),
            "%clusterid" => by_axis(SpecialKind::ClusterId),
            "%nclusterid" => by_axis(SpecialKind::NclusterId),
            "%cluster_ctaid" => by_axis(SpecialKind::ClusterCtaid),
            "%cluster_nctaid" => by_axis(SpecialKind::ClusterNctaid),
            "%cluster_ctarank" => plain(SpecialKind::ClusterCtarank),
            "%cluster_nctarank" => plain(SpecialKind::ClusterNctarank),
            // A predicate.
            "%is_explicit_cluster" => component.is_none().then_some((SpecialKind::IsExplicitCluster, 1)),
            "%laneid" => plain(SpecialKind::Laneid),
            "%warpid" => plain(SpecialKind::Warpid),
            "%nwarpid" => plain(SpecialKind::Nwarpid),
            "%smid" => plain(SpecialKind::Smid),
            "%nsmid" => plain(SpecialKind::Nsmid),
            "%gridid" => component.is_none().then_some((SpecialKind::Gridid, 64)),
            "%lanemask_eq" => plain(SpecialKind::LanemaskEq),
            "%lanemask_le" => plain(SpecialKind::LanemaskLe),
            "%lanemask_lt" => plain(SpecialKind::LanemaskLt),
            "%lanemask_ge" => plain(SpecialKind::LanemaskGe),
            "%lanemask_gt" => plain(SpecialKind::LanemaskGt),
            "%dynamic_smem_size" => plain(SpecialKind::DynamicSharedSize),
            "%total_smem_size" | "%aggr_smem_size" => plain(SpecialKind::TotalSharedSize),
            "%reserved_smem_offset_begin" | "%reserved_smem_offset_0" => plain(SpecialKind::Reserved(0)),
            "%reserved_smem_offset_1" => plain(SpecialKind::Reserved(RESERVED_SHARED / 2)),
            "%reserved_smem_offset_end" => plain(SpecialKind::Reserved(RESERVED_SHARED)),
            "%reserved_smem_offset_cap" => plain(SpecialKind::ReservedSize),
            "WARP_SZ" => None,
            _ if base.starts_with("%envreg") => {
                let number = base.strip_prefix("%envreg").and_then(|number| number.parse().ok());
                plain(number.map_or(SpecialKind::Zero, SpecialKind::Environment))
            }
            _ => None,
        }
    }
}

impl Special {
    /// Fills the row.
    #[expect(
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        reason = "narrowed to the register's width"
    )]
    pub fn write(&self, regs: &mut Registers, values: &Row<u64>) {
        match self.width {
            Width::W64 => regs.w64[at(self.row)] = *values,
            Width::Pred => {
                let bit = |(lane, value): (u32, u64)| u32::from(value != 0) << lane;
                regs.preds[at(self.row)] = (0..32).zip(values.0).map(bit).fold(0, |all, bit| all | bit);
            }
            _ => {
                for (target, value) in regs.w32[at(self.row)].0.iter_mut().zip(values.0) {
                    *target = value as u32;
                }
            }
        }
    }
}

/// Special registers that change while a thread runs; `mov` reads them.
pub(super) fn is_dynamic(name: &str) -> bool {
    matches!(
        name,
        "%clock" | "%clock_hi" | "%clock64" | "%globaltimer" | "%globaltimer_lo" | "%globaltimer_hi"
    ) || name.starts_with("%pm")
}
