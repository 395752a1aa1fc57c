//! The server side: the process that drives a device. Its parent closes its input to end it.

use std::io::{self, BufRead, Write};

use warpproof_gpu::{Assembler, Cuda, CudaError, Timed};
use warpproof_toolchain::{Options, Toolchain};

use super::protocol::{Answer, Request, bytes, hex};

/// Answers requests until the input ends.
pub fn serve(input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut device = None;
    for line in input.lines() {
        let answer = match serde_json::from_str::<Request>(&line?) {
            Ok(request) => answer(&mut device, request).unwrap_or_else(|error| Answer::Error { error }),
            Err(error) => Answer::Error { error: format!("invalid request: {error}") },
        };
        serde_json::to_writer(&mut output, &answer)?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
    Ok(())
}

fn answer(device: &mut Option<Cuda>, request: Request) -> Result<Answer, String> {
    if let Request::Open { device: ordinal, pin_mhz } = request {
        let opened = device.insert(Cuda::open(ordinal).map_err(|error| error.to_string())?);
        if let Some(assembler) = assembler() {
            opened.assemble_with(assembler);
        }
        let notes = pin_mhz.and_then(|mhz| pin(opened, mhz).err());
        return Ok(Answer::Opened {
            identity: opened.identity().clone(),
            notes: notes.into_iter().collect(),
        });
    }
    let device = device.as_mut().ok_or("no device was opened")?;
    let said = |error: CudaError| error.to_string();
    match request {
        Request::Open { .. } => {}
        Request::Release => {
            device.management().ok_or("NVML does not know the device")?.release()?;
        }
        Request::Load { ptx } => {
            return device.load(&ptx).map(|module| Answer::Loaded { module }).map_err(said);
        }
        Request::Unload { module } => device.unload(module).map_err(said)?,
        Request::Allocate { bytes } => {
            return device.allocate(bytes).map(|memory| Answer::Allocated { memory }).map_err(said);
        }
        Request::Free { memory } => device.free(memory).map_err(said)?,
        Request::Write { memory, hex } => {
            let bytes = bytes(&hex).ok_or("expected hexadecimal data")?;
            device.write(&memory, &bytes).map_err(said)?;
        }
        Request::Read { memory } => {
            return device.read(&memory).map(|bytes| Answer::Bytes { hex: hex(&bytes) }).map_err(said);
        }
        Request::Set { module, symbol, hex } => {
            let bytes = bytes(&hex).ok_or("expected hexadecimal data")?;
            device.set(module, &symbol, &bytes).map_err(said)?;
        }
        Request::Launch { launch } => device.run(&[launch]).map_err(said)?,
        Request::Time { launches, repeat, batch, cold } => {
            let Timed { elapsed_ps, before, after } =
                device.time(&launches, repeat, batch, cold).map_err(said)?;
            return Ok(Answer::Timed { elapsed_ps, before, after });
        }
    }
    Ok(Answer::Done)
}

/// The installed `ptxas`. With it, the driver does not need to support the PTX version, and the timed machine code is
/// the one that the other stages evaluate. Without it, the driver compiles the PTX.
pub fn assembler() -> Option<Assembler> {
    let toolchain = Toolchain::find(&Options::from_env()).ok()?;
    toolchain.ptxas_for("").is_ok().then(|| -> Assembler {
        Box::new(move |ptx, arch| {
            toolchain.ptxas(ptx, arch, &[]).map(|made| made.cubin).map_err(|error| error.to_string())
        })
    })
}

/// Pins the clock, or returns why it is not pinned.
fn pin(device: &mut Cuda, mhz: u32) -> Result<(), String> {
    let unpinned = |why: String| format!("clocks are not pinned: {why}");
    let known = device.management();
    let management = known.ok_or_else(|| unpinned("NVML does not know the device".to_owned()))?;
    management.pin(mhz).map_err(unpinned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_is_answered_and_the_rest_goes_on() {
        let asked = "nonsense\n{\"op\": \"dance\"}\n{\"op\": \"allocate\", \"bytes\": 1}\n";
        let mut out = Vec::new();
        assert!(serve(asked.as_bytes(), &mut out).is_ok());
        let told = String::from_utf8(out).unwrap_or_default();
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines.len(), 3, "{told}");
        assert!(lines[0].contains("invalid request") && lines[1].contains("dance"), "{told}");
        assert!(lines[2].contains("no device was opened"), "{told}");
    }
}
