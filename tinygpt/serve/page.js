// A client of /v1/completions like any other: it streams, and stops by going away.
const $ = (id) => document.getElementById(id);
const headers = () => ($("key").value ? { Authorization: `Bearer ${$("key").value}` } : {});

async function listModels() {
  const answer = await fetch("v1/models", { headers: headers() });
  const { data = [] } = await answer.json();
  $("key").parentElement.hidden &&= answer.status !== 401; // shown from then on
  $("model").replaceChildren(...data.map(({ id }) => new Option(id, id)));
  $("status").textContent = answer.status === 401 ? "Enter the API key of this server." : "";
}
$("key").addEventListener("change", listModels);
await listModels();

let request = null;
$("halt").addEventListener("click", () => request?.abort());
$("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  request = new AbortController();
  busy(true);
  try {
    await write(request.signal);
  } catch (fault) {
    if (fault.name !== "AbortError") $("status").textContent = fault.message;
  }
  busy(false);
});

function busy(yes) {
  $("write").disabled = yes;
  $("halt").disabled = !yes;
}

function asked() {
  const number = (id) => ($(id).value === "" ? undefined : Number($(id).value));
  return {
    model: $("model").value,
    prompt: $("prompt").value,
    max_tokens: number("max_tokens"),
    temperature: number("temperature"),
    top_p: number("top_p"),
    seed: number("seed"),
    stop: $("stop").value.replaceAll("\\n", "\n") || undefined,
    stream: true,
    stream_options: { include_usage: true },
  };
}

async function write(signal) {
  const body = asked();
  const given = Object.assign(document.createElement("span"), { className: "given", textContent: body.prompt });
  const made = document.createElement("span");
  $("text").replaceChildren(given, made);
  $("status").textContent = "reading…";
  const began = performance.now();
  const answer = await fetch("v1/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers() },
    body: JSON.stringify(body),
    signal,
  });
  if (!answer.ok) throw new Error((await answer.json()).error.message);
  let first = 0;
  for await (const chunk of chunks(answer.body)) {
    if (chunk.error) throw new Error(chunk.error.message);
    first ||= performance.now() - began;
    if (chunk.choices.length) made.append(chunk.choices[0].text);
    if (chunk.usage) {
      const seconds = (performance.now() - began) / 1000;
      const bytes = chunk.usage.completion_tokens;
      $("status").textContent = `${bytes} bytes, the first after ${first.toFixed(0)} ms, ${(bytes / seconds).toFixed(0)} bytes/s`;
    }
  }
}

async function* chunks(stream) {
  let rest = "";
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    const events = (rest + text).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const data = event.replace(/^data: /, "");
      if (data !== "[DONE]") yield JSON.parse(data);
    }
  }
}
