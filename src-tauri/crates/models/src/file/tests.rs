//! Invalid files, and model files that change while they are open.

use std::fs;
use std::fs::OpenOptions;
use std::io::Write;
use std::time::SystemTime;

use cairn_gguf::{DType, Writer};

use super::*;

/// Size of the only tensor: many pages of any size.
const TENSOR_BYTES: usize = 1 << 20;

struct Scene {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl Scene {
    /// Creates a folder with a model of one tensor, all bytes 1.
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let path = folder.path().join("model.gguf");
        let mut writer = Writer::default();
        writer.tensor("t", DType::I8, &[TENSOR_BYTES as u64], vec![1; TENSOR_BYTES]).expect("the tensor is valid");
        fs::write(&path, writer.finish()).expect("the file can be written");
        Self { folder, path }
    }

    fn open(&self) -> ModelFile {
        ModelFile::open(&self.path).expect("the file is whole")
    }

    fn len(&self) -> u64 {
        fs::metadata(&self.path).expect("the file is there").len()
    }

    fn cut(&self, len: u64) {
        OpenOptions::new()
            .write(true)
            .open(&self.path)
            .and_then(|file| file.set_len(len))
            .expect("the file can be cut");
    }

    /// Returns the error of opening, without the folder.
    fn refusal(&self, path: &Path) -> String {
        let error = ModelFile::open(path).expect_err("this is no model");
        error.to_string().replace(&format!("{}", self.folder.path().display()), "DIR")
    }
}

fn sum(file: &ModelFile) -> u64 {
    let tensor = file.gguf().tensor("t").expect("it was written");
    file.tensor_bytes(tensor).iter().map(|&byte| u64::from(byte)).sum()
}

fn check(file: &ModelFile, reason: Option<&str>) {
    assert_eq!(file.check().err().map(|error| error.reason), reason.map(str::to_owned), "the detected change");
}

#[test]
fn invalid_paths_are_refused_with_reason() {
    let scene = Scene::new();
    let put = |name: &str, bytes: &[u8]| {
        let path = scene.folder.path().join(name);
        fs::write(&path, bytes).expect("the file can be written");
        path
    };
    assert_eq!(scene.refusal(&scene.folder.path().join("none")), "DIR/none: no such file");
    assert_eq!(scene.refusal(scene.folder.path()), "DIR: is a directory; a model is one GGUF file");
    assert_eq!(scene.refusal(&put("empty", b"")), "DIR/empty: the file is empty");
    let text = "DIR/text: not a GGUF file: it must start with \"GGUF\" at offset 0, where it has \"Once\"";
    assert_eq!(scene.refusal(&put("text", b"Once upon a time")), text);
    let len = scene.len();
    scene.cut(len - 1);
    let text = format!("tensor `t`: needs {TENSOR_BYTES} bytes at offset {}", len - TENSOR_BYTES as u64);
    let refusal = scene.refusal(&scene.path);
    assert!(refusal.starts_with(&format!("DIR/model.gguf: {text}")), "a file cut short: {refusal}");
}

#[test]
fn unchanged_and_deleted_files_stay_valid() {
    let scene = Scene::new();
    let file = scene.open();
    assert_eq!(sum(&file), TENSOR_BYTES as u64, "all ones");
    check(&file, None);
    fs::remove_file(&scene.path).expect("it can be deleted");
    assert_eq!(sum(&file), TENSOR_BYTES as u64, "a deleted file exists while it is open");
    check(&file, None);
}

#[test]
fn overwritten_file_is_detected() {
    let scene = Scene::new();
    let file = scene.open();
    let mut other = OpenOptions::new().write(true).open(&scene.path).expect("it can be opened");
    other.write_all(b"FUGG").and_then(|()| other.set_modified(SystemTime::UNIX_EPOCH)).expect("it can be written");
    check(&file, Some("it was written to"));
}

