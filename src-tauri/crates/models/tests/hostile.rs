//! Heads of files with false keys and tensors: markers of Ollama's layouts, vision towers, and all families. Each is refused with a short
//! error, or is a model, with little memory in both cases.

use cairn_gguf::{DType, Gguf, Metadata, Tensor, Value};
use cairn_image::Picture;
use cairn_models::{LoadError, check_head, translate, vision};
use cairn_tensor::Limits;
use cairn_testkit::allocation::{CountingAllocator, peak_bytes};
use cairn_testkit::tower::{TowerKind, TowerSpec};
use cairn_testkit::{Family, ModelSpec, families, ollama_layout, tiny};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The most memory for a check, whatever is in the head. The heads of these models have some hundred KB.
const MOST_BYTES: usize = 64 << 20;
/// The longest error. It may list tensors and supported families.
const MOST_ERROR_BYTES: usize = 16 << 10;
/// Elements of a row of the text models.
const WIDTH: u64 = 64;

fn head(file: &[u8]) -> Gguf {
    Gguf::parse(file).expect("testkit writes complete files")
}

fn small(family: &'static Family) -> ModelSpec {
    let vocab = if family.name.contains("gemma") { 320 } else { 300 };
    ModelSpec { width: WIDTH, heads: 4, kv_heads: 2, head_dim: 16, ffn: 96, vocab, context: 512, ..tiny(family) }
}

/// Towers of all kinds.
fn towers() -> Vec<TowerSpec> {
    let llava = TowerSpec::tiny_llava(WIDTH);
    let sizes = TowerKind::Llava { has_class: true, sizes: vec![48, 24, 24, 48], has_norms: true, has_newline: true };
    vec![
        TowerSpec::tiny(WIDTH),
        TowerSpec::tiny_qwen25(WIDTH),
        TowerSpec::tiny_qwen3(WIDTH),
        TowerSpec::tiny_gemma4(WIDTH),
        TowerSpec::tiny_pixtral(WIDTH),
        TowerSpec { kind: sizes, ..llava.clone() },
        llava,
    ]
}

/// Files in Ollama's layout, with towers where the layout has some.
fn layouts() -> Vec<(String, Gguf)> {
    let mut files = Vec::new();
    for equal in ollama_layout::decoders() {
        for (architecture, file) in &equal.files {
            files.push((format!("{} as {architecture}", equal.name), head(file)));
        }
    }
    files
}

/// Values that no key has, or that are beyond any limit.
fn values() -> Vec<Value> {
    let numbers = [0u32, 1, 3, 1 << 10, 1 << 22, u32::MAX].map(Value::from);
    let floats = [0.0, -1.0, f32::NAN, f32::INFINITY].map(Value::from);
    let lists = [vec![], vec![0], vec![u32::MAX; 3], vec![1; 64]].map(Value::from);
    let others = [Value::from(-1i32), Value::from(u64::MAX), Value::from(true), Value::from(""), Value::from("x")];
    let floats_lists = [vec![f32::NAN; 3], vec![0.5; 2]].map(Value::from);
    numbers.into_iter().chain(floats).chain(lists).chain(others).chain(floats_lists).collect()
}

fn changed(gguf: &Gguf, change: impl FnOnce(&mut Metadata, &mut Vec<Tensor>)) -> Result<Gguf, LoadError> {
    gguf.clone().try_change(|metadata, tensors| {
        change(metadata, tensors);
        Ok(())
    })
}

/// Checks a head as a text model and as the tower beside one, and returns the errors.
fn errors(gguf: &Gguf, width: usize) -> [Option<LoadError>; 2] {
    let limits = Limits { rows: 512, logit_rows: 1 };
    let text = translate(gguf.clone()).and_then(|gguf| check_head(&gguf, 4096, limits, DType::F16).map(drop));
    let tower = vision::head(gguf).and_then(|head| head.map_or(Ok(()), |head| check_tower(&head, width)));
    [text.err(), tower.err()]
}

