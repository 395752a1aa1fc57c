//! A launch of any kernel ends at its limits, and reports that.

use std::fmt::Write as _;
use warpproof_sim::schedule::Schedule;
use warpproof_sim::{Blame, Device, Limits, Outcome, Stop, StopKind};

const HEAD: &str = ".version 8.7\n.target sm_89\n.address_size 64\n";
const LIMITS: Limits = Limits { instructions: 20_000, stack: 16 * 1024, output: 4096, memory: 1 << 30 };

fn device(threads: usize) -> Device {
    let mut device = Device::new().with_memory(1 << 20).with_threads(threads);
    device.limits = LIMITS;
    device
}

fn run_on(mut device: Device, module: &str, grid: u32, block: u32) -> Outcome {
    let module = device.load(&format!("{HEAD}{module}")).expect("the module loads");
    let kernel = module.kernel("k").expect("the kernel decodes");
    device.run(&kernel.launch().grid(grid).block(block))
}

fn run(module: &str, grid: u32, block: u32) -> Outcome {
    run_on(device(1), module, grid, block)
}

fn load_stop(module: &str) -> Box<Stop> {
    let mut device = device(1);
    let module = device.load(&format!("{HEAD}{module}"));
    match module {
        Err(stop) => stop,
        Ok(module) => module.kernel("k").expect_err("the kernel decodes"),
    }
}

#[track_caller]
fn assert_limit(stop: Option<&Stop>, words: &str) {
    let stop = stop.expect("expected a stop, but the kernel ended");
    assert_eq!((stop.blame, stop.kind), (Blame::Limit, StopKind::Limit), "{stop}");
    assert_eq!(stop.exit_code(), 4);
    assert!(stop.sentence.contains(words), "{stop}");
}

const ENDLESS: &str = ".entry k() { L: bra L; }";

#[test]
fn an_endless_loop_ends_at_the_limit_for_any_grid_and_turn() {
    for (grid, block) in [(1, 1), (1, 1024), (64, 32), (1000, 256), (0x7fff_ffff, 1)] {
        for quantum in [0, 1, 4096, u64::MAX] {
            for threads in [1, 2] {
                let mut device = device(threads);
                device.schedule = Schedule { quantum, ..Schedule::default() };
                let outcome = run_on(device, ENDLESS, grid, block);
                assert_limit(outcome.stop.as_deref(), "20000 warp instructions");
                // The start cost of the block counts, but is not executed.
                let most = if grid == 1 { 20_001 } else { 20_001 - 64 };
                let what = format!("{grid} blocks of {block}, turns of {quantum}");
                assert!((19_700..=most).contains(&outcome.instructions), "{}: {what}", outcome.instructions);
                let stop = outcome.stop.unwrap();
                assert_eq!(stop.place.as_ref().unwrap().instruction, "bra L;", "{what}");
                assert!(stop.notes[0].ends_with("of block (0,0,0) was here"), "{stop}");
            }
        }
    }
}

#[test]
fn blocks_that_wait_for_each_other_end_at_the_limit() {
    let spin = ".global .u32 g; .entry k() { .reg .b32 %r<2>; L: atom.global.add.u32 %r1, [g], 0; bra L; }";
    for grid in [1, 2, 100_000, 0x7fff_ffff] {
        let outcome = run(spin, grid, 64);
        assert_limit(outcome.stop.as_deref(), "warp instructions");
        assert!((1..=20_001).contains(&outcome.instructions), "{}", outcome.instructions);
    }
}

#[test]
fn a_grid_of_empty_kernels_counts_its_blocks() {
    for body in [".entry k() { ret; }", ".global .u32 g; .entry k() { red.global.add.u32 [g], 1; }"] {
        let outcome = run(body, 0x7fff_ffff, 32);
        assert_limit(outcome.stop.as_deref(), "warp instructions");
        // Starting a block counts as more than the one instruction it has.
        assert!(outcome.instructions <= 20_000 / 64 * 2, "{}", outcome.instructions);
    }
}

#[test]
fn more_blocks_than_can_be_numbered_are_refused() {
    let mut device = device(1);
    let module = device.load(&format!("{HEAD}{ENDLESS}")).unwrap();
    let launch = module.kernel("k").unwrap().launch().grid((0x7fff_ffff, 65_535, 65_535));
    assert_limit(device.run(&launch).stop.as_deref(), "blocks");
}

