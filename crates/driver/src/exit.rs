//! What is reported when the program ends: memory that was never freed, errors that were never read.
//!
//! The dynamic linker calls `end` after the destructors of the program and of the libraries that use this one, so memory that these
//! free is not a leak. A program that is killed, or calls `_exit`, gets no such report.
#![expect(unsafe_code, reason = "a function pointer in a section of the library")]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use warpproof_diagnostic::host::HostClass;

use crate::driver::{Driver, at_end};
use crate::memory::Kind;
use crate::misuse::named;
use crate::report::HostFinding;
use crate::settings::Leaks;
use crate::site::Site;

// SAFETY: the linker calls the function once, without arguments, when the library ends.
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

extern "C" fn end() {
    // A panic must not leave the library.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        at_end(|driver| {
            driver.report.count();
            driver.report_accesses();
            driver.guards.set(&[]);
            driver.report_unread();
            driver.report_leaks();
        });
    }));
}

/// Whether the process is a Python interpreter: frameworks keep their memory until the end there.
fn is_python() -> bool {
    let own = std::env::current_exe().ok();
    own.as_deref()
        .and_then(|path| path.file_name())
        .is_some_and(|name| name.to_string_lossy().starts_with("python"))
}

impl Driver {
    /// Reports memory that was never freed, once for each place that allocates it.
    pub fn report_leaks(&mut self) {
        let leaks = self.settings.leaks.unwrap_or(if is_python() { Leaks::Off } else { Leaks::Warn });
        if leaks == Leaks::Off {
            return;
        }
        let mut sites: BTreeMap<(Site, &str), (u64, u64)> = BTreeMap::new();
        for allocation in self.memory.values() {
            // After an error no memory can be freed. Memory of graphs belongs to their nodes.
            let failed = self.contexts.get(&allocation.context).is_none_or(|context| context.error.is_some());
            if failed || allocation.live.is_some() || allocation.kind == Kind::Registered {
                continue;
            }
            let (count, bytes) = sites.entry((allocation.site, named(allocation.kind))).or_default();
            *count += 1;
            *bytes += allocation.size;
        }
        for ((site, kind), (count, bytes)) in sites {
            let sentence = if count == 1 {
                format!("{bytes} bytes of {kind} are never freed")
            } else {
                format!("{bytes} bytes of {kind} in {count} allocations are never freed")
            };
            let mut finding = HostFinding::new(HostClass::MemoryLeak, sentence).at("the allocation", site);
            finding.warning = leaks == Leaks::Warn;
            finding.count = count;
            self.report_host(&finding);
        }
    }
}
