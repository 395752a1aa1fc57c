//! Tests the schedule model, instruction by instruction.
#![expect(clippy::unwrap_used, reason = "a test fails at the first error")]

use std::fmt::Write as _;

use warpproof_model::{
    DEVICES, Device, TensorType, Usage,
    bound::{Waves, Work, bounds},
    sass::{Flow, Function, parse},
    schedule::{
        Access, Code, Limits, Path, Ratios, Reason, Residency, Schedule, ScheduleError, launch, pipes,
        simulate,
    },
};

/// Control bits of an instruction.
#[derive(Clone, Copy)]
struct Bits {
    stall: u64,
    write: u64,
    read: u64,
    wait: u64,
}

const PLAIN: Bits = Bits { stall: 1, write: 7, read: 7, wait: 0 };

/// A function of instructions; a text that ends with a colon is a label.
fn function(lines: &[(&str, Bits)]) -> Function {
    let mut text = ".section .text.k,\"ax\"\n".to_owned();
    let mut offset = 0;
    for (code, bits) in lines {
        if code.ends_with(':') {
            writeln!(text, "{code}").unwrap();
            continue;
        }
        // Bit 109 set: no yield.
        let high = bits.wait << 52 | bits.read << 49 | bits.write << 46 | 1 << 45 | bits.stall << 41;
        writeln!(text, "/*{offset:04x}*/ {code} ; /* 0x0000000000000000 */\n/* {high:#018x} */").unwrap();
        offset += 16;
    }
    parse(&text).unwrap().remove(0)
}

struct Straight;

impl Path for Straight {
    fn next(&mut self, _: u32, _: usize) -> usize {
        0
    }
}

fn run(
    device: &str,
    function: &Function,
    accesses: &[Access],
    blocks: u32,
    warps: u32,
) -> Result<Schedule, ScheduleError> {
    let flow = Flow::new(function);
    let code = Code { function, flow: &flow, accesses };
    let residency = Residency { blocks, warps, multiprocessors: 1 };
    let limits = Limits { timeline: 1000, ..Limits::default() };
    simulate(Device::named(device).unwrap(), &code, residency, &mut Straight, limits)
}

fn stall(stall: u64) -> Bits {
    Bits { stall, ..PLAIN }
}

fn issue_cycles(schedule: &Schedule, warp: u32) -> Vec<u64> {
    schedule.timeline.iter().filter(|event| event.warp == warp).map(|event| event.cycle).collect()
}

#[test]
fn stall_counts_are_waited_for() {
    let code = function(&[
        ("FADD R0, R0, R1", stall(4)),
        ("FADD R0, R0, R1", stall(4)),
        ("FADD R0, R0, R1", stall(4)),
        ("EXIT", stall(5)),
    ]);
    let schedule = run("l4", &code, &[], 1, 1).unwrap();
    assert_eq!(issue_cycles(&schedule, 0), [0, 4, 8, 12]);
    assert_eq!(schedule.cycles, 13);
    assert_eq!(schedule.stalls.of(Reason::FixedLatency), 9);
    assert_eq!(schedule.stalls.total(), 9);
    assert_eq!(schedule.issued, 4);
}

#[test]
fn four_sub_cores_issue_at_once_and_the_fifth_warp_waits() {
    let code = function(&[("FADD R0, R0, R1", stall(4)), ("FADD R0, R0, R1", stall(4)), ("EXIT", PLAIN)]);
    let schedule = run("l4", &code, &[], 1, 5).unwrap();
    for warp in 1..4 {
        assert_eq!(issue_cycles(&schedule, warp), [0, 4, 8]);
    }
    // Warps 0 and 4 share a sub-core; the younger issues first, and one cycle apart they never collide again.
    assert_eq!(issue_cycles(&schedule, 4), [0, 4, 8]);
    assert_eq!(issue_cycles(&schedule, 0), [1, 5, 9]);
}

