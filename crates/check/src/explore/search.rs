//! Chooses which order of the steps to explore next.
//!
//! Dynamic partial-order reduction (Flanagan and Godefroid, POPL 2005): if two steps of an execution are dependent and
//! nothing else orders them, the second is tried before the first. Orders with more preemptions than the bound are
//! skipped; because of the bound, a warp is also tried at the point where the overtaken warp had begun (Coons,
//! Musuvathi and McKinley, OOPSLA 2013).

use super::log::{Log, Mark, dependent, touches};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use warpproof_sim::machine::{Guide, Next, Ready};

/// A warp: block and number.
type Unit = (u32, u32);

/// Maximum number of steps of one execution: the search looks at every pair of them.
const STEPS: usize = 2000;
/// How often all warps that repeat a read may continue if no other warp can run and nothing changes.
const PATIENCE: u32 = 3;

/// How often the machine may look again when no warp seems able to continue: parked lanes may only have to exit.
const LOOKS: u32 = 8;

/// A point at which a warp was chosen to take the next step.
struct Node {
    /// Warps that could take a step.
    ready: Vec<Unit>,
    /// The warp that took it, and the warp that took the previous step.
    chosen: Unit,
    before: Option<Unit>,
    /// Preemptions so far.
    preemptions: u32,
    /// Warps that were tried here, and those still to try.
    done: BTreeSet<Unit>,
    todo: BTreeSet<Unit>,
    marks: Vec<Mark>,
}

impl Node {
    /// Preemptions if this warp takes the step.
    fn with(&self, unit: Unit) -> u32 {
        let preempts = self.before.is_some_and(|before| before != unit && self.ready.contains(&before));
        self.preemptions + u32::from(preempts)
    }

    fn try_too(&mut self, unit: Unit) {
        let units = if self.ready.contains(&unit) { vec![unit] } else { self.ready.clone() };
        self.todo.extend(units.into_iter().filter(|unit| !self.done.contains(unit)));
    }
}

/// What a warp has read since it last wrote.
#[derive(Default)]
struct Asked {
    questions: Vec<(u32, Vec<Mark>)>,
    /// It repeated a read: it reads the same values until one of these locations changes.
    waits: bool,
}

/// The orders that were explored, and those still to explore.
pub(super) struct Search {
    log: Arc<Log>,
    /// By instruction: the kind of an atomic that commutes with others of its kind.
    combines: Vec<Option<u32>>,
    bound: u32,
    nodes: Vec<Node>,
    /// Steps of this execution so far.
    at: usize,
    last: Option<Ready>,
    asked: BTreeMap<Unit, Asked>,
    /// How often all waiting warps were released since memory last changed.
    released: u32,
    /// How often no warp seemed able to continue.
    looks: u32,
    /// Whether any execution was cut short.
    pub(super) cut: bool,
    /// Whether the last execution was cut short.
    pub(super) ended_early: bool,
    /// Number of orders skipped because they exceed the bound on preemptions.
    pub(super) beyond: u64,
    /// Steps of the longest execution.
    pub(super) longest: usize,
}

impl Search {
    pub(super) fn new(log: Arc<Log>, combines: Vec<Option<u32>>, bound: u32) -> Search {
        Search {
            log,
            combines,
            bound,
            nodes: Vec::new(),
            at: 0,
            last: None,
            asked: BTreeMap::new(),
            released: 0,
            looks: 0,
            cut: false,
            ended_early: false,
            beyond: 0,
            longest: 0,
        }
    }

    /// Records what the previous step accessed and wakes the warps that waited for what it wrote.
    fn settle(&mut self) {
        let Some(step) = self.last else { return };
        let marks = self.log.take();
        let unit = (step.block, step.warp);
        if marks.iter().any(Mark::writes) {
            self.released = 0;
            for asked in self.asked.values_mut() {
                if asked.questions.iter().any(|(_, read)| touches(&marks, read)) {
                    *asked = Asked::default();
                }
            }
            self.asked.remove(&unit);
        } else {
            let asked = self.asked.entry(unit).or_default();
            let question = (step.pc, marks.clone());
            if asked.questions.contains(&question) {
                asked.waits = true;
            } else {
                asked.questions.push(question);
            }
        }
        if let Some(node) = self.at.checked_sub(1).and_then(|at| self.nodes.get_mut(at)) {
            node.marks = marks;
        }
    }

