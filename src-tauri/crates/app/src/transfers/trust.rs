//! Machines that know each other: codes to join by, keys that are let in, and what is signed for them.

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

use crate::transfers::error::Error;
use crate::transfers::handle::Transfers;

/// Longest name that another machine may give itself.
const MAX_LABEL_CHARS: usize = 80;

/// Whom this machine knows as a mirror.
pub(crate) struct Trust {
    /// Those for whom models are fetched.
    clients: Arc<PeerList>,
    token_issuer: TokenIssuer,
    invitation: Mutex<Option<Invitation>>,
}

/// A code by which another machine can join this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invited {
    /// To be typed there.
    pub code: String,
    /// Until when it is good.
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
    /// This machine's key, which is made when it is first needed.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn peer_key(&self) -> Result<PeerKey, Error> {
        Ok(self.pulls.outside().key().peer_key().await?)
    }

    /// A code by which another machine can join this one. The code before it is good no more.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn invite(&self) -> Result<Invited, Error> {
        let code = JoinCode::generate()?;
        let invitation = Invitation::new(code.clone(), self.clock.now());
        let until = invitation.expires_at();
        *self.trust.invitation() = Some(invitation);
        Ok(Invited { code: code.to_string(), until })
    }

    /// Another machine asks to join: its key is known from now on, if it proves that it knows the code.
    ///
    /// # Errors
    /// When it does not, or its key cannot be written down.
    pub async fn admit(&self, mut asked: JoinRequest) -> Result<JoinProof, Error> {
        let mine = self.peer_key().await?;
        let taken = Invitation::redeem(&mut self.trust.invitation(), mine, &asked, self.clock.now());
        let Some(proof) = taken else {
            tracing::warn!("another machine asked to join, without a code that is good");
            return Err(JoinError::Refused.into());
        };
        asked.label = asked.label.chars().filter(|c| !c.is_control()).take(MAX_LABEL_CHARS).collect();
        tracing::info!(key = asked.key.fingerprint(), label = asked.label, "another machine joined");
        self.know(TrustedPeer { key: asked.key, label: asked.label }).await?;
        Ok(proof)
    }

    /// Joins the mirror at an address by the code that it shows. `label` is what it will call this machine.
    ///
    /// # Errors
    /// When the code is none, or the mirror is another one or does not take it.
    pub async fn join(&self, address: &str, code: &str, label: &str) -> Result<PeerKey, Error> {
        let code: JoinCode = code.parse()?;
        self.pulls.outside().join(address, &code, label).await
    }

    /// Lets the owner of a key have models fetched; `line` is OpenSSH's, and its comment is what the key is called.
    ///
    /// # Errors
    /// When it is no key, or cannot be written down.
    pub async fn allow(&self, line: &str) -> Result<PeerKey, Error> {
        let key: PeerKey = line.parse()?;
        let label: String = line.split_whitespace().skip(2).collect::<Vec<_>>().join(" ");
        self.know(TrustedPeer { key, label: label.chars().take(MAX_LABEL_CHARS).collect() }).await?;
        Ok(key)
    }

    /// Forgets keys and mirrors of that label, key or fingerprint, and returns how many those were.
    ///
    /// # Errors
    /// When a list cannot be read or written.
    pub async fn forget_peer(&self, which: &str) -> Result<usize, Error> {
        let (clients, transfers, which) = (Arc::clone(&self.trust.clients), self.clone(), which.to_owned());
        let removed = spawn_blocking(move || {
            let mirrors = transfers.pulls.outside().joined();
            let removed = clients.remove(&which)?;
            let keys: Vec<PeerKey> = clients.read()?.iter().map(|known| known.key).collect();
            transfers.trust.token_issuer.retain_keys(&keys);
            Ok::<_, Error>(removed + mirrors.remove(which.trim_end_matches('/'))?)
        });
        let removed = removed.await.expect("writing a list does not panic")?;
        self.pulls.outside().replace_mirrors()?;
        Ok(removed)
    }

    /// Keys for whose owners models are fetched, and mirrors that were joined.
    ///
    /// # Errors
    /// When a list cannot be read.
    pub fn known_peers(&self) -> Result<(Vec<TrustedPeer>, Vec<TrustedPeer>), Error> {
        Ok((self.trust.clients.read()?, self.pulls.outside().joined().read()?))
    }

    /// A token for who signed the address of the token server.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn enter(&self, url: String, authorization: String) -> Result<String, TokenError> {
        let transfers = self.clone();
        let entered = spawn_blocking(move || {
            let trust = &transfers.trust;
            trust.token_issuer.issue(&url, &authorization, transfers.clock.now(), |key| trust.clients.contains(key))
        });
        entered.await.expect("checking a signature does not panic")
    }

    /// Is that a token of [`App::enter`]?
    #[must_use]
    pub fn admits(&self, token: &str) -> bool {
        self.trust.token_issuer.is_valid(token, self.clock.now())
    }

    /// This machine's word that a name means a manifest, for those who joined it.
    ///
    /// # Errors
    /// Why there is no key.
    pub async fn seal(&self, name: &ModelRef, digest: &Digest) -> Result<ManifestSignature, Error> {
        Ok(ManifestSignature::sign(self.pulls.outside().key(), name, digest, self.clock.now()).await?)
    }

    async fn know(&self, known: TrustedPeer) -> Result<(), Error> {
        let clients = Arc::clone(&self.trust.clients);
        let added = spawn_blocking(move || clients.add(known));
        Ok(added.await.expect("writing a list does not panic")?)
    }
}
