//! Modules, libraries, functions and the linker.
//!
//! A library is a module without an owning context. The linker's output is again PTX (`linker.rs`), loaded like any image.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use warpproof_sim::machine::Width;
use warpproof_sim::program::{Parameter, Program, Symbol};
use warpproof_sim::{Blame, Kernel, Stop, StopKind};

use crate::abi::{Answer, Error};
use crate::cluster;
use crate::conditional::with_setter;
use crate::driver::Driver;
use crate::image;
use crate::linker::{self, LinkError};
use crate::memory::{Allocation, Kind, lend_managed};

/// A loaded module.
#[derive(Debug)]
pub struct Module {
    /// Its context; `None` for a library.
    pub context: Option<u64>,
    /// Its device.
    pub device: usize,
    /// The modules of a library on other devices, which have variables of their own.
    pub elsewhere: BTreeMap<usize, u64>,
    /// The module of the software GPU.
    pub loaded: warpproof_sim::Module,
    /// Address and size of its constant memory for the host, if it has any.
    pub constants: Option<(u64, usize)>,
    /// Functions that the program looked up, by name.
    pub functions: BTreeMap<String, u64>,
    /// Allocations of its variables.
    pub variables: Vec<u64>,
}

/// A function of a module.
#[derive(Debug)]
pub struct Function {
    /// Its module.
    pub module: u64,
    /// Its name.
    pub name: String,
    /// The kernel, ready for launch.
    pub kernel: Kernel,
    /// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
    pub max_dynamic: u32,
    /// Other attributes, by number.
    pub attributes: BTreeMap<u32, i32>,
    registers: u32,
}

/// An active linker.
#[derive(Debug, Default)]
pub struct Link {
    /// Its context.
    pub context: u64,
    /// The names and texts added so far.
    pub parts: Vec<(String, String)>,
    /// The limit of registers per thread that the program set.
    pub registers: Option<u32>,
    /// Address and size of the program's buffer for errors, if any.
    pub log: Option<(usize, usize)>,
    /// The linked image, kept for the program until the linker is destroyed.
    pub made: Option<Vec<u8>>,
}

impl Function {
    /// Estimated registers per thread: only ptxas knows the real number.
    pub fn registers(&self) -> u32 {
        self.registers
    }

    /// Bytes of static shared memory.
    pub fn static_shared(&self) -> u32 {
        self.kernel.program().static_shared
    }

    /// The kernel's parameters.
    pub fn params(&self) -> &[Parameter] {
        &self.kernel.program().params
    }
}

/// The maximum number of 32-bit values alive at the same time, each from its first to its last mention in the text: a lower bound
/// if there were no loops. Addresses, predicates and registers reserved by the hardware come on top.
fn estimate(program: &Program) -> u32 {
    let mut lives: BTreeMap<(u8, u32), (usize, usize)> = BTreeMap::new();
    for (i, meta) in program.metas.iter().enumerate() {
        for (width, row) in meta.reads.iter().chain(&*meta.writes) {
            let words = match width {
                Width::W32 => 1,
                Width::W64 => 2,
                _ => continue,
            };
            let life = lives.entry((words, *row)).or_insert((i, i));
            life.1 = i;
        }
    }
    let mut change = vec![0i64; program.metas.len() + 1];
    for ((words, _), (first, last)) in lives {
        change[first] += i64::from(words);
        change[last + 1] -= i64::from(words);
    }
    let most = change
        .iter()
        .scan(0, |now, by| {
            *now += by;
            Some(*now)
        })
        .max()
        .unwrap_or(0);
    u32::try_from(most + 8).unwrap_or(255).next_multiple_of(8).clamp(16, 255)
}

/// The comment with which the linker passes the limit of registers per thread to the module that is loaded.
const LIMIT: &str = "// warpproof: registers per thread at most ";

/// The limit of registers per thread of a linked text.
fn limit(text: &str) -> Option<u32> {
    text.lines().rev().find_map(|line| line.strip_prefix(LIMIT)?.trim().parse().ok())
}

/// Whether a text uses a name outside of function declarations.
pub(crate) fn is_used(text: &str, name: &str) -> bool {
    let part = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%'));
    text.lines().any(|line| !line.contains(".func") && line.split(part).any(|word| word == name))
}

