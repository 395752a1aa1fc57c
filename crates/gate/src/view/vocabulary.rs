//! The names by which views find things in records. A stage that writes other names is shown in full reports, and is not
//! understood by the others.

/// A figure of the stages speed (measured) and model (predicted, by the schedule of the machine code): the latency of one
/// launch, with the shape as its case.
pub const LATENCY: &str = "latency";
/// A figure of the stage model: the time of the resource that binds, with a warm cache. No launch is faster.
pub const LATENCY_BOUND: &str = "latency bound";
/// The same with a cold cache.
pub const COLD_LATENCY_BOUND: &str = "latency bound, cold";
/// A figure of the stage speed: the latency of the baseline in the same blocks, with the shape as its case.
pub const BASELINE_LATENCY: &str = "baseline latency";
/// A figure of the stage speed, a fraction without unit: (baseline − candidate) / baseline. Its threshold is the task's.
pub const REDUCTION: &str = "latency reduction";
/// The lower end of the interval of [`REDUCTION`].
pub const REDUCTION_LOW: &str = "latency reduction, low";
/// The upper end of the interval of [`REDUCTION`].
pub const REDUCTION_HIGH: &str = "latency reduction, high";
/// A figure of the stage model: the time below which the device cannot do this work.
pub const FLOOR: &str = "roofline floor";
/// A figure of the stage external: the latency of a named peer; its case is the peer's name.
pub const PEER_LATENCY: &str = "peer latency";

/// A figure of the stage correct, in percent: lines of the candidate that its cases executed. Its case names the others.
pub const LINE_COVERAGE: &str = "line coverage";
/// A figure of the stage correct, in percent: outcomes of conditions that its cases had. Its case names the lines of the others.
pub const BRANCH_COVERAGE: &str = "branch coverage";
/// A figure of the stage correct: outcomes of conditions that no case had.
pub const UNREACHED: &str = "branch outcomes not reached";

/// What a run of `warpproof ladder` is of, before the shape.
pub const LADDER_TASK: &str = "attention ladder";
/// The step of such a run that holds what no kernel beats: figures of the name [`FLOOR`] with the resource as their case, and
/// [`LAUNCH`].
pub const PROBLEM: &str = "the problem";
/// The reason of its steps for kernels of Triton's.
pub const TRITON: &str = "by Triton";
/// A figure of its steps: the time by the schedule of the machine code, without launching; its case is [`WARM`] or [`COLD`].
pub const SCHEDULE: &str = "schedule";
/// A figure of its problem: what a launch of nothing costs.
pub const LAUNCH: &str = "launch";
/// A case: the second-level cache holds all it can.
pub const WARM: &str = "warm L2";
/// A case: the second-level cache holds nothing of it.
pub const COLD: &str = "cold L2";

/// An object of the stage build: the program as PTX. Equal objects are equal programs.
pub const PTX: &str = "ptx";

/// A fact of a run: the device on which was measured.
pub const DEVICE: &str = "device";
/// A fact of a run: the driver of Warpproof's own whose event times the stage speed took; they are predictions.
pub const EVENT_CLOCK: &str = "event clock";
/// A fact of a run: the device for which was predicted.
pub const MODEL_DEVICE: &str = "model device";

/// A note about a candidate: what is expected, and why.
pub const HYPOTHESIS: &str = "hypothesis";
/// A note about a candidate: the gain that is expected.
pub const EXPECTED_GAIN: &str = "expected gain";
/// A note about a candidate: what is different from its parent.
pub const CHANGE: &str = "change";
/// A note about a candidate: what it took.
pub const COST: &str = "cost";
/// A note about a candidate: what may be the cause of a result.
pub const SUSPECT: &str = "suspect";
/// A note about a candidate: what was shown not to be the cause.
pub const RULED_OUT: &str = "ruled out";
/// A note about a candidate whose text is the name of the candidate it was made from.
pub const PARENT: &str = "parent";
