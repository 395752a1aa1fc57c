//! The client of the protocol: blocking, without an async runtime. Transient errors are retried.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use rustls::{CertificateError, Error as TlsError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};
use ureq::{Agent, Body};
use warpproof_evidence::hash::Hash;

use crate::wire::{
    Accepted, Beaten, Claim, Claimed, Failure, Goodbye, Heartbeat, Imported, MAX_UPLOADS, MadeToken,
    NewToken, Outcome, QueueView, Refusal, Release, Retained, Retention, RunSummary, RunView, SegmentView,
    Stored, Submission, TokenView, Uploads, WorkerView,
};

/// The maximum size of a response, in bytes.
const MAX_ANSWER: u64 = 1 << 30;
/// Objects above this size are sent alone; smaller ones are batched up to this size.
const ALONE: usize = 256 << 10;
const TOGETHER: usize = 4 << 20;
/// Bodies above this size are compressed.
const PACKED: usize = 1 << 10;

/// A connection to a fleet.
#[derive(Clone)]
pub struct Fleet {
    agent: Agent,
    /// For requests that are repeated soon, with a short timeout.
    brisk: Agent,
    base: String,
    token: String,
    patience: Duration,
    stop: Option<Arc<AtomicBool>>,
}

impl fmt::Debug for Fleet {
    /// Omits the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").field("base", &self.base).finish_non_exhaustive()
    }
}

/// Why a request failed.
#[derive(Clone, Debug)]
pub enum FleetError {
    /// The server rejected the request.
    Refused(u16, Refusal),
    /// The server did not respond.
    Unreachable(String),
    /// The server's certificate is missing or not trusted.
    Untrusted(String),
    /// The response does not follow the protocol.
    Odd(String),
    /// A problem with a file or a setting of this machine.
    Local(String),
}

impl FleetError {
    /// Whether the error may be transient.
    pub fn passes(&self) -> bool {
        match self {
            Self::Refused(status, refusal) => {
                (*status == 429 && refusal.error != "quota") || matches!(status, 408 | 500 | 502 | 503 | 504)
            }
            Self::Unreachable(_) => true,
            Self::Untrusted(_) | Self::Odd(_) | Self::Local(_) => false,
        }
    }

    /// The error code of a refusal.
    pub fn word(&self) -> Option<&str> {
        match self {
            Self::Refused(_, refusal) => Some(&refusal.error),
            _ => None,
        }
    }
}

