//! Tests of the engine through its public API.

mod adapters;
mod common;
mod constraints;
mod context_full;
mod displaced;
mod embeddings;
mod hostile;
mod inputs;
mod pictures;
mod prompt_slices;
mod requests;
mod shares;
mod slice_stress;
mod speeds;
mod stress;
mod tiers;
mod windows;
