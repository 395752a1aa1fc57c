//! The ledger as its user sees it.

mod behaviour;
mod compatibility;
mod damage;
mod kill;
mod sample;
