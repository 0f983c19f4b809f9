"""Words for the CPU: native and WebAssembly."""
