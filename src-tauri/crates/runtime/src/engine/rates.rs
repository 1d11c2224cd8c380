//! Measured speed of the matrix products of kernel variants, while no answer is computed.

use cairn_gguf::DType;
use cairn_tensor::cpu::{ProductRates, RateWeights, measure_products};

use super::Engine;

/// Speed of the products with weights of one type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TypeRates {
    /// The type.
    pub dtype: DType,
    /// Its rates.
    pub rates: ProductRates,
}

/// Why products were not measured.
#[derive(Debug, thiserror::Error)]
pub enum RatesError {
    /// A model computes, or began to.
    #[error("a model is computing, and a measurement would delay its answer; measure again when it is done")]
    Busy,
    /// The processor cannot run the variant, or it does not exist.
    #[error("the kernel variant {0} cannot run on this processor")]
    Unusable(String),
    /// The system refused a thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

impl Engine {
    /// Measures the products of kernel variants on all cores, with weights of these types. Takes about a tenth of a second for
    /// each type, and blocks. Calls from several threads measure one after the other.
    ///
    /// # Errors
    /// When a model computes, or begins to: results would be wrong, and its answer late.
    pub fn measure_products(&self, variants: &[(&str, &[DType])]) -> Result<Vec<Vec<TypeRates>>, RatesError> {
        let team = self.team(self.0.config.machine.cpu.usable_cores.len().max(1))?;
        let usable = cairn_kernels::usable(&self.0.config.machine.cpu.features);
        let mut proceed = || !self.is_computing();
        let measure = || -> Result<Vec<Vec<TypeRates>>, RatesError> {
            team.pin_caller();
            let weights = RateWeights::default();
            let mut rates = Vec::new();
            for (name, dtypes) in variants {
                let variant = usable.iter().find(|variant| variant.name == *name);
                let variant = variant.ok_or_else(|| RatesError::Unusable((*name).to_owned()))?;
                let measured = dtypes.iter().map(|&dtype| {
                    let rates = measure_products(variant, &team, dtype, &weights, &mut proceed);
                    rates.map(|rates| TypeRates { dtype, rates }).ok_or(RatesError::Busy)
                });
                rates.push(measured.collect::<Result<Vec<_>, _>>()?);
            }
            Ok(rates)
        };
        let _measuring = self.0.measuring.lock();
        if self.is_computing() {
            return Err(RatesError::Busy);
        }
        // The caller's thread must not stay pinned to a core.
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("cairn-rates".to_owned()).spawn_scoped(scope, measure)?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Whether a model has a request.
    fn is_computing(&self) -> bool {
        self.0.entries.lock().values().any(super::Entry::is_busy)
    }
}
