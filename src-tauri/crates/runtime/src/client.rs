//! The client of a request. Clients share a model's compute time equally, however many requests each of them sends.

use std::sync::Arc;

/// The client of a request, and how urgent the request is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// Opaque name. Requests with the same name share one client's part of the compute time.
    pub name: Arc<str>,
    /// How urgent the request is.
    pub priority: Priority,
}

/// How urgent a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// A person waits for each token.
    #[default]
    Interactive,
    /// Computed when interactive requests leave time, and slowly otherwise.
    Batch,
}
