//! What `MODEL` means: a name, or the path of a file.

use std::path::{MAIN_SEPARATOR, Path};

use anyhow::{Context, bail};
use cairn_wire::app::{OpenRequest, OpenResponse};

use crate::client::Client;

/// The name by which the server knows the model; a file is opened first.
pub(crate) async fn name(client: &Client, text: &str) -> anyhow::Result<String> {
    if !is_path(text) {
        return Ok(text.to_owned());
    }
    if !client.is_ours() {
        bail!("{text}: opening a file needs Cairn's own daemon, and OLLAMA_HOST names another server");
    }
    let path = std::path::absolute(text).with_context(|| text.to_owned())?;
    let Some(path) = path.to_str() else { bail!("{}: the path is not Unicode", path.display()) };
    let opened: OpenResponse = client.post("/app/open", &OpenRequest { path: path.to_owned() }).await?;
    Ok(opened.model)
}

/// Is it written as a path, or is it a file that is there? A folder may have the name of a model.
fn is_path(text: &str) -> bool {
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
