//! The kernels of the study, and how a mutant of one is run and checked.

use std::path::Path;

use super::{case::Case, mutation::Family, rung::RungLaunch};

/// A correct kernel.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    kind: Kind,
}

enum Kind {
    /// A kernel of `tests/pass` with its committed PTX; with a smaller launch if its own takes long.
    Case(Option<&'static str>),
    /// A rung of the attention ladder, by its id.
    Rung(&'static str),
    /// The same; it is the program of the previous rung, except for the shape of its blocks.
    Recut(&'static str),
}

const fn of(name: &'static str) -> Subject {
    Subject { name, kind: Kind::Case(None) }
}

const fn rung(name: &'static str, id: &'static str) -> Subject {
    Subject { name, kind: Kind::Rung(id) }
}

pub(crate) const SUBJECTS: &[Subject] = &[
    // The rungs take longest, so they start first.
    rung("attention/h2", "h2"),
    rung("attention/h4", "h4"),
    rung("attention/n3", "n3"),
    rung("attention/n4", "n4"),
    rung("attention/n5", "n5"),
    Subject { name: "attention/n6", kind: Kind::Recut("n6") },
    rung("attention/n7", "n7"),
    rung("attention/n8", "n8"),
    rung("attention/n9", "n9"),
    of("async_copy/pipeline_two_stages"),
    of("async_copy/pipeline_three_stages_one_barrier"),
    of("async_copy/pipeline_four_stages_drained"),
    of("async_copy/private_tile_per_warp"),
    of("async_copy/stage_reused_after_drain"),
    of("async_copy/tail_partly_filled"),
    of("async_copy/tail_zero_filled"),
    of("async_copy/zero_filled_tiles"),
    of("atomics/histogram_in_two_levels"),
    of("barrier/named_barrier_per_consumer"),
    of("barrier/named_ring_of_three_slots"),
    Subject {
        name: "case_file/drain_wait_of_all",
        // One block of one head.
        kind: Kind::Case(Some(
            "kernel=attention grid=1 block=128 arg=q:in:f16[256x64]=randn(seed=0) \
             arg=k:in:f16[256x64]=randn(seed=1) arg=v:in:f16[256x64]=randn(seed=2) arg=o:out:f16[64x64]",
        )),
    },
    of("flags/last_block_reduction"),
    of("flags/lock_around_block_work"),
    of("flags/look_back_scan"),
    of("flags/look_back_scan_with_fences"),
    of("flags/release_acquire"),
    of("flags/ticket_lock"),
    of("flags/volatile_flag_in_shared_memory"),
    of("global_race/grid_barrier_with_fences"),
    of("global_race/lock_acquire_release"),
    of("kernels/attention_row"),
    of("kernels/batch_norm_welford"),
    of("kernels/layer_norm"),
    of("kernels/matmul_double_buffered"),
    of("kernels/softmax_rows"),
    of("mbarrier/copies_arrive_on_barrier"),
    of("mbarrier/memcpy_async_with_barrier"),
    of("mbarrier/phases_by_state"),
    of("mbarrier/ring_of_two_slots"),
    of("memory/shared_tail_cleared"),
    of("real_cases/cutlass_1326_pipeline_drained"),
    of("real_cases/pytorch_162995_barrier_between_reductions"),
    of("shared_memory/bitonic_sort"),
    of("shared_memory/ping_pong_smoothing"),
    of("shared_memory/scan_blelloch"),
    of("shared_memory/stencil_with_halo"),
    of("shared_memory/swizzled_vector_tile"),
    of("shared_memory/transpose_swizzled"),
    of("shared_race/counter_cleared_before_barrier"),
    of("shared_race/double_buffer_one_barrier"),
    of("shared_race/last_warp_with_syncwarp"),
    of("shared_race/softmax_numerator"),
    of("shared_race/softmax_reuses_buffer"),
    of("shared_race/tiled_matmul"),
    of("tensor_core/k_tail_cleared"),
    of("tensor_core/ldmatrix_after_syncwarp"),
    of("tensor_core/rows_of_the_other_warp_after_barrier"),
    of("tensor_core/swizzle_on_store_and_load"),
    of("tensor_core/wmma_store_before_syncwarp"),
    of("warp/block_reduce_by_shuffles"),
    of("warp/syncwarp_of_quarters"),
    of("warp/volatile_reduction_with_syncwarp"),
];

/// The result of a run: its exit code, and the bytes of every array after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) arrays: Vec<Vec<u8>>,
}

/// The result of a check.
#[derive(Default)]
pub(crate) struct Checked {
    pub(crate) code: Option<i32>,
    /// Distinct classes of its findings; notes are marked.
    pub(crate) classes: Vec<String>,
}

impl Checked {
    pub(crate) fn add(&mut self, class: &str, is_note: bool) {
        let class = if is_note { format!("{class} (note)") } else { class.to_owned() };
        if !self.classes.contains(&class) {
            self.classes.push(class);
        }
    }
}

/// A kernel with everything that its runs need.
pub(crate) trait Runner {
    /// The PTX of the kernel as it is.
    fn ptx(&self) -> Result<String, String>;

    /// Names of the files in which mutants may lie: the kernel's own, then its headers.
    fn sources(&self) -> Vec<&str>;

    /// Runs a module and returns its arrays.
    fn run(&self, ptx: &str) -> Result<Ran, String>;

    /// Checks a module under this number of schedules.
    fn check(&self, ptx: &str, schedules: u32) -> Result<Checked, String>;
}

impl Subject {
    /// Whether mutations of this family are useful here. A comparison that is off by one shows only if a bound is reached exactly:
    /// the launches of the rungs are chosen so, a kernel's single launch is not, and would only produce meaningless survivors. The
    /// layout of fragments and the factors do not depend on the shape of blocks.
    pub(crate) fn takes(&self, family: Family) -> bool {
        match family {
            Family::Compare => !matches!(self.kind, Kind::Case(_)),
            Family::Fragment | Family::Factor => !matches!(self.kind, Kind::Recut(_)),
            _ => true,
        }
    }

    /// The runner of a kernel: `warpproof` with files of the directory, or the library of kernels.
    pub(crate) fn runner(
        &self,
        root: &Path,
        program: &Path,
        directory: &Path,
    ) -> Result<Box<dyn Runner>, String> {
        Ok(match self.kind {
            Kind::Case(launch) => Box::new(Case::new(self.name, launch, root, program, directory)?),
            Kind::Rung(id) | Kind::Recut(id) => Box::new(RungLaunch::new(id)?),
        })
    }
}
