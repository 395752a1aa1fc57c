//! Matrix products in every operand type.

use super::rows::modules;
use super::{Module, int, module, rows_of, untouched_beside_rows};
use crate::data::{Data, Type};
use crate::launch::{Launched, Random};
use crate::reference::{close_data, same_bits};

modules! {
    matmul_f16_64x64x32: check_matmul
    matmul_f16_128x128x32: check_matmul
    matmul_f16_32x32x64: check_matmul
    matmul_bf16_64x128x32: check_matmul
    matmul_tf32_64x64x32: check_matmul
    matmul_s8_64x64x64: check_matmul
    matmul_e4m3_64x64x64: check_matmul
    matmul_e5m2_128x64x64: check_matmul
}

/// Four programs, the last row and column of them partly outside, and a last step of k that is partly outside.
struct Shape {
    m: usize,
    n: usize,
    k: usize,
    a_stride: usize,
    b_stride: usize,
    c_stride: usize,
}

impl Shape {
    fn of(module: &Module) -> Shape {
        let (m, n, k) = (module.constant("BLOCK_M") + 6, module.constant("BLOCK_N") + 26, 100);
        let stride = n.next_multiple_of(16) + 16;
        Shape { m, n, k, a_stride: 112, b_stride: stride, c_stride: stride }
    }

    fn launch(&self, module: &Module, mut element: impl FnMut() -> f64, check: impl Fn(&Launched<'_>)) {
        // Padding between rows holds values that would spoil any sum that includes them.
        let mut matrix = |name, rows: usize, stride: usize, columns: usize| {
            let spoilt = if module.ty(name) == Type::I8 { 99.0 } else { 300.0 };
            let value = |i: usize| if i % stride < columns { element() } else { spoilt };
            Data::of_values(module.ty(name), (0..rows * stride).map(value))
        };
        let values = [
            ("a", matrix("a", self.m, self.a_stride, self.k)),
            ("b", matrix("b", self.k, self.b_stride, self.n)),
            ("c", Data::unwritten(module.ty("c"), self.m * self.c_stride)),
            ("m", int(self.m)),
            ("n", int(self.n)),
            ("k", int(self.k)),
            ("a_stride", int(self.a_stride)),
            ("b_stride", int(self.b_stride)),
            ("c_stride", int(self.c_stride)),
        ];
        module.check(&values, &[], |run| {
            untouched_beside_rows(run, "c", self.c_stride, self.n);
            check(run);
        });
    }

    /// The pairs that output `i` adds up.
    fn pairs<'a>(&'a self, a: &'a [f64], b: &'a [f64], i: usize) -> impl Iterator<Item = (f64, f64)> + 'a {
        let (row, column) = (i / self.n, i % self.n);
        (0..self.k).map(move |k| (a[row * self.a_stride + k], b[k * self.b_stride + column]))
    }

    fn result(&self, run: &Launched<'_>) -> Data {
        rows_of(run.after("c"), self.c_stride, self.n)
    }
}

fn check_matmul(name: &str, arch: &str) {
    let module = module(name, arch);
    let (shape, mut random) = (Shape::of(&module), Random::new(4));
    let ty = module.ty("a");
    // Every sum of small integers fits even the 13 fraction bits kept for 8-bit operands; only storing it may round.
    shape.launch(
        &module,
        || random.within(-2, 2) as f64,
        |run| {
            let (a, b) = (run.floats("a"), run.floats("b"));
            let sum = |i| shape.pairs(&a, &b, i).map(|(a, b)| a * b).sum();
            same_bits(
                name,
                &shape.result(run),
                &Data::of_values(module.ty("c"), (0..shape.m * shape.n).map(sum)),
            );
        },
    );
    if ty == Type::I8 {
        shape.launch(
            &module,
            || random.within(-128, 127) as f64,
            |run| {
                let (a, b) = (run.floats("a"), run.floats("b"));
                let sum = |i| shape.pairs(&a, &b, i).map(|(a, b)| a * b).sum();
                same_bits(
                    name,
                    &shape.result(run),
                    &Data::of_values(Type::I32, (0..shape.m * shape.n).map(sum)),
                );
            },
        );
        return;
    }
    // Tensor cores ignore the low 13 bits of an f32 operand.
    let operand = move |x: f64| match ty {
        Type::F32 => f64::from(f32::from_bits((x as f32).to_bits() & !0x1fff)),
        _ => x,
    };
    shape.launch(
        &module,
        || random.normal(),
        |run| {
            let (a, b) = (run.floats("a"), run.floats("b"));
            let core = module.tensor_core(ty);
            let dot = |i| core.dot(shape.pairs(&a, &b, i).map(|(a, b)| (operand(a), operand(b))), 0.0);
            close_data(name, &shape.result(run), (0..shape.m * shape.n).map(dot));
        },
    );
}
