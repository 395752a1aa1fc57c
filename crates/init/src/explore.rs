//! Finds a kernel's launch by running it: the extents of its arrays in terms of its integers and its grid, the order
//! of the axes, and how many blocks have work.
//!
//! The kernel runs on trial sizes, and again with each number slightly larger. An extent that follows a number, or a
//! product of numbers, is an axis; a number that moves addresses but bounds nothing is a stride. Unexplained extents
//! are tried again with sizes that are multiples of larger numbers, and with other blocks.

use std::collections::BTreeMap;

use super::Seen;
use super::fit::{self, Blocks, Extent, Row};
use super::names::safe;
use super::parameter::What;
use super::probe::{Prober, Setting, Trace};
use super::traffic::Access;

/// Multiples that a kernel may require of sizes.
const MULTIPLES: [u64; 7] = [1, 4, 8, 16, 32, 64, 128];
/// Trial sizes for kernels that accept any size.
const SIZES: [u64; 10] = [37, 41, 43, 47, 53, 59, 61, 67, 71, 73];
/// A size with many tiles, and smaller ones for kernels with an upper limit.
const FAR: [u64; 6] = [1031, 1024, 512, 256, 128, 64];
/// Axis names for blocks whose number no integer bounds, by the direction of the grid.
const OPEN: [&str; 3] = ["rows", "batch", "planes"];

/// The result of the trial runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Threads of a block.
    pub(super) block: Vec<u32>,
    pub(super) axes: Vec<Axis>,
    /// By parameter.
    pub(super) arrays: Vec<Option<Array>>,
    /// The value of each integer, by parameter.
    pub(super) values: Vec<Option<String>>,
    pub(super) grid: Vec<String>,
    /// Dynamic shared memory, if it had to be found.
    pub(super) shared: Option<String>,
    /// The axis that integers in arrays index.
    pub(super) indices: Option<String>,
    pub(super) questions: Vec<String>,
}

/// An axis of the task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    pub(super) name: String,
    /// Its extents are multiples of this.
    pub(super) multiple: u64,
    /// The largest extent that the kernel supports, if limited.
    pub(super) at_most: Option<u64>,
    /// Whether it is the last axis of some array, and whether it is an earlier one.
    pub(super) inner: bool,
    pub(super) outer: bool,
    /// The part of it that a block processes.
    pub(super) tile: Option<u64>,
}

/// An array as the runs touched it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Array {
    pub(super) dims: Vec<String>,
    pub(super) access: Access,
}

/// A number that was varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variable {
    Integer(usize),
    Grid(usize),
    Indices,
}

/// Finds the launch of a kernel, or returns what could not be explained.
pub fn explore(ptx: &str, symbol: &str, seen: &Seen) -> Result<Found, String> {
    let mut prober =
        Prober::new(ptx, symbol, &seen.parameters, seen.dynamic_shared, seen.geometry.dynamic_shared)?;
    let mut why = String::new();
    for extents in blocks_to_try(seen) {
        prober.set_block(&extents);
        prober.misaligned = false;
        let mut odd = String::new();
        for multiple in MULTIPLES {
            match Attempt::new(seen, multiple).and_then(|attempt| attempt.find(&mut prober, &extents)) {
                Ok(mut found) => {
                    if !prober.misaligned && !odd.is_empty() {
                        any_extent(&mut found, seen, multiple, &odd);
                    }
                    return Ok(found);
                }
                Err(cause) if odd.is_empty() => odd = cause,
                Err(_) => {}
            }
        }
        if why.is_empty() {
            why = odd;
        }
    }
    Err(why)
}

/// Vector accesses need aligned rows. If only results are missing, the user decides whether other sizes are
/// supported: the task includes them, so that a kernel that forgets its tails is found.
fn any_extent(found: &mut Found, seen: &Seen, multiple: u64, odd: &str) {
    for axis in &mut found.axes {
        let own = seen.parameters.iter().find(|one| one.name.to_lowercase() == axis.name);
        axis.multiple = own.map_or(1, |own| own.multiple);
    }
    found.questions.push(format!(
        "does the kernel support only multiples of {multiple}? With other extents a trial run failed: {}. If so, remove them from \
         the shapes",
        odd.replace('\n', " ")
    ));
}

