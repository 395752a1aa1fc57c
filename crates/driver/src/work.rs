//! Work of streams and graphs: launches, copies, memsets, host functions, events.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use warpproof_check::{
    CheckLaunch, Dependent, Finding, Overlap, Settings as CheckSettings, Severity, Touched,
};
use warpproof_count::{CountLaunch, CountSettings};
use warpproof_model::bound::bounds;
use warpproof_model::{Device, Usage, work};
use warpproof_sim::{Blame, Earlier, GridDependency, Launch, SharedDevice, Stop, StopKind};

use crate::abi::{Answer, Error};
use crate::clock;
use crate::conditional::{Conditional, Kind as Condition, MOST_RUNS};
use crate::dependent::Programmatic;
use crate::driver::{self, Driver, Guard, after_earlier, ended};
use crate::memory::{Kind, Memcpy, Memset};
use crate::order::{Launched, Started};
use crate::report::Origin;
use crate::stream::Target;

/// A requested launch.
#[derive(Clone, Debug)]
pub struct LaunchCall {
    /// The function.
    pub function: u64,
    /// Grid size in blocks.
    pub grid: [u32; 3],
    /// Block size in threads.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// The arguments, in the order in which the kernel declares them.
    pub arguments: Vec<Vec<u8>>,
    /// Whether all blocks must be resident at once.
    pub cooperative: bool,
    /// Blocks in a cluster, if the launch sets them.
    pub cluster: Option<[u32; 3]>,
    /// Whether clusters may have a size that not every device supports, if the launch and not the function decides it.
    pub nonportable: Option<bool>,
    /// How it depends on the launch before it, and others on it.
    pub programmatic: Programmatic,
}

/// A host function with its argument.
#[derive(Clone, Copy, Debug)]
pub struct HostCall {
    /// The function.
    pub function: unsafe extern "C" fn(*mut c_void),
    /// Its argument, as a number.
    pub data: usize,
}

/// A unit of work.
#[derive(Clone, Debug)]
pub enum Work {
    /// No work; only a node in the order.
    Empty,
    /// A launch.
    Launch(LaunchCall),
    /// A copy.
    Copy(Memcpy),
    /// A memset.
    Set(Memset),
    /// A call of a host function.
    Host(HostCall),
    /// Records an event.
    Record(u64),
    /// Waits for an event.
    Wait(u64),
    /// A child graph.
    Child(Vec<Work>),
    /// Allocates the memory that its node reserved.
    Allocate(u64),
    /// Frees memory.
    Free(u64),
    /// Bodies that run depending on a variable.
    Conditional(Box<Conditional>),
    /// Sets variables of conditional nodes, at the start of a graph.
    Assign(Vec<(u64, u32)>),
}

impl Work {
    /// `CUgraphNodeType` of a node with this work.
    pub fn number(&self) -> u32 {
        match self {
            Work::Launch(_) => 0,
            Work::Copy(_) => 1,
            Work::Set(_) => 2,
            Work::Host(_) => 3,
            Work::Child(_) => 4,
            Work::Empty | Work::Assign(_) => 5,
            Work::Wait(_) => 6,
            Work::Record(_) => 7,
            Work::Allocate(_) => 10,
            Work::Free(_) => 11,
            Work::Conditional(_) => 13,
        }
    }

    /// This work with the launch attributes of a node's earlier work: new parameters do not change them.
    #[must_use]
    pub fn with_attributes_of(mut self, earlier: &Work) -> Work {
        if let (Work::Launch(call), Work::Launch(earlier)) = (&mut self, earlier) {
            call.cooperative = earlier.cooperative;
            call.cluster = earlier.cluster;
            call.nonportable = earlier.nonportable;
            call.programmatic = earlier.programmatic;
        }
        self
    }

