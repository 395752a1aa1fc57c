//! The kernels of the study: correct ones of the UI suite, with their committed PTX and their own launch.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// A kernel of `tests/pass`, and a smaller launch where its own takes long.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    launch: Option<&'static str>,
}

const fn of(name: &'static str) -> Subject {
    Subject { name, launch: None }
}

pub(crate) const SUBJECTS: &[Subject] = &[
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
        launch: Some(
            "kernel=attention grid=1 block=128 arg=q:in:f16[256x64]=randn(seed=0) \
             arg=k:in:f16[256x64]=randn(seed=1) arg=v:in:f16[256x64]=randn(seed=2) arg=o:out:f16[64x64]",
        ),
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

/// Warp instructions after which a mutant is taken to hang: far more than any of these kernels needs.
const LIMIT: &str = "3000000";

/// A kernel with all that its runs need.
pub(crate) struct Runner {
    program: PathBuf,
    root: PathBuf,
    /// The CUDA file, from the root.
    pub(crate) file: String,
    /// Flags that describe the launch.
    launch: Vec<String>,
    arrays: Vec<String>,
}

/// What a run left: its exit code, and the bytes of every array after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    arrays: Vec<Vec<u8>>,
}

/// What a check said.
pub(crate) struct Checked {
    pub(crate) code: Option<i32>,
    /// Classes of its findings, without double ones; notes are marked.
    pub(crate) classes: Vec<String>,
}

impl Runner {
    pub(crate) fn new(subject: &Subject, root: &Path, program: &Path) -> Result<Self, String> {
        let file = format!("tests/pass/{}.cu", subject.name);
        let text =
            fs::read_to_string(root.join(&file)).map_err(|error| format!("cannot read {file}: {error}"))?;
        let line = subject.launch.or_else(|| text.lines().find_map(|line| line.strip_prefix("//@launch:")));
        let words = line.ok_or_else(|| format!("{file} has no launch line"))?.split_whitespace();
        let mut launch = Vec::new();
        let mut arrays = Vec::new();
        for word in words {
            let (flag, value) = word.split_once('=').ok_or_else(|| format!("{file}: what is `{word}`?"))?;
            launch.extend([format!("--{flag}"), value.to_owned()]);
            let declaration = value.split('=').next().unwrap_or_default();
            if let (true, Some((name, _))) =
                (flag == "arg" && declaration.contains('['), value.split_once(':'))
            {
                arrays.push(name.to_owned());
            }
        }
        Ok(Self { program: program.to_owned(), root: root.to_owned(), file, launch, arrays })
    }

    /// The committed PTX.
    pub(crate) fn ptx(&self) -> Result<String, String> {
        let path = Path::new(&self.file).with_extension("ptx");
        fs::read_to_string(self.root.join(&path))
            .map_err(|error| format!("cannot read {}: {error}", path.display()))
    }

    fn call(&self, command: &str, ptx: &Path, more: &[String]) -> Result<Output, String> {
        Command::new(&self.program)
            .current_dir(&self.root)
            .args([command, &self.file, "--threads", "1", "--max-instructions", LIMIT, "--ptx"])
            .arg(ptx)
            .args(&self.launch)
            .args(more)
            .output()
            .map_err(|error| format!("cannot run {}: {error}", self.program.display()))
    }

    /// Runs a module, and takes the arrays that it leaves.
    pub(crate) fn run(&self, ptx: &Path, directory: &Path) -> Result<Ran, String> {
        let path = |name: &str| directory.join(format!("{name}.npy"));
        let mut flags = Vec::new();
        for name in &self.arrays {
            // What an earlier mutant left must not stand for what this one did not write.
            let _ = fs::remove_file(path(name));
            flags.extend(["--out".to_owned(), format!("{name}={}", path(name).display())]);
        }
        let output = self.call("run", ptx, &flags)?;
        let arrays = self.arrays.iter().map(|name| fs::read(path(name)).unwrap_or_default()).collect();
        Ok(Ran { code: output.status.code(), arrays })
    }

    /// Checks a module under so many schedules.
    pub(crate) fn check(&self, ptx: &Path, schedules: u32) -> Result<Checked, String> {
        let flags = ["--format", "json", "--schedules", &schedules.to_string()].map(str::to_owned);
        let output = self.call("check", ptx, &flags)?;
        let document: serde_json::Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("{}: no JSON from check: {error}", self.file))?;
        let mut classes: Vec<String> = Vec::new();
        for finding in document["findings"].as_array().into_iter().flatten() {
            let class = finding["class"].as_str().unwrap_or("?");
            let class =
                if finding["severity"] == "note" { format!("{class} (note)") } else { class.to_owned() };
            if !classes.contains(&class) {
                classes.push(class);
            }
        }
        Ok(Checked { code: output.status.code(), classes })
    }
}
