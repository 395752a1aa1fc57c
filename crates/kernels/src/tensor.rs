//! Tensors of 8-bit codes with their scales.

use crate::format::Format;
use crate::problem::{Granularity, Rows};
use std::fmt;

/// A tensor of codes; the value of an element is its code's value times the scale of its group.
#[derive(Clone, Debug)]
pub struct Quantized {
    /// The format of the codes.
    pub format: Format,
    /// Which elements share a scale.
    pub granularity: Granularity,
    /// The location of each row.
    pub rows: Rows,
    /// The codes.
    pub codes: Vec<u8>,
    /// The scales, placed by [`Granularity::index`]; 1 for padding.
    pub scales: Vec<f32>,
}

/// Why values cannot be quantized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unquantizable {
    /// The number of values differs from the number of elements of the tensor.
    Length {
        /// Elements of the tensor.
        elements: usize,
        /// Values passed by the caller.
        values: usize,
    },
    /// The value at this index is infinite or NaN, so its group would have no scale.
    NotFinite(usize),
}

impl fmt::Display for Unquantizable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unquantizable::Length { elements, values } => {
                write!(f, "expected {elements} values, one per element of the tensor, found {values}")
            }
            Unquantizable::NotFinite(index) => write!(f, "value {index} is not finite"),
        }
    }
}

impl std::error::Error for Unquantizable {}

impl Quantized {
    /// Quantizes values in the layout of `rows`. The scale of a group maps its largest magnitude to the
    /// largest value of the format; it is 1 if the group is all zero, or so small that the scale would be
    /// zero.
    pub fn quantize(
        values: &[f32],
        rows: Rows,
        format: Format,
        granularity: Granularity,
    ) -> Result<Quantized, Unquantizable> {
        let elements = rows.elements();
        if values.len() != elements {
            return Err(Unquantizable::Length { elements, values: values.len() });
        }
        if let Some(index) = values.iter().position(|value| !value.is_finite()) {
            return Err(Unquantizable::NotFinite(index));
        }
        Ok(Quantized::of_all(values, rows, format, granularity))
    }

    /// Whether the tensor has these rows, format and granularity, with matching numbers of codes and scales.
    pub fn fits(&self, rows: &Rows, format: Format, granularity: Granularity) -> bool {
        let own = &self.rows;
        (self.format, self.granularity, own.layout) == (format, granularity, rows.layout)
            && own.starts() == rows.starts()
            && (own.heads, own.dim) == (rows.heads, rows.dim)
            && self.codes.len() == rows.elements()
            && self.scales.len() == granularity.count(rows)
    }

    /// The index of the first code that is infinite or NaN, if any.
    pub fn non_finite(&self) -> Option<usize> {
        self.codes.iter().position(|code| !self.format.is_finite(*code))
    }

    /// [`Quantized::quantize`] for a matching number of finite values.
    pub(crate) fn of_all(values: &[f32], rows: Rows, format: Format, granularity: Granularity) -> Quantized {
        // First the largest magnitudes, later replaced by the scales.
        let mut scales = vec![0f32; granularity.count(&rows)];
        for (batch, head, row) in each_row(&rows) {
            let at = rows.offset(batch, head, row);
            let largest = &mut scales[granularity.index(&rows, batch, head, row)];
            *largest =
                values[at..at + rows.dim].iter().fold(*largest, |largest, value| largest.max(value.abs()));
        }
        for scale in &mut scales {
            *scale /= format.max_finite();
            if *scale == 0.0 {
                *scale = 1.0;
            }
        }
        let mut codes = vec![0u8; values.len()];
        for (batch, head, row) in each_row(&rows) {
            let at = rows.offset(batch, head, row);
            let scale = scales[granularity.index(&rows, batch, head, row)];
            for (code, value) in codes[at..].iter_mut().zip(&values[at..at + rows.dim]) {
                *code = format.encode(value / scale);
            }
        }
        Quantized { format, granularity, rows, codes, scales }
    }

    /// The values in the layout of the codes. A product of a code's value and a scale is exact in f64.
    pub fn dequantize(&self) -> Vec<f64> {
        let mut values = vec![0.0; self.codes.len()];
        for (batch, head, row) in each_row(&self.rows) {
            let at = self.rows.offset(batch, head, row);
            let scale = f64::from(self.scale_of(batch, head, row));
            for (value, code) in values[at..].iter_mut().zip(self.row(batch, head, row)) {
                *value = f64::from(self.format.decode(*code)) * scale;
            }
        }
        values
    }

    /// The scale of a row.
    pub fn scale_of(&self, batch: usize, head: usize, row: usize) -> f32 {
        self.scales[self.granularity.index(&self.rows, batch, head, row)]
    }

    /// The codes of a row.
    pub fn row(&self, batch: usize, head: usize, row: usize) -> &[u8] {
        let at = self.rows.offset(batch, head, row);
        &self.codes[at..at + self.rows.dim]
    }
}

/// Every row of a tensor as batch, head, row.
pub fn each_row(rows: &Rows) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
    (0..rows.batch()).flat_map(move |batch| {
        (0..rows.heads).flat_map(move |head| (0..rows.length(batch)).map(move |row| (batch, head, row)))
    })
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "values are exact")]
mod tests {
    use super::*;
    use crate::problem::{Layout, Lengths, Shape};

