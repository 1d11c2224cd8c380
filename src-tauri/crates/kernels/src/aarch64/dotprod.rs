//! NEON with `sdot`, which adds four products of signed bytes to each of four sums of 32 bits: ARM's cores since the
//! Cortex-A76 and Neoverse N1 (2018), Apple's since the A13 and M1.
#![expect(unsafe_code, reason = "safe functions with target features are entered from code without them")]

use std::arch::aarch64::{int8x16_t, int32x4_t};
use std::arch::{asm, is_aarch64_feature_detected};

use super::dot::Dot;
use super::lanes::FusedArith;
use crate::attention::{AttendSpan, Softmax};
use crate::compiled::kernels;
use crate::format::Format;
use crate::matmul::MatMul;
use crate::portable;
use crate::variant::Variant;

/// This variant's row in the table: its name, the revision of its numerics and the features that it needs.
pub(crate) const DOTPROD: Variant = row("dotprod", 1, |features| features.neon && features.dotprod);

fn require() {
    let there = is_aarch64_feature_detected!("neon") && is_aarch64_feature_detected!("dotprod");
    assert!(there, "dotprod was called on a processor without it");
}

kernels! { "neon", FusedArith, require, 4 x 4, quantised }

#[target_feature(enable = "neon")]
fn quantised(m: MatMul<'_>) {
    super::quantised::quantised::<Sdot>(m);
}

/// Four products at a time.
struct Sdot;

impl Dot for Sdot {
    #[inline(always)]
    fn dot(sums: int32x4_t, w: int8x16_t, a: int8x16_t) -> int32x4_t {
        let mut sums = sums;
        // The intrinsic is not stable in Rust 1.95. The directive lets the assembler take the instruction in functions
        // that are compiled for `neon` alone, so that both variants share them; it ends with this statement.
        // SAFETY: `Sdot` is named only by `quantised` above, which runs after the processor was checked for `dotprod`; the
        // instruction touches nothing but the register `sums`.
        unsafe {
            asm!(
                ".arch_extension dotprod",
                "sdot {sums:v}.4s, {w:v}.16b, {a:v}.16b",
                sums = inout(vreg) sums,
                w = in(vreg) w,
                a = in(vreg) a,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        sums
    }
}