#[test]
fn endless_recursion_ends_at_the_stack() {
    // Neither function has a frame; the data that a call saves counts.
    let plain = ".func f() { call f; ret; } .entry k() { call f; ret; }";
    let outcome = run(plain, 1, 32);
    assert_limit(outcome.stop.as_deref(), "the stack of a thread exceeded 16384 bytes");
    assert!(outcome.instructions <= 1025, "{}", outcome.instructions);

    let mut wide = String::from(".func f() { .reg .b64 %rd<512>; call f;\n");
    for i in 0..512 {
        writeln!(wide, "mov.b64 %rd{i}, {i};").unwrap();
    }
    wide += "ret; } .entry k() { call f; ret; }";
    let outcome = run(&wide, 1, 32);
    assert_limit(outcome.stop.as_deref(), "the stack of a thread");
    assert!(outcome.instructions <= 4, "each call keeps 4096 bytes: {}", outcome.instructions);

    let pointer = ".func f(); .global .u64 p = f; .func f() { .reg .b64 %rd; ld.global.u64 %rd, [p];\n\
        P: .callprototype _ (); call %rd, P; ret; } .entry k() { call f; ret; }";
    assert_limit(run(pointer, 1, 32).stop.as_deref(), "the stack of a thread");
}

#[test]
fn a_frame_beyond_the_stack_is_refused() {
    let kernel = ".entry k() { .local .b8 l[16385]; .reg .b32 %r; ld.local.b32 %r, [l]; ret; }";
    assert_limit(run(kernel, 1, 1).stop.as_deref(), "stack limit");
    let callee = ".func f() { .local .b8 l[4294967295]; ret; } .entry k() { call f; ret; }";
    assert_limit(run(callee, 1, 1).stop.as_deref(), "the stack of a thread");
}

#[test]
fn a_prototype_larger_than_the_function_moves_nothing() {
    let module = ".func f(.param .b32 a) { ret; } .global .u64 p = f;\n\
        .entry k() { .param .b8 big[1048576]; .reg .b64 %rd; ld.global.u64 %rd, [p];\n\
        P: .callprototype _ (.param .b8 _[1048576]); call %rd, (big), P; ret; }";
    let mut device = device(1);
    device.limits.stack = 4 << 20;
    let stop = run_on(device, module, 1, 32).stop.unwrap();
    assert_eq!((stop.blame, stop.kind), (Blame::Kernel, StopKind::Malformed), "{stop}");
}

fn printing(format: &str, body: &str) -> String {
    let bytes: Vec<String> = format.bytes().chain([0]).map(|byte| byte.to_string()).collect();
    format!(
        ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n\
         .global .b8 format[{}] = {{{}}}; .global .b64 list[4];\n\
         .entry k() {{ .reg .b64 %rd<3>; .param .b32 r; .param .b64 a; .param .b64 b;\n\
         mov.u64 %rd1, format; mov.u64 %rd2, list; st.global.u64 [list], %rd1; st.global.u64 [list+8], %rd1;\n\
         {body} }}",
        bytes.len(),
        bytes.join(", ")
    )
}

const PRINT: &str = "st.param.b64 [a], %rd1; st.param.b64 [b], %rd2; call (r), vprintf, (a, b);";

#[test]
fn a_flood_of_printf_ends_at_the_limit() {
    let flood = printing("hello\n", &format!("L: {PRINT} bra L;"));
    for (grid, block) in [(1, 1), (1, 1024), (200, 32)] {
        let outcome = run(&flood, grid, block);
        assert_limit(outcome.stop.as_deref(), "printf printed more than 4096 bytes");
        assert!(outcome.output.len() <= 2 * 4096, "{}", outcome.output.len());
    }
    // Little output per block, much in total.
    let mut device = device(1);
    device.limits.instructions = 1_000_000;
    let outcome = run_on(device, &printing("hello\n", &format!("{PRINT} ret;")), 1000, 1);
    assert_limit(outcome.stop.as_deref(), "printf printed more than 4096 bytes");
}

#[test]
fn giant_fields_and_strings_are_not_printed_first() {
    let wide = printing("%4096s%4096s%4096s%4096s", &format!("{PRINT} ret;"));
    let outcome = run(&wide, 1, 32);
    assert_limit(outcome.stop.as_deref(), "printf printed");
    assert!(outcome.output.len() < 3 * 4096, "{}", outcome.output.len());
    // A string that is read but not printed counts as work.
    let silent = printing(&"%.0s".repeat(1000), &format!("st.global.u64 [list], 0; L: {PRINT} bra L;"));
    let stop = run(&silent, 1, 32).stop.unwrap();
    assert!(matches!(stop.kind, StopKind::Limit | StopKind::Bounds), "{stop}");
}

