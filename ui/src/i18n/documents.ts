// Places in documents, in words.
import type { PartPlace } from "../api/types";
import { t } from "./locale.svelte";

/** A place in a document; `undefined` for a document without parts. */
export function placeText(place: PartPlace): string | undefined {
  switch (place.kind) {
    case "page":
      return t("documents.place_page", { number: place.number });
    case "slide":
      return t("documents.place_slide", { number: place.number });
    case "sheet":
      return t("documents.place_sheet", { name: place.name });
    case "heading":
      return t("documents.place_heading", { text: place.text });
    case "whole":
      return undefined;
  }
}
