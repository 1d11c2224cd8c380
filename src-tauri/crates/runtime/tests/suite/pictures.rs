//! Prompts with pictures: answers from their pixels, rows that are found again, and steps of other answers in between.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_gguf::{DType, Gguf};
use cairn_image::Picture;
use cairn_models::ModelFile;
use cairn_runtime::{
    CacheScope, Engine, Event, Finish, GenerateError, Lease, LoadOptions, Logprob, ModelMetrics, NotFinite,
    PictureSize, Projector, PromptPicture, Request, Source, remove_cut_pictures,
};
use cairn_tensor::{Backend, Batch, Input, Limits, PageId, Reference, Row};
use cairn_testkit::tower::{TowerKind, TowerSpec};
use cairn_testkit::{ModelSpec, families};
use cairn_tier::WeightsDigest;
use tempfile::TempDir;

use super::common::{answer, config, fill_tensors, greedy, prompt};
use super::tiers::{engine, tiers, unload};

/// Elements of a row of the text model.
const WIDTH: u64 = 64;
/// Output rows of a picture.
const ROWS: usize = 16;
/// Pixels of a side of a picture.
const SIDE: u32 = 48;

fn tower() -> TowerSpec {
    TowerSpec { image_size: u64::from(SIDE), ..TowerSpec::tiny(WIDTH) }
}

/// Files of a text model, every second layer of which has a window of 100 tokens, and of a tower for it.
fn files(folder: &TempDir) -> [PathBuf; 2] {
    let spec = ModelSpec {
        layers: 4,
        context: 8192,
        width: WIDTH,
        heads: 2,
        kv_heads: 1,
        head_dim: 32,
        ffn: 64,
        ..cairn_testkit::tiny(&families::GEMMA3)
    };
    let paths = ["text.gguf", "tower.gguf"].map(|name| folder.path().join(name));
    cairn_testkit::write_file(&spec, &paths[0]).expect("the folder is writable");
    std::fs::write(&paths[1], tower().write()).expect("the folder is writable");
    paths
}

/// Pixels that follow from a seed.
fn pixels(width: u32, height: u32, seed: u8) -> Picture {
    let rgb = (0..width * height * 3).map(|at| (at as u8).wrapping_mul(seed).wrapping_add(seed)).collect();
    Picture::new(width, height, rgb).expect("the bytes fit the size")
}

/// A picture for a tower.
fn picture_for(tower: &TowerSpec, pixels: &Picture) -> PromptPicture {
    let head = Gguf::parse(&tower.write()).expect("the writer writes what the reader reads");
    let width = match &tower.kind {
        TowerKind::Qwen3 { deepstack } => tower.output * (1 + deepstack.len() as u64),
        _ => tower.output,
    };
    let (hparams, _) = cairn_models::vision::check(&head, width as usize).expect("the tower is whole");
    PromptPicture::new(pixels, &hparams).expect("the tower has a size")
}

fn picture(seed: u8) -> PromptPicture {
    picture_for(&tower(), &pixels(SIDE, SIDE, seed))
}

/// A prompt of texts with pictures between them.
fn with_pictures(texts: &[Vec<u32>]) -> Vec<u32> {
    let mut prompt = texts[0].clone();
    for (index, text) in texts[1..].iter().enumerate() {
        prompt.extend([PromptPicture::number(index); ROWS]);
        prompt.extend(text);
    }
    prompt
}

/// Options with this tower in a separate file.
fn options(tower: Option<&Path>) -> LoadOptions {
    let projector =
        tower.map(|path| Projector { source: Source::File(path.to_owned()), weights: Some(WeightsDigest([9; 32])) });
    let weights = Some(WeightsDigest([7; 32]));
    LoadOptions { context_tokens: Some(8192), weights, projector, ..LoadOptions::default() }
}

async fn lease(engine: &Engine, [text, tower]: &[PathBuf; 2]) -> Lease {
    let loaded = engine.acquire("m".to_owned(), Source::File(text.clone()), options(Some(tower)), None);
    loaded.await.expect("the model loads")
}

