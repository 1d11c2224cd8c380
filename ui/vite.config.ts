import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

// `CAIRN_SERVER` is the daemon that `npm run dev` forwards requests to. The built page uses the server that it was loaded from.
const server = process.env.CAIRN_SERVER ?? "http://127.0.0.1:11434";
const forward = {
  target: server,
  changeOrigin: true,
  configure: (proxy: { on: (event: "proxyReq", listener: (request: { removeHeader: (name: string) => void }) => void) => void }) =>
    proxy.on("proxyReq", (request) => request.removeHeader("origin")),
};

/** KaTeX offers each font in three formats; every webview of today reads the smallest. */
const onlyWoff2 = {
  name: "only-woff2",
  enforce: "pre" as const,
  transform: (code: string, id: string) =>
    /katex(\.min)?\.css/.test(id) ? code.replace(/,\s*url\([^)]*\.(?:woff|ttf)\)\s*format\("[a-z]+"\)/g, "") : undefined,
};

/** The largest file: Mermaid, which is loaded with the first diagram. */
const LARGEST_KB = 2_700;

export default defineConfig({
  // Relative, so that one build works below `/ui/` and at the root of the window's own origin.
  base: "./",
  plugins: [onlyWoff2, svelte()],
  build: { target: "es2022", assetsInlineLimit: 0, modulePreload: { polyfill: false }, chunkSizeWarningLimit: LARGEST_KB },
  server: { proxy: { "/app": forward, "/api": forward } },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});
