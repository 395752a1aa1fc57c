//! The values that chosen source lines compute: which instructions give the result of a line, and what they give in each
//! thread, step by step.

use crate::device::{Device, Launch};
use crate::element::{Bf16, F16};
use crate::isa::Op;
use crate::isa::op::{Bits, Element, MoveShape};
use crate::machine::{LANES, Outcome, Registers, Type, Width, at};
use crate::observe::{Issue, Observer};
use crate::program::Program;
use crate::stop::SourceLine;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How the bits of a value are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A floating-point number of 64, 32 or 16 bits.
    Float(u32),
    /// A bfloat16.
    Bf16,
    /// A signed integer of this many bits.
    Signed(u32),
    /// An unsigned integer of this many bits.
    Unsigned(u32),
    /// Bits without a meaning of their own.
    Bits(u32),
    /// A predicate.
    Predicate,
}

impl Format {
    /// The format of the result of an operation, or of what it stores.
    fn of(op: &Op, width: Width) -> Self {
        let bits = match width {
            Width::Pred => return Self::Predicate,
            Width::W32 => 32,
            Width::W64 => 64,
            Width::W128 => 128,
        };
        let ty = match op {
            Op::Arithmetic(one) if !one.pairs && !one.quads => one.ty,
            Op::Convert(one) if !one.pack => one.to,
            Op::Move(one) if one.shape == MoveShape::Copy => Some(one.ty),
            Op::Load(one) => Some(one.ty),
            Op::Store(one) => Some(one.ty),
            Op::Atomic(one) => Some(one.ty),
            Op::Multiply(one) if one.elements[0] == Element::F32 => Some(Type::F32),
            Op::Select(ty) | Op::Bits(Bits::ShiftLeft(ty) | Bits::ShiftRight(ty)) => Some(*ty),
            _ => None,
        };
        match ty {
            Some(Type::F64) if bits == 64 => Self::Float(64),
            Some(Type::F32 | Type::TF32) if bits == 32 => Self::Float(32),
            Some(Type::F16) if bits == 32 => Self::Float(16),
            Some(Type::BF16) if bits == 32 => Self::Bf16,
            // The result of `mul.wide` has twice the bits of its type.
            Some(Type::S8 | Type::S16 | Type::S32 | Type::S64) => Self::Signed(bits),
            Some(Type::U8 | Type::U16 | Type::U32 | Type::U64) => Self::Unsigned(bits),
            _ => Self::Bits(bits),
        }
    }

    /// The number that some bits stand for.
    #[expect(
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_precision_loss,
        reason = "integers above 2^53 are only compared by their bits"
    )]
    pub fn number(self, bits: u64) -> f64 {
        match self {
            Self::Float(64) => f64::from_bits(bits),
            Self::Float(16) => f64::from(F16::from_bits(bits as u16).to_f32()),
            Self::Float(_) => f64::from(f32::from_bits(bits as u32)),
            Self::Bf16 => f64::from(Bf16::from_bits(bits as u16).to_f32()),
            Self::Signed(64) => bits as i64 as f64,
            Self::Signed(_) => f64::from(bits as u32 as i32),
            Self::Unsigned(_) | Self::Bits(_) | Self::Predicate => bits as f64,
        }
    }

    /// The value as text.
    pub fn shown(self, bits: u64) -> String {
        match self {
            Self::Bits(wide) => {
                format!("{bits:#0width$x}", width = usize::try_from(wide / 4 + 2).unwrap_or(10))
            }
            Self::Predicate => (bits != 0).to_string(),
            Self::Unsigned(_) => bits.to_string(),
            Self::Float(32) => format!("{:?}", f32::from_bits(u32::try_from(bits).unwrap_or(0))),
            _ => format!("{}", self.number(bits)),
        }
    }
}

/// The instruction that gives a line's result, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Its index.
    pub pc: u32,
    /// The rows of the result: what it writes, or what it stores.
    rows: Vec<(Width, u32)>,
    /// Whether it stores them; then they are known before it is executed.
    stores: bool,
    /// How they are read.
    pub format: Format,
    /// Which of the requested lines it belongs to.
    pub line: usize,
}

/// What a line assigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assigned {
    /// Anything: the last result.
    Last,
    /// A variable, which is in a register.
    Variable,
    /// An element of an array, which is in memory unless the compiler keeps the array in registers.
    Element,
}