fn request(prompt: Vec<u32>, pictures: &[PromptPicture]) -> Request {
    Request { pictures: pictures.to_vec(), logprobs: Some(5), ..greedy(prompt, 8) }
}

/// Reads log probabilities and the end of an answer.
async fn read(lease: &Lease, request: Request) -> (Vec<Logprob>, Finish) {
    let mut events = lease.generate(request);
    let mut logprobs = Vec::new();
    loop {
        match events.recv().await.expect("a generation has a last event") {
            Event::ContextFull(_) => {}
            Event::Delta(text) => logprobs.extend(text.logprobs),
            Event::Finish(finish) => return (logprobs, finish),
            Event::Error(error) => panic!("{error}"),
        }
    }
}

async fn ask(
    engine: &Engine,
    files: &[PathBuf; 2],
    prompt: &[u32],
    pictures: &[PromptPicture],
) -> (Vec<Logprob>, Finish) {
    read(&lease(engine, files).await, request(prompt.to_vec(), pictures)).await
}

fn metrics(engine: &Engine) -> ModelMetrics {
    engine.metrics().into_iter().find(|(id, _)| id == "m").expect("the model was loaded").1
}

#[tokio::test(flavor = "multi_thread")]
async fn picture_is_encoded_once_and_its_rows_are_found_again() {
    let folder = TempDir::new().expect("a temporary folder");
    let (files, engine) = (files(&folder), Engine::start(config()).expect("a kernel variant runs"));
    let question = with_pictures(&[prompt(1, 40), prompt(2, 30)]);
    let (first, finish) = ask(&engine, &files, &question, &[picture(3)]).await;
    assert_eq!((finish.usage.prompt_tokens, finish.usage.cached_tokens), (40 + ROWS + 30, 0), "nothing is cached");
    assert_eq!(metrics(&engine).pictures, 1, "the tower has run");

    let (again, finish) = ask(&engine, &files, &question, &[picture(3)]).await;
    assert_eq!(finish.usage.cached_tokens, question.len() - 1, "all but the last token were cached");
    assert_eq!((again, metrics(&engine).pictures), (first.clone(), 1), "the same answer without a run of the tower");

    let (other, finish) = ask(&engine, &files, &question, &[picture(4)]).await;
    assert_eq!(finish.usage.cached_tokens, 40, "rows before the other picture");
    assert_eq!(metrics(&engine).pictures, 2, "the tower has run for the other picture");
    assert_ne!(other, first, "another picture gives other log probabilities");

    let moved = with_pictures(&[prompt(5, 41), prompt(2, 30)]);
    let (_, finish) = ask(&engine, &files, &moved, &[picture(3)]).await;
    assert_eq!((finish.usage.cached_tokens, metrics(&engine).pictures), (0, 2), "other text before the same picture");

    // The number in the prompt does not identify a picture.
    let both = with_pictures(&[prompt(1, 40), prompt(2, 30), prompt(3, 9)]);
    let (_, finish) = ask(&engine, &files, &both, &[picture(3), picture(4)]).await;
    assert_eq!(finish.usage.cached_tokens, question.len(), "the first question, and no further picture");
    assert_eq!(metrics(&engine).pictures, 2, "both were encoded before");
}

