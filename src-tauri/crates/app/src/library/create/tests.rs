//! Creation of models.

mod adapters;
mod checkpoints;
mod towers;

use serde_json::json;

use super::*;
use crate::CreateEvent;
use crate::library::import::tests::{Fixture, fixture, fixture_with, with_broken_template};

async fn create(fixture: &Fixture, create: Create) -> Result<Vec<String>, String> {
    let mut events = fixture.app.create(create);
    let mut statuses = Vec::new();
    while let Some(event) = events.recv().await {
        match event {
            CreateEvent::Step(CreateStep::Status(status)) => statuses.push(status),
            CreateEvent::Step(CreateStep::Warning(warning)) => statuses.push(format!("warning: {warning}")),
            CreateEvent::Pull(_) => statuses.push("pulling".to_owned()),
            CreateEvent::Step(CreateStep::Progress { done_bytes, total_bytes, .. }) => {
                assert!(done_bytes <= total_bytes, "{done_bytes} of {total_bytes}");
            }
            CreateEvent::Failed(error) => return Err(error.to_string()),
        }
    }
    Ok(statuses)
}

fn of(name: &str, from: &str) -> Create {
    Create { name: name.to_owned(), from: from.to_owned(), ..Create::default() }
}

async fn send_all(fixture: &Fixture, files: &[(String, Vec<u8>)]) -> Vec<(String, String)> {
    let mut sent = Vec::new();
    for (name, contents) in files {
        sent.push(send(fixture, name, contents).await);
    }
    sent
}

fn message(role: &str, content: &str) -> Message {
    Message::new(role, content)
}

#[tokio::test]
async fn created_model_has_the_base_weights_and_new_texts() {
    let fixture = fixture();
    let path = fixture.file("one.gguf", 1);
    fixture.import(&path, Some("base"), false).await.unwrap();
    let first = Create {
        system: Some("Be brief.".to_owned()),
        parameters: json!({"temperature": 0.1, "stop": ["x"]}).as_object().cloned(),
        messages: vec![message("user", "hi"), message("assistant", "hello")],
        ..of("mine", "base")
    };
    let statuses = create(&fixture, first).await.unwrap();
    assert_eq!(statuses.last().map(String::as_str), Some("success"), "{statuses:?}");
    let second = Create { parameters: json!({"temperature": 0.9}).as_object().cloned(), ..of("mine2", "mine") };
    create(&fixture, second).await.unwrap();
    let shown = fixture.app.library().show("mine2", false).unwrap();
    assert_eq!(shown.system, "Be brief.", "the system message is inherited");
    assert!(shown.parameters.contains("0.9") && shown.parameters.contains("stop"), "merged: {}", shown.parameters);
    assert_eq!(shown.messages.len(), 2, "the messages are inherited");
    assert_eq!(shown.summary.details.family, "llama", "the details are inherited");
    fixture.app.delete("base").unwrap();
    fixture.app.delete("mine").unwrap();
    assert!(fixture.app.library().show("mine2", false).is_ok(), "the weights stay while a model uses them");
}

#[tokio::test]
async fn renderer_and_parser_are_stored_and_replace_the_template() {
    let fixture = fixture();
    let named = |name: &str, from: &str, renderer: &str| Create {
        renderer: Some(renderer.to_owned()),
        parser: Some("olmo3-think".to_owned()),
        ..of(name, from)
    };
    let warned = |statuses: &[String]| statuses.iter().filter(|status| status.starts_with("warning: ")).count();
    let statuses = create(&fixture, named("thinker", "pebble", "olmo3-think")).await.unwrap();
    assert_eq!(warned(&statuses), 0, "{statuses:?}");
    create(&fixture, of("child", "thinker")).await.unwrap();
    let shown = fixture.app.library().show("child", false).unwrap();
    assert!(shown.modelfile.contains("\nRENDERER olmo3-think\nPARSER olmo3-think\n"), "{}", shown.modelfile);
    assert_eq!(shown.template_reason, "Jinja: the renderer \"olmo3-think\"", "inherited");
    assert!(shown.template.contains("<|im_start|>assistant\\n<think>"), "{}", shown.template);
    let capabilities = shown.summary.capabilities;
    let has = |name: &str| capabilities.iter().any(|capability| capability == name);
    assert!(has("thinking") && !has("tools"), "{capabilities:?}");
    let statuses = create(&fixture, named("other", "pebble", "future")).await.unwrap();
    let warning = "warning: the renderer \"future\" is not built in; see `cairn show` for the template in use";
    assert!(warned(&statuses) == 1 && statuses.contains(&warning.to_owned()), "{statuses:?}");
    let statuses = create(&fixture, of("heir", "other")).await.unwrap();
    assert!(warned(&statuses) == 1 && statuses.contains(&warning.to_owned()), "inherited: {statuses:?}");
    let reason = fixture.app.library().show("other", false).unwrap().template_reason;
    assert_eq!(reason, "Jinja: the renderer \"future\" is not built in; the file's own");
}

