// The script and the style of a page of one file (src/single), each in one piece: tinygpt/site/single.py puts them into the template.
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [svelte()],
  publicDir: false,
  build: {
    target: "es2023",
    assetsInlineLimit: Infinity,
    cssCodeSplit: false,
    lib: { entry: "src/single/main.ts", formats: ["iife"], name: "page", fileName: () => "single.js", cssFileName: "single" },
  },
});
