// `@anthropic-ai/sdk`
const Anthropic = require("@anthropic-ai/sdk").default;
const { host, caller, seer, QUESTION, WEATHER, RESULT, IMAGE, LOOK, SCHEMA, TOOL, refusal, run } = require("./common.cjs");

run(async () => {
  const client = new Anthropic({ baseURL: host, apiKey: "unused", maxRetries: 0 });
  const user = (content) => ({ role: "user", content });
  const create = (body) => client.messages.create(body);
  const text = (message) => message.content.filter((block) => block.type === "text").map((block) => block.text).join("");
  const greedy = { model: "pebble", max_tokens: 12, temperature: 0 };
  const report = { list: (await client.models.list()).data.map((model) => model.id).sort() };
  report.chat = text(await create({ ...greedy, messages: [user(QUESTION)] }));
  report.stream = text(await client.messages.stream({ ...greedy, messages: [user(QUESTION)] }).finalMessage());

  const tools = [{ name: "weather", description: "The weather.", input_schema: TOOL.function.parameters }];
  const called = await create({ model: caller, max_tokens: 500, messages: [user(WEATHER)], tools });
  const uses = called.content.filter((block) => block.type === "tool_use");
  const result = user([{ type: "tool_result", tool_use_id: uses[0].id, content: RESULT }]);
  const messages = [user(WEATHER), { role: "assistant", content: called.content }, result];
  const answered = await create({ model: caller, max_tokens: 500, messages, tools });
  report.tools = [uses.map((use) => [use.name, use.input]), text(answered)];

  const output_config = { format: { type: "json_schema", schema: SCHEMA } };
  const structured = await create({ ...greedy, max_tokens: 200, messages: [user(QUESTION)], output_config });
  report.schema = Object.keys(JSON.parse(text(structured)));
  const source = { type: "base64", media_type: "image/png", data: IMAGE };
  const image = { ...greedy, messages: [user([{ type: "image", source }, { type: "text", text: LOOK }])] };
  report.image = [await refusal(create(image)), text(await create({ ...image, model: seer }))];
  const stream = await create({ model: "pebble", max_tokens: 5000, messages: [user(QUESTION)], stream: true });
  for await (const _ of stream) stream.controller.abort();
  report.cancel = stream.controller.signal.aborted;
  report.missing = await refusal(create({ model: "missing", max_tokens: 1, messages: [user(QUESTION)] }));
  return report;
});
