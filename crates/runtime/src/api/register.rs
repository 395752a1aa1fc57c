//! Registration of fat binaries, kernels and variables, which nvcc's host code calls before `main`.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

use warpproof_driver::abi::{Answer, Error, Handle};
use warpproof_driver::api::{In, Out};
use warpproof_driver::driver::driver;
use warpproof_driver::memory::Kind;

use super::{context, handle, number, out};
use crate::error::{INVALID_DEVICE_FUNCTION, INVALID_SYMBOL};
use crate::registry::{Kernel, Variable, registry};

plain! {
    /// Registers a fat binary and returns its handle.
    fn __cudaRegisterFatBinary => (wrapper: *const c_void) -> Handle, null_mut(), {
        let added = registry().add(wrapper.expose_provenance());
        std::ptr::without_provenance_mut(added)
    }
}

plain! {
    /// The end of a fat binary's registrations. It is loaded at its first use.
    fn __cudaRegisterFatBinaryEnd => (_binary: Handle) -> (), (), {}
}

plain! {
    /// Forgets a fat binary, at the end of the program or of a shared library.
    fn __cudaUnregisterFatBinary => (binary: Handle) -> (), (), {
        let modules = registry().remove(binary.addr());
        let mut driver = warpproof_driver::driver::idle();
        for module in modules {
            // The context may have been destroyed, and the module with it.
            let _gone = driver.unload(module);
        }
    }
}

plain! {
    /// Registers a kernel.
    fn __cudaRegisterFunction => (binary: Handle, host: *const c_void, _device: In<c_char>, name: In<c_char>, _threads: c_int, _tid: In<c_void>, _bid: In<c_void>, _block: In<c_void>, _grid: In<c_void>, _warp: In<c_int>) -> (), (), {
        if let Ok(name) = name.text() {
            let kernel = Kernel { binary: binary.addr(), name, functions: std::collections::BTreeMap::new() };
            registry().kernels.insert(host.addr(), kernel);
        }
    }
}

plain! {
    /// Registers a variable.
    fn __cudaRegisterVar => (binary: Handle, host: *const c_void, _device: In<c_char>, name: In<c_char>, _ext: c_int, size: usize, _constant: c_int, _global: c_int) -> (), (), {
        if let Ok(name) = name.text() {
            let variable = Variable { binary: binary.addr(), name, size, managed: false };
            registry().variables.insert(host.addr(), variable);
        }
    }
}

plain! {
    /// Registers a managed variable: the host variable is a pointer, which gets its address when the fat binary is loaded.
    fn __cudaRegisterManagedVar => (binary: Handle, host: *mut c_void, _device: In<c_char>, name: In<c_char>, _ext: c_int, size: usize, _constant: c_int, _global: c_int) -> (), (), {
        if let Ok(name) = name.text() {
            let variable = Variable { binary: binary.addr(), name, size, managed: true };
            registry().variables.insert(host.expose_provenance(), variable);
        }
    }
}

plain! {
    /// Loads a fat binary, so that its managed variables have addresses; 1 if that succeeded.
    fn __cudaInitModule => (binary: Handle) -> c_char, 0, {
        let loaded = super::call("__cudaInitModule", || module(binary.addr()).map(drop));
        c_char::from(loaded == 0)
    }
}

/// Whether the driver knows a module.
fn is_loaded(module: u64) -> bool {
    driver().modules.contains_key(&module)
}

/// Whether the driver knows a function.
fn is_function(function: u64) -> bool {
    driver().functions.contains_key(&function)
}

/// The module of a fat binary in the current context, which is loaded if necessary.
pub(super) fn module(binary: usize) -> Answer<u64> {
    let context = context()?;
    let wrapper = {
        let registry = registry();
        let known = registry.binaries.get(&binary).ok_or(Error::INVALID_IMAGE)?;
        match known.modules.get(&context) {
            // The program may have reset the context through the driver API.
            Some(module) if is_loaded(*module) => return Ok(*module),
            _ => match known.failures.get(&context) {
                Some(error) => return Err(*error),
                None => known.wrapper,
            },
        }
    };
    let mut module = null_mut();
    // SAFETY: the program registered a fat binary that stays valid until it is unregistered.
    let image = unsafe { In::new(std::ptr::with_exposed_provenance::<u8>(wrapper)) };
    if let Err(error) = cu!(cuModuleLoadData(out(&mut module), image)) {
        // An error of the context is not one of the binary.
        let usable = driver().current().is_ok();
        if let Some(known) = registry().binaries.get_mut(&binary).filter(|_| usable) {
            known.failures.insert(context, error);
        }
        return Err(error);
    }
    let module = number(module);
    let mut managed = Vec::new();
    {
        let mut registry = registry();
        let known = registry.binaries.get_mut(&binary).ok_or(Error::INVALID_IMAGE)?;
        let other = known.modules.get(&context).copied().filter(|other| is_loaded(*other));
        if let Some(other) = other {
            // Another thread was faster.
            let _gone = driver().unload(module);
            return Ok(other);
        }
        known.modules.insert(context, module);
        for (host, variable) in &registry.variables {
            if variable.binary == binary && variable.managed {
                managed.push((*host, variable.name.clone()));
            }
        }
    }
    for (host, name) in managed {
        let (address, _) = driver().variable(module, &name)?;
        if driver().allocation(address).is_none_or(|(_, allocation)| allocation.kind != Kind::Managed) {
            driver().report.unsupported(&format!("managed variable `{name}`"));
            let _gone = driver().unload(module);
            return Err(Error::NOT_SUPPORTED);
        }
        let place = std::ptr::with_exposed_provenance_mut::<u64>(host);
        // SAFETY: the program registered this pointer variable to get the address.
        unsafe { Out::new(place) }.put(address)?;
    }
    Ok(module)
}

/// The driver's function of a kernel in the current context.
pub(super) fn function(host: *const c_void) -> Answer<Handle> {
    let context = context()?;
    let (host, kernel) = {
        let registry = registry();
        let Some(host) = registry.host(host.addr()) else {
            // A kernel of a library that the program loaded.
            return super::function::known(host);
        };
        let kernel = registry.kernels.get(&host).ok_or(INVALID_DEVICE_FUNCTION)?;
        if let Some(known) = kernel.functions.get(&context).filter(|known| is_function(**known)) {
            return Ok(handle(*known));
        }
        (host, kernel.clone())
    };
    let module = module(kernel.binary)?;
    let found = driver().get_function(module, &kernel.name);
    let found = found.map_err(|(error, sentence)| {
        let sentence = if sentence.is_empty() { "it cannot be loaded".to_owned() } else { sentence };
        driver().report.say(&format!("cannot prepare kernel `{}`: {sentence}", kernel.name));
        if error == Error::NOT_FOUND { INVALID_DEVICE_FUNCTION } else { error }
    })?;
    let mut registry = registry();
    registry.hosts.insert(found, host);
    if let Some(kernel) = registry.kernels.get_mut(&host) {
        kernel.functions.insert(context, found);
    }
    Ok(handle(found))
}

/// Address and size of a device variable in the current context.
pub(super) fn variable(host: *const c_void) -> Answer<(u64, u64)> {
    context()?;
    let variable = registry().variables.get(&host.addr()).cloned().ok_or(INVALID_SYMBOL)?;
    let module = module(variable.binary)?;
    let found = driver().variable(module, &variable.name);
    found.map_err(|error| if error == Error::NOT_FOUND { INVALID_SYMBOL } else { error })
}
