//! Reads clocks, temperature and power of a device through NVIDIA's management library, and pins clocks
//! during timing.

use warpproof_speed::Reading;

use super::device::visible;
use super::nvml::{Clock, Nvml};

/// The library name that drivers install; the name without a number comes with development files only.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// A device in the management library. Clocks that were pinned through it are reset when it is dropped.
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
    /// Finds a device by its id of 32 hexadecimal digits: the library has its own device order, and readings
    /// of another device would be wrong.
    pub fn open(uuid: &str) -> Result<Management, String> {
        let uuid = visible(uuid);
        let library = Nvml::open(LIBRARY).map_err(|error| format!("{LIBRARY}: {error}"))?;
        library.device(&uuid).map_err(|error| format!("{uuid}: {error}"))?;
        Ok(Management { library, uuid, pinned: false })
    }

    /// The driver's version.
    pub fn driver(&self) -> Option<String> {
        self.library.driver().ok()
    }

    /// The current readings of the device.
    pub fn reading(&self) -> Reading {
        let Ok(device) = self.library.device(&self.uuid) else { return Reading::default() };
        Reading {
            sm_mhz: device.clock(Clock::Sm).ok(),
            memory_mhz: device.clock(Clock::Memory).ok(),
            temperature_c: device.temperature().ok().and_then(|degrees| i32::try_from(degrees).ok()),
            power_mw: device.power().ok(),
        }
    }

    /// Pins the clock of the multiprocessors at one frequency, if the user has permission.
    pub fn pin(&mut self, mhz: u32) -> Result<(), String> {
        self.library.device(&self.uuid)?.lock_clock(mhz)?;
        self.pinned = true;
        Ok(())
    }

    /// Resets the clocks, if they were pinned through this object.
    pub fn put_back(&mut self) -> Result<(), String> {
        if !std::mem::take(&mut self.pinned) {
            return Ok(());
        }
        self.release()
    }

    /// Resets the clocks even if another process pinned them: that process may have been killed.
    pub fn release(&mut self) -> Result<(), String> {
        self.library.device(&self.uuid)?.unlock_clock()
    }
}
