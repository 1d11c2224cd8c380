// `openai` of npm
const OpenAI = require("openai").default;
const { host, caller, embedder, seer, QUESTION, WEATHER, RESULT, IMAGE, LOOK, SCHEMA, TEXTS, DIMENSIONS, TOOL, refusal, run } = require("./common.cjs");

run(async () => {
  const client = new OpenAI({ baseURL: `${host}/v1`, apiKey: "unused", maxRetries: 0 });
  const user = (content) => [{ role: "user", content }];
  const complete = (body) => client.chat.completions.create(body);
  const greedy = { model: "pebble", temperature: 0, max_tokens: 12 };
  const report = { list: (await client.models.list()).data.map((model) => model.id).sort() };
  report.chat = (await complete({ ...greedy, messages: user(QUESTION) })).choices[0].message.content;
  report.stream = "";
  for await (const chunk of await complete({ ...greedy, messages: user(QUESTION), stream: true })) {
    report.stream += chunk.choices[0]?.delta.content ?? "";
  }

  const called = (await complete({ model: caller, messages: user(WEATHER), tools: [TOOL] })).choices[0].message;
  const result = { role: "tool", tool_call_id: called.tool_calls[0].id, content: RESULT };
  const messages = [...user(WEATHER), called, result];
  const answered = (await complete({ model: caller, messages, tools: [TOOL] })).choices[0].message;
  const calls = called.tool_calls.map((call) => [call.function.name, JSON.parse(call.function.arguments)]);
  report.tools = [calls, answered.content];

  const response_format = { type: "json_schema", json_schema: { name: "check", schema: SCHEMA, strict: true } };
  const structured = await complete({ ...greedy, max_tokens: 200, messages: user(QUESTION), response_format });
  report.schema = Object.keys(JSON.parse(structured.choices[0].message.content));

  const vectors = async (input, more = {}) =>
    (await client.embeddings.create({ model: embedder, input, ...more })).data.map((item) => item.embedding);
  report.embeddings = {
    texts: await vectors(TEXTS, { encoding_format: "float" }),
    one: (await vectors(TEXTS[0], { encoding_format: "float" }))[0],
    short: await vectors(TEXTS, { dimensions: DIMENSIONS }),
    // The package requests base64 unless the caller names a format.
    base64: await vectors(TEXTS),
  };

  const picture = { type: "image_url", image_url: { url: `data:image/png;base64,${IMAGE}` } };
  const image = { ...greedy, messages: user([{ type: "text", text: LOOK }, picture]) };
  const seen = (await complete({ ...image, model: seer })).choices[0].message.content;
  report.image = [await refusal(complete(image)), seen];
  const stream = await complete({ model: "pebble", messages: user(QUESTION), stream: true, max_tokens: 5000 });
  for await (const _ of stream) stream.controller.abort();
  report.cancel = stream.controller.signal.aborted;
  report.missing = await refusal(complete({ model: "missing", messages: user(QUESTION) }));
  return report;
});
