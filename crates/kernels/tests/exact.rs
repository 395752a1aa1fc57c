//! Compares the exact oracle with its definition, and with itself where two problems are equivalent.
#![expect(clippy::cast_precision_loss, clippy::as_conversions, reason = "small counts as f64")]

use warpproof_kernels::inputs::{Distribution, Inputs, Spec, generate};
use warpproof_kernels::oracle::exact::{Exact, Options, PCast, attention};
use warpproof_kernels::problem::{Granularity, Layout, Lengths, Mask, Shape, Window};
use warpproof_kernels::tensor::{Quantized, each_row};

fn run(inputs: &Inputs, mask: Mask, options: Options) -> Exact {
    attention(inputs, mask, &options).expect("the inputs fit")
}

fn near(a: f64, b: f64) -> bool {
    a.total_cmp(&b).is_eq() || (a - b).abs() <= 1e-12 * (1.0 + a.abs())
}

/// Attention by its definition.
fn naive(inputs: &Inputs, mask: Mask, (batch, head, row): (usize, usize, usize)) -> (Vec<f64>, f64) {
    let dim = inputs.shape.dim;
    let [q, k, v] = [&inputs.q, &inputs.k, &inputs.v].map(Quantized::dequantize);
    let kv = head / inputs.shape.group();
    let lengths = inputs.shape.sequences[batch];
    let at = inputs.q.rows.offset(batch, head, row);
    let (mut sum, mut output) = (0.0, vec![0.0; dim]);
    for key in 0..mask.visible(lengths, row) {
        let (from_k, from_v) = (inputs.k.rows.offset(batch, kv, key), inputs.v.rows.offset(batch, kv, key));
        let score: f64 = (0..dim).map(|d| q[at + d] * k[from_k + d]).sum();
        let weight = (score / (dim as f64).sqrt()).exp();
        sum += weight;
        for d in 0..dim {
            output[d] += weight * v[from_v + d];
        }
    }
    let scale = if sum > 0.0 { 1.0 / sum } else { 0.0 };
    (output.iter().map(|o| o * scale).collect(), sum.ln())
}

#[test]
fn two_keys_by_hand() {
    // q·k is 0 and ln 3 · √4, so the weights are 1/4 and 3/4.
    let shape = Shape { heads: 1, kv_heads: 1, dim: 4, sequences: vec![Lengths { queries: 1, keys: 2 }] };
    let mut inputs = generate(&shape, Distribution::Normal, 1, Spec::default());
    let fill = |tensor: &mut Quantized, values: &[f32]| {
        *tensor =
            Quantized::quantize(values, tensor.rows.clone(), tensor.format, tensor.granularity).unwrap();
    };
    let ln3 = (3f32).ln() * 2.0;
    fill(&mut inputs.q, &[1.0, 0.0, 0.0, 0.0]);
    fill(&mut inputs.k, &[0.0, 1.0, 0.0, 0.0, ln3, 0.0, 0.0, 0.0]);
    fill(&mut inputs.v, &[4.0, 0.0, 0.0, -4.0, 0.0, 4.0, 0.0, 4.0]);
    let exact = run(&inputs, Mask::Full, Options::default());
    for (got, expected) in exact.output.iter().zip([1.0, 3.0, 0.0, 2.0]) {
        assert!((got - expected).abs() < 1e-5, "{:?}", exact.output);
    }
    assert!((exact.lse[0] - 4f64.ln()).abs() < 1e-5);
    // The larger weight is 1, the smaller 1/3 = 0.0101 0101…₂, which E4M3 rounds to 11/32.
    let cast = run(&inputs, Mask::Full, Options { cast: PCast::E4m3, ..Options::default() });
    for (got, expected) in cast.output.iter().zip([4.0 * 11.0 / 32.0, 4.0, 0.0, 4.0 * 21.0 / 32.0]) {
        assert!((got - expected * 0.75).abs() < 1e-5, "{:?}", cast.output);
    }
}

