//! Measured rates of the kernel variants, by type of weights.
//!
//! They are stored with the processor, its cores and Cairn's version. Another of these makes them invalid.

use cairn_gguf::DType;
use cairn_runtime::{ProductRates, TypeRates};
use serde::{Deserialize, Serialize};

/// Types that are measured for the variant in use. Other types have the rates of the nearest of them.
pub(super) const TYPES: [DType; 12] = [
    DType::F16,
    DType::BF16,
    DType::Q8_0,
    DType::Q6_K,
    DType::Q5_K,
    DType::Q5_0,
    DType::Q4_K,
    DType::Q4_0,
    DType::MXFP4,
    DType::IQ4_XS,
    DType::Q3_K,
    DType::Q2_K,
];

/// Types that are measured for other variants: most models that people pull have them.
pub(super) const COMMON_TYPES: [DType; 2] = [DType::Q4_K, DType::Q8_0];

/// The stored rates.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredRates {
    pub(super) machine: MachineKey,
    pub(super) variants: Vec<VariantRates>,
}

/// What the rates depend on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MachineKey {
    pub(super) processor: String,
    pub(super) cores: usize,
    pub(super) version: String,
}

/// Rates of one kernel variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VariantRates {
    /// Name of the variant.
    pub name: String,
    /// Rates by type of weights.
    pub types: Vec<TypeRate>,
}

/// Rates with weights of one type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TypeRate {
    /// Name of the type.
    pub dtype: String,
    /// Bytes of weights that an answer reads in a second.
    pub decode_bytes_per_second: f64,
    /// Multiplications and additions, each counted, that a prompt computes in a second.
    pub prefill_operations_per_second: f64,
}

impl VariantRates {
    pub(super) fn new(name: &str, measured: &[TypeRates]) -> Self {
        // Whole numbers are equal after they were stored as text.
        let rate = |measured: &TypeRates| TypeRate {
            dtype: measured.dtype.name().to_owned(),
            decode_bytes_per_second: measured.rates.decode_bytes.round(),
            prefill_operations_per_second: measured.rates.prefill_operations.round(),
        };
        Self { name: name.to_owned(), types: measured.iter().map(rate).collect() }
    }

    /// The rates of a type, or of the measured type with the nearest number of bits.
    pub(super) fn of(&self, dtype: DType) -> Option<ProductRates> {
        let bits = |dtype: DType| dtype.block_bytes() as f64 / dtype.block() as f64;
        let measured = self.types.iter().filter_map(|rate| {
            let measured = DType::all().find(|dtype| dtype.name() == rate.dtype)?;
            let is_usable = |rate: f64| rate.is_finite() && rate > 0.0;
            let usable = is_usable(rate.decode_bytes_per_second) && is_usable(rate.prefill_operations_per_second);
            usable.then_some((measured, rate))
        });
        let distance = |(measured, _): &(DType, &TypeRate)| {
            if *measured == dtype { -1.0 } else { (bits(*measured) - bits(dtype)).abs() }
        };
        let (_, nearest) = measured.min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
        Some(ProductRates {
            decode_bytes: nearest.decode_bytes_per_second,
            prefill_operations: nearest.prefill_operations_per_second,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(types: &[(&str, f64)]) -> VariantRates {
        let rate = |(dtype, rate): &(&str, f64)| TypeRate {
            dtype: (*dtype).to_owned(),
            decode_bytes_per_second: *rate,
            prefill_operations_per_second: 2.0 * rate,
        };
        VariantRates { name: "fast".to_owned(), types: types.iter().map(rate).collect() }
    }

    #[test]
    fn type_without_rates_has_those_of_the_nearest() {
        let rates = variant(&[("F16", 16.0), ("Q8_0", 8.0), ("Q4_K", 4.0), ("Q4_0", 4.1)]);
        let check = |dtype: DType, expected: f64| {
            let found = rates.of(dtype).map(|rates| (rates.decode_bytes, rates.prefill_operations));
            assert_eq!(found, Some((expected, 2.0 * expected)), "{dtype}");
        };
        check(DType::Q4_K, 4.0);
        check(DType::Q4_0, 4.1);
        check(DType::Q5_1, 4.0);
        check(DType::Q6_K, 8.0);
        check(DType::BF16, 16.0);
        check(DType::F32, 16.0);
        check(DType::IQ2_XXS, 4.0);
    }

    #[test]
    fn rates_that_are_no_numbers_do_not_count() {
        let broken = variant(&[("Q4_K", 0.0), ("Q8_0", f64::INFINITY), ("no type", 3.0), ("F16", 16.0)]);
        assert_eq!(broken.of(DType::Q4_K).map(|rates| rates.decode_bytes), Some(16.0), "the only usable one");
        assert_eq!(variant(&[]).of(DType::Q4_K), None, "nothing was measured");
    }
}
