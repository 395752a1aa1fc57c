//! Blocks that wait for each other: a correct kernel ends under every schedule, and waiting costs few instructions.

use warpproof_check::{Check, CheckLaunch, Settings};
use warpproof_sim::{Device, StopKind};

/// Runs `body` with 64 blocks of `threads` threads under twelve schedules, each with a limit on its instructions. `%out` is the
/// address of words that are zero, `%to` that of the thread's own word, `%first` is true in all threads but the first.
fn under_all_schedules(body: &str, threads: u32, instructions: u64) -> Option<(StopKind, String)> {
    let ptx = format!(
        ".version 8.7\n.target sm_89\n.address_size 64\n.visible .entry k(.param .u64 out) {{\n\
         .reg .b64 %out, %to; .reg .b32 %t, %lane, %cta; .reg .b32 %r<16>; .reg .b64 %d<16>; .reg .pred %p<8>, %first;\n\
         .shared .align 16 .b8 cell[16];\n\
         ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %to, %t, 4; add.u64 %to, %out, %to; add.u64 %to, %to, 1024;\n\
         mov.u32 %lane, %laneid; mov.u32 %cta, %ctaid.x; setp.ne.u32 %first, %t, 0;\n\
         {body}\nret;\n}}\n"
    );
    let mut device = Device::new().with_threads(1);
    device.limits.instructions = instructions;
    let module = device.load(&ptx).unwrap_or_else(|stop| panic!("{stop}"));
    let out = device.alloc::<u32>(4096).unwrap();
    device.write(&out, &[0; 4096]).unwrap();
    let launch = module.kernel("k").unwrap().launch().grid(64).block(threads).arg(out);
    let settings = Settings { checks: vec![Check::Race], ..Settings::default() };
    let schedules = device.check_schedules(&launch, &settings, Some(12), 7);
    let checked = schedules.checked;
    if let Some(stop) = checked.outcome.stop {
        return Some((stop.kind, stop.to_string()));
    }
    assert!(checked.findings.is_empty(), "{:?}", checked.findings);
    assert_eq!(schedules.count, 12);
    // Every thread has added one to its word.
    let words = device.read(&out).unwrap();
    assert!(words[256..][..usize::try_from(threads).unwrap()].iter().all(|word| *word == 64), "{body}");
    None
}

const ADD: &str = "ld.global.u32 %r9, [%to]; add.u32 %r9, %r9, 1; st.global.u32 [%to], %r9;";

/// What begins and what ends the work of a block.
const IDIOMS: [(&str, &str, &str); 6] = [
    (
        "a ticket",
        "@%first bra IN; atom.global.add.u32 %r1, [%out], 1;
         SPIN: ld.acquire.gpu.global.u32 %r2, [%out+4]; setp.ne.u32 %p1, %r2, %r1; @%p1 bra SPIN; IN: bar.sync 0;",
        "bar.sync 0; @%first bra OUT; red.release.gpu.global.add.u32 [%out+4], 1; OUT:",
    ),
    (
        "a semaphore behind a barrier that decides",
        "mov.u32 %r2, -1; SPIN: setp.ne.u32 %p1, %r2, %cta; barrier.red.and.pred %p2, 0, %p1; @!%p2 bra IN;
         @%first bra SPIN; ld.acquire.gpu.global.u32 %r2, [%out]; bra SPIN; IN:",
        "bar.sync 0; @%first bra OUT; red.release.gpu.global.add.u32 [%out], 1; OUT:",
    ),
    (
        "a lock",
        "@%first bra IN; SPIN: atom.acquire.gpu.global.cas.b32 %r1, [%out], 0, 1; setp.ne.u32 %p1, %r1, 0;
         @%p1 nanosleep.u32 100; @%p1 bra SPIN; IN: bar.sync 0;",
        "bar.sync 0; @%first bra OUT; st.release.gpu.global.u32 [%out], 0; OUT:",
    ),
    (
        "a lock whose attempts contain barriers",
        "SPIN: @%first bra SEE; atom.acquire.gpu.global.cas.b32 %r1, [%out], 0, 1; st.shared.u32 [cell], %r1;
         SEE: bar.sync 0; ld.shared.u32 %r2, [cell]; bar.sync 0; setp.ne.u32 %p1, %r2, 0; @%p1 bra SPIN;",
        "bar.sync 0; @%first bra OUT; st.release.gpu.global.u32 [%out], 0; OUT:",
    ),
    (
        "a chain of flags that a warp reads",
        "setp.ge.u32 %p3, %t, 32; @%p3 bra IN; sub.u32 %r1, %cta, 1; min.s32 %r1, %r1, %lane; sub.u32 %r1, %cta, %r1;
         sub.u32 %r1, %r1, 1; setp.eq.u32 %p2, %cta, 0; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d1, %out;
         SPIN: mov.u32 %r2, 1; @!%p2 ld.acquire.gpu.global.u32 %r2, [%d1]; setp.eq.u32 %p1, %r2, 0;
         vote.sync.any.pred %p1, %p1, -1; @%p1 bra SPIN; IN: bar.sync 0;",
        "bar.sync 0; @%first bra OUT; mul.wide.u32 %d1, %cta, 4; add.u64 %d1, %d1, %out; st.release.gpu.global.u32 [%d1], 1; OUT:",
    ),
    (
        "a barrier of the grid, then the blocks in order",
        "@%first bra IN; atom.acq_rel.gpu.global.add.u32 %r1, [%out], 1;
         MEET: ld.acquire.gpu.global.u32 %r1, [%out]; setp.lt.u32 %p1, %r1, 64; @%p1 bra MEET;
         SPIN: ld.acquire.gpu.global.u32 %r1, [%out+4]; setp.ne.u32 %p1, %r1, %cta; @%p1 bra SPIN; IN: bar.sync 0;",
        "bar.sync 0; @%first bra OUT; add.u32 %r1, %cta, 1; st.release.gpu.global.u32 [%out+4], %r1; OUT:",
    ),
];

