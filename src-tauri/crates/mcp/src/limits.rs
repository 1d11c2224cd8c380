//! Limits of what a server may send and of how long it may take.
//!
//! A server is a program of another author. It may be wrong, slow or hostile, so that each count, size and time has a bound here.

use std::time::Duration;

/// Most tools of one server. Providers of models allow about as many in one request.
pub const MAX_TOOLS: usize = 128;
/// Most pages of a list of tools.
pub(crate) const MAX_TOOL_PAGES: usize = 32;
/// Longest name of a tool, as the protocol's text recommends.
pub const MAX_TOOL_NAME_BYTES: usize = 128;
/// Longest description of a tool; a longer one is cut.
pub const MAX_DESCRIPTION_BYTES: usize = 4096;
/// Largest input schema of a tool; a tool with a larger one is left out.
pub const MAX_SCHEMA_BYTES: usize = 32 << 10;
/// Deepest input schema of a tool.
pub const MAX_SCHEMA_DEPTH: usize = 24;
/// Most bytes of all names, descriptions and schemas of a server: all of them become a part of the prompt.
pub const MAX_TOOLS_BYTES: usize = 256 << 10;
/// Most left-out tools that are reported by name.
pub const MAX_OMITTED_TOOLS: usize = 32;

/// Most bytes of the arguments of a call.
pub const MAX_ARGUMENT_BYTES: usize = 1 << 20;
/// Most bytes of all texts of a result; more are cut.
pub const MAX_RESULT_TEXT_BYTES: usize = 256 << 10;
/// Most images of a result.
pub const MAX_RESULT_IMAGES: usize = 8;
/// Most bytes of one image of a result, as base64.
pub const MAX_IMAGE_BYTES: usize = 8 << 20;
/// Most parts of a result that are read; later ones are left out.
pub const MAX_RESULT_PARTS: usize = 256;

/// Largest message of a server.
pub(crate) const MAX_MESSAGE_BYTES: usize = 16 << 20;
/// Most bytes that a server sends between the starts of two requests.
pub(crate) const MAX_EXCHANGE_BYTES: u64 = 64 << 20;
/// Most messages that a server sends between the starts of two requests.
pub(crate) const MAX_EXCHANGE_MESSAGES: u64 = 10_000;

/// Lines at the end of a program's standard error that an error has.
pub const MAX_STDERR_LINES: usize = 20;
/// Longest of these lines; the rest of a longer one is dropped.
pub const MAX_STDERR_LINE_BYTES: usize = 500;
/// Bytes of standard error that are read at once. After as many the reader pauses for [`STDERR_PAUSE`], so that a program that
/// writes without end costs little.
pub(crate) const STDERR_CHUNK_BYTES: usize = 64 << 10;
/// Pause of the reader of standard error.
pub(crate) const STDERR_PAUSE: Duration = Duration::from_millis(20);

/// Longest text of a server in an error.
pub(crate) const MAX_DETAIL_BYTES: usize = 1000;
/// Time in which a program that closed its output may exit before it is killed, and in which the rest of its standard error is
/// read after its exit.
pub(crate) const EXIT_GRACE: Duration = Duration::from_millis(500);
/// Time in which an idle program may exit after its input is closed, before it is killed.
pub(crate) const STOP_GRACE: Duration = Duration::from_secs(2);

/// Most bytes of a page that are read.
pub(crate) const MAX_PAGE_BYTES: usize = 4 << 20;
/// Most redirects from a page to another.
pub(crate) const MAX_REDIRECTS: usize = 5;
/// Time for a page with all redirects.
pub(crate) const PAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// Most bytes of a file that one call reads.
pub(crate) const MAX_READ_BYTES: usize = 64 << 10;
/// Most entries of a folder that are listed.
pub(crate) const MAX_FOLDER_ENTRIES: usize = 1000;

/// Times that a server may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// From the start of the server to the end of the handshake. A start may download a package.
    pub connect: Duration,
    /// For the list of tools.
    pub list: Duration,
    /// For one call.
    pub call: Duration,
    /// Without a request, before the server is stopped.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(60),
            list: Duration::from_secs(30),
            call: Duration::from_secs(120),
            idle: Duration::from_secs(300),
        }
    }
}