/// The block that source and PTX indicate, and others if they do not require it.
fn blocks_to_try(seen: &Seen) -> Vec<Vec<u32>> {
    let mut all = vec![seen.block.extents.clone()];
    if seen.block.because.is_some() {
        let others: &[&[u32]] = match (seen.geometry.two_dimensional, seen.geometry.bound) {
            (true, None) => &[&[32, 8], &[16, 16], &[32, 32], &[8, 8], &[32, 4]],
            (false, None) => &[&[256], &[128], &[64], &[32], &[512], &[1024]],
            (true, Some(_)) => &[&[32, 8], &[16, 16], &[32, 4], &[64, 4], &[32, 32]],
            (false, Some(_)) => &[],
        };
        let bound = seen.geometry.bound.map(|bound| bound.iter().product::<u32>());
        let fits = |block: &&&[u32]| bound.is_none_or(|bound| block.iter().product::<u32>() == bound);
        all.extend(
            others
                .iter()
                .filter(fits)
                .map(|block| block.to_vec())
                .filter(|block| *block != seen.block.extents),
        );
    }
    all
}

struct Attempt<'a> {
    seen: &'a Seen,
    /// Integer parameters, and the multiples that their values must have.
    integers: Vec<(usize, u64)>,
    base: Setting,
}

/// The variables, their values in each run, and the addresses that each run touched.
struct Evidence {
    variables: Vec<Variable>,
    runs: Vec<Vec<u64>>,
    traces: Vec<Trace>,
    /// Blocks of each run.
    grids: Vec<[u32; 3]>,
    open: [bool; 3],
    /// Blocks of the base run.
    grid: [u32; 3],
    /// Arrays of which every block has its own part, and its size.
    per_block: BTreeMap<usize, u64>,
}

