//! Imports and deletions of models, also with disk faults.

use std::fs;
use std::path::PathBuf;

use cairn_disk::RealDisk;
use cairn_testkit::FaultyDisk;

use super::*;

pub(super) struct Fixture {
    pub(super) folder: tempfile::TempDir,
    pub(super) library: Library,
}

pub(super) fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let library = Library::new(folder.path().join("models"));
    Fixture { folder, library }
}

impl Fixture {
    fn writer(&self) -> LibraryWriter<'_> {
        LibraryWriter::open(&self.library, &RealDisk).unwrap()
    }

    pub(super) fn file(&self, name: &str, contents: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, contents).unwrap();
        path
    }

    fn blobs(&self) -> Vec<String> {
        let entries = [self.library.blobs(), self.library.temp_files()].map(|folder| fs::read_dir(folder).unwrap());
        let entries = entries.into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn names(&self) -> Vec<String> {
        let listing = self.library.list().unwrap();
        assert!(listing.skipped.is_empty(), "all entries are readable: {:?}", listing.skipped);
        for model in &listing.models {
            for layer in &model.manifest.layers {
                self.library.blob(layer).expect("listed models have their blobs");
            }
        }
        listing.models.iter().map(|model| model.name.to_string()).collect()
    }
}

fn name(text: &str) -> ModelRef {
    text.parse().unwrap()
}

fn import(writer: &LibraryWriter<'_>, path: &Path, to: &str, replace: bool) -> Result<ImportedBlob, WriteError> {
    let imported = writer.import_file(path, false, &mut |_| true)?;
    writer.save(&name(to), b"{}", std::slice::from_ref(&imported.layer), replace)?;
    Ok(imported)
}

#[test]
fn file_is_imported_once() {
    let fixture = fixture();
    let writer = fixture.writer();
    let contents = vec![3; 3 * 1_000_000];
    let path = fixture.file("a file.gguf", &contents);
    let mut seen = Vec::new();
    let imported = writer
        .import_file(&path, false, &mut |progress| {
            seen.push(progress.done_bytes);
            true
        })
        .unwrap();
    assert!(
        matches!(imported.method, ImportMethod::Copied { .. } | ImportMethod::Reflinked),
        "reflink or copy: {imported:?}"
    );
    assert_eq!(imported.layer.digest, Digest::of(&contents), "digest of the file");
    assert!(seen.is_sorted() && seen.last() == Some(&3_000_000), "progress is reported: {seen:?}");
    let layers = std::slice::from_ref(&imported.layer);
    let model = writer.save(&name("Tiny"), b"{}", layers, false).unwrap();
    assert_eq!(model.name.to_string(), "Tiny:latest", "spelling is preserved");
    assert_eq!(fs::read(fixture.library.blob(&imported.layer).unwrap()).unwrap(), contents, "contents of the blob");

    let before = fixture.blobs();
    let again = import(&writer, &path, "tiny", false).expect("importing the same file again succeeds");
    assert!(matches!(again.method, ImportMethod::Present), "the blob exists: {again:?}");
    assert_eq!(
        (fixture.blobs(), fixture.names()),
        (before, vec!["Tiny:latest".to_owned()]),
        "the library is unchanged"
    );
}

#[cfg(unix)]
#[test]
fn only_unreferenced_blobs_get_the_current_time_when_reused() {
    let fixture = fixture();
    let writer = fixture.writer();
    let path = fixture.file("file", b"old");
    let layer = writer.import_file(&path, false, &mut |_| true).unwrap().layer;
    let modified = || fs::metadata(fixture.library.blob_path(&layer.digest)).unwrap().modified().unwrap();
    let make_old = || {
        let blob = fs::File::options().write(true).open(fixture.library.blob_path(&layer.digest)).unwrap();
        blob.set_modified(std::time::UNIX_EPOCH).unwrap();
    };
    let check = |is_unreferenced: bool, what: &str, again: &dyn Fn()| {
        make_old();
        again();
        let is_recent = modified() > std::time::UNIX_EPOCH;
        assert_eq!(
            is_recent, is_unreferenced,
            "{what}: garbage collectors keep recent blobs; the engine maps old ones"
        );
    };
    let reuse = |is_unreferenced: bool| {
        // Each client's request has a writer of its own.
        let writer = fixture.writer();
        check(is_unreferenced, "a file", &|| drop(writer.import_file(&path, false, &mut |_| true).unwrap()));
        check(is_unreferenced, "a link", &|| drop(writer.import_file(&path, true, &mut |_| true).unwrap()));
        check(is_unreferenced, "a text", &|| drop(writer.put(LayerKind::System, b"old").unwrap()));
        check(is_unreferenced, "an upload", &|| {
            let mut receiver = writer.receive(layer.digest, None).unwrap();
            receiver.write(b"old").unwrap();
            receiver.finish().unwrap();
        });
    };
    reuse(true);
    writer.save(&name("m"), b"{}", std::slice::from_ref(&layer), false).unwrap();
    reuse(false);
    check(false, "the same model", &|| {
        drop(fixture.writer().save(&name("m"), b"{}", std::slice::from_ref(&layer), true).unwrap());
    });
    check(false, "a copy", &|| {
        drop(fixture.writer().copy(&fixture.library, &name("m"), &name("n"), &mut |_| true).unwrap());
    });
}

