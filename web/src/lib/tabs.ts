// Which tab has a run: whoever wants one asks, and a tab that has it says so. A tab that was closed or reloaded cannot.
const CHANNEL = "tinygpt-tabs";

type Word = { wanted: string } | { had: string };

/** Speaks for this tab, until what it returns is called. By the page and not its worker, which outlives it for a moment. */
export function speakForTab(run: () => string | null): () => void {
  const channel = new BroadcastChannel(CHANNEL);
  channel.onmessage = ({ data }: MessageEvent<Word>): void => {
    if ("wanted" in data && data.wanted === run()) channel.postMessage({ had: data.wanted } satisfies Word);
  };
  return () => channel.close();
}

/** Asks who has a run; nobody is asked any longer once what it returns is called. */
export function askForTab(run: string, had: () => void): () => void {
  const channel = new BroadcastChannel(CHANNEL);
  channel.onmessage = ({ data }: MessageEvent<Word>): void => {
    if ("had" in data && data.had === run) had();
  };
  channel.postMessage({ wanted: run } satisfies Word);
  return () => channel.close();
}
