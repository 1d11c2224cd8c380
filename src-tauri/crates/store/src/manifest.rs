//! Manifests: which contents make up a model. They are JSON files that registries wrote, so every field is untrusted.

use serde::Deserialize;

use crate::Digest;

/// A manifest, as far as running and showing a model needs it.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// Digest of the manifest's own bytes: the model's identity.
    pub digest: Digest,
    /// The model's description, when the manifest names one.
    pub config: Option<Layer>,
    /// Contents, in the manifest's order.
    pub layers: Vec<Layer>,
}

/// One of the contents of a model.
#[derive(Debug, Clone)]
pub struct Layer {
    /// What it is for.
    pub kind: LayerKind,
    /// Which contents.
    pub digest: Digest,
    /// Their length in bytes, as the manifest claims.
    pub size_bytes: u64,
}

/// What a layer is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayerKind {
    /// The GGUF file.
    Model,
    /// A Go template for prompts.
    Template,
    /// A system message.
    System,
    /// A JSON object of options.
    Params,
    /// A licence text.
    License,
    /// A JSON array of messages that precede every conversation.
    Messages,
    /// Anything else, by its media type.
    Other(String),
}

/// What a model is, as its publisher says. The fields that are not there are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names are the config's own and mean what Ollama documents")]
pub struct Config {
    pub model_format: String,
    pub model_family: String,
    pub model_families: Option<Vec<String>>,
    pub model_type: String,
    pub file_type: String,
    pub capabilities: Option<Vec<String>>,
    pub context_length: Option<u64>,
    pub embedding_length: Option<u64>,
    pub remote_host: String,
    pub remote_model: String,
}

impl Manifest {
    /// Reads a manifest's bytes.
    ///
    /// # Errors
    /// What is wrong with the JSON or with a digest in it.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Json {
            config: Option<JsonLayer>,
            #[serde(default)]
            layers: Vec<JsonLayer>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct JsonLayer {
            #[serde(default)]
            media_type: String,
            #[serde(default)]
            digest: String,
            #[serde(default)]
            size: u64,
        }
        let layer = |json: JsonLayer| {
            let digest = json.digest.parse::<Digest>().map_err(|error| format!("{error}: {:?}", error.0))?;
            Ok::<_, String>(Layer { kind: LayerKind::of(&json.media_type), digest, size_bytes: json.size })
        };
        let json: Json = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        Ok(Self {
            digest: Digest::of(bytes),
            // Very old manifests have a config object without a digest.
            config: json.config.filter(|config| !config.digest.is_empty()).map(layer).transpose()?,
            layers: json.layers.into_iter().map(layer).collect::<Result<_, _>>()?,
        })
    }

    /// Bytes of everything that the model is made of.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.layers.iter().chain(&self.config).fold(0, |sum, layer| sum.saturating_add(layer.size_bytes))
    }

    /// The first layer of a kind.
    #[must_use]
    pub fn layer(&self, kind: &LayerKind) -> Option<&Layer> {
        self.layers.iter().find(|layer| layer.kind == *kind)
    }
}

impl LayerKind {
    fn of(media_type: &str) -> Self {
        match media_type.strip_prefix("application/vnd.ollama.image.") {
            Some("model") => Self::Model,
            Some("template" | "prompt") => Self::Template,
            Some("system") => Self::System,
            Some("params") => Self::Params,
            Some("license") => Self::License,
            Some("messages") => Self::Messages,
            _ => Self::Other(media_type.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_manifest() {
        let digest = Digest::of(b"x");
        let json = format!(
            r#"{{"schemaVersion":2,"config":{{"digest":"{digest}","size":5}},"layers":[
                {{"mediaType":"application/vnd.ollama.image.model","digest":"{digest}","size":100,"from":"y"}},
                {{"mediaType":"application/vnd.ollama.image.prompt","digest":"{digest}","size":1}},
                {{"mediaType":"application/vnd.ollama.image.embed","digest":"{digest}"}}]}}"#
        );
        let manifest = Manifest::parse(json.as_bytes()).unwrap();
        assert_eq!(manifest.digest, Digest::of(json.as_bytes()), "a model is known by its manifest's bytes");
        assert_eq!(manifest.size_bytes(), 106, "config and layers");
        assert!(manifest.layer(&LayerKind::Template).is_some(), "`prompt` is an old word for `template`");
        assert!(manifest.layer(&LayerKind::System).is_none(), "there is none");
    }

    #[test]
    fn refuses_bad_ones() {
        for json in ["", "{", "[]", r#"{"layers":[{"digest":"sha256:../../x"}]}"#, r#"{"layers":[{"size":-1}]}"#] {
            assert!(Manifest::parse(json.as_bytes()).is_err(), "{json:?}");
        }
    }
}
