//! Finds a race and prints it as text and as JSON: `cargo run -p warpproof-check --example check`.
#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::error::Error;
use warpproof_check::{CheckLaunch, Class, Settings};
use warpproof_sim::Device;

/// Reverses the values of a block through shared memory. A barrier is missing between the store and the load.
const REVERSE: &str = "
    .version 8.7
    .target sm_89
    .address_size 64
    .visible .entry reverse(.param .u64 data)
    {
        .shared .align 4 .b8 tile[256];
        .reg .b64 %data, %at; .reg .b32 %i, %own, %other, %v;
        ld.param.u64 %data, [data];
        mov.u32 %i, %tid.x;
        mul.wide.u32 %at, %i, 4;
        add.s64 %data, %data, %at;
        ld.global.u32 %v, [%data];
        mov.u32 %own, tile;
        mad.lo.u32 %other, %i, -4, %own;
        mad.lo.u32 %own, %i, 4, %own;
        st.shared.u32 [%own], %v;
        ld.shared.u32 %v, [%other+252];
        st.global.u32 [%data], %v;
        ret;
    }";

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let mut device = Device::new();
    let data = device.upload(&(0..64).collect::<Vec<u32>>())?;
    let module = device.load(REVERSE)?;
    let checked = device.check(&module.kernel("reverse")?.launch().block(64).arg(data), &Settings::default());
    for finding in &checked.findings {
        println!("{finding}\n");
        println!("{}", serde_json::to_string_pretty(finding)?);
    }
    assert_eq!(checked.findings.first().map(|finding| finding.class), Some(Class::SharedRace));

    // With the barrier, there is nothing to report.
    let fixed = device.load(&REVERSE.replace("ld.shared", "bar.sync 0;\nld.shared"))?;
    let launch = fixed.kernel("reverse")?.launch().block(64).arg(data);
    assert!(device.check(&launch, &Settings::default()).findings.is_empty());
    Ok(())
}
