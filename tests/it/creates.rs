//! Models created from Modelfiles and from uploaded files.

use std::path::{Path, PathBuf};
use std::process::Output;

use cairn_gguf::DType;
use cairn_testkit::{ModelSpec, Types, tiny_llama};
use serde_json::{Value, json};

use cairn_testkit::registry::{FakeRegistry, Faults};

use crate::cairn::{Home, refused, succeeded, text};
use crate::pulls::published::Published;

fn put(home: &Home, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
    let path = home.folder.path().join(name);
    std::fs::create_dir_all(path.parent().expect("the path has a folder")).expect("the home is writable");
    std::fs::write(&path, contents).expect("the home is writable");
    path
}

fn model() -> Vec<u8> {
    cairn_testkit::write(&ModelSpec { types: Types::All(DType::F16), ..tiny_llama() })
}

fn create(home: &Home, name: &str, modelfile: &Path, more: &[&str]) -> Output {
    let modelfile = modelfile.to_string_lossy();
    let words = [&["create", name, "-f", &*modelfile], more].concat();
    home.run(&words)
}

/// Returns the digest of a model.
fn digest(home: &Home, name: &str) -> String {
    let listed: Value = serde_json::from_str(&succeeded(&home.run(&["list", name, "--json"]))).expect("valid JSON");
    listed["models"][0]["digest"].as_str().unwrap_or_else(|| panic!("{name} is not in {listed}")).to_owned()
}

#[test]
fn shown_modelfile_creates_the_same_model() {
    let home = Home::new();
    put(&home, "in/m.gguf", model());
    let modelfile = "# mine\nfrom ./m.gguf\nTEMPLATE \"\"\"{{ .System }} {{ .Prompt }}\n{{ .Response }}\"\"\"\n\
                     SYSTEM \"\"\"You say \"hi\"\nand nothing else. \"\"\"\nPARAMETER temperature 0.25\n\
                     PARAMETER stop \"<|a|>\"\nPARAMETER stop \" b \"\nPARAMETER num_ctx 512\nLICENSE MIT\n\
                     LICENSE \"\"\"BSD\nwith \"quotes\" \"\"\"\nMESSAGE user hello\nMESSAGE assistant \" hi\"\n\
                     PARAMETER low_vram true\nREQUIRES v0.14.0\n";
    let output = create(&home, "first", &put(&home, "in/Modelfile", modelfile), &[]);
    succeeded(&output);
    let stderr = text(&output.stderr);
    for part in ["warning: parameter low_vram is deprecated", "copying file sha256:", "parsing GGUF", "success"] {
        assert!(stderr.contains(part), "{part:?} is missing from {stderr:?}");
    }
    let shown = succeeded(&home.run(&["show", "--modelfile", "first"]));
    for part in ["# FROM first:latest\n", "SYSTEM \"\"\"You say \"hi\"\n", "PARAMETER stop \" b \"\n", "LICENSE MIT\n"]
    {
        assert!(shown.contains(part), "{part:?} is missing from {shown}");
    }
    succeeded(&create(&home, "second", &put(&home, "again", &shown), &[]));
    assert_eq!(digest(&home, "first"), digest(&home, "second"), "the same digest: {shown}");
    let words = succeeded(&home.run(&["show", "--modelfile", "second"]));
    assert_eq!(words.replace("second:latest", "first:latest"), shown, "the same Modelfile");
    succeeded(&create(&home, "third", &put(&home, "third", "FROM second\nSYSTEM Other words.\n"), &[]));
    assert_eq!(
        succeeded(&home.run(&["show", "--system", "third"])),
        "Other words.\n",
        "the base model's system message is replaced"
    );
    assert!(
        succeeded(&home.run(&["show", "--license", "third"])).starts_with("MIT\nBSD"),
        "other layers are inherited"
    );
    succeeded(&home.run(&["run", "third", "hello"]));
}

