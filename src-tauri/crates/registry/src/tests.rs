//! Fake blob sources and HTTP servers for the unit tests of several modules.

pub(crate) mod fake_source;
pub(crate) mod test_server;
