//! This machine's models, pulled by other programs.

use std::collections::BTreeSet;
use std::path::Path;

use cairn_testkit::ollama_client;

use crate::cairn::Home;

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Imports a tiny model and says where it is.
fn with_model() -> Home {
    let home = Home::new();
    let file = home.folder.path().join("tiny.gguf");
    cairn_testkit::write_file(&cairn_testkit::tiny_llama(), &file).expect("the home is writable");
    let imported = home.run(&["import", &file.to_string_lossy(), "mine"]);
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    home
}

#[test]
fn ollamas_own_client_pulls_from_here() {
    let home = with_model();
    let daemon = home.serve();
    let store = home.folder.path().join("theirs");
    let host = format!("127.0.0.1:{}", home.port);
    ollama_client::pull(&host, "library/mine", "latest", &store).expect("the stock client's ways lead to a model");
    let blobs = names(&home.folder.path().join("models/blobs"));
    assert_eq!(names(&store.join("blobs")), blobs, "the same contents, each proven by its digest");
    assert_eq!(
        std::fs::read(store.join("manifests").join(&host).join("library/mine/latest")).expect("the manifest is there"),
        std::fs::read(home.folder.path().join("models/manifests/registry.ollama.ai/library/mine/latest"))
            .expect("ours is there"),
        "byte for byte"
    );
    let error = ollama_client::pull(&host, "library/none", "latest", &store).expect_err("there is no such model");
    assert_eq!(error, "file does not exist", "as a registry would say it");
    drop(daemon);

    // What it wrote, we can run.
    let other = Home::new().with("OLLAMA_MODELS", store.to_string_lossy());
    let listed = other.run(&["list"]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains(&format!("{host}/library/mine:latest")), "{listed}");
}
