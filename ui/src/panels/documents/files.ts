// Files that the user chooses or drops, and those of a folder that Cairn can read.

/** A file with its name in the collection. */
export interface NamedFile {
  name: string;
  file: File;
}

/** Files of folders, and the number of those that were left out. */
export interface ChosenFiles {
  files: NamedFile[];
  skipped: number;
}

/** A file of a folder. One without contents is left out. */
interface FoundFile {
  path: string;
  file?: File | undefined;
}

/** Larger files are refused before they are sent. */
export const MOST_BYTES = 128 * 2 ** 20;
/** Longest name of a document in bytes. */
const MOST_NAME_BYTES = 255;

/** Extensions of documents, and of texts that people search. Files that are chosen one by one need none: the daemon reads any text. */
const READABLE = new Set(
  ("pdf docx xlsx pptx html htm xhtml md markdown mdown txt text log rst adoc org tex csv tsv json jsonl yaml yml toml xml ini conf " +
    "c cc cpp cs css go h hpp java js jsx kt lua mjs php pl py r rb rs scala sh sql svelte swift ts tsx vue")
    .split(" "),
);
/** Folders with files of other people's programs. */
const SKIPPED_FOLDERS = new Set(["node_modules", "target", "__pycache__"]);

/** Whether a folder in a chosen folder is left out with all its files, without a count of them: there can be very many. */
function isSkippedFolder(name: string): boolean {
  return name.startsWith(".") || SKIPPED_FOLDERS.has(name);
}

/** Whether a file of a folder is added, by its path: it has a readable format, and no part of the path is hidden. */
export function isReadable(path: string): boolean {
  const parts = path.split("/");
  if (parts.some(isSkippedFolder)) return false;
  // Word and Excel write such files beside an open document.
  if (parts.at(-1)?.startsWith("~$")) return false;
  return READABLE.has(/\.(\w+)$/.exec(path)?.[1]?.toLowerCase() ?? "");
}

/** The name of a file of a folder: its path below the folder, unless that is too long. */
export function nameIn(path: string): string {
  const below = path.split("/").slice(1).join("/") || path;
  return new TextEncoder().encode(below).length > MOST_NAME_BYTES ? (path.split("/").at(-1) ?? path) : below;
}

/** The readable files of paths, in the order of their names. */
function choose(found: readonly FoundFile[]): ChosenFiles {
  const kept = found.flatMap(({ path, file }) => (file !== undefined && isReadable(path) ? [{ name: nameIn(path), file }] : []));
  return { files: kept.sort((a, b) => a.name.localeCompare(b.name)), skipped: found.length - kept.length };
}

/** The files of a file field; of a folder field the readable ones. */
export function fieldFiles(files: Iterable<File>): ChosenFiles {
  const all = [...files];
  const inFolders = all.filter((file) => file.webkitRelativePath !== "" && !file.webkitRelativePath.split("/").slice(1, -1).some(isSkippedFolder));
  const single = all.filter((file) => file.webkitRelativePath === "").map((file) => ({ name: file.name, file }));
  const { files: kept, skipped } = choose(inFolders.map((file) => ({ path: file.webkitRelativePath, file })));
  return { files: [...single, ...kept], skipped };
}

/** The file of an entry; `undefined` if it cannot be read, for example a broken link. */
function fileOf(entry: FileSystemFileEntry): Promise<File | undefined> {
  return new Promise((resolve) => entry.file(resolve, () => resolve(undefined)));
}

/** The entries of a folder. The browser returns them in parts, and an empty one at the end. */
async function entriesOf(folder: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = folder.createReader();
  const all: FileSystemEntry[] = [];
  for (;;) {
    const part = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (part.length === 0) return all;
    all.push(...part);
  }
}

/** The files of a folder and its folders. Those that are not added are not opened. A folder that cannot be read counts as one. */
async function walk(folder: FileSystemDirectoryEntry, path: string): Promise<FoundFile[]> {
  const entries = await entriesOf(folder).catch(() => undefined);
  if (entries === undefined) return [{ path }];
  const found: FoundFile[] = [];
  for (const entry of entries) {
    const at = `${path}/${entry.name}`;
    if (!entry.isDirectory) found.push({ path: at, file: isReadable(at) ? await fileOf(entry as FileSystemFileEntry) : undefined });
    else if (!isSkippedFolder(entry.name)) found.push(...(await walk(entry as FileSystemDirectoryEntry, at)));
  }
  return found;
}

/** The dropped files, and the readable ones of dropped folders. Call it in the event: the list is empty later. */
export async function droppedFiles(data: Pick<DataTransfer, "items" | "files">): Promise<ChosenFiles> {
  const entries = [...data.items].map((item) => (item.kind === "file" ? item.webkitGetAsEntry() : null));
  const folders = entries.filter((entry): entry is FileSystemDirectoryEntry => entry?.isDirectory === true);
  if (folders.length === 0) return fieldFiles(data.files);
  const single = [...data.files].filter((file) => !folders.some((folder) => folder.name === file.name));
  const inFolders = await Promise.all(folders.map((folder) => walk(folder, folder.name)));
  const { files, skipped } = choose(inFolders.flat());
  return { files: [...single.map((file) => ({ name: file.name, file })), ...files], skipped };
}