#[test]
fn the_same_warp_goes_on_while_it_can() {
    let code = function(&[("IADD3 R0, R1, R2, RZ", PLAIN), ("FADD R3, R4, R5", PLAIN), ("EXIT", PLAIN)]);
    let schedule = run("l4", &code, &[], 1, 5).unwrap();
    // Warp 4 issues three in a row before warp 0 gets a turn.
    assert_eq!(issue_cycles(&schedule, 4), [0, 1, 2]);
    assert_eq!(issue_cycles(&schedule, 0), [3, 4, 5]);
}

#[test]
fn pipes_take_an_instruction_at_their_interval() {
    let repeat = |text: &'static str| {
        let mut lines = vec![(text, PLAIN); 4];
        lines.push(("EXIT", PLAIN));
        function(&lines)
    };
    for (device, text, interval) in [
        ("l4", "FFMA R0, R1, R2, R3", 1),
        ("a100", "FFMA R0, R1, R2, R3", 2),
        ("l4", "IMAD R0, R1, R2, R3", 2),
        ("l4", "LOP3.LUT R0, R1, R2, R3, 0x1e, !PT", 2),
        ("l4", "MUFU.EX2 R0, R1", 8),
        ("l4", "HMMA.16816.F32 R0, R4, R8, R0", 16),
        ("a100", "HMMA.16816.F32 R0, R4, R8, R0", 8),
        ("rtx4090", "HMMA.16816.F32 R0, R4, R8, R0", 32),
        ("l4", "QMMA.16832.F32.E4M3.E4M3 R0, R4, R8, R0", 16),
        ("l4", "DFMA R0, R2, R4, R6", 64),
        // 16 lanes of a multiprocessor, 4 of a sub-core.
        ("l4", "REDUX.SUM UR4, R0", 8),
        // A sparse product skips half of its depth.
        ("a100", "HMMA.SP.16832.F32 R0, R4, R8, R0, R12, 0x0", 8),
        ("l4", "HMMA.SP.16832.F16 R0, R4, R8, R0, R12, 0x0", 16),
    ] {
        let schedule = run(device, &repeat(text), &[], 1, 1).unwrap();
        let cycles = issue_cycles(&schedule, 0);
        let gaps: Vec<u64> = cycles.windows(2).take(3).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(gaps, [interval; 3], "{text} on {device}");
    }
}

#[test]
fn counters_hold_back_what_waits_for_them() {
    let load = Bits { write: 2, stall: 2, ..PLAIN };
    let wait = Bits { wait: 1 << 2, ..PLAIN };
    for (text, latency) in [
        ("LDS R0, [R1]", 24),
        ("LDS.128 R0, [R1]", 26),
        ("LDSM.16.M88.4 R0, [R1]", 29),
        ("MUFU.EX2 R0, R1", 20),
        ("LDG.E R0, [R2.64]", 34),
        ("LDG.E.128 R0, [R2.64]", 40),
    ] {
        let code = function(&[(text, load), ("FADD R4, R0, R0", wait), ("EXIT", PLAIN)]);
        let schedule = run("l4", &code, &[], 1, 1).unwrap();
        assert_eq!(issue_cycles(&schedule, 0)[1], latency, "{text}");
    }
}

#[test]
fn the_memory_queue_holds_five() {
    // Huerta et al. 2025, RTX A6000: five issue in a row, the sixth 11 cycles after the first, then one every
    // four cycles; with four sub-cores, one every eight.
    let mut lines = vec![("LDS R0, [R1]", PLAIN); 9];
    lines.push(("EXIT", PLAIN));
    let code = function(&lines);
    let one = run("rtx3090", &code, &[], 1, 1).unwrap();
    assert_eq!(issue_cycles(&one, 0)[..9], [0, 1, 2, 3, 4, 11, 15, 19, 23]);
    let four = run("rtx3090", &code, &[], 1, 4).unwrap();
    assert_eq!(issue_cycles(&four, 0)[..9], [0, 1, 2, 3, 4, 11, 19, 27, 35]);
    assert!(four.stalls.of(Reason::MemoryQueue) > 0);
}