    /// A name for a node with this work.
    pub fn name(&self) -> &'static str {
        match self {
            Work::Launch(_) => "KERNEL",
            Work::Copy(_) => "MEMCPY",
            Work::Set(_) => "MEMSET",
            Work::Host(_) => "HOST",
            Work::Child(_) => "GRAPH",
            Work::Empty | Work::Assign(_) => "EMPTY",
            Work::Wait(_) => "WAIT_EVENT",
            Work::Record(_) => "EVENT_RECORD",
            Work::Allocate(_) => "MEM_ALLOC",
            Work::Free(_) => "MEM_FREE",
            Work::Conditional(_) => "CONDITIONAL",
        }
    }
}

/// Host functions that the caller must call after it releases the lock.
pub type Calls = Vec<HostCall>;

/// The error of a stop during a launch.
fn failed(stop: &Stop) -> Error {
    match (stop.blame, stop.kind) {
        (Blame::Limit, _) => Error::LAUNCH_TIMEOUT,
        (Blame::Gap, _) => Error::NOT_SUPPORTED,
        (Blame::Bug, _) => Error::UNKNOWN,
        (_, StopKind::Bounds) => Error::ILLEGAL_ADDRESS,
        (_, StopKind::Alignment) => Error::MISALIGNED_ADDRESS,
        (_, StopKind::Deadlock) => Error::LAUNCH_TIMEOUT,
        (_, StopKind::Trap) if stop.sentence.contains("assert") => Error::ASSERT,
        (_, StopKind::Launch) => Error::INVALID_VALUE,
        _ => Error::LAUNCH_FAILED,
    }
}

/// Performs work after earlier work of its stream. The lock is released while a kernel runs.
pub fn perform(driver: Guard, target: Target, work: &Work, started: &Started, calls: &mut Calls) -> Answer {
    step(driver, target, work, started, calls).1
}

fn step(driver: Guard, target: Target, work: &Work, started: &Started, calls: &mut Calls) -> (Guard, Answer) {
    let mut driver = after_earlier(driver, target);
    match work {
        Work::Child(all) => steps(driver, target, all, calls),
        Work::Conditional(node) => conditional(driver, target, node, started, calls),
        Work::Launch(call) => launch(driver, target, call, started),
        work => {
            let attached = matches!(work, Work::Copy(_) | Work::Set(_)) && driver.attach();
            let answer = driver.perform_here(target, work, started, calls);
            if attached {
                driver.detach();
            }
            (driver, answer)
        }
    }
}

/// Performs several units of work.
fn steps(mut driver: Guard, target: Target, all: &[Work], calls: &mut Calls) -> (Guard, Answer) {
    for work in all {
        let answer;
        let started = driver.submitted(target, work);
        (driver, answer) = step(driver, target, work, &started, calls);
        if answer.is_err() {
            return (driver, answer);
        }
    }
    (driver, Ok(()))
}

/// Runs the bodies of a conditional node. After an error no more work runs; a later call returns the error.
fn conditional(
    mut driver: Guard,
    target: Target,
    node: &Conditional,
    started: &Started,
    calls: &mut Calls,
) -> (Guard, Answer) {
    for _ in 0..MOST_RUNS {
        let failed = driver.contexts.get(&target.context).is_none_or(|context| context.error.is_some());
        let body = node.body(driver.condition(node.variable)).filter(|_| !failed);
        let Some(body) = body else { return (driver, Ok(())) };
        let answer;
        (driver, answer) = steps(driver, target, body, calls);
        if answer.is_err() || node.kind != Condition::While {
            return (driver, answer);
        }
    }
    driver
        .report
        .say(&format!("the body of a conditional graph node ran {MOST_RUNS} times, which is the limit"));
    driver.queued_failed(target, Error::LAUNCH_TIMEOUT, started);
    (driver, Err(Error::LAUNCH_TIMEOUT))
}

