//! A device: its modules by number, its memory by address, and timing of batches of launches.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use warpproof_launch::{Geometry, Gpu, Use};
use warpproof_speed::Reading;

use crate::driver::{Allocation, Context, CudaError, Event, Function, Graph, Module, Ready, Stream};
use crate::management::Management;

/// Bytes that are written to flush the L2 cache: more than any device has, and at least twice this device's
/// size.
const FLUSH: u64 = 256 << 20;
/// The same for the software GPU, which has no cache: the calls are the same, but few bytes are written.
const SOFTWARE_FLUSH: u64 = 1 << 20;
/// Graphs that are cached: batches of two programs in the lengths that are tried.
const KEPT_GRAPHS: usize = 16;
/// Maximum launches of a batch: a graph has one node per launch.
const LAUNCHES: usize = 1 << 16;

/// Identifies a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its name.
    pub name: String,
    /// Its id, 32 hexadecimal digits.
    pub uuid: String,
    /// The driver's version if the management library reports it, otherwise the CUDA version that the driver
    /// supports.
    pub driver: String,
    /// Compute capability, e.g. 89 for 8.9.
    pub capability: u32,
    /// Bytes of the L2 cache.
    pub l2_bytes: u64,
    /// The driver library is Warpproof's own: times are predicted for the device, never measured.
    pub predicted: bool,
}

impl Identity {
    /// Its id in the format of NVIDIA's programs: `GPU-` and five groups.
    pub fn visible(&self) -> String {
        visible(&self.uuid)
    }
}

/// An id of 32 hexadecimal digits in the format of NVIDIA's programs.
pub(crate) fn visible(uuid: &str) -> String {
    let group = |from: usize, to: usize| uuid.get(from..to).unwrap_or_default();
    let groups = [group(0, 8), group(8, 12), group(12, 16), group(16, 20), group(20, 32)];
    format!("GPU-{}", groups.join("-"))
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = self.uuid.get(..8).unwrap_or(&self.uuid);
        write!(f, "{}, GPU {short}, driver {}", self.name, self.driver)?;
        if self.predicted { f.write_str(", Warpproof's own: times are predicted") } else { Ok(()) }
    }
}

/// A loaded module, by a number that is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ModuleId(u64);

/// Device memory, by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Its start address.
    pub address: u64,
    /// Its size in bytes.
    pub bytes: usize,
}

/// A launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The module.
    pub module: ModuleId,
    /// The kernel's symbol.
    pub kernel: String,
    /// Blocks in each direction.
    pub grid: [u32; 3],
    /// Threads per block in each direction.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// Whether all blocks must be resident at the same time, as `grid.sync()` requires.
    #[serde(default)]
    pub cooperative: bool,
    /// The bytes of each parameter, in the kernel's order.
    pub arguments: Vec<Vec<u8>>,
}

/// How the launches of a batch are submitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Batch {
    /// As one CUDA graph: the device proceeds from launch to launch without the host.
    #[default]
    Graph,
    /// One by one on a stream: the time may include launch overhead of the host.
    Stream,
}

/// A timed batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// From before the first launch to after the last, picoseconds.
    pub elapsed_ps: u64,
    /// The device before.
    pub before: Reading,
    /// The device after.
    pub after: Reading,
}

struct Kept {
    launches: Vec<Launch>,
    repeat: u32,
    graph: Graph,
}

/// Assembles PTX to machine code for an architecture such as `sm_89`.
pub type Assembler = Box<dyn Fn(&str, &str) -> Result<Vec<u8>, String>>;

/// A CUDA device. It must stay in the thread that opened it.
pub struct Cuda {
    identity: Identity,
    assembler: Option<Assembler>,
    // Fields are dropped in this order: users before what they use, the context last.
    graphs: Vec<Kept>,
    functions: BTreeMap<(ModuleId, String), (Function, u32)>,
    modules: BTreeMap<ModuleId, Rc<Module>>,
    loaded: u64,
    memory: BTreeMap<u64, Allocation>,
    flush: Option<Allocation>,
    begin: Event,
    end: Event,
    stream: Stream,
    management: Option<Management>,
    context: Rc<Context>,
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cuda").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Cuda {
    /// Opens the driver library on the search path, and the device of a number.
    pub fn open(ordinal: u32) -> Result<Cuda, CudaError> {
        let context = Context::open(ordinal)?;
        let found = context.describe()?;
        let uuid = format!("{:032x}", u128::from_be_bytes(found.uuid));
        let management = Management::open(&uuid).ok();
        let version = management.as_ref().and_then(Management::driver);
        let (major, minor) = found.cuda;
        let identity = Identity {
            name: found.name,
            uuid,
            // The driver's own version is more specific than the CUDA version that it supports.
            driver: version.unwrap_or_else(|| format!("CUDA {major}.{minor}")),
            capability: found.capability.0 * 10 + found.capability.1,
            l2_bytes: found.l2_bytes,
            predicted: found.software,
        };
        Ok(Cuda {
            identity,
            assembler: None,
            graphs: Vec::new(),
            functions: BTreeMap::new(),
            modules: BTreeMap::new(),
            loaded: 0,
            memory: BTreeMap::new(),
            flush: None,
            begin: Event::new(&context)?,
            end: Event::new(&context)?,
            stream: Stream::new(&context)?,
            management,
            context,
        })
    }

