// Writes the TypeScript of a folder without its types, for a browser to run as it is. Usage: node strip-types.mjs FROM OUT
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";

const [from, to] = process.argv.slice(2);
mkdirSync(to, { recursive: true });
for (const file of readdirSync(from).filter((name) => name.endsWith(".ts")))
  writeFileSync(`${to}/${file}`, stripTypeScriptTypes(readFileSync(`${from}/${file}`, "utf8"), { sourceUrl: file }));
