//! Models with an adapter, in GGUF and in safetensors files.

use cairn_gguf::{DType, Gguf, Value, Writer};
use cairn_testkit::checkpoint::{AdapterSpec, Checkpoint, CheckpointSpec, Storage, Vocabulary, adapter, checkpoint};
use cairn_testkit::{ModelSpec, families, tiny_bert, tiny_llama, tiny_qwen3};

use super::*;

const RANK: u64 = 4;

/// A small Llama, and the files of its adapter.
fn llama() -> (Checkpoint, Vec<(String, Vec<u8>)>) {
    let model = ModelSpec { vocab: 520, ..tiny_llama() };
    let (storage, vocabulary) = (Storage::Float(DType::F32), Vocabulary::Bytes);
    let spec = CheckpointSpec {
        model,
        architecture: "LlamaForCausalLM",
        model_type: "llama",
        storage,
        vocabulary,
        tower: None,
    };
    let made = checkpoint(&spec);
    let spec = AdapterSpec {
        config: json!({"r": RANK, "lora_alpha": 8, "base_model_name_or_path": "someone/base"}),
        rank: |_| RANK,
        scale: |_| 2.0,
        changes: |module| module.ends_with("_proj"),
        seed: 1,
    };
    let files = adapter(&made.files, &spec).adapter;
    (made, files)
}

#[tokio::test]
async fn adapter_in_safetensors_files_is_converted_and_stored() {
    let fixture = fixture();
    let (base, files) = llama();
    let adapters = send_all(&fixture, &files).await;
    let base = send(&fixture, "m.gguf", &base.model).await;
    create(&fixture, of_files("base", vec![base])).await.unwrap();
    let statuses = create(&fixture, Create { adapters: adapters.clone(), ..of("tuned", "base") }).await.unwrap();
    assert_eq!(statuses.last().map(String::as_str), Some("success"), "{statuses:?}");
    let shown = fixture.app.library().show("tuned", false).unwrap().modelfile;
    let path = shown.lines().find_map(|line| line.strip_prefix("ADAPTER ")).expect("the model has an adapter");
    let head = Gguf::parse(&std::fs::read(path).unwrap()).expect("the adapter is a GGUF file");
    assert_eq!(head.metadata().str("general.architecture"), Ok(Some("llama")));
    assert!(head.tensor("blk.0.attn_q.weight.lora_a").is_some_and(|tensor| tensor.dims[1] == RANK));
    fixture.app.inference().load("tuned", false, None).await.expect("the model loads with its adapter");
    let digest = path.rsplit('-').next().expect("the file's name has a digest");
    assert!(statuses.iter().any(|status| status.starts_with("creating new layer") && status.contains(digest)));
    let again = create(&fixture, Create { adapters, ..of("again", "base") }).await.unwrap();
    assert!(again.iter().any(|status| status.contains(digest)), "the same adapter: {again:?}");
}

#[tokio::test]
async fn adapter_of_another_model_is_refused_before_anything_is_created() {
    let fixture = fixture();
    let (_, files) = llama();
    let adapters = send_all(&fixture, &files).await;
    for (name, spec) in [("other", ModelSpec { width: 192, ..tiny_llama() }), ("qwen", tiny_qwen3())] {
        let base = send(&fixture, "m.gguf", &cairn_testkit::write(&spec)).await;
        create(&fixture, of_files(name, vec![base])).await.unwrap();
        let error = create(&fixture, Create { adapters: adapters.clone(), ..of("tuned", name) }).await.unwrap_err();
        assert!(error.contains("does not fit the base model") && error.contains("\"someone/base\""), "{error}");
        assert!(fixture.app.library().show("tuned", false).is_err(), "nothing was created");
    }
    let alone = adapters.into_iter().filter(|(name, _)| name.ends_with(".safetensors")).collect();
    let error = create(&fixture, Create { adapters: alone, ..of("tuned", "pebble") }).await.unwrap_err();
    assert!(error.starts_with("adapter_config.json: it is missing"), "{error}");
}

#[tokio::test]
async fn several_adapters_are_refused() {
    let fixture = fixture();
    let (base, files) = llama();
    let adapters = send_all(&fixture, &files).await;
    let base = send(&fixture, "m.gguf", &base.model).await;
    create(&fixture, of_files("base", vec![base])).await.unwrap();
    create(&fixture, Create { adapters: adapters.clone(), ..of("tuned", "base") }).await.unwrap();
    let shown = fixture.app.library().show("tuned", false).unwrap().modelfile;
    let path = shown.lines().find_map(|line| line.strip_prefix("ADAPTER ")).expect("the model has an adapter");
    let converted = std::fs::read(path).unwrap();
    let weights = &files.iter().find(|(name, _)| name.ends_with(".safetensors")).expect("weights").1;
    for (name, contents) in [("other.gguf", &converted), ("adapter", &converted), ("other.safetensors", weights)] {
        let more = send(&fixture, name, contents).await;
        let adapters = [adapters.clone(), vec![more]].concat();
        let error = create(&fixture, Create { adapters, ..of("several", "base") }).await.unwrap_err();
        assert!(error.contains("adapter"), "{name}: {error}");
        assert!(fixture.app.library().show("several", false).is_err(), "{name}: nothing was created");
    }
}

/// A matrix of the small model, and its dimensions.
const TARGET: &str = "blk.0.attn_q.weight";

fn target_dims(model: &[u8]) -> [u64; 2] {
    let head = Gguf::parse(model).expect("testkit writes complete files");
    head.tensor(TARGET).expect("a Llama has it").dims[..].try_into().expect("a matrix")
}

