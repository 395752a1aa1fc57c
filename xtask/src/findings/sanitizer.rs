//! What NVIDIA's documentation of compute-sanitizer states, by class of defect and for single kernels.
//!
//! From its manual and its release notes, as of version 2026.3. Nothing here was run, because that needs a GPU. Tools may find
//! more than their documentation states.

use std::collections::BTreeSet;

/// What the documentation states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// It finds it.
    Supports,
    /// It finds it with an option, or on some devices only.
    OnRequest,
    /// It does not.
    DoesNot,
    /// Manual and release notes contradict each other.
    Differ,
    /// The documentation does not mention it.
    Silent,
}

impl Verdict {
    pub(super) fn words(self) -> &'static str {
        match self {
            Verdict::Supports => "documents support",
            Verdict::OnRequest => "documents support, with limits",
            Verdict::DoesNot => "documents that it does not",
            Verdict::Differ => "its documents differ",
            Verdict::Silent => "not documented",
        }
    }
}

/// What is documented for a defect.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Documented {
    pub(super) verdict: Verdict,
    /// The tool that comes closest.
    pub(super) tool: &'static str,
    /// Names of [`NOTES`].
    pub(super) notes: &'static [&'static str],
}

const fn states(verdict: Verdict, tool: &'static str, notes: &'static [&'static str]) -> Documented {
    Documented { verdict, tool, notes }
}

/// Sources: a name, and a place of the documentation with a summary of its content.
pub(super) const NOTES: &[(&str, &str)] = &[
    (
        "race",
        "Manual, “Racecheck Tool”: reports write-after-write, write-after-read and read-after-write hazards between threads of a block in shared memory, byte by byte.",
    ),
    ("shared-only", "Manual, “What is Racecheck?”: it detects accesses to on-chip shared memory only."),
    (
        "warp",
        "Manual, “Racecheck Severity Levels”: hazards of code that assumes that the lanes of a warp run synchronously are warnings; a note states that they must be fixed on GPUs since Volta.",
    ),
    (
        "async",
        "Manual, “Racecheck support for asynchronous copy”: for copies from global to shared memory by `cuda::memcpy_async` or `cp.async` it detects a target that is accessed before the commit and wait that its completion needs.",
    ),
    (
        "barrier-object",
        "Manual, “Racecheck support for cuda::barrier” and “Synccheck support for cuda::barrier”: synchronization by `cuda::barrier` is tracked on Ampere and newer.",
    ),
    (
        "barrier-init",
        "Release notes of 2024.1: detection of races with the initialization of a `cuda::barrier`, in racecheck, on Hopper. Other architectures are not mentioned.",
    ),
    (
        "deadlock",
        "Manual, “Racecheck Deadlock Detection”: off unless `--racecheck-deadlock-timeout` is given, and supported for `cuda::barrier`. Release notes of 2025.3 add further types without naming them.",
    ),
    (
        "access",
        "Manual, “Memcheck Tool”: out-of-bounds and misaligned accesses to global, local and shared memory, with thread, line and address.",
    ),
    (
        "adjoining",
        "Manual, “Padding” and “Compile-time patching”: an access from one allocation into the next is detected with `--padding` or when the program is compiled with `-fdevice-sanitize=memcheck`.",
    ),
    (
        "heap",
        "Manual, “Device Side Allocation Checking”: accesses to the device heap, double and invalid `free()`.",
    ),
    (
        "neighbor",
        "Manual, “Base-and-bounds analysis”: with compile-time patching a shared variable is the allocation whose bounds are checked. Release notes, “Known Limitations”: with compile-time patching, overflows between shared variables of one allocation are not detected. Neither mentions the default instrumentation.",
    ),
    (
        "spaces",
        "Manual, “Memcheck Tool”: the spaces it names are global, local and shared. Constant and parameter memory, and arrays within a thread's local memory, are not mentioned.",
    ),
    ("ldmatrix", "Release notes of 2022.4: support for `ldmatrix` and `stmatrix`."),
    (
        "init",
        "Manual, “Initcheck Tool”: device global memory that is read without having been written by the device or by `cudaMemcpy` and `cudaMemset`.",
    ),
    (
        "init-shared",
        "Manual, “Initcheck Address Space Selection”: global memory by default; shared memory with `--initcheck-address-space shared` or `all`, since 2025.4.",
    ),
    (
        "init-spaces",
        "Manual, “Initcheck Address Space Selection”: the address spaces are global and shared. Local memory and registers are not mentioned.",
    ),
    (
        "unused",
        "Manual, “Unused memory detection”: bytes of an allocation that were never written, with `--track-unused-memory`.",
    ),
    (
        "divergent",
        "Manual, “Understanding Synccheck Reports”: divergent threads in a block or in a warp at a barrier that does not support it, such as `__syncthreads()` in a branch that not all threads take.",
    ),
    (
        "arguments",
        "Manual, “Understanding Synccheck Reports”: a barrier used with invalid arguments, such as a thread that comes to a `__syncwarp()` whose mask does not name it.",
    ),
    (
        "missing-lane",
        "Manual, “Understanding Synccheck Reports”: threads that the mask of a `__syncwarp()` names and that never reach it are not detected.",
    ),
    (
        "sync-scope",
        "Manual, “What is Synccheck?”: it names `__syncthreads()`, `__syncwarp()` and their counterparts in cooperative groups. Shuffles, votes, `mma` and `wmma` are not mentioned.",
    ),
    ("not-there", "Neither the manual nor the release notes mention it."),
    ("exception", "Manual, “Supported Error Detection”: hardware exceptions, reported without precision."),
];

const RACE: Documented = states(Verdict::Supports, "racecheck", &["race"]);
const WARP: Documented = states(Verdict::Supports, "racecheck, as a warning", &["warp"]);
const MBARRIER: Documented = states(Verdict::Supports, "racecheck", &["race", "barrier-object"]);
const GLOBAL: Documented = states(Verdict::DoesNot, "racecheck", &["shared-only"]);
const ASYNC: Documented = states(Verdict::Supports, "racecheck", &["async"]);
const BARRIER_INIT: Documented = states(Verdict::OnRequest, "racecheck, on Hopper", &["barrier-init"]);
const DEADLOCK: Documented = states(Verdict::OnRequest, "racecheck", &["deadlock"]);
const DEADLOCK_OTHER: Documented = states(Verdict::Silent, "racecheck", &["deadlock"]);
const ACCESS: Documented = states(Verdict::Supports, "memcheck", &["access"]);
const ADJOINING: Documented = states(Verdict::Supports, "memcheck", &["access", "adjoining"]);
const HEAP: Documented = states(Verdict::Supports, "memcheck", &["heap"]);
const NEIGHBOR: Documented = states(Verdict::Differ, "memcheck", &["neighbor"]);
const OTHER_SPACE: Documented = states(Verdict::Silent, "memcheck", &["spaces"]);
const LDMATRIX: Documented = states(Verdict::Supports, "memcheck", &["access", "ldmatrix"]);
const INIT: Documented = states(Verdict::Supports, "initcheck", &["init"]);
const INIT_SHARED: Documented = states(Verdict::OnRequest, "initcheck", &["init-shared"]);
const INIT_OTHER: Documented = states(Verdict::Silent, "initcheck", &["init-spaces"]);
const UNUSED: Documented = states(Verdict::OnRequest, "initcheck", &["unused"]);
const DIVERGENT: Documented = states(Verdict::Supports, "synccheck", &["divergent"]);
const ARGUMENTS: Documented = states(Verdict::Supports, "synccheck", &["arguments"]);
const EXCHANGE: Documented = states(Verdict::Silent, "synccheck", &["sync-scope", "missing-lane"]);
const NAMED_BARRIER: Documented = states(Verdict::Silent, "synccheck", &["sync-scope"]);
const NOTHING: Documented = states(Verdict::Silent, "none", &["not-there"]);
const EXCEPTION: Documented = states(Verdict::Supports, "memcheck", &["exception"]);

/// Defects for which the documentation states more, or less, than for their class.
pub(super) const CASES: &[(&str, &Documented)] = &[
    ("shared_race/last_warp_without_syncwarp", &WARP),
    ("shared_race/missing_syncwarp", &WARP),
    ("shared_race/shuffle_taken_for_fence", &WARP),
    ("shared_race/syncwarp_of_half_warps", &WARP),
    ("tensor_core/ldmatrix_without_syncwarp", &WARP),
    ("tensor_core/wmma_store_without_syncwarp", &WARP),
    ("async_copy/source_overwritten_in_flight", &GLOBAL),
    ("mbarrier/waits_for_other_parity", &MBARRIER),
    ("mbarrier/count_larger_than_arrivals", &DEADLOCK),
    ("barrier/trip_counts_differ", &DIVERGENT),
    ("barrier/syncthreads_in_one_warp", &DIVERGENT),
    ("barrier/barrier_number_16", &ARGUMENTS),
    ("barrier/count_not_of_whole_warps", &ARGUMENTS),
    ("barrier/counts_disagree", &NAMED_BARRIER),
    ("lanes/syncwarp_mask_without_caller", &ARGUMENTS),
    ("memory/constant_table_overrun", &OTHER_SPACE),
    ("memory/parameter_overrun", &OTHER_SPACE),
    ("memory/parameter_struct_overrun", &OTHER_SPACE),
    ("memory/local_array_overrun", &OTHER_SPACE),
    ("memory/shared_array_into_its_neighbor", &NEIGHBOR),
    ("memory/read_before_the_start", &ADJOINING),
    ("memory/read_past_the_end", &ADJOINING),
    ("memory/freed_twice", &HEAP),
    ("memory/use_after_free", &HEAP),
    ("memory/scratch_partly_written", &INIT),
    ("memory/local_array_partly_set", &INIT_OTHER),
    ("memory/register_in_address", &INIT_OTHER),
    ("memory/register_in_branch", &INIT_OTHER),
    ("memory/register_in_output", &INIT_OTHER),
    ("real_cases/llama_cpp_13438_statistics_overwritten", &WARP),
    ("tensor_core/ldmatrix_past_the_tile", &LDMATRIX),
    ("tensor_core/ldmatrix_row_misaligned", &LDMATRIX),
];

/// What the documentation states for a class as a whole.
fn of_class(class: &str) -> Option<&'static Documented> {
    Some(match class {
        "shared-race" => &RACE,
        "global-race" => &GLOBAL,
        "async-copy" => &ASYNC,
        "mbarrier" => &BARRIER_INIT,
        "bounds" | "alignment" => &ACCESS,
        "uninitialized" => &INIT_SHARED,
        "lanes" => &EXCHANGE,
        "barrier" => &DIVERGENT,
        "deadlock" => &DEADLOCK_OTHER,
        "unwritten" => &UNUSED,
        "provenance" | "modified-input" | "order" | "machine-dependent" | "async-multiply" | "proxy"
        | "tensor-map" | "tensor-memory" => &NOTHING,
        "trap" => &EXCEPTION,
        _ => return None,
    })
}

