//! Elementwise, reduction and tensor-core kernels of CubeCL, each compared with the CPU.

use std::process::ExitCode;

use cubecl::cuda::{CudaDevice, CudaRuntime};
use cubecl::ir::features::MmaConfig;
use cubecl::ir::{ElemType, FloatKind};
use cubecl::prelude::*;
use half::f16;

type Client = ComputeClient<CudaRuntime>;

/// The logistic approximation of GELU.
#[cube(launch)]
fn gelu(input: &Array<f32>, output: &mut Array<f32>) {
    if ABSOLUTE_POS < input.len() {
        let x = input[ABSOLUTE_POS];
        output[ABSOLUTE_POS] = x / (1.0 + f32::exp(-1.702 * x));
    }
}

/// `a · x + y`, several elements at a time.
#[cube(launch)]
fn axpy<N: Size>(a: f32, x: &Array<Vector<f32, N>>, y: &mut Array<Vector<f32, N>>) {
    if ABSOLUTE_POS < x.len() {
        y[ABSOLUTE_POS] = Vector::new(a) * x[ABSOLUTE_POS] + y[ABSOLUTE_POS];
    }
}

/// The sum of each block's elements, in shared memory.
#[cube(launch)]
fn sum_of_blocks(input: &Array<u32>, output: &mut Array<u32>) {
    let mut partial = SharedMemory::<u32>::new(256usize);
    let unit = UNIT_POS as usize;
    if ABSOLUTE_POS < input.len() {
        partial[unit] = input[ABSOLUTE_POS];
    } else {
        partial[unit] = 0u32;
    }
    sync_cube();
    let mut step = 128usize;
    while step > 0usize {
        if unit < step {
            let other = partial[unit + step];
            partial[unit] += other;
        }
        sync_cube();
        step /= 2usize;
    }
    if UNIT_POS == 0 {
        output[CUBE_POS as usize] = partial[0];
    }
}

/// The sum of each warp's elements, by exchange between lanes.
#[cube(launch)]
fn sum_of_warps(input: &Array<f32>, output: &mut Array<f32>) {
    let sum = plane_sum(input[ABSOLUTE_POS]);
    if UNIT_POS_PLANE == 0 {
        output[ABSOLUTE_POS / PLANE_DIM as usize] = sum;
    }
}

/// How often each number of 0 to 15 occurs.
#[cube(launch)]
fn histogram(input: &Array<u32>, bins: &mut Array<Atomic<u32>>) {
    if ABSOLUTE_POS < input.len() {
        bins[input[ABSOLUTE_POS] as usize].fetch_add(1u32);
    }
}

/// A row-major product on tensor cores: a block of one warp has a tile of 16 by 16 of the result.
#[cube(launch)]
fn matmul(lhs: &Array<f16>, rhs: &Array<f16>, out: &mut Array<f32>, #[comptime] n: usize, #[comptime] k: usize) {
    let row = CUBE_POS_Y as usize * 16;
    let column = CUBE_POS_X as usize * 16;
    let accumulator = cmma::Matrix::<f32>::from_value(
        cmma::MatrixIdent::Accumulator,
        16usize,
        16usize,
        16usize,
        cmma::MatrixLayout::Undefined,
        0.0,
    );
    for step in 0..k / 16 {
        let left = row * k + step * 16;
        let a = cmma::Matrix::<f16>::from_slice(
            cmma::MatrixIdent::A,
            16usize,
            16usize,
            16usize,
            cmma::MatrixLayout::RowMajor,
            &lhs.slice(left, lhs.len()),
            k as u32,
        );
        let right = step * 16 * n + column;
        let b = cmma::Matrix::<f16>::from_slice(
            cmma::MatrixIdent::B,
            16usize,
            16usize,
            16usize,
            cmma::MatrixLayout::RowMajor,
            &rhs.slice(right, rhs.len()),
            n as u32,
        );
        cmma::execute::<f16, f16, f32, f32>(&a, &b, &accumulator, &accumulator);
    }
    let corner = row * n + column;
    let end = out.len();
    cmma::store(&mut out.slice_mut(corner, end), &accumulator, n as u32, cmma::MatrixLayout::RowMajor);
}

