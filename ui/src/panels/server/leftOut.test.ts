import { afterEach, expect, it } from "vitest";
import type { Overflow } from "../../api/types";
import { locale } from "../../i18n";
import { leftOut } from "./leftOut";

afterEach(() => locale.set("en"));

function line(reason: Overflow): string | undefined {
  return leftOut({ prompt_tokens: 4000, truncated: { reason, turns: 0, messages: 0, tokens: 12_345, context_tokens: 4096 } });
}

it("request that does not fit has a line with the counts and the remedy", () => {
  expect(line("prompt_too_long")).toBe("Prompt cut: 12,345 of 16,345 tokens left out; the context is 4,096 tokens. Set OLLAMA_CONTEXT_LENGTH or num_ctx to enlarge it, up to the model's limit.");
  expect(line("context_full")).toBe("Context full: 12,345 earlier tokens left out; the context is 4,096 tokens. Set OLLAMA_CONTEXT_LENGTH or num_ctx to enlarge it, up to the model's limit.");
  locale.set("zh-CN");
  for (const reason of ["prompt_too_long", "context_full"] as const) expect(line(reason), reason).toMatch(/12,345.*4,096.*OLLAMA_CONTEXT_LENGTH.*num_ctx/);
});

it("images that do not fit are counted", () => {
  const truncated = { reason: "prompt_too_long" as const, turns: 1, messages: 1, tokens: 9, context_tokens: 64, images: 2 };
  expect(leftOut({ prompt_tokens: 40, truncated })).toMatch(/limit\. The model does not see 2 images\.$/);
});

it("images that the template does not show are no matter of the context", () => {
  const truncated = { reason: "prompt_too_long" as const, turns: 0, messages: 0, tokens: 0, context_tokens: 64, images: 1 };
  expect(leftOut({ prompt_tokens: 40, truncated })).toBe("The model does not see 1 image: its chat template does not show them.");
});

it("request that fits has no line", () => {
  expect(leftOut({ prompt_tokens: 4000 })).toBeUndefined();
});
