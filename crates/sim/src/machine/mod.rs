//! The machine: grid, block, warp, lane.

mod access;
mod atomics;
mod block;
mod calls;
mod copies;
mod deadlock;
mod fault;
mod footprint;
mod fragment;
mod grid;
mod guided;
mod mbarrier;
mod meeting;
mod registers;
mod residency;
mod spin;
mod turns;
mod used;
mod warp;

pub use access::{Access, AccessKind, lanes_of};
pub use block::{Barrier, Cta, Reduction};
pub use calls::{CallSite, Callee, Transfer};
pub use copies::{Pending, PendingArrival, PendingCopy};
pub use fragment::{Fragment, Frame, Wait};
pub use grid::{Collect, Grid, Limits, Listen, Outcome, run};
pub use guided::{Guide, Next, Ready};
pub use mbarrier::{MAX_COUNT, Mbarrier};
pub use registers::{LANES, Lane, Registers, Row, Scalar, Type, Width, at};
pub(crate) use used::used_pieces;
pub use warp::{Flow, Warp, WarpState, refuse};
