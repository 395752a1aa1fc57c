//! Runs every rung and every feature on the software GPU: checks report nothing, errors are within the
//! tolerance of the formats, and the bits equal the oracle's. `cargo xtask attention` does the same at full
//! size.

mod stream_k;
mod study;

use std::collections::BTreeSet;

use study::{Case, l4, lengths, one_multiprocessor, toolchain};
use warpproof_kernels::format::Format;
use warpproof_kernels::ladder::{LADDER, rung};
use warpproof_kernels::plan::{Plan, Request, Scales, Splits};
use warpproof_kernels::problem::{Granularity, Layout, Lengths, Mask, Shape};

/// Two query heads for each key head, 33 queries against 97 keys.
fn grouped() -> Shape {
    Shape { heads: 4, kv_heads: 2, dim: 64, sequences: vec![lengths(33, 97); 2] }
}

fn packed() -> Shape {
    let sequences = vec![lengths(5, 70), lengths(80, 3), lengths(1, 130), lengths(7, 0)];
    Shape { sequences, ..grouped() }
}

#[test]
fn toolchain_rungs_agree_with_the_oracles() {
    for rung in LADDER {
        for rows in [1, 17, 33, 64, 100] {
            let mut request = Request::new(Shape::equal(1, 2, rows, 64));
            request.rung = Some(rung.id.to_owned());
            request.format = rung.formats[0];
            Case::of(request).run();
        }
    }
}

#[test]
fn toolchain_toggles_keep_the_bits_that_the_oracle_says() {
    for rung in LADDER {
        for toggle in rung.toggles {
            let mut request = Request::new(Shape::equal(1, 1, 80, 64));
            request.rung = Some(rung.id.to_owned());
            request.format = rung.formats[0];
            request.toggles = vec![(toggle.name.to_owned(), !rung.setting(toggle.name))];
            Case::of(request).run();
        }
    }
}

#[test]
fn toolchain_toggles_keep_them_with_a_mask_and_with_split_keys() {
    for toggle in rung("n4").unwrap().toggles {
        for (dim, queries, keys) in [(64, 70, 100), (128, 70, 100), (64, 1, 140)] {
            let shape = Shape { dim, ..grouped() }.with(vec![lengths(queries, keys)]);
            let toggles = vec![(toggle.name.to_owned(), false)];
            Case::of(Request { mask: Mask::Causal, lse: true, toggles, ..Request::new(shape) }).run();
        }
    }
}

#[test]
fn every_toggle_of_a_rung_is_set_whatever_the_source_says() {
    for rung in LADDER {
        let mut request = Request::new(Shape::equal(1, 1, 64, 64));
        request.rung = Some(rung.id.to_owned());
        request.format = rung.formats[0];
        let plan = Plan::new(&request, l4()).unwrap();
        for toggle in rung.toggles {
            let define = format!("{}={}", toggle.name, u8::from(rung.setting(toggle.name)));
            assert!(plan.defines.contains(&define), "{}: {define}", rung.name);
        }
        let mut names: Vec<&str> =
            plan.defines.iter().filter_map(|define| define.split('=').next()).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }
}

#[test]
fn toolchain_every_toggle_changes_the_program() {
    let toolchain = toolchain();
    let device = l4();
    for rung in LADDER {
        let mut request = Request::new(Shape::equal(1, 1, 64, 64));
        request.rung = Some(rung.id.to_owned());
        request.format = rung.formats[0];
        let ptx = |request: &Request| Plan::new(request, device).unwrap().compile(toolchain).unwrap();
        let own = ptx(&request);
        for toggle in rung.toggles {
            request.toggles = vec![(toggle.name.to_owned(), !rung.setting(toggle.name))];
            let other = ptx(&request);
            assert_ne!(study::code(&own), study::code(&other), "{} {}", rung.name, toggle.name);
        }
    }
}

