// Runs a Python script under MicroPython, with tinygpt/core importable from the package's own files.
// Usage: node run-micropython.mjs SCRIPT.py [more folders of the package]
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { loadMicroPython } from "@micropython/micropython-webassembly-pyscript/micropython.mjs";

const package_ = fileURLToPath(new URL("../../tinygpt/", import.meta.url));
const python = await loadMicroPython({
  linebuffer: true,
  stdout: (line) => console.log(line),
});

// The engines package is not there in the tab, and tinygpt/__init__.py needs nothing.
python.FS.mkdir("/tinygpt");
python.FS.writeFile("/tinygpt/__init__.py", readFileSync(package_ + "__init__.py"));
for (const folder of ["core", ...process.argv.slice(3)]) {
  python.FS.mkdir(`/tinygpt/${folder}`);
  for (const entry of readdirSync(package_ + folder, { recursive: true, withFileTypes: true })) {
    const path = `${entry.parentPath}/${entry.name}`;
    const inside = `/tinygpt/${path.slice(package_.length)}`;
    if (entry.isDirectory() && entry.name !== "__pycache__") python.FS.mkdir(inside);
    else if (entry.name.endsWith(".py")) python.FS.writeFile(inside, readFileSync(path));
  }
}

try {
  await python.runPythonAsync(`import sys\nsys.path.insert(0, "/")\n` + readFileSync(process.argv[2], "utf8"));
} catch (error) {
  console.error(String(error));
  process.exit(1);
}
