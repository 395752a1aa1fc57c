//! Stream-K blocks, which take equal runs of steps: where tiles are cut, which block merges them, and that
//! the result does not depend on which block finishes last.

use crate::study::{Case, l4, lengths, multiprocessors, toolchain};
use warpproof_kernels::attention::{Addresses, Attention, Workspace};
use warpproof_kernels::format::Format;
use warpproof_kernels::inputs::{Distribution, generate};
use warpproof_kernels::plan::{Plan, Request};
use warpproof_kernels::problem::{Layout, Mask, Shape};
use warpproof_launch::{Checking, Gpu, Use};
use warpproof_toolchain::{CompileOptions, Source};

/// Nine tiles of rows for twelve blocks of four multiprocessors.
const MULTIPROCESSORS: u32 = 4;
const KEYS: usize = 896;

fn stream_k(heads: usize, kv_heads: usize, rows: usize) -> Request {
    let shape = Shape { heads, kv_heads, dim: 64, sequences: vec![lengths(rows, KEYS)] };
    Request { rung: Some("n9".to_owned()), ..Request::new(shape) }
}

fn plan(request: &Request) -> Plan {
    let plan = Plan::new(request, &multiprocessors(MULTIPROCESSORS));
    plan.unwrap_or_else(|error| panic!("{error}"))
}

fn agrees(request: Request) {
    let plan = plan(&request);
    assert_eq!(plan.fit.source, "n9.cu");
    assert!(plan.fit.stream_k.is_some_and(|stream_k| stream_k.cut(0).is_some()));
    Case::of(request).on(multiprocessors(MULTIPROCESSORS)).run();
}

#[test]
fn toolchain_stream_k_tiles_of_one_head() {
    agrees(Request { lse: true, format: Format::E5m2, ..stream_k(1, 1, 1130) });
}

#[test]
fn toolchain_stream_k_tiles_of_heads_that_share_keys() {
    agrees(Request { layout: Layout::Bshd, lse: true, ..stream_k(9, 3, 100) });
}

#[test]
fn toolchain_stream_k_tiles_of_several_sequences_without_a_scale() {
    let shape = Shape { heads: 1, kv_heads: 1, dim: 64, sequences: vec![lengths(128, KEYS); 9] };
    agrees(Request { shape, softmax_scale: Some(0.0), ..stream_k(1, 1, 128) });
}

#[test]
fn what_cannot_be_cut_evenly_is_done_by_dense_blocks() {
    let plain = stream_k(1, 1, 1130);
    let sequences = vec![lengths(600, KEYS), lengths(530, KEYS)];
    let varlen = Shape { sequences, ..plain.shape.clone() };
    let tail = plain.shape.clone().with(vec![lengths(1130, KEYS + 1)]);
    for request in [
        Request { mask: Mask::Causal, ..plain.clone() },
        Request { softmax_scale: Some(-1.0), ..plain.clone() },
        Request { shape: varlen, layout: Layout::Bshd, ..plain.clone() },
        Request { shape: tail, ..plain.clone() },
    ] {
        assert_eq!(plan(&request).fit.source, "n8.cu");
    }
    let l4 = |heads, rows| {
        let shape = Shape::equal(1, heads, rows, 64);
        Plan::new(&Request { shape, ..plain.clone() }, l4()).unwrap()
    };
    // 128 tiles over 174 blocks; 1024 tiles fill the device several times; few rows are handled as in n7.
    assert_eq!(l4(8, 2048).steps[0].geometry.grid, [171, 1, 1]);
    assert_eq!(l4(32, 4096).fit.source, "n8.cu");
    assert_eq!(l4(8, 256).fit.source, "n5.cu");
}

