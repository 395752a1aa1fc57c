//! The kernels of the study, with small problems, their exact results in f64, and derived limits.
//!
//! Limits are worst cases. `wgmma` on f16 adds 16 products and the accumulator at a time: 17 terms, each truncated below 2^-25 of
//! the largest, and a sum truncated below 2^-23 of itself. So one step is off by less than 6 · 2^-23 of the sum of all magnitudes.

#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    reason = "small sizes, and random numbers of 24 bits"
)]

use warpproof_num::random::SplitMix;

use super::problem::{Arg, Array, Contents, Problem, Type};

/// What a kernel is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    Hopper,
    Blackwell,
}

impl Generation {
    /// The folder of its kernels, from the root.
    pub(super) fn folder(self) -> &'static str {
        match self {
            Generation::Hopper => "tests/hopper",
            Generation::Blackwell => "tests/blackwell",
        }
    }

    pub(super) fn target(self) -> &'static str {
        match self {
            Generation::Hopper => "sm_90a",
            Generation::Blackwell => "sm_100a",
        }
    }

    /// The compiler's version.
    pub(super) fn cuda(self) -> u32 {
        match self {
            Generation::Hopper => 12,
            Generation::Blackwell => 13,
        }
    }
}

/// A kernel and the launches that execute all of its code.
pub(super) struct Kernel {
    pub(super) generation: Generation,
    /// As in the report.
    pub(super) name: &'static str,
    /// Its file in the folder of the generation.
    pub(super) file: &'static str,
    /// What it is, for the report.
    pub(super) about: &'static str,
    pub(super) problems: fn() -> Vec<Problem>,
    /// Whether its mutants are tried.
    pub(super) mutated: bool,
}

pub(super) const KERNELS: &[Kernel] = &[
    Kernel {
        generation: Generation::Hopper,
        name: "gemm",
        file: "gemm.cu",
        about: "warp-specialized GEMM, f16",
        problems: || vec![gemm("gemm", Type::F16)],
        mutated: true,
    },
    Kernel {
        generation: Generation::Hopper,
        name: "gemm_e4m3",
        file: "gemm.cu",
        about: "the same for FP8",
        problems: || vec![gemm("gemm_e4m3", Type::E4m3)],
        // The source of `gemm`.
        mutated: false,
    },
    Kernel {
        generation: Generation::Hopper,
        name: "gemm_multicast",
        file: "gemm.cu",
        about: "the same in clusters of two blocks, with multicast of B",
        problems: || vec![gemm("gemm_multicast", Type::F16)],
        mutated: true,
    },
    Kernel {
        generation: Generation::Hopper,
        name: "attention",
        file: "attention.cu",
        about: "attention with ping-pong of two warpgroups, f16, head dimension 64",
        problems: || vec![attention(1, 128, 1216, false), attention(1, 256, 256, true)],
        mutated: true,
    },
    Kernel {
        generation: Generation::Hopper,
        name: "cluster_reduce",
        file: "cluster_reduce.cu",
        about: "reductions over clusters of 4, 8 and 16 blocks",
        problems: || [4, 8, 16].map(cluster_reduce).into(),
        mutated: true,
    },
    Kernel {
        generation: Generation::Hopper,
        name: "multicast",
        file: "multicast.cu",
        about: "one block copies for a cluster of 4",
        problems: || vec![multicast(4)],
        mutated: true,
    },
    Kernel {
        generation: Generation::Blackwell,
        name: "tcgen05_gemm",
        file: "gemm.cu",
        about: "warp-specialized GEMM with two accumulators in tensor memory, f16",
        problems: || vec![tcgen05_gemm()],
        mutated: true,
    },
    Kernel {
        generation: Generation::Blackwell,
        name: "tcgen05_attention",
        file: "attention.cu",
        about: "attention with scores, weights and sums in tensor memory, f16, head dimension 64",
        problems: || vec![tcgen05_attention(256, 448, false), tcgen05_attention(256, 256, true)],
        mutated: true,
    },
];

