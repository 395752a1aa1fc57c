//! Every form of every instruction, executed as a kernel on lanes of chosen values and compared with an independent
//! computation. The tests record which forms they execute, so that the table in the book can list the tests of each form.

mod atomic;
mod bits;
mod bulk;
mod cache;
mod cancel;
mod cluster;
mod compare;
mod control;
mod convert;
mod copy;
mod extended;
mod float;
mod golden;
mod half;
mod harness;
mod int;
mod lanes;
mod math;
mod matrix;
mod memory;
mod mma;
mod moves;
mod packed;
mod scaled;
mod small;
mod sparse;
mod stack;
mod surface;
mod sync;
mod tcgen05;
mod tcgen05_forms;
mod tcgen05_mma;
mod tcgen05_pair;
mod tensor;
mod tensor_modes;
mod texture;
#[path = "../golden/vectors.rs"]
mod vectors;
mod video;
mod wgmma;
mod wgmma_sparse;
mod wmma;
