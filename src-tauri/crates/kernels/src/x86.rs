//! The variants for x86-64.
//!
//! Every kernel is a safe function with target features; the only unsafe code is the call from code without them, in
//! [`crate::compiled`], and loads and stores through pointers, in [`memory`].

mod avx2;
mod avx512;
mod memory;
mod panel;
mod quants;
mod strip;

pub(crate) use avx2::AVX2_FMA_F16C;
pub(crate) use avx512::AVX512_VNNI;
