// Documents in a chat: a PDF and a DOCX become text of the message, and a document without text says why.
import { check, open } from "./browser.mjs";
import { text } from "./words.mjs";

/** A PDF with a line of text on each page. */
export function pdf(pages) {
  const objects = ["<< /Type /Catalog /Pages 2 0 R >>", "", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"];
  const kids = [];
  for (const page of pages) {
    const content = page === "" ? "" : `BT /F1 12 Tf 72 720 Td (${page}) Tj ET`;
    kids.push(`${objects.length + 1} 0 R`);
    objects.push(`<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> /Contents ${objects.length + 2} 0 R >>`);
    objects.push(`<< /Length ${content.length} >>\nstream\n${content}\nendstream`);
  }
  objects[1] = `<< /Type /Pages /Kids [${kids.join(" ")}] /Count ${pages.length} >>`;
  let file = "%PDF-1.7\n";
  const places = objects.map((object, at) => {
    const place = file.length;
    file += `${at + 1} 0 obj\n${object}\nendobj\n`;
    return place;
  });
  const table = file.length;
  file += `xref\n0 ${places.length + 1}\n0000000000 65535 f \n${places.map((place) => `${String(place).padStart(10, "0")} 00000 n \n`).join("")}`;
  return Buffer.from(`${file}trailer\n<< /Size ${places.length + 1} /Root 1 0 R >>\nstartxref\n${table}\n%%EOF\n`);
}

/** The checksum of a ZIP entry. */
function crc32(bytes) {
  let sum = ~0;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return ~sum >>> 0;
}

/** A ZIP archive of entries without compression. */
function zip(entries) {
  const bodies = [];
  const directory = [];
  let at = 0;
  for (const [name, contents] of Object.entries(entries)) {
    const data = Buffer.from(contents);
    const common = Buffer.alloc(26);
    common.writeUInt16LE(20, 0);
    common.writeUInt32LE(crc32(data), 10);
    common.writeUInt32LE(data.length, 14);
    common.writeUInt32LE(data.length, 18);
    common.writeUInt16LE(name.length, 22);
    const rest = Buffer.alloc(14);
    rest.writeUInt32LE(at, 10);
    bodies.push(Buffer.from("PK\x03\x04"), common, Buffer.from(name), data);
    directory.push(Buffer.from("PK\x01\x02\x14\x00", "latin1"), common, rest, Buffer.from(name));
    at += 30 + name.length + data.length;
  }
  const index = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.write("PK\x05\x06", "latin1");
  end.writeUInt16LE(Object.keys(entries).length, 8);
  end.writeUInt16LE(Object.keys(entries).length, 10);
  end.writeUInt32LE(index.length, 12);
  end.writeUInt32LE(at, 16);
  return Buffer.concat([...bodies, index, end]);
}

export function docx(paragraphs) {
  const body = paragraphs.map((paragraph) => `<w:p><w:r><w:t>${paragraph}</w:t></w:r></w:p>`).join("");
  return zip({ "word/document.xml": `<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>${body}</w:body></w:document>` });
}

/** Drops a file on the composer. */
function drop(page, name, bytes) {
  return page.evaluate(
    ([name, base64]) => {
      const data = new DataTransfer();
      data.items.add(new File([Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0))], name));
      document.querySelector(".composer").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
    },
    [name, bytes.toString("base64")],
  );
}

export async function documents(browser, daemon) {
  console.log("documents");
  const { page, noted, context } = await open(browser, daemon);
  await page.waitForFunction(() => document.querySelector(".model-picker")?.textContent?.includes("pebble"));
  const report = pdf(["The harbour opens at six", "The lamp is green"]);
  await page.setInputFiles(".composer input[type=file]", { name: "report.pdf", mimeType: "application/pdf", buffer: report });
  await page.waitForSelector(".composer .attachment:not([role]):has-text('report.pdf')");
  const chip = await page.textContent(".composer .attachment:has-text('report.pdf')");
  check(chip.includes("2") && /B\b/.test(chip), `the chip has pages and size: ${chip.trim()}`);
  await drop(page, "notes.docx", docx(["Meeting notes", "Anna brings the &amp; keys"]));
  await page.waitForSelector(".composer .attachment:not([role]):has-text('notes.docx')");
  check(true, "a DOCX can be dropped");

  await drop(page, "scan.pdf", pdf(["", "", ""]));
  const words = text("errors.document_has_no_text_layer");
  await page.waitForSelector(`.toast:has-text('${words}')`);
  check((await page.locator(".composer .attachment").count()) === 2, "a PDF of pictures is not attached, and the reason is shown");
  await drop(page, "broken.docx", Buffer.from("PK\x03\x04 and nothing else", "latin1"));
  await page.waitForSelector(`.toast:has-text('${text("errors.document_damaged").replace(/[.。]$/, "")}')`);
  check(true, "a damaged document is reported");

  await page.fill(".composer textarea", "When does it open?");
  await page.click(".send");
  await page.waitForSelector("article.assistant[aria-busy='false'] .msg-foot", { timeout: 60_000 });
  const chats = await daemon.app("GET", "/app/chats");
  const { messages } = await daemon.app("GET", `/app/chats/${chats.chats[0].id}/messages`);
  check(messages[0].files.map((file) => file.name).join() === "report.pdf,notes.docx", "both documents are part of the message");
  check(messages[0].files[0].text === "[page 1]\nThe harbour opens at six\n\n[page 2]\nThe lamp is green", "with their pages");
  check(messages[0].files[1].text === "Meeting notes\n\nAnna brings the & keys", "and their paragraphs");
  const errors = noted.errors.filter((one) => !/40\d/.test(one));
  check(errors.length === 0, `no error in the console ${errors.join(" | ").slice(0, 300)}`);
  await context.close();
}