#[tokio::test]
async fn create_with_too_many_layers_is_refused_before_any_file_is_written() {
    let fixture = fixture();
    fixture.import(&fixture.file("one.gguf", 1), Some("base"), false).await.unwrap();
    let blobs = || std::fs::read_dir(fixture.folder.path().join("models/blobs")).unwrap().count();
    let before = blobs();
    let licenses = |count: usize| (0..count).map(|number| format!("licence {number}")).collect();
    let error = create(&fixture, Create { licenses: licenses(5000), ..of("mine", "base") }).await.unwrap_err();
    assert_eq!(error, "the model would have 5000 layers; the maximum is 4096", "the error has both numbers");
    assert_eq!(blobs(), before, "no licence was written");
    create(&fixture, Create { licenses: licenses(20), ..of("mine", "base") }).await.expect("fewer licences");
}

#[tokio::test]
async fn create_accepts_the_built_in_model_and_refuses_opened_files() {
    let fixture = fixture();
    create(&fixture, Create { system: Some("Be brief.".to_owned()), ..of("guide", "pebble") }).await.unwrap();
    assert_eq!(
        fixture.app.library().show("guide", false).unwrap().system,
        "Be brief.",
        "a copy with another system message"
    );
    let opened = fixture.app.library().open(&fixture.file("one.gguf", 1)).unwrap();
    let check = async |request: Create, expected: &str| {
        let error = create(&fixture, request).await.expect_err(expected);
        assert!(error.contains(expected), "{error}");
    };
    check(of("x", &opened.name), "cairn import FILE").await;
    // No server uses this port.
    check(of("x", "127.0.0.1:9/library/absent"), "pull model manifest: 127.0.0.1:9: ").await;
    check(of("x", " "), "neither 'from'").await;
    check(of("pebble", "guide"), "part of Cairn").await;
    check(of("a b", "guide"), "invalid model name").await;
    let wrong = Create { parameters: json!({"top_k": "many"}).as_object().cloned(), ..of("x", "guide") };
    check(wrong, "option \"top_k\" must be of type integer").await;
}

/// Uploads a file. Returns its name and digest, as a create request has them.
async fn send(fixture: &Fixture, name: &str, bytes: &[u8]) -> (String, String) {
    let digest = cairn_store::Digest::of(bytes).to_string();
    let upload = fixture.app.library().upload(&digest, None).unwrap();
    for piece in bytes.chunks(1 << 20) {
        assert!(upload.write(piece.to_vec()).await, "the upload is open");
    }
    upload.end().await.unwrap();
    (name.to_owned(), digest)
}

fn of_files(name: &str, files: Vec<(String, String)>) -> Create {
    Create { name: name.to_owned(), files: Some(files), ..Create::default() }
}

fn tiny(seed: u64, dtype: cairn_gguf::DType) -> Vec<u8> {
    let types = cairn_testkit::Types::All(dtype);
    cairn_testkit::write(&cairn_testkit::ModelSpec { seed, types, ..cairn_testkit::tiny_llama() })
}

