use super::*;
use warpproof_task::expr::Expr;
use warpproof_task::{At, Reduction};

/// A pseudo-random number from -1 to 1.
fn noise(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    f64::from(u32::try_from(*state >> 32).unwrap()) / f64::from(u32::MAX) * 2.0 - 1.0
}

fn tensor(dims: &[usize], dtype: Dtype, state: &mut u64) -> Tensor {
    let values = (0..dims.iter().product()).map(|_| dtype.round(3.0 * noise(state))).collect();
    Tensor::new(dims.to_vec(), values).unwrap()
}

fn name(text: &str) -> At<String> {
    At::unsaid(text.to_owned())
}

fn operators() -> Vec<(&'static str, Operator)> {
    vec![
        (
            "gemm",
            Operator::Gemm {
                a: name("x"),
                b: name("y"),
                output: name("o"),
                transpose_a: false,
                transpose_b: false,
                alpha: 0.5,
            },
        ),
        ("softmax", Operator::Softmax { input: name("x"), output: name("o") }),
        (
            "layer_norm",
            Operator::LayerNorm {
                input: name("x"),
                weight: Some(name("w")),
                bias: Some(name("b")),
                output: name("o"),
                epsilon: 1e-5,
            },
        ),
        ("sum", Operator::Reduction { input: name("x"), output: name("o"), op: Reduction::Sum, axis: 1 }),
        ("mean", Operator::Reduction { input: name("x"), output: name("o"), op: Reduction::Mean, axis: 1 }),
        (
            "elementwise",
            Operator::Elementwise {
                expression: At::unsaid(Expr::parse("x / (1 + exp(-x)) * n").unwrap()),
                output: name("o"),
            },
        ),
    ]
}

const ROWS: usize = 24;
const COLUMNS: usize = 200;

fn inputs(dtype: Dtype) -> BTreeMap<String, Tensor> {
    let mut state = 7;
    [("x", vec![ROWS, COLUMNS]), ("y", vec![COLUMNS, 20]), ("w", vec![COLUMNS]), ("b", vec![COLUMNS])]
        .into_iter()
        .map(|(name, dims)| (name.to_owned(), tensor(&dims, dtype, &mut state)))
        .collect()
}

/// The output of an f32 kernel, computed with plain loops.
#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "values are those of f32")]
fn kernel(operator: &str, inputs: &BTreeMap<String, Tensor>) -> Vec<f64> {
    let get = |name: &str| inputs[name].values.iter().map(|value| *value as f32).collect::<Vec<f32>>();
    let (x, y, w, b) = (get("x"), get("y"), get("w"), get("b"));
    let rows = || x.chunks(COLUMNS);
    let result: Vec<f32> = match operator {
        "gemm" => (0..ROWS * 20)
            .map(|at| {
                let (row, column) = (at / 20, at % 20);
                let sum = (0..COLUMNS).fold(0f32, |s, t| x[row * COLUMNS + t].mul_add(y[t * 20 + column], s));
                0.5 * sum
            })
            .collect(),
        "softmax" => rows()
            .flat_map(|row| {
                let largest = row.iter().copied().fold(f32::MIN, f32::max);
                let weights: Vec<f32> = row.iter().map(|x| (x - largest).exp()).collect();
                let sum: f32 = weights.iter().sum();
                weights.into_iter().map(move |weight| weight / sum)
            })
            .collect(),
        "layer_norm" => rows()
            .flat_map(|row| {
                let mean = row.iter().sum::<f32>() / 200.0;
                let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / 200.0;
                let inverse = 1.0 / (variance + 1e-5).sqrt();
                let done: Vec<f32> =
                    row.iter().zip(&w).zip(&b).map(|((x, w), b)| (x - mean) * inverse * w + b).collect();
                done
            })
            .collect(),
        "sum" => rows().map(|row| row.iter().sum()).collect(),
        "mean" => rows().map(|row| row.iter().sum::<f32>() / 200.0).collect(),
        _ => x.iter().map(|x| x / (1.0 + (-x).exp()) * 200.0).collect(),
    };
    result.into_iter().map(f64::from).collect()
}

#[test]
fn a_correct_kernel_passes_and_every_null_fails() {
    let axes = BTreeMap::from([("n".to_owned(), 200u64)]);
    for output in [Dtype::F32, Dtype::F16, Dtype::Bf16, Dtype::F64] {
        let inputs = inputs(Dtype::F16);
        for (label, operator) in operators() {
            let problem = Problem {
                operator: &operator,
                inputs: &inputs,
                axes: &axes,
                output,
                accumulate: Accumulate::F32,
            };
            let expected = expected(&problem).unwrap();
            let right = output.bytes(&kernel(label, &inputs));
            let (errors, judgement) = expected.judge(&right, NonFinite::Refuse);
            assert!(judgement.passed, "{label} {output}: {errors:?} {:?}", judgement.reasons);
            for null in Null::ALL {
                let wrong = null.output(&problem, &expected).unwrap();
                let (errors, judgement) = expected.judge(&wrong, NonFinite::Refuse);
                assert!(!judgement.passed, "{label} {output} {null}: {errors:?}");
            }
        }
    }
}

