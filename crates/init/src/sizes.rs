//! Sizes of a first task: large enough to fill a few blocks, small enough for the software GPU, with tails around
//! sizes that a kernel may be designed for.

use super::explore::Found;

/// Approximate elements of the largest array of the main shape.
const ELEMENTS: u64 = 1 << 15;

/// An axis and its extents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    pub(super) name: String,
    pub(super) main: u64,
    pub(super) tails: Vec<u64>,
    /// The range of the hidden shape, drawn anew for each run.
    pub(super) hidden: (u64, u64),
}

impl Axis {
    /// Extents around some others: only multiples that the kernel supports, and none larger than `most`.
    fn new(name: &str, main: u64, around: &[u64], multiple: u64, most: u64) -> Axis {
        let multiple = multiple.max(1);
        let main = main.next_multiple_of(multiple).min(most);
        let mut tails: Vec<u64> = Vec::new();
        for extent in around.iter().flat_map(|around| [around.saturating_sub(1), around + 1]).chain([1]) {
            let extent = extent.max(1).next_multiple_of(multiple);
            if extent != main && extent <= most && !tails.contains(&extent) {
                tails.push(extent);
            }
        }
        tails.sort_unstable();
        // A range cannot require multiples of a step, so a single extent is used: a drawn one might not fit.
        let hidden = if multiple == 1 { (1, main.saturating_mul(2).min(most)) } else { (main, main) };
        Axis { name: name.to_owned(), main, tails, hidden }
    }
}

/// The extents of every axis. `largest` are the axes of the largest array.
pub(super) fn axes(found: &Found, largest: &[String], threads: u32) -> Vec<Axis> {
    let count = found.axes.len();
    let planes = count > 2 || found.axes.iter().any(|axis| axis.inner && axis.outer);
    let mut mains: Vec<u64> = found
        .axes
        .iter()
        .enumerate()
        .map(|(at, axis)| match (count, planes, axis.inner) {
            (1, false, true) => 4096,
            (1, _, _) => 96,
            (_, true, _) => [96, 80, 64].get(at).copied().unwrap_or(16),
            (_, _, true) => 1024,
            _ => 16,
        })
        .collect();
    let in_largest = |at: usize| found.axes.get(at).is_some_and(|axis| largest.contains(&axis.name));
    loop {
        let inside = (0..count).filter(|at| in_largest(*at));
        let all =
            inside.clone().filter_map(|at| mains.get(at)).fold(1u64, |all, one| all.saturating_mul(*one));
        let longest = inside.max_by_key(|at| mains.get(*at).copied().unwrap_or(0));
        let Some(main) = longest.and_then(|at| mains.get_mut(at)).filter(|_| all > ELEMENTS) else { break };
        *main /= 2;
    }
    let make = |(axis, main): (&super::explore::Axis, u64)| {
        let tile = axis.tile.filter(|tile| *tile > 1);
        let mut around: Vec<u64> = match (planes, axis.inner) {
            (true, _) => vec![tile.unwrap_or(32)],
            (false, true) => vec![32, u64::from(threads)],
            (false, false) => Vec::new(),
        };
        around.extend(tile);
        let mut made = Axis::new(&axis.name, main, &around, axis.multiple, axis.at_most.unwrap_or(u64::MAX));
        // Neither a multiple of a warp nor of a block.
        let odd = 1000u64.next_multiple_of(axis.multiple.max(1));
        if made.main == 1024 && axis.at_most.is_none() && !made.tails.contains(&odd) {
            made.tails.push(odd);
        }
        made
    };
    found.axes.iter().zip(mains).map(make).collect()
}
