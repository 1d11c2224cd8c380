//! Checksums and encryption of sections.
//!
//! An encrypted section is the XChaCha20-Poly1305 ciphertext of the encoded section, which has the same length. Its
//! checksum is the tag. The header and the section's table row are authenticated with it, so a section cannot be
//! moved. The nonce is the file's random nonce with the section's number added to its last four bytes, so no two
//! sections share one.

use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use twox_hash::XxHash3_128;

use super::table::Section;
use super::{Checksum, Damage, FileKeys, NONCE_BYTES};

/// Computes the checksum of a section's stored bytes.
pub(super) fn check(stored: &[u8], check: Checksum, keys: &FileKeys) -> [u8; 16] {
    match check {
        Checksum::Fast => XxHash3_128::oneshot(stored).to_le_bytes(),
        Checksum::Keyed => {
            *blake3::keyed_hash(&keys.sections, stored).as_bytes().first_chunk().expect("a hash has 32 bytes")
        }
    }
}

/// Cipher for the sections of one file.
pub(super) struct SectionCipher {
    cipher: XChaCha20Poly1305,
    nonce: [u8; NONCE_BYTES],
    context: Vec<u8>,
}

impl SectionCipher {
    pub(super) fn new(key: &[u8; 32], nonce: [u8; NONCE_BYTES], context: Vec<u8>) -> Self {
        Self { cipher: XChaCha20Poly1305::new(key.into()), nonce, context }
    }

    /// Encrypts a section in place and returns its tag.
    pub(super) fn close(&self, index: usize, section: &Section, bytes: &mut [u8]) -> [u8; 16] {
        let sealed = self.cipher.encrypt_in_place_detached(&self.nonce(index), &self.bound(section), bytes);
        sealed.expect("a section is far shorter than the cipher's 256 GiB").into()
    }

    /// Decrypts a section in place.
    pub(super) fn open(&self, index: usize, section: &Section, bytes: &mut [u8]) -> Result<(), Damage> {
        let tag = (&section.check).into();
        let opened = self.cipher.decrypt_in_place_detached(&self.nonce(index), &self.bound(section), bytes, tag);
        opened.map_err(|_| Damage("an encrypted section fails authentication"))
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
