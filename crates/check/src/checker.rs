//! The observer of one block: forwards each event to the checks that are enabled.

mod quiet;

use super::barrier::BarrierUse;
use super::bulk;
use super::clock::{Fences, Order, Who};
use super::cluster::{Cluster, Clusters, Held};
use super::context::Context;
use super::copies::Copies;
use super::dependency::Phases;
use super::explore::Log;
use super::fragment::Provenance;
use super::global::{GlobalRace, Pages, Together};
use super::init::Init;
use super::lanes::Lanes;
use super::multiply::Multiplies;
use super::operand;
use super::output::{self, Outputs, Stores};
use super::proxy::Proxy;
use super::race::SharedRace;
use super::raw::RawFindings;
use super::settings::Check;
use super::site::Kind;
use super::taint::Taint;
use super::tensor::TensorUse;
use super::tensor_map::Maps;
use super::touched;
use std::sync::{Arc, Mutex};
use warpproof_sim::isa::Op;
use warpproof_sim::isa::op::{Fence, TensorOp};
use warpproof_sim::machine::{Access, CLUSTER_BARRIER, at, lanes_of};
use warpproof_sim::memory::Space;
use warpproof_sim::observe::{
    Arrival, AsyncCopy, BulkCopy, BundleReads, Exchange, GlobalWords, Issue, MapUse, Mbarrier, Moved,
    MultiplyAsync, Observer, SharedAccess, Sight, TensorAction, TensorEvent,
};

/// The observer of one block.
pub(crate) struct Checker {
    context: Arc<Context>,
    block: u32,
    /// The rank of the block in its cluster.
    rank: u32,
    order: Order,
    fences: Fences,
    raw_findings: RawFindings,
    race: Option<Races>,
    init: Option<Init>,
    outputs: Option<Outputs>,
    lanes: Option<Lanes>,
    barrier: Option<BarrierUse>,
    provenance: Option<Provenance>,
    taint: Option<Taint>,
    touched: Option<touched::Pages>,
    /// What may overlap other launches.
    pub(super) phases: Option<Phases>,
    /// Records what each step accesses; set only when an exploration orders the steps.
    pub(super) log: Option<Arc<Log>>,
}

/// Race checks, and asynchronous copies in flight.
struct Races {
    shared: Held,
    global: GlobalRace,
    copies: Copies,
    /// The tensor core, if the kernel has asynchronous multiplications.
    multiplies: Option<Multiplies>,
    /// The async proxy, if the kernel uses it.
    proxy: Option<Proxy>,
    /// Tensor memory, if the kernel uses it.
    tensor: Option<TensorUse>,
    /// Tensor maps that the block has changed.
    maps: Maps,
    /// The stores to global memory of the bulk instruction that is being executed: their sources and rows.
    stored: Vec<(u64, Vec<(u64, u32)>)>,
}

/// The results of a block's observer.
pub(crate) struct Left {
    pub block: u32,
    pub raw_findings: RawFindings,
    pub pages: Option<Pages>,
    /// Bytes of shadow state for shared memory.
    pub shadow: u64,
    pub stores: Option<Stores>,
    pub touched: Option<touched::Pages>,
    pub phases: Option<Phases>,
}

