//! The chunks of a WebP file (RFC 9649, section 2): what its decoder does not check before it allocates memory.

/// Facts about the chunks of a file.
pub(super) struct Chunks {
    /// Whether each chunk has the bytes that it claims.
    pub(super) are_whole: bool,
    /// Width and height of the lossy frame with the most pixels.
    pub(super) largest: (u32, u32),
}

impl Chunks {
    /// Reads the heads of all chunks. A damaged one is left to the decoder.
    pub(super) fn read(file: &[u8]) -> Self {
        const HEADER_BYTES: usize = 12;
        let mut chunks = Self { are_whole: true, largest: (0, 0) };
        chunks.add(file.get(HEADER_BYTES..).unwrap_or_default(), true);
        chunks
    }

    fn add(&mut self, mut rest: &[u8], is_outer: bool) {
        while let Some((kind, after)) = rest.split_first_chunk::<4>() {
            let Some((bytes, body)) = after.split_first_chunk() else { return };
            let bytes = u32::from_le_bytes(*bytes) as usize;
            let (data, next) = body.split_at_checked(bytes).unwrap_or_else(|| {
                self.are_whole = false;
                (body, &[])
            });
            match kind {
                b"VP8 " => self.add_frame(data),
                // A frame of an animation has 16 bytes in front of its own chunks.
                b"ANMF" if is_outer => self.add(data.get(16..).unwrap_or_default(), false),
                _ => {}
            }
            rest = next.get(bytes % 2..).unwrap_or_default();
        }
    }

    /// Adds a lossy frame (RFC 6386, section 9.1). Its size need not be that of the picture.
    fn add_frame(&mut self, data: &[u8]) {
        let Some(&[a, b, c, d]) = data.get(6..10) else { return };
        let side = |bytes| u32::from(u16::from_le_bytes(bytes) & 0x3fff);
        let frame = (side([a, b]), side([c, d]));
        if frame.0 * frame.1 > self.largest.0 * self.largest.1 {
            self.largest = frame;
        }
    }
}
