//! The scale of an axis: from zero to a round number, with round ticks.

/// An axis from zero to `end`.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// The largest value.
    pub end: f64,
    /// Ticks, the first at zero, the last at the end.
    pub ticks: Vec<f64>,
}

impl Scale {
    /// The shortest round axis that holds `largest`, with about `wanted` ticks.
    pub fn new(largest: f64, wanted: u32) -> Self {
        // A value that is not positive, or so large that a step overflows, still gets an axis.
        let largest = if largest > 0.0 && largest < 1e300 { largest } else { 1.0 };
        let rough = largest / f64::from(wanted.max(1));
        let power = 10f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 2.5, 5.0, 10.0].map(|nice| nice * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        let mut ticks = vec![0.0];
        let mut end = 0.0;
        let mut count = 0;
        while end < largest * (1.0 - 1e-9) && count < 2 * wanted.max(1) + 2 {
            count += 1;
            end = step * f64::from(count);
            ticks.push(end);
        }
        Self { end, ticks }
    }

    /// The position of a value on an axis of this length.
    pub fn place(&self, value: f64, length: f64) -> f64 {
        (value / self.end).clamp(0.0, 1.0) * length
    }

    /// The text of a tick: as many decimals as the step needs.
    pub fn label(&self, tick: f64) -> String {
        let step = self.ticks.get(1).copied().unwrap_or(1.0);
        if !(1e-4..1e7).contains(&step) {
            return format!("{tick:.1e}");
        }
        let decimals = (0..6).find(|&decimals| {
            let shifted = step * 10f64.powi(decimals);
            (shifted - shifted.round()).abs() < 1e-6
        });
        let decimals = usize::try_from(decimals.unwrap_or(6)).unwrap_or(6);
        format!("{tick:.decimals$}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_ticks() {
        let labels = |largest: f64| {
            let scale = Scale::new(largest, 5);
            scale.ticks.iter().map(|tick| scale.label(*tick)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(labels(656.0), "0 200 400 600 800");
        assert_eq!(labels(4.8), "0 1 2 3 4 5");
        assert_eq!(labels(0.9), "0.0 0.2 0.4 0.6 0.8 1.0");
        assert_eq!(labels(12.0), "0.0 2.5 5.0 7.5 10.0 12.5");
        assert_eq!(labels(0.0), "0.0 0.2 0.4 0.6 0.8 1.0");
        assert_eq!(labels(f64::INFINITY), labels(1.0));
        assert_eq!(labels(f64::NAN), labels(1.0));
        assert_eq!(labels(5e-324), labels(5e-324));
        assert!(Scale::new(1e299, 5).ticks.len() > 2);
    }
}
