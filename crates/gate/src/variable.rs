//! Variables of a module, `__constant__` and `__device__`, by their names in the source. The command line and the
//! gate share this module.

use std::collections::BTreeSet;

use warpproof_sim::program::{ConstantBank, Symbol};
use warpproof_sim::{Device, Module};
use warpproof_toolchain::symbol::{self, NotOne};

/// A variable of a loaded module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name in the module.
    pub symbol: String,
    /// Its bytes.
    pub size: usize,
    place: Storage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Storage {
    /// An address in device memory.
    Memory(u64),
    /// An offset in constant memory.
    Constant(usize),
}

/// Why a name is not that of a variable, and the names of existing ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// What is wrong, in one sentence.
    pub sentence: String,
    /// The module's variables.
    pub known: Vec<String>,
}

impl Variable {
    /// The variable with this name in the source.
    pub fn find(module: &Module, name: &str) -> Result<Variable, Unknown> {
        let all = &module.linked().symbols;
        let variables = all.iter().filter(|(_, symbol)| place(symbol).is_some());
        // Sorted, so that the order does not depend on the map's.
        let names: BTreeSet<String> = variables.map(|(name, _)| name.clone()).collect();
        let names: Vec<String> = names.into_iter().collect();
        let unknown =
            |sentence| Unknown { sentence, known: names.iter().map(|name| symbol::name(name)).collect() };
        let symbol = symbol::find(&names, name).map_err(|error| match error {
            NotOne::None => {
                unknown(format!("the module has no variable `{name}`; the compiler removes unused variables"))
            }
            NotOne::Several(all) => {
                unknown(format!("several variables are called `{name}`: {}", all.join(", ")))
            }
        })?;
        let placed = all.get(symbol).and_then(place);
        let (place, size) = placed.ok_or_else(|| unknown(format!("`{name}` is not a variable")))?;
        Ok(Variable { symbol: symbol.clone(), size, place })
    }

    /// Sets it: in device memory immediately, in constant memory in the bank that launches receive.
    pub fn set(&self, bytes: &[u8], device: &mut Device, constants: &mut ConstantBank) -> Result<(), String> {
        let name = || symbol::name(&self.symbol);
        if bytes.len() != self.size {
            return Err(format!(
                "expected {1} bytes for variable `{0}`, found {2}",
                name(),
                self.size,
                bytes.len()
            ));
        }
        let lost = || format!("variable `{}` cannot be written", name());
        match self.place {
            Storage::Memory(address) => device.memory().write(address, bytes).map_err(|_| lost()),
            Storage::Constant(offset) => {
                let room = constants.get_mut(offset..offset + bytes.len()).ok_or_else(lost)?;
                room.copy_from_slice(bytes);
                Ok(())
            }
        }
    }
}

fn place(symbol: &Symbol) -> Option<(Storage, usize)> {
    match symbol {
        Symbol::Global { address, size } => Some((Storage::Memory(*address), usize::try_from(*size).ok()?)),
        Symbol::Const { offset, size } => {
            Some((Storage::Constant(usize::try_from(*offset).ok()?), usize::try_from(*size).ok()?))
        }
        _ => None,
    }
}
