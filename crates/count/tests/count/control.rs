//! Branches, guards, loops, calls, pipes.

use crate::{Case, HEAD, TAIL, issued, line_totals, on_line, traffic};
use warpproof_count::MemoryOp::Store;
use warpproof_count::{Branches, CountLaunch, CountSettings};
use warpproof_sim::isa::Unit;
use warpproof_sim::memory::Space::Global;

fn ways(taken: u64, not_taken: u64, divergent: u64) -> Branches {
    Branches { taken, not_taken, divergent }
}

#[test]
fn lanes_at_a_join_wait_for_a_long_loop_of_the_others() {
    // Lane 0 makes 3,000 iterations of a loop of three instructions, far more than the time slice of lanes that poll; the
    // others wait at the join meanwhile. All 32 then store together: one request.
    let body = "setp.ne.u32 %p1, %lane, 0;\n@%p1 bra JOIN;\nmov.u32 %r1, 0;\nLOOP:\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p2, %r1, 3000;\n\
        @%p2 bra LOOP;\nJOIN:\nst.global.u32 [%g], %t;";
    let counters = Case::new(body, 32, |t| 4 * t).count();
    let store = traffic(&counters, 9, Global, Store);
    assert_eq!((store.requests, store.lanes), (1, 32));
    // A kernel with instructions to wait with takes turns: the 31 lanes continue after the loop has run for a slice.
    let waits = format!("{body}\nld.volatile.global.u32 %r2, [%g];");
    let counters = Case::new(&waits, 32, |t| 4 * t).count();
    let store = traffic(&counters, 9, Global, Store);
    assert_eq!((store.requests, store.lanes), (2, 32));
}

#[test]
fn a_branch_that_lanes_take_both_ways() {
    // Lanes 0 to 11 take the branch, 20 do not; both execute their side, and all execute the end.
    let body = "setp.lt.u32 %p1, %lane, 12;\n@%p1 bra THEN;\nadd.u32 %r1, %t, 1;\nbra END;\nTHEN:\nadd.u32 %r1, %t, 2;\nEND:\nadd.u32 %r2, %r1, 3;";
    let counters = Case::new(body, 64, |_| 0).count();
    assert_eq!(on_line(&counters, 2).branches, ways(0, 0, 2));
    assert_eq!(issued(on_line(&counters, 2)), (2, 64, 24, 0));
    assert_eq!(issued(on_line(&counters, 3)), (2, 40, 40, 0));
    assert_eq!(on_line(&counters, 4).branches, ways(2, 0, 0));
    assert_eq!(issued(on_line(&counters, 6)), (2, 24, 24, 0));
    assert_eq!(issued(on_line(&counters, 8)), (2, 64, 64, 0));
    assert_eq!(counters.totals.branches, ways(2, 0, 2));
    // setp, branch, then one side of two and one of one instruction, and the end.
    assert_eq!(counters.totals.issued.executions, 2 * (HEAD + 2 + 2 + 1 + 1 + TAIL));
}

#[test]
fn a_branch_that_whole_warps_take() {
    // Of four warps the first takes the branch, the others do not.
    let body = "setp.lt.u32 %p1, %t, 32;\n@%p1 bra END;\nadd.u32 %r1, %t, 1;\nEND:\nadd.u32 %r2, %r1, 3;";
    let counters = Case::new(body, 128, |_| 0).count();
    assert_eq!(on_line(&counters, 2).branches, ways(1, 3, 0));
    assert_eq!(issued(on_line(&counters, 2)), (4, 128, 32, 3));
    assert_eq!(issued(on_line(&counters, 3)), (3, 96, 96, 0));
}

#[test]
fn a_loop_that_lanes_leave_one_by_one() {
    // Lane l makes l + 1 iterations: the body runs 32 times, by 32 + 31 + … + 1 = 528 lanes. The lanes diverge at the
    // backward branch in 31 iterations; in the last iteration the only remaining lane does not take it.
    let body = "mov.u32 %r1, 0;\nLOOP:\nadd.u32 %r1, %r1, 1;\nsetp.le.u32 %p1, %r1, %lane;\n@%p1 bra LOOP;\nadd.u32 %r2, %r1, 1;";
    let counters = Case::new(body, 32, |_| 0).count();
    assert_eq!(issued(on_line(&counters, 3)), (32, 528, 528, 0));
    assert_eq!(issued(on_line(&counters, 5)), (32, 528, 528 - 32, 1));
    assert_eq!(on_line(&counters, 5).branches, ways(0, 1, 31));
    assert_eq!(issued(on_line(&counters, 6)), (1, 32, 32, 0));
    assert_eq!(counters.totals.issued.executions, HEAD + 1 + 3 * 32 + 1 + TAIL);
    assert_eq!(counters.totals.issued.lanes, 32 * (HEAD + 2 + TAIL) + 3 * 528);
}

#[test]
fn a_long_loop_beyond_a_turn() {
    // 10,000 iterations of four instructions, more than a warp's turn: nothing is lost between turns.
    let body = "mov.u32 %r1, 0;\nLOOP:\nadd.u32 %r1, %r1, 1;\nadd.u32 %r3, %r3, %r1;\nsetp.lt.u32 %p1, %r1, 10000;\n@%p1 bra LOOP;";
    let counters = Case::new(body, 64, |_| 0).count();
    for line in [3, 4, 5] {
        assert_eq!(issued(on_line(&counters, line)), (20_000, 640_000, 640_000, 0));
    }
    assert_eq!(on_line(&counters, 6).branches, ways(2 * 9999, 2, 0));
}

