//! The model of the last chat, for `cairn` without a verb.

use std::path::PathBuf;

use anyhow::bail;
use cairn_disk::{Disk, Mode, RealDisk};
use cairn_wire::ollama::{PsResponse, TagsResponse};

use crate::CliContext;
use crate::client::Client;
use crate::model;

fn file(cli: &CliContext) -> PathBuf {
    cli.places.state.join("last-model")
}

/// Stores the model. A failure is ignored, because the file is optional.
pub(super) fn store(cli: &CliContext, text: &str) {
    let path = model::is_path(text).then(|| model::absolute(text.as_ref()).ok()).flatten();
    if RealDisk.create_dir_all(&cli.places.state).is_ok() {
        let _ = RealDisk.write_atomic(&file(cli), path.as_deref().unwrap_or(text).as_bytes(), Mode::Private);
    }
}

/// Returns the model of the last chat if it still exists, else a loaded model, else the newest one.
pub(super) async fn choose(cli: &CliContext, client: &Client) -> anyhow::Result<String> {
    let last = std::fs::read_to_string(file(cli)).ok();
    let models = client.get::<TagsResponse>("/api/tags").await?.models;
    // An embedding model cannot chat.
    let (embedders, models): (Vec<_>, Vec<_>) =
        models.into_iter().partition(|model| model.capabilities.iter().any(|name| name == "embedding"));
    let names: Vec<String> = models.into_iter().map(|model| model.name).collect();
    if let Some(last) = last.filter(|last| exists(last, &names)) {
        return Ok(last);
    }
    let loaded = client.get::<PsResponse>("/api/ps").await?.models;
    let loaded =
        loaded.into_iter().map(|model| model.name).filter(|name| embedders.iter().all(|model| model.name != *name));
    match loaded.chain(names).next() {
        Some(name) => Ok(name),
        None => bail!("there is no model to chat with; `cairn pull MODEL` pulls one"),
    }
}

fn exists(model: &str, names: &[String]) -> bool {
    match model::is_path(model) {
        true => std::path::Path::new(model).is_file(),
        false => names.iter().any(|name| name == model || name.strip_suffix(":latest") == Some(model)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deleted_model_is_not_chosen_again() {
        let names = ["a:latest".to_owned(), "b:7b".to_owned()];
        for (model, expected) in
            [("a", true), ("a:latest", true), ("b:7b", true), ("b", false), ("/absent.gguf", false)]
        {
            assert_eq!(exists(model, &names), expected, "{model}");
        }
    }
}
