//! Names by content: BLAKE3, written as 64 lowercase hexadecimal digits.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The BLAKE3 hash of some bytes. Sorts like its text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash([u8; 32]);

/// A text that is not 64 lowercase hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAHash;

impl Hash {
    /// The number of digits of the text.
    pub const DIGITS: usize = 64;

    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        blake3::hash(bytes).into()
    }

    /// The hash of several pieces. Each is preceded by its length, so that different lists of pieces have different
    /// hashes.
    pub fn of_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for piece in pieces {
            hasher.update(&u64::try_from(piece.len()).unwrap_or(u64::MAX).to_le_bytes());
            hasher.update(piece);
        }
        hasher.finalize().into()
    }

    /// The hash of a reader's content, without holding it in memory.
    pub fn of_reader(reader: impl std::io::Read) -> std::io::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(reader)?;
        Ok(hasher.finalize().into())
    }

    /// Parses a hash from bytes. Uppercase digits are refused: a name has one spelling.
    pub fn from_hex(text: &[u8]) -> Result<Self, NotAHash> {
        let (pairs, []) = text.as_chunks::<2>() else { return Err(NotAHash) };
        let pairs: &[[u8; 2]; 32] = pairs.try_into().map_err(|_| NotAHash)?;
        let mut bytes = [0; 32];
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Ok(Self(bytes))
    }

    /// Its 32 bytes, for tables that store them in this form.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The hash of 32 bytes that [`as_bytes`](Self::as_bytes) gave.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NotAHash> {
        bytes.try_into().map(Self).map_err(|_| NotAHash)
    }

    /// Its first twelve digits: for display, not for programs.
    pub fn short(&self) -> String {
        self.to_string().chars().take(12).collect()
    }

    /// The lowest and the highest hash with this prefix; `None` if the text is not a prefix of a hash.
    pub(crate) fn range_of(prefix: &str) -> Option<(Self, Self)> {
        let (mut low, mut high) = ([b'0'; Self::DIGITS], [b'f'; Self::DIGITS]);
        low.get_mut(..prefix.len())?.copy_from_slice(prefix.as_bytes());
        high.get_mut(..prefix.len())?.copy_from_slice(prefix.as_bytes());
        Some((Self::from_hex(&low).ok()?, Self::from_hex(&high).ok()?))
    }
}

/// An incremental hash.
#[derive(Clone, Debug, Default)]
pub struct Hasher(blake3::Hasher);

impl Hasher {
    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of all bytes so far.
    pub fn hash(&self) -> Hash {
        self.0.finalize().into()
    }
}

fn digit(text: u8) -> Result<u8, NotAHash> {
    match text {
        b'0'..=b'9' => Ok(text - b'0'),
        b'a'..=b'f' => Ok(text - b'a' + 10),
        _ => Err(NotAHash),
    }
}

impl From<blake3::Hash> for Hash {
    fn from(hash: blake3::Hash) -> Self {
        Self(*hash.as_bytes())
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(blake3::Hash::from_bytes(self.0).to_hex().as_str())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Hash {
    type Err = NotAHash;

    fn from_str(text: &str) -> Result<Self, NotAHash> {
        Self::from_hex(text.as_bytes())
    }
}

impl fmt::Display for NotAHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected 64 lowercase hexadecimal digits")
    }
}

impl std::error::Error for NotAHash {}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::from_hex(text.as_bytes()).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let hash = Hash::of(b"warp");
        assert_eq!(hash.to_string().parse(), Ok(hash));
        assert_eq!(hash.to_string().to_uppercase().parse::<Hash>(), Err(NotAHash));
        assert_eq!("".parse::<Hash>(), Err(NotAHash));
        assert_eq!("é".repeat(32).parse::<Hash>(), Err(NotAHash));
        assert_eq!(hash, Hash::of_reader(&b"warp"[..]).expect("memory can be read"));
    }

    #[test]
    fn pieces_are_kept_apart() {
        assert_ne!(Hash::of_pieces([&b"ab"[..], b"c"]), Hash::of_pieces([&b"a"[..], b"bc"]));
    }

    #[test]
    fn a_prefix_is_a_range() {
        let hash = Hash::of(b"warp");
        let text = hash.to_string();
        for digits in 0..=Hash::DIGITS {
            let (low, high) = Hash::range_of(&text[..digits]).expect("it is a prefix");
            assert!(low <= hash && hash <= high);
        }
        for bad in ["g", "A", "é", &format!("{text}0")] {
            assert!(Hash::range_of(bad).is_none(), "{bad}");
        }
    }
}
