//! Routes of tokens: create, list, revoke.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use sqlx::{PgPool, Row};

use super::word;
use crate::server::address::Path;
use crate::server::body::Wanted;
use crate::server::jobs::UTC;
use crate::server::refused::{Refused, patiently};
use crate::server::{Shared, access};
use crate::wire::{MAX_TOKEN_DAYS, MadeToken, NewToken, Refusal, Role, TokenView};

/// Creates a token; only its hash is stored.
pub(in crate::server) async fn make(pool: &PgPool, wanted: &NewToken) -> Result<MadeToken, Refused> {
    word("a token's name", &wanted.name, 128)?;
    if wanted.roles.is_empty() || wanted.quota < 0 {
        return Err(Refused::wrong("expected at least one role, and a quota of 0 or more"));
    }
    if wanted.days.is_some_and(|days| !(1..=MAX_TOKEN_DAYS).contains(&days)) {
        return Err(Refused::wrong(format!("expected a lifetime of 1 to {MAX_TOKEN_DAYS} days")));
    }
    let mut roles: Vec<&str> = wanted.roles.iter().map(|role| role.as_str()).collect();
    roles.sort_unstable();
    roles.dedup();
    let (token, hash) = access::draw().map_err(Refused::failed)?;
    let id = patiently(|| async {
        let statement = "INSERT INTO tokens (hash, name, roles, quota, expires_at)
             VALUES ($1, $2, $3, $4, now() + make_interval(days => $5)) RETURNING id";
        let row = sqlx::query(statement)
            .bind(&hash.as_bytes()[..])
            .bind(&wanted.name)
            .bind(&roles)
            .bind(wanted.quota)
            .bind(wanted.days.and_then(|days| i32::try_from(days).ok()))
            .fetch_one(pool)
            .await?;
        Ok(row.try_get(0)?)
    })
    .await?;
    Ok(MadeToken { id, token })
}

/// Create a token
///
/// Its text is returned only once.
#[utoipa::path(
    post, path = "/v1/tokens", tag = "tokens", request_body = NewToken,
    responses((status = 200, body = MadeToken), (status = 400, body = Refusal))
)]
pub(super) async fn create(
    State(shared): State<Shared>,
    Wanted(wanted): Wanted<NewToken>,
) -> Result<Json<MadeToken>, Refused> {
    make(&shared.pool, &wanted).await.map(Json)
}

/// List the tokens, without their texts
#[utoipa::path(get, path = "/v1/tokens", tag = "tokens", responses((status = 200, body = Vec<TokenView>)))]
pub(super) async fn list(State(shared): State<Shared>) -> Result<Json<Vec<TokenView>>, Refused> {
    let statement = format!(
        "SELECT id, name, roles, quota, to_char(made_at AT TIME ZONE 'UTC', {UTC}), revoked_at IS NOT NULL,
                to_char(expires_at AT TIME ZONE 'UTC', {UTC}), coalesce(expires_at <= now(), false)
         FROM tokens ORDER BY id LIMIT 10000"
    );
    let rows = patiently(|| async { Ok(sqlx::query(&statement).fetch_all(&shared.pool).await?) }).await?;
    let mut tokens = Vec::new();
    for row in &rows {
        let roles: Vec<String> = row.try_get(2)?;
        tokens.push(TokenView {
            id: row.try_get(0)?,
            name: row.try_get(1)?,
            roles: roles.iter().filter_map(|word| Role::named(word)).collect(),
            quota: row.try_get(3)?,
            made_at: row.try_get(4)?,
            revoked: row.try_get(5)?,
            expires_at: row.try_get(6)?,
            expired: row.try_get(7)?,
        });
    }
    Ok(Json(tokens))
}

/// Revoke a token
///
/// Servers that cached the token may accept it for two more seconds.
#[utoipa::path(
    delete, path = "/v1/tokens/{id}", tag = "tokens", params(("id" = i64, Path, minimum = 1, maximum = 9223372036854775807i64)),
    responses((status = 204), (status = 404, body = Refusal))
)]
pub(super) async fn revoke(State(shared): State<Shared>, Path(id): Path<i64>) -> Result<StatusCode, Refused> {
    let done = patiently(|| async {
        let statement = "UPDATE tokens SET revoked_at = coalesce(revoked_at, now()) WHERE id = $1";
        Ok(sqlx::query(statement).bind(id).execute(&shared.pool).await?)
    })
    .await?;
    shared.doorkeeper.forget(id);
    if done.rows_affected() == 1 { Ok(StatusCode::NO_CONTENT) } else { Err(Refused::absent("token")) }
}