#[tokio::test]
async fn create_refuses_a_file_with_a_broken_template_unless_it_is_replaced() {
    let fixture = fixture();
    let broken = with_broken_template();
    let parts = cairn_testkit::split(&broken, 2);
    let mut split = Vec::new();
    for (number, part) in (1..).zip(&parts) {
        split.push(send(&fixture, &format!("m-0000{number}-of-00002.gguf"), part).await);
    }
    for files in [vec![send(&fixture, "m.gguf", &broken).await], split] {
        let error = create(&fixture, of_files("m", files.clone())).await.unwrap_err();
        assert!(error.starts_with("template error in the file: the chat template is not valid"), "{error}");
        assert!(fixture.app.library().show("m", false).is_err(), "nothing was created");
        let replaced = Create { template: Some("{{ .Prompt }}".to_owned()), ..of_files("m", files) };
        create(&fixture, replaced).await.unwrap();
        assert_eq!(fixture.app.library().show("m", false).unwrap().template_problem, None, "replaced");
        fixture.app.delete("m").unwrap();
    }
}

#[tokio::test]
async fn create_merges_uploaded_parts() {
    let fixture = fixture();
    let whole = tiny(1, cairn_gguf::DType::F16);
    let mut files = Vec::new();
    for (number, part) in (1..).zip(cairn_testkit::split(&whole, 3)) {
        files.push(send(&fixture, &format!("m-{number:05}-of-00003.gguf"), &part).await);
    }
    files.reverse();
    let error = create(&fixture, of_files("less", files[1..].to_vec())).await.expect_err("a part is missing");
    assert!(error.contains("3 files, but 2 were sent"), "{error}");
    let error = create(&fixture, of_files("less", files[2..].to_vec())).await.expect_err("two parts are missing");
    assert!(error.contains("3 files, but 1 were sent"), "{error}");
    let statuses = create(&fixture, of_files("parts", files)).await.unwrap();
    assert_eq!(statuses.last().map(String::as_str), Some("success"), "{statuses:?}");
    fixture.app.inference().load("parts", false, None).await.expect("the model loads");
}

#[tokio::test]
async fn create_quantizes_weights_once() {
    let fixture = fixture();
    let file = send(&fixture, "m.gguf", &tiny(1, cairn_gguf::DType::F16)).await;
    let quantised =
        |name: &str, target: &str| Create { quantize: Some(target.to_owned()), ..of_files(name, vec![file.clone()]) };
    let statuses = create(&fixture, quantised("small", "q4_k_m")).await.unwrap();
    assert!(statuses.contains(&"verifying conversion".to_owned()), "{statuses:?}");
    assert_eq!(
        fixture.app.library().show("small", false).unwrap().summary.details.quantization,
        "Q4_K_M",
        "the details have the new type"
    );
    fixture.app.inference().load("small", false, None).await.expect("the model loads");
    let again = Create { quantize: Some("Q8_0".to_owned()), ..of("smaller", "small") };
    let error = create(&fixture, again).await.expect_err("the weights are already quantized");
    assert_eq!(error, "quantization is only supported for F16, BF16 and F32 models", "Ollama's text");
    let error = create(&fixture, quantised("x", "IQ1_S")).await.expect_err("the type needs an importance matrix");
    assert!(error.starts_with("IQ1_S needs an importance matrix"), "{error}");
    assert!(fixture.app.library().show("x", false).is_err(), "the model does not exist");
}

/// An importance matrix for all matrices of a model's layers.
fn imatrix(model: &[u8]) -> Vec<u8> {
    let head = cairn_gguf::Gguf::parse(model).unwrap();
    let mut sums = cairn_convert::importance::ActivationSums::default();
    for tensor in head.tensors().iter().filter(|tensor| tensor.name.starts_with("blk.") && tensor.dims.len() == 2) {
        let input: Vec<f32> = (0..tensor.dims[0]).map(|column| (column % 7 + 1) as f32).collect();
        sums.add(&tensor.name, 0, 1, &input);
    }
    let mut file = Vec::new();
    sums.write_to("text", 1, 512, &mut file).unwrap();
    file
}

