//! Counts the memory traffic of two ways to read a matrix: `cargo run -p warpproof-count --example count`.
#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::error::Error;
use warpproof_count::{CountLaunch, CountSettings, MemoryOp};
use warpproof_sim::Device;
use warpproof_sim::memory::Space;

/// Each thread of a warp reads one word, `stride` bytes after that of its neighbor.
const READ: &str = "
    .version 8.7
    .target sm_89
    .address_size 64
    .visible .entry read(.param .u64 matrix, .param .u32 stride, .param .u64 out)
    {
        .reg .b64 %matrix, %out, %at; .reg .b32 %i, %stride, %v;
        ld.param.u64 %matrix, [matrix];
        ld.param.u64 %out, [out];
        ld.param.u32 %stride, [stride];
        mov.u32 %i, %tid.x;
        mul.wide.u32 %at, %i, %stride;
        add.s64 %matrix, %matrix, %at;
        ld.global.u32 %v, [%matrix];
        mul.wide.u32 %at, %i, 4;
        add.s64 %out, %out, %at;
        st.global.u32 [%out], %v;
        ret;
    }";

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let mut device = Device::new();
    let module = device.load(READ)?;
    let (matrix, out) = (device.alloc::<u32>(32 * 32)?, device.alloc::<u32>(32)?);
    let mut sectors = Vec::new();
    for (name, stride) in [("a row", 4u32), ("a column", 128)] {
        let launch = module.kernel("read")?.launch().block(32).arg(matrix).arg(stride).arg(out);
        let counted = device.count(&launch, &CountSettings::default());
        if let Some(stop) = counted.outcome.stop {
            return Err(stop);
        }
        let loads = counted.counters.totals.traffic(Space::Global, &[MemoryOp::Load]);
        println!("{name}: {} sectors for {} bytes", loads.sectors, loads.bytes);
        sectors.push(loads.sectors);
    }
    assert_eq!(sectors, [4, 32]);
    Ok(())
}
