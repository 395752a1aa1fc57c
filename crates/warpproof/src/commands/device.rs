//! Which GPU a command is about: the software GPU, or a CUDA device of this machine.

use std::fmt;

use warpproof_gpu::CudaError;

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
    number.map(Where::Cuda).ok_or_else(|| "write software, or cuda:N for a CUDA device".to_owned())
}

/// As [`parse`], for commands that listen to what a kernel does: only the software GPU can be listened to.
pub(crate) fn listening(text: &str) -> Result<Where, String> {
    match parse(text)? {
        Where::Software => Ok(Where::Software),
        Where::Cuda(_) => Err(
            "checks and counters listen to every access of the software GPU, and a CUDA device lets nobody \
             listen; `warpproof run` runs on one"
                .to_owned(),
        ),
    }
}

/// What a device said, as a report.
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
        CudaError::NoDriver(_) => report.help("leave --device out: the software GPU needs no driver"),
        CudaError::Call { .. } if kind == Kind::Kernel => report
            .help("`warpproof check` runs the same launch on the software GPU and says where it goes wrong"),
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
        assert!(listening("cuda:0").is_err_and(|why| why.contains("lets nobody listen")));
    }
}
