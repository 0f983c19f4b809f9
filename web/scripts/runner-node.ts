// The runner in Node. Usage: node runner-node.ts http://ADDRESS (tinygpt/engines/wasm.py starts it)
import { serve } from "../src/engine/runner.ts";

const base = process.argv[2]!;
await serve(`${base}/exchange`, async (file) => {
  const response = await fetch(`${base}/kernels/${file}`);
  if (!response.ok) throw new Error(`there are no kernels ${file}`);
  return response.arrayBuffer();
});
process.exit(0);
