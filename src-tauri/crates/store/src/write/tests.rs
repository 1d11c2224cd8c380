//! Files become models and models go, whatever the disk does meanwhile.

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
        let entries = [self.library.blobs(), self.library.drafts()].map(|folder| fs::read_dir(folder).unwrap());
        let entries = entries.into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn names(&self) -> Vec<String> {
        let listing = self.library.list().unwrap();
        assert!(listing.skipped.is_empty(), "everything is readable: {:?}", listing.skipped);
        for model in &listing.models {
            for layer in &model.manifest.layers {
                self.library.blob(layer).expect("a model that is listed is whole");
            }
        }
        listing.models.iter().map(|model| model.name.to_string()).collect()
    }
}

fn name(text: &str) -> ModelRef {
    text.parse().unwrap()
}

fn import(writer: &LibraryWriter<'_>, path: &Path, to: &str, replace: bool) -> Result<Brought, WriteError> {
    let brought = writer.bring(path, false, &mut |_| true)?;
    writer.save(&name(to), b"{}", std::slice::from_ref(&brought.layer), replace)?;
    Ok(brought)
}

#[test]
fn a_file_becomes_a_model_once() {
    let fixture = fixture();
    let writer = fixture.writer();
    let contents = vec![3; 3 * 1_000_000];
    let path = fixture.file("a file.gguf", &contents);
    let mut seen = Vec::new();
    let brought = writer
        .bring(&path, false, &mut |progress| {
            seen.push(progress.done_bytes);
            true
        })
        .unwrap();
    assert!(matches!(brought.way, Way::Copied { .. } | Way::Reflinked), "by what the file system can: {brought:?}");
    assert_eq!(brought.layer.digest, Digest::of(&contents), "known by its digest");
    assert!(seen.is_sorted() && seen.last() == Some(&3_000_000), "progress is told: {seen:?}");
    let layers = std::slice::from_ref(&brought.layer);
    let model = writer.save(&name("Tiny"), b"{}", layers, false).unwrap();
    assert_eq!(model.name.to_string(), "Tiny:latest", "spelled as it was given");
    assert_eq!(fs::read(fixture.library.blob(&brought.layer).unwrap()).unwrap(), contents, "its contents");

    let before = fixture.blobs();
    let again = import(&writer, &path, "tiny", false).expect("the same again is no conflict");
    assert!(matches!(again.way, Way::Present), "nothing is copied twice: {again:?}");
    assert_eq!((fixture.blobs(), fixture.names()), (before, vec!["Tiny:latest".to_owned()]), "nothing has changed");
}

#[cfg(unix)]
#[test]
fn contents_that_are_named_anew_are_young() {
    let fixture = fixture();
    let writer = fixture.writer();
    let path = fixture.file("file", b"old");
    let layer = writer.bring(&path, false, &mut |_| true).unwrap().layer;
    let age = || fs::metadata(fixture.library.blob_path(&layer.digest)).unwrap().modified().unwrap();
    let grow_old = || {
        let blob = fs::File::options().write(true).open(fixture.library.blob_path(&layer.digest)).unwrap();
        blob.set_modified(std::time::UNIX_EPOCH).unwrap();
    };
    let check = |what: &str, again: &dyn Fn()| {
        grow_old();
        again();
        assert!(age() > std::time::UNIX_EPOCH, "{what}: whoever goes by age must leave them now");
    };
    check("a file", &|| drop(writer.bring(&path, false, &mut |_| true).unwrap()));
    check("a text", &|| drop(writer.put(LayerKind::System, b"old").unwrap()));
}

#[test]
fn a_name_gives_way_only_when_told() {
    let fixture = fixture();
    let writer = fixture.writer();
    let (one, two) = (fixture.file("one", b"one"), fixture.file("two", b"two"));
    let first = import(&writer, &one, "m", false).unwrap().layer;
    let error = import(&writer, &two, "M", false).expect_err("another model has the name").to_string();
    assert!(error.contains("another model named m:latest") && error.contains("--force"), "{error}");
    let second = import(&writer, &two, "M", true).unwrap().layer;
    assert_eq!(fixture.names(), ["m:latest"], "one model, spelled as it was");
    assert!(fixture.library.blob(&first).is_err(), "contents that nobody names go");
    assert!(fixture.library.blob(&second).is_ok(), "the new ones stay");
}

#[test]
fn a_deleted_model_takes_only_its_own_with_it() {
    let fixture = fixture();
    let writer = fixture.writer();
    let path = fixture.file("file", b"shared");
    let layer = import(&writer, &path, "a", false).unwrap().layer;
    let system = writer.put(LayerKind::System, b"Be brief.").unwrap();
    writer.save(&name("me/b:v1"), b"{}", &[layer.clone(), system.clone()], false).unwrap();
    assert!(writer.delete(&name("nobody")).unwrap().is_none(), "there is no such model");
    let deleted = writer.delete(&name("ME/B:V1")).unwrap().unwrap();
    assert_eq!((deleted.name.to_string(), deleted.freed_bytes), ("me/b:v1".to_owned(), 9), "in any spelling");
    assert!(fixture.library.blob(&system).is_err() && fixture.library.blob(&layer).is_ok(), "what is shared stays");
    assert!(!fixture.library.root().join("manifests/registry.ollama.ai/me").exists(), "no empty folders are left");
    writer.delete(&name("a")).unwrap();
    assert_eq!((fixture.names().len(), fixture.blobs().len()), (0, 0), "nothing is left");
}

