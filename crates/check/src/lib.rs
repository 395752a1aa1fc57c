//! The checks observe a launch on the software GPU and report the bugs of the kernel. Execution does not depend on them.
//!
//! [`CheckLaunch::check`] runs a launch with an observer for each block and returns the findings of all blocks, merged in block
//! order, so the findings do not depend on the number of host threads. Here the threads of a block exchange values through shared memory
//! without a barrier; the results of this run are correct, and the race is found nevertheless:
//!
//! ```
//! use warpproof_check::{CheckLaunch, Class, Settings};
//! use warpproof_sim::Device;
//!
//! let ptx = "
//!     .version 8.7
//!     .target sm_89
//!     .address_size 64
//!     .visible .entry first(.param .u64 out)
//!     {
//!         .shared .align 4 .b8 tile[256];
//!         .reg .b64 %out, %at; .reg .b32 %i, %own, %v;
//!         ld.param.u64 %out, [out];
//!         mov.u32 %i, %tid.x;
//!         mov.u32 %own, tile;
//!         mad.lo.u32 %own, %i, 4, %own;
//!         st.shared.u32 [%own], %i;
//!         ld.shared.u32 %v, [tile];
//!         mul.wide.u32 %at, %i, 4;
//!         add.s64 %out, %out, %at;
//!         st.global.u32 [%out], %v;
//!         ret;
//!     }";
//! let mut device = Device::new();
//! let module = device.load(ptx)?;
//! let out = device.alloc::<u32>(64)?;
//! let launch = module.kernel("first")?.launch().block(64).arg(out);
//! let checked = device.check(&launch, &Settings::default());
//! assert_eq!(device.read(&out)?, [0; 64]);
//! let race = &checked.findings[0];
//! assert_eq!(race.class, Class::SharedRace);
//! assert!(race.places[0].place.instruction.starts_with("ld.shared"), "{race}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`CheckLaunch::check_schedules`] does so in several orders of warps and blocks, and [`CheckLaunch::explore`] in all orders of a
//! small launch. With the feature `serde`, which is on by default, findings serialize.
#![forbid(unsafe_code)]
#![expect(clippy::inline_always, reason = "a loop over lanes is vectorized only where all of it is inlined")]

mod array;
mod assigned;
mod barrier;
mod bulk;
mod bundles;
mod checker;
mod class;
mod clock;
mod cluster;
mod context;
mod copies;
mod dependency;
mod explore;
mod facts;
mod finding;
mod fragment;
mod fused;
mod global;
mod history;
mod init;
mod lanes;
mod lines;
mod mbarrier;
mod mispaired;
mod multiply;
mod operand;
mod output;
mod passing;
mod proxy;
mod race;
mod raw;
mod schedules;
mod settings;
mod shadow;
mod shape;
mod site;
mod taint;
mod tensor;
mod tensor_fences;
mod tensor_loads;
mod tensor_map;
mod touched;
mod undefined;
mod unused;

pub use class::Class;
pub use dependency::Overlap;
pub use explore::{Bounds, Explored};
pub use finding::{Finding, Label, Severity, Thread};

pub use schedules::schedules_needed;
pub use settings::{BufferRole, Check, Dependent, Role, Settings, Source};
pub use touched::{Kind as TouchKind, Touched};

use array::Arrays;
use checker::Checker;
use cluster::Clusters;
use context::Context;
use dependency::{Phases, Waits};
use explore::Log;
use fragment::Fragments;
use global::{Between, Together};
use output::{Outputs, Stores};
use raw::{Raw, RawFindings};
use site::Sites;
use std::any::Any;
use std::sync::{Arc, Mutex};
use unused::Sinks;
use warpproof_sim::machine::{Guide, Outcome};
use warpproof_sim::observe::{Observer, Sight};
use warpproof_sim::stop::{Blame, Stop, StopKind};
use warpproof_sim::{Device, Launch, SharedDevice};

