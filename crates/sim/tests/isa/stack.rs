//! Tests of the family `stack`; the tests of the machine cover the stack across calls.

use super::harness::{check, patterns};

#[test]
fn memory_of_the_stack_holds_what_is_stored() {
    for (ty, register) in [("u32", "b32"), ("u64", "b64")] {
        let body = format!(
            ".reg .{register} %n, %one, %two, %saved, %again, %size;\n\
             mov.{ty} %n, 24; stacksave.{ty} %saved; alloca.{ty} %one, %n; alloca.{ty} %two, 8, 32;\n\
             st.local.u64 [%one+16], %s0; st.local.u64 [%two], %s1;\n\
             ld.local.u64 %d0, [%one+16]; ld.local.u64 %d1, [%two];\n\
             stackrestore.{ty} %saved; stacksave.{ty} %again; sub.{ty} %size, %again, %saved; cvt.u64.{ty} %d2, %size;\n\
             and.b{} %two, %two, 31; cvt.u64.{ty} %d3, %two;",
            &ty[1..]
        );
        let sources = [("b64", patterns(64)), ("b64", patterns(64).into_iter().rev().collect())];
        check(&body, &["b64"; 4], &sources, |s| vec![s[0], s[1], 0, 0]);
    }
}
