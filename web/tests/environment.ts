// Node, but with Svelte's runes compiled as for a browser, where what is derived follows what it is derived from.
import type { Environment } from "vitest/runtime";

export default {
  name: "page",
  viteEnvironment: "client",
  setup: () => ({ teardown: () => undefined }),
} satisfies Environment;
