//! The dashboard: pages for people, made here from what the database holds. No script, nothing loaded from elsewhere.
//!
//! What a page says of a candidate is a report of the gate's, made from the records of its segment; the numbers of the lists
//! are counted in the database when the page is asked for.

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

/// Every page; who may see which is in `access.rs`.
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

/// Whether a route is a page, and is answered as one when it is refused.
pub(super) fn is_page(route: &str) -> bool {
    let programs = ["/v1/", "/healthz", "/readyz", "/metrics", "/openapi.json"];
    !route.is_empty() && !programs.iter().any(|start| route.starts_with(start))
}

/// A refusal as a page; who is not known is asked to sign in, and comes back to what was wanted.
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

/// A refusal as a page.
pub(super) fn refusal(refused: Refused) -> Response {
    let status = refused.status();
    let body = format!("<p>{}</p>", warpproof_report::markup(refused.message()));
    let title = status.canonical_reason().unwrap_or("Refused");
    let mut response = layout::Page::new("", title, body).into_response();
    *response.status_mut() = status;
    // The cause goes on to the log.
    response.extensions_mut().extend(refused.into_response().extensions().clone());
    response
}

/// A page, or the refusal of one.
type Shown = Result<layout::Page, Unshown>;

/// A refusal that is shown as a page.
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
