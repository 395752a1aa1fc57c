//! Unordered accesses to global memory: legal for compare-and-swap guesses and polled flags, a race for data.

use super::{check, check_in_order, check_with, found};
use warpproof_check::{Check, Checked, Class, Settings, Severity};
use warpproof_sim::schedule::Order;

fn races(body: &str) -> Checked {
    check(body, 2, 64, &[Check::Race])
}

#[test]
fn the_first_guess_of_a_compare_and_swap_is_not_a_race() {
    let body = "ld.global.u32 %r1, [%out];\nmov.u32 %r2, %r1;\nLOOP: mov.u32 %r3, %r2;\nadd.u32 %r4, %r3, 3;\n\
                atom.global.cas.b32 %r2, [%out], %r3, %r4;\nsetp.ne.u32 %p1, %r2, %r3;\n@%p1 bra LOOP;";
    assert_eq!(found(&races(body)), []);
    // The same load, but no compare-and-swap checks its value.
    let unchecked = body.replace("mov.u32 %r2, %r1", "mov.u32 %r2, 7; st.global.u32 [%to+1024], %r1");
    assert!(!found(&races(&unchecked)).is_empty());
    // Another address than that of the compare-and-swap.
    let elsewhere = body.replace("ld.global.u32 %r1, [%out]", "ld.global.u32 %r1, [%out+4]")
        + "\nmov.u32 %r5, 1; atom.global.add.u32 %r6, [%out+4], %r5;";
    assert!(!found(&races(&elsewhere)).is_empty());
}

#[test]
fn a_flag_that_was_polled_may_be_read_again() {
    let turns = "SPIN: ld.volatile.global.u32 %r1, [%out]; setp.ne.u32 %p1, %r1, %t; @%p1 bra SPIN;\n\
                 ld.volatile.global.u32 %r2, [%out]; membar.gl; add.u32 %r3, %r2, 1;\n\
                 st.volatile.global.u32 [%out], %r3;";
    assert_eq!(found(&check(turns, 1, 32, &[Check::Race])), []);
    // Volatile data that no thread polls is unordered like any other data.
    let data = "st.volatile.global.u32 [%to], %t; xor.b32 %r1, %t, 1; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %out, %d1;\n\
                ld.volatile.global.u32 %r2, [%d1]; st.global.u32 [%to+1024], %r2;";
    assert!(!found(&check(data, 1, 32, &[Check::Race])).is_empty());
}

/// The severities of the findings in a kernel of 128 threads in which four threads hold each of 32 elements: all of them
/// load it (`%r2`, from `%d1`), and the first of the four, where `%p1` is true, stores it. The warps run in both orders.
fn in_place(rest: &str) -> Vec<Severity> {
    let body = format!(
        "and.b32 %r1, %t, 31; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %out, %d1;\nsetp.lt.u32 %p1, %t, 32;\n{rest}"
    );
    let severities = |order| {
        let checked = check_in_order(&body, 1, 128, &[Check::Race], order);
        assert!(checked.findings.iter().all(|finding| finding.class == Class::GlobalRace));
        checked.findings.iter().map(|finding| finding.severity).collect::<Vec<_>>()
    };
    let forward = severities(Order::Forward);
    assert_eq!(forward, severities(Order::Reverse), "{rest}");
    forward
}

const STORE: &str = "add.u32 %r3, %r2, 1; @%p1 st.global.u32 [%d1], %r3;";

#[test]
fn a_racing_read_without_effect_is_a_note() {
    assert_eq!(in_place(&format!("ld.global.u32 %r2, [%d1]; {STORE}")), [Severity::Note]);
    let halves = "ld.global.u16 %r2, [%d1]; add.u32 %r3, %r2, 1; @%p1 st.global.u16 [%d1], %r3;";
    assert_eq!(in_place(halves), [Severity::Note]);
    let selected = format!("ld.global.u32 %r4, [%d1]; selp.u32 %r2, %r4, 7, %p1; {STORE}");
    assert_eq!(in_place(&selected), [Severity::Note]);
    // A logarithm computes infinities and NaNs on a way of its own.
    let load = "ld.global.u32 %r2, [%d1]; setp.lt.u32 %p2, %r2, 5;";
    assert_eq!(
        in_place(&format!("{load} @%p2 bra JOIN; add.u32 %r2, %r2, 7; JOIN: {STORE}")),
        [Severity::Note]
    );
    let backward = "bra.uni START; JOIN: @%p1 st.global.u32 [%d1], %r2; bra.uni END; START:";
    let body = format!("{backward} {load} @%p2 bra JOIN; add.u32 %r2, %r2, 7; bra.uni JOIN; END:");
    assert_eq!(in_place(&body), [Severity::Note]);
    let stores = format!("{load} @%p2 bra JOIN; st.global.u32 [%to+1024], %t; JOIN: {STORE}");
    assert_eq!(in_place(&stores), [Severity::Error], "whether it stores depends on the value");
    let jumps = format!("{load} @%p2 bra JOIN; add.u32 %r2, %r2, 7; bra.uni OTHER; JOIN: {STORE} OTHER:");
    assert_eq!(in_place(&jumps), [Severity::Error], "the two ways do not meet");
}

