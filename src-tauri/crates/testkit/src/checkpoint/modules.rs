//! Descriptions of embedding models as the sentence-transformers library has them, and the files of matrices behind the pooling.

use cairn_gguf::Metadata;
use serde_json::{Value, json};

use super::{CheckpointSpec, SourceTensor, safetensors};

/// Takes the tensors of matrices behind the pooling from `sources`. Returns their files, and the descriptions of all modules; none if
/// the model is no encoder.
pub(super) fn files(
    spec: &CheckpointSpec,
    metadata: &Metadata,
    sources: &mut Vec<SourceTensor>,
) -> Vec<(String, Vec<u8>)> {
    let family = spec.model.family.name;
    if !["gemma-embedding", "nomic-bert"].contains(&family) {
        return Vec::new();
    }
    let module = |number: usize, path: &str, kind: &str| {
        let kind = format!("sentence_transformers.models.{kind}");
        json!({"idx": number, "name": number.to_string(), "path": path, "type": kind})
    };
    let mut modules = vec![module(0, "", "Transformer"), module(1, "1_Pooling", "Pooling")];
    let pooling = json!({"word_embedding_dimension": spec.model.width, "pooling_mode_cls_token": false,
                         "pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": false, "include_prompt": true});
    let mut files = vec![("1_Pooling/config.json".to_owned(), pooling)];
    let mut weights = Vec::new();
    for (number, path, prefix) in [(2, "2_Dense", "dense_2"), (3, "3_Dense", "dense_3")] {
        let Some(at) = sources.iter().position(|tensor| tensor.name.starts_with(path)) else { continue };
        let tensor = sources.remove(at);
        let count = |part: &str| metadata.u32(&format!("{family}.{prefix}_feat_{part}")).expect("a count");
        files.push((format!("{path}/config.json"), dense(count("in"), count("out"))));
        let (_, name) = tensor.name.split_once('/').expect("the name begins with a path");
        let tensor = SourceTensor { name: name.to_owned(), ..tensor };
        weights.push((format!("{path}/model.safetensors"), safetensors(&[tensor])));
        modules.push(module(number, path, "Dense"));
    }
    modules.push(module(modules.len(), "4_Normalize", "Normalize"));
    files.push(("modules.json".to_owned(), modules.into()));
    let described = files.into_iter().map(|(name, value)| (name, value.to_string().into_bytes()));
    described.chain(weights).collect()
}

fn dense(inputs: Option<u32>, outputs: Option<u32>) -> Value {
    json!({"in_features": inputs, "out_features": outputs, "bias": false,
           "activation_function": "torch.nn.modules.linear.Identity"})
}
