//! Outputs not written, inputs changed.

use super::Case;
use warpproof_check::{Check, Class, Role, Severity};

fn case(body: &'static str, grid: u32) -> Case<'static> {
    let buffers = &[("out", Role::Out, 128), ("in", Role::In, 128)];
    Case { functions: "", body, grid, block: 64, buffers, checks: &[Check::Output] }
}

const PLACE: &str = "mov.u32 %r1, %ctaid.x; mad.lo.u32 %r1, %r1, 64, %t; mul.wide.u32 %d1, %r1, 4; add.u64 %d2, %a0, %d1; add.u64 %d3, %a1, %d1;\n";

fn leak(body: String) -> &'static str {
    Box::leak(body.into_boxed_str())
}

#[test]
fn outputs_are_written_by_all_blocks_together() {
    let body = leak(format!("{PLACE}st.global.u32 [%d2], %t;"));
    assert_eq!(case(body, 2).findings(), []);
    let checked = case(body, 1).check();
    assert_eq!(checked.findings[0].class, Class::Unwritten);
    assert_eq!(checked.findings[0].sentence, "`out[64]` and 63 more of 128 elements were never written");
    assert_eq!(checked.findings[0].places.len(), 1);
    let none = case("ret;", 1).check();
    assert_eq!(none.findings[0].sentence, "no element of the output `out` was written");
    let bytes = leak(format!(
        "{PLACE}st.global.u8 [%d2], %t; st.global.u16 [%d2+2], %t; setp.ne.u32 %p1, %r1, 77; @%p1 st.global.u8 [%d2+1], %t;"
    ));
    let one = case(bytes, 2).check();
    assert_eq!(one.findings[0].sentence, "`out[77]` was never written; the output has 128 elements");
}

#[test]
fn atomics_write_and_communicating_blocks_count_together() {
    let body = leak(format!("{PLACE}atom.global.exch.b32 %r2, [%d2], %t;"));
    assert_eq!(case(body, 2).findings(), []);
    assert_eq!(case(body, 1).findings()[0].0, Class::Unwritten);
}

#[test]
fn a_store_to_an_input_is_reported_at_the_store() {
    let body = leak(format!("{PLACE}st.global.u32 [%d2], %t;\nst.global.u32 [%d3], 5;"));
    assert_eq!(case(body, 2).findings(), [(Class::ModifiedInput, vec![3])]);
    let same =
        leak(format!("{PLACE}st.global.u32 [%d2], %t;\nld.global.u32 %r3, [%d3]; st.global.u32 [%d3], %r3;"));
    let checked = case(same, 2).check();
    assert_eq!(checked.findings.len(), 1);
    assert_eq!(checked.findings[0].severity, Severity::Note);
}

#[test]
fn outputs_of_a_stopped_launch_are_not_reported() {
    let checked = case("trap;", 1).check();
    assert_eq!(checked.findings.iter().map(|f| f.class).collect::<Vec<_>>(), [Class::Trap]);
}