/// The first function of CUDA's device runtime that a text calls: kernels launch kernels through it.
fn device_runtime_call(text: &str) -> Option<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let has_prefix = |word: &&str| {
        let rest = word.strip_prefix("cuda").unwrap_or_default();
        word.starts_with("__cudaCDP2") || rest.starts_with(|c: char| c.is_ascii_uppercase())
    };
    let mut in_call = false;
    // nvcc writes each part of a call on a line of its own, up to the semicolon.
    text.lines().find_map(|line| {
        let line = line.trim();
        // Not the comments `// callseq`.
        in_call |= line.starts_with("call") || line.contains(" call ") || line.contains(" call.");
        let found = in_call.then(|| line.split(|c| !is_name(c)).find(has_prefix)).flatten();
        in_call &= !line.ends_with(';');
        found
    })
}

/// The error of a stop before the launch.
fn refused(stop: &Stop) -> Error {
    match (stop.blame, stop.kind) {
        (Blame::Gap, _) => Error::NOT_SUPPORTED,
        (Blame::Limit, _) => Error::OUT_OF_MEMORY,
        (Blame::Bug, _) => Error::UNKNOWN,
        (_, StopKind::Malformed) => Error::INVALID_PTX,
        _ => Error::INVALID_VALUE,
    }
}

impl Driver {
    /// Loads an image; `owner` is its context, or `None` for a library. Errors include a description.
    pub fn load(&mut self, bytes: &[u8], owner: Option<u64>, device: usize) -> Result<u64, (Error, String)> {
        let text = self.text_of(bytes, device)?;
        self.load_text(&text, owner, device)
    }

    /// Links several images, such as those of the translation units of a program built with `nvcc -rdc=true`, and loads them as
    /// one module.
    pub fn load_linked(
        &mut self,
        images: &[Vec<u8>],
        owner: Option<u64>,
        device: usize,
    ) -> Result<u64, (Error, String)> {
        let texts: Vec<_> = images.iter().map(|bytes| self.text_of(bytes, device)).collect();
        // First, because the units of NVIDIA's device runtime have no PTX for most devices: an error about them would not help.
        if let Some(name) = texts.iter().flatten().find_map(|text| device_runtime_call(text)) {
            self.report.unsupported(&format!("dynamic parallelism (`{name}`)"));
            let sentence = format!("a kernel calls `{name}`: dynamic parallelism is not supported");
            return Err((Error::NOT_SUPPORTED, sentence));
        }
        let part = |(i, text): (usize, Result<_, _>)| Ok((format!("unit {}", i + 1), text?));
        let parts: Vec<(String, String)> =
            texts.into_iter().enumerate().map(part).collect::<Result<_, _>>()?;
        let mut link = Link { parts, ..Link::default() };
        let text = link.complete().map_err(|error| (Error::INVALID_PTX, error.to_string()))?;
        let text = String::from_utf8_lossy(text).into_owned();
        let handle = self.load_text(text.trim_end_matches('\0'), owner, device)?;
        if let Some(name) = self.missing(handle) {
            // The module was just loaded, so this cannot fail.
            let _ = self.unload(handle);
            return Err((Error::INVALID_PTX, link.undefined(&name)));
        }
        Ok(handle)
    }

    /// The PTX that an image has for a device.
    fn text_of(&self, bytes: &[u8], device: usize) -> Result<String, (Error, String)> {
        let sm = self.devices[device].sm();
        image::ptx_of(bytes, sm).map_err(|error| (image_error(&error), error.to_string()))
    }