fn set(writer: &mut Writer<'static>, key: &str, value: impl Into<Value>) {
    writer.set(key, value);
}

/// An adapter with these tensors, which `change` may change.
fn lora(tensors: &[(&str, [u64; 2])], change: impl FnOnce(&mut Writer<'static>)) -> Vec<u8> {
    let mut writer = Writer::new(32);
    writer.set("general.architecture", "llama").set("general.type", "adapter");
    writer.set("adapter.type", "lora").set("adapter.lora.alpha", 8.0f32);
    change(&mut writer);
    for (name, dims) in tensors {
        let bytes = 0.5f32.to_le_bytes().repeat((dims[0] * dims[1]) as usize);
        writer.tensor((*name).to_owned(), DType::F32, dims, bytes).unwrap();
    }
    writer.finish()
}

/// An adapter for the small model.
pub(super) fn fitting_adapter() -> Vec<u8> {
    let [columns, rows] = target_dims(&tiny(1, DType::F16));
    lora(&[("blk.0.attn_q.weight.lora_a", [columns, 4]), ("blk.0.attn_q.weight.lora_b", [4, rows])], |_| ())
}

#[tokio::test]
async fn model_with_an_adapter_loads_beside_its_base() {
    let fixture = fixture();
    let file = send(&fixture, "m.gguf", &tiny(1, DType::F16)).await;
    let adapter = send(&fixture, "a.gguf", &fitting_adapter()).await;
    create(&fixture, of_files("base", vec![file.clone()])).await.unwrap();
    create(&fixture, Create { adapters: vec![adapter.clone()], ..of_files("tuned", vec![file]) }).await.unwrap();
    for name in ["base", "tuned"] {
        fixture.app.inference().load(name, false, None).await.expect("the model loads");
    }
    let manifest = fixture.folder.path().join("models/manifests/registry.ollama.ai/library/tuned/latest");
    let manifest = std::fs::read_to_string(manifest).unwrap();
    assert!(manifest.contains("image.adapter") && manifest.contains(&adapter.1), "{manifest}");
    let shown = fixture.app.library().show("tuned", false).unwrap().modelfile;
    assert!(shown.contains("\nADAPTER /"), "{shown}");
}

#[tokio::test]
async fn adapters_that_do_not_fit_are_refused_before_anything_is_created() {
    let fixture = fixture();
    let model = tiny(1, DType::F16);
    let [columns, rows] = target_dims(&model);
    let file = send(&fixture, "m.gguf", &model).await;
    create(&fixture, of_files("base", vec![file.clone()])).await.unwrap();
    let (a, b) = ("blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_b");
    let pair = [(a, [columns, 4]), (b, [4, rows])];
    let with = |tensors: &[(&str, [u64; 2])]| lora(tensors, |_| ());
    let changed = |change: fn(&mut Writer<'static>)| lora(&pair, change);
    let norm = [("blk.0.attn_norm.weight.lora_a", [columns, 4]), ("blk.0.attn_norm.weight.lora_b", [4, 1])];
    let cases = [
        ("no tensors", with(&[]), "the adapter has no tensors"),
        ("half of a pair", with(&pair[..1]), "is not part of a pair"),
        ("columns of another model", with(&[(a, [columns + 32, 4]), pair[1]]), "do not fit: the matrix is"),
        ("rows of another model", with(&[pair[0], (b, [4, rows + 32])]), "do not fit: the matrix is"),
        ("two ranks", with(&[pair[0], (b, [8, rows])]), "their ranks are 4 and 8"),
        ("rank of 4,097", with(&[(a, [columns, 4097]), (b, [4097, rows])]), "equal and at most 4096"),
        (
            "unknown matrix",
            with(&[("x.lora_a", [columns, 4]), ("x.lora_b", [4, rows])]),
            "which the model does not have",
        ),
        ("vector", with(&norm), "which this version cannot adapt"),
        ("no kind", changed(|writer| set(writer, "adapter.type", "alora")), "`adapter.type` must be \"lora\""),
        ("no number", changed(|writer| set(writer, "adapter.lora.alpha", f32::NAN)), "is not a finite number"),
        ("other family", changed(|writer| set(writer, "general.architecture", "qwen2")), "architecture \"qwen2\""),
    ];
    for (what, contents, expected) in cases {
        let adapter = send(&fixture, "a.gguf", &contents).await;
        let requests = [
            Create { adapters: vec![adapter.clone()], ..of("tuned", "base") },
            Create { adapters: vec![adapter.clone()], ..of_files("tuned", vec![file.clone()]) },
            of_files("tuned", vec![file.clone(), adapter]),
        ];
        for request in requests {
            let error = create(&fixture, request).await.expect_err(what);
            assert!(error.contains(expected), "{what}: {error:?} instead of {expected:?}");
            assert!(fixture.app.library().show("tuned", false).is_err(), "{what}: nothing was created");
        }
    }
    let embedding = send(&fixture, "e.gguf", &cairn_testkit::write(&tiny_bert(&families::BERT))).await;
    let adapter = send(&fixture, "a.gguf", &lora(&pair, |writer| set(writer, "general.architecture", "bert"))).await;
    let request = Create { adapters: vec![adapter], ..of_files("tuned", vec![embedding]) };
    let error = create(&fixture, request).await.expect_err("an embedding model");
    assert!(error.contains("an adapter of an embedding model is not supported"), "{error}");
}
