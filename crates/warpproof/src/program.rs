//! What `warpproof-fleet`, the other program of this project, shares with this one.

pub use crate::commands::device_runner::DeviceRunner;
pub use crate::commands::flags::ended;
pub use crate::commands::gate::stop_on_interrupt;

/// The client that both programs use to send requests to a fleet.
pub mod fleet {
    pub use crate::commands::fleet::AuthorityFlags;
    #[cfg(feature = "fleet")]
    pub use crate::commands::fleet::client::{of_fleet, show};
}
