//! PPTX: the text of each slide and its notes.
//!
//! Specification: ECMA-376 part 1, PresentationML and DrawingML.

use crate::package::Package;
use crate::parts::Parts;
use crate::xml::{Node, full_attribute};
use crate::{Error, Limits, PartPlace};

const MAIN: &str = "ppt/presentation.xml";

/// Reads all slides and returns their number.
pub(crate) fn read(bytes: &[u8], limits: &Limits, parts: &mut Parts<'_>) -> Result<u32, Error> {
    let mut package = Package::open(bytes, limits)?;
    let targets = package.relationships(MAIN)?;
    let mut slides = Vec::new();
    package.read(MAIN, |node| {
        if let Node::Start(element) = node
            && element.local_name().as_ref() == "sldId"
            && let Some(target) = full_attribute(element, "r:id").and_then(|id| targets.get(&id))
        {
            if slides.len() >= limits.parts {
                return Err(Error::too_many("slides", limits.parts));
            }
            slides.push(target.entry.clone());
        }
        Ok(())
    })?;
    for (number, entry) in (1..).zip(&slides) {
        let mut text = String::new();
        read_text(&mut package, entry, &mut text, parts)?;
        let notes = package.relationships(entry)?.into_values().find(|target| target.kind == "notesSlide");
        if let Some(notes) = notes {
            let mut noted = String::new();
            read_text(&mut package, &notes.entry, &mut noted, parts)?;
            // PowerPoint repeats the slide's number in its notes.
            if noted.trim().parse::<u32>().is_err() && !noted.trim().is_empty() {
                text.push_str("\nNotes:\n");
                text.push_str(&noted);
            }
        }
        parts.add(PartPlace::Slide { number }, text)?;
    }
    Ok(slides.len() as u32)
}

/// Adds the paragraphs and table rows of a slide to `text`.
fn read_text(package: &mut Package<'_>, entry: &str, text: &mut String, parts: &Parts<'_>) -> Result<(), Error> {
    let (mut is_text, mut cells) = (false, 0);
    package.read(entry, |node| {
        match node {
            Node::Start(element) => match element.local_name().as_ref() {
                "t" => is_text = true,
                "br" => text.push('\n'),
                "tc" => cells += 1,
                _ => {}
            },
            Node::Text(part) if is_text => text.push_str(part),
            Node::Text(_) => {}
            Node::End("t") => is_text = false,
            Node::End("p") => text.push(if cells > 0 { ' ' } else { '\n' }),
            Node::End("tc") => {
                cells -= 1;
                text.push_str("| ");
            }
            Node::End("tr") => text.push('\n'),
            // An empty line between the shapes of a slide.
            Node::End("sp") => text.push('\n'),
            Node::End(_) => {}
        }
        parts.check_chars(text.len() / 4)
    })?;
    Ok(())
}
