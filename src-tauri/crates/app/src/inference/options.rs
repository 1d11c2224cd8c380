//! Options of a request: merged from the request, the model and the defaults.

use crate::values::{Options, excerpt};
use cairn_gguf::DType;
use cairn_runtime::Sampling;
use serde_json::{Map, Value};

use super::error::Error;
use crate::settings::ContextShift;

/// Merged options of one request.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    pub(crate) sampling: Sampling,
    pub(crate) stop: Vec<String>,
    /// Token limit of the answer. `None`, for a missing or negative `num_predict`, means
    /// [`MAX_ANSWER_CONTEXTS`](cairn_runtime::MAX_ANSWER_CONTEXTS).
    pub(crate) max_tokens: Option<u32>,
    /// Context size of the request or the model; `None` for the default of the settings.
    pub(crate) context_tokens: Option<u32>,
    pub(crate) threads: Option<usize>,
    /// Type of the KV cache of the request or the model; `None` for the default of the settings.
    pub(crate) kv_type: Option<DType>,
    /// Tokens at the start that stay when a prompt is cut; negative: as many as fit.
    pub(crate) keep_tokens: i64,
    /// Context shift of the request or the model; `None` for the default of the settings.
    pub(crate) context_shift: Option<ContextShift>,
    /// Factor on what the model's adapters add; any finite number.
    pub(crate) adapter_scale: f32,
    /// Options of the request that have no effect, shortened.
    pub(crate) ignored: Vec<String>,
}

/// Smallest context, as in Ollama.
const MIN_CONTEXT_TOKENS: i64 = 4;

/// Options of Ollama that have no effect here.
const UNUSED: [&str; 5] = ["num_batch", "num_gpu", "main_gpu", "use_mmap", "draft_num_predict"];

/// Names of options in other APIs, and Ollama's.
const ALIASES: [(&str, &str); 6] = [
    ("max_tokens", "num_predict"),
    ("max_output_tokens", "num_predict"),
    ("max_completion_tokens", "num_predict"),
    ("repetition_penalty", "repeat_penalty"),
    ("stop_sequences", "stop"),
    ("context_length", "num_ctx"),
];

/// Most unknown options of one object that the log lists.
const MAX_LOGGED_NAMES: usize = 8;

/// Merges the request's options over the model's over the defaults.
pub(crate) fn choose(model: &Map<String, Value>, request: Option<&Map<String, Value>>) -> Result<Chosen, Error> {
    let mut options = Options::default();
    let request = request.map(with_own_names);
    let mut ignored = Vec::new();
    for object in std::iter::once(model).chain(&request) {
        ignored = options.merge(object)?;
        if let Some(names) = unknown_names(&ignored) {
            tracing::warn!(options = names, "ignoring unknown options");
        }
    }
    let ignored = match &request {
        None => Vec::new(),
        Some(request) => {
            let unused = UNUSED.iter().copied().filter(|name| request.get(*name).is_some_and(|value| !value.is_null()));
            ignored.into_iter().chain(unused).take(MAX_LOGGED_NAMES).map(|name| excerpt(name).into_owned()).collect()
        }
    };
    Ok(Chosen { ignored, ..from_options(options)? })
}

/// Renames options that clients send with the names of other APIs, unless the request has both.
fn with_own_names(request: &Map<String, Value>) -> Map<String, Value> {
    let mut renamed = Map::new();
    for (name, value) in request {
        let own = ALIASES.iter().find(|(alias, own)| alias == name && !request.contains_key(*own)).map(|(_, own)| *own);
        renamed.insert(own.unwrap_or(name).to_owned(), value.clone());
    }
    renamed
}

/// Lists unknown options for the log. A request may have any number of them, with names of any length. Returns `None` if there
/// are none.
fn unknown_names(names: &[&str]) -> Option<String> {
    let listed: Vec<_> = names.iter().take(MAX_LOGGED_NAMES).map(|name| excerpt(name)).collect();
    match names.len().saturating_sub(MAX_LOGGED_NAMES) {
        _ if names.is_empty() => None,
        0 => Some(listed.join(", ")),
        more => Some(format!("{} and {more} more", listed.join(", "))),
    }
}

