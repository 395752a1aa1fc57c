//! The public interface: open a device, load a module, allocate, launch, read back.

use crate::cooperative;
use crate::element::{Argument, Element};
use crate::machine::{self, Collect, Grid, Guide, Limits, Listen, MAX_CLUSTER, Outcome};
use crate::memory::{ConcurrentHeap, Dependence, Earlier, Heap, HeapError, MAX_SHARED, Memory, Reading};
use crate::observe::Observer;
use crate::program::{self, ConstantBank, Linked, Managed, Program};
use crate::schedule::Schedule;
use crate::simd::Level;
use crate::stop::{Blame, Stop, StopKind};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

/// A software GPU.
#[derive(Debug)]
pub struct Device {
    heap: Heap,
    /// Memory of launches, instead of its own, if other devices use it too.
    concurrent: Option<Arc<ConcurrentHeap>>,
    level: Level,
    threads: usize,
    /// How warps take turns.
    pub schedule: Schedule,
    /// What a launch may use.
    pub limits: Limits,
    /// Whether launches use no fast path: one thread, no vector instructions of the host, and one instruction, one lane and one
    /// byte of history after the other where that is implemented. Outcomes, findings and counters are the same; it is for tests
    /// that compare them. Set it before modules are loaded.
    pub plain: bool,
}

/// A module whose variables live on a device.
#[derive(Debug)]
pub struct Module {
    linked: Arc<Linked>,
    level: Level,
    programs: Mutex<HashMap<String, Arc<Program>>>,
}

/// A kernel ready to be launched.
#[derive(Clone, Debug)]
pub struct Kernel {
    program: Arc<Program>,
    linked: Arc<Linked>,
}

/// Device memory that holds values of one type.
#[derive(Debug)]
pub struct Buffer<T> {
    address: u64,
    length: usize,
    element: PhantomData<T>,
}

impl<T> Clone for Buffer<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Buffer<T> {}

impl<T> Buffer<T> {
    /// The device address.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl Default for Device {
    fn default() -> Self {
        Device::new()
    }
}

/// The default size of device memory.
const DEFAULT_MEMORY: u64 = 8 << 30;

