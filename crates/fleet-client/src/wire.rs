//! The messages between the server, workers and submitters: JSON, with the same types on both sides.
//!
//! The OpenAPI description at `/openapi.json` is generated from these types, with the feature `schema`.

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
/// The capability of a worker whose device is Warpproof's own driver, with predicted times; never used for requests of a real
/// device.
pub const PREDICTED_DEVICE: &str = "predicted-cuda";

/// The capability for timing on a device with this name: `NVIDIA L4`, `NVIDIA L4 (driver 550.54.15)`, or either with the prefix
/// that workers report.
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

/// Deserializes a JSON object; rejects an array of its values, which serde would accept.
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
    /// Every file by its path in the task's directory, with the hash of its bytes.
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
    /// Its state.
    pub state: State,
    /// Whether its verdict was cached.
    pub known: bool,
    /// The verdict; `null` if stages were requested and none of them failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// The reason of the verdict or of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The segment of the ledger that contains its records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment: Option<String>,
    /// The record of the verdict in it, or of the run if stages were requested.
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
    /// When it was submitted.
    pub made_at: String,
    /// Number of unfinished jobs.
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
    /// Its sequence number.
    pub number: i64,
    /// The task file's path.
    pub task: String,
    /// When it was submitted.
    pub made_at: String,
    /// Number of jobs.
    pub jobs: i64,
    /// Number of unfinished jobs.
    pub open: i64,
    /// The task's name, if the server could parse its file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_name: Option<String>,
    /// The task's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_version: Option<i64>,
    /// The name of the token that submitted it.
    #[serde(default)]
    pub submitter: String,
    /// The number of jobs with each verdict; `failed` for failed jobs.
    #[serde(default)]
    pub verdicts: BTreeMap<String, i64>,
}

/// A worker signs off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Goodbye {
    /// The worker's name.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 128))]
    pub worker: String,
}

/// A worker requests jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The worker's name.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 128))]
    pub worker: String,
    /// Its version of Warpproof.
    pub version: String,
    /// Its capabilities, the scarcest first; 1 to 128 bytes each.
    #[cfg_attr(feature = "schema", schema(min_items = 1, max_items = 16))]
    pub capabilities: Vec<String>,
    /// Maximum number of jobs.
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 256))]
    pub limit: u32,
    /// The duration of each lease without a heartbeat, in seconds.
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 3600))]
    pub lease_seconds: u32,
}

/// A job leased to a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
pub struct Leased {
    /// The job's number.
    pub job: i64,
    /// The fencing token: only the holder of the newest one is accepted.
    pub token: i64,
    /// The required capability.
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

/// A job with its fencing token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
pub struct Lease {
    /// The job's number.
    pub job: i64,
    /// Its fencing token.
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
    /// The jobs it holds.
    #[serde(deserialize_with = "objects")]
    #[cfg_attr(feature = "schema", schema(max_items = 4096))]
    pub leases: Vec<Lease>,
    /// The new duration of the leases, in seconds.
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
    /// Its fencing token.
    pub token: i64,
}

/// A worker failed to evaluate a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// Its fencing token.
    pub token: i64,
    /// The reason, in one sentence.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 4096))]
    pub reason: String,
}

/// The result of a job: a segment of the ledger, and the objects that its records refer to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// Its fencing token.
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
    /// The segment that contains the result.
    pub segment: String,
    /// The verdict; `null` if stages were requested and none of them failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// Whether the same result was accepted before.
    pub replayed: bool,
}

/// A segment in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
pub struct SegmentView {
    /// Its sequence number.
    pub number: i64,
    /// Its name.
    pub id: String,
    /// Its size in bytes.
    pub bytes: i64,
    /// Number of records.
    pub lines: i32,
    /// When it was imported.
    pub made_at: String,
}

/// The result of importing a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
pub struct Imported {
    /// Its name.
    pub id: String,
    /// Number of records.
    pub records: usize,
    /// Whether it is new to the server.
    pub new: bool,
}

/// The result of uploading an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ToSchema))]
pub struct Stored {
    /// Its hash.
    pub hash: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Maximum number of objects in one upload.
pub const MAX_UPLOADS: usize = 1_024;

/// A batch of uploaded objects.
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
    /// A label that identifies the owner.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 128))]
    pub name: String,
    /// The roles it grants.
    #[cfg_attr(feature = "schema", schema(min_items = 1))]
    pub roles: Vec<Role>,
    /// Maximum number of its unfinished jobs.
    #[serde(default = "default_quota")]
    #[cfg_attr(feature = "schema", schema(minimum = 0, maximum = 2147483647))]
    pub quota: i32,
    /// After how many days it expires; `null` for never.
    #[serde(default = "default_days")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 3650))]
    pub days: Option<u32>,
}

/// The maximum lifetime of a token, in days.
pub const MAX_TOKEN_DAYS: u32 = 3_650;
/// The default lifetime of a token, in days.
pub const TOKEN_DAYS: u32 = 90;

/// The default lifetime, in the form that serde requires.
#[expect(clippy::unnecessary_wraps, reason = "serde requires a function of the field's type")]
fn default_days() -> Option<u32> {
    Some(TOKEN_DAYS)
}

/// The default maximum of unfinished jobs of a token.
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
    /// The label of its owner.
    pub name: String,
    /// The roles it grants.
    pub roles: Vec<Role>,
    /// Maximum number of its unfinished jobs.
    pub quota: i32,
    /// When it was created.
    pub made_at: String,
    /// Whether it was revoked.
    pub revoked: bool,
    /// When it expires; `null` if it never does.
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
    /// Its capabilities.
    pub capabilities: Vec<String>,
    /// Its version of Warpproof.
    pub version: String,
    /// The time of its last request.
    pub last_seen: String,
    /// Number of jobs it holds.
    pub leases: i64,
    /// Number of leases it lost in the last 30 days.
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
    /// The required capability.
    pub capability: String,
    /// The state of the jobs.
    pub state: State,
    /// Number of jobs.
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
    /// Deleted partitions of results and of ledger lines.
    pub partitions: u64,
    /// Deleted jobs.
    pub jobs: u64,
    /// Deleted segments.
    pub segments: u64,
    /// Deleted runs.
    pub runs: u64,
    /// Deleted objects of the object store.
    pub objects: u64,
}