/// Warps that hold the elements of another warp reduce them too, and store nothing.
#[test]
fn a_reduction_in_place_by_warps_that_store_nothing_is_a_note() {
    let load = "ld.global.u32 %r2, [%d1];";
    for reduction in [
        "shfl.sync.bfly.b32 %r5, %r2, 16, 31, -1; add.u32 %r5, %r5, %r2; shfl.sync.bfly.b32 %r6, %r5, 8, 31, -1; add.u32 %r5, %r5, %r6;",
        "redux.sync.add.s32 %r5, %r2, -1;",
        "setp.lt.u32 %p3, %r2, 5; vote.sync.ballot.b32 %r5, %p3, -1;",
    ] {
        let body = format!("{load} {reduction} sub.u32 %r2, %r2, %r5; {STORE}");
        assert_eq!(in_place(&body), [Severity::Note], "{reduction}");
    }
}

/// Lanes of one warp that hold the same elements: what a lane reads after another one stored reaches a lane that stores.
#[test]
fn a_lane_that_reads_too_late_for_its_own_warp_is_an_error() {
    let body = "and.b32 %r1, %t, 15; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %out, %d1; setp.lt.u32 %p1, %t, 16;\n\
                @%p1 ld.global.u32 %r2, [%d1]; mov.u32 %r3, 7; @%p1 st.global.u32 [%d1], %r3;\n\
                @!%p1 ld.global.u32 %r2, [%d1]; shfl.sync.bfly.b32 %r5, %r2, 16, 31, -1; @%p1 st.global.u32 [%d1+1024], %r5;";
    let checked = check(body, 1, 32, &[Check::Race]);
    assert!(
        checked.findings.iter().any(|finding| finding.severity == Severity::Error),
        "{:?}",
        checked.findings
    );
}

#[test]
fn a_racing_read_with_an_effect_is_an_error() {
    let load = "ld.global.u32 %r2, [%d1];";
    let effects = [
        // Stored elsewhere by a thread that does not store in place, before and after.
        format!(
            "{load} setp.eq.u32 %p2, %t, 77; @%p2 st.global.u32 [%to+1024], %r2; add.u32 %r2, %r2, 0; {STORE}"
        ),
        format!("{load} {STORE} setp.eq.u32 %p2, %t, 77; @%p2 st.global.u32 [%to+1024], %r2;"),
        // The address of a load.
        format!(
            "{load} mul.wide.u32 %d2, %r2, 4; add.u64 %d2, %out, %d2; ld.global.u32 %r5, [%d2+1024]; {STORE}"
        ),
        // A branch and a guard.
        format!("{load} setp.eq.u32 %p2, %r2, 5; @%p2 bra DONE; {STORE} DONE:"),
        format!("{load} setp.eq.u32 %p2, %r2, 5; @%p2 mov.u32 %r5, 3; {STORE}"),
        // Another lane of a warp in which another value is stored.
        format!(
            "{load} shfl.sync.bfly.b32 %r5, %r2, 1, 31, -1; setp.eq.u32 %p2, %t, 77; @%p2 st.global.u32 [%to+1024], %r5; {STORE}"
        ),
        format!(
            "{load} redux.sync.add.u32 %r5, %r2, -1; setp.eq.u32 %p2, %t, 33; @%p2 st.global.u32 [%to+1024], %r5; {STORE}"
        ),
        // The guard lets two of the four threads store.
        format!("setp.lt.u32 %p1, %t, 64; {load} add.u32 %r3, %r2, %t; @%p1 st.global.u32 [%d1], %r3;"),
        // The condition code.
        format!("{load} sub.cc.u32 %r4, %r2, 5; subc.u32 %r5, 0, 0; {STORE} st.global.u32 [%to+1024], %r5;"),
        // One thread keeps the value, and all of them store to the element.
        format!(
            "{load} setp.eq.u32 %p2, %t, 0; @%p2 st.global.u32 [%to+1024], %r2; mov.u32 %r3, 7; st.global.u32 [%d1], %r3;"
        ),
        // A thread reads the element twice, and only the first value has an effect.
        format!("ld.global.u32 %r5, [%d1]; {load} {STORE} st.global.u32 [%to+1024], %r5;"),
    ];
    for rest in effects {
        let severities = in_place(&rest);
        assert!(severities.contains(&Severity::Error), "{rest}: {severities:?}");
    }
}