/// The outcome and the findings of a checked launch.
#[derive(Debug)]
pub struct Checked {
    /// The outcome of the execution.
    pub outcome: Outcome,
    /// The findings in the order in which they were found; a stop that the kernel caused comes last.
    pub findings: Vec<Finding>,
    /// Number of distinct findings dropped because of [`Settings::max_findings`].
    pub dropped: u64,
    /// Bytes of shadow state for shared memory: the maximum over all blocks.
    pub shadow: u64,
    /// The bytes of global memory that the launch accessed, if [`Settings::touched`] asks for them.
    pub touched: Option<Touched>,
    /// The part of them that other launches may overlap, if [`Settings::overlap`] asks for it.
    pub overlap: Option<Overlap>,
}

/// The findings without those that another finding explains: a note at the locations of an error, and an uninitialized
/// value whose read is in a race.
fn without_repeats(context: &Context, mut raw_findings: RawFindings) -> Vec<Raw> {
    let racing = |raw: &Raw| {
        matches!(raw.class, Class::SharedRace | Class::GlobalRace | Class::AsyncCopy | Class::Mbarrier)
    };
    let errors = || raw_findings.raws().filter(|raw| raw.severity == Severity::Error);
    let keep: Vec<bool> = raw_findings
        .raws()
        .map(|raw| match raw.class {
            _ if raw.severity == Severity::Note => !errors()
                .any(|error| error.class == raw.class && raw.spots.iter().all(|spot| error.names(spot.pc))),
            Class::Uninitialized => {
                !errors().any(|error| racing(error) && raw.spots.iter().any(|spot| error.names(spot.pc)))
            }
            _ => true,
        })
        .collect();
    raw_findings.retain(&keep);
    raw_findings.into_raw(|pc| {
        // Include the inlined call chain: the same line of a function is another bug in another call.
        let calls: Vec<String> =
            context.program.source(pc).iter().map(|at| format!("{}:{}", at.file, at.line)).collect();
        (!calls.is_empty()).then(|| calls.join(" < "))
    })
}

/// Whether a stop at a barrier may have kept threads from writing what others read.
fn holds_up(kind: StopKind) -> bool {
    matches!(kind, StopKind::Deadlock | StopKind::Barrier)
}

/// The last writers of global memory.
struct Writers {
    between: Between,
    together: Option<Arc<Mutex<Together>>>,
}

impl Writers {
    /// The instruction that wrote a byte last.
    fn last(&mut self, address: u64) -> Option<u32> {
        match &self.together {
            Some(together) => together.lock().ok().and_then(|mut together| together.writer(address)),
            None => self.between.writer(address),
        }
    }
}

/// The same launch under several schedules.
#[derive(Debug)]
pub struct Schedules {
    /// The launch under the device's own schedule, with the findings of all schedules.
    pub checked: Checked,
    /// How many schedules were run.
    pub count: u32,
}

/// Runs launches with checks.
pub trait CheckLaunch {
    /// Runs a launch with checks.
    fn check(&mut self, launch: &Launch, settings: &Settings) -> Checked;

    /// Runs a launch with checks under `count` schedules that start from the same memory, and compares the outputs. Memory is
    /// left as the first run leaves it. `None` runs [`schedules_needed`] and does not compare outputs: kernels that append to
    /// a list depend on the order on purpose.
    fn check_schedules(
        &mut self,
        launch: &Launch,
        settings: &Settings,
        count: Option<u32>,
        seed: u64,
    ) -> Schedules;

    /// Runs a launch with checks in every order of its steps, within the bounds. Memory is left as the first execution leaves
    /// it. `progress` is called for every execution.
    fn explore(
        &mut self,
        launch: &Launch,
        settings: &Settings,
        bounds: Bounds,
        progress: &mut dyn FnMut(u32),
    ) -> Explored;
}

impl CheckLaunch for Device {
    fn check(&mut self, launch: &Launch, settings: &Settings) -> Checked {
        check_keeping(self, launch, settings).0
    }

