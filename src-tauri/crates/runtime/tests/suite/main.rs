//! The engine from outside.

mod common;
mod hostile;
mod kept;
mod requests;
mod stress;
mod windows;
