//! Selects the kernel variants that a processor can run, or the one that a setting names.

use cairn_hardware::Features;
use cairn_kernels::Variant;

/// Why a requested variant cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VariantError {
    /// No variant has this name.
    #[error("there is no kernel variant {name}; this program has {available}")]
    Unknown {
        /// The requested name.
        name: String,
        /// All names, best first.
        available: String,
    },
    /// The processor lacks instructions that the variant uses.
    #[error("this processor lacks instructions of the kernel variant {name}; it can run {usable}")]
    Unusable {
        /// The requested name.
        name: String,
        /// Names that can be run, best first.
        usable: String,
    },
}

/// Returns the variants that a processor with these features can run, best first and the scalar one last; or only the
/// forced one.
///
/// # Errors
/// If the forced variant does not exist or cannot run.
pub fn variants(features: &Features, forced: Option<&str>) -> Result<Vec<&'static Variant>, VariantError> {
    let usable = cairn_kernels::usable(features);
    let Some(name) = forced else { return Ok(usable) };
    let names = |variants: &[&'static Variant]| variants.iter().map(|one| one.name).collect::<Vec<_>>().join(", ");
    if let Some(variant) = usable.iter().find(|variant| variant.name == name) {
        return Ok(vec![*variant]);
    }
    let name = name.to_owned();
    if cairn_kernels::by_name(&name).is_some() {
        return Err(VariantError::Unusable { name, usable: names(&usable) });
    }
    let available: Vec<&'static Variant> = cairn_kernels::all().iter().collect();
    Err(VariantError::Unknown { name, available: names(&available) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names, or the error's text.
    fn check(features: &Features, forced: Option<&str>, expected: &str) {
        let found = variants(features, forced);
        let found = found.map(|found| found.iter().map(|one| one.name).collect::<Vec<_>>().join(" "));
        let text = found.unwrap_or_else(|error| error.to_string());
        assert!(text.contains(expected), "{forced:?} gives {text:?}, which lacks {expected:?}");
    }

    #[test]
    fn processor_without_features_runs_only_the_scalar_variant() {
        let bare = Features::default();
        check(&bare, None, "scalar");
        check(&bare, Some("scalar"), "scalar");
        check(&bare, Some("mmx"), "there is no kernel variant mmx; this program has");
        for variant in cairn_kernels::all().iter().filter(|variant| variant.name != "scalar") {
            check(&bare, Some(variant.name), "it can run scalar");
        }
    }
}
