//! Whether pulled models are current: their manifests compared with those of their registries. A registry is contacted only
//! when a client asks.

use std::sync::Arc;
use std::time::Duration;

use cairn_registry::SourceError;
use cairn_store::{Layer, ModelRef, StoredModel};
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;

use super::Transfers;
use super::error::Error;
use crate::library;

/// Maximum number of parallel requests to registries.
const MAX_PARALLEL: usize = 4;
/// Timeout of one registry.
const REGISTRY_TIMEOUT: Duration = Duration::from_secs(15);

/// Whether a model is current.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelUpdate {
    /// Name of the model, in its shortest form.
    pub model: String,
    /// The result.
    pub state: UpdateState,
}

/// Result of comparing a model with its registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpdateState {
    /// The registry has the same manifest.
    Current,
    /// The registry has another manifest, of which these bytes are not in the library.
    Newer {
        /// Bytes to download.
        download_bytes: u64,
    },
    /// The registry no longer has the model.
    Removed,
    /// The model was made or changed on this machine, so a pull would replace it by another one.
    MadeHere,
    /// The registry could not be asked. Contains the reason.
    Unknown(String),
}

impl Transfers {
    /// Compares one model, or all pulled models, with their registries. With `insecure`, plain http is allowed.
    ///
    /// # Errors
    /// If the library cannot be read, or does not have the model. A registry that does not respond is a state of its models.
    pub async fn updates(&self, model: Option<&str>, insecure: bool) -> Result<Vec<ModelUpdate>, Error> {
        let (transfers, wanted) = (self.clone(), model.map(str::to_owned));
        let models = spawn_blocking(move || transfers.pulled_models(wanted.as_deref()));
        let models = models.await.expect("listing does not panic")?;
        let slots = Arc::new(Semaphore::new(MAX_PARALLEL));
        let mut checks = JoinSet::new();
        for (index, (model, is_pulled)) in models.into_iter().enumerate() {
            let (transfers, slots) = (self.clone(), Arc::clone(&slots));
            checks.spawn(async move {
                let _slot = slots.acquire().await;
                let state = if is_pulled { transfers.compare(&model, insecure).await } else { UpdateState::MadeHere };
                (index, ModelUpdate { model: model.name.to_string(), state })
            });
        }
        let mut updates = checks.join_all().await;
        updates.sort_by_key(|(index, _)| *index);
        Ok(updates.into_iter().map(|(_, update)| update).collect())
    }

    /// The pulled models of the own library; or one model, and whether it was pulled. Blocks.
    fn pulled_models(&self, wanted: Option<&str>) -> Result<Vec<(StoredModel, bool)>, Error> {
        let library = self.pulls.library();
        let is_pulled = |model: &StoredModel| self.pulls.may_replace(&model.name, &model.manifest.digest);
        let Some(wanted) = wanted else {
            let models = library.list().map_err(library::Error::Library)?.models;
            return Ok(models.into_iter().filter(is_pulled).map(|model| (model, true)).collect());
        };
        let name: ModelRef = wanted.parse()?;
        let found = library.find(&name).map_err(library::Error::Library)?;
        let model = found.ok_or_else(|| library::Error::NotFound(wanted.to_owned()))?;
        let is_pulled = is_pulled(&model);
        Ok(vec![(model, is_pulled)])
    }

    async fn compare(&self, model: &StoredModel, insecure: bool) -> UpdateState {
        let (pulls, name) = (self.pulls.clone(), model.name.clone());
        // Opening the connections reads the system's certificates.
        let origins = spawn_blocking(move || pulls.origins(&name, insecure)).await.expect("preparing does not panic");
        let resolved = match origins {
            Ok(origins) => timeout(self.registry_timeout(), origins.resolve()).await,
            Err(error) => return UpdateState::Unknown(error.to_string()),
        };
        let Ok(resolved) = resolved else {
            let seconds = self.registry_timeout().as_secs();
            return UpdateState::Unknown(format!("{} did not respond within {seconds} s", model.name.host()));
        };
        let latest = match resolved {
            Ok(resolved) => resolved.manifest.manifest,
            Err(SourceError::Absent { .. }) => return UpdateState::Removed,
            Err(error) => return UpdateState::Unknown(error.to_string()),
        };
        if latest.digest == model.manifest.digest {
            return UpdateState::Current;
        }
        let library = self.pulls.library();
        let is_missing = |layer: &&Layer| library.blob(layer).is_err();
        let missing = latest.layers.iter().chain(&latest.config).filter(is_missing);
        let download_bytes = missing.fold(0_u64, |sum, layer| sum.saturating_add(layer.size_bytes));
        UpdateState::Newer { download_bytes }
    }

    fn registry_timeout(&self) -> Duration {
        self.settings.downloads.stall.map_or(REGISTRY_TIMEOUT, |stall| stall.min(REGISTRY_TIMEOUT))
    }
}
