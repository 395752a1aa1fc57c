//! Runs a kernel in half precision: `cargo run -p warpproof-sim --example run`.
#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::error::Error;
use warpproof_sim::{Device, F16};

/// `y[i] = a * x[i] + y[i]`
const AXPY: &str = "
    .version 8.7
    .target sm_89
    .address_size 64
    .visible .entry axpy(.param .b16 a, .param .u64 x, .param .u64 y)
    {
        .reg .b64 %x, %y, %at; .reg .b32 %i; .reg .b16 %a, %xi, %yi;
        ld.param.b16 %a, [a];
        ld.param.u64 %x, [x];
        ld.param.u64 %y, [y];
        mov.u32 %i, %tid.x;
        mul.wide.u32 %at, %i, 2;
        add.s64 %x, %x, %at;
        add.s64 %y, %y, %at;
        ld.global.b16 %xi, [%x];
        ld.global.b16 %yi, [%y];
        fma.rn.f16 %yi, %a, %xi, %yi;
        st.global.b16 [%y], %yi;
        ret;
    }";

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let mut device = Device::new();
    let module = device.load(AXPY)?;
    let x = device.upload(&[1.0, 2.0, 3.0, 65504.0].map(F16::from_f32))?;
    let y = device.upload(&[0.5, 0.25, 0.125, 65504.0].map(F16::from_f32))?;
    let launch = module.kernel("axpy")?.launch().block(4).arg(F16::from_f32(2.0)).arg(x).arg(y);
    let outcome = launch.run(&mut device)?;
    let result: Vec<f32> = device.read(&y)?.into_iter().map(f32::from).collect();
    println!("y = {result:?} after {} warp instructions", outcome.instructions);
    assert_eq!(result, [2.5, 4.25, 6.125, f32::INFINITY]);
    Ok(())
}
