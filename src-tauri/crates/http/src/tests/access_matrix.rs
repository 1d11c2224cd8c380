//! The access table as the documentation shows it, against real requests: every route group with every kind of host,
//! machine, web page and credential.

use cairn_wire::app::KeyScope;

use super::*;

const SECURITY: &str = include_str!("../../../../../.github/SECURITY.md");
const REMOTE: [u8; 4] = [192, 168, 0, 9];

/// Requests of each row of the table. Without a body they change nothing.
const REQUESTS: &[(&str, &[(&str, &str)])] = &[
    (
        "`/`, `/api/version`, `/api/status`, `/openapi.json`",
        &[("GET", "/"), ("GET", "/api/version"), ("GET", "/api/status"), ("GET", "/openapi.json")],
    ),
    (
        "`/api/tags`, `/api/ps`, `/api/show`, `/v1/models`, `/v1/models/*`",
        &[
            ("GET", "/api/tags"),
            ("GET", "/api/ps"),
            ("POST", "/api/show"),
            ("GET", "/v1/models"),
            ("GET", "/v1/models/m"),
        ],
    ),
    (
        "`/api/generate`, `/api/chat`, `/api/embed`, `/api/embeddings`, `/v1/*`",
        &[
            ("POST", "/api/generate"),
            ("POST", "/api/chat"),
            ("POST", "/api/embed"),
            ("POST", "/api/embeddings"),
            ("POST", "/v1/chat/completions"),
            ("POST", "/v1/completions"),
            ("POST", "/v1/embeddings"),
            ("POST", "/v1/rerank"),
            ("POST", "/v1/messages"),
            ("POST", "/v1/messages/count_tokens"),
            ("GET", "/v1/nowhere"),
        ],
    ),
    ("`/v2`, `/v2/*`", &[("GET", "/v2"), ("GET", "/v2/")]),
    ("`/app/session`", &[("POST", "/app/session")]),
    ("`/metrics`", &[("GET", "/metrics")]),
    ("`/app/tools`, `/app/tools/*`", &[("GET", "/app/tools"), ("DELETE", "/app/tools/servers/none")]),
    ("`/app/*`", &[("GET", "/app/mirror"), ("POST", "/app/copy"), ("GET", "/app/keys")]),
    ("`/ui`, `/ui/*`", &[("GET", "/ui"), ("GET", "/ui/")]),
    (
        "all others",
        &[
            ("POST", "/api/pull"),
            ("POST", "/api/push"),
            ("POST", "/api/create"),
            ("POST", "/api/copy"),
            ("DELETE", "/api/delete"),
            ("HEAD", "/api/blobs/sha256:00"),
            ("GET", "/nowhere"),
        ],
    ),
];

/// Headers and what they are in the words of the table.
type Headers = (&'static [(&'static str, &'static str)], &'static str);

const HOSTS: &[Headers] = &[
    (&[("host", "127.0.0.1:11434")], "loopback"),
    (&[("host", "localhost:11434")], "loopback"),
    (&[("host", "127.0.0.1:80")], "own"),
    (&[("host", "192.168.0.7:11434")], "own"),
    (&[("host", "nas.local:11434")], "own"),
    (&[("host", "models.example")], "own"),
    (&[("host", "evil.example:11434")], "foreign"),
    (&[("host", "other.local")], "foreign"),
    (&[("host", "")], "foreign"),
];