#[tokio::test(flavor = "multi_thread")]
async fn encoded_pictures_are_not_shared_between_scopes() {
    let folder = TempDir::new().expect("a temporary folder");
    let (files, engine) = (files(&folder), Engine::start(config()).expect("a kernel variant runs"));
    let lease = lease(&engine, &files).await;
    let mut text = 1;
    let mut encoded_for = async |name: Option<&str>, incognito: bool| {
        // Rows of the text model are not found again.
        text += 1;
        let question = with_pictures(&[prompt(text, 20), prompt(2, 10)]);
        let scope = CacheScope { name: name.map(Arc::from), incognito, ..CacheScope::default() };
        let before = metrics(&engine).pictures;
        read(&lease, Request { scope, ..request(question, &[picture(3)]) }).await;
        metrics(&engine).pictures - before
    };
    assert_eq!(encoded_for(None, true).await, 1, "a picture of a request that leaves nothing in the cache");
    assert_eq!(encoded_for(None, false).await, 1, "the same picture of another request");
    assert_eq!(encoded_for(None, false).await, 0, "the same scope");
    assert_eq!(encoded_for(None, true).await, 0, "reading leaves nothing");
    assert_eq!(encoded_for(Some("key"), false).await, 1, "the same picture of another scope");
    assert_eq!(encoded_for(Some("key"), false).await, 0, "that scope again");
    engine.clear_caches(None);
    assert_eq!(encoded_for(Some("key"), false).await, 1, "after the caches were cleared");
}

/// Logits behind a prompt with a picture, from the oracle.
fn exact(files: &[PathBuf; 2], prompt: &[u32], picture: &Picture, is_causal: bool) -> Vec<f32> {
    exact_at(files, prompt, picture, is_causal, |slot| Row::text_position(slot as u32))
}

/// The same with these positions of slots.
fn exact_at(
    files: &[PathBuf; 2],
    prompt: &[u32],
    picture: &Picture,
    is_causal: bool,
    position: impl Fn(usize) -> [u32; 4],
) -> Vec<f32> {
    let tower_file = ModelFile::open(&files[1]).expect("the file is whole");
    let mut backend = Reference::new();
    let text = ModelFile::open(&files[0]).expect("the file is whole");
    let width = cairn_models::vision::input_width(text.gguf()).expect("a model has embeddings");
    let tower = cairn_models::vision::load(&tower_file, width, &mut backend).expect("the tower is whole");
    let (out, hparams) = (tower.plan.logits.expect("a tower has an output"), tower.hparams);
    let plan = backend.prepare(tower.plan, hparams.limits()).expect("the plan fits");
    backend.grow_pages(hparams.pages()).expect("a few pages fit");
    let layout = hparams.layout(picture.width(), picture.height());
    let pixels = hparams.resize(picture).expect("the size is not zero");
    let grid = layout.grid;
    backend
        .run(plan, &Batch { embeddings: hparams.unfold(&pixels), ..hparams.batch(grid) })
        .expect("the batch is sound");
    let mut embeddings = vec![0.0; grid.groups() * width];
    backend.read(plan, out, 0..grid.groups(), &mut embeddings);
    let embeddings = hparams.in_order(&embeddings, &layout);
    let rows = embeddings.len() / width;

    let mut backend = Reference::with_kv_type(DType::F32);
    let model = cairn_models::load(&text, 8192, &mut backend).expect("the model is whole");
    let out = model.plan.logits.expect("a model has logits");
    let plan = backend.prepare(model.plan, Limits { rows: prompt.len(), logit_rows: 1 }).expect("the plan fits");
    let pages = prompt.len().div_ceil(64);
    backend.grow_pages(pages).expect("a few pages fit");
    let first = prompt.iter().position(|number| *number >= cairn_runtime::FIRST_PICTURE).expect("it has a picture");
    let row = |(slot, number): (usize, &u32)| {
        let row = Row { pos: position(slot), ..Row::text(0, *number, slot as u32, slot + 1 == prompt.len()) };
        match (first..first + rows).contains(&slot) {
            false => row,
            true => Row {
                input: Input::Embedding((slot - first) as u32),
                until: if is_causal { row.until } else { (first + rows) as u32 },
                ..row
            },
        }
    };
    let batch_rows = prompt.iter().enumerate().map(row).collect();
    let table = (0..pages as u32).map(PageId).collect();
    backend
        .run(plan, &Batch { rows: batch_rows, tables: vec![table], embeddings, ..Batch::default() })
        .expect("the batch is sound");
    let mut logits = vec![0.0; model.hparams.vocab];
    backend.read(plan, out, 0..1, &mut logits);
    logits
}

