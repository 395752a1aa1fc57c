//! The CUDA devices of this machine, under the names that submissions request.

use std::fs::{self, File};
use std::path::Path;

use warpproof_gate::runner::{Runner, Settings, this_program};
use warpproof_gate::stage::Clocks;

use crate::wire::{ANY_DEVICE, PREDICTED_DEVICE};

/// The maximum number of devices.
const MOST: u32 = 64;

/// A device for timing candidates, one at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its number in the CUDA driver.
    pub number: u32,
    /// Its UUID, unique on all machines.
    pub uuid: String,
    /// Its capabilities, the scarcest first: its name with the driver's version, its name, any device. With Warpproof's own driver
    /// the names differ, so that a request for a real device never gets predictions.
    pub capabilities: Vec<String>,
}

/// Opens a device of this machine through its CUDA driver, in a separate process, and reads its identity.
pub fn open(number: u32) -> Result<Device, String> {
    let program = this_program().map_err(|error| error.to_string())?;
    let runner = Runner::start(Settings { program, device: number, pin_mhz: None, apart: true });
    let runner = runner.map_err(|error| error.to_string())?;
    let identity = runner.identity().ok_or_else(|| "the device does not report its identity".to_owned())?;
    let kind = if identity.predicted { PREDICTED_DEVICE } else { ANY_DEVICE };
    // The device name from the driver is sent over the network and stored in a database.
    let clean = |text: &str| text.chars().filter(|c| !c.is_control()).take(60).collect::<String>();
    let (name, driver) = (clean(&identity.name), clean(&identity.driver));
    Ok(Device {
        number,
        uuid: identity.uuid.clone(),
        capabilities: vec![
            format!("{kind}:{name} (driver {driver})"),
            format!("{kind}:{name}"),
            kind.to_owned(),
        ],
    })
}

/// The devices with these numbers, or all devices of the driver; at least one.
pub fn find(numbers: Option<&[u32]>) -> Result<Vec<Device>, String> {
    let Some(numbers) = numbers else {
        let mut found = vec![open(0)?];
        // The first number that the driver rejects ends the list. A device that cannot be opened ends it too: in that case select
        // devices explicitly.
        found.extend((1..MOST).map_while(|number| open(number).ok()));
        return Ok(found);
    };
    numbers.iter().map(|number| open(*number)).collect()
}

/// Locks a device while the returned file is open: two workers on one device would disturb each other's timings.
pub(super) fn hold(device: &Device, directory: &Path) -> Result<File, String> {
    let refused = |error: std::io::Error| format!("{}: {error}", directory.display());
    fs::create_dir_all(directory).map_err(refused)?;
    let file = File::create(directory.join(&device.uuid)).map_err(refused)?;
    let taken = |_| format!("device {} is in use by another worker", device.number);
    file.try_lock().map(|()| file).map_err(taken)
}
