// How hard the machine is pressed, where the browser tells (the Compute Pressure API).

export type Pressure = "nominal" | "fair" | "serious" | "critical";

interface PressureObserver {
  observe(source: "cpu", options: { sampleInterval: number }): Promise<void>;
  disconnect(): void;
}

declare global {
  interface Window {
    PressureObserver?: new (told: (records: { state: Pressure }[]) => void) => PressureObserver;
  }
}

/** Tells of every change; never, where the browser cannot. What is returned ends it. */
export function watchPressure(told: (pressure: Pressure) => void): () => void {
  if (!window.PressureObserver) return () => undefined;
  const observer = new window.PressureObserver((records) => {
    const last = records.at(-1);
    if (last) told(last.state);
  });
  observer.observe("cpu", { sampleInterval: 2000 }).catch(() => undefined); // it may be forbidden
  return () => observer.disconnect();
}
