//! Compares the rooflines of Hopper and Blackwell with what others measured. A roofline is a lower bound of the time: a kernel
//! that beats it shows a wrong rate, and one that is far from it shows how much the bound leaves out, above all the power limit.

use warpproof_model::bound::{Floor, roofline};
use warpproof_model::{Device, TensorType};

/// A measured product or attention: what it is, the tera-operations per second, and by how many percent the roofline is too short.
struct Row {
    device: &'static str,
    what: What,
    tera: f64,
    short: f64,
}

enum What {
    /// A product of square matrices of this size; `None` is FP32 without tensor cores.
    Product(Option<TensorType>, u64, u64),
    /// Forward attention without a mask over this head dimension and sequence, of a hidden size of 2048 and 16k tokens.
    Attention(TensorType, u64, u64, u64),
}

const TORCH_H100: &str = "zzc0721/torch-performance-test-data, issue 79";
const TORCH_PCIE: &str = "zzc0721/torch-performance-test-data, issue 95";
const TORCH_PRO: &str = "zzc0721/torch-performance-test-data, issue 162 (Server Edition)";
const FLASH3: &str = "Shah et al. 2024, FlashAttention-3 (arXiv 2407.08608), H100 SXM5";

const HALF: Option<TensorType> = Some(TensorType::F16ToF32);
const TF32: Option<TensorType> = Some(TensorType::Tf32);

#[rustfmt::skip]
const ROWS: [(&str, Row); 10] = [
    (TORCH_H100, Row { device: "h100", what: What::Product(HALF, 8192, 2), tera: 797.51, short: 26.0 }),
    (TORCH_H100, Row { device: "h100", what: What::Product(TF32, 4096, 4), tera: 402.15, short: 25.0 }),
    (TORCH_H100, Row { device: "h100", what: What::Product(None, 8192, 4), tera: 51.81, short: 23.0 }),
    (TORCH_PCIE, Row { device: "h100pcie", what: What::Product(HALF, 8192, 2), tera: 492.84, short: 40.0 }),
    (TORCH_PCIE, Row { device: "h100pcie", what: What::Product(TF32, 8192, 4), tera: 240.43, short: 41.0 }),
    (TORCH_PCIE, Row { device: "h100pcie", what: What::Product(None, 8192, 4), tera: 36.95, short: 28.0 }),
    (TORCH_PRO, Row { device: "rtxpro6000", what: What::Product(HALF, 8192, 2), tera: 417.34, short: 17.0 }),
    (FLASH3, Row { device: "h100", what: What::Attention(TensorType::F16ToF32, 128, 16384, 2), tera: 648.0, short: 39.0 }),
    (FLASH3, Row { device: "h100", what: What::Attention(TensorType::F16ToF32, 64, 16384, 2), tera: 497.0, short: 54.0 }),
    (FLASH3, Row { device: "h100", what: What::Attention(TensorType::F8ToF32, 256, 16384, 1), tera: 1171.0, short: 45.0 }),
];

#[test]
fn rooflines_are_below_what_was_measured() {
    for (source, Row { device, what, tera, short }) in ROWS {
        let (floor, fma) = match what {
            What::Product(kind, size, bytes) => {
                let (fma, matrix) = (size * size * size, size * size * bytes);
                (Floor { fma: (kind, fma), loaded: 2 * matrix, stored: matrix, ..Floor::default() }, fma)
            }
            What::Attention(kind, head, sequence, bytes) => {
                let scores = 2048 / head * sequence * sequence;
                let (fma, matrix) = (2 * scores * head, 2048 * sequence * bytes);
                let floor =
                    Floor { fma: (Some(kind), fma), special: scores, loaded: 3 * matrix, stored: matrix };
                (floor, fma)
            }
        };
        let predicted = roofline(Device::named(device).unwrap(), &floor).unwrap().us;
        #[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "far below 2^53")]
        let measured = 2.0 * fma as f64 / tera / 1e6;
        let found = (1.0 - predicted / measured) * 100.0;
        assert!(predicted < measured, "{source}: {predicted} predicted, {measured} measured");
        assert!(
            (found - short).abs() < 1.0,
            "{source}, {tera} TFLOPS: the roofline is {found:.1} % too short"
        );
    }
}
