//! The engine from outside.

mod common;
mod full;
mod hostile;
mod kept;
mod requests;
mod stress;
mod windows;