/// Instructions of every kind, with the multiply-adds of matrix instructions.
const KINDS: &[(&str, Option<(TensorType, u64)>)] = &[
    ("FFMA R0, R1, R2, R3", None),
    ("IMAD R0, R1, R2, R3", None),
    ("HFMA2 R0, R1, R2, R3", None),
    ("LOP3.LUT R0, R1, R2, R3, 0x1e, !PT", None),
    ("MUFU.EX2 R0, R1", None),
    ("DFMA R0, R2, R4, R6", None),
    ("SHFL.BFLY PT, R0, R1, 0x1, 0x1f", None),
    ("REDUX.SUM UR4, R0", None),
    ("VOTE.ANY R0, PT, P0", None),
    ("UIADD3 UR4, UR5, UR6, URZ", None),
    ("NOP", None),
    ("LDS R0, [R1]", None),
    ("LDS.128 R0, [R4]", None),
    ("STS R0, [R1]", None),
    ("LDG.E R0, [R2.64]", None),
    ("LDG.E.128 R0, [R2.64]", None),
    ("STG.E [R2.64], R0", None),
    ("LDL R0, [R1]", None),
    ("STL [R1], R0", None),
    ("HMMA.16816.F32 R0, R4, R8, R0", Some((TensorType::F16ToF32, 2048))),
    ("QMMA.16832.F32.E4M3.E4M3 R0, R4, R8, R0", Some((TensorType::F8ToF32, 4096))),
    ("IMMA.16832.S8.S8 R0, R4.ROW, R8.COL, R0", Some((TensorType::Int8, 4096))),
];

#[test]
fn no_schedule_is_below_a_bound() {
    const TIMES: usize = 64;
    for device in &DEVICES {
        for (text, tensor) in KINDS {
            if tensor.is_some_and(|(kind, _)| device.rates.tensor(kind).is_none()) {
                continue;
            }
            for (from_dram, ways) in [(false, 1.0), (true, 1.0), (false, 4.0)] {
                let mut lines = vec![(*text, PLAIN); TIMES];
                lines.push(("EXIT", PLAIN));
                let code = function(&lines);
                let near = Access::ideal(&code.instructions[0]);
                let access = if from_dram { near.from_dram() } else { near };
                let access = Access { wavefronts: access.wavefronts * ways, ..access };
                let flow = Flow::new(&code);
                let accesses = vec![access; TIMES];
                let input = Code { function: &code, flow: &flow, accesses: &accesses };
                let sms = device.multiprocessors.value;
                let residency = Residency { blocks: 2, warps: 8, multiprocessors: sms };
                let schedule = simulate(device, &input, residency, &mut Straight, Limits::default()).unwrap();
                let warps = u64::from(sms) * 16;
                let times = warps * 64;
                let whole = |amount: f64| -> u64 { format!("{amount:.0}").parse::<u64>().unwrap() * times };
                let shared = text.starts_with("LDS") || text.starts_with("STS");
                let global = text.starts_with("LDG") || text.starts_with("STG");
                let beyond = global && (from_dram || text.starts_with("STG"));
                let work = Work {
                    instructions: pipes(device, &code, |_| warps),
                    tensor: tensor.iter().map(|(kind, fma)| (*kind, fma * times)).collect(),
                    shared_wavefronts: if shared { whole(access.wavefronts) } else { 0 },
                    l1_sectors: if global { whole(access.sectors) } else { 0 },
                    l2_bytes: if beyond { whole(access.sectors) * 32 } else { 0 },
                    dram_bytes: if global && from_dram { whole(access.sectors) * 32 } else { 0 },
                    dram_bytes_warm: 0,
                    one_address: 0,
                    blocks: u64::from(sms) * 2,
                    threads: 256,
                    cluster: 1,
                    usage: Usage { registers: 32, ..Usage::default() },
                };
                let bounds = bounds(device, &work).unwrap();
                let first = bounds.binding_cold().0.unwrap();
                let cycles = format!("{:.0}", (first.us * f64::from(device.boost_mhz.value)).floor());
                let cycles: u64 = cycles.parse().unwrap();
                assert!(
                    schedule.cycles >= cycles,
                    "{text} on {}: {} cycles, but the bound of {} is {cycles}",
                    device.id,
                    schedule.cycles,
                    first.resource
                );
            }
        }
    }
}

