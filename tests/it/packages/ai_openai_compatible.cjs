// `ai` with `@ai-sdk/openai-compatible`
const { createOpenAICompatible } = require("@ai-sdk/openai-compatible");
const { host } = require("./common.cjs");

const provider = createOpenAICompatible({ name: "cairn", baseURL: `${host}/v1`, supportsStructuredOutputs: true });
require("./ai.cjs")((name) => provider(name));
