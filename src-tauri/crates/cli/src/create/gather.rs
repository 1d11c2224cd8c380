//! Finds the files that a Modelfile names.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use cairn_convert::Recipe;
use cairn_convert::modelfile::{Origin, adapter_origin, origin};
use cairn_gguf::split::PartName;

/// First bytes of a GGUF file.
const MAGIC: &[u8] = b"GGUF";
/// File extensions of weights in other formats, which some servers accept.
const OTHER_WEIGHTS: [&str; 3] = [".safetensors", ".bin", ".pth"];

/// A file to upload.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SourceFile {
    /// Name in the request: the path relative to the named folder.
    pub(super) name: String,
    pub(super) path: PathBuf,
}

/// The base model, weights and adapters of a new model.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ModelSources {
    /// Name of the base model.
    pub(super) from: Option<String>,
    pub(super) files: Vec<SourceFile>,
    pub(super) adapters: Vec<SourceFile>,
}

/// Finds the files that a recipe names. Relative paths start at `folder`, the Modelfile's folder.
pub(super) fn gather(recipe: &Recipe, folder: &Path, home: Option<&Path>) -> anyhow::Result<ModelSources> {
    let mut sources = ModelSources::default();
    for text in &recipe.from {
        match origin(text, folder, home).with_context(|| format!("FROM {text}"))? {
            Origin::Model(name) => sources.from = Some(name),
            Origin::Files(paths) => add(&mut sources.files, paths).with_context(|| format!("FROM {text}"))?,
        }
    }
    for text in &recipe.adapters {
        match adapter_origin(text, folder, home).with_context(|| format!("ADAPTER {text}"))? {
            Origin::Model(path) => bail!("ADAPTER {path}: there is no such file"),
            Origin::Files(paths) => add(&mut sources.adapters, paths).with_context(|| format!("ADAPTER {text}"))?,
        }
    }
    Ok(sources)
}

/// Adds one file with the other parts of a split model in its folder, or the files of a folder.
fn add(files: &mut Vec<SourceFile>, paths: Vec<PathBuf>) -> anyhow::Result<()> {
    let mut paths = paths;
    if let [path] = paths.as_slice() {
        check_weights(path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let parts = PartName::parse(&name).into_iter().flat_map(|part| part.all().collect::<Vec<_>>());
        let other_parts = parts.map(|part| path.with_file_name(part.to_string())).filter(|part| part != path);
        let other_parts: Vec<PathBuf> = other_parts.filter(|part| part.is_file()).collect();
        paths.extend(other_parts);
    }
    let top = common_folder(&paths);
    for path in paths {
        let name: Vec<_> = path.strip_prefix(&top).unwrap_or(&path).components().collect();
        let name: Vec<_> = name.iter().map(|part| part.as_os_str().to_string_lossy()).collect();
        let file = SourceFile { name: name.join("/"), path };
        match files.iter().find(|other| other.name == file.name) {
            Some(other) if other.path == file.path => {}
            Some(other) => {
                bail!("{} and {} have the same name; rename one", other.path.display(), file.path.display())
            }
            None => files.push(file),
        }
    }
    Ok(())
}

/// Fails if the path does not lead to a file: a pipe or a device may have no end.
pub(super) fn check_is_file(path: &Path) -> anyhow::Result<()> {
    let metadata = path.metadata().with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(metadata.is_file(), "{} is a pipe or a device, and must be a file", path.display());
    Ok(())
}

/// Fails if the file cannot contain weights, before it is uploaded. Does not open a pipe or a device.
fn check_weights(path: &Path) -> anyhow::Result<()> {
    check_is_file(path)?;
    let unread = || format!("cannot read {}", path.display());
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    if OTHER_WEIGHTS.iter().any(|ending| name.ends_with(ending)) {
        return Ok(());
    }
    let mut start = Vec::new();
    File::open(path).and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut start)).with_context(unread)?;
    ensure!(start == MAGIC, "{} is not in GGUF format; weights must be a GGUF file", path.display());
    Ok(())
}

/// Returns the deepest folder that contains all these files.
fn common_folder(paths: &[PathBuf]) -> PathBuf {
    let mut folder = paths.first().and_then(|path| path.parent()).map_or_else(PathBuf::new, Path::to_owned);
    while paths.iter().any(|path| !path.starts_with(&folder)) && folder.pop() {}
    folder
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[&str], from: &str, expected: Result<&[&str], &str>) {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "GGUF").unwrap();
        }
        let recipe = Recipe { from: from.split(' ').map(str::to_owned).collect(), ..Recipe::default() };
        let sources = gather(&recipe, folder.path(), None).map_err(|error| format!("{error:#}"));
        match (sources, expected) {
            (Ok(sources), Ok(expected)) => {
                let names: Vec<&str> =
                    sources.from.as_deref().into_iter().chain(sources.files.iter().map(|f| &*f.name)).collect();
                assert_eq!(names, expected, "{from} among {files:?}");
            }
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (sources, expected) => panic!("{from} among {files:?}: {sources:?}, not {expected:?}"),
        }
    }

    #[test]
    fn source_files_are_named_by_relative_path() {
        check(&["a/m.gguf"], "a/m.gguf", Ok(&["m.gguf"]));
        check(&["a/m.gguf", "a/config.json"], "a", Ok(&["m.gguf", "config.json"]));
        check(&["a/m.gguf"], "llama3:8b", Ok(&["llama3:8b"]));
        check(&["m.gguf", "p.gguf"], "m.gguf p.gguf", Ok(&["m.gguf", "p.gguf"]));
        check(&["a/m.gguf", "b/m.gguf"], "a/m.gguf b/m.gguf", Err("have the same name"));
        check(
            &["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"],
            "m-00002-of-00002.gguf",
            Ok(&["m-00002-of-00002.gguf", "m-00001-of-00002.gguf"]),
        );
    }

    #[test]
    fn adapter_must_be_existing_file() {
        let folder = tempfile::tempdir().unwrap();
        let recipe = Recipe { from: vec!["m".into()], adapters: vec!["a.gguf".into()], ..Recipe::default() };
        let error = gather(&recipe, folder.path(), None).expect_err("the file is missing").to_string();
        assert_eq!(error, "ADAPTER a.gguf: there is no such file", "an adapter cannot be a model name");
    }

    #[test]
    fn gather_error_names_file_without_weights() {
        let check = |recipe: Recipe, folder: &Path, parts: &[&str]| {
            let error = format!("{:#}", gather(&recipe, folder, None).expect_err("no file has weights"));
            for part in parts {
                assert!(error.contains(part), "{part:?} is missing from {error:?}");
            }
        };
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("notes"), "root:x:0:0").unwrap();
        let from = |text: &str| Recipe { from: vec![text.into()], ..Recipe::default() };
        check(from("notes"), folder.path(), &["FROM notes: ", "notes is not in GGUF format"]);
        let adapter = Recipe { from: vec!["m".into()], adapters: vec!["notes".into()], ..Recipe::default() };
        check(adapter, folder.path(), &["ADAPTER notes: ", "not in GGUF format"]);
        #[cfg(unix)]
        check(from("/dev/zero"), folder.path(), &["FROM /dev/zero: /dev/zero is a pipe or a device"]);
    }
}