impl Device {
    /// A device that uses all cores and the fastest vector instructions of the host.
    pub fn new() -> Device {
        Device {
            heap: Heap::new(DEFAULT_MEMORY),
            concurrent: None,
            level: Level::detect(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            schedule: Schedule::default(),
            limits: Limits::default(),
            plain: false,
        }
    }

    /// Sets the number of host threads.
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Device {
        self.threads = threads.clamp(1, 1024);
        self
    }

    /// Sets the level of vector instructions; the fastest available level below it if the host lacks it. Modules loaded
    /// before keep their level.
    #[must_use]
    pub fn with_level(mut self, level: Level) -> Device {
        self.level = level.or_below();
        self
    }

    /// Sets the size of device memory in bytes. Earlier allocations are lost.
    #[must_use]
    pub fn with_memory(mut self, bytes: u64) -> Device {
        self.heap = Heap::new(bytes);
        self
    }

    /// Sets the first address of device memory, so that devices and the host can share one address space.
    #[must_use]
    pub fn with_heap(mut self, heap: Heap) -> Device {
        self.heap = heap;
        self
    }

    /// Loads a module from PTX text: allocates and initializes its variables.
    pub fn load(&mut self, ptx: &str) -> Result<Module, Box<Stop>> {
        self.load_with(ptx, &mut |heap, name, size| heap.allocate(name, size))
    }

    /// As [`load`](Self::load), with memory for managed variables: memory that the host accesses at the same address.
    pub fn load_with(&mut self, ptx: &str, managed: &mut Managed<'_>) -> Result<Module, Box<Stop>> {
        let linked = Arc::new(program::link(ptx, &mut self.heap, managed)?);
        Ok(Module { linked, level: self.level(), programs: Mutex::new(HashMap::new()) })
    }

    /// Allocates `length` values, all zero.
    pub fn alloc<T: Element>(&mut self, length: usize) -> Result<Buffer<T>, HeapError> {
        self.alloc_named("buffer", length)
    }

    /// As [`alloc`](Self::alloc), with a name for reports.
    pub fn alloc_named<T: Element>(&mut self, name: &str, length: usize) -> Result<Buffer<T>, HeapError> {
        let bytes = length.checked_mul(T::BYTES).and_then(|n| u64::try_from(n).ok()).unwrap_or(u64::MAX);
        let address = self.heap.allocate(name, bytes)?;
        Ok(Buffer { address, length, element: PhantomData })
    }

    /// Allocates and fills.
    pub fn upload<T: Element>(&mut self, values: &[T]) -> Result<Buffer<T>, HeapError> {
        let buffer = self.alloc(values.len())?;
        self.write(&buffer, values)?;
        Ok(buffer)
    }

    /// Writes values from the start of a buffer; the rest of the buffer keeps its contents. Writes nothing if there are more
    /// values than the buffer holds, or if the buffer was freed.
    pub fn write<T: Element>(&mut self, buffer: &Buffer<T>, values: &[T]) -> Result<(), HeapError> {
        if values.len() > buffer.length {
            return Err(HeapError::TooLong { given: values.len(), room: buffer.length });
        }
        let mut bytes = Vec::with_capacity(values.len() * T::BYTES);
        for value in values {
            value.store(&mut bytes);
        }
        self.heap.write(buffer.address, &bytes).map_err(HeapError::of_fault)
    }

    /// Reads a buffer back. Fails if the buffer was freed.
    pub fn read<T: Element>(&self, buffer: &Buffer<T>) -> Result<Vec<T>, HeapError> {
        let bytes = self.heap.read(buffer.address, buffer.length * T::BYTES).map_err(HeapError::of_fault)?;
        Ok(bytes.chunks_exact(T::BYTES).map(T::load).collect())
    }

    /// Frees a buffer.
    pub fn free<T>(&mut self, buffer: Buffer<T>) -> Result<(), HeapError> {
        self.heap.free(buffer.address)
    }

    /// Device memory itself, for callers that use addresses instead of buffers.
    pub fn memory(&mut self) -> &mut Heap {
        &mut self.heap
    }

    /// Device memory, read-only.
    pub fn heap(&self) -> &Heap {
        &self.heap
    }

    /// The memory of launches, which does not change meanwhile.
    pub fn reading(&self) -> Reading<'_> {
        match &self.concurrent {
            Some(heap) => Reading::Concurrent(heap.read()),
            None => Reading::Own(&self.heap),
        }
    }

    /// A device with these settings and no memory.
    pub(crate) fn without_memory(&self, limits: Limits) -> Device {
        let Device { level, threads, schedule, plain, .. } = *self;
        Device { heap: Heap::new(0), concurrent: None, level, threads, schedule, limits, plain }
    }

    /// A device with these settings whose launches use memory that others use too.
    pub(crate) fn with_concurrent(&self, memory: Arc<ConcurrentHeap>, limits: Limits) -> Device {
        Device { concurrent: Some(memory), ..self.without_memory(limits) }
    }

    /// The vector instructions it uses.
    pub fn level(&self) -> Level {
        if self.plain { Level::Portable } else { self.level }
    }

    /// Runs a launch until it ends or stops.
    pub fn run(&mut self, launch: &Launch) -> Outcome {
        self.execute(launch, None, (&[], None), false, (&|_| None, &mut |_| {}))
    }

    /// As [`run`](Self::run), with an observer for each block; returns the observers in block order.
    pub fn run_observed(
        &mut self,
        launch: &Launch,
        listen: &(dyn Fn(u32) -> Option<Box<dyn Observer>> + Sync),
        collect: &mut (dyn FnMut(Box<dyn Observer>) + Send),
    ) -> Outcome {
        self.run_guided(launch, &[], None, listen, collect)
    }

