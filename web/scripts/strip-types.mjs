// Writes the engine's TypeScript without its types, for a browser to run as it is. Usage: node strip-types.mjs OUT
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { fileURLToPath } from "node:url";

const from = fileURLToPath(new URL("../src/engine/", import.meta.url));
const to = process.argv[2];
mkdirSync(to, { recursive: true });
for (const file of readdirSync(from).filter((name) => name.endsWith(".ts")))
  writeFileSync(`${to}/${file}`, stripTypeScriptTypes(readFileSync(from + file, "utf8"), { sourceUrl: file }));
