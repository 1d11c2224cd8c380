//! NEON: every 64-bit ARM processor.
//!
//! Byte products are `smull` and `smlal2`, which add two products in 16 bits. Nothing overflows: activations are in
//! -127..=127, so two products are at most `2 * 128 * 127 < 2^15`.
#![expect(unsafe_code, reason = "safe functions with target features are entered from code without them")]

use std::arch::aarch64::*;
use std::arch::is_aarch64_feature_detected;

use super::dot::Dot;
use super::lanes::FusedArith;
use crate::attention::{AttendSpan, Softmax};
use crate::compiled::kernels;
use crate::format::Format;
use crate::matmul::MatMul;
use crate::portable;
use crate::variant::Variant;

/// This variant's row in the table: its name, the revision of its numerics and the features that it needs.
pub(crate) const NEON: Variant = row("neon", 1, |features| features.neon);

fn require() {
    assert!(is_aarch64_feature_detected!("neon"), "neon was called on a processor without it");
}

kernels! { "neon", FusedArith, require, 4 x 4, quantised }

#[target_feature(enable = "neon")]
fn quantised(m: MatMul<'_>) {
    super::quantised::quantised::<Smull>(m);
}

/// Multiplication to 16 bits, then addition in pairs to 32.
struct Smull;

impl Dot for Smull {
    #[inline(always)]
    fn dot(sums: int32x4_t, w: int8x16_t, a: int8x16_t) -> int32x4_t {
        // SAFETY: `Smull` is named only by `quantised` above, which runs after the processor was checked for `neon`.
        unsafe { dot(sums, w, a) }
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn dot(sums: int32x4_t, w: int8x16_t, a: int8x16_t) -> int32x4_t {
    let products = vmull_s8(vget_low_s8(w), vget_low_s8(a));
    vpadalq_s16(sums, vmlal_high_s8(products, w, a))
}