impl<'a> Attempt<'a> {
    fn new(seen: &'a Seen, multiple: u64) -> Result<Attempt<'a>, String> {
        let mut integers = Vec::new();
        let mut values = vec![1; seen.parameters.len()];
        for (at, parameter) in seen.parameters.iter().enumerate() {
            match &parameter.what {
                What::Scalar(dtype) if dtype.is_integer() => {
                    let step = common_multiple(multiple, parameter.multiple);
                    let count = integers.len();
                    let small = SIZES.get(count).copied().unwrap_or(79);
                    let nth = u64::try_from(count).unwrap_or(0);
                    let value = if step == 1 { small } else { step * (37u64.div_ceil(step).max(2) + nth) };
                    if let Some(slot) = values.get_mut(at) {
                        *slot = value;
                    }
                    integers.push((at, step));
                }
                What::Other(ty) => {
                    return Err(format!("`{}` has the unsupported type `{ty}`", parameter.name));
                }
                _ => {}
            }
        }
        Ok(Attempt { seen, integers, base: Setting { values, grid: [1; 3], indices: 7 } })
    }

    /// Maximum blocks tried in one direction: a kernel with work for more accepts any number.
    fn most(&self) -> u32 {
        let directions = self.seen.geometry.grid.iter().filter(|used| **used).count();
        if directions > 1 { 256 } else { 2048 }
    }

    /// Runs with increasing numbers of blocks, until some have no work in each direction that is not `open`. Also
    /// returns the grid.
    fn saturate(
        &self,
        prober: &mut Prober<'_>,
        from: &Setting,
        open: &mut [bool; 3],
        decide: bool,
    ) -> Result<(Trace, [u32; 3]), String> {
        let mut setting = from.clone();
        let mut ran: Option<[u32; 3]> = None;
        loop {
            let trace = match (prober.run(&setting), ran) {
                (Ok(trace), _) => trace,
                // Blocks far beyond the work may stop the kernel; fewer blocks are enough.
                (Err(cause), Some(before)) => {
                    let less = [0, 1, 2].map(|at| before[at].midpoint(setting.grid[at]));
                    if less == before {
                        return Err(cause);
                    }
                    setting.grid = less;
                    continue;
                }
                (Err(cause), None) => return Err(cause),
            };
            ran = Some(setting.grid);
            let short: Vec<usize> = (0..3)
                .filter(|at| {
                    self.seen.geometry.grid[*at] && !open[*at] && trace.useful[*at] >= setting.grid[*at]
                })
                .collect();
            if short.is_empty() {
                return Ok((trace, setting.grid));
            }
            for direction in short {
                if setting.grid[direction] < self.most() {
                    setting.grid[direction] = (setting.grid[direction] * 4).min(self.most());
                } else if decide {
                    open[direction] = true;
                    setting.grid[direction] = 6;
                } else {
                    return Err("cannot determine how many blocks have work".to_owned());
                }
            }
        }
    }

    fn find(&self, prober: &mut Prober<'_>, block: &[u32]) -> Result<Found, String> {
        let evidence = self.gather(prober)?;
        let mut plan = self.explain(&evidence)?;
        plan.found.block = block.to_vec();
        self.far(prober, &evidence, &mut plan)?;
        self.grid(&evidence, &mut plan, block)?;
        Ok(plan.finish(&evidence))
    }

    /// Runs the base and every variation.
    fn gather(&self, prober: &mut Prober<'_>) -> Result<Evidence, String> {
        let mut open = [false; 3];
        let mut start = self.base.clone();
        start.grid = self.seen.geometry.grid.map(|used| if used { 4 } else { 1 });
        let (trace, mut grid) = self.saturate(prober, &start, &mut open, true)?;
        let mut per_block = BTreeMap::new();
        for direction in (0..3).filter(|at| self.seen.geometry.grid[*at] && !open[*at]) {
            let before = grid[direction];
            let mut more = grid;
            more[direction] += 3;
            let larger = prober.run(&Setting { grid: more, ..self.base.clone() })?;
            for (at, (less, more)) in trace.arrays.iter().zip(&larger.arrays).enumerate() {
                if less.end != more.end {
                    per_block.insert(at, less.end / u64::from(before));
                }
            }
            // Only as many blocks as have work, plus one: kernels need not exit early in the others.
            grid[direction] = trace.useful[direction] + 1;
        }
        let base = Setting { grid, ..self.base.clone() };
        let trace = prober.run(&base)?;
        let mut variables: Vec<Variable> =
            self.integers.iter().map(|(at, _)| Variable::Integer(*at)).collect();
        variables.extend((0..3).filter(|at| open[*at]).map(Variable::Grid));
        let indexes = self.seen.parameters.iter().zip(&trace.arrays).any(|(parameter, touched)| {
            let wide =
                matches!(parameter.what, What::Array { dtype, .. } if dtype.is_integer() && dtype.size() > 1);
            wide && touched.access.read && !touched.access.written
        });
        if indexes {
            variables.push(Variable::Indices);
        }
        let value = |setting: &Setting, variable: Variable| match variable {
            Variable::Integer(at) => setting.values.get(at).copied().unwrap_or(1),
            Variable::Grid(at) => u64::from(setting.grid[at]),
            Variable::Indices => setting.indices,
        };
        let all = |setting: &Setting| variables.iter().map(|one| value(setting, *one)).collect::<Vec<u64>>();
        let mut runs = vec![all(&base)];
        let mut traces = vec![trace];
        let mut grids = vec![grid];
        for variable in &variables {
            let mut setting = base.clone();
            match *variable {
                Variable::Integer(at) => setting.values[at] += self.step(at),
                Variable::Grid(at) => setting.grid[at] += 1,
                Variable::Indices => setting.indices = 11,
            }
            runs.push(all(&setting));
            let (trace, grid) = self.saturate(prober, &setting, &mut { open }, false)?;
            traces.push(trace);
            grids.push(grid);
        }
        Ok(Evidence { variables, runs, traces, grids, open, grid, per_block })
    }

    fn step(&self, parameter: usize) -> u64 {
        self.integers.iter().find(|(at, _)| *at == parameter).map_or(1, |(_, step)| *step)
    }

    /// Finds a formula for the extent of each array.
    fn explain(&self, evidence: &Evidence) -> Result<Plan, String> {
        let mut plan = Plan::new(self, evidence);
        let Some(base) = evidence.traces.first() else { return Err("no trial run completed".to_owned()) };
        for (at, parameter) in self.seen.parameters.iter().enumerate() {
            let What::Array { dtype, .. } = parameter.what else { continue };
            let touched: Vec<_> = evidence.traces.iter().filter_map(|trace| trace.arrays.get(at)).collect();
            let Some(first) = touched.first() else { continue };
            let size = u64::try_from(dtype.size()).unwrap_or(1);
            let elements: Vec<u64> = touched.iter().map(|one| one.end.div_ceil(size)).collect();
            if first.access == Access::default() {
                if matches!(parameter.what, What::Array { access, .. } if access != Access::default()) {
                    return Err(format!("the kernel does not access `{}`", parameter.name));
                }
                plan.extents.insert(at, (Extent::Product { variables: Vec::new(), factor: 1 }, Vec::new()));
                plan.accesses.insert(at, Access::default());
                continue;
            }
            plan.accesses.insert(at, first.access);
            if let Some(share) = evidence.per_block.get(&at) {
                plan.per_block.insert(at, share.div_ceil(size).max(1));
                continue;
            }
            let extent = fit::extent(&evidence.runs, &elements).ok_or_else(|| {
                format!(
                    "cannot explain the number of accessed elements of `{}`: {elements:?} in runs {:?}",
                    parameter.name, evidence.runs
                )
            })?;
            // Strided rows may overlap or leave gaps; all other extents leave none.
            let strided = matches!(extent, Extent::Strided { .. });
            if first.access.written && !first.access.read && !strided && first.covered != first.end {
                let (all, written) = (first.end / size, first.covered / size);
                return Err(format!(
                    "`{}` has {all} elements, of which {written} are written",
                    parameter.name
                ));
            }
            // A variable of an outer axis moves fewer addresses when it grows; one that only bounds moves none.
            let moves = |variable: &usize| match evidence.variables.get(*variable) {
                Some(Variable::Integer(_)) => evidence
                    .traces
                    .get(variable + 1)
                    .and_then(|trace| trace.arrays.get(at))
                    .map_or(0, |other| base.arrays.get(at).map_or(0, |own| own.moved(other)) + 1),
                _ => 0,
            };
            let mut order = match &extent {
                Extent::Product { variables, .. } => variables.clone(),
                Extent::Strided { rows, .. } => match &**rows {
                    Extent::Product { variables, .. } => variables.clone(),
                    _ => Vec::new(),
                },
                Extent::Linear { .. } => Vec::new(),
            };
            order.sort_by_key(moves);
            if let Extent::Strided { stride, row, .. } = &extent {
                let same = plan.strides.insert(*stride, *row).is_none_or(|before| before == *row);
                if !same || !matches!(evidence.variables.get(*stride), Some(Variable::Integer(_))) {
                    return Err(format!("cannot determine the stride of `{}`", parameter.name));
                }
            }
            plan.extents.insert(at, (extent, order));
        }
        plan.name_axes(self, evidence)?;
        Ok(plan)
    }

    /// Runs with one axis much larger, each in turn: checks that the formulas still hold, and counts the working
    /// blocks.
    fn far(&self, prober: &mut Prober<'_>, evidence: &Evidence, plan: &mut Plan) -> Result<(), String> {
        let Some(base) = evidence.runs.first() else { return Ok(()) };
        self.idle(prober, evidence, plan)?;
        for at in 0..plan.axes.len() {
            let Some((variable, _)) = plan.axes.get(at).cloned() else { continue };
            let Some(Variable::Integer(parameter)) = evidence.variables.get(variable).copied() else {
                continue;
            };
            let step = self.step(parameter);
            let mut failed = String::new();
            let mut at_most = None;
            for size in FAR {
                let mut run = base.clone();
                run[variable] = size.next_multiple_of(step);
                plan.settle_strides(&mut run);
                let mut setting = Setting { grid: evidence.grid, ..self.base.clone() };
                for (variable, value) in evidence.variables.iter().zip(&run) {
                    if let Variable::Integer(parameter) = variable {
                        setting.values[*parameter] = *value;
                    }
                }
                let mut open = evidence.open;
                let ran = self.saturate(prober, &setting, &mut open, false);
                let held = ran.and_then(|(trace, grid)| {
                    let wrong = plan.extents.iter().find(|(array, (extent, _))| {
                        let size = match self.seen.parameters.get(**array).map(|parameter| &parameter.what) {
                            Some(What::Array { dtype, .. }) => u64::try_from(dtype.size()).unwrap_or(1),
                            _ => 1,
                        };
                        let end = trace.arrays.get(**array).map_or(0, |touched| touched.end.div_ceil(size));
                        trace.arrays.get(**array).is_some_and(|touched| touched.access != Access::default())
                            && end != extent.value(&run)
                    });
                    match wrong {
                        None => Ok((trace, grid)),
                        Some((array, _)) => {
                            let name = self
                                .seen
                                .parameters
                                .get(*array)
                                .map_or("", |parameter| parameter.name.as_str());
                            Err(format!(
                                "cannot determine the extent of `{name}` if an axis is {}",
                                run[variable]
                            ))
                        }
                    }
                });
                match held {
                    Ok((trace, grid)) => {
                        if let Some((_, axis)) = plan.axes.get_mut(at) {
                            axis.at_most = at_most.map(|_: u64| size);
                        }
                        plan.samples.push((run, trace.useful, grid));
                        failed.clear();
                        break;
                    }
                    Err(cause) => {
                        // A size that takes too long is not necessarily unsupported.
                        if !prober.limited {
                            at_most = Some(size);
                        }
                        failed = cause;
                    }
                }
            }
            if !failed.is_empty() {
                return Err(failed);
            }
        }
        for ((run, trace), grid) in evidence.runs.iter().zip(&evidence.traces).zip(&evidence.grids) {
            plan.samples.push((run.clone(), trace.useful, *grid));
        }
        Ok(())
    }

    /// An integer that no extent depends on, even if it is much larger.
    fn idle(&self, prober: &mut Prober<'_>, evidence: &Evidence, plan: &Plan) -> Result<(), String> {
        for (at, variable) in evidence.variables.iter().enumerate() {
            let Variable::Integer(parameter) = *variable else { continue };
            if plan.axis(at).is_some() || plan.strides.contains_key(&at) {
                continue;
            }
            let mut setting = Setting { grid: evidence.grid, ..self.base.clone() };
            setting.values[parameter] = FAR[0].next_multiple_of(self.step(parameter));
            let ends = |trace: &Trace| trace.arrays.iter().map(|array| array.end).collect::<Vec<u64>>();
            let Ok(far) = prober.run(&setting) else { continue };
            if evidence.traces.first().is_some_and(|near| ends(near) != ends(&far)) {
                let name = self.seen.parameters.get(parameter).map_or("", |one| one.name.as_str());
                return Err(format!("what `{name}` bounds"));
            }
        }
        Ok(())
    }

    /// The required number of blocks in each direction.
    fn grid(&self, evidence: &Evidence, plan: &mut Plan, block: &[u32]) -> Result<(), String> {
        let threads: u64 = block.iter().map(|extent| u64::from(*extent)).product();
        let mut likely = vec![1, threads, 2 * threads, 4 * threads, 8 * threads, threads.div_ceil(32)];
        likely.extend(block.iter().map(|extent| u64::from(*extent)));
        let bounds: Vec<usize> = plan
            .axes
            .iter()
            .map(|(variable, _)| *variable)
            .filter(|variable| matches!(evidence.variables.get(*variable), Some(Variable::Integer(_))))
            .collect();
        for direction in 0..3 {
            let text = if !self.seen.geometry.grid[direction] {
                "1".to_owned()
            } else if evidence.open[direction] {
                let own = |(variable, _): &&(usize, Axis)| {
                    evidence.variables.get(*variable) == Some(&Variable::Grid(direction))
                };
                plan.axes.iter().find(own).map_or_else(|| "1".to_owned(), |(_, axis)| axis.name.clone())
            } else {
                let samples: Vec<(Vec<u64>, u64)> = plan
                    .samples
                    .iter()
                    .filter(|(_, useful, grid)| useful[direction] < grid[direction])
                    .map(|(run, useful, _)| (run.clone(), u64::from(useful[direction])))
                    .collect();
                let found = fit::blocks(&samples, &bounds, &likely).filter(|_| !samples.is_empty());
                match found.ok_or_else(|| "cannot determine how many blocks have work".to_owned())? {
                    Blocks::Tiles { variables, tile } => {
                        if let [one] = variables.as_slice()
                            && let Some((_, axis)) = plan.axes.iter_mut().find(|(own, _)| own == one)
                        {
                            axis.tile = Some(tile);
                        }
                        let names: Vec<&str> = variables.iter().filter_map(|one| plan.axis(*one)).collect();
                        let all = if names.is_empty() { "1".to_owned() } else { names.join(" * ") };
                        if tile == 1 { all } else { format!("ceil_div({all}, {tile})") }
                    }
                    Blocks::Plane(sides) => {
                        let side = |(one, tile): (usize, u64)| {
                            format!("ceil_div({}, {tile})", plan.axis(one).unwrap_or("1"))
                        };
                        sides.map(side).join(" * ")
                    }
                }
            };
            plan.found.grid.push(text);
        }
        while plan.found.grid.len() > 1 && plan.found.grid.last().is_some_and(|last| last == "1") {
            plan.found.grid.pop();
        }
        Ok(())
    }
}

fn common_multiple(a: u64, b: u64) -> u64 {
    let (a, b) = (a.max(1), b.max(1));
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).saturating_mul(b)
}

