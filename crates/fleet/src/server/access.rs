//! Access control: tokens, their roles, and rate limits.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sqlx::{PgPool, Row};
use warpproof_evidence::hash::Hash;

use super::clock::Clock;
use super::refused::{Refused, patiently};
use super::{Shared, pages};
use crate::wire::Role::{self, Admin, Read, Submit, Work};

/// How long the lookup of a token is cached; a revoked token is rejected after at most this time.
const REMEMBERED: Duration = Duration::from_secs(2);
/// Maximum number of cached tokens.
const MAX_REMEMBERED: usize = 10_000;
/// Prefix of every token, so that secret scanners recognize it.
const PREFIX: &str = "wpf_";

/// Every route with its roles, one of which is sufficient; empty: public. A route that is missing here is rejected.
pub const ACCESS: &[(&str, &str, &[Role])] = &[
    ("GET", "/healthz", &[]),
    ("GET", "/readyz", &[]),
    ("GET", "/metrics", &[]),
    ("GET", "/openapi.json", &[]),
    ("GET", "/", &[Read]),
    ("GET", "/runs", &[Read]),
    ("GET", "/runs/{run}", &[Read]),
    ("GET", "/jobs/{job}", &[Read]),
    ("GET", "/tasks", &[Read]),
    ("GET", "/tasks/{task}", &[Read]),
    ("GET", "/negatives", &[Read]),
    ("GET", "/workers", &[Read]),
    ("GET", "/queue", &[Read]),
    ("GET", "/sign-in", &[]),
    ("POST", "/sign-in", &[]),
    ("POST", "/sign-out", &[]),
    ("POST", "/v1/runs", &[Submit]),
    ("GET", "/v1/runs", &[Read]),
    ("GET", "/v1/runs/{run}", &[Submit, Read]),
    ("POST", "/v1/runs/{run}/cancel", &[Submit]),
    ("POST", "/v1/claims", &[Work]),
    ("POST", "/v1/heartbeats", &[Work]),
    ("POST", "/v1/goodbyes", &[Work]),
    ("POST", "/v1/jobs/{job}/release", &[Work]),
    ("POST", "/v1/jobs/{job}/failure", &[Work]),
    ("POST", "/v1/jobs/{job}/result", &[Work]),
    ("POST", "/v1/objects", &[Submit, Work, Admin]),
    ("PUT", "/v1/objects/{hash}", &[Submit, Work, Admin]),
    ("GET", "/v1/objects/{hash}", &[Submit, Work, Read]),
    ("HEAD", "/v1/objects/{hash}", &[Submit, Work, Read, Admin]),
    ("GET", "/v1/segments", &[Read]),
    ("GET", "/v1/segments/{id}", &[Submit, Read]),
    ("PUT", "/v1/segments/{id}", &[Admin]),
    ("GET", "/v1/records/{hash}", &[Submit, Read]),
    ("GET", "/v1/workers", &[Read]),
    ("GET", "/v1/queue", &[Read]),
    ("GET", "/v1/tokens", &[Admin]),
    ("POST", "/v1/tokens", &[Admin]),
    ("DELETE", "/v1/tokens/{id}", &[Admin]),
    ("POST", "/v1/retention", &[Admin]),
];

/// The authenticated client of a request.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) id: i64,
    pub(super) quota: i32,
    roles: Vec<Role>,
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        parts
            .extensions
            .get()
            .cloned()
            .ok_or_else(|| Refused::failed("the route has no authenticated caller"))
    }
}

/// Cached tokens and rate limits.
#[derive(Debug)]
pub(super) struct Doorkeeper {
    clock: Clock,
    known: Mutex<BTreeMap<Hash, (Instant, Caller)>>,
    /// Token buckets: the remaining requests of each token, and of all unknown tokens together.
    buckets: Mutex<BTreeMap<i64, (f64, Instant)>>,
}

impl Doorkeeper {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, known: Mutex::default(), buckets: Mutex::default() }
    }

    /// Takes one request from a bucket.
    fn take(&self, bucket: i64, per_second: f64) -> bool {
        let now = self.clock.now();
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, filled) = buckets.entry(bucket).or_insert((2.0 * per_second, now));
        *left = (*left + now.duration_since(*filled).as_secs_f64() * per_second).min(2.0 * per_second);
        *filled = now;
        let enough = *left >= 1.0;
        if enough {
            *left -= 1.0;
        }
        enough
    }

    /// Removes a token that was revoked here from the cache.
    pub(super) fn forget(&self, id: i64) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (_, caller)| caller.id != id);
    }

    async fn find(&self, pool: &PgPool, token: &str, per_second: f64) -> Result<Option<Caller>, Refused> {
        let hash = Hash::of(token.as_bytes());
        let found_before = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            match known.get(&hash) {
                Some((seen, caller)) if self.clock.now().duration_since(*seen) < REMEMBERED => {
                    return Ok(Some(caller.clone()));
                }
                // A token that was valid before has its own bucket, so that clients with unknown tokens cannot lock it out.
                Some(_) => true,
                None => false,
            }
        };
        if !found_before && !self.take(-1, per_second) {
            return Err(too_often());
        }
        let row = patiently(|| async {
            let statement = "SELECT id, roles, quota, CASE WHEN expires_at <= now() THEN
                     to_char(expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') END
                 FROM tokens WHERE hash = $1 AND revoked_at IS NULL";
            Ok(sqlx::query(statement).bind(&hash.as_bytes()[..]).fetch_optional(pool).await?)
        })
        .await?;
        let Some(row) = row else {
            self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&hash);
            return Ok(None);
        };
        if let Some(date) = row.try_get::<Option<String>, _>(3)? {
            self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&hash);
            let message =
                format!("this token expired on {date}; ask an administrator of the fleet for a new one");
            return Err(Refused::new(StatusCode::UNAUTHORIZED, "expired", message)
                .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
        }
        let words: Vec<String> = row.try_get(1)?;
        let caller = Caller {
            id: row.try_get(0)?,
            quota: row.try_get(2)?,
            roles: words.iter().filter_map(|word| Role::named(word)).collect(),
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_REMEMBERED {
            known.clear();
        }
        known.insert(hash, (self.clock.now(), caller.clone()));
        Ok(Some(caller))
    }
}