    /// As [`run_observed`](Self::run_observed), with a guide that orders the steps, which are the marked instructions by
    /// index.
    pub fn run_guided(
        &mut self,
        launch: &Launch,
        steps: &[bool],
        guide: Option<&mut dyn Guide>,
        listen: &(dyn Fn(u32) -> Option<Box<dyn Observer>> + Sync),
        collect: &mut (dyn FnMut(Box<dyn Observer>) + Send),
    ) -> Outcome {
        self.execute(launch, None, (steps, guide), true, (listen, collect))
    }

    /// As [`run_observed`](Self::run_observed). With a selection, only these blocks are executed, in ascending order, and memory
    /// stays as it is.
    pub fn run_selected(
        &mut self,
        launch: &Launch,
        selection: Option<&[u32]>,
        listen: &(dyn Fn(u32) -> Option<Box<dyn Observer>> + Sync),
        collect: &mut (dyn FnMut(Box<dyn Observer>) + Send),
    ) -> Outcome {
        self.execute(launch, selection, (&[], None), true, (listen, collect))
    }

    fn execute(
        &mut self,
        launch: &Launch,
        selection: Option<&[u32]>,
        (steps, guide): (&[bool], Option<&mut dyn Guide>),
        observed: bool,
        (listen, collect): (Listen<'_>, Collect<'_>),
    ) -> Outcome {
        let (params, shared) = match launch.check(self.limits) {
            Ok(parts) => parts,
            Err(stop) => return Outcome { stop: Some(stop), ..Outcome::default() },
        };
        let workspace = match launch.cooperative.then(|| cooperative::workspace(&mut self.heap)).transpose() {
            Ok(workspace) => workspace,
            Err(stop) => return Outcome { stop: Some(stop), ..Outcome::default() },
        };
        let grid = Grid {
            program: &launch.kernel.program,
            blocks: launch.grid,
            selection,
            cluster: launch.cluster_dims(),
            explicit_cluster: launch.cluster.or(launch.kernel.program.bounds.cluster).is_some(),
            threads: launch.block,
            params: &params,
            constants: launch.constants.as_ref().unwrap_or(&launch.kernel.linked.constants),
            shared,
            dynamic_shared: launch.shared,
            workspace,
            sm: launch.kernel.linked.sm,
            schedule: self.schedule,
            steps,
            observed,
            keeps_earlier: launch.keeps_earlier,
            limits: self.limits,
            plain: self.plain,
        };
        // A kernel whose blocks communicate may learn by a flag that the launch before it has stored.
        self.heap.dependence = Dependence::default();
        if launch.kernel.program.communication != program::Communication::Any {
            self.heap.dependence.hidden =
                launch.hidden.each_ref().map(|hidden| hidden.as_deref().filter(|h| !h.is_empty()).cloned());
        }
        let memory = match &self.concurrent {
            Some(heap) => Memory::Concurrent(heap),
            None => Memory::Own(&mut self.heap),
        };
        let threads = if self.plain { 1 } else { self.threads };
        let mut outcome = machine::run(&grid, memory, threads, guide, listen, collect);
        self.heap.dependence = Dependence::default();
        match workspace {
            // It is live: only this code frees it.
            Some(address) => self.heap.free(address).unwrap_or_default(),
            None => cooperative::explain(&mut outcome, &launch.kernel.program),
        }
        outcome
    }
}

impl Module {
    /// The kernels, in source order.
    pub fn kernels(&self) -> &[String] {
        &self.linked.kernels
    }

    /// The module after linking.
    pub fn linked(&self) -> &Linked {
        &self.linked
    }

