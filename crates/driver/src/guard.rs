//! Pages of the program's memory that the host must not access yet, and the accesses that it makes all the same.
//!
//! The pages are protected with `mprotect`; the first access to a protected range raises SIGSEGV. Our handler makes the range
//! accessible again, stores the access with its call site, and the program continues. Faults elsewhere go to the handler that was
//! installed before. The library uses another mapping of the same memory (`host`), which is never protected.
//!
//! The handler takes no lock and allocates nothing: ranges and accesses are in static tables of atomic numbers.
#![expect(unsafe_code, reason = "it protects pages and handles a signal")]

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use crate::site::Site;

/// Ranges that are protected at once.
const MOST: usize = 256;
/// Accesses that are stored until the next call of the API.
const KEPT: usize = 64;
/// `si_errno`, which is 0 for a fault, of a signal that we passed to another handler.
const PASSED: c_int = 0x5750;
/// Handlers of the program that are remembered. If the program changes its handler more often, nothing is protected.
const MOST_HANDLERS: usize = 16;

/// What the host may not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Forbidden {
    /// Write: a device may still read the bytes.
    Writes,
    /// Read and write: a device may still write the bytes.
    Accesses,
}

impl Forbidden {
    fn protection(self) -> c_int {
        match self {
            Forbidden::Writes => libc::PROT_READ,
            Forbidden::Accesses => libc::PROT_NONE,
        }
    }
}

/// Whole pages with what is forbidden there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pages {
    /// The addresses: whole pages of memory that the library allocated.
    pub range: Range<u64>,
    /// What the host may not do.
    pub forbidden: Forbidden,
}

/// An access of the host to a protected range.
#[derive(Clone, Copy, Debug)]
pub struct HostAccess {
    /// The first byte.
    pub address: u64,
    /// Whether it writes; `None` if the processor does not report it.
    pub writes: Option<bool>,
    /// The access, and its callers.
    pub site: Site,
}

/// A protected range, for the handler. A version that is odd, or changes meanwhile, means that the range is being changed.
struct Slot {
    version: AtomicUsize,
    start: AtomicUsize,
    end: AtomicUsize,
}

impl Slot {
    /// Changes the range. Only the holder of the driver's lock does.
    fn set(&self, start: usize, end: usize) {
        self.version.fetch_add(1, Ordering::SeqCst);
        self.start.store(start, Ordering::SeqCst);
        self.end.store(end, Ordering::SeqCst);
        self.version.fetch_add(1, Ordering::SeqCst);
        CHANGES.fetch_add(1, Ordering::SeqCst);
    }

    fn containing(&self, address: usize) -> Option<Range<usize>> {
        let before = self.version.load(Ordering::SeqCst);
        let range = self.start.load(Ordering::SeqCst)..self.end.load(Ordering::SeqCst);
        let same = before.is_multiple_of(2) && before == self.version.load(Ordering::SeqCst);
        (same && range.contains(&address)).then_some(range)
    }
}

/// A stored access. State: 0 free, 1 being written, 2 complete.
struct Stored {
    state: AtomicUsize,
    address: AtomicUsize,
    /// 0 reads, 1 writes, 2 unknown.
    kind: AtomicUsize,
    site: [AtomicUsize; Site::LENGTH],
}

static SLOTS: [Slot; MOST] =
    [const { Slot { version: AtomicUsize::new(0), start: AtomicUsize::new(0), end: AtomicUsize::new(0) } };
        MOST];
static STORED: [Stored; KEPT] = [const {
    Stored {
        state: AtomicUsize::new(0),
        address: AtomicUsize::new(0),
        kind: AtomicUsize::new(0),
        site: [const { AtomicUsize::new(0) }; Site::LENGTH],
    }
}; KEPT];
/// Counts changes of the slots.
static CHANGES: AtomicUsize = AtomicUsize::new(0);
/// Whether an access is stored.
static ACCESSED: AtomicBool = AtomicBool::new(false);
/// Whether the protected ranges are not those that they should be.
static STALE: AtomicBool = AtomicBool::new(false);
/// The handler to which other faults go, and the one before our first. Never freed, because a handler may use them at any time.
static NEXT: AtomicPtr<libc::sigaction> = AtomicPtr::new(null_mut());
static FIRST: AtomicPtr<libc::sigaction> = AtomicPtr::new(null_mut());
static HANDLERS: AtomicUsize = AtomicUsize::new(0);
/// The last fault that was not in a slot, and the number of changes at that time.
static LAST: AtomicUsize = AtomicUsize::new(0);
static LAST_CHANGES: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Whether the host made an access that is not evaluated yet.
pub fn accessed() -> bool {
    ACCESSED.load(Ordering::Acquire)
}

