// What this browser does not have, and what comes of it here. Threads and storage are warned of elsewhere.
import type { Capabilities } from "../worker/protocol";

export function lacks({ builds, memory64 }: Capabilities): string[] {
  const sentences: [missing: boolean, said: string][] = [
    [!("gpu" in navigator), "WebGPU: models train on the CPU."],
    [builds[0] === "simd", "Relaxed SIMD: the CPU trains more slowly than it could."],
    [!memory64, "64-bit memory: a model that needs more than 4 GB cannot be trained."],
    [!("wakeLock" in navigator), "A wake lock: the machine may fall asleep while it trains."],
    [!("PressureObserver" in window), "Compute Pressure: how hard the machine is pressed is not shown."],
  ];
  return sentences.filter(([missing]) => missing).map(([, said]) => said);
}