#[test]
fn shuffles_are_one_warp_in_a_cycle() {
    let mut lines = vec![("SHFL.BFLY PT, R0, R1, 0x1, 0x1f", PLAIN); 256];
    lines.push(("EXIT", PLAIN));
    let schedule = run("l4", &function(&lines), &[], 1, 8).unwrap();
    // 8 warps of 256 instructions, 32 lanes per cycle.
    assert!(schedule.cycles.abs_diff(2048) < 64, "{}", schedule.cycles);
}

#[test]
fn issue_slots_are_used_or_lost_to_a_reason() {
    let load = Bits { write: 0, stall: 2, ..PLAIN };
    let wait = Bits { wait: 1, stall: 4, ..PLAIN };
    let code = function(&[("LDG.E R0, [R2.64]", load), ("FADD R4, R0, R0", wait), ("EXIT", PLAIN)]);
    let schedule = run("l4", &code, &[], 1, 8).unwrap();
    // Two warps wait at the same time: the stalls count both warps, the lost slots count the sub-core once.
    let (stalls, lost) = (schedule.stalls.of(Reason::Global), schedule.lost.of(Reason::Global));
    assert!(stalls > 2 * 4 * 30 && stalls.abs_diff(2 * lost) < 16, "{stalls} {lost}");
    assert_eq!(schedule.costs[1].lost.of(Reason::Global), lost);
    // All sub-cores do the same, and end within the cycles that the loads of all four take.
    let slots = schedule.cycles * 4;
    assert!(slots - schedule.issued - schedule.lost.total() < 40, "{schedule:?}");
}

#[test]
fn a_multiprocessor_gets_the_share_of_its_blocks() {
    let mut lines = vec![("LDG.E.128 R0, [R2.64]", PLAIN); 64];
    lines.push(("EXIT", PLAIN));
    let code = function(&lines);
    let flow = Flow::new(&code);
    let accesses = vec![Access::ideal(&code.instructions[0]).from_l2(); 64];
    let input = Code { function: &code, flow: &flow, accesses: &accesses };
    let l4 = Device::named("l4").unwrap();
    let cycles = |multiprocessors| {
        let residency = Residency { blocks: 1, warps: 8, multiprocessors };
        simulate(l4, &input, residency, &mut Straight, Limits::default()).unwrap().cycles
    };
    // 64 loads of 512 bytes by 8 warps: at 16 bytes per cycle, at 32, and at the maximum of one
    // multiprocessor.
    assert!(cycles(58).abs_diff(16_384) < 300, "{}", cycles(58));
    assert!(cycles(29).abs_diff(8_192) < 300, "{}", cycles(29));
    assert!(cycles(1).abs_diff(4_096) < 400, "{}", cycles(1));
    let t4 = Device::named("t4").unwrap();
    let residency = Residency { blocks: 1, warps: 8, multiprocessors: 40 };
    let schedule = simulate(t4, &input, residency, &mut Straight, Limits::default()).unwrap();
    assert!(schedule.assumed[0].contains("no published L2 bandwidth"), "{:?}", schedule.assumed);
}

#[test]
fn a_barrier_named_by_a_register_is_uncertain() {
    for text in ["BAR.SYNC.DEFER_BLOCKING R4, R5", "BAR.ARV R4, 0x80"] {
        let code = function(&[(text, PLAIN), ("EXIT", PLAIN)]);
        assert!(matches!(run("l4", &code, &[], 1, 1), Err(ScheduleError::Uncertain(_))), "{text}");
    }
    let code = function(&[("BAR.RED.POPC.DEFER_BLOCKING 0x0, P0", PLAIN), ("EXIT", PLAIN)]);
    assert!(run("l4", &code, &[], 1, 4).is_ok());
}

