//! What is refused before anything is sent, what is told on the way, and where a model is found afterwards.

use super::*;
use crate::App;
use crate::library::import::tests::fixture;

async fn outcome(app: &App, name: &str) -> Vec<String> {
    let mut events = app.transfers().push(Push { name: name.to_owned(), insecure: true });
    let mut told = Vec::new();
    while let Some(event) = events.recv().await {
        told.push(match event {
            PushEvent::Failed(error) => error.to_string(),
            event => format!("{event:?}"),
        });
    }
    told
}

#[tokio::test]
async fn what_cannot_be_pushed_is_refused_first() {
    let fixture = fixture();
    let check = async |name: &str, expected: &str| {
        let told = outcome(&fixture.app, name).await;
        assert_eq!(told.len(), 1, "nothing is told before the refusal of {name:?}: {told:?}");
        assert!(told[0].starts_with(expected), "{name:?}: {told:?}");
    };
    check("", "model is required").await;
    check("a b", "invalid model name").await;
    check("absent", "model 'absent' not found").await;
    check("pebble", "the name pebble").await;
}

#[tokio::test]
async fn a_registry_that_is_not_there_is_named() {
    let fixture = fixture();
    let path = fixture.file("m.gguf", 3);
    fixture.import(&path, Some("127.0.0.1:9/library/m"), false).await.unwrap();
    let mut settings = fixture.app.settings().at_start().clone();
    settings.downloads.stall = Some(Duration::from_millis(30));
    let app = App::start(settings, cairn_hardware::Machine::probe(), fixture.app.clock().clone(), 1).unwrap();
    let told = outcome(&app, "127.0.0.1:9/library/m").await;
    assert_eq!(told.first().map(String::as_str), Some("Retrieving"), "{told:?}");
    assert!(told.iter().any(|line| line.contains("trying again in")), "each wait is told: {told:?}");
    assert!(told.last().is_some_and(|last| last.starts_with("127.0.0.1:9: ")), "{told:?}");
}

#[test]
fn reports_are_few_and_the_ends_are_among_them() {
    let mut throttle = Throttle::default();
    let blob = |sent_bytes| Sent::Blob { digest: Digest::of(b"x"), size_bytes: 1000, sent_bytes };
    let passed: Vec<u64> = (0..=1000).filter(|sent| throttle.lets_pass(&blob(*sent))).collect();
    assert_eq!((passed.first(), passed.last()), (Some(&0), Some(&1000)), "the first and the last");
    assert!(passed.len() < 500, "{} of 1001 reports in a moment", passed.len());
    assert!(throttle.lets_pass(&Sent::Manifest), "steps always pass");
}

#[test]
fn where_it_is_found() {
    let check = |name: &str, expected: &str| assert_eq!(pushed_to(name), expected, "{name}");
    check("me/m", "https://ollama.com/me/m");
    check("me/m:7b", "https://ollama.com/me/m:7b");
    check("127.0.0.1:5000/library/m", "127.0.0.1:5000/library/m:latest");
}