#[test]
fn a_read_of_a_thread_that_did_not_exit_has_an_effect() {
    let body = format!(
        "and.b32 %r1, %t, 31; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %out, %d1;\nsetp.lt.u32 %p1, %t, 32;\n\
         ld.global.u32 %r2, [%d1]; {STORE}\nbar.sync 0; trap;"
    );
    let checked = check(&body, 1, 128, &[Check::Race]);
    let races: Vec<_> = checked.findings.iter().filter(|race| race.class == Class::GlobalRace).collect();
    assert!(races.iter().any(|race| race.severity == Severity::Error), "{:?}", checked.findings);
}

#[test]
fn all_words_of_a_store_are_compared() {
    let severities = |body: &str, block: u32| {
        let checked = check(body, 1, block, &[Check::Race]);
        checked.findings.iter().map(|finding| finding.severity).collect::<Vec<_>>()
    };
    let second = "mov.u32 %r1, 5; st.global.v2.u32 [%out], {%r1, %t};";
    assert_eq!(severities(second, 32), [Severity::Error], "lanes of a warp");
    assert_eq!(severities(second, 64), [Severity::Error], "two warps");
    assert_eq!(severities(&second.replace("%t}", "%r1}"), 64), [Severity::Note]);
    // The read of the first word has no effect, and does not hide the stores to the second.
    let hidden = "setp.eq.u32 %p1, %t, 0; setp.eq.u32 %p2, %t, 40; setp.eq.u32 %p3, %t, 64; setp.eq.u32 %p4, %t, 999;\n\
                  mov.u32 %r1, 5; mov.u32 %r2, 6; mov.u32 %r3, 1; @%p1 st.global.u32 [%out+4], %r3;\n\
                  @%p2 ld.global.u32 %r4, [%out]; @%p4 st.global.u32 [%out+1024], %r4; @%p3 st.global.v2.u32 [%out], {%r1, %r2};";
    assert!(severities(hidden, 96).contains(&Severity::Error));
}

#[test]
fn a_store_between_a_read_and_an_equal_store_hides_nothing() {
    // Threads 0 and 64 store 7, thread 0 keeps what it read before; the reads of the others have no effect.
    let body = "setp.eq.u32 %p1, %t, 0; and.b32 %r1, %t, 63; setp.eq.u32 %p2, %r1, 0; mov.u32 %r3, 7;\n\
                ld.global.u32 %r2, [%out]; @%p2 st.global.u32 [%out], %r3; @%p1 st.global.u32 [%out+1024], %r2;";
    let checked = check(body, 1, 128, &[Check::Race]);
    assert!(
        checked.findings.iter().any(|finding| finding.severity == Severity::Error),
        "{:?}",
        checked.findings
    );
}

#[test]
fn a_read_before_equal_stores_races_with_the_stores_of_others() {
    // One thread reads a word, then all threads store 7 to it.
    let reader = |thread: u32, store: &str| {
        format!(
            "setp.eq.u32 %p1, %t, {thread}; mov.u32 %r3, 7; @%p1 ld.global.u32 %r2, [%out]; {store}\n\
             st.global.u32 [%to+1024], %r2;"
        )
    };
    let error = |body: &str, threads: u32, order: Order| {
        let checked = check_in_order(body, 1, threads, &[Check::Race], order);
        checked.findings.iter().any(|finding| finding.severity == Severity::Error)
    };
    let store = "st.global.u32 [%out], %r3;";
    for thread in [0, 3, 40, 95] {
        for order in [Order::Forward, Order::Reverse] {
            assert!(error(&reader(thread, store), 96, order), "{thread}, {order:?}");
            // The value has an effect in the thread that read it, and the load may have none in others.
            let guarded = reader(thread, store).replace("\nst.global", "\n@%p1 st.global");
            assert!(error(&guarded, 96, order), "guarded: {thread}, {order:?}");
        }
    }
    assert!(error(&reader(0, store), 32, Order::Forward), "one warp");
    assert!(error(&reader(0, store).replace(".u32 [%out]", ".u8 [%out]"), 96, Order::Forward), "bytes");
    assert!(error(&reader(0, &format!("membar.gl; {store}")), 96, Order::Forward), "all readers are kept");
    assert!(!error(&reader(0, &format!("bar.sync 0; {store}")), 96, Order::Forward), "a barrier");
    assert!(error(&reader(0, "atom.global.add.u32 %r4, [%out], 1;"), 64, Order::Forward), "atomics");
}

