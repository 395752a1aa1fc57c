//! Products that the compiler fused into a sum behind a shuffle.
//!
//! Triton reduces by butterfly shuffles and relies on x + y = y + x: all lanes of a warp, and all warps that hold the
//! same elements, end with the same bits and store them together. If the elements are products, LLVM turns
//! `add(mul(a, b), shuffled)` into `fma(a, b, shuffled)`. Then a lane rounds its partner's product and not its own, and
//! its partner the other way round, so that their sums may differ in the last bit. Which one is stored is undefined.

use super::facts::Flow;
use std::collections::BTreeSet;
use warpproof_sim::isa::Op;
use warpproof_sim::isa::op::{ArithmeticKind, MemoryKind};
use warpproof_sim::machine::Width;
use warpproof_sim::program::Program;

/// In kernels of Triton several threads may hold the same element, and store it together.
pub(crate) struct Replicated {
    /// The stores of values that such threads round differently, by instruction.
    pub fused: BTreeSet<u32>,
}

impl Replicated {
    /// `None` if Triton's compiler did not make the kernel: all of its shared memory is dynamic and has one name.
    pub(crate) fn of(program: &Program, flow: &Flow) -> Option<Replicated> {
        let mut symbols = program.metas.iter().flat_map(|meta| &meta.symbols);
        let triton = program.dynamic_shared.is_some()
            && program.shared_variables.is_empty()
            && symbols.any(|name| name == "global_smem");
        triton.then(|| Replicated { fused: stores(program, flow) })
    }
}

/// The stores, to any memory, of a value that depends on such a product.
fn stores(program: &Program, flow: &Flow) -> BTreeSet<u32> {
    let slice = Slice { program, flow };
    if !(0..program.metas.len()).any(|pc| slice.fused(pc)) {
        return BTreeSet::new();
    }
    let kind = |pc: usize| program.metas[pc].op.effects().memory.map(|memory| memory.kind);
    let stores = (0..program.metas.len()).filter(|pc| kind(*pc) == Some(MemoryKind::Store));
    stores.filter(|pc| slice.depends(*pc)).filter_map(|pc| u32::try_from(pc).ok()).collect()
}

/// Whether two sums may differ by rounding: they are equal, or finite and agree in about half of their bits.
pub(crate) fn rounded(a: u32, b: u32) -> bool {
    if a == b {
        return true;
    }
    let (a, b) = (f32::from_bits(a), f32::from_bits(b));
    a.is_finite() && b.is_finite() && (a - b).abs() <= a.abs().max(b.abs()) / 4096.0
}

/// Where the registers of a program get their values from.
struct Slice<'p> {
    program: &'p Program,
    flow: &'p Flow,
}

impl Slice<'_> {
    fn written_by(&self, row: u32) -> impl Iterator<Item = usize> {
        self.flow.writers((Width::W32, row)).iter().copied()
    }

    /// The rows of the result and of the sources of an arithmetic instruction.
    fn arithmetic(&self, pc: usize, kind: ArithmeticKind) -> Option<&[u32]> {
        match &self.program.metas[pc].op {
            Op::Arithmetic(arithmetic) if arithmetic.kind == kind => Some(&self.program.code[pc].args.all),
            _ => None,
        }
    }

    /// Whether an instruction adds the product of two registers to the same product in another lane.
    fn fused(&self, pc: usize) -> bool {
        let Some([_, a, b, sum]) = self.arithmetic(pc, ArithmeticKind::Fma) else { return false };
        let product = |pc: usize| {
            let factors = self.arithmetic(pc, ArithmeticKind::Mul);
            matches!(factors, Some([_, x, y]) if (x, y) == (a, b) || (x, y) == (b, a))
        };
        let shuffled = |pc: usize| match (&self.program.metas[pc].op, &*self.program.code[pc].args.all) {
            // Rows of a shuffle: result, predicate, value, lane, clamp, mask.
            (Op::Shuffle(_), [_, _, value, ..]) => self.written_by(*value).any(product),
            _ => false,
        };
        self.written_by(*sum).any(shuffled)
    }

    /// Whether the value of a store depends on a fused product, through arithmetic and shuffles. Not through predicates: a
    /// choice between two values is more than another rounding.
    fn depends(&self, store: usize) -> bool {
        let args = &self.program.code[store].args;
        let address = |row: &&(Width, u32)| {
            let named = args.at.iter().take(args.addresses);
            named.map(|at| (if at.wide { Width::W64 } else { Width::W32 }, at.row)).any(|at| at == **row)
        };
        let value = self.program.metas[store].reads.iter().filter(|row| !address(row));
        let mut rows: Vec<(Width, u32)> = value.copied().collect();
        let mut seen = BTreeSet::new();
        while let Some(row) = rows.pop() {
            if row.0 == Width::Pred || !seen.insert(row) {
                continue;
            }
            for writer in self.flow.writers(row) {
                if self.fused(*writer) {
                    return true;
                }
                let meta = &self.program.metas[*writer];
                if meta.op.effects().memory.is_none() {
                    rows.extend_from_slice(&meta.reads);
                }
            }
        }
        false
    }
}