/// The results of a line: the last one of each stretch of its instructions. A loop that the compiler unrolled has the line
/// several times. `is_at` decides whether an instruction belongs to the line.
pub fn points(
    program: &Program,
    line: usize,
    assigned: Assigned,
    is_at: impl Fn(u32, &[SourceLine]) -> bool,
) -> Vec<Point> {
    let count = u32::try_from(program.metas.len()).unwrap_or(u32::MAX);
    let mine = |pc: u32| is_at(pc, program.source(pc));
    let all = |stores: Option<bool>| {
        let mut runs: Vec<Point> = Vec::new();
        let mut open: Option<Point> = None;
        for pc in 0..=count {
            if pc < count && mine(pc) {
                if let Some(point) =
                    result(program, pc, line).filter(|one| stores.is_none_or(|is| is == one.stores))
                {
                    open = Some(point);
                }
            } else {
                runs.extend(open.take());
            }
        }
        // What the compiler moved in front of a loop, such as an address, has another format.
        let like = runs.last().map(|last| (last.format, last.stores, last.rows.len()));
        runs.retain(|one| Some((one.format, one.stores, one.rows.len())) == like);
        runs
    };
    let (first, second) = match assigned {
        Assigned::Last => (None, None),
        Assigned::Variable => (Some(false), Some(true)),
        Assigned::Element => (Some(true), Some(false)),
    };
    let found = all(first);
    if found.is_empty() && second.is_some() { all(second) } else { found }
}

/// The result of one instruction; `None` for a branch or a barrier.
fn result(program: &Program, pc: u32, line: usize) -> Option<Point> {
    let meta = program.metas.get(at(pc))?;
    let (rows, stores): (Vec<(Width, u32)>, bool) = match &meta.op {
        Op::Store(store) => {
            let rows = program.code.get(at(pc))?.args.all.iter().take(at(store.vector));
            (rows.map(|row| (store.ty.width(), *row)).collect(), true)
        }
        Op::Compare(_)
        | Op::Branch
        | Op::BranchTable
        | Op::Call(_)
        | Op::Return
        | Op::Exit
        | Op::Barrier(_) => {
            return None;
        }
        _ => (meta.writes.to_vec(), false),
    };
    let format = rows.first().map(|(width, _)| Format::of(&meta.op, *width))?;
    Some(Point { pc, rows, stores, format, line })
}

/// A value that a thread computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The requested line, by number.
    pub line: usize,
    /// The block.
    pub block: u32,
    /// The thread in the block.
    pub thread: u32,
    /// How often the thread had executed the line before.
    pub step: u32,
    /// Which of the values of the instruction.
    pub element: u32,
    /// The value.
    pub bits: u64,
    /// How to read it.
    pub format: Format,
}

/// The points by instruction, and room for events.
#[derive(Debug)]
struct Plan {
    points: BTreeMap<u32, Point>,
    room: AtomicU64,
}

/// The observer of one block.
#[derive(Debug)]
struct Watch {
    plan: Arc<Plan>,
    /// By warp: the instruction whose result is not yet known, and its lanes.
    open: BTreeMap<u32, (u32, u32)>,
    steps: BTreeMap<(usize, u32), u32>,
    events: Vec<Event>,
}

impl Watch {
    fn close(&mut self, issue: &Issue<'_>) {
        if let Some((pc, lanes)) = self.open.remove(&issue.warp) {
            self.take(issue, pc, lanes);
        }
    }

    fn take(&mut self, issue: &Issue<'_>, pc: u32, lanes: u32) {
        let plan = self.plan.clone();
        let Some(point) = plan.points.get(&pc) else { return };
        for lane in (0..LANES).filter(|lane| lanes >> lane & 1 == 1) {
            let thread = issue.warp * 32 + u32::try_from(lane).unwrap_or(0);
            let step = self.steps.entry((point.line, thread)).or_default();
            for (element, row) in (0..).zip(&point.rows) {
                let taken =
                    plan.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| room.checked_sub(1));
                let Some(bits) = bits(issue.registers, *row, lane).filter(|_| taken.is_ok()) else { return };
                self.events.push(Event {
                    line: point.line,
                    block: issue.block,
                    thread,
                    step: *step,
                    element,
                    bits,
                    format: point.format,
                });
            }
            *step += 1;
        }
    }
}

fn bits(registers: &Registers, (width, row): (Width, u32), lane: usize) -> Option<u64> {
    match width {
        Width::Pred => registers.preds.get(at(row)).map(|lanes| u64::from(lanes >> lane & 1)),
        Width::W32 => registers.w32.get(at(row)).map(|row| u64::from(row.0[lane])),
        Width::W64 => registers.w64.get(at(row)).map(|row| row.0[lane]),
        Width::W128 => {
            registers.w128.get(at(row)).and_then(|row| u64::try_from(row.0[lane] & u128::from(u64::MAX)).ok())
        }
    }
}

impl Observer for Watch {
    fn issue(&mut self, issue: &Issue<'_>) {
        self.close(issue);
        let stores = self.plan.points.get(&issue.pc).map(|point| point.stores);
        match stores {
            Some(true) => self.take(issue, issue.pc, issue.exec),
            Some(false) => {
                self.open.insert(issue.warp, (issue.pc, issue.exec));
            }
            None => {}
        }
    }

