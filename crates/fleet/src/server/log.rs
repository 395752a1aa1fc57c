//! Writes one line of JSON per request to standard error. A request keeps the trace ID it came with.

use std::io::Write;
use std::time::{Instant, SystemTime};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use serde_json::json;
use warpproof_evidence::ledger::utc;

use super::Shared;
use super::refused::Cause;

/// Response header with the trace ID.
const TRACE: HeaderName = HeaderName::from_static("x-trace-id");

/// The trace ID of a W3C `traceparent`: 32 hexadecimal digits between the first two dashes.
fn trace_of(header: &str) -> Option<String> {
    let id = header.split('-').nth(1)?;
    (id.len() == 32 && id.bytes().all(|digit| digit.is_ascii_hexdigit())).then(|| id.to_ascii_lowercase())
}

fn write(line: &serde_json::Value) {
    // A failed write to standard error cannot be reported anywhere.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Middleware for every request: trace ID, metrics and log line.
pub(super) async fn record(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let given = request.headers().get("traceparent").and_then(|value| value.to_str().ok()).and_then(trace_of);
    let trace = given.or_else(|| crate::random::hexadecimal::<16>().ok()).unwrap_or_default();
    let method = request.method().to_string();
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str).to_owned();
    let path = request.uri().path().to_owned();
    let mut response = next.run(request).await;
    if let Ok(value) = HeaderValue::from_str(&trace) {
        response.headers_mut().insert(TRACE, value);
    }
    let status = response.status().as_u16();
    shared.metrics.request(status, started.elapsed());
    if shared.log || status >= 500 {
        let cause = response.extensions().get::<Cause>().map(|cause| cause.0.as_str());
        write(&json!({
            "time": utc(SystemTime::now()),
            "level": if status >= 500 { "error" } else { "info" },
            "trace": trace,
            "method": method,
            "route": route,
            "path": path,
            "status": status,
            "seconds": started.elapsed().as_secs_f64(),
            "cause": cause,
        }));
    }
    response
}

/// Logs an error of the periodic maintenance.
pub(super) fn upkeep(shared: &Shared, cause: &str) {
    if shared.log {
        write(&json!({ "time": utc(SystemTime::now()), "level": "warn", "event": "upkeep", "cause": cause }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_id_is_taken_over_or_not() {
        let id = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(trace_of(&format!("00-{id}-00f067aa0ba902b7-01")).as_deref(), Some(id));
        for text in
            ["", "00", "00-x-y-z", &format!("00-{id}0-1-1"), "00-<script>aaaaaaaaaaaaaaaaaaaaaaaa-1-1"]
        {
            assert_eq!(trace_of(text), None, "{text}");
        }
    }
}
