//! The same launch on a CUDA device: arrays are laid out as for the software GPU, go there and come back.

use std::time::Instant;

use warpproof_gpu::{Cuda, CudaError, Launch};
use warpproof_sim::Device;

use super::super::device;
use super::super::launch::ArgumentValue;
use super::{Finished, Run};
use crate::report::{Kind, Report};
use crate::source::{self, Ptx};

impl Run {
    /// Runs on the device of a number. The software GPU keeps the arrays, before and after, and runs nothing.
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
                "--schedule and --seed order the warps of the software GPU; a CUDA device orders its own";
            return Err(vec![Report::error(Kind::Usage, sentence)]);
        }
        let mut cuda = Cuda::open(number).map_err(refused)?;
        let source = source::read(&self.launch.kernel_file)?;
        let plan = self.launch.plan(&source).map_err(|report| vec![*report])?;
        self.check_names(&plan.specs).map_err(|report| vec![*report])?;
        let ptx = self.launch.module(&source)?;
        reports.extend(ptx.warnings.iter().cloned());
        let signatures = Ptx { text: signatures(&ptx.text), name: ptx.name.clone(), warnings: Vec::new() };
        let prepared = self.launch.prepare(&plan, &signatures, &source, host)?;

        let module = cuda.load(&ptx.text).map_err(refused)?;
        let mut there = Vec::with_capacity(prepared.arrays.len());
        for array in &prepared.arrays {
            let memory = cuda.allocate(array.bytes).map_err(refused)?;
            cuda.write(&memory, array.content(host)).map_err(refused)?;
            there.push(memory);
        }
        let mut addresses = there.iter().map(|memory| memory.address);
        let arguments = plan.specs.iter().map(|spec| match &spec.value {
            ArgumentValue::ByValue(_) => spec.bytes(),
            ArgumentValue::Array { .. } => addresses.next().unwrap_or_default().to_le_bytes().to_vec(),
        });
        let launch = Launch {
            module,
            kernel: prepared.symbol.clone(),
            grid: prepared.grid,
            block: prepared.block,
            shared: prepared.shared,
            arguments: arguments.collect(),
        };
        let start = Instant::now();
        cuda.run(&[launch]).map_err(refused)?;
        let host_seconds = start.elapsed().as_secs_f64();
        for (array, memory) in prepared.arrays.iter().zip(&there) {
            let bytes = cuda.read(memory).map_err(refused)?;
            let lost = |_| vec![Report::error(Kind::Bug, format!("`{}` cannot be kept", array.name))];
            host.memory().write(array.address, &bytes).map_err(lost)?;
        }
        *finished = Some(Finished {
            kernel: prepared.kernel,
            symbol: prepared.symbol,
            grid: prepared.grid,
            block: prepared.block,
            shared: prepared.shared,
            instructions: None,
            device: Some(cuda.identity().clone()),
            host_seconds,
            printed: Vec::new(),
            arrays: prepared.arrays,
            stop: None,
        });
        Ok(())
    }
}

/// The module with empty kernels: what their parameters are, whatever their instructions.
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
