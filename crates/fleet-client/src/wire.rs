//! The messages between the server, workers and submitters: JSON, with the same types on both sides.
//!
//! The OpenAPI description at `/openapi.json` is made from these types, with the feature `schema`.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
#[cfg(feature = "schema")]
use utoipa::ToSchema;
use warpproof_evidence::record::Stage;

/// The capability of a worker without a GPU, required by a candidate that is not timed.
pub const SOFTWARE_GPU: &str = "software-gpu";
/// The capability of a worker with any CUDA device.
pub const ANY_DEVICE: &str = "cuda";
/// The same for a device behind Warpproof's own driver, whose times are predicted; never used for requests of a real device.
pub const PREDICTED_DEVICE: &str = "predicted-cuda";

/// What a candidate needs that is to be timed on a device of a name: `NVIDIA L4`, `NVIDIA L4 (driver 550.54.15)`, or either
/// with what stands before it, as a worker says it.
pub fn device(name: &str) -> String {
    let kind = name.split_once(':').map_or(name, |(kind, _)| kind);
    if [ANY_DEVICE, PREDICTED_DEVICE].contains(&kind) {
        name.to_owned()
    } else {
        format!("{ANY_DEVICE}:{name}")
    }
}

/// The maximum number of candidates in a submission.
pub const MAX_CANDIDATES: usize = 100_000;
/// The maximum number of files in a bundle.
pub const MAX_FILES: usize = 4_096;
/// The maximum total size of the paths of a bundle, in bytes: every claimed job includes its bundle.
pub const MAX_PATHS: usize = 128 << 10;
/// The maximum number of jobs in a claim.
pub const MAX_CLAIM: u32 = 256;

/// An object of JSON, and no list of its values, which serde would take for one.
pub fn object<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<T, D::Error> {
    let fields = Map::<String, Value>::deserialize(from)?;
    T::deserialize(Value::Object(fields)).map_err(D::Error::custom)
}

fn objects<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Vec<T>, D::Error> {
    let all = Vec::<Map<String, Value>>::deserialize(from)?;
    all.into_iter().map(|fields| T::deserialize(Value::Object(fields)).map_err(D::Error::custom)).collect()
}

/// A role of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Submit candidates and read their results.
    Submit,
    /// Claim evaluations and send results.
    Work,
    /// Read everything.
    Read,
    /// Create tokens, import segments, delete old results.
    Admin,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 4] = [Self::Submit, Self::Work, Self::Read, Self::Admin];

    /// The name of the role.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Work => "work",
            Self::Read => "read",
            Self::Admin => "admin",
        }
    }

    /// The role with this name.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == word)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
pub struct Refusal {
    /// An error code for programs.
    pub error: String,
    /// A message for users.
    pub message: String,
    /// Missing items, by hash: objects of a submission, objects or records of a segment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// A task with the files it needs, all by content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
pub struct Bundle {
    /// The task file, one of `files`.
    pub task: String,
    /// Every file by its path below the task's directory, with the hash of its bytes.
    pub files: BTreeMap<String, String>,
    /// A secret chosen by the user, in hexadecimal: adds cases to the drawn ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^[0-9a-fA-F]{1,16}$"))]
    pub secret: Option<String>,
    /// The requested stages, in order; all of the task's if not set. A subset ends in a verdict only if one of
    /// them fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Vec<String>>))]
    pub stages: Option<Vec<Stage>>,
}

/// Candidates of a task to evaluate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// A random name chosen by the submitter, 32 hexadecimal digits: repeated submissions are idempotent.
    #[cfg_attr(feature = "schema", schema(pattern = "^[0-9a-f]{32}$"))]
    pub run: String,
    /// The task.
    #[serde(deserialize_with = "object")]
    pub bundle: Bundle,
    /// Its candidates, or variants of them, each once: 1 to 512 bytes without control characters.
    #[cfg_attr(feature = "schema", schema(min_items = 1, max_items = 100_000))]
    pub candidates: Vec<String>,
    /// The capability required to evaluate them.
    #[serde(default = "software_gpu")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 128))]
    pub capability: String,
    /// Evaluate again, ignoring cached results.
    #[serde(default)]
    pub fresh: bool,
    /// The priority: higher values are claimed first.
    #[serde(default)]
    pub priority: i16,
}