/// Largest difference between log probabilities of an answer's first token and those of exact logits.
fn difference(found: &Logprob, logits: &[f32]) -> f64 {
    let most = logits.iter().fold(f32::NEG_INFINITY, |most, logit| most.max(*logit));
    let sum: f64 = logits.iter().map(|logit| f64::from(logit - most).exp()).sum();
    let exact = |token: u32| f64::from(logits[token as usize] - most) - sum.ln();
    found.top.iter().map(|top| (top.logprob - exact(top.token)).abs()).fold(0.0, f64::max)
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_picture_attend_to_each_other_as_in_the_oracle() {
    let folder = TempDir::new().expect("a temporary folder");
    let (files, engine) = (files(&folder), Engine::start(config()).expect("a kernel variant runs"));
    let question = with_pictures(&[prompt(1, 20), prompt(2, 10)]);
    let (logprobs, _) = ask(&engine, &files, &question, &[picture(3)]).await;
    let exact = [false, true].map(|is_causal| exact(&files, &question, &pixels(SIDE, SIDE, 3), is_causal));
    let [apart, causal] = exact.map(|logits| difference(&logprobs[0], &logits));
    assert!(apart < 0.05, "log probabilities differ by {apart} from the oracle's");
    assert!(causal > 4.0 * apart, "causal attention would differ by {causal}, and this by {apart}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_picture_have_their_places_and_inner_rows_as_in_the_oracle() {
    let folder = TempDir::new().expect("a temporary folder");
    let (files, engine) = (files(&folder), Engine::start(config()).expect("a kernel variant runs"));
    let spec = ModelSpec { layers: 4, context: 8192, width: WIDTH, ..cairn_testkit::tiny(&families::QWEN3VL) };
    cairn_testkit::write_file(&spec, &files[0]).expect("the folder is writable");
    let tower = TowerSpec::tiny_qwen3(WIDTH);
    std::fs::write(&files[1], tower.write()).expect("the folder is writable");
    // Three rows and five columns of groups, so large that a step computes a part of them only.
    let pixels = pixels(40, 24, 3);
    let mut question = prompt(1, 20);
    question.extend([PromptPicture::number(0); 15]);
    question.extend(prompt(2, 10));
    let (logprobs, finish) = ask(&engine, &files, &question, &[picture_for(&tower, &pixels)]).await;
    assert_eq!(finish.usage.prompt_tokens, 45, "text and rows");
    let place = |slot: usize| match slot {
        0..20 => [slot; 3],
        20..35 => [20, 20 + (slot - 20) / 5, 20 + (slot - 20) % 5],
        _ => [slot - 10; 3],
    };
    let position = |slot: usize| {
        let [time, row, column] = place(slot).map(|component| component as u32);
        [time, row, column, 0]
    };
    let exact = [
        exact_at(&files, &question, &pixels, true, position),
        exact(&files, &question, &pixels, true),
        exact_at(&files, &question, &pixels, false, position),
    ];
    let [same, without_places, not_causal] = exact.map(|logits| difference(&logprobs[0], &logits));
    assert!(same < 0.05, "log probabilities differ by {same} from the oracle's");
    assert!(
        without_places > 4.0 * same,
        "positions without places would differ by {without_places}, and these by {same}"
    );
    assert!(not_causal > 4.0 * same, "attention to later rows would differ by {not_causal}, and this by {same}");
    let (again, finish) = ask(&engine, &files, &question, &[picture_for(&tower, &pixels)]).await;
    assert_eq!((again, finish.usage.cached_tokens), (logprobs, 44), "the same answer from cached rows");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_an_enlarged_picture_are_in_lines_as_in_the_oracle() {
    let folder = TempDir::new().expect("a temporary folder");
    let (files, engine) = (files(&folder), Engine::start(config()).expect("a kernel variant runs"));
    let kind =
        TowerKind::Llava { has_class: true, sizes: vec![48, 24, 24, 48, 48, 48], has_norms: false, has_newline: true };
    let tower = TowerSpec { kind, ..TowerSpec::tiny_llava(WIDTH) };
    std::fs::write(&files[1], tower.write()).expect("the folder is writable");
    let question = |rows: usize| {
        let mut question = prompt(1, 20);
        question.extend(std::iter::repeat_n(PromptPicture::number(0), rows));
        question.extend(prompt(2, 10));
        question
    };
    let wide = pixels(60, 20, 3);
    let wide_question = question(36 + 4 * 13);
    let (logprobs, _) = ask(&engine, &files, &wide_question, &[picture_for(&tower, &wide)]).await;
    let same = difference(&logprobs[0], &exact(&files, &wide_question, &wide, true));
    assert!(same < 0.05, "log probabilities differ by {same} from the oracle's");

    // The same squares of one color, below each other and beside each other.
    let plain = |width: u32, height: u32| {
        let rgb = [122, 116, 104].repeat((width * height) as usize);
        Picture::new(width, height, rgb).expect("the bytes fit the size")
    };
    let mut found = Vec::new();
    for (width, height, rows, encoded) in [(48, 24, 36 + 6 * 13, 2), (24, 48, 36 + 12 * 7, 3), (96, 48, 36 + 6 * 13, 3)]
    {
        let (question, pixels) = (question(rows), plain(width, height));
        let (logprobs, finish) = ask(&engine, &files, &question, &[picture_for(&tower, &pixels)]).await;
        let same = difference(&logprobs[0], &exact(&files, &question, &pixels, true));
        assert!(same < 0.05, "{width} x {height}: log probabilities differ by {same} from the oracle's");
        assert_eq!(metrics(&engine).pictures, encoded, "{width} x {height}: encoded pictures");
        found.push((logprobs, finish.usage.cached_tokens));
    }
    assert_eq!(found[1].1, 20, "text before a picture of the same pixels in another order");
    assert_eq!(found[2].0, found[0].0, "the same picture of another size");
    assert_eq!(found[2].1, 20 + 36 + 6 * 13 + 9, "its rows are cached");
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_with_parts_of_pictures_are_restored() {
    let folder = TempDir::new().expect("a temporary folder");
    let files = files(&folder);
    let tiers = tiers(&folder.path().join("kept"));
    let (tiered, plain) = (engine(Some(&tiers)), engine(None));
    let holders = Arc::strong_count(&tiers);
    // The first picture is in two chunks of 256 tokens, and the second one at the end of the third chunk.
    let question = with_pictures(&[prompt(1, 250), prompt(2, 486), prompt(3, 90)]);
    let pictures = [picture(3), picture(5)];
    let (first, finish) = ask(&tiered, &files, &question, &pictures).await;
    assert_eq!(finish.usage.cached_tokens, 0, "empty tiers");
    assert_eq!(first, ask(&plain, &files, &question, &pictures).await.0, "the answer without tiers");
    unload(&tiered, &tiers, holders).await;
    let (again, finish) = ask(&tiered, &files, &question, &pictures).await;
    assert_eq!(finish.usage.cached_tokens, question.len() - 1, "all but the last token were restored");
    assert_eq!((again, metrics(&tiered).pictures), (first, 2), "the same answer, and nothing is encoded again");

    for (texts, pictures) in [
        // It diverges behind the first picture, and from the first chunk on within it.
        (vec![prompt(1, 250), prompt(8, 40)], vec![picture(3)]),
        (vec![prompt(1, 250), prompt(2, 300)], vec![picture(4)]),
        (vec![prompt(1, 250), prompt(2, 486), prompt(8, 40)], vec![picture(3), picture(5)]),
        (vec![prompt(1, 250), prompt(2, 486), prompt(3, 90)], vec![picture(3), picture(3)]),
    ] {
        unload(&tiered, &tiers, holders).await;
        let edited = with_pictures(&texts);
        let (answer, finish) = ask(&tiered, &files, &edited, &pictures).await;
        let expected = ask(&plain, &files, &edited, &pictures).await.0;
        assert_eq!(answer, expected, "{} tokens, of which {} were restored", edited.len(), finish.usage.cached_tokens);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tower_in_the_models_own_file_gives_the_same_answers() {
    let folder = TempDir::new().expect("a temporary folder");
    let files = files(&folder);
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let question = with_pictures(&[prompt(1, 20), prompt(2, 10)]);
    let separate = ask(&engine, &files, &question, &[picture(3)]).await.0;
    let both = folder.path().join("both.gguf");
    let text = std::fs::read(&files[0]).expect("the file was written");
    std::fs::write(&both, tower().write_into(&text)).expect("the folder is writable");
    let loaded = engine.acquire("both".to_owned(), Source::File(both), options(None), None).await.expect("it loads");
    let vision = loaded.vision().expect("the tower is whole").expect("there is a tower");
    assert_eq!((&vision.size, vision.most_output_rows()), (&PictureSize::Square(SIDE as usize), ROWS), "shape");
    assert_eq!(read(&loaded, request(question, &[picture(3)])).await.0, separate, "the same answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_pictures_are_refused_and_other_requests_are_not() {
    let folder = TempDir::new().expect("a temporary folder");
    let files = files(&folder);
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let with_tower = lease(&engine, &files).await;
    let text = engine.acquire("text".to_owned(), Source::File(files[0].clone()), options(None), None).await;
    let text = text.expect("the model loads");
    assert!(text.vision().expect("no tower is broken").is_none(), "a model without a tower");
    let other_tower = TowerSpec { image_size: 24, patch_size: 3, ..tower() };
    let wrong_size = picture_for(&other_tower, &pixels(SIDE, SIDE, 3));
    let whole = with_pictures(&[prompt(1, 20), prompt(2, 10)]);
    let mut cut = whole.clone();
    cut.remove(25);
    for (name, lease, prompt, pictures) in [
        ("no tower", &text, &whole, vec![picture(3)]),
        ("no picture", &with_tower, &whole, vec![]),
        ("another size", &with_tower, &whole, vec![wrong_size]),
        ("a part of a picture", &with_tower, &cut, vec![picture(3)]),
    ] {
        let error = answer(lease.generate(request(prompt.clone(), &pictures))).await.expect_err("it is impossible");
        assert!(matches!(error, GenerateError::UnknownToken { .. }), "{name}: {error}");
    }
    remove_cut_pictures(&mut cut, &[picture(3)]);
    assert_eq!(cut.len(), 30, "the text is left");
    answer(with_tower.generate(request(cut, &[picture(3)]))).await.expect("text can be answered");

    let broken = folder.path().join("broken.gguf");
    std::fs::write(&broken, TowerSpec { output: WIDTH + 32, ..tower() }.write()).expect("the folder is writable");
    let loaded = engine.acquire("text".to_owned(), Source::File(files[0].clone()), options(Some(&broken)), None).await;
    drop(loaded.expect("it is loaded already"));
    drop(text);
    assert!(engine.unload("text"), "the model was loaded");
    let loaded = engine.acquire("text".to_owned(), Source::File(files[0].clone()), options(Some(&broken)), None).await;
    let loaded = loaded.expect("text needs no tower");
    let error = loaded.vision().expect_err("the tower is for another model").to_string();
    assert!(error.contains("rows of 96 elements, and the model has rows of 64"), "{error}");
    answer(loaded.generate(greedy(prompt(1, 9), 3))).await.expect("text can be answered");
}

#[tokio::test(flavor = "multi_thread")]
async fn tower_with_weights_that_are_not_finite_fails_requests_with_pictures_only() {
    let folder = TempDir::new().expect("a temporary folder");
    let files = files(&folder);
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let question = with_pictures(&[prompt(1, 20), prompt(2, 10)]);
    for (name, value) in [("mm.input_projection.weight", f32::NAN), ("v.blk.0.ffn_up.bias", f32::INFINITY)] {
        std::fs::write(&files[1], tower().write()).expect("the folder is writable");
        fill_tensors(&files[1], |tensor| (tensor == name).then_some(value));
        let lease = lease(&engine, &files).await;
        let running = lease.generate(greedy(prompt(9, 10), 40));
        for _ in 0..2 {
            let both = [3, 5].map(|seed| lease.generate(request(question.clone(), &[picture(seed)])));
            for events in both {
                let error = answer(events).await.expect_err("the rows are no numbers");
                assert!(matches!(error, GenerateError::NotFinite(NotFinite::Picture)), "{name}: {error}");
            }
        }
        answer(running).await.expect("another answer continues");
        answer(lease.generate(greedy(prompt(1, 9), 3))).await.expect("text can be answered");
        drop(lease);
        assert!(engine.unload("m"), "the model was loaded");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tower_with_more_rows_than_a_step_is_not_listed() {
    let folder = TempDir::new().expect("a temporary folder");
    let files = files(&folder);
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let model = ModelFile::open(&files[0]).expect("the file is whole");
    // Groups of 16 patches become a row.
    for (side, rows) in [(88, 484), (92, 529)] {
        let spec = TowerSpec { image_size: side, patch_size: 1, ..tower() };
        std::fs::write(&files[1], spec.write()).expect("the folder is writable");
        let head = Gguf::parse(&spec.write()).expect("testkit writes complete files");
        let is_usable = rows <= 512;
        let checked = cairn_runtime::check_vision(model.gguf(), Some(&head));
        assert_eq!(checked.is_ok(), is_usable, "{rows} rows: {checked:?}");
        let lease = lease(&engine, &files).await;
        match lease.vision() {
            Ok(vision) => assert!(is_usable && vision.is_some_and(|vision| vision.most_output_rows() == rows)),
            Err(error) => assert!(!is_usable && error.to_string().contains("with 529 rows for a picture"), "{error}"),
        }
        drop(lease);
        assert!(engine.unload("m"), "the model was loaded");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn running_answer_continues_while_a_picture_is_encoded() {
    let folder = TempDir::new().expect("a temporary folder");
    let files = files(&folder);
    // Enough patches for many parts.
    let spec = TowerSpec { image_size: 240, width: 96, heads: 3, ffn: 200, ..tower() };
    std::fs::write(&files[1], spec.write()).expect("the folder is writable");
    let engine = Engine::start(config()).expect("a kernel variant runs");
    let large = |seed: u8| picture_for(&spec, &pixels(240, 240, seed));
    let mut question = prompt(1, 30);
    question.extend([PromptPicture::number(0); 400]);
    question.extend(prompt(2, 5));
    let lease = lease(&engine, &files).await;
    let (alone, _) = read(&lease, request(question.clone(), &[large(3)])).await;
    let parts_alone = metrics(&engine).picture_parts;

    let mut running = lease.generate(greedy(prompt(9, 10), 100_000));
    let Some(Event::Delta(_)) = running.recv().await else { panic!("the answer has begun") };
    let mut other = lease.generate(request(question.clone(), &[large(5)]));
    // The other request ends only after these events were read, because the scheduler pauses a sequence with a full channel.
    let (mut during, mut ended) = (0, false);
    while !ended {
        tokio::select! {
            event = running.recv() => match event {
                Some(Event::Delta(_)) => during += 1,
                // The model may choose its end token.
                Some(Event::Finish(_)) => running = lease.generate(greedy(prompt(10 + during, 10), 100_000)),
                event => panic!("the answer does not fail: {event:?}"),
            },
            event = other.recv() => ended = matches!(event, Some(Event::Finish(_))),
        }
    }
    let parts = metrics(&engine).picture_parts - parts_alone;
    assert!(parts > parts_alone && during > 10, "{parts} parts, {parts_alone} alone, {during} deltas meanwhile");
    drop(running);
    let (again, finish) = read(&lease, request(question, &[large(3)])).await;
    assert_eq!(again, alone, "the same answer");
    assert!(finish.usage.cached_tokens > 400, "its rows are cached");
}
