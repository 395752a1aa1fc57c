//! Warp-level synchronization: lanes that exchange values, vote, or execute an instruction together.
//!
//! Decided from the PTX manual's sections on `shfl.sync`, `vote.sync`, `match.sync`, `redux.sync`, `bar.warp.sync` and the
//! matrix instructions. Reported:
//! - a shuffle whose source lane does not take part (exited, nonexistent, not in the mask), if the undefined value
//!   affects something: a stored value, an address, a branch, a vote, a matrix product. The value is followed through
//!   registers (`undefined.rs`); a value that is discarded is not reported;
//! - lanes that a member mask names and that have passed the instruction at which the other lanes wait for them;
//! - two lanes that execute one instruction together, where only one of them names the other in its mask;
//! - an instruction for the whole warp (`mma`, `ldmatrix`, …) that only some lanes execute because others have exited.
//!
//! Not reported on purpose: masks that name exited lanes, which votes, matches and reductions ignore by definition;
//! masks made by `activemask`, which name the lanes that are active and may be intended; out-of-range shuffles, which
//! return a lane's own value. Missed: a value that passes through a call or through memory that no other thread reads;
//! a branch that is not taken because of the value. A lane that is not in its own mask, and lanes that wait for lanes
//! that wait elsewhere, end the launch.

use super::context::Context;
use super::passing::Passing;
use super::raw::{Raw, RawFindings, Spot};
use super::undefined::{Origin, Undefined, Use};
use super::{Class, Severity};
use warpproof_sim::isa::op::Participants;
use warpproof_sim::machine::{Row, at, lanes_of};
use warpproof_sim::observe::{Exchange, Issue};
use warpproof_sim::program::Program;

// Distinguish the findings at one instruction.
const PAST: u32 = 0;
const SOURCE: u32 = 1;
const MASKS: u32 = 2;
const WHOLE_WARP: u32 = 3;

/// Lanes that wait for other lanes of their mask.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    warp: u32,
    pc: u32,
    lanes: u32,
    /// Lanes that have not arrived yet, except those that have arrived at a copy of the instruction.
    need: u32,
}

/// The lanes of a block's warps.
#[derive(Debug)]
pub(crate) struct Lanes {
    block: u32,
    waiting: Vec<Waiting>,
    /// Warps that have waiting lanes, one bit each.
    waits: u32,
    passing: Passing,
    undefined: Undefined,
}

/// By number, the instructions in which lanes meet by a mask, which then is the last operand.
pub(crate) fn meeting_points(program: &Program) -> Vec<bool> {
    program.metas.iter().map(|meta| meta.op.effects().participants == Participants::Members).collect()
}

impl Lanes {
    pub(crate) fn new(block: u32) -> Lanes {
        Lanes {
            block,
            waiting: Vec::new(),
            waits: 0,
            passing: Passing::default(),
            undefined: Undefined::default(),
        }
    }

    /// Whether no lane of the warp waits for others or holds an undefined value.
    #[inline]
    pub(crate) fn is_calm(&self, warp: u32) -> bool {
        self.waits >> (warp & 31) & 1 == 0 && !self.undefined.holds(warp)
    }

    pub(crate) fn issue(&mut self, context: &Context, raw_findings: &mut RawFindings, issue: &Issue<'_>) {
        if self.waits >> (issue.warp & 31) & 1 != 0 {
            self.look_for_past(context, raw_findings, issue);
        }
        if issue.exec != issue.live && context.meeting_points.get(at(issue.pc)).copied().unwrap_or(false) {
            self.wait(context, issue);
        }
        if self.undefined.holds(issue.warp)
            && let Some((origin, used)) = self.undefined.issue(context, issue)
        {
            let key = (Class::Lanes, origin.pc, origin.pc, SOURCE);
            let block = self.block;
            raw_findings.add(key, Severity::Error, || source(context, block, issue, &origin, used));
        }
    }

    /// Part of a warp arrives at an instruction with a member mask.
    fn wait(&mut self, context: &Context, issue: &Issue<'_>) {
        let inst = context.program.code.get(at(issue.pc));
        let masks =
            inst.and_then(|inst| inst.args.all.last()).and_then(|row| issue.registers.w32.get(at(*row)));
        let Some(masks) = masks else { return };
        let need = lanes_of(issue.exec).fold(0, |need, lane| need | masks.0[lane]) & issue.live & !issue.exec;
        let op = context.program.op(issue.pc);
        for waiting in self.waiting.iter_mut().filter(|waiting| waiting.warp == issue.warp) {
            if context.program.op(waiting.pc) == op {
                waiting.need &= !issue.exec;
            }
        }
        if need == 0 {
            return;
        }
        let (warp, pc, lanes) = (issue.warp, issue.pc, issue.exec);
        self.waits |= 1 << (warp & 31);
        match self.waiting.iter_mut().find(|waiting| waiting.warp == warp && waiting.pc == pc) {
            Some(waiting) => {
                waiting.lanes |= lanes;
                waiting.need = (waiting.need | need) & !waiting.lanes;
            }
            None => self.waiting.push(Waiting { warp, pc, lanes, need }),
        }
    }