#[test]
fn every_row_has_every_key_once() {
    for request in [stream_k(1, 1, 1130), stream_k(9, 3, 100)] {
        let plan = plan(&request);
        let mut works: Vec<_> = plan.table().collect();
        works.sort_by_key(|work| (work.head, work.rows, work.keys));
        for tile in works.chunk_by(|a, b| (a.head, a.rows) == (b.head, b.rows)) {
            assert!((1..=2).contains(&tile.len()));
            assert_eq!((tile[0].keys.0, tile[tile.len() - 1].keys.1), (0, KEYS));
            assert!(tile.windows(2).all(|pair| pair[0].keys.1 == pair[1].keys.0));
        }
        let rows: usize =
            works.iter().filter(|work| work.keys.0 == 0).map(|work| work.rows.1 - work.rows.0).sum();
        assert_eq!(rows, request.shape.heads * request.shape.max_queries());
    }
}

/// Blocks run one after another here, so the second block of a tile always finds the first one's sums. On a
/// GPU both may arrive at the same time: then neither finds the other, both store their sums, and the one
/// that counts second merges them.
#[test]
fn toolchain_the_bits_do_not_depend_on_who_comes_last() {
    let toolchain = toolchain();
    let request = stream_k(1, 1, 1130);
    let plan = plan(&request);
    let text = plan.source().unwrap().text.replace("whole = own.taken(lane);", "whole = false;");
    assert!(text != plan.source().unwrap().text, "the replaced line must exist");
    let options = CompileOptions {
        defines: plan.defines.clone(),
        std: Some("c++17".to_owned()),
        ..CompileOptions::new(plan.arch.as_str())
    };
    let ptx = toolchain.compile(&Source::new("n9.cu", text), &options).unwrap().ptx;
    let inputs = generate(&request.shape, Distribution::Outliers, 7, request.spec());
    let mut gpu = Checking::new(warpproof_sim::Device::new(), 2);
    let attention = Attention::load(plan, &ptx, &mut gpu).unwrap();
    let answer = attention.run(&mut gpu, &inputs.q, &inputs.k, &inputs.v).unwrap();
    assert!(gpu.findings.is_empty(), "{:#?}", gpu.findings);
    assert!(attention.plan().oracles(&inputs).unwrap().judge(&answer).passed());
}

/// Sizes at which stream-K would not be chosen: two tiles over three blocks, and one tile over two.
#[test]
fn toolchain_small_problems_are_cut_where_it_is_asked_for() {
    let one = multiprocessors(1);
    let small = |rows: usize, keys: usize| {
        let shape = Shape::equal(1, 1, 1, 64).with(vec![lengths(rows, keys)]);
        Request { lse: true, rung: Some("n9".to_owned()), ..Request::new(shape) }
    };
    let plan =
        |rows, keys| Plan::stream_k(&small(rows, keys), &one).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(plan(130, 160).steps[0].geometry.grid, [3, 1, 1]);
    assert_eq!(plan(17, 192).steps[0].geometry.grid, [2, 1, 1]);
    for request in [
        Request { mask: Mask::Causal, ..small(130, 160) },
        Request { rung: Some("n8".to_owned()), ..small(130, 160) },
        small(130, 161),
        small(128, 32),
    ] {
        let refused = Plan::stream_k(&request, &one).unwrap_err();
        assert!(refused.to_string().contains("does not support stream-K"), "{refused}");
    }
    let toolchain = toolchain();
    for (rows, keys) in [(130, 160), (17, 192)] {
        let plan = plan(rows, keys);
        let ptx = plan.compile(toolchain).unwrap();
        let inputs = generate(&plan.request.shape, Distribution::Peaked, 5, plan.request.spec());
        let mut gpu = Checking::new(warpproof_sim::Device::new(), 2);
        let attention = Attention::load(plan, &ptx, &mut gpu).unwrap();
        let answer = attention.run(&mut gpu, &inputs.q, &inputs.k, &inputs.v).unwrap();
        assert!(gpu.findings.is_empty(), "{:#?}", gpu.findings);
        assert!(attention.plan().oracles(&inputs).unwrap().judge(&answer).passed());
    }
}