impl fmt::Display for FleetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(status, refusal) => {
                write!(f, "the fleet refused ({status}): {}", refusal.message.escape_debug())
            }
            Self::Unreachable(why) => write!(f, "the fleet cannot be reached: {why}"),
            Self::Untrusted(why) => write!(f, "the fleet cannot be trusted: {why}"),
            Self::Odd(why) => write!(f, "unexpected response from the fleet: {why}"),
            Self::Local(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for FleetError {}

type Answer = ureq::http::Response<Body>;

impl Fleet {
    /// A fleet at `http://…` or `https://…`. Certificates are verified with the system's authorities, or with those of a file.
    pub fn new(base: &str, token: &str, authorities: Option<&Path>) -> Result<Self, FleetError> {
        let base = base.trim_end_matches('/');
        if !base.starts_with("https://") && !base.starts_with("http://") {
            return Err(FleetError::Local(format!(
                "expected http://HOST:PORT or https://HOST, found `{base}`"
            )));
        }
        let roots = match authorities {
            None => RootCerts::PlatformVerifier,
            Some(path) => {
                let wrong =
                    |error: &dyn fmt::Display| FleetError::Local(format!("{}: {error}", path.display()));
                let pem = std::fs::read(path).map_err(|error| wrong(&error))?;
                let mut certificates: Vec<Certificate<'static>> = Vec::new();
                for item in parse_pem(&pem) {
                    if let PemItem::Certificate(certificate) = item.map_err(|error| wrong(&error))? {
                        certificates.push(certificate);
                    }
                }
                if certificates.is_empty() {
                    return Err(wrong(&"no certificate found in this file"));
                }
                RootCerts::new_with_certs(&certificates)
            }
        };
        let agent = |seconds: u64| {
            let connect = Duration::from_secs(seconds.min(10));
            agent(roots.clone(), connect, Duration::from_secs(seconds))
        };
        let (agent, brisk) = (agent(150), agent(5));
        let patience = Duration::from_mins(1);
        Ok(Self { agent, brisk, base: base.to_owned(), token: token.to_owned(), patience, stop: None })
    }

    /// How long transient errors are retried.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Disables retries once the flag is set.
    #[must_use]
    pub fn with_stop(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Its address.
    pub fn base(&self) -> &str {
        &self.base
    }

    fn stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    fn patiently<T>(&self, mut ask: impl FnMut() -> Result<T, FleetError>) -> Result<T, FleetError> {
        let end = Instant::now() + self.patience;
        let mut pause = Duration::from_millis(50);
        loop {
            match ask() {
                Err(error) if error.passes() && Instant::now() + pause < end && !self.stopped() => {
                    thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_secs(2));
                }
                answered => return answered,
            }
        }
    }

    fn send(&self, method: &str, path: &str, body: Option<&[u8]>) -> Result<Vec<u8>, FleetError> {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header("authorization", format!("Bearer {}", self.token));
        let wrong = |error: ureq::http::Error| FleetError::Local(error.to_string());
        let mut answer: Answer = match body {
            None => self.agent.run(request.body(()).map_err(wrong)?).map_err(unreachable)?,
            Some(bytes) if bytes.len() > PACKED => {
                let request = request.header("content-encoding", "gzip");
                let bytes = pack(bytes)?;
                self.agent.run(request.body(&bytes[..]).map_err(wrong)?).map_err(unreachable)?
            }
            Some(bytes) => self.agent.run(request.body(bytes).map_err(wrong)?).map_err(unreachable)?,
        };
        let status = answer.status().as_u16();
        let bytes = answer.body_mut().with_config().limit(MAX_ANSWER).read_to_vec().map_err(unreachable)?;
        if answer.status().is_success() {
            return Ok(bytes);
        }
        let refusal = serde_json::from_slice(&bytes).unwrap_or_else(|_| Refusal {
            error: "status".to_owned(),
            message: format!("status {status}"),
            missing: Vec::new(),
        });
        Err(FleetError::Refused(status, refusal))
    }

    fn ask<A: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<A, FleetError> {
        let odd = |error: serde_json::Error| FleetError::Odd(error.to_string());
        let body = body.map(serde_json::to_vec).transpose().map_err(odd)?;
        let bytes = self.patiently(|| self.send(method, path, body.as_deref()))?;
        serde_json::from_slice(if bytes.is_empty() { b"null" } else { &bytes }).map_err(odd)
    }

    fn get<A: DeserializeOwned>(&self, path: &str) -> Result<A, FleetError> {
        self.ask("GET", path, None::<&()>)
    }

    /// Submits candidates.
    pub fn submit(&self, submission: &Submission) -> Result<RunView, FleetError> {
        self.ask("POST", "/v1/runs", Some(submission))
    }

    /// The state of a run; waits up to `wait` seconds for its last job.
    pub fn run(&self, run: &str, wait: u64) -> Result<RunView, FleetError> {
        self.get(&format!("/v1/runs/{run}?wait={wait}"))
    }

    /// Runs, newest first.
    pub fn runs(&self, limit: u32) -> Result<Vec<RunSummary>, FleetError> {
        self.get(&format!("/v1/runs?limit={limit}"))
    }

    /// Cancels the waiting jobs of a run.
    pub fn cancel(&self, run: &str) -> Result<(), FleetError> {
        self.ask("POST", &format!("/v1/runs/{run}/cancel"), Some(&()))
    }

    /// Claims jobs.
    pub fn claim(&self, claim: &Claim) -> Result<Claimed, FleetError> {
        self.ask("POST", "/v1/claims", Some(claim))
    }

    /// Sends a heartbeat, without retries: the next one follows soon.
    pub fn heartbeat(&self, beat: &Heartbeat) -> Result<Beaten, FleetError> {
        let once = Self { patience: Duration::ZERO, agent: self.brisk.clone(), ..self.clone() };
        once.ask("POST", "/v1/heartbeats", Some(beat))
    }

    /// Reports that a worker ends.
    pub fn goodbye(&self, worker: &str) -> Result<(), FleetError> {
        self.ask("POST", "/v1/goodbyes", Some(&Goodbye { worker: worker.to_owned() }))
    }

    /// Releases a job that was not started.
    pub fn release(&self, job: i64, token: i64) -> Result<(), FleetError> {
        self.ask("POST", &format!("/v1/jobs/{job}/release"), Some(&Release { token }))
    }

    /// Reports that a job failed.
    pub fn fail(&self, job: i64, failure: &Failure) -> Result<(), FleetError> {
        self.ask("POST", &format!("/v1/jobs/{job}/failure"), Some(failure))
    }

    /// Sends a result.
    pub fn finish(&self, job: i64, outcome: &Outcome) -> Result<Accepted, FleetError> {
        self.ask("POST", &format!("/v1/jobs/{job}/result"), Some(outcome))
    }

    /// Uploads an object.
    pub fn put_object(&self, hash: &Hash, bytes: &[u8]) -> Result<(), FleetError> {
        self.patiently(|| self.send("PUT", &format!("/v1/objects/{hash}"), Some(bytes))).map(|_| ())
    }

    /// Uploads objects; small ones are batched.
    pub fn put_objects<'b>(
        &self,
        objects: impl IntoIterator<Item = (Hash, Cow<'b, [u8]>)>,
    ) -> Result<(), FleetError> {
        let (mut together, mut bytes) = (BTreeMap::new(), 0);
        for (hash, object) in objects {
            if object.len() > ALONE {
                self.put_object(&hash, &object)?;
                continue;
            }
            bytes += object.len();
            together.insert(hash.to_string(), STANDARD.encode(&object));
            if bytes > TOGETHER || together.len() == MAX_UPLOADS {
                self.put_together(std::mem::take(&mut together))?;
                bytes = 0;
            }
        }
        self.put_together(together)
    }

    fn put_together(&self, objects: BTreeMap<String, String>) -> Result<(), FleetError> {
        if objects.is_empty() {
            return Ok(());
        }
        self.ask::<Vec<Stored>>("POST", "/v1/objects", Some(&Uploads { objects })).map(|_| ())
    }

    /// Fetches an object and verifies its hash.
    pub fn object(&self, hash: &Hash) -> Result<Vec<u8>, FleetError> {
        let bytes = self.patiently(|| self.send("GET", &format!("/v1/objects/{hash}"), None))?;
        if Hash::of(&bytes) == *hash {
            return Ok(bytes);
        }
        Err(FleetError::Odd(format!("the content of object {hash} does not match its hash")))
    }

    /// Segments after a number.
    pub fn segments(&self, after: i64) -> Result<Vec<SegmentView>, FleetError> {
        self.get(&format!("/v1/segments?after={after}&limit=1000"))
    }

    /// The lines of a segment.
    pub fn segment(&self, id: &str) -> Result<Vec<u8>, FleetError> {
        self.patiently(|| self.send("GET", &format!("/v1/segments/{id}"), None))
    }

    /// Imports a segment.
    pub fn put_segment(&self, id: &str, text: &[u8]) -> Result<Imported, FleetError> {
        let bytes = self.patiently(|| self.send("PUT", &format!("/v1/segments/{id}"), Some(text)))?;
        serde_json::from_slice(&bytes).map_err(|error| FleetError::Odd(error.to_string()))
    }

    /// Creates a token.
    pub fn make_token(&self, wanted: &NewToken) -> Result<MadeToken, FleetError> {
        self.ask("POST", "/v1/tokens", Some(wanted))
    }

    /// The tokens, without their texts.
    pub fn tokens(&self) -> Result<Vec<TokenView>, FleetError> {
        self.get("/v1/tokens")
    }

    /// Revokes a token.
    pub fn revoke_token(&self, id: i64) -> Result<(), FleetError> {
        self.ask("DELETE", &format!("/v1/tokens/{id}"), None::<&()>)
    }

    /// The workers.
    pub fn workers(&self) -> Result<Vec<WorkerView>, FleetError> {
        self.get("/v1/workers")
    }

    /// The waiting and leased jobs.
    pub fn queue(&self) -> Result<Vec<QueueView>, FleetError> {
        self.get("/v1/queue")
    }

    /// Deletes old results.
    pub fn retain(&self, days: u32) -> Result<Retained, FleetError> {
        self.ask("POST", "/v1/retention", Some(&Retention { days }))
    }
}

/// The HTTP client of this project, with TLS by rustls; it does not follow redirects.
pub fn agent(roots: RootCerts, connect: Duration, whole: Duration) -> Agent {
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(roots)
        .build();
    Agent::config_builder()
        .http_status_as_error(false)
        .tls_config(tls)
        // A token is sent only to the server it was issued for, never to a redirect target.
        .max_redirects(0)
        .timeout_connect(Some(connect))
        .timeout_global(Some(whole))
        .build()
        .new_agent()
}

/// Classifies a transport error. Certificate errors are permanent; an unreachable server may come back.
#[expect(clippy::needless_pass_by_value, reason = "`map_err` passes it by value")]
fn unreachable(error: ureq::Error) -> FleetError {
    let of_tls = match &error {
        ureq::Error::Rustls(error) => Some(error),
        ureq::Error::Io(error) => error.get_ref().and_then(|error| error.downcast_ref::<TlsError>()),
        _ => None,
    };
    let why = match of_tls {
        Some(TlsError::InvalidCertificate(why)) => match why {
            CertificateError::UnknownIssuer => {
                "certificate signed by an unknown authority; set it with `--fleet-ca FILE`".to_owned()
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                format!("its certificate has expired ({why})")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                format!("its certificate is not valid yet ({why})")
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!("its certificate is for another name ({why})")
            }
            other => format!("its certificate is not accepted ({other})"),
        },
        Some(TlsError::InvalidMessage(_)) => {
            "the server does not use TLS; use an address that starts with http://".to_owned()
        }
        _ => return FleetError::Unreachable(error.to_string()),
    };
    FleetError::Untrusted(why)
}

fn pack(bytes: &[u8]) -> Result<Vec<u8>, FleetError> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    let written = packed.write_all(bytes).and_then(|()| packed.finish());
    written.map_err(|error| FleetError::Local(error.to_string()))
}
