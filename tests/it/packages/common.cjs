// Inputs that all scripts of npm packages share.
// Arguments of a script: host, names of the model that calls tools, of the embedding model and of the model that sees, and a PNG file in
// base64.
const [host, caller, embedder, seer, IMAGE] = process.argv.slice(2);

const SCHEMA = { type: "object", properties: { ok: { type: "boolean" } }, required: ["ok"], additionalProperties: false };

// The class and the status of the error with which a promise fails.
async function refusal(promise) {
  try {
    await promise;
    return null;
  } catch (error) {
    return [error.name === "Error" ? error.constructor.name : error.name, error.status_code ?? error.statusCode ?? error.status ?? null];
  }
}

module.exports = {
  host,
  caller,
  embedder,
  seer,
  IMAGE,
  QUESTION: "How do I pull a model?",
  WEATHER: "How is the weather?",
  RESULT: "3",
  LOOK: "What do you see?",
  TEXTS: ["A stone.", "How far away is the sun?"],
  DIMENSIONS: 16,
  SCHEMA,
  TOOL: {
    type: "function",
    function: {
      name: "weather",
      description: "The weather of a city.",
      parameters: { type: "object", properties: { city: { type: "string" }, days: { type: "integer" } } },
    },
  },
  refusal,
  run: (script) =>
    script().then(
      (report) => process.stdout.write(JSON.stringify(report)),
      (error) => {
        console.error(error);
        process.exit(1);
      },
    ),
};