fn too_often() -> Refused {
    Refused::new(StatusCode::TOO_MANY_REQUESTS, "rate", "too many requests; wait a second")
}

/// Creates a random token: its text and its hash.
pub(super) fn draw() -> Result<(String, Hash), String> {
    let token = format!("{PREFIX}{}", crate::random::hexadecimal::<32>()?);
    let hash = Hash::of(token.as_bytes());
    Ok((token, hash))
}

/// Middleware in front of every route.
pub(super) async fn guard(State(shared): State<Shared>, mut request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str).to_owned();
    let method = request.method().clone();
    let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = given.and_then(|value| value.strip_prefix("Bearer "));
    // A browser's cookie allows only reading.
    let looks = method == Method::GET || method == Method::HEAD;
    let token =
        bearer.or_else(|| pages::cookie_token(request.headers()).filter(|_| looks)).map(ToOwned::to_owned);
    match admit(&shared, &route, &method, token.as_deref()).await {
        Ok(caller) => {
            if let Some(caller) = caller {
                request.extensions_mut().insert(caller);
            }
            next.run(request).await
        }
        Err(refused) if pages::is_page(&route) => {
            let wanted = request.uri().path_and_query().map(axum::http::uri::PathAndQuery::as_str);
            pages::refusal_of(refused, wanted.filter(|_| looks))
        }
        Err(refused) => refused.into_response(),
    }
}

/// Whether a token is valid and has the role `read`.
pub(super) async fn may_read(shared: &Shared, token: &str) -> Result<bool, Refused> {
    if !well_formed(token) {
        return Ok(false);
    }
    let per_second = f64::from(shared.limits.requests_per_second);
    let caller = shared.doorkeeper.find(&shared.pool, token, per_second).await?;
    Ok(caller.is_some_and(|caller| caller.roles.contains(&Read)))
}

fn well_formed(token: &str) -> bool {
    let digits = token.strip_prefix(PREFIX).unwrap_or_default();
    digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// The error for an unsupported method; it lists the supported ones.
fn not_done(path: &str) -> Refused {
    let methods = ACCESS.iter().filter(|(_, route, _)| *route == path).map(|(method, ..)| *method);
    let mut methods: Vec<&str> = methods.collect();
    if methods.contains(&"GET") && !methods.contains(&"HEAD") {
        methods.push("HEAD");
    }
    let refused = Refused::new(StatusCode::METHOD_NOT_ALLOWED, "method", "method not allowed");
    match HeaderValue::try_from(methods.join(", ")) {
        Ok(methods) => refused.with_header(header::ALLOW, methods),
        Err(_) => refused,
    }
}

async fn admit(
    shared: &Shared,
    path: &str,
    method: &Method,
    token: Option<&str>,
) -> Result<Option<Caller>, Refused> {
    let own = |wanted: &str| wanted == method.as_str() || (wanted == "GET" && *method == Method::HEAD);
    let mut found = ACCESS.iter().filter(|(_, route, _)| *route == path);
    let exact = found.clone().find(|(wanted, ..)| *wanted == method.as_str());
    let Some((.., roles)) = exact.or_else(|| found.find(|(wanted, ..)| own(wanted))) else {
        return if path.is_empty() { Err(Refused::absent("page")) } else { Err(not_done(path)) };
    };
    if roles.is_empty() {
        return Ok(None);
    }
    let refused = |message: &str| {
        Refused::new(StatusCode::UNAUTHORIZED, "token", message)
            .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
    };
    let unknown = || refused("this token is unknown or was revoked");
    let token = token.ok_or_else(|| refused("token required: Authorization: Bearer wpf_…"))?;
    if !well_formed(token) {
        return Err(unknown());
    }
    let per_second = f64::from(shared.limits.requests_per_second);
    let caller = shared.doorkeeper.find(&shared.pool, token, per_second).await?.ok_or_else(unknown)?;
    if !shared.doorkeeper.take(caller.id, per_second) {
        return Err(too_often());
    }
    if !roles.iter().any(|role| caller.roles.contains(role)) {
        let roles: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
        let message = format!("this requires a token with the role {}", roles.join(" or "));
        return Err(Refused::new(StatusCode::FORBIDDEN, "role", message));
    }
    Ok(Some(caller))
}
