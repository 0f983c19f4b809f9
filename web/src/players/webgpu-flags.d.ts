// The namespaces of WebGPU's flags, which TypeScript's own library leaves out.
declare const GPUBufferUsage: { MAP_READ: number; COPY_SRC: number; COPY_DST: number; STORAGE: number; QUERY_RESOLVE: number };
declare const GPUMapMode: { READ: number };
declare const GPUShaderStage: { COMPUTE: number };
