//! `ldmatrix` and `stmatrix`: eight rows of sixteen bytes for each matrix, which take one pass if no bank is used twice.

use crate::{Case, passes, traffic};
use warpproof_count::MemoryOp::{AsyncCopy, LoadMatrix, StoreMatrix};
use warpproof_sim::memory::Space::Shared;

const X1: &str = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%s];";
const X2: &str = "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1, %r2}, [%s];";
const X4: &str = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%s];";
const X4_TRANS: &str = "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r1, %r2, %r3, %r4}, [%s];";

/// Row `row` of a matrix whose rows use each of their banks `degree` times.
fn row(row: u64, degree: u64) -> u64 {
    row / degree * 16 + row % degree * 128
}

#[test]
fn one_matrix_in_conflicts_of_degree_1_to_8() {
    for degree in 1..=8 {
        // Lanes 0 to 7 give the row addresses; the values of the others do not matter.
        let counters = Case::new(X1, 32, |t| row(t % 8, degree)).count();
        let load = traffic(&counters, 1, Shared, LoadMatrix);
        assert_eq!(passes(&load), (1, degree, degree - 1), "{degree}");
        assert_eq!((load.lanes, load.bytes, load.ideal_wavefronts), (8, 128, 1));
    }
}

#[test]
fn two_matrices_in_conflicts_of_degree_2_to_16() {
    for total in 2..=16u64 {
        let degree = |matrix: u64| if matrix == 0 { total / 2 } else { total - total / 2 };
        let counters = Case::new(X2, 32, |t| t / 8 * 2048 + row(t % 8, degree(t / 8 % 2))).count();
        assert_eq!(passes(&traffic(&counters, 1, Shared, LoadMatrix)), (1, total, total - 2), "{total}");
    }
}

#[test]
fn four_matrices_in_conflicts_of_degree_4_to_32() {
    for total in 4..=32u64 {
        for body in [X4, X4_TRANS] {
            let degree = |matrix: u64| (total + matrix) / 4;
            let counters = Case::new(body, 32, |t| t / 8 * 2048 + row(t % 8, degree(t / 8))).count();
            let load = traffic(&counters, 1, Shared, LoadMatrix);
            assert_eq!(passes(&load), (1, total, total - 4), "{total}");
            assert_eq!((load.lanes, load.bytes), (32, 512));
        }
    }
}

#[test]
fn rows_that_are_the_same_are_read_once_but_matrices_apart() {
    // All 32 lanes give one row address: one pass for each matrix.
    let counters = Case::new(X4, 32, |_| 0).count();
    assert_eq!(passes(&traffic(&counters, 1, Shared, LoadMatrix)), (1, 4, 0));
}

#[test]
fn matrices_are_stored_as_they_are_loaded() {
    let body = "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%s], {%r1, %r2, %r3, %r4};";
    for degree in 1..=8u64 {
        let case = Case { target: "sm_90", ..Case::new(body, 32, |t| t / 8 * 2048 + row(t % 8, degree)) };
        let store = traffic(&case.count(), 1, Shared, StoreMatrix);
        assert_eq!(passes(&store), (1, 4 * degree, 4 * degree - 4));
    }
}

/// The offset of 16-byte chunk `chunk` of row `row` in an FP8 tile with rows of 64 bytes, without a swizzle.
fn plain(row: u64, chunk: u64) -> u64 {
    64 * row + 16 * chunk
}

/// The same with swizzled chunks.
fn swizzled(row: u64, chunk: u64) -> u64 {
    64 * row + 16 * (chunk ^ (row >> 1 & 3))
}

#[test]
fn an_fp8_tile_of_64_byte_rows() {
    // Two rows span the 128 bytes of all banks. Chunk c of rows r and r + 2 is in the same four banks: four of the eight
    // rows of a matrix conflict there. So without a swizzle each matrix takes 4 passes, 16 in all, of which 12 are
    // conflicts. Swizzled by (row >> 1) & 3, rows r, r + 2, r + 4, r + 6 have different chunks: no conflict, 4 passes.
    type Layout = fn(u64, u64) -> u64;
    let tiles: [(Layout, (u64, u64)); 2] = [(plain, (16, 12)), (swizzled, (4, 0))];
    for (place, expected) in tiles {
        for first_row in [0, 8, 48] {
            for chunk in 0..4 {
                // Four matrices of eight rows, stacked vertically, all of one chunk.
                let counters = Case::new(X4, 32, |t| place(first_row + t, chunk)).count();
                let (_, wavefronts, conflicts) = passes(&traffic(&counters, 1, Shared, LoadMatrix));
                assert_eq!((wavefronts, conflicts), expected, "stacked vertically, chunk {chunk}");
            }
            // Two matrices stacked vertically, of two adjacent chunks, as A operands are loaded.
            for chunk in [0, 2] {
                let offset = |t: u64| place(first_row + t % 16, chunk + t / 16);
                let counters = Case::new(X4_TRANS, 32, offset).count();
                let (_, wavefronts, conflicts) = passes(&traffic(&counters, 1, Shared, LoadMatrix));
                assert_eq!((wavefronts, conflicts), expected, "adjacent, chunk {chunk}");
            }
        }
        // The copies that fill the tile: lane t has chunk t % 4 of row t / 4. A quarter-warp writes two whole rows, in
        // any order: all banks once.
        let body = "cp.async.cg.shared.global [%s], [%g], 16;\ncp.async.wait_all;";
        let counters = Case::new(body, 128, |t| place(t / 4, t % 4)).count();
        assert_eq!(passes(&traffic(&counters, 1, Shared, AsyncCopy)), (4, 16, 0));
    }
}
