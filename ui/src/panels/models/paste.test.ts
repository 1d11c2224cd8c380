import { expect, it } from "vitest";
import { readPasted } from "./paste";

const check = (text: string, name: string) => expect(readPasted(text), text).toEqual({ kind: "name", name });

it("command lines are read", () => {
  check("ollama run qwen3:0.6b", "qwen3:0.6b");
  check("$ ollama pull --insecure nas:5000/library/tiny", "nas:5000/library/tiny");
  check("  cairn run hf.co/user/model-GGUF:Q4_K_M --verbose", "hf.co/user/model-GGUF:Q4_K_M");
});

it("pages of Ollama's library are read", () => {
  check("https://ollama.com/library/gemma3:12b", "gemma3:12b");
  check("ollama.com/library/gemma3/tags", "gemma3");
  check("https://ollama.com/someone/model:tag", "someone/model:tag");
});

it("pages and files of Hugging Face are read", () => {
  check("https://huggingface.co/user/model-GGUF", "hf.co/user/model-GGUF");
  check("https://huggingface.co/user/m-GGUF/blob/main/m.Q4_K_M.gguf", "hf.co/user/m-GGUF:Q4_K_M");
  check("https://huggingface.co/user/m-GGUF/resolve/main/sub/m-IQ4_XS.gguf?download=true", "hf.co/user/m-GGUF:IQ4_XS");
  check("https://huggingface.co/user/m-GGUF?show_file_info=m-UD-Q2_K_XL.gguf", "hf.co/user/m-GGUF:UD-Q2_K_XL");
  check("https://huggingface.co/user/m-GGUF/tree/main", "hf.co/user/m-GGUF");
});

it("other text is words", () => {
  for (const text of ["small coder", "https://ollama.com/search?q=x", "https://example.com/a/b", "ollama run"]) {
    expect(readPasted(text), text).toEqual({ kind: "words", words: text });
  }
});
