//! Compares the dispatch table with the model that generated it, at shapes that are cheap to run.

use warpproof_kernels::dispatch::{CANDIDATES, nearest};
use warpproof_kernels::ladder::rung;
use warpproof_kernels::plan::{Plan, Request};
use warpproof_kernels::problem::Shape;
use warpproof_ladder as ladder;
use warpproof_model::Device;
use warpproof_toolchain::{Options, Toolchain, WITHOUT_TOOLCHAIN};

#[test]
fn toolchain_the_table_is_what_the_model_predicts() {
    let toolchain = Toolchain::find(&Options::from_env().with_cuda(12));
    let toolchain = toolchain.unwrap_or_else(|error| panic!("{error}\n{WITHOUT_TOOLCHAIN}"));
    let l4 = Device::named("L4").unwrap();
    let small = [(1, 1, 64, 64), (2, 8, 256, 64), (1, 1, 64, 96), (1, 1, 64, 128), (1, 1, 64, 256)];
    for (batch, heads, rows, dim) in small {
        let shape = Shape::equal(batch, heads, rows, dim);
        let entry = nearest(&shape, l4).unwrap();
        assert_eq!(Plan::new(&Request::new(shape.clone()), l4).unwrap().rung.id, entry.rung.id);
        for id in CANDIDATES {
            let figures = ladder::rung(rung(id).unwrap(), &shape, l4, &toolchain).unwrap();
            let us = figures.predicted.schedule_warm_us.unwrap();
            assert!(us > entry.predicted_us - 0.011, "{shape}: {id} takes {us} µs, the table has {entry:?}");
            if *id == entry.rung.id {
                assert!((us - entry.predicted_us).abs() < 0.006, "{shape}: {us} µs, the table has {entry:?}");
            }
        }
    }
}