#[test]
fn mapped_blob_stays_valid_while_it_is_imported_again() {
    use cairn_disk::RealDisk;
    use cairn_store::{Library, LibraryWriter, ModelRef, Staging};

    let scene = Scene::new();
    let library = Library::new(scene.folder.path().join("models"));
    let name: ModelRef = "m".parse().expect("a valid name");
    let import = |link: bool| {
        let writer = LibraryWriter::open(&library, &RealDisk).expect("the library is writable");
        let layer = writer.import_file(&scene.path, link, &mut |_| true).expect("the file can be imported").layer;
        writer.save(&name, b"{}", std::slice::from_ref(&layer), true).expect("the model can be saved");
        layer
    };
    let layer = import(false);
    let file = ModelFile::open(&library.blob(&layer).expect("the blob is there")).expect("it is a model");
    import(false);
    check(&file, None);
    import(true);
    check(&file, None);
    let writer = LibraryWriter::open(&library, &RealDisk).expect("the library is writable");
    let mut receiver = writer.receive(layer.digest, None).expect("there is space");
    receiver.write(&fs::read(&scene.path).expect("it can be read")).expect("there is space");
    receiver.finish().expect("the digest matches");
    check(&file, None);
    fs::hard_link(library.blob_path(&layer.digest), scene.folder.path().join("another name"))
        .expect("it can be linked");
    check(&file, None);
    // A pull of the same model publishes the blob again, as another file.
    let staging = Staging::open(&library, std::sync::Arc::new(RealDisk)).expect("the library is writable");
    writer.stage(&staging, &library, &layer, &mut |_| true).expect("the blob is valid");
    let manifest = library.manifest_bytes(&name).expect("the model is there");
    writer.publish(&staging, &name, &manifest, true).expect("the blobs are there");
    check(&file, None);
    assert_eq!(sum(&file), TENSOR_BYTES as u64, "all ones");
}

#[cfg(unix)]
mod cut {
    use super::*;

    /// Truncates the file and reads the whole mapping.
    fn after_cut(len: impl FnOnce(u64) -> u64) -> (Scene, ModelFile, u64) {
        let scene = Scene::new();
        let file = scene.open();
        scene.cut(len(scene.len()));
        let total = sum(&file);
        (scene, file, total)
    }

    #[test]
    fn reads_beyond_truncation_give_zeros_and_are_detected() {
        let (scene, file, total) = after_cut(|_| 0);
        assert_eq!(total, 0, "nothing is left");
        let why = format!("it had {} bytes and has 0", file.len_bytes());
        check(&file, Some(&why));

        // Restoring size and time does not restore the bytes that were read.
        let opened = file.parts[0].mapped.as_ref().expect("it is mapped").opened;
        scene.cut(opened.len);
        let other = OpenOptions::new().write(true).open(&scene.path).expect("it can be opened");
        other.set_modified(opened.modified.expect("this system has times")).expect("the time can be set");
        check(&file, Some("a part of it could not be read"));
    }

    #[test]
    fn truncation_inside_last_page_is_detected_without_fault() {
        let (_scene, file, total) = after_cut(|len| len - 1);
        assert!(total >= TENSOR_BYTES as u64 - 1, "the rest of the page is still there");
        check(&file, Some(&format!("it had {} bytes and has {}", file.len_bytes(), file.len_bytes() - 1)));
    }

    #[test]
    fn threads_survive_truncation_while_reading() {
        let scene = Scene::new();
        let (file, untouched) = (scene.open(), Scene::new().open());
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..4).map(|_| scope.spawn(|| (0..40).map(|_| sum(&file)).min())).collect();
            scene.cut(4096);
            for reader in readers {
                assert!(reader.join().expect("no reader panics").is_some(), "every reader finishes");
            }
        });
        assert!(file.check().is_err(), "the truncation is detected");
        assert_eq!(sum(&untouched), TENSOR_BYTES as u64, "another mapping is unchanged");
        check(&untouched, None);
    }

    #[test]
    fn new_mapping_in_reused_slot_is_not_poisoned() {
        let (_scene, file, _) = after_cut(|_| 0);
        drop(file);
        for _ in 0..4 {
            check(&Scene::new().open(), None);
        }
    }
}
