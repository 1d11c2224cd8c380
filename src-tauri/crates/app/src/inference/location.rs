//! Where a model runs: on this machine or at a remote.

use cairn_upstream::Target;

use super::error::Error;
use super::handle::Inference;
use crate::library::catalog::Model;
use crate::library::{self, pebble};

/// Where a model runs.
pub(crate) enum ModelLocation {
    /// On this machine.
    Local(Box<Model>),
    /// At one of these servers.
    Remote(Vec<Target>),
}

/// What stored chats need to know of a model.
pub(crate) struct FoundModel {
    /// Engine key; equal keys mean equal files.
    pub(crate) key: String,
    /// Whether it is the built-in model.
    pub(crate) is_built_in: bool,
}

impl Inference {
    /// Finds the model that a client calls `name`, on this machine or at a remote that was checked.
    pub(crate) fn find(&self, name: &str) -> Result<FoundModel, Error> {
        match self.library.find(name) {
            Ok(model) => Ok(FoundModel { is_built_in: model.summary.name == pebble::NAME, key: model.key }),
            Err(error) if is_absent(&error) && self.targets(name).is_some() => {
                Ok(FoundModel { key: format!("remote:{name}"), is_built_in: false })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a model can call tools; `None` if a remote runs it, which does not report that. Blocks.
    pub(crate) fn can_call_tools(&self, name: &str) -> Option<bool> {
        let model = self.library.find(name).ok()?;
        // An unreadable file is an error of the answer.
        Some(self.library.can_call_tools(&model).unwrap_or(false))
    }

    /// Finds where a model runs. A local model takes precedence.
    pub(super) async fn locate(&self, name: &str) -> Result<ModelLocation, Error> {
        let error = match self.library.find(name) {
            Ok(model) => return Ok(ModelLocation::Local(Box::new(model))),
            Err(error) => error,
        };
        if !is_absent(&error) || !self.uses_remotes {
            return Err(error.into());
        }
        self.remotes.settled().await;
        self.targets(name).map(ModelLocation::Remote).ok_or_else(|| error.into())
    }

    /// The remotes' servers that have a model; `None` if there are none, or the request must not go to a remote.
    pub(super) fn targets(&self, name: &str) -> Option<Vec<Target>> {
        self.uses_remotes.then(|| self.remotes.find(name)).flatten()
    }
}

/// Whether the error means that there is no local model of that name.
pub(super) fn is_absent(error: &library::Error) -> bool {
    matches!(error, library::Error::NotFound(_) | library::Error::Name(_))
}
