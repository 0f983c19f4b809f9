// The page's Python, as the worker has it: MicroPython with the package's own files.
import sources from "../src/generated/python.json";
import { type Python, startPython } from "../src/worker/python";

export const python = (): Promise<Python> => startPython(sources);
