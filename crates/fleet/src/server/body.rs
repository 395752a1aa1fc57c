//! Request bodies: limited in size before and after decompression, and parsed to the expected type.
//!
//! The server's memory is bounded: small bodies by their size, large ones by a shared budget, and objects are streamed to the
//! store. A body whose announced length is too large is rejected before any of it is read.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use flate2::read::GzDecoder;
use flate2::write::GzDecoder as Unpacker;
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use tokio::sync::OwnedSemaphorePermit;

use super::clock::Clock;
use super::refused::Refused;
use super::{Limits, Shared};
use crate::wire;

/// Maximum size of a small body in bytes: the largest is a heartbeat of 4096 leases.
const SMALL: usize = 512 << 10;
/// Minimum memory budget for all large bodies of a server, in bytes.
const BUDGET: usize = 128 << 20;
/// The unit of the budget, in bytes.
const UNIT: usize = 64 << 10;
/// Compressed bytes that are decompressed at a time: gzip expands them at most about a thousandfold.
const SLICE: usize = 1 << 10;
/// How long the rest of a rejected body is read, and how many times the limit of a body.
const FAREWELL: Duration = Duration::from_secs(5);
const FAREWELL_LIMITS: usize = 4;

/// A share of the budget, returned when it is dropped.
pub(super) type Room = OwnedSemaphorePermit;

/// The server's budget in units. The largest body fits, compressed and decompressed.
pub(super) fn units(limits: &Limits) -> usize {
    BUDGET.max(limits.body_bytes.saturating_mul(2)).div_ceil(UNIT)
}

/// The decompressed bytes of a body, and their share of the budget.
pub(super) struct Payload(pub(super) Vec<u8>, pub(super) Room);

/// A small JSON body.
pub(super) struct Wanted<T>(pub(super) T);

/// A JSON body that may be large, and its share of the budget, which is kept until the response is sent.
pub(super) struct Large<T>(pub(super) T, pub(super) Room);

/// A streamed body.
pub(super) struct Upload {
    body: Body,
    unpacker: Option<Unpacker<Vec<u8>>>,
    /// Received bytes that are not decompressed yet.
    packed: Bytes,
    /// Number of received bytes, and of decompressed bytes.
    came: usize,
    unpacked: usize,
    limit: usize,
    clock: Clock,
    end: Instant,
}

fn too_large(limit: usize) -> Refused {
    let message = format!("expected a body of at most {limit} bytes");
    Refused::new(StatusCode::PAYLOAD_TOO_LARGE, "size", message)
}

fn too_slow() -> Refused {
    Refused::new(StatusCode::REQUEST_TIMEOUT, "time", "timeout while reading the body")
}

fn ended_early(error: &axum::Error) -> Refused {
    Refused::wrong(format!("the body ended early: {error}"))
}

/// Reads and discards more of a body in the background: if a connection is closed while the client still writes, it is reset before
/// the client reads the response.
fn throw_away(mut body: Body, limit: usize, clock: &Clock) {
    let rest = async move {
        let mut left = limit.saturating_mul(FAREWELL_LIMITS);
        while let Some(Ok(frame)) = body.frame().await
            && left > 0
        {
            left = left.saturating_sub(frame.into_data().map_or(0, |data| data.len()));
        }
    };
    let clock = clock.clone();
    tokio::spawn(async move { clock.timeout(FAREWELL, rest).await });
}

/// The announced length of a request.
fn announced(headers: &HeaderMap) -> Option<usize> {
    let text = headers.get(header::CONTENT_LENGTH)?.to_str().ok()?;
    // A number that overflows `usize` exceeds every limit.
    text.bytes().all(|digit| digit.is_ascii_digit()).then(|| text.parse().unwrap_or(usize::MAX))
}

/// Whether a body is compressed.
fn is_packed(headers: &HeaderMap) -> Result<bool, Refused> {
    match headers.get(header::CONTENT_ENCODING).map(axum::http::HeaderValue::as_bytes) {
        None | Some(b"identity") => Ok(false),
        Some(b"gzip") => Ok(true),
        Some(_) => {
            let message = "expected an uncompressed body, or gzip";
            Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "encoding", message))
        }
    }
}

/// The body of a request of at most `limit` bytes, and whether it is compressed. A larger announced length is rejected immediately.
fn open(request: Request, limit: usize, clock: &Clock) -> Result<(Body, bool), Refused> {
    let packed = is_packed(request.headers());
    let large = announced(request.headers()).is_some_and(|length| length > limit);
    let body = request.into_body();
    match packed {
        Ok(packed) if !large => Ok((body, packed)),
        Ok(_) => {
            throw_away(body, limit, clock);
            Err(too_large(limit))
        }
        Err(refused) => {
            throw_away(body, limit, clock);
            Err(refused)
        }
    }
}

