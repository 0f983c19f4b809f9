// The screen stays on while something runs, where the browser can see to it. It lets go by itself when the tab is hidden.

/** What is returned lets the screen go. */
export function keepAwake(): () => void {
  let lock: WakeLockSentinel | null = null;
  let over = false;

  async function hold(): Promise<void> {
    if (over || document.hidden) return;
    try {
      lock = (await navigator.wakeLock?.request("screen")) ?? null;
    } catch {
      lock = null; // the battery is low, or the browser does not want to
    }
    if (over) await lock?.release();
  }

  void hold();
  document.addEventListener("visibilitychange", hold);
  return () => {
    over = true;
    document.removeEventListener("visibilitychange", hold);
    void lock?.release();
  };
}
