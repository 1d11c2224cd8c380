//! The table of variants and the choice from it.

use cairn_hardware::Features;

use super::usable;
use crate::{all, by_name};

#[test]
fn scalar_variant_is_last_and_needs_no_features() {
    assert_eq!(all().last().map(|variant| variant.name), Some("scalar"), "the fallback is the last resort");
    let names: Vec<_> = crate::usable(&Features::default()).iter().map(|variant| variant.name).collect();
    assert_eq!(names, ["scalar"], "no other variant runs without features");
}

#[test]
fn variant_names_are_unique_and_look_up_their_variant() {
    for (index, variant) in all().iter().enumerate() {
        assert!(all()[..index].iter().all(|other| other.name != variant.name), "{} is named once", variant.name);
        assert_eq!(by_name(variant.name).map(|found| found.name), Some(variant.name), "a name finds its variant");
    }
    assert!(by_name("abacus").is_none(), "an unknown name finds nothing");
}

/// `KERNELS_REQUIRE=avx2-fma-f16c,avx512-vnni` makes a variant that was skipped here a failure.
#[test]
fn required_variants_are_usable() {
    #[expect(clippy::disallowed_methods, reason = "CI sets the variants that a machine must run")]
    let required = std::env::var("KERNELS_REQUIRE").unwrap_or_default();
    let usable: Vec<_> = usable().iter().map(|variant| variant.name).collect();
    for name in required.split(',').filter(|name| !name.is_empty()) {
        assert!(usable.contains(&name), "{name} is required but only {usable:?} run here, so it was not tested");
    }
}