/// Reads a body of at most `limit` bytes.
async fn gather(mut body: Body, limit: usize, clock: &Clock) -> Result<Vec<u8>, Refused> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| ended_early(&error))?.into_data() else { continue };
        if data.len() > limit - bytes.len() {
            throw_away(body, limit, clock);
            return Err(too_large(limit));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

/// Reads an unmodified body of at most `limit` bytes, and whether it is compressed.
async fn take(request: Request, limit: usize, shared: &Shared) -> Result<(Vec<u8>, bool), Refused> {
    let clock = &shared.clock;
    let (body, packed) = open(request, limit, clock)?;
    let bytes = clock.timeout(shared.limits.body_time, gather(body, limit, clock)).await;
    let bytes = bytes.ok_or_else(too_slow)?;
    Ok((bytes?, packed))
}

/// Decompresses at most `limit` bytes. This stops decompression bombs.
async fn unpack(bytes: Bytes, limit: usize) -> Result<Vec<u8>, Refused> {
    let unpack = move || {
        let mut unpacked = Vec::new();
        let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
        let read = GzDecoder::new(&bytes[..]).take(most).read_to_end(&mut unpacked);
        match read {
            Ok(read) if read <= limit => Ok(unpacked),
            Ok(_) => Err(too_large(limit)),
            Err(error) => Err(Refused::wrong(format!("cannot decompress the body: {error}"))),
        }
    };
    tokio::task::spawn_blocking(unpack).await.map_err(Refused::failed)?
}

/// The share of the budget that a body needs: its announced length, or the maximum. A compressed body needs room for both forms.
fn units_of(headers: &HeaderMap, most: usize) -> Result<u32, Refused> {
    let length = announced(headers).unwrap_or(most).min(most);
    let bytes = if is_packed(headers)? { length.saturating_add(most) } else { length };
    Ok(u32::try_from(bytes.div_ceil(UNIT).max(1)).unwrap_or(u32::MAX))
}

impl FromRequest<Shared> for Payload {
    type Rejection = Refused;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, Refused> {
        let most = shared.limits.body_bytes;
        if announced(request.headers()).is_some_and(|length| length > most) {
            // A request that announces too much does not wait for the budget.
            return Err(
                open(request, most, &shared.clock).map_or_else(|refused| refused, |_| too_large(most))
            );
        }
        let units = units_of(request.headers(), most)?;
        let waits = shared.metrics.body_waits();
        let room = shared.bodies.clone().acquire_many_owned(units).await.map_err(Refused::failed)?;
        drop(waits);
        let (bytes, packed) = take(request, most, shared).await?;
        let bytes = if packed { unpack(bytes.into(), most).await? } else { bytes };
        Ok(Self(bytes, room))
    }
}

impl FromRequest<Shared> for Upload {
    type Rejection = Refused;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, Refused> {
        let limit = shared.limits.body_bytes;
        let clock = shared.clock.clone();
        let (body, packed) = open(request, limit, &clock)?;
        let end = clock.now() + shared.limits.body_time;
        let unpacker = packed.then(|| Unpacker::new(Vec::new()));
        Ok(Self { body, unpacker, packed: Bytes::new(), came: 0, unpacked: 0, limit, clock, end })
    }
}

impl Upload {
    /// The next decompressed bytes; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Refused> {
        let corrupt = |error: std::io::Error| Refused::wrong(format!("cannot decompress the body: {error}"));
        loop {
            if let Some(unpacker) = &mut self.unpacker
                && !self.packed.is_empty()
            {
                let slice = self.packed.split_to(SLICE.min(self.packed.len()));
                unpacker.write_all(&slice).map_err(corrupt)?;
                let unpacked = std::mem::take(unpacker.get_mut());
                self.unpacked = self.count(self.unpacked, unpacked.len())?;
                if !unpacked.is_empty() {
                    return Ok(Some(unpacked.into()));
                }
                continue;
            }
            let frame = self.clock.timeout_at(self.end, self.body.frame()).await.ok_or_else(too_slow)?;
            let Some(frame) = frame else { break };
            let Ok(data) = frame.map_err(|error| ended_early(&error))?.into_data() else { continue };
            self.came = self.count(self.came, data.len())?;
            if self.unpacker.is_none() {
                return Ok(Some(data));
            }
            self.packed = data;
        }
        let Some(mut unpacker) = self.unpacker.take() else { return Ok(None) };
        unpacker.try_finish().map_err(corrupt)?;
        let unpacked = std::mem::take(unpacker.get_mut());
        self.unpacked = self.count(self.unpacked, unpacked.len())?;
        Ok(Some(unpacked).filter(|rest| !rest.is_empty()).map(Bytes::from))
    }

    /// Adds to the number of bytes, unless the limit is exceeded.
    fn count(&mut self, sum: usize, more: usize) -> Result<usize, Refused> {
        let sum = sum.saturating_add(more);
        if sum <= self.limit {
            return Ok(sum);
        }
        throw_away(std::mem::take(&mut self.body), self.limit, &self.clock);
        Err(too_large(self.limit))
    }
}

/// The text of a short form.
pub(super) struct Short(pub(super) String);

impl FromRequest<Shared> for Short {
    type Rejection = Refused;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, Refused> {
        let (bytes, packed) = take(request, 1024, shared).await?;
        if packed {
            return Err(Refused::wrong("expected an uncompressed form"));
        }
        String::from_utf8(bytes).map(Self).map_err(|_| Refused::wrong("the body is not UTF-8 text"))
    }
}

/// Parses JSON.
fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refused> {
    // serde would also accept an array of the field values, which the API description does not allow.
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let wanted = wire::object(&mut deserializer).and_then(|wanted| deserializer.end().map(|()| wanted));
    wanted.map_err(|error| Refused::wrong(format!("unexpected body: {error}")))
}

impl<T: DeserializeOwned> FromRequest<Shared> for Wanted<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, Refused> {
        let most = SMALL.min(shared.limits.body_bytes);
        let (bytes, packed) = take(request, most, shared).await?;
        let bytes = if packed { unpack(bytes.into(), most).await? } else { bytes };
        read(&bytes).map(Self)
    }
}

impl<T: DeserializeOwned> FromRequest<Shared> for Large<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, Refused> {
        let Payload(bytes, room) = Payload::from_request(request, shared).await?;
        Ok(Self(read(&bytes)?, room))
    }
}
