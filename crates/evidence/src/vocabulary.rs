//! The names by which views find entries in records. A stage that writes other names appears in full reports, but
//! other views do not understand it.

/// A figure of the stages speed (measured) and model (predicted, by the schedule of the machine code): the latency of one
/// launch, with the shape as its case.
pub const LATENCY: &str = "latency";
/// A figure of the stage model: the time of the binding resource, with a warm cache. No launch is faster.
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

/// A figure of the stage correct, in percent: lines of the candidate that its cases executed. Its case names the
/// lines that were not.
pub const LINE_COVERAGE: &str = "line coverage";
/// A figure of the stage correct, in percent: outcomes of conditions that its cases reached. Its case names the lines
/// of the others.
pub const BRANCH_COVERAGE: &str = "branch coverage";
/// A figure of the stage correct: outcomes of conditions that no case reached.
pub const UNREACHED: &str = "branch outcomes not reached";

/// Prefix of the task name of a run of `warpproof attention ladder`, before the shape.
pub const LADDER_TASK: &str = "attention ladder";
/// The step of such a run that holds the lower bounds of the problem: figures named [`FLOOR`] with the resource as
/// their case, and [`LAUNCH`].
pub const PROBLEM: &str = "the problem";
/// The reason of its steps for Triton's kernels.
pub const TRITON: &str = "by Triton";
/// A figure of its steps: the time by the schedule of the machine code, without launching; its case is [`WARM`] or [`COLD`].
pub const SCHEDULE: &str = "schedule";
/// A figure of its problem: the cost of an empty launch.
pub const LAUNCH: &str = "launch";
/// A case: the L2 cache holds as much of the data as it can.
pub const WARM: &str = "warm L2";
/// A case: the L2 cache holds none of the data.
pub const COLD: &str = "cold L2";

/// An object of the stage build: the program as PTX. Equal objects are equal programs.
pub const PTX: &str = "ptx";

/// A fact of a run: the device of the measurement.
pub const DEVICE: &str = "device";
/// A fact of a run: Warpproof's own driver, whose event times the stage speed used; they are predictions.
pub const EVENT_CLOCK: &str = "event clock";
/// A fact of a run: the device of the prediction.
pub const MODEL_DEVICE: &str = "model device";

/// A note about a candidate: the expectation, and its reason.
pub const HYPOTHESIS: &str = "hypothesis";
/// A note about a candidate: the expected gain.
pub const EXPECTED_GAIN: &str = "expected gain";
/// A note about a candidate: the difference from its parent.
pub const CHANGE: &str = "change";
/// A note about a candidate: its cost.
pub const COST: &str = "cost";
/// A note about a candidate: the possible cause of a result.
pub const SUSPECT: &str = "suspect";
/// A note about a candidate: a cause that was ruled out.
pub const RULED_OUT: &str = "ruled out";
/// A note about a candidate: the name of its parent.
pub const PARENT: &str = "parent";
/// A note about a candidate: a latency that someone else measured, as a reported figure named [`LATENCY`].
pub const MEASURED: &str = "measured";
/// A note about a suspect: the test that would confirm it or rule it out.
pub const TEST: &str = "test";
/// A note about a candidate: a suspect that was confirmed.
pub const CONFIRMED: &str = "confirmed";
/// A note: what was learned.
pub const LESSON: &str = "lesson";
/// A note: a possible next stage, with [`TARGET`], [`EFFORT`], [`RISK`] and [`RATIONALE`].
pub const OPTION: &str = "option";

/// A field of an option: its goal.
pub const TARGET: &str = "target";
/// A field of an option: the expected work.
pub const EFFORT: &str = "effort";
/// A field of an option: the chance that it fails, or what may fail.
pub const RISK: &str = "risk";
/// A field of an option: the reason to try it.
pub const RATIONALE: &str = "rationale";
/// A field of a note: the task it belongs to.
pub const TASK: &str = "task";
/// A field of a reported figure: the name of the file that states it. The object of the same name is the file.
pub const SOURCE: &str = "source";

/// A figure of the stage correct: sets of inputs that the candidate was run on.
pub const CASES: &str = "cases";
/// A figure of the stage correct: sets of inputs for which its outputs agreed with the reference.
pub const CASES_PASSED: &str = "cases passed";
/// Prefix of a figure of the stage model: the minimum time by one resource, whose name follows, with a warm cache.
pub const BOUND_OF: &str = "bound by ";