#[test]
fn folder_with_weights_needs_no_modelfile() {
    let home = Home::new();
    let _daemon = home.serve();
    let folder = put(&home, "in/m.gguf", model()).parent().expect("the file has a folder").to_owned();
    let run_in =
        |folder: &Path, words: &[&str]| home.command(words).current_dir(folder).output().expect("cairn starts");
    succeeded(&run_in(&folder, &["create", "a"]));
    succeeded(&home.run(&["run", "a", "hello"]));
    let empty = home.folder.path().join("empty");
    std::fs::create_dir(&empty).expect("the home is writable");
    let error = refused(&run_in(&empty, &["create", "b"]), "there is no Modelfile in this folder, and no model");
    assert!(error.contains("contains no supported model files"), "{error}");
    refused(&run_in(&folder, &["create", "b", "-f", "Modelfile"]), "cannot read Modelfile");
    put(&home, "in/Modelfile", "FROM pebble\nSYSTEM Be brief.\n");
    succeeded(&run_in(&folder, &["create", "b"]));
    assert_eq!(succeeded(&home.run(&["show", "--system", "b"])), "Be brief.\n", "a Modelfile has precedence");
}

#[test]
fn mark_of_a_local_model_is_accepted_by_all_verbs() {
    let home = Home::new();
    let daemon = home.serve();
    succeeded(&home.run(&["cp", "pebble:local", "a"]));
    daemon.post("/api/copy", &json!({"source": "a:local", "destination": "b"})).expect("the daemon answers");
    succeeded(&create(&home, "c", &put(&home, "c", "FROM b:local\nSYSTEM Be brief.\n"), &[]));
    refused(&create(&home, "d", &put(&home, "d", "FROM absent:local\n"), &[]), "model 'absent:local' not found");
    succeeded(&home.run(&["run", "c:local", "hello"]));
    succeeded(&home.run(&["stop", "c:local"]));
    let loaded: Value = serde_json::from_str(&succeeded(&home.run(&["ps", "--json"]))).expect("valid JSON");
    assert_eq!(loaded["models"], json!([]), "the model is unloaded");
    succeeded(&home.run(&["rm", "a:local", "b:latest:local"]));
    daemon.delete("/api/delete", &json!({"model": "c:local"})).expect("the daemon answers");
    let listed: Value = serde_json::from_str(&succeeded(&home.run(&["list", "--json"]))).expect("valid JSON");
    assert_eq!(listed["models"].as_array().map(Vec::len), Some(1), "only the built-in model is left: {listed}");
}

#[test]
fn quantised_model_is_smaller_and_runs() {
    let home = Home::new();
    put(&home, "folder/m.gguf", model());
    put(&home, "folder/config.json", "{}");
    let modelfile = put(&home, "Modelfile", "FROM ./folder\n");
    succeeded(&create(&home, "large", &modelfile, &[]));
    let lines = succeeded(&create(&home, "small", &modelfile, &["-q", "q4_K_M", "--json"]));
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("valid JSON")).collect();
    let quantising = |line: &&Value| line["status"] == "quantizing F16 model to Q4_K_M";
    let last = lines.iter().rfind(quantising).unwrap_or_else(|| panic!("no progress in {lines:?}"));
    assert_eq!(last["completed"], last["total"], "progress reaches the total: {last}");
    assert_eq!(last["digest"], "0000000000000000000", "Ollama's placeholder digest");
    let listed: Value = serde_json::from_str(&succeeded(&home.run(&["list", "--json"]))).expect("valid JSON");
    let models = listed["models"].as_array().expect("a list");
    let of = |name: &str| models.iter().find(|model| model["name"] == name).expect("the row exists");
    let (small, large) = (of("small:latest"), of("large:latest"));
    assert_eq!(small["details"]["quantization_level"], "Q4_K_M", "{small}");
    assert!(small["size"].as_u64() < large["size"].as_u64(), "{small} {large}");
    let stdout = succeeded(&home.run(&["run", "small", "hello"]));
    assert!(!stdout.trim().is_empty(), "the answer is not empty");
    refused(&create(&home, "x", &modelfile, &["-q", "q9"]), "unsupported quantization type Q9");
    let again = put(&home, "again", "FROM small\n");
    refused(&create(&home, "x", &again, &["-q", "q8_0"]), "only supported for F16, BF16 and F32 models");
    assert!(!succeeded(&home.run(&["list"])).contains("x:latest"), "no such model is listed");
}

