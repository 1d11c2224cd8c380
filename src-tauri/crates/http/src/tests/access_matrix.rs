//! The access table as the documentation shows it, against real requests: every route group with every kind of host,
//! machine, web page and token.

use cairn_wire::app::KeyScope;

use super::*;

const SECURITY: &str = include_str!("../../../../../.github/SECURITY.md");
const REMOTE: [u8; 4] = [192, 168, 0, 9];

/// Requests of each row of the table. Without a body they change nothing.
const REQUESTS: &[(&str, &[(&str, &str)])] = &[
    ("`/`, `/api/version`, `/api/status`", &[("GET", "/"), ("GET", "/api/version"), ("GET", "/api/status")]),
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
        "`/api/generate`, `/api/chat`, `/v1/*`",
        &[
            ("POST", "/api/generate"),
            ("POST", "/api/chat"),
            ("POST", "/v1/chat/completions"),
            ("POST", "/v1/completions"),
            ("POST", "/v1/messages"),
            ("POST", "/v1/messages/count_tokens"),
            ("GET", "/v1/nowhere"),
        ],
    ),
    ("`/v2`, `/v2/*`", &[("GET", "/v2"), ("GET", "/v2/")]),
    ("`/app/session`", &[("POST", "/app/session")]),
    ("`/metrics`", &[("GET", "/metrics")]),
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

/// A header value and what it is in the words of the table.
type Case = (&'static [(&'static str, &'static str)], &'static str);

const HOSTS: &[Case] = &[
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

const PAGES: &[Case] = &[
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

const TOKENS: &[Case] = &[
    (&[], "wrong"),
    (&[("authorization", "Bearer other")], "wrong"),
    (&[("authorization", "Bearer secret")], "daemon or session token"),
    (&[("authorization", "Bearer KEY")], "API key for metrics"),
];

const MACHINES: &[(bool, Case)] =
    &[(true, (&[], "this")), (true, (&[("x-forwarded-for", "192.0.2.9")], "other")), (false, (&[], "other"))];

/// Whether a row of the documentation allows a request.
fn documented(row: &[&str], machine: &str, host: &str, page: &str, token: &str, method: &str, shares: bool) -> bool {
    let [_, _, machines, pages, needs_token] = row else { panic!("{row:?} has five cells") };
    let machine = match *machines {
        "all" => true,
        "this; others with `CAIRN_SHARE=1`" => machine == "this" || shares,
        "this" | "this, under a loopback name" => machine == "this",
        other => panic!("unknown machines {other:?}"),
    };
    let host = host == "loopback" || (host == "own" && !machines.contains("loopback name"));
    let page = match page {
        "program" => true,
        "link" => pages.contains("links from any") && method == "GET",
        "foreign" => false,
        page => pages.contains(page),
    };
    machine && host && page && (*needs_token == "-" || needs_token.split(", ").any(|accepted| accepted == token))
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
    for shares in [false, true] {
        let daemon =
            Daemon::named("nas", &[("CAIRN_NAMES", "models.example"), ("CAIRN_SHARE", if shares { "1" } else { "0" })]);
        let key = daemon.server.app().keys().create("grafana", KeyScope::Metrics).unwrap();
        for (row, (_, requests)) in table.iter().zip(REQUESTS) {
            for (method, path) in *requests {
                for (is_loopback, (forwarded, machine)) in MACHINES {
                    for (host_header, host) in HOSTS {
                        for (page_headers, page) in PAGES {
                            for (token_header, token) in TOKENS {
                                let mut request = Request::builder().method(*method).uri(*path);
                                for (name, value) in [*forwarded, *host_header, *page_headers, *token_header].concat() {
                                    request = request.header(name, value.replace("KEY", &key));
                                }
                                let peer = if *is_loopback { [127, 0, 0, 1] } else { REMOTE };
                                let status = daemon.status_from(peer, request).await;
                                let allowed = !matches!(status, StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED);
                                let expected = documented(row, machine, host, page, token, method, shares);
                                assert_eq!(
                                    allowed, expected,
                                    "{method} {path}, machine {machine}, {host_header:?}, {page_headers:?}, token \
                                     {token}, shares {shares}: {status}"
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
    assert!(cells > 30_000, "{cells} cells");
}