/// Checks the head of a tower. A usable tower fits into the engine's limits.
fn check_tower(head: &Gguf, width: usize) -> Result<(), LoadError> {
    let (hparams, bytes) = vision::check(head, width)?;
    assert!(bytes > 0, "a tower needs memory: {hparams:?}");
    // Its input has four bytes for each byte of a picture, and counts.
    let sizes = [(1, 1), (65_535, 1), (1, 65_535), (300, 200)].into_iter().filter(|_| bytes < MOST_BYTES as u64);
    for (width, height) in sizes {
        let layout = hparams.layout(width, height);
        let picture = Picture::new(width, height, vec![0; (width * height * 3) as usize]).expect("it has pixels");
        let picture = hparams.resize(&picture).unwrap_or_else(|error| panic!("{error}: {hparams:?}"));
        let grid = hparams.grid(picture.width(), picture.height());
        let grid = grid.unwrap_or_else(|| panic!("{width} x {height} pixels have no size of {hparams:?}"));
        assert_eq!(grid, layout.grid, "{width} x {height} of {hparams:?}");
        let (rows, most) = (hparams.output_rows(&layout), hparams.most_output_rows());
        assert!(
            (1..=most).contains(&rows),
            "{width} x {height}: {rows} rows of {layout:?}, at most {most}: {hparams:?}"
        );
    }
    Ok(())
}

#[track_caller]
fn check(what: &str, gguf: &Gguf, width: usize) -> [bool; 2] {
    let (errors, bytes) = peak_bytes(|| {
        let errors = errors(gguf, width);
        errors.map(|error| error.map(|error| error.to_string()))
    });
    assert!(bytes <= MOST_BYTES, "{what}: {bytes} bytes were allocated");
    for error in errors.iter().flatten() {
        assert!(!error.is_empty() && error.len() <= MOST_ERROR_BYTES, "{what}: an error of {} bytes", error.len());
    }
    errors.map(|error| error.is_none())
}

/// Replaces each key of an architecture by each of the values.
fn check_keys(name: &str, gguf: &Gguf, width: usize) {
    let prefix = format!("{}.", gguf.metadata().required_str("general.architecture").expect("it has one"));
    let keys = gguf.metadata().iter().map(|(key, _)| key.to_owned()).filter(|key| key.starts_with(&prefix));
    for key in keys.collect::<Vec<_>>() {
        for value in values() {
            let what = format!("{name}: {key} is {value:?}");
            let changed = changed(gguf, |metadata, _| drop(metadata.set(&*key, value))).expect("no name is changed");
            check(&what, &changed, width);
        }
        let without = changed(gguf, |metadata, _| {
            let rest: Vec<(String, Value)> = metadata
                .iter()
                .filter(|(other, _)| *other != key)
                .map(|(key, value)| (key.to_owned(), value.clone()))
                .collect();
            *metadata = Metadata::new();
            rest.into_iter().for_each(|(key, value)| drop(metadata.set(key, value)));
        });
        let without = without.expect("no name is changed");
        check(&format!("{name}: without {key}"), &without, width);
    }
}

#[test]
fn hostile_keys_of_families_are_bounded() {
    let others = families::ENCODERS.iter().chain(families::ENCODER_DECODERS).map(|family| (family, 4));
    for (family, kv_heads) in families::ALL.iter().map(|family| (family, 2)).chain(others) {
        let gguf = head(&cairn_testkit::write(&ModelSpec { kv_heads, ..small(family) }));
        check_keys(family.name, &gguf, WIDTH as usize);
    }
}

#[test]
fn hostile_keys_of_layouts_are_bounded() {
    for (name, gguf) in layouts() {
        check_keys(&name, &gguf, vision::input_width(&gguf).expect("a model has embeddings"));
    }
}

