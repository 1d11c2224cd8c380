// `ai` with `ollama-ai-provider-v2`
const { createOllama } = require("ollama-ai-provider-v2");
const { host } = require("./common.cjs");

const provider = createOllama({ baseURL: `${host}/api` });
// The provider does not send `maxOutputTokens`.
require("./ai.cjs")((name) => provider(name), { providerOptions: { ollama: { options: { num_predict: 12 } } } });
