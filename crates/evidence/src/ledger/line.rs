//! Encodes one record as one line, and decodes it.
//!
//! ```text
//! {"v":1,"segment":"<id>","heads":["<hash>",…],"body":{"kind":…},"hash":"<hash>"}    the first line of a segment
//! {"v":1,"prev":"<hash>","body":{"kind":…},"hash":"<hash>"}                          every other
//! ```
//!
//! The hash at the end covers all bytes before `,"hash"` and is the record's name. It is in the line because a chain
//! protects every line except its last: a changed byte in the newest record would otherwise go undetected. The first
//! line holds the segment's own name, so two writers with equal content at the same time still write different
//! records.

use crate::hash::Hash;
use crate::record::Body;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::fmt;

/// Maximum bytes of a line, without its newline.
pub const MAX_LINE: usize = 16 << 20;

const OURS: &[u8] = br#"{"v":1,"#;
const SEAL: &[u8] = br#","hash":""#;
const END: &[u8] = br#""}"#;
const SEALED: usize = SEAL.len() + Hash::DIGITS + END.len();

/// The records that a record follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parents {
    /// It is the first of its segment, written when these were the newest records, in order.
    Heads(Vec<Hash>),
    /// It follows this record of its own segment.
    Prev(Hash),
}

/// A problem of a line or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The line is not one that Warpproof writes.
    NotARecord(String),
    /// The record has a version that this Warpproof does not know.
    Version(u64),
    /// The bytes do not have the hash that the line ends with.
    Changed,
    /// The line has more than [`MAX_LINE`] bytes.
    TooLong,
    /// The record does not follow the line before it.
    BrokenChain,
    /// A first line in another position, or another line in the first position.
    Misplaced,
    /// The segment was written under another name.
    Renamed(String),
    /// A complete last record is followed by other bytes than its newline.
    ChangedEnd,
    /// A record named here is not in the ledger.
    MissingRecord(&'static str, Hash),
    /// An object named here is not in the ledger.
    MissingObject(String, Hash),
    /// The bytes of an object do not match its name.
    ChangedObject,
    /// A verdict that does not follow from its steps by the gate's rules, and why.
    Unsupported(Hash, String),
    /// A file that does not belong here.
    Stray,
    /// The system could not read it.
    Unreadable(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotARecord(why) => write!(f, "not a record: {why}"),
            Self::Version(version) => write!(
                f,
                "a record of version {version}; this warpproof supports only version {}",
                super::VERSION
            ),
            Self::Changed => f.write_str("the line was changed: its bytes do not match the hash at its end"),
            Self::TooLong => write!(f, "the line has more than {MAX_LINE} bytes"),
            Self::BrokenChain => f.write_str("the record does not follow the line before it"),
            Self::Misplaced => f.write_str("heads must be in the first line of a segment, and only there"),
            Self::Renamed(id) => write!(f, "the file was renamed: the segment was written as {id}"),
            Self::ChangedEnd => f.write_str("expected a newline after the last record"),
            Self::MissingRecord(role, hash) => {
                write!(f, "the record {hash}, its {role}, is not in the ledger")
            }
            Self::MissingObject(name, hash) => {
                write!(f, "the object {hash}, its {name}, is not in the ledger")
            }
            Self::ChangedObject => f.write_str("the object's bytes do not match its hash"),
            Self::Unsupported(record, why) => {
                write!(f, "verdict {} does not follow from its steps: {why}", record.short())
            }
            Self::Stray => f.write_str("not a file of a ledger"),
            Self::Unreadable(why) => write!(f, "cannot be read: {why}"),
        }
    }
}

/// A decoded line.
pub(super) struct Decoded {
    pub(super) hash: Hash,
    pub(super) parents: Parents,
    /// The segment it was written in, if the line contains it.
    pub(super) segment: Option<String>,
    pub(super) body: Body,
}

