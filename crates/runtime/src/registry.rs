//! What programs register before `main`: fat binaries with kernels and variables, each known by an address of the host program.
//!
//! nvcc gives each kernel a host function and each device variable a host variable; their addresses are what the program passes to
//! the runtime. A fat binary is loaded into a context at its first use there, as with NVIDIA's lazy loading.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use warpproof_driver::abi::Error;

/// A fat binary.
#[derive(Debug, Default)]
pub struct Binary {
    /// Address of nvcc's wrapper around it.
    pub wrapper: usize,
    /// Its module in each context.
    pub modules: BTreeMap<u64, u64>,
    /// Contexts into which it cannot be loaded, so that the reason is reported once.
    pub failures: BTreeMap<u64, Error>,
}

/// A kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its fat binary.
    pub binary: usize,
    /// Its name in the device code.
    pub name: String,
    /// Its function in each context.
    pub functions: BTreeMap<u64, u64>,
}

/// A device variable.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its fat binary.
    pub binary: usize,
    /// Its name in the device code.
    pub name: String,
    /// Bytes, as the host compiler knows them.
    pub size: usize,
    /// Whether the host variable is a pointer, which must get the address of a managed variable.
    pub managed: bool,
}

/// All of a process.
#[derive(Debug, Default)]
pub struct Registry {
    /// Fat binaries by their handles.
    pub binaries: BTreeMap<usize, Binary>,
    /// Kernels by the addresses of their host functions.
    pub kernels: BTreeMap<usize, Kernel>,
    /// Variables by the addresses of their host variables.
    pub variables: BTreeMap<usize, Variable>,
    /// The host functions of functions in contexts, so that their handles can be used in place of them.
    pub hosts: BTreeMap<u64, usize>,
    last: usize,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry::new());

/// What this process registered. Registration runs before `main` and in constructors of shared libraries.
pub fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    const fn new() -> Registry {
        Registry {
            binaries: BTreeMap::new(),
            kernels: BTreeMap::new(),
            variables: BTreeMap::new(),
            hosts: BTreeMap::new(),
            last: 0,
        }
    }

    /// Adds a fat binary and returns its handle: not 0, and not the address of anything.
    pub fn add(&mut self, wrapper: usize) -> usize {
        self.last += 16;
        self.binaries.insert(self.last, Binary { wrapper, ..Binary::default() });
        self.last
    }

    /// Forgets a fat binary with its kernels and variables, and returns its modules.
    pub fn remove(&mut self, binary: usize) -> Vec<u64> {
        self.kernels.retain(|_, kernel| kernel.binary != binary);
        self.variables.retain(|_, variable| variable.binary != binary);
        let kernels = &self.kernels;
        self.hosts.retain(|_, host| kernels.contains_key(host));
        let removed = self.binaries.remove(&binary);
        removed.map(|binary| binary.modules.into_values().collect()).unwrap_or_default()
    }

    /// Forgets the modules and functions of a context that was reset. Handles of kernels stay valid: the program may keep them.
    pub fn forget(&mut self, context: u64) {
        for binary in self.binaries.values_mut() {
            binary.modules.remove(&context);
            binary.failures.remove(&context);
        }
        for kernel in self.kernels.values_mut() {
            kernel.functions.remove(&context);
        }
    }

    /// The host function that a program means: its address, or a handle of the kernel.
    pub fn host(&self, function: usize) -> Option<usize> {
        if self.kernels.contains_key(&function) {
            return Some(function);
        }
        let handle = u64::try_from(function).ok()?;
        self.hosts.get(&handle).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_binary_takes_its_kernels_and_variables_along() {
        let mut registry = Registry::new();
        let (first, second) = (registry.add(1), registry.add(2));
        for (host, binary) in [(0x10, first), (0x20, second)] {
            let kernel = Kernel { binary, name: "k".to_owned(), functions: BTreeMap::from([(7, 70)]) };
            registry.kernels.insert(host, kernel);
            let variable = Variable { binary, name: "v".to_owned(), size: 4, managed: false };
            registry.variables.insert(host + 1, variable);
        }
        registry.hosts.insert(70, 0x20);
        registry.binaries.get_mut(&first).expect("added").modules.insert(7, 700);
        assert_eq!(registry.host(70), Some(0x20));
        assert_eq!(registry.remove(first), [700]);
        assert_eq!(registry.host(0x10), None);
        assert_eq!(registry.host(0x20), Some(0x20));
        assert!(!registry.variables.contains_key(&0x11));
        registry.forget(7);
        assert_eq!(registry.host(70), Some(0x20));
        assert!(registry.kernels[&0x20].functions.is_empty());
    }
}
