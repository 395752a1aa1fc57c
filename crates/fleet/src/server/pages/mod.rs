//! The dashboard: HTML pages generated from the database. They contain no scripts and load nothing from other servers.
//!
//! Information about a candidate comes from a gate report, generated from the records of its segment; the numbers in lists are
//! counted in the database for each request.

mod chart;
mod evidence;
mod layout;
mod lists;
mod overview;
mod sign_in;
mod standing;

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;

use super::Shared;
use super::refused::Refused;

pub(super) use sign_in::token as cookie_token;
pub(super) use standing::{Standing, insert as insert_standings, of as standings_of};

/// Routes of all pages; their access rules are in `access.rs`.
pub(super) fn router() -> Router<Shared> {
    Router::new()
        .route("/", get(overview::overview))
        .route("/runs", get(lists::runs))
        .route("/runs/{run}", get(lists::run))
        .route("/jobs/{job}", get(evidence::job))
        .route("/tasks", get(standing::tasks))
        .route("/tasks/{task}", get(standing::task))
        .route("/negatives", get(evidence::negatives))
        .route("/workers", get(lists::workers))
        .route("/queue", get(lists::queue))
        .route("/sign-in", get(sign_in::form).post(sign_in::sign_in))
        .route("/sign-out", axum::routing::post(sign_in::sign_out))
}

/// Whether a route is a page, so that errors are shown as a page.
pub(super) fn is_page(route: &str) -> bool {
    let programs = ["/v1/", "/healthz", "/readyz", "/metrics", "/openapi.json"];
    !route.is_empty() && !programs.iter().any(|start| route.starts_with(start))
}

/// An error as a page; an unauthenticated user is redirected to the sign-in page, and returns to the requested page afterwards.
pub(super) fn refusal_of(refused: Refused, wanted: Option<&str>) -> Response {
    if refused.status() == StatusCode::UNAUTHORIZED {
        return match wanted.filter(|wanted| *wanted != "/" && sign_in::is_local(wanted)) {
            Some(wanted) => {
                Redirect::to(&format!("/sign-in?next={}", layout::segment(wanted))).into_response()
            }
            None => Redirect::to("/sign-in").into_response(),
        };
    }
    refusal(refused)
}

/// An error as a page.
pub(super) fn refusal(refused: Refused) -> Response {
    let status = refused.status();
    let body = format!("<p>{}</p>", warpproof_report::markup(refused.message()));
    let title = status.canonical_reason().unwrap_or("Refused");
    let mut response = layout::Page::new("", title, body).into_response();
    *response.status_mut() = status;
    // Pass the cause to the log.
    response.extensions_mut().extend(refused.into_response().extensions().clone());
    response
}

/// A page, or an error.
type Shown = Result<layout::Page, Unshown>;

/// An error that is shown as a page.
struct Unshown(Refused);

impl<E: Into<Refused>> From<E> for Unshown {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Unshown {
    fn into_response(self) -> Response {
        refusal(self.0)
    }
}