impl Checker {
    pub(crate) fn new(
        context: Arc<Context>,
        block: u32,
        together: Option<Arc<Mutex<Together>>>,
        outputs: Outputs,
        clusters: &Clusters,
    ) -> Checker {
        let order = Order::new(block, context.block_threads());
        // Stores of other blocks are known only to the race check, and the check for uninitialized values needs them.
        let muted = !context.settings.has(Check::Race);
        let needed = context.shares_memory() && context.settings.has(Check::Init);
        let multiplies = context.multiplies.is_some();
        let race = (!muted || needed).then(|| Races {
            shared: clusters.of(&context, block),
            global: GlobalRace::new(&context, together),
            copies: Copies::default(),
            multiplies: (multiplies && !muted).then(Multiplies::default),
            proxy: ((multiplies || context.bulk) && !muted)
                .then(|| Proxy::new(context.shared, context.block_threads())),
            tensor: if muted { None } else { TensorUse::of(&context) },
            maps: Maps::default(),
            stored: Vec::new(),
        });
        let facts = context.facts.as_ref();
        let init = facts
            .filter(|_| context.settings.has(Check::Init))
            .map(|facts| Init::new(&context, facts, race.is_some()));
        let taint =
            facts.zip(context.entrances.as_ref()).map(|(facts, from)| Taint::new(&context, facts, from));
        let outputs = (init.is_some() || context.settings.has(Check::Output)).then_some(outputs);
        let lanes = context.settings.has(Check::Lanes).then(|| Lanes::new(block));
        let provenance = context.fragments.as_ref().map(|_| Provenance::new(block, context.shared));
        let barrier = context.settings.has(Check::Barrier).then(BarrierUse::default);
        let raw_findings = if muted { RawFindings::without_races() } else { RawFindings::default() };
        let places = context.settings.overlap.is_some();
        let touched = context.settings.touched.then(|| touched::Pages::with_places(places));
        Checker {
            rank: context.cluster_rank(block),
            context,
            block,
            order,
            fences: Fences::default(),
            raw_findings,
            race,
            init,
            outputs,
            lanes,
            barrier,
            provenance,
            taint,
            touched,
            phases: None,
            log: None,
        }
    }

    /// Whether it matters which value an access moves, and not only where.
    fn follows_values(&self, pc: u32) -> bool {
        self.taint.is_some()
            || self.log.is_some()
            || self.context.fragments.as_ref().is_some_and(|fragments| fragments.concern(pc))
    }

    /// Whether another lane of the warp makes the same store with the same execution of the instruction: both store the same
    /// bytes to the same place, so their order does not matter.
    fn stores_again(&mut self, copy: &BulkCopy, rows: &[(u64, u32)]) -> bool {
        let Some(race) = self.race.as_mut().filter(|_| copy.to.0 == Space::Global && !copy.reduces) else {
            return false;
        };
        let again = race.stored.iter().any(|(from, known)| *from == copy.from.1 && known == rows);
        if !again {
            race.stored.push((copy.from.1, rows.to_vec()));
        }
        again
    }

    /// A bulk copy, or a row of a tensor copy, as an access to global memory.
    fn global_bulk(&mut self, copy: &BulkCopy) {
        if let Some(touched) = &mut self.touched {
            touched.bulk(copy);
        }
        if let Some(phases) = &mut self.phases {
            phases.bulk(&self.order, copy);
        }
        if let (Some(outputs), (Space::Global, address)) = (&mut self.outputs, copy.to) {
            outputs.bulk(address, copy.bytes);
        }
        if let Some(race) = &mut self.race {
            let findings = self.raw_findings.races();
            race.global.bulk(&self.context, &self.order, findings, self.block, copy);
        }
    }

    pub(crate) fn finish(mut self) -> Left {
        if let Some(race) = &mut self.race {
            race.global.finish(&self.context, self.raw_findings.races());
        }
        let rank = at(self.rank);
        let bytes =
            |race: &mut Races| race.shared.with(|cluster| cluster.windows.get(rank).map(SharedRace::bytes));
        let mut shadow = self.race.as_mut().and_then(bytes).unwrap_or(0);
        if let Some(provenance) = self.provenance.take() {
            shadow += provenance.bytes();
            provenance.finish(&self.context, &mut self.raw_findings);
        }
        if let Some(init) = self.init.take() {
            init.finish(&self.context, self.block, &mut self.raw_findings);
        }
        Left {
            block: self.block,
            raw_findings: self.raw_findings,
            pages: self.race.map(|race| race.global.into_pages()),
            shadow: u64::try_from(shadow).unwrap_or(u64::MAX),
            stores: self.outputs.and_then(Outputs::into_own),
            touched: self.touched,
            phases: self.phases,
        }
    }
}

