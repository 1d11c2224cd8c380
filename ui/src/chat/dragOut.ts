// Dragging a text out of the page: as text into other programs, and as a file into folders where the browser supports that.

/** The file that a drag drops. */
export interface DraggedFile {
  name: string;
  text: string;
  type: string;
}

/** How long the object of a dropped file stays: the browser reads it after the drop. */
const KEPT_MS = 60_000;

/** The value of `DownloadURL`, which Chromium reads: type, name and address. A colon would end the name. */
export function downloadValue({ name, type }: DraggedFile, url: string): string {
  return `${type}:${name.replaceAll(":", " ")}:${url}`;
}

/** Sets what a drag that begins drops. */
export function dragFile(event: DragEvent, file: DraggedFile): void {
  const data = event.dataTransfer;
  if (data === null) return;
  data.effectAllowed = "copy";
  data.setData("text/plain", file.text);
  const url = URL.createObjectURL(new Blob([file.text], { type: file.type }));
  data.setData("DownloadURL", downloadValue(file, url));
  setTimeout(() => URL.revokeObjectURL(url), KEPT_MS);
}
