//! Runs a kernel with and without the fast paths of the software GPU, and compares what it does.

mod choices;
mod kernel;
mod rare;

pub(crate) use choices::Choices;

use kernel::{BUFFER, Kernel};
use std::fmt;
use std::ops::Range;
use warpproof_check::{BufferRole, Check, CheckLaunch, Dependent, Finding, Role, Settings};
use warpproof_count::{CountLaunch, CountSettings, Counters};
use warpproof_sim::schedule::{Blocks, CopyTiming, Order, Schedule};
use warpproof_sim::{Device, Launch, Level, Limits, Outcome, Stop};

/// What a launch may use: enough for every kernel without an endless loop.
const LIMITS: Limits = Limits { instructions: 200_000, stack: 16 * 1024, output: 1 << 16, memory: 1 << 30 };

/// How a kernel is run: the fast device, and the checks.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    kernel: Kernel,
    threads: usize,
    level: Level,
    schedule: Schedule,
    checks: Vec<Check>,
    touched: bool,
    /// Whether scratch memory has no values before the launch.
    empty: bool,
}

impl Trial {
    /// A kernel, and how it is run.
    pub(crate) fn new(choices: &mut Choices<'_>) -> Trial {
        let kernel = Kernel::new(choices);
        let threads = if choices.one_in(4) { 2 } else { 1 };
        let level = if choices.one_in(4) { Level::V3 } else { Level::V4 };
        let order = match choices.below(8) {
            0 => Order::Reverse,
            1 | 2 => Order::Random(choices.below(1 << 20).into()),
            _ => Order::Forward,
        };
        let quantum = choices.of(&[4096, 4096, 4096, 4096, 64, 7, 1]);
        let copies = if choices.one_in(4) { CopyTiming::Early } else { CopyTiming::Late };
        let blocks = if choices.one_in(8) {
            Blocks::Interleaved { seed: choices.below(1 << 20).into(), together: 2, turn: 100 }
        } else {
            Blocks::InOrder
        };
        let checks = match choices.below(10) {
            0 | 1 => Check::ALL.to_vec(),
            2 => vec![choices.of(&Check::ALL)],
            3 => Check::ALL.into_iter().filter(|_| choices.one_in(2)).collect(),
            _ => Check::ALL.into_iter().filter(|check| *check != Check::Machine).collect(),
        };
        let schedule = Schedule { order, quantum, copies, blocks };
        Trial {
            kernel,
            threads,
            level,
            schedule,
            checks,
            touched: choices.one_in(8),
            empty: choices.one_in(5),
        }
    }

    /// The PTX of the kernel.
    pub(crate) fn text(&self) -> &str {
        &self.kernel.text
    }

    /// What the kernel does in a run, what the checks find, and what is counted.
    fn observed(&self, plain: bool) -> Result<[Observed; 3], Box<Stop>> {
        let (mut device, launch, settings) = self.prepared(plain)?;
        let before = memory_of(&device);
        let mut observed = |observe: &dyn Fn(&mut Device) -> Observed| {
            for (address, bytes) in &before {
                device.memory().write(*address, bytes).unwrap_or_default();
            }
            let observed = observe(&mut device);
            Observed { memory: memory_of(&device), ..observed }
        };
        Ok([
            observed(&|device| Observed::of(&device.run(&launch))),
            observed(&|device| {
                let checked = device.check(&launch, &settings);
                let rest =
                    format!("{} dropped, {:?} {:?}", checked.dropped, checked.touched, checked.overlap);
                Observed { findings: checked.findings, rest, ..Observed::of(&checked.outcome) }
            }),
            observed(&|device| {
                let counted = device.count(&launch, &CountSettings::default());
                Observed { counters: Some(Box::new(counted.counters)), ..Observed::of(&counted.outcome) }
            }),
        ])
    }

    fn prepared(&self, plain: bool) -> Result<(Device, Launch, Settings), Box<Stop>> {
        let mut device = Device::new().with_memory(1 << 20).with_threads(self.threads).with_level(self.level);
        device.limits = LIMITS;
        device.schedule = self.schedule;
        device.plain = plain;
        let module = device.load(&self.kernel.text)?;
        let kernel = module.kernel("k")?;
        let mut settings = Settings {
            checks: self.checks.clone(),
            touched: self.touched,
            overlap: self.touched.then_some(Dependent::No),
            ..Settings::default()
        };
        let Kernel { grid, block, shared, .. } = self.kernel;
        let mut launch = kernel.launch().grid(grid).block(block).shared(shared);
        for (name, role) in
            [("in", Role::In), ("out", Role::Out), ("both", Role::InOut), ("scratch", Role::Scratch)]
        {
            let words = if role == Role::Out { self.kernel.threads() } else { BUFFER / 4 };
            let values: Vec<u32> = (0..words).map(|i| i.wrapping_mul(0x9e37_79b1) >> (i % 29)).collect();
            let Ok(buffer) = device.upload(&values) else { continue };
            settings.buffers.push(BufferRole {
                name: name.to_owned(),
                address: buffer.address(),
                element: 4,
                extents: vec![u64::from(words)],
                role,
                initialized: role != Role::Out && !(role == Role::Scratch && self.empty),
            });
            launch = launch.arg(buffer);
        }
        Ok((device, launch.arg(5u32), settings))
    }

