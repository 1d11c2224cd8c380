//! The table of kernel variants: best first, scalar last.

use cairn_hardware::Features;

#[cfg(target_arch = "aarch64")]
use crate::aarch64;
use crate::scalar;
use crate::variant::Variant;
#[cfg(target_arch = "x86_64")]
use crate::x86;

/// Best first. A variant's features are a superset of what its functions are compiled for.
static ALL: &[Variant] = &[
    #[cfg(target_arch = "x86_64")]
    x86::AVX512_VNNI,
    #[cfg(target_arch = "x86_64")]
    x86::AVX2_FMA_F16C,
    #[cfg(target_arch = "aarch64")]
    aarch64::DOTPROD,
    #[cfg(target_arch = "aarch64")]
    aarch64::NEON,
    scalar::SCALAR,
];

/// Every variant of this architecture, best first, whether or not this processor can run it.
#[must_use]
pub fn all() -> &'static [Variant] {
    ALL
}

/// The variants that a processor with `features` can run, best first. Never empty: the scalar one runs anywhere.
#[must_use]
pub fn usable(features: &Features) -> Vec<&'static Variant> {
    ALL.iter().filter(|variant| (variant.usable)(features)).collect()
}

/// The variant called `name`, usable or not.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Variant> {
    ALL.iter().find(|variant| variant.name == name)
}
