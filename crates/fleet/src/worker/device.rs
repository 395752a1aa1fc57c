//! The CUDA devices of this machine, under the names that submissions request.

use std::fs::{self, File};
use std::path::Path;

use warpproof_gate::runner::{Runner, Settings, this_program};
use warpproof_gate::stage::Clocks;

use crate::wire::{ANY_DEVICE, PREDICTED_DEVICE};

/// The maximum number of devices.
const MOST: u32 = 64;

/// A device that candidates are timed on, one at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its number, as the driver counts.
    pub number: u32,
    /// What tells it from its like on any machine.
    pub uuid: String,
    /// What it can do, the scarcest first: its name with the driver's version, its name, any device. Behind Warpproof's own
    /// driver these are other words, so that nobody gets predictions who asked for a device.
    pub capabilities: Vec<String>,
}

/// Opens a device of this machine through the driver that is found, in a process of its own, and asks what it is.
pub fn open(number: u32) -> Result<Device, String> {
    let program = this_program().map_err(|error| error.to_string())?;
    let runner = Runner::start(Settings { program, device: number, pin_mhz: None, apart: true });
    let runner = runner.map_err(|error| error.to_string())?;
    let identity = runner.identity().ok_or_else(|| "the device does not report its identity".to_owned())?;
    let kind = if identity.predicted { PREDICTED_DEVICE } else { ANY_DEVICE };
    // What a driver calls its device goes over the network and into a database.
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

/// The devices of these numbers, or all that the driver has; at least one.
pub fn find(numbers: Option<&[u32]>) -> Result<Vec<Device>, String> {
    let Some(numbers) = numbers else {
        let mut found = vec![open(0)?];
        // The first number that the driver does not have ends the list. A device that cannot be opened ends it too: name those
        // that shall be used.
        found.extend((1..MOST).map_while(|number| open(number).ok()));
        return Ok(found);
    };
    numbers.iter().map(|number| open(*number)).collect()
}

/// Takes a device for as long as what is returned lives: two workers on one device would time each other.
pub(super) fn hold(device: &Device, directory: &Path) -> Result<File, String> {
    let refused = |error: std::io::Error| format!("{}: {error}", directory.display());
    fs::create_dir_all(directory).map_err(refused)?;
    let file = File::create(directory.join(&device.uuid)).map_err(refused)?;
    let taken = |_| format!("device {} is in use by another worker", device.number);
    file.try_lock().map(|()| file).map_err(taken)
}
