// Runs a Python script under MicroPython, with tinygpt/core importable from the package's own files.
// Usage: node run-micropython.mjs SCRIPT.py
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { loadMicroPython } from "@micropython/micropython-webassembly-pyscript/micropython.mjs";

const package_ = fileURLToPath(new URL("../../tinygpt/", import.meta.url));
const python = await loadMicroPython({
  heapsize: 64 * 1024 * 1024,
  linebuffer: true,
  stdout: (line) => console.log(line),
});

// The engines package is not there in the tab, and tinygpt/__init__.py needs nothing.
for (const folder of ["", "core/"]) {
  python.FS.mkdir(`/tinygpt/${folder}`);
  for (const file of readdirSync(package_ + folder).filter((name) => name.endsWith(".py"))) {
    if (folder === "" && file !== "__init__.py") continue;
    python.FS.writeFile(`/tinygpt/${folder}${file}`, readFileSync(package_ + folder + file));
  }
}

try {
  await python.runPythonAsync(`import sys\nsys.path.insert(0, "/")\n` + readFileSync(process.argv[2], "utf8"));
} catch (error) {
  console.error(String(error));
  process.exit(1);
}
