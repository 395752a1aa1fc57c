//! Rows of 96 and 256 elements: every rung from n4 on, every feature, no spills, no bank conflicts.
#![expect(clippy::unwrap_used, reason = "a test fails at the first error")]

#[expect(dead_code, reason = "used by other tests")]
mod study;

use std::collections::BTreeSet;

use study::{Case, l4, lengths, one_multiprocessor, toolchain};
use warpproof_count::Totals;
use warpproof_kernels::attention::Attention;
use warpproof_kernels::inputs::{Distribution, generate};
use warpproof_kernels::ladder::rung;
use warpproof_kernels::{Format, Granularity, Layout, Mask, Plan, Request, Scales, Shape, Splits};
use warpproof_launch::Counting;
use warpproof_sim::memory::Space;

const DIMS: [usize; 2] = [96, 256];

/// Two query heads for each key head, 33 queries against 97 keys.
fn grouped(dim: usize) -> Shape {
    Shape { heads: 4, kv_heads: 2, dim, sequences: vec![lengths(33, 97)] }
}

fn on(id: &str, request: Request) -> Request {
    Request { rung: Some(id.to_owned()), ..request }
}

#[test]
fn toolchain_tails_on_every_rung_that_has_a_program_of_its_own() {
    for dim in DIMS {
        for id in ["n4", "n5", "n6"] {
            for rows in [1, 17, 64, 100] {
                Case::of(on(id, Request::new(Shape::equal(1, 2, rows, dim)))).run();
            }
        }
    }
}

#[test]
fn later_rungs_use_the_program_of_n6() {
    for dim in DIMS {
        for shape in [Shape::equal(2, 8, 256, dim), Shape::equal(1, 8, 2048, dim)] {
            let plan = |id: &str| Plan::new(&on(id, Request::new(shape.clone())), l4()).unwrap();
            let n6 = plan("n6");
            for id in ["n7", "n8", "n9"] {
                assert_eq!((plan(id).fit, plan(id).defines), (n6.fit.clone(), n6.defines.clone()), "{id}");
            }
            // Without a name, the table of predictions chooses one that has a program of its own.
            let chosen = Plan::new(&Request::new(shape.clone()), l4()).unwrap().rung.id;
            assert!(["n4", "n5", "n6"].contains(&chosen), "{chosen}");
        }
    }
    let error = Plan::new(&on("n3", Request::new(grouped(96))), l4()).unwrap_err().to_string();
    assert!(error.contains("rows of 96 elements"), "{error}");
    let error = Plan::new(&Request::new(grouped(192)), l4()).unwrap_err().to_string();
    assert!(error.contains("it takes [64, 96, 128, 256]"), "{error}");
}

#[test]
fn toolchain_masks_groups_and_the_log_sum_exp() {
    for dim in DIMS {
        for id in ["n4", "n6"] {
            for (queries, keys) in [(33, 97), (97, 33)] {
                let shape = grouped(dim).with(vec![lengths(queries, keys)]);
                Case::of(on(id, Request { mask: Mask::Causal, lse: true, ..Request::new(shape) })).run();
            }
        }
        let few = Request { mask: Mask::Causal, ..Request::new(grouped(dim)) };
        Case::of(few).on(one_multiprocessor()).run();
    }
}

#[test]
fn toolchain_scales_of_every_granularity_and_e5m2() {
    for dim in DIMS {
        for id in ["n4", "n5"] {
            for granularity in Granularity::ALL {
                let scales = Scales::all(granularity);
                Case::of(on(id, Request { scales, lse: true, ..Request::new(grouped(dim)) })).run();
            }
        }
        Case::of(Request { format: Format::E5m2, layout: Layout::Bshd, ..Request::new(grouped(dim)) }).run();
    }
}

#[test]
fn toolchain_sequences_of_different_lengths() {
    for dim in DIMS {
        let sequences = vec![lengths(5, 70), lengths(80, 3), lengths(1, 130), lengths(7, 0)];
        let shape = grouped(dim).with(sequences);
        for granularity in [Granularity::Head, Granularity::Row] {
            let (layout, scales) = (Layout::Bshd, Scales::all(granularity));
            let request = Request { layout, scales, lse: true, ..Request::new(shape.clone()) };
            Case::of(Request { mask: Mask::Causal, ..request }).run();
        }
    }
}