/// Performs a launch; the lock is released while the kernel runs.
fn launch(mut driver: Guard, target: Target, call: &LaunchCall, started: &Started) -> (Guard, Answer) {
    let hidden;
    (driver, hidden) = driver::hide(driver, target);
    let job = match driver.prepare(target, call, started) {
        Ok(job) => job,
        Err(error) => {
            driver.show(&hidden);
            return (driver, Err(error));
        }
    };
    driver.running.push(target);
    let attached = driver.attach();
    drop(driver);
    // A panic must not leave the kernel among those that run, or others would wait for it forever.
    let done = catch_unwind(AssertUnwindSafe(|| job.execute()));
    let mut driver = driver::driver();
    if let Some(place) = driver.running.iter().position(|other| *other == target) {
        driver.running.swap_remove(place);
    }
    driver.show(&hidden);
    if attached {
        driver.detach();
    }
    ended();
    let answer = match done {
        Ok(done) => driver.complete(target, call, &job, done, started),
        Err(_) => Err(Error::UNKNOWN),
    };
    (driver, answer)
}

/// A launch that is ready to run without the driver.
#[derive(Debug)]
struct Job {
    gpu: SharedDevice,
    model: &'static Device,
    launch: Launch,
    name: String,
    text: Arc<str>,
    usage: Usage,
    /// What is checked; `None` if nothing is.
    checks: Option<CheckSettings>,
    schedules: Option<u32>,
    /// Whether the time is predicted instead of the launch being checked.
    model_clock: bool,
}

/// What a launch gave.
#[derive(Debug)]
struct Done {
    findings: Vec<Finding>,
    stop: Option<Box<Stop>>,
    /// Predicted.
    picoseconds: u64,
    output: Vec<u8>,
    /// The bytes that it accessed, if they were recorded.
    touched: Option<Touched>,
    /// The part that other launches may overlap.
    overlap: Option<Overlap>,
    used: GridDependency,
    /// What it overwrote.
    earlier: Option<Earlier>,
}

impl Job {
    /// Runs the launch, with checks if enabled.
    fn execute(&self) -> Done {
        if self.model_clock {
            // Counting and checking use two different observers; a launch that is timed is not checked.
            let counted = (&self.gpu).count(&self.launch, &CountSettings::default());
            let work = work::of(self.model, &counted.counters, self.usage, None, &mut Vec::new());
            let time = bounds(self.model, &work).map_or(0.0, |bounds| bounds.warm_us());
            #[expect(
                clippy::as_conversions,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the float is rounded to the nearest picosecond"
            )]
            let time = (time * 1e6) as u64;
            return Done {
                findings: Vec::new(),
                stop: counted.outcome.stop,
                picoseconds: clock::LAUNCH_PS + time,
                output: counted.outcome.output,
                touched: None,
                overlap: None,
                used: counted.outcome.dependency,
                earlier: counted.outcome.earlier,
            };
        }
        let (findings, outcome, touched, overlap) = match &self.checks {
            None => (Vec::new(), self.gpu.run(&self.launch), None, None),
            Some(checks) => {
                let checked = (&self.gpu).check_schedules(&self.launch, checks, self.schedules, 0).checked;
                (checked.findings, checked.outcome, checked.touched, checked.overlap)
            }
        };
        let picoseconds = clock::LAUNCH_PS + clock::issue_ps(self.model, outcome.instructions);
        Done {
            findings,
            stop: outcome.stop,
            picoseconds,
            output: outcome.output,
            touched,
            overlap,
            used: outcome.dependency,
            earlier: outcome.earlier,
        }
    }
}

impl Driver {
    /// Adds work to the capture of its stream; returns it if the stream is not capturing.
    pub fn unless_captured(&mut self, target: Target, work: Work) -> Answer<Option<Work>> {
        if let Some(capture) = self.streams.get(&target.stream).and_then(|stream| stream.capture) {
            return self.captured(capture, target.stream, work).map(|()| None);
        }
        if let Some(capture) = self.captured_blocking(target.context).filter(|_| target.legacy) {
            self.invalidate(capture);
            return Err(Error::STREAM_CAPTURE_IMPLICIT);
        }
        Ok(Some(work))
    }

