// Names of files for code blocks.

/** Endings by language, where the language is not its own ending. */
const ENDINGS: Record<string, string> = {
  bash: "sh", shell: "sh", sh: "sh", zsh: "sh", powershell: "ps1", "c++": "cpp", csharp: "cs", "c#": "cs", golang: "go", haskell: "hs", javascript: "js", typescript: "ts", jsx: "jsx", tsx: "tsx",
  kotlin: "kt", latex: "tex", markdown: "md", mermaid: "mmd", objectivec: "m", perl: "pl", plaintext: "txt", text: "txt", python: "py", ruby: "rb", rust: "rs", xhtml: "html", yaml: "yml", julia: "jl", elixir: "ex", erlang: "erl",
};
/** Files with a fixed name. */
const NAMES: Record<string, string> = { dockerfile: "Dockerfile", makefile: "Makefile", modelfile: "Modelfile" };

/** A file name for code. A model chooses the language, so only short plain words become an ending. */
export function codeFileName(language: string): string {
  const word = language.toLowerCase();
  const whole = Object.hasOwn(NAMES, word) ? NAMES[word] : undefined;
  if (whole !== undefined) return whole;
  const ending = Object.hasOwn(ENDINGS, word) ? ENDINGS[word] : undefined;
  return `code.${ending ?? (/^[a-z][a-z0-9]{0,9}$/.test(word) && !/^(?:exe|bat|cmd|com|scr|lnk|msi|vbs|desktop)$/.test(word) ? word : "txt")}`;
}
