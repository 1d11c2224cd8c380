//! Pulled models compared with their registry.

use super::*;
use crate::transfers::UpdateState;

/// The state of a model, or of all models.
async fn states(app: &App, model: Option<&str>) -> Vec<UpdateState> {
    let updates = app.transfers().updates(model, true).await.unwrap();
    updates.into_iter().map(|update| update.state).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn update_is_found_by_the_manifest_and_counts_missing_bytes() {
    let at = fixture();
    let (app, pull) = (at.app(), at.publish("m", &[b"the same", b"old"]));
    event_texts(app.transfers().pull(pull.clone()).unwrap()).await;
    assert_eq!(states(&app, Some(&pull.name)).await, [UpdateState::Current], "right after the pull");
    at.publish("m", &[b"the same", b"newer"]);
    assert_eq!(states(&app, None).await, [UpdateState::Newer { download_bytes: 5 }], "only bytes that are not here");
    event_texts(app.transfers().pull(pull.clone()).unwrap()).await;
    assert_eq!(states(&app, None).await, [UpdateState::Current], "after the update");
    at.registry.remove_manifest("library/m", "latest");
    assert_eq!(states(&app, None).await, [UpdateState::Removed], "the registry has no such model");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn models_made_here_are_not_compared() {
    let at = fixture();
    let (app, pull) = (at.app(), at.publish("m", &[b"old"]));
    event_texts(app.transfers().pull(pull.clone()).unwrap()).await;
    let manifests = at.folder.path().join("models/manifests");
    let host = std::fs::read_dir(&manifests).unwrap().next().unwrap().unwrap().path();
    std::fs::write(host.join("library/m/latest"), r#"{"layers":[]}"#).unwrap();
    assert_eq!(states(&app, Some(&pull.name)).await, [UpdateState::MadeHere], "it was replaced on this machine");
    assert_eq!(states(&app, None).await, [], "so it is not in the list");
    let error = app.transfers().updates(Some("other"), true).await.unwrap_err().to_string();
    assert_eq!(error, "model 'other' not found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn registry_without_a_connection_is_a_state_with_a_reason() {
    let at = fixture();
    let (app, pull) = (at.app(), at.publish("m", &[b"old"]));
    event_texts(app.transfers().pull(pull.clone()).unwrap()).await;
    let secure = app.transfers().updates(Some(&pull.name), false).await.unwrap();
    let is_refused = matches!(&secure[0].state, UpdateState::Unknown(reason) if reason.contains("no connection"));
    assert!(is_refused, "plain http needs a permission: {secure:?}");
    at.registry.set_offline(true);
    let offline = states(&app, None).await;
    assert!(matches!(&offline[..], [UpdateState::Unknown(reason)] if !reason.is_empty()), "{offline:?}");
}
