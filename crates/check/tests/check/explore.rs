//! Exploration of every order of a small launch.

use warpproof_check::{Bounds, BufferRole, CheckLaunch, Class, Explored, Role, Settings};
use warpproof_sim::{Buffer, Device};

/// Explores `body` with the address of eight zeroed words in `%out`, the block's index in `%cta` and the lane's in
/// `%lane`.
fn explore(body: &str, grid: u32, block: u32, preemptions: u32) -> Explored {
    let ptx = format!(
        ".version 8.7\n.target sm_89\n.address_size 64\n.visible .entry k(.param .u64 out) {{\n\
         .reg .b64 %out, %d<4>; .reg .b32 %cta, %lane, %warp; .reg .b32 %r<16>; .reg .pred %p<8>;\n\
         .shared .align 4 .b8 word[4];\n\
         ld.param.u64 %out, [out]; mov.u32 %cta, %ctaid.x; mov.u32 %lane, %laneid; mov.u32 %warp, %tid.x;\n\
         shr.u32 %warp, %warp, 5; setp.ne.u32 %p0, %lane, 0; @%p0 ret;\n{body}\nret;\n}}\n"
    );
    let mut device = Device::new().with_threads(1);
    device.limits.instructions = 1_000_000;
    let module = device.load(&ptx).unwrap();
    let out: Buffer<u32> = device.upload(&[0u32; 8]).unwrap();
    let launch = module.kernel("k").unwrap().launch().grid(grid).block(block).arg(out);
    let buffers = vec![BufferRole {
        name: "out".to_owned(),
        address: out.address(),
        element: 4,
        extents: vec![8],
        role: Role::InOut,
        initialized: true,
    }];
    let settings = Settings { buffers, ..Settings::default() };
    device.explore(&launch, &settings, Bounds { preemptions, executions: 5000 }, &mut |_| {})
}

fn classes(explored: &Explored) -> Vec<Class> {
    explored.checked.findings.iter().map(|finding| finding.class).collect()
}

/// Each block reads a counter and writes it plus one: whether an update is lost depends on the order.
#[test]
fn a_lost_update_needs_a_preemption() {
    const BODY: &str =
        "ld.relaxed.gpu.global.u32 %r1, [%out]; add.u32 %r1, %r1, 1; st.relaxed.gpu.global.u32 [%out], %r1;";
    let none = explore(BODY, 2, 32, 0);
    assert_eq!((classes(&none), none.complete, none.unbounded), (vec![], true, false));
    let one = explore(BODY, 2, 32, 1);
    assert_eq!((classes(&one), one.complete), (vec![Class::Order], true));
    // Of the six orders of four steps, these differ: block 0 first, block 1 first, and both reads first; the writes in two orders.
    let all = explore(BODY, 2, 32, 9);
    assert!(all.complete && all.unbounded && (4..=6).contains(&all.executions), "{}", all.executions);
}

/// Two locks, taken in opposite order.
#[test]
fn locks_in_opposite_order_are_a_deadlock() {
    let lock = |first: u32, second: u32| {
        format!(
            "A{first}: atom.acquire.gpu.global.cas.b32 %r1, [%out+{first}], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra A{first};\n\
             B{second}: atom.acquire.gpu.global.cas.b32 %r1, [%out+{second}], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra B{second};\n\
             st.release.gpu.global.u32 [%out+{second}], 0; st.release.gpu.global.u32 [%out+{first}], 0;"
        )
    };
    let other = format!(
        "setp.ne.u32 %p2, %cta, 0; @%p2 bra OTHER;\n{}\nret;\nOTHER:\n{}",
        lock(0, 4),
        lock(4, 0).replace("A4", "C").replace("B0", "D")
    );
    let explored = explore(&other, 2, 32, 1);
    assert_eq!(classes(&explored), [Class::Deadlock]);
    let same = format!("setp.ne.u32 %p2, %cta, 0; @%p2 bra OTHER;\n{}\nret;\nOTHER:\n{}", lock(0, 4), {
        lock(0, 4).replace("A0", "C").replace("B4", "D")
    });
    let explored = explore(&same, 2, 32, 2);
    assert_eq!((classes(&explored), explored.complete), (vec![], true));
}

/// Atomic additions whose results are unused commute, so one order is enough.
#[test]
fn commuting_atomics_are_not_reordered() {
    let explored = explore("red.relaxed.gpu.global.add.u32 [%out], 1;", 8, 64, 9);
    assert_eq!((explored.executions, explored.complete, explored.unbounded), (1, true, true));
    assert!(explored.steps == 16 && classes(&explored).is_empty());
}

/// A flag between two warps of a block: the waiting warp is not reported as a deadlock in any order.
#[test]
fn a_flag_that_is_raised_is_waited_for() {
    let explored = explore(
        "setp.ne.u32 %p1, %warp, 0; @%p1 bra WAITS;\n\
         st.release.cta.shared.u32 [word], 1; ret;\n\
         WAITS: ld.acquire.cta.shared.u32 %r1, [word]; setp.ne.u32 %p2, %r1, 1; @%p2 bra WAITS;\n\
         st.global.u32 [%out], %r1;",
        1,
        64,
        3,
    );
    let real: Vec<Class> =
        classes(&explored).into_iter().filter(|class| *class != Class::Uninitialized).collect();
    assert_eq!((real, explored.complete), (vec![], true));
}
