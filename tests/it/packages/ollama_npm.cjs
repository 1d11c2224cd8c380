// `ollama` of npm
const { Ollama } = require("ollama");
const { host, caller, embedder, seer, QUESTION, WEATHER, RESULT, IMAGE, LOOK, SCHEMA, TEXTS, DIMENSIONS, TOOL, refusal, run } = require("./common.cjs");

run(async () => {
  const client = new Ollama({ host });
  const user = (content, more = {}) => [{ role: "user", content, ...more }];
  const greedy = { model: "pebble", options: { temperature: 0, num_predict: 12 } };
  const report = { list: (await client.list()).models.map((model) => model.name).sort() };
  report.chat = (await client.chat({ ...greedy, messages: user(QUESTION) })).message.content;
  report.stream = "";
  for await (const chunk of await client.chat({ ...greedy, messages: user(QUESTION), stream: true })) {
    report.stream += chunk.message.content;
  }

  const called = (await client.chat({ model: caller, messages: user(WEATHER), tools: [TOOL] })).message;
  const messages = [...user(WEATHER), called, { role: "tool", tool_name: "weather", content: RESULT }];
  const answered = (await client.chat({ model: caller, messages, tools: [TOOL] })).message;
  report.tools = [called.tool_calls.map((call) => [call.function.name, call.function.arguments]), answered.content];

  const options = { temperature: 0, num_predict: 200 };
  const structured = await client.chat({ model: "pebble", options, messages: user(QUESTION), format: SCHEMA });
  report.schema = Object.keys(JSON.parse(structured.message.content));

  const vectors = async (input, more = {}) => (await client.embed({ model: embedder, input, ...more })).embeddings;
  const [one] = await vectors(TEXTS[0]);
  report.embeddings = { texts: await vectors(TEXTS), one, short: await vectors(TEXTS, { dimensions: DIMENSIONS }) };

  const image = { ...greedy, messages: user(LOOK, { images: [IMAGE] }) };
  const seen = (await client.chat({ ...image, model: seer })).message.content;
  report.image = [await refusal(client.chat(image)), seen];
  const stream = await client.chat({ model: "pebble", messages: user(QUESTION), stream: true, options: { num_predict: 5000 } });
  try {
    for await (const _ of stream) stream.abort();
  } catch (error) {
    report.cancel = error.name === "AbortError";
  }
  report.missing = await refusal(client.chat({ model: "missing", messages: user(QUESTION) }));
  return report;
});