/// The relative error of one step of `wgmma` on f16, relative to the sum of all magnitudes.
const STEP: f64 = 6.0 / (1 << 23) as f64;
/// Half an ulp of f16, relative and for subnormals.
const HALF: f64 = 1.0 / 2048.0;
const HALF_TINY: f64 = 1.0 / (1 << 25) as f64;
/// One rounding of f32.
const SINGLE: f64 = 1.0 / (1 << 24) as f64;

/// Numbers from -1 to 1 that the type represents exactly.
fn random(seed: u64, count: usize, ty: Type) -> Vec<f32> {
    let mut random = SplitMix(seed);
    let number = |random: &mut SplitMix| (random.next() >> 40) as f32 / (1u32 << 23) as f32 - 1.0;
    (0..count).map(|_| ty.round(number(&mut random)) as f32).collect()
}

fn input(name: &'static str, ty: Type, rows: usize, columns: usize, seed: u64) -> Array {
    Array { name, ty, rows, columns, contents: Contents::Input(random(seed, rows * columns, ty)) }
}

fn output(name: &'static str, ty: Type, rows: usize, columns: usize, values: Vec<(f64, f64)>) -> Array {
    let (exact, limits) = values.into_iter().unzip();
    Array { name, ty, rows, columns, contents: Contents::Output { exact, limits } }
}

/// The value of an element of an input.
fn at(array: &Array, row: usize, column: usize) -> f64 {
    match &array.contents {
        Contents::Input(values) => f64::from(values[row * array.columns + column]),
        Contents::Output { .. } => f64::NAN,
    }
}

/// A sum of products as `wgmma` computes it, and how far it may be off: each of `block` products and the running value is truncated below
/// 2^-`kept` of the largest of them, and their sum below 2^-`stored` of itself.
fn summed(products: &[f64], block: usize, kept: i32, stored: i32) -> (f64, f64) {
    let (mut sum, mut limit) = (0f64, 0f64);
    for products in products.chunks(block) {
        let largest = products.iter().fold(sum.abs() + limit, |largest, product| largest.max(product.abs()));
        sum += products.iter().sum::<f64>();
        limit += (products.len() + 1) as f64 * largest * (-f64::from(kept)).exp2();
        limit += (sum.abs() + limit) * (-f64::from(stored)).exp2();
    }
    (sum, limit)
}

/// The results of a product of f16 as 16 products at a time, rounded to f16.
fn product(a: &Array, b: &Array) -> Vec<(f64, f64)> {
    let mut values = Vec::new();
    for row in 0..a.rows {
        for column in 0..b.rows {
            let products: Vec<f64> = (0..a.columns).map(|k| at(a, row, k) * at(b, column, k)).collect();
            values.push(halved(summed(&products, 16, 25, 23)));
        }
    }
    values
}

/// A value with its limit, rounded to f16.
fn halved((value, limit): (f64, f64)) -> (f64, f64) {
    (value, limit + (value.abs() + limit) * HALF + HALF_TINY)
}

/// Five tiles of three steps for one block: each accumulator is used at least twice, and each stage is filled five times.
fn tcgen05_gemm() -> Problem {
    let (rows, columns, depth) = (640, 64, 192);
    let (a, b) = (input("a", Type::F16, rows, depth, 1), input("b", Type::F16, columns, depth, 2));
    let d = output("d", Type::F16, rows, columns, product(&a, &b));
    let map = |array, rows| Arg::Map { array, rows, columns: 64, swizzle: true };
    Problem {
        kernel: "gemm",
        grid: [1, 1, 1],
        cluster: None,
        block: 192,
        // Three stages of 24 KiB, the results, the mbarriers, and the address of tensor memory.
        shared: 3 * (24 << 10) + (16 << 10) + 84,
        arrays: vec![a, b, d],
        arguments: vec![map(0, 128), map(1, 64), map(2, 128), Arg::Int(5), Arg::Int(5), Arg::Int(3)],
    }
}