/// The explanation so far.
struct Plan {
    found: Found,
    /// For each array: its extent, and its axes from the outermost on.
    extents: BTreeMap<usize, (Extent, Vec<usize>)>,
    accesses: BTreeMap<usize, Access>,
    per_block: BTreeMap<usize, u64>,
    /// Variables that are strides, and the rows they are strides of.
    strides: BTreeMap<usize, Row>,
    /// Variables that are axes.
    axes: Vec<(usize, Axis)>,
    /// Runs, the number of blocks with work in each direction, and the number launched.
    samples: Vec<(Vec<u64>, [u32; 3], [u32; 3])>,
}

impl Plan {
    fn new(attempt: &Attempt<'_>, _evidence: &Evidence) -> Plan {
        let count = attempt.seen.parameters.len();
        let found = Found { arrays: vec![None; count], values: vec![None; count], ..Found::default() };
        Plan {
            found,
            extents: BTreeMap::new(),
            accesses: BTreeMap::new(),
            per_block: BTreeMap::new(),
            strides: BTreeMap::new(),
            axes: Vec::new(),
            samples: Vec::new(),
        }
    }

    fn axis(&self, variable: usize) -> Option<&str> {
        self.axes.iter().find(|(own, _)| *own == variable).map(|(_, axis)| axis.name.as_str())
    }

