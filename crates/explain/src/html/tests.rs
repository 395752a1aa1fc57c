use std::collections::BTreeMap;

use warpproof_model::bound::{Work, bounds};
use warpproof_model::schedule::Reason;
use warpproof_model::{Device, Pipe, TensorType, Usage};

use super::super::*;
use super::html;

/// An attention kernel with a two-way conflict, with invented numbers.
fn sample() -> Explanation {
    let work = Work {
        instructions: vec![
            (Pipe::Alu, 600_000),
            (Pipe::Fma, 400_000),
            (Pipe::Special, 40_000),
            (Pipe::Memory, 150_000),
        ],
        tensor: vec![(TensorType::F8ToF32, 134_217_728)],
        shared_wavefronts: 900_000,
        l1_sectors: 100_000,
        l2_bytes: 2_900_000,
        dram_bytes: 786_432,
        dram_bytes_warm: 0,
        one_address: 0,
        blocks: 64,
        threads: 128,
        cluster: 1,
        usage: Usage { registers: 96, static_shared: 37_120, ..Usage::default() },
    };
    let bounds = bounds(Device::named("l4").unwrap(), &work).unwrap();
    let place = |line| Place { file: Some("dir/n4.cu".to_owned()), line };
    let stall = |reason: Reason, cycles, share| Stall { reason, nsight: reason.nsight(), cycles, share };
    let line = |at: u32, text: &str, share: f64, conflicts: u64| Line {
        place: place(at),
        text: Some(text.to_owned()),
        ptx_lines: vec![at],
        counted: LineCounts {
            executions: 1000,
            wavefronts: 2 * conflicts,
            conflicts,
            sectors: 64,
            ..LineCounts::default()
        },
        predicted: Some(LineCost {
            issued: 100,
            stalls: vec![stall(Reason::Shared, 900, share)],
            lost: vec![],
        }),
        share,
    };
    let run = |us| Run {
        cycles: 9000,
        us,
        issue_active: 0.31,
        stalls: vec![stall(Reason::Shared, 900, 0.5), stall(Reason::Barrier, 300, 0.2)],
        lost: vec![stall(Reason::Shared, 100, 0.4)],
    };
    Explanation {
        schema: SCHEMA,
        subject: Subject {
            kernel: "attention<64>".to_owned(),
            device: "L4".to_owned(),
            device_id: "l4".to_owned(),
            arch: "sm_89".to_owned(),
            ptxas: "12.9".to_owned(),
            grid: [4, 16, 1],
            block: [128, 1, 1],
            registers: 96,
            static_shared: 37_120,
            dynamic_shared: 0,
            spills: 0,
        },
        sampled: None,
        counted: Counted {
            blocks: 64,
            warps: 256,
            totals: BTreeMap::new(),
            work,
            instructions_of: Origin::MachineCode,
        },
        predicted: Predicted {
            bounds,
            roofline: None,
            roofline_warm: None,
            schedule: Scheduled::Known(Timed { cold: run(19.0), warm: run(17.5), assumed: Vec::new() }),
            purchases: vec![Purchase {
                offer: Offer::RemoveConflicts,
                title: "no bank conflicts".to_owned(),
                possible: true,
                cold: Change { before: 7.6, after: 3.8 },
                warm: Change { before: 7.6, after: 3.8 },
                scheduled: None,
                blocks_per_sm: (2, 2),
                occupancy: (16.7, 16.7),
                verdict: "half of the bound".to_owned(),
            }],
        },
        phases: Vec::new(),
        lines: vec![
            line(41, "    ldmatrix_x4(k, tile + row * 64);", 0.62, 450_000),
            line(42, "    mma(acc, q, k);", 0.30, 0),
            line(57, "    if (a < b && c > d) out[i] = acc;", 0.08, 0),
        ],
        conflicts: vec![Conflict {
            place: place(41),
            ptx_line: 210,
            copies: 1,
            opcode: "ldmatrix.sync.aligned.m8n8.x4.shared.b16".to_owned(),
            requests: 112_500,
            wavefronts: 900_000,
            ideal: 450_000,
            degree: 2.0,
            pattern: None,
            text: Some("    ldmatrix_x4(k, tile + row * 64);".to_owned()),
        }],
        uncoalesced: Vec::new(),
        atomics: vec![Atomics {
            place: place(57),
            ptx_line: 300,
            copies: 1,
            opcode: "red.global.add.f32".to_owned(),
            kind: "red",
            space: "global",
            requests: 1_000,
            lanes: 32_000,
            addresses: 2_000,
            per_address: 16.0,
            most: 32,
            serial: 24_000,
            text: Some("    atomicAdd(sum, acc);".to_owned()),
        }],
        remarks: vec!["<made up>".to_owned()],
    }
}

#[test]
fn a_page() {
    let page = html(&sample());
    // Nothing is loaded, and texts are escaped.
    for never in ["http://", "https://", "<script", "url(", "<made up>", "attention<64>", "a < b"] {
        assert!(!page.replace("url(#hatch)", "").contains(never), "{never}");
    }
    let body = &page[page.find("<body>").unwrap()..];
    insta::assert_snapshot!(body);
    // For manual inspection: WARPPROOF_PAGE=FILE writes the page.
    if let Some(file) = std::env::var_os("WARPPROOF_PAGE") {
        std::fs::write(file, page).unwrap();
    }
}

#[test]
fn a_launch_without_products_or_schedule_has_a_page() {
    let mut explanation = sample();
    explanation.counted.work.tensor.clear();
    explanation.counted.work.instructions.clear();
    explanation.predicted.schedule = Scheduled::Uncertain { why: "two loops may be one".to_owned() };
    explanation.lines.clear();
    explanation.conflicts.clear();
    let page = html(&explanation);
    assert!(page.contains("No roofline") && page.contains("No schedule: two loops may be one"), "{page}");
    assert!(!page.contains("NaN") && !page.contains("inf\""), "{page}");
}
