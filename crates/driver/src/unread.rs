//! Errors that no call returned to the program.
//!
//! The driver records the error that a failed kernel leaves in its context; it counts as read when a later call returns it. The runtime
//! API has a last error per thread, which `cudaGetLastError` reads: the runtime calls [`error_happened`] and [`error_read`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use warpproof_diagnostic::host::HostClass;

use crate::driver::{Driver, driver};
use crate::report::HostFinding;
use crate::site::Site;

/// Errors that are remembered.
const MOST: usize = 1024;

/// Whether a context has an error that no call has returned yet: then failing calls look for it.
static PENDING: AtomicBool = AtomicBool::new(false);

/// An error that no call has returned yet.
#[derive(Clone, Debug)]
struct Pending {
    code: u32,
    /// The error's name.
    error: String,
    /// What failed, for a sentence.
    what: String,
    site: Site,
}

/// Errors that no call has returned yet.
#[derive(Debug, Default)]
pub struct Unread {
    contexts: BTreeMap<u64, Pending>,
    threads: BTreeMap<u64, Pending>,
}

impl Unread {
    /// A context got a sticky error.
    pub fn poisoned(&mut self, context: u64, code: u32, what: &str, site: Site) {
        PENDING.store(true, Ordering::Relaxed);
        if self.contexts.len() < MOST {
            let error = crate::abi::error_name(code).unwrap_or_else(|| format!("error {code}"));
            self.contexts.entry(context).or_insert_with(|| Pending {
                code,
                error,
                what: what.to_owned(),
                site,
            });
        }
    }

    /// A call returned an error.
    pub fn returned(&mut self, code: u32) {
        self.contexts.retain(|_, pending| pending.code != code);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Unread::default();
    }
}

/// A call returned an error to the program.
pub fn call_failed(code: u32) {
    if PENDING.load(Ordering::Relaxed) {
        let mut driver = driver();
        driver.unread.returned(code);
        PENDING.store(!driver.unread.contexts.is_empty(), Ordering::Relaxed);
    }
}

/// A call of the runtime API failed; the thread's last error is this one until the program reads it.
pub fn error_happened(thread: u64, code: u32, error: &str, what: &str, site: Site) {
    let mut driver = driver();
    let threads = &mut driver.unread.threads;
    if threads.len() < MOST {
        let (error, what) = (error.to_owned(), what.to_owned());
        threads.entry(thread).or_insert_with(|| Pending { code, error, what, site });
    }
}

/// The program read the thread's last error, or a call returned it.
pub fn error_read(thread: u64) {
    driver().unread.threads.remove(&thread);
}

impl Driver {
    /// Reports the errors that were never read, when the program ends.
    pub fn report_unread(&mut self) {
        let Unread { contexts, threads } = std::mem::take(&mut self.unread);
        for pending in contexts.into_values().chain(threads.into_values()) {
            let Pending { error, what, site, .. } = pending;
            let mut finding = HostFinding::new(
                HostClass::UnreadError,
                format!("{what} failed with {error}, and the program ends without reading the error"),
            )
            .at(what, site)
            .help("synchronize after the launch and check the result");
            finding.warning = true;
            self.report_host(&finding);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_read_when_a_call_returns_it() {
        let mut unread = Unread::default();
        unread.poisoned(1, 700, "kernel `k`", Site::default());
        unread.returned(1);
        assert_eq!(unread.contexts.len(), 1);
        unread.returned(700);
        assert!(unread.contexts.is_empty());
    }
}
