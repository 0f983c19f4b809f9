import { readFileSync } from "node:fs";
import svelte from "@astrojs/svelte";
import { defineConfig } from "astro/config";

// Of all that public/_headers states, what sharing memory among threads needs.
const stated = readFileSync(new URL("public/_headers", import.meta.url), "utf8");
const isolation = Object.fromEntries(
  Array.from(stated.matchAll(/^\s+(Cross-Origin-[\w-]+): (.+)$/gm), ([, name, value]) => [name!, value!]),
);

export default defineConfig({
  integrations: [svelte()],
  devToolbar: { enabled: false },
  build: { inlineStylesheets: "never" }, // a stylesheet names its fonts beside itself, wherever the site lies
  server: { headers: isolation },
  vite: {
    server: { fs: { allow: [".."] } }, // the worker takes tinygpt/core from the package's own files
    worker: { format: "es" },
    build: { target: "es2023" },
    experimental: { renderBuiltUrl: () => ({ relative: true }) }, // the site may lie anywhere on its host
  },
});
