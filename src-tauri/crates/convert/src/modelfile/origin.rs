//! Resolution of `FROM` and `ADAPTER` to files beside the Modelfile, or to a model.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Maximum depth of folders.
const MAX_DEPTH: usize = 16;

/// Base of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Files, sorted.
    Files(Vec<PathBuf>),
    /// Name of a model.
    Model(String),
}

/// Name patterns of published weights: prefix, suffix, and whether subfolders count. The first pattern with a match in a folder
/// determines its weights.
const WEIGHTS: [(&str, &str, bool); 6] = [
    ("model", ".safetensors", true),
    ("consolidated", ".safetensors", true),
    ("pytorch_model", ".bin", false),
    ("consolidated", ".pth", false),
    ("", ".gguf", false),
    ("", ".bin", false),
];

/// Name patterns of adapters in a folder, as [`WEIGHTS`].
const ADAPTERS: [(&str, &str, bool); 2] = [("adapter_model", ".safetensors", false), ("", ".gguf", false)];
/// Descriptions of weights at the top of a folder, beside JSON files.
const DESCRIPTIONS: [&str; 5] =
    ["chat_template.jinja", "spiece.model", "tiktoken.model", "tokenizer.model", "vocab.txt"];
/// Description of an adapter in safetensors files.
const ADAPTER_CONFIG: &str = "adapter_config.json";

/// Resolves `text` to a file, to the weights and descriptions in a folder, or to a model if no such path exists. Paths are relative
/// to `folder`, and `~` means `home`.
///
/// # Errors
/// If a folder cannot be read or has no weights (`NotFound`).
pub fn origin(text: &str, folder: &Path, home: Option<&Path>) -> io::Result<Origin> {
    let is_description = |names: &Vec<String>| {
        let at_top = names.len() == 1;
        names.last().is_some_and(|name| name.ends_with(".json") || (at_top && DESCRIPTIONS.contains(&name.as_str())))
    };
    resolve(text, folder, home, &WEIGHTS, is_description, "supported model files")
}

/// Resolves `text` as [`origin`], to a file or to the adapter in a folder and its description.
///
/// # Errors
/// If a folder cannot be read or has no adapter (`NotFound`).
pub fn adapter_origin(text: &str, folder: &Path, home: Option<&Path>) -> io::Result<Origin> {
    let is_description = |names: &Vec<String>| names.len() == 1 && names[0] == ADAPTER_CONFIG;
    resolve(text, folder, home, &ADAPTERS, is_description, "adapter: neither adapter_model.safetensors nor a GGUF file")
}

/// Resolves `text`. `what` names the files of `patterns` in the error of a folder without any.
fn resolve(
    text: &str,
    folder: &Path,
    home: Option<&Path>,
    patterns: &[(&str, &str, bool)],
    is_description: impl Fn(&Vec<String>) -> bool,
    what: &str,
) -> io::Result<Origin> {
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
    let weights = patterns.iter().map(|&(prefix, suffix, in_subfolders)| {
        let matches = |names: &&Vec<String>| {
            names.last().is_some_and(|name| name.starts_with(prefix) && name.ends_with(suffix))
                && (in_subfolders || names.len() == 1)
        };
        names.iter().filter(matches).collect::<Vec<_>>()
    });
    let weights = weights.into_iter().find(|weights| !weights.is_empty());
    let weights = weights
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{} contains no {what}", path.display())))?;
    let files = weights.into_iter().chain(names.iter().filter(|names| is_description(names)));
    Ok(Origin::Files(files.map(|names| names.iter().fold(path.clone(), |path, name| path.join(name))).collect()))
}

/// Lists the files below a folder, each as its path components. Hidden files and links to folders are skipped.
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
        check_with(origin, files, text, expected);
    }

    type Resolve = fn(&str, &Path, Option<&Path>) -> io::Result<Origin>;

    fn check_with(resolve: Resolve, files: &[&str], text: &str, expected: &[&str]) {
        let folder = tempfile::tempdir().expect("temporary folder");
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().expect("the path has a folder")).expect("folder is created");
            fs::write(path, "").expect("file is written");
        }
        let found = match resolve(text, folder.path(), Some(&folder.path().join("home"))) {
            Ok(Origin::Files(files)) => {
                let within = |file: PathBuf| file.strip_prefix(folder.path()).map(Path::to_owned);
                files
                    .into_iter()
                    .map(|file| within(file).expect("the file is in the folder").display().to_string())
                    .collect()
            }
            Ok(Origin::Model(name)) => vec![format!("model {name}")],
            Err(error) => vec![error.kind().to_string()],
        };
        assert_eq!(found, expected, "{text} among {files:?}");
    }

    #[test]
    fn existing_paths_are_files_and_other_names_models() {
        check(&["a.gguf"], "a.gguf", &["a.gguf"]);
        check(&["a.gguf"], "./a.gguf", &["a.gguf"]);
        check(&["a.gguf"], "llama3:8b", &["model llama3:8b"]);
        check(&["home/x/a.gguf"], "~/x/a.gguf", &["home/x/a.gguf"]);
        check(&["home/x/a.gguf"], "~x/a.gguf", &["model ~x/a.gguf"]);
    }

    #[test]
    fn folder_resolves_to_its_best_weights_and_descriptions() {
        let all = ["m/model-1.safetensors", "m/in/model.safetensors", "m/a.gguf", "m/config.json", "m/in/b.json"];
        check(&all, "m", &["m/in/model.safetensors", "m/model-1.safetensors", "m/config.json", "m/in/b.json"]);
        check(&["m/a.gguf", "m/b.bin", "m/in/c.gguf", "m/.d.gguf"], "m", &["m/a.gguf"]);
        check(
            &["m/tokenizer.model", "m/pytorch_model.bin", "m/x.txt"],
            "m",
            &["m/pytorch_model.bin", "m/tokenizer.model"],
        );
        check(
            &["m/model.safetensors", "m/spiece.model", "m/tiktoken.model", "m/other.model", "m/in/spiece.model"],
            "m",
            &["m/model.safetensors", "m/spiece.model", "m/tiktoken.model"],
        );
        check(&["m/readme.md"], "m", &["entity not found"]);
    }
    #[test]
    fn adapter_folder_resolves_to_its_weights_and_description() {
        let check = |files: &[&str], expected: &[&str]| check_with(adapter_origin, files, "a", expected);
        let all =
            ["a/adapter_model.safetensors", "a/adapter_config.json", "a/tokenizer.json", "a/old/adapter_config.json"];
        check(&all, &["a/adapter_model.safetensors", "a/adapter_config.json"]);
        check(&["a/m.gguf", "a/model.safetensors"], &["a/m.gguf"]);
        check(&["a/adapter_model.bin", "a/adapter_config.json"], &["entity not found"]);
    }
}
