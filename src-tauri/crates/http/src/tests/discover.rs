//! Tests of `/app/discover`: the catalogue, and an index that works, is unreachable or returns invalid data.

use cairn_testkit::hub::FakeHub;
use cairn_wire::app::{DiscoverResponse, DiscoveredFrom};

use super::*;

fn daemon(hub: &str) -> Daemon {
    Daemon::with(&[("CAIRN_HUB", hub), ("CAIRN_STALL", "2s")])
}

async fn found(daemon: &Daemon, query: &str) -> DiscoverResponse {
    let reply = daemon.authorized("GET", &format!("/app/discover?{query}"), "").await;
    let (head, body) = reply.split_once('\n').unwrap();
    assert_eq!(head, "200 application/json; charset=utf-8", "{reply}");
    serde_json::from_str(body).unwrap()
}

fn titles(found: &DiscoverResponse) -> Vec<&str> {
    found.models.iter().map(|model| model.title.as_str()).collect()
}

#[tokio::test]
async fn discover_searches_the_catalogue_and_the_index() {
    let hub = FakeHub::with_one_model().unwrap();
    let daemon = daemon(&hub.url());
    let found = found(&daemon, "q=tiny").await;
    assert_eq!(
        (titles(&found), found.problem.as_deref()),
        (vec!["tinyllama", "me/Tiny-GGUF"], None),
        "the catalogue comes first"
    );
    let (own, indexed) = (&found.models[0], &found.models[1]);
    assert!(own.from == DiscoveredFrom::Library && own.variants[0].estimated && !own.here, "{own:?}");
    let name_and_licence = (indexed.name.as_str(), indexed.licence.as_deref());
    assert_eq!(name_and_licence, ("hf.co/me/Tiny-GGUF:Q4_K_M", Some("mit")), "{indexed:?}");
    let rows: Vec<_> = indexed.variants.iter().map(|variant| (variant.size, variant.estimated)).collect();
    assert_eq!(rows, [(1_000_000, false), (2_000_000, false)], "the sizes of the variants");
    let requests = hub.requests();
    assert_eq!(requests.len(), 2, "one request for models, one for files: {requests:?}");
    assert!(requests[0].contains("filter=gguf"), "{requests:?}");
    assert_eq!(requests[1], "/api/models/me/Tiny-GGUF/tree/main?recursive=true");
}

#[tokio::test]
async fn discover_own_sends_no_request_to_the_index() {
    let hub = FakeHub::with_one_model().unwrap();
    let daemon = daemon(&hub.url());
    let found = found(&daemon, "q=tiny&own=true").await;
    assert_eq!((titles(&found), found.problem.as_deref()), (vec!["tinyllama"], None), "only the catalogue");
    assert_eq!(hub.requests(), Vec::<String>::new(), "no request to the index");
}

