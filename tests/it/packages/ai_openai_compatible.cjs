// `ai` with `@ai-sdk/openai-compatible`
const { createOpenAICompatible } = require("@ai-sdk/openai-compatible");
const { host, DIMENSIONS } = require("./common.cjs");

const provider = createOpenAICompatible({ name: "cairn", baseURL: `${host}/v1`, supportsStructuredOutputs: true });
require("./ai.cjs")({
  model: (name) => provider(name),
  embeddingModel: (name) => provider.embeddingModel(name),
  short: { cairn: { dimensions: DIMENSIONS } },
});
