//! BERT and its cross-encoders, with the tensor names of the `transformers` library.

use cairn_gguf::{Metadata, Pooling};
use serde_json::Value;

use super::super::config::{CONFIG, MAX_LAYERS, MAX_WIDTH};
use super::super::description::Description;
use super::super::error::{ConvertError, invalid, unsupported};
use super::super::family::{Contents, Family, Layout, Place};
use super::super::word_pieces;

/// Name of the architecture in GGUF.
const BERT: &str = "bert";
/// Names of GELU with the error function, which is the default.
const GELU_ERF: [&str; 2] = ["gelu", "gelu_python"];
/// Names of GELU with tanh in checkpoints.
const GELU_TANH: [&str; 5] = ["gelu_new", "gelu_fast", "gelu_accurate", "gelu_python_tanh", "gelu_pytorch_tanh"];
const CROSS_ENCODER: &str = "BertForSequenceClassification";

/// Tensors outside of layers: names in the checkpoint and in GGUF, without the ending.
const TABLES: [(&str, &str); 6] = [
    ("embeddings.word_embeddings", "token_embd"),
    ("embeddings.position_embeddings", "position_embd"),
    ("embeddings.token_type_embeddings", "token_types"),
    ("embeddings.LayerNorm", "token_embd_norm"),
    ("pooler.dense", "cls"),
    ("classifier", "cls.output"),
];

/// Tensors of a layer.
const LAYER: [(&str, &str); 8] = [
    ("attention.self.query", "attn_q"),
    ("attention.self.key", "attn_k"),
    ("attention.self.value", "attn_v"),
    ("attention.output.dense", "attn_output"),
    ("attention.output.LayerNorm", "attn_output_norm"),
    ("intermediate.dense", "ffn_up"),
    ("output.dense", "ffn_down"),
    ("output.LayerNorm", "layer_output_norm"),
];

pub(super) struct Bert;

impl Family for Bert {
    fn architectures(&self) -> &'static [&'static str] {
        &["BertModel", CROSS_ENCODER]
    }

    fn name(&self) -> &'static str {
        BERT
    }

    fn metadata(&self, description: &Description<'_>) -> Result<Metadata, ConvertError> {
        let config = &description.config;
        let text = |key: &str| match config.value(key) {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text.as_str())),
            _ => Err(unsupported(format!("BERT with a `{key}` that is not a text"))),
        };
        let activation = match text("hidden_act")? {
            None => None,
            Some(name) if GELU_ERF.contains(&name) => None,
            Some(name) if GELU_TANH.contains(&name) => Some("gelu_pytorch_tanh"),
            Some(other) => {
                return Err(unsupported(format!("BERT with the activation {other:?}")));
            }
        };
        if let Some(other) = text("position_embedding_type")?.filter(|name| *name != "absolute") {
            return Err(unsupported(format!("BERT with {other:?} positions")));
        }
        let mut metadata = description.general(BERT);
        for (key, name, max) in [
            ("block_count", "num_hidden_layers", MAX_LAYERS),
            ("context_length", "max_position_embeddings", MAX_WIDTH),
            ("embedding_length", "hidden_size", MAX_WIDTH),
            ("feed_forward_length", "intermediate_size", MAX_WIDTH),
            ("attention.head_count", "num_attention_heads", MAX_WIDTH),
        ] {
            metadata.set(format!("{BERT}.{key}"), config.count(name, max)?);
        }
        if let Some(activation) = activation {
            metadata.set(format!("{BERT}.hidden_activation"), activation);
        }
        let eps = config.number("layer_norm_eps")?;
        metadata.set(format!("{BERT}.attention.layer_norm_epsilon"), eps);
        metadata.set(format!("{BERT}.attention.causal"), false);
        let is_cross_encoder = config.architecture() == CROSS_ENCODER;
        if is_cross_encoder && config.value("id2label").as_object().is_some_and(|labels| labels.len() != 1) {
            return Err(invalid(CONFIG, "only a classifier with one label scores pairs of texts"));
        }
        let pooling = if is_cross_encoder { Pooling::Rank } else { description.modules(false)?.pooling };
        metadata.set(format!("{BERT}.{}", Pooling::KEY), pooling);
        word_pieces::add(description, &mut metadata)?;
        Ok(metadata)
    }

    fn places(&self, name: &str, _: &Description<'_>) -> Result<Vec<Place>, ConvertError> {
        let place = |name: String| Place {
            name,
            expert: None,
            experts: 0,
            contents: Contents::Numbers,
            layout: Layout::PLAIN,
            is_reshaped: false,
            is_shared: false,
            dims: Vec::new(),
        };
        Ok(Vec::from_iter(tensor_name(name).map(place)))
    }
}

/// Returns the new name of a tensor; `None` for a tensor that the forward pass does not need.
fn tensor_name(name: &str) -> Option<String> {
    let inner = name.strip_prefix("bert.").unwrap_or(name);
    // Sentence encoders do not use the pooler, which a cross-encoder has inside of `bert.`.
    if inner == name && name.starts_with("pooler.") {
        return None;
    }
    // Early checkpoints call weight and bias of norms gamma and beta.
    let (path, ending) = inner.rsplit_once('.')?;
    let ending = match ending {
        "weight" | "gamma" => "weight",
        "bias" | "beta" => "bias",
        _ => return None,
    };
    let of = |rows: &[(&str, &'static str)], path: &str| rows.iter().find(|(from, _)| *from == path).map(|(_, to)| *to);
    if let Some(rest) = path.strip_prefix("encoder.layer.") {
        let (layer, part) = rest.split_once('.')?;
        let layer: u32 = layer.parse().ok()?;
        return Some(format!("blk.{layer}.{}.{ending}", of(&LAYER, part)?));
    }
    Some(format!("{}.{ending}", of(&TABLES, path)?))
}
