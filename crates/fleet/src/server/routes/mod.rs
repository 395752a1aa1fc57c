//! The routes, one file for each thing they are about. Who may use which is in `access.rs`.

mod ledger;
mod objects;
mod operations;
mod runs;
pub(super) mod tokens;
mod work;

use axum::extract::DefaultBodyLimit;
use axum::{Json, Router, middleware};
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Description;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use warpproof_gate::hash::Hash;

use super::refused::Refused;
use super::{Shared, access, log, pages};

#[derive(OpenApi)]
#[openapi(
    info(title = "Warpproof fleet", description = "Many machines, one ledger."),
    security(("token" = []))
)]
struct Api;

fn described() -> (Router<Shared>, Description) {
    let (router, mut description) = OpenApiRouter::with_openapi(Api::openapi())
        .routes(routes!(runs::submit, runs::list))
        .routes(routes!(runs::show))
        .routes(routes!(runs::cancel))
        .routes(routes!(work::claim))
        .routes(routes!(work::heartbeat))
        .routes(routes!(work::release))
        .routes(routes!(work::fail))
        .routes(routes!(work::accept))
        .routes(routes!(objects::put, objects::get, objects::head))
        .routes(routes!(ledger::list))
        .routes(routes!(ledger::get, ledger::put))
        .routes(routes!(ledger::record))
        .routes(routes!(operations::workers))
        .routes(routes!(operations::queue))
        .routes(routes!(operations::retain))
        .routes(routes!(tokens::create, tokens::list))
        .routes(routes!(tokens::revoke))
        .routes(routes!(operations::alive))
        .routes(routes!(operations::ready))
        .routes(routes!(operations::metrics))
        .split_for_parts();
    let token = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    description.components.get_or_insert_default().security_schemes.insert("token".to_owned(), token);
    (router, description)
}

/// The OpenAPI description of all routes.
pub(super) fn description() -> Description {
    described().1
}

/// Everything that is answered.
pub(super) fn router(shared: &Shared) -> Router {
    let (router, description) = described();
    let description = serde_json::to_value(&description).unwrap_or_default();
    let describe = move || std::future::ready(Json(description.clone()));
    router
        .route("/openapi.json", axum::routing::get(describe))
        .merge(pages::router())
        // Whoever may not is told so before anything of a body is read.
        .route_layer(middleware::from_fn_with_state(shared.clone(), access::guard))
        .fallback(|| async { Refused::absent("page") })
        .layer(middleware::from_fn_with_state(shared.clone(), log::record))
        // Bodies have a limit of their own, before and after they are unpacked.
        .layer(DefaultBodyLimit::disable())
        .with_state(shared.clone())
}

/// A hash in a path.
fn hash(text: &str) -> Result<Hash, Refused> {
    text.parse().map_err(|error: warpproof_gate::hash::NotAHash| Refused::wrong(error.to_string()))
}

/// A word of a request that is kept: short, and nothing that steers a terminal or that a database cannot hold.
fn word<'t>(what: &str, text: &'t str, most: usize) -> Result<&'t str, Refused> {
    if text.is_empty() || text.len() > most || text.contains(char::is_control) {
        return Err(Refused::wrong(format!("{what} has 1 to {most} bytes and no control characters")));
    }
    Ok(text)
}