#[test]
fn malloc_without_end_gives_null() {
    let module = ".extern .func (.param .b64 r) malloc(.param .b64 a);\n\
        .global .u32 refused; .entry k() { .param .b64 r; .param .b64 a; .reg .b64 %rd; .reg .pred %p;\n\
        L: st.param.b64 [a], 65536; call (r), malloc, (a); ld.param.b64 %rd, [r];\n\
        setp.ne.u64 %p, %rd, 0; @%p bra L; st.global.u32 [refused], 1; ret; }";
    let mut device = device(1);
    let module = device.load(&format!("{HEAD}{module}")).unwrap();
    let launch = module.kernel("k").unwrap().launch();
    launch.run(&mut device).unwrap();
    let (address, _) = module.global("refused").unwrap();
    assert_eq!(device.memory().read(address, 4).unwrap(), [1, 0, 0, 0]);
    assert!(device.memory().used() <= 1 << 20);
}

#[test]
fn variables_beyond_device_memory_are_refused() {
    for size in ["1048577", "4294967295", "9223372036854775807"] {
        assert_limit(Some(&load_stop(&format!(".global .b8 g[{size}];"))), "out of device memory");
    }
    let many = ".global .b8 a[600000];\n.global .b8 b[600000];";
    assert_limit(Some(&load_stop(many)), "variable `b`: out of device memory");
    for space in [".const", ".shared"] {
        let stop = load_stop(&format!("{space} .b8 g[4294967296];"));
        assert_eq!((stop.blame, stop.kind), (Blame::Input, StopKind::Malformed), "{stop}");
    }
}

#[test]
fn giant_declarations_cost_nothing_until_used() {
    let module = ".entry k() { .reg .b64 %rd<4294967295>; .reg .pred %p<4000000000>;\n\
        T: .branchtargets L<4294967295>; .shared .b8 s[64]; mov.b64 %rd4294967294, 1; ret; }";
    assert_eq!(run(module, 1, 32).stop, None);
    // Used as a table, it lacks labels.
    let table = ".entry k() { .reg .b32 %r; T: .branchtargets L<4294967295>; brx.idx %r, T; L0: L1: ret; }";
    assert_eq!(run(table, 1, 32).stop.map(|stop| stop.kind), Some(StopKind::Malformed));
    let family = ".entry k() { .reg .b32 %r; T: .branchtargets L<2>; brx.idx %r, T; L0: L1: ret; }";
    assert_eq!(run(family, 1, 32).stop, None);
}

#[test]
fn short_rows_of_a_giant_array_are_not_filled_in_beyond_it() {
    let rows = "{}, ".repeat(2000);
    let list = format!(".global .b8 g[2001][500] = {{{rows}{{1}}}}; .entry k() {{ ret; }}");
    assert_eq!(run(&list, 1, 1).stop, None);
    let stop = load_stop(&format!(".global .b8 g[2001][16777216] = {{{rows}{{1}}}};"));
    assert_limit(Some(&stop), "out of device memory");
}

#[test]
fn a_block_with_too_many_registers_is_refused() {
    let mut kernel = String::from(".entry k() { .reg .b64 %rd<200000>;\n");
    for i in 0..140_000 {
        writeln!(kernel, "mov.b64 %rd{i}, 0;").unwrap();
    }
    kernel += "ret; }";
    let outcome = run(&kernel, 1, 1024);
    assert_limit(outcome.stop.as_deref(), "registers and local memory");
}

#[test]
fn an_address_or_special_register_is_no_predicate() {
    for operand in ["%tid.x", "s", "d"] {
        let module = format!(
            ".shared .b32 s; .extern .shared .b32 d[];\n\
             .entry k() {{ .reg .pred %p; and.pred %p, {operand}, %p; ret; }}"
        );
        let stop = run(&module, 1, 32).stop.unwrap();
        assert_eq!((stop.blame, stop.kind), (Blame::Input, StopKind::Malformed), "{stop}");
    }
}

#[test]
fn addresses_wrap_without_harm() {
    for access in [
        "ld.local.b32 %r, [%rd];",
        "ld.local.b64 %rd, [%rd+4];",
        "ld.local.b32 %r, [l+9223372036854775807];",
        "ld.shared.b32 %r, [%rd];",
        "st.b32 [%rd], %r;",
    ] {
        let module = format!(
            ".entry k() {{ .local .b32 l; .reg .b64 %rd; .reg .b32 %r; mov.b64 %rd, -4; {access} ret; }}"
        );
        let stop = run(&module, 1, 32).stop.unwrap();
        assert!(matches!(stop.kind, StopKind::Bounds | StopKind::Alignment), "{access}: {stop}");
    }
}

