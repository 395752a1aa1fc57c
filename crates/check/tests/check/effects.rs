//! What an instruction does is its typed description, not its spelling: one small kernel for each instruction that the checks,
//! the counters or the machine once understood differently (`book/src/checks.md`, "What an instruction does").
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use warpproof_check::{Check, CheckLaunch, Checked, Class, Settings, schedules_needed};
use warpproof_count::{CountLaunch, CountSettings, Flow};
use warpproof_sim::isa::Op;
use warpproof_sim::isa::op::{Callee, MemoryKind, Participants};
use warpproof_sim::memory::Space;
use warpproof_sim::program::Communication;
use warpproof_sim::{Device, Launch, StopKind};

/// A module with one kernel, `k`, whose parameter is an array of 1024 words (`%out`); `%to` is the address of each thread's
/// own word.
fn module(target: &str, functions: &str, body: &str) -> String {
    format!(
        "{target}\n.address_size 64\n{functions}\n.visible .entry k(.param .u64 out)\n{{\n\
         .reg .b64 %out, %to, %d<16>; .reg .b32 %t, %r<32>; .reg .pred %p<8>; .reg .f32 %f<16>; .reg .b16 %h<8>;\n\
         .shared .align 16 .b8 first[64]; .shared .align 16 .b8 second[64];\n\
         ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %to, %t, 4; add.u64 %to, %out, %to;\n\
         {body}\nret;\n}}\n"
    )
}

const ADA: &str = ".version 8.7\n.target sm_89";

fn launch(device: &mut Device, ptx: &str, grid: u32, block: u32) -> Launch {
    device.limits.instructions = 1_000_000;
    let out = device.alloc::<u32>(1024).unwrap();
    device.load(ptx).unwrap().kernel("k").unwrap().launch().grid(grid).block(block).arg(out)
}

/// Runs a kernel on two blocks of 32 threads with one check.
fn checked(ptx: &str, check: Check) -> Checked {
    let mut device = Device::new().with_threads(1);
    let launch = launch(&mut device, ptx, 2, 32);
    device.check(&launch, &Settings { checks: vec![check], ..Settings::default() })
}

fn classes(checked: &Checked) -> Vec<Class> {
    checked.findings.iter().map(|finding| finding.class).collect()
}

/// The operations of a kernel whose instruction starts with a word.
fn ops(ptx: &str, word: &str) -> Vec<Op> {
    let mut device = Device::new();
    let kernel = device.load(ptx).unwrap().kernel("k").unwrap();
    let program = kernel.program();
    let pcs = (0..).take(program.code.len());
    let wanted = |pc: &u32| program.place(*pc).is_some_and(|place| place.instruction.contains(word));
    pcs.filter(wanted).map(|pc| program.op(pc).clone()).collect()
}

/// `__syncthreads_count` orders all threads as `__syncthreads` does; a barrier with another number does not.
#[test]
fn a_reduction_at_barrier_0_needs_one_schedule() {
    let needed = |body: &str| {
        let mut device = Device::new();
        schedules_needed(&launch(&mut device, &module(ADA, "", body), 1, 64))
    };
    let set = "setp.ne.u32 %p1, %t, 0;";
    assert_eq!(needed(&format!("{set} bar.red.popc.u32 %r1, 0, %p1;")), 1);
    assert_eq!(needed(&format!("{set} bar.red.and.pred %p2, 0, %p1;")), 1);
    assert!(needed(&format!("{set} bar.red.popc.u32 %r1, 1, %p1;")) > 1);
    assert!(needed(&format!("{set} bar.red.popc.u32 %r1, 0, 32, %p1;")) > 1);
}

