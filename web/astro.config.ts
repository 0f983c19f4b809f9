import svelte from "@astrojs/svelte";
import { defineConfig } from "astro/config";

// As tinygpt/server.py and public/_headers have them: without these no memory is shared among threads.
const isolation = {
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Embedder-Policy": "require-corp",
};

export default defineConfig({
  integrations: [svelte()],
  devToolbar: { enabled: false },
  server: { headers: isolation },
  vite: {
    server: { fs: { allow: [".."] } }, // the worker takes tinygpt/core from the package's own files
    worker: { format: "es" },
    build: { target: "es2023" },
  },
});
