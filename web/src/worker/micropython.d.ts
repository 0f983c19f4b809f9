declare module "@micropython/micropython-webassembly-pyscript/micropython.mjs" {
  export function loadMicroPython(options: {
    heapsize?: number;
    pystack?: number;
    url?: string;
    stdout?: (line: string) => void;
    stderr?: (line: string) => void;
    linebuffer?: boolean;
  }): Promise<{
    FS: { mkdir(path: string): void; writeFile(path: string, data: string | Uint8Array): void };
    globals: { get(name: string): unknown };
    runPython(code: string): unknown;
    runPythonAsync(code: string): Promise<unknown>;
  }>;
}