/// What the documentation states for a kernel, by its name below `tests/fail`, or otherwise by the first class of its defect.
pub(super) fn documented(name: &str, classes: &BTreeSet<String>) -> Option<&'static Documented> {
    let case = CASES.iter().find(|(known, _)| *known == name).map(|(_, documented)| *documented);
    case.or_else(|| classes.iter().find_map(|class| of_class(class)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpproof_check::Class;

    #[test]
    fn every_class_has_an_entry() {
        for class in Class::ALL {
            assert!(of_class(class.name()).is_some(), "{}", class.name());
        }
    }

    #[test]
    fn every_note_that_is_named_is_there() {
        let classes = Class::ALL.into_iter().filter_map(|class| of_class(class.name()));
        for documented in classes.chain(CASES.iter().map(|(_, documented)| *documented)) {
            for note in documented.notes {
                assert!(NOTES.iter().any(|(name, _)| name == note), "{note}");
            }
        }
    }

    #[test]
    fn a_case_goes_before_its_class() {
        let bounds = ["bounds".to_owned()].into();
        assert_eq!(documented("memory/freed_twice", &bounds), Some(&HEAP));
        assert_eq!(documented("memory/null_pointer", &bounds), Some(&ACCESS));
        assert_eq!(documented("memory/x", &["no-class".to_owned()].into()), None);
    }
}