#[test]
fn toolchain_one_query_against_split_keys() {
    for dim in DIMS {
        for id in ["n4", "n5"] {
            for (queries, keys, splits, granularity) in [
                (1, 300, 3, Granularity::Head),
                (3, 200, 9, Granularity::Row),
                (2, 130, 2, Granularity::Block),
            ] {
                let shape = grouped(dim).with(vec![lengths(queries, keys); 2]);
                let (scales, count) = (Scales::all(granularity), splits);
                let splits = Splits::Count(count);
                let request = on(id, Request { scales, splits, lse: true, ..Request::new(shape) });
                if dim == 256 && granularity != Granularity::Head {
                    let error = Plan::new(&request, l4()).unwrap_err().to_string();
                    assert!(error.contains("split keys with rows of 256 elements"), "{error}");
                    let whole = Request { splits: Splits::Auto, ..request };
                    assert!(!Plan::new(&whole, l4()).unwrap().is_split());
                    Case::of(whole).run();
                    continue;
                }
                let plan = Plan::new(&request, l4()).unwrap();
                assert!(usize::try_from(plan.params.splits).unwrap() <= count, "{dim} {id}");
                Case::of(request).run();
            }
        }
    }
}

#[test]
fn toolchain_toggles() {
    for (dim, id) in DIMS.into_iter().flat_map(|dim| ["n4", "n5"].map(|id| (dim, id))) {
        for toggle in rung(id).unwrap().toggles {
            let toggles = vec![(toggle.name.to_owned(), false)];
            Case::of(on(id, Request { toggles, ..Request::new(Shape::equal(1, 1, 80, dim)) })).run();
        }
    }
}

#[test]
fn toolchain_rows_of_96_elements_do_not_spill() {
    no_spills(96);
}

#[test]
fn toolchain_rows_of_256_elements_do_not_spill() {
    no_spills(256);
}

fn no_spills(dim: usize) {
    let toolchain = toolchain();
    let (mut known, mut spilled) = (BTreeSet::new(), Vec::new());
    for id in ["n4", "n5", "n6"] {
        let mut requests = vec![on(id, Request::new(Shape::equal(2, 8, 256, dim)))];
        for granularity in [Granularity::Head, Granularity::Block, Granularity::Row] {
            let all = |sequences, mask, layout| {
                let (scales, shape) = (Scales::all(granularity), grouped(dim).with(sequences));
                on(id, Request { scales, mask, layout, lse: true, ..Request::new(shape) })
            };
            requests.push(all(vec![lengths(33, 97)], Mask::Causal, Layout::Bhsd));
            requests.push(all(vec![lengths(70, 80), lengths(5, 130)], Mask::Causal, Layout::Bshd));
            requests.push(all(vec![lengths(1, 5000)], Mask::Full, Layout::Bhsd));
        }
        for request in requests {
            let plan = Plan::new(&request, l4()).unwrap();
            if !known.insert((plan.fit.source, plan.defines.clone())) {
                continue;
            }
            let ptx = plan.compile(toolchain).unwrap();
            for used in toolchain.ptxas(&ptx, &plan.arch, &[]).unwrap().resources {
                let all = (used.spill_stores, used.spill_loads, used.stack_frame);
                if all != (0, 0, 0) {
                    spilled.push(format!("{} {:?}: {all:?}", used.kernel, plan.defines));
                }
            }
        }
    }
    assert!(spilled.is_empty(), "{spilled:#?}");
}

/// Passes through the banks of shared memory beyond the minimum.
fn conflicts(request: &Request) -> u64 {
    let plan = Plan::new(request, l4()).unwrap();
    let ptx = plan.compile(toolchain()).unwrap();
    let inputs = generate(&request.shape, Distribution::Normal, 0, request.spec());
    let mut gpu = Counting::new(warpproof_sim::Device::new());
    let attention = Attention::load(plan, &ptx, &mut gpu).unwrap();
    attention.run(&mut gpu, &inputs.q, &inputs.k, &inputs.v).unwrap();
    let mut totals = Totals::default();
    for instruction in gpu.counters.iter().flat_map(|launch| &launch.instructions) {
        totals.add(instruction);
    }
    totals.traffic(Space::Shared, &[]).conflicts()
}

#[test]
fn toolchain_the_swizzle_avoids_all_bank_conflicts() {
    for (dim, id) in [64, 96, 128, 256].into_iter().flat_map(|dim| ["n4", "n5", "n6"].map(|id| (dim, id))) {
        let request = on(id, Request::new(Shape::equal(1, 1, 130, dim)));
        let toggles = vec![("USE_SMEM_SWIZZLE_XOR".to_owned(), false)];
        let with = conflicts(&request);
        let without = conflicts(&Request { toggles, ..request });
        assert_eq!(with, 0, "{dim} {id}");
        assert!(without > 1000, "{dim} {id}: {without}");
    }
}