const PAGES: &[Headers] = &[
    (&[], "program"),
    (&[("sec-fetch-site", "none")], "program"),
    (&[("sec-fetch-site", "same-origin")], "Cairn's"),
    (&[("origin", "tauri://localhost")], "Cairn's"),
    (&[("origin", "http://localhost:3000")], "allowed origins"),
    (&[("origin", "https://evil.example")], "foreign"),
    (&[("origin", "null"), ("sec-fetch-site", "cross-site")], "foreign"),
    (&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")], "foreign"),
    (&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")], "link"),
];

/// Credentials; `{chat}` and so on are replaced by a key of that scope.
const CREDENTIALS: &[Headers] = &[
    (&[], "none"),
    (&[("authorization", "Basic dTpw")], "none"),
    (&[("authorization", "Bearer other")], "text"),
    (&[("x-api-key", "other")], "text"),
    (&[("x-api-key", "cairn_0000000000000000000000000000000000000000000000000000000000000000")], "wrong"),
    (&[("authorization", "Bearer secret")], "token"),
    (&[("authorization", "Bearer {chat}")], "chat"),
    (&[("x-api-key", "{models}")], "models"),
    (&[("authorization", "bearer {metrics}")], "metrics"),
    (&[("authorization", "Bearer other"), ("x-api-key", "{admin}")], "admin"),
];

/// Settings of a daemon: whether it shares models, and `server.require_key`.
const SETTINGS: &[(bool, &str)] = &[(false, "changes"), (true, "changes"), (true, "off"), (false, "all")];

const MACHINES: &[(bool, Headers)] =
    &[(true, (&[], "this")), (true, (&[("x-forwarded-for", "192.0.2.9")], "other")), (false, (&[], "other"))];

/// Whether the documentation of a machine's access allows a request with a credential.
fn has_access(access: &str, credential: &str, shares: bool, require_key: &str) -> bool {
    let (access, by_setting) = access.split_once("; with `CAIRN_REQUIRE_KEY=").unwrap_or((access, ""));
    if let Some(instead) = by_setting.strip_prefix(require_key).and_then(|rest| rest.strip_prefix("`: ")) {
        return has_access(instead, credential, shares, "");
    }
    let key_for = |access: &str| {
        let scopes = access.strip_prefix("key for ").unwrap_or_else(|| panic!("unknown access {access:?}"));
        credential == "admin" || scopes.split(" or ").any(|scope| scope == credential)
    };
    match access {
        "no" => false,
        // A wrong key is refused also where no key is needed, unless the daemon requires none.
        "yes" if by_setting.starts_with("all") && require_key != "off" => {
            matches!(credential, "none" | "token" | "text")
                || key_for(by_setting.strip_prefix("all`: ").expect("a key"))
        }
        "yes" => true,
        "with `CAIRN_SHARE=1`" => shares,
        _ => match access.strip_prefix("token, or ") {
            Some(key) => credential == "token" || key_for(key),
            // A token counts as a key, except for the paths of Cairn's own programs.
            None if credential == "token" => access != "key for admin",
            None => key_for(access),
        },
    }
}

/// A request and the settings of its daemon, in the words of the documentation.
struct Case<'a> {
    machine: &'a str,
    host: &'a str,
    page: &'a str,
    credential: &'a str,
    method: &'a str,
    shares: bool,
    require_key: &'a str,
}

/// Whether a row of the documentation allows a request.
fn documented(row: &[&str], case: &Case<'_>) -> bool {
    let [_, _, here, elsewhere, pages] = row else { panic!("{row:?} has five cells") };
    let (here, name) = here.split_once(", under a loopback name").map_or((*here, false), |(access, _)| (access, true));
    let access = if case.machine == "this" { here } else { elsewhere };
    let host = match case.host {
        "loopback" => true,
        "own" => !(name && case.machine == "this"),
        _ => false,
    };
    let page = match case.page {
        "program" => true,
        "link" => pages.contains("links from any") && case.method == "GET",
        "foreign" => false,
        page => pages.contains(page),
    };
    host && page && has_access(access, case.credential, case.shares, case.require_key)
}

// Refused pages wait. With a paused clock they do not.
#[tokio::test(start_paused = true)]
async fn requests_are_allowed_exactly_as_documented() {
    let table: Vec<Vec<&str>> = SECURITY
        .lines()
        .filter(|line| line.starts_with("| `/") || line.starts_with("| all others"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let names: Vec<&str> = table.iter().map(|row| row[0]).collect();
    assert_eq!(names, REQUESTS.iter().map(|(name, _)| *name).collect::<Vec<_>>(), "rows of SECURITY.md");
    let mut cells = 0;
    for (shares, require_key) in SETTINGS {
        let daemon = Daemon::named(
            "nas",
            &[
                ("CAIRN_NAMES", "models.example"),
                ("CAIRN_SHARE", if *shares { "1" } else { "0" }),
                ("CAIRN_REQUIRE_KEY", require_key),
            ],
        );
        let keys = KeyScope::ALL.map(|scope| {
            let key = daemon.server.app().keys().create(scope.name(), &[scope]).unwrap();
            (format!("{{{scope}}}"), key)
        });
        let with_keys =
            |value: &str| keys.iter().fold(value.to_owned(), |value, (scope, key)| value.replace(scope, key));
        let credentials = CREDENTIALS.iter().map(|(headers, credential)| {
            let headers = headers.iter().map(|(name, value)| (*name, with_keys(value)));
            (headers.collect::<Vec<_>>(), *credential)
        });
        let credentials: Vec<_> = credentials.collect();
        for (row, (_, requests)) in table.iter().zip(REQUESTS) {
            for (method, path) in *requests {
                for (is_loopback, (forwarded, machine)) in MACHINES {
                    for (host_header, host) in HOSTS {
                        for (page_headers, page) in PAGES {
                            for (credential_headers, credential) in &credentials {
                                let mut request = Request::builder().method(*method).uri(*path);
                                for (name, value) in [*forwarded, *host_header, *page_headers].concat() {
                                    request = request.header(name, value);
                                }
                                for (name, value) in credential_headers {
                                    request = request.header(*name, value);
                                }
                                let peer = if *is_loopback { [127, 0, 0, 1] } else { REMOTE };
                                let status = daemon.status_from(peer, request).await;
                                let allowed = !matches!(status, StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED);
                                let case =
                                    Case { machine, host, page, credential, method, shares: *shares, require_key };
                                assert_eq!(
                                    allowed,
                                    documented(row, &case),
                                    "{method} {path}, machine {machine}, {host_header:?}, {page_headers:?}, \
                                     {credential}, shares {shares}, requires {require_key}: {status}"
                                );
                                cells += 1;
                            }
                        }
                    }
                }
            }
        }
    }
    println!("{cells} cells");
    let requests: usize = REQUESTS.iter().map(|(_, requests)| requests.len()).sum();
    let senders = MACHINES.len() * HOSTS.len() * PAGES.len() * CREDENTIALS.len();
    assert_eq!(cells, requests * senders * SETTINGS.len(), "every request of every sender");
}
