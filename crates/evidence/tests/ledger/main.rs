//! The ledger as its user sees it.

mod behavior;
mod compatibility;
mod damage;
mod kill;
mod sample;