/// Launches several times on one workspace, into which bytes are written before each launch. Returns the
/// outputs, and the counters at the end.
#[expect(clippy::unwrap_used, reason = "a test fails at the first error")]
fn launches(ptx: &str, request: &Request, before: &[Vec<u8>]) -> (Vec<Vec<u16>>, Vec<u32>) {
    let inputs = generate(&request.shape, Distribution::Normal, 3, request.spec());
    let mut gpu = warpproof_sim::Device::new();
    let attention = Attention::load(plan(request), ptx, &mut gpu).unwrap();
    let mut put = |bytes: &[u8]| {
        let memory = Gpu::allocate(&mut gpu, "buffer", bytes.len(), Use::Scratch).unwrap();
        Gpu::write(&mut gpu, &memory, bytes).unwrap();
        memory
    };
    let floats = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let operands = [&inputs.q, &inputs.k, &inputs.v].map(|x| (put(&x.codes), put(&floats(&x.scales))));
    let workspace = put(&attention.plan().blank_workspace());
    let blank = vec![0xff; inputs.q.codes.len() * 2];
    let output = put(&blank);
    let [q, k, v] = [0, 1, 2].map(|i| (operands[i].0.address(), operands[i].1.address()));
    let at = Addresses { q, k, v, o: output.address(), ..Addresses::default() };
    let mut held = Workspace::new(workspace.address());
    let mut gave = Vec::new();
    for bytes in before {
        Gpu::write(&mut gpu, &workspace, bytes).unwrap();
        Gpu::write(&mut gpu, &output, &blank).unwrap();
        attention.launch(&mut gpu, &at, &mut held).unwrap();
        let halves = Gpu::read(&mut gpu, &output).unwrap();
        gave.push(halves.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect());
    }
    let counters = Gpu::read(&mut gpu, &workspace).unwrap();
    let words = counters.chunks_exact(4).take(attention.plan().counters / 4);
    (gave, words.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect())
}

/// Earlier contents of the counters have no effect: neither those of a launch that was aborted after one part
/// of each tile, nor random bytes.
#[test]
fn toolchain_sums_do_not_depend_on_what_the_workspace_held() {
    /// The number of a launch, as the host computes it.
    fn epoch(launch: u32) -> u32 {
        launch.wrapping_mul(0x9e37_79b1)
    }
    let toolchain = toolchain();
    let request = stream_k(1, 1, 1130);
    let plan = plan(&request);
    assert!(plan.counters > 0 && plan.counters < plan.workspace);
    let inputs = generate(&request.shape, Distribution::Normal, 3, request.spec());
    let wanted = plan.bits(&inputs).unwrap().output;
    let filled = |word: u32| (0..plan.counters / 4).flat_map(|_| word.to_le_bytes()).collect::<Vec<u8>>();
    let noise = (0..plan.workspace).map(|byte| (byte * 37 % 251).to_le_bytes()[0]).collect();
    // The launch before this one was aborted after its number was written to every counter.
    let before = [Vec::new(), Vec::new(), filled(1), noise, filled(epoch(4))];
    let (gave, counters) = launches(&plan.compile(toolchain).unwrap(), &request, &before);
    assert!(gave.iter().all(|one| *one == wanted));
    // A CUDA graph launches the same number again: the last launch leaves no half-finished tile.
    assert!(counters.iter().all(|word| *word != epoch(5)));
    // With one number for all launches, an aborted launch corrupts the next.
    let text = plan.source().unwrap().text.replace("epoch = p.epoch;", "epoch = 1;");
    assert!(text != plan.source().unwrap().text, "the replaced line must exist");
    let options = CompileOptions {
        defines: plan.defines.clone(),
        std: Some("c++17".to_owned()),
        ..CompileOptions::new(plan.arch.as_str())
    };
    let ptx = toolchain.compile(&Source::new("n9.cu", text), &options).unwrap().ptx;
    let (gave, _) = launches(&ptx, &request, &[Vec::new(), filled(1)]);
    assert!(gave[0] == wanted && gave[1] != wanted);
}