    fn pass(&mut self, issue: &Issue<'_>) {
        self.close(issue);
    }
}

/// The values of a launch.
#[derive(Clone, Debug, Default)]
pub struct Values {
    /// In the order of blocks, and in each block in the order of execution.
    pub events: Vec<Event>,
    /// Whether there were more than the limit.
    pub truncated: bool,
}

impl Device {
    /// Runs a launch and returns the values at these points, at most `limit`.
    pub fn values(&mut self, launch: &Launch, points: &[Point], limit: u64) -> (Outcome, Values) {
        let points = points.iter().map(|point| (point.pc, point.clone())).collect();
        let plan = Arc::new(Plan { points, room: AtomicU64::new(limit) });
        let mut values = Values::default();
        let listen = |_| -> Option<Box<dyn Observer>> {
            let (open, steps) = (BTreeMap::new(), BTreeMap::new());
            Some(Box::new(Watch { plan: plan.clone(), open, steps, events: Vec::new() }))
        };
        let outcome = self.run_observed(launch, &listen, &mut |observer| {
            let any: Box<dyn Any> = observer;
            if let Ok(watch) = any.downcast::<Watch>() {
                values.events.extend(watch.events);
            }
        });
        values.truncated = plan.room.load(Ordering::Relaxed) == 0;
        (outcome, values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    /// Each thread adds its number to a sum three times, and stores it.
    const SUM: &str = "
.version 8.0
.target sm_89
.address_size 64
.visible .entry sum(.param .u64 out)
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .f32 %f<3>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    cvt.rn.f32.u32 %f1, %r1;
    mov.f32 %f2, 0f00000000;
    mov.u32 %r2, 0;
LOOP:
    add.f32 %f2, %f2, %f1;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, 3;
    @%p1 bra LOOP;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    st.global.f32 [%rd3], %f2;
    ret;
}
";

    fn values(wanted: &str, assigned: Assigned, limit: u64) -> Values {
        let mut device = Device::new();
        let out = device.alloc::<f32>(64).unwrap();
        let module = device.load(SUM).unwrap();
        let kernel = module.kernel("sum").unwrap();
        let program = kernel.program();
        let is_at = |pc: u32, _: &[SourceLine]| {
            program.place(pc).is_some_and(|place| place.instruction.starts_with(wanted))
        };
        let points = points(program, 0, assigned, is_at);
        let launch = kernel.launch().grid(2).block(32).arg(out);
        let (outcome, values) = device.values(&launch, &points, limit);
        assert!(outcome.stop.is_none());
        values
    }

    #[test]
    fn every_step_of_every_thread_has_its_value() {
        let all = values("add.f32", Assigned::Variable, 10_000);
        assert_eq!((all.events.len(), all.truncated), (2 * 32 * 3, false));
        for event in &all.events {
            let expected = f64::from(event.thread) * f64::from(event.step + 1);
            assert_eq!(event.format, Format::Float(32));
            assert!((event.format.number(event.bits) - expected).abs() < 1e-9, "{event:?}");
        }
        let stored = values("st.global.f32", Assigned::Element, 10_000).events;
        assert_eq!(stored.len(), 2 * 32);
        let is_sum = |one: &Event| (one.format.number(one.bits) - f64::from(one.thread) * 3.0).abs() < 1e-9;
        assert!(stored.iter().all(is_sum), "{stored:?}");
        // The result of a product of 32-bit numbers has 64 bits.
        let wide = values("mul.wide.u32", Assigned::Last, 10_000).events;
        assert!(wide.iter().all(|one| one.bits == u64::from(one.thread) * 4), "{wide:?}");
        assert!(values("setp.lt.u32", Assigned::Last, 10_000).events.is_empty());
    }

    #[test]
    fn the_limit_is_kept() {
        let some = values("add.f32", Assigned::Variable, 50);
        assert_eq!((some.events.len(), some.truncated), (50, true));
    }

    #[test]
    fn bits_are_read_by_their_format() {
        for (format, bits, shown) in [
            (Format::Float(32), 0x3fc0_0000, "1.5"),
            (Format::Float(16), 0x3e00, "1.5"),
            (Format::Bf16, 0x3fc0, "1.5"),
            (Format::Signed(32), 0xffff_ffff, "-1"),
            (Format::Unsigned(32), 0xffff_ffff, "4294967295"),
            (Format::Float(64), 0x3ff8_0000_0000_0000, "1.5"),
            (Format::Bits(32), 0x1f, "0x0000001f"),
            (Format::Predicate, 1, "true"),
        ] {
            assert_eq!(format.shown(bits), shown, "{format:?}");
        }
    }
}
