//! What the parity check, the benches and the journeys share: the cases, and running a model without a server around it.

pub mod cases;
pub mod evaluate;
pub mod fixture;
pub mod peer;
pub mod quantised;
