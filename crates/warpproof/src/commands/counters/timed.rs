//! Metrics that depend on time: the software GPU does not count them, the model of a device predicts them.

use warpproof_count::Counters;
use warpproof_explain::{Predicted, Request, Scheduled, explain};
use warpproof_model::bound::Consumed;
use warpproof_model::{DEVICES, Device};
use warpproof_toolchain::Toolchain;

/// One predicted metric.
#[derive(Debug)]
pub(super) struct Timed {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) note: &'static str,
    value: fn(&Predicted) -> Option<f64>,
}

/// All predicted metrics.
pub(super) const TIMED: [Timed; 2] = [
    Timed {
        name: "sm__pipe_tensor_active.avg.pct_of_peak_sustained_active",
        unit: "%",
        note: "time of the tensor cores, in percent of the time of the kernel with a warm L2",
        value: tensor,
    },
    Timed {
        name: "sm__warps_active.avg.pct_of_peak_sustained_active",
        unit: "%",
        note: "resident warps of a multiprocessor in its fullest round",
        value: warps,
    },
];

fn tensor(predicted: &Predicted) -> Option<f64> {
    let bounds = &predicted.bounds;
    let whole = match &predicted.schedule {
        Scheduled::Known(timed) => timed.warm.us,
        Scheduled::Uncertain { .. } => bounds.warm_us(),
    };
    let busy =
        bounds.warm.iter().find(|share| share.resource == Consumed::Tensor).map_or(0.0, |share| share.us);
    (whole > 0.0).then(|| (100.0 * busy / whole).min(100.0))
}

fn warps(predicted: &Predicted) -> Option<f64> {
    let (occupancy, waves) = (&predicted.bounds.occupancy, &predicted.bounds.waves);
    if occupancy.max_warps == 0 || occupancy.blocks_per_sm == 0 {
        return None;
    }
    let per_block = f64::from(occupancy.warps) / f64::from(occupancy.blocks_per_sm);
    // A small grid leaves places of a multiprocessor empty.
    let blocks = u32::try_from(waves.most_per_sm).unwrap_or(u32::MAX).min(occupancy.blocks_per_sm);
    Some(100.0 * per_block * f64::from(blocks) / f64::from(occupancy.max_warps))
}

impl Timed {
    pub(super) fn value(&self, predicted: &Predicted) -> Option<f64> {
        (self.value)(predicted)
    }
}

/// A model of a device, and the module that it explains.
pub(super) struct Model<'a> {
    pub(super) ptx: &'a str,
    pub(super) toolchain: &'a Toolchain,
    pub(super) device: &'static Device,
}

impl Model<'_> {
    /// The prediction for a launch, or why there is none.
    pub(super) fn predict(
        &self,
        kernel: &str,
        symbol: &str,
        counters: &Counters,
    ) -> Result<Predicted, String> {
        let request = Request {
            kernel,
            symbol,
            ptx: self.ptx,
            counters,
            device: self.device,
            floor: None,
            whole: None,
            timeline: 0,
            offers: false,
            text: &|_, _| None,
        };
        explain(&request, self.toolchain).map(|(found, _)| found.predicted).map_err(|error| error.to_string())
    }
}

/// The device of the prediction: an L4 if it runs the module, else the first device that does.
pub(super) fn device(capability: &str) -> Option<&'static Device> {
    let number =
        |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>().parse::<u32>().ok();
    let needed = number(capability)?;
    let runs = |device: &&Device| number(&device.capability.arch()).is_some_and(|arch| arch >= needed);
    DEVICES.iter().filter(runs).find(|device| device.id == "l4").or_else(|| DEVICES.iter().find(runs))
}

#[cfg(test)]
mod tests {
    use super::device;

    #[test]
    fn the_device_runs_the_module() {
        let of = |capability: &str| device(capability).map(|device| device.id);
        assert_eq!((of("8.0"), of("8.9"), of("9.0")), (Some("l4"), Some("l4"), Some("h100")));
        assert_eq!((of(""), of("99.0")), (None, None));
    }
}
