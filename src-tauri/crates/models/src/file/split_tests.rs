//! Split models, and split models with missing, misplaced or foreign parts.

use std::fs;
use std::path::{Path, PathBuf};

use cairn_gguf::Gguf;
use cairn_testkit::split;

use super::*;

/// A folder with a model of some tensors, whole and in three parts.
struct Scene {
    folder: tempfile::TempDir,
}

/// Creates a model whose tensors depend on the seed.
fn whole(seed: u8) -> Vec<u8> {
    let mut writer = cairn_gguf::Writer::default();
    writer.set("general.architecture", "llama").set("general.name", format!("model {seed}"));
    for tensor in 0..7_u8 {
        let rows = u64::from(tensor) + 1;
        let bytes: Vec<u8> = (0..rows * 40).map(|byte| (byte as u8).wrapping_mul(seed) ^ tensor).collect();
        writer.tensor(format!("t{tensor}"), cairn_gguf::DType::I8, &[40, rows], bytes).expect("the tensor is valid");
    }
    writer.finish()
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let scene = Self { folder };
        fs::write(scene.path("whole.gguf"), whole(3)).expect("the file can be written");
        scene.put("m", &split(&whole(3), 3));
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn part(&self, number: usize) -> PathBuf {
        self.path(&format!("m-{number:05}-of-00003.gguf"))
    }

    fn put(&self, stem: &str, parts: &[Vec<u8>]) {
        for (number, part) in (1..).zip(parts) {
            let name = format!("{stem}-{number:05}-of-{:05}.gguf", parts.len());
            fs::write(self.path(&name), part).expect("the file can be written");
        }
    }

    /// Returns the error of opening, without the folder.
    fn refusal(&self, path: &Path) -> String {
        let error = ModelFile::open(path).expect_err("this is no model");
        error.to_string().replace(&format!("{}", self.folder.path().display()), "DIR")
    }
}

/// Checks that a file has the same tensors as the whole model, in the same order.
fn check(file: &ModelFile, whole: &ModelFile) {
    let tensors = |file: &ModelFile| -> Vec<(String, Vec<u64>, Vec<u8>)> {
        let tensors = file.gguf().tensors().iter();
        tensors.map(|tensor| (tensor.name.clone(), tensor.dims.clone(), file.tensor_bytes(tensor).to_vec())).collect()
    };
    assert_eq!(tensors(file), tensors(whole), "all tensors, byte for byte");
    assert_eq!(file.gguf().metadata().required_str("general.name"), Ok("model 3"), "the first part's metadata");
    file.check().expect("nothing has changed");
}

#[test]
fn any_part_opens_the_whole_model() {
    let scene = Scene::new();
    let whole = ModelFile::open(&scene.path("whole.gguf")).expect("it is whole");
    for number in 1..=3 {
        let file = ModelFile::open(&scene.part(number)).expect("all parts are there");
        check(&file, &whole);
        assert_eq!(file.path(), scene.part(number), "the opened path");
        assert_eq!(file.paths().collect::<Vec<_>>(), [1, 2, 3].map(|number| scene.part(number)), "all paths, in order");
        let bytes: u64 = file.paths().map(|path| fs::metadata(path).expect("it is there").len()).sum();
        assert_eq!(file.len_bytes(), bytes, "the total size");
    }
}

#[test]
fn parts_with_any_names_are_ordered() {
    let scene = Scene::new();
    let whole = ModelFile::open(&scene.path("whole.gguf")).expect("it is whole");
    let blobs: Vec<PathBuf> = [3, 1, 2].map(|number| scene.path(&format!("sha256-{number}"))).to_vec();
    for (blob, number) in blobs.iter().zip([3, 1, 2]) {
        fs::rename(scene.part(number), blob).expect("it can be renamed");
    }
    check(&ModelFile::open_parts(&blobs).expect("all parts are there"), &whole);
    check(&ModelFile::open_parts(&[scene.path("whole.gguf")]).expect("one file is a model too"), &whole);
    let refusal = |paths: &[PathBuf]| {
        let error = ModelFile::open_parts(paths).expect_err("this is no model").to_string();
        error.replace(&format!("{}", scene.folder.path().display()), "DIR")
    };
    let two = "DIR/sha256-1: the parts hold 4 tensors together, and metadata key `split.tensors.count` is 7";
    assert_eq!(refusal(&blobs[1..]), two, "without the last part");
    let one = "DIR/sha256-2: `sha256-2` is part 2 by its metadata key `split.no`, where part 1 belongs";
    assert_eq!(refusal(&[blobs[0].clone(), blobs[2].clone()]), one, "without the first part");
    let foreign = "DIR/sha256-1: `whole.gguf` is not a part of a split model: it has no metadata key `split.count`";
    assert_eq!(refusal(&[blobs[1].clone(), scene.path("whole.gguf")]), foreign, "with a whole model");
    assert_eq!(
        refusal(&[blobs[1].clone(), blobs[1].clone()]),
        "DIR/sha256-1: `sha256-1` is part 1 by its metadata key `split.no`, where part 2 belongs",
        "one part twice"
    );
    assert_eq!(refusal(&[]), "no files are given", "an empty list");
}