fn from_options(options: Options) -> Result<Chosen, Error> {
    if let (Some(value), Some(least)) = (options.num_ctx, Options::least("num_ctx"))
        && value < least
    {
        return Err(Error::OptionRange { name: "num_ctx", value, least });
    }
    // The engine limits the value to the context that the model was trained for.
    let context_tokens = options.num_ctx.filter(|tokens| *tokens > 0);
    let context_tokens = context_tokens.map(|tokens| u32::try_from(tokens.max(MIN_CONTEXT_TOKENS)).unwrap_or(u32::MAX));
    Ok(Chosen {
        sampling: Sampling {
            temperature: options.temperature.unwrap_or(0.8),
            top_k: saturate(options.top_k.unwrap_or(40)),
            top_p: options.top_p.unwrap_or(0.9),
            min_p: options.min_p.unwrap_or(0.0),
            typical_p: options.typical_p.unwrap_or(1.0),
            repeat_last_n: saturate(options.repeat_last_n.unwrap_or(64)),
            repeat_penalty: options.repeat_penalty.unwrap_or(1.0),
            presence_penalty: options.presence_penalty.unwrap_or(0.0),
            frequency_penalty: options.frequency_penalty.unwrap_or(0.0),
            // A negative seed means a random one.
            seed: options.seed.and_then(|seed| u64::try_from(seed).ok()),
        },
        stop: options.stop.unwrap_or_default(),
        max_tokens: options.num_predict.and_then(|tokens| u32::try_from(tokens).ok()),
        context_tokens,
        threads: options.num_thread.and_then(|threads| usize::try_from(threads).ok()).filter(|threads| *threads > 0),
        kv_type: options
            .kv_cache_type
            .as_deref()
            .map(|name| cairn_runtime::parse_kv_type(&excerpt(name)))
            .transpose()?,
        keep_tokens: options.num_keep.unwrap_or(4),
        context_shift: options.context_shift.as_deref().map(|name| ContextShift::parse(&excerpt(name))).transpose()?,
        // A number beyond the range of f32 is infinite.
        adapter_scale: options.adapter_scale.unwrap_or(1.0).clamp(f32::MIN, f32::MAX),
        ignored: Vec::new(),
    })
}

