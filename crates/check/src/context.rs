//! What all observers of a launch share: the kernel, the grid and block dimensions, and the settings of the checks.

use super::array::Arrays;
use super::bundles::Bundles;
use super::facts::{Facts, Flow};
use super::finding::{Finding, Label, Thread};
use super::fragment::Fragments;
use super::fused::Replicated;
use super::multiply;
use super::passing::dominates;
use super::raw::Raw;
use super::settings::{BufferRole, Check, Role, Settings};
use super::shadow::UNKNOWN_SITE;
use super::shape::{Extent, Measure};
use super::site::{Kind, Sites};
use super::taint::Entrances;
use super::unused::Sinks;
use std::collections::BTreeSet;
use std::sync::Arc;
use warpproof_sim::isa::Op;
use warpproof_sim::isa::op::{MbarrierOp, TensorOp};
use warpproof_sim::machine::{Access, at};
use warpproof_sim::observe::Sight;
use warpproof_sim::program::Program;

/// What all observers of a launch share.
pub(crate) struct Context {
    pub program: Arc<Program>,
    pub sites: Sites,
    /// The loads whose value may have no effect.
    pub sinks: Sinks,
    /// Computes the shape of an access to shared memory.
    pub measure: Measure,
    /// Computes the lowest and the highest address of an access to global memory.
    pub extent: Extent,
    /// The variable that each access must stay in, if that is checked.
    pub arrays: Option<Arrays>,
    /// How the elements of matrix fragments are followed, if that is checked and the kernel has fragments.
    pub fragments: Option<Fragments>,
    /// By instruction: whether lanes synchronize in it by a member mask.
    pub meeting_points: Vec<bool>,
    /// By instruction: whether only the checks that follow values look at it before it is executed, and whether it has no events.
    pub sights: Arc<[Sight]>,
    /// The bundles that can be checked as one.
    pub bundles: Bundles,
    pub blocks: [u32; 3],
    pub threads: [u32; 3],
    /// Blocks of a cluster in each direction.
    pub cluster: [u32; 3],
    /// Whether the kernel has bulk copies, or work of the tensor core that reads shared memory.
    pub bulk: bool,
    /// Bytes of shared memory per block.
    pub shared: u32,
    pub settings: Settings,
    /// Whether no fast path is used; see [`Device::plain`](warpproof_sim::Device::plain).
    pub plain: bool,
    /// Elements that several threads hold, if the kernel's compiler does that.
    pub replicated: Option<Replicated>,
    /// Which instructions read and write each row, if a check needs it.
    pub flow: Option<Flow>,
    /// How values flow through the instructions, if a check needs it.
    pub facts: Option<Facts>,
    /// Where machine-dependent values enter, if that is checked.
    pub entrances: Option<Entrances>,
    /// The registers of asynchronous multiplications, if the kernel has any and they are checked.
    pub multiplies: Option<multiply::Registers>,
}

/// Set in the number that stands for an asynchronous agent in place of a block; the lowest four bits are the rank of the block
/// that it acts for.
pub(crate) const AGENT: u32 = 1 << 31;

/// By instruction: whether only the checks that follow values look at it before it is executed, and whether it has no events.
pub(crate) fn sights(
    program: &Program,
    sites: &Sites,
    sinks: &Sinks,
    meeting_points: &[bool],
    fragments: Option<&Fragments>,
) -> Arc<[Sight]> {
    let sight = |pc: usize| {
        let number = u32::try_from(pc).unwrap_or(u32::MAX);
        let kind =
            matches!(sites.get(number).kind, Kind::Other | Kind::ReadOnly | Kind::Mbarrier | Kind::Copy);
        let op = !matches!(
            program.op(number),
            Op::Fence(_) | Op::Bulk(_) | Op::GridDependency { .. } | Op::Tensor(TensorOp::Fence { .. })
        );
        let pure = matches!(
            program.op(number),
            Op::Arithmetic(_)
                | Op::Logic(_)
                | Op::Bits(_)
                | Op::Select(_)
                | Op::Move(_)
                | Op::Convert(_)
                | Op::ConvertAddress
                | Op::Compare(_)
                | Op::Test(_)
                | Op::Branch
        );
        let followed = fragments.is_some_and(|fragments| fragments.concern(number));
        let sinks = matches!(sinks.numbers.get(pc), Some(Some(_)));
        match kind && op && !meeting_points[pc] && !sinks && !followed {
            false => Sight::Always,
            true if pure => Sight::UnlessCalmPure,
            true => Sight::UnlessCalm,
        }
    };
    (0..program.metas.len()).map(sight).collect()
}

