//! The models of `src-tauri/MODELS.md`: files of their architectures and layouts, made for this test, and the check before a
//! download.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path;

use cairn_gguf::Gguf;
use cairn_prompt::{AnswerFormat, Template};
use cairn_testkit::tower::{TowerKind, TowerSpec};
use cairn_testkit::{families, ollama_layout, tiny, tiny_bert};

use super::runnable::{fast, last_event};
use crate::library::HeadCheck;
use crate::transfers::pull::error::PullError;

/// Number of models.
const NAMES: usize = 30;
const MODEL: &str = "application/vnd.ollama.image.model";
const CONFIG: &[u8] = br#"{"model_format":"gguf"}"#;

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../MODELS.md");
    std::fs::read_to_string(path).expect("the list can be read")
}

/// A row of the table.
struct Row {
    name: String,
    /// Millions of pulls.
    pulls: f64,
    architectures: Vec<String>,
    is_in_ollama_layout: bool,
    runs: bool,
    /// Whether pictures are understood, and the kind of the tower.
    pictures: Option<(bool, String)>,
    /// The renderer and parser that the config names.
    renderer: Option<String>,
}

impl Row {
    fn read(line: &str) -> Self {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let &[name, pulls, architectures, layout, result, pictures, renderer] = cells.as_slice() else {
            panic!("a row has seven cells: {line}")
        };
        let one_of = |cell: &str, [yes, no]: [&str; 2]| {
            assert!(cell == yes || cell == no, "{cell} is neither {yes} nor {no}: {line}");
            cell == yes
        };
        let pictures = (pictures != "-").then(|| {
            let (word, kind) = pictures.split_once(' ').expect("a word and a kind");
            (one_of(word, ["yes", "no"]), kind.trim_matches(['(', ')', '`']).to_owned())
        });
        Self {
            name: name.trim_matches('`').to_owned(),
            pulls: pulls.trim_end_matches('M').parse().expect("millions"),
            architectures: architectures.split(", ").map(|name| name.trim_matches('`').to_owned()).collect(),
            is_in_ollama_layout: one_of(layout, ["Ollama", "llama.cpp"]),
            runs: one_of(result, ["runs", "refused"]),
            pictures,
            renderer: (renderer != "-").then(|| renderer.trim_matches('`').to_owned()),
        }
    }

    /// Returns a file with random weights of an architecture, in the layout of the row.
    fn file(&self, architecture: &str) -> Vec<u8> {
        if self.is_in_ollama_layout {
            let files = ollama_layout::decoders().into_iter().filter_map(|mut equal| equal.files.pop());
            let found = files.into_iter().find(|(name, _)| *name == architecture);
            return found.unwrap_or_else(|| panic!("{architecture} has no file in Ollama's layout")).1;
        }
        in_llama_layout(architecture)
    }
}

/// Returns a file with random weights of an architecture, in the layout of llama.cpp.
fn in_llama_layout(architecture: &str) -> Vec<u8> {
    let decoder = families::ALL.iter().find(|family| family.name == architecture);
    let spec = match decoder {
        Some(family) => tiny(family),
        None => {
            let encoder = families::ENCODERS.iter().find(|family| family.name == architecture);
            tiny_bert(encoder.unwrap_or_else(|| panic!("{architecture} is no family")))
        }
    };
    cairn_testkit::write(&spec)
}

fn rows() -> Vec<Row> {
    document().lines().filter(|line| line.starts_with("| `")).map(Row::read).collect()
}

#[test]
fn listed_models_are_thirty_in_the_order_of_their_pulls() {
    let rows = rows();
    let names: HashSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!((rows.len(), names.len()), (NAMES, NAMES), "different names");
    assert!(rows.is_sorted_by(|first, second| first.pulls >= second.pulls), "the most pulled model is first");
    assert!(rows.iter().all(|row| !row.name.contains(':') && row.name.parse::<cairn_store::ModelRef>().is_ok()));
}

#[tokio::test]
async fn listed_models_that_run_pass_the_check_before_a_download() {
    let at = fast();
    let app = at.app();
    for row in rows().iter().filter(|row| row.runs) {
        for architecture in &row.architectures {
            let file = row.file(architecture);
            let name = &row.name;
            let found = app.library().check_head(&file, file.len() as u64);
            assert!(matches!(found, HeadCheck::Runs { .. }), "{name}, {architecture}: {found:?}");
            let head = Gguf::parse(&file).expect("a written file is read");
            let is_translated = matches!(cairn_runtime::translated(&head), Cow::Owned(_));
            assert_eq!(is_translated, row.is_in_ollama_layout, "{name}, {architecture}: the layout");
        }
    }
}

