//! Manifests as registries send them: the very bytes, because the model is known by their digest.

use bytes::Bytes;
use cairn_store::{Digest, Manifest, ModelRef};
use reqwest::{Method, StatusCode};

use super::exchange::Question;
use super::registry::{Registry, scope};
use crate::{Seal, SourceError};

/// What Ollama's registry keeps, and the only kind that a library can hold.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.docker.distribution.manifest.v2+json";
/// As much as a library reads back.
const MAX_MANIFEST_BYTES: usize = 8 << 20;

/// A manifest that a registry sent.
#[derive(Debug, Clone)]
pub struct ManifestBytes {
    /// Byte for byte what came; a library keeps it so.
    pub bytes: Bytes,
    /// What it says; its `digest` is that of the bytes.
    pub manifest: Manifest,
}

impl Registry {
    /// The manifest of a name.
    ///
    /// # Errors
    /// As asking a registry; [`SourceError::Refused`] also for what is no manifest, is longer than 8 MiB or does not have
    /// the digest that the registry says it has.
    pub async fn manifest(&self, name: &ModelRef) -> Result<ManifestBytes, SourceError> {
        self.manifest_at(name, name.tag(), None).await
    }

    /// The manifest of a digest, in a name's repository.
    ///
    /// # Errors
    /// As [`Registry::manifest`]; [`SourceError::Refused`] also where the bytes have another digest.
    pub async fn manifest_of(&self, name: &ModelRef, digest: &Digest) -> Result<ManifestBytes, SourceError> {
        self.manifest_at(name, &digest.to_string(), Some(digest)).await
    }

    async fn manifest_at(
        &self,
        name: &ModelRef,
        reference: &str,
        wanted: Option<&Digest>,
    ) -> Result<ManifestBytes, SourceError> {
        let url = self.url(name, &format!("manifests/{reference}"));
        let question = Question::new(Method::GET, url, scope(name, false)).with("accept", MEDIA_TYPE);
        let mut answer = self.ask(&question).await?;
        if answer.status() != StatusCode::OK {
            return Err(answer.into_error().await);
        }
        let told = answer.header("docker-content-digest").map(str::to_owned);
        let bytes = answer.whole(MAX_MANIFEST_BYTES).await?;
        let manifest = Manifest::parse(&bytes)
            .map_err(|reason| answer.refused(format!("what it sent as the manifest is none: {reason}")))?;
        let got = manifest.digest;
        // Another algorithm than SHA-256 says nothing that can be compared.
        let told = told.filter(|told| told.starts_with("sha256:"));
        if told.is_some_and(|told| told.parse() != Ok(got)) || wanted.is_some_and(|wanted| *wanted != got) {
            return Err(answer.refused(format!("the manifest that it sent has another digest, {got}, than it says")));
        }
        // A digest needs nobody's word; a tag does.
        if let (Some(key), None) = (&self.pinned, wanted) {
            let seal = answer.header(Seal::HEADER).map(Seal::from_text);
            let seal = seal
                .ok_or_else(|| answer.refused("it did not sign what it says of the name, as a joined mirror does"))?;
            seal.check(key, name, &got, self.now()).map_err(|reason| answer.refused(reason))?;
        }
        Ok(ManifestBytes { bytes, manifest })
    }
}
