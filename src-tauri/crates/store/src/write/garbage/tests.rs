//! What goes and what stays.

use std::fs::File;

use cairn_disk::RealDisk;

use super::*;
use crate::{LayerKind, ModelRef};

struct Fixture {
    _folder: tempfile::TempDir,
    library: Library,
    now: SystemTime,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let library = Library::new(folder.path().join("models"));
        Self { library, now: SystemTime::UNIX_EPOCH + Duration::from_secs(2_000_000_000), _folder: folder }
    }

    fn writer(&self) -> LibraryWriter<'_> {
        LibraryWriter::open(&self.library, &RealDisk).unwrap()
    }

    /// Makes a file among the contents that is so old.
    fn file(&self, name: &str, contents: &[u8], age: Duration) {
        let path = self.library.blobs().join(name);
        fs::write(&path, contents).unwrap();
        File::options().write(true).open(path).unwrap().set_modified(self.now - age).unwrap();
    }

    fn blob(&self, contents: &[u8], age: Duration) -> Digest {
        let digest = Digest::of(contents);
        self.file(&digest.file_name(), contents, age);
        digest
    }

    fn collect(&self, dry_run: bool, partials: bool) -> Result<Collected, WriteError> {
        self.writer().collect_garbage(Garbage { now: self.now, dry_run, partials })
    }

    fn files(&self) -> Vec<String> {
        let names = fs::read_dir(self.library.blobs()).unwrap().flatten();
        let mut names: Vec<String> = names.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

const OLD: Duration = Duration::from_secs(3601);
const YOUNG: Duration = Duration::from_secs(3599);

fn names(leftovers: &[Leftover]) -> Vec<String> {
    leftovers.iter().map(|left| left.path.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn old_contents_that_nobody_names_go() {
    let fixture = Fixture::new();
    let writer = fixture.writer();
    let layer = writer.put(LayerKind::System, b"named").unwrap();
    let name: ModelRef = "m".parse().unwrap();
    writer.save(&name, b"{}", std::slice::from_ref(&layer), false).unwrap();
    // Named contents stay however old they are.
    fixture.blob(b"named", OLD);
    let (unnamed, young) = (fixture.blob(b"unnamed", OLD), fixture.blob(b"young", YOUNG));
    fixture.file("sha256-0123-partial", b"12345", OLD);
    fixture.file("notes.txt", b"mine", OLD);
    fs::create_dir_all(fixture.library.root().join(".cairn/partials")).unwrap();
    fs::create_dir_all(fixture.library.manifests().join("h/n/empty")).unwrap();
    let draft = fixture.library.manifests().join("h/n/.latest.7-0.tmp");
    fs::write(&draft, format!("{{\"layers\":[{{\"digest\":\"{unnamed}\"")).unwrap();
    File::options().write(true).open(&draft).unwrap().set_modified(fixture.now - OLD).unwrap();

    let before = fixture.files();
    let told = fixture.collect(true, true).unwrap();
    let expected = sorted([unnamed.file_name(), "sha256-0123-partial".to_owned(), ".latest.7-0.tmp".to_owned()]);
    assert_eq!(sorted(names(&told.removed).try_into().unwrap()), expected, "it is told");
    assert_eq!(fixture.files(), before, "and nothing is done");
    assert!(fixture.library.manifests().join("h").exists(), "not even to folders");

    let done = fixture.collect(false, false).unwrap();
    assert_eq!(names(&done.removed), [unnamed.file_name(), ".latest.7-0.tmp".to_owned()], "what nobody names");
    assert_eq!(done.removed[0].size_bytes, 7, "its bytes are free");
    assert_eq!(names(&done.kept), sorted([young.file_name(), "sha256-0123-partial".to_owned()]), "these stay");
    assert!(!fixture.library.manifests().join("h").exists(), "empty folders go");
    assert!(fixture.library.root().join(".cairn/partials").exists(), "downloads of our own stay");
    let model = fixture.library.find(&name).unwrap().unwrap();
    assert!(fixture.library.blob(&model.manifest.layers[0]).is_ok(), "the model is whole");

    assert_eq!(names(&fixture.collect(false, true).unwrap().removed), ["sha256-0123-partial"], "now it was asked for");
    assert!(fixture.files().contains(&"notes.txt".to_owned()), "a file of somebody else's is none of our business");
}

fn sorted<const N: usize>(mut names: [String; N]) -> [String; N] {
    names.sort();
    names
}

#[test]
fn nothing_goes_while_a_manifest_cannot_be_read() {
    let fixture = Fixture::new();
    let _ = fixture.writer();
    fixture.blob(b"unnamed", OLD);
    let folder = fixture.library.manifests().join("registry.ollama.ai/library/broken");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("latest"), "{").unwrap();
    let error = fixture.collect(false, true).expect_err("nobody knows what it names").to_string();
    assert!(error.contains("nothing was removed") && error.contains("broken"), "{error}");
    assert_eq!(fixture.files().len(), 1, "everything is there");
    fixture.writer().delete(&"broken".parse().unwrap()).unwrap().expect("a damaged model can be taken out");
    assert_eq!(fixture.collect(false, false).unwrap().removed.len(), 1, "then it goes");
}

#[cfg(unix)]
#[test]
fn a_file_with_another_name_frees_nothing() {
    let fixture = Fixture::new();
    let _ = fixture.writer();
    let digest = fixture.blob(b"linked", OLD);
    fs::hard_link(fixture.library.blob_path(&digest), fixture.library.root().join("elsewhere")).unwrap();
    assert_eq!(fixture.collect(false, false).unwrap().removed[0].size_bytes, 0, "its bytes stay");
}

#[test]
fn kinds_of_files() {
    let digest = Digest::of(b"x");
    let check = |name: &str, expected: Option<LeftoverKind>| {
        assert_eq!(kind(name, &References::default()), expected, "{name}");
    };
    check(&digest.file_name(), Some(LeftoverKind::Unreferenced));
    check(&digest.to_string(), Some(LeftoverKind::Unreferenced));
    check(&format!("{}-partial", digest.file_name()), Some(LeftoverKind::Partial));
    check(&format!("{}-partial-15", digest.file_name()), Some(LeftoverKind::Partial));
    check(&format!("{}.tmp", digest.file_name()), Some(LeftoverKind::Partial));
    check("sha256-2871931", Some(LeftoverKind::Partial));
    check(".draft.1-1.tmp", None);
    check("notes.txt", None);
}

#[test]
fn what_a_model_on_its_way_counts_on_stays() {
    let at = Fixture::new();
    at.writer();
    let (wanted, other) = (at.blob(b"wanted", OLD), at.blob(b"other", OLD));
    let garbage = Garbage { now: at.now, dry_run: false, partials: true };
    let collected = at.writer().keeping(vec![wanted]).collect_garbage(garbage).unwrap();
    assert_eq!(names(&collected.removed), [other.file_name()], "nobody counts on that");
    assert_eq!(at.files(), [wanted.file_name()], "it is there");
}