impl Checker {
    /// Whether no check waits for the next instruction of the warp, whatever it is.
    #[inline]
    fn is_calm(&self, warp: u32) -> bool {
        self.lanes.as_ref().is_none_or(|lanes| lanes.is_calm(warp))
            && self.barrier.as_ref().is_none_or(|barrier| barrier.is_calm(warp))
            && self.race.as_ref().is_none_or(|race| {
                race.multiplies.is_none() && race.tensor.as_ref().is_none_or(|tensor| tensor.is_calm(warp))
            })
    }

    /// Passes an instruction to the checks that follow values.
    #[inline]
    fn values(&mut self, issue: &Issue<'_>) {
        if let (Some(init), Some(facts)) = (&mut self.init, &self.context.facts) {
            init.issue(&self.context, facts, &mut self.raw_findings, issue);
        }
        if let Some(taint) = &mut self.taint
            && let (Some(facts), Some(entrances)) = (&self.context.facts, &self.context.entrances)
        {
            taint.issue(&self.context, facts, entrances, &mut self.raw_findings, issue);
        }
    }
}

impl Observer for Checker {
    fn sights(&self) -> Option<Arc<[Sight]>> {
        self.taint.is_none().then(|| self.context.sights.clone())
    }

    fn is_calm(&self, warp: u32) -> bool {
        self.is_calm(warp) && self.init.as_ref().is_none_or(|init| init.is_calm(warp))
    }

    fn ended(&mut self) {
        if let Some(provenance) = &mut self.provenance {
            provenance.ended(&self.context, &self.raw_findings);
        }
    }

    fn issue(&mut self, issue: &Issue<'_>) {
        self.values(issue);
        if self.context.is_silent(issue.pc) && self.is_calm(issue.warp) {
            return;
        }
        if let Some(lanes) = &mut self.lanes {
            lanes.issue(&self.context, &mut self.raw_findings, issue);
        }
        if let Some(barrier) = &mut self.barrier {
            barrier.issue(&self.context, self.block, &mut self.raw_findings, issue);
        }
        if let Some(provenance) = &mut self.provenance {
            provenance.issue(&self.context, &mut self.raw_findings, issue);
        }
        if let Some(race) = &mut self.race {
            race.global.issue(&self.context, issue);
            race.stored.clear();
            if let Some(multiplies) = &mut race.multiplies {
                multiplies.issue(&self.context, self.block, self.raw_findings.races(), issue);
            }
            if let Some(tensor) = &mut race.tensor {
                tensor.issue(&self.context, self.block, self.raw_findings.races(), issue);
                if let Op::Tensor(TensorOp::Fence { after }) = *self.context.program.op(issue.pc) {
                    let all =
                        |cluster: &mut Cluster| tensor.fence(&self.order, after, &mut cluster.tensor, issue);
                    race.shared.with(all);
                }
            }
            if let (Some(proxy), Op::Fence(Fence::Proxy { shared: true })) =
                (&mut race.proxy, self.context.program.op(issue.pc))
            {
                proxy.fence(issue.warp, issue.exec);
            }
            if let Op::Fence(Fence::Memory { init: true, .. } | Fence::Proxy { shared: true }) =
                self.context.program.op(issue.pc)
            {
                let rank = at(self.rank);
                race.shared.with(|cluster| {
                    if let Some(window) = cluster.windows.get_mut(rank) {
                        window.mbarriers().publish(issue.warp, issue.exec);
                    }
                });
            }
        }
        if let (Some(phases), Op::GridDependency { waits }) =
            (&mut self.phases, self.context.program.op(issue.pc))
        {
            phases.control(&self.order, self.block, (issue.warp, issue.exec), *waits);
        }
        match self.context.sites.get(issue.pc).kind {
            Kind::Fence(scope, sequential) => {
                for lane in lanes_of(issue.exec) {
                    self.fences.fence(&mut self.order, Who::new(issue.warp, lane), scope, sequential);
                }
            }
            Kind::Commit => {
                if let Some(race) = &mut self.race {
                    race.copies.commit(issue.warp, issue.exec);
                }
            }
            Kind::Wait(leaves) => {
                if let Some(race) = &mut self.race {
                    race.copies.wait(issue.warp, issue.exec, issue.pc, leaves);
                }
            }
            _ => {}
        }
    }

