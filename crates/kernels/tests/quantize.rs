//! Runs the quantizer on the software GPU: checks report nothing, and codes, scales and means have the oracle's bits.
#![expect(clippy::unwrap_used, reason = "a test fails at the first error")]

#[expect(dead_code, reason = "used by other tests")]
mod study;

use study::{l4, toolchain};
use warpproof_kernels::inputs::{Distribution, Inputs, Tensors, generate};
use warpproof_kernels::oracle::exact::{Options, attention, of_tensors};
use warpproof_kernels::oracle::quantize::{quantize, unsmooth};
use warpproof_kernels::params::Strides;
use warpproof_kernels::quantize::{Element, Quantization, Quantize, Quantizer, Smoothed};
use warpproof_kernels::unsmooth::{Unsmooth, UnsmoothAddresses};
use warpproof_kernels::{
    Attention, Format, Granularity, Layout, Lengths, Mask, Plan, Quantized, Request, Rows, Scales, Shape,
};
use warpproof_launch::{Checking, Gpu, Use};
use warpproof_sim::Device;
use warpproof_tolerance::Tolerance;
use warpproof_tolerance::error::Errors;

/// Four query heads for two key heads.
fn grouped(sequences: &[(usize, usize)], dim: usize) -> Shape {
    let sequences = sequences.iter().map(|&(queries, keys)| Lengths { queries, keys }).collect();
    Shape { heads: 4, kv_heads: 2, dim, sequences }
}

fn keys(lengths: &[usize], dim: usize, layout: Layout) -> Rows {
    let sequences: Vec<_> = lengths.iter().map(|keys| (1, *keys)).collect();
    grouped(&sequences, dim).key_rows(layout)
}

/// Values with outlier channels, of which some have a large mean.
#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "test data in f32")]
fn outliers(rows: &Rows, seed: u64) -> Vec<f32> {
    let sequences = (0..rows.batch()).map(|batch| Lengths { queries: 1, keys: rows.length(batch) }).collect();
    let shape = Shape { heads: rows.heads, kv_heads: rows.heads, dim: rows.dim, sequences };
    let layout = rows.layout;
    let spec = warpproof_kernels::inputs::Spec { key_layout: layout, ..Default::default() };
    let normal = generate(&shape, Distribution::Outliers, seed, spec).k.dequantize();
    let values = normal.iter().enumerate().map(|(index, value)| {
        let mean = if index % rows.dim % 29 == 3 { 37.7 } else { 0.01 };
        (value * 1.03 + mean) as f32
    });
    values.collect()
}

