//! Sizes of a first task: large enough to fill a few blocks, small enough for the software GPU, with tails around what a
//! kernel may have been made for.

use super::traffic::Share;

/// An axis and its extents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    pub(super) name: String,
    pub(super) main: u64,
    pub(super) tails: Vec<u64>,
    /// Drawn anew for each run.
    pub(super) hidden: (u64, u64),
}

impl Axis {
    /// Extents around some others, of which the kernel takes multiples only.
    pub(super) fn new(name: &str, main: u64, around: &[u64], multiple: u64) -> Axis {
        let multiple = multiple.max(1);
        let main = main.next_multiple_of(multiple);
        let mut tails: Vec<u64> = Vec::new();
        for extent in around.iter().flat_map(|around| [around.saturating_sub(1), around + 1]).chain([1]) {
            let extent = extent.max(1).next_multiple_of(multiple);
            if extent != main && !tails.contains(&extent) {
                tails.push(extent);
            }
        }
        tails.sort_unstable();
        // One extent that is a multiple of the step is no range: whether a draw fits is not known beforehand.
        let hidden = if multiple == 1 { (1, main.saturating_mul(2)) } else { (main, main) };
        Axis { name: name.to_owned(), main, tails, hidden }
    }
}

/// Blocks for an extent.
pub(super) fn blocks(share: Share, threads: u32, extent: &str) -> String {
    match share {
        Share::Whole => "1".into(),
        Share::Block | Share::Tile(1) => extent.to_owned(),
        Share::Thread => format!("ceil_div({extent}, {threads})"),
        Share::Tile(tile) => format!("ceil_div({extent}, {})", tile.max(1)),
    }
}