#[test]
fn existing_name_is_replaced_only_on_request() {
    let fixture = fixture();
    let writer = fixture.writer();
    let (one, two) = (fixture.file("one", b"one"), fixture.file("two", b"two"));
    let first = import(&writer, &one, "m", false).unwrap().layer;
    let error = import(&writer, &two, "M", false).expect_err("the name is taken").to_string();
    assert!(error.contains("another model named m:latest") && error.contains("--force"), "{error}");
    let second = import(&writer, &two, "M", true).unwrap().layer;
    assert_eq!(fixture.names(), ["m:latest"], "one model in the old spelling");
    assert!(fixture.library.blob(&first).is_err(), "unreferenced blobs are removed");
    assert!(fixture.library.blob(&second).is_ok(), "the new blob stays");
}

#[test]
fn delete_removes_only_unshared_blobs() {
    let fixture = fixture();
    let writer = fixture.writer();
    let path = fixture.file("file", b"shared");
    let layer = import(&writer, &path, "a", false).unwrap().layer;
    let system = writer.put(LayerKind::System, b"Be brief.").unwrap();
    writer.save(&name("me/b:v1"), b"{}", &[layer.clone(), system.clone()], false).unwrap();
    assert!(writer.delete(&name("missing")).unwrap().is_none(), "no such model");
    let deleted = writer.delete(&name("ME/B:V1")).unwrap().unwrap();
    assert_eq!((deleted.name.to_string(), deleted.freed_bytes), ("me/b:v1".to_owned(), 9), "the lookup ignores case");
    assert!(fixture.library.blob(&system).is_err() && fixture.library.blob(&layer).is_ok(), "shared blobs stay");
    assert!(!fixture.library.root().join("manifests/registry.ollama.ai/me").exists(), "empty folders are removed");
    writer.delete(&name("a")).unwrap();
    assert_eq!((fixture.names().len(), fixture.blobs().len()), (0, 0), "the library is empty");
}

