// An engine in a worker, so that the page never waits while it computes. This file is both sides of the wall.
if (typeof WorkerGlobalScope !== "undefined" && self instanceof WorkerGlobalScope) {
  let engine;
  self.onmessage = async ({ data: { id, address, asked } }) => {
    try {
      if (address) {
        const { fetchEngine } = await import("./engine.mjs");
        engine = await fetchEngine(address, (bytes, total) => self.postMessage({ id, bytes, total }));
        self.postMessage({ id, result: engine.info });
        return;
      }
      const begun = performance.now(), result = engine.run(asked);
      const buffers = Object.values(result).map((array) => array.buffer);
      result.milliseconds = performance.now() - begun;
      self.postMessage({ id, result }, buffers);
    } catch (error) {
      self.postMessage({ id, error: String(error) });
    }
  };
}

/** Start a worker with the engine of a file of weights; its `run` returns a promise. */
export async function inBackground(address, loaded = () => {}) {
  const worker = new Worker(import.meta.url, { type: "module" }), waiting = new Map();
  let count = 0;
  worker.onmessage = ({ data: { id, bytes, total, result, error } }) => {
    const [resolve, reject] = waiting.get(id);
    if (bytes !== undefined) { loaded(bytes, total); return; }
    waiting.delete(id);
    if (error) reject(new Error(error)); else resolve(result);
  };
  worker.onerror = (event) => waiting.forEach(([, reject]) => reject(new Error(event.message || "the worker did not start")));
  const ask = (message) => new Promise((resolve, reject) => {
    waiting.set(++count, [resolve, reject]);
    worker.postMessage({ id: count, ...message });
  });
  const info = await ask({ address: String(address) });
  return { info, run: (asked) => ask({ asked }) };
}