    /// Runs the kernel with and without fast paths. An error has what differs.
    pub(crate) fn compare(&self) -> Result<Seen, String> {
        let (fast, plain) = match (self.observed(false), self.observed(true)) {
            (Ok(fast), Ok(plain)) => (fast, plain),
            (Err(fast), Err(plain)) if fast == plain => return Ok(Seen { stopped: true, found: false }),
            (fast, plain) => return Err(format!("load: {:?}, {:?}", fast.err(), plain.err())),
        };
        for (what, (fast, plain)) in ["run", "check", "count"].iter().zip(fast.iter().zip(&plain)) {
            if fast != plain {
                return Err(format!("{what}:\n{}", difference(&fast.to_string(), &plain.to_string())));
            }
        }
        let [ran, checked, _] = fast;
        Ok(Seen { stopped: ran.outcome.contains("stop: Some"), found: !checked.findings.is_empty() })
    }

    /// The same trial of a kernel with fewer lines, of which the same part differs.
    pub(crate) fn reduced(mut self) -> Trial {
        let part =
            |trial: &Trial| trial.compare().err().and_then(|text| Some(text.split_once(':')?.0.to_owned()));
        let wanted = part(&self);
        let mut length = self.kernel.text.lines().count() / 4;
        while length > 0 {
            let lines: Vec<String> = self.kernel.text.lines().map(str::to_owned).collect();
            let mut kept = lines.clone();
            let mut end = lines.len();
            while end > 0 {
                let start = end.saturating_sub(length);
                let mut fewer = kept.clone();
                fewer.drain(start..end);
                let mut trial = self.clone();
                trial.kernel.text = fewer.join("\n") + "\n";
                if wanted.is_some() && part(&trial) == wanted {
                    kept = fewer;
                }
                end = start;
            }
            let found = kept.len() < lines.len();
            self.kernel.text = kept.join("\n") + "\n";
            if !found {
                length /= 2;
            }
        }
        self
    }
}

/// How the kernel is run; its text is in a file.
impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Kernel { grid, block, shared, .. } = &self.kernel;
        let Trial { threads, level, schedule, checks, touched, empty, .. } = self;
        write!(
            f,
            "grid {grid}, block {block:?}, {shared} bytes of shared memory; {threads} threads, {level:?}, {schedule:?}, \
             {checks:?}, touched {touched}, empty {empty}"
        )
    }
}

/// What a launch does.
#[derive(Debug, Default, PartialEq)]
struct Observed {
    outcome: String,
    findings: Vec<Finding>,
    /// Everything else that a check returns.
    rest: String,
    counters: Option<Box<Counters>>,
    memory: Vec<(u64, Vec<u8>)>,
}

impl Observed {
    fn of(outcome: &Outcome) -> Observed {
        Observed { outcome: format!("{outcome:#?}"), ..Observed::default() }
    }
}

impl fmt::Display for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{:#?}\n{}\n{:#?}", self.outcome, self.findings, self.rest, self.counters)?;
        for (address, bytes) in &self.memory {
            for (start, bytes) in (*address..).step_by(32).zip(bytes.chunks(32)) {
                writeln!(f, "{start:#x}: {bytes:02x?}")?;
            }
        }
        Ok(())
    }
}

/// All memory of a device.
fn memory_of(device: &Device) -> Vec<(u64, Vec<u8>)> {
    let allocations = device.heap().allocations().iter();
    allocations.map(|allocation| (allocation.base, allocation.bytes.to_vec())).collect()
}

/// What a kernel of which both runs are the same has done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// Its launch stopped early.
    pub(crate) stopped: bool,
    /// It has findings.
    pub(crate) found: bool,
}

/// The first lines that differ, with the lines before them.
fn difference(fast: &str, plain: &str) -> String {
    let (fast, plain): (Vec<&str>, Vec<&str>) = (fast.lines().collect(), plain.lines().collect());
    let same = fast.iter().zip(&plain).take_while(|(fast, plain)| fast == plain).count();
    let shown = |lines: &[&str], sign: &str, range: Range<usize>| {
        let end = range.end.min(lines.len());
        let shown = lines.get(range.start.min(end)..end).unwrap_or_default().iter();
        shown.fold(String::new(), |text, line| text + sign + " " + line + "\n")
    };
    let end = same + AFTER;
    let before = shown(&fast, "     ", same.saturating_sub(BEFORE)..same);
    format!("{before}{}{}", shown(&fast, "fast ", same..end), shown(&plain, "plain", same..end))
}

/// Lines that are shown before and after the first one that differs.
const BEFORE: usize = 24;
const AFTER: usize = 12;