/// A store past the end of `first` hits `second`, whatever the address was computed with.
#[test]
fn an_address_keeps_its_array_through_arithmetic() {
    let through = [
        "not.b32 %r1, %r1; not.b32 %r1, %r1;",
        "neg.s32 %r1, %r1; neg.s32 %r1, %r1;",
        "div.u32 %r1, %r1, 1;",
        "rem.u32 %r1, %r1, 4096;",
    ];
    for compute in through {
        let body = format!("mov.u32 %r1, first; {compute} st.shared.u32 [%r1+64], %t;");
        let found = checked(&module(ADA, "", &body), Check::Array);
        assert_eq!(classes(&found), [Class::Bounds], "{compute}");
        let body = format!("mov.u32 %r1, first; {compute} st.shared.u32 [%r1+60], %t;");
        assert!(checked(&module(ADA, "", &body), Check::Array).findings.is_empty(), "{compute}");
    }
}

#[test]
fn activemask_is_of_the_lanes_that_execute_it() {
    let ptx = module(ADA, "", "activemask.b32 %r1;");
    let effects: Vec<_> = ops(&ptx, "activemask").iter().map(|op| op.effects().participants).collect();
    assert_eq!(effects, [Participants::Active]);
}

#[test]
fn a_product_of_tiles_accesses_no_memory() {
    let regs = |from: u32| (from..from + 8).map(|i| format!("%r{i}")).collect::<Vec<_>>().join(",");
    let sums = (0..8).map(|i| format!("%f{i}")).collect::<Vec<_>>().join(",");
    let body = format!(
        "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 {{{sums}}}, {{{}}}, {{{}}}, {{{sums}}};",
        regs(0),
        regs(8)
    );
    let ops = ops(&module(ADA, "", &body), "wmma.mma");
    assert!(matches!(ops[..], [Op::Multiply(_)]), "{ops:?}");
    assert_eq!((ops[0].effects().memory, ops[0].effects().participants), (None, Participants::Warp));
}

/// A function without `ret` returns at its end.
#[test]
fn the_implied_return_is_counted_as_one() {
    let function = ".func one(.reg .b32 %a) { .reg .b32 %b; add.u32 %b, %a, 1; }";
    let ptx = module(ADA, function, "call one, (%t);");
    let mut device = Device::new();
    let launch = launch(&mut device, &ptx, 1, 32);
    let counted = device.count(&launch, &CountSettings::default());
    assert_eq!(counted.outcome.stop, None);
    let returns = counted.counters.instructions.iter().filter(|one| one.flow == Flow::Return);
    // The kernel's own, the implied one after it, which no thread reaches, and that of the function.
    assert_eq!(returns.map(|one| one.issued.executions).collect::<Vec<_>>(), [1, 0, 1]);
}

/// The model gives `redux.sync` a pipe of its own; what it asks is the description.
#[test]
fn a_reduction_of_a_warp_is_a_meeting_of_lanes() {
    let ptx = module(ADA, "", "redux.sync.add.s32 %r1, %t, 0xffffffff;");
    let ops = ops(&ptx, "redux");
    assert!(matches!(ops[..], [Op::Redux { .. }]), "{ops:?}");
    assert_eq!(ops[0].effects().participants, Participants::Members);
}

/// A loop that waits for its own parameter never ends: no thread can change it.
#[test]
fn a_parameter_of_the_entry_does_not_change() {
    let body = "LOOP: ld.param::entry.u64 %d1, [out]; setp.ne.u64 %p1, %d1, 0; @%p1 bra LOOP;";
    let ptx = module(ADA, "", body);
    let spaces: Vec<_> =
        ops(&ptx, "param::entry").iter().map(|op| op.effects().memory.unwrap().space).collect();
    assert_eq!(spaces, [Space::Param]);
    let mut device = Device::new();
    let launch = launch(&mut device, &ptx, 1, 32);
    let stop = device.run(&launch).stop.unwrap();
    assert_eq!(stop.kind, StopKind::Deadlock, "{stop}");
}

/// Only the device's own `malloc` and `free` use its heap, not a function with such a name.
#[test]
fn a_function_is_not_known_by_its_name() {
    let function = ".func lock_free_add(.reg .b32 %a) { ret; }";
    let ptx = module(ADA, function, "call lock_free_add, (%t);");
    assert_eq!(ops(&ptx, "lock_free_add"), [Op::Call(Callee::Function)]);
}