#[test]
fn toolchain_rungs_are_different_programs() {
    let toolchain = toolchain();
    let device = l4();
    let mut programs: Vec<(&str, String)> = Vec::new();
    for rung in LADDER {
        // Some rungs differ only for few rows, some only for many.
        let mut program = String::new();
        for rows in [256, 8192] {
            let mut request = Request::new(Shape::equal(1, 2, rows, 64));
            request.rung = Some(rung.id.to_owned());
            request.format = rung.formats[0];
            program += &study::code(&Plan::new(&request, device).unwrap().compile(toolchain).unwrap());
        }
        if let Some((name, _)) = programs.iter().find(|(_, known)| *known == program) {
            panic!("{} is the same program as {name}", rung.name);
        }
        programs.push((rung.name, program));
    }
}

#[test]
fn toolchain_causal_with_more_and_with_fewer_keys_than_queries() {
    for id in ["n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"] {
        for (queries, keys) in [(33, 97), (97, 33), (64, 64), (1, 70)] {
            let shape = Shape { sequences: vec![lengths(queries, keys)], ..grouped() };
            let mut request = Request { mask: Mask::Causal, lse: true, ..Request::new(shape) };
            request.rung = Some(id.to_owned());
            request.splits = Splits::None;
            Case::of(request).run();
        }
    }
}

#[test]
fn toolchain_rows_of_128_elements_and_rows_before_heads() {
    let shape = Shape { dim: 128, ..grouped() };
    Case::of(Request { layout: Layout::Bshd, lse: true, ..Request::new(shape.clone()) }).run();
    Case::of(Request { mask: Mask::Causal, ..Request::new(shape) }).run();
}

#[test]
fn toolchain_scales_of_every_granularity_on_the_rungs_that_are_not_chosen_first() {
    for id in ["n4", "n5", "n6"] {
        for granularity in Granularity::ALL {
            let request = Request { scales: Scales::all(granularity), ..Request::new(grouped()) };
            Case::of(Request { rung: Some(id.to_owned()), lse: true, ..request }).run();
        }
    }
}

#[test]
fn toolchain_scales_of_the_scores_that_are_negative_or_zero() {
    for id in ["n4", "n5", "n7"] {
        for (scale, mask) in [(-0.5, Mask::Full), (0.0, Mask::Causal)] {
            let request = Request { softmax_scale: Some(scale), mask, ..Request::new(grouped()) };
            Case::of(Request { rung: Some(id.to_owned()), ..request }).run();
        }
    }
}

#[test]
fn the_mission_fills_the_device_evenly() {
    let plan = |id: &str, shape: Shape| {
        Plan::new(&Request { rung: Some(id.to_owned()), ..Request::new(shape) }, l4()).unwrap()
    };
    let mission = || Shape::equal(2, 8, 256, 64);
    let cut = |plan: &Plan| (plan.fit.rows, plan.fit.threads, plan.fit.paired);
    assert_eq!(cut(&plan("n5", mission())), (64, 128, false));
    assert_eq!(cut(&plan("n6", mission())), (96, 192, false));
    assert_eq!(cut(&plan("n7", mission())), (48, 192, true));
    // Enough rows keep the sub-cores busy, and rows of 128 elements leave no room for pairs.
    assert!(!plan("n7", Shape::equal(1, 8, 2048, 64)).fit.paired);
    assert!(!plan("n7", Shape::equal(2, 8, 256, 128)).fit.paired);
}

/// Many rows for one multiprocessor, so that blocks are dense: with 250 rows two units per warp, with 257
/// one.
fn dense(rows: usize, keys: usize, dim: usize) -> Request {
    let shape = Shape { heads: 2, kv_heads: 1, dim, sequences: vec![lengths(rows, keys)] };
    Request { rung: Some("n8".to_owned()), ..Request::new(shape) }
}

