//! A first task file for a kernel, from what its source, its PTX and the compiler say.
//!
//! Much of a task cannot be read from a kernel: what it computes, and which sizes matter. What is guessed says so in the file,
//! with the reason; what cannot be guessed is a question in the file. The result always parses.

mod draft;
mod operator;
mod parameter;
mod sizes;
mod source;
mod text;
mod traffic;

pub use draft::{Draft, Target, draft};
pub use operator::Kind;
pub use parameter::{Parameter, What};
pub use source::{Declared, declared};
pub use traffic::{Access, Geometry, Share, Traffic, look};

/// What was seen of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Its name, as the source calls it.
    pub name: String,
    /// What it takes.
    pub parameters: Vec<Parameter>,
    /// Threads of a block.
    pub block: Block,
    /// What its PTX does.
    pub geometry: Geometry,
    /// What ptxas says it takes.
    pub resources: Resources,
    /// Dynamic shared memory, where the file says it.
    pub dynamic_shared: Option<u32>,
}

/// Threads of a block, and who said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Extents.
    pub extents: Vec<u32>,
    /// Why these, where they are guessed.
    pub because: Option<String>,
}

impl Block {
    /// All threads.
    pub fn threads(&self) -> u32 {
        self.extents.iter().fold(1, |all, extent| all.saturating_mul(*extent))
    }
}

/// What ptxas says a kernel takes, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Resources {
    pub static_shared: u32,
    pub stack: u32,
    pub spill_stores: u32,
    pub spill_loads: u32,
}

/// Threads of a block: what the launch line says, else what the kernel is bound to, else a constant of the source, else 128.
pub fn block(stated: Option<[u32; 3]>, bound: Option<[u32; 3]>, geometry: &Geometry, text: &str) -> Block {
    let flat = |extents: [u32; 3]| match extents {
        [x, 1, 1] => vec![x],
        [x, y, 1] => vec![x, y],
        all => all.to_vec(),
    };
    if let Some(stated) = stated {
        return Block { extents: flat(stated), because: None };
    }
    let square = |side: u32, why: String| Block { extents: vec![side, side], because: Some(why) };
    match bound {
        Some([x, 1, 1]) if geometry.two_dimensional => {
            // A bound counts threads; how they are laid out it does not say.
            let side = x.isqrt();
            let extents = if side * side == x { vec![side, side] } else { vec![32, (x / 32).max(1)] };
            let why = format!("the kernel is bound to {x} threads and uses threadIdx.y");
            return Block { extents, because: Some(why) };
        }
        Some(bound) => {
            let why = "its __launch_bounds__ allow so many".to_owned();
            return Block { extents: flat(bound), because: Some(why) };
        }
        None => {}
    }
    if let Some((name, value)) = source::block_constant(text) {
        let why = format!("the source calls {value} {name}");
        if geometry.two_dimensional {
            if value <= 32 {
                return square(value, why);
            }
        } else {
            return Block { extents: vec![value], because: Some(why) };
        }
    }
    if geometry.two_dimensional {
        return square(16, "it uses threadIdx.y, and nothing says how many threads it wants".into());
    }
    Block { extents: vec![128], because: Some("nothing says how many threads it wants".into()) }
}

#[cfg(test)]
mod tests;
