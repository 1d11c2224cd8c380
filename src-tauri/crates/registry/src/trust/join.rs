//! Joining a mirror: two machines exchange keys, authenticated by a one-time code.
//!
//! ```text
//! mirror: generates a code of 100 bits, shows it, accepts it for ten minutes
//! client: requests the mirror's key
//! client -> mirror: its key, a nonce, HMAC-SHA256(code, "client" | mirror's key | client's key | nonce)
//! mirror -> client: HMAC-SHA256(code, "mirror" | the same)
//! ```
//!
//! A machine in the middle cannot substitute its own key: it does not know the code, which is never sent. The mirror
//! discards the code after one use or after five wrong proofs.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use reqwest::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::client::{Registry, Transport};
use crate::{AddressError, Credentials, KeyError, KeyFile, PeerKey, SourceError};

/// Lifetime of a code.
const LIFE: Duration = Duration::from_secs(600);
/// Wrong proofs after which a code is invalid.
const MAX_WRONG_PROOFS: u32 = 5;
/// Characters of a code, five bits each.
const CODE_CHARS: usize = 20;
/// The base32 alphabet (RFC 4648, section 6).
const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
/// Maximum size of a response.
const MAX_RESPONSE_BYTES: usize = 16 << 10;

/// A code that the user carries from the mirror to the client: `ABCDE-FGHIJ-KLMNO-PQRST`.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinCode([u8; CODE_CHARS]);

/// Error of joining a mirror.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The text is not a code.
    #[error(
        "invalid join code; a code looks like ABCDE-FGHIJ-KLMNO-PQRST, and `cairn mirror serve` shows it at the mirror"
    )]
    Code,
    /// The mirror has no valid code, or a different one.
    #[error(
        "the mirror rejected the join code: a code is valid for ten minutes, one use and five tries; run `cairn mirror \
         serve` there for a new one"
    )]
    Refused,
    /// The server that answers does not know the code.
    #[error("the server at {0} does not know the join code, so it is not the mirror that showed it; it was not joined")]
    Impostor(String),
    /// The address of the mirror is invalid.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The mirror cannot be reached.
    #[error("cannot reach the mirror: {0}")]
    Source(#[from] SourceError),
    /// This machine's key is not available.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The system returned no random numbers.
    #[error("no random numbers: {0}")]
    Random(String),
}

/// The request of a client that joins a mirror.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JoinRequest {
    /// The client's key.
    pub key: PeerKey,
    /// The client's name, chosen by its user.
    pub label: String,
    /// A random number, in base64.
    pub nonce: String,
    /// HMAC that proves knowledge of the code, in base64.
    pub proof: String,
}

/// The response of a mirror.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JoinProof {
    /// The mirror's key.
    pub key: PeerKey,
    /// HMAC that proves knowledge of the code, in base64. `None` until a client has proven its knowledge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<String>,
}

/// A join code with its expiry time and the number of wrong proofs.
#[derive(Debug)]
pub struct Invitation {
    code: JoinCode,
    expires_at: SystemTime,
    wrong_proofs: u32,
}

impl JoinCode {
    /// Generates a code.
    ///
    /// # Errors
    /// If the system returns no random numbers.
    pub fn generate() -> Result<Self, JoinError> {
        let mut signs = [0_u8; CODE_CHARS];
        getrandom::fill(&mut signs).map_err(|error| JoinError::Random(error.to_string()))?;
        // Five bits of each byte: all characters are equally likely.
        let sign = |byte: u8| ALPHABET.get(usize::from(byte & 31)).copied().unwrap_or(b'A');
        Ok(Self(signs.map(sign)))
    }
}

impl FromStr for JoinCode {
    type Err = JoinError;

    fn from_str(text: &str) -> Result<Self, JoinError> {
        let signs = text.bytes().filter(|byte| !matches!(byte, b'-' | b' ')).map(|byte| byte.to_ascii_uppercase());
        let signs: Vec<u8> = signs.take(CODE_CHARS + 1).collect();
        let known = signs.iter().all(|sign| ALPHABET.contains(sign));
        signs.try_into().ok().filter(|_| known).map(Self).ok_or(JoinError::Code)
    }
}