    /// The identity of the device.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The device in NVIDIA's management library, if the library knows it.
    pub fn management(&mut self) -> Option<&mut Management> {
        self.management.as_mut()
    }

    /// From now on, modules are assembled to machine code before they are loaded. A driver compiles PTX no
    /// newer than itself, but runs machine code of every CUDA toolkit of its major version: code from CUDA 12
    /// runs on drivers from 525 on. Warpproof's own driver executes PTX and still receives PTX.
    pub fn assemble_with(&mut self, assembler: Assembler) {
        self.assembler = Some(assembler).filter(|_| !self.identity.predicted);
    }

    /// Loads a module.
    pub fn load(&mut self, ptx: &str) -> Result<ModuleId, CudaError> {
        let arch = format!("sm_{}", self.identity.capability);
        let module = match self.assembler.as_ref().map(|assemble| assemble(ptx, &arch)) {
            Some(cubin) => Module::load_cubin(&self.context, &cubin.map_err(CudaError::Request)?)?,
            None => Module::load(&self.context, ptx)?,
        };
        // Numbers are never reused, so cached graphs never refer to another module.
        self.loaded += 1;
        let id = ModuleId(self.loaded);
        self.modules.insert(id, module);
        Ok(id)
    }

    /// Writes a variable of a module; its size must match the bytes.
    pub fn set(&mut self, module: ModuleId, symbol: &str, bytes: &[u8]) -> Result<(), CudaError> {
        let none = || CudaError::Request("no module with this number is loaded".to_owned());
        self.modules.get(&module).ok_or_else(none)?.set(symbol, bytes)
    }

    /// Unloads a module and the graphs that use it.
    pub fn unload(&mut self, module: ModuleId) -> Result<(), CudaError> {
        self.graphs.retain(|kept| kept.launches.iter().all(|launch| launch.module != module));
        self.functions.retain(|(of, _), _| *of != module);
        let unloaded = self.modules.remove(&module).map(drop);
        unloaded.ok_or_else(|| CudaError::Request("no module with this number is loaded".to_owned()))
    }

    /// Allocates memory.
    pub fn allocate(&mut self, bytes: usize) -> Result<Memory, CudaError> {
        // A device has no address for an empty allocation.
        let one = Allocation::new(&self.context, bytes.max(1))?;
        let memory = Memory { address: one.address, bytes };
        self.memory.insert(one.address, one);
        Ok(memory)
    }

    /// Frees memory.
    pub fn free(&mut self, memory: Memory) -> Result<(), CudaError> {
        let freed = self.memory.remove(&memory.address).map(drop);
        freed.ok_or_else(|| unknown(&memory))
    }

    /// Writes bytes at its beginning.
    pub fn write(&mut self, memory: &Memory, bytes: &[u8]) -> Result<(), CudaError> {
        self.allocation(memory)?.write(bytes)
    }

    /// Reads it back.
    pub fn read(&self, memory: &Memory) -> Result<Vec<u8>, CudaError> {
        let mut bytes = self.allocation(memory)?.read()?;
        bytes.truncate(memory.bytes);
        Ok(bytes)
    }

    fn allocation(&self, memory: &Memory) -> Result<&Allocation, CudaError> {
        let found = self.memory.get(&memory.address).filter(|one| memory.bytes <= one.bytes);
        found.ok_or_else(|| unknown(memory))
    }

    /// Launches kernels one after another, and waits for the last.
    pub fn run(&mut self, launches: &[Launch]) -> Result<(), CudaError> {
        let mut ready = self.ready(launches)?;
        self.stream.enter()?;
        for launch in &mut ready {
            launch.launch(&self.stream)?;
        }
        self.context.synchronize()
    }

    /// Prepares launches before timing starts.
    fn ready(&mut self, launches: &[Launch]) -> Result<Vec<Ready>, CudaError> {
        let mut ready = Vec::with_capacity(launches.len());
        for one in launches {
            let key = (one.module, one.kernel.clone());
            let known = self.functions.get(&key).filter(|(_, shared)| *shared >= one.shared);
            let function = if let Some((function, _)) = known {
                function.clone()
            } else {
                let none = || CudaError::Request("a launch refers to a module that is not loaded".to_owned());
                let module = self.modules.get(&one.module).ok_or_else(none)?;
                let function = Function::new(module, &one.kernel, one.shared)?;
                self.functions.insert(key, (function.clone(), one.shared));
                function
            };
            let mut one_ready = Ready::new(function, one.grid, one.block, one.shared, &one.arguments);
            one_ready.cooperative = one.cooperative;
            ready.push(one_ready);
        }
        Ok(ready)
    }

