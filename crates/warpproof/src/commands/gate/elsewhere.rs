//! A run of the gate on a fleet.

#[cfg(feature = "fleet")]
mod client;

#[cfg(not(feature = "fleet"))]
impl super::Gate {
    /// Reports that this build has no client.
    #[expect(clippy::unused_self, reason = "with the client it reads the flags")]
    pub(super) fn elsewhere(
        &self,
        _: &warpproof_task::Task,
        _: &str,
        _: &mut crate::terminal::Terminal,
    ) -> Result<crate::report::Outcome, Vec<crate::report::Report>> {
        Err(vec![*crate::commands::fleet::absent()])
    }
}
