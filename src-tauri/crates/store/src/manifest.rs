//! Manifests: JSON files that list the layers of a model. Registries write them, so every field is untrusted. Manifests written
//! here have Ollama's fields in Ollama's order and end in a line break.

use serde::{Deserialize, Serialize};

use crate::Digest;

/// Parsed manifest, with the fields that Cairn needs.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// Digest of the manifest's own bytes: the model's identity.
    pub digest: Digest,
    /// Value of `schemaVersion`. Only version 2 references blobs by digest.
    pub schema_version: Option<u64>,
    /// Layer with the model's [`Config`].
    pub config: Option<Layer>,
    /// Layers in the manifest's order.
    pub layers: Vec<Layer>,
}

/// Reference to one blob of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// Purpose of the blob.
    pub kind: LayerKind,
    /// Digest of the blob.
    pub digest: Digest,
    /// Length of the blob according to the manifest.
    pub size_bytes: u64,
}

/// Purpose of a layer, from its media type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayerKind {
    /// GGUF file.
    Model,
    /// Go template for prompts.
    Template,
    /// System message.
    System,
    /// JSON object of options.
    Params,
    /// Licence text.
    License,
    /// JSON array of messages that precede every conversation.
    Messages,
    /// Other media type.
    Other(String),
}

/// Description of a model by its publisher. Missing fields are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names are the config's own and mean what Ollama documents")]
pub struct Config {
    pub model_format: String,
    pub model_family: String,
    pub model_families: Option<Vec<String>>,
    pub model_type: String,
    pub file_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding_length: Option<u64>,
    /// Name of Ollama's built-in renderer that formats prompts instead of a template.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub renderer: String,
    /// Name of Ollama's built-in parser for answers.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub parser: String,
    /// Oldest version of Ollama that can run the model.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub requires: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remote_host: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remote_model: String,
}

impl Config {
    /// Serializes the config as a blob.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        #[derive(Serialize)]
        struct Blob<'a> {
            #[serde(flatten)]
            config: &'a Config,
            // Fields of container images. Every config of Ollama has these values, on any machine.
            architecture: &'static str,
            os: &'static str,
        }
        let blob = Blob { config: self, architecture: "amd64", os: "linux" };
        serde_json::to_vec(&blob).expect("texts and numbers can be JSON")
    }
}

impl Manifest {
    /// Parses a manifest.
    ///
    /// # Errors
    /// The reason: invalid JSON, an invalid digest, too many layers, or impossible sizes.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Json {
            #[serde(default, rename = "schemaVersion")]
            schema_version: Option<u64>,
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
        if json.layers.len() > MAX_LAYERS {
            return Err(format!("it has {} layers; the maximum is {MAX_LAYERS}", json.layers.len()));
        }
        let read = Self {
            digest: Digest::of(bytes),
            schema_version: json.schema_version,
            // Very old manifests have a config object without a digest.
            config: json.config.filter(|config| !config.digest.is_empty()).map(layer).transpose()?,
            layers: json.layers.into_iter().map(layer).collect::<Result<_, _>>()?,
        };
        match read.size_bytes() {
            0..=MAX_BYTES => Ok(read),
            more => Err(format!("its sizes add up to {more} bytes, which no disk holds")),
        }
    }

    /// Serializes a manifest of these layers.
    #[must_use]
    pub fn to_json(config: &Layer, layers: &[Layer]) -> Vec<u8> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Json<'a> {
            schema_version: u32,
            media_type: &'static str,
            config: JsonLayer<'a>,
            layers: Vec<JsonLayer<'a>>,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct JsonLayer<'a> {
            media_type: std::borrow::Cow<'a, str>,
            digest: String,
            size: u64,
        }
        fn json(layer: &Layer) -> JsonLayer<'_> {
            JsonLayer { media_type: layer.kind.media_type(), digest: layer.digest.to_string(), size: layer.size_bytes }
        }
        let manifest = Json {
            schema_version: 2,
            media_type: "application/vnd.docker.distribution.manifest.v2+json",
            config: json(config),
            layers: layers.iter().map(json).collect(),
        };
        let mut bytes = serde_json::to_vec(&manifest).expect("texts and numbers can be JSON");
        bytes.push(b'\n');
        bytes
    }

    /// Returns the size of all layers and the config.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.layers.iter().chain(&self.config).fold(0, |sum, layer| sum.saturating_add(layer.size_bytes))
    }

    /// Returns the first layer of a kind.
    #[must_use]
    pub fn layer(&self, kind: &LayerKind) -> Option<&Layer> {
        self.layers.iter().find(|layer| layer.kind == *kind)
    }
}

/// Maximum number of layers of a manifest. Each layer costs file accesses and a request. Split models have at most a few
/// hundred layers, and Ollama's models of single tensors about a thousand.
pub const MAX_LAYERS: usize = 4096;
/// Upper limit for the size of a model, 2^60 (an exbibyte). A larger size is an error or an attack.
const MAX_BYTES: u64 = 1 << 60;
/// Prefix of Ollama's media types.
const IMAGE: &str = "application/vnd.ollama.image.";
/// Media type of a config.
const CONFIG: &str = "application/vnd.docker.container.image.v1+json";