    fn pass(&mut self, issue: &Issue<'_>) {
        self.values(issue);
    }

    fn access(&mut self, access: &Access<'_>) {
        if self.reads_input(access) {
            return;
        }
        if let Some(log) = &self.log {
            log.access(access);
        }
        if let Some(provenance) = &mut self.provenance {
            provenance.access(&self.context, &mut self.raw_findings, access);
        }
        if let (Some(touched), Space::Global) = (&mut self.touched, access.space) {
            access.by_use(|access| touched.access(&self.context.sites, access, access.lanes));
        }
        if let (Some(phases), Space::Global) = (&mut self.phases, access.space) {
            access.by_use(|access| phases.access(&self.context.sites, &self.order, access));
        }
        let Checker { context, rank, order, fences, raw_findings, race, init, outputs, taint, .. } = self;
        let rank = at(*rank);
        if let Some(taint) = taint
            && let (Some(facts), Some(entrances)) = (&context.facts, &context.entrances)
        {
            taint.access(context, facts, entrances, raw_findings, access);
        }
        if let (Some(arrays), Space::Shared) = (&context.arrays, access.space) {
            access.by_use(|access| arrays.access(context, raw_findings, access));
        }
        if let (Some(init), Some(facts)) = (init, &context.facts) {
            match race {
                Some(race) if access.space == Space::Shared => race.shared.with(|cluster| {
                    let window = cluster.windows.get(rank);
                    init.access(context, facts, raw_findings, access, window, outputs.as_mut());
                }),
                _ => init.access(context, facts, raw_findings, access, None, outputs.as_mut()),
            }
        }
        if let Some(outputs) = outputs {
            outputs.access(access);
            if context.settings.has(Check::Output) {
                output::inputs(context, raw_findings, access);
            }
        }
        if let (Some(race), false) = (race, access.deferred) {
            let Races { shared, global, copies, proxy, .. } = race;
            let findings = raw_findings.races();
            if let (Some(proxy), Space::Shared) = (proxy, access.space) {
                proxy.access(access);
            }
            access.by_use(|access| match access.space {
                Space::Shared => shared.with(|cluster| {
                    if let Some(window) = cluster.windows.get_mut(rank) {
                        window.access(context, order, fences, findings, copies, access);
                    }
                }),
                Space::Global => global.access(context, order, fences, findings, copies, access),
                _ => {}
            });
        }
    }

    fn shared(&mut self, access: &SharedAccess<'_>) {
        if !self.read_quietly(access) {
            access.widened(|access| self.access(access));
        }
    }

    fn words(&mut self, words: &GlobalWords) {
        let (lowest, end) = words.ends();
        if !(self.may_read_input(words.pc) && self.is_in_input(lowest, end.saturating_sub(4), end)) {
            words.widened(|access| self.access(access));
        }
    }

    fn bundle(&mut self, reads: &BundleReads<'_>) -> bool {
        self.read_bundle(reads)
    }

    fn remote(&mut self, rank: u32, access: &Access<'_>) {
        if let Some(log) = &self.log {
            log.access(access);
        }
        let Checker { context, order, fences, raw_findings, race, init, .. } = self;
        let Some(Races { shared, copies, .. }) = race else { return };
        shared.with(|cluster| {
            if let (Some(init), Some(facts)) = (init, &context.facts) {
                init.remote(facts, access, cluster.windows.get(at(rank)));
            }
            let findings = raw_findings.races();
            cluster.visit(context, order, findings, rank, access);
            let Some(window) = cluster.windows.get_mut(at(rank)) else { return };
            access.by_use(|access| window.access(context, order, fences, findings, copies, access));
        });
    }

