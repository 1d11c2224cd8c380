//! The handle of speeds. Clones share everything.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cairn_gguf::DType;
use cairn_hardware::Machine;
use cairn_registry::Variant;
use cairn_runtime::{Engine, Source};
use parking_lot::Mutex;

use super::error::Error;
use super::estimate::{Correction, Estimate, Measured, Speed, estimate, speed};
use super::measured::{Conditions, MeasuredModels};
use super::rates::{COMMON_TYPES, MachineKey, StoredRates, TYPES, VariantRates};
use super::stored;
use super::token_work::TokenWork;
use crate::library::{self, ModelLibrary, head, pebble};
use crate::settings::Settings;
use crate::version::VERSION;

/// Interval at which the speeds of models that run are stored.
const SAVE_INTERVAL: Duration = Duration::from_secs(60);

/// Speeds of models on this machine.
#[derive(Clone)]
pub struct Speeds(Arc<Inner>);

struct Inner {
    engine: Engine,
    library: ModelLibrary,
    machine: MachineKey,
    rates_path: PathBuf,
    rates: Mutex<Vec<VariantRates>>,
    is_measuring: AtomicBool,
    measured: MeasuredModels,
    /// Work of a token by engine key; `None` for a model that does not answer.
    works: Mutex<HashMap<String, Option<Arc<TokenWork>>>>,
}

/// Speed of an installed model.
#[derive(Debug, Clone, PartialEq)]
pub struct InstalledSpeed {
    /// Name of the model.
    pub name: String,
    /// Its speed.
    pub speed: Speed,
}

impl Speeds {
    pub(crate) fn open(engine: &Engine, library: &ModelLibrary, settings: &Settings, machine: &Machine) -> Self {
        let folder = &settings.places().cache;
        let cores = machine.cpu.usable_cores.len();
        let machine = MachineKey { processor: machine.cpu.brand.clone(), cores, version: VERSION.to_owned() };
        let rates_path = folder.join("kernel-rates.json");
        let stored: StoredRates = stored::read(&rates_path);
        let rates = if stored.machine == machine { stored.variants } else { Vec::new() };
        let conditions = Conditions { kernel: engine.variant().to_owned(), cores };
        Self(Arc::new(Inner {
            engine: engine.clone(),
            library: library.clone(),
            machine,
            rates_path,
            rates: Mutex::new(rates),
            is_measuring: AtomicBool::new(false),
            measured: MeasuredModels::open(folder.join("model-speeds.json"), conditions),
            works: Mutex::default(),
        }))
    }

    /// Measured rates of the kernel variants; empty before the first measurement.
    #[must_use]
    pub fn kernel_rates(&self) -> Vec<VariantRates> {
        self.0.rates.lock().clone()
    }

    /// Whether the kernels are being measured.
    #[must_use]
    pub fn is_measuring(&self) -> bool {
        self.0.is_measuring.load(Ordering::Acquire)
    }

    /// Measures the kernels of this machine and stores the rates. Blocks for a few seconds.
    ///
    /// # Errors
    /// If a model computes, or begins to.
    pub fn measure(&self) -> Result<(), Error> {
        let in_use = self.0.engine.variant();
        let features = Machine::probe().cpu.features;
        let usable = cairn_kernels::usable(&features).into_iter().map(|variant| variant.name);
        let others = usable.filter(|name| *name != in_use).map(|name| (name, &COMMON_TYPES[..]));
        let variants: Vec<(&str, &[DType])> = std::iter::once((in_use, &TYPES[..])).chain(others).collect();
        let _measuring = Measuring::begin(&self.0);
        let measured = self.0.engine.measure_products(&variants)?;
        let rates: Vec<VariantRates> =
            variants.iter().zip(&measured).map(|((name, _), types)| VariantRates::new(name, types)).collect();
        tracing::info!(variants = rates.len(), "kernels measured");
        self.0.rates.lock().clone_from(&rates);
        stored::write(&self.0.rates_path, &StoredRates { machine: self.0.machine.clone(), variants: rates });
        Ok(())
    }

    /// Measures the kernels on another thread, unless they are measured, or a model computes. Later calls try again.
    pub fn measure_if_needed(&self) {
        if self.0.rates().is_some() || self.is_measuring() {
            return;
        }
        let speeds = self.clone();
        let measure = move || {
            if let Err(error) = speeds.measure() {
                tracing::debug!(%error, "the kernels are measured later");
            }
        };
        // Set here, so that the response to the request that starts it reports it.
        self.0.is_measuring.store(true, Ordering::Release);
        if let Err(error) = std::thread::Builder::new().name("cairn-measure".to_owned()).spawn(measure) {
            self.0.is_measuring.store(false, Ordering::Release);
            tracing::warn!(%error, "cannot measure the kernels");
        }
    }

