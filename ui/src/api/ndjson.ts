// NDJSON: streams of one JSON value per line.

/** Parses the lines of a byte stream. A last line without a line end is dropped. */
export async function* ndjson<T>(body: ReadableStream<Uint8Array>): AsyncGenerator<T> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      rest += decoder.decode(value, { stream: true });
      let from = 0;
      for (let end = rest.indexOf("\n"); end >= 0; end = rest.indexOf("\n", from)) {
        const line = rest.slice(from, end).trim();
        from = end + 1;
        if (line !== "") yield JSON.parse(line) as T;
      }
      rest = rest.slice(from);
    }
    const last = rest.trim();
    if (last !== "") {
      try {
        yield JSON.parse(last) as T;
      } catch {
        return;
      }
    }
  } finally {
    // Leaving the loop early closes the connection, so that the server stops sending.
    await reader.cancel().catch(() => {});
  }
}
