// `ai` with `ollama-ai-provider-v2`
const { createOllama } = require("ollama-ai-provider-v2");
const { host, DIMENSIONS } = require("./common.cjs");

const provider = createOllama({ baseURL: `${host}/api` });
// The provider does not send `maxOutputTokens`.
const options = { providerOptions: { ollama: { options: { num_predict: 12 } } } };
require("./ai.cjs")({
  model: (name) => provider(name),
  embeddingModel: (name) => provider.embeddingModel(name),
  short: { ollama: { dimensions: DIMENSIONS } },
  options,
});
