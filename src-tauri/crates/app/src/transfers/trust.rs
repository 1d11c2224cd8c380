//! Trust between machines: join codes, keys of clients, tokens and signatures.

use parking_lot::{Mutex, MutexGuard};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use cairn_disk::RealDisk;
use cairn_registry::{
    Invitation, JoinCode, JoinError, JoinProof, JoinRequest, ManifestSignature, PeerKey, PeerList, TokenError,
    TokenIssuer, TrustedPeer,
};
use cairn_store::{Digest, ModelRef};
use tokio::task::spawn_blocking;

use crate::transfers::Transfers;
use crate::transfers::error::Error;

/// Maximum length of the label that another machine gives itself.
const MAX_LABEL_CHARS: usize = 80;

/// Trusted clients of this machine as a mirror.
pub(crate) struct Trust {
    /// Keys of clients for which models are downloaded.
    clients: Arc<PeerList>,
    token_issuer: TokenIssuer,
    invitation: Mutex<Option<Invitation>>,
}

/// A code with which another machine can join this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invited {
    /// The code, to be typed on the other machine.
    pub code: String,
    /// When the code expires.
    pub until: SystemTime,
}

impl Trust {
    pub(crate) fn new(clients_file: PathBuf) -> Self {
        let clients = Arc::new(PeerList::new(clients_file, Arc::new(RealDisk)));
        Self { clients, token_issuer: TokenIssuer::default(), invitation: Mutex::default() }
    }

    fn invitation(&self) -> MutexGuard<'_, Option<Invitation>> {
        self.invitation.lock()
    }
}

impl Transfers {
    /// Returns this machine's key, which is created on first use.
    ///
    /// # Errors
    /// If the key cannot be read or created.
    pub async fn peer_key(&self) -> Result<PeerKey, Error> {
        Ok(self.pulls.registry_access().key().peer_key().await?)
    }

    /// Creates a code with which another machine can join this one. Invalidates the previous code.
    ///
    /// # Errors
    /// If the system supplies no random numbers.
    pub fn invite(&self) -> Result<Invited, Error> {
        let code = JoinCode::generate()?;
        let invitation = Invitation::new(code.clone(), self.clock.now());
        let until = invitation.expires_at();
        *self.trust.invitation() = Some(invitation);
        Ok(Invited { code: code.to_string(), until })
    }

    /// Handles the join request of another machine: trusts its key if it proves knowledge of the code.
    ///
    /// # Errors
    /// If the proof is wrong, or the key cannot be stored.
    pub async fn admit(&self, mut request: JoinRequest) -> Result<JoinProof, Error> {
        let own_key = self.peer_key().await?;
        let redeemed = Invitation::redeem(&mut self.trust.invitation(), own_key, &request, self.clock.now());
        let Some(proof) = redeemed else {
            tracing::warn!("refused a join request without a valid code");
            return Err(JoinError::Refused.into());
        };
        request.label = request.label.chars().filter(|c| !c.is_control()).take(MAX_LABEL_CHARS).collect();
        tracing::info!(key = request.key.fingerprint(), label = request.label, "another machine joined");
        self.add_client(TrustedPeer { key: request.key, label: request.label }).await?;
        Ok(proof)
    }

    /// Joins the mirror at an address with the code that it displays. `label` is this machine's name there.
    ///
    /// # Errors
    /// If the code is invalid, or the mirror refuses it or has another key.
    pub async fn join(&self, address: &str, code: &str, label: &str) -> Result<PeerKey, Error> {
        let code: JoinCode = code.parse()?;
        self.pulls.registry_access().join(address, &code, label).await
    }

    /// Trusts a key, so that models are downloaded for its owner. `line` is in OpenSSH's format; its comment becomes
    /// the label.
    ///
    /// # Errors
    /// If the key is invalid, or cannot be stored.
    pub async fn allow(&self, line: &str) -> Result<PeerKey, Error> {
        let key: PeerKey = line.parse()?;
        let label: String = line.split_whitespace().skip(2).collect::<Vec<_>>().join(" ");
        self.add_client(TrustedPeer { key, label: label.chars().take(MAX_LABEL_CHARS).collect() }).await?;
        Ok(key)
    }

    /// Removes keys and mirrors by label, key or fingerprint. Returns how many were removed.
    ///
    /// # Errors
    /// If a list cannot be read or written.
    pub async fn forget_peer(&self, which: &str) -> Result<usize, Error> {
        let (clients, transfers, which) = (Arc::clone(&self.trust.clients), self.clone(), which.to_owned());
        let removed = spawn_blocking(move || {
            let mirrors = transfers.pulls.registry_access().trusted_mirrors();
            let removed = clients.remove(&which)?;
            let keys: Vec<PeerKey> = clients.read()?.iter().map(|client| client.key).collect();
            transfers.trust.token_issuer.retain_keys(&keys);
            Ok::<_, Error>(removed + mirrors.remove(which.trim_end_matches('/'))?)
        });
        let removed = removed.await.expect("writing a list does not panic")?;
        self.pulls.registry_access().replace_mirrors()?;
        Ok(removed)
    }

    /// Lists the keys of trusted clients, and the joined mirrors.
    ///
    /// # Errors
    /// If a list cannot be read.
    pub fn known_peers(&self) -> Result<(Vec<TrustedPeer>, Vec<TrustedPeer>), Error> {
        Ok((self.trust.clients.read()?, self.pulls.registry_access().trusted_mirrors().read()?))
    }

    /// Issues a token to a client that signed the address of the token server.
    ///
    /// # Errors
    /// If the signature is invalid or the key is not trusted.
    pub async fn enter(&self, url: String, authorization: String) -> Result<String, TokenError> {
        let transfers = self.clone();
        let issued = spawn_blocking(move || {
            let trust = &transfers.trust;
            trust.token_issuer.issue(&url, &authorization, transfers.clock.now(), |key| trust.clients.contains(key))
        });
        issued.await.expect("checking a signature does not panic")
    }

    /// Whether a token is from [`enter`](Self::enter) and has not expired.
    #[must_use]
    pub fn admits(&self, token: &str) -> bool {
        self.trust.token_issuer.is_valid(token, self.clock.now())
    }

    /// Signs the manifest of a name for machines that joined this one.
    ///
    /// # Errors
    /// If the key cannot be used.
    pub async fn sign_manifest(&self, name: &ModelRef, digest: &Digest) -> Result<ManifestSignature, Error> {
        Ok(ManifestSignature::sign(self.pulls.registry_access().key(), name, digest, self.clock.now()).await?)
    }

    async fn add_client(&self, client: TrustedPeer) -> Result<(), Error> {
        let clients = Arc::clone(&self.trust.clients);
        let added = spawn_blocking(move || clients.add(client));
        Ok(added.await.expect("writing a list does not panic")?)
    }
}