fn index(linear: u32, [x, y, _]: [u32; 3]) -> [u32; 3] {
    let (x, y) = (x.max(1), y.max(1));
    [linear % x, linear / x % y, linear / x / y]
}

impl Context {
    /// Whether only the checks that follow values look at an instruction before it is executed.
    #[inline]
    pub(crate) fn is_silent(&self, pc: u32) -> bool {
        self.sights.get(at(pc)).is_some_and(|sight| *sight != Sight::Always)
    }

    /// Threads in a block.
    pub(crate) fn block_threads(&self) -> u32 {
        self.threads.iter().fold(1, |n: u32, t| n.saturating_mul(*t))
    }

    /// Blocks in a cluster.
    pub(crate) fn cluster_size(&self) -> u32 {
        self.cluster.iter().product::<u32>().max(1)
    }

    /// Whether threads of other blocks or asynchronous agents access the shared memory of a block.
    pub(crate) fn shares_memory(&self) -> bool {
        self.bulk || self.multiplies.is_some() || self.cluster_size() > 1
    }

    /// The block of a thread, or of the thread for which an asynchronous agent acts; `near` is a block of the cluster.
    pub(crate) fn issuer(&self, block: u32, near: u32) -> u32 {
        if block & AGENT == 0 || self.block_count() > u64::from(AGENT) {
            return block;
        }
        self.cluster_block(near, block & 15)
    }

    fn block_count(&self) -> u64 {
        self.blocks.iter().map(|blocks| u64::from(*blocks)).product()
    }

    /// The rank of a block in its cluster.
    pub(crate) fn cluster_rank(&self, block: u32) -> u32 {
        let inside = index(block, self.blocks);
        let [x, y, z] = [0, 1, 2].map(|axis| inside[axis] % self.cluster[axis].max(1));
        x + self.cluster[0] * (y + self.cluster[1] * z)
    }

    /// The linear index of the block with this rank in the cluster of another one.
    pub(crate) fn cluster_block(&self, other: u32, rank: u32) -> u32 {
        let (at, inside) = (index(other, self.blocks), index(rank, self.cluster));
        let place = |axis: usize| {
            let size = self.cluster[axis].max(1);
            at[axis] / size * size + inside[axis]
        };
        place(0) + self.blocks[0] * (place(1) + self.blocks[1] * place(2))
    }

    /// The thread with this linear index, in the block with this linear index.
    pub(crate) fn thread(&self, block: u32, thread: u32) -> Thread {
        Thread { block: index(block, self.blocks), thread: index(thread, self.threads) }
    }

    /// Whether an address lies in an input; every write to an input is reported as a finding of its own.
    pub(crate) fn is_input(&self, address: u64) -> bool {
        let holds = |buffer: &BufferRole| {
            buffer.role == Role::In && address >= buffer.address && address - buffer.address < buffer.bytes()
        };
        self.settings.has(Check::Output) && self.settings.buffers.iter().any(holds)
    }

    /// Whether accesses to these addresses lie in one input.
    pub(crate) fn in_one_input(&self, lowest: u64, highest: u64) -> bool {
        let holds = |buffer: &BufferRole| {
            buffer.role == Role::In
                && lowest >= buffer.address
                && highest < buffer.address.saturating_add(buffer.bytes())
        };
        self.settings.has(Check::Output) && self.settings.buffers.iter().any(holds)
    }