/// Checks that a tower can be loaded, and returns the elements of its output rows.
fn check_whole(tower: &TowerSpec, gguf: &Gguf) -> usize {
    let width = match &tower.kind {
        TowerKind::Qwen3 { deepstack } => tower.output as usize * (1 + deepstack.len()),
        _ => tower.output as usize,
    };
    vision::check(gguf, width).unwrap_or_else(|error| panic!("{:?} is whole: {error}", tower.kind));
    width
}

#[test]
fn hostile_keys_of_towers_are_bounded() {
    for tower in towers() {
        let gguf = head(&tower.write());
        check_keys(&format!("{:?}", tower.kind), &gguf, check_whole(&tower, &gguf));
    }
}

/// Tensors that all towers have.
const REQUIRED: [&str; 4] =
    ["v.patch_embd.weight", "v.blk.0.ln1.weight", "v.blk.0.attn_out.weight", "v.blk.0.ffn_down.weight"];

#[test]
fn hostile_tensors_of_towers_are_refused_by_name() {
    for tower in towers() {
        let gguf = head(&tower.write());
        let width = check_whole(&tower, &gguf);
        for (index, tensor) in gguf.tensors().iter().enumerate() {
            let name = &tensor.name;
            let is_required = REQUIRED.contains(&name.as_str());
            let without = changed(&gguf, |_, tensors| drop(tensors.remove(index))).expect("no name is changed");
            let error = vision::check(&without, width).err().map(|error| error.to_string());
            assert!(error.is_some() || !is_required, "{:?} without {name}", tower.kind);
            check(&format!("{:?} without {name}", tower.kind), &without, width);
            for dims in [vec![1], vec![1, 1, 1, 1], vec![u64::from(u32::MAX), 1], vec![1 << 40], vec![0, 5]] {
                let what = format!("{:?}: {name} has {dims:?}", tower.kind);
                if tensor.dims == dims || tensor.dims == [1] {
                    continue;
                }
                let wrong = changed(&gguf, |_, tensors| tensors[index].dims = dims).expect("no name is changed");
                match vision::check(&wrong, width).map_err(|error| error.to_string()) {
                    // LLaVA does not compute its last block.
                    Ok(_) => assert!(!is_required, "{what}"),
                    Err(error) => {
                        let texts = [name.as_str(), "rows of", "positions of patches"];
                        assert!(texts.iter().any(|text| error.contains(text)), "{what}: {error}");
                    }
                }
                check(&what, &wrong, width);
            }
        }
        let none = changed(&gguf, |_, tensors| tensors.clear()).expect("no name is changed");
        let error = vision::check(&none, width).expect_err("no tensors").to_string();
        let is_clear = error.contains("missing") || error.contains("positions of patches");
        assert!(is_clear, "{:?} without tensors: {error}", tower.kind);
    }
}

#[test]
fn markers_of_towers_without_towers_leave_a_text_model() {
    for (name, gguf) in layouts() {
        let is_of_tower = |name: &str| name.starts_with("v.") || name.starts_with("mm.");
        let without =
            changed(&gguf, |_, tensors| tensors.retain(|tensor| !is_of_tower(&tensor.name))).expect("fewer names");
        assert_eq!(check(&name, &without, WIDTH as usize), [true, true], "{name}: text needs no tower");
        assert!(vision::head(&without).is_ok_and(|head| head.is_none()), "{name}: keys alone are no tower");
        // One tensor is the marker of a tower, which it is not.
        let fake = Tensor { name: "v.x".to_owned(), ..gguf.tensors()[0].clone() };
        let marked = changed(&without, |_, tensors| tensors.push(fake)).expect("the name is new");
        let head = vision::head(&marked).unwrap_or_else(|error| panic!("{name}: {error}"));
        if let Some(head) = head {
            let error = vision::check(&head, WIDTH as usize).expect_err("there is no tower").to_string();
            assert!(!error.is_empty() && error.len() <= MOST_ERROR_BYTES, "{name}: {error}");
        }
    }
}
