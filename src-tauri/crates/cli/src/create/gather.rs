//! Files that a Modelfile names.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use cairn_convert::Recipe;
use cairn_convert::modelfile::{Origin, origin};
use cairn_gguf::split::PartName;
use sha2::Digest;

/// Bytes that are read at once.
const PIECE_BYTES: usize = 1 << 20;

/// What a GGUF file begins with.
const MAGIC: &[u8] = b"GGUF";
/// How weights are called that are in other formats, which some servers take.
const OTHER_WEIGHTS: [&str; 3] = [".safetensors", ".bin", ".pth"];

/// A file that is to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// What the server is to call it: its path, from the folder on that was named.
    pub(super) name: String,
    pub(super) path: PathBuf,
}

/// All that a model is made of.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Gathered {
    /// A model's name.
    pub(super) from: Option<String>,
    pub(super) files: Vec<Found>,
    pub(super) adapters: Vec<Found>,
}

/// Finds what a recipe names, from the Modelfile's `folder` on.
pub(super) fn gather(recipe: &Recipe, folder: &Path, home: Option<&Path>) -> anyhow::Result<Gathered> {
    let mut gathered = Gathered::default();
    for text in &recipe.from {
        match origin(text, folder, home).with_context(|| format!("FROM {text}"))? {
            Origin::Model(name) => gathered.from = Some(name),
            Origin::Files(paths) => add(&mut gathered.files, paths).with_context(|| format!("FROM {text}"))?,
        }
    }
    for text in &recipe.adapters {
        match origin(text, folder, home).with_context(|| format!("ADAPTER {text}"))? {
            Origin::Model(path) => bail!("ADAPTER {path}: there is no such file"),
            Origin::Files(paths) => add(&mut gathered.adapters, paths).with_context(|| format!("ADAPTER {text}"))?,
        }
    }
    Ok(gathered)
}

/// Adds one file, with the other parts of a split model that lie beside it, or a folder's.
fn add(files: &mut Vec<Found>, paths: Vec<PathBuf>) -> anyhow::Result<()> {
    let mut paths = paths;
    if let [path] = paths.as_slice() {
        look_at(path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let parts = PartName::parse(&name).into_iter().flat_map(|part| part.all().collect::<Vec<_>>());
        let beside = parts.map(|part| path.with_file_name(part.to_string())).filter(|part| part != path);
        let beside: Vec<PathBuf> = beside.filter(|part| part.is_file()).collect();
        paths.extend(beside);
    }
    let top = common(&paths);
    for path in paths {
        let name: Vec<_> = path.strip_prefix(&top).unwrap_or(&path).components().collect();
        let name: Vec<_> = name.iter().map(|part| part.as_os_str().to_string_lossy()).collect();
        let found = Found { name: name.join("/"), path };
        match files.iter().find(|other| other.name == found.name) {
            Some(other) if other.path == found.path => {}
            Some(other) => {
                bail!("{} and {} have one name; rename one", other.path.display(), found.path.display())
            }
            None => files.push(found),
        }
    }
    Ok(())
}

/// Refuses what cannot be weights, before any of it is copied. A pipe or a device is not even opened.
fn look_at(path: &Path) -> anyhow::Result<()> {
    let unread = || format!("could not read {}", path.display());
    let found = path.metadata().with_context(unread)?;
    ensure!(found.is_file(), "{}: it is a pipe or a device, and a model must be a file", path.display());
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    if OTHER_WEIGHTS.iter().any(|ending| name.ends_with(ending)) {
        return Ok(());
    }
    let mut start = Vec::new();
    File::open(path).and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut start)).with_context(unread)?;
    ensure!(start == MAGIC, "{}: it is not in GGUF format, so no model can be made of it", path.display());
    Ok(())
}

/// The folder that all these files are in.
fn common(paths: &[PathBuf]) -> PathBuf {
    let mut folder = paths.first().and_then(|path| path.parent()).map_or_else(PathBuf::new, Path::to_owned);
    while paths.iter().any(|path| !path.starts_with(&folder)) && folder.pop() {}
    folder
}

/// The digest of a file's contents, as `/api/blobs` has it. `watch` is told how many bytes were read.
pub(super) fn digest(path: &Path, watch: &mut dyn FnMut(u64)) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = sha2::Sha256::new();
    let mut piece = vec![0; PIECE_BYTES];
    let mut read_bytes = 0;
    loop {
        match file.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => {
                hash.update(&piece[..count]);
                read_bytes += count as u64;
                watch(read_bytes);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let hex: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("sha256:{hex}"))
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
        let gathered = gather(&recipe, folder.path(), None).map_err(|error| format!("{error:#}"));
        match (gathered, expected) {
            (Ok(gathered), Ok(expected)) => {
                let names: Vec<&str> =
                    gathered.from.as_deref().into_iter().chain(gathered.files.iter().map(|f| &*f.name)).collect();
                assert_eq!(names, expected, "{from} among {files:?}");
            }
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (gathered, expected) => panic!("{from} among {files:?}: {gathered:?}, not {expected:?}"),
        }
    }

    #[test]
    fn files_are_called_by_their_paths_inside() {
        check(&["a/m.gguf"], "a/m.gguf", Ok(&["m.gguf"]));
        check(&["a/m.gguf", "a/config.json"], "a", Ok(&["m.gguf", "config.json"]));
        check(&["a/m.gguf"], "llama3:8b", Ok(&["llama3:8b"]));
        check(&["m.gguf", "p.gguf"], "m.gguf p.gguf", Ok(&["m.gguf", "p.gguf"]));
        check(&["a/m.gguf", "b/m.gguf"], "a/m.gguf b/m.gguf", Err("have one name"));
        check(
            &["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"],
            "m-00002-of-00002.gguf",
            Ok(&["m-00002-of-00002.gguf", "m-00001-of-00002.gguf"]),
        );
    }

    #[test]
    fn an_adapter_is_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let recipe = Recipe { from: vec!["m".into()], adapters: vec!["a.gguf".into()], ..Recipe::default() };
        let error = gather(&recipe, folder.path(), None).expect_err("there is none").to_string();
        assert_eq!(error, "ADAPTER a.gguf: there is no such file", "no model is meant");
    }

    #[test]
    fn what_cannot_be_weights_is_refused_by_its_name() {
        let check = |recipe: Recipe, folder: &Path, parts: &[&str]| {
            let said = format!("{:#}", gather(&recipe, folder, None).expect_err("it is no model"));
            for part in parts {
                assert!(said.contains(part), "{part:?} is missing from {said:?}");
            }
        };
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("notes"), "root:x:0:0").unwrap();
        let from = |text: &str| Recipe { from: vec![text.into()], ..Recipe::default() };
        check(from("notes"), folder.path(), &["FROM notes: ", "notes: it is not in GGUF format"]);
        let adapter = Recipe { from: vec!["m".into()], adapters: vec!["notes".into()], ..Recipe::default() };
        check(adapter, folder.path(), &["ADAPTER notes: ", "not in GGUF format"]);
        #[cfg(unix)]
        check(from("/dev/zero"), folder.path(), &["FROM /dev/zero: /dev/zero: it is a pipe or a device"]);
    }

    #[test]
    fn digests_are_those_of_contents() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("empty");
        std::fs::write(&path, b"").unwrap();
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest(&path, &mut |_| {}).unwrap(), empty, "as FIPS 180-4's test vectors have it");
    }
}