    fn load_text(&mut self, text: &str, owner: Option<u64>, device: usize) -> Result<u64, (Error, String)> {
        let sm = self.devices[device].sm();
        let defined = with_setter(text);
        let text = defined.as_deref().unwrap_or(text);
        let before: Vec<u64> = self.gpu.heap().allocations().iter().map(|a| a.base).collect();
        let mut managed = Vec::new();
        let loaded = self.gpu.load_with(text, &mut |heap, name, size| {
            let base = lend_managed(heap, name, size)?;
            managed.push((base, size));
            Ok(base)
        });
        // The slices of managed variables end with their use, as those of a launch do.
        for (base, size) in &managed {
            self.note_managed(*base, *size, owner, device);
        }
        if !managed.is_empty() {
            self.borrowers += 1;
            self.detach();
        }
        let after: Vec<u64> = self.gpu.heap().allocations().iter().map(|a| a.base).collect();
        // A managed variable may be where an allocation was that the heap remembers.
        let is_managed = |base: &u64| managed.iter().any(|(other, _)| other == base);
        let variables: Vec<u64> = after
            .into_iter()
            .filter(|base| before.binary_search(base).is_err() || is_managed(base))
            .collect();
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(stop) => {
                self.free_all(&variables);
                return Err((refused(&stop), stop.to_string()));
            }
        };
        let linked = loaded.linked();
        if linked.sm > sm {
            let sentence = format!("the module requires {}, but the device is sm_{sm}", linked.target);
            self.free_all(&variables);
            return Err((Error::NO_BINARY_FOR_GPU, sentence));
        }
        let handle = self.handle();
        let bytes = loaded.linked().constants.clone();
        let mut constants = None;
        let mut variables = variables;
        if !bytes.is_empty() {
            let size = u64::try_from(bytes.len()).unwrap_or(0);
            let base = self.gpu.memory().allocate("constant memory", size);
            let base = base.map_err(|error| {
                self.free_all(&variables);
                (Error::OUT_OF_MEMORY, error.to_string())
            })?;
            let _ = self.gpu.memory().write(base, &bytes);
            constants = Some((base, bytes.len()));
            variables.push(base);
            variables.sort_unstable();
        }
        let (functions, elsewhere) = (BTreeMap::new(), BTreeMap::new());
        let module = Module { context: owner, device, elsewhere, loaded, constants, functions, variables };
        self.modules.insert(handle, module);
        Ok(handle)
    }

    /// `cuModuleUnload`: also removes its functions and variables.
    pub fn unload(&mut self, handle: u64) -> Answer {
        let module = self.modules.remove(&handle).ok_or(Error::INVALID_HANDLE)?;
        self.free_all(&module.variables);
        self.functions.retain(|_, function| function.module != handle);
        for other in module.elsewhere.into_values() {
            self.unload(other)?;
        }
        Ok(())
    }

    /// The module of a library on a device, which is loaded at its first use there. Other modules have one device.
    pub fn module_on(&mut self, handle: u64, device: usize) -> Answer<u64> {
        let module = self.module(handle)?;
        if module.context.is_some() || module.device == device {
            return Ok(handle);
        }
        if let Some(other) = module.elsewhere.get(&device) {
            return Ok(*other);
        }
        let managed = |base: &u64| self.memory.get(base).is_some_and(|a| a.kind == Kind::Managed);
        if module.variables.iter().any(managed) {
            self.report.unsupported("a library with managed variables on several devices");
            return Err(Error::NOT_SUPPORTED);
        }
        let text = module.loaded.linked().text.clone();
        let other = self.load_text(&text, None, device).map_err(|(error, sentence)| {
            self.report.say(&format!("cannot load module: {sentence}"));
            error
        })?;
        if let Some(module) = self.modules.get_mut(&handle) {
            module.elsewhere.insert(device, other);
        }
        Ok(other)
    }

    /// The function of a kernel on a device: kernels of libraries have one handle for all devices.
    pub fn function_on(&mut self, handle: u64, device: usize) -> Answer<u64> {
        let Function { module, name, .. } = self.function(handle)?;
        let (module, name) = (*module, name.clone());
        let here = self.module_on(module, device)?;
        if here == module {
            return Ok(handle);
        }
        self.get_function(here, &name).map_err(|(error, _)| error)
    }

    /// Frees the memory of variables.
    fn free_all(&mut self, variables: &[u64]) {
        for base in variables {
            // The allocation exists, so this cannot fail.
            let _ = if self.memory.contains_key(base) {
                self.release_memory(*base)
            } else {
                self.gpu.memory().free(*base).map_err(|_| Error::INVALID_VALUE)
            };
        }
    }

    /// A module by its handle.
    pub fn module(&self, handle: u64) -> Answer<&Module> {
        self.ready()?;
        self.modules.get(&handle).ok_or(Error::INVALID_HANDLE)
    }

    /// `cuModuleGetFunction`.
    pub fn get_function(&mut self, module: u64, name: &str) -> Result<u64, (Error, String)> {
        let without_text = |error: Error| (error, String::new());
        let known = self.module(module).map_err(without_text)?;
        if let Some(handle) = known.functions.get(name) {
            return Ok(*handle);
        }
        if !known.loaded.kernels().iter().any(|kernel| kernel == name) {
            return Err((Error::NOT_FOUND, format!("the module has no kernel `{name}`")));
        }
        let kernel = known.loaded.kernel(name).map_err(|stop| (refused(&stop), stop.to_string()))?;
        let most = limit(&known.loaded.linked().text).unwrap_or(u32::MAX);
        let registers = estimate(kernel.program()).min(most);
        let handle = self.handle();
        let max_dynamic = 48 * 1024 - kernel.program().static_shared.min(48 * 1024);
        let function = Function {
            module,
            name: name.to_owned(),
            kernel,
            max_dynamic,
            attributes: BTreeMap::new(),
            registers,
        };
        self.functions.insert(handle, function);
        if let Some(module) = self.modules.get_mut(&module) {
            module.functions.insert(name.to_owned(), handle);
        }
        Ok(handle)
    }

    /// A function by its handle.
    pub fn function(&self, handle: u64) -> Answer<&Function> {
        self.ready()?;
        self.functions.get(&handle).ok_or(Error::INVALID_HANDLE)
    }

    /// `cuModuleGetGlobal`: address for the host and size of a variable.
    pub fn variable(&self, module: u64, name: &str) -> Answer<(u64, u64)> {
        let module = self.module(module)?;
        match module.loaded.linked().symbols.get(name) {
            Some(Symbol::Global { address, size }) => Ok((*address, *size)),
            Some(Symbol::Const { offset, size }) => {
                let (base, _) = module.constants.ok_or(Error::NOT_FOUND)?;
                Ok((base + offset, *size))
            }
            _ => Err(Error::NOT_FOUND),
        }
    }

    /// Whether a variable of some module lies at an address.
    pub fn is_variable(&self, address: u64) -> bool {
        self.variable_at(address).is_some()
    }

    /// The allocation of module variables at an address.
    pub fn variable_at(&self, address: u64) -> Option<(u64, u64)> {
        let all = self.modules.values().flat_map(|module| &module.variables);
        let base = all.filter(|base| **base <= address).max()?;
        let heap = self.gpu.heap();
        let allocations = heap.allocations();
        let at = allocations.binary_search_by_key(base, |a| a.base).ok()?;
        let size = allocations[at].size();
        (address - base < size).then_some((*base, size))
    }

    /// The module variables at an address, as an allocation of the module's context; for a library, of the calling context.
    pub fn variable_allocation(&self, address: u64) -> Option<(u64, Allocation)> {
        let (base, size) = self.variable_at(address)?;
        let owner = self.modules.values().find(|module| module.variables.contains(&base))?.context;
        let context = owner.or_else(crate::context::top)?;
        let device = self.contexts.get(&context)?.device;
        let (kind, flags, pool) = (Kind::Device, 0, None);
        // Allocation IDs share their numbers with handles; the base address is not a handle, so it is unique.
        let id = base;
        let allocation = Allocation {
            context,
            device,
            size,
            kind,
            flags,
            id,
            pool,
            fresh: false,
            lent: base,
            attached: false,
            name: None,
            live: None,
            site: crate::site::Site::default(),
        };
        Some((base, allocation))
    }

    /// A function that a linked text uses but does not define, which ptxas refuses.
    pub fn unresolved(&mut self, text: &[u8], device: usize) -> Result<Option<String>, (Error, String)> {
        let handle = self.load(text, None, device)?;
        let missing = self.missing(handle);
        // The module was just loaded, so this cannot fail.
        let _ = self.unload(handle);
        Ok(missing)
    }

    /// A function that a module uses, but that neither it nor the device defines.
    fn missing(&self, module: u64) -> Option<String> {
        let linked = self.modules.get(&module)?.loaded.linked();
        linked.missing.iter().find(|name| is_used(&linked.text, name)).cloned()
    }

    /// An attribute of a function by its number in `CUfunction_attribute`.
    pub fn function_attribute(&self, function: u64, number: u32) -> Answer<i32> {
        let function = self.function(function)?;
        let program = function.kernel.program();
        let clamp = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        let linked = self.module(function.module)?.loaded.linked();
        Ok(match number {
            0 => clamp(program.bounds.max_threads.unwrap_or(1024)),
            1 => clamp(program.static_shared),
            2 => i32::try_from(linked.constants.len()).unwrap_or(i32::MAX),
            3 => clamp(program.frame),
            4 => clamp(function.registers),
            // PTX target and binary version.
            5 => clamp(linked.sm),
            6 => clamp(self.devices[self.device_of(function.module)].sm()),
            7 => 0,
            8 => clamp(function.max_dynamic),
            9 => function.attributes.get(&9).copied().unwrap_or(-1),
            cluster::MUST_BE_SET => i32::from(function.needs_cluster()),
            11..=13 => {
                let axis = usize::try_from(number - 11).unwrap_or(0);
                clamp(function.required_cluster().map_or(0, |cluster| cluster[axis]))
            }
            14..=16 => function.attributes.get(&number).copied().unwrap_or(0),
            _ => return Err(Error::INVALID_VALUE),
        })
    }

    /// The device of a module: that of its context, or the current one for a library.
    fn device_of(&self, module: u64) -> usize {
        let owner = self.modules.get(&module).and_then(|module| module.context);
        let owned = owner.and_then(|context| self.contexts.get(&context)).map(|context| context.device);
        owned.or_else(|| self.current().ok().map(|(device, _)| device)).unwrap_or(0)
    }

    /// `cuFuncSetAttribute`.
    pub fn set_function_attribute(&mut self, handle: u64, number: u32, value: i32) -> Answer {
        let device = self.device_of(self.function(handle)?.module);
        let most = self.devices[device].model.capability.block_shared_opt_in.value;
        let function = self.functions.get_mut(&handle).ok_or(Error::INVALID_HANDLE)?;
        match number {
            8 => {
                let value = u32::try_from(value).map_err(|_| Error::INVALID_VALUE)?;
                if value.saturating_add(function.kernel.program().static_shared) > most {
                    return Err(Error::INVALID_VALUE);
                }
                function.max_dynamic = value;
            }
            11..=13 if function.kernel.program().bounds.cluster.is_some() => {
                return Err(Error::NOT_PERMITTED);
            }
            9..=16 => {
                function.attributes.insert(number, value);
            }
            _ => return Err(Error::INVALID_VALUE),
        }
        Ok(())
    }

    /// Every kernel of a module, as handles.
    pub fn all_functions(&mut self, module: u64) -> Answer<Vec<u64>> {
        let names = self.module(module)?.loaded.kernels().to_vec();
        names.iter().map(|name| self.get_function(module, name).map_err(|(error, _)| error)).collect()
    }
}

