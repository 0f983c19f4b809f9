// The page's logic without a page: what components show and what the worker does with files.
import { fileURLToPath } from "node:url";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  root: here(".."),
  cacheDir: here("../node_modules/.vitest"),
  plugins: [svelte()],
  server: { fs: { allow: [here("../..")] } }, // the worker takes tinygpt/core from the package's own files
  resolve: { conditions: ["browser"] },
  test: {
    include: ["tests/*.test.ts"],
    environment: here("./environment.ts"),
    fileParallelism: false, // it starts faster than a second process would
    restoreMocks: true,
    unstubGlobals: true,
  },
});
