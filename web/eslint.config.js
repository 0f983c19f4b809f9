// Faults that the types do not show. Layout is prettier's concern (package.json, .prettierignore).
import js from "@eslint/js";
import { defineConfig, globalIgnores } from "eslint/config";
import svelte from "eslint-plugin-svelte";
import ts from "typescript-eslint";

export default defineConfig(
  globalIgnores(["src/generated/", "public/", ".astro/", "build/"]),
  { linterOptions: { reportUnusedDisableDirectives: "error" } },
  js.configs.recommended,
  ts.configs.recommended,
  svelte.configs.recommended,
  { files: ["**/*.svelte", "**/*.svelte.ts"], languageOptions: { parserOptions: { parser: ts.parser } } },
  {
    rules: {
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_" }],
      "no-control-regex": "off", // a model's bytes may be anything
      "no-undef": "off", // the type checker knows the globals of pages, workers and Node
      "preserve-caught-error": "off", // errors reach the page as one sentence, often through a worker
      "svelte/prefer-svelte-reactivity": "off", // maps and sets are replaced here, not changed
    },
  },
);