    /// Prepares a kernel; do this once per kernel.
    pub fn kernel(&self, name: &str) -> Result<Kernel, Box<Stop>> {
        let known = self.programs.lock().ok().and_then(|programs| programs.get(name).cloned());
        let program = if let Some(program) = known {
            program
        } else {
            let program = Arc::new(program::decode(&self.linked, name, self.level)?);
            if let Ok(mut programs) = self.programs.lock() {
                programs.insert(name.to_owned(), program.clone());
            }
            program
        };
        Ok(Kernel { program, linked: self.linked.clone() })
    }

    /// The address and size of a module variable in device memory.
    pub fn global(&self, name: &str) -> Option<(u64, u64)> {
        match self.linked.symbols.get(name)? {
            program::Symbol::Global { address, size } => Some((*address, *size)),
            _ => None,
        }
    }
}

impl Kernel {
    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// A launch of this kernel; the default is one block of one thread.
    pub fn launch(&self) -> Launch {
        Launch {
            kernel: self.clone(),
            grid: [1; 3],
            cluster: None,
            block: [1; 3],
            shared: 0,
            arguments: Vec::new(),
            constants: None,
            cooperative: false,
            keeps_earlier: false,
            hidden: [None, None],
        }
    }
}

/// A kernel with its grid, block and arguments.
#[derive(Clone, Debug)]
pub struct Launch {
    kernel: Kernel,
    grid: [u32; 3],
    cluster: Option<[u32; 3]>,
    block: [u32; 3],
    shared: u32,
    arguments: Vec<Vec<u8>>,
    constants: Option<ConstantBank>,
    cooperative: bool,
    keeps_earlier: bool,
    hidden: [Option<Arc<Earlier>>; 2],
}

/// A size in one, two or three dimensions.
pub trait Extent {
    /// All three.
    fn dims(self) -> [u32; 3];
}
impl Extent for u32 {
    fn dims(self) -> [u32; 3] {
        [self, 1, 1]
    }
}
impl Extent for (u32, u32) {
    fn dims(self) -> [u32; 3] {
        [self.0, self.1, 1]
    }
}
impl Extent for (u32, u32, u32) {
    fn dims(self) -> [u32; 3] {
        [self.0, self.1, self.2]
    }
}
impl Extent for [u32; 3] {
    fn dims(self) -> [u32; 3] {
        self
    }
}

impl Launch {
    /// The kernel's program.
    pub fn program(&self) -> Arc<Program> {
        self.kernel.program.clone()
    }

    /// The arguments as 64-bit words, with their offsets in parameter memory.
    pub fn parameter_words(&self) -> Vec<(u64, u64)> {
        let parameters = self.arguments.iter().zip(&self.kernel.program.params);
        let words = parameters.flat_map(|(bytes, parameter)| {
            let words = (u64::from(parameter.offset)..).step_by(8).zip(bytes.as_chunks::<8>().0);
            words.map(|(offset, word)| (offset, u64::from_le_bytes(*word)))
        });
        words.collect()
    }

    /// Whether all blocks run at the same time.
    pub fn is_cooperative(&self) -> bool {
        self.cooperative
    }

    /// Blocks in each dimension.
    pub fn blocks(&self) -> [u32; 3] {
        self.grid
    }

    /// Threads of a block in each dimension.
    pub fn threads(&self) -> [u32; 3] {
        self.block
    }

    /// Bytes of shared memory of a block, static and dynamic.
    pub fn shared_bytes(&self) -> u32 {
        let program = &self.kernel.program;
        program.dynamic_shared.unwrap_or(program.static_shared).saturating_add(self.shared)
    }

    /// Bytes of dynamic shared memory of a block.
    pub fn dynamic_shared(&self) -> u32 {
        self.shared
    }

    /// Blocks in the grid.
    #[must_use]
    pub fn grid(mut self, extent: impl Extent) -> Self {
        self.grid = extent.dims();
        self
    }

    /// Blocks in a cluster, as the attribute `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`.
    #[must_use]
    pub fn cluster(mut self, extent: impl Extent) -> Self {
        self.cluster = Some(extent.dims());
        self
    }