#[test]
fn a_damaged_manifest_keeps_what_can_be_read_in_it() {
    let fixture = fixture();
    let writer = fixture.writer();
    let mine = import(&writer, &fixture.file("mine", b"mine"), "a", false).unwrap().layer;
    let theirs = writer.put(LayerKind::System, b"theirs").unwrap();
    writer.save(&name("a"), b"{}", &[mine.clone(), theirs.clone()], true).unwrap();
    let broken = fixture.library.manifests().join("registry.ollama.ai/library/broken");
    fs::create_dir_all(&broken).unwrap();
    fs::write(broken.join("latest"), format!(r#"{{"layers":[{{"digest":"{}","#, theirs.digest)).unwrap();
    assert_eq!(writer.delete(&name("a")).unwrap().unwrap().freed_bytes, 4 + 2, "the file, and the config");
    assert!(fixture.library.blob(&mine).is_err(), "it hinders nobody else");
    assert!(fixture.library.blob(&theirs).is_ok(), "what it names stays");
    // A folder in a manifest's place, and one too deep to be looked into: nobody knows what they name.
    fs::create_dir_all(broken.join("a/b/c/d/e/f/g")).unwrap();
    import(&writer, &fixture.file("mine", b"mine"), "a", false).unwrap();
    assert_eq!(writer.delete(&name("a")).unwrap().unwrap().freed_bytes, 0, "then everything stays");
    assert!(fixture.library.blob(&mine).is_ok(), "it may be named there");
}

#[test]
fn only_damaged_contents_are_discarded() {
    let fixture = fixture();
    let writer = fixture.writer();
    let layer = import(&writer, &fixture.file("file", b"sound"), "a", false).unwrap().layer;
    assert!(!writer.discard(&layer.digest).unwrap(), "they are sound");
    fs::write(fixture.library.blob_path(&layer.digest), "dirty").unwrap();
    assert!(writer.discard(&layer.digest).unwrap(), "they are not");
    assert!(fixture.library.blob(&layer).is_err() && !writer.discard(&layer.digest).unwrap(), "they are gone");
}

#[cfg(unix)]
#[test]
fn a_hard_link_makes_the_file_read_only() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let fixture = fixture();
    let writer = fixture.writer();
    let path = fixture.file("file", b"linked");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let brought = writer.bring(&path, true, &mut |_| {
        assert_eq!(mode(&path), 0o664, "a program that is killed while it reads leaves the file as it was");
        true
    });
    let brought = brought.unwrap();
    assert_eq!(brought.way, Way::Linked { made_read_only: true }, "and says so");
    assert_eq!(mode(&path), 0o444, "nobody writes to it any more");
    let blob = fixture.library.blob(&brought.layer).unwrap();
    assert_eq!(fs::metadata(&blob).unwrap().ino(), fs::metadata(&path).unwrap().ino(), "one file with two names");

    let second = fixture.file("second", b"linked");
    fs::set_permissions(&second, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(writer.bring(&second, true, &mut |_| true).unwrap().way, Way::Present, "the contents are there");
    assert_eq!(mode(&second), 0o640, "a file that was not linked is as it was");
    let third = fixture.file("third", b"never");
    fs::set_permissions(&third, fs::Permissions::from_mode(0o640)).unwrap();
    assert!(matches!(writer.bring(&third, true, &mut |_| false), Err(WriteError::Cancelled)), "interrupted");
    assert_eq!(mode(&third), 0o640, "and as it was");
    // Every Linux has a file system in memory beside the one on disk.
    let memory = Path::new("/dev/shm");
    if memory.is_dir() && fs::metadata(memory).unwrap().dev() != fs::metadata(&third).unwrap().dev() {
        let far = tempfile::NamedTempFile::new_in(memory).unwrap();
        let error = writer.bring(far.path(), true, &mut |_| true).expect_err("it is elsewhere").to_string();
        assert!(error.contains("two file systems"), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_changes_before_it_is_linked_is_not_linked() {
    let fixture = fixture();
    let writer = fixture.writer();
    let path = fixture.file("file", b"first");
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    fs::File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
    let change = &mut |_| fs::write(&path, b"later").is_ok();
    assert!(matches!(writer.bring(&path, true, change), Err(WriteError::SourceChanged(_))), "it is noticed");
    assert!(!fs::metadata(&path).unwrap().permissions().readonly(), "and stays as it was");
    assert!(fixture.blobs().is_empty(), "under no digest");
}

#[test]
fn an_interrupted_import_leaves_nothing() {
    let fixture = fixture();
    let writer = fixture.writer();
    let path = fixture.file("file", &vec![1; 5_000_000]);
    let stop_half_way = &mut |progress: Progress| progress.done_bytes < 2_000_000;
    assert!(matches!(writer.bring(&path, false, stop_half_way), Err(WriteError::Cancelled)), "it was interrupted");
    assert!(fixture.blobs().is_empty(), "no draft stays");
    for folder in [fixture.library.drafts(), fixture.library.blobs()] {
        fs::write(folder.join(".draft.1-1.tmp"), "from a killed program").unwrap();
    }
    let _ = fixture.writer();
    assert!(fixture.blobs().is_empty(), "nor one of a program that was killed");
    let changed = &mut |progress: Progress| {
        fs::write(&path, vec![2; 5_000_001]).unwrap();
        progress.done_bytes > 0
    };
    let outcome = writer.bring(&path, false, changed);
    if !matches!(&outcome, Ok(brought) if brought.way == Way::Reflinked) {
        assert!(matches!(outcome, Err(WriteError::SourceChanged(_))), "a file under change is refused: {outcome:?}");
        assert!(fixture.blobs().is_empty(), "and leaves nothing");
    }
}

#[test]
fn contents_that_are_written_piece_by_piece() {
    let fixture = fixture();
    let writer = fixture.writer();
    let produce = |fill: &mut dyn FnMut(&mut dyn std::io::Write) -> std::io::Result<()>, goes_on: bool| {
        writer.produce(Path::new("parts"), 6, "they are two", fill, &mut |_| goes_on)
    };
    let two = &mut |out: &mut dyn std::io::Write| out.write_all(b"one").and_then(|()| out.write_all(b"two"));
    let brought = produce(two, true).unwrap();
    assert_eq!(brought.layer.digest, Digest::of(b"onetwo"), "all pieces");
    assert_eq!(brought.way, Way::Copied { reason: "they are two".to_owned() }, "and why");
    assert_eq!(produce(two, true).unwrap().way, Way::Present, "once is enough");
    let before = fixture.blobs();
    assert!(matches!(produce(two, false), Err(WriteError::Cancelled)), "interrupted");
    let unread =
        &mut |_: &mut dyn std::io::Write| -> std::io::Result<()> { Err(std::io::ErrorKind::InvalidData.into()) };
    let error = produce(unread, true).expect_err("it could not be read").to_string();
    assert!(error.starts_with("could not read parts"), "{error}");
    assert_eq!(fixture.blobs(), before, "no draft stays");
}

/// The disk fails after each number of steps in turn: what is listed is whole, and the next attempt succeeds.
#[test]
fn a_disk_that_fails_anywhere_leaves_no_broken_model() {
    for steps in 0.. {
        let fixture = fixture();
        let (old, new) = (fixture.file("old", b"old"), fixture.file("new", &vec![9; 2_500_000]));
        import(&fixture.writer(), &old, "m", false).unwrap();
        let disk = FaultyDisk::after(steps);
        let outcome = LibraryWriter::open(&fixture.library, &disk).and_then(|w| import(&w, &new, "m", true));
        assert_eq!(fixture.names(), ["m:latest"], "after {steps} steps there is one whole model");
        let again = import(&fixture.writer(), &new, "m", true);
        assert!(again.is_ok(), "after {steps} steps the next attempt succeeds: {again:?}");
        assert!(!fixture.blobs().iter().any(|name| name.starts_with('.')), "no draft stays: {:?}", fixture.blobs());
        if outcome.is_ok() && disk.left() > 0 {
            assert!(steps > 5, "an import takes more steps than {steps}");
            return;
        }
    }
}

#[test]
fn damaged_contents_give_way_to_sound_ones_of_the_same_length() {
    let check = |what: &str, bring: &dyn Fn(&Fixture, &LibraryWriter<'_>, &Path)| {
        let fixture = fixture();
        let writer = fixture.writer();
        let blob = fixture.library.blob_path(&Digest::of(b"weights"));
        fs::write(&blob, b"WEIGHTS").unwrap();
        bring(&fixture, &writer, &fixture.file("file", b"weights"));
        assert_eq!(fs::read(&blob).unwrap(), b"weights", "{what}: what was damaged is not taken for what was brought");
    };
    check("a copy", &|_, writer, path| drop(import(writer, path, "m", false).unwrap()));
    check("a link", &|_, writer, path| drop(writer.bring(path, true, &mut |_| true).unwrap()));
    check("a text", &|_, writer, _| drop(writer.put(LayerKind::System, b"weights").unwrap()));
    check("contents that are sent", &|_, writer, _| {
        let mut receiving = writer.receive(Digest::of(b"weights"), None).unwrap();
        receiving.write(b"weights").unwrap();
        receiving.keep().unwrap();
    });
    check("a file that goes", &|_, writer, path| {
        let (brought, departing) = writer.bring_to_move(path, &mut |_| true).unwrap();
        writer.save(&name("m"), b"{}", std::slice::from_ref(&brought.layer), false).unwrap();
        departing.leave(writer, &brought.layer).unwrap();
        assert!(!path.exists(), "it has gone, and was the only sound one");
    });
    check("contents that are made", &|_, writer, path| {
        let mut fill = |out: &mut dyn std::io::Write| out.write_all(b"weights");
        writer.produce(path, 7, "made", &mut fill, &mut |_| true).unwrap();
    });
}
