//! Loads and unloads models.

use std::time::Duration;

use crate::values::KeepAlive;
use cairn_gguf::DType;
use cairn_runtime::{Lease, LoadOptions, Projector, Source};
use cairn_tier::WeightsDigest;

use super::answer::Answer;
use super::error::Error;
use super::handle::Inference;
use super::location::ModelLocation;
use super::options::{self, Chosen};
use crate::cache::KvCache;
use crate::library::catalog::Model;
use crate::library::template;

/// Result of a request for an answer.
pub enum Reply {
    /// The answer in progress.
    Answer(Box<Answer>),
    /// The rendered prompt.
    Rendered(String),
    /// The prompt was empty: the model is loaded.
    Loaded,
    /// The prompt was empty and `keep_alive` 0: the model is unloaded.
    Unloaded,
}

impl Reply {
    /// Counts a local answer in the hours of the cache.
    pub(super) fn counted_in(self, cache: &KvCache) -> Self {
        match self {
            Self::Answer(answer) => Self::Answer(Box::new(answer.counted_in(cache))),
            other => other,
        }
    }
}

impl Inference {
    /// Loads a model; with `force` even if the memory seems too small.
    ///
    /// # Errors
    /// If the model does not exist or cannot be loaded.
    pub async fn load(&self, model: &str, force: bool, keep_alive: Option<KeepAlive>) -> Result<(), Error> {
        let model = match self.locate(model).await? {
            ModelLocation::Local(model) => model,
            // Its server loads the model with the first request.
            ModelLocation::Remote(_) => return Ok(()),
        };
        let chosen = options::choose(&model.params, None)?;
        self.lease(&model, &chosen, force, keep_alive).await.map(drop)
    }

    /// Unloads a model when its last answer ends.
    ///
    /// # Errors
    /// If the model does not exist.
    pub fn unload(&self, model: &str) -> Result<(), Error> {
        let model = self.library.find(model)?;
        self.engine.unload(&model.key);
        Ok(())
    }

    /// Serves a request without a prompt: loads the model, or unloads it if `keep_alive` is 0.
    pub(crate) async fn load_or_unload(
        &self,
        model: &Model,
        chosen: &Chosen,
        keep_alive: Option<KeepAlive>,
    ) -> Result<Reply, Error> {
        self.load_time(model, chosen, keep_alive).await?;
        Ok(if keep_alive == Some(KeepAlive::ZERO) { Reply::Unloaded } else { Reply::Loaded })
    }

    /// Like [`Inference::load_or_unload`]. Returns the time that the model took to load.
    pub(crate) async fn load_time(
        &self,
        model: &Model,
        chosen: &Chosen,
        keep_alive: Option<KeepAlive>,
    ) -> Result<Duration, Error> {
        if keep_alive == Some(KeepAlive::ZERO) {
            self.engine.unload(&model.key);
            return Ok(Duration::ZERO);
        }
        let lease = self.lease(model, chosen, false, keep_alive).await?;
        Ok(Duration::from_nanos(lease.load_ns()))
    }

    pub(crate) async fn lease(
        &self,
        model: &Model,
        chosen: &Chosen,
        force: bool,
        keep_alive: Option<KeepAlive>,
    ) -> Result<Lease, Error> {
        let context_tokens = chosen.context_tokens.or_else(|| self.live.context_tokens());
        let load = LoadOptions {
            context_tokens,
            threads: chosen.threads,
            kv_type: chosen.kv_type,
            default_keep_alive: Some(engine_keep_alive(self.live.keep_alive())),
            force,
            weights: model.weights.map(WeightsDigest),
            adapters: model.adapters.clone(),
            projector: model.projectors.first().map(|path| Projector {
                source: Source::File(path.clone()),
                weights: model.projector_weights.map(WeightsDigest),
            }),
        };
        let keep_alive = keep_alive.map(engine_keep_alive);
        let lease = self.engine.acquire(model.key.clone(), model.source.clone(), load, keep_alive).await?;
        if let Some(fingerprint) = lease.fingerprint().filter(|_| lease.load_ns() > 0) {
            self.cache.learn(&fingerprint, &model.summary.name);
        }
        if lease.load_ns() > 0 || self.logged_templates.is_new(&model.summary) {
            template::log(model, lease.template(), self.settings.models.go_template);
        }
        Ok(lease.for_client(self.client.clone()))
    }
}

/// Refuses a request for an answer to an embedding model.
pub(super) fn check_answers(lease: &Lease, model: &str, request: &'static str) -> Result<(), Error> {
    match lease.hparams().embedding {
        Some(_) => Err(Error::NoAnswers { model: model.to_owned(), request }),
        None => Ok(()),
    }
}

pub(crate) fn engine_keep_alive(keep_alive: KeepAlive) -> cairn_runtime::KeepAlive {
    match keep_alive {
        KeepAlive::For(duration) => cairn_runtime::KeepAlive::For(duration),
        KeepAlive::Forever => cairn_runtime::KeepAlive::Forever,
    }
}

/// Parses the type of the KV cache of the settings.
///
/// # Errors
/// If the type is unknown. Another type would use unexpected memory or precision.
pub(crate) fn kv_type(setting: Option<&str>) -> Result<DType, String> {
    let asked = setting.map_or(Ok(DType::F16), cairn_runtime::parse_kv_type);
    asked.map_err(|error| format!("OLLAMA_KV_CACHE_TYPE: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kv_type_setting_with_unknown_name_is_an_error() {
        assert_eq!(kv_type(None).ok(), Some(DType::F16), "not set");
        assert_eq!(kv_type(Some("q8_0")).ok(), Some(DType::Q8_0), "set");
        let error = kv_type(Some("q8")).expect_err("the type does not exist");
        let expected = "OLLAMA_KV_CACHE_TYPE: unknown type of the KV cache \"q8\": it must be f16, \
                        bf16, q8_0 or q4_0";
        assert_eq!(error, expected, "the error lists all types");
    }
}