#[test]
fn invalid_modelfile_is_refused_with_its_line() {
    let home = Home::new();
    let check = |modelfile: &str, part: &str| {
        refused(&create(&home, "x", &put(&home, "Modelfile", modelfile), &[]), part);
    };
    check("FROM pebble\nBAD x\n", "(line 2): command must be one of \"from\"");
    check("SYSTEM x\n", "no FROM line");
    check("FROM pebble\nPARAMETER colour red\n", "unknown parameter 'colour'");
    check("FROM pebble\nADAPTER ./none.gguf\n", "ADAPTER ./none.gguf: there is no such file");
    check("FROM ./notes.gguf\n", "invalid model name");
    put(&home, "notes.gguf", "These are my notes.");
    check("FROM ./notes.gguf\n", "notes.gguf is not in GGUF format");
    #[cfg(unix)]
    {
        check("FROM /dev/zero\n", "/dev/zero is a pipe or a device");
        refused(&create(&home, "x", Path::new("/dev/zero"), &[]), "/dev/zero: it is a pipe or a device");
    }
    let long = put(&home, "long", vec![b'#'; (8 << 20) + 1]);
    refused(&create(&home, "x", &long, &[]), "longer than 8 MiB");
    refused(&home.run(&["create", "x", "-f", "absent"]), "cannot read absent");
}

#[test]
fn missing_base_model_is_pulled_first() {
    let registry = FakeRegistry::start(1, Faults::default()).expect("loopback has free ports");
    let model = Published::tiny(&registry, "base", 1);
    let home = Home::new().with("CAIRN_STALL", "1s");
    let daemon = home.serve();
    // Plain HTTP is allowed for loopback registries.
    let modelfile = put(&home, "Modelfile", format!("FROM http://{}\nSYSTEM Be brief.\n", model.name));
    let output = create(&home, "mine", &modelfile, &[]);
    succeeded(&output);
    let stderr = text(&output.stderr);
    let hex = model.large().digest.hex();
    let expected =
        ["pulling manifest\n", &format!("pulling {} (", &hex[..12]), "using existing layer sha256:", "success\n"];
    let places: Vec<_> =
        expected.iter().map(|part| stderr.find(part).unwrap_or_else(|| panic!("{part:?}: {stderr}"))).collect();
    assert!(places.is_sorted() && stderr.matches("success\n").count() == 1, "one stream, in this order: {stderr}");
    model.assert_is_in(&home);
    assert_eq!(succeeded(&home.run(&["show", "--system", "mine"])), "Be brief.\n", "the model is created");

    let sent = registry.sent_bytes(&model.large().digest.to_string());
    succeeded(&create(&home, "again", &modelfile, &[]));
    assert_eq!(registry.sent_bytes(&model.large().digest.to_string()), sent, "existing blobs are not downloaded");

    // The same over `/api/create`.
    let other = Published::tiny(&registry, "other", 2);
    let body = json!({"model": "theirs", "from": format!("http://{}", other.name)});
    let response = daemon.post("/api/create", &body).expect("the daemon answers");
    let lines: Vec<Value> = response.lines().map(|line| serde_json::from_str(line).expect("valid JSON")).collect();
    let statuses: Vec<&str> = lines.iter().filter_map(|line| line["status"].as_str()).collect();
    assert_eq!((statuses.first(), statuses.last()), (Some(&"pulling manifest"), Some(&"success")), "{response}");
    assert_eq!(
        statuses.iter().filter(|status| **status == "success").count(),
        1,
        "clients stop reading at the first success: {response}"
    );
    let progress = lines.iter().rfind(|line| line["digest"] == other.large().digest.to_string());
    assert!(progress.is_some_and(|line| line["completed"] == line["total"]), "with its progress: {response}");

    let absent = format!("http://{}/library/absent", registry.host());
    let body = json!({"model": "x", "from": absent, "stream": false});
    let response = daemon.post("/api/create", &body).expect("the daemon answers");
    assert!(response.contains("pull model manifest: file does not exist"), "{response}");
    let output = create(&home, "x", &put(&home, "absent", format!("FROM {absent}\n")), &[]);
    refused(&output, "pull model manifest: file does not exist");
    // The reference looks like a mistyped file name, and its registry refuses connections.
    let output = create(&home, "x", &put(&home, "typo", "FROM 127.0.0.1:9/library/m.gguf\n"), &[]);
    refused(&output, "cannot find a file or a model \"127.0.0.1:9/library/m.gguf\"");
    assert!(!succeeded(&home.run(&["list"])).contains("x:latest"), "no such model is listed");
}