/// Pseudorandom numbers from -1 to 1, the same on every machine.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        (state >> 8) as f32 / 8388608.0 - 1.0
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// Compares results with expected ones: the largest error may be this number of roundings of the largest value.
fn close(got: &[f32], want: &[f64], roundings: f64) -> Result<(), String> {
    if got.len() != want.len() {
        return Err(format!("found {} results, expected {}", got.len(), want.len()));
    }
    let size = want.iter().fold(1.0_f64, |size, x| size.max(x.abs()));
    let error = got.iter().zip(want).fold(0.0_f64, |error, (a, b)| error.max((f64::from(*a) - b).abs()));
    let limit = roundings * f64::from(f32::EPSILON) * size;
    if error <= limit { Ok(()) } else { Err(format!("error {error:.3e}, at most {limit:.3e}")) }
}

fn same(got: &[u32], want: &[u32]) -> Result<(), String> {
    if got == want { Ok(()) } else { Err("results differ".to_owned()) }
}

fn elementwise(client: &Client) -> Result<(), String> {
    let x = numbers(1000, 1);
    let input = client.create_from_slice(f32::as_bytes(&x));
    let output = client.empty(size_of_val(&x[..]));
    // SAFETY: the lengths are those of the buffers.
    unsafe {
        gelu::launch::<CudaRuntime>(
            client,
            CubeCount::Static(4, 1, 1),
            CubeDim::new_1d(256),
            ArrayArg::from_raw_parts(input, x.len()),
            ArrayArg::from_raw_parts(output.clone(), x.len()),
        );
    }
    let want: Vec<f64> = x.iter().map(|&x| f64::from(x)).map(|x| x / (1.0 + (-1.702 * x).exp())).collect();
    // The exponential is NVIDIA's approximation, with an error of two units.
    close(f32::from_bytes(&client.read_one_unchecked(output)), &want, 16.0)
}

fn vectors(client: &Client) -> Result<(), String> {
    let (x, y) = (numbers(1024, 2), numbers(1024, 3));
    let left = client.create_from_slice(f32::as_bytes(&x));
    let right = client.create_from_slice(f32::as_bytes(&y));
    // SAFETY: the lengths are those of the buffers.
    unsafe {
        axpy::launch::<CudaRuntime>(
            client,
            CubeCount::Static(4, 1, 1),
            CubeDim::new_1d(64),
            4,
            1.5,
            ArrayArg::from_raw_parts(left, x.len()),
            ArrayArg::from_raw_parts(right.clone(), y.len()),
        );
    }
    let want: Vec<f64> = x.iter().zip(&y).map(|(&x, &y)| 1.5 * f64::from(x) + f64::from(y)).collect();
    close(f32::from_bytes(&client.read_one_unchecked(right)), &want, 2.0)
}

fn reduction(client: &Client) -> Result<(), String> {
    let x: Vec<u32> = (0..1000).map(|i| i * 7 % 101).collect();
    let input = client.create_from_slice(u32::as_bytes(&x));
    let output = client.empty(4 * size_of::<u32>());
    // SAFETY: the lengths are those of the buffers.
    unsafe {
        sum_of_blocks::launch::<CudaRuntime>(
            client,
            CubeCount::Static(4, 1, 1),
            CubeDim::new_1d(256),
            ArrayArg::from_raw_parts(input, x.len()),
            ArrayArg::from_raw_parts(output.clone(), 4),
        );
    }
    let want: Vec<u32> = x.chunks(256).map(|block| block.iter().sum()).collect();
    same(u32::from_bytes(&client.read_one_unchecked(output)), &want)
}

