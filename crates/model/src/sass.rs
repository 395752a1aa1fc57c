//! Machine code, as nvdisasm and cuobjdump print it with its encodings.
//!
//! [`parse`] reads the text; an [`Instruction`] has its opcode, operands, the registers it reads and writes, the PTX
//! line it comes from, and the [`Control`] bits ptxas scheduled it with. [`Flow`] finds the basic blocks and loops of a
//! function, and [`mapping`] assigns the counts of a PTX run to the blocks.
//!
//! Rules in `operand.rs` derive the registers that an instruction reads and writes from its text; NVIDIA does
//! not document a grammar for it. A register that the rules miss does not change a predicted time: the
//! schedule follows the control bits.

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
