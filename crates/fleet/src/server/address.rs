//! Path and query of a request. Errors are returned as JSON, like all others.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::refused::Refused;

/// The variable parts of a route's path.
pub(super) struct Path<T>(pub(super) T);

/// The parsed query string.
pub(super) struct Query<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let read = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        read.map(|read| Self(read.0)).map_err(|error| Refused::wrong(error.body_text()))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let read = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        read.map(|read| Self(read.0)).map_err(|error| Refused::wrong(error.body_text()))
    }
}
