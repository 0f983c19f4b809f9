// The GPU as a browser gives it: the adapter's name, a device with all that it can do, and what befalls it.
import type { DeviceFacts, WebGpu } from "../generated/protocol.ts";

const WANTED_LIMITS = [
  "maxBufferSize",
  "maxStorageBufferBindingSize",
  "maxStorageBuffersPerShaderStage",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupStorageSize",
  "maxComputeWorkgroupSizeX",
  "maxComputeWorkgroupSizeY",
  "maxComputeWorkgroupSizeZ",
] as const;
const WANTED_FEATURES = ["subgroups", "shader-f16", "timestamp-query"] as const;
const SOFTWARE = /swiftshader|llvmpipe|lavapipe|softpipe|\bwarp\b|microsoft basic render/i;
// Adapters do not say how many processors they have; too high a guess costs little, and where there is none core has its own.
const PROCESSORS = { software: 8, discrete: 128 };
const DISCRETE = /nvidia|geforce|radeon rx|radeon pro/i;
const PATIENCE = 10_000; // ms: a driver may hang, and the page need not

const SMALLER = "use a smaller preset, batch or context, or the WebAssembly engine";

async function findAdapter(): Promise<GPUAdapter | null> {
  if (typeof navigator === "undefined" || !("gpu" in navigator) || !navigator.gpu) return null;
  const late = new Promise<null>((resolve) => setTimeout(() => resolve(null), PATIENCE));
  return Promise.race([navigator.gpu.requestAdapter({ powerPreference: "high-performance" }), late]).catch(() => null);
}

export function nameOf(adapter: GPUAdapter): WebGpu {
  // Where these stand has changed from browser to browser.
  const info = (adapter.info ?? {}) as Partial<GPUAdapterInfo>;
  const fallback = info.isFallbackAdapter ?? (adapter as { isFallbackAdapter?: boolean }).isFallbackAdapter ?? false;
  const words = [info.vendor, info.architecture, info.device].filter(Boolean).join(" ");
  const software = fallback || SOFTWARE.test(`${words} ${info.description ?? ""}`);
  return { adapter: info.description || words || "unnamed adapter", software };
}

export async function findWebGpu(): Promise<WebGpu | null> {
  const adapter = await findAdapter();
  return adapter && nameOf(adapter);
}

/** A device, for one engine. Once it is lost, all that is asked of it is refused with the same sentence. */
export class Gpu {
  readonly device: GPUDevice;
  readonly info: WebGpu;
  private fault: Error | null = null;
  private closed = false;
  private readonly lost: Promise<void>;

  private constructor(device: GPUDevice, info: WebGpu) {
    this.device = device;
    this.info = info;
    this.lost = device.lost.then(({ message }) => {
      this.fault ??= new Error(
        this.closed
          ? "the engine is closed"
          : `the GPU was lost (${message.trim().replace(/\.$/, "") || "the browser does not say why"}); go on from the last saved model, ` +
              "on the WebAssembly engine if it happens again",
      );
    });
    device.onuncapturederror = ({ error }) => {
      this.fault ??= new Error(
        error instanceof GPUOutOfMemoryError
          ? `the GPU is out of memory (${error.message}); ${SMALLER}`
          : `the GPU refused a command (${error.message}); go on from the last saved model on the WebAssembly engine`,
      );
    };
  }

  static async open(): Promise<Gpu> {
    const adapter = await findAdapter();
    if (!adapter) throw new Error("there is no WebGPU in this browser, or no GPU it may use; use the WebAssembly engine");
    try {
      const device = await adapter.requestDevice({
        requiredFeatures: WANTED_FEATURES.filter((feature) => adapter.features.has(feature)) as GPUFeatureName[],
        requiredLimits: Object.fromEntries(WANTED_LIMITS.map((limit) => [limit, adapter.limits[limit]])),
      });
      return new Gpu(device, nameOf(adapter));
    } catch (error) {
      throw new Error(`the GPU ${nameOf(adapter).adapter} could not be had (${String(error)}); use the WebAssembly engine`);
    }
  }

  facts(): DeviceFacts {
    const { limits, features } = this.device;
    const { adapter, software } = this.info;
    const guess = software ? PROCESSORS.software : DISCRETE.test(adapter) ? PROCESSORS.discrete : null;
    return {
      max_buffer: limits.maxBufferSize,
      max_binding: limits.maxStorageBufferBindingSize,
      max_groups: limits.maxComputeWorkgroupsPerDimension,
      max_invocations: limits.maxComputeInvocationsPerWorkgroup,
      max_shared: limits.maxComputeWorkgroupStorageSize,
      subgroups: features.has("subgroups"),
      f16: features.has("shader-f16"),
      ...(guess ? { processors: guess } : {}),
    };
  }

  /** Why nothing can be asked of the device any more, if so. */
  get brokenBy(): Error | null {
    return this.fault;
  }

  /** Throws where the device is lost or has refused something. */
  check(): void {
    if (this.fault) throw this.fault;
  }

  /** The promise's value; where it fails because the device is lost, the sentence that says so. */
  async outcome<T>(work: Promise<T>): Promise<T> {
    try {
      const value = await work;
      this.check();
      return value;
    } catch (error) {
      // The device may say only a little later that it was lost.
      await Promise.race([this.lost, new Promise((resolve) => setTimeout(resolve, 500))]);
      this.check();
      throw error;
    }
  }

  /** What `work` makes, once the device has taken it; else its complaint in a sentence. */
  async accepted<T>(work: () => T, sentence: (message: string) => string): Promise<T> {
    this.check();
    const filters = ["internal", "out-of-memory", "validation"] as const;
    for (const filter of filters) this.device.pushErrorScope(filter);
    let made: T;
    try {
      made = work();
    } finally {
      const errors = Promise.all(filters.map(() => this.device.popErrorScope()));
      const [error] = (await this.outcome(errors)).filter((found) => found !== null);
      /* eslint-disable no-unsafe-finally -- what the device says is the cause of whatever `work` threw */
      if (error instanceof GPUOutOfMemoryError) throw new Error(`${sentence(error.message)}; ${SMALLER}`);
      if (error) throw new Error(sentence(error.message));
      /* eslint-enable no-unsafe-finally */
    }
    return made;
  }

  close(): void {
    this.closed = true;
    this.device.destroy();
  }
}