#[test]
fn all_shapes_and_masks_follow_the_definition() {
    let sequences = vec![
        Lengths { queries: 5, keys: 70 },
        Lengths { queries: 37, keys: 33 },
        Lengths { queries: 1, keys: 1 },
        Lengths { queries: 2, keys: 0 },
    ];
    let shape = Shape { heads: 4, kv_heads: 2, dim: 20, sequences };
    for (mask, layout) in [(Mask::Full, Layout::Bhsd), (Mask::Causal, Layout::Bshd)] {
        for granularity in Granularity::ALL {
            let spec = Spec {
                q: granularity,
                k: granularity,
                v: granularity,
                key_layout: layout,
                ..Spec::default()
            };
            let inputs = generate(&shape, Distribution::Outliers, 5, spec);
            let exact = run(&inputs, mask, Options { layout, ..Options::default() });
            for (batch, head, row) in each_row(&exact.rows) {
                let (output, lse) = naive(&inputs, mask, (batch, head, row));
                let at = exact.rows.offset(batch, head, row);
                assert!(exact.output[at..].iter().zip(&output).all(|(a, b)| near(*a, *b)));
                let got = exact.lse[(batch * 4 + head) * exact.rows.longest() + row];
                assert!(near(got, lse), "{got} {lse}");
            }
        }
    }
}

/// Attention with a window, a soft cap, ALiBi and sinks, by its definition.
fn naive_with_options(
    inputs: &Inputs,
    mask: Mask,
    options: &Options,
    (batch, head, row): (usize, usize, usize),
) -> (Vec<f64>, f64) {
    let dim = inputs.shape.dim;
    let [q, k, v] = [&inputs.q, &inputs.k, &inputs.v].map(Quantized::dequantize);
    let kv = head / inputs.shape.group();
    let lengths = inputs.shape.sequences[batch];
    let at = inputs.q.rows.offset(batch, head, row);
    let place = row as f64 + lengths.keys as f64 - lengths.queries as f64;
    let of_head = |values: &Option<Vec<f32>>| values.as_ref().map(|values| f64::from(values[head]));
    let mut sum = of_head(&inputs.sinks).map_or(0.0, f64::exp);
    let mut output = vec![0.0; dim];
    for key in 0..lengths.keys {
        let after = key as f64 - place;
        let seen = (mask == Mask::Full || after <= 0.0)
            && options.window.left.is_none_or(|left| -after <= left as f64)
            && options.window.right.is_none_or(|right| after <= right as f64);
        if !seen {
            continue;
        }
        let (from_k, from_v) = (inputs.k.rows.offset(batch, kv, key), inputs.v.rows.offset(batch, kv, key));
        let score = (0..dim).map(|d| q[at + d] * k[from_k + d]).sum::<f64>() / (dim as f64).sqrt();
        let score = options.softcap.map_or(score, |cap| cap * (score / cap).tanh());
        let weight = (score - of_head(&inputs.slopes).unwrap_or(0.0) * after.abs()).exp();
        sum += weight;
        for d in 0..dim {
            output[d] += weight * v[from_v + d];
        }
    }
    let scale = if sum > 0.0 { 1.0 / sum } else { 0.0 };
    (output.iter().map(|o| o * scale).collect(), sum.ln())
}

#[test]
fn options_follow_the_definition() {
    let sequences = vec![
        Lengths { queries: 5, keys: 70 },
        Lengths { queries: 37, keys: 33 },
        Lengths { queries: 40, keys: 7 },
        Lengths { queries: 2, keys: 0 },
    ];
    let shape = Shape { heads: 4, kv_heads: 2, dim: 20, sequences };
    let windows = [
        Window::default(),
        Window::left(9),
        Window { left: None, right: Some(2) },
        Window { left: Some(3), right: Some(30) },
    ];
    for (mask, window) in
        [Mask::Full, Mask::Causal].into_iter().flat_map(|mask| windows.map(|window| (mask, window)))
    {
        for (softcap, sinks, slopes) in
            [(None, false, false), (Some(2.0), false, false), (None, true, true), (Some(0.5), true, true)]
        {
            let inputs =
                generate(&shape, Distribution::Outliers, 5, Spec { sinks, slopes, ..Spec::default() });
            let options = Options { window, softcap, ..Options::default() };
            let exact = run(&inputs, mask, options);
            for (batch, head, row) in each_row(&exact.rows) {
                let (output, lse) = naive_with_options(&inputs, mask, &options, (batch, head, row));
                let at = exact.rows.offset(batch, head, row);
                assert!(exact.output[at..].iter().zip(&output).all(|(a, b)| near(*a, *b)), "{options:?}");
                let got = exact.lse[(batch * 4 + head) * exact.rows.longest() + row];
                assert!(near(got, lse), "{got} {lse} {options:?}");
            }
        }
    }
}

