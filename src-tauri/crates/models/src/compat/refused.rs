//! Models in Ollama's library that the engine cannot run, by the architecture in their files.

/// Architecture and name of the models.
const MODELS: &[(&str, &str)] = &[
    ("deepseekocr", "DeepSeek OCR"),
    ("glmocr", "GLM OCR"),
    ("laguna", "Laguna"),
    ("mllama", "Llama 3.2 Vision"),
    ("nemotron_h_omni", "Nemotron Nano VL"),
];

/// Returns the name of the models with an architecture.
pub(crate) fn model_of(architecture: &str) -> Option<&'static str> {
    MODELS.iter().find(|(name, _)| *name == architecture).map(|(_, model)| *model)
}
