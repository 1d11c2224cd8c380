// The form for a new server of tools: a program, a URL, or the JSON of other apps.
import { Attempt } from "../../../api/attempt.svelte";
import { ApiError } from "../../../api/client";
import { toolsApi, type AddToolServerRequest, type ToolsApi, type ToolsResponse } from "../../../api/tools";
import { freeName, isCommandLine, lines, pairs, splitCommand, validName } from "./commandLine";

export type Way = "program" | "url" | "json";
export const WAYS: readonly Way[] = ["program", "url", "json"];
export type ToolField = "name" | "command" | "args" | "variables" | "url" | "headers" | "text";
export type ToolValues = Record<ToolField, string>;

/** Why the form was not accepted, at its field. */
export interface ToolProblem {
  field: ToolField;
  /** The daemon's error. */
  error?: ApiError;
  /** A mistake that the form finds: an invalid name, a command line in one field, or a line without a value. */
  mistake?: { kind: "name" | "spaces" | "line"; text: string };
  /** Better values. */
  cure?: Partial<ToolValues>;
}

/** The added servers, and all tools. */
export interface AddedServers {
  names: string[];
  tools: ToolsResponse;
}

const EMPTY: ToolValues = { name: "", command: "", args: "", variables: "", url: "", headers: "", text: "" };
/** Fields that each way needs. */
const NEEDED: Readonly<Record<Way, readonly ToolField[]>> = { program: ["name", "command"], url: ["name", "url"], json: ["text"] };

/** The request of a form, or its first mistake. */
export function requestOf(way: "program" | "url", values: ToolValues): AddToolServerRequest | ToolProblem {
  const name = values.name.trim();
  const better = validName(name);
  if (better !== name) return { field: "name", mistake: { kind: "name", text: name }, ...(better === "" ? {} : { cure: { name: better } }) };
  if (way === "url") {
    const headers = pairs(values.headers, ":");
    if (headers.wrong !== undefined) return { field: "headers", mistake: { kind: "line", text: headers.wrong } };
    return { name, url: values.url.trim(), headers: headers.values };
  }
  const args = lines(values.args);
  if (args.length === 0 && isCommandLine(values.command)) {
    const [command = "", ...rest] = splitCommand(values.command);
    return { field: "command", mistake: { kind: "spaces", text: values.command }, cure: { command, args: rest.join("\n") } };
  }
  const variables = pairs(values.variables, "=");
  if (variables.wrong !== undefined) return { field: "variables", mistake: { kind: "line", text: variables.wrong } };
  return { name, command: values.command.trim(), args, variables: variables.values };
}

/** Assigns an error of the daemon to a field; `undefined` if no field is at fault. */
export function problemOf(error: unknown, way: Way, values: ToolValues, taken: readonly string[]): ToolProblem | undefined {
  if (!(error instanceof ApiError)) return undefined;
  if (error.code === "tool_server_name_taken") {
    return way === "json" ? { field: "text", error } : { field: "name", error, cure: { name: freeName(values.name.trim(), taken) } };
  }
  if (error.code !== "tool_server_invalid") return undefined;
  if (way === "json") return { field: "text", error };
  const reason = error.params["reason"] ?? "";
  if (way === "program") return { field: /variable/i.test(reason) ? "variables" : /argument/i.test(reason) ? "args" : "command", error };
  const isPlain = /unencrypted/i.test(reason) && /^http:/i.test(values.url.trim());
  if (isPlain) return { field: "url", error, cure: { url: values.url.trim().replace(/^http:/i, "https:") } };
  return { field: /header/i.test(reason) ? "headers" : "url", error };
}

export class ToolForm extends Attempt {
  way = $state<Way>("program");
  values = $state<ToolValues>({ ...EMPTY });
  #tried = $state.raw<{ problem: ToolProblem; way: Way; before: ToolValues } | undefined>(undefined);

  constructor(private readonly api: ToolsApi = toolsApi) {
    super();
  }

  get ready(): boolean {
    return !this.busy && NEEDED[this.way].every((field) => this.values[field].trim() !== "");
  }

  /** The problem of the last attempt, until a change of the form may have solved it. */
  get problem(): ToolProblem | undefined {
    if (this.#tried === undefined || this.#tried.way !== this.way) return undefined;
    const { problem, before } = this.#tried;
    const fields = [problem.field, ...(Object.keys(problem.cure ?? {}) as ToolField[])];
    return fields.every((field) => before[field] === this.values[field]) ? problem : undefined;
  }

  /** The error of the last attempt that no field caused. */
  get otherError(): unknown {
    return this.#tried === undefined ? this.error : undefined;
  }

  /** Adds the servers of the form. Returns them, or `undefined` if that failed. `taken` are the names of other servers. */
  async add(taken: readonly string[]): Promise<AddedServers | undefined> {
    if (!this.ready) return undefined;
    const { way } = this;
    const values = { ...this.values };
    this.#tried = undefined;
    this.error = undefined;
    const request = way === "json" ? undefined : requestOf(way, values);
    if (request !== undefined && "field" in request) {
      this.#tried = { problem: request, way, before: values };
      return undefined;
    }
    let added: AddedServers | undefined;
    const done = await this.attempt(async () => {
      if (request === undefined) added = await this.api.importText(values.text);
      else added = { names: [request.name], tools: await this.api.add(request) };
    });
    if (done) return added;
    const problem = problemOf(this.error, way, values, taken);
    this.#tried = problem && { problem, way, before: values };
    return undefined;
  }

  /** Enters better values. */
  cure(values: Partial<ToolValues>): void {
    Object.assign(this.values, values);
  }

  /** Empties the form and forgets secrets. */
  reset(): void {
    this.way = "program";
    this.values = { ...EMPTY };
    this.error = this.#tried = undefined;
  }
}