#[test]
fn a_causal_row_depends_on_the_keys_it_sees_alone() {
    let shape = Shape::equal(1, 1, 40, 16);
    let mut inputs = generate(&shape, Distribution::Normal, 9, Spec::default());
    let before = run(&inputs, Mask::Causal, Options::default());
    let at = inputs.v.rows.offset(0, 0, 20);
    inputs.v.codes[at] ^= 0x80;
    let after = run(&inputs, Mask::Causal, Options::default());
    for row in 0..40 {
        let same = before.output[row * 16].total_cmp(&after.output[row * 16]).is_eq();
        assert_eq!(same, row < 20, "row {row}");
    }
    // The first row sees one key.
    let v = inputs.v.dequantize();
    assert!(after.output[..16].iter().zip(&v).all(|(a, b)| near(*a, *b)));
}

#[test]
fn shared_key_heads_are_repeated_ones() {
    let grouped = Shape { heads: 6, kv_heads: 2, dim: 16, sequences: Shape::equal(2, 1, 19, 1).sequences };
    let inputs = generate(&grouped, Distribution::Normal, 2, Spec::default());
    let mut repeated = inputs.clone();
    repeated.shape.kv_heads = 6;
    for tensor in [&mut repeated.k, &mut repeated.v] {
        let rows = repeated.shape.key_rows(Layout::Bhsd);
        let from = tensor.clone();
        tensor.codes = each_row(&rows).flat_map(|(b, h, r)| from.row(b, h / 3, r).iter().copied()).collect();
        tensor.rows = rows;
    }
    let (a, b) =
        (run(&inputs, Mask::Causal, Options::default()), run(&repeated, Mask::Causal, Options::default()));
    assert_eq!(a.output, b.output);
}

#[test]
fn sequences_of_a_batch_are_separate_calls() {
    let lengths = [(7, 7), (65, 65), (3, 50)].map(|(queries, keys)| Lengths { queries, keys });
    let shape = Shape { heads: 2, kv_heads: 1, dim: 16, sequences: lengths.to_vec() };
    let spec = Spec {
        query_layout: Layout::Bshd,
        key_layout: Layout::Bshd,
        q: Granularity::Row,
        k: Granularity::Row,
        v: Granularity::Row,
        ..Spec::default()
    };
    let options = Options { layout: Layout::Bshd, ..Options::default() };
    let all = generate(&shape, Distribution::Normal, 4, spec);
    let together = run(&all, Mask::Causal, options);
    for (batch, &lengths) in lengths.iter().enumerate() {
        let alone = Shape { sequences: vec![lengths], ..shape.clone() };
        let mut inputs = generate(&alone, Distribution::Normal, 4, spec);
        for (one, all) in [(&mut inputs.q, &all.q), (&mut inputs.k, &all.k), (&mut inputs.v, &all.v)] {
            let from = all.rows.offset(batch, 0, 0);
            one.codes = all.codes[from..from + one.rows.elements()].to_vec();
            for (_, head, row) in each_row(&one.rows) {
                let at = one.granularity.index(&one.rows, 0, head, row);
                one.scales[at] = all.scale_of(batch, head, row);
            }
        }
        let exact = run(&inputs, Mask::Causal, options);
        let from = together.rows.offset(batch, 0, 0);
        assert_eq!(exact.output, together.output[from..from + exact.output.len()]);
    }
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    let shape = Shape::equal(1, 2, 4, 16);
    let mut inputs = generate(&shape, Distribution::Normal, 4, Spec::default());
    inputs.k.codes.pop();
    assert!(attention(&inputs, Mask::Full, &Options::default()).is_err());
    let mut inputs = generate(&shape, Distribution::Normal, 4, Spec::default());
    inputs.shape.heads = 3;
    assert!(attention(&inputs, Mask::Full, &Options::default()).is_err());
}

/// `cargo test --release -p warpproof-kernels --test exact -- --ignored --nocapture`
#[test]
#[ignore = "a benchmark"]
fn time_of_the_oracle() {
    use warpproof_kernels::format::OutputFormat;
    use warpproof_kernels::tolerance::{InputPrecision, PFormat, Precision, ScorePrecision, ValueChain};
    let precision = Precision {
        inputs: InputPrecision::Exact,
        scores: ScorePrecision::Fp8Tensor,
        p: PFormat::E4m3,
        chain: ValueChain::Fp8Promoted,
        output: OutputFormat::F16,
    };
    let inputs = generate(&Shape::equal(1, 8, 2048, 64), Distribution::Normal, 1, Spec::default());
    for precision in [None, Some(precision)] {
        let start = std::time::Instant::now();
        let exact = run(&inputs, Mask::Full, Options { precision, ..Options::default() });
        println!("{:?} with tolerance: {}", start.elapsed(), exact.tolerance.is_some());
    }
}
