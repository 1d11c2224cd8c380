//! What `create` makes models from: a [`Modelfile`] says what a model is to be, [`quantise`] makes its weights smaller.
//!
//! Nothing here knows a library or a network: text comes in and goes out, weights are read from files and written to
//! whatever takes bytes.
#![forbid(unsafe_code)]

pub mod file_type;
pub mod modelfile;
pub mod quantise;

pub use file_type::FileType;
pub use modelfile::{Modelfile, Recipe};
pub use quantise::{Quantisation, QuantiseError};