#[test]
#[cfg(unix)]
fn client_disconnect_stops_the_pull_of_the_base_model() {
    let slow = Faults { bytes_per_second: Some(200 << 10), ..Faults::default() };
    let registry = FakeRegistry::start(1, slow).expect("loopback has free ports");
    let model = Published::of_noise(&registry, "base", 3, 4 << 20);
    let home = Home::new().with("CAIRN_STALL", "1s");
    let _daemon = home.serve();
    let downloads =
        || -> Value { serde_json::from_str(&succeeded(&home.run(&["downloads", "--json"]))).expect("valid JSON") };
    let until = |expected: &str, condition: &dyn Fn(&Value) -> bool| {
        for _ in 0..500 {
            if condition(&downloads()["downloads"][0]) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        panic!("timeout: {expected}: {}", downloads());
    };
    let modelfile = put(&home, "Modelfile", format!("FROM http://{}\n", model.name));
    let words = ["create", "mine", "-f", &modelfile.to_string_lossy()];
    let mut child = home.command(&words).stderr(std::process::Stdio::null()).spawn().expect("the command starts");
    until("the download has progress", &|row| row["held_bytes"].as_u64().is_some_and(|held| held > 300_000));
    child.kill().and_then(|()| child.wait()).expect("the command runs");
    until("the download is stopped", &|row| row["state"] == "stopped");
    assert!(downloads()["downloads"][0]["held_bytes"].as_u64() > Some(300_000), "downloaded bytes are kept");
}

#[test]
fn modelfile_and_request_create_the_same_model() {
    let home = Home::new();
    let daemon = home.serve();
    let file = put(&home, "m.gguf", model());
    let modelfile = "FROM ./m.gguf\nTEMPLATE \"{{ .Prompt }}\"\nSYSTEM Be brief.\nPARAMETER temperature 1\n\
                     PARAMETER top_p 0.9\nPARAMETER num_ctx 512\nPARAMETER stop a\nPARAMETER stop b\nLICENSE MIT\n\
                     LICENSE BSD\nMESSAGE user hi\nMESSAGE assistant hello\nRENDERER r\nPARSER p\nREQUIRES 0.14.0\n";
    succeeded(&create(&home, "command", &put(&home, "Modelfile", modelfile), &["-q", "q8_0"]));
    let sent = sha256(&std::fs::read(file).expect("the file exists"));
    let body = json!({
        "model": "request", "files": {"m.gguf": sent}, "template": "{{ .Prompt }}", "system": "Be brief.",
        "parameters": {"temperature": 1, "top_p": 0.9, "num_ctx": 512, "stop": ["a", "b"]}, "license": ["MIT", "BSD"],
        "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}],
        "renderer": "r", "parser": "p", "requires": "0.14.0", "quantize": "Q8_0", "stream": false,
        "info": {}, "draft_files": {}, "remote_host": "", "adapters": {},
    });
    let reply = daemon.post("/api/create", &body).expect("the daemon answers");
    let reply: Value = serde_json::from_str(&reply).expect("one line");
    let warnings = reply["warnings"].as_array().expect("warnings");
    assert!(
        reply["status"] == "success" && warnings.len() == 2,
        "the renderer and the parser are not built in: {reply}"
    );
    assert_eq!(digest(&home, "command"), digest(&home, "request"), "one identity");
    // The same from an existing model.
    let more = put(&home, "more", "FROM command\nPARAMETER temperature 0.5\nMESSAGE user ho\n");
    succeeded(&create(&home, "command2", &more, &[]));
    let body = json!({
        "name": "request2", "from": "request", "parameters": {"temperature": 0.5},
        "messages": [{"role": "user", "content": "ho"}], "stream": false,
    });
    daemon.post("/api/create", &body).expect("the daemon answers");
    assert_eq!(digest(&home, "command2"), digest(&home, "request2"), "one identity");
}

#[test]
fn plain_http_requires_the_insecure_flag() {
    let registry = FakeRegistry::start(1, Faults::default()).expect("loopback has free ports");
    let model = Published::tiny(&registry, "base", 1);
    let home = Home::new().with("CAIRN_STALL", "1s");
    let modelfile = put(&home, "Modelfile", format!("FROM {}\n", model.name));
    // This registry closes the connection at a TLS handshake.
    refused(&create(&home, "mine", &modelfile, &[]), "pull model manifest");
    succeeded(&create(&home, "mine", &modelfile, &["--insecure"]));
    model.assert_is_in(&home);
}

fn sha256(bytes: &[u8]) -> String {
    cairn_store::Digest::of(bytes).to_string()
}

#[test]
fn unsupported_create_request_is_refused_with_advice() {
    let home = Home::new();
    let daemon = home.serve();
    let digest = sha256(b"{}");
    daemon.post(&format!("/api/blobs/{digest}"), &json!({})).expect("the daemon answers");
    let check = |body: Value, parts: &[&str]| {
        let mut body = body;
        body["model"] = "x".into();
        let response = daemon.post("/api/create", &body).expect("the daemon answers");
        // Lines of progress may be before it.
        let last = response.lines().last().expect("the response has a line");
        let error: Value = serde_json::from_str(last).expect("a JSON object");
        let message = error["error"].as_str().unwrap_or_else(|| panic!("the request succeeded: {response}"));
        for part in parts {
            assert!(message.contains(part), "{part:?} is missing from {message:?}");
        }
    };
    let pebble = "pebble";
    check(json!({"from": pebble, "info": {"model_family": "llama"}}), &["(info)", "read from its file"]);
    check(json!({"from": pebble, "draft_files": {"d.gguf": digest}}), &["draft", "without one"]);
    check(json!({"from": pebble, "draft_quantize": "q4_0"}), &["draft", "without one"]);
    check(json!({"from": "m", "remote_host": "http://other"}), &["another server", "OLLAMA_HOST"]);
    check(json!({"files": {"m.safetensors": digest}}), &["config.json is missing"]);
    check(json!({"from": pebble, "adapters": {"a.safetensors": digest}}), &["adapter_config.json", "it is missing"]);
    check(json!({"files": {"m.bin": digest}}), &["unknown type"]);
    check(json!({"from": pebble, "messages": [{"role": "user", "images": ["aGk="]}]}), &["images"]);
    let folder = put(&home, "folder/model.safetensors", "{}");
    let folder = folder.parent().expect("the path has a folder").to_string_lossy().into_owned();
    let modelfile = put(&home, "Modelfile", format!("FROM {folder}\n"));
    refused(&create(&home, "x", &modelfile, &[]), "config.json is missing");
    refused(&create(&home, "x", &put(&home, "Modelfile", "FROM pebble\nDRAFT d.gguf\n"), &[]), "remove the line");
    assert!(!succeeded(&home.run(&["list"])).contains("x:latest"), "no such model is listed");
}
