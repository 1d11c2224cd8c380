//! Errors before a push, warnings during it, and the location of the pushed model.

use super::*;
use crate::App;
use crate::library::import::tests::fixture;

async fn event_texts(app: &App, name: &str) -> Vec<String> {
    let mut events = app.transfers().push(Push { name: name.to_owned(), insecure: true });
    let mut texts = Vec::new();
    while let Some(event) = events.recv().await {
        texts.push(match event {
            PushEvent::Failed(error) => error.to_string(),
            event => format!("{event:?}"),
        });
    }
    texts
}

#[tokio::test]
async fn push_of_unusable_name_fails_with_first_event() {
    let fixture = fixture();
    let check = async |name: &str, expected: &str| {
        let texts = event_texts(&fixture.app, name).await;
        assert_eq!(texts.len(), 1, "no event before the error of {name:?}: {texts:?}");
        assert!(texts[0].starts_with(expected), "{name:?}: {texts:?}");
    };
    check("", "model is required").await;
    check("a b", "invalid model name").await;
    check("absent", "model 'absent' not found").await;
    check("pebble", "the name pebble").await;
}

#[tokio::test]
async fn push_to_unreachable_registry_retries_and_names_it() {
    let fixture = fixture();
    let path = fixture.file("m.gguf", 3);
    fixture.import(&path, Some("127.0.0.1:9/library/m"), false).await.unwrap();
    let mut settings = fixture.app.settings().at_start().clone();
    settings.downloads.stall = Some(Duration::from_millis(30));
    let app = App::for_test(settings, fixture.app.clock().clone());
    let texts = event_texts(&app, "127.0.0.1:9/library/m").await;
    assert_eq!(texts.first().map(String::as_str), Some("Retrieving"), "{texts:?}");
    assert!(texts.iter().any(|line| line.contains("trying again in")), "each retry is reported: {texts:?}");
    assert!(texts.last().is_some_and(|last| last.starts_with("127.0.0.1:9: ")), "{texts:?}");
}

#[test]
fn throttle_passes_first_and_last_report() {
    let mut throttle = Throttle::default();
    let blob = |sent_bytes| Sent::Blob { digest: Digest::of(b"x"), size_bytes: 1000, sent_bytes };
    let passed: Vec<u64> = (0..=1000).filter(|sent| throttle.allows(&blob(*sent))).collect();
    assert_eq!((passed.first(), passed.last()), (Some(&0), Some(&1000)), "the first and the last");
    assert!(passed.len() < 500, "{} of 1001 reports in a moment", passed.len());
    assert!(throttle.allows(&Sent::Manifest), "steps always pass");
}

#[test]
fn pushed_model_has_page_only_at_ollama() {
    let check = |name: &str, expected: &str| assert_eq!(pushed_to(name), expected, "{name}");
    check("me/m", "https://ollama.com/me/m");
    check("me/m:7b", "https://ollama.com/me/m:7b");
    check("127.0.0.1:5000/library/m", "127.0.0.1:5000/library/m:latest");
}
