//! Clocks, temperature and power of a device by NVIDIA's management library, and clocks that are pinned while something is timed.

use std::ffi::OsStr;

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::enums::device::GpuLockedClocksSetting;
use serde::{Deserialize, Serialize};

use super::device::visible;

/// The library as drivers install it; the name without a number comes with development files only.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// The state of a device at one moment, in the units in which NVIDIA's management library gives it; what the library does not say is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Clock of the multiprocessors, MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_mhz: Option<u32>,
    /// Clock of the memory, MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mhz: Option<u32>,
    /// Temperature of the chip, °C.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<i32>,
    /// Power drawn, mW.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_mw: Option<u32>,
}

impl Reading {
    /// Whether nothing was read.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A device in the management library. Clocks that were pinned through it are put back when it is dropped.
#[derive(Debug)]
pub struct Management {
    library: Nvml,
    uuid: String,
    pinned: bool,
}

impl Drop for Management {
    fn drop(&mut self) {
        let _nobody_to_tell = self.put_back();
    }
}

impl Management {
    /// Finds a device by its id, 32 hexadecimal digits: the library counts devices in an order of its own, and readings of
    /// another would be wrong.
    pub fn open(uuid: &str) -> Result<Management, String> {
        let uuid = visible(uuid);
        let library = Nvml::builder().lib_path(OsStr::new(LIBRARY)).init();
        let library = library.map_err(|error| format!("{LIBRARY}: {error}"))?;
        library.device_by_uuid(uuid.as_str()).map_err(|error| format!("{uuid}: {error}"))?;
        Ok(Management { library, uuid, pinned: false })
    }

    /// The driver's version.
    pub fn driver(&self) -> Option<String> {
        self.library.sys_driver_version().ok()
    }

    /// The device now.
    pub fn reading(&self) -> Reading {
        let Ok(device) = self.library.device_by_uuid(self.uuid.as_str()) else { return Reading::default() };
        let temperature = device.temperature(TemperatureSensor::Gpu).ok();
        Reading {
            sm_mhz: device.clock_info(Clock::SM).ok(),
            memory_mhz: device.clock_info(Clock::Memory).ok(),
            temperature_c: temperature.and_then(|degrees| i32::try_from(degrees).ok()),
            power_mw: device.power_usage().ok(),
        }
    }

    /// Holds the clock of the multiprocessors at one frequency, where the user may.
    pub fn pin(&mut self, mhz: u32) -> Result<(), String> {
        let setting = GpuLockedClocksSetting::Numeric { min_clock_mhz: mhz, max_clock_mhz: mhz };
        let mut device =
            self.library.device_by_uuid(self.uuid.as_str()).map_err(|error| error.to_string())?;
        device.set_gpu_locked_clocks(setting).map_err(|error| error.to_string())?;
        self.pinned = true;
        Ok(())
    }

    /// Lets the clocks go again, if they were pinned through this.
    pub fn put_back(&mut self) -> Result<(), String> {
        if !std::mem::take(&mut self.pinned) {
            return Ok(());
        }
        self.release()
    }

    /// Lets the clocks go, whoever pinned them: a process that pinned them may have been ended.
    pub fn release(&mut self) -> Result<(), String> {
        let mut device =
            self.library.device_by_uuid(self.uuid.as_str()).map_err(|error| error.to_string())?;
        device.reset_gpu_locked_clocks().map_err(|error| error.to_string())
    }
}