    fn arrive(&mut self, arrival: &Arrival) {
        let Arrival { warp, lanes, id, expected, waits, .. } = *arrival;
        if id == CLUSTER_BARRIER {
            let op = self.context.program.op(arrival.pc);
            let relaxed = matches!(op, Op::ClusterBarrier { relaxed: true, .. });
            if let Some(race) = &mut self.race {
                let fences = relaxed.then_some(&self.fences);
                race.shared.with(|cluster| cluster.arrive(&mut self.order, fences, warp, lanes));
            }
            if let Some(log) = &self.log {
                log.arrive(self.block, arrival);
            }
            return;
        }
        if let Some(log) = &self.log {
            log.arrive(self.block, arrival);
        }
        if let Some(provenance) = &mut self.provenance {
            provenance.arrive(&self.context, &mut self.raw_findings, arrival);
        }
        let noted = expected.is_some() || !self.context.sites.barriers_only;
        self.order.arrive(warp, lanes, id, waits, expected.is_some(), noted);
        self.fences.arrive(warp, lanes, id);
        if let Some(init) = &mut self.init {
            init.arrive(arrival);
        }
        if let Some(barrier) = &mut self.barrier {
            barrier.arrive(&self.context, self.block, &mut self.raw_findings, arrival);
        }
    }

    fn cluster_waited(&mut self, warp: u32, lanes: u32, _pc: u32) {
        if let Some(race) = &mut self.race {
            race.shared.with(|cluster| cluster.waited(&mut self.order, warp, lanes));
        }
    }

    fn barrier(&mut self, _block: u32, id: u32) {
        if let Some(proxy) = self.race.as_mut().and_then(|race| race.proxy.as_mut()) {
            proxy.synchronized();
        }
        if id == CLUSTER_BARRIER {
            // Every block of the cluster sees the event.
            if let (Some(race), 0) = (&mut self.race, self.rank) {
                race.shared.with(Cluster::completed);
            }
            return;
        }
        let waiting = self.order.complete(id);
        self.fences.complete(id, waiting.as_deref());
        if let Some(init) = &mut self.init {
            init.complete(id);
        }
        if let Some(barrier) = &mut self.barrier {
            barrier.complete(id);
        }
    }

    fn converge(&mut self, warp: u32, lanes: u32) {
        if let Some(proxy) = self.race.as_mut().and_then(|race| race.proxy.as_mut()) {
            proxy.synchronized();
        }
        self.order.converge(warp, lanes);
        self.fences.converge(warp, lanes);
        if let Some(check) = &mut self.lanes {
            check.converge(warp, lanes);
        }
    }

    fn exchange(&mut self, exchange: &Exchange<'_>) {
        if let (Some(init), Some(facts)) = (&mut self.init, &self.context.facts) {
            init.exchange(facts, exchange);
        }
        if let (Some(taint), Some(facts)) = (&mut self.taint, &self.context.facts) {
            taint.exchange(facts, exchange);
        }
        if let Some(lanes) = &mut self.lanes {
            lanes.exchange(&self.context, &mut self.raw_findings, exchange);
        }
        if let Some(provenance) = &mut self.provenance {
            provenance.exchange(&self.context, &mut self.raw_findings, exchange);
        }
    }

    fn copy_issued(&mut self, copy: &AsyncCopy) {
        if let Some(touched) = &mut self.touched {
            touched.copy(copy);
        }
        if let Some(phases) = &mut self.phases {
            phases.copy(&self.order, copy);
        }
        let rank = at(self.rank);
        let Checker { context, block, order, raw_findings, race, init, outputs, taint, .. } = self;
        if let Some(taint) = taint {
            taint.copy_issued(copy);
        }
        if let Some(init) = init {
            init.copy_issued(copy, outputs.as_mut());
        }
        if let Some(race) = race {
            let findings = raw_findings.races();
            let copies = &race.copies;
            race.shared.with(|cluster| {
                if let Some(window) = cluster.windows.get_mut(rank) {
                    window.copy_issued(context, *block, order, findings, copies, copy);
                }
            });
            race.global.copy_issued(context, order, findings, *block, copy);
            race.copies.issued(copy);
        }
    }

