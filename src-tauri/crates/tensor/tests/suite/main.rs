//! Requirements on every backend, with small shapes: ops agree with the oracle; bits are invariant to cuts, neighbours
//! and threads.

mod bits;
mod builder;
mod common;
mod experts;
mod hybrid;
mod invariance;
mod latent;
mod latent_ops;
mod mixing;
mod model;
mod ops;
mod pages;
mod parts;
mod pictures;
mod recurrent;
mod refusals;
mod slices;
mod state_space;
mod tiles;
mod varied;