    fn check_schedules(
        &mut self,
        launch: &Launch,
        settings: &Settings,
        count: Option<u32>,
        seed: u64,
    ) -> Schedules {
        schedules::run(self, launch, settings, count, seed)
    }

    fn explore(
        &mut self,
        launch: &Launch,
        settings: &Settings,
        bounds: Bounds,
        progress: &mut dyn FnMut(u32),
    ) -> Explored {
        explore::explore(self, launch, settings, bounds, progress)
    }
}

/// A launch that runs under several schedules runs alone, because its memory is restored between them.
impl CheckLaunch for &SharedDevice {
    fn check(&mut self, launch: &Launch, settings: &Settings) -> Checked {
        self.with(launch, |device| device.check(launch, settings))
    }

    fn check_schedules(
        &mut self,
        launch: &Launch,
        settings: &Settings,
        count: Option<u32>,
        seed: u64,
    ) -> Schedules {
        let check = |device: &mut Device| device.check_schedules(launch, settings, count, seed);
        if count.unwrap_or_else(|| schedules_needed(launch)) > 1 {
            self.alone(check)
        } else {
            self.with(launch, check)
        }
    }

    fn explore(
        &mut self,
        launch: &Launch,
        settings: &Settings,
        bounds: Bounds,
        progress: &mut dyn FnMut(u32),
    ) -> Explored {
        self.alone(|device| device.explore(launch, settings, bounds, progress))
    }
}

/// As [`CheckLaunch::check`], and also returns the last writers of global memory.
fn check_keeping(device: &mut Device, launch: &Launch, settings: &Settings) -> (Checked, Writers) {
    check_guided(device, launch, settings, None)
}

