//! The routes, one file per topic. Access rules are in `access.rs`.

mod ledger;
mod objects;
mod operations;
mod runs;
pub(super) mod tokens;
mod work;

use axum::extract::DefaultBodyLimit;
use axum::{Json, Router, middleware};
use utoipa::OpenApi;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi as Description, Ref, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use warpproof_evidence::hash::Hash;

use super::refused::Refused;
use super::{Shared, access, log, pages};
use crate::wire::Role;

/// Maximum number of list entries in one response.
const MAX_PAGE: u32 = 1_000;

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
        .routes(routes!(work::goodbye))
        .routes(routes!(work::release))
        .routes(routes!(work::fail))
        .routes(routes!(work::accept))
        .routes(routes!(objects::put, objects::get, objects::head))
        .routes(routes!(objects::put_all))
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
    for (path, item) in &mut description.paths.paths {
        let operations = [
            ("GET", &mut item.get),
            ("HEAD", &mut item.head),
            ("PUT", &mut item.put),
            ("POST", &mut item.post),
            ("DELETE", &mut item.delete),
        ];
        for (method, operation) in operations {
            if let Some(operation) = operation {
                add_refusals(method, path, operation);
            }
        }
    }
    (router, description)
}

/// Adds the error responses that are common to all routes.
fn add_refusals(method: &str, path: &str, operation: &mut Operation) {
    let mut refusals = Vec::new();
    let guarded =
        |(own, route, roles): &(&str, &str, &[Role])| *own == method && *route == path && !roles.is_empty();
    if access::ACCESS.iter().any(guarded) {
        refusals.extend([
            ("401", "token required"),
            ("403", "the token has another role"),
            ("429", "too many requests"),
            ("503", "the database or the object store cannot be reached"),
        ]);
    }
    if operation.parameters.is_some() || operation.request_body.is_some() {
        refusals.push(("400", "invalid request"));
    }
    if operation.request_body.is_some() {
        refusals.extend([
            ("408", "timeout while reading the body"),
            ("413", "the body is too large"),
            ("415", "the content encoding is not supported"),
        ]);
    }
    for (status, why) in refusals {
        let mut response = ResponseBuilder::new().description(why);
        // A response to HEAD has no body.
        if method != "HEAD" {
            let refusal = ContentBuilder::new().schema(Some(Ref::from_schema_name("Refusal"))).build();
            response = response.content("application/json", refusal);
        }
        operation.responses.responses.entry(status.to_owned()).or_insert_with(|| response.build().into());
    }
}

/// The OpenAPI description of all routes.
pub(super) fn description() -> Description {
    described().1
}

/// All routes.
pub(super) fn router(shared: &Shared) -> Router {
    let (router, description) = described();
    let description = serde_json::to_value(&description).unwrap_or_default();
    let describe = move || std::future::ready(Json(description.clone()));
    router
        .route("/openapi.json", axum::routing::get(describe))
        .merge(pages::router())
        // Access is checked before any part of a body is read.
        .route_layer(middleware::from_fn_with_state(shared.clone(), access::guard))
        .fallback(|| async { Refused::absent("page") })
        .layer(middleware::from_fn_with_state(shared.clone(), log::record))
        // Bodies have their own limits, before and after decompression.
        .layer(DefaultBodyLimit::disable())
        .with_state(shared.clone())
}

/// Parses a hash in a path.
fn hash(text: &str) -> Result<Hash, Refused> {
    text.parse().map_err(|error: warpproof_evidence::hash::NotAHash| Refused::wrong(error.to_string()))
}

/// The number of list entries to return.
fn limit(wanted: Option<u32>) -> Result<i64, Refused> {
    match wanted.unwrap_or(100) {
        limit @ 0..=MAX_PAGE => Ok(i64::from(limit)),
        _ => Err(Refused::wrong(format!("expected a limit of at most {MAX_PAGE}"))),
    }
}

/// Validates a short text that is stored: no control characters, which terminals interpret or databases cannot store.
fn word<'t>(what: &str, text: &'t str, most: usize) -> Result<&'t str, Refused> {
    if text.is_empty() || text.len() > most || text.contains(char::is_control) {
        return Err(Refused::wrong(format!(
            "expected {what} of 1 to {most} bytes without control characters"
        )));
    }
    Ok(text)
}
