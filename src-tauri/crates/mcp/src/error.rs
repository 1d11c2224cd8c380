//! Errors of tools.

use std::fmt;
use std::time::Duration;

use crate::limits::{MAX_ARGUMENT_BYTES, MAX_DETAIL_BYTES};
use crate::meter::Excess;
use crate::text::one_line;

/// Why a server cannot be used, or a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The program cannot be started.
    #[error("cannot start {command:?} for the tools of {server}: {cause}; is the program installed and in the PATH?")]
    Start {
        /// Name of the server.
        server: String,
        /// The command.
        command: String,
        /// The cause.
        cause: String,
    },
    /// The handshake failed.
    #[error("{server} does not answer as an MCP server: {cause}{stderr}")]
    Handshake {
        /// Name of the server.
        server: String,
        /// The cause.
        cause: String,
        /// Last lines of the program's standard error.
        stderr: LastLines,
    },
    /// The server took too long. It is stopped, and the next request starts it again.
    #[error("{server} did not {task} within {} s; it was stopped, and the next request starts it again{stderr}", after.as_secs_f64())]
    Timeout {
        /// Name of the server.
        server: String,
        /// What the server should do.
        task: Task,
        /// The timeout.
        after: Duration,
        /// Last lines of the program's standard error.
        stderr: LastLines,
    },
    /// The program ended, or the connection did.
    #[error("{server} ended before it could {task}: {how}{stderr}")]
    Ended {
        /// Name of the server.
        server: String,
        /// What the server should do.
        task: Task,
        /// Exit status, or the cause.
        how: String,
        /// Last lines of the program's standard error.
        stderr: LastLines,
    },
    /// The server sent too much. It is stopped.
    #[error("{server} sent too much and was stopped: {excess}")]
    Flood {
        /// Name of the server.
        server: String,
        /// The limit.
        excess: Excess,
    },
    /// The request failed, or the response is invalid.
    #[error("{server} could not {task}: {cause}")]
    Failed {
        /// Name of the server.
        server: String,
        /// What the server should do.
        task: Task,
        /// The cause.
        cause: String,
    },
    /// The server answered with an error.
    #[error("{server} refused to {task}: {message}")]
    Refused {
        /// Name of the server.
        server: String,
        /// What the server should do.
        task: Task,
        /// The server's text.
        message: String,
    },
    /// The arguments of a call are too long.
    #[error("the arguments of {tool:?} have {bytes} bytes; the limit is {MAX_ARGUMENT_BYTES}")]
    Arguments {
        /// Name of the tool.
        tool: String,
        /// Their length.
        bytes: usize,
    },
}

/// What a server should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Start and complete the handshake.
    Start,
    /// List its tools.
    List,
    /// Complete a call.
    Call,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::List => "list its tools",
            Self::Call => "complete the call",
        })
    }
}

/// Last lines of a program's standard error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LastLines(pub Vec<String>);

impl fmt::Display for LastLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [] => Ok(()),
            lines => write!(f, ". Its last output:\n{}", lines.join("\n")),
        }
    }
}

/// Returns the text of the first cause of an error. Texts of outer errors may have a URL, which may have a key.
pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut root = error;
    while let Some(source) = root.source() {
        root = source;
    }
    one_line(&root.to_string(), MAX_DETAIL_BYTES)
}
