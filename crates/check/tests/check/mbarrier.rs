//! Misuse of mbarriers.

use super::{check, found};
use warpproof_check::Check;

const BARRIER: &[Check] = &[Check::Barrier];

#[test]
fn misuse_is_a_class_of_its_own() {
    let body = "mov.u32 %r9, tile; mbarrier.arrive.shared.b64 %d1, [%r9];";
    let checked = check(body, 1, 32, BARRIER);
    assert_eq!(found(&checked), [("mbarrier", vec!["mbarrier.arrive.shared.b64 %d1, [%r9]"])]);
    let body = "mov.u32 %r9, tile; setp.ne.u32 %p1, %t, 0; @%p1 bra DONE; mbarrier.init.shared.b64 [%r9], 1;
        mbarrier.arrive.shared.b64 %d1, [%r9], 2; DONE:";
    let checked = check(body, 1, 32, BARRIER);
    assert_eq!(found(&checked), [("mbarrier", vec!["mbarrier.arrive.shared.b64 %d1, [%r9], 2"])]);
}

/// A producer waits for the phase before the first, which counts as complete: its slot is empty.
#[test]
fn waiting_for_the_phase_before_the_first_is_legal() {
    let body = "mov.u32 %r9, tile; setp.ne.u32 %p1, %t, 0; @%p1 bra DONE; mbarrier.init.shared.b64 [%r9], 1;
        WAIT: mbarrier.test_wait.parity.shared.b64 %p2, [%r9], 1; @!%p2 bra WAIT; DONE:";
    assert!(check(body, 1, 32, BARRIER).findings.is_empty());
}