#[test]
fn arrivals_without_end_do_not_overflow() {
    let kernel = ".entry k() { L: bar.arrive 1, 4294967264; bra L; }";
    assert_limit(run(kernel, 1, 1024).stop.as_deref(), "warp instructions");
}

/// Runs with a memory limit on several numbers of threads, and returns the stop, which must be the same each time.
fn run_within(memory: u64, module: &str, grid: u32, block: u32) -> Option<Box<Stop>> {
    let [first, others @ ..] = [1, 2, 5].map(|threads| {
        let mut device = device(threads);
        device.limits = Limits { memory, instructions: 100_000_000, stack: 512 << 10, output: 1 << 30 };
        run_on(device, module, grid, block)
    });
    for other in others {
        assert_eq!((&other.stop, other.instructions), (&first.stop, first.instructions));
    }
    first.stop
}

#[test]
fn stores_of_a_wave_end_at_the_limit() {
    // Every block stores to one page after another.
    let stores = ".global .b8 g[1000000]; .entry k() { .reg .b64 %rd; .reg .pred %p; .reg .b32 %r;\n\
        mov.u64 %rd, g; mov.u32 %r, 0; L: st.global.u32 [%rd], 1; add.u64 %rd, %rd, 1024;\n\
        add.u32 %r, %r, 1; setp.lt.u32 %p, %r, 900; @%p bra L; ret; }";
    assert_eq!(run_within(1 << 30, stores, 200, 1), None);
    let stop = run_within(16 << 20, stores, 200, 1);
    assert_limit(stop.as_deref(), "stores and printed text of a block take more than 131072 bytes");
    let stop = stop.unwrap();
    assert!(stop.place.as_ref().unwrap().instruction.starts_with("st.global"), "{stop}");
    assert_eq!((stop.block, stop.thread), (Some([0; 3]), Some([0; 3])), "{stop}");
    // With fewer blocks each has a larger share, and a single block needs none.
    assert_eq!(run_within(16 << 20, stores, 4, 1), None);
    assert_eq!(run_within(1 << 20, stores, 1, 1), None);
}

#[test]
fn deep_calls_end_at_the_limit() {
    let deep = ".func f(.reg .b32 n) { .reg .pred %p; .reg .b32 %r; .reg .b64 %rd<9>; .local .b8 l[64]; \n\
        mov.b64 %rd1, 1; sub.u32 %r, n, 1; setp.eq.u32 %p, %r, 0; @%p ret; call f, (%r); ret; }\n\
        .entry k() { call f, (100); ret; }";
    for grid in [1, 100] {
        assert_eq!(run_within(1 << 30, deep, grid, 256), None);
        let stop = run_within(1 << 20, deep, grid, 256);
        assert_limit(stop.as_deref(), "registers, local memory, calls and pending copies of a block");
        assert!(stop.unwrap().place.is_some());
    }
}

#[test]
fn pending_copies_end_at_the_limit() {
    let copies = ".global .align 16 .b8 g[16]; .entry k() { .shared .align 16 .b8 s[16];\n\
        L: cp.async.ca.shared.global [s], [g], 16; bra L; }";
    // One warp saves a few thousand bytes; many warps save much.
    for grid in [1, 100] {
        assert_limit(run_within(1 << 20, copies, grid, 512).as_deref(), "pending copies");
    }
}

#[test]
fn printed_text_of_blocks_under_way_ends_at_the_limit() {
    // Blocks that print and then wait for each other.
    let body = format!(
        "mov.u32 %n, 0; L: {PRINT} add.u32 %n, %n, 1; setp.lt.u32 %q, %n, 100; @%q bra L;\n\
        W: ld.volatile.global.u32 %n, [list]; bra W;"
    );
    let text = printing(&"x".repeat(1000), &body)
        .replace(".reg .b64 %rd<3>;", ".reg .b64 %rd<3>; .reg .b32 %n; .reg .pred %q;");
    assert_limit(run_within(4 << 20, &text, 1000, 32).as_deref(), "in addition to the buffers");
}

#[test]
fn allocations_without_end_are_a_limit_not_a_bug_of_the_kernel() {
    let module = ".extern .func (.param .b64 r) malloc(.param .b64 a); .extern .func free(.param .b64 a);\n\
        .entry k() { .param .b64 r; .param .b64 a; .reg .b64 %rd;\n\
        L: st.param.b64 [a], 16; call (r), malloc, (a); ld.param.b64 %rd, [r]; st.param.b64 [a], %rd;\n\
        call free, (a); bra L; }";
    let mut device = device(1);
    device.limits.instructions = 100_000_000;
    let outcome = run_on(device, module, 1, 32);
    assert_limit(outcome.stop.as_deref(), "allocations");
}
