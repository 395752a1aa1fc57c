//! Bodies of requests: within a size, before and after they are unpacked, and of the shape that is wanted.

use std::io::Read;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use flate2::read::GzDecoder;
use http_body_util::{BodyExt, Limited};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::refused::Refused;
use super::{BODY_TIME, Shared};

/// Bytes of a body that is small.
const SMALL: usize = 64 << 10;

/// The bytes of a body, unpacked.
pub(super) struct Payload(pub(super) Vec<u8>);

/// A body that is JSON of a shape.
pub(super) struct Wanted<T>(pub(super) T);

fn too_large(limit: usize) -> Refused {
    Refused::new(StatusCode::PAYLOAD_TOO_LARGE, "size", format!("a body has at most {limit} bytes here"))
}

/// Reads a body of at most `limit` bytes, and of at most so many when it is unpacked: a few bytes can unpack to a great
/// many, and are stopped there.
async fn read(request: Request, limit: usize) -> Result<Vec<u8>, Refused> {
    let packed = match request.headers().get(header::CONTENT_ENCODING).map(axum::http::HeaderValue::as_bytes)
    {
        None | Some(b"identity") => false,
        Some(b"gzip") => true,
        Some(_) => {
            let message = "bodies come as they are or packed by gzip";
            return Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "encoding", message));
        }
    };
    let body = Limited::new(Body::new(request.into_body()), limit).collect();
    let bytes = match timeout(BODY_TIME, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => return Err(too_large(limit)),
        Ok(Err(error)) => return Err(Refused::wrong(format!("the body ended early: {error}"))),
        Err(_) => {
            return Err(Refused::new(StatusCode::REQUEST_TIMEOUT, "time", "the body took too long"));
        }
    };
    if !packed {
        return Ok(bytes.into());
    }
    let unpack = move || {
        let mut unpacked = Vec::new();
        let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
        let read = GzDecoder::new(&bytes[..]).take(most).read_to_end(&mut unpacked);
        match read {
            Ok(read) if read > limit => Err(too_large(limit)),
            Ok(_) => Ok(unpacked),
            Err(error) => Err(Refused::wrong(format!("the body does not unpack: {error}"))),
        }
    };
    tokio::task::spawn_blocking(unpack).await.map_err(Refused::failed)?
}

impl FromRequest<Shared> for Payload {
    type Rejection = Refused;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, Refused> {
        // So many large bodies at a time, and no more: memory has an end. A small one does not wait behind them.
        let length =
            request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        let packed = request.headers().contains_key(header::CONTENT_ENCODING);
        if !packed && length.is_some_and(|length: usize| length <= SMALL) {
            return read(request, SMALL.min(shared.limits.body_bytes)).await.map(Self);
        }
        let _room = shared.bodies.acquire().await.map_err(Refused::failed)?;
        read(request, shared.limits.body_bytes).await.map(Self)
    }
}

/// The text of a short form.
pub(super) struct Short(pub(super) String);

impl FromRequest<Shared> for Short {
    type Rejection = Refused;

    async fn from_request(request: Request, _: &Shared) -> Result<Self, Refused> {
        let bytes = read(request, 1024).await?;
        String::from_utf8(bytes).map(Self).map_err(|_| Refused::wrong("the body is no text"))
    }
}

impl<T: DeserializeOwned> FromRequest<Shared> for Wanted<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, Refused> {
        let Payload(bytes) = Payload::from_request(request, shared).await?;
        serde_json::from_slice(&bytes)
            .map(Self)
            .map_err(|error| Refused::wrong(format!("the body is not what is wanted here: {error}")))
    }
}
