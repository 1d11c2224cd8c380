//! Models with a vision tower in a file of its own, and files beside a base model.

use cairn_gguf::Gguf;
use cairn_store::Digest;
use cairn_testkit::families::GEMMA3;
use cairn_testkit::tower::TowerSpec;
use cairn_testkit::{ModelSpec, presets, write};

use super::*;

const WIDTH: u64 = 64;

/// A text model with rows of [`WIDTH`] elements.
fn text_model() -> Vec<u8> {
    write(&ModelSpec { width: WIDTH, heads: 2, kv_heads: 1, head_dim: 32, ffn: 64, ..presets::tiny(&GEMMA3) })
}

fn beside(name: &str, from: &str, files: Vec<(String, String)>) -> Create {
    Create { files: Some(files), ..of(name, from) }
}

/// The files that the Modelfile of a model names in FROM.
fn bases(fixture: &Fixture, name: &str) -> Vec<String> {
    let modelfile = fixture.app.library().show(name, false).expect("the model exists").modelfile;
    modelfile.lines().filter_map(|line| line.strip_prefix("FROM ")).map(str::to_owned).collect()
}

fn sees(fixture: &Fixture, name: &str) -> bool {
    let shown = fixture.app.library().show(name, false).expect("the model exists");
    assert_eq!(shown.vision_problem, None, "{name}: no problem");
    shown.summary.capabilities.iter().any(|capability| capability == "vision")
}

/// Stores the layers as a model without checks, as a pull does.
async fn store(fixture: &Fixture, name: &str, files: &[(LayerKind, &[u8])]) {
    let mut layers = Vec::new();
    for (kind, contents) in files {
        send(fixture, "file", contents).await;
        let (digest, size_bytes) = (Digest::of(contents), contents.len() as u64);
        layers.push(Layer { kind: kind.clone(), digest, size_bytes });
    }
    let library = fixture.app.library().catalog.own_library();
    let writer = LibraryWriter::open(library, &RealDisk).expect("no other writer");
    writer.save(&name.parse().expect("a valid name"), b"{}", &layers, false).expect("the layers exist");
}

#[tokio::test]
async fn tower_beside_a_stored_model_is_added_to_it() {
    let fixture = fixture();
    let text = send(&fixture, "m.gguf", &text_model()).await;
    create(&fixture, of_files("base", vec![text.clone()])).await.unwrap();
    assert!(!sees(&fixture, "base"), "it has no tower");
    let [first, second] = [7, 8].map(|seed| TowerSpec { seed, ..TowerSpec::tiny(WIDTH) }.write());
    let first = send(&fixture, "mmproj.gguf", &first).await;
    let statuses = create(&fixture, beside("sees", "base", vec![first.clone()])).await.unwrap();
    assert!(statuses.contains(&format!("using existing layer {}", first.1)), "{statuses:?}");
    assert!(sees(&fixture, "sees") && !sees(&fixture, "base"), "the tower belongs to the new model");
    fixture.app.inference().load("sees", false, None).await.expect("the model loads");

    let readme = send(&fixture, "README.md", b"A tower.").await;
    let second = send(&fixture, "second", &second).await;
    create(&fixture, beside("sees", "sees", vec![readme, second.clone()])).await.unwrap();
    let found = bases(&fixture, "sees");
    let ends_with = |path: &str, digest: &str| path.ends_with(&digest.replace(':', "-"));
    assert_eq!(found.len(), 2, "a model has one tower: {found:?}");
    assert!(ends_with(&found[0], &text.1) && ends_with(&found[1], &second.1), "the latest tower: {found:?}");
    create(&fixture, Create { files: Some(Vec::new()), ..of("copy", "sees") }).await.unwrap();
    assert_eq!(bases(&fixture, "copy"), found, "an empty list of files changes nothing");
}

#[tokio::test]
async fn second_base_model_is_refused_before_anything_is_pulled() {
    let fixture = fixture();
    let text = send(&fixture, "m.gguf", &text_model()).await;
    let tower = send(&fixture, "mmproj.gguf", &TowerSpec::tiny(WIDTH).write()).await;
    create(&fixture, of_files("base", vec![text.clone()])).await.unwrap();
    let other = |name: &'static str| send(&fixture, name, b"x");
    // No server uses this port.
    for from in ["base", "127.0.0.1:9/library/absent"] {
        let check = async |files: Vec<(String, String)>, expected: &str| {
            let error = create(&fixture, beside("two", from, files)).await.expect_err(expected);
            assert!(error.contains(expected), "{error}");
            assert!(fixture.app.library().show("two", false).is_err(), "nothing was created");
        };
        check(vec![text.clone()], &format!("two base models, {from:?} and the file \"m.gguf\"")).await;
        check(vec![tower.clone(), text.clone()], "two base models").await;
        check(vec![tower.clone(), other("model.safetensors").await], "the file \"model.safetensors\"").await;
        check(vec![tower.clone(), other("pytorch_model.BIN").await], "the file \"pytorch_model.BIN\"").await;
        check(vec![other("notes.txt").await], "unknown type").await;
        check(vec![other("broken.gguf").await], "supplied file was not in GGUF format").await;
        let twice = ("again.gguf".to_owned(), tower.1.clone());
        check(vec![tower.clone(), twice], "\"again.gguf\" and \"mmproj.gguf\" are both vision towers").await;
        let absent = Digest::of(b"absent").to_string();
        check(vec![("mmproj.gguf".to_owned(), absent)], "send it to /api/blobs first").await;
    }
}

