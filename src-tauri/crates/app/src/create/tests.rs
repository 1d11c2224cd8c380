//! Models made of others.

use serde_json::json;

use super::*;
use crate::import::tests::{Fixture, fixture};

async fn create(fixture: &Fixture, create: Create) -> Result<Vec<String>, String> {
    let mut events = fixture.app.create(create);
    let mut heard = Vec::new();
    while let Some(event) = events.recv().await {
        match event {
            CreateEvent::Status(status) => heard.push(status),
            CreateEvent::Failed(error) => return Err(error.to_string()),
        }
    }
    Ok(heard)
}

fn of(name: &str, from: &str) -> Create {
    Create { name: name.to_owned(), from: from.to_owned(), ..Create::default() }
}

fn message(role: &str, content: &str) -> Message {
    Message { role: role.to_owned(), content: content.to_owned(), thinking: None }
}

#[tokio::test]
async fn a_model_of_another_has_its_weights_and_new_words() {
    let fixture = fixture();
    let path = fixture.file("one.gguf", 1);
    fixture.import(&path, Some("base"), false).await.unwrap();
    let first = Create {
        system: Some("Be brief.".to_owned()),
        parameters: json!({"temperature": 0.1, "stop": ["x"]}).as_object().cloned(),
        messages: vec![message("user", "hi"), message("assistant", "hello")],
        ..of("mine", "base")
    };
    let heard = create(&fixture, first).await.unwrap();
    assert_eq!(heard.last().map(String::as_str), Some("success"), "{heard:?}");
    let second = Create { parameters: json!({"temperature": 0.9}).as_object().cloned(), ..of("mine2", "mine") };
    create(&fixture, second).await.unwrap();
    let shown = fixture.app.show("mine2", false).unwrap();
    assert_eq!(shown.system, "Be brief.", "what was not named stays");
    assert!(shown.parameters.contains("0.9") && shown.parameters.contains("stop"), "merged: {}", shown.parameters);
    assert_eq!(shown.messages.len(), 2, "messages too");
    assert_eq!(shown.summary.details.family, "llama", "and the description");
    fixture.app.delete("base").unwrap();
    fixture.app.delete("mine").unwrap();
    assert!(fixture.app.show("mine2", false).is_ok(), "the weights stay while a model has them");
}

#[tokio::test]
async fn the_built_in_model_can_be_saved_and_a_file_cannot() {
    let fixture = fixture();
    create(&fixture, Create { system: Some("Be brief.".to_owned()), ..of("guide", "pebble") }).await.unwrap();
    assert_eq!(fixture.app.show("guide", false).unwrap().system, "Be brief.", "a copy of it with other words");
    let opened = fixture.app.open(&fixture.file("one.gguf", 1)).unwrap();
    let check = async |asked: Create, expected: &str| {
        let error = create(&fixture, asked).await.expect_err(expected);
        assert!(error.contains(expected), "{error}");
    };
    check(of("x", &opened.name), "cairn import FILE").await;
    check(of("x", "nobody"), "model 'nobody' not found").await;
    check(of("x", " "), "neither 'from'").await;
    check(of("pebble", "guide"), "part of Cairn").await;
    check(of("a b", "guide"), "invalid model name").await;
    let wrong = Create { parameters: json!({"top_k": "many"}).as_object().cloned(), ..of("x", "guide") };
    check(wrong, "option \"top_k\" must be of type integer").await;
}
