//! Which files a garbage collection removes.

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

    /// Creates a file of this age among the blobs.
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

    fn collect(&self, dry_run: bool, partials: bool) -> Result<GcReport, WriteError> {
        self.writer().collect_garbage(GcOptions { now: self.now, dry_run, partials })
    }

    fn files(&self) -> Vec<String> {
        let names = fs::read_dir(self.library.blobs()).unwrap().flatten();
        let mut names: Vec<String> = names.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

const OLD: Duration = Duration::from_secs(3601);
const RECENT: Duration = Duration::from_secs(3599);

fn names(files: &[GarbageFile]) -> Vec<String> {
    files.iter().map(|file| file.path.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn old_unreferenced_blobs_are_removed() {
    let fixture = Fixture::new();
    let writer = fixture.writer();
    let layer = writer.put(LayerKind::System, b"named").unwrap();
    let name: ModelRef = "m".parse().unwrap();
    writer.save(&name, b"{}", std::slice::from_ref(&layer), false).unwrap();
    // Referenced blobs stay, however old they are.
    fixture.blob(b"named", OLD);
    let (unnamed, recent) = (fixture.blob(b"unnamed", OLD), fixture.blob(b"recent", RECENT));
    fixture.file("sha256-0123-partial", b"12345", OLD);
    fixture.file("notes.txt", b"mine", OLD);
    fs::create_dir_all(fixture.library.root().join(".cairn/partials")).unwrap();
    fs::create_dir_all(fixture.library.manifests().join("h/n/empty")).unwrap();
    let temp_file = fixture.library.manifests().join("h/n/.latest.7-0.tmp");
    fs::write(&temp_file, format!("{{\"layers\":[{{\"digest\":\"{unnamed}\"")).unwrap();
    File::options().write(true).open(&temp_file).unwrap().set_modified(fixture.now - OLD).unwrap();

    let before = fixture.files();
    let report = fixture.collect(true, true).unwrap();
    let expected = sorted([unnamed.file_name(), "sha256-0123-partial".to_owned(), ".latest.7-0.tmp".to_owned()]);
    assert_eq!(sorted(names(&report.removed).try_into().unwrap()), expected, "garbage is reported");
    assert_eq!(fixture.files(), before, "a dry run removes nothing");
    assert!(fixture.library.manifests().join("h").exists(), "a dry run keeps empty folders");

    let done = fixture.collect(false, false).unwrap();
    assert_eq!(names(&done.removed), [unnamed.file_name(), ".latest.7-0.tmp".to_owned()], "unreferenced files");
    assert_eq!(done.removed[0].size_bytes, 7, "bytes freed");
    assert_eq!(names(&done.kept), sorted([recent.file_name(), "sha256-0123-partial".to_owned()]), "files that stay");
    assert!(!fixture.library.manifests().join("h").exists(), "empty folders are removed");
    assert!(fixture.library.root().join(".cairn/partials").exists(), "Cairn's own downloads stay");
    let model = fixture.library.find(&name).unwrap().unwrap();
    assert!(fixture.library.blob(&model.manifest.layers[0]).is_ok(), "the model has its blob");

    assert_eq!(
        names(&fixture.collect(false, true).unwrap().removed),
        ["sha256-0123-partial"],
        "partial downloads are removed on request"
    );
    assert!(fixture.files().contains(&"notes.txt".to_owned()), "unrecognised files stay");
}

fn sorted<const N: usize>(mut names: [String; N]) -> [String; N] {
    names.sort();
    names
}

#[test]
fn nothing_is_removed_while_a_manifest_is_unreadable() {
    let fixture = Fixture::new();
    let _ = fixture.writer();
    fixture.blob(b"unnamed", OLD);
    let folder = fixture.library.manifests().join("registry.ollama.ai/library/broken");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("latest"), "{").unwrap();
    let error = fixture.collect(false, true).expect_err("its references are unknown").to_string();
    assert!(error.contains("nothing was removed") && error.contains("broken"), "{error}");
    assert_eq!(fixture.files().len(), 1, "all files stay");
    fixture.writer().delete(&"broken".parse().unwrap()).unwrap().expect("a damaged model can be deleted");
    assert_eq!(fixture.collect(false, false).unwrap().removed.len(), 1, "the blob is removed");
}

#[cfg(unix)]
#[test]
fn file_with_another_hard_link_frees_nothing() {
    let fixture = Fixture::new();
    let _ = fixture.writer();
    let digest = fixture.blob(b"linked", OLD);
    fs::hard_link(fixture.library.blob_path(&digest), fixture.library.root().join("elsewhere")).unwrap();
    assert_eq!(fixture.collect(false, false).unwrap().removed[0].size_bytes, 0, "the other link keeps the bytes");
}

#[test]
fn file_names_determine_the_kind() {
    let digest = Digest::of(b"x");
    let check = |name: &str, expected: Option<GarbageKind>| {
        assert_eq!(kind(name, &References::default()), expected, "{name}");
    };
    check(&digest.file_name(), Some(GarbageKind::Unreferenced));
    check(&digest.to_string(), Some(GarbageKind::Unreferenced));
    check(&format!("{}-partial", digest.file_name()), Some(GarbageKind::Partial));
    check(&format!("{}-partial-15", digest.file_name()), Some(GarbageKind::Partial));
    check(&format!("{}.tmp", digest.file_name()), Some(GarbageKind::Partial));
    check("sha256-2871931", Some(GarbageKind::Partial));
    check(".draft.1-1.tmp", None);
    check("notes.txt", None);
}

#[test]
fn pinned_blobs_are_not_removed() {
    let fixture = Fixture::new();
    fixture.writer();
    let (wanted, other) = (fixture.blob(b"wanted", OLD), fixture.blob(b"other", OLD));
    let options = GcOptions { now: fixture.now, dry_run: false, partials: true };
    let report = fixture.writer().with_pinned_blobs(vec![wanted]).collect_garbage(options).unwrap();
    assert_eq!(names(&report.removed), [other.file_name()], "the other blob is removed");
    assert_eq!(fixture.files(), [wanted.file_name()], "the pinned blob stays");
}
