import { describe, expect, it } from "vitest";
import { ApiError } from "../../../api/client";
import type { AddToolServerRequest, ToolsApi, ToolsResponse } from "../../../api/tools";
import type { ErrorCode } from "../../../api/types";
import { ToolForm, type ToolValues } from "./toolForm.svelte";

const refusal = (code: ErrorCode, params: Record<string, string> = {}): ApiError => new ApiError(400, code, { error: code, code, params });

function daemon(fail?: () => ApiError | undefined) {
  const requests: (AddToolServerRequest | string)[] = [];
  const response: ToolsResponse = { servers: [], web: false, folder: null };
  const take = (request: AddToolServerRequest | string): void => {
    const error = fail?.();
    if (error) throw error;
    requests.push(request);
  };
  const api = {
    add: async (request: AddToolServerRequest) => (take(request), response),
    importText: async (text: string) => (take(text), { names: ["a", "b"], tools: response }),
  } as unknown as ToolsApi;
  return { api, requests };
}
const fill = (form: ToolForm, values: Partial<ToolValues>): void => void Object.assign(form.values, values);

describe("form of a server", () => {
  it("sends a program with its arguments and variables", async () => {
    const { api, requests } = daemon();
    const form = new ToolForm(api);
    expect(form.ready).toBe(false);
    fill(form, { name: " files ", command: " npx ", args: "-y\nserver\n\n", variables: "TOKEN=a=b" });
    expect((await form.add([]))?.names).toEqual(["files"]);
    expect(requests).toEqual([{ name: "files", command: "npx", args: ["-y", "server"], variables: { TOKEN: "a=b" } }]);
    form.reset();
    expect(Object.values(form.values).join(""), "secrets are forgotten").toBe("");
  });

  it("sends a URL with headers, or a text", async () => {
    const { api, requests } = daemon();
    const form = new ToolForm(api);
    form.way = "url";
    fill(form, { name: "web2", url: " https://a.example/mcp ", headers: "Authorization: Bearer x" });
    await form.add([]);
    form.way = "json";
    expect(form.ready, "without a text").toBe(false);
    fill(form, { text: '{"mcpServers":{}}' });
    expect((await form.add([]))?.names).toEqual(["a", "b"]);
    expect(requests).toEqual([{ name: "web2", url: "https://a.example/mcp", headers: { Authorization: "Bearer x" } }, '{"mcpServers":{}}']);
  });

  it("mistake is shown at its field until the field changes, and nothing is sent", async () => {
    const { api, requests } = daemon();
    const form = new ToolForm(api);
    fill(form, { name: "my files", command: "npx -y server" });
    await form.add([]);
    expect(form.problem).toMatchObject({ field: "name", cure: { name: "my-files" } });
    form.cure({ name: "my-files" });
    expect(form.problem).toBeUndefined();
    await form.add([]);
    expect(form.problem).toMatchObject({ field: "command", mistake: { kind: "spaces" }, cure: { command: "npx", args: "-y\nserver" } });
    form.cure(form.problem?.cure ?? {});
    fill(form, { variables: "TOKEN" });
    await form.add([]);
    expect(form.problem).toMatchObject({ field: "variables", mistake: { kind: "line", text: "TOKEN" } });
    expect(requests).toEqual([]);
    form.way = "json";
    expect(form.problem, "of another way").toBeUndefined();
  });

  it("error of the daemon is shown at the field that probably causes it", async () => {
    let error = refusal("tool_server_name_taken");
    const form = new ToolForm(daemon(() => error).api);
    const check = async (field: string | undefined): Promise<void> => {
      expect(await form.add(["files"])).toBeUndefined();
      expect([form.problem?.field, form.otherError === undefined], `${error.code} ${JSON.stringify(error.params)}`).toEqual([field, field !== undefined]);
    };
    fill(form, { name: "files", command: "npx" });
    await check("name");
    expect(form.problem?.cure).toEqual({ name: "files-2" });
    error = refusal("tool_server_invalid", { reason: 'the variable "A B" has an invalid name' });
    await check("variables");
    error = refusal("tool_server_invalid", { reason: "the command is empty" });
    await check("command");
    error = refusal("too_many_tool_servers");
    await check(undefined);
    form.way = "url";
    fill(form, { url: "http://a.example/mcp", headers: "A: b" });
    error = refusal("tool_server_invalid", { reason: "the headers would be sent unencrypted to another machine; use https://" });
    await check("url");
    expect(form.problem?.cure).toEqual({ url: "https://a.example/mcp" });
    error = refusal("tool_server_invalid", { reason: 'the header "A" has an invalid name or value' });
    await check("headers");
    form.way = "json";
    fill(form, { text: "{" });
    error = refusal("tool_server_invalid", { reason: "the text is not valid JSON" });
    await check("text");
  });
});