/// Marks the protected ranges as out of date; [`Guards::set`] must be called before the API call ends.
pub fn changed() {
    STALE.store(true, Ordering::Release);
}

/// Whether the protected ranges are out of date.
pub fn stale() -> bool {
    STALE.load(Ordering::Acquire)
}

/// Takes the stored accesses.
pub fn take() -> Vec<HostAccess> {
    ACCESSED.store(false, Ordering::Release);
    let mut taken = Vec::new();
    for stored in &STORED {
        if stored.state.load(Ordering::Acquire) != 2 {
            continue;
        }
        let writes = match stored.kind.load(Ordering::Relaxed) {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        };
        let address = u64::try_from(stored.address.load(Ordering::Relaxed)).unwrap_or(0);
        let site = Site::of(stored.site.each_ref().map(|frame| frame.load(Ordering::Relaxed)));
        stored.state.store(0, Ordering::Release);
        taken.push(HostAccess { address, writes, site });
    }
    taken
}

/// The protected ranges.
#[derive(Debug, Default)]
pub struct Guards {
    /// With the index of the slot.
    current: Vec<(Pages, usize)>,
}

impl Guards {
    /// Protects these ranges, which are sorted and do not overlap, and no others.
    pub fn set(&mut self, wanted: &[Pages]) {
        STALE.store(false, Ordering::Release);
        let gone = self.current.extract_if(.., |(pages, _)| !wanted.contains(pages));
        for (pages, slot) in gone {
            protect(&pages.range, libc::PROT_READ | libc::PROT_WRITE);
            if let Some(slot) = SLOTS.get(slot) {
                slot.set(0, 0);
            }
        }
        let more: Vec<&Pages> =
            wanted.iter().filter(|pages| self.current.iter().all(|(old, _)| old != *pages)).collect();
        if more.is_empty() || !install() {
            return;
        }
        for pages in more {
            let free = (0..MOST).find(|slot| self.current.iter().all(|(_, used)| used != slot));
            let Some((index, slot)) = free.and_then(|index| Some((index, SLOTS.get(index)?))) else { return };
            let (Ok(start), Ok(end)) = (usize::try_from(pages.range.start), usize::try_from(pages.range.end))
            else {
                continue;
            };
            slot.set(start, end);
            protect(&pages.range, pages.forbidden.protection());
            self.current.push((pages.clone(), index));
        }
    }

    /// The range of an access, which the handler has made accessible. It is not protected from now on.
    pub fn opened(&mut self, address: u64) -> Option<Range<u64>> {
        let at = self.current.iter().position(|(pages, _)| pages.range.contains(&address))?;
        let (pages, slot) = self.current.swap_remove(at);
        if let Some(slot) = SLOTS.get(slot) {
            slot.set(0, 0);
        }
        Some(pages.range)
    }
}

fn protect(range: &Range<u64>, protection: c_int) {
    let (Ok(start), Ok(length)) = (usize::try_from(range.start), usize::try_from(range.end - range.start))
    else {
        return;
    };
    // SAFETY: these are whole pages of memory that `host` mapped for the program and has not unmapped; the library has no references
    // into them, because it uses their other mapping. If the call fails, an access is not observed, or observed late.
    unsafe { libc::mprotect(std::ptr::with_exposed_provenance_mut(start), length, protection) };
}

type Handler = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// The address of our handler.
fn own() -> usize {
    let handler: Handler = fault;
    #[expect(clippy::as_conversions, reason = "a function's address has no other conversion")]
    (handler as *const ()).addr()
}

/// Installs the handler, again if the program has replaced it. Returns whether it is installed.
fn install() -> bool {
    Site::prepare();
    // SAFETY: all bytes zero is a valid `sigaction`: the default action with an empty mask.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: reads the current action into a live variable.
    if unsafe { libc::sigaction(libc::SIGSEGV, std::ptr::null(), &raw mut now) } != 0 {
        return false;
    }
    if now.sa_sigaction == own() {
        return true;
    }
    if HANDLERS.fetch_add(1, Ordering::SeqCst) >= MOST_HANDLERS {
        return false;
    }
    let before = Box::into_raw(Box::new(now));
    // The handler needs them from its first moment on.
    NEXT.store(before, Ordering::SeqCst);
    let _ = FIRST.compare_exchange(null_mut(), before, Ordering::SeqCst, Ordering::SeqCst);
    // SAFETY: as above.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = own();
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the action is complete, and its handler never returns into freed code: this library is not unloaded.
    unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, null_mut()) == 0 }
}

