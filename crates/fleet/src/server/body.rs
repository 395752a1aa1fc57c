//! Bodies of requests: within a size, before and after they are unpacked, and of the shape that is wanted.

use std::io::Read;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use bytes::Bytes;
use flate2::read::GzDecoder;
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::refused::Refused;
use super::{Limits, Shared};
use crate::wire;

/// Bytes of a body that is small.
const SMALL: usize = 64 << 10;
/// How long the rest of a body is read that is too large.
const FAREWELL: Duration = Duration::from_secs(2);

/// The bytes of a body, unpacked.
pub(super) struct Payload(pub(super) Vec<u8>);

/// A body that is JSON of a shape.
pub(super) struct Wanted<T>(pub(super) T);

fn too_large(limit: usize) -> Refused {
    Refused::new(StatusCode::PAYLOAD_TOO_LARGE, "size", format!("a body has at most {limit} bytes here"))
}

/// The bytes of a body of at most `limit`. Of a larger one some more is taken and thrown away: a connection that is closed while
/// the other still speaks breaks before our answer is read.
async fn gather(mut body: Body, limit: usize) -> Result<Vec<u8>, Refused> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Refused::wrong(format!("the body ended early: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if data.len() > limit - bytes.len() {
            let rest = async {
                let mut left = limit;
                while let Some(Ok(frame)) = body.frame().await
                    && left > 0
                {
                    left = left.saturating_sub(frame.into_data().map_or(0, |data| data.len()));
                }
            };
            // Who has said all and waits is not waited for.
            let _thrown_away = timeout(FAREWELL, rest).await;
            return Err(too_large(limit));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

/// A body as it came, of at most `limit` bytes, and whether it is packed.
async fn take(request: Request, limit: usize, limits: Limits) -> Result<(Vec<u8>, bool), Refused> {
    let packed = match request.headers().get(header::CONTENT_ENCODING).map(axum::http::HeaderValue::as_bytes)
    {
        None | Some(b"identity") => false,
        Some(b"gzip") => true,
        Some(_) => {
            let message = "bodies come as they are or packed by gzip";
            return Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "encoding", message));
        }
    };
    let Ok(bytes) = timeout(limits.body_time, gather(request.into_body(), limit)).await else {
        return Err(Refused::new(StatusCode::REQUEST_TIMEOUT, "time", "the body took too long"));
    };
    Ok((bytes?, packed))
}

/// What is packed, of at most `limit` bytes; nothing where it is more. A few bytes can unpack to a great many, and are stopped
/// there.
async fn unpack(bytes: Bytes, limit: usize) -> Result<Option<Vec<u8>>, Refused> {
    let unpack = move || {
        let mut unpacked = Vec::new();
        let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
        let read = GzDecoder::new(&bytes[..]).take(most).read_to_end(&mut unpacked);
        match read {
            Ok(read) => Ok(Some(unpacked).filter(|_| read <= limit)),
            Err(error) => Err(Refused::wrong(format!("the body does not unpack: {error}"))),
        }
    };
    tokio::task::spawn_blocking(unpack).await.map_err(Refused::failed)?
}

impl FromRequest<Shared> for Payload {
    type Rejection = Refused;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, Refused> {
        // So many large bodies are read at a time, and no more. A small one does not wait behind them, packed or not.
        let most = shared.limits.body_bytes;
        let length =
            request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        let room = async || shared.bodies.acquire().await.map_err(Refused::failed);
        let (bytes, packed, held) = if length.is_some_and(|length: usize| length <= SMALL) {
            let (bytes, packed) = take(request, SMALL.min(most), shared.limits).await?;
            (Bytes::from(bytes), packed, None)
        } else {
            let room = room().await?;
            let (bytes, packed) = take(request, most, shared.limits).await?;
            (Bytes::from(bytes), packed, Some(room))
        };
        if !packed {
            return Ok(Self(bytes.into()));
        }
        if let Some(unpacked) = unpack(bytes.clone(), SMALL.min(most)).await? {
            return Ok(Self(unpacked));
        }
        let _room = match held {
            None => room().await?,
            Some(room) => room,
        };
        unpack(bytes, most).await?.map(Self).ok_or_else(|| too_large(most))
    }
}

/// The text of a short form.
pub(super) struct Short(pub(super) String);

impl FromRequest<Shared> for Short {
    type Rejection = Refused;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, Refused> {
        let (bytes, packed) = take(request, 1024, shared.limits).await?;
        if packed {
            return Err(Refused::wrong("a form comes as it is"));
        }
        String::from_utf8(bytes).map(Self).map_err(|_| Refused::wrong("the body is no text"))
    }
}

impl<T: DeserializeOwned> FromRequest<Shared> for Wanted<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, Refused> {
        let Payload(bytes) = Payload::from_request(request, shared).await?;
        // A list of values in the right order would do as well, and is not described.
        let mut deserializer = serde_json::Deserializer::from_slice(&bytes);
        let wanted = wire::object(&mut deserializer).and_then(|wanted| deserializer.end().map(|()| wanted));
        wanted
            .map(Self)
            .map_err(|error| Refused::wrong(format!("the body is not what is wanted here: {error}")))
    }
}
