//! The variants for 64-bit ARM.
//!
//! Byte products are signed here, so weights are unpacked to signed bytes, offsets taken off, and all variants share the
//! unpacking, the paths for one column ([`decode`]) and for several ([`prefill`]) and the float arithmetic ([`lanes`]).
//! A variant adds its [`Dot`](dot::Dot): the instruction that multiplies sixteen weights with sixteen activations.

mod decode;
mod dot;
mod dotprod;
mod lanes;
mod memory;
mod neon;
mod panel;
mod prefill;
mod quantised;
mod quants;

pub(crate) use dotprod::DOTPROD;
pub(crate) use neon::NEON;
