// `/app/documents`: the text of documents.
import { query, request } from "./client";
import type { DocumentPart, DocumentText } from "./types";

export type { DocumentPart, DocumentText } from "./types";

/** The text of a document. */
export const documentText = (name: string, file: Blob): Promise<DocumentText> => request("POST", `/app/documents${query({ name })}`, { file });

/** A place in a document as the model reads it. Sections begin with their heading, so they need none. */
function marker({ place }: DocumentPart): string {
  switch (place.kind) {
    case "page":
      return `[page ${place.number}]\n`;
    case "slide":
      return `[slide ${place.number}]\n`;
    case "sheet":
      return `[sheet ${place.name}]\n`;
    case "heading":
    case "whole":
      return "";
  }
}

/** The whole text of a document, with the places of its parts. */
export const joinParts = (parts: readonly DocumentPart[]): string => parts.map((part) => marker(part) + part.text).join("\n\n");
