/** The book's decoder, as PyTorch runs it, with a KV cache: it reads one character at a time. A widget loads this file when it needs it. */
Widgets.decoder = (() => {
  "use strict";
  const { linear, normalise, block } = Widgets.transformer;

  /**
   * A reader that keeps the keys and values of what it has read.
   *
   * @param {object} model Parameters by name, as PyTorch names them.
   * @param {object} sizes depth, heads, and context: how many characters the model can read.
   * @returns {(numbers: number[]) => {logits: number[], maps: number[][][]}} Reads characters, given as numbers. It returns the
   *   logits of the next character, and what the last one looks at: (depth, heads, characters read).
   */
  function reader(model, { depth, heads, context }) {
    const width = model.position_embedding.length / context;
    let [kept, caches, last] = [[], [], null];

    /** Read one more character. Its query looks at all kept keys; later ones do not exist yet, so there is no mask. */
    function step(number) {
      let stream = [Float64Array.from({ length: width }, (_, i) =>
        model["embedding.weight"][number * width + i] + model.position_embedding[kept.length * width + i])];
      kept.push(number);
      const maps = caches.map((cache, each) => {
        const done = block(model, each, stream, heads, undefined, cache);
        stream = done.stream;
        return done.maps.map((rows) => rows[0]);
      });
      const [read] = normalise(stream, model["encoder.norm.weight"], model["encoder.norm.bias"]);
      return { logits: Array.from(linear([read], model["head.weight"], model["head.bias"])[0]), maps };
    }

    return (numbers) => {
      // A longer text loses its beginning, half a context at a time: the kept places then stay right for many characters.
      const half = context / 2;
      const read = numbers.slice(half * Math.max(0, Math.ceil(numbers.length / half) - 2));
      if (kept.length > read.length || kept.some((number, i) => number !== read[i]) || !kept.length) {
        [kept, caches] = [[], Array.from({ length: depth }, () => [])];
      }
      for (const number of read.slice(kept.length)) last = step(number);
      return last;
    };
  }

  return { reader };
})();