    fn shape() -> Shape {
        let sequence = |rows| Lengths { queries: rows, keys: rows };
        Shape { heads: 2, kv_heads: 2, dim: 4, sequences: vec![sequence(130), sequence(3)] }
    }

    /// Each row is larger than the one before, so that every group has a scale of its own.
    fn values(rows: &Rows) -> Vec<f32> {
        let mut values = vec![0.0; rows.elements()];
        for (serial, (batch, head, row)) in (1u16..).zip(each_row(rows)) {
            let at = rows.offset(batch, head, row);
            for (value, factor) in values[at..at + rows.dim].iter_mut().zip([1.0, -0.5, 0.25, 0.0]) {
                *value = f32::from(serial) * factor;
            }
        }
        values
    }

    #[test]
    fn the_largest_value_of_each_group_is_kept_and_others_are_near() {
        for format in Format::ALL {
            for granularity in Granularity::ALL {
                for layout in [Layout::Bhsd, Layout::Bshd] {
                    let rows = shape().key_rows(layout);
                    let values = values(&rows);
                    let tensor = Quantized::quantize(&values, rows.clone(), format, granularity).unwrap();
                    let back = tensor.dequantize();
                    for (batch, head, row) in each_row(&rows) {
                        let scale = f64::from(tensor.scale_of(batch, head, row));
                        let at = rows.offset(batch, head, row);
                        for d in 0..rows.dim {
                            let value = f64::from(values[at + d]);
                            let step = match format {
                                Format::E4m3 => (value.abs() / 16.0).max(scale / 1024.0),
                                Format::E5m2 => (value.abs() / 8.0).max(scale / 131_072.0),
                                Format::Linear8 => scale * 0.5001,
                            };
                            assert!((back[at + d] - value).abs() <= step, "{format} {granularity:?}");
                        }
                        if granularity == Granularity::Row {
                            let largest = f64::from(values[at]);
                            assert!((back[at] / largest - 1.0).abs() < 1e-6);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn scales_count_as_the_granularity_says() {
        let rows = shape().key_rows(Layout::Bshd);
        let values = values(&rows);
        let scales = |granularity| {
            Quantized::quantize(&values, rows.clone(), Format::E4m3, granularity).unwrap().scales
        };
        assert_eq!(scales(Granularity::Tensor).len(), 1);
        assert_eq!(scales(Granularity::Head).len(), 4);
        // Two sequences, two heads, three blocks each; the shorter sequence has one block, and the rest is
        // padding.
        let blocks = scales(Granularity::Block);
        assert_eq!(blocks.len(), 12);
        assert_eq!(blocks[7..9], [1.0, 1.0]);
        assert_eq!(blocks[0], 64.0 / 448.0);
        assert_eq!(scales(Granularity::Row).len(), 2 * 2 * 130);
    }

    #[test]
    fn zeros_have_the_scale_one() {
        let rows = shape().key_rows(Layout::Bhsd);
        let zeros = vec![0.0; rows.elements()];
        for format in Format::ALL {
            let tensor = Quantized::quantize(&zeros, rows.clone(), format, Granularity::Block).unwrap();
            assert!(tensor.scales.iter().all(|scale| *scale == 1.0));
            assert!(tensor.dequantize().iter().all(|value| *value == 0.0));
        }
    }

    #[test]
    fn a_wrong_number_of_values_is_refused() {
        let rows = shape().key_rows(Layout::Bhsd);
        let refused = Quantized::quantize(&[1.0], rows.clone(), Format::E4m3, Granularity::Tensor);
        assert_eq!(refused.unwrap_err(), Unquantizable::Length { elements: rows.elements(), values: 1 });
    }

    #[test]
    fn values_that_are_not_finite_are_refused_by_place() {
        let rows = shape().key_rows(Layout::Bhsd);
        for (index, value) in [(0, f32::NAN), (5, f32::INFINITY), (7, f32::NEG_INFINITY)] {
            let mut values = values(&rows);
            values[index] = value;
            let refused = Quantized::quantize(&values, rows.clone(), Format::E4m3, Granularity::Row);
            assert_eq!(refused.unwrap_err(), Unquantizable::NotFinite(index));
        }
    }

    #[test]
    fn a_tensor_fits_its_own_rows_and_no_others() {
        let rows = shape().key_rows(Layout::Bhsd);
        let values = values(&rows);
        let tensor = Quantized::quantize(&values, rows.clone(), Format::E4m3, Granularity::Row).unwrap();
        assert!(tensor.fits(&rows, Format::E4m3, Granularity::Row));
        assert!(!tensor.fits(&shape().key_rows(Layout::Bshd), Format::E4m3, Granularity::Row));
        assert!(!tensor.fits(&rows, Format::E5m2, Granularity::Row));
        assert!(!tensor.fits(&rows, Format::E4m3, Granularity::Head));
        let wider = Shape { dim: 5, ..shape() }.key_rows(Layout::Bhsd);
        assert!(!tensor.fits(&wider, Format::E4m3, Granularity::Row));
        let mut short = tensor.clone();
        short.scales.pop();
        assert!(!short.fits(&rows, Format::E4m3, Granularity::Row));
        assert_eq!(tensor.non_finite(), None);
        short.codes[9] = 0x7f;
        assert_eq!(short.non_finite(), Some(9));
    }
}
