//! Adds, changes, removes and lists servers and permissions.

use std::path::PathBuf;

use cairn_mcp::{Endpoint, FolderReader, OmittedTool, Permission, ServerConfig, Tool, parse_servers};
use tokio::task::spawn_blocking;

use super::error::Error;
use super::handle::{FILES, PAGES, Tools};
use super::limits::MAX_SERVERS;
use super::store::{StoredServer, StoredTools};
use crate::values::excerpt;

/// All tools of the user, without the lists of servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolsStatus {
    /// Servers by name.
    pub servers: Vec<ServerStatus>,
    /// Whether pages of the web may be fetched.
    pub has_pages: bool,
    /// The folder to read files from.
    pub folder: Option<PathBuf>,
}

/// A server and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    /// Its name.
    pub name: String,
    /// How it is reached. Transports must not pass on the values of variables and headers.
    pub endpoint: Endpoint,
    /// Whether its tools are offered.
    pub is_enabled: bool,
    /// Whether it runs or is connected.
    pub is_running: bool,
}

/// The tools of one origin.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerTools {
    /// Its tools.
    pub tools: Vec<ListedTool>,
    /// The first of those that were left out.
    pub omitted: Vec<OmittedTool>,
    /// Number of tools that were left out.
    pub omitted_count: usize,
}

/// A tool and its permission.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedTool {
    /// The tool.
    pub tool: Tool,
    /// Whether it may be called.
    pub permission: Permission,
}

impl Tools {
    /// All tools.
    #[must_use]
    pub fn status(&self) -> ToolsStatus {
        let current = self.0.current.read();
        let status = |(name, server): (&String, &StoredServer)| ServerStatus {
            name: name.clone(),
            endpoint: server.endpoint.clone(),
            is_enabled: server.is_enabled,
            is_running: current.servers.get(name).is_some_and(cairn_mcp::Server::is_running),
        };
        let StoredTools { servers, has_pages, folder, .. } = &current.stored;
        ToolsStatus { servers: servers.iter().map(status).collect(), has_pages: *has_pages, folder: folder.clone() }
    }

    /// Adds a server. It starts with the first use of its tools.
    ///
    /// # Errors
    /// If it is invalid, its name is taken, or it cannot be stored. Nothing is stored then.
    pub async fn add(&self, config: ServerConfig, is_enabled: bool) -> Result<(), Error> {
        self.add_all(vec![(config, is_enabled)]).await
    }

    /// Adds the servers of a text in the format of other apps: all of them, or none. Returns their names.
    ///
    /// # Errors
    /// As [`Tools::add`], and if the text has no servers.
    pub async fn import(&self, text: &str) -> Result<Vec<String>, Error> {
        let imported = parse_servers(text)?;
        let names = imported.iter().map(|server| server.config.name.clone()).collect();
        self.add_all(imported.into_iter().map(|server| (server.config, server.is_enabled)).collect()).await?;
        Ok(names)
    }

    async fn add_all(&self, servers: Vec<(ServerConfig, bool)>) -> Result<(), Error> {
        self.change(move |stored| {
            for (config, is_enabled) in servers {
                config.check()?;
                let ServerConfig { name, endpoint } = config;
                match () {
                    () if [PAGES, FILES].contains(&&*name) => return Err(Error::Reserved(name)),
                    () if stored.servers.contains_key(&name) => return Err(Error::Taken(name)),
                    () if stored.servers.len() >= MAX_SERVERS => return Err(Error::TooMany),
                    () => {}
                }
                // A server of the same name may have been removed by hand.
                stored.permissions.remove_origin(&name);
                stored.servers.insert(name, StoredServer { endpoint, is_enabled });
            }
            Ok(())
        })
        .await
    }

    /// Stops and removes a server, with the permissions of its tools.
    ///
    /// # Errors
    /// If there is none, or the change cannot be stored.
    pub async fn remove(&self, name: &str) -> Result<(), Error> {
        let name = name.to_owned();
        self.change(move |stored| {
            if stored.servers.remove(&name).is_none() {
                return Err(Error::NotFound(excerpt(&name).into_owned()));
            }
            stored.permissions.remove_origin(&name);
            Ok(())
        })
        .await
    }

