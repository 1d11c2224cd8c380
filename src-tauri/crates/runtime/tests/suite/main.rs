//! The engine from outside.

mod common;
mod hostile;
mod requests;
mod stress;
