//! Launches a kernel many times directly on the software GPU, with the checks that `warpproof exec` makes.
//!
//! `cargo xtask bench exec` compares its time with that of a program that makes the same launches under `warpproof exec`. Arguments: a
//! file with PTX, the name of a kernel that takes an array of 256 numbers and a number, and the number of launches.
#![expect(clippy::print_stderr, reason = "it prints why it failed")]

use std::process::ExitCode;
use warpproof_check::CheckLaunch;

use warpproof_check::Settings as CheckSettings;
use warpproof_driver::settings::Settings;
use warpproof_sim::{Buffer, Device};

const THREADS: u32 = 256;

fn launch(arguments: &[String]) -> Result<(), String> {
    let [file, kernel, count] = arguments else { return Err("expected FILE KERNEL COUNT".to_owned()) };
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let count: u32 = count.parse().map_err(|_| format!("expected a number, found `{count}`"))?;
    let settings = Settings::from_env();
    let mut device = Device::new();
    device.limits.instructions = settings.instructions;
    let loaded = device.load(&text).map_err(|stop| stop.to_string())?;
    let kernel = loaded.kernel(kernel).map_err(|stop| stop.to_string())?;
    let data: Buffer<i32> = device.alloc(256).map_err(|error| error.to_string())?;
    for step in 0..count {
        // A new launch description and new settings each time, as in a real program.
        let launch = kernel.launch().grid(1u32).block(THREADS).arg(data).arg(step);
        let checks = CheckSettings { checks: settings.checks.clone(), ..CheckSettings::default() };
        let stop = device.check_schedules(&launch, &checks, settings.schedules, 0).checked.outcome.stop;
        if let Some(stop) = stop {
            return Err(stop.to_string());
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match launch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}
