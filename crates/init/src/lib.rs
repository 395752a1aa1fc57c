//! Writes a first task file for a kernel from its source, its PTX, the compiler's figures, and trial runs.
//!
//! Source and PTX give names, types and threads ([`look`], [`Parameter::all`], [`block`]); runs on the software GPU
//! give extents, grid and shared memory ([`explore`]). The operator is guessed from the kernel's name, and a run of
//! the written task confirms it. Every guess is marked in the file with its reason; what cannot be guessed becomes a
//! question there. The result always parses.
#![forbid(unsafe_code)]

mod assume;
mod attention;
mod builtin;
mod draft;
mod explore;
mod fit;
mod names;
mod operator;
mod parameter;
mod probe;
mod sizes;
mod source;
mod text;
mod traffic;
mod triton;

pub use attention::{Attempt, attention};
pub use draft::{Draft, Target, draft};
pub use explore::{Found, explore};
pub use operator::Kind;
pub use parameter::{Parameter, What};
pub use source::{Declared, declared};
pub use traffic::{Access, Geometry, Share, Traffic, look};
pub use triton::Triton;

/// The known facts about a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Its name in the source.
    pub name: String,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// Threads of a block.
    pub block: Block,
    /// Facts from its PTX.
    pub geometry: Geometry,
    /// Its resources, as ptxas reports them.
    pub resources: Resources,
    /// Dynamic shared memory, if the file states it.
    pub dynamic_shared: Option<u32>,
}

/// Threads of a block, and the source of the number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Extents.
    pub extents: Vec<u32>,
    /// The reason, if they are guessed.
    pub because: Option<String>,
    /// Whether there is evidence for them.
    pub evidence: bool,
}

impl Block {
    /// All threads.
    pub fn threads(&self) -> u32 {
        self.extents.iter().fold(1, |all, extent| all.saturating_mul(*extent))
    }
}

/// Resources of a kernel in bytes, as ptxas reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub struct Resources {
    pub static_shared: u32,
    pub stack: u32,
    pub spill_stores: u32,
    pub spill_loads: u32,
}

/// Threads of a block: from the launch line, else from the kernel's launch bounds, else from what its own lines
/// assume, else from a constant of the source. Otherwise 128, without evidence.
pub fn block(
    stated: Option<[u32; 3]>,
    bound: Option<[u32; 3]>,
    geometry: &Geometry,
    text: &str,
    kernel: &str,
) -> Block {
    let flat = |extents: [u32; 3]| match extents {
        [x, 1, 1] => vec![x],
        [x, y, 1] => vec![x, y],
        all => all.to_vec(),
    };
    let guessed = |extents: Vec<u32>, why: String| Block { extents, because: Some(why), evidence: true };
    if let Some(stated) = stated {
        return Block { extents: flat(stated), because: None, evidence: true };
    }
    match bound {
        Some([x, 1, 1]) if geometry.two_dimensional => {
            // Launch bounds give the number of threads, not their layout.
            let side = x.isqrt();
            let extents = if side * side == x { vec![side, side] } else { vec![32, (x / 32).max(1)] };
            return guessed(extents, format!("its launch bounds are {x} threads, and it uses threadIdx.y"));
        }
        Some(bound) => return guessed(flat(bound), "its __launch_bounds__ allow this many".to_owned()),
        None => {}
    }
    if !geometry.two_dimensional {
        if let Some((threads, why)) = source::block_assumed(text, kernel) {
            return guessed(vec![threads], why);
        }
        if let Some(tile) = geometry.tile_of_threads {
            return guessed(vec![tile], format!("it computes blockIdx.x * {tile} + threadIdx.x"));
        }
    }
    if let Some((name, value)) = source::block_constant(text) {
        let why = format!("the source defines {name} as {value}");
        if !geometry.two_dimensional {
            return guessed(vec![value], why);
        }
        if value <= 32 {
            return guessed(vec![value, value], why);
        }
    }
    let (extents, why) = if geometry.two_dimensional {
        (vec![16, 16], "it uses threadIdx.y, and the number of threads is not stated")
    } else {
        (vec![128], "the number of threads is not stated")
    };
    Block { extents, because: Some(why.to_owned()), evidence: false }
}

#[cfg(test)]
mod tests;
