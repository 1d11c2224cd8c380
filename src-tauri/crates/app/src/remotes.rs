//! Remotes: other servers with models that this daemon serves under their own names.
//!
//! [`Remotes`] is the handle. It stores the remotes of this user, checks their health while there are any, merges their models
//! into the list of local ones, and finds the servers of a model. A local model takes precedence over a model of a remote with the
//! same name. Only `/app`, which needs the token or a key for admin, shows addresses and manages remotes; answers and lists of
//! models have names of remotes only.

mod error;
mod handle;
mod index;
mod limits;
mod manage;
mod served;
mod store;

pub use error::Error;
pub use handle::Remotes;
pub(crate) use index::canonical;
pub use limits::MAX_REMOTES;
pub use manage::{NewRemote, RemoteStatus};
pub use served::ServedModel;

pub use cairn_upstream::{Counts, Health, ServerKind};
