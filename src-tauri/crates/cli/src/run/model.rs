//! What `MODEL` means: a name, or the path of a file.

use std::path::{MAIN_SEPARATOR, Path};

use anyhow::{Context, bail};
use cairn_wire::app::{OpenRequest, OpenResponse};

use crate::client::Client;

/// What is said of a model file that does not say how a conversation becomes a prompt.
pub(crate) const NO_TEMPLATE: &str = "the file has no chat template: what is said goes to the model as it is";

/// A model as the server knows it.
pub(crate) struct Named {
    pub(crate) name: String,
    /// Whether it is a file without a chat template.
    pub(crate) lacks_template: bool,
}

/// The name by which the server knows the model; a file is opened first.
pub(crate) async fn name(client: &Client, text: &str) -> anyhow::Result<Named> {
    if !is_path(text) {
        return Ok(Named { name: text.to_owned(), lacks_template: false });
    }
    if !client.is_ours() {
        bail!("{text}: opening a file needs Cairn's own daemon, and OLLAMA_HOST names another server");
    }
    let request = OpenRequest { path: absolute(Path::new(text))? };
    let opened: OpenResponse = client.post("/app/open", &request).await?;
    Ok(Named { name: opened.model, lacks_template: !opened.chat_template })
}

/// A path as the daemon, whose folder is another, can follow it.
pub(crate) fn absolute(path: &Path) -> anyhow::Result<String> {
    let full = std::path::absolute(path).with_context(|| path.display().to_string())?;
    match full.into_os_string().into_string() {
        Ok(text) => Ok(text),
        Err(path) => bail!("{}: the path is not Unicode", Path::new(&path).display()),
    }
}

/// Is it written as a path, or is it a file that is there? A folder may have the name of a model.
pub(super) fn is_path(text: &str) -> bool {
    let starts = ["./", "../", "/", "~/"].iter().any(|start| text.starts_with(start));
    let ends = text.to_ascii_lowercase().ends_with(".gguf");
    starts || ends || text.starts_with(MAIN_SEPARATOR) || matches!(text, "." | "..") || Path::new(text).is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_names() {
        for path in ["./x", "../x", "/x", "x.gguf", "a/b.GGUF", ".", "Cargo.toml", "/"] {
            assert!(is_path(path), "{path} is a path");
        }
        for name in ["pebble", "me/model:7b", "hf.co/a/b", "src"] {
            assert!(!is_path(name), "{name} is a name");
        }
    }
}
