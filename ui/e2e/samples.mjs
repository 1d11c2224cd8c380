// State of a cache in daily use and of remotes, for pictures of screens that a short test cannot fill.
export const GB = 1e9;

/** A remote; `more` overrides its fields. */
export const remote = (name, url, state, models, more = {}) => ({
  name, url, kind: "ollama", has_key: false, state, models, outstanding: 0, requests: 0, failures: 0, prompt_tokens: 0, cached_tokens: 0, answer_tokens: 0, ...more,
});

/** A tier of the cache; `more` overrides its fields. */
export const tier = (name, budget, used, chunks, more = {}) => ({
  tier: name, health: "up", budget_bytes: budget, used_bytes: used, chunks, queued_bytes: 0, removing_chunks: 0, stored_bytes: used, restored_bytes: 0, hit_tokens: 0, evicted_bytes: 0, written_today_bytes: 0, damaged: 0, ...more,
});

export const CACHE = {
  tiers: [
    tier("ram", 10 * GB, 7.8 * GB, 438, { hit_tokens: 930_000, restored_bytes: 61 * GB, read_bytes_per_second: 21 * GB }),
    tier("ssd", 40 * GB, 31.4 * GB, 2104, { hit_tokens: 660_000, restored_bytes: 44 * GB, read_bytes_per_second: 4.8 * GB, queued_bytes: 120e6, written_today_bytes: 6.2 * GB }),
    tier("remote", 200 * GB, 118 * GB, 6912, { hit_tokens: 50_000, restored_bytes: 3 * GB, read_bytes_per_second: 112e6 }),
  ],
  folder: "/home/me/.cache/cairn/kv",
  remote: "/mnt/nas/cairn",
  prompt_tokens: 3_310_000,
  cached_tokens: 2_880_000,
  saved_today_ms: 41 * 60_000,
  cut_short: 0,
  dropped: 0,
};

/** Answers requests of the page to a path of the daemon with JSON. */
export const answer = (page, daemon, path, body) => page.route(`${daemon.address}${path}`, (route) => route.fulfill({ contentType: "application/json", body: JSON.stringify(body) }));

/** Answers a stream with one line. The page opens a stream that ends again; its line stays. */
export const stream = (page, daemon, path, line) => page.route(`${daemon.address}${path}`, (route) => route.fulfill({ contentType: "application/x-ndjson", body: `${JSON.stringify(line)}\n` }));
