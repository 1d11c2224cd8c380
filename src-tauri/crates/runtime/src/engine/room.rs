//! Room for another model: unloads others, and provides the compute threads.

use std::sync::{Arc, Weak};

use cairn_gguf::DType;
use cairn_hardware::Machine;
use cairn_models::ModelFile;
use cairn_tensor::Team;

use super::{DEFAULT_CONTEXT_TOKENS, Engine};
use crate::config::LoadOptions;
use crate::error::LoadError;
use crate::loaded::check_memory;

impl Engine {
    /// Unloads models until there is room for another one: idle models first, in the order in which they expire. If every model
    /// is busy, drains one: stops routing requests to it and waits. Otherwise steady traffic would starve the new model.
    pub(super) async fn make_room(&self, id: &str, file: &ModelFile, options: &LoadOptions) -> Result<(), LoadError> {
        loop {
            let idle = self.0.idle.notified();
            let fits = if options.force {
                Ok(())
            } else {
                // Probed each time, because an unload frees memory.
                let context_tokens = options.context_tokens.unwrap_or(DEFAULT_CONTEXT_TOKENS);
                check_memory(file, context_tokens, self.kv_type(options), &Machine::probe())
            };
            if let Err(error @ LoadError::Model(_)) = fits {
                return Err(error);
            }
            {
                let mut entries = self.0.entries.lock();
                let replaces = entries.contains_key(id);
                if !replaces && entries.len() < self.0.config.max_loaded && (fits.is_ok() || entries.is_empty()) {
                    return fits;
                }
                let victim = entries
                    .iter_mut()
                    .filter(|(key, _)| !replaces || key.as_str() == id)
                    .min_by_key(|(_, entry)| (entry.leases > 0, !entry.is_draining, entry.keep_alive, entry.expires));
                let (key, entry) = victim.expect("a model is loaded, because there is no room");
                if entry.leases == 0 {
                    tracing::info!(id = %key, by = %id, "model unloaded to make room");
                    let key = key.clone();
                    entries.remove(&key);
                    continue;
                }
                if !entry.is_draining {
                    tracing::info!(id = %key, by = %id, "model drained to make room");
                    entry.is_draining = true;
                }
            }
            idle.await;
        }
    }

    /// Number of compute threads for these options, at most one per core: more would wait for each other.
    pub(super) fn threads(&self, options: &LoadOptions) -> usize {
        let cores = self.0.config.machine.cpu.usable_cores.len();
        options.threads.unwrap_or(cores).min(cores).max(1)
    }

    /// Type of keys and values for these options.
    pub(super) fn kv_type(&self, options: &LoadOptions) -> DType {
        options.kv_type.unwrap_or(self.0.config.kv_type)
    }

    /// The compute team of this size. Models share it.
    pub(super) fn team(&self, threads: usize) -> std::io::Result<Arc<Team>> {
        let mut teams = self.0.teams.lock();
        if let Some(team) = teams.get(&threads).and_then(Weak::upgrade) {
            return Ok(team);
        }
        let team = Arc::new(Team::new(threads, &self.0.config.machine.cpu.usable_cores)?);
        teams.insert(threads, Arc::downgrade(&team));
        Ok(team)
    }
}