#[tokio::test]
async fn create_weights_the_quantization_by_an_importance_matrix() {
    let fixture = fixture();
    let model = tiny(1, cairn_gguf::DType::F16);
    let file = send(&fixture, "m.gguf", &model).await;
    let (_, matrix) = send(&fixture, "imatrix", &imatrix(&model)).await;
    let weighted = |name: &str, target: &str, imatrix: &str| Create {
        quantize: Some(target.to_owned()),
        imatrix: Some(imatrix.to_owned()),
        ..of_files(name, vec![file.clone()])
    };
    create(&fixture, weighted("tiny", "iq2_xs", &matrix)).await.unwrap();
    let shown = fixture.app.library().show("tiny", false).unwrap();
    assert_eq!(shown.summary.details.quantization, "IQ2_XS", "the details have the new type");
    fixture.app.inference().load("tiny", false, None).await.expect("the model loads");

    let alone = Create { quantize: None, ..weighted("x", "", &matrix) };
    let error = create(&fixture, alone).await.expect_err("nothing is quantized");
    assert!(error.starts_with("an importance matrix is only used to quantize weights"), "{error}");
    let error = create(&fixture, weighted("x", "q4_0", &file.1)).await.expect_err("the blob is a model");
    assert!(error.contains("its general.type is not \"imatrix\""), "{error}");
    let missing = cairn_store::Digest::of(b"missing").to_string();
    let error = create(&fixture, weighted("x", "q4_0", &missing)).await.expect_err("the blob was not sent");
    assert!(error.contains("not found; send it to /api/blobs first"), "{error}");
    assert!(fixture.app.library().show("x", false).is_err(), "the model does not exist");
}

