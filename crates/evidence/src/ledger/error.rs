//! Errors of a ledger.

use super::line::Fault;
use crate::hash::Hash;
use crate::record::Invalid;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why an operation on a ledger failed.
#[derive(Debug)]
pub enum LedgerError {
    /// The system refused to read or write a file.
    Io(PathBuf, io::Error),
    /// No ledger exists at this path.
    Absent(PathBuf),
    /// The `FORMAT` file has content that no Warpproof writes.
    Foreign(PathBuf),
    /// The ledger has a version that this Warpproof does not know.
    Version(PathBuf, String),
    /// A line differs from what was written.
    Damaged(Problem),
    /// A body may not be written.
    Invalid(Invalid),
    /// A body names an object that the ledger does not hold.
    NoSuchObject(Hash),
    /// The bytes of an object do not match its name.
    DamagedObject(Hash),
    /// A record or an object is larger than the format allows.
    TooLarge {
        /// What it is.
        what: &'static str,
        /// Its size in bytes.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// No record has this name.
    NoSuchRecord(String),
    /// Several records match; the first few are listed.
    Ambiguous(String, Vec<Hash>),
    /// The start of a hash has at least [`super::MIN_PREFIX`] lowercase hexadecimal digits.
    NotAPrefix(String),
    /// A table could not be written.
    Export(String),
}

/// A problem in a ledger: where and what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, relative to the ledger, with `/` between its parts.
    pub file: String,
    /// The line, from 1, if a line is the cause.
    pub line: Option<u64>,
    /// The problem.
    pub fault: Fault,
}

impl LedgerError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |error| Self::Io(path, error)
    }

    /// The exit code of a command that ends with it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Version(..) | Self::Damaged(Problem { fault: Fault::Version(_), .. }) => 3,
            Self::Damaged(_) | Self::DamagedObject(_) => 1,
            Self::TooLarge { .. } => 4,
            _ => 2,
        }
    }
}

impl fmt::Display for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Absent(path) => write!(f, "{} is not a ledger: it has no file FORMAT", path.display()),
            Self::Foreign(path) => {
                write!(
                    f,
                    "{} is not a ledger: its file FORMAT does not contain `warpproof ledger`",
                    path.display()
                )
            }
            Self::Version(path, version) => write!(
                f,
                "{} is a ledger of version {version}; this warpproof supports only version {}",
                path.display(),
                super::VERSION
            ),
            Self::Damaged(problem) => write!(f, "the ledger is damaged: {problem}"),
            Self::Invalid(invalid) => write!(f, "invalid record: {invalid}"),
            Self::NoSuchObject(hash) => write!(f, "the ledger has no object {hash}"),
            Self::DamagedObject(hash) => {
                write!(f, "object {hash} is damaged: its bytes do not match its hash")
            }
            Self::TooLarge { what, bytes, limit } => {
                write!(f, "{what} has {bytes} bytes; the maximum is {limit}")
            }
            Self::NoSuchRecord(name) => write!(f, "the ledger has no record {name}"),
            Self::Ambiguous(prefix, some) => {
                write!(f, "several records start with {prefix}:")?;
                some.iter().try_for_each(|hash| write!(f, " {hash}"))
            }
            Self::NotAPrefix(text) => write!(
                f,
                "expected {} to {} lowercase hexadecimal digits, found `{text}`",
                super::MIN_PREFIX,
                Hash::DIGITS
            ),
            Self::Export(why) => write!(f, "cannot write the table: {why}"),
        }
    }
}

impl std::error::Error for LedgerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(_, error) => Some(error),
            Self::Invalid(invalid) => Some(invalid),
            _ => None,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.fault),
            None => write!(f, "{}: {}", self.file, self.fault),
        }
    }
}
