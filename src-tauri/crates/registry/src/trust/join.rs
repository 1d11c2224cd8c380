//! Joining a mirror: two machines learn each other's key by a code that is good once.
//!
//! ```text
//! mirror: draws a code of 100 bits, shows it, keeps it ten minutes
//! client: asks for the mirror's key
//! client -> mirror: its key, a nonce, HMAC-SHA256(code, "client" | mirror's key | client's key | nonce)
//! mirror -> client: HMAC-SHA256(code, "mirror" | the same)
//! ```
//!
//! Nobody in between can put in a key of his own: he would have to know the code, which never travels. The mirror forgets
//! it once it was used, or after five proofs that were wrong.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::PeerKey;
use crate::client::{Registry, Transport};
use crate::{AddressError, KeyError, KeyFile, SignIn, SourceError};

/// How long a code is good.
const LIFE: Duration = Duration::from_secs(600);
/// Wrong proofs after which it is not.
const TRIES: u32 = 5;
/// Signs of a code, of five bits each.
const SIGNS: usize = 20;
/// RFC 4648, section 6.
const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
/// Most of an answer that is read.
const MAX_ANSWER_BYTES: usize = 16 << 10;

/// A code that one user carries from one machine to another: `ABCDE-FGHIJ-KLMNO-PQRST`.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinCode([u8; SIGNS]);

/// Why two machines do not know each other now.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// A text that is no code.
    #[error("that is no code; one looks like ABCDE-FGHIJ-KLMNO-PQRST, and `cairn mirror serve` shows it at the mirror")]
    Code,
    /// The mirror has no code now, or another one.
    #[error(
        "the mirror does not take the code: a code is good for ten minutes, once, and for five tries; `cairn mirror serve` \
         there shows a new one"
    )]
    Refused,
    /// Whoever answers does not know the code.
    #[error("what answers at {0} does not know the code: it is not the mirror that showed it, and was not joined")]
    Impostor(String),
    /// The mirror cannot be asked.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The mirror cannot be asked.
    #[error("the mirror cannot be asked: {0}")]
    Source(#[from] SourceError),
    /// There is no key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The system gave no random numbers.
    #[error("no random numbers: {0}")]
    Random(String),
}

/// What a client sends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JoinRequest {
    /// Its key.
    pub key: PeerKey,
    /// What its user calls the machine.
    pub label: String,
    /// Never used before, in base64.
    pub nonce: String,
    /// That it knows the code, in base64.
    pub proof: String,
}

/// What a mirror sends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JoinProof {
    /// Its key.
    pub key: PeerKey,
    /// That it knows the code, in base64; none while nobody has proven anything to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<String>,
}

/// A code that is good for a while.
#[derive(Debug)]
pub struct Invitation {
    code: JoinCode,
    until: SystemTime,
    wrong: u32,
}

impl JoinCode {
    /// A new one.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn draw() -> Result<Self, JoinError> {
        let mut signs = [0_u8; SIGNS];
        getrandom::fill(&mut signs).map_err(|error| JoinError::Random(error.to_string()))?;
        // Of each byte five bits, which leaves every sign as likely as any other.
        let sign = |byte: u8| ALPHABET.get(usize::from(byte & 31)).copied().unwrap_or(b'A');
        Ok(Self(signs.map(sign)))
    }
}

impl FromStr for JoinCode {
    type Err = JoinError;

    fn from_str(text: &str) -> Result<Self, JoinError> {
        let signs = text.bytes().filter(|byte| !matches!(byte, b'-' | b' ')).map(|byte| byte.to_ascii_uppercase());
        let signs: Vec<u8> = signs.take(SIGNS + 1).collect();
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

/// It is a secret while it is good.
impl fmt::Debug for JoinCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinCode")
    }
}

impl Invitation {
    /// By that code, from now on.
    #[must_use]
    pub fn new(code: JoinCode, now: SystemTime) -> Self {
        Self { code, until: now + LIFE, wrong: 0 }
    }

    /// Until when it is good.
    #[must_use]
    pub fn until(&self) -> SystemTime {
        self.until
    }

    /// Takes it, where the request proves that it knows the code: the mirror's proof. `None` where it does not. An
    /// invitation that was taken, is too old or was guessed at too often is gone.
    pub fn take(
        invitation: &mut Option<Self>,
        mine: PeerKey,
        asked: &JoinRequest,
        now: SystemTime,
    ) -> Option<JoinProof> {
        let open = invitation.as_mut().filter(|open| now < open.until && open.wrong < TRIES)?;
        let parts = |side| proof(&open.code, side, &mine, &asked.key, &asked.nonce);
        if !same(&parts("client"), &asked.proof) || asked.nonce.len() < 16 {
            open.wrong += 1;
            return None;
        }
        let proof = Some(parts("mirror"));
        *invitation = None;
        Some(JoinProof { key: mine, proof })
    }
}