impl fmt::Display for JoinCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, sign) in self.0.iter().enumerate() {
            if index > 0 && index % 5 == 0 {
                f.write_str("-")?;
            }
            write!(f, "{}", char::from(*sign))?;
        }
        Ok(())
    }
}

/// Hides the code, which is a secret while it is valid.
impl fmt::Debug for JoinCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinCode")
    }
}

impl Invitation {
    /// Creates an invitation with this code, valid from `now`.
    #[must_use]
    pub fn new(code: JoinCode, now: SystemTime) -> Self {
        Self { code, expires_at: now + LIFE, wrong_proofs: 0 }
    }

    /// When the invitation expires.
    #[must_use]
    pub fn expires_at(&self) -> SystemTime {
        self.expires_at
    }

    /// Redeems the invitation if the request proves knowledge of the code, and returns the mirror's proof. Returns `None`
    /// if the proof is wrong, or if the invitation is used, expired or had too many wrong proofs.
    pub fn redeem(
        invitation: &mut Option<Self>,
        mine: PeerKey,
        request: &JoinRequest,
        now: SystemTime,
    ) -> Option<JoinProof> {
        let open = invitation.as_mut().filter(|open| now < open.expires_at && open.wrong_proofs < MAX_WRONG_PROOFS)?;
        let is_proven = is_proof(&request.proof, &open.code, "client", &mine, &request.key, &request.nonce);
        if !is_proven || request.nonce.len() < 16 {
            open.wrong_proofs += 1;
            return None;
        }
        let proof = Some(proof(&open.code, "mirror", &mine, &request.key, &request.nonce));
        *invitation = None;
        Some(JoinProof { key: mine, proof })
    }
}

/// Joins the mirror at an address and returns its key, which the mirror has proven with the code.
///
/// # Errors
/// [`JoinError`].
pub async fn join_mirror(
    address: &str,
    code: &JoinCode,
    mine: &KeyFile,
    label: &str,
    transport: &Transport,
) -> Result<PeerKey, JoinError> {
    let registry = Registry::from_address(address, true, transport, Credentials::anonymous())?;
    let mut url = registry.base().clone();
    url.set_path("/v2/_cairn/join");
    let send = async |method: Method, body: Vec<u8>| {
        let headers = [(reqwest::header::CONTENT_TYPE, reqwest::header::HeaderValue::from_static("application/json"))];
        let headers = headers.into_iter().collect();
        let mut response = registry.send(method, &url, &headers, None, body.into()).await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED => return Err(JoinError::Refused),
            _ => return Err(response.into_error().await.into()),
        }
        let bytes = response.read_to_end(MAX_RESPONSE_BYTES).await?;
        serde_json::from_slice::<JoinProof>(&bytes)
            .map_err(|_| response.refused("the response is not from a Cairn mirror").into())
    };
    let theirs = send(Method::GET, Vec::new()).await?.key;
    let key = mine.peer_key().await?;
    let mut nonce = [0_u8; 24];
    getrandom::fill(&mut nonce).map_err(|error| JoinError::Random(error.to_string()))?;
    let nonce = STANDARD.encode(nonce);
    let proven = proof(code, "client", &theirs, &key, &nonce);
    let request = JoinRequest { key, label: label.to_owned(), nonce: nonce.clone(), proof: proven };
    let response = send(Method::POST, serde_json::to_vec(&request).expect("keys and texts are JSON")).await?;
    let is_proven = |proof: String| is_proof(&proof, code, "mirror", &theirs, &key, &nonce);
    let is_genuine = response.key == theirs && response.proof.is_some_and(is_proven);
    is_genuine.then_some(theirs).ok_or_else(|| JoinError::Impostor(registry.host().to_owned()))
}

/// The proof of one side (`client` or `mirror`) for these two keys and this nonce.
fn proof(code: &JoinCode, side: &str, mirror: &PeerKey, client: &PeerKey, nonce: &str) -> String {
    STANDARD.encode(mac(&code.0, &proof_text(side, mirror, client, nonce)).finalize().into_bytes())
}