#[test]
fn digests_in_damaged_manifests_protect_blobs() {
    let fixture = fixture();
    let writer = fixture.writer();
    let mine = import(&writer, &fixture.file("mine", b"mine"), "a", false).unwrap().layer;
    let theirs = writer.put(LayerKind::System, b"theirs").unwrap();
    writer.save(&name("a"), b"{}", &[mine.clone(), theirs.clone()], true).unwrap();
    let broken = fixture.library.manifests().join("registry.ollama.ai/library/broken");
    fs::create_dir_all(&broken).unwrap();
    fs::write(broken.join("latest"), format!(r#"{{"layers":[{{"digest":"{}","#, theirs.digest)).unwrap();
    assert_eq!(writer.delete(&name("a")).unwrap().unwrap().freed_bytes, 4 + 2, "the file and the config");
    assert!(fixture.library.blob(&mine).is_err(), "blobs without a reference are removed");
    assert!(fixture.library.blob(&theirs).is_ok(), "the referenced blob stays");
    // Folders that are too deep are not read, so their references are unknown.
    fs::create_dir_all(broken.join("a/b/c/d/e/f/g")).unwrap();
    import(&writer, &fixture.file("mine", b"mine"), "a", false).unwrap();
    assert_eq!(writer.delete(&name("a")).unwrap().unwrap().freed_bytes, 0, "all blobs stay");
    assert!(fixture.library.blob(&mine).is_ok(), "the blob may be referenced there");
}

#[test]
fn discard_removes_only_damaged_blobs() {
    let fixture = fixture();
    let writer = fixture.writer();
    let layer = import(&writer, &fixture.file("file", b"sound"), "a", false).unwrap().layer;
    assert!(!writer.discard(&layer.digest).unwrap(), "the blob is valid");
    fs::write(fixture.library.blob_path(&layer.digest), "dirty").unwrap();
    assert!(writer.discard(&layer.digest).unwrap(), "the blob is damaged");
    assert!(fixture.library.blob(&layer).is_err() && !writer.discard(&layer.digest).unwrap(), "the blob is gone");
}

#[cfg(unix)]
#[test]
fn hard_link_makes_the_file_read_only() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let fixture = fixture();
    let writer = fixture.writer();
    let path = fixture.file("file", b"linked");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let imported = writer.import_file(&path, true, &mut |_| {
        assert_eq!(mode(&path), 0o664, "the mode changes only after hashing, in case the program is killed");
        true
    });
    let imported = imported.unwrap();
    assert_eq!(imported.method, ImportMethod::Linked { made_read_only: true }, "the change is reported");
    assert_eq!(mode(&path), 0o444, "the file is read-only");
    let blob = fixture.library.blob(&imported.layer).unwrap();
    assert_eq!(fs::metadata(&blob).unwrap().ino(), fs::metadata(&path).unwrap().ino(), "one file with two names");

    let second = fixture.file("second", b"linked");
    fs::set_permissions(&second, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(
        writer.import_file(&second, true, &mut |_| true).unwrap().method,
        ImportMethod::Present,
        "the blob exists"
    );
    assert_eq!(mode(&second), 0o640, "a file that was not linked is unchanged");
    let third = fixture.file("third", b"never");
    fs::set_permissions(&third, fs::Permissions::from_mode(0o640)).unwrap();
    assert!(matches!(writer.import_file(&third, true, &mut |_| false), Err(WriteError::Cancelled)), "cancelled");
    assert_eq!(mode(&third), 0o640, "the mode is unchanged");
    // Linux has a second file system, in memory.
    let memory = Path::new("/dev/shm");
    if memory.is_dir() && fs::metadata(memory).unwrap().dev() != fs::metadata(&third).unwrap().dev() {
        let far = tempfile::NamedTempFile::new_in(memory).unwrap();
        let error = writer.import_file(far.path(), true, &mut |_| true).expect_err("another file system").to_string();
        assert!(error.contains("two file systems"), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn file_that_changes_during_the_import_is_not_linked() {
    let fixture = fixture();
    let writer = fixture.writer();
    let path = fixture.file("file", b"first");
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    fs::File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
    let change = &mut |_| fs::write(&path, b"later").is_ok();
    assert!(
        matches!(writer.import_file(&path, true, change), Err(WriteError::SourceChanged(_))),
        "the change is detected"
    );
    assert!(!fs::metadata(&path).unwrap().permissions().readonly(), "the mode is unchanged");
    assert!(fixture.blobs().is_empty(), "no blob was added");
}

#[test]
fn cancelled_import_leaves_no_files() {
    let fixture = fixture();
    let writer = fixture.writer();
    let path = fixture.file("file", &vec![1; 5_000_000]);
    let stop_half_way = &mut |progress: Progress| progress.done_bytes < 2_000_000;
    assert!(matches!(writer.import_file(&path, false, stop_half_way), Err(WriteError::Cancelled)), "cancelled");
    assert!(fixture.blobs().is_empty(), "no temporary file remains");
    for folder in [fixture.library.temp_files(), fixture.library.blobs()] {
        fs::write(folder.join(".draft.1-1.tmp"), "from a killed program").unwrap();
    }
    let _ = fixture.writer();
    assert!(fixture.blobs().is_empty(), "temporary files of killed programs are removed");
    let changed = &mut |progress: Progress| {
        fs::write(&path, vec![2; 5_000_001]).unwrap();
        progress.done_bytes > 0
    };
    let outcome = writer.import_file(&path, false, changed);
    if !matches!(&outcome, Ok(imported) if imported.method == ImportMethod::Reflinked) {
        assert!(matches!(outcome, Err(WriteError::SourceChanged(_))), "a changing file is rejected: {outcome:?}");
        assert!(fixture.blobs().is_empty(), "no file remains");
    }
}

#[test]
fn generated_contents_are_imported() {
    let fixture = fixture();
    let writer = fixture.writer();
    let generate = |fill: &mut dyn FnMut(&mut dyn std::io::Write) -> std::io::Result<()>, continues: bool| {
        writer.import_generated(Path::new("parts"), 6, "they are two", fill, &mut |_| continues)
    };
    let two = &mut |out: &mut dyn std::io::Write| out.write_all(b"one").and_then(|()| out.write_all(b"two"));
    let imported = generate(two, true).unwrap();
    assert_eq!(imported.layer.digest, Digest::of(b"onetwo"), "digest of all pieces");
    assert_eq!(imported.method, ImportMethod::Copied { reason: "they are two".to_owned() }, "with the reason");
    assert_eq!(generate(two, true).unwrap().method, ImportMethod::Present, "the blob exists");
    let before = fixture.blobs();
    assert!(matches!(generate(two, false), Err(WriteError::Cancelled)), "cancelled");
    let failing =
        &mut |_: &mut dyn std::io::Write| -> std::io::Result<()> { Err(std::io::ErrorKind::InvalidData.into()) };
    let error = generate(failing, true).expect_err("the generator fails").to_string();
    assert!(error.starts_with("could not read parts"), "{error}");
    assert_eq!(fixture.blobs(), before, "no temporary file remains");
}

/// Fails the disk after each number of steps: listed models have their blobs, and the next attempt succeeds.
#[test]
fn failed_import_leaves_no_broken_model() {
    for steps in 0.. {
        let fixture = fixture();
        let (old, new) = (fixture.file("old", b"old"), fixture.file("new", &vec![9; 2_500_000]));
        import(&fixture.writer(), &old, "m", false).unwrap();
        let disk = FaultyDisk::fail_after(steps);
        let outcome = LibraryWriter::open(&fixture.library, &disk).and_then(|w| import(&w, &new, "m", true));
        assert_eq!(fixture.names(), ["m:latest"], "after {steps} steps there is one model with its blobs");
        let again = import(&fixture.writer(), &new, "m", true);
        assert!(again.is_ok(), "after {steps} steps the next attempt succeeds: {again:?}");
        assert!(
            !fixture.blobs().iter().any(|name| name.starts_with('.')),
            "no temporary file remains: {:?}",
            fixture.blobs()
        );
        if outcome.is_ok() && disk.steps_left() > 0 {
            assert!(steps > 5, "an import takes more steps than {steps}");
            return;
        }
    }
}

#[test]
fn damaged_blobs_are_replaced_by_imports() {
    let check = |what: &str, import_into: &dyn Fn(&Fixture, &LibraryWriter<'_>, &Path)| {
        let fixture = fixture();
        let writer = fixture.writer();
        let blob = fixture.library.blob_path(&Digest::of(b"weights"));
        fs::write(&blob, b"WEIGHTS").unwrap();
        import_into(&fixture, &writer, &fixture.file("file", b"weights"));
        assert_eq!(fs::read(&blob).unwrap(), b"weights", "{what}: the damaged blob is replaced");
    };
    check("a copy", &|_, writer, path| drop(import(writer, path, "m", false).unwrap()));
    check("a link", &|_, writer, path| drop(writer.import_file(path, true, &mut |_| true).unwrap()));
    check("a text", &|_, writer, _| drop(writer.put(LayerKind::System, b"weights").unwrap()));
    check("a received blob", &|_, writer, _| {
        let mut receiver = writer.receive(Digest::of(b"weights"), None).unwrap();
        receiver.write(b"weights").unwrap();
        receiver.finish().unwrap();
    });
    check("a moved file", &|_, writer, path| {
        let (imported, pending) = writer.import_for_move(path, &mut |_| true).unwrap();
        writer.save(&name("m"), b"{}", std::slice::from_ref(&imported.layer), false).unwrap();
        pending.finish(writer, &imported.layer).unwrap();
        assert!(!path.exists(), "the file was the only valid copy");
    });
    check("contents that are made", &|_, writer, path| {
        let mut fill = |out: &mut dyn std::io::Write| out.write_all(b"weights");
        writer.import_generated(path, 7, "made", &mut fill, &mut |_| true).unwrap();
    });
}