fn run(request: &Quantize, bytes: &[u8]) -> Smoothed {
    let toolchain = toolchain();
    let plan = Quantizer::new(request, l4()).unwrap();
    let ptx = plan.compile(toolchain).unwrap_or_else(|error| panic!("{:?}: {error}", plan.defines));
    for used in toolchain.ptxas(&ptx, &plan.arch, &[]).unwrap().resources {
        let all = (used.spill_stores, used.spill_loads, used.stack_frame);
        assert_eq!(all, (0, 0, 0), "{} {:?}", used.kernel, plan.defines);
    }
    let mut gpu = Checking::new(Device::new(), 4);
    let loaded = Quantization::load(plan, &ptx, &mut gpu).unwrap();
    let result = loaded.run(&mut gpu, bytes).unwrap();
    let findings: Vec<String> = gpu.findings.iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{:?}: {findings:#?}", loaded.plan().defines);
    result
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn assert_same(got: &Smoothed, expected: &Smoothed, what: &str) {
    let differing = got.tensor.codes.iter().zip(&expected.tensor.codes).position(|(a, b)| a != b);
    assert_eq!(differing, None, "{what}: codes differ first at this index");
    assert_eq!(bits(&got.tensor.scales), bits(&expected.tensor.scales), "{what}: scales");
    assert_eq!(got.mean.as_deref().map(bits), expected.mean.as_deref().map(bits), "{what}: mean");
}

/// Compares the device with the oracle, and without smoothing with the host's quantization too.
fn agree(request: &Quantize, values: &[f32]) {
    let bytes = request.element.encode(values);
    let values = request.element.decode(&bytes);
    let expected = quantize(&values, request).unwrap();
    let Quantize { rows, format, granularity, element, smooth, .. } = request;
    if !smooth {
        let host = Quantized::quantize(&values, rows.clone(), *format, *granularity).unwrap();
        assert_eq!(host.codes, expected.tensor.codes);
        assert_eq!(bits(&host.scales), bits(&expected.tensor.scales));
    }
    let got = run(request, &bytes);
    let what = format!("{element:?} {format} {granularity:?} {:?} smooth {smooth}", rows.starts());
    assert_same(&got, &expected, &what);
}

#[test]
fn codes_and_scales_have_the_hosts_bits_for_every_type_and_granularity() {
    for element in Element::ALL {
        for granularity in Granularity::ALL {
            for (format, smooth) in [(Format::E4m3, false), (Format::E4m3, true), (Format::E5m2, false)] {
                let rows = keys(&[97, 97], 64, Layout::Bhsd);
                let values = outliers(&rows, 1);
                agree(&Quantize { element, format, granularity, smooth, ..Quantize::new(rows) }, &values);
            }
        }
    }
}

#[test]
fn rows_of_every_length_and_number() {
    for dim in [16, 32, 64, 96, 128, 256] {
        for (element, granularity) in [
            (Element::F16, Granularity::Row),
            (Element::F32, Granularity::Head),
            (Element::Bf16, Granularity::Block),
        ] {
            let rows = keys(&[66], dim, Layout::Bshd);
            let values = outliers(&rows, 2);
            agree(&Quantize { element, granularity, smooth: true, ..Quantize::new(rows) }, &values);
        }
    }
    for count in [1, 17, 63, 64, 65, 257] {
        let rows = keys(&[count], 64, Layout::Bhsd);
        let values = outliers(&rows, 3);
        agree(&Quantize { smooth: true, ..Quantize::new(rows) }, &values);
    }
}

#[test]
fn sequences_of_different_lengths_pad_scales_with_one() {
    for granularity in Granularity::ALL {
        for smooth in [false, true] {
            let rows = keys(&[70, 0, 3, 130], 64, Layout::Bshd);
            let values = outliers(&rows, 4);
            agree(&Quantize { granularity, smooth, ..Quantize::new(rows) }, &values);
        }
    }
}

#[test]
fn toolchain_strides_read_a_part_of_a_larger_tensor() {
    // K inside rows of [Q | K | V]: one row has 4 + 2 + 2 heads.
    for (lengths, smooth) in [(vec![65, 65], false), (vec![65, 65], true), (vec![10, 70], true)] {
        let rows = keys(&lengths, 64, Layout::Bshd);
        let values = outliers(&rows, 5);
        let across = 8 * rows.dim;
        let total = *rows.starts().last().unwrap();
        let mut whole = vec![f32::NAN; total * across];
        for (row, values) in values.chunks_exact(2 * rows.dim).enumerate() {
            whole[row * across..][..values.len()].copy_from_slice(values);
        }
        let batch = if lengths[0] == lengths[1] { 65 * across } else { 0 };
        let [batch, row] = [batch, across].map(|stride| u64::try_from(stride).unwrap());
        let strides = Some(Strides { batch, head: 64, row });
        let request = Quantize { strides, smooth, ..Quantize::new(rows) };
        let exact = request.element.decode(&request.element.encode(&values));
        let expected = quantize(&exact, &request).unwrap();
        let got = run(&request, &request.element.encode(&whole));
        assert_same(&got, &expected, "strides");
    }
}

#[test]
fn toolchain_values_that_are_not_finite_do_not_change_their_neighbors() {
    for granularity in Granularity::ALL {
        for (element, smooth) in [(Element::F16, false), (Element::Bf16, true), (Element::F32, true)] {
            let rows = keys(&[70], 64, Layout::Bhsd);
            let mut values = outliers(&rows, 6);
            values[5] = f32::NAN;
            values[70] = f32::INFINITY;
            values[4000] = f32::NEG_INFINITY;
            let request = Quantize { element, granularity, smooth, ..Quantize::new(rows.clone()) };
            let bytes = element.encode(&values);
            let expected = quantize(&element.decode(&bytes), &request).unwrap();
            let codes = &expected.tensor.codes;
            assert_eq!((codes[5] & 0x7f, codes[70], codes[4000]), (0x7f, 0x7e, 0xfe));
            assert!(expected.tensor.scales.iter().all(|scale| scale.is_finite() && *scale > 0.0));
            if !smooth {
                for index in [5, 70, 4000] {
                    values[index] = 0.0;
                }
                let finite = quantize(&element.decode(&element.encode(&values)), &request).unwrap();
                assert_eq!(bits(&finite.tensor.scales), bits(&expected.tensor.scales));
                let others = |index: &usize| ![5, 70, 4000].contains(index);
                assert!((0..codes.len()).filter(others).all(|i| codes[i] == finite.tensor.codes[i]));
            }
            let got = run(&request, &bytes);
            assert_same(&got, &expected, &format!("{element:?} {granularity:?}"));
        }
    }
}

#[test]
fn zeros_and_values_without_a_scale_have_the_scale_one() {
    let rows = keys(&[70], 64, Layout::Bhsd);
    for granularity in Granularity::ALL {
        for value in [0.0, -0.0, 1e-45, 3e-39, 3e38] {
            let values = vec![value; rows.elements()];
            let request = Quantize { element: Element::F32, granularity, ..Quantize::new(rows.clone()) };
            agree(&request, &values);
            agree(&Quantize { smooth: true, ..request }, &values);
        }
    }
}

#[test]
fn the_mean_is_the_mean() {
    let rows = keys(&[130, 7], 64, Layout::Bshd);
    let values = outliers(&rows, 7);
    let request = Quantize { element: Element::F32, smooth: true, ..Quantize::new(rows.clone()) };
    let mean = quantize(&values, &request).unwrap().mean.unwrap();
    for (batch, count) in [(0, 130u8), (1, 7)] {
        for (head, d) in [(0, 0), (1, 3), (1, 63)] {
            let all = (0..usize::from(count)).map(|row| f64::from(values[rows.offset(batch, head, row) + d]));
            let expected = all.sum::<f64>() / f64::from(count);
            let got = f64::from(mean[(batch * 2 + head) * 64 + d]);
            assert!((got - expected).abs() < 1e-5 * expected.abs().max(1.0), "{got} {expected}");
        }
    }
}

/// Q, K and V of a shape, K smoothed.
fn smoothed(shape: &Shape, request: &Request) -> (Inputs, Smoothed) {
    let (queries, keys) = (shape.query_rows(request.layout), shape.key_rows(request.layout));
    let of = |rows: &Rows, granularity, smooth| Quantize {
        element: Element::F32,
        format: request.format,
        granularity,
        smooth,
        ..Quantize::new(rows.clone())
    };
    let q = quantize(&outliers(&queries, 8), &of(&queries, request.scales.q, false)).unwrap().tensor;
    let k = quantize(&outliers(&keys, 9), &of(&keys, request.scales.k, true)).unwrap();
    let v = quantize(&outliers(&keys, 10), &of(&keys, request.scales.v, false)).unwrap().tensor;
    (Inputs { shape: shape.clone(), q, k: k.tensor.clone(), v, sinks: None, slopes: None }, k)
}

#[test]
fn toolchain_the_log_sum_exp_of_smoothed_keys_is_corrected() {
    for (sequences, layout, granularity, format) in [
        (vec![(33, 97), (33, 97)], Layout::Bhsd, Granularity::Head, Format::E4m3),
        (vec![(5, 70), (1, 0), (40, 3)], Layout::Bshd, Granularity::Row, Format::E5m2),
    ] {
        let shape = grouped(&sequences, 64);
        let scales = Scales::all(granularity);
        let softmax_scale = Some(0.01);
        let request = Request {
            layout,
            scales,
            format,
            softmax_scale,
            mask: Mask::Causal,
            lse: true,
            ..Request::new(shape.clone())
        };
        let (inputs, k) = smoothed(&shape, &request);
        let mean = k.mean.unwrap();
        let plan = Plan::new(&request, l4()).unwrap();
        let before = plan.bits(&inputs).unwrap().lse;
        let mut expected = before.clone();
        assert!(unsmooth(&mut expected, &inputs.q, &mean, shape.kv_heads, 0.01));
        assert_ne!(before, expected);
        assert!(!unsmooth(&mut expected[1..].to_vec(), &inputs.q, &mean, shape.kv_heads, 0.01));

        // Against the exact log-sum-exp of keys to which the mean was added again.
        let exact = plan.exact(&inputs).unwrap().lse;
        for (row, ((expected, before), exact)) in expected.iter().zip(&before).zip(&exact).enumerate() {
            let [expected, before] = [*expected, *before].map(|bits| f64::from(f32::from_bits(bits)));
            if before == f64::NEG_INFINITY {
                assert!(expected == f64::NEG_INFINITY, "row {row} sees no key");
                continue;
            }
            let longest = shape.max_queries();
            let (batch, head, query) = (row / longest / 4, row / longest % 4, row % longest);
            if query >= shape.sequences[batch].queries {
                continue;
            }
            let q = inputs.q.row(batch, head, query);
            let mean = &mean[(batch * 2 + head / 2) * 64..][..64];
            let dot: f64 = q
                .iter()
                .zip(mean)
                .map(|(code, mean)| f64::from(format.decode(*code)) * f64::from(*mean))
                .sum();
            let shift = 0.01 * dot * f64::from(inputs.q.scale_of(batch, head, query));
            let limit = 1e-5 * (1.0 + shift.abs() + exact.abs()) + (before - exact).abs();
            assert!((expected - exact - shift).abs() <= limit, "row {row}: {expected} {exact} {shift}");
        }

        let toolchain = toolchain();
        let correction = Unsmooth::new(&plan).unwrap();
        let ptx = correction.compile(toolchain).unwrap();
        let mut gpu = Checking::new(Device::new(), 4);
        let module = gpu.load(&ptx).unwrap();
        let mut put = |name: &str, bytes: &[u8], what: Use| {
            let memory = gpu.allocate(name, bytes.len(), what).unwrap();
            gpu.write(&memory, bytes).unwrap();
            memory
        };
        let starts: Vec<u8> = inputs
            .q
            .rows
            .starts()
            .iter()
            .map(|row| u32::try_from(*row).unwrap())
            .flat_map(u32::to_le_bytes)
            .collect();
        let codes = put("codes", &inputs.q.codes, Use::Input);
        let scales = put("scales", &Element::F32.encode(&inputs.q.scales), Use::Input);
        let mean = put("mean", &Element::F32.encode(&mean), Use::Input);
        let starts = put("starts", &starts, Use::Input);
        let bytes: Vec<u8> = before.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let lse = put("lse", &bytes, Use::Shared);
        let at = UnsmoothAddresses {
            q: (gpu.address(&codes), gpu.address(&scales)),
            mean: gpu.address(&mean),
            lse: gpu.address(&lse),
            starts: gpu.address(&starts),
        };
        correction.launch(&mut gpu, &module, &at).unwrap();
        assert!(gpu.findings.is_empty(), "{:?}", gpu.findings);
        let got = gpu.read(&lse).unwrap();
        let got: Vec<u32> =
            got.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
        assert_eq!(got, expected);
    }
}

#[test]
fn toolchain_attention_reads_smoothed_keys() {
    let toolchain = toolchain();
    let shape = grouped(&[(33, 97)], 64);
    let request = Request::new(shape.clone());
    let (inputs, _) = smoothed(&shape, &request);
    let plan = Plan::new(&request, l4()).unwrap();
    let ptx = plan.compile(toolchain).unwrap();
    let mut gpu = Checking::new(Device::new(), 2);
    let attention = Attention::load(plan, &ptx, &mut gpu).unwrap();
    let answer = attention.run(&mut gpu, &inputs.q, &inputs.k, &inputs.v).unwrap();
    assert!(gpu.findings.is_empty());
    assert!(attention.plan().oracles(&inputs).unwrap().judge(&answer).passed());
}

#[test]
fn smoothing_lowers_the_error_of_activations_with_outlier_channels() {
    let shape = Shape::equal(1, 2, 128, 64);
    let tensors = Tensors::activations(&shape, 1, Layout::Bhsd);
    let exact = of_tensors(&tensors, Mask::Full, &Options::default()).unwrap().output;
    let error = |scales: Scales, smooth: bool| {
        let request = Request { scales, ..Request::new(shape.clone()) };
        let inputs = tensors.quantize(Format::E4m3, scales, smooth).unwrap();
        let output = Plan::new(&request, l4()).unwrap().bits(&inputs).unwrap().output;
        Errors::of(&output, &exact, shape.dim, &Tolerance::new(Vec::new(), Vec::new(), &[])).relative_l1
    };
    for granularity in [Granularity::Head, Granularity::Block, Granularity::Row] {
        let [plain, smooth] = [false, true].map(|smooth| error(Scales::all(granularity), smooth));
        assert!(smooth < 0.8 * plain, "{granularity:?}: {smooth} {plain}");
    }
}

#[test]
fn unquantized_attention_is_that_of_values_without_rounding() {
    // Integers that E4M3 holds: the scale is a power of two, and both oracles see the same values.
    let shape = grouped(&[(5, 7), (2, 70)], 64);
    let layout = Layout::Bshd;
    let mut tensors = Tensors::generate(&shape, Distribution::Normal, 3, layout);
    for values in [&mut tensors.q, &mut tensors.k, &mut tensors.v] {
        for value in values.iter_mut() {
            *value = value.round().clamp(-4.0, 4.0);
        }
        values[0] = 7.0;
    }
    let scales = Scales::all(Granularity::Tensor);
    let inputs = tensors.quantize(Format::E4m3, scales, false).unwrap();
    let options = Options { layout, ..Options::default() };
    let direct = of_tensors(&tensors, Mask::Causal, &options).unwrap();
    let quantized = attention(&inputs, Mask::Causal, &options).unwrap();
    for (a, b) in direct.output.iter().zip(&quantized.output) {
        assert!((a - b).abs() < 1e-12, "{a} {b}");
    }
    tensors.k.pop();
    assert!(of_tensors(&tensors, Mask::Full, &options).is_err());
    assert!(tensors.quantize(Format::E4m3, scales, true).is_err());
}

#[test]
fn toolchain_requests_that_cannot_be_quantized_are_refused() {
    let refused = |request: Quantize| Quantizer::new(&request, l4()).unwrap_err().to_string();
    let plain = |lengths: &[usize], dim, layout| Quantize::new(keys(lengths, dim, layout));
    assert!(refused(plain(&[0, 0], 64, Layout::Bhsd)).contains("no sequence has a row"));
    assert!(refused(plain(&[5], 40, Layout::Bhsd)).contains("expected a multiple of 16"));
    assert!(refused(plain(&[5], 512, Layout::Bhsd)).contains("at most 256"));
    assert!(refused(plain(&[5, 6], 64, Layout::Bhsd)).contains("BSHD"));
    let linear = Quantize { format: Format::Linear8, ..plain(&[5], 64, Layout::Bhsd) };
    assert!(refused(linear).contains("linear8"));
    let strides = Some(Strides { batch: 0, head: 64, row: 68 });
    assert!(refused(Quantize { strides, ..plain(&[5], 64, Layout::Bshd) }).contains("16 bytes"));
    let strides = Some(Strides { batch: 64, head: 64, row: 128 });
    assert!(refused(Quantize { strides, ..plain(&[5, 6], 64, Layout::Bshd) }).contains("batch stride"));
    let sm80 = warpproof_model::Device::of_arch("sm_80").unwrap();
    let old = Quantizer::new(&plain(&[5], 64, Layout::Bhsd), sm80).unwrap_err().to_string();
    assert!(old.ends_with("need sm_89 or newer"), "{old}");
    let plan = Plan::new(&Request::new(Shape::equal(1, 1, 8, 64)), l4()).unwrap();
    assert!(Unsmooth::new(&plan).unwrap_err().to_string().contains("log-sum-exp"));
    let toolchain = toolchain();
    let plan = Quantizer::new(&plain(&[5], 64, Layout::Bhsd), l4()).unwrap();
    let ptx = plan.compile(toolchain).unwrap();
    let mut gpu = Device::new();
    let loaded = Quantization::load(plan, &ptx, &mut gpu).unwrap();
    let error = loaded.run(&mut gpu, &[0; 10]).unwrap_err().to_string();
    assert_eq!(error, "expected at least 1280 bytes of values, found 10");
}