#[test]
fn listed_models_that_run_have_a_renderer_that_is_built_in() {
    for Row { name, renderer, .. } in rows().iter().filter(|row| row.runs) {
        let Some(renderer) = renderer else { continue };
        let template = Template::by_renderer_name(renderer).unwrap_or_else(|| panic!("{name}: no renderer {renderer}"));
        assert!(AnswerFormat::by_parser_name(renderer).is_some(), "{name}: no parser {renderer}");
        assert!(template.capabilities().tools, "{name}: the prompts have tools");
    }
}

#[tokio::test]
async fn models_of_the_catalogue_pass_the_check_before_a_download() {
    let at = fast();
    let app = at.app();
    let rows = rows();
    let mut architectures = HashSet::new();
    for model in cairn_registry::catalogue("") {
        for variant in &model.variants {
            let architecture = variant.architecture.clone().expect("the catalogue names it");
            if let Some(row) = rows.iter().find(|row| row.name == model.title) {
                let is_listed = row.runs && !row.is_in_ollama_layout && row.architectures.contains(&architecture);
                assert!(is_listed, "{}: another row of the list", variant.name);
            }
            architectures.insert(architecture);
        }
    }
    for architecture in architectures {
        let file = in_llama_layout(&architecture);
        let found = app.library().check_head(&file, file.len() as u64);
        assert!(matches!(found, HeadCheck::Runs { .. }), "{architecture}: {found:?}");
    }
}

#[test]
fn listed_models_understand_pictures_only_with_a_supported_tower() {
    for row in rows() {
        let Some((understands, kind)) = row.pictures else { continue };
        let model = cairn_testkit::write(&tiny(&families::GEMMA3));
        let model = Gguf::parse(&model).expect("a written file is read");
        let width = model.tensor("token_embd.weight").expect("every model has it").dims[0];
        let spec = match kind.as_str() {
            // Without additional rows of inner layers, as in Qwen 3.5.
            "qwen3vl_merger" => {
                TowerSpec { kind: TowerKind::Qwen3 { deepstack: Vec::new() }, ..TowerSpec::tiny_qwen3(width) }
            }
            "qwen2.5vl_merger" => TowerSpec::tiny_qwen25(width),
            "mlp" => TowerSpec::tiny_llava(width),
            "gemma4v" => TowerSpec::tiny_gemma4(width),
            _ => TowerSpec::tiny(width),
        };
        let tower = Gguf::parse(&spec.write()).expect("a written file is read");
        let tower = tower.try_change(|metadata, _| {
            metadata.set("clip.projector_type", kind.as_str());
            Ok::<_, cairn_gguf::Error>(())
        });
        let tower = tower.expect("the key is set");
        let checked = cairn_runtime::check_vision(&model, Some(&tower));
        assert_eq!(checked.is_ok(), understands, "{}: a tower of the kind {kind}: {checked:?}", row.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listed_models_that_cannot_run_are_refused_with_the_sentence_of_the_list() {
    let document = document();
    let sentence =
        document.lines().find_map(|line| line.strip_prefix("> ").filter(|line| line.contains("ARCHITECTURE")));
    let sentence = sentence.expect("the list has the sentence");
    let tensors = PullError::Tensors { name: "NAME".to_owned() }.to_string();
    assert!(document.lines().any(|line| line.strip_prefix("> ") == Some(&tensors)), "{tensors}");
    let at = fast();
    let app = at.app();
    let refused: Vec<Row> = rows().into_iter().filter(|row| !row.runs).collect();
    assert!(!refused.is_empty(), "the sentence is of some rows");
    for Row { name, architectures, .. } in refused {
        let [architecture] = architectures.as_slice() else { panic!("{name}: one architecture") };
        let file = ollama_layout::other_architecture(architecture.clone().leak());
        let pull = at.publish_layers(&name, MODEL, &[&file], CONFIG);
        let full_name = format!("{}:latest", pull.name);
        let size = format!("{:.1} MB", file.len() as f64 / 1e6);
        let expected =
            sentence.replace("NAME", &full_name).replace("ARCHITECTURE", architecture).replace("SIZE", &size);
        assert_eq!(last_event(&app, pull).await, format!("failed: {expected}"), "{name}");
    }
}
