//! Sends requests of the object store through this project's blocking HTTP client, each as a blocking task of the runtime.

use std::error::Error;
use std::io;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::Response;
use http_body_util::BodyExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService,
};
use ureq::tls::RootCerts;
use ureq::{Agent, Timeout};
use warpproof_fleet_client::client::agent;

/// Maximum size of a response in bytes: more than the largest object that the server accepts.
const MAX_ANSWER: u64 = 1 << 30;

/// The connector of an object store.
#[derive(Clone, Debug)]
pub(super) struct Http {
    agent: Agent,
}

impl Http {
    /// Creates a connector with a connect timeout and a timeout for the whole request.
    pub(super) fn new(connect: Duration, whole: Duration) -> Self {
        Self { agent: agent(RootCerts::PlatformVerifier, connect, whole) }
    }
}

impl HttpConnector for Http {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

/// Classifies an error, which determines whether the object store retries.
fn kind(error: &ureq::Error) -> HttpErrorKind {
    match error {
        ureq::Error::Timeout(Timeout::Connect | Timeout::Resolve)
        | ureq::Error::ConnectionFailed
        | ureq::Error::HostNotFound => HttpErrorKind::Connect,
        ureq::Error::Timeout(_) => HttpErrorKind::Timeout,
        ureq::Error::Io(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotConnected => HttpErrorKind::Connect,
            io::ErrorKind::TimedOut => HttpErrorKind::Timeout,
            _ => HttpErrorKind::Interrupted,
        },
        _ => HttpErrorKind::Unknown,
    }
}

fn failed(error: ureq::Error) -> HttpError {
    HttpError::new(kind(&error), error)
}

fn unknown(error: impl Error + Send + Sync + 'static) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, error)
}

#[async_trait]
impl HttpService for Http {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let agent = self.agent.clone();
        let asked = tokio::task::spawn_blocking(move || {
            // ureq rejects a body for methods without one.
            let mut answer = if body.is_empty() && !["PUT", "POST"].contains(&head.method.as_str()) {
                agent.run(ureq::http::Request::from_parts(head, ()))
            } else {
                agent.run(ureq::http::Request::from_parts(head, &body[..]))
            }
            .map_err(failed)?;
            let bytes = answer.body_mut().with_config().limit(MAX_ANSWER).read_to_vec().map_err(failed)?;
            let (head, _) = answer.into_parts();
            Ok(Response::from_parts(head, HttpResponseBody::from(bytes)))
        });
        asked.await.map_err(unknown)?
    }
}
