//! Why a request failed.

use std::fmt;

use warpproof_kernels::PlanError;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The request contradicts itself, or an argument does not fit it.
    Invalid(String),
    /// The request is valid, but the library has no kernel for it, or the device cannot run one.
    Unsupported(String),
    /// The driver is missing, too old, or rejected a call.
    Driver(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Invalid(text) | Error::Unsupported(text) | Error::Driver(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {}

impl From<PlanError> for Error {
    fn from(error: PlanError) -> Error {
        match error {
            PlanError::Unsupported { .. } | PlanError::Device(_) => Error::Unsupported(error.to_string()),
            _ => Error::Invalid(error.to_string()),
        }
    }
}
