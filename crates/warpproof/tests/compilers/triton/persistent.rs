//! Persistent matrix products, whose tiles are tensor copies through maps that the kernel makes itself.

use super::{int, module};
use crate::data::Data;
use crate::launch::Random;
use crate::reference::{close_data, same_bits};

macro_rules! modules {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                check(stringify!($name));
            }
        )*
        pub(super) const TESTED: &[(&str, &str)] = &[$((stringify!($name), "sm_90")),*];
    };
}

modules! {
    matmul_persistent_f16_64x64x64
    matmul_persistent_e4m3_128x32x64
    matmul_persistent_bf16_128x64x32_specialized
}

/// Four tiles for three programs; the last row and column of tiles and the last step of k are partly outside.
fn check(name: &str) {
    let module = module(name, "sm_90");
    let (m, n, k) = (module.constant("BLOCK_M") + 6, module.constant("BLOCK_N") + 16, 112);
    let (ty, out, mut random) = (module.ty("a"), module.ty("c"), Random::new(8));
    for exact in [true, false] {
        let mut matrix = |rows: usize, columns: usize| {
            // Sums of small integers fit even the 13 fraction bits kept for 8-bit operands; only storing them may round.
            let mut element = || if exact { random.within(-2, 2) as f64 } else { random.normal() };
            Data::of_values(ty, (0..rows * columns).map(|_| element()))
        };
        let values = [
            ("a", matrix(m, k)),
            ("b", matrix(k, n)),
            ("c", Data::unwritten(out, m * n)),
            ("m", int(m)),
            ("n", int(n)),
            ("k", int(k)),
        ];
        module.check(&values, &[], |run| {
            let (a, b) = (run.floats("a"), run.floats("b"));
            let pairs = |i: usize| (0..k).map(|e| (a[i / n * k + e], b[e * n + i % n])).collect::<Vec<_>>();
            if exact {
                let sums = (0..m * n).map(|i| pairs(i).iter().map(|(a, b)| a * b).sum());
                same_bits(name, run.after("c"), &Data::of_values(out, sums));
            } else {
                let core = module.tensor_core(ty);
                close_data(name, run.after("c"), (0..m * n).map(|i| core.dot(pairs(i).into_iter(), 0.0)));
            }
        });
    }
}