/// Attention of one head.
fn tcgen05_attention(queries: usize, keys: usize, causal: bool) -> Problem {
    let (arrays, scale) = attention_arrays(1, queries, keys, causal);
    let map = |array, rows| Arg::Map { array, rows, columns: 64, swizzle: true };
    Problem {
        kernel: "attention",
        grid: [(queries / 256) as u32, 1, 1],
        cluster: None,
        block: 512,
        // Q and O, two stages of K and V, the factors, the mbarriers, and the address of tensor memory.
        shared: (64 << 10) + 2 * (16 << 10) + 1024 + 23 * 8 + 4,
        arrays,
        arguments: vec![
            map(0, 128),
            map(1, 64),
            map(2, 64),
            map(3, 128),
            Arg::Int(queries as i32),
            Arg::Int(keys as i32),
            Arg::Float(scale),
            Arg::Int(i32::from(causal)),
        ],
    }
}

/// Two tiles for each block, and a number of steps that is not a multiple of the stages. Each stage is filled five times: after four,
/// a barrier that counts one of eight arrivals too few no longer waits for a whole warpgroup.
fn gemm(kernel: &'static str, ty: Type) -> Problem {
    let (multicast, small) = (kernel == "gemm_multicast", ty == Type::E4m3);
    let width = if small { 128 } else { 64 };
    let (rows, columns, depth) = (256, if multicast { 256 } else { 128 }, 8 * width);
    let a = input("a", ty, rows, depth, 1);
    let b = input("b", ty, columns, depth, 2);
    let mut values = Vec::new();
    for row in 0..rows {
        for column in 0..columns {
            let products: Vec<f64> = (0..depth).map(|k| at(&a, row, k) * at(&b, column, k)).collect();
            let (sum, limit) =
                if small { summed(&products, 32, 13, 13) } else { summed(&products, 16, 25, 23) };
            values.push(halved((sum, limit)));
        }
    }
    let d = output("d", Type::F16, rows, columns, values);
    let map = |array, rows, columns| Arg::Map { array, rows, columns: columns as u32, swizzle: true };
    let (down, across) = (rows / 128, columns / 128);
    Problem {
        kernel,
        grid: [if multicast { 2 } else { 1 }, 1, 1],
        cluster: None,
        block: 384,
        // Three stages of 32 KiB, the results, and the mbarriers.
        shared: 3 * (32 << 10) + (32 << 10) + 48,
        arrays: vec![a, b, d],
        arguments: vec![
            map(0, 128, width),
            map(1, if multicast { 64 } else { 128 }, width),
            map(2, 64, 64),
            Arg::Int(down as i32),
            Arg::Int((down * across) as i32),
            Arg::Int((depth / width) as i32),
        ],
    }
}

/// Q, K, V and the exact output of attention, and the factor of the scores.
fn attention_arrays(heads: usize, queries: usize, keys: usize, causal: bool) -> (Vec<Array>, f32) {
    const DIM: usize = 64;
    let q = input("q", Type::F16, heads * queries, DIM, 3);
    let k = input("k", Type::F16, heads * keys, DIM, 4);
    let v = input("v", Type::F16, heads * keys, DIM, 5);
    let scale = (std::f64::consts::LOG2_E / (DIM as f64).sqrt()) as f32;
    let mut values = Vec::new();
    for row in 0..heads * queries {
        let (head, query) = (row / queries, row % queries);
        let seen = if causal { query + 1 } else { keys };
        let (mut scores, mut magnitude) = (Vec::new(), 0f64);
        for key in 0..seen {
            let products = (0..DIM).map(|d| at(&q, row, d) * at(&k, head * keys + key, d));
            let (sum, all) =
                products.fold((0.0, 0.0), |(sum, all), product| (sum + product, all + product.abs()));
            scores.push(sum * f64::from(scale));
            magnitude = magnitude.max(all * f64::from(scale));
        }
        let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp2()).collect();
        let sum: f64 = weights.iter().sum();
        // The exponent: the sum of products, its factor, and the difference from the largest, which is rounded twice.
        let exponent = magnitude * ((DIM / 16) as f64 * STEP + 4.0 * SINGLE);
        let tiles = (keys / 64) as f64;
        // A weight in f32: the exponent, `ex2.approx`, and one factor for each later tile, computed in the same way.
        let weight = (tiles + 1.0) * (exponent * std::f64::consts::LN_2 * 2.0 + 6.0 * SINGLE);
        for d in 0..DIM {
            let products = (0..seen).map(|key| weights[key] / sum * at(&v, head * keys + key, d));
            let (exact, all) =
                products.fold((0.0, 0.0), |(sum, all), product| (sum + product, all + product.abs()));
            // Weights are f16 in the product and f32 in the sum; a weight below the range of f16 is off by `HALF_TINY`.
            let product = all * (weight + HALF + (keys / 16) as f64 * STEP) + seen as f64 * HALF_TINY / sum;
            let divided = exact.abs() * (weight + (keys as f64 + 2.0) * SINGLE);
            let error = product + divided;
            values.push(halved((exact, error)));
        }
    }
    let o = output("o", Type::F16, heads * queries, DIM, values);
    (vec![q, k, v, o], scale)
}