#[tokio::test]
async fn create_refuses_files_that_are_not_models() {
    let fixture = fixture();
    let good = tiny(1, cairn_gguf::DType::F16);
    let check = async |files: Vec<(String, String)>, expected: &str| {
        let error = create(&fixture, of_files("x", files)).await.expect_err(expected);
        assert!(error.contains(expected), "{error}");
    };
    check(vec![send(&fixture, "m.gguf", b"once upon a time").await], "supplied file was not in GGUF format").await;
    check(vec![send(&fixture, "m.txt", b"once upon a time").await], "unknown type").await;
    check(vec![send(&fixture, "m.safetensors", b"{}").await], "config.json is missing").await;
    let config = send(&fixture, "config.json", br#"{"architectures": ["XForCausalLM"]}"#).await;
    let unsupported = "unsupported architecture \"XForCausalLM\"";
    check(vec![config, send(&fixture, "m.safetensors", b"{}").await], unsupported).await;
    check(vec![send(&fixture, "cut.gguf", &good[..good.len() - 1000]).await], "could not open cut.gguf").await;
    let two = vec![send(&fixture, "a", &good).await, send(&fixture, "b", &tiny(2, cairn_gguf::DType::F16)).await];
    check(two, "one GGUF file, or the parts of one").await;
    let file = send(&fixture, "a", &good).await;
    let adapted = Create { adapters: vec![file.clone()], ..of_files("x", vec![file.clone()]) };
    assert!(
        create(&fixture, adapted).await.expect_err("the file is a model").contains("is not an adapter"),
        "the file is not an adapter"
    );
    let adapted = Create { adapters: vec![file.clone(), file.clone()], ..of_files("x", vec![file]) };
    let error = create(&fixture, adapted).await.expect_err("two adapters are refused");
    assert_eq!(error, "only one adapter is currently supported", "Ollama's text");
}

#[test]
fn options_with_equal_values_have_equal_texts() {
    let check = |sent: Value, expected: &str| {
        assert_eq!(canonical(sent.as_object().cloned().unwrap()).to_string(), expected, "{sent}");
    };
    check(json!({"top_p": 0.9, "temperature": 1.0}), r#"{"temperature":1,"top_p":0.9}"#);
    check(json!({"temperature": 1, "top_p": 0.9}), r#"{"temperature":1,"top_p":0.9}"#);
    check(json!({"stop": ["b", "a"], "seed": -0.0, "x": 1e300}), r#"{"seed":0,"stop":["b","a"],"x":1e+300}"#);
}

#[tokio::test]
async fn create_copies_intact_layers_of_another_library() {
    let fixture = fixture();
    let theirs = fixture.folder.path().join("ollama");
    std::fs::create_dir_all(theirs.join("blobs")).unwrap();
    let put = |name: &str, contents: &[u8], stored: &[u8]| {
        let digest = cairn_store::Digest::of(contents);
        std::fs::write(theirs.join("blobs").join(digest.file_name()), stored).unwrap();
        let manifest = theirs.join("manifests/registry.ollama.ai/library").join(name);
        std::fs::create_dir_all(&manifest).unwrap();
        let (kind, size) = ("application/vnd.ollama.image.model", contents.len());
        let layer = format!(r#"{{"digest":"{digest}","size":{size},"mediaType":"{kind}"}}"#);
        std::fs::write(manifest.join("latest"), format!(r#"{{"layers":[{layer}]}}"#)).unwrap();
        fixture.folder.path().join("models/blobs").join(digest.file_name())
    };
    let sound = put("sound", &[7; 300_000], &[7; 300_000]);
    put("damaged", &[8; 300_000], &[9; 300_000]);
    let statuses = create(&fixture, of("mine", "sound")).await.unwrap();
    assert!(statuses[0].starts_with("copying layer sha256:") && sound.exists(), "the layer was copied: {statuses:?}");
    let error = create(&fixture, of("worse", "damaged")).await.expect_err("the layer is damaged");
    assert!(error.contains("is damaged"), "{error}");
    let stray = sound.with_file_name(cairn_store::Digest::of(&[9; 300_000]).file_name());
    assert!(!stray.exists() && fixture.app.library().show("worse", false).is_err(), "the damaged copy was removed");
}

#[tokio::test]
async fn texts_above_the_read_limit_are_refused() {
    let fixture = fixture();
    let long = "x".repeat((8 << 20) + 1);
    let base = || of("m", "pebble");
    let check = async |what: &str, request: Create| {
        let error = create(&fixture, request).await.expect_err(what);
        assert!(error.contains("too long"), "{what}: {error}");
        assert!(fixture.app.library().show("m", false).is_err(), "{what}: the model does not exist");
    };
    check("a system message", Create { system: Some(long.clone()), ..base() }).await;
    check("a licence", Create { licenses: vec![long.clone()], ..base() }).await;
    check("messages", Create { messages: vec![message("user", &long)], ..base() }).await;
    check("options", Create { parameters: json!({"stop": [long]}).as_object().cloned(), ..base() }).await;
    create(&fixture, Create { system: Some(long[1..].to_owned()), ..base() }).await.unwrap();
    assert_eq!(
        fixture.app.library().show("m", false).unwrap().system.len(),
        long.len() - 1,
        "the longest text that can be read"
    );
}

#[tokio::test]
async fn long_renderer_parser_or_required_version_is_refused() {
    let fixture = fixture();
    let (long, longest) = ("x".repeat(MAX_FIELD_BYTES + 1), "x".repeat(MAX_FIELD_BYTES));
    let base = || of("m", "pebble");
    for (field, request) in [
        ("renderer", Create { renderer: Some(long.clone()), ..base() }),
        ("parser", Create { parser: Some(long.clone()), ..base() }),
        ("requires", Create { requires: Some(long.clone()), ..base() }),
    ] {
        let error = create(&fixture, request).await.expect_err(field);
        assert_eq!(error, format!("{field} is too long: 257 bytes, 256 at most; send a name or version"));
    }
    assert!(fixture.app.library().show("m", false).is_err(), "no model was created");
    create(&fixture, Create { renderer: Some(longest), ..base() }).await.expect("the longest name");
}

#[tokio::test]
async fn create_respects_the_disk_reserve() {
    let fixture = fixture_with(&[("CAIRN_DISK_RESERVE", "1000T")]);
    let digest = cairn_store::Digest::of(b"GGUF").to_string();
    let upload = fixture.app.library().upload::<&[u8]>(&digest, Some(4)).unwrap();
    upload.write(b"GGUF").await;
    let error = upload.end().await.expect_err("the reserve is larger than the disk").to_string();
    assert!(error.contains("CAIRN_DISK_RESERVE"), "an upload: {error}");
    let path = fixture.file("one.gguf", 1);
    let far = cairn_store::Library::new(fixture.folder.path().join("ollama"));
    let writer = LibraryWriter::open(&far, &RealDisk).unwrap();
    let layer = writer.import_file(&path, false, &mut |_| true).unwrap().layer;
    writer.save(&"far".parse().unwrap(), b"{}", &[layer], false).unwrap();
    let error = create(&fixture, of("near", "far")).await.expect_err("a copy does not fit");
    assert!(error.contains("CAIRN_DISK_RESERVE"), "a copied layer: {error}");
}