#[test]
fn a_small_bias_is_found_where_no_element_is_outside() {
    let axes = BTreeMap::new();
    let inputs = BTreeMap::from([("x".to_owned(), tensor(&[4096, 4], Dtype::F32, &mut 3))]);
    let operator = Operator::Reduction { input: name("x"), output: name("o"), op: Reduction::Mean, axis: 1 };
    let problem = Problem {
        operator: &operator,
        inputs: &inputs,
        axes: &axes,
        output: Dtype::F16,
        accumulate: Accumulate::F32,
    };
    let expected = expected(&problem).unwrap();
    // Rounding toward minus infinity instead of to nearest: within one step of f16 everywhere, but always down.
    let (mut down, mut right) = (Vec::new(), Vec::new());
    for exact in &expected.tensor.values {
        let near = Dtype::F16.round(*exact);
        right.push(near);
        down.push(near - 0.4 * Dtype::F16.half_step(*exact));
    }
    let f64s = Expected { dtype: Dtype::F64, ..expected.clone() };
    let (errors, judgement) = f64s.judge(&Dtype::F64.bytes(&down), NonFinite::Refuse);
    assert!(!judgement.passed && errors.z < -6.0, "{errors:?}");
    let (errors, judgement) = expected.judge(&Dtype::F16.bytes(&right), NonFinite::Refuse);
    assert!(judgement.passed, "{errors:?}");
}

#[test]
fn maxima_are_exact() {
    let inputs = inputs(Dtype::F32);
    let operator = Operator::Reduction { input: name("x"), output: name("o"), op: Reduction::Max, axis: 0 };
    let problem = Problem {
        operator: &operator,
        inputs: &inputs,
        axes: &BTreeMap::new(),
        output: Dtype::F32,
        accumulate: Accumulate::F32,
    };
    let expected = expected(&problem).unwrap();
    assert_eq!(expected.tensor.dims, [COLUMNS]);
    let mut got = expected.tensor.values.clone();
    assert!(expected.judge(&Dtype::F32.bytes(&got), NonFinite::Refuse).1.passed);
    got[5] += 1e-3;
    assert!(!expected.judge(&Dtype::F32.bytes(&got), NonFinite::Refuse).1.passed);
}

#[test]
fn infinities_follow_the_policy() {
    let inputs = BTreeMap::from([("x".to_owned(), Tensor::new(vec![2], vec![300.0, 1.0]).unwrap())]);
    let expression = At::unsaid(Expr::parse("x * x").unwrap());
    let operator = Operator::Elementwise { expression, output: name("o") };
    let axes = BTreeMap::new();
    let problem = Problem {
        operator: &operator,
        inputs: &inputs,
        axes: &axes,
        output: Dtype::F16,
        accumulate: Accumulate::F32,
    };
    let expected = expected(&problem).unwrap();
    let infinite = Dtype::F16.bytes(&[f64::INFINITY, 1.0]);
    assert!(expected.judge(&infinite, NonFinite::Match).1.passed);
    assert!(!expected.judge(&infinite, NonFinite::Refuse).1.passed);
    assert!(!expected.judge(&Dtype::F16.bytes(&[f64::NAN, 1.0]), NonFinite::Match).1.passed);
    assert!(!expected.judge(&[], NonFinite::Match).1.passed);
}

#[test]
fn what_does_not_fit_is_refused() {
    let inputs = BTreeMap::from([
        ("x".to_owned(), Tensor::new(vec![2, 3], vec![0.0; 6]).unwrap()),
        ("y".to_owned(), Tensor::new(vec![2, 3], vec![0.0; 6]).unwrap()),
        ("w".to_owned(), Tensor { dims: vec![9], values: vec![] }),
    ]);
    let axes = BTreeMap::from([("n".to_owned(), 1)]);
    for (label, operator) in
        operators().into_iter().filter(|(label, _)| ["gemm", "layer_norm"].contains(label))
    {
        let problem = Problem {
            operator: &operator,
            inputs: &inputs,
            axes: &axes,
            output: Dtype::F32,
            accumulate: Accumulate::F32,
        };
        assert!(expected(&problem).is_err(), "{label}");
    }
    assert!(Tensor::new(vec![usize::MAX, 2], vec![]).is_err());
}

