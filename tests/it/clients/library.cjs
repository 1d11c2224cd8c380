// Models pulled, created, copied, listed, shown, pushed and deleted through the npm package `ollama`.
//
// Arguments: host, name of a model at a registry, path of a GGUF file, name to push as ("" for none). Prints one JSON
// object: the statuses of each step, and the class, status and text of each error.

const { createHash } = require("node:crypto");
const { readFileSync } = require("node:fs");
const { Ollama } = require("ollama");

const [host, name, path, pushed] = process.argv.slice(2);
const client = new Ollama({ host });

// Returns the statuses of a stream without repetition, and the progress of each digest.
async function collect(stream) {
  const statuses = [];
  const progress = {};
  for await (const part of await stream) {
    if (part.digest) (progress[part.digest] ??= []).push([part.completed ?? 0, part.total ?? 0]);
    else if (statuses.at(-1) !== part.status) statuses.push(part.status);
  }
  return { statuses, progress };
}

async function refusal(act) {
  try {
    await act();
    return null;
  } catch (error) {
    return [error.name, error.status_code ?? null, error.message];
  }
}

async function listed() {
  const { models } = await client.list();
  return Object.fromEntries(models.map((model) => [model.model, model.digest]));
}

async function main() {
  const report = { before: await listed() };
  report.pull = await collect(client.pull({ model: name, insecure: true, stream: true }));
  report.pullWhole = await client.pull({ model: name, insecure: true });
  const missing = { model: name + "-missing", insecure: true };
  report.missing = await refusal(() => client.pull(missing));
  report.missingStreamed = await refusal(() => collect(client.pull({ ...missing, stream: true })));

  const bytes = readFileSync(path);
  const digest = "sha256:" + createHash("sha256").update(bytes).digest("hex");
  // The package cannot upload files.
  const sent = await fetch(`${host}/api/blobs/${digest}`, { method: "POST", body: bytes });
  report.blob = [sent.status, (await fetch(`${host}/api/blobs/${digest}`, { method: "HEAD" })).status];
  const made = { model: "made", files: { "m.gguf": digest }, system: "Be brief.", parameters: { temperature: 0.5 } };
  report.create = await collect(client.create({ ...made, stream: true }));
  report.createWhole = await client.create({ model: "derived", from: "made", template: "{{ .Prompt }}" });
  const shown = await client.show({ model: "derived" });
  report.shown = [shown.details.family, shown.system, shown.template, shown.capabilities, typeof shown.model_info];
  const chat = { model: "derived", messages: [{ role: "user", content: "hi" }], options: { num_predict: 4 } };
  report.answer = (await client.chat(chat)).done;
  report.answerStreamed = (await Array.fromAsync(await client.chat({ ...chat, stream: true }))).at(-1).done;

  report.copy = await client.copy({ source: "derived", destination: "Second" });
  report.copied = await listed();
  if (pushed) {
    await client.copy({ source: "derived", destination: pushed });
    report.push = await collect(client.push({ model: pushed, insecure: true, stream: true }));
    report.pushWhole = await client.push({ model: pushed, insecure: true });
    await client.delete({ model: pushed });
  }
  report.refusals = {
    show: await refusal(() => client.show({ model: "missing" })),
    copy: await refusal(() => client.copy({ source: "missing", destination: "x" })),
    delete: await refusal(() => client.delete({ model: "missing" })),
    create: await refusal(() => client.create({ model: "x" })),
    push: await refusal(() => client.push({ model: "missing/nothing" })),
    chat: await refusal(() => client.chat({ ...chat, model: "missing" })),
    chatStreamed: await refusal(() => client.chat({ ...chat, model: "missing", stream: true })),
  };
  for (const model of ["SECOND", "derived", "made", name]) await client.delete({ model });
  report.after = await listed();
  console.log(JSON.stringify(report));
}

main();
