// Once a service worker is in charge, what a first run needs is fetched through it, so that it is there offline.
import { kernelAddress, kernelsHere } from "../lib/kernels";
import { ROOT } from "../lib/root";
import { site } from "../lib/site";

const LATER = 3000; // ms: the page itself comes first

async function keep(): Promise<void> {
  for (const address of [...kernelsHere().map(kernelAddress), ROOT + site.corpus.file])
    if (!(await caches.match(address))) await fetch(address);
}

if (import.meta.env.PROD && window.isSecureContext && "serviceWorker" in navigator) {
  const begin = () => setTimeout(() => void keep().catch(() => undefined), LATER); // another visit will do
  if (navigator.serviceWorker.controller) begin();
  else navigator.serviceWorker.addEventListener("controllerchange", begin, { once: true });
}
