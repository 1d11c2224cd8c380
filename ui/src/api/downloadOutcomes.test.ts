import { expect, it } from "vitest";
import { DownloadOutcomes } from "./downloadOutcomes.svelte";
import type { Download, DownloadState } from "./types";

const queue = (...rows: [number, DownloadState][]) => ({ downloads: rows.map(([id, state]) => ({ id, state, model: `m${id}` }) as Download) }) as never;
const failed = (outcomes: DownloadOutcomes) => outcomes.failed.map((one) => one.id);

it("download that fails while the page is open is reported until it is retried", () => {
  const outcomes = new DownloadOutcomes();
  outcomes.update(queue([1, "failed"], [2, "running"]));
  expect(failed(outcomes), "one that had failed before is not").toEqual([]);
  outcomes.update(queue([1, "failed"], [2, "failed"], [3, "failed"]));
  expect(failed(outcomes)).toEqual([2, 3]);
  outcomes.update(queue([1, "running"], [2, "running"], [3, "failed"]));
  expect(failed(outcomes)).toEqual([3]);
  outcomes.dismiss(3);
  expect(failed(outcomes)).toEqual([]);
  outcomes.update(queue([1, "failed"], [2, "done"], [3, "failed"]));
  expect(failed(outcomes), "a dismissed one stays dismissed, a retried one is reported again").toEqual([1]);
});

it("refused download asks once, and only the user that requested it here", () => {
  const outcomes = new DownloadOutcomes();
  const refused = (id: number, detached: boolean) =>
    ({ id, state: "failed", model: `m${id}`, detached, error: { error: "no", code: "model_cannot_run" } }) as Download;
  const asked = () => outcomes.refused.map((one) => one.id);
  outcomes.update(queue());
  outcomes.update({ downloads: [refused(1, true), refused(2, false)] });
  expect(asked(), "the client of the second one asks its user").toEqual([1]);
  expect(failed(outcomes), "the notice of failures does not repeat it").toEqual([]);
  outcomes.dismiss(1);
  outcomes.update({ downloads: [refused(1, true), refused(2, false)] });
  expect(asked()).toEqual([]);
});

it("model that arrives is reported once", () => {
  const outcomes = new DownloadOutcomes();
  expect(outcomes.update(queue([1, "done"], [2, "running"]))).toEqual([]);
  expect(outcomes.update(queue([1, "done"], [2, "done"]))).toEqual(["m2"]);
  expect(outcomes.update(queue([1, "done"], [2, "done"]))).toEqual([]);
});