#[tokio::test]
async fn tower_that_does_not_fit_is_refused_before_anything_is_created() {
    let fixture = fixture();
    let text = send(&fixture, "m.gguf", &text_model()).await;
    create(&fixture, of_files("base", vec![text.clone()])).await.unwrap();
    let keyed = |key: &'static str, value: u32| {
        let tower = TowerSpec::tiny(WIDTH).write();
        let head = Gguf::parse(&tower).expect("testkit writes complete files");
        let mut writer = cairn_gguf::Writer::new(head.alignment);
        for (key, value) in head.metadata().iter() {
            writer.set(key, value.clone());
        }
        writer.set(key, value);
        for tensor in head.tensors() {
            let bytes = tower[tensor.offset as usize..(tensor.offset + tensor.bytes) as usize].to_vec();
            writer.tensor(tensor.name.clone(), tensor.dtype, &tensor.dims, bytes).expect("the tensor is sound");
        }
        writer.finish()
    };
    let cases = [
        ("another width", TowerSpec::tiny(32).write(), "rows of 32 elements, and the model has rows of 64"),
        ("heads", keyed("clip.vision.attention.head_count", 5), "5 heads do not divide a width of 24"),
        ("tensors", keyed("clip.vision.block_count", 4), "`v.blk.3.attn_q.weight` is missing"),
    ];
    for (what, tower, expected) in cases {
        let tower = send(&fixture, "mmproj.gguf", &tower).await;
        for request in [beside("two", "base", vec![tower.clone()]), of_files("two", vec![text.clone(), tower])] {
            let error = create(&fixture, request).await.expect_err(what);
            assert!(error.contains(expected) && error.contains("or the model without a tower"), "{what}: {error}");
            assert!(fixture.app.library().show("two", false).is_err(), "{what}: nothing was created");
        }
    }
}

#[tokio::test]
async fn stored_tower_that_cannot_be_used_is_shown_with_the_reason() {
    let fixture = fixture();
    let (text, tower) = (text_model(), TowerSpec::tiny(32));
    let projector = LayerKind::Other(PROJECTOR.to_owned());
    store(&fixture, "stored", &[(LayerKind::Model, &text), (projector, &tower.write())]).await;
    let one_file = send(&fixture, "m.gguf", &tower.write_into(&text)).await;
    // The keys of a tower in the file of a text model have the width of the text model.
    let requests = [
        ("child", of("child", "stored"), "rows of 32 elements, and the model has rows of 64"),
        ("one", of_files("one", vec![one_file]), "mm.input_projection"),
    ];
    for (name, request, reason) in requests {
        let statuses = create(&fixture, request).await.expect("the text model is usable");
        let warnings: Vec<_> = statuses.iter().filter(|status| status.starts_with("warning: ")).collect();
        assert!(
            matches!(warnings[..], [text] if text.contains("cannot see images") && text.contains(reason)),
            "{name}: {statuses:?}"
        );
        let shown = fixture.app.library().show(name, false).expect("the model exists");
        assert!(shown.vision_problem.as_ref().is_some_and(|text| text.contains(reason)), "{:?}", shown.vision_problem);
        assert!(!shown.summary.capabilities.iter().any(|capability| capability == "vision"), "{name} cannot see");
    }
}

#[tokio::test]
async fn adapter_among_the_files_beside_a_base_model_is_added_to_it() {
    let fixture = fixture();
    let base = send(&fixture, "m.gguf", &tiny(1, cairn_gguf::DType::F16)).await;
    create(&fixture, of_files("base", vec![base])).await.unwrap();
    let adapter = send(&fixture, "a.gguf", &super::adapters::fitting_adapter()).await;
    create(&fixture, beside("tuned", "base", vec![adapter.clone()])).await.unwrap();
    let modelfile = fixture.app.library().show("tuned", false).unwrap().modelfile;
    assert!(modelfile.contains("\nADAPTER /"), "{modelfile}");
    let both = Create { adapters: vec![adapter.clone()], ..beside("tuned", "base", vec![adapter]) };
    let error = create(&fixture, both).await.expect_err("two adapters");
    assert_eq!(error, "only one adapter is currently supported", "Ollama's text");
}
