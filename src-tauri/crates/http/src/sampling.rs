//! Parameters of sampling that the APIs of OpenAI and Anthropic have as fields of a request.

use serde_json::{Map, Value};

/// Parameters of sampling.
#[derive(Debug, Default)]
pub(crate) struct Sampling {
    pub(crate) max_tokens: Option<i64>,
    pub(crate) temperature: Option<f32>,
    pub(crate) top_p: Option<f32>,
    pub(crate) top_k: Option<i64>,
    pub(crate) seed: Option<i64>,
    pub(crate) stop: Option<Vec<String>>,
    pub(crate) frequency_penalty: Option<f32>,
    pub(crate) presence_penalty: Option<f32>,
}

impl Sampling {
    /// Sets the parameters in Ollama's options.
    pub(crate) fn set_in(self, options: &mut Map<String, Value>) {
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                options.insert(name.to_owned(), value);
            }
        };
        set("num_predict", self.max_tokens.map(Value::from));
        set("temperature", self.temperature.map(Value::from));
        set("top_p", self.top_p.map(Value::from));
        set("top_k", self.top_k.map(Value::from));
        set("seed", self.seed.map(Value::from));
        set("stop", self.stop.map(Value::from));
        set("frequency_penalty", self.frequency_penalty.map(Value::from));
        set("presence_penalty", self.presence_penalty.map(Value::from));
    }
}
