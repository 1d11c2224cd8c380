//! The handle of tools, and the servers in use.

use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_mcp::limits::Timeouts;
use cairn_mcp::{
    FolderReader, Launch, OfferedTool, PageFetcher, Permission, Server, ServerConfig, Surroundings, Toolbox, Toolset,
};
use parking_lot::{Mutex, RwLock};
use tokio::task::spawn_blocking;

use super::error::Error;
use super::store::{Store, StoredTools};
use crate::settings::Settings;
use crate::transfers::Transfers;
use crate::version::VERSION;

/// Name of the tool that fetches pages, among the names of servers.
pub(super) const PAGES: &str = "web";
/// Name of the tool that reads files.
pub(super) const FILES: &str = "files-of-folder";

/// The tools of this user. Clones share them.
#[derive(Clone)]
pub struct Tools(pub(super) Arc<Shared>);

pub(super) struct Shared {
    pub(super) store: Mutex<Store>,
    pub(super) current: RwLock<Current>,
    transfers: Transfers,
    surroundings: Surroundings,
}

/// The stored tools, and the servers that were used since the start.
#[derive(Default)]
pub(super) struct Current {
    pub(super) stored: StoredTools,
    pub(super) servers: BTreeMap<String, Server>,
}

impl Tools {
    /// Reads the tools. Starts no server. Without a readable file no tool is used, and the log has the reason.
    pub(crate) fn open(transfers: &Transfers, settings: &Settings) -> Self {
        let store = Store::open(settings.places().config.join("tools.json"));
        let stored = store.read().unwrap_or_else(|error| {
            tracing::warn!("{error}");
            StoredTools::default()
        });
        Self(Arc::new(Shared {
            store: Mutex::new(store),
            current: RwLock::new(Current { stored, servers: BTreeMap::new() }),
            transfers: transfers.clone(),
            surroundings: Surroundings { environment: settings.environment_of_programs(), folder: None },
        }))
    }

    /// Whether any tool is on.
    #[must_use]
    pub fn is_any_enabled(&self) -> bool {
        let stored = &self.0.current.read().stored;
        stored.has_pages || stored.folder.is_some() || stored.servers.values().any(|server| server.is_enabled)
    }

    /// Returns whether a tool may be called now. `None` if its origin was turned off since it was offered.
    pub(crate) fn permission(&self, offered: &OfferedTool) -> Option<Permission> {
        let stored = &self.0.current.read().stored;
        let is_on = match &*offered.origin {
            PAGES => stored.has_pages,
            FILES => stored.folder.is_some(),
            name => stored.servers.get(name).is_some_and(|server| server.is_enabled),
        };
        is_on.then(|| stored.permissions.of(&offered.origin, &offered.tool))
    }

    /// Returns all tools that are on and not forbidden. Starts their servers; one that fails is left out and named.
    ///
    /// # Errors
    /// If the network settings prevent connections.
    pub async fn toolbox(&self) -> Result<Toolbox, Error> {
        if !self.is_any_enabled() {
            return Ok(Toolbox::default());
        }
        let stored = self.0.current.read().stored.clone();
        let enabled = stored.servers.iter().filter(|(_, server)| server.is_enabled).map(|(name, _)| name.clone());
        let files = stored.folder.as_ref().map(|_| FILES.to_owned());
        let pages = stored.has_pages.then(|| PAGES.to_owned());
        let mut sets = Vec::new();
        for name in pages.into_iter().chain(files).chain(enabled) {
            match self.toolset(&name).await {
                Ok(set) => sets.push((name, set)),
                Err(Error::Network(error)) => return Err(Error::Network(error)),
                // A folder that was removed must not prevent answers.
                Err(error) => tracing::warn!(%error, "the tools of {name} are left out"),
            }
        }
        Ok(Toolbox::open(sets, &stored.permissions).await)
    }

    /// Returns the tools of one name that is on.
    pub(super) async fn toolset(&self, name: &str) -> Result<Toolset, Error> {
        let (tools, name) = (self.clone(), name.to_owned());
        spawn_blocking(move || tools.open_toolset(&name))
            .await
            .expect("reading certificates and folders does not panic")
    }

    /// Blocks on first use to load the system's certificates.
    fn open_toolset(&self, name: &str) -> Result<Toolset, Error> {
        let stored = self.0.current.read().stored.clone();
        let off = || Error::Off(name.to_owned());
        match name {
            PAGES if !stored.has_pages => return Err(off()),
            PAGES => return Ok(Toolset::Pages(self.page_fetcher()?)),
            FILES => {
                let folder = stored.folder.as_deref().ok_or_else(off)?;
                return Ok(Toolset::Folder(FolderReader::open(folder)?));
            }
            _ => {}
        }
        let server = stored.servers.get(name).ok_or_else(|| Error::NotFound(name.to_owned()))?;
        if !server.is_enabled {
            return Err(off());
        }
        let launch = self.launch()?;
        let config = ServerConfig { name: name.to_owned(), endpoint: server.endpoint.clone() };
        let mut current = self.0.current.write();
        // The server may have been removed or turned off meanwhile.
        if current.stored.servers.get(name) != Some(server) {
            return Err(off());
        }
        let used = current.servers.entry(name.to_owned()).or_insert_with(|| Server::new(config, launch));
        Ok(Toolset::Server(used.clone()))
    }

    fn launch(&self) -> Result<Launch, Error> {
        let transport = self.0.transfers.transport().map_err(|error| Error::Network(error.to_string()))?;
        Ok(Launch {
            surroundings: self.0.surroundings.clone(),
            http: transport.http_client(),
            client: ("cairn".to_owned(), VERSION.to_owned()),
            timeouts: Timeouts::default(),
        })
    }

    fn page_fetcher(&self) -> Result<PageFetcher, Error> {
        let transport = self.0.transfers.transport().map_err(|error| Error::Network(error.to_string()))?;
        let allows = Arc::new(cairn_registry::is_public);
        Ok(PageFetcher::new(transport.public_http_client(), allows, !transport.has_proxy()))
    }
}