    /// Threads in a block.
    #[must_use]
    pub fn block(mut self, extent: impl Extent) -> Self {
        self.block = extent.dims();
        self
    }

    /// Bytes of dynamic shared memory.
    #[must_use]
    pub fn shared(mut self, bytes: u32) -> Self {
        self.shared = bytes;
        self
    }

    /// The next argument.
    #[must_use]
    pub fn arg(mut self, argument: impl Argument) -> Self {
        self.arguments.push(argument.bytes());
        self
    }

    /// Constant memory as the host wrote it, instead of the module's initial values.
    #[must_use]
    pub fn constants(mut self, bytes: ConstantBank) -> Self {
        self.constants = Some(bytes);
        self
    }

    /// Whether all blocks run at the same time and `grid.sync()` works, as after `cudaLaunchCooperativeKernel`.
    #[must_use]
    pub fn cooperative(mut self, yes: bool) -> Self {
        self.cooperative = yes;
        self
    }

    /// Whether the outcome contains the bytes that the launch overwrites.
    #[must_use]
    pub fn keep_earlier(mut self, yes: bool) -> Self {
        self.keeps_earlier = yes;
        self
    }

    /// The bytes that loads get before `griddepcontrol.wait` and after it, because the stores of launches that may run at the same
    /// time as this one need not be visible.
    #[must_use]
    pub fn hide(mut self, before_wait: Option<Arc<Earlier>>, after_wait: Option<Arc<Earlier>>) -> Self {
        self.hidden = [before_wait, after_wait];
        self
    }

    /// Whether some stores of other launches are hidden.
    pub(crate) fn hides(&self) -> bool {
        self.hidden.iter().flatten().any(|hidden| !hidden.is_empty())
    }

    /// Runs to the end; returns a stop as an error.
    pub fn run(&self, device: &mut Device) -> Result<Outcome, Box<Stop>> {
        let mut outcome = device.run(self);
        match outcome.stop.take() {
            Some(stop) => Err(stop),
            None => Ok(outcome),
        }
    }

    /// Blocks in a cluster: those of the launch, or those the kernel was compiled for.
    pub fn cluster_dims(&self) -> [u32; 3] {
        self.cluster.or(self.kernel.program.bounds.cluster).unwrap_or([1; 3])
    }

    /// Checks the cluster against the kernel and the grid.
    fn check_cluster(&self) -> Result<(), Box<Stop>> {
        let refuse =
            |sentence: String| Err(Box::new(Stop::general(Blame::Input, StopKind::Launch, sentence)));
        let bounds = &self.kernel.program.bounds;
        let cluster = self.cluster_dims();
        let size = cluster.iter().try_fold(1u32, |n, blocks| n.checked_mul(*blocks)).unwrap_or(u32::MAX);
        if size == 0 {
            return refuse("a cluster dimension is zero".into());
        }
        if let Some(required) = bounds.cluster.filter(|required| *required != cluster) {
            return refuse(format!("a cluster of {cluster:?}, but the kernel was compiled for {required:?}"));
        }
        if bounds.explicit_cluster && self.cluster.or(bounds.cluster).is_none() {
            return refuse(
                "the kernel is compiled for launches with clusters, and the launch has none".into(),
            );
        }
        if size > 1 && self.kernel.linked.sm < 90 {
            let target = &self.kernel.linked.target;
            return refuse(format!("clusters need sm_90; the module's target is {target}"));
        }
        let most = bounds.max_cluster.unwrap_or(MAX_CLUSTER).min(MAX_CLUSTER);
        if size > most {
            return refuse(format!("a cluster of {size} blocks; the maximum is {most}"));
        }
        match (0..3).find(|axis| !self.grid[*axis].is_multiple_of(cluster[*axis])) {
            Some(axis) => refuse(format!(
                "a grid of {} blocks in {}, which is not a multiple of the {} blocks of a cluster",
                self.grid[axis],
                ["x", "y", "z"][axis],
                cluster[axis]
            )),
            None => Ok(()),
        }
    }