    fn look_for_past(&mut self, context: &Context, raw_findings: &mut RawFindings, issue: &Issue<'_>) {
        for waiting in self.waiting.iter_mut().filter(|waiting| waiting.warp == issue.warp) {
            if issue.pc != waiting.pc {
                // A lane that executes another instruction no longer waits.
                waiting.lanes &= !issue.exec;
            }
            let late = issue.exec & waiting.need;
            if late == 0 || waiting.lanes == 0 || issue.pc == waiting.pc {
                continue;
            }
            let op = context.program.op(waiting.pc);
            if self.passing.is_past(context, waiting.pc, issue.pc, |other| other == op) {
                waiting.need &= !late;
                let block = self.block;
                let key = (Class::Lanes, waiting.pc, waiting.pc, PAST);
                raw_findings.add(key, Severity::Error, || past(context, block, waiting, issue.pc, late));
            }
        }
        self.settle();
    }

    /// Removes entries whose lanes no longer wait.
    fn settle(&mut self) {
        self.waiting.retain(|waiting| waiting.lanes != 0);
        self.waits = self.waiting.iter().fold(0, |warps, waiting| warps | 1 << (waiting.warp & 31));
    }

    /// Lanes have synchronized: those that waited continue.
    fn met(&mut self, warp: u32, pc: Option<u32>, lanes: u32) {
        if self.waits >> (warp & 31) & 1 == 0 {
            return;
        }
        for waiting in &mut self.waiting {
            if waiting.warp == warp && pc.is_none_or(|pc| waiting.pc == pc) {
                waiting.lanes &= !lanes;
            }
        }
        self.settle();
    }

    pub(crate) fn converge(&mut self, warp: u32, lanes: u32) {
        self.met(warp, None, lanes);
    }

    pub(crate) fn exchange(
        &mut self,
        context: &Context,
        raw_findings: &mut RawFindings,
        exchange: &Exchange<'_>,
    ) {
        self.met(exchange.warp, Some(exchange.pc), exchange.lanes);
        match (exchange.masks, exchange.sources) {
            (masks, Some(sources)) => self.shuffle(context, exchange, masks, sources),
            (Some(masks), None) => self.masks(context, raw_findings, exchange, masks),
            (None, None) => {
                let key = (Class::Lanes, exchange.pc, exchange.pc, WHOLE_WARP);
                let block = self.block;
                raw_findings.add(key, Severity::Error, || whole_warp(context, block, exchange));
            }
        }
    }

    fn shuffle(
        &mut self,
        context: &Context,
        exchange: &Exchange<'_>,
        masks: Option<&Row<u32>>,
        sources: &Row<u32>,
    ) {
        let everyone = exchange.lanes == u32::MAX && masks.is_none_or(|masks| masks.0 == [u32::MAX; 32]);
        if everyone && !self.undefined.holds(exchange.warp) {
            return;
        }
        let members = |lane: usize| masks.map_or(exchange.lanes, |masks| masks.0[lane]);
        let wrong = lanes_of(exchange.lanes)
            .filter(|&lane| at(sources.0[lane]) != lane && members(lane) >> sources.0[lane] & 1 == 0)
            .fold(0u32, |wrong, lane| wrong | 1 << lane);
        self.undefined.shuffle(context, exchange, sources, wrong);
    }

    fn masks(
        &mut self,
        context: &Context,
        raw_findings: &mut RawFindings,
        exchange: &Exchange<'_>,
        masks: &Row<u32>,
    ) {
        let first = masks.0[at(exchange.lanes.trailing_zeros() & 31)];
        if lanes_of(exchange.lanes).all(|lane| masks.0[lane] == first) {
            return;
        }
        for lane in lanes_of(exchange.lanes) {
            let unheard =
                lanes_of(masks.0[lane] & exchange.lanes).find(|&other| masks.0[other] >> lane & 1 == 0);
            let Some(other) = unheard else { continue };
            let key = (Class::Lanes, exchange.pc, exchange.pc, MASKS);
            let block = self.block;
            raw_findings
                .add(key, Severity::Error, || one_sided(context, block, exchange, masks, (lane, other)));
            return;
        }
    }
}

