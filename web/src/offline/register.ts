// The service worker is asked for here: the site works offline with it, and with threads where a host sends no headers.
import { ROOT } from "../lib/root";

const RELOADED = "tinygpt reloaded for threads";
const LOOPBACK = ["localhost", "127.0.0.1", "[::1]"];

/** Whether a reload would take anything from the user. */
let touched = false;

/** A server on this machine that sends the headers (tinygpt play) is there whenever the page is, and may be rebuilt at any time. */
const needless = LOOPBACK.includes(location.hostname) && crossOriginIsolated;

async function register(): Promise<void> {
  await navigator.serviceWorker.register(`${ROOT}sw.js`, { updateViaCache: "none" });
  const { active } = await navigator.serviceWorker.ready;
  active?.postMessage("keep what is read");
  if (crossOriginIsolated || !document.querySelector("astro-island")) return; // a page to read needs no threads
  if (touched || sessionStorage.getItem(RELOADED)) return;
  sessionStorage.setItem(RELOADED, "yes"); // once; should it not help, the page does without
  location.reload();
}

async function unregister(): Promise<void> {
  for (const registration of await navigator.serviceWorker.getRegistrations()) await registration.unregister();
}

if (window.isSecureContext && "serviceWorker" in navigator) {
  for (const act of ["pointerdown", "keydown", "input", "drop"])
    addEventListener(act, () => (touched = true), { capture: true, once: true });
  if (import.meta.env.DEV)
    void unregister().catch(() => undefined); // what a built site left on this port
  else if (!needless) void register().catch(() => undefined); // a browser may forbid it: the page does without
}
try {
  if (crossOriginIsolated) sessionStorage.removeItem(RELOADED);
} catch {
  // A browser that keeps nothing has kept no mark.
}
