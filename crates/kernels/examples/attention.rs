//! FP8 attention from f32 tensors to a verdict, without a GPU.
//!
//! `cargo run --example attention -p warpproof-kernels`; it needs NVIDIA's compiler, `warpproof toolchain install`.
#![expect(clippy::print_stdout, reason = "an example prints its results")]

use std::error::Error;

use warpproof_kernels::Attention;
use warpproof_kernels::Inputs;
use warpproof_kernels::Plan;
use warpproof_kernels::Quantized;
use warpproof_kernels::Request;
use warpproof_kernels::Rows;
use warpproof_kernels::Shape;
use warpproof_launch::Checking;
use warpproof_model::Device as Model;
use warpproof_sim::Device;
use warpproof_toolchain::{Options, Toolchain};

fn main() -> Result<(), Box<dyn Error>> {
    // One sequence of 200 queries and as many keys, two heads, 64 elements per row; E4M3, one scale per head.
    let shape = Shape::equal(1, 2, 200, 64);
    let request = Request::new(shape.clone());

    // f32 tensors, [batch][head][row][element]; replace `values` by your own data.
    let quantize = |seed: u32, rows: Rows, scales| {
        let values = values(seed, rows.elements());
        Quantized::quantize(&values, rows, request.format, scales)
    };
    let inputs = Inputs {
        q: quantize(1, shape.query_rows(request.layout), request.scales.q)?,
        k: quantize(2, shape.key_rows(request.layout), request.scales.k)?,
        v: quantize(3, shape.key_rows(request.layout), request.scales.v)?,
        sinks: None,
        slopes: None,
        shape,
    };
    let Inputs { q, k, v, .. } = &inputs;

    let l4 = Model::named("L4").ok_or("the L4 is not in the device table")?;
    let plan = Plan::new(&request, l4)?;
    println!("{} on {} for an {}", plan.rung.name, request.shape, l4.name);
    for step in &plan.steps {
        let [x, y, z] = step.geometry.grid;
        println!("kernel {}: {x} × {y} × {z} blocks of {} threads", step.kernel, step.geometry.block);
    }
    let toolchain = Toolchain::find(&Options::from_env())?;
    let ptx = plan.compile(&toolchain)?;

    // The software GPU executes the PTX; the output is compared with attention in f64, and with the exact
    // bits it must have.
    let mut gpu = Device::new();
    let attention = Attention::load(plan.clone(), &ptx, &mut gpu)?;
    let answer = attention.run(&mut gpu, q, k, v)?;
    let verdict = plan.oracles(&inputs)?.judge(&answer);
    let errors = &verdict.errors;
    println!("max error {:.2e}, relative L1 {:.2e}", errors.max, errors.relative_l1);
    println!(
        "{:.2} % of {} elements within tolerance, {} with bits that differ from the oracle's",
        100.0 * (1.0 - errors.outside),
        answer.output.len(),
        verdict.other_bits
    );

    // The same run with all checks: races, premature reads of async copies, uninitialized values, lanes,
    // barriers, bounds.
    let mut gpu = Checking::new(Device::new(), 8);
    let attention = Attention::load(plan, &ptx, &mut gpu)?;
    let checked = attention.run(&mut gpu, q, k, v)?;
    for finding in &gpu.findings {
        println!("{finding}");
    }
    println!("{} findings under 8 schedules", gpu.findings.len());

    let green = verdict.passed() && gpu.findings.is_empty() && checked == answer;
    if green { Ok(()) } else { Err("the verdict or a check failed".into()) }
}

/// Values between -2 and 2, the same on every machine.
fn values(mut seed: u32, count: usize) -> Vec<f32> {
    let mut value = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let [high, low, ..] = seed.to_be_bytes();
        f32::from(i16::from_be_bytes([high, low])) / 16_384.0
    };
    (0..count).map(|_| value()).collect()
}
