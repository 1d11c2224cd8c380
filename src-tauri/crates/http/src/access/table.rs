//! The access table: which clients may send which request. [`crate::access`] applies it, and `SECURITY.md` contains it.

use std::fmt::Write;

use cairn_app::settings::RequireKey;
use cairn_wire::app::KeyScope;

use super::host::Host;
use super::page::Page;
use crate::credential::Credential;

/// A group of routes with the same rule.
#[derive(Debug)]
pub(super) struct Row {
    /// Paths; `/*` at the end matches all longer paths. An empty list matches all other paths.
    pub(super) routes: &'static [&'static str],
    /// What the routes do.
    about: &'static str,
    /// Access of programs on this machine.
    here: Access,
    /// Whether programs on this machine must use a loopback name with the daemon's port.
    needs_loopback_name: bool,
    /// Access of other machines.
    elsewhere: Access,
    /// Which web pages have access, besides programs.
    pages: &'static [Page],
}

/// What a machine needs for access. A key needs one of the scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// There is no access.
    Refused,
    /// Nothing.
    Open,
    /// The setting `sharing.share`.
    OpenIfShared,
    /// A key if `server.require_key` is `all`. Otherwise nothing, but a wrong key is refused unless the setting is `off`.
    KeyIfAll(&'static [KeyScope]),
    /// A key unless `server.require_key` is `off`.
    Key(&'static [KeyScope]),
    /// A key, whatever the settings are.
    KeyAlways(&'static [KeyScope]),
    /// A key, the daemon token or a session token.
    TokenOrKey(&'static [KeyScope]),
}

/// The properties of a request that the table reads.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    /// Whether the client runs on this machine and no proxy is between.
    pub(super) is_local: bool,
    pub(super) host: Host,
    /// Whether a trusted proxy forwards the request, under any of its names.
    pub(super) is_proxied: bool,
    pub(super) page: Page,
    /// The setting `sharing.share`.
    pub(super) shares: bool,
    /// The setting `server.require_key`.
    pub(super) require_key: RequireKey,
    pub(super) credential: Credential,
    /// Whether it is a CORS preflight request, which never has a credential.
    pub(super) is_preflight: bool,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    Host,
    Page,
    Machine,
    NotShared,
    /// The daemon token or a session token is missing or wrong.
    Token,
    /// A key with one of the scopes is missing.
    NoKey(&'static [KeyScope]),
    /// The credential has the form of a key and is not valid, or it is another text where a key is needed.
    WrongKey,
    /// The key has none of the scopes.
    Scope(&'static [KeyScope]),
}

const TABLE: &[Row] = &[
    Row {
        routes: &["/", "/api/version", "/api/status", "/openapi.json"],
        about: "state",
        here: Access::Open,
        needs_loopback_name: false,
        elsewhere: Access::Open,
        pages: &[Page::Own, Page::Allowed, Page::Link],
    },
    Row {
        routes: &["/api/tags", "/api/ps", "/api/show", "/v1/models", "/v1/models/*"],
        about: "list models",
        here: Access::Open,
        needs_loopback_name: false,
        elsewhere: Access::KeyIfAll(&[KeyScope::Chat, KeyScope::Models]),
        pages: &[Page::Own, Page::Allowed],
    },
    Row {
        routes: &["/api/generate", "/api/chat", "/api/embed", "/api/embeddings", "/v1/*"],
        about: "generate, embed",
        here: Access::Open,
        needs_loopback_name: false,
        elsewhere: Access::KeyIfAll(&[KeyScope::Chat]),
        pages: &[Page::Own, Page::Allowed],
    },
    Row {
        routes: &["/v2", "/v2/*"],
        about: "read models; fetch them with a trusted key",
        here: Access::Open,
        needs_loopback_name: false,
        elsewhere: Access::OpenIfShared,
        pages: &[],
    },
    Row {
        routes: &["/app/session"],
        about: "exchange a ticket for a session token",
        here: Access::Open,
        needs_loopback_name: true,
        elsewhere: Access::Refused,
        pages: &[Page::Own],
    },
    Row {
        routes: &["/metrics"],
        about: "metrics for Prometheus",
        here: Access::TokenOrKey(&[KeyScope::Metrics]),
        needs_loopback_name: false,
        elsewhere: Access::TokenOrKey(&[KeyScope::Metrics]),
        pages: &[Page::Own],
    },
    Row {
        routes: &["/app/tools", "/app/tools/*"],
        about: "tools, which can be programs of this user",
        here: Access::TokenOrKey(&[KeyScope::Admin]),
        needs_loopback_name: true,
        elsewhere: Access::Refused,
        pages: &[Page::Own],
    },
    Row {
        routes: &["/app/*"],
        about: "chats, settings, downloads, keys, remotes",
        here: Access::TokenOrKey(&[KeyScope::Admin]),
        needs_loopback_name: true,
        elsewhere: Access::KeyAlways(&[KeyScope::Admin]),
        pages: &[Page::Own],
    },
    Row {
        routes: &["/ui", "/ui/*"],
        about: "files of the interface",
        here: Access::Open,
        needs_loopback_name: true,
        elsewhere: Access::Refused,
        pages: &[Page::Own, Page::Link],
    },
    Row {
        routes: &[],
        about: "pull, push, create, copy and delete models; upload blobs",
        here: Access::Open,
        needs_loopback_name: false,
        elsewhere: Access::Key(&[KeyScope::Models]),
        pages: &[Page::Own, Page::Allowed],
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

    /// Decides about a request.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub(super) fn decide(&self, facts: &Facts) -> Result<(), Refusal> {
        let access = if facts.is_local { self.here } else { self.elsewhere };
        match access {
            Access::Refused => return Err(Refusal::Machine),
            Access::OpenIfShared if !facts.shares => return Err(Refusal::NotShared),
            _ => {}
        }
        let is_host_allowed = match access {
            _ if facts.is_local && self.needs_loopback_name => facts.host == Host::Loopback,
            // No web page has access, so a page cannot use a name that it points at this machine.
            Access::OpenIfShared if facts.is_proxied => true,
            _ => facts.host != Host::Foreign,
        };
        match () {
            () if !is_host_allowed => Err(Refusal::Host),
            () if !self.allows_page(facts.page) => Err(Refusal::Page),
            () if facts.is_preflight => Ok(()),
            () => access.check(&facts.credential, facts.require_key),
        }
    }
}

impl Access {
    /// Checks the credential of a request.
    fn check(self, credential: &Credential, require_key: RequireKey) -> Result<(), Refusal> {
        let (scopes, needs_key) = match self {
            Self::Refused | Self::Open | Self::OpenIfShared => return Ok(()),
            Self::KeyIfAll(_) | Self::Key(_) if require_key == RequireKey::Off => return Ok(()),
            Self::KeyIfAll(scopes) => (scopes, require_key == RequireKey::All),
            Self::Key(scopes) | Self::KeyAlways(scopes) | Self::TokenOrKey(scopes) => (scopes, true),
        };
        match credential {
            // The daemon's own clients use loopback only.
            Credential::Token if matches!(self, Self::KeyAlways(_)) => Err(Refusal::Machine),
            credential if credential.allows(scopes) => Ok(()),
            Credential::Token | Credential::Key(_) => Err(Refusal::Scope(scopes)),
            Credential::WrongKey(_) => Err(Refusal::WrongKey),
            _ if matches!(self, Self::TokenOrKey(_)) => Err(Refusal::Token),
            Credential::Absent | Credential::OtherText(_) if !needs_key => Ok(()),
            Credential::Absent => Err(Refusal::NoKey(scopes)),
            Credential::OtherText(_) => Err(Refusal::WrongKey),
        }
    }

    /// Words for the documentation.
    fn about(self) -> String {
        let key = |scopes: &[KeyScope]| format!("key for {}", any_of(scopes));
        match self {
            Self::Refused => "no".to_owned(),
            Self::Open => "yes".to_owned(),
            Self::OpenIfShared => "with `CAIRN_SHARE=1`".to_owned(),
            Self::KeyIfAll(scopes) => format!("yes; with `CAIRN_REQUIRE_KEY=all`: {}", key(scopes)),
            Self::Key(scopes) => format!("{}; with `CAIRN_REQUIRE_KEY=off`: yes", key(scopes)),
            Self::KeyAlways(scopes) => key(scopes),
            Self::TokenOrKey(scopes) => format!("token, or {}", key(scopes)),
        }
    }
}

/// Lists scopes of which one is enough: `chat or models`.
pub(super) fn any_of(scopes: &[KeyScope]) -> String {
    scopes.iter().map(|scope| scope.name()).collect::<Vec<_>>().join(" or ")
}

/// Which credentials the requests of a path may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    /// A key from other machines, depending on the settings.
    KeyElsewhere,
    TokenOrKey,
}

/// Returns which credentials the requests of a path may need.
pub(crate) fn needs_of(path: &str) -> Needs {
    let row = Row::of(path);
    match (row.here, row.elsewhere) {
        (Access::TokenOrKey(_), _) => Needs::TokenOrKey,
        (_, Access::KeyIfAll(_) | Access::Key(_) | Access::KeyAlways(_)) => Needs::KeyElsewhere,
        _ => Needs::Nothing,
    }
}

/// Renders the table as Markdown.
#[must_use]
pub fn document() -> String {
    let mut text = "| routes | for | this machine | other machines | web pages |\n|---|---|---|---|---|\n".to_owned();
    for row in TABLE {
        let routes: Vec<_> = row.routes.iter().map(|route| format!("`{route}`")).collect();
        let routes = if routes.is_empty() { "all others".to_owned() } else { routes.join(", ") };
        let name = if row.needs_loopback_name { ", under a loopback name" } else { "" };
        let pages: Vec<_> = row.pages.iter().map(|page| page.about()).collect();
        let pages = if pages.is_empty() { "none".to_owned() } else { pages.join(", ") };
        let (here, elsewhere) = (row.here.about(), row.elsewhere.about());
        writeln!(text, "| {routes} | {} | {here}{name} | {elsewhere} | {pages} |", row.about)
            .expect("writing to a string");
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
