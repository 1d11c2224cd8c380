//! The handle of inference. Clones share everything.

use std::sync::Arc;

use cairn_runtime::{Client, Engine, ModelStatus};

use crate::cache::KvCache;
use crate::clock::Clock;
use crate::library::ModelLibrary;
use crate::library::template::LoggedTemplates;
use crate::remotes::Remotes;
use crate::settings::{LiveValues, Settings};

/// Inference requests.
#[derive(Clone)]
pub struct Inference {
    pub(super) engine: Engine,
    pub(super) library: ModelLibrary,
    pub(super) remotes: Remotes,
    /// Whether requests may go to remotes.
    pub(super) uses_remotes: bool,
    pub(super) cache: KvCache,
    pub(super) logged_templates: Arc<LoggedTemplates>,
    pub(super) settings: Arc<Settings>,
    pub(super) live: Arc<LiveValues>,
    pub(super) clock: Clock,
    /// The client of the requests.
    pub(super) client: Client,
}

impl Inference {
    pub(crate) fn new(
        engine: &Engine,
        library: &ModelLibrary,
        remotes: &Remotes,
        cache: &KvCache,
        settings: &Arc<Settings>,
        live: &Arc<LiveValues>,
        clock: &Clock,
    ) -> Self {
        Self {
            engine: engine.clone(),
            library: library.clone(),
            remotes: remotes.clone(),
            uses_remotes: true,
            cache: cache.clone(),
            logged_templates: Arc::default(),
            settings: Arc::clone(settings),
            live: Arc::clone(live),
            clock: clock.clone(),
            client: Client::default(),
        }
    }

    /// The handle for the requests of a client. The clients of a model share its compute time equally.
    #[must_use]
    pub fn for_client(&self, client: Client) -> Self {
        Self { client, ..self.clone() }
    }

    /// The handle for requests that another daemon sends: without remotes, so that remotes never form a loop.
    #[must_use]
    pub fn without_remotes(&self) -> Self {
        Self { uses_remotes: false, ..self.clone() }
    }

    /// The client of the requests.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the loaded models.
    pub(crate) fn loaded(&self) -> Vec<ModelStatus> {
        self.engine.loaded()
    }
}
