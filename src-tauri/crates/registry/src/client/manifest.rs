//! Requests for manifests. The exact bytes are kept, because their digest identifies the model.

use bytes::Bytes;
use cairn_store::{Digest, Manifest, ModelRef};
use reqwest::{Method, StatusCode};

use super::registry::{Registry, scope};
use super::request::Request;
use crate::{ManifestSignature, SourceError};

/// The manifest type of Ollama's registry, the only one that a library can store.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.docker.distribution.manifest.v2+json";
/// Maximum size of a manifest, the same as in `cairn_store`.
const MAX_MANIFEST_BYTES: usize = 8 << 20;

/// A manifest from a registry.
#[derive(Debug, Clone)]
pub struct FetchedManifest {
    /// The exact bytes from the registry.
    pub bytes: Bytes,
    /// The parsed manifest; its `digest` is that of the bytes.
    pub manifest: Manifest,
}

impl Registry {
    /// Fetches the manifest of a name.
    ///
    /// # Errors
    /// If the request fails. [`SourceError::InvalidManifest`] if the response is not a manifest. [`SourceError::Refused`] if it
    /// is longer than 8 MiB, does not match the digest in its header, or has no valid signature of a pinned mirror.
    pub async fn manifest(&self, name: &ModelRef) -> Result<FetchedManifest, SourceError> {
        self.manifest_at(name, name.tag(), None).await
    }

    /// Fetches a manifest of a name's repository by digest.
    ///
    /// # Errors
    /// As [`Registry::manifest`]; [`SourceError::Refused`] also if the bytes have another digest.
    pub async fn manifest_by_digest(&self, name: &ModelRef, digest: &Digest) -> Result<FetchedManifest, SourceError> {
        self.manifest_at(name, &digest.to_string(), Some(digest)).await
    }

    async fn manifest_at(
        &self,
        name: &ModelRef,
        reference: &str,
        expected: Option<&Digest>,
    ) -> Result<FetchedManifest, SourceError> {
        let url = self.url(name, &format!("manifests/{reference}"));
        let request = Request::new(Method::GET, url, scope(name, false)).with_header("accept", MEDIA_TYPE);
        let mut response = self.execute(&request).await?;
        if response.status() != StatusCode::OK {
            return Err(response.into_error().await);
        }
        let header_digest = response.header("docker-content-digest").map(str::to_owned);
        let bytes = response.read_to_end(MAX_MANIFEST_BYTES).await?;
        let manifest = Manifest::parse(&bytes)
            .map_err(|reason| SourceError::InvalidManifest { host: self.host().to_owned(), reason })?;
        let got = manifest.digest;
        // Digests of other algorithms cannot be compared.
        let header_digest = header_digest.filter(|digest| digest.starts_with("sha256:"));
        if header_digest.is_some_and(|digest| digest.parse() != Ok(got))
            || expected.is_some_and(|expected| *expected != got)
        {
            return Err(response
                .refused(format!("its manifest has the digest {got}, which does not match the expected digest")));
        }
        // A tag must be signed by the pinned key; a digest proves itself.
        if let (Some(key), None) = (&self.pinned, expected) {
            let signature = response.header(ManifestSignature::HEADER).map(ManifestSignature::from_header);
            let signature =
                signature.ok_or_else(|| response.refused("it did not sign the manifest, as a joined mirror must"))?;
            signature.verify(key, name, &got, self.now()).map_err(|reason| response.refused(reason))?;
        }
        Ok(FetchedManifest { bytes, manifest })
    }
}
