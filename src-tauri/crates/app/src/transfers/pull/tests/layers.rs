//! Manifests with many layers.

use super::*;

/// Returns a manifest of `count` layers, each of one blob of its own, and the blobs' contents.
fn many_layers(count: usize) -> (String, Vec<String>) {
    let contents: Vec<String> = (0..count).map(|number| format!("text {number}")).collect();
    let layers: Vec<String> = contents.iter().map(|text| layer(text)).collect();
    (format!(r#"{{"schemaVersion":2,"layers":[{}]}}"#, layers.join(",")), contents)
}

fn layer(text: &str) -> String {
    let (digest, size) = (Digest::of(text.as_bytes()), text.len());
    // Without a media type, so that 80,000 layers fit into a manifest of the maximum size.
    format!(r#"{{"digest":"{digest}","size":{size}}}"#)
}

#[tokio::test]
async fn manifest_with_too_many_layers_is_refused() {
    let at = fixture();
    let app = at.app();
    let (manifest, _) = many_layers(80_000);
    at.registry.put_manifest("library/many", "latest", manifest.as_bytes());
    let texts = event_texts(app.transfers().pull(at.pull("many")).unwrap()).await;
    let last = texts.last().unwrap();
    assert!(last.contains("80000 layers") && last.contains("4096"), "the error has both numbers: {last}");
    assert!(at.names_in("partials").is_empty(), "no download was started");
}

#[tokio::test]
async fn manifest_with_the_maximum_of_layers_is_pulled() {
    let at = fixture();
    let app = at.app();
    let (manifest, contents) = many_layers(4096);
    let library = cairn_store::Library::new(at.folder.path().join("models"));
    let blobs = library.blob_path(&Digest::of(b"")).parent().unwrap().to_owned();
    std::fs::create_dir_all(blobs).unwrap();
    for text in &contents {
        std::fs::write(library.blob_path(&Digest::of(text.as_bytes())), text).unwrap();
    }
    at.registry.put_manifest("library/many", "latest", manifest.as_bytes());
    let texts = event_texts(app.transfers().pull(at.pull("many")).unwrap()).await;
    assert_eq!(texts.last().map(String::as_str), Some("success"), "all blobs are in the library: {texts:?}");
}

#[tokio::test]
async fn few_blobs_of_a_model_are_queued_at_a_time() {
    let at = fixture();
    let app = at.app();
    let (manifest, contents) = many_layers(200);
    for text in &contents {
        at.registry.put_blob(&Digest::of(text.as_bytes()).to_string(), text.clone().into_bytes().into());
    }
    at.registry.put_manifest("library/many", "latest", manifest.as_bytes());
    let events = app.transfers().pull(at.pull("many")).unwrap();
    let mut changes = app.transfers().changes();
    let mut most = 0;
    while state(&app, "/many:") != Some(PullState::Done) {
        changes.changed().await.unwrap();
        most = most.max(app.transfers().pulls.downloads().unwrap().list().len());
    }
    assert!((1..=16).contains(&most), "{most} of 200 blobs are queued at once");
    assert_eq!(event_texts(events).await.last().map(String::as_str), Some("success"), "all blobs are downloaded");
}
