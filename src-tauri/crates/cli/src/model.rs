//! Resolves the argument `MODEL`: a name, or the path of a file.

use std::path::{MAIN_SEPARATOR, Path};

use anyhow::{Context, bail};
use cairn_wire::app::{OpenRequest, OpenResponse};
use cairn_wire::ollama::{ShowRequest, ShowResponse};

use crate::client::Client;

/// Note for a model without a chat template.
pub(crate) const NO_TEMPLATE: &str =
    "this model has no chat template: it gets the messages unchanged and continues them";

/// Returns the model's name on the server. Opens the model first if `text` is a path.
pub(crate) async fn resolve(client: &Client, text: &str) -> anyhow::Result<String> {
    if !is_path(text) {
        return Ok(text.to_owned());
    }
    if !client.is_own_daemon() {
        bail!("cannot open {text}: this needs Cairn's own daemon, but OLLAMA_HOST names another server");
    }
    let request = OpenRequest { path: absolute(Path::new(text))? };
    let opened: OpenResponse = client.post("/app/open", &request).await?;
    Ok(opened.model)
}

/// Returns the description of a model.
pub(crate) async fn show(client: &Client, name: &str) -> anyhow::Result<ShowResponse> {
    let request = ShowRequest { model: name.to_owned(), ..Default::default() };
    client.post("/api/show", &request).await
}

/// Returns the absolute path, because the daemon has another working folder.
pub(crate) fn absolute(path: &Path) -> anyhow::Result<String> {
    let full = std::path::absolute(path).with_context(|| path.display().to_string())?;
    match full.into_os_string().into_string() {
        Ok(text) => Ok(text),
        Err(path) => bail!("cannot use path {}: it is not Unicode", Path::new(&path).display()),
    }
}

/// Whether `text` is written as a path or is an existing file. A folder does not count, because it may have the name of
/// a model.
pub(super) fn is_path(text: &str) -> bool {
    let starts = ["./", "../", "/", "~/"].iter().any(|start| text.starts_with(start));
    let ends = text.to_ascii_lowercase().ends_with(".gguf");
    starts || ends || text.starts_with(MAIN_SEPARATOR) || matches!(text, "." | "..") || Path::new(text).is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_arguments_differ_from_names() {
        for path in ["./x", "../x", "/x", "x.gguf", "a/b.GGUF", ".", "Cargo.toml", "/"] {
            assert!(is_path(path), "{path} is a path");
        }
        for name in ["pebble", "me/model:7b", "hf.co/a/b", "src"] {
            assert!(!is_path(name), "{name} is a name");
        }
    }
}