fn integers(dims: &[usize], values: &[f64]) -> Tensor {
    Tensor::new(dims.to_vec(), values.to_vec()).unwrap()
}

/// The output values of an integer operator.
fn exact(
    operator: &Operator,
    inputs: &BTreeMap<String, Tensor>,
    output: Dtype,
    accumulate: Accumulate,
) -> Expected {
    let axes = BTreeMap::new();
    expected(&Problem { operator, inputs, axes: &axes, output, accumulate }).unwrap()
}

#[test]
fn integer_products_are_exact_and_wrap_around() {
    let (_, Operator::Gemm { a, b, output, .. }) = operators().remove(0) else { panic!("a product") };
    let gemm = Operator::Gemm { a, b, output, transpose_a: false, transpose_b: false, alpha: 3.0 };
    let inputs = BTreeMap::from([
        ("x".to_owned(), integers(&[1, 2], &[-128.0, 127.0])),
        ("y".to_owned(), integers(&[2, 1], &[127.0, -128.0])),
    ]);
    let sum = 3 * (-128 * 127 - 127 * 128);
    let right = exact(&gemm, &inputs, Dtype::I32, Accumulate::I32);
    assert!(right.judge(&i32::to_le_bytes(sum), NonFinite::Refuse).1.passed);
    for wrong in [sum + 1, sum - 1, sum + 4, 0] {
        assert!(!right.judge(&i32::to_le_bytes(wrong), NonFinite::Refuse).1.passed, "{wrong}");
    }
    // Truncated to 8 bits, like a store to a char.
    let narrow = exact(&gemm, &inputs, Dtype::I8, Accumulate::I32);
    assert_eq!(narrow.codes, Some(vec![u64::from(sum.to_le_bytes()[0])]));
    // A sum of 2^31 wraps to the smallest 32-bit integer.
    let sum = Operator::Reduction { input: name("x"), output: name("o"), op: Reduction::Sum, axis: 0 };
    let inputs = BTreeMap::from([("x".to_owned(), integers(&[2], &[2147483647.0, 1.0]))]);
    let right = exact(&sum, &inputs, Dtype::I32, Accumulate::I32);
    assert!(right.judge(&i32::MIN.to_le_bytes(), NonFinite::Refuse).1.passed);
    assert!(!right.judge(&i32::MAX.to_le_bytes(), NonFinite::Refuse).1.passed);
    let right = exact(&sum, &inputs, Dtype::U32, Accumulate::U32);
    assert!(right.judge(&(1u32 << 31).to_le_bytes(), NonFinite::Refuse).1.passed);
}

#[test]
fn integers_of_64_bits_are_compared_in_all_of_them() {
    let sum = Operator::Reduction { input: name("x"), output: name("o"), op: Reduction::Sum, axis: 0 };
    let inputs = BTreeMap::from([("x".to_owned(), integers(&[2], &[2f64.powi(60), 1.0]))]);
    let right = exact(&sum, &inputs, Dtype::I64, Accumulate::I64);
    assert!(right.judge(&((1i64 << 60) + 1).to_le_bytes(), NonFinite::Refuse).1.passed);
    assert!(!right.judge(&(1i64 << 60).to_le_bytes(), NonFinite::Refuse).1.passed);
}

#[test]
fn integer_expressions_round_towards_zero_and_wrap_around() {
    let parse = |text: &str| At::unsaid(Expr::parse(text).unwrap());
    let inputs = BTreeMap::from([("x".to_owned(), integers(&[3], &[-7.0, 2147483647.0, 5.0]))]);
    for (text, values) in [
        ("x / 2", [-3, 1073741823, 2]),
        ("x % 2", [-1, 1, 1]),
        ("x + 1", [-6, -2147483648, 6]),
        ("x * x", [49, 1, 25]),
        ("max(x, 0) - where(x > 5, 1, 0)", [0, 2147483646, 5]),
    ] {
        let operator = Operator::Elementwise { expression: parse(text), output: name("o") };
        let right = exact(&operator, &inputs, Dtype::I32, Accumulate::I32);
        let bytes: Vec<u8> = values.iter().flat_map(|value| i32::to_le_bytes(*value)).collect();
        assert!(right.judge(&bytes, NonFinite::Refuse).1.passed, "{text}: {:?}", right.tensor.values);
    }
    let operator = Operator::Elementwise { expression: parse("x / 0"), output: name("o") };
    let axes = BTreeMap::new();
    let (output, accumulate) = (Dtype::I32, Accumulate::I32);
    assert!(
        expected(&Problem { operator: &operator, inputs: &inputs, axes: &axes, output, accumulate }).is_err()
    );
}
