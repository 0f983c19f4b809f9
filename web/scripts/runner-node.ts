// The runner in Node (tinygpt/engines/runner.py starts it). Its standard input says where to fetch commands.
import { text } from "node:stream/consumers";
import { serve } from "../src/players/runner.ts";

const address = await text(process.stdin);
await serve(`${address}/`, async (file) => {
  const response = await fetch(new URL(`/kernels/${file}`, address));
  if (!response.ok) throw new Error(`there are no kernels ${file}`);
  return response.arrayBuffer();
});
process.exit(0);