    /// Speeds of the installed models that answer, if they are available. Reads the heads of new files, so it blocks.
    ///
    /// # Errors
    /// If no library can be read.
    pub fn installed(&self) -> Result<Vec<InstalledSpeed>, library::Error> {
        self.record();
        let rates = self.0.rates();
        let models: Vec<(String, Measured, Option<Estimate>)> = self
            .0
            .library
            .list()?
            .into_iter()
            .filter_map(|summary| {
                let (key, work) = self.0.work(&summary.name)?;
                let estimate = rates.as_ref().and_then(|rates| estimate(&work, rates));
                Some((summary.name, self.0.measured.of(&key), estimate))
            })
            .collect();
        let pairs: Vec<_> =
            models.iter().filter_map(|(_, measured, estimate)| Some((*measured, (*estimate)?))).collect();
        let correction = Correction::of(&pairs);
        let of =
            |(name, measured, estimate)| Some(InstalledSpeed { name, speed: speed(measured, estimate, correction)? });
        Ok(models.into_iter().filter_map(of).collect())
    }

    /// Estimated speeds of variants that are not installed. `None` for each that has none. Blocks as [`Speeds::installed`].
    #[must_use]
    pub fn of_variants(&self, variants: &[Variant]) -> Vec<Option<Speed>> {
        let Some(rates) = self.0.rates() else { return vec![None; variants.len()] };
        let correction = self.correction(&rates);
        let of = |variant: &Variant| {
            let estimate = estimate(&TokenWork::of_variant(variant)?, &rates)?;
            speed(Measured::default(), Some(estimate), correction)
        };
        variants.iter().map(of).collect()
    }

    /// The correction by the models that ran here and are still installed.
    fn correction(&self, rates: &VariantRates) -> Correction {
        self.record();
        let names = self.0.library.list().unwrap_or_default();
        let pairs = names.iter().filter_map(|summary| {
            let (key, work) = self.0.work(&summary.name)?;
            Some((self.0.measured.of(&key), estimate(&work, rates)?))
        });
        Correction::of(&pairs.collect::<Vec<_>>())
    }

    /// Stores the speeds of models that ran since the start.
    pub(crate) fn record(&self) {
        let speeds: Vec<_> = self.0.engine.metrics().into_iter().map(|(key, metrics)| (key, metrics.speed)).collect();
        self.0.measured.record(&speeds);
    }

    /// Stores the speeds of models that run at intervals, until the last handle is dropped.
    pub(crate) fn record_at_intervals(&self) {
        let inner = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(SAVE_INTERVAL).await;
                let Some(inner) = inner.upgrade() else { return };
                if let Err(error) = tokio::task::spawn_blocking(move || Self(inner).record()).await {
                    tracing::warn!(%error, "cannot store the speeds of models");
                }
            }
        });
    }
}

impl Inner {
    /// The rates of the kernel variant in use, if it was measured.
    fn rates(&self) -> Option<VariantRates> {
        let in_use = self.engine.variant();
        self.rates.lock().iter().find(|variant| variant.name == in_use && !variant.types.is_empty()).cloned()
    }

    /// Key and work of a model that answers, from the head of its file.
    fn work(&self, name: &str) -> Option<(String, Arc<TokenWork>)> {
        let model = self.library.find(name).ok()?;
        if let Some(work) = self.works.lock().get(&model.key) {
            return work.clone().map(|work| (model.key, work));
        }
        let gguf = match &model.source {
            Source::File(path) => library::read_head(path).ok()?.gguf,
            Source::Builtin { .. } => pebble::head().gguf,
        };
        let gguf = head::as_loaded(&gguf);
        let answers = !cairn_runtime::is_embedding_model(gguf.metadata());
        let work = TokenWork::of_gguf(&gguf).filter(|_| answers).map(Arc::new);
        self.works.lock().insert(model.key.clone(), work.clone());
        work.map(|work| (model.key, work))
    }
}

/// Marks that the kernels are being measured, until it is dropped.
struct Measuring<'a>(&'a Inner);

impl<'a> Measuring<'a> {
    fn begin(inner: &'a Inner) -> Self {
        inner.is_measuring.store(true, Ordering::Release);
        Self(inner)
    }
}

impl Drop for Measuring<'_> {
    fn drop(&mut self) {
        self.0.is_measuring.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
