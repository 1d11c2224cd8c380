//! The handle with the built-in model.

use super::*;
use crate::App;
use crate::clock::Clock;
use crate::settings::{Env, Places, System};

fn start(home: &tempfile::TempDir) -> App {
    let env = Env::of([("CAIRN_HOME", &*home.path().to_string_lossy()), ("OLLAMA_KV_TIERING", "0")]);
    let settings = Settings::load(&env, &Places::of(&env, System::Xdg).expect("the home is set"));
    App::for_test(settings, Clock::real())
}

fn variant() -> Variant {
    Variant {
        name: "qwen3:8b".to_owned(),
        parameters: Some("8.2B".to_owned()),
        active_parameters: None,
        quantization: Some("Q4_K_M".to_owned()),
        architecture: Some("qwen3".to_owned()),
        size_bytes: 5_200_000_000,
        is_approximate: true,
    }
}

#[tokio::test]
async fn speeds_are_estimated_once_the_kernels_are_measured() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let app = start(&home);
    let speeds = app.speeds();
    assert!(speeds.installed().expect("the library is readable").is_empty(), "nothing was measured");
    assert_eq!(speeds.of_variants(&[variant()]), [None], "nothing was measured");
    speeds.measure().expect("no model computes");
    assert!(!speeds.is_measuring(), "the measurement is complete");
    let installed = speeds.installed().expect("the library is readable");
    let [InstalledSpeed { name, speed }] = &installed[..] else { panic!("the built-in model: {installed:?}") };
    assert_eq!(name, "pebble:latest");
    assert!(!speed.answer.is_measured && speed.answer.tokens_per_second > 0.0, "an estimate: {speed:?}");
    let [Some(large)] = speeds.of_variants(&[variant()])[..] else { panic!("an estimate of a large model") };
    assert!(large.answer.tokens_per_second < speed.answer.tokens_per_second, "slower than a small one: {large:?}");

    let again = start(&home);
    assert_eq!(again.speeds().kernel_rates(), speeds.kernel_rates(), "the rates are stored");
    again.speeds().measure_if_needed();
    assert!(!again.speeds().is_measuring(), "they need not be measured again");
    let path = home.path().join("cache/kernel-rates.json");
    let stored = std::fs::read_to_string(&path).expect("the rates are stored");
    std::fs::write(&path, stored.replace(VERSION, "0.0.0-other")).expect("the folder is writable");
    assert!(start(&home).speeds().kernel_rates().is_empty(), "rates of another version do not count");
}

#[tokio::test]
async fn measured_model_replaces_its_estimate() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let app = start(&home);
    let speeds = app.speeds();
    let (key, _) = speeds.0.work("pebble").expect("the built-in model");
    let speed =
        cairn_runtime::ModelSpeed { answer_tokens_per_second: Some(123.0), prompt_tokens_per_second: Some(4567.0) };
    speeds.0.measured.record(&[(key, speed)]);
    let installed = speeds.installed().expect("the library is readable");
    let figures = installed.iter().map(|one| [one.speed.answer, one.speed.prompt]).collect::<Vec<_>>();
    let measured = |tokens_per_second| super::super::estimate::Figure { tokens_per_second, is_measured: true };
    assert_eq!(figures, [[measured(123.0), measured(4567.0)]], "without rates of the kernels, too");
}
