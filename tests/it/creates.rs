//! Models made from Modelfiles and from files that clients send.

use std::path::{Path, PathBuf};
use std::process::Output;

use cairn_gguf::DType;
use cairn_testkit::{ModelSpec, Types, tiny_llama};
use serde_json::Value;

use crate::cairn::{Home, refused, succeeded, text};

fn put(home: &Home, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
    let path = home.folder.path().join(name);
    std::fs::create_dir_all(path.parent().expect("it is in the home")).expect("the home is writable");
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

/// The identity of a model.
fn digest(home: &Home, name: &str) -> String {
    let listed: Value = serde_json::from_str(&succeeded(&home.run(&["list", name, "--json"]))).expect("it is JSON");
    listed["models"][0]["digest"].as_str().unwrap_or_else(|| panic!("{name} is not in {listed}")).to_owned()
}

#[test]
fn a_modelfile_that_is_shown_makes_the_same_model() {
    let home = Home::new();
    put(&home, "in/m.gguf", model());
    let modelfile = "# mine\nfrom ./m.gguf\nTEMPLATE \"\"\"{{ .System }} {{ .Prompt }}\n{{ .Response }}\"\"\"\n\
                     SYSTEM \"\"\"You say \"hi\"\nand nothing else. \"\"\"\nPARAMETER temperature 0.25\n\
                     PARAMETER stop \"<|a|>\"\nPARAMETER stop \" b \"\nPARAMETER num_ctx 512\nLICENSE MIT\n\
                     LICENSE \"\"\"BSD\nwith \"quotes\" \"\"\"\nMESSAGE user hello\nMESSAGE assistant \" hi\"\n\
                     PARAMETER low_vram true\nREQUIRES v0.14.0\n";
    let output = create(&home, "first", &put(&home, "in/Modelfile", modelfile), &[]);
    succeeded(&output);
    let said = text(&output.stderr);
    for part in ["warning: parameter low_vram is deprecated", "copying file sha256:", "parsing GGUF", "success"] {
        assert!(said.contains(part), "{part:?} is missing from {said:?}");
    }
    let shown = succeeded(&home.run(&["show", "--modelfile", "first"]));
    for part in ["# FROM first:latest\n", "SYSTEM \"\"\"You say \"hi\"\n", "PARAMETER stop \" b \"\n", "LICENSE MIT\n"]
    {
        assert!(shown.contains(part), "{part:?} is missing from {shown}");
    }
    succeeded(&create(&home, "second", &put(&home, "again", &shown), &[]));
    assert_eq!(digest(&home, "first"), digest(&home, "second"), "the same model, to the byte: {shown}");
    let words = succeeded(&home.run(&["show", "--modelfile", "second"]));
    assert_eq!(words.replace("second:latest", "first:latest"), shown, "and the same words");
    succeeded(&create(&home, "third", &put(&home, "third", "FROM second\nSYSTEM Other words.\n"), &[]));
    assert_eq!(succeeded(&home.run(&["show", "--system", "third"])), "Other words.\n", "of a model");
    assert!(succeeded(&home.run(&["show", "--license", "third"])).starts_with("MIT\nBSD"), "what is not named stays");
    succeeded(&home.run(&["run", "third", "hello"]));
}

#[test]
fn weights_become_smaller_and_run() {
    let home = Home::new();
    put(&home, "folder/m.gguf", model());
    put(&home, "folder/config.json", "{}");
    let modelfile = put(&home, "Modelfile", "FROM ./folder\n");
    succeeded(&create(&home, "large", &modelfile, &[]));
    let lines = succeeded(&create(&home, "small", &modelfile, &["-q", "q4_K_M", "--json"]));
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
    let quantising = |line: &&Value| line["status"] == "quantizing F16 model to Q4_K_M";
    let last = lines.iter().rfind(quantising).unwrap_or_else(|| panic!("no progress in {lines:?}"));
    assert_eq!(last["completed"], last["total"], "it ends: {last}");
    assert_eq!(last["digest"], "0000000000000000000", "as Ollama has it");
    let listed: Value = serde_json::from_str(&succeeded(&home.run(&["list", "--json"]))).expect("it is JSON");
    let models = listed["models"].as_array().expect("a list");
    let of = |name: &str| models.iter().find(|model| model["name"] == name).expect("it is listed");
    let (small, large) = (of("small:latest"), of("large:latest"));
    assert_eq!(small["details"]["quantization_level"], "Q4_K_M", "{small}");
    assert!(small["size"].as_u64() < large["size"].as_u64(), "{small} {large}");
    let said = succeeded(&home.run(&["run", "small", "hello"]));
    assert!(!said.trim().is_empty(), "it says something");
    refused(&create(&home, "x", &modelfile, &["-q", "q9"]), "unsupported quantization type Q9");
    let again = put(&home, "again", "FROM small\n");
    refused(&create(&home, "x", &again, &["-q", "q8_0"]), "only supported for F16, BF16 and F32 models");
    assert!(!succeeded(&home.run(&["list"])).contains("x:latest"), "nothing of that name");
}

#[test]
fn what_makes_no_model_is_refused_with_its_line() {
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
    check("FROM ./notes.gguf\n", "supplied file was not in GGUF format");
    refused(&home.run(&["create", "x", "-f", "absent"]), "could not read absent");
}
