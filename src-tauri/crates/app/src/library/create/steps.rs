//! Reports the steps of the work to the caller.

/// A step, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreateStep {
    /// A line of status, in Ollama's words.
    Status(String),
    /// A problem of the new model.
    Warning(String),
    /// Progress of a step that takes long.
    Progress {
        /// The step.
        status: String,
        /// Bytes completed.
        done_bytes: u64,
        /// Bytes in total.
        total_bytes: u64,
    },
}

/// Receives steps. The function returns whether to continue.
pub(crate) struct Steps<'a>(pub(crate) &'a mut dyn FnMut(CreateStep) -> bool);

impl Steps<'_> {
    pub(super) fn status(&mut self, status: String) {
        (self.0)(CreateStep::Status(status));
    }

    pub(super) fn warning(&mut self, warning: String) {
        (self.0)(CreateStep::Warning(warning));
    }

    /// Returns whether to continue.
    pub(super) fn progress(&mut self, status: &str, done_bytes: u64, total_bytes: u64) -> bool {
        (self.0)(CreateStep::Progress { status: status.to_owned(), done_bytes, total_bytes })
    }
}