    /// Rows are contiguous in a task: strides equal the lengths of their rows.
    fn settle_strides(&self, run: &mut [u64]) {
        for (stride, row) in &self.strides {
            let length = match row {
                Row::Variable(variable) => run.get(*variable).copied().unwrap_or(1),
                Row::Constant(length) => *length,
            };
            if let Some(value) = run.get_mut(*stride) {
                *value = length;
            }
        }
    }

    /// Axes are the variables in extents, in the order of the variables.
    fn name_axes(&mut self, attempt: &Attempt<'_>, evidence: &Evidence) -> Result<(), String> {
        let mut used: Vec<usize> = Vec::new();
        for (extent, order) in self.extents.values() {
            used.extend(order);
            match extent {
                Extent::Linear { variable, .. } | Extent::Strided { row: Row::Variable(variable), .. } => {
                    used.push(*variable);
                }
                _ => {}
            }
        }
        used.sort_unstable();
        used.dedup();
        if let Some(both) = used.iter().find(|variable| self.strides.contains_key(variable)) {
            return Err(format!("variable {both} is both an extent and a stride"));
        }
        let integers = |variable: usize| match evidence.variables.get(variable) {
            Some(Variable::Integer(parameter)) => Some(*parameter),
            _ => None,
        };
        let left: Vec<usize> = (0..evidence.variables.len())
            .filter(|variable| !used.contains(variable) && !self.strides.contains_key(variable))
            .filter_map(integers)
            .collect();
        let opens: Vec<usize> = used
            .iter()
            .copied()
            .filter(|variable| matches!(evidence.variables.get(*variable), Some(Variable::Grid(_))))
            .collect();
        // If nothing depends on one number and nothing bounds the blocks, the number counts the blocks.
        let counts = match (left.as_slice(), opens.as_slice()) {
            ([parameter], [open]) => Some((*parameter, *open)),
            _ => None,
        };
        let arrays: Vec<&str> = attempt
            .seen
            .parameters
            .iter()
            .filter(|one| !matches!(one.what, What::Scalar(_)))
            .map(|one| one.name.as_str())
            .collect();
        for variable in used {
            let wanted = match evidence.variables.get(variable) {
                Some(Variable::Integer(parameter)) => {
                    attempt.seen.parameters.get(*parameter).map(|one| one.name.clone())
                }
                Some(Variable::Grid(direction)) => match counts {
                    Some((parameter, open)) if open == variable => {
                        attempt.seen.parameters.get(parameter).map(|one| one.name.clone())
                    }
                    _ => OPEN.get(*direction).map(|name| (*name).to_owned()),
                },
                _ => Some("entries".to_owned()),
            };
            let wanted = wanted.unwrap_or_default().to_lowercase();
            let taken = self.axes.iter().map(|(_, axis)| axis.name.as_str()).chain(arrays.iter().copied());
            let name = safe(&wanted, taken);
            if let Some(Variable::Indices) = evidence.variables.get(variable) {
                self.found.indices = Some(name.clone());
            }
            let multiple = integers(variable).map_or(1, |parameter| attempt.step(parameter));
            let axis = Axis { name, multiple, at_most: None, inner: false, outer: false, tile: None };
            self.axes.push((variable, axis));
        }
        for (at, variable) in evidence.variables.iter().enumerate() {
            let Variable::Integer(parameter) = variable else { continue };
            let value = match self.strides.get(&at) {
                Some(Row::Variable(row)) => self.axis(*row).map(str::to_owned),
                Some(Row::Constant(length)) => Some(length.to_string()),
                None => match counts {
                    Some((own, open)) if own == *parameter => self.axis(open).map(str::to_owned),
                    _ => self.axis(at).map(str::to_owned),
                },
            };
            if let Some(slot) = self.found.values.get_mut(*parameter) {
                *slot = value;
            }
        }
        Ok(())
    }

