//! The protocol between the gate and the process that drives a device: one line of JSON in each direction.

use serde::{Deserialize, Serialize};
use warpproof_gpu::{Batch, Identity, Launch, Memory, ModuleId};
use warpproof_speed::Reading;

/// A request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "op")]
pub(super) enum Request {
    /// Open a device; the first request.
    Open {
        device: u32,
        /// MHz to which the multiprocessor clock is pinned.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pin_mhz: Option<u32>,
    },
    /// Release the clocks that an earlier process pinned.
    Release,
    Load {
        ptx: String,
    },
    Unload {
        module: ModuleId,
    },
    Allocate {
        bytes: usize,
    },
    Free {
        memory: Memory,
    },
    Write {
        memory: Memory,
        hex: String,
    },
    Read {
        memory: Memory,
    },
    /// Write a variable of a module.
    Set {
        module: ModuleId,
        symbol: String,
        hex: String,
    },
    Launch {
        launch: Launch,
    },
    Time {
        launches: Vec<Launch>,
        repeat: u32,
        batch: Batch,
        cold: bool,
    },
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "answer")]
pub(super) enum Answer {
    Opened {
        identity: Identity,
        /// Skipped steps, with reasons.
        notes: Vec<String>,
    },
    Loaded {
        module: ModuleId,
    },
    Allocated {
        memory: Memory,
    },
    Bytes {
        hex: String,
    },
    Timed {
        elapsed_ps: u64,
        before: Reading,
        after: Reading,
    },
    Done,
    Error {
        error: String,
    },
}

/// Bytes as text.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Text as bytes.
pub(super) fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_through_text() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(bytes(&hex(&all)), Some(all));
        assert_eq!((bytes("0"), bytes("0g"), bytes("é0"), bytes("")), (None, None, None, Some(Vec::new())));
    }
}