    /// Builds the graph of the launches, or moves the cached one to the end of the list.
    fn graph(&mut self, launches: &[Launch], repeat: u32) -> Result<(), CudaError> {
        let known = self.graphs.iter().position(|kept| kept.repeat == repeat && kept.launches == launches);
        if let Some(at) = known {
            // The list is ordered by last use.
            let kept = self.graphs.remove(at);
            self.graphs.push(kept);
            return Ok(());
        }
        let mut ready = self.ready(launches)?;
        let graph = self.stream.capture(&mut ready, repeat)?;
        if self.graphs.len() >= KEPT_GRAPHS {
            self.graphs.remove(0);
        }
        self.graphs.push(Kept { launches: launches.to_vec(), repeat, graph });
        Ok(())
    }

    /// Times `repeat` repetitions of the launches, with a cold L2 cache or one that the launches have warmed
    /// themselves.
    pub fn time(
        &mut self,
        launches: &[Launch],
        repeat: u32,
        batch: Batch,
        cold: bool,
    ) -> Result<Timed, CudaError> {
        let count = usize::try_from(repeat).ok().and_then(|repeat| launches.len().checked_mul(repeat));
        if count.is_none_or(|count| count == 0 || count > LAUNCHES) {
            return Err(CudaError::Request(format!("expected 1 to {LAUNCHES} launches in a batch")));
        }
        let mut ready = match batch {
            Batch::Graph => {
                self.graph(launches, repeat)?;
                Vec::new()
            }
            Batch::Stream => self.ready(launches)?,
        };
        let hardware = FLUSH.max(2 * self.identity.l2_bytes);
        let bytes = if self.identity.predicted { SOFTWARE_FLUSH } else { hardware };
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if self.flush.is_none() {
            self.flush = Some(Allocation::new(&self.context, bytes)?);
        }
        self.context.synchronize()?;
        let before = self.reading();
        // The write flushes the cache, and keeps the device busy until both events and the batch are queued.
        // An idle device would record the first event immediately, and the time would include the host's
        // latency to the first launch.
        if let Some(flush) = &self.flush {
            self.stream.zero(flush, bytes)?;
        }
        if !cold {
            self.queue(&mut ready, repeat)?;
        }
        self.stream.record(&self.begin)?;
        self.queue(&mut ready, repeat)?;
        self.stream.record(&self.end)?;
        self.end.wait()?;
        let elapsed_ps = picoseconds(self.begin.until(&self.end)?);
        Ok(Timed { elapsed_ps, before, after: self.reading() })
    }

    /// Submits the batch to the stream: the last graph of the list, or launches one by one.
    fn queue(&self, ready: &mut [Ready], repeat: u32) -> Result<(), CudaError> {
        if ready.is_empty() {
            return self.graphs.last().map_or(Ok(()), |kept| self.stream.launch(&kept.graph));
        }
        for _ in 0..repeat {
            for launch in &mut *ready {
                launch.launch(&self.stream)?;
            }
        }
        Ok(())
    }

    fn reading(&self) -> Reading {
        self.management.as_ref().map(Management::reading).unwrap_or_default()
    }
}

fn unknown(memory: &Memory) -> CudaError {
    CudaError::Request(format!("there is no allocation of {} bytes at {:#x}", memory.bytes, memory.address))
}

/// Milliseconds as f32, rounded to whole nanoseconds.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a conversion to an integer saturates, and no time is negative"
)]
fn picoseconds(ms: f32) -> u64 {
    ((f64::from(ms) * 1e6).round().max(0.0) as u64).saturating_mul(1000)
}

impl Gpu for Cuda {
    type Memory = Memory;
    type Module = ModuleId;
    type Error = CudaError;

    fn load(&mut self, ptx: &str) -> Result<ModuleId, CudaError> {
        Cuda::load(self, ptx)
    }

    fn allocate(&mut self, _: &str, bytes: usize, _: Use) -> Result<Memory, CudaError> {
        Cuda::allocate(self, bytes)
    }

    fn free(&mut self, memory: Memory) -> Result<(), CudaError> {
        Cuda::free(self, memory)
    }

    fn address(&self, memory: &Memory) -> u64 {
        memory.address
    }

    fn write(&mut self, memory: &Memory, bytes: &[u8]) -> Result<(), CudaError> {
        Cuda::write(self, memory, bytes)
    }

    fn read(&mut self, memory: &Memory) -> Result<Vec<u8>, CudaError> {
        Cuda::read(self, memory)
    }

    fn launch(
        &mut self,
        module: &ModuleId,
        kernel: &str,
        geometry: Geometry,
        params: &[u8],
    ) -> Result<(), CudaError> {
        self.run(&[Launch {
            module: *module,
            kernel: kernel.to_owned(),
            grid: geometry.grid,
            block: [geometry.block, 1, 1],
            shared: geometry.shared,
            cooperative: false,
            arguments: vec![params.to_vec()],
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_written_in_groups() {
        assert_eq!(visible("00112233445566778899aabbccddeeff"), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    }

    #[test]
    fn times_are_whole_nanoseconds() {
        assert_eq!(picoseconds(0.005), 5_000_000);
        assert_eq!(picoseconds(1.0), 1_000_000_000);
        assert_eq!((picoseconds(-1.0), picoseconds(f32::NAN)), (0, 0));
    }
}