#[tokio::test]
async fn discover_marks_local_models() {
    let hub = FakeHub::with_one_model().unwrap();
    let daemon = daemon(&hub.url());
    let copied = daemon.post("/api/copy", r#"{"source":"m","destination":"hf.co/Me/tiny-gguf:q8_0"}"#).await;
    assert_eq!(copied, "200 -\n", "the model is in the library");
    daemon.post("/api/copy", r#"{"source":"m","destination":"tinyllama:1.1b"}"#).await;
    let found = found(&daemon, "q=tiny").await;
    let here =
        |model: usize| -> Vec<bool> { found.models[model].variants.iter().map(|variant| variant.here).collect() };
    assert_eq!((here(0), here(1)), (vec![true], vec![false, true]), "names match in any case: {found:?}");
    assert!(found.models.iter().all(|model| model.here), "models with a local variant are marked");
}

#[tokio::test]
async fn discover_reports_an_unreachable_index_in_one_line() {
    // No server listens at this address.
    let unreachable = daemon("http://127.0.0.1:9");
    let reply = found(&unreachable, "q=tiny").await;
    assert_eq!(titles(&reply), ["tinyllama"], "only the catalogue");
    let problem = reply.problem.unwrap();
    assert!(problem.starts_with("only the catalogue that comes with Cairn was searched: 127.0.0.1:9: "), "{problem}");
    let wrong = found(&daemon("the hub"), "q=tiny").await;
    assert!(wrong.problem.as_deref().unwrap().contains("CAIRN_HUB"), "the error names the invalid setting: {wrong:?}");
    let disabled = found(&daemon(""), "q=tiny").await;
    assert_eq!((titles(&disabled), &disabled.problem), (vec!["tinyllama"], &None), "the index is disabled");
}

#[tokio::test]
async fn discover_bounds_and_reports_invalid_index_data() {
    let check = async |name: &str, models: Vec<u8>, files: Vec<u8>, part: &str, expected: usize| {
        let hub =
            FakeHub::start(move |target| (200, if target.contains("/tree/") { files.clone() } else { models.clone() }));
        let hub = hub.unwrap();
        let found = found(&daemon(&hub.url()), "q=no-such-model").await;
        let problem = found.problem.unwrap_or_default();
        assert!(problem.contains(part) && !problem.contains(char::is_control), "{name}: {problem:?}");
        assert!(problem.chars().count() <= 400, "{name}: {problem:?}");
        assert_eq!(found.models.len(), expected, "{name}");
    };
    let one = || br#"[{"id":"me/M"}]"#.to_vec();
    check("no JSON", b"<html>\x1b[2J".to_vec(), Vec::new(), "cannot parse", 0).await;
    check("another shape", br#"{"models":[]}"#.to_vec(), Vec::new(), "cannot parse", 0).await;
    check("deep", vec![b'['; 1 << 20], Vec::new(), "cannot parse", 0).await;
    check("no end", vec![b' '; (8 << 20) + 1], Vec::new(), "longer than", 0).await;
    check("a negative count", br#"[{"id":"me/M","downloads":-1}]"#.to_vec(), Vec::new(), "", 0).await;
    check("hostile names", br#"[{"id":"me/\u001b[2J"},{"id":"../.."},{"id":""}]"#.to_vec(), Vec::new(), "", 0).await;
    let negative = br#"[{"type":"file","path":"m-Q4_0.gguf","size":-1}]"#.to_vec();
    check("a negative size", one(), negative, "the sizes of 1 of 1 models are unknown", 1).await;
    let odd = br#"[{"type":"file","path":"m-Q4_\u0007.gguf","size":1}]"#.to_vec();
    check("a hostile file", one(), odd, "", 1).await;
    let many = (0..2_000).map(|n| format!(r#"{{"id":"me/M{n}"}}"#)).collect::<Vec<_>>().join(",");
    check("too many", format!("[{many}]").into_bytes(), b"[]".to_vec(), "", 10).await;
}

#[tokio::test]
async fn discover_times_out_on_a_slow_index() {
    let hub = FakeHub::start(|_| {
        std::thread::sleep(Duration::from_secs(20));
        (200, b"[]".to_vec())
    });
    let hub = hub.unwrap();
    let daemon = Daemon::with(&[("CAIRN_HUB", &hub.url()), ("CAIRN_STALL", "300ms")]);
    let start = Instant::now();
    let found = found(&daemon, "q=tiny").await;
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    let problem = found.problem.unwrap();
    assert!(problem.contains("did not answer within 300ms"), "{problem}");
}

#[tokio::test]
async fn discover_limits_results_and_queries() {
    let daemon = daemon("");
    assert_eq!(found(&daemon, "q=&limit=3").await.models.len(), 3, "the requested limit");
    assert_eq!(found(&daemon, "").await.models.len(), 10, "the default limit");
    assert_eq!(found(&daemon, "limit=0").await.models.len(), 1, "the minimum limit");
    for query in ["limit=-1", "limit=many", &format!("q={}", "x".repeat(201))] {
        let reply = daemon.authorized("GET", &format!("/app/discover?{query}"), "").await;
        assert!(reply.starts_with("400 ") && reply.contains("error"), "{query}: {reply}");
    }
    let reply = daemon.get("/app/discover?q=x").await;
    assert!(reply.starts_with("403") || reply.starts_with("401"), "requests need the token: {reply}");
}
