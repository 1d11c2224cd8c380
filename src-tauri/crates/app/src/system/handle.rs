//! The handle of system information. Clones share everything.

use std::sync::Arc;

use cairn_hardware::Machine;
use cairn_runtime::Engine;

use crate::cache::KvCache;
use crate::clock::Clock;
use crate::library::ModelLibrary;
use crate::remotes::Remotes;
use crate::settings::Settings;

/// What the machine has and what the daemon does with it.
#[derive(Clone)]
pub struct SystemInfo {
    /// The machine as it was at the start.
    pub(super) machine: Arc<Machine>,
    pub(super) engine: Engine,
    pub(super) library: ModelLibrary,
    pub(super) remotes: Remotes,
    pub(super) cache: KvCache,
    pub(super) settings: Arc<Settings>,
    pub(super) clock: Clock,
}

impl SystemInfo {
    pub(crate) fn new(
        machine: Machine,
        engine: &Engine,
        library: &ModelLibrary,
        remotes: &Remotes,
        cache: &KvCache,
        settings: &Arc<Settings>,
        clock: &Clock,
    ) -> Self {
        Self {
            machine: Arc::new(machine),
            engine: engine.clone(),
            library: library.clone(),
            remotes: remotes.clone(),
            cache: cache.clone(),
            settings: Arc::clone(settings),
            clock: clock.clone(),
        }
    }
}