#[test]
fn conflicts_cost_a_cycle_for_each_wavefront() {
    let load = Bits { write: 0, stall: 2, ..PLAIN };
    let wait = Bits { wait: 1, ..PLAIN };
    let code = function(&[("LDS R0, [R1]", load), ("FADD R4, R0, R0", wait), ("EXIT", PLAIN)]);
    let access = Access::ideal(&code.instructions[0]);
    for ways in [1_u64, 2, 8, 32] {
        let wavefronts = f64::from(u32::try_from(ways).unwrap());
        let schedule = run("l4", &code, &[Access { wavefronts, ..access }], 1, 1).unwrap();
        assert_eq!(issue_cycles(&schedule, 0)[1], 24 + ways - 1);
    }
}

#[test]
fn levels_of_memory_have_their_latencies() {
    let load = Bits { write: 0, stall: 2, ..PLAIN };
    let wait = Bits { wait: 1, ..PLAIN };
    let code = function(&[("LDG.E R0, [R2.64]", load), ("FADD R4, R0, R0", wait), ("EXIT", PLAIN)]);
    let one_sector = Access { sectors: 1.0, ..Access::ideal(&code.instructions[0]) };
    for (access, latency) in [(one_sector, 34), (one_sector.from_l2(), 276), (one_sector.from_dram(), 631)] {
        let schedule = run("l4", &code, &[access], 1, 1).unwrap();
        let issued = issue_cycles(&schedule, 0)[1];
        assert!(issued.abs_diff(latency) <= 1, "{issued} instead of {latency}");
    }
}

#[test]
fn a_barrier_waits_for_every_warp_of_its_block() {
    let code = function(&[
        ("MUFU.EX2 R0, R1", stall(15)),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", PLAIN),
        ("FADD R0, R0, R1", PLAIN),
        ("EXIT", PLAIN),
    ]);
    let schedule = run("l4", &code, &[], 2, 5).unwrap();
    let after = |warp: u32| issue_cycles(&schedule, warp)[2];
    let arrived = |warp: u32| issue_cycles(&schedule, warp)[1];
    for block in 0..2 {
        let warps = block * 5..block * 5 + 5;
        let last = warps.clone().map(arrived).max().unwrap();
        assert!(warps.clone().all(|warp| after(warp) >= last + 20));
    }
    assert!(schedule.stalls.of(Reason::Barrier) > 0);
}

#[test]
fn warps_that_end_are_not_waited_for_and_arrivals_do_not_wait() {
    let code = function(&[("BAR.SYNC 0x0, 0x60", PLAIN), ("EXIT", PLAIN)]);
    // The barrier expects three warps, and one arrives.
    assert_eq!(run("l4", &code, &[], 1, 1), Err(ScheduleError::Deadlock { instruction: 1 }));
    let code = function(&[("BAR.ARV 0x1, 0x60", PLAIN), ("EXIT", PLAIN)]);
    assert!(run("l4", &code, &[], 1, 1).is_ok());
}

#[test]
fn groups_of_copies_complete_in_order() {
    let code = function(&[
        ("LDGSTS.E.128 [R1], [R2.64]", PLAIN),
        ("LDGDEPBAR", PLAIN),
        ("LDGSTS.E.128 [R1], [R2.64]", PLAIN),
        ("LDGDEPBAR", PLAIN),
        ("DEPBAR.LE SB0, 0x1", PLAIN),
        ("NOP", PLAIN),
        ("DEPBAR.LE SB0, 0x0", PLAIN),
        ("EXIT", PLAIN),
    ]);
    let l2 = Access::ideal(&code.instructions[0]).from_l2();
    let near = Access { sectors: 1.0, ..l2 };
    let schedule = run("l4", &code, &[near, near, l2], 1, 1).unwrap();
    let cycles = issue_cycles(&schedule, 0);
    assert!(cycles[4] > 270 && cycles[6] > cycles[4] + 10, "{cycles:?}");
    assert!(schedule.stalls.of(Reason::AsyncCopy) > 270);
}