fn warps(client: &Client) -> Result<(), String> {
    let x = numbers(512, 4);
    let input = client.create_from_slice(f32::as_bytes(&x));
    let output = client.empty(16 * size_of::<f32>());
    // SAFETY: the lengths are those of the buffers.
    unsafe {
        sum_of_warps::launch::<CudaRuntime>(
            client,
            CubeCount::Static(4, 1, 1),
            CubeDim::new_1d(128),
            ArrayArg::from_raw_parts(input, x.len()),
            ArrayArg::from_raw_parts(output.clone(), 16),
        );
    }
    let want: Vec<f64> = x.chunks(32).map(|warp| warp.iter().map(|&x| f64::from(x)).sum()).collect();
    close(f32::from_bytes(&client.read_one_unchecked(output)), &want, 32.0)
}

fn atomics(client: &Client) -> Result<(), String> {
    let x: Vec<u32> = (0..2000).map(|i| i * i % 16).collect();
    let input = client.create_from_slice(u32::as_bytes(&x));
    let bins = client.create_from_slice(u32::as_bytes(&[0; 16]));
    // SAFETY: the lengths are those of the buffers.
    unsafe {
        histogram::launch::<CudaRuntime>(
            client,
            CubeCount::Static(8, 1, 1),
            CubeDim::new_1d(256),
            ArrayArg::from_raw_parts(input, x.len()),
            ArrayArg::from_raw_parts(bins.clone(), 16),
        );
    }
    let mut want = [0; 16];
    x.iter().for_each(|&x| want[x as usize] += 1);
    same(u32::from_bytes(&client.read_one_unchecked(bins)), &want)
}

fn tensor_cores(client: &Client) -> Result<(), String> {
    let half = ElemType::Float(FloatKind::F16);
    let config = MmaConfig {
        a_type: half.into(),
        b_type: half.into(),
        cd_type: ElemType::Float(FloatKind::F32).into(),
        m: 16,
        n: 16,
        k: 16,
    };
    if !client.features().matmul.cmma.contains(&config) {
        return Err("the device has no tensor cores for float16".to_owned());
    }
    let (m, n, k) = (64, 48, 80);
    let halves = |count, seed| numbers(count, seed).into_iter().map(f16::from_f32).collect::<Vec<f16>>();
    let (a, b) = (halves(m * k, 5), halves(k * n, 6));
    let lhs = client.create_from_slice(f16::as_bytes(&a));
    let rhs = client.create_from_slice(f16::as_bytes(&b));
    let out = client.empty(m * n * size_of::<f32>());
    // SAFETY: the lengths are those of the buffers.
    unsafe {
        matmul::launch::<CudaRuntime>(
            client,
            CubeCount::Static((n / 16) as u32, (m / 16) as u32, 1),
            CubeDim::new_1d(32),
            ArrayArg::from_raw_parts(lhs, a.len()),
            ArrayArg::from_raw_parts(rhs, b.len()),
            ArrayArg::from_raw_parts(out.clone(), m * n),
            n,
            k,
        );
    }
    let element = |row: usize, column: usize| -> f64 {
        (0..k).map(|i| a[row * k + i].to_f64() * b[i * n + column].to_f64()).sum()
    };
    let want: Vec<f64> = (0..m * n).map(|i| element(i / n, i % n)).collect();
    close(f32::from_bytes(&client.read_one_unchecked(out)), &want, 2.0 * k as f64)
}

/// A kernel's name, and the function that runs it and checks its results.
type Case = (&'static str, fn(&Client) -> Result<(), String>);

fn main() -> ExitCode {
    let client = CudaRuntime::client(&CudaDevice::default());
    let cases: [Case; 6] = [
        ("elementwise", elementwise),
        ("vectors", vectors),
        ("reduction", reduction),
        ("warps", warps),
        ("atomics", atomics),
        ("tensor-core matmul", tensor_cores),
    ];
    let mut failed = 0;
    for (name, case) in cases {
        match case(&client) {
            Ok(()) => println!("{name}: same as on the CPU"),
            Err(problem) => {
                println!("FAILED {name}: {problem}");
                failed += 1;
            }
        }
    }
    println!("{} kernels, {failed} failed", cases.len());
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
