//! A row for each variable that Ollama documents.

use std::path::Path;
use std::time::Duration;

use super::super::load::Settings;
use super::super::places::{Places, System};
use super::*;
use crate::values::KeepAlive;

/// What a variable does.
enum Effect {
    /// The settings with the value satisfy this, and those without it do not.
    Setting(fn(&Settings) -> bool),
    /// The start warns that it has no effect.
    Named,
    /// Neither a setting nor a warning.
    Silent,
}
use Effect::{Named, Setting, Silent};

const VARIABLES: &[(&str, &str, Effect)] = &[
    ("OLLAMA_AUTH", "1", Named),
    ("OLLAMA_CLOUD_BASE_URL", "https://a", Named),
    ("OLLAMA_CONTEXT_LENGTH", "8192", Setting(|found| found.engine.context_tokens == Some(8192))),
    ("OLLAMA_CONTEXT_LENGTH", "0", Silent),
    ("OLLAMA_DEBUG", "1", Setting(|found| found.log.filter == "debug")),
    ("OLLAMA_DEBUG", "true", Setting(|found| found.log.filter == "debug")),
    ("OLLAMA_DEBUG", "2", Setting(|found| found.log.filter == "trace")),
    ("OLLAMA_DEBUG", "0", Silent),
    ("OLLAMA_DEBUG_LOG_REQUESTS", "1", Named),
    ("OLLAMA_EDITOR", "vi", Named),
    ("OLLAMA_FLASH_ATTENTION", "1", Named),
    ("OLLAMA_FLASH_ATTENTION", "0", Silent),
    ("OLLAMA_GO_TEMPLATE", "false", Setting(|found| found.models.go_template == Some(false))),
    ("OLLAMA_GPU_OVERHEAD", "1073741824", Named),
    ("OLLAMA_HOST", "0.0.0.0:11435", Setting(|found| found.server.address.to_string() == "http://0.0.0.0:11435")),
    (
        "OLLAMA_HOST",
        "https://a.example/x",
        Setting(|found| found.server.address.to_string() == "https://a.example:443/x"),
    ),
    ("OLLAMA_IGPU_ENABLE", "1", Named),
    ("OLLAMA_KEEP_ALIVE", "-1", Setting(|found| found.engine.keep_alive == KeepAlive::Forever)),
    ("OLLAMA_KEEP_ALIVE", "90", Setting(|found| found.engine.keep_alive == KeepAlive::For(Duration::from_secs(90)))),
    ("OLLAMA_KEEP_ALIVE", "1h", Setting(|found| found.engine.keep_alive == KeepAlive::For(Duration::from_secs(3600)))),
    ("OLLAMA_KV_CACHE_TYPE", "q8_0", Setting(|found| found.engine.kv_type.as_deref() == Some("q8_0"))),
    ("OLLAMA_KV_CACHE_TYPE", "q5_1", Named),
    ("OLLAMA_LLAMA_CPP_COMPAT", "1", Named),
    ("OLLAMA_LLM_LIBRARY", "cpu", Silent),
    ("OLLAMA_LLM_LIBRARY", "cpu_avx2", Silent),
    ("OLLAMA_LLM_LIBRARY", "cuda_v13", Named),
    ("OLLAMA_LLM_LIBRARY", "scalar", Setting(|found| found.engine.kernel.as_deref() == Some("scalar"))),
    ("OLLAMA_LOAD_TIMEOUT", "10m", Named),
    ("OLLAMA_MAX_LOADED_MODELS", "7", Setting(|found| found.engine.max_loaded == 7)),
    ("OLLAMA_MAX_LOADED_MODELS", "0", Silent),
    ("OLLAMA_MAX_QUEUE", "9", Setting(|found| found.engine.max_queue == 9)),
    ("OLLAMA_MAX_TRANSFER_STREAMS", "4", Named),
    ("OLLAMA_MODELS", "/m", Setting(|found| found.library == Path::new("/m") && found.ollama_library.is_none())),
    ("OLLAMA_NOHISTORY", "1", Setting(|found| found.environment.no_history)),
    ("OLLAMA_NOPRUNE", "1", Setting(|found| found.models.keep_unneeded)),
    ("OLLAMA_NO_CLOUD", "1", Silent),
    ("OLLAMA_NUM_PARALLEL", "3", Setting(|found| found.engine.parallel == 3)),
    ("OLLAMA_ORIGINS", "https://a,*", Setting(|found| found.server.origins == ["https://a", "*"])),
    ("OLLAMA_REMOTES", "ollama.com", Named),
    ("OLLAMA_SCHED_SPREAD", "1", Named),
    ("OLLAMA_SCHED_SPREAD", "false", Silent),
    ("OLLAMA_TEST_MODEL", "m", Silent),
    ("OLLAMA_TYPO", "1", Named),
    ("OLLAMA_VULKAN", "1", Named),
];

fn load(variables: &[(&str, &str)]) -> Settings {
    let places = Places::of(&Env::of([("HOME", "/h")]), System::Xdg).unwrap();
    Settings::load(&Env::of(variables.iter().copied()), &places)
}

#[test]
fn every_variable_of_ollama_works_or_is_named() {
    for (name, value, effect) in VARIABLES {
        let found = load(&[(*name, *value)]);
        let warnings = &found.warnings;
        let (is_set, is_named) = match effect {
            Setting(has) => (has(&found) && !has(&load(&[])), false),
            Named => (true, true),
            Silent => (true, false),
        };
        assert!(is_set, "{name}={value} has its effect: {found:?}");
        let named = warnings.iter().filter(|warning| warning.starts_with(name)).count();
        assert_eq!(
            (named, warnings.len()),
            (usize::from(is_named), usize::from(is_named)),
            "{name}={value}: {warnings:?}"
        );
    }
}

#[test]
fn rows_without_effect_are_tested() {
    for (name, _) in WITHOUT_EFFECT {
        assert!(VARIABLES.iter().any(|(tested, ..)| tested == name), "{name} has no row in the test");
    }
    let of_table = TABLE.iter().flat_map(|row| [row.variable, row.fallback_variable]).flatten();
    for name in of_table.filter(|name| name.starts_with("OLLAMA_") && !name.starts_with("OLLAMA_KV_TIER")) {
        assert!(VARIABLES.iter().any(|(tested, ..)| *tested == name), "{name} has no row in the test");
    }
}

#[test]
fn own_variables_override_those_of_ollama() {
    let found = load(&[("CAIRN_LOG", "cairn_http=trace"), ("OLLAMA_DEBUG", "1")]);
    assert_eq!(found.log.filter, "cairn_http=trace", "unchanged");
    let found = load(&[("CAIRN_KERNEL", "no such kernel"), ("OLLAMA_LLM_LIBRARY", "scalar")]);
    assert_eq!(found.engine.kernel.as_deref(), Some("no such kernel"), "the start refuses it with the valid names");
}