/// Returns the nearest `i32`.
fn saturate(value: i64) -> i32 {
    i32::try_from(value).unwrap_or(if value < 0 { i32::MIN } else { i32::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(model: Value, request: Value) -> Result<Chosen, String> {
        choose(model.as_object().unwrap(), request.as_object()).map_err(|error| error.to_string())
    }

    #[test]
    fn request_options_override_model_and_defaults() {
        let chosen = chosen(
            serde_json::json!({"temperature": 0.1, "top_k": 5, "stop": ["x"]}),
            serde_json::json!({"temperature": 0, "num_predict": -1, "num_ctx": 2, "seed": -1}),
        )
        .unwrap();
        assert_eq!(chosen.sampling.temperature, 0.0, "the request's");
        assert_eq!(chosen.sampling.top_k, 5, "the model's");
        assert_eq!(chosen.sampling.top_p, 0.9, "the default");
        assert_eq!(chosen.sampling.repeat_penalty, 1.0, "no penalty by default");
        assert_eq!((chosen.max_tokens, chosen.sampling.seed), (None, None), "negative is no limit, and no seed");
        assert_eq!(chosen.context_tokens, Some(4), "the floor");
        assert_eq!(chosen.stop, ["x"], "the model's");
    }

    #[test]
    fn invalid_context_size_is_refused() {
        let error = |request: Value| chosen(serde_json::json!({}), request).unwrap_err();
        assert_eq!(error(serde_json::json!({"num_ctx": "x"})), "option \"num_ctx\" must be of type integer");
        assert_eq!(error(serde_json::json!({"num_ctx": -5})), "option \"num_ctx\" cannot be -5; it must be 0 or more");
    }

    #[test]
    fn options_of_other_apis_are_renamed_and_unused_ones_are_named() {
        let chosen = |request: Value| chosen(serde_json::json!({"mirostat": 2}), request).expect("valid options");
        let renamed = chosen(serde_json::json!({"max_output_tokens": 7, "stop_sequences": ["x"]}));
        assert_eq!((renamed.max_tokens, renamed.stop), (Some(7), vec!["x".to_owned()]), "they have an effect");
        assert_eq!(renamed.ignored, [""; 0], "the model's own options are not the client's");
        let both = chosen(serde_json::json!({"max_tokens": 7, "num_predict": 9, "num_gpu": 1, "use_mmap": null}));
        assert_eq!(both.max_tokens, Some(9), "Ollama's name is first");
        assert_eq!(both.ignored, ["max_tokens", "num_gpu"], "those without effect");
    }

    #[test]
    fn unknown_options_are_shortened_for_the_log() {
        assert_eq!(unknown_names(&[]), None, "nothing to log");
        assert_eq!(unknown_names(&["mirostat", "tfs_z"]).unwrap(), "mirostat, tfs_z", "all names");
        let long = "ö".repeat(1000);
        let many = vec![&*long; 100];
        let logged = unknown_names(&many).unwrap();
        let name = excerpt(&long).into_owned();
        assert_eq!(logged, format!("{} and 92 more", vec![name; MAX_LOGGED_NAMES].join(", ")), "a short line");
    }

    #[test]
    fn kv_type_comes_from_the_request_or_the_model() {
        let chosen = |model: Value, request: Value| chosen(model, request).map(|chosen| chosen.kv_type);
        let none = serde_json::json!({});
        let q8_0 = serde_json::json!({"kv_cache_type": "q8_0"});
        assert_eq!(chosen(none.clone(), none.clone()), Ok(None), "not set");
        assert_eq!(chosen(q8_0.clone(), none.clone()), Ok(Some(DType::Q8_0)), "the model's");
        assert_eq!(chosen(q8_0, serde_json::json!({"kv_cache_type": "F16"})), Ok(Some(DType::F16)), "the request's");
        let error = chosen(none, serde_json::json!({"kv_cache_type": "q3"})).expect_err("the type does not exist");
        assert_eq!(
            error, "unknown type of the KV cache \"q3\": it must be f16, bf16, q8_0 or q4_0",
            "the error lists all types"
        );
    }

    #[test]
    fn context_shift_comes_from_the_request_or_the_model() {
        let chosen = |model: Value, request: Value| chosen(model, request).map(|chosen| chosen.context_shift);
        let none = serde_json::json!({});
        let rope = serde_json::json!({"context_shift": "rope"});
        assert_eq!(chosen(none.clone(), none.clone()), Ok(None), "not set");
        assert_eq!(chosen(rope.clone(), none.clone()), Ok(Some(ContextShift::Rope)), "the model's");
        let turns = serde_json::json!({"context_shift": "turns"});
        assert_eq!(chosen(rope, turns), Ok(Some(ContextShift::Turns)), "the request's");
        let error = chosen(none, serde_json::json!({"context_shift": true})).expect_err("the value is not a string");
        assert_eq!(error, "option \"context_shift\" must be of type string", "the error states the type");
    }

    #[test]
    fn adapter_scale_is_one_unless_set_and_always_finite() {
        let scale = |model: Value, request: Value| chosen(model, request).map(|chosen| chosen.adapter_scale);
        let none = serde_json::json!({});
        assert_eq!(scale(none.clone(), none.clone()), Ok(1.0), "the default");
        let half = serde_json::json!({"adapter_scale": 0.5});
        assert_eq!(scale(half.clone(), none.clone()), Ok(0.5), "the model's");
        assert_eq!(scale(half, serde_json::json!({"adapter_scale": -2})), Ok(-2.0), "the request's");
        assert_eq!(scale(none, serde_json::json!({"adapter_scale": 1e300})), Ok(f32::MAX), "never infinite");
    }

    #[test]
    fn context_size_saturates_at_the_maximum() {
        let chosen = chosen(serde_json::json!({}), serde_json::json!({"num_ctx": 1e30})).unwrap();
        assert_eq!(chosen.context_tokens, Some(u32::MAX), "the engine limits it to the trained context");
    }
}
