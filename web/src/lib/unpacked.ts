/** The text of a packed file of the site, which a host may have unpacked on the way. */
export async function unpacked(address: string): Promise<string> {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
  const bytes = new Uint8Array(await answer.arrayBuffer());
  const stream = new Blob([bytes]).stream();
  return new Response(bytes[0] === 0x1f ? stream.pipeThrough(new DecompressionStream("gzip")) : stream).text();
}
