//! `cargo xtask dispatch`: writes the table that selects a rung for each shape, from the schedule model.
//!
//! Every candidate is compiled, run on the software GPU and predicted at every shape of the table. The shortest time with a warm
//! L2 cache wins, and among equal times the first rung. Predictions are deterministic, so the table is compared exactly.

use std::fs;

use warpproof_kernels::dispatch::{self, CANDIDATES, SHAPES};
use warpproof_kernels::ladder::{Rung, rung};
use warpproof_kernels::problem::Shape;
use warpproof_ladder as ladder;
use warpproof_model::Device;
use warpproof_toolchain::{Options, Toolchain};

use crate::root;
use crate::section::difference;

const TABLE: &str = "crates/kernels/data/dispatch.csv";

/// Compares the table with the predictions, or writes it.
pub(crate) fn run(bless: bool) -> Result<(), String> {
    let toolchain = Toolchain::find(&Options::from_env().with_cuda(12)).map_err(|error| error.to_string())?;
    let device = Device::named("L4").ok_or("the L4 is not in the device table")?;
    let mut text = "device,dim,heads,rows,rung,predicted_us\n".to_owned();
    for [batch, heads, rows, dim] in SHAPES {
        let shape = Shape::equal(*batch, *heads, *rows, *dim);
        let (best, us) = best(&shape, device, &toolchain)?;
        println!("dispatch: {shape}: {} in {us:.2} µs, predicted", best.name);
        text.push_str(&dispatch::line(device, &shape, best, us));
        text.push('\n');
    }
    let path = root().join(TABLE);
    if bless {
        return fs::write(&path, &text).map_err(|error| format!("cannot write {TABLE}: {error}"));
    }
    let committed = fs::read_to_string(&path).map_err(|error| format!("cannot read {TABLE}: {error}"))?;
    match difference(&text, &committed) {
        Some(difference) => {
            Err(format!("{TABLE}:{difference}\nrun `cargo xtask dispatch --bless` to write it"))
        }
        None => Ok(()),
    }
}

fn best(
    shape: &Shape,
    device: &'static Device,
    toolchain: &Toolchain,
) -> Result<(&'static Rung, f64), String> {
    let mut best: Option<(&'static Rung, f64)> = None;
    for id in CANDIDATES {
        let rung = rung(id).ok_or_else(|| format!("there is no rung {id}"))?;
        let figures = ladder::rung(rung, shape, device, toolchain).map_err(|why| format!("{id}: {why}"))?;
        let us = figures.predicted.schedule_warm_us.ok_or_else(|| format!("{id} at {shape}: no schedule"))?;
        // Rounded as in the table: smaller differences do not count.
        if best.is_none_or(|(_, least)| us < least - 0.005) {
            best = Some((rung, us));
        }
    }
    best.ok_or_else(|| "no candidates".to_owned())
}
