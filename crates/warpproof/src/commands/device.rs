//! The GPU that a command uses: the software GPU, or a CUDA device of this machine.

use std::fmt;

use warpproof_gate::gpu::CudaError;

use crate::report::{Kind, Report};

/// A GPU by its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// The software GPU.
    Software,
    /// A CUDA device, by its number.
    Cuda(u32),
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Where::Software => f.write_str("software"),
            Where::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

/// Reads `software`, `cuda` or `cuda:N`.
pub(crate) fn parse(text: &str) -> Result<Where, String> {
    let number = match text {
        "software" => return Ok(Where::Software),
        "cuda" => Some(0),
        _ => text.strip_prefix("cuda:").and_then(|number| number.parse().ok()),
    };
    number.map(Where::Cuda).ok_or_else(|| "expected software or cuda:N".to_owned())
}

/// Like [`parse`], for commands with checks or counters: only the software GPU supports them.
pub(crate) fn listening(text: &str) -> Result<Where, String> {
    match parse(text)? {
        Where::Software => Ok(Where::Software),
        Where::Cuda(_) => {
            Err("checks and counters require the software GPU: a CUDA device does not report its accesses; \
             `warpproof run` supports CUDA devices"
                .to_owned())
        }
    }
}

/// A device error as a report.
pub(crate) fn report(error: &CudaError) -> Report {
    let kind = match error {
        CudaError::Call { name, .. } => match name.as_str() {
            "CUDA_ERROR_ILLEGAL_ADDRESS"
            | "CUDA_ERROR_MISALIGNED_ADDRESS"
            | "CUDA_ERROR_INVALID_ADDRESS_SPACE"
            | "CUDA_ERROR_INVALID_PC"
            | "CUDA_ERROR_ILLEGAL_INSTRUCTION"
            | "CUDA_ERROR_HARDWARE_STACK_ERROR"
            | "CUDA_ERROR_LAUNCH_FAILED"
            | "CUDA_ERROR_ASSERT"
            | "CUDA_ERROR_INVALID_PTX" => Kind::Kernel,
            "CUDA_ERROR_OUT_OF_MEMORY"
            | "CUDA_ERROR_LAUNCH_TIMEOUT"
            | "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES" => Kind::Limit,
            _ => Kind::Missing,
        },
        CudaError::NoDriver(_) | CudaError::NoDevice { .. } => Kind::Missing,
        CudaError::Request(_) => Kind::Usage,
    };
    let report = Report::error(kind, error.to_string());
    match error {
        CudaError::NoDriver(_) => report.help("omit --device: the software GPU needs no driver"),
        CudaError::Call { .. } if kind == Kind::Kernel => report
            .help("`warpproof check` runs the same launch on the software GPU and reports where it fails"),
        _ => report,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read() {
        assert_eq!(parse("software"), Ok(Where::Software));
        assert_eq!((parse("cuda"), parse("cuda:3")), (Ok(Where::Cuda(0)), Ok(Where::Cuda(3))));
        assert!(parse("cuda:").is_err() && parse("cuda:-1").is_err() && parse("gpu").is_err());
        assert_eq!(listening("software"), Ok(Where::Software));
        assert!(listening("cuda:0").is_err_and(|why| why.contains("does not report its accesses")));
    }
}
