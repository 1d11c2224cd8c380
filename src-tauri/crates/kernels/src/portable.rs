//! Arithmetic written once over fixed arrays of sixteen lanes, and compiled once per variant.
//!
//! Everything here is `#[inline(always)]` and generic over [`Arith`], so a variant that calls it from a function with
//! target features gets it in its own instructions. The order of operations is spelled out and the compiler may not
//! change it, so lanes are only a way to write down a fixed order.

pub(crate) mod activation;
pub(crate) mod arith;
pub(crate) mod attention;
pub(crate) mod delta;
pub(crate) mod elementwise;
pub(crate) mod exp;
pub(crate) mod float;
pub(crate) mod quantise;
pub(crate) mod rows;
pub(crate) mod scan;

pub(crate) use arith::Arith;
