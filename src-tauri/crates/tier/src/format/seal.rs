//! Checks of sections, and their sealing.
//!
//! A sealed section is XChaCha20-Poly1305 of what it would otherwise be, no longer than that, and its check is the tag. It is bound
//! to the file's header and to its own row of the table, so it opens in no other place. The nonce is the file's own random one with
//! the section's number added to its last four bytes: no two sections under one key share one.

use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use twox_hash::XxHash3_128;

use super::table::Section;
use super::{Check, Damage, FileKeys, NONCE_BYTES};

/// The check of a section that is stored as these bytes.
pub(super) fn check(stored: &[u8], check: Check, keys: &FileKeys) -> [u8; 16] {
    match check {
        Check::Fast => XxHash3_128::oneshot(stored).to_le_bytes(),
        Check::Keyed => {
            *blake3::keyed_hash(&keys.sections, stored).as_bytes().first_chunk().expect("a hash has 32 bytes")
        }
    }
}

/// What seals the sections of one file.
pub(super) struct Seal {
    cipher: XChaCha20Poly1305,
    nonce: [u8; NONCE_BYTES],
    context: Vec<u8>,
}

impl Seal {
    pub(super) fn new(key: &[u8; 32], nonce: [u8; NONCE_BYTES], context: Vec<u8>) -> Self {
        Self { cipher: XChaCha20Poly1305::new(key.into()), nonce, context }
    }

    /// Seals a section's bytes in place and returns its check.
    pub(super) fn close(&self, index: usize, section: &Section, bytes: &mut [u8]) -> [u8; 16] {
        let sealed = self.cipher.encrypt_in_place_detached(&self.nonce(index), &self.bound(section), bytes);
        sealed.expect("a section is far shorter than the cipher's 256 GiB").into()
    }

    /// Opens a section's bytes in place.
    pub(super) fn open(&self, index: usize, section: &Section, bytes: &mut [u8]) -> Result<(), Damage> {
        let tag = (&section.check).into();
        let opened = self.cipher.decrypt_in_place_detached(&self.nonce(index), &self.bound(section), bytes, tag);
        opened.map_err(|_| Damage("a sealed section does not open"))
    }

    fn nonce(&self, index: usize) -> XNonce {
        let mut nonce = self.nonce;
        let (_, last) = nonce.split_last_chunk_mut::<4>().expect("a nonce has 24 bytes");
        *last = u32::from_le_bytes(*last).wrapping_add(index as u32).to_le_bytes();
        nonce.into()
    }

    fn bound(&self, section: &Section) -> Vec<u8> {
        [self.context.as_slice(), &section.row(false)].concat()
    }
}