    /// Lays out the parameters and checks the launch against the kernel and the architecture.
    fn check(&self, limits: Limits) -> Result<(Vec<u8>, u32), Box<Stop>> {
        let refuse =
            |sentence: String| Err(Box::new(Stop::general(Blame::Input, StopKind::Launch, sentence)));
        let program = &self.kernel.program;
        let threads = self.block.iter().try_fold(1u32, |n, t| n.checked_mul(*t)).unwrap_or(u32::MAX);
        if threads == 0 || self.grid.contains(&0) {
            return refuse("a grid or block dimension is zero".into());
        }
        if threads > 1024 || self.block[2] > 64 {
            return refuse(format!("a block of {threads} threads; the maximum is 1024, and 64 in z"));
        }
        if self.grid[1] > 65_535 || self.grid[2] > 65_535 {
            return refuse("a grid of more than 65535 blocks in y or z".into());
        }
        if let Some(max) = program.bounds.max_threads.filter(|max| threads > *max) {
            return refuse(format!(
                "a block of {threads} threads, but the kernel was compiled for at most {max}"
            ));
        }
        if let Some(required) = program.bounds.required.filter(|required| *required != self.block) {
            return refuse(format!("a block of {:?}, but the kernel requires {required:?}", self.block));
        }
        self.check_cluster()?;
        if program.static_shared > STATIC_SHARED {
            let bytes = program.static_shared;
            return refuse(format!("{bytes} bytes of static shared memory; the maximum is {STATIC_SHARED}"));
        }
        let largest = shared_limit(self.kernel.linked.sm);
        let dynamic_start = program.dynamic_shared.unwrap_or(program.static_shared);
        let shared = u64::from(dynamic_start) + u64::from(self.shared);
        let shared = u32::try_from(shared).ok().filter(|bytes| *bytes <= largest);
        let Some(shared) = shared else {
            return refuse(format!(
                "{} bytes of static and {} of dynamic shared memory; the maximum for a block is {largest}",
                program.static_shared, self.shared
            ));
        };
        if u64::from(program.frame) > limits.stack {
            let sentence = format!(
                "the kernel's stack frame of {} bytes exceeds the stack limit of {}",
                program.frame, limits.stack
            );
            return Err(Box::new(Stop::general(Blame::Limit, StopKind::Limit, sentence)));
        }
        if self.arguments.len() != program.params.len() {
            let (given, wanted) = (self.arguments.len(), program.params.len());
            return refuse(format!("{given} arguments, but kernel `{}` takes {wanted}", program.name));
        }
        let mut params = Vec::new();
        for (i, (argument, parameter)) in self.arguments.iter().zip(&program.params).enumerate() {
            if argument.len() != machine::at(parameter.size) {
                return refuse(format!(
                    "argument {i} has {} bytes, but `{}` (.{}) takes {}",
                    argument.len(),
                    parameter.name,
                    parameter.ty,
                    parameter.size
                ));
            }
            params.resize(machine::at(parameter.offset), 0);
            params.extend_from_slice(argument);
        }
        Ok((params, shared))
    }
}

/// The maximum static shared memory of a kernel on every architecture; more must be requested at launch.
const STATIC_SHARED: u32 = 48 * 1024;

/// Shared memory a block can have, by architecture (CUDA programming guide, technical specifications table).
fn shared_limit(sm: u32) -> u32 {
    let kilobytes = match sm {
        70 | 72 => 96,
        75 => 64,
        80 | 87 => 163,
        86 | 89 | 120 | 121 => 99,
        _ if sm >= 90 => 227,
        _ => 48,
    };
    (kilobytes * 1024).min(u32::try_from(MAX_SHARED).unwrap_or(u32::MAX))
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program")
            .field("name", &self.name)
            .field("instructions", &self.code.len())
            .finish_non_exhaustive()
    }
}
