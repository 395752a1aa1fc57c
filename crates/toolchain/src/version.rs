//! Versions of CUDA's parts, and which ptxas a PTX version requires.

use std::fmt;

use serde::{Serialize, Serializer};

/// A CUDA version. The patch is 0 if a part does not report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// 12 in 12.9.86.
    pub major: u32,
    /// 9 in 12.9.86.
    pub minor: u32,
    /// 86 in 12.9.86.
    pub patch: u32,
}

impl Version {
    /// A version without a patch.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor, patch: 0 }
    }

    /// Parses `12.9` or `12.9.86`; further parts are ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?.parse().ok()?;
        let patch = parts.next().and_then(|p| p.parse().ok()).unwrap_or(0);
        Some(Self { major, minor, patch })
    }

    /// Finds `V12.9.86` in the `--version` output of an NVIDIA program.
    pub(crate) fn in_banner(banner: &str) -> Option<Self> {
        banner.split([' ', ',', '\n', '\r']).find_map(|word| Self::parse(word.strip_prefix('V')?))
    }

    /// `CUDA_VERSION` of the headers: 12090 is 12.9.
    pub(crate) fn from_cuda_version(number: u32) -> Self {
        Self::new(number / 1000, number % 1000 / 10)
    }

    /// Whether both belong to the same release of CUDA (the patch may differ).
    pub fn same_release(self, other: Self) -> bool {
        (self.major, self.minor) == (other.major, other.minor)
    }

    /// The version without its patch.
    #[must_use]
    pub fn release(self) -> Self {
        Self::new(self.major, self.minor)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        if self.patch != 0 {
            write!(f, ".{}", self.patch)?;
        }
        Ok(())
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The PTX version in a module's `.version` directive.
pub fn ptx_version(ptx: &str) -> Option<(u32, u32)> {
    // The directive is the first one of the module; only comments may precede it.
    let mut in_comment = false;
    for line in ptx.lines().take(4096) {
        let mut line = line.trim();
        if in_comment {
            let Some(end) = line.find("*/") else { continue };
            line = line[end + 2..].trim();
            in_comment = false;
        }
        while let Some(rest) = line.strip_prefix("/*") {
            if let Some(end) = rest.find("*/") {
                line = rest[end + 2..].trim();
            } else {
                in_comment = true;
                line = "";
            }
        }
        if let Some(rest) = line.strip_prefix(".version") {
            let number = rest.trim().split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
            let (major, minor) = number.split_once('.')?;
            return Some((major.parse().ok()?, minor.parse().ok()?));
        }
    }
    None
}

/// The first release of CUDA whose ptxas accepts a PTX version: the release table of the PTX manual.
pub fn ptxas_needed(ptx: (u32, u32)) -> Version {
    match ptx {
        (..=5, _) => Version::new(9, 0),
        (6, minor @ 0..=2) => Version::new(9, minor),
        (6, minor) => Version::new(10, minor.saturating_sub(3)),
        (7, minor) => Version::new(11, minor),
        (8, minor @ 0..=5) => Version::new(12, minor),
        // CUDA 12.6 kept PTX 8.5, so the minor versions differ by one from here to the end of CUDA 12.
        (8, minor) => Version::new(12, minor.saturating_add(1)),
        (major, minor) => Version::new(major.saturating_add(4), minor),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_banners_and_orders() {
        let banner =
            "ptxas: NVIDIA (R) Ptx optimizing assembler\nCuda compilation tools, release 12.9, V12.9.86\n";
        let v = Version::in_banner(banner).unwrap();
        assert_eq!(v, Version { major: 12, minor: 9, patch: 86 });
        assert_eq!(v.to_string(), "12.9.86");
        assert!(v > Version::new(12, 9) && v < Version::new(13, 0) && v.same_release(Version::new(12, 9)));
        assert_eq!(Version::from_cuda_version(13020), Version::new(13, 2));
        assert_eq!(Version::in_banner("no version here"), None);
        assert_eq!(Version::parse("12"), None);
    }

    #[test]
    fn knows_which_ptxas_a_module_needs() {
        for (ptx, cuda) in [
            ((6, 0), (9, 0)),
            ((6, 3), (10, 0)),
            ((6, 5), (10, 2)),
            ((7, 8), (11, 8)),
            ((8, 5), (12, 5)),
            ((8, 6), (12, 7)),
            ((8, 8), (12, 9)),
            ((9, 0), (13, 0)),
            ((9, 2), (13, 2)),
        ] {
            assert_eq!(ptxas_needed(ptx), Version::new(cuda.0, cuda.1), "PTX {ptx:?}");
        }
    }

    #[test]
    fn finds_the_version_directive() {
        assert_eq!(
            ptx_version("//\n// made by hand\n/* a\n.version 1.0\n*/ .version 8.8\n.target sm_89\n"),
            Some((8, 8))
        );
        assert_eq!(ptx_version(".version 6.4 .target sm_75"), Some((6, 4)));
        assert_eq!(ptx_version("no directive"), None);
        assert_eq!(ptx_version(".version x"), None);
    }
}
