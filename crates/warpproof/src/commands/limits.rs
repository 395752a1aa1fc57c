//! Flags that limit the work and the memory of launches, the same for every command that executes kernels.

use clap::Args;
use warpproof_gate::limits::Allowance;

/// The limits of a launch.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct LimitFlags {
    /// Stop a launch after N warp instructions [default: 300000000]
    ///
    /// With checks, the default is 50000000. Starting a block counts as about 70. With the defaults, a
    /// launch takes up to about a minute on two cores, or several minutes if most instructions are atomics.
    #[arg(long, value_name = "N")]
    max_instructions: Option<u64>,
    /// Limit the memory of a launch, in bytes or as 512M or 8G [default: 1G]
    ///
    /// Includes arrays, copies of them, and the checks' record of each access.
    #[arg(long, value_name = "BYTES", value_parser = size)]
    max_memory: Option<u64>,
}

impl LimitFlags {
    /// The limits set by the flags.
    pub(crate) fn allowance(self) -> Allowance {
        Allowance::new(self.max_instructions, self.max_memory)
    }
}

/// `1024`, `64K`, `512M` or `8G`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let upper = text.to_ascii_uppercase();
    let (digits, shift) = match upper.as_bytes().last() {
        Some(b'K') => (&upper[..upper.len() - 1], 10),
        Some(b'M') => (&upper[..upper.len() - 1], 20),
        Some(b'G') => (&upper[..upper.len() - 1], 30),
        _ => (upper.as_str(), 0),
    };
    let value: u64 =
        digits.parse().map_err(|_| "expected bytes, such as 1024, 64K, 512M or 8G".to_owned())?;
    value.checked_mul(1 << shift).ok_or_else(|| "expected a size that fits 64 bits".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(size("1024"), Ok(1024));
        assert_eq!(size("64k"), Ok(65536));
        assert_eq!(size("8G"), Ok(8 << 30));
        assert!(size("").is_err() && size("K").is_err() && size("-1").is_err() && size("é").is_err());
        assert!(size("99999999999999G").is_err());
    }
}