    /// Whether an access lies in one input; every write to an input is reported as a finding of its own.
    pub(crate) fn all_input(&self, access: &Access<'_>) -> bool {
        let first = access.addresses.0[at(access.lanes.trailing_zeros()) & 31];
        let holds = |buffer: &&BufferRole| {
            buffer.role == Role::In && first >= buffer.address && first - buffer.address < buffer.bytes()
        };
        let input = self.settings.buffers.iter().find(holds).filter(|_| self.settings.has(Check::Output));
        input.is_some_and(|input| {
            let (start, end) = (input.address, input.address.saturating_add(input.bytes()));
            let mut outside = 0;
            for (lane, address) in access.addresses.0.iter().enumerate() {
                outside |= u32::from(*address < start || *address >= end) << lane;
            }
            outside & access.lanes == 0
        })
    }

    /// What an instruction does to memory, as a noun for a report.
    pub(crate) fn verb(&self, pc: u32, wrote: bool) -> &'static str {
        match self.program.op(pc) {
            Op::CopyAsync(_) | Op::Bulk(_) => "copy",
            Op::Mbarrier(mbarrier) if wrote && mbarrier.action == MbarrierOp::Init => "initialization",
            Op::Mbarrier(_) | Op::CopiesArrive => "use",
            Op::Atomic(_) | Op::SurfaceReduce(_) => "atomic",
            _ if wrote => "write",
            _ => "read",
        }
    }

    /// Whether one of two instructions reads an address and the other writes the updated value back, without an atomic:
    /// `x[i] += y`.
    pub(crate) fn modifies(&self, a: u32, b: u32) -> bool {
        // A thread that writes first and reads later waits for the value of another; that is not a change of its own value.
        let reads_first = matches!(self.program.op(a.min(b)), Op::Load(_));
        let writes_last = matches!(self.program.op(a.max(b)), Op::Store(_));
        reads_first
            && writes_last
            && self.program.same_address(a, b)
            && self.flows(a.min(b), a.max(b))
            && dominates(&self.program, a.min(b), a.max(b))
    }

    /// Whether what an instruction writes can reach the operands of a later one, or decides whether that one is
    /// executed. Instructions are taken in program order.
    fn flows(&self, from: u32, to: u32) -> bool {
        let (Some(flow), metas) = (&self.flow, &self.program.metas) else { return false };
        let mut reached = BTreeSet::from([at(from)]);
        while let Some(pc) = reached.pop_first() {
            let Some(meta) = metas.get(pc) else { break };
            if pc != at(from) && (pc == at(to) || meta.op == Op::Branch) {
                return true;
            }
            let readers = meta.writes.iter().flat_map(|row| flow.readers(*row));
            reached.extend(readers.filter(|reader| **reader > pc && **reader <= at(to)));
        }
        false
    }

    /// The source line of an instruction, or its PTX line.
    pub(crate) fn line(&self, pc: u32) -> Option<String> {
        let place = self.program.place(pc)?;
        Some(match place.source.first() {
            Some(line) => format!("{}:{}", line.name(), line.line),
            None => format!("PTX line {}", place.ptx_line),
        })
    }

    /// The shared variable that contains an address.
    pub(crate) fn shared_name(&self, address: u32) -> Option<&str> {
        let holds = |(_, offset, size): &&(String, u32, u32)| {
            address >= *offset && address < offset.saturating_add(*size)
        };
        self.program.shared_variables.iter().find(holds).map(|(name, _, _)| name.as_str())
    }

    /// How a message calls the mbarrier at a shared address.
    pub(crate) fn mbarrier_name(&self, address: u32) -> String {
        let name = self.shared_name(address);
        name.map_or_else(|| format!("at shared address {address:#x}"), |name| format!("`{name}`"))
    }

    /// A finding with its places looked up.
    pub(crate) fn finding(&self, raw: Raw) -> Finding {
        let places = raw.spots.iter().filter(|spot| spot.pc != UNKNOWN_SITE).filter_map(|spot| {
            let place = self.program.place(spot.pc)?;
            let thread = spot.thread.map(|(block, thread)| self.thread(block, thread));
            Some(Label { text: spot.label.clone(), place, thread })
        });
        Finding {
            class: raw.class,
            severity: raw.severity,
            sentence: raw.sentence,
            places: places.collect(),
            notes: raw.notes,
            help: raw.help,
            count: raw.count,
        }
    }
}
