//! The access table: which clients may send which request. [`crate::access`] applies it, and `SECURITY.md` contains it.

use std::fmt::Write;

use super::host::Host;
use super::page::Page;

/// A group of routes with the same rule.
#[derive(Debug)]
pub(super) struct Row {
    /// Paths; `/*` at the end matches all longer paths. An empty list matches all other paths.
    pub(super) routes: &'static [&'static str],
    /// What the routes do.
    about: &'static str,
    /// Which machines have access.
    machines: Machines,
    /// Which web pages have access, besides programs.
    pages: &'static [Page],
    /// Which token is required.
    token: Token,
}

/// Which machines have access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Machines {
    /// This one, under a loopback name with the daemon's port.
    Loopback,
    /// This one, under any of its names.
    This,
    /// All; others only if `sharing.share` is on.
    AllIfShared,
    /// All that can connect.
    All,
}

/// Which token is required.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    /// No token.
    NotRequired,
    /// The daemon token or a session token.
    Daemon,
    /// The daemon token, a session token, or an API key with the scope `metrics`.
    Metrics,
}

/// The properties of a request that the table reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    /// Whether the client runs on this machine and no proxy is between.
    pub(super) is_local: bool,
    pub(super) host: Host,
    /// Whether a trusted proxy forwards the request, under any of its names.
    pub(super) is_proxied: bool,
    pub(super) page: Page,
    /// The setting `sharing.share`.
    pub(super) shares: bool,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    Host,
    Page,
    Machine,
    NotShared,
    Token,
}

const TABLE: &[Row] = &[
    Row {
        routes: &["/", "/api/version", "/api/status"],
        about: "state",
        machines: Machines::All,
        pages: &[Page::Own, Page::Allowed, Page::Link],
        token: Token::NotRequired,
    },
    Row {
        routes: &["/api/tags", "/api/ps", "/api/show", "/v1/models", "/v1/models/*"],
        about: "list models",
        machines: Machines::All,
        pages: &[Page::Own, Page::Allowed],
        token: Token::NotRequired,
    },
    Row {
        routes: &["/api/generate", "/api/chat", "/v1/*"],
        about: "generate",
        machines: Machines::All,
        pages: &[Page::Own, Page::Allowed],
        token: Token::NotRequired,
    },
    Row {
        routes: &["/v2", "/v2/*"],
        about: "read models; fetch them with a trusted key",
        machines: Machines::AllIfShared,
        pages: &[],
        token: Token::NotRequired,
    },
    Row {
        routes: &["/app/session"],
        about: "exchange a ticket for a session token",
        machines: Machines::Loopback,
        pages: &[Page::Own],
        token: Token::NotRequired,
    },
    Row {
        routes: &["/metrics"],
        about: "metrics for Prometheus",
        machines: Machines::All,
        pages: &[Page::Own],
        token: Token::Metrics,
    },
    Row {
        routes: &["/app/*"],
        about: "chats, settings, downloads",
        machines: Machines::Loopback,
        pages: &[Page::Own],
        token: Token::Daemon,
    },
    Row {
        routes: &["/ui", "/ui/*"],
        about: "files of the interface",
        machines: Machines::Loopback,
        pages: &[Page::Own, Page::Link],
        token: Token::NotRequired,
    },
    Row {
        routes: &[],
        about: "pull, push, create, copy and delete models; upload blobs",
        machines: Machines::This,
        pages: &[Page::Own, Page::Allowed],
        token: Token::NotRequired,
    },
];

impl Row {
    /// The row of a path.
    pub(super) fn of(path: &str) -> &'static Self {
        let matches = |route: &&str| match route.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => path == *route,
        };
        let (others, rows) = TABLE.split_last().expect("the table has rows");
        rows.iter().find(|row| row.routes.iter().any(matches)).unwrap_or(others)
    }

    /// Whether responses may be shown to such a page.
    pub(super) fn allows_page(&self, page: Page) -> bool {
        page == Page::Program || self.pages.contains(&page)
    }

    /// Decides about a request. `has_token` is called only if the row requires one.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub(super) fn decide(&self, facts: &Facts, has_token: impl FnOnce(Token) -> bool) -> Result<(), Refusal> {
        match self.machines {
            _ if facts.is_local => {}
            Machines::Loopback | Machines::This => return Err(Refusal::Machine),
            Machines::AllIfShared if !facts.shares => return Err(Refusal::NotShared),
            Machines::AllIfShared | Machines::All => {}
        }
        let is_host_allowed = match self.machines {
            Machines::Loopback => facts.host == Host::Loopback,
            // No web page has access, so a page cannot use a name that it points at this machine.
            Machines::AllIfShared if facts.is_proxied => true,
            Machines::This | Machines::AllIfShared | Machines::All => facts.host != Host::Foreign,
        };
        match () {
            () if !is_host_allowed => Err(Refusal::Host),
            () if !self.allows_page(facts.page) => Err(Refusal::Page),
            () if self.token != Token::NotRequired && !has_token(self.token) => Err(Refusal::Token),
            () => Ok(()),
        }
    }
}

/// Renders the table as Markdown.
#[must_use]
pub fn document() -> String {
    let mut text = "| routes | for | machines | web pages | token |\n|---|---|---|---|---|\n".to_owned();
    for row in TABLE {
        let routes: Vec<_> = row.routes.iter().map(|route| format!("`{route}`")).collect();
        let routes = if routes.is_empty() { "all others".to_owned() } else { routes.join(", ") };
        let machines = match row.machines {
            Machines::Loopback => "this, under a loopback name",
            Machines::This => "this",
            Machines::AllIfShared => "this; others with `CAIRN_SHARE=1`",
            Machines::All => "all",
        };
        let pages: Vec<_> = row.pages.iter().map(|page| page.about()).collect();
        let pages = if pages.is_empty() { "none".to_owned() } else { pages.join(", ") };
        let token = match row.token {
            Token::NotRequired => "-",
            Token::Daemon => "daemon or session token",
            Token::Metrics => "daemon or session token, API key for metrics",
        };
        writeln!(text, "| {routes} | {} | {machines} | {pages} | {token} |", row.about).expect("writing to a string");
    }
    text
}

impl Page {
    /// Words for the documentation.
    fn about(self) -> &'static str {
        match self {
            Self::Program => "programs",
            Self::Own => "Cairn's",
            Self::Allowed => "allowed origins",
            Self::Foreign => "all",
            Self::Link => "links from any",
        }
    }
}