#[test]
fn waiting_costs_few_instructions_under_every_schedule() {
    for (name, begin, end) in IDIOMS {
        for threads in [64, 1024] {
            let body = format!("{begin}\n{ADD}\n{end}");
            // 64 blocks of 32 warps execute about 70,000 instructions that do not wait.
            let stop = under_all_schedules(&body, threads, 1_500_000);
            assert!(stop.is_none(), "{name}, {threads} threads: {}", stop.unwrap().1);
        }
    }
}

#[test]
fn what_never_comes_is_a_deadlock_under_every_idiom_that_waits_for_memory() {
    for (begin, end) in [
        // The lock is not released; a ticket is not passed on; one block too few arrives.
        (IDIOMS[2].1, ""),
        (IDIOMS[0].1, "bar.sync 0;"),
        (
            "@%first bra IN; SPIN: ld.acquire.gpu.global.u32 %r1, [%out]; setp.lt.u32 %p1, %r1, 1; @%p1 bra SPIN; IN:",
            "",
        ),
    ] {
        let stop = under_all_schedules(&format!("{begin}\n{ADD}\n{end}"), 64, 10_000_000);
        assert_eq!(stop.map(|(kind, _)| kind), Some(StopKind::Deadlock), "{begin}");
    }
}

/// A loop with a timeout ends although nothing that it reads changes.
#[test]
fn a_wait_for_the_clock_ends() {
    let body = format!(
        "@%first bra IN; mov.u64 %d1, %globaltimer;
         SPIN: mov.u64 %d2, %globaltimer; sub.u64 %d2, %d2, %d1; setp.gt.u64 %p2, %d2, 20000; @%p2 bra IN;
         ld.acquire.gpu.global.u32 %r1, [%out]; nanosleep.u32 100; setp.eq.u32 %p1, %r1, 0; @%p1 bra SPIN; IN: bar.sync 0;
         @%first bra DONE; SERVE: ld.acquire.gpu.global.u32 %r1, [%out+4]; setp.ne.u32 %p1, %r1, %cta; @%p1 bra SERVE;
         DONE: bar.sync 0; {ADD} bar.sync 0; @%first bra OUT; red.release.gpu.global.add.u32 [%out+4], 1; OUT:"
    );
    let stop = under_all_schedules(&body, 64, 20_000_000);
    assert!(stop.is_none(), "{}", stop.unwrap().1);
}

/// What a limit is reached under is named: the launch ends under other schedules.
#[test]
fn a_limit_names_the_schedule() {
    // A thread that finds no predecessor works long.
    let body = format!(
        "{ADD} atom.global.add.u32 %r1, [%out], 1; setp.eq.u32 %p1, %r1, %cta; @%p1 bra OUT; mov.u32 %r2, 0;
         WORK: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 100000; @%p1 bra WORK; OUT:"
    );
    let stop = under_all_schedules(&body, 1, 1_000_000);
    let (kind, text) = stop.unwrap();
    assert_eq!(kind, StopKind::Limit, "{text}");
    assert!(
        text.contains("the launch executed more than 1000000 warp instructions under schedule 2"),
        "{text}"
    );
    assert!(text.contains("it ended under the schedules before this one"), "{text}");
    assert!(!text.contains("may never end"), "{text}");
}