impl LayerKind {
    /// Returns the kind of a config layer.
    #[must_use]
    pub fn config() -> Self {
        Self::Other(CONFIG.to_owned())
    }

    pub(crate) fn media_type(&self) -> std::borrow::Cow<'_, str> {
        let word = match self {
            Self::Model => "model",
            Self::Template => "template",
            Self::System => "system",
            Self::Params => "params",
            Self::License => "license",
            Self::Messages => "messages",
            Self::Other(media_type) => return media_type.into(),
        };
        format!("{IMAGE}{word}").into()
    }

    fn of(media_type: &str) -> Self {
        match media_type.strip_prefix(IMAGE) {
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
    fn manifest_is_parsed() {
        let digest = Digest::of(b"x");
        let json = format!(
            r#"{{"schemaVersion":2,"config":{{"digest":"{digest}","size":5}},"layers":[
                {{"mediaType":"application/vnd.ollama.image.model","digest":"{digest}","size":100,"from":"y"}},
                {{"mediaType":"application/vnd.ollama.image.prompt","digest":"{digest}","size":1}},
                {{"mediaType":"application/vnd.ollama.image.embed","digest":"{digest}"}}]}}"#
        );
        let manifest = Manifest::parse(json.as_bytes()).unwrap();
        assert_eq!(manifest.digest, Digest::of(json.as_bytes()), "the manifest's digest identifies the model");
        assert_eq!(manifest.size_bytes(), 106, "config and layers");
        assert!(manifest.layer(&LayerKind::Template).is_some(), "`prompt` is the old name of `template`");
        assert!(manifest.layer(&LayerKind::System).is_none(), "no such layer");
    }

    #[test]
    fn manifest_and_config_round_trip() {
        let digest = Digest::of(b"x");
        let layer = |kind, size_bytes| Layer { kind, digest, size_bytes };
        let kinds = [LayerKind::Model, LayerKind::Params, LayerKind::Messages, LayerKind::Other("a/b".to_owned())];
        let layers: Vec<Layer> = kinds.into_iter().map(|kind| layer(kind, 7)).collect();
        let bytes = Manifest::to_json(&layer(LayerKind::config(), 5), &layers);
        let text = String::from_utf8(bytes.clone()).unwrap();
        let start = format!(
            r#"{{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json","config":{{"mediaType":"application/vnd.docker.container.image.v1+json","digest":"{digest}","size":5}},"layers":[{{"mediaType":"application/vnd.ollama.image.model","digest":"{digest}","size":7}},"#
        );
        assert!(text.starts_with(&start) && text.ends_with("}]}\n"), "Ollama's fields in Ollama's order: {text}");
        let read = Manifest::parse(&bytes).unwrap();
        let kinds = |layers: &[Layer]| layers.iter().map(|layer| layer.kind.clone()).collect::<Vec<_>>();
        assert_eq!(kinds(&read.layers), kinds(&layers), "every kind is read as written");

        let config = Config { model_family: "llama".to_owned(), file_type: "Q8_0".to_owned(), ..Config::default() };
        let json = config.to_json();
        assert_eq!(serde_json::from_slice::<Config>(&json).unwrap(), config, "a config round-trips");
        assert!(
            String::from_utf8(json).unwrap().ends_with(r#""architecture":"amd64","os":"linux"}"#),
            "same fields as Ollama"
        );
    }

    #[test]
    fn invalid_manifests_are_rejected() {
        for json in ["", "{", "[]", r#"{"layers":[{"digest":"sha256:../../x"}]}"#, r#"{"layers":[{"size":-1}]}"#] {
            assert!(Manifest::parse(json.as_bytes()).is_err(), "{json:?}");
        }
        let digest = Digest::of(b"x");
        let sized = |sizes: &[u64]| {
            let layers: Vec<String> =
                sizes.iter().map(|size| format!(r#"{{"digest":"{digest}","size":{size}}}"#)).collect();
            Manifest::parse(format!(r#"{{"layers":[{}]}}"#, layers.join(",")).as_bytes())
        };
        assert!(sized(&[1 << 60]).is_ok(), "the limit itself is allowed");
        assert!(sized(&[1; MAX_LAYERS]).is_ok(), "the maximum of layers");
        let error = sized(&[1; MAX_LAYERS + 1]).expect_err("too many layers");
        assert_eq!(error, "it has 4097 layers; the maximum is 4096", "the error has both numbers");
        for sizes in [&[1 << 60, 1][..], &[u64::MAX, u64::MAX]] {
            let error = sized(sizes).expect_err("larger than the limit");
            assert!(error.contains("no disk holds"), "{sizes:?}: {error}");
        }
    }
}