#[test]
fn limits_and_nothing_to_run() {
    let code = function(&[("L1:", PLAIN), ("FADD R0, R0, R1", PLAIN), ("BRA `(L1)", PLAIN), ("EXIT", PLAIN)]);
    let flow = Flow::new(&code);
    let input = Code { function: &code, flow: &flow, accesses: &[] };
    let device = Device::named("l4").unwrap();
    let residency = Residency { blocks: 1, warps: 1, multiprocessors: 1 };
    let limits = Limits { instructions: 1000, timeline: 0 };
    let result = simulate(device, &input, residency, &mut Straight, limits);
    assert_eq!(result, Err(ScheduleError::TooLong { limit: 1000 }));
    for residency in [Residency { blocks: 0, ..residency }, Residency { warps: 1000, ..residency }] {
        assert_eq!(simulate(device, &input, residency, &mut Straight, limits), Err(ScheduleError::Empty));
    }
}

#[test]
fn a_launch_is_its_rounds() {
    let code = function(&[
        ("L1:", PLAIN),
        ("HMMA.16816.F32 R0, R4, R8, R0", PLAIN),
        ("@P0 BRA `(L1)", PLAIN),
        ("EXIT", PLAIN),
    ]);
    let flow = Flow::new(&code);
    let input = Code { function: &code, flow: &flow, accesses: &[] };
    let device = Device::named("l4").unwrap();
    let rounds = |waves: Waves| {
        let mut path = |residency: Residency| -> Box<dyn Path> {
            let warps = residency.blocks * residency.warps;
            let frequencies = flow.solve(u64::from(warps), &[Some(u64::from(warps) * 10), None]).unwrap();
            Box::new(Ratios::new(&flow, &frequencies, warps))
        };
        launch(device, &input, &waves, 4, &mut path, Limits::default()).unwrap()
    };
    let waves = Waves { blocks: 58, at_once: 116, rounds: 1, most_per_sm: 1, stretch: 1.0 };
    let one = rounds(waves);
    // Ten products, one every 16 cycles, after the first instructions have been fetched.
    let fetch = u64::from(device.rates.l2_latency.value);
    assert!(one.cycles.abs_diff(fetch + 58 + 160) < 20, "{}", one.cycles);
    let two = rounds(Waves { blocks: 58 * 3, rounds: 2, most_per_sm: 3, ..waves });
    assert_eq!(two.round.issued, 2 * one.round.issued);
    // The start of the third block overlaps with the second.
    assert!(two.cycles.abs_diff(fetch + 116 + 480) < 40, "{}", two.cycles);
    let ten = rounds(Waves { blocks: 58 * 20, rounds: 10, most_per_sm: 20, ..waves });
    let least = fetch + 116 + 3200;
    assert!((least - 20..least + 9 * 140).contains(&ten.cycles), "{}", ten.cycles);
    assert_eq!(rounds(waves), one);
}

