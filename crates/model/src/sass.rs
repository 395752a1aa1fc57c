//! Machine code, as nvdisasm and cuobjdump print it with its encodings.
//!
//! [`parse`] reads the text; an [`Instruction`] has its opcode, operands, the registers it reads and writes, the PTX
//! line it comes from, and the [`Control`] bits ptxas scheduled it with. [`Flow`] makes basic blocks and loops of a
//! function, and [`mapping`] gives the blocks the counts of a PTX run.
//!
//! What an instruction reads and writes is decided by its spelling, from rules in `operand.rs`; NVIDIA documents no
//! grammar of this text. A register the rules miss changes no prediction of time: the schedule follows control bits.

mod control;
mod flow;
pub mod mapping;
mod operand;
mod system;
mod text;

pub use control::Control;
pub use flow::{Block, BlockId, End, Flow, Frequencies, Loop, Uncertain};
pub use operand::{Register, Registers};
pub use text::{Function, Guard, Instruction, ParseError, parse};
