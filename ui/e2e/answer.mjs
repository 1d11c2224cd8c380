// A long answer as models write them: headings, paragraphs, lists, tables, code and formulas, in token-sized deltas.

const WORDS =
  "the a cache tier keeps what was computed for each chat near enough that going on costs less than computing it anew so a prompt of many tokens comes back from disk in the time that reading takes while weights stay mapped and pages are shared between chats which begin alike memory bandwidth sets how fast an answer grows latency hides behind the first token quantised values lose little where their scale is right".split(
    " ",
  );

/** Deterministic pseudo-random numbers. */
function chance(seed) {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const CODE = {
  rust: (n) => `/// Bytes of a page.\npub fn page_bytes(layers: usize, heads: usize) -> usize {\n    let mut total_${n} = 0;\n    for layer in 0..layers {\n        // Keys and values.\n        total_${n} += 2 * heads * 128 * size_of::<f16>();\n        if layer % 8 == ${n % 8} {\n            tracing::debug!(layer, total_${n}, "counted");\n        }\n    }\n    total_${n}\n}\n`,
  python: (n) => `import numpy as np\n\n\ndef attention_${n}(q, k, v, mask=None):\n    """Scaled dot product."""\n    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])\n    if mask is not None:\n        scores = np.where(mask, scores, -1e9)\n    weights = np.exp(scores - scores.max(-1, keepdims=True))\n    return (weights / weights.sum(-1, keepdims=True)) @ v  # [tokens, ${n}]\n`,
  js: (n) => `export async function* lines${n}(body) {\n  const reader = body.getReader();\n  let rest = "";\n  for (;;) {\n    const { done, value } = await reader.read();\n    if (done) return;\n    rest += decoder.decode(value, { stream: true });\n    const parts = rest.split("\\n");\n    rest = parts.pop() ?? "";\n    yield* parts;\n  }\n}\n`,
  json: (n) => `{\n  "model": "pebble",\n  "options": { "num_ctx": ${4096 * (n + 1)}, "temperature": 0.${n % 10} },\n  "messages": [\n    { "role": "user", "content": "How do I pull a model?" }\n  ]\n}\n`,
};

/** `count` parts of Markdown. */
export function answer(count, seed = 1) {
  const pick = chance(seed);
  const words = (least, most) => Array.from({ length: least + pick(most - least) }, () => WORDS[pick(WORDS.length)]).join(" ");
  const sentence = () => {
    const text = words(9, 24);
    const marked = [text, text, `${text} (**${words(2, 4)}**)`, `\`${words(1, 2)}\` ${text}`, `${text}, as [said here](https://example.com/${pick(999)})`, `${text}: $O(n^${pick(9)} \\log n)$`][pick(6)];
    return `${marked[0].toUpperCase()}${marked.slice(1)}.`;
  };
  const paragraph = (most) => Array.from({ length: 2 + pick(most) }, sentence).join(" ");
  const code = () => {
    const [name, make] = Object.entries(CODE)[pick(4)];
    return `\`\`\`${name}\n${Array.from({ length: 1 + pick(4) }, () => make(pick(100))).join("\n")}\`\`\``;
  };
  const indented = (text) => text.replace(/\n(?=.)/g, "\n   ");
  const parts = [
    () => `## ${words(3, 6)}`,
    () => paragraph(7),
    () => paragraph(4),
    () => Array.from({ length: 4 + pick(8) }, () => `- **${words(1, 3)}**: ${sentence()}${pick(3) === 0 ? `\n  - ${sentence()}\n  - ${sentence()}` : ""}`).join("\n"),
    () => Array.from({ length: 3 + pick(4) }, (_, at) => `${at + 1}. ${sentence()}\n\n   ${indented(pick(2) === 0 ? code() : paragraph(2))}`).join("\n\n"),
    () => `| ${words(1, 2)} | ${words(1, 2)} | ms |\n|---|:-:|--:|\n${Array.from({ length: 5 + pick(10) }, () => `| ${words(2, 5)} | \`${words(1, 2)}\` | ${pick(9000)} |`).join("\n")}`,
    code,
    code,
    () => `$$\n\\begin{aligned}\nL_${pick(9)} &= \\sum_{i=1}^{n} \\frac{x_i^{${pick(5)}}}{\\sqrt{d_k}} \\\\\n&\\quad - \\int_0^1 f(t)\\,dt \\\\\n&\\quad + \\begin{pmatrix} a & b \\\\ c & ${pick(99)} \\end{pmatrix}\n\\end{aligned}\n$$`,
    () => `> ${paragraph(2)}`,
  ];
  const pieces = [];
  while (pieces.length < count) {
    const text = `${parts[pick(parts.length)]()}\n\n`;
    pieces.push(...text.match(/ ?[\p{L}\p{N}]{1,6}|\s+|./gsu));
  }
  return pieces.slice(0, count);
}