unsafe extern "C" fn fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes valid information for a fault.
    let (address, code, passed) =
        unsafe { ((*info).si_addr().addr(), (*info).si_code, (*info).si_errno == PASSED) };
    // Positive: a fault, not a signal that a process sent.
    if code > 0 && !passed {
        if let Some(range) = SLOTS.iter().find_map(|slot| slot.containing(address)) {
            let pointer = std::ptr::with_exposed_provenance_mut(range.start);
            // SAFETY: these are whole pages that `Guards` protects. `mprotect` is a plain system call.
            unsafe { libc::mprotect(pointer, range.end - range.start, libc::PROT_READ | libc::PROT_WRITE) };
            // SAFETY: the kernel passes the context of the fault.
            let (at, writes) = unsafe { origin(context) };
            store(address, writes, Site::of_fault(at));
            return;
        }
        // Another thread may have made the range accessible after this fault. Then the instruction succeeds when it is repeated;
        // otherwise the fault comes back.
        let changes = CHANGES.load(Ordering::SeqCst);
        let again = LAST.swap(address, Ordering::SeqCst) == address;
        if !(LAST_CHANGES.swap(changes, Ordering::SeqCst) == changes && again) {
            return;
        }
    }
    // SAFETY: the arguments are those of this handler.
    unsafe { pass(signal, info, context, passed) };
}

/// The instruction of a fault, and whether it writes.
///
/// # Safety
/// `context` is that of a signal handler.
unsafe fn origin(context: *mut c_void) -> (usize, Option<bool>) {
    let context = context.cast::<libc::ucontext_t>();
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: the caller's promise.
        let registers = unsafe { &(*context).uc_mcontext.gregs };
        let register = |index: c_int| {
            let value = usize::try_from(index).ok().and_then(|index| registers.get(index));
            value.copied().unwrap_or(0).cast_unsigned()
        };
        // Bit 1 of the error code is set for writes.
        let writes = register(libc::REG_ERR) & 2 != 0;
        (usize::try_from(register(libc::REG_RIP)).unwrap_or(0), Some(writes))
    }
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: the caller's promise.
        let at = unsafe { (*context).uc_mcontext.pc };
        (usize::try_from(at).unwrap_or(0), None)
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = context;
        (0, None)
    }
}

fn store(address: usize, writes: Option<bool>, site: Site) {
    let free =
        |stored: &&Stored| stored.state.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    // More accesses than this between two calls are not reported.
    let Some(stored) = STORED.iter().find(free) else { return };
    stored.address.store(address, Ordering::Relaxed);
    stored.kind.store(writes.map_or(2, usize::from), Ordering::Relaxed);
    for (place, frame) in stored.site.iter().zip(site.frames()) {
        place.store(frame, Ordering::Relaxed);
    }
    stored.state.store(2, Ordering::Release);
    ACCESSED.store(true, Ordering::Release);
}

/// Passes a signal that is not ours to the handler before ours.
///
/// # Safety
/// The arguments are those of a signal handler.
unsafe fn pass(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void, passed: bool) {
    // The next handler may have remembered ours as the one before it: then it calls us, and the first one is meant.
    let next = if passed { &FIRST } else { &NEXT }.load(Ordering::SeqCst);
    // SAFETY: `install` stored it, and it is never freed.
    let next = unsafe { next.as_ref() };
    match next.map(|next| (next.sa_sigaction, next.sa_flags)) {
        None | Some((libc::SIG_DFL | libc::SIG_IGN, _)) => {
            // SAFETY: the information is valid; all bytes zero is the default action, which ends the process: for a fault, when the
            // instruction is repeated.
            unsafe {
                let action: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, &raw const action, null_mut());
                if (*info).si_code <= 0 {
                    libc::raise(signal);
                }
            }
        }
        Some((handler, flags)) => {
            let handler: *const () = std::ptr::with_exposed_provenance(handler);
            if flags & libc::SA_SIGINFO != 0 {
                // SAFETY: the program installed the handler for three arguments; the information is valid.
                unsafe {
                    (*info).si_errno = PASSED;
                    std::mem::transmute::<*const (), Handler>(handler)(signal, info, context);
                }
            } else {
                // SAFETY: the program installed the handler for one argument.
                unsafe { std::mem::transmute::<*const (), unsafe extern "C" fn(c_int)>(handler)(signal) };
            }
        }
    }
}
