//! Searches: the catalogue, an index that answers, and one that does not or answers nonsense.

use cairn_testkit::hub::FakeHub;
use cairn_wire::app::{DiscoverResponse, DiscoveredFrom};

use super::*;

fn daemon(hub: &str) -> Daemon {
    Daemon::with(&[("CAIRN_HUB", hub), ("CAIRN_STALL", "2s")])
}

async fn found(daemon: &Daemon, query: &str) -> DiscoverResponse {
    let heard = daemon.own("GET", &format!("/app/discover?{query}"), "").await;
    let (head, body) = heard.split_once('\n').unwrap();
    assert_eq!(head, "200 application/json; charset=utf-8", "{heard}");
    serde_json::from_str(body).unwrap()
}

fn titles(found: &DiscoverResponse) -> Vec<&str> {
    found.models.iter().map(|model| model.title.as_str()).collect()
}

#[tokio::test]
async fn the_catalogue_and_the_index_are_searched() {
    let hub = FakeHub::with_one_model().unwrap();
    let daemon = daemon(&hub.url());
    let found = found(&daemon, "q=tiny").await;
    assert_eq!((titles(&found), found.trouble.as_deref()), (vec!["tinyllama", "me/Tiny-GGUF"], None), "in this order");
    let (own, far) = (&found.models[0], &found.models[1]);
    assert!(own.from == DiscoveredFrom::Library && own.variants[0].estimated && !own.here, "{own:?}");
    assert_eq!((far.name.as_str(), far.licence.as_deref()), ("hf.co/me/Tiny-GGUF:Q4_K_M", Some("mit")), "{far:?}");
    let rows: Vec<_> = far.variants.iter().map(|variant| (variant.size, variant.estimated)).collect();
    assert_eq!(rows, [(1_000_000, false), (2_000_000, false)], "with their sizes");
    let asked = hub.requests();
    assert_eq!(asked.len(), 2, "one question about models, one about files: {asked:?}");
    assert!(asked[0].contains("filter=gguf") && asked[1] == "/api/models/me/Tiny-GGUF/tree/main?recursive=true");
}

#[tokio::test]
async fn nobody_is_asked_for_the_catalogue_alone() {
    let hub = FakeHub::with_one_model().unwrap();
    let daemon = daemon(&hub.url());
    let found = found(&daemon, "q=tiny&own=true").await;
    assert_eq!((titles(&found), found.trouble.as_deref()), (vec!["tinyllama"], None), "the catalogue answers");
    assert_eq!(hub.requests(), Vec::<String>::new(), "and the index was not asked");
}

#[tokio::test]
async fn what_is_here_is_marked() {
    let hub = FakeHub::with_one_model().unwrap();
    let daemon = daemon(&hub.url());
    let copied = daemon.post("/api/copy", r#"{"source":"m","destination":"hf.co/Me/tiny-gguf:q8_0"}"#).await;
    assert_eq!(copied, "200 -\n", "it is here");
    daemon.post("/api/copy", r#"{"source":"m","destination":"tinyllama:1.1b"}"#).await;
    let found = found(&daemon, "q=tiny").await;
    let here =
        |model: usize| -> Vec<bool> { found.models[model].variants.iter().map(|variant| variant.here).collect() };
    assert_eq!((here(0), here(1)), (vec![true], vec![false, true]), "in any spelling: {found:?}");
    assert!(found.models.iter().all(|model| model.here), "and the models say so");
}

#[tokio::test]
async fn an_index_out_of_reach_is_said_in_one_line() {
    // Nobody listens there.
    let away = daemon("http://127.0.0.1:9");
    let heard = found(&away, "q=tiny").await;
    assert_eq!(titles(&heard), ["tinyllama"], "the catalogue answers");
    let trouble = heard.trouble.unwrap();
    assert!(trouble.starts_with("only the catalogue that comes with Cairn was searched: 127.0.0.1:9: "), "{trouble}");
    let wrong = found(&daemon("the hub"), "q=tiny").await;
    assert!(wrong.trouble.as_deref().unwrap().contains("CAIRN_HUB"), "a setting that is no address: {wrong:?}");
    let nobody = found(&daemon(""), "q=tiny").await;
    assert_eq!((titles(&nobody), &nobody.trouble), (vec!["tinyllama"], &None), "nobody is to be asked");
}

#[tokio::test]
async fn nonsense_from_an_index_is_bounded_and_said() {
    let check = async |name: &str, models: Vec<u8>, files: Vec<u8>, part: &str, expected: usize| {
        let hub =
            FakeHub::start(move |target| (200, if target.contains("/tree/") { files.clone() } else { models.clone() }));
        let hub = hub.unwrap();
        let found = found(&daemon(&hub.url()), "q=no-such-model").await;
        let trouble = found.trouble.unwrap_or_default();
        assert!(trouble.contains(part) && !trouble.contains(char::is_control), "{name}: {trouble:?}");
        assert!(trouble.chars().count() <= 400, "{name}: {trouble:?}");
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
async fn an_index_that_does_not_answer_is_not_waited_for() {
    let hub = FakeHub::start(|_| {
        std::thread::sleep(Duration::from_secs(20));
        (200, b"[]".to_vec())
    });
    let hub = hub.unwrap();
    let daemon = Daemon::with(&[("CAIRN_HUB", &hub.url()), ("CAIRN_STALL", "300ms")]);
    let began = Instant::now();
    let found = found(&daemon, "q=tiny").await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let trouble = found.trouble.unwrap();
    assert!(trouble.contains("did not answer within 300ms"), "{trouble}");
}

#[tokio::test]
async fn how_much_is_asked_for() {
    let daemon = daemon("");
    assert_eq!(found(&daemon, "q=&limit=3").await.models.len(), 3, "no more than that");
    assert_eq!(found(&daemon, "").await.models.len(), 10, "unless somebody says otherwise");
    assert_eq!(found(&daemon, "limit=0").await.models.len(), 1, "one at least");
    for query in ["limit=-1", "limit=many", &format!("q={}", "x".repeat(201))] {
        let heard = daemon.own("GET", &format!("/app/discover?{query}"), "").await;
        assert!(heard.starts_with("400 ") && heard.contains("error"), "{query}: {heard}");
    }
    let heard = daemon.get("/app/discover?q=x").await;
    assert!(heard.starts_with("403") || heard.starts_with("401"), "only our own clients may: {heard}");
}
