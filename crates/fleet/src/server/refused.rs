//! Errors of requests, and which database errors are transient.

use std::future::Future;
use std::time::Duration;

use axum::Json;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio::time::{Instant, sleep};

use crate::wire::Refusal;

/// How long a request waits for an unreachable database.
const PATIENCE: Duration = Duration::from_secs(20);

/// An error response.
#[derive(Debug)]
pub(super) struct Refused {
    status: StatusCode,
    refusal: Refusal,
    /// The cause, which is logged but not sent to the client.
    cause: Option<String>,
    /// A header that the status requires.
    header: Option<Box<(HeaderName, HeaderValue)>>,
}

impl Refused {
    pub(super) fn new(status: StatusCode, error: &str, message: impl Into<String>) -> Self {
        let refusal = Refusal { error: error.to_owned(), message: message.into(), missing: Vec::new() };
        Self { status, refusal, cause: None, header: None }
    }

    pub(super) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.header = Some(Box::new((name, value)));
        self
    }

    pub(super) fn wrong(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "wrong", message)
    }

    pub(super) fn absent(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "absent", format!("{what} not found"))
    }

    pub(super) fn conflict(error: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, error, message)
    }

    pub(super) fn missing(error: &str, message: impl Into<String>, missing: Vec<String>) -> Self {
        let mut refused = Self::new(StatusCode::UNPROCESSABLE_ENTITY, error, message);
        refused.refusal.missing = missing;
        refused
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    /// The message for users.
    pub(super) fn message(&self) -> &str {
        &self.refusal.message
    }

    /// Message and cause, for the operator.
    pub(super) fn explained(&self) -> String {
        self.cause.clone().unwrap_or_else(|| self.refusal.message.clone())
    }

    /// An internal error; the cause goes to the log.
    #[expect(clippy::needless_pass_by_value, reason = "`map_err` passes it by value")]
    pub(super) fn failed(cause: impl ToString) -> Self {
        let mut refused =
            Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "the server failed; see its log");
        refused.cause = Some(cause.to_string());
        refused
    }

    fn unavailable(cause: &impl ToString) -> Self {
        let message = "the server cannot reach its database or object store; try again";
        let mut refused = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message);
        refused.cause = Some(cause.to_string());
        refused
    }
}

impl From<sqlx::Error> for Refused {
    fn from(error: sqlx::Error) -> Self {
        // Text with characters that the database does not support is an error of the client.
        if error.as_database_error().is_some_and(|error| error.code().as_deref() == Some("22021")) {
            return Self::wrong("the text contains characters that are not supported");
        }
        if passes(&error) { Self::unavailable(&error) } else { Self::failed(error) }
    }
}

impl From<object_store::Error> for Refused {
    fn from(error: object_store::Error) -> Self {
        match error {
            object_store::Error::NotFound { .. } => Self::absent("object"),
            other => Self::unavailable(&other),
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(&self.refusal)).into_response();
        if matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if let Some((name, value)) = self.header.map(|header| *header) {
            response.headers_mut().insert(name, value);
        }
        if let Some(cause) = self.cause {
            response.extensions_mut().insert(Cause(cause));
        }
        response
    }
}

/// The cause of an error, passed to the log.
#[derive(Clone, Debug)]
pub(super) struct Cause(pub(super) String);

/// Whether an error is caused by the connection or is transient, rather than caused by the statement.
pub(super) fn passes(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::Protocol(_)
        | sqlx::Error::Tls(_) => true,
        sqlx::Error::Database(error) => error.code().is_some_and(|code| {
            // Connection, resources, operator intervention, serialization, deadlock, read-only after a failover.
            ["08", "53", "57"].iter().any(|class| code.starts_with(class))
                || ["40001", "40P01", "25006"].contains(&code.as_ref())
        }),
        _ => false,
    }
}

/// Retries a database operation until it succeeds or the time is up. It must be idempotent: if a connection breaks during a commit,
/// it is unknown whether the commit succeeded.
pub(super) async fn patiently<T, F, W>(mut work: W) -> Result<T, Refused>
where
    F: Future<Output = Result<T, Refused>>,
    W: FnMut() -> F,
{
    let end = Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(20);
    loop {
        match work().await {
            Err(refused) if refused.status == StatusCode::SERVICE_UNAVAILABLE && Instant::now() < end => {
                sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(1));
            }
            answered => return answered,
        }
    }
}
