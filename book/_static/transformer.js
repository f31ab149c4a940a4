/** What the models of this book's pages share: their packed numbers, and a pre-norm block as PyTorch runs it. A widget loads this file when it needs it. */
Widgets.transformer = (() => {
  "use strict";
  const { softmax, product } = Widgets;

  /** The numbers of a packed model: for each row a scale in float32, then whole numbers in 8 bits. */
  function unpack({ shapes, data }) {
    const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    const take = (length) => bytes.slice(at, (at += length)).buffer;
    let at = 0;
    return Object.fromEntries(shapes.map(([name, rows, columns]) => {
      const scales = new Float32Array(take(4 * rows));
      const numbers = new Int8Array(take(rows * columns));
      return [name, Float32Array.from(numbers, (number, i) => number * scales[Math.floor(i / columns)])];
    }));
  }

  /** Apply nn.Linear to each row. */
  const linear = (rows, weight, bias) => rows.map((row) => Float64Array.from(bias, (sum, out) => {
    for (let i = 0; i < row.length; i += 1) sum += weight[out * row.length + i] * row[i];
    return sum;
  }));

  /** Apply nn.LayerNorm to each row. */
  const normalise = (rows, scale, shift) => rows.map((row) => {
    const mean = row.reduce((sum, each) => sum + each, 0) / row.length;
    const variance = row.reduce((sum, each) => sum + (each - mean) ** 2, 0) / row.length;
    return row.map((each, i) => (scale[i] * (each - mean)) / Math.sqrt(variance + 1e-5) + shift[i]);
  });

  const sum = (a, b) => a.map((row, i) => row.map((each, j) => each + b[i][j]));

  /** The error function, to 1.5e-7: Abramowitz and Stegun 1964, 7.1.26. */
  function erf(x) {
    const t = 1 / (1 + 0.3275911 * Math.abs(x));
    const tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    return Math.sign(x) * (1 - tail * Math.exp(-x * x));
  }
  const gelu = (x) => 0.5 * x * (1 + erf(x / Math.SQRT2));

  /**
   * Run a block on rows of tokens.
   *
   * @param {object} model Parameters by name, as PyTorch names them.
   * @param {number} number Which block, from 0 on.
   * @param {Float64Array[]} stream The tokens.
   * @param {number} heads The number of heads.
   * @param {number[]} [gain] The factor for each head's output.
   * @param {Float64Array[]} [cache] Keys and values of earlier tokens, which the tokens also look at. Those of the tokens are added.
   * @returns {{stream: Float64Array[], maps: number[][][]}} The new tokens, and the weights of each head.
   */
  function block(model, number, stream, heads, gain, cache = []) {
    const get = (name) => model[`encoder.blocks.${number}.${name}`];
    const [width, size] = [stream[0].length, stream[0].length / heads];
    const packed = linear(normalise(stream, get("norm1.weight"), get("norm1.bias")), get("self_attn.in_proj_weight"), get("self_attn.in_proj_bias"));
    cache.push(...packed);
    const part = (rows, kind, head) => rows.map((row) => Array.from(row.slice(kind * width + head * size, kind * width + (head + 1) * size)));
    const brought = stream.map(() => new Float64Array(width));
    const maps = Array.from({ length: heads }, (_, head) => {
      const [q, k, v] = [part(packed, 0, head), part(cache, 1, head), part(cache, 2, head)];
      const weights = softmax(q.map((query) => k.map((key) => query.reduce((dot, each, c) => dot + each * key[c], 0) / Math.sqrt(size))));
      product(weights, v).forEach((row, n) => row.forEach((each, c) => {
        brought[n][head * size + c] = each * (gain?.[head] ?? 1);
      }));
      return weights;
    });
    const read = sum(stream, linear(brought, get("self_attn.out_proj.weight"), get("self_attn.out_proj.bias")));
    const hidden = linear(normalise(read, get("norm2.weight"), get("norm2.bias")), get("linear1.weight"), get("linear1.bias"));
    return { stream: sum(read, linear(hidden.map((row) => row.map(gelu)), get("linear2.weight"), get("linear2.bias"))), maps };
  }

  return { unpack, linear, normalise, block };
})();
