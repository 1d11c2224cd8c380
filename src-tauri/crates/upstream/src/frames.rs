//! Splits a streamed response into frames without changing a byte: lines of JSON, or server-sent events.
//!
//! The frames of a response, one after another, are the bytes of the response.

use bytes::{Bytes, BytesMut};

use crate::failure::Failure;
use crate::whole::WholeBuffer;

/// Most bytes of an event. Queues are limited in frames, so this limits the memory of a response.
const MAX_EVENT_BYTES: usize = 1 << 20;
/// Most bytes of a line. The last line of `/api/generate` has all tokens of the context: 250,000 need 1.7 MB.
const MAX_LINE_BYTES: usize = 2 << 20;

/// How a response is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// One JSON object per line.
    Lines,
    /// Server-sent events, which end with an empty line.
    Events,
    /// One JSON object.
    Whole,
}

/// Divides the bytes of a response.
#[derive(Debug)]
pub(crate) struct Framer {
    framing: Framing,
    buffered: BytesMut,
    /// Start of the last line in `buffered`. The lines before it are a part of an event.
    line_start: usize,
    /// Bytes of `buffered` that were searched for the end of a line, so that each byte is searched once.
    searched: usize,
    /// The response, if it is one frame.
    whole: WholeBuffer,
}

impl Framer {
    pub(crate) fn new(framing: Framing) -> Self {
        Self { framing, buffered: BytesMut::new(), line_start: 0, searched: 0, whole: WholeBuffer::default() }
    }

    /// Adds bytes, after all complete frames were taken.
    pub(crate) fn push(&mut self, chunk: &[u8]) -> Result<(), Failure> {
        if self.framing == Framing::Whole {
            return self.whole.push(chunk);
        }
        // All complete frames were taken, so these bytes are those of one frame. A chunk has at most some hundred kilobytes.
        let limit_bytes = if self.framing == Framing::Lines { MAX_LINE_BYTES } else { MAX_EVENT_BYTES };
        if self.buffered.len() > limit_bytes {
            return Err(Failure::TooLarge { limit_bytes });
        }
        self.buffered.extend_from_slice(chunk);
        Ok(())
    }

    /// Takes the next complete frame.
    pub(crate) fn next(&mut self) -> Option<Bytes> {
        if self.framing == Framing::Whole {
            return None;
        }
        while let Some(at) = self.buffered[self.searched..].iter().position(|byte| *byte == b'\n') {
            let end = self.searched + at + 1;
            let line = self.buffered[self.line_start..end].trim_ascii();
            let is_end = self.framing == Framing::Lines || line.is_empty();
            (self.line_start, self.searched) = if is_end { (0, 0) } else { (end, end) };
            if is_end {
                return Some(self.buffered.split_to(end).freeze());
            }
        }
        self.searched = self.buffered.len();
        None
    }

    /// Takes the rest after the last byte.
    pub(crate) fn finish(&mut self) -> Option<Bytes> {
        if self.framing == Framing::Whole {
            return std::mem::take(&mut self.whole).finish();
        }
        (self.line_start, self.searched) = (0, 0);
        let rest = std::mem::take(&mut self.buffered).freeze();
        (!rest.is_empty()).then_some(rest)
    }
}

/// Returns the data of a server-sent event; `None` for a comment or an event without data.
pub(crate) fn event_data(frame: &[u8]) -> Option<Vec<u8>> {
    let mut data: Option<Vec<u8>> = None;
    for line in frame.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(value) = line.strip_prefix(b"data:") else { continue };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &mut data {
            Some(data) => {
                data.push(b'\n');
                data.extend_from_slice(value);
            }
            none => *none = Some(value.to_vec()),
        }
    }
    data
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(framing: Framing, text: &[u8], chunk: usize) -> Vec<Bytes> {
        let mut framer = Framer::new(framing);
        let mut frames = Vec::new();
        for part in text.chunks(chunk.max(1)) {
            framer.push(part).unwrap();
            while let Some(frame) = framer.next() {
                frames.push(frame);
            }
        }
        frames.extend(framer.finish());
        frames
    }

    #[test]
    fn frames_end_at_lines_and_at_empty_lines() {
        for chunk in 1..20 {
            let frames = split(Framing::Lines, b"{\"a\":1}\n{\"b\":2}\nrest", chunk);
            assert_eq!(frames, [&b"{\"a\":1}\n"[..], b"{\"b\":2}\n", b"rest"], "{chunk}");
            let frames = split(Framing::Events, b"data: a\n\n: ping\r\n\r\ndata: b\ndata: c\n\n", chunk);
            assert_eq!(frames, [&b"data: a\n\n"[..], b": ping\r\n\r\n", b"data: b\ndata: c\n\n"], "{chunk}");
            assert_eq!(split(Framing::Whole, b"{\n\n}", chunk), [&b"{\n\n}"[..]], "{chunk}");
        }
    }

    #[test]
    fn data_of_events_is_joined_and_comments_have_none() {
        assert_eq!(event_data(b"event: x\ndata: a\r\ndata:b\n\n").as_deref(), Some(&b"a\nb"[..]));
        assert_eq!(event_data(b": ping\n\n"), None);
    }

    #[test]
    fn long_line_is_searched_once() {
        for framing in [Framing::Lines, Framing::Events] {
            let mut framer = Framer::new(framing);
            for sent in 1..=100 {
                framer.push(b"xxxxxxxxxx").unwrap();
                assert_eq!((framer.next(), framer.searched), (None, sent * 10), "{framing:?}");
            }
            framer.push(b"\n\n").unwrap();
            assert_eq!(framer.next().map(|frame| frame.len() > 1000), Some(true), "{framing:?}");
        }
    }

    #[test]
    fn endless_frame_is_refused() {
        for (framing, limit_bytes) in [(Framing::Events, MAX_EVENT_BYTES), (Framing::Lines, MAX_LINE_BYTES)] {
            let mut framer = Framer::new(framing);
            let chunk = vec![b'x'; 1 << 16];
            let refused = (0..limit_bytes / chunk.len() + 2).find_map(|_| {
                let failure = framer.push(&chunk).err();
                assert_eq!(framer.next(), None, "no frame");
                failure
            });
            assert_eq!(refused, Some(Failure::TooLarge { limit_bytes }), "{framing:?}");
        }
    }

    proptest! {
        #[test]
        fn frames_are_the_bytes_of_the_response(text in "[a\\r\\n{}:]{0,200}", chunk in 1_usize..50) {
            for framing in [Framing::Lines, Framing::Events, Framing::Whole] {
                let joined: Vec<u8> = split(framing, text.as_bytes(), chunk).concat();
                prop_assert_eq!(&joined, text.as_bytes(), "{:?}", framing);
            }
        }
    }
}