fn software_gpu() -> String {
    SOFTWARE_GPU.to_owned()
}

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Waiting.
    Queued,
    /// Leased by a worker.
    Leased,
    /// Finished with a result.
    Done,
    /// Failed.
    Failed,
    /// Canceled by the submitter.
    Cancelled,
}

impl State {
    /// The state with this name in the database.
    pub fn named(word: &str) -> Option<Self> {
        match word {
            "queued" => Some(Self::Queued),
            "leased" => Some(Self::Leased),
            "done" => Some(Self::Done),
            "failed" => Some(Self::Failed),
            "cancelled" => Some(Self::Cancelled),
            _ => None,
        }
    }

    /// Whether the state is final.
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

/// One candidate of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
pub struct JobView {
    /// The job's number.
    pub job: i64,
    /// The candidate.
    pub candidate: String,
    /// Where it is.
    pub state: State,
    /// Whether its verdict was cached.
    pub known: bool,
    /// The verdict; nothing where stages were named and none of them failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// The reason of the verdict or of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The segment of the ledger that holds its records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment: Option<String>,
    /// The record of the verdict in it, or of the run where stages were named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
}

/// A run and its current state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
pub struct RunView {
    /// Its name.
    pub run: String,
    /// The task file's path.
    pub task: String,
    /// When it was asked for.
    pub made_at: String,
    /// How many jobs are not settled.
    pub open: i64,
    /// The jobs, in the order of the submission.
    pub jobs: Vec<JobView>,
}

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
pub struct RunSummary {
    /// Its name.
    pub run: String,
    /// Its place among all runs.
    pub number: i64,
    /// The task file's path.
    pub task: String,
    /// When it was asked for.
    pub made_at: String,
    /// How many jobs it has.
    pub jobs: i64,
    /// How many are not settled.
    pub open: i64,
    /// The task's name and version, where the server could read its file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_name: Option<String>,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_version: Option<i64>,
    /// The name of the token that submitted it.
    #[serde(default)]
    pub submitter: String,
    /// The number of jobs with each verdict; `failed` for failed jobs.
    #[serde(default)]
    pub verdicts: BTreeMap<String, i64>,
}

/// A worker ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Goodbye {
    /// The worker's name.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 128))]
    pub worker: String,
}

/// A worker asks for work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The worker's name.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 128))]
    pub worker: String,
    /// Its version of Warpproof.
    pub version: String,
    /// What it can do, the scarcest first; 1 to 128 bytes each.
    #[cfg_attr(feature = "schema", schema(min_items = 1, max_items = 16))]
    pub capabilities: Vec<String>,
    /// How many jobs at most.
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 256))]
    pub limit: u32,
    /// The duration of each lease without a heartbeat, in seconds.
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 3600))]
    pub lease_seconds: u32,
}

/// A job that a worker has now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
pub struct Leased {
    /// The job's number.
    pub job: i64,
    /// The fencing token: only the holder of the newest one is accepted.
    pub token: i64,
    /// What it takes.
    pub capability: String,
    /// The candidate.
    pub candidate: String,
    /// The task.
    pub bundle: Bundle,
}

/// The response to a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
pub struct Claimed {
    /// The jobs; empty if the queue is empty.
    pub jobs: Vec<Leased>,
}

/// A job with its fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
pub struct Lease {
    /// The job's number.
    pub job: i64,
    /// Its fence.
    pub token: i64,
}

/// A heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// The worker's name.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 128))]
    pub worker: String,
    /// What it holds.
    #[serde(deserialize_with = "objects")]
    #[cfg_attr(feature = "schema", schema(max_items = 4096))]
    pub leases: Vec<Lease>,
    /// How long from now.
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 3600))]
    pub lease_seconds: u32,
}

/// The response to a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
pub struct Beaten {
    /// Jobs whose lease the worker has lost.
    pub lost: Vec<i64>,
}

/// A worker releases a job that it has not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// Its fence.
    pub token: i64,
}

/// A worker failed to evaluate a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// Its fence.
    pub token: i64,
    /// Why, in one sentence.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 4096))]
    pub reason: String,
}

/// The result of a job: a segment of the ledger, and the objects that its records name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// Its fence.
    pub token: i64,
    /// The name of the segment.
    #[cfg_attr(feature = "schema", schema(pattern = "^[0-9A-Za-z-]{1,64}$"))]
    pub segment: String,
    /// Its lines, byte for byte.
    pub text: String,
    /// Objects in base64, by hash; larger ones were uploaded before.
    #[serde(default)]
    pub objects: BTreeMap<String, String>,
}

