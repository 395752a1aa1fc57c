//! The same launch on a CUDA device: arrays are laid out as for the software GPU, copied to the device, and
//! copied back.

use std::time::Instant;

use warpproof_gate::gpu::{Cuda, CudaError, Launch};
use warpproof_sim::Device;

use super::super::device;
use super::super::launch::Memory;
use super::{Finished, Launched, Run};
use crate::report::{Kind, Report};
use crate::source::{self, Ptx};

impl Run {
    /// Runs on the device with this number. The software GPU only holds the arrays before and after the
    /// launch.
    pub(super) fn on_device(
        &self,
        number: u32,
        host: &mut Device,
        finished: &mut Option<Finished>,
        reports: &mut Vec<Report>,
    ) -> Result<(), Vec<Report>> {
        let refused = |error: CudaError| vec![device::report(&error)];
        if self.orders_warps() {
            let sentence =
                "--schedule and --seed require the software GPU; a CUDA device schedules its own warps";
            return Err(vec![Report::error(Kind::Usage, sentence)]);
        }
        if self.launch.is_a_case() {
            let sentence = "a case of a task runs on the software GPU; `warpproof gate TASK --gpu` runs a task on a CUDA device";
            return Err(vec![Report::error(Kind::Usage, sentence)]);
        }
        let mut cuda = Cuda::open(number).map_err(refused)?;
        if let Some(assembler) = warpproof_gate::runner::assembler() {
            cuda.assemble_with(assembler);
        }
        let source = source::read(self.launch.file())?;
        let sequence = self.sequence(&source)?;
        let ptx = self.launch.module(&source, &sequence)?;
        reports.extend(ptx.warnings.iter().cloned());
        let signatures = Ptx { text: signatures(&ptx.text), ..ptx.clone() };
        let module = cuda.load(&ptx.text).map_err(refused)?;
        let mut memory = Memory::default();
        let mut there: Vec<warpproof_gate::gpu::Memory> = Vec::new();
        let mut launches = Vec::new();
        for plan in &sequence {
            let prepared = self.launch.prepare(plan, &signatures, &source, host, &mut memory)?;
            for array in memory.arrays.iter().skip(there.len()) {
                let one = cuda.allocate(array.bytes).map_err(refused)?;
                cuda.write(&one, array.content(host)).map_err(refused)?;
                there.push(one);
            }
            let address_of = |array: usize| there.get(array).map_or(0, |memory| memory.address);
            for (symbol, value) in &prepared.variables {
                cuda.set(module, symbol, &value.bytes(address_of)).map_err(refused)?;
            }
            let launch = Launch {
                module,
                kernel: prepared.symbol.clone(),
                grid: prepared.grid,
                block: prepared.block,
                shared: prepared.shared,
                cooperative: prepared.cooperative,
                arguments: prepared.arguments.iter().map(|argument| argument.bytes(address_of)).collect(),
            };
            let start = Instant::now();
            cuda.run(&[launch]).map_err(refused)?;
            launches.push(Launched::new(prepared, None, start.elapsed().as_secs_f64()));
        }
        for (array, memory) in memory.arrays.iter().zip(&there) {
            let bytes = cuda.read(memory).map_err(refused)?;
            let lost = |_| vec![Report::error(Kind::Bug, format!("cannot copy `{}` back", array.name))];
            host.memory().write(array.address, &bytes).map_err(lost)?;
        }
        *finished = Some(Finished {
            launches,
            device: Some(cuda.identity().clone()),
            arrays: memory.arrays,
            ..Finished::default()
        });
        Ok(())
    }
}

/// The module with empty kernels: only the parameters are needed, not the instructions.
fn signatures(ptx: &str) -> String {
    let (mut module, _) = warpproof_ptx::parse(ptx);
    for function in module.functions_mut().filter(|function| function.entry && function.body.is_some()) {
        function.body = Some(Vec::new());
    }
    module.to_string()
}

#[cfg(test)]
mod tests {
    use super::signatures;

    #[test]
    fn a_kernel_keeps_its_parameters_and_loses_its_instructions() {
        let text = ".version 8.7\n.target sm_89\n.address_size 64\n\
            .visible .entry k(.param .u64 out) .reqntid 32, 1, 1 { unknown.u32 %r1, 7; ret; }\n";
        let empty = signatures(text);
        assert!(empty.contains("out") && empty.contains(".reqntid"), "{empty}");
        assert!(!empty.contains("unknown"), "{empty}");
        let mut device = warpproof_sim::Device::new();
        assert!(device.load(&empty).is_ok_and(|module| module.kernel("k").is_ok()));
    }
}