#[test]
fn toolchain_dense_blocks_with_tails_and_masks() {
    for dim in [64, 128] {
        for (rows, keys, mask) in [
            (122, 97, Mask::Full),
            (250, 33, Mask::Causal),
            (257, 300, Mask::Causal),
            (129, 0, Mask::Full),
            (257, 64, Mask::Full),
        ] {
            let request = Request { mask, lse: rows % 2 == 1, ..dense(rows, keys, dim) };
            let plan = Plan::new(&request, &one_multiprocessor()).unwrap();
            assert_eq!((plan.fit.keys, plan.fit.source), (32, "n8.cu"), "{rows} {keys}");
            Case::of(request).on(one_multiprocessor()).run();
        }
    }
}

#[test]
fn toolchain_dense_blocks_with_every_other_feature() {
    for dim in [64, 128] {
        let plain = dense(130, 80, dim);
        Case::of(Request { layout: Layout::Bshd, format: Format::E5m2, lse: true, ..plain.clone() })
            .on(one_multiprocessor())
            .run();
        Case::of(Request { softmax_scale: Some(-0.5), ..plain.clone() }).on(one_multiprocessor()).run();
        Case::of(Request { softmax_scale: Some(0.0), mask: Mask::Causal, ..plain.clone() })
            .on(one_multiprocessor())
            .run();
        let sequences = vec![lengths(140, 70), lengths(3, 200), lengths(40, 0)];
        let shape = Shape { sequences, ..plain.shape.clone() };
        let (mask, layout) = (Mask::Causal, Layout::Bshd);
        Case::of(Request { shape, mask, layout, ..plain.clone() }).on(one_multiprocessor()).run();
        // Dense blocks do not support fine scales; another source handles them.
        let fine = Request { scales: Scales::all(Granularity::Row), ..plain };
        assert_eq!(Plan::new(&fine, &one_multiprocessor()).unwrap().fit.source, "n5.cu");
    }
}

#[test]
fn dense_blocks_leave_the_fullest_multiprocessor_the_fewest_rows() {
    let fit = |heads, rows, dim, mask| {
        let request = Request { mask, ..Request::new(Shape::equal(1, heads, rows, dim)) };
        let fit = Plan::new(&Request { rung: Some("n8".to_owned()), ..request }, l4()).unwrap().fit;
        (fit.rows, fit.threads, fit.keys)
    };
    // 128 blocks of 128 rows would place three on some multiprocessors and two on others.
    assert_eq!(fit(8, 2048, 64, Mask::Full), (64, 128, 32));
    assert_eq!(fit(32, 4096, 64, Mask::Full), (128, 128, 32));
    assert_eq!(fit(32, 4096, 128, Mask::Full), (128, 256, 32));
    assert_eq!(fit(32, 4096, 128, Mask::Causal), (64, 128, 32));
    // Few rows: same as n7.
    assert_eq!(fit(8, 256, 64, Mask::Full).2, 64);
}

#[test]
fn with_a_mask_the_blocks_with_the_most_keys_come_first() {
    let plan =
        Plan::new(&Request { mask: Mask::Causal, ..dense(257, 300, 64) }, &one_multiprocessor()).unwrap();
    let works: Vec<_> = plan.table().collect();
    assert!(works.windows(2).all(|pair| pair[0].keys.1 >= pair[1].keys.1), "{works:?}");
    let mut tiles: Vec<_> = works.iter().map(|work| (work.head, work.rows)).collect();
    tiles.sort_unstable();
    tiles.dedup();
    assert_eq!((tiles.len(), works.len()), (10, 10));
    assert_eq!((works[0].rows, works[0].head, works[1].head), ((256, 257), 0, 1));
}

#[test]
fn toolchain_scales_of_every_granularity() {
    for granularity in Granularity::ALL {
        Case::of(Request { scales: Scales::all(granularity), ..Request::new(grouped()) }).run();
        let shape = Shape { dim: 128, ..grouped() };
        Case::of(Request { scales: Scales::all(granularity), lse: true, ..Request::new(shape) }).run();
    }
    for q in Granularity::ALL {
        let scales = Scales { q, k: Granularity::Row, v: Granularity::Tensor };
        Case::of(Request { scales, ..Request::new(grouped()) }).run();
    }
}