#[test]
fn missing_parts_are_listed_in_error() {
    let scene = Scene::new();
    fs::remove_file(scene.part(2)).expect("it can be removed");
    let one = "DIR/m-00001-of-00003.gguf: this model has 3 files, of which are missing: m-00002-of-00003.gguf";
    assert_eq!(scene.refusal(&scene.part(1)), one);
    fs::remove_file(scene.part(1)).expect("it can be removed");
    let two = "DIR/m-00003-of-00003.gguf: this model has 3 files, of which are missing: m-00001-of-00003.gguf, m-00002-of-00003.gguf";
    assert_eq!(scene.refusal(&scene.part(3)), two);
    fs::rename(scene.part(3), scene.path("last.gguf")).expect("it can be renamed");
    let named = "DIR/last.gguf: `last.gguf` is part 3 of 3 of a model, and must be named like `model-00003-of-00003.gguf` for \
                 the others to be found";
    assert_eq!(scene.refusal(&scene.path("last.gguf")), named);
}

#[test]
fn misplaced_or_foreign_parts_are_refused() {
    let scene = Scene::new();
    let swap = scene.path("swap");
    for (from, to) in [(scene.part(2), swap.clone()), (scene.part(3), scene.part(2)), (swap, scene.part(3))] {
        fs::rename(from, to).expect("it can be renamed");
    }
    let swapped = "DIR/m-00001-of-00003.gguf: `m-00002-of-00003.gguf` is part 3 by its metadata key `split.no`, where part 2 belongs";
    assert_eq!(scene.refusal(&scene.part(1)), swapped);

    let scene = Scene::new();
    let mut other = cairn_gguf::Writer::default();
    for name in ["x", "y", "z", "w"] {
        other.tensor(name, cairn_gguf::DType::I8, &[4], vec![0; 4]).expect("the tensor is valid");
    }
    fs::write(scene.part(2), &split(&other.finish(), 3)[1]).expect("it can be written");
    let foreign = "DIR/m-00001-of-00003.gguf: `m-00002-of-00003.gguf` belongs to another model than `m-00001-of-00003.gguf`: \
                    metadata key `split.tensors.count` is 4, not 7";
    assert_eq!(scene.refusal(&scene.part(1)), foreign);

    fs::write(scene.part(2), b"Once upon a time").expect("it can be written");
    let text =
        "DIR/m-00002-of-00003.gguf: not a GGUF file: it must start with \"GGUF\" at offset 0, where it has \"Once\"";
    assert_eq!(scene.refusal(&scene.part(1)), text, "the error names the broken file, not the opened one");
}

#[cfg(unix)]
#[test]
fn truncation_of_any_part_is_detected() {
    for number in 1..=3 {
        let scene = Scene::new();
        let file = ModelFile::open(&scene.part(number)).expect("all parts are there");
        for cut in 1..=3 {
            let scene = Scene::new();
            let file = ModelFile::open(&scene.part(number)).expect("all parts are there");
            let open = fs::OpenOptions::new().write(true).open(scene.part(cut)).expect("it can be opened");
            open.set_len(0).expect("it can be cut");
            let last =
                file.gguf().tensors().iter().rfind(|tensor| tensor.part == cut - 1).expect("each part has tensors");
            assert!(file.tensor_bytes(last).iter().all(|&byte| byte == 0), "reads return zeros");
            let changed = file.check().expect_err("the change is detected");
            assert_eq!(changed.path, scene.part(cut), "the truncated part");
        }
        file.check().expect("another model is unchanged");
    }
}

#[test]
fn split_keeps_every_tensor_once() {
    let file = whole(5);
    let names = |file: &[u8]| -> Vec<String> {
        let gguf = Gguf::parse(file).expect("it is read");
        gguf.tensors().iter().map(|tensor| tensor.name.clone()).collect()
    };
    for count in [2, 3, 7, 9] {
        let parts = split(&file, count);
        assert_eq!(parts.len(), count, "the requested number of parts");
        assert_eq!(parts.iter().flat_map(|part| names(part)).collect::<Vec<_>>(), names(&file), "in {count} parts");
    }
}