/// Joins the mirror at an address: its key, which is proven to be that of the machine that showed the code.
///
/// # Errors
/// [`JoinError`].
pub async fn ask_to_join(
    address: &str,
    code: &JoinCode,
    mine: &KeyFile,
    label: &str,
    transport: &Transport,
) -> Result<PeerKey, JoinError> {
    let registry = Registry::at(address, true, transport, SignIn::anonymous())?;
    let mut url = registry.base().clone();
    url.set_path("/v2/_cairn/join");
    let ask = async |method: Method, body: Vec<u8>| {
        let headers = [(reqwest::header::CONTENT_TYPE, reqwest::header::HeaderValue::from_static("application/json"))];
        let headers = headers.into_iter().collect();
        let mut answer = registry.send(method, &url, &headers, None, body.into()).await?;
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED => return Err(JoinError::Refused),
            _ => return Err(answer.into_error().await.into()),
        }
        let bytes = answer.whole(MAX_ANSWER_BYTES).await?;
        serde_json::from_slice::<JoinProof>(&bytes)
            .map_err(|_| answer.refused("it does not answer as a mirror of Cairn's does").into())
    };
    let theirs = ask(Method::GET, Vec::new()).await?.key;
    let key = mine.peer_key().await?;
    let mut nonce = [0_u8; 24];
    getrandom::fill(&mut nonce).map_err(|error| JoinError::Random(error.to_string()))?;
    let nonce = STANDARD.encode(nonce);
    let proven = proof(code, "client", &theirs, &key, &nonce);
    let request = JoinRequest { key, label: label.to_owned(), nonce: nonce.clone(), proof: proven };
    let answer = ask(Method::POST, serde_json::to_vec(&request).expect("keys and texts are JSON")).await?;
    let expected = proof(code, "mirror", &theirs, &key, &nonce);
    let genuine = answer.key == theirs && answer.proof.is_some_and(|proof| same(&expected, &proof));
    genuine.then_some(theirs).ok_or_else(|| JoinError::Impostor(registry.host().to_owned()))
}

/// That a side knows the code, for these two keys and this nonce.
fn proof(code: &JoinCode, side: &str, mirror: &PeerKey, client: &PeerKey, nonce: &str) -> String {
    // No part can run into the next: the keys have one length each, and the nonce ends the text.
    let text = [b"cairn join 1 ", side.as_bytes(), b"\0", mirror.as_bytes(), client.as_bytes(), nonce.as_bytes()];
    STANDARD.encode(hmac(&code.0, &text))
}

/// HMAC-SHA256 (RFC 2104) by a key of at most 64 bytes.
fn hmac(key: &[u8], text: &[&[u8]]) -> [u8; 32] {
    let pad = |with: u8| {
        let mut block = [with; 64];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = text.iter().fold(Sha256::new().chain_update(pad(0x36)), |hash, part| hash.chain_update(part));
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner.finalize()).finalize().into()
}

/// Are both the same? Time tells only the length, which is no secret.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |different, (a, b)| different | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn hmac_as_rfc_4231_says() {
        let hex = |bytes: [u8; 32]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let check = |key: &[u8], text: &[u8], expected: &str| assert_eq!(hex(hmac(key, &[text])), expected, "{key:?}");
        check(&[0x0b; 20], b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
        let asked = b"what do ya want for nothing?";
        check(b"Jefe", asked, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        check(&[0xaa; 20], &[0xdd; 50], "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    }

    #[test]
    fn codes_are_read_as_people_write_them() {
        let code = JoinCode::draw().unwrap();
        let text = code.to_string();
        assert_eq!((text.len(), text.matches('-').count()), (23, 3), "{text}");
        for written in [text.clone(), text.to_lowercase(), text.replace('-', " "), text.replace('-', "")] {
            assert!(written.parse::<JoinCode>().is_ok_and(|read| read == code), "{written:?}");
        }
        for wrong in [String::new(), text[1..].to_owned(), format!("{text}A"), text.replace(&text[..1], "1")] {
            assert!(wrong.parse::<JoinCode>().is_err(), "{wrong:?}");
        }
        assert!(JoinCode::draw().unwrap() != code, "no two are alike");
    }

    #[test]
    fn an_invitation_is_taken_once_and_guessed_at_five_times() {
        let key = |byte: u8| {
            let mut wire = b"\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x20".to_vec();
            wire.extend([byte; 32]);
            PeerKey::from_field(&STANDARD.encode(wire)).expect("any 32 bytes")
        };
        let (mirror, client, nonce) = (key(1), key(2), "a nonce of enough length".to_owned());
        let code = JoinCode::draw().unwrap();
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
        let answer = Invitation::take(&mut open, mirror, &right, now).expect("it knows the code");
        assert_eq!(answer.proof, Some(proof(&code, "mirror", &mirror, &client, &nonce)), "and so does the mirror");
        assert_ne!(answer.proof, Some(right.proof.clone()), "what came is not sent back");
        assert!(Invitation::take(&mut open, mirror, &right, now).is_none(), "once");
        let mut late = invited();
        assert!(Invitation::take(&mut late, mirror, &right, now + LIFE).is_none(), "ten minutes");
        let mut guessed = invited();
        for _ in 0..TRIES {
            assert!(Invitation::take(&mut guessed, mirror, &wrong, now).is_none(), "a key that the proof is not for");
        }
        assert!(Invitation::take(&mut guessed, mirror, &right, now).is_none(), "five wrong tries end it");
        assert!(Invitation::take(&mut invited(), key(9), &right, now).is_none(), "the proof is for one mirror");
    }
}
