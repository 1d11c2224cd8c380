//! Proofs that what is kept is never wrong: a toy model whose next token is a hash of all that came before, and a real one of random
//! weights, through the whole engine, the page trie and all tiers. Continuous integration runs them small, `cargo xtask prove kv-*` at
//! full scale.

mod budgets;
mod corrupt;
mod crash;
mod crosstalk;
mod exact;
mod lies;
mod scale;
mod shared;
mod talk;
mod world;
