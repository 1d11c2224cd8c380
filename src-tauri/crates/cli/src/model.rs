//! Resolves the argument `MODEL`: a name, or the path of a file.

use std::path::{MAIN_SEPARATOR, Path};

use anyhow::{Context, bail};
use cairn_wire::app::{OpenRequest, OpenResponse};
use cairn_wire::ollama::{ShowRequest, ShowResponse};

use crate::client::Client;

/// Note for a model file without a chat template.
pub(crate) const NO_TEMPLATE: &str = "the file has no chat template: messages go to the model unchanged";

/// A model's name on the server.
pub(crate) struct ResolvedModel {
    pub(crate) name: String,
    /// Whether the model is a file without a chat template.
    pub(crate) lacks_template: bool,
}

/// Returns the model's name on the server. Opens the model first if `text` is a path.
pub(crate) async fn resolve(client: &Client, text: &str) -> anyhow::Result<ResolvedModel> {
    if !is_path(text) {
        return Ok(ResolvedModel { name: text.to_owned(), lacks_template: false });
    }
    if !client.is_own_daemon() {
        bail!("cannot open {text}: this needs Cairn's own daemon, but OLLAMA_HOST names another server");
    }
    let request = OpenRequest { path: absolute(Path::new(text))? };
    let opened: OpenResponse = client.post("/app/open", &request).await?;
    Ok(ResolvedModel { name: opened.model, lacks_template: !opened.chat_template })
}

/// Returns the capabilities of a model, for example `vision`.
pub(crate) async fn capabilities(client: &Client, name: &str) -> anyhow::Result<Vec<String>> {
    let request = ShowRequest { model: name.to_owned(), ..Default::default() };
    Ok(client.post::<_, ShowResponse>("/api/show", &request).await?.capabilities)
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