/// Whether `proof` is the proof of this side, in constant time.
fn is_proof(proof: &str, code: &JoinCode, side: &str, mirror: &PeerKey, client: &PeerKey, nonce: &str) -> bool {
    let proof = STANDARD.decode(proof).unwrap_or_default();
    mac(&code.0, &proof_text(side, mirror, client, nonce)).verify_slice(&proof).is_ok()
}

fn proof_text<'a>(side: &'a str, mirror: &'a PeerKey, client: &'a PeerKey, nonce: &'a str) -> [&'a [u8]; 6] {
    // The parts cannot be shifted: both keys have a fixed length, and the nonce comes last.
    [b"cairn join 1 ", side.as_bytes(), b"\0", mirror.as_bytes(), client.as_bytes(), nonce.as_bytes()]
}

/// HMAC-SHA256 (RFC 2104) of a text in parts.
fn mac(key: &[u8], text: &[&[u8]]) -> Hmac<Sha256> {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    text.iter().fold(mac, |mac, part| mac.chain_update(part))
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn hmac_matches_rfc_4231() {
        let check = |key: &[u8], text: &[u8], expected: &str| {
            assert_eq!(hex::encode(mac(key, &[text]).finalize().into_bytes()), expected, "{key:?}")
        };
        check(&[0x0b; 20], b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
        let text = b"what do ya want for nothing?";
        check(b"Jefe", text, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        check(&[0xaa; 20], &[0xdd; 50], "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    }

    #[test]
    fn join_code_parses_case_and_separator_variants() {
        let code = JoinCode::generate().unwrap();
        let text = code.to_string();
        assert_eq!((text.len(), text.matches('-').count()), (23, 3), "{text}");
        for written in [text.clone(), text.to_lowercase(), text.replace('-', " "), text.replace('-', "")] {
            assert!(written.parse::<JoinCode>().is_ok_and(|read| read == code), "{written:?}");
        }
        for wrong in [String::new(), text[1..].to_owned(), format!("{text}A"), text.replace(&text[..1], "1")] {
            assert!(wrong.parse::<JoinCode>().is_err(), "{wrong:?}");
        }
        assert!(JoinCode::generate().unwrap() != code, "codes are random");
    }

    #[test]
    fn invitation_is_redeemed_once_and_ends_after_five_wrong_proofs() {
        let key = |byte: u8| {
            let mut wire = b"\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x20".to_vec();
            wire.extend([byte; 32]);
            PeerKey::from_field(&STANDARD.encode(wire)).expect("any 32 bytes are a key")
        };
        let (mirror, client, nonce) = (key(1), key(2), "a nonce of enough length".to_owned());
        let code = JoinCode::generate().unwrap();
        let right = JoinRequest {
            key: client,
            label: String::new(),
            proof: proof(&code, "client", &mirror, &client, &nonce),
            nonce: nonce.clone(),
        };
        let wrong = JoinRequest { key: key(3), ..right.clone() };
        let now = UNIX_EPOCH;
        let invited = || Some(Invitation::new(code.clone(), now));
        let mut open = invited();
        let response = Invitation::redeem(&mut open, mirror, &right, now).expect("the proof is correct");
        assert_eq!(
            response.proof,
            Some(proof(&code, "mirror", &mirror, &client, &nonce)),
            "the mirror proves its knowledge too"
        );
        assert_ne!(response.proof, Some(right.proof.clone()), "the mirror does not echo the client's proof");
        assert!(Invitation::redeem(&mut open, mirror, &right, now).is_none(), "an invitation can be redeemed once");
        let mut late = invited();
        assert!(
            Invitation::redeem(&mut late, mirror, &right, now + LIFE).is_none(),
            "an invitation expires after ten minutes"
        );
        let mut guessed = invited();
        for _ in 0..MAX_WRONG_PROOFS {
            assert!(Invitation::redeem(&mut guessed, mirror, &wrong, now).is_none(), "the proof is for another key");
        }
        assert!(
            Invitation::redeem(&mut guessed, mirror, &right, now).is_none(),
            "five wrong proofs end the invitation"
        );
        assert!(Invitation::redeem(&mut invited(), key(9), &right, now).is_none(), "the proof is for another mirror");
    }
}