/// Attention of one head after the other. With 19 tiles of keys each stage is filled more than eight times, and the first once more than the
/// second: a barrier that counts one arrival too few, or bytes of the other stage, then waits forever.
fn attention(heads: usize, queries: usize, keys: usize, causal: bool) -> Problem {
    let (arrays, scale) = attention_arrays(heads, queries, keys, causal);
    let map = |array| Arg::Map { array, rows: 64, columns: 64, swizzle: true };
    Problem {
        kernel: "attention",
        grid: [(queries / 128) as u32, heads as u32, 1],
        cluster: None,
        block: 384,
        // Q, two stages of K and V, O, and the mbarriers.
        shared: (16 << 10) + 2 * (16 << 10) + (16 << 10) + 72,
        arrays,
        arguments: vec![
            map(0),
            map(1),
            map(2),
            map(3),
            Arg::Int(queries as i32),
            Arg::Int(keys as i32),
            Arg::Float(scale),
            Arg::Int(i32::from(causal)),
        ],
    }
}

/// Two clusters of this many blocks.
fn cluster_reduce(size: usize) -> Problem {
    const LENGTH: usize = 200;
    let x = input("x", Type::F32, 2 * size, LENGTH, 6);
    let (mut sums, mut maxima, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    for cluster in 0..2 {
        let places = (cluster * size..(cluster + 1) * size)
            .flat_map(|row| (0..LENGTH).map(move |column| (row, column)));
        let values: Vec<f64> = places.map(|(row, column)| at(&x, row, column)).collect();
        let magnitude: f64 = values.iter().map(|value| value.abs()).sum();
        // An element is part of fewer than 32 additions.
        sums.push((values.iter().sum(), 32.0 * SINGLE * magnitude));
        maxima.push((values.iter().copied().fold(f64::NEG_INFINITY, f64::max), 0.0));
        counts.push((values.iter().filter(|value| **value < 0.0).count() as f64, 0.0));
    }
    Problem {
        kernel: "cluster_reduce",
        grid: [2 * size as u32, 1, 1],
        cluster: Some(size as u32),
        block: 128,
        shared: 0,
        arrays: vec![
            x,
            output("sums", Type::F32, 1, 2, sums),
            output("maxima", Type::F32, 1, 2, maxima),
            output("counts", Type::I32, 1, 2, counts),
        ],
        arguments: vec![
            Arg::Pointer(0),
            Arg::Pointer(1),
            Arg::Pointer(2),
            Arg::Pointer(3),
            Arg::Int(LENGTH as i32),
        ],
    }
}

/// Two clusters of this many blocks.
fn multicast(size: usize) -> Problem {
    const TILES: usize = 5;
    let x = input("x", Type::F32, TILES * 8, 32, 7);
    let weights = input("weights", Type::F32, 1, 2 * size, 8);
    let mut values = Vec::new();
    for block in 0..2 * size {
        for i in 0..TILES * 256 {
            let product = at(&x, i / 32, i % 32) * at(&weights, 0, block);
            values.push((product, product.abs() * SINGLE));
        }
    }
    let y = output("y", Type::F32, 2 * size, TILES * 256, values);
    Problem {
        kernel: "multicast",
        grid: [2 * size as u32, 1, 1],
        cluster: Some(size as u32),
        block: 160,
        shared: 0,
        arrays: vec![x, weights, y],
        arguments: vec![
            Arg::Map { array: 0, rows: 8, columns: 32, swizzle: false },
            Arg::Pointer(1),
            Arg::Pointer(2),
            Arg::Int(TILES as i32),
        ],
    }
}