#[test]
fn the_end_of_a_block_overlaps_with_the_beginning_of_the_next() {
    // A load, then products: with two blocks at a time, the load of one overlaps with the products of the
    // other.
    let load = Bits { write: 0, stall: 2, ..PLAIN };
    let mut lines =
        vec![("LDG.E R0, [R2.64]", load), ("FADD R4, R0, R0", Bits { wait: 1, stall: 4, ..PLAIN })];
    lines.extend(vec![("HMMA.16816.F32 R8, R4, R8, R8", PLAIN); 40]);
    lines.push(("EXIT", PLAIN));
    let code = function(&lines);
    let flow = Flow::new(&code);
    let far = Access { sectors: 1.0, ..Access::ideal(&code.instructions[0]).from_dram() };
    let input = Code { function: &code, flow: &flow, accesses: &[far] };
    let device = Device::named("l4").unwrap();
    let mut path = |_: Residency| -> Box<dyn Path> { Box::new(Straight) };
    let waves = Waves { blocks: 58 * 16, at_once: 116, rounds: 8, most_per_sm: 16, stretch: 1.0 };
    let found = launch(device, &input, &waves, 4, &mut path, Limits::default()).unwrap();
    // Sixteen blocks of 640 cycles of products on each sub-core; eight separate rounds would wait for memory
    // eight times.
    assert!(found.cycles < 8 * found.round.cycles, "{} against {}", found.cycles, found.round.cycles);
    assert!(found.cycles >= 16 * 640, "{}", found.cycles);
}

#[test]
fn a_kernel_ends_when_its_stores_have_arrived() {
    let code = function(&[("STG.E [R2.64], R0", PLAIN), ("EXIT", PLAIN)]);
    let schedule = run("l4", &code, &[], 1, 1).unwrap();
    assert!(schedule.cycles > 270, "{}", schedule.cycles);
}

#[test]
fn products_of_a_warpgroup_overlap_with_what_follows_until_they_are_waited_for() {
    let product = |last: bool| {
        if last {
            "HGMMA.64x64x16.F32 R24, gdesc[UR8], R24, gsb0"
        } else {
            "HGMMA.64x64x16.F32 R24, gdesc[UR8], R24"
        }
    };
    let code = function(&[
        ("WARPGROUP.ARRIVE", PLAIN),
        (product(false), PLAIN),
        (product(true), PLAIN),
        ("FADD R0, R0, R1", stall(4)),
        ("WARPGROUP.DEPBAR.LE gsb0, 0x0", PLAIN),
        ("FADD R24, R24, R1", stall(4)),
        ("EXIT", stall(5)),
    ]);
    let schedule = run("h100", &code, &[], 1, 4).unwrap();
    // 64 x 64 x 16 multiply-adds take 32 cycles at 2048 per cycle; the result of the second follows after 24 more.
    for warp in 0..4 {
        assert_eq!(issue_cycles(&schedule, warp), [0, 1, 33, 34, 89, 90, 94]);
    }
    assert_eq!(schedule.stalls.of(Reason::TensorBusy), 4 * (31 + 51));
    assert!(schedule.assumed.iter().any(|sentence| sentence.contains("wgmma")), "{:?}", schedule.assumed);
    // Two groups: the first is complete when one is left.
    let code = function(&[
        (product(true), PLAIN),
        (product(true), PLAIN),
        ("WARPGROUP.DEPBAR.LE gsb0, 0x1", PLAIN),
        ("EXIT", stall(5)),
    ]);
    assert_eq!(issue_cycles(&run("h100", &code, &[], 1, 4).unwrap(), 0), [0, 32, 56, 57]);
}

#[test]
fn a_kernel_that_waits_at_an_mbarrier_has_bounds_only() {
    let code = function(&[("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR5], R0", PLAIN), ("EXIT", stall(5))]);
    let found = run("h100", &code, &[], 1, 1);
    assert!(
        matches!(&found, Err(ScheduleError::Uncertain(why)) if why.to_string().contains("mbarrier")),
        "{found:?}"
    );
}

#[test]
fn the_barrier_of_a_cluster_waits_for_every_warp() {
    let code = function(&[
        ("UCGABAR_ARV", PLAIN),
        ("UCGABAR_WAIT", PLAIN),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", PLAIN),
        ("EXIT", stall(5)),
    ]);
    let schedule = run("h100", &code, &[], 1, 8).unwrap();
    assert!(schedule.stalls.of(Reason::Barrier) > 0);
    assert!(schedule.assumed.iter().any(|sentence| sentence.contains("cluster")), "{:?}", schedule.assumed);
}