    /// Writes the extents in the task's form.
    fn finish(mut self, evidence: &Evidence) -> Found {
        let arrays: Vec<usize> = self.accesses.keys().copied().collect();
        for at in arrays {
            let mut dims: Vec<String> = Vec::new();
            let mut variables: Vec<Option<usize>> = Vec::new();
            if let Some((extent, order)) = self.extents.get(&at) {
                for variable in order {
                    dims.push(self.axis(*variable).unwrap_or("1").to_owned());
                    variables.push(Some(*variable));
                }
                match extent {
                    Extent::Product { factor, .. } if *factor > 1 || dims.is_empty() => {
                        dims.push(factor.to_string());
                        variables.push(None);
                    }
                    Extent::Product { .. } => {}
                    Extent::Linear { variable, factor, more } => {
                        let name = self.axis(*variable).unwrap_or("1");
                        dims.push(match factor {
                            1 => format!("{name} + {more}"),
                            factor => format!("{factor} * {name} + {more}"),
                        });
                        variables.push(Some(*variable));
                    }
                    Extent::Strided { row: Row::Variable(variable), .. } => {
                        dims.push(self.axis(*variable).unwrap_or("1").to_owned());
                        variables.push(Some(*variable));
                    }
                    Extent::Strided { row: Row::Constant(length), .. } => {
                        dims.push(length.to_string());
                        variables.push(None);
                    }
                }
            }
            if let Some(share) = self.per_block.get(&at) {
                dims = vec![self.found.grid.join(" * ")];
                if *share > 1 {
                    dims.push(share.to_string());
                }
            }
            let last = variables.len().saturating_sub(1);
            for (place, variable) in variables.iter().enumerate() {
                let own = self.axes.iter_mut().find(|(one, _)| Some(*one) == *variable);
                if let Some((_, axis)) = own {
                    axis.inner |= place == last;
                    axis.outer |= place != last;
                }
            }
            let access = self.accesses.get(&at).copied().unwrap_or_default();
            if let Some(slot) = self.found.arrays.get_mut(at) {
                *slot = Some(Array { dims, access });
            }
        }
        let shared: Vec<u64> = evidence.traces.iter().map(|trace| trace.shared).collect();
        if shared.iter().any(|bytes| *bytes > 0) {
            let text = match fit::extent(&evidence.runs, &shared) {
                Some(Extent::Product { variables, factor }) => {
                    let names: Option<Vec<&str>> = variables.iter().map(|one| self.axis(*one)).collect();
                    names.map(|names| {
                        [vec![factor.to_string()], names.iter().map(|n| (*n).to_owned()).collect()]
                            .concat()
                            .join(" * ")
                    })
                }
                Some(Extent::Linear { variable, factor, more }) => {
                    self.axis(variable).map(|name| format!("{factor} * {name} + {more}"))
                }
                _ => None,
            };
            if text.is_none() {
                self.found
                    .questions
                    .push("how much dynamic shared memory does the kernel need? The value is a guess".into());
            }
            let most = shared.iter().max().copied().unwrap_or(0);
            self.found.shared = Some(text.unwrap_or_else(|| most.to_string()));
        }
        self.found.axes = self.axes.into_iter().map(|(_, axis)| axis).collect();
        if self.found.axes.is_empty() {
            // A kernel of one size: a task still needs an axis.
            let name = "n".to_owned();
            let axis = Axis { name, multiple: 1, at_most: Some(1), inner: true, outer: false, tile: None };
            self.found.axes.push(axis);
        }
        // In the order of the outputs, from the outermost on; then of the inputs.
        let arrays = self.found.arrays.iter().flatten();
        let written = arrays.clone().filter(|array| array.access.written);
        let order: Vec<&String> = written.chain(arrays).flat_map(|array| &array.dims).collect();
        let place = |axis: &Axis| order.iter().position(|name| **name == axis.name).unwrap_or(usize::MAX);
        self.found.axes.sort_by_key(place);
        self.found
    }
}