#[test]
fn toolchain_e5m2() {
    let e5m2 = |shape| Request { format: Format::E5m2, lse: true, ..Request::new(shape) };
    Case::of(e5m2(grouped())).run();
    for splits in [Splits::None, Splits::Auto] {
        let sequences = vec![lengths(3, 129), lengths(0, 70), lengths(5, 0), lengths(1, 1)];
        let shape = Shape { dim: 128, sequences, ..grouped() };
        let (mask, layout, scales) = (Mask::Causal, Layout::Bshd, Scales::all(Granularity::Row));
        Case::of(Request { mask, layout, scales, splits, ..e5m2(shape) }).run();
    }
}

#[test]
fn toolchain_query_heads_in_groups_of_any_size() {
    for (heads, kv_heads) in [(3, 1), (5, 1), (14, 2), (16, 1)] {
        let shape = |queries, keys| Shape { heads, kv_heads, ..grouped() }.with(vec![lengths(queries, keys)]);
        let request = |shape| Request { mask: Mask::Causal, lse: true, ..Request::new(shape) };
        Case::of(request(shape(17, 40))).run();
        Case::of(Request { splits: Splits::Count(3), ..request(shape(1, 130)) }).run();
    }
    let request =
        Request { layout: Layout::Bshd, ..Request::new(Shape { heads: 3, kv_heads: 1, ..grouped() }) };
    for id in ["h2", "n1", "n2", "n3"] {
        let format = rung(id).unwrap().formats[0];
        Case::of(Request { rung: Some(id.to_owned()), format, ..request.clone() }).run();
    }
}

#[test]
fn toolchain_no_keys_at_all_give_zeros() {
    for rung in LADDER {
        let mut request = Request::new(grouped().with(vec![lengths(5, 0); 2]));
        request.rung = Some(rung.id.to_owned());
        request.format = rung.formats[0];
        request.lse = rung.can(warpproof_kernels::ladder::Feature::Lse);
        request.splits = Splits::None;
        Case::of(request).run();
    }
    for granularity in Granularity::ALL {
        let few = grouped().with(vec![lengths(2, 0); 2]);
        let scales = Scales::all(granularity);
        let request = Request { scales, splits: Splits::Count(2), lse: true, ..Request::new(few) };
        Case::of(request).run();
    }
}

#[test]
fn toolchain_sequences_of_different_lengths() {
    for granularity in Granularity::ALL {
        for mask in [Mask::Full, Mask::Causal] {
            let scales = Scales::all(granularity);
            let request = Request { mask, scales, layout: Layout::Bshd, lse: true, ..Request::new(packed()) };
            Case::of(request).run();
        }
    }
}

#[test]
fn toolchain_one_query_against_split_keys() {
    for granularity in Granularity::ALL {
        for (queries, keys, splits) in [(1, 300, 3), (1, 64, 1), (3, 200, 9), (1, 1, 4)] {
            let shape = Shape { sequences: vec![lengths(queries, keys); 2], ..grouped() };
            let request = Request {
                mask: Mask::Causal,
                scales: Scales::all(granularity),
                splits: Splits::Count(splits),
                lse: true,
                ..Request::new(shape)
            };
            Case::of(request).run();
        }
    }
    let sequences = vec![lengths(1, 300), lengths(2, 30), lengths(1, 0)];
    let shape = Shape { sequences, dim: 128, ..grouped() };
    Case::of(Request { layout: Layout::Bshd, lse: true, ..Request::new(shape) }).run();
}

#[test]
fn toolchain_a_scale_of_the_scores_of_ones_own() {
    Case::of(Request { softmax_scale: Some(0.5), ..Request::new(grouped()) }).run();
}