fn image_error(error: &image::ImageError) -> Error {
    match error {
        image::ImageError::Unknown | image::ImageError::Damaged(_) => Error::INVALID_IMAGE,
        image::ImageError::MachineCodeOnly | image::ImageError::OtherDevices { .. } => {
            Error::NO_BINARY_FOR_GPU
        }
        image::ImageError::TooLarge(_) => Error::OUT_OF_MEMORY,
    }
}

impl Link {
    /// Joins all parts into one module.
    pub fn complete(&mut self) -> Result<&[u8], LinkError> {
        if self.made.is_none() {
            let mut text = linker::join(&self.parts)?;
            if let Some(most) = self.registers {
                let _ = write!(text, "\n{LIMIT}{most}\n");
            }
            let mut bytes = text.into_bytes();
            bytes.push(0);
            self.made = Some(bytes);
        }
        Ok(self.made.as_deref().unwrap_or_default())
    }

    /// NVIDIA's sentence for a function that is declared and used, but not defined.
    pub fn undefined(&self, name: &str) -> String {
        let user = self.parts.iter().find(|(_, text)| is_used(text, name));
        format!(
            "error   : Undefined reference to '{name}' in '{}'",
            user.map_or("", |(part, _)| part.as_str())
        )
    }
}

#[cfg(test)]
mod tests {
    use super::device_runtime_call;

    #[test]
    fn calls_of_the_device_runtime() {
        let call = "{\n call.uni (retval0), \n cudaGetParameterBufferV2, \n (\n param0\n );\n}";
        assert_eq!(device_runtime_call(call), Some("cudaGetParameterBufferV2"));
        assert_eq!(device_runtime_call("@%p call __cudaCDP2Free, (a);"), Some("__cudaCDP2Free"));
        let others = ".extern .func cudaLaunchDevice;\ncall.uni vprintf, (a, b);\nst.u32 [cuda_flag], %r1;";
        assert_eq!(device_runtime_call(others), None);
    }
}
