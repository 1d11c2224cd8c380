//! What `FROM` and `ADAPTER` name: files beside the Modelfile, or a model.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// How deep folders are looked into.
const MAX_DEPTH: usize = 16;

/// What a model is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// These files, sorted.
    Files(Vec<PathBuf>),
    /// A model of this name.
    Model(String),
}

/// Weights as they are published, the first of which that a folder has is what it is for: how a file's name begins and ends, and
/// whether files of folders inside count.
const WEIGHTS: [(&str, &str, bool); 6] = [
    ("model", ".safetensors", true),
    ("consolidated", ".safetensors", true),
    ("pytorch_model", ".bin", false),
    ("consolidated", ".pth", false),
    ("", ".gguf", false),
    ("", ".bin", false),
];

/// Looks up what `text` names: a file, or a folder's weights and what describes them, from `folder` on and with `~` for `home`;
/// where there is no such path, a model.
///
/// # Errors
/// Where a folder cannot be read, or has no weights (`NotFound`).
pub fn origin(text: &str, folder: &Path, home: Option<&Path>) -> io::Result<Origin> {
    let path = match (text.strip_prefix('~'), home) {
        (Some(""), Some(home)) => home.to_owned(),
        (Some(rest), Some(home)) if rest.starts_with(['/', '\\']) => home.join(rest.trim_start_matches(['/', '\\'])),
        _ => folder.join(text),
    };
    if text.is_empty() || !path.exists() {
        return Ok(Origin::Model(text.to_owned()));
    }
    if !path.is_dir() {
        return Ok(Origin::Files(vec![path]));
    }
    let mut names = Vec::new();
    list(&path, &mut Vec::new(), &mut names)?;
    names.sort();
    let weights = WEIGHTS.iter().map(|&(start, end, inside)| {
        let fits = |names: &&Vec<String>| {
            names.last().is_some_and(|name| name.starts_with(start) && name.ends_with(end))
                && (inside || names.len() == 1)
        };
        names.iter().filter(fits).collect::<Vec<_>>()
    });
    let weights = weights.into_iter().find(|weights| !weights.is_empty());
    let weights = weights.ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("{} has no model files that are known", path.display()))
    })?;
    let describes = |names: &&Vec<String>| {
        let at_top = names.len() == 1;
        names.last().is_some_and(|name| {
            name.ends_with(".json") || (at_top && matches!(name.as_str(), "chat_template.jinja" | "tokenizer.model"))
        })
    };
    let files = weights.into_iter().chain(names.iter().filter(describes));
    Ok(Origin::Files(files.map(|names| names.iter().fold(path.clone(), |path, name| path.join(name))).collect()))
}

/// The files under a folder, each as the names that lead to it. Hidden ones and links to folders are passed over.
fn list(folder: &Path, above: &mut Vec<String>, out: &mut Vec<Vec<String>>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with('.') {
            continue;
        }
        let is_folder = entry.file_type()?.is_dir();
        above.push(name);
        if is_folder && above.len() < MAX_DEPTH {
            list(&entry.path(), above, out)?;
        } else if entry.path().is_file() {
            out.push(above.clone());
        }
        above.pop();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[&str], text: &str, expected: &[&str]) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().expect("it is in a folder")).expect("the folder can be made");
            fs::write(path, "").expect("the file can be written");
        }
        let found = match origin(text, folder.path(), Some(&folder.path().join("home"))) {
            Ok(Origin::Files(files)) => {
                let within = |file: PathBuf| file.strip_prefix(folder.path()).map(Path::to_owned);
                files.into_iter().map(|file| within(file).expect("it is inside").display().to_string()).collect()
            }
            Ok(Origin::Model(name)) => vec![format!("model {name}")],
            Err(error) => vec![error.kind().to_string()],
        };
        assert_eq!(found, expected, "{text} among {files:?}");
    }

    #[test]
    fn paths_that_exist_are_files_and_others_models() {
        check(&["a.gguf"], "a.gguf", &["a.gguf"]);
        check(&["a.gguf"], "./a.gguf", &["a.gguf"]);
        check(&["a.gguf"], "llama3:8b", &["model llama3:8b"]);
        check(&["home/x/a.gguf"], "~/x/a.gguf", &["home/x/a.gguf"]);
        check(&["home/x/a.gguf"], "~x/a.gguf", &["model ~x/a.gguf"]);
    }

    #[test]
    fn folders_are_their_best_weights_and_what_describes_them() {
        let all = ["m/model-1.safetensors", "m/in/model.safetensors", "m/a.gguf", "m/config.json", "m/in/b.json"];
        check(&all, "m", &["m/in/model.safetensors", "m/model-1.safetensors", "m/config.json", "m/in/b.json"]);
        check(&["m/a.gguf", "m/b.bin", "m/in/c.gguf", "m/.d.gguf"], "m", &["m/a.gguf"]);
        check(
            &["m/tokenizer.model", "m/pytorch_model.bin", "m/x.txt"],
            "m",
            &["m/pytorch_model.bin", "m/tokenizer.model"],
        );
        check(&["m/readme.md"], "m", &["entity not found"]);
    }
}
