//! Bringing models into memory and out of it.

use cairn_gguf::DType;
use cairn_runtime::{Lease, LoadOptions};
use cairn_tier::WeightsDigest;
use cairn_wire::KeepAlive;

use super::answer::Answer;
use super::error::Error;
use super::handle::Inference;
use super::options::{self, Chosen};
use crate::library::catalog::Model;
use crate::library::template;

/// What a request for an answer leads to.
pub enum Reply {
    /// An answer is on its way.
    Answer(Box<Answer>),
    /// Only the prompt's text was asked for.
    Rendered(String),
    /// Nothing was asked: the model is in memory.
    Loaded,
    /// Nothing was asked, and nothing is to be kept: the model leaves memory.
    Unloaded,
}

impl Inference {
    /// Brings a model into memory, where the next request finds it; with `force` even when memory looks too small.
    ///
    /// # Errors
    /// When there is no such model, or it cannot be loaded.
    pub async fn load(&self, model: &str, force: bool, keep_alive: Option<KeepAlive>) -> Result<(), Error> {
        let model = self.library.find(model)?;
        let chosen = options::choose(&model.params, None)?;
        self.lease(&model, &chosen, force, keep_alive).await.map(drop)
    }

    /// Takes a model out of memory once nobody uses it.
    ///
    /// # Errors
    /// When there is no such model.
    pub fn unload(&self, model: &str) -> Result<(), Error> {
        let model = self.library.find(model)?;
        self.engine.unload(&model.key);
        Ok(())
    }

    /// A request without a prompt: load, or unload when nothing is to be kept.
    pub(crate) async fn load_or_unload(
        &self,
        model: &Model,
        chosen: &Chosen,
        keep_alive: Option<KeepAlive>,
    ) -> Result<Reply, Error> {
        if keep_alive == Some(KeepAlive::ZERO) {
            self.engine.unload(&model.key);
            return Ok(Reply::Unloaded);
        }
        self.lease(model, chosen, false, keep_alive).await?;
        Ok(Reply::Loaded)
    }

    pub(crate) async fn lease(
        &self,
        model: &Model,
        chosen: &Chosen,
        force: bool,
        keep_alive: Option<KeepAlive>,
    ) -> Result<Lease, Error> {
        if !model.adapters.is_empty() {
            // Without it the model would say other things than its maker meant it to.
            return Err(Error::Unsupported("running a model with an adapter"));
        }
        let context_tokens = chosen.context_tokens.or_else(|| self.live.context_tokens());
        let load = LoadOptions {
            context_tokens,
            threads: chosen.threads,
            kv_type: chosen.kv_type,
            force,
            weights: model.weights.map(WeightsDigest),
        };
        let keep_alive = engine_keep_alive(keep_alive.unwrap_or_else(|| self.live.keep_alive()));
        let lease = self.engine.acquire(model.key.clone(), model.source.clone(), load, Some(keep_alive)).await?;
        if let Some(fingerprint) = lease.fingerprint().filter(|_| lease.load_ns() > 0) {
            self.cache.learn(&fingerprint, &model.summary.name);
        }
        if lease.load_ns() > 0 || self.templates_told.is_new(&model.summary) {
            template::log(model, lease.template(), self.settings.models.go_template);
        }
        Ok(lease)
    }
}

pub(crate) fn engine_keep_alive(keep_alive: KeepAlive) -> cairn_runtime::KeepAlive {
    match keep_alive {
        KeepAlive::For(duration) => cairn_runtime::KeepAlive::For(duration),
        KeepAlive::Forever => cairn_runtime::KeepAlive::Forever,
    }
}

/// The type of attention caches that the settings ask for.
///
/// # Errors
/// For a name that is none: to go on with another type than was asked for would use memory or precision that nobody meant to.
pub(crate) fn kv_type(setting: Option<&str>) -> Result<DType, String> {
    let asked = setting.map_or(Ok(DType::F16), cairn_runtime::parse_kv_type);
    asked.map_err(|error| format!("OLLAMA_KV_CACHE_TYPE: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_type_of_the_cache_keeps_the_daemon_from_starting() {
        assert_eq!(kv_type(None).ok(), Some(DType::F16), "where nothing is set");
        assert_eq!(kv_type(Some("q8_0")).ok(), Some(DType::Q8_0), "where it is set");
        let error = kv_type(Some("q8")).expect_err("there is no such type");
        let expected = "OLLAMA_KV_CACHE_TYPE: unknown type of the KV cache \"q8\": it must be f16, \
                        bf16, q8_0 or q4_0";
        assert_eq!(error, expected, "what was wrong, and what would do");
    }
}