#[test]
fn toolchain_the_tensor_core_rungs_neither_spill_nor_use_the_stack() {
    let toolchain = toolchain();
    let device = l4();
    let mut requests = vec![Request { rung: Some("n3".into()), ..Request::new(grouped()) }];
    for (id, dim) in ["n4", "n5", "n6", "n7", "n8", "n9"].into_iter().flat_map(|id| [(id, 64), (id, 128)]) {
        let rung = Some(id.to_owned());
        let chosen = |request: Request| Request { rung: rung.clone(), ..request };
        requests.push(chosen(Request::new(Shape { dim, ..Shape::equal(2, 8, 256, 64) })));
        let plain = chosen(Request::new(Shape { dim, ..grouped() }));
        requests.push(Request { mask: Mask::Causal, lse: true, ..plain.clone() });
        requests.push(Request { format: Format::E5m2, ..plain.clone() });
        for granularity in Granularity::ALL {
            requests.push(Request { scales: Scales::all(granularity), ..plain.clone() });
        }
        let shape = Shape { dim, ..packed() };
        requests.push(Request {
            layout: Layout::Bshd,
            mask: Mask::Causal,
            lse: true,
            ..chosen(Request::new(shape))
        });
        let shape = Shape { dim, sequences: vec![lengths(1, 5000)], ..grouped() };
        requests.push(Request {
            scales: Scales::all(Granularity::Row),
            lse: true,
            ..chosen(Request::new(shape))
        });
        requests.push(plain);
    }
    // Dense blocks of both forms.
    for (dim, rows, mask) in [64, 128].into_iter().flat_map(|dim| {
        [
            (dim, 2048, Mask::Full),
            (dim, 4096, Mask::Full),
            (dim, 2048, Mask::Causal),
            (dim, 4096, Mask::Causal),
        ]
    }) {
        for (lse, kv_heads, format) in [
            (false, 8, Format::E4m3),
            (true, 8, Format::E4m3),
            (false, 2, Format::E5m2),
            (true, 2, Format::E4m3),
        ] {
            let shape = Shape { kv_heads, ..Shape::equal(1, 8, rows, dim) };
            let request = Request { mask, lse, format, ..Request::new(shape) };
            requests.push(Request { rung: Some("n8".to_owned()), ..request.clone() });
            requests.push(Request { rung: Some("n9".to_owned()), ..request.clone() });
            let sequences = vec![lengths(rows, rows), lengths(rows / 2, rows)];
            let shape = Shape { sequences, ..request.shape.clone() };
            requests.push(Request { shape, rung: Some("n8".to_owned()), layout: Layout::Bshd, ..request });
        }
    }
    // If a rung equals the one before for a request, both have the same source and the program is counted
    // once.
    let mut known = BTreeSet::new();
    for request in requests {
        let plan = Plan::new(&request, device).unwrap();
        if !known.insert((plan.fit.source, plan.defines.clone())) {
            continue;
        }
        let ptx = plan.compile(toolchain).unwrap();
        for used in toolchain.ptxas(&ptx, &plan.arch, &[]).unwrap().resources {
            let all = (used.spill_stores, used.spill_loads, used.stack_frame);
            assert_eq!(all, (0, 0, 0), "{} {:?}", used.kernel, plan.defines);
        }
    }
}

