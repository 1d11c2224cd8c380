//! Codecs: how a section's bytes are stored.

use std::borrow::Cow;

use cairn_gguf::DType;

use super::Damage;
use crate::chunk::{RowTypes, SectionKind};

/// How a tier stores rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// As they are.
    #[default]
    Raw,
}

impl Packing {
    /// Whether rows may be rounded.
    pub const fn is_lossy(self) -> bool {
        false
    }
}

/// How one section is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    /// As it is.
    Raw,
}

impl Codec {
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Raw => 0,
        }
    }

    pub(super) fn of(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Raw),
            _ => None,
        }
    }

    pub(super) fn is_lossy(self) -> bool {
        match self {
            Self::Raw => false,
        }
    }
}

/// Memory that unpacking uses again and again.
#[derive(Debug, Default)]
pub struct Workspace {}

/// Packs the sections of one chunk.
pub(super) struct Packer {}

impl Packer {
    pub(super) fn new(packing: Packing, rows: RowTypes) -> Self {
        let (Packing::Raw, _) = (packing, rows);
        Self {}
    }

    pub(super) fn pack<'a>(&mut self, kind: SectionKind, raw: &'a [u8]) -> (Codec, Cow<'a, [u8]>) {
        let _ = kind;
        (Codec::Raw, Cow::Borrowed(raw))
    }
}

/// Makes of what is stored the rows that were packed, which are of this type.
pub(super) fn unpack(
    codec: Codec,
    dtype: DType,
    stored: &[u8],
    rows: &mut [u8],
    work: &mut Workspace,
) -> Result<(), Damage> {
    let _ = (dtype, work);
    match codec {
        Codec::Raw if stored.len() == rows.len() => rows.copy_from_slice(stored),
        Codec::Raw => return Err(Damage("a section has another length")),
    }
    Ok(())
}
