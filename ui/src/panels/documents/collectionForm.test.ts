import { expect, it } from "vitest";
import { ApiError } from "../../api/client";
import type { Collection, CollectionsApi } from "../../api/collections";
import { Collections } from "../../api/collections.svelte";
import { Models } from "../../api/models.svelte";
import type { TagsModel } from "../../api/types";
import { CollectionForm, describeModels, embeddingModels } from "./collectionForm.svelte";

const collection = (part: Partial<Collection> = {}): Collection => ({ id: "c", name: "Notes", created_at: "", documents: 1, chunks: 4, unreadable_chunks: 0, meaning: { state: "no_model" }, ...part });

function daemon() {
  const calls: unknown[] = [];
  const api = {
    create: async (request: { name: string; model?: string }) => (calls.push(request), collection({ name: request.name })),
    change: async (id: string, change: object) => (calls.push([id, change]), collection(change)),
  } as unknown as CollectionsApi;
  const collections = new Collections(api);
  collections.now = [];
  return { calls, api, collections };
}

it("new collection has the offered model until the user chooses", async () => {
  const { calls, collections } = daemon();
  const form = new CollectionForm(undefined, collections);
  form.offer("all-minilm");
  expect([form.model, form.ready, form.changesModel]).toEqual(["all-minilm", false, false]);
  form.choose("");
  form.offer("all-minilm");
  form.name = "  Recipes ";
  expect((await form.save())?.name).toBe("Recipes");
  expect([calls, collections.now?.length]).toEqual([[{ name: "Recipes", model: "" }], 1]);
});

it("only changed fields of a collection are sent", async () => {
  const { calls, collections } = daemon();
  const before = collection({ model: "all-minilm" });
  const named = new CollectionForm(before, collections);
  named.offer("bge");
  named.name = "Ideas";
  expect([named.model, named.changesModel]).toEqual(["all-minilm", false]);
  await named.save();
  const modelled = new CollectionForm(before, collections);
  modelled.choose("");
  expect(modelled.changesModel).toBe(true);
  await modelled.save();
  expect(calls).toEqual([["c", { name: "Ideas" }], ["c", { model: "" }]]);
});

it("error is shown at its field", async () => {
  const { api, collections } = daemon();
  const form = new CollectionForm(undefined, collections);
  form.name = "x";
  const check = async (error: unknown, field: string | undefined): Promise<void> => {
    api.create = () => Promise.reject(error);
    expect([await form.save(), form.problem?.field, form.problem?.error, form.busy]).toEqual([undefined, field, error, false]);
  };
  await check(new ApiError(400, "no", { error: "no", code: "collection_name_invalid" }), "name");
  await check(new ApiError(400, "no", { error: "no", code: "collection_model_invalid" }), "model");
  await check(new ApiError(404, "no", { error: "no", code: "model_not_found" }), "model");
  await check(new ApiError(500, "no", { error: "no", code: "collection_full" }), undefined);
  await check(new Error("offline"), undefined);
});

it("models that compute vectors are found, also without capabilities in the list", async () => {
  const model = (name: string, part: Partial<TagsModel> = {}) => ({ name, digest: name, size: 1, details: {}, ...part }) as TagsModel;
  const models = new Models();
  const installed = [model("mini", { capabilities: ["embedding"] }), model("chat", { capabilities: ["completion"] }), model("unclear"), model("far", { capabilities: ["embedding"], size: 0, remotes: ["gpu"] })];
  const described: string[] = [];
  Object.assign(models, {
    refresh: async () => void (models.installed = installed),
    describe: async (name: string) => {
      described.push(name);
      models.installed = installed.map((one) => (one.name === name ? { ...one, capabilities: ["embedding"] } : one));
      return {};
    },
  });
  await describeModels(models);
  expect([described, embeddingModels(models)]).toEqual([["unclear"], ["mini", "unclear"]]);
});
