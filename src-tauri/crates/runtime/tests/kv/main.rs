//! Proofs that cached rows are never wrong, through the whole engine, the page trie and all tiers. They use a toy model whose next token
//! is a hash of all tokens before it, and a real model with random weights. Continuous integration runs them at a small scale, `cargo
//! xtask prove kv-*` at full scale.

mod budgets;
mod corrupt;
mod crash;
mod crosstalk;
mod exact;
mod faults;
mod kept;
mod scale;
mod shared;
mod workload;
mod world;
