/**
 * Text pasted into the search: a model name to pull, or words to search for.
 *
 * Recognised are pages of Ollama's library and of Hugging Face, links to files there, and `ollama run` lines.
 */

/** A model name, or words. */
export type Pasted = { kind: "name"; name: string } | { kind: "words"; words: string };

const RUNNERS = /^(?:\$\s*)?(?:ollama|cairn)\s+(?:run|pull)\s+(.+)$/;
const LINK = /^(?:https?:\/\/)?(ollama\.com|hf\.co|huggingface\.co|registry\.ollama\.ai)\/(\S+)$/i;
/** Quantisations as they occur in file names. */
const QUANT = /(?:^|[-._])((?:UD-)?(?:IQ|Q)\d(?:_[A-Z0-9]+)*|BF16|F16|F32|MXFP4)(?=[-.]|$)/i;

/** Interprets pasted text. */
export function readPasted(text: string): Pasted {
  const trimmed = text.trim();
  const line = RUNNERS.exec(trimmed);
  if (line?.[1]) {
    const name = line[1].split(/\s+/).find((word) => !word.startsWith("-"));
    if (name) return fromLink(name) ?? { kind: "name", name };
  }
  return fromLink(trimmed) ?? { kind: "words", words: trimmed };
}

function fromLink(text: string): Pasted | undefined {
  const link = LINK.exec(text);
  const [host, rest] = [link?.[1]?.toLowerCase(), link?.[2]];
  if (!host || !rest) return undefined;
  const [path = "", query = ""] = rest.split(/[?#]/);
  const parts = path.split("/").filter(Boolean).map(decode);
  if (host === "ollama.com" || host === "registry.ollama.ai") return library(host, parts);
  return hub(parts, query);
}

function library(host: string, parts: string[]): Pasted | undefined {
  const [first, second] = parts;
  if (!first || first === "search") return undefined;
  if (first === "library") return second ? { kind: "name", name: second } : undefined;
  // A model of a user: `ollama.com/user/model`.
  if (second && second !== "tags") return { kind: "name", name: `${first}/${second}` };
  return host === "registry.ollama.ai" ? { kind: "name", name: first } : undefined;
}

/** `hf.co/user/repository[:QUANT]`, or a page below it that names a file. */
function hub(parts: string[], query: string): Pasted | undefined {
  const [user, repository, view] = parts;
  if (!user || !repository) return undefined;
  const name = `hf.co/${user}/${repository}`;
  const shown = /(?:^|&)show_file_info=([^&]+)/.exec(query)?.[1];
  const file = shown ? decode(shown) : view === "blob" || view === "resolve" ? parts[parts.length - 1] : undefined;
  const quant = file && /\.gguf$/i.test(file) ? QUANT.exec(file.replace(/\.gguf$/i, ""))?.[1] : undefined;
  return { kind: "name", name: quant && !repository.includes(":") ? `${name}:${quant}` : name };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