    fn copy_done(&mut self, copy: &AsyncCopy) {
        if let Some(provenance) = &mut self.provenance {
            provenance.copy_done(&self.context, &mut self.raw_findings, copy);
        }
        if let Some(race) = &mut self.race {
            let rank = at(self.rank);
            race.shared.with(|cluster| {
                if let Some(window) = cluster.windows.get_mut(rank) {
                    window.copy_done(&self.order, copy);
                }
            });
            race.global.copy_done(copy);
            race.copies.done(copy);
            if let Some(proxy) = &mut race.proxy {
                proxy.copied(copy);
            }
        }
    }

    fn bulk_issued(&mut self, copy: &BulkCopy) {
        if !copy.tensor && !self.stores_again(copy, &[(copy.to.1, copy.bytes)]) {
            self.global_bulk(copy);
        }
        let Checker { context, block, rank, order, raw_findings, race, init, .. } = self;
        let Some(race) = race else { return };
        // A store of registers has no source in memory.
        let source = bulk::offset_in(*rank, copy.from).filter(|_| copy.from != copy.to);
        if let (Some(from), true, false) = (source, init.is_some(), copy.tensor) {
            let thread = (*block, copy.warp * 32 + copy.lane, copy.pc);
            race.shared.with(|cluster| {
                if let Some(window) = cluster.windows.get(at(*rank)) {
                    operand::copied(context, raw_findings, window, thread, (from, copy.bytes));
                }
            });
        }
        let findings = raw_findings.races();
        if let Some(proxy) = &mut race.proxy {
            if let Some(from) = source {
                proxy.read(context, *block, findings, copy.pc, (&[from], copy.extent));
            }
            if let Some(to) = bulk::offset_in(*rank, copy.to) {
                proxy.overwritten(to, copy.extent);
            }
        }
        let place = (*block, &race.copies);
        race.shared.with(|cluster| cluster.bulk_issued(context, order, findings, place, copy));
    }

    fn tensor_issued(&mut self, copy: &BulkCopy, rows: &[(u64, u32)]) {
        if !self.stores_again(copy, rows) {
            copy.rows(rows).for_each(|row| self.global_bulk(&row));
        }
    }

    fn tensor_map(&mut self, used: &MapUse) {
        if let Some(race) = &mut self.race {
            race.maps.used(self.raw_findings.races(), self.block, used);
        }
    }

    fn bulk_read(&mut self, copy: &BulkCopy) {
        if let Some(race) = &mut self.race {
            race.shared.with(|cluster| cluster.bulk_read(&mut self.order, copy));
        }
    }

    fn bulk_done(&mut self, copy: &BulkCopy) {
        if let Some(race) = &mut self.race {
            race.shared.with(|cluster| cluster.bulk_done(&mut self.order, copy));
        }
    }

    fn bulk_signaled(&mut self, copy: &BulkCopy, completes: bool) {
        if let Some(race) = &mut self.race {
            race.shared.with(|cluster| cluster.bulk_signaled(copy, completes));
        }
    }

    fn bulk_left(&mut self, copy: &BulkCopy) {
        if self.race.is_some() {
            bulk::left(&self.context, self.raw_findings.races(), self.block, copy);
        }
    }

    fn multiply_issued(&mut self, multiply: &MultiplyAsync<'_>) {
        let Checker { context, block, rank, order, raw_findings, race: Some(race), init, .. } = self else {
            return;
        };
        if init.is_some() {
            race.shared.with(|cluster| {
                if let Some(window) = cluster.windows.get(at(*rank)) {
                    operand::multiplied(context, raw_findings, window, *block, multiply);
                }
            });
        }
        let findings = raw_findings.races();
        if let Some(multiplies) = &mut race.multiplies {
            multiplies.issued(multiply);
        }
        if let Some(proxy) = &race.proxy {
            proxy.read(context, *block, findings, multiply.pc, (multiply.pieces, 16));
        }
        let place = (*block, *rank, &race.copies);
        race.shared.with(|cluster| cluster.multiply_issued(context, order, findings, place, multiply));
    }