/// Other blocks see atomics on global memory, and none on the block's own shared memory.
#[test]
fn atomics_on_shared_memory_are_of_the_block() {
    for space in ["shared", "shared::cta"] {
        let body = format!("mov.u32 %r1, first; atom.{space}.add.u32 %r2, [%r1], 1;");
        let ptx = module(ADA, "", &body);
        let memory = ops(&ptx, "atom.")[0].effects().memory.unwrap();
        assert_eq!((memory.kind, memory.space), (MemoryKind::Atomic, Space::Shared), "{space}");
        let mut device = Device::new();
        let program = launch(&mut device, &ptx, 2, 32).program();
        assert_eq!(program.communication, Communication::None, "{space}");
    }
}

/// A performance monitor is a counter of the machine, as a clock is.
#[test]
fn a_branch_on_a_performance_monitor_depends_on_the_machine() {
    let after = "setp.eq.u32 %p1, %r1, 7; @%p1 st.global.u32 [%to], %t;";
    for monitor in ["%pm0", "%pm7"] {
        let found = checked(&module(ADA, "", &format!("mov.u32 %r1, {monitor}; {after}")), Check::Machine);
        assert_eq!(classes(&found), [Class::MachineDependent], "{monitor}");
    }
    let found = checked(&module(ADA, "", &format!("mov.u32 %r1, %laneid; {after}")), Check::Machine);
    assert!(found.findings.is_empty());
}

/// `.aligned` is not written in old PTX, and all lanes must take part nevertheless.
#[test]
fn a_product_without_aligned_needs_all_lanes() {
    let body = |aligned: &str| {
        format!(
            "setp.gt.u32 %p1, %t, 3; @%p1 bra DONE;\n\
             mma.sync{aligned}.m16n8k8.row.col.f32.f16.f16.f32 {{%f0,%f1,%f2,%f3}}, {{%r0,%r1}}, {{%r2}}, {{%f0,%f1,%f2,%f3}};\n\
             DONE:"
        )
    };
    for aligned in ["", ".aligned"] {
        let found = checked(&module(ADA, "", &body(aligned)), Check::Lanes);
        assert_eq!(classes(&found), [Class::Lanes], "{aligned:?}");
    }
}

/// `cvt.pack` makes one word of two integers and a third word: elements of matrices are not followed through it.
#[test]
fn a_packing_conversion_is_not_one_of_an_element() {
    let ptx = module(ADA, "", "cvt.pack.sat.u8.s32.b32 %r1, %r2, %r3, %r4; cvt.u32.u8 %r5, %r1;");
    let packs = ops(&ptx, "cvt").into_iter().map(|op| match op {
        Op::Convert(convert) => convert.pack,
        other => panic!("{other:?}"),
    });
    assert_eq!(packs.collect::<Vec<_>>(), [true, false]);
}

/// A compare-and-swap loop whose first guess is a plain load of the same address is an atomic of its own. The address may be
/// computed twice.
#[test]
fn one_address_in_two_registers_is_one_address() {
    let body = |guess: &str| {
        format!(
            "add.u64 %d1, %out, 16; add.u64 %d2, %out, 16; mov.u32 %r1, 0;\n\
             ld.global.u32 {guess}, [%d1];\n\
             LOOP: mov.u32 %r2, %r1; add.u32 %r3, %r2, 1;\n\
             atom.global.cas.b32 %r1, [%d2], %r2, %r3; setp.ne.u32 %p1, %r1, %r2; @%p1 bra LOOP;"
        )
    };
    assert!(checked(&module(ADA, "", &body("%r1")), Check::Race).findings.is_empty());
    // A load that is not the first guess races with the swaps of the other threads.
    assert_eq!(classes(&checked(&module(ADA, "", &body("%r9")), Check::Race)), [Class::GlobalRace]);
}