/// As [`check_keeping`], with an optional guide that orders the steps.
fn check_guided(
    device: &mut Device,
    launch: &Launch,
    settings: &Settings,
    guided: Option<(&mut dyn Guide, &Arc<Log>)>,
) -> (Checked, Writers) {
    let follows = settings.has(Check::Init) || settings.has(Check::Machine);
    let facts = follows.then(|| facts::Facts::of(&launch.program()));
    let entrances = facts
        .as_ref()
        .filter(|_| settings.has(Check::Machine))
        .map(|facts| taint::Entrances::of(device, launch, facts, &settings.allowed));
    let flow = settings.has(Check::Race).then(|| facts::Flow::of(&launch.program()));
    let cluster = launch.cluster_dims();
    let clustered = cluster.iter().product::<u32>() > 1;
    let mut sites = Sites::of(&launch.program());
    // Blocks of a cluster are ordered by more than the barriers of a block.
    let bulk =
        launch.program().metas.iter().any(|meta| {
            matches!(meta.op, warpproof_sim::isa::Op::Bulk(_) | warpproof_sim::isa::Op::Tensor(_))
        });
    sites.barriers_only &= !clustered && !bulk;
    let sinks = flow.as_ref().map_or_else(Sinks::default, |flow| Sinks::of(&launch.program(), flow));
    let meeting_points = lanes::meeting_points(&launch.program());
    let provenance = settings.has(Check::Provenance);
    let fragments = provenance.then(|| Fragments::of(&launch.program(), settings)).flatten();
    let sights = if device.plain {
        vec![Sight::Always; launch.program().metas.len()].into()
    } else {
        context::sights(&launch.program(), &sites, &sinks, &meeting_points, fragments.as_ref())
    };
    let arrays = settings.has(Check::Array).then(|| Arrays::of(&launch.program()));
    let context = Arc::new(Context {
        program: launch.program(),
        bundles: bundles::Bundles::of(&launch.program(), &sites, &sights, arrays.as_ref()),
        sights,
        sites,
        sinks,
        measure: shape::measure(device.level()),
        extent: shape::extent(device.level()),
        arrays,
        fragments,
        meeting_points,
        blocks: launch.blocks(),
        threads: launch.threads(),
        cluster,
        bulk,
        shared: launch.shared_bytes(),
        settings: settings.clone(),
        plain: device.plain,
        replicated: flow.as_ref().and_then(|flow| fused::Replicated::of(&launch.program(), flow)),
        flow,
        facts,
        entrances,
        multiplies: settings.has(Check::Race).then(|| multiply::Registers::of(&launch.program())).flatten(),
    });
    let talk = launch.program().communication.takes_turns() || clustered;
    let clusters = Clusters::default();
    let (guide, log) = guided.map_or((None, None), |(guide, log)| (Some(guide), Some(log.clone())));
    let together = talk.then(|| Arc::new(Mutex::new(Together::new(settings.memory))));
    let mut between = Between::new(settings.memory);
    let mut stores = Stores::new(&settings.buffers);
    let common_stores = talk.then(|| Arc::new(Mutex::new(stores.clone())));
    let mut raw_findings = RawFindings::default();
    let mut shadow = 0;
    let mut touched = settings.touched.then(|| touched::Pages::with_places(settings.overlap.is_some()));
    let waits = talk.then(Waits::default);
    let mut phases = settings.overlap.map(|dependent| Phases::new(dependent == Dependent::Yes, None));
    let listen = |block| -> Option<Box<dyn Observer>> {
        let stores = match &common_stores {
            Some(stores) => Outputs::Together(stores.clone()),
            None => Outputs::Own(Stores::new(&context.settings.buffers)),
        };
        let mut checker = Checker::new(context.clone(), block, together.clone(), stores, &clusters);
        checker.log.clone_from(&log);
        checker.phases =
            context.settings.overlap.map(|dependent| Phases::new(dependent == Dependent::Yes, waits.clone()));
        Some(Box::new(checker))
    };
    let mut collect = |listener: Box<dyn Observer>| {
        let listener: Box<dyn Any> = listener;
        if let Ok(checker) = listener.downcast::<Checker>() {
            let left = checker.finish();
            raw_findings.merge(left.raw_findings);
            shadow = shadow.max(left.shadow);
            if let (Some(all), Some(own)) = (&mut touched, left.touched) {
                all.merge(own);
            }
            if let (Some(all), Some(own)) = (&mut phases, left.phases) {
                all.merge(own);
            }
            left.stores.into_iter().for_each(|own| stores.merge(own));
            if let (Some(mut pages), false) = (left.pages, talk) {
                between.add(&context, &mut raw_findings, left.block, &mut pages);
            }
        }
    };
    let steps: &[bool] = if guide.is_some() { &context.sites.noticed } else { &[] };
    let mut outcome = device.run_guided(launch, steps, guide, &listen, &mut collect);
    let full = between.full() || together.as_ref().is_some_and(|t| t.lock().is_ok_and(|t| t.full()));
    if full && outcome.stop.is_none() {
        let sentence = format!(
            "the checks need more than {} bytes to record the kernel's memory accesses",
            settings.memory
        );
        outcome.stop = Some(Box::new(Stop::general(Blame::Limit, StopKind::Limit, sentence)));
    }
    if outcome.stop.is_none() && settings.has(Check::Output) {
        if let Some(Ok(mut all)) = common_stores.as_ref().map(|stores| stores.lock()) {
            stores = std::mem::take(&mut all);
        }
        output::unwritten(&context, &mut raw_findings, &mut stores);
    }
    if outcome.stop.as_deref().is_some_and(|stop| stop.blame == Blame::Kernel && holds_up(stop.kind)) {
        raw_findings.forget(init::awaited);
    }
    let mut findings: Vec<Finding> =
        without_repeats(&context, raw_findings).into_iter().map(|raw| context.finding(raw)).collect();
    findings.extend(outcome.stop.as_deref().and_then(Finding::of_stop));
    let kept = settings.max_findings.min(findings.len());
    let dropped = u64::try_from(findings.len() - kept).unwrap_or(u64::MAX);
    findings.truncate(kept);
    let touched = touched.map(|pages| pages.touched());
    let overlap = phases.map(|phases| phases.overlap());
    (Checked { outcome, findings, dropped, shadow, touched, overlap }, Writers { between, together })
}
