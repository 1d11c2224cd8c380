//! What every backend must do, on small shapes: ops against the oracle, and bits against cuts, neighbours and threads.

mod bits;
mod common;
mod experts;
mod invariance;
mod model;
mod ops;
mod pages;
mod refusals;
mod varied;
