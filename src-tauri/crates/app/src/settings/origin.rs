//! Origin of a setting's value.

/// Source of a setting's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// No source sets it.
    Default,
    /// `config.toml`.
    File,
    /// The variable of this name.
    Environment(&'static str),
    /// The command line.
    Flag,
}

/// The value of one row before parsing, with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assigned {
    pub(super) origin: Origin,
    /// In the form of the environment; `None` by default.
    pub(super) text: Option<String>,
}