#[test]
fn what_a_rung_cannot_do_is_refused() {
    let device = l4();
    let refused = |request: Request| Plan::new(&request, device).unwrap_err().to_string();
    let with = |id: &str| Request { rung: Some(id.to_owned()), ..Request::new(grouped()) };
    assert_eq!(refused(with("n10")).split(';').next(), Some("there is no rung `n10`"));
    assert_eq!(refused(with("h2")), "rung h2-wmma-pv does not support E4m3 inputs");
    let rows = Request { scales: Scales::all(Granularity::Row), ..with("n3") };
    assert_eq!(refused(rows), "rung n3-register-p does not support scales for each block or row");
    let toggles = vec![("USE_CP_ASYNC".to_owned(), true)];
    assert_eq!(
        refused(Request { toggles, ..with("n4") }),
        "rung n4-mma-fp8 does not support toggle USE_CP_ASYNC"
    );
    let odd = Shape { heads: 5, ..grouped() };
    assert_eq!(refused(Request::new(odd)), "5 query heads cannot share 2 key heads evenly");
    let toggles = [true, false].map(|on| ("USE_TWO_LEVEL".to_owned(), on)).to_vec();
    assert_eq!(refused(Request { toggles, ..with("n4") }), "toggle USE_TWO_LEVEL is set twice");
    for scale in [f64::NAN, f64::INFINITY, -1e300] {
        let error = refused(Request { softmax_scale: Some(scale), ..with("n4") });
        assert_eq!(error, format!("the softmax scale {scale} does not give a finite factor in f32"));
    }
    let without_queries = grouped().with(vec![lengths(0, 5)]);
    assert_eq!(refused(Request::new(without_queries)), "no sequence has a query");
    let packed = Request { layout: Layout::Bhsd, ..Request::new(packed()) };
    assert!(refused(packed).contains("unless rows lie before heads"));
    let old =
        warpproof_model::Device::named("A100-40GB").or(warpproof_model::Device::of_arch("sm_80")).unwrap();
    let error = Plan::new(&Request::new(grouped()), old).unwrap_err().to_string();
    assert!(error.ends_with("sm_80; 8-bit floats need sm_89 or newer"), "{error}");
    assert!(rung("n4").is_some());
}

#[test]
fn no_size_makes_a_plan_panic() {
    let sizes = [
        0,
        1,
        2,
        3,
        16,
        17,
        64,
        65,
        65_535,
        65_536,
        (1 << 31) - 1,
        1 << 31,
        1 << 32,
        1 << 48,
        usize::MAX - 1,
        usize::MAX,
    ];
    // Pseudorandom numbers (xorshift).
    let mut state = 88_172_645_463_325_252u64;
    let mut below = |end: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap() % end
    };
    let mut planned = 0;
    for _ in 0..50_000 {
        let mut size = || if below(2) == 0 { sizes[below(sizes.len())] } else { below(70) };
        let (heads, kv_heads, queries, keys, count) = (size(), size(), size(), size(), size());
        let shape = Shape { heads, kv_heads, dim: [64, 128][below(2)], sequences: Vec::new() };
        let shape = shape.with(vec![Lengths { queries, keys }; below(4)]);
        let request = Request {
            splits: [Splits::Auto, Splits::None, Splits::Count(count)][below(3)],
            scales: Scales::all(Granularity::ALL[below(4)]),
            mask: [Mask::Full, Mask::Causal][below(2)],
            ..Request::new(shape)
        };
        if let Ok(plan) = Plan::new(&request, l4()) {
            planned += 1;
            assert!(plan.table().take(1000).all(|work| work.keys.0 <= work.keys.1));
        }
    }
    assert!(planned > 500, "{planned}");
}

#[test]
fn every_row_is_given_to_exactly_one_block_with_all_its_keys() {
    let device = l4();
    let decode = Shape { sequences: vec![lengths(1, 300), lengths(2, 30)], ..grouped() };
    for (shape, mask, layout) in [
        (grouped(), Mask::Full, Layout::Bhsd),
        (packed(), Mask::Causal, Layout::Bshd),
        (decode, Mask::Causal, Layout::Bshd),
    ] {
        let request = Request { mask, layout, ..Request::new(shape.clone()) };
        let plan = Plan::new(&request, device).unwrap();
        let group = if plan.is_split() { shape.group() } else { 1 };
        for (batch, lengths) in shape.sequences.iter().enumerate() {
            for head in (0..shape.heads).step_by(group) {
                for row in 0..lengths.queries * group {
                    let mut keys: Vec<usize> = plan
                        .table()
                        .filter(|work| (work.batch, work.head) == (batch, head))
                        .filter(|work| (work.rows.0..work.rows.1).contains(&row))
                        .flat_map(|work| work.keys.0..work.keys.1)
                        .collect();
                    keys.sort_unstable();
                    let seen = mask.visible(*lengths, row / group);
                    assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "a key is processed twice");
                    assert!(
                        (0..seen).all(|key| keys.binary_search(&key).is_ok()),
                        "a visible key is missing"
                    );
                }
            }
        }
    }
}
