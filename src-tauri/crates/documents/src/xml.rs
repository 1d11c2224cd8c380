//! XML of Office documents as a stream of nodes, with a limit of nesting. Entities other than XML's own are not expanded, so
//! they cannot multiply.

use std::io::BufRead;

use quick_xml::Reader;
use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};

use crate::Error;

/// Largest text or tag in bytes: the parser holds one in memory.
const MAX_EVENT_BYTES: usize = 64 << 20;

/// One node.
pub(crate) enum Node<'a> {
    /// A start tag.
    Start(&'a BytesStart<'a>),
    /// An end tag, also of an empty element, with its local name.
    End(&'a str),
    /// Text between tags. One text may come in several nodes.
    Text(&'a str),
}

/// Stream of nodes.
pub(crate) struct Xml<R> {
    reader: Reader<R>,
    max_depth: usize,
}

impl<R: BufRead> Xml<R> {
    pub(crate) fn new(reader: R, max_depth: usize) -> Self {
        let mut reader = Reader::from_reader(reader);
        let config = reader.config_mut();
        config.expand_empty_elements = true;
        config.allow_dangling_amp = true;
        Self { reader, max_depth }
    }

    /// Calls `visit` with each node.
    pub(crate) fn read(mut self, visit: &mut impl FnMut(Node<'_>) -> Result<(), Error>) -> Result<(), Error> {
        let (mut buffer, mut depth) = (Vec::new(), 0);
        loop {
            buffer.clear();
            if buffer.capacity() > MAX_EVENT_BYTES {
                return Err(Error::too_many("bytes in one element", MAX_EVENT_BYTES));
            }
            match self.reader.read_event_into(&mut buffer).map_err(Error::damaged)? {
                Event::Start(element) => {
                    depth += 1;
                    if depth > self.max_depth {
                        return Err(Error::too_many("elements inside each other", self.max_depth));
                    }
                    visit(Node::Start(&element))?;
                }
                Event::End(element) => {
                    depth = depth.saturating_sub(1);
                    visit(Node::End(element.local_name().as_ref()))?;
                }
                Event::Text(text) => visit(Node::Text(&text.xml10_content()))?,
                Event::CData(text) => visit(Node::Text(&text.xml10_content()))?,
                Event::GeneralRef(entity) => {
                    if let Ok(Some(c)) = entity.resolve_char_ref() {
                        visit(Node::Text(c.encode_utf8(&mut [0; 4])))?;
                    } else if let Some(text) = resolve_predefined_entity(&entity.xml10_content()) {
                        visit(Node::Text(text))?;
                    }
                }
                Event::Eof => return Ok(()),
                Event::Empty(_) | Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
            }
        }
    }
}

/// Returns an attribute by its local name.
pub(crate) fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let found = element.attributes().flatten().find(|attribute| attribute.key.local_name().as_ref() == name)?;
    found.normalized_value(XmlVersion::Implicit1_0).ok().map(|value| value.into_owned())
}

/// Returns an attribute by its full name, such as `r:id` beside `id`.
pub(crate) fn full_attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let found = element.attributes().flatten().find(|attribute| attribute.key.as_ref() == name)?;
    found.normalized_value(XmlVersion::Implicit1_0).ok().map(|value| value.into_owned())
}