    /// Turns a server on, or stops it and turns it off.
    ///
    /// # Errors
    /// If there is none, or the change cannot be stored.
    pub async fn set_enabled(&self, name: &str, is_enabled: bool) -> Result<(), Error> {
        let name = name.to_owned();
        self.change(move |stored| {
            let server = stored.servers.get_mut(&name);
            server.ok_or_else(|| Error::NotFound(excerpt(&name).into_owned()))?.is_enabled = is_enabled;
            Ok(())
        })
        .await
    }

    /// Turns the tool that fetches pages on or off.
    ///
    /// # Errors
    /// If the change cannot be stored.
    pub async fn set_pages(&self, has_pages: bool) -> Result<(), Error> {
        self.change(move |stored| {
            stored.has_pages = has_pages;
            Ok(())
        })
        .await
    }

    /// Chooses the folder to read files from, or turns the tool off.
    ///
    /// # Errors
    /// If the folder cannot be read, or the change cannot be stored.
    pub async fn set_folder(&self, folder: Option<PathBuf>) -> Result<(), Error> {
        self.change(move |stored| {
            if let Some(folder) = &folder {
                FolderReader::open(folder)?;
            }
            if stored.folder != folder {
                // Permissions were given for the files of the other folder.
                stored.permissions.remove_origin(FILES);
            }
            stored.folder = folder;
            Ok(())
        })
        .await
    }

    /// Lists the tools of a server, or of a tool of this program. Starts a server that does not run.
    ///
    /// # Errors
    /// If there is none, it is off, or the server does not list its tools.
    pub async fn list(&self, origin: &str) -> Result<ServerTools, Error> {
        let list = self.toolset(origin).await?.tools().await?;
        let permissions = self.0.current.read().stored.permissions.clone();
        let listed = |tool: Tool| ListedTool { permission: permissions.of(origin, &tool), tool };
        let tools = list.tools.into_iter().map(listed).collect();
        Ok(ServerTools { tools, omitted: list.omitted, omitted_count: list.omitted_count })
    }

    /// Sets the permission of a tool as the server lists it now.
    ///
    /// # Errors
    /// If there is no such tool, or the change cannot be stored.
    pub async fn set_permission(&self, origin: &str, tool: &str, permission: Permission) -> Result<(), Error> {
        let missing = || Error::NoTool { origin: origin.to_owned(), tool: excerpt(tool).into_owned() };
        let list = self.list(origin).await?;
        let listed = list.tools.into_iter().find(|listed| listed.tool.name == tool).ok_or_else(missing)?;
        self.permit(origin, listed.tool, permission).await
    }

    /// Sets the permission of a tool as the user saw it.
    ///
    /// # Errors
    /// If the change cannot be stored.
    pub async fn permit(&self, origin: &str, tool: Tool, permission: Permission) -> Result<(), Error> {
        let origin = origin.to_owned();
        self.change(move |stored| Ok(stored.permissions.set(&origin, &tool, permission)?)).await
    }

    /// Changes the stored tools, and stops servers that were removed, changed or turned off. A caller that drops the future does
    /// not cancel the change.
    async fn change(
        &self,
        change: impl FnOnce(&mut StoredTools) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        let tools = self.clone();
        let changed = spawn_blocking(move || {
            let store = tools.0.store.lock();
            let mut stored = store.read()?;
            change(&mut stored)?;
            store.write(&stored)?;
            let mut current = tools.0.current.write();
            current.servers.retain(|name, server| {
                let kept = stored.servers.get(name);
                let is_kept = kept.is_some_and(|kept| kept.is_enabled && kept.endpoint == server.config().endpoint);
                if !is_kept {
                    server.stop();
                }
                is_kept
            });
            current.stored = stored;
            Ok(())
        });
        changed.await.expect("writing does not panic")
    }
}

#[cfg(test)]
mod tests;