#[test]
fn guards() {
    // Three lanes of each of two warps; no lane of the second warp; all.
    let body = "setp.lt.u32 %p1, %lane, 3;\nsetp.lt.u32 %p2, %t, 32;\n@%p1 add.u32 %r1, %t, 1;\n@%p2 add.u32 %r2, %t, 1;\n@!%p1 add.u32 %r3, %t, 1;\nadd.u32 %r4, %t, 1;";
    let counters = Case::new(body, 64, |_| 0).count();
    assert_eq!(issued(on_line(&counters, 3)), (2, 64, 6, 0));
    assert_eq!(issued(on_line(&counters, 4)), (2, 64, 32, 1));
    assert_eq!(issued(on_line(&counters, 5)), (2, 64, 58, 0));
    assert_eq!(issued(on_line(&counters, 6)), (2, 64, 64, 0));
    assert_eq!(counters.totals.issued.passed, 1);
    assert_eq!(counters.totals.branches, Branches::default());
}

#[test]
fn a_branch_through_a_table() {
    // Lane l goes to entry l % 4: the branch is executed once for each of four targets, by 32, 24, 16 and 8 lanes, and
    // the lanes diverge in the first three executions.
    let body = "T: .branchtargets A, B, C, D;\nand.b32 %r1, %lane, 3;\nbrx.idx %r1, T;\nA:\nadd.u32 %r2, %t, 1;\nB:\nadd.u32 %r2, %t, 2;\nC:\nadd.u32 %r2, %t, 3;\nD:\nadd.u32 %r2, %t, 4;";
    let counters = Case::new(body, 32, |_| 0).count();
    let branch = on_line(&counters, 3);
    assert_eq!(branch.branches.divergent, 3);
    assert_eq!(branch.branches.taken, 1);
    // Targets fall through to the next: 8, 16, 24 and 32 lanes in the end.
    let lanes: Vec<u64> = [5, 7, 9, 11].map(|line| on_line(&counters, line).issued.lanes).to_vec();
    assert_eq!(lanes, [8, 16, 24, 32]);
}

#[test]
fn lanes_that_meet_again_count_once() {
    // The shuffle waits for both sides: executed once, by all lanes.
    let body = "setp.lt.u32 %p1, %lane, 12;\n@%p1 bra THEN;\nadd.u32 %r1, %t, 1;\nTHEN:\nshfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;";
    let counters = Case::new(body, 32, |_| 0).count();
    assert_eq!(issued(on_line(&counters, 5)), (1, 32, 32, 0));
}

#[test]
fn calls_count_in_their_function() {
    let text = Case::new("call (%r1), twice, (%t);\ncall (%r2), twice, (%r1);", 64, |_| 0).text().replace(
        ".visible .entry",
        ".func (.reg .b32 %o) twice(.reg .b32 %i) { add.u32 %o, %i, %i; ret; } .visible .entry",
    );
    let mut device = warpproof_sim::Device::new();
    let module = device.load(&text).unwrap_or_else(|stop| panic!("{stop}"));
    let data = device.alloc::<u64>(64).unwrap();
    let launch = module.kernel("k").unwrap().launch().block(64).arg(data).arg(data);
    let counted = device.count(&launch, &CountSettings::default());
    assert!(counted.outcome.stop.is_none(), "{:?}", counted.outcome.stop);
    // Two warps call twice.
    let inside = |opcode: &str| {
        let of = |i: &&warpproof_count::Instruction| i.function == "twice" && i.opcode == opcode;
        let executed = counted.counters.instructions.iter().filter(of).filter(|i| i.issued.executions > 0);
        executed.map(issued).collect::<Vec<_>>()
    };
    assert_eq!(inside("add.u32"), [(4, 128, 128, 0)]);
    assert_eq!(inside("ret"), [(4, 128, 128, 0)]);
    assert_eq!(counted.counters.totals.issued.executions, counted.outcome.instructions);
}

#[test]
fn each_instruction_on_its_pipe() {
    let body = "add.u32 %r1, %t, 1;\nfma.rn.f32 %f1, %f2, %f3, %f4;\nfma.rn.f16x2 %r1, %r2, %r3, %r4;\nadd.f64 %e1, %e2, %e3;\n\
        ex2.approx.ftz.f32 %f1, %f2;\nshfl.sync.idx.b32 %r2, %r1, 0, 31, -1;\nbar.sync 0;\nbra NEXT;\nNEXT:\nmembar.cta;\n\
        mad.lo.s32 %r1, %r2, %r3, %r4;";
    let counters = Case::new(body, 32, |_| 0).count();
    let pipe = |line| on_line(&counters, line).pipe;
    assert_eq!(
        [1, 2, 3, 4, 5, 6, 7, 8, 10, 11].map(pipe),
        [
            Unit::Alu,
            Unit::Fma,
            Unit::Half,
            Unit::Fp64,
            Unit::Xu,
            Unit::Lsu,
            Unit::Adu,
            Unit::Control,
            Unit::Lsu,
            Unit::Fma
        ]
    );
    let totals = line_totals(&counters, 5);
    assert_eq!((totals.pipe(Unit::Xu).executions, totals.pipe(Unit::Alu).executions), (1, 0));
    assert_eq!(counters.totals.opcodes["ex2.approx.ftz.f32"].executions, 1);
    // Head: three loads on LSU, mul.wide on FMA, the rest on ALU; tail on the control pipe.
    assert_eq!(counters.totals.pipe(Unit::Lsu).executions, 3 + 2);
    assert_eq!(counters.totals.pipe(Unit::Fma).executions, 1 + 2);
    assert_eq!(counters.totals.pipe(Unit::Alu).executions, 8 + 1);
    assert_eq!(counters.totals.pipe(Unit::Control).executions, 1 + 1);
}