/// Whether the records of all accesses of 1,024 threads fit in this many bytes.
fn fits(body: &str, bytes: u64) -> bool {
    // A sixteenth of the memory is for one block.
    let settings = Settings { checks: vec![Check::Race], memory: 16 * bytes, ..Settings::default() };
    [Order::Forward, Order::Reverse].into_iter().all(|order| {
        let checked = check_with(body, 1, 1024, &settings, order);
        assert!(checked.findings.iter().all(|finding| finding.severity == Severity::Note));
        checked.outcome.stop.is_none()
    })
}

#[test]
fn records_of_reads_without_effect_do_not_grow_with_the_warps() {
    // All warps read the same 2,048 words; the threads of the first warp store the sums.
    let body = "and.b32 %r1, %t, 31; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %out, %d1; setp.lt.u32 %p1, %t, 32;\n\
                mov.u32 %r2, 0; mov.u32 %r5, 0;\n\
                LOOP: ld.global.u32 %r3, [%d1]; add.u32 %r2, %r2, %r3; add.u64 %d1, %d1, 128; add.u32 %r5, %r5, 1;\n\
                setp.lt.u32 %p2, %r5, 64; @%p2 bra LOOP; @%p1 st.global.u32 [%to+8192], %r2;";
    assert!(fits(body, 400_000));
    let synchronized = body.replace("add.u32 %r5, %r5, 1;", "add.u32 %r5, %r5, 1; bar.warp.sync -1;");
    assert!(fits(&synchronized, 1_200_000), "the warps read at different times");
}

#[test]
fn a_read_without_effect_replaces_an_earlier_one_without_further_sinks() {
    let load = "ld.global.u32 %r3, [%out]; add.u32 %r2, %r2, %r3;\n".repeat(200);
    let sum = format!("setp.lt.u32 %p1, %t, 32; mov.u32 %r2, 0; {load}");
    // The last store is to a page of its own, for which there must be space.
    let store = "@%p1 st.global.u32 [%to+1024], %r2; @%p1 st.global.u32 [%to+8192], %r2;";
    assert!(fits(&format!("{sum} {store}"), 0));
    // Thread 500 stores to the word. What is read first has an effect in one thread, what is read later in none.
    let least = |first: &str| {
        let none = sum.replace("setp.lt.u32 %p1, %t, 32", "setp.gt.u32 %p1, %t, 2000");
        let body = format!(
            "setp.eq.u32 %p2, %t, 77; setp.eq.u32 %p3, %t, 500; ld.global.u32 %r4, [%out]; {none} {store}\n\
             @%{first} st.global.u32 [%to+12288], %r4; @%p3 st.global.u32 [%out], %t;"
        );
        let checked = check(&body, 1, 1024, &[Check::Race]);
        checked.findings.iter().map(|finding| finding.severity).min()
    };
    assert_eq!(least("p2"), Some(Severity::Error));
    assert_eq!(least("p1"), Some(Severity::Note));
}

#[test]
fn a_volatile_read_may_be_concurrent_with_atomics_but_not_with_stores() {
    let read = "ld.volatile.global.u32 %r1, [%out]; mad.wide.u32 %d1, %cta, 1024, %to; st.global.u32 [%d1+1024], %r1;";
    let swap = "atom.global.cas.b32 %r2, [%out], 5, 6;";
    // Both orders of the two instructions.
    for body in [format!("{read}\n{swap}"), format!("{swap}\n{read}")] {
        assert_eq!(found(&races(&body)), [], "{body}");
        // An ordinary read, and an ordinary store of the same address.
        assert!(!found(&races(&body.replace(".volatile", ""))).is_empty());
        assert!(!found(&races(&body.replace(swap, "st.global.u32 [%out], %t;"))).is_empty());
        // Atomics of block scope do not include the threads of the other block.
        assert!(!found(&races(&body.replace("atom.global", "atom.cta.global"))).is_empty());
    }
}