    fn perform_here(&mut self, target: Target, work: &Work, started: &Started, calls: &mut Calls) -> Answer {
        match work {
            // Earlier work is already complete, so there is nothing to wait for. `step` takes the others apart.
            Work::Empty | Work::Wait(_) | Work::Launch(_) | Work::Child(_) | Work::Conditional(_) => {}
            Work::Assign(values) => self.assign(values),
            Work::Copy(copy) => {
                self.check_copy(copy)?;
                let bytes = self.copy(copy)?;
                self.copied(started, copy);
                let model = self.devices[target.device].model;
                let within =
                    copy.from.side != crate::memory::Side::Host && copy.to.side != crate::memory::Side::Host;
                let time = if within { clock::memory_ps(model, bytes) } else { clock::bus_ps(bytes) };
                self.advance(target.device, time);
            }
            Work::Set(set) => {
                self.check_memset(set)?;
                let bytes = self.fill(set)?;
                self.filled(started, set);
                let time = clock::memory_ps(self.devices[target.device].model, bytes) / 2;
                self.advance(target.device, time);
            }
            Work::Host(call) => {
                // The function can inform other threads that earlier work is complete.
                self.order.host_knows(started);
                calls.push(*call);
            }
            Work::Record(event) => {
                let now = self.devices[target.device].clock_ps;
                let event = self.events.get_mut(event).ok_or(Error::INVALID_HANDLE)?;
                event.recorded = Some((target.device, now));
                event.captured = None;
            }
            Work::Allocate(base) => {
                self.allocate_reserved(*base)?;
                self.changed(started, "the allocation", *base);
            }
            Work::Free(base) => {
                self.changed(started, "the free", *base);
                self.end_memory(*base)?;
            }
        }
        Ok(())
    }

    fn advance(&mut self, device: usize, picoseconds: u64) {
        let clock = &mut self.devices[device].clock_ps;
        *clock = clock.saturating_add(picoseconds);
    }

    /// Whether the device accepts a launch; a rejection is returned immediately and does not affect the context.
    pub fn admit(&self, device: usize, call: &LaunchCall) -> Answer {
        let function = self.function(call.function)?;
        let model = self.devices[device].model;
        let threads =
            call.block.iter().try_fold(1u32, |n, t| n.checked_mul(*t)).ok_or(Error::INVALID_VALUE)?;
        let zero = call.grid.contains(&0) || threads == 0;
        if zero
            || call.block[2] > 64
            || call.grid[0] > 0x7fff_ffff
            || call.grid[1] > 65_535
            || call.grid[2] > 65_535
        {
            return Err(Error::INVALID_VALUE);
        }
        if threads > model.capability.max_block_threads.value {
            return Err(Error::INVALID_VALUE);
        }
        let program = function.kernel.program();
        if program.bounds.max_threads.is_some_and(|most| threads > most) {
            return Err(Error::INVALID_VALUE);
        }
        if call.shared > function.max_dynamic {
            return Err(Error::INVALID_VALUE);
        }
        if call.arguments.len() != program.params.len() {
            return Err(Error::INVALID_VALUE);
        }
        self.admit_cluster(device, call)?;
        if call.cooperative {
            let blocks = call.grid.iter().map(|b| u64::from(*b)).product::<u64>();
            if blocks > self.active_blocks(device, call, threads)? {
                return Err(Error::COOPERATIVE_LAUNCH_TOO_LARGE);
            }
        }
        Ok(())
    }

