// Attachments: text files and documents are part of the prompt, images only for models with vision. The daemon reads documents.
import type { AttachedFile } from "../api/chats";
import { documentText, joinParts } from "../api/documents";

/** Larger files are refused before they are read. */
export const MOST_FILE_BYTES = 20_000_000;
/** Longer pasted text becomes a file. */
export const LONG_PASTE_CHARS = 2500;

/** Larger documents are refused before they are sent. */
export const MOST_DOCUMENT_BYTES = 128 * 2 ** 20;

/** Extensions of documents that the daemon reads. */
export const DOCUMENT_EXTENSIONS = ["pdf", "docx", "xlsx", "pptx", "html", "htm"];

/** A file of the next message. */
export interface ComposedFile extends AttachedFile {
  /** Pages, sheets or slides of a document. */
  pages?: number;
  /** Size of a document's file. */
  bytes?: number;
}

export interface Attachments {
  files: ComposedFile[];
  images: { name: string; data: string; type: string }[];
}

export type Refusal = { name: string; why: "too_big" | "too_big_document" | "binary" | "unreadable" } | { name: string; why: "document"; error: unknown };

/** Image types for the file chooser. */
export const IMAGE_TYPES = "image/png,image/jpeg,image/webp,image/gif";

/** The type of an image by its first bytes in base64. */
export function imageType(base64: string): string {
  if (base64.startsWith("/9j/")) return "image/jpeg";
  if (base64.startsWith("UklGR")) return "image/webp";
  if (base64.startsWith("R0lGOD")) return "image/gif";
  return "image/png";
}

/** Splits attachments into those for the model, and images held back because it has no vision. */
export function splitByVision(attached: Attachments, vision: boolean): { sent: Attachments; held: Attachments } {
  const none: Attachments["images"] = [];
  return { sent: { files: attached.files, images: vision ? attached.images : none }, held: { files: [], images: vision ? none : attached.images } };
}

/** Whether bytes are binary: they contain a zero, or are invalid UTF-8. */
export function decodeText(bytes: Uint8Array): string | undefined {
  if (bytes.subarray(0, 8192).includes(0)) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function base64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

/** Whether the daemon reads a file, by its name. */
export function isDocument(name: string): boolean {
  return DOCUMENT_EXTENSIONS.includes(/\.(\w+)$/.exec(name)?.[1]?.toLowerCase() ?? "");
}

async function readDocument(file: File): Promise<ComposedFile | Refusal> {
  if (file.size > MOST_DOCUMENT_BYTES) return { name: file.name, why: "too_big_document" };
  try {
    const { parts, pages } = await documentText(file.name, file);
    return { name: file.name, text: joinParts(parts), bytes: file.size, ...(pages === undefined ? {} : { pages }) };
  } catch (error) {
    return { name: file.name, why: "document", error };
  }
}

/** Files as the daemon stores them. */
export const sentFiles = (files: readonly ComposedFile[]): AttachedFile[] => files.map(({ name, text }) => ({ name, text }));

/** Reads files that were chosen, dropped or pasted. Vision is checked on sending, because the model may change before. */
export async function readFiles(chosen: Iterable<File>): Promise<{ got: Attachments; refused: Refusal[] }> {
  const got: Attachments = { files: [], images: [] };
  const refused: Refusal[] = [];
  for (const file of chosen) {
    if (isDocument(file.name)) {
      const read = await readDocument(file);
      if ("why" in read) refused.push(read);
      else got.files.push(read);
      continue;
    }
    if (file.size > MOST_FILE_BYTES) {
      refused.push({ name: file.name, why: "too_big" });
      continue;
    }
    let bytes: Uint8Array;
    try {
      bytes = new Uint8Array(await file.arrayBuffer());
    } catch {
      // A folder, or a file that was deleted meanwhile.
      refused.push({ name: file.name, why: "unreadable" });
      continue;
    }
    if (IMAGE_TYPES.split(",").includes(file.type)) {
      got.images.push({ name: file.name, data: base64(bytes), type: file.type });
      continue;
    }
    const text = decodeText(bytes);
    if (text === undefined) refused.push({ name: file.name, why: "binary" });
    else got.files.push({ name: file.name, text });
  }
  return { got, refused };
}