    /// Advances to the next order; `false` if all are explored.
    pub(super) fn turn(&mut self) -> bool {
        self.settle();
        self.longest = self.longest.max(self.at);
        self.nodes.truncate(self.at);
        self.look_back();
        (self.at, self.last, self.released, self.looks) = (0, None, 0, 0);
        self.asked.clear();
        while let Some(node) = self.nodes.last_mut() {
            while let Some(unit) = node.todo.pop_first() {
                if !node.done.insert(unit) {
                    continue;
                }
                if node.with(unit) > self.bound {
                    self.beyond += 1;
                    continue;
                }
                node.chosen = unit;
                return true;
            }
            self.nodes.pop();
        }
        false
    }

    /// Finds dependent steps that could have run in the other order.
    fn look_back(&mut self) {
        let units: BTreeSet<Unit> = self.nodes.iter().map(|node| node.chosen).collect();
        let number: BTreeMap<Unit, usize> = units.into_iter().zip(0..).collect();
        let of = |node: &Node| number.get(&node.chosen).copied().unwrap_or(0);
        // For each step, its vector clock: by warp, one more than the index of the last step that happens before it.
        let mut clocks: Vec<Vec<usize>> = Vec::with_capacity(self.nodes.len());
        let mut own: Vec<Vec<usize>> = vec![vec![0; number.len()]; number.len()];
        let mut more: Vec<(usize, Unit)> = Vec::new();
        for (j, step) in self.nodes.iter().enumerate() {
            let unit = of(step);
            let mut clock = own[unit].clone();
            for i in (0..j).rev() {
                let (earlier, other) = (&self.nodes[i], of(&self.nodes[i]));
                if other == unit || clock[other] > i || !dependent(&earlier.marks, &step.marks) {
                    continue;
                }
                more.push((i, step.chosen));
                for (mine, theirs) in clock.iter_mut().zip(&clocks[i]) {
                    *mine = (*mine).max(*theirs);
                }
            }
            clock[unit] = j + 1;
            own[unit].clone_from(&clock);
            clocks.push(clock);
        }
        for (i, unit) in more {
            let overtaken = self.nodes[i].chosen;
            let began =
                self.nodes[..i].iter().rposition(|node| node.chosen != overtaken).map_or(0, |at| at + 1);
            self.nodes[i].try_too(unit);
            self.nodes[began].try_too(unit);
        }
    }
}

impl Guide for Search {
    fn next(&mut self, ready: &[Ready]) -> Next {
        self.settle();
        self.ended_early &= self.at > 0;
        self.last = None;
        if self.at >= STEPS || self.looks > LOOKS {
            (self.cut, self.ended_early) = (true, true);
            return Next::End;
        }
        let unit = |ready: &Ready| (ready.block, ready.warp);
        let waits = |asked: &BTreeMap<Unit, Asked>, ready: &Ready| {
            asked.get(&unit(ready)).is_some_and(|asked| asked.waits)
        };
        let mut able: Vec<Unit> = ready.iter().filter(|one| !waits(&self.asked, one)).map(unit).collect();
        if able.is_empty() {
            if self.released >= PATIENCE {
                self.released = 0;
                self.looks += 1;
                return Next::Look;
            }
            self.released += 1;
            self.asked.clear();
            able = ready.iter().map(unit).collect();
        }
        let previous = self.at.checked_sub(1).and_then(|at| self.nodes.get(at));
        let before = previous.map(|node| node.chosen);
        let preemptions = previous.map_or(0, |node| node.with(node.chosen));
        if self.at == self.nodes.len() {
            let stays = before.filter(|before| able.contains(before));
            let Some(chosen) = stays.or_else(|| able.first().copied()) else { return Next::End };
            let done = BTreeSet::from([chosen]);
            let (todo, marks) = (BTreeSet::new(), Vec::new());
            self.nodes.push(Node { ready: able, chosen, before, preemptions, done, todo, marks });
        }
        let Some(chosen) = self.nodes.get(self.at).map(|node| node.chosen) else { return Next::End };
        let Some(place) = ready.iter().position(|one| unit(one) == chosen) else {
            (self.cut, self.ended_early) = (true, true);
            return Next::End;
        };
        let step = ready[place];
        let combines = self.combines.get(warpproof_sim::machine::at(step.pc)).copied().flatten();
        self.log.begin(step, combines);
        self.last = Some(step);
        self.at += 1;
        Next::Step(place)
    }

    fn looked(&mut self, changed: bool) {
        // If the look changed a warp's state, the recorded steps no longer describe this execution.
        self.cut |= changed;
        self.ended_early |= changed;
    }
}