#[derive(Serialize)]
struct First<'a> {
    v: u64,
    segment: &'a str,
    heads: &'a [Hash],
    body: &'a RawValue,
}

#[derive(Serialize)]
struct Later<'a> {
    v: u64,
    prev: Hash,
    body: &'a RawValue,
}

#[derive(Deserialize)]
struct Version {
    v: u64,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    v: u64,
    segment: Option<String>,
    heads: Option<Vec<Hash>>,
    prev: Option<Hash>,
    #[serde(borrow)]
    body: &'a RawValue,
}

/// Appends the line of a record, including the newline, and returns its hash.
pub(super) fn encode(
    out: &mut Vec<u8>,
    segment: &str,
    parents: &Parents,
    body: &Body,
) -> Result<Hash, serde_json::Error> {
    let body = RawValue::from_string(body.to_json()?)?;
    let (v, start) = (super::VERSION, out.len());
    match parents {
        Parents::Heads(heads) => serde_json::to_writer(&mut *out, &First { v, segment, heads, body: &body })?,
        Parents::Prev(prev) => serde_json::to_writer(&mut *out, &Later { v, prev: *prev, body: &body })?,
    }
    out.pop();
    let hash = Hash::of(out.get(start..).unwrap_or_default());
    out.extend_from_slice(SEAL);
    out.extend_from_slice(hash.to_string().as_bytes());
    out.extend_from_slice(END);
    out.push(b'\n');
    Ok(hash)
}

/// The hash that a line ends with, and the bytes it covers. Only the form is checked.
pub(super) fn claimed(line: &[u8]) -> Option<(Hash, &[u8])> {
    let (sealed, seal) = line.split_at_checked(line.len().checked_sub(SEALED)?)?;
    let digits = seal.strip_prefix(SEAL)?.strip_suffix(END)?;
    Some((Hash::from_hex(digits).ok()?, sealed))
}

/// Whether these bytes start with a complete record with a correct hash: a last line whose newline was changed, not a
/// truncated one.
pub(super) fn starts_with_record(bytes: &[u8]) -> bool {
    let (mut hasher, mut hashed) = (blake3::Hasher::new(), 0);
    memchr::memmem::find_iter(bytes, SEAL).any(|at| {
        // Bytes between two positions are hashed once, however many positions there are.
        hasher.update(bytes.get(hashed..at).unwrap_or_default());
        hashed = at;
        let line = bytes.get(..at + SEALED).filter(|line| line.len() < bytes.len());
        line.and_then(claimed).is_some_and(|(hash, _)| Hash::from(hasher.finalize()) == hash)
    })
}

/// Reads a line, without its newline.
pub(super) fn decode(line: &[u8]) -> Result<Decoded, Fault> {
    let not_json = |error: serde_json::Error| Fault::NotARecord(error.to_string());
    // The version comes first: a later version may hash its lines differently. Lines in our own version skip this
    // check.
    if !line.starts_with(OURS) {
        let Version { v } = serde_json::from_slice(line).map_err(not_json)?;
        if v != super::VERSION {
            return Err(Fault::Version(v));
        }
    }
    let (hash, sealed) =
        claimed(line).ok_or_else(|| Fault::NotARecord("the line does not end with its hash".to_owned()))?;
    if Hash::of(sealed) != hash {
        return Err(Fault::Changed);
    }
    let envelope: Envelope<'_> = serde_json::from_slice(line).map_err(not_json)?;
    if envelope.v != super::VERSION {
        return Err(Fault::Version(envelope.v));
    }
    let parents = match (envelope.prev, envelope.heads) {
        (Some(prev), None) => Parents::Prev(prev),
        (None, Some(heads)) => Parents::Heads(heads),
        _ => return Err(Fault::NotARecord("expected either `heads` or `prev`".to_owned())),
    };
    let body = Body::from_json(envelope.body).map_err(Fault::NotARecord)?;
    Ok(Decoded { hash, parents, segment: envelope.segment, body })
}