/// A result was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
pub struct Accepted {
    /// The job's number.
    pub job: i64,
    /// The segment that holds it.
    pub segment: String,
    /// The verdict; nothing where stages were named and none of them failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// Whether the same result was accepted before.
    pub replayed: bool,
}

/// A segment in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
pub struct SegmentView {
    /// Its place among all segments.
    pub number: i64,
    /// Its name.
    pub id: String,
    /// Its size.
    pub bytes: i64,
    /// Its records.
    pub lines: i32,
    /// When it was taken in.
    pub made_at: String,
}

/// A segment was taken in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
pub struct Imported {
    /// Its name.
    pub id: String,
    /// Its records.
    pub records: usize,
    /// Whether it was not there before.
    pub new: bool,
}

/// An object was taken in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
pub struct Stored {
    /// Its name.
    pub hash: String,
    /// Its size.
    pub bytes: u64,
}

/// Objects of one request.
pub const MAX_UPLOADS: usize = 1_024;

/// Objects that are uploaded together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Uploads {
    /// Their bytes in base64, by hash.
    pub objects: BTreeMap<String, String>,
}

/// A request for a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// For whom, for people.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 128))]
    pub name: String,
    /// What it allows.
    #[cfg_attr(feature = "schema", schema(min_items = 1))]
    pub roles: Vec<Role>,
    /// How many jobs of it may be unfinished at a time.
    #[serde(default = "default_quota")]
    #[cfg_attr(feature = "schema", schema(minimum = 0, maximum = 2147483647))]
    pub quota: i32,
    /// After how many days it expires; `null` for never.
    #[serde(default = "default_days")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 3650))]
    pub days: Option<u32>,
}

/// The longest lifetime of a token, in days.
pub const MAX_TOKEN_DAYS: u32 = 3_650;
/// The lifetime of a token unless another is asked for, in days.
pub const TOKEN_DAYS: u32 = 90;

/// The default lifetime, as serde asks for it.
#[expect(clippy::unnecessary_wraps, reason = "serde takes a function of the field's type")]
fn default_days() -> Option<u32> {
    Some(TOKEN_DAYS)
}

/// As many unfinished jobs as one token has by default.
pub fn default_quota() -> i32 {
    100_000
}

/// A new token. Its text is shown only once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
pub struct MadeToken {
    /// Its number.
    pub id: i64,
    /// The token itself.
    pub token: String,
}

/// A token in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
pub struct TokenView {
    /// Its number.
    pub id: i64,
    /// For whom.
    pub name: String,
    /// What it allows.
    pub roles: Vec<Role>,
    /// How many jobs of it may be unfinished at a time.
    pub quota: i32,
    /// When it was made.
    pub made_at: String,
    /// Whether it was revoked.
    pub revoked: bool,
    /// When it expires; nothing where it never does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Whether it has expired.
    #[serde(default)]
    pub expired: bool,
}

/// A worker in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
pub struct WorkerView {
    /// Its name.
    pub worker: String,
    /// What it can do.
    pub capabilities: Vec<String>,
    /// Its version of Warpproof.
    pub version: String,
    /// The time of its last request.
    pub last_seen: String,
    /// How many jobs it has.
    pub leases: i64,
    /// How many leases it lost in the last 30 days.
    #[serde(default)]
    pub lost: i64,
    /// Whether it has signed off.
    #[serde(default)]
    pub left: bool,
}

/// The length of the queue, by capability and state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
pub struct QueueView {
    /// What it takes.
    pub capability: String,
    /// Where the jobs are.
    pub state: State,
    /// How many.
    pub jobs: i64,
}

/// A request to delete old results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// Delete results that ended more than this many days ago.
    #[cfg_attr(feature = "schema", schema(minimum = 0, maximum = 36500))]
    pub days: u32,
}

/// The deleted items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
pub struct Retained {
    /// Partitions of results and of lines.
    pub partitions: u64,
    /// Jobs.
    pub jobs: u64,
    /// Segments.
    pub segments: u64,
    /// Runs.
    pub runs: u64,
    /// Objects of the object store.
    pub objects: u64,
}