fn number(lane: usize) -> u32 {
    u32::try_from(lane).unwrap_or(0)
}

fn finding(sentence: String, spot: Spot, notes: Vec<String>, help: &str) -> Raw {
    Raw {
        class: Class::Lanes,
        severity: Severity::Error,
        sentence,
        spots: vec![spot],
        notes,
        help: Some(help.to_owned()),
        count: 1,
    }
}

/// A shuffle from a lane that does not take part.
fn source(context: &Context, block: u32, issue: &Issue<'_>, origin: &Origin, used: Use) -> Raw {
    let thread = issue.warp * 32 + origin.lane;
    let state = if !origin.exited {
        "which does not take part in it"
    } else if issue.warp * 32 + origin.source >= context.block_threads() {
        "which does not exist"
    } else {
        "which has passed it or exited"
    };
    let does = match used {
        Use::Memory => "is stored or decides an address",
        Use::Branch => "decides a branch",
        Use::Exchange => "is passed to other lanes",
    };
    let mut notes = Vec::new();
    notes.extend(context.line(issue.pc).map(|line| format!("the value is undefined, and {does} at {line}")));
    if let Some(mask) = origin.mask {
        notes.push(format!("lanes {mask:#010x} take part in the shuffle"));
    }
    let sentence = format!(
        "{} shuffles from lane {} of its warp, {state}",
        context.thread(block, thread),
        origin.source
    );
    let spot = Spot { label: "the shuffle".to_owned(), pc: origin.pc, thread: Some((block, thread)) };
    let help =
        "execute the shuffle in the source lane too and name that lane in the mask, or do not use the value";
    finding(sentence, spot, notes, help)
}

/// Lanes of the mask have passed the instruction.
fn past(context: &Context, block: u32, waiting: &Waiting, now: u32, late: u32) -> Raw {
    let name = context.program.opcode(at(waiting.pc));
    let thread = waiting.warp * 32 + late.trailing_zeros().min(31);
    let sentence =
        format!("the mask of {name} names {}, which does not execute it", context.thread(block, thread));
    let lanes = waiting.lanes;
    let spot = Spot {
        label: format!("lanes {lanes:#010x} wait here"),
        pc: waiting.pc,
        thread: Some((block, waiting.warp * 32 + lanes.trailing_zeros().min(31))),
    };
    let mut notes = Vec::new();
    notes.extend(context.line(now).map(|line| format!("lanes {late:#010x} are past it, at {line}")));
    finding(
        sentence,
        spot,
        notes,
        "execute it in all lanes of the mask, or name only the lanes that execute it",
    )
}

/// One lane names another that does not name it.
fn one_sided(
    context: &Context,
    block: u32,
    exchange: &Exchange<'_>,
    masks: &Row<u32>,
    (lane, other): (usize, usize),
) -> Raw {
    let thread = |lane: usize| exchange.warp * 32 + number(lane);
    let sentence = format!(
        "lanes pass different member masks to {}: {} names lane {other}, which does not name it in return",
        context.program.opcode(at(exchange.pc)),
        context.thread(block, thread(lane)),
    );
    let spot = Spot {
        label: "the masks differ here".to_owned(),
        pc: exchange.pc,
        thread: Some((block, thread(lane))),
    };
    let notes = vec![
        format!("lane {lane} passes {:#010x}", masks.0[lane]),
        format!("lane {other} passes {:#010x}", masks.0[other]),
    ];
    finding(sentence, spot, notes, "pass the same mask in every lane of a group")
}

/// An instruction for the whole warp, executed by a part of it.
fn whole_warp(context: &Context, block: u32, exchange: &Exchange<'_>) -> Raw {
    let name = context.program.opcode(at(exchange.pc));
    let short = name.until_aligned();
    let sentence = format!(
        "{short} is executed by lanes {:#010x} only; all lanes of the warp must execute it",
        exchange.lanes
    );
    let thread = exchange.warp * 32 + exchange.lanes.trailing_zeros().min(31);
    let spot = Spot { label: "here".to_owned(), pc: exchange.pc, thread: Some((block, thread)) };
    let there = context.block_threads().saturating_sub(exchange.warp * 32).min(32);
    let never = if there >= 32 { 0 } else { u32::MAX << there };
    let mut notes = Vec::new();
    if exchange.exited & !never != 0 {
        notes.push(format!("lanes {:#010x} have exited", exchange.exited & !never));
    }
    if never != 0 {
        notes.push(format!(
            "lanes {never:#010x} do not exist: the block has {} threads",
            context.block_threads()
        ));
    }
    finding(sentence, spot, notes, "move it out of the branch, or let whole warps take the branch")
}