    /// Everything that a launch needs.
    fn prepare(&mut self, target: Target, call: &LaunchCall, started: &Started) -> Answer<Job> {
        self.admit(target.device, call)?;
        let here = self.function_on(call.function, target.device)?;
        let function = self.function(here)?;
        let module = self.module(function.module)?;
        let mut launch = function.kernel.launch().grid(call.grid).block(call.block).shared(call.shared);
        launch = launch.cooperative(call.cooperative);
        if let Some(cluster) = self.cluster(call)? {
            launch = launch.cluster(cluster);
        }
        for argument in &call.arguments {
            launch = launch.arg(argument.clone());
        }
        if let Some((base, size)) = module.constants {
            launch = launch.constants(self.gpu.heap().read(base, size).unwrap_or_default().to_vec());
        }
        let overlaps = self.overlaps(target.device);
        let dependents = &self.order.dependents;
        let dependent = if dependents.knowledge(started).is_some() { Dependent::Yes } else { Dependent::No };
        let hidden = dependents.hidden(started).unwrap_or_default();
        launch = launch.keep_earlier(overlaps).hide(hidden.before_wait, hidden.after_wait);
        let settings = &self.settings;
        let checks = (!settings.checks.is_empty()).then(|| CheckSettings {
            checks: settings.checks.clone(),
            buffers: self.roles(),
            touched: self.compares_streams() || self.has_host_memory() || overlaps && self.compares_copies(),
            overlap: (overlaps && self.compares_copies()).then_some(dependent),
            ..CheckSettings::default()
        });
        // Host memory cannot be restored between schedules, because the program may use it meanwhile: only one schedule then.
        let lent = self.memory.values().any(|allocation| allocation.kind != Kind::Device);
        let job = Job {
            gpu: self.gpu.clone(),
            model: self.devices[target.device].model,
            launch,
            name: function.name.clone(),
            text: module.loaded.linked().text.clone(),
            usage: Usage {
                registers: function.registers(),
                static_shared: function.static_shared(),
                dynamic_shared: call.shared,
                barriers: 1,
            },
            checks,
            schedules: if lent { Some(1) } else { settings.schedules },
            model_clock: settings.model_clock,
        };
        // Memory that others allocate meanwhile stays unwritten.
        self.touched();
        Ok(job)
    }

    /// Whether an endless loop reads memory that the host could write while the kernel runs on a device.
    fn waits_for_host(&self, stop: &Stop) -> bool {
        let shared =
            |address| self.allocation(address).is_some_and(|(_, memory)| memory.kind != Kind::Device);
        stop.kind == StopKind::Deadlock && stop.address.is_some_and(shared)
    }

    /// Records what a launch gave.
    fn complete(
        &mut self,
        target: Target,
        call: &LaunchCall,
        job: &Job,
        done: Done,
        started: &Started,
    ) -> Answer {
        let Done { mut findings, mut stop, picoseconds, output, touched, overlap, used, earlier } = done;
        if let Some(stop) = stop.as_deref_mut().filter(|stop| self.waits_for_host(stop)) {
            findings.retain(|finding| finding.sentence != stop.sentence);
            stop.blame = Blame::Gap;
            stop.kind = StopKind::Unsupported;
            "the kernel waits until the host writes to memory; kernels run to their end before the host continues"
                .clone_into(&mut stop.sentence);
            stop.help = None;
        }
        self.advance(target.device, picoseconds);
        self.report.print(&output);
        let wrong = findings.iter().any(|finding| finding.severity == Severity::Error);
        let freed =
            stop.as_deref().and_then(|stop| stop.address).and_then(|address| self.freed_notes(address));
        let site = started.site();
        let origin = Origin { site, freed };
        self.report.launched(&job.name, &job.text, call, &findings, stop.as_deref(), &origin);
        let kernel = format!("kernel `{}`", job.name);
        if let Some(touched) = touched {
            let event = call.programmatic.event;
            let launched = overlap.map(|overlap| Launched {
                overlap,
                used,
                at_block_start: event.is_some_and(|event| event.at_block_start),
                program: job.launch.program(),
            });
            self.end_launch(started, &kernel, touched, launched);
        }
        self.order.dependents.ended(started, used, earlier);
        if let Some(event) = call.programmatic.event.and_then(|event| self.events.get_mut(&event.event)) {
            event.recorded = Some((target.device, self.devices[target.device].clock_ps));
            event.captured = None;
        }
        let error = match stop {
            Some(stop) => {
                let error = failed(&stop);
                if stop.kind == StopKind::Launch {
                    return Err(error);
                }
                Some(error)
            }
            None => (wrong && self.settings.fail).then_some(Error::LAUNCH_FAILED),
        };
        if let Some(error) = error {
            self.poison(target.context, error);
            self.unread.poisoned(target.context, error.0, &kernel, site);
            if self.settings.blocking {
                return Err(error);
            }
        }
        Ok(())
    }
}
