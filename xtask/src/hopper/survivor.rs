//! Mutants without a finding and with correct results: equivalent to the kernel, or missed, each with the reason.

/// Why a mutant survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// It behaves as the kernel does, in every order that the hardware may choose.
    Equivalent(&'static str),
    /// It is wrong, and the checks do not find it.
    Missed(&'static str),
}

/// An explained survivor.
pub(super) struct Survivor {
    pub(super) kernel: &'static str,
    pub(super) line: u32,
    pub(super) label: &'static str,
    pub(super) reason: Reason,
}

/// The explanation of a mutant, if it has one.
pub(super) fn explanation(kernel: &str, line: u32, label: &str) -> Option<&'static Survivor> {
    SURVIVORS.iter().find(|known| known.kernel == kernel && known.line == line && known.label == label)
}

pub(super) static SURVIVORS: &[Survivor] = &[];