    fn multiply_done(&mut self, multiply: &MultiplyAsync<'_>) {
        let Some(race) = &mut self.race else { return };
        if let Some(multiplies) = &mut race.multiplies {
            multiplies.done(multiply);
        }
        race.shared.with(|cluster| cluster.multiply_done(&mut self.order, self.rank, multiply.warp));
    }

    fn tensor(&mut self, event: &TensorEvent<'_>) {
        let Checker { context, block, rank, order, raw_findings, race: Some(race), .. } = self else {
            return;
        };
        let findings = raw_findings.races();
        let mut agent = None;
        match event.action {
            TensorAction::ReadByPeer { pieces } => {
                if let Some(proxy) = &race.proxy {
                    proxy.read(context, *block, findings, event.pc, (pieces, 16));
                }
                return;
            }
            TensorAction::Issued { pieces, .. } => {
                if let Some(proxy) = &race.proxy {
                    proxy.read(context, *block, findings, event.pc, (pieces, 16));
                }
                let place = (*block, *rank, &race.copies);
                agent = Some(
                    race.shared.with(|cluster| cluster.tensor_issued(context, order, findings, place, event)),
                );
            }
            TensorAction::Committed => {
                race.shared.with(|cluster| cluster.tensor_committed(order, *rank, event));
            }
            TensorAction::Completed => race.shared.with(|cluster| cluster.tensor_completed(*rank, event)),
            TensorAction::Arrived { .. } => {
                race.shared.with(|cluster| cluster.tensor_arrived(*rank, event));
                if let Some(proxy) = &mut race.proxy {
                    proxy.synchronized();
                }
            }
            _ => {}
        }
        if let Some(tensor) = &mut race.tensor {
            race.shared.with(|cluster| {
                tensor.event(context, order, (*block, *rank, &mut cluster.tensor), findings, event, agent);
            });
        }
    }

    fn mbarrier(&mut self, mbarrier: &Mbarrier) {
        if let Some(log) = &self.log {
            log.mbarrier(self.block, mbarrier);
        }
        if let Some(race) = &mut self.race {
            race.shared.with(|cluster| {
                if let Some(window) = cluster.windows.get_mut(at(mbarrier.rank)) {
                    window.mbarrier(&self.context, (&mut self.order, &self.fences), self.block, mbarrier);
                }
            });
            if let Some(proxy) = &mut race.proxy {
                proxy.synchronized();
            }
        }
    }

    fn moved(&mut self, moved: &Moved) {
        if let (Some(init), Some(facts)) = (&mut self.init, &self.context.facts) {
            init.moved(facts, moved);
        }
        if let (Some(taint), Some(facts)) = (&mut self.taint, &self.context.facts) {
            taint.moved(facts, moved);
        }
    }

    fn framed(&mut self, warp: u32, lanes: u32, frame: std::ops::Range<u32>) {
        if let Some(init) = &mut self.init {
            init.framed(warp, lanes, frame);
        }
    }

    fn allocated(&mut self, address: u64, bytes: u64) {
        if let Some(outputs) = &mut self.outputs {
            outputs.with(|stores| stores.allocated(address, bytes));
        }
    }

    fn exit(&mut self, warp: u32, lanes: u32) {
        self.order.exit(warp, lanes);
        if let (Some(race), true) = (&mut self.race, self.order.ended()) {
            let findings = self.raw_findings.races();
            let place = (self.block, self.rank);
            race.shared.with(|cluster| cluster.ended(&self.context, &self.order, findings, place));
        }
        if let Some(race) = &mut self.race {
            race.global.exit(warp, lanes);
        }
    }
}
