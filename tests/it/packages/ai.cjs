// `ai` with a provider: functions from names to models. `options` limit an answer to 12 tokens, `short` requests vectors of
// `DIMENSIONS` elements.
const { generateText, streamText, generateObject, embed, embedMany, tool, jsonSchema, stepCountIs } = require("ai");
const { caller, embedder, seer, QUESTION, WEATHER, RESULT, IMAGE, LOOK, SCHEMA, TEXTS, TOOL, refusal, run } = require("./common.cjs");

module.exports = ({ model, embeddingModel, short, options = {} }) =>
  run(async () => {
    const greedy = { model: model("pebble"), temperature: 0, maxOutputTokens: 12, maxRetries: 0 };
    const limited = { ...greedy, ...options, prompt: QUESTION };
    const report = { chat: (await generateText(limited)).text, stream: "" };
    for await (const part of streamText(limited).textStream) report.stream += part;

    const calls = [];
    const execute = async (input) => {
      calls.push(["weather", input]);
      return RESULT;
    };
    const weather = tool({ description: "The weather.", inputSchema: jsonSchema(TOOL.function.parameters), execute });
    const clock = tool({
      description: "The time.",
      inputSchema: jsonSchema({ type: "object", properties: {} }),
      execute: async (input) => {
        calls.push(["clock", input]);
        return RESULT;
      },
    });
    const tools = { weather, clock };
    const answered = await generateText({ model: model(caller), prompt: WEATHER, tools, stopWhen: stepCountIs(3), maxRetries: 0 });
    report.tools = [calls, answered.text];

    const structured = await generateObject({ ...greedy, maxOutputTokens: 200, prompt: QUESTION, schema: jsonSchema(SCHEMA) });
    report.schema = Object.keys(structured.object);

    const texts = { model: embeddingModel(embedder), values: TEXTS, maxRetries: 0 };
    report.embeddings = {
      texts: (await embedMany(texts)).embeddings,
      one: (await embed({ model: texts.model, value: TEXTS[0], maxRetries: 0 })).embedding,
      short: (await embedMany({ ...texts, providerOptions: short })).embeddings,
    };

    const content = [{ type: "text", text: LOOK }, { type: "image", image: IMAGE, mediaType: "image/png" }];
    const image = { ...greedy, messages: [{ role: "user", content }] };
    const seen = (await generateText({ ...image, model: model(seer) })).text;
    report.image = [await refusal(generateText(image)), seen];
    const abort = new AbortController();
    const stream = streamText({ model: model("pebble"), prompt: QUESTION, maxOutputTokens: 5000, abortSignal: abort.signal });
    for await (const _ of stream.textStream) abort.abort();
    report.cancel = abort.signal.aborted;
    report.missing = await refusal(generateText({ ...greedy, model: model("missing"), prompt: QUESTION }));
    return report;
  });
