//! The machine: grid, block, warp, lane.

mod access;
mod atomics;
mod block;
mod bulk;
mod bundle;
mod calls;
mod cancels;
mod cluster;
mod copies;
mod deadlock;
mod fault;
mod footprint;
mod grid;
mod guided;
mod mbarrier;
mod meeting;
mod multiply;
mod naps;
mod registers;
mod residency;
mod spin;
mod start;
mod subwarp;
mod tensor;
mod texture;
mod turns;
mod used;
mod warp;
mod watched;
mod waves;

pub use access::{Access, AccessKind, lanes_of};
pub use block::CLUSTER_BARRIER;
pub(crate) use bundle::executes_bundle;
pub use cluster::MAX_CLUSTER;
pub use grid::MAY_NEVER_END;
pub use grid::{Limits, Outcome};
pub use registers::{Type, Width};
pub(crate) use warp::WORK_UNIT;

// The parts of the machine: public because the routines of the instruction table name them, and subject to change.
#[doc(hidden)]
pub use block::{Barrier, BarrierReduction, Cta, GridDependency};
#[doc(hidden)]
pub use bulk::Bulk;
#[doc(hidden)]
pub use bundle::{Execute, Place};
#[doc(hidden)]
pub use calls::{CallSite, Callee, Transfer};
#[doc(hidden)]
pub use cancels::Cancels;
#[doc(hidden)]
pub use cluster::{NO_RANK, cluster_address, rank_in};
#[doc(hidden)]
pub use copies::{Pending, PendingArrival, PendingCopy};
#[doc(hidden)]
pub use grid::{Collect, Grid, Listen, run};
#[doc(hidden)]
pub use guided::{Guide, Next, Ready};
#[doc(hidden)]
pub use mbarrier::{MAX_COUNT, Mbarrier};
#[doc(hidden)]
pub use multiply::{Multiplies, PendingMultiply, Warpgroup};
#[doc(hidden)]
pub use registers::{LANES, Lane, Registers, Row, Scalar, at};
#[doc(hidden)]
pub use subwarp::{Frame, Subwarp, Wait};
#[doc(hidden)]
pub use tensor::{Action, Blocks, Meeting, Tensor, Work};
#[doc(hidden)]
pub use texture::{Detail, Fetch, FetchKind, Geometry};
#[doc(hidden)]
pub use warp::{Flow, Warp, WarpState, refuse};
