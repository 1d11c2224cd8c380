//! Shared by the parity check, the benchmarks and the integration tests: test cases, and running a model without a
//! server.

pub mod cases;
pub mod checkpoints;
pub mod daemon;
pub mod embeddings;
pub mod evaluate;
pub mod fixture;
pub mod peer;
pub mod pictures;
pub mod quantised;
