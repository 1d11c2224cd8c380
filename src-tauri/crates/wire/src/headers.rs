//! Names of the headers that daemons and their clients send.

/// Marks a request of another daemon. It gets only local models, so that remotes never form a loop.
pub const DAEMON_REQUEST: &str = "x-cairn-remote";
/// With the value 1, a request leaves nothing in the cache.
pub const INCOGNITO: &str = "x-cairn-incognito";
