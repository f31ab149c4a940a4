/** The book's Vision Transformer, as PyTorch runs it: 6 blocks of 8 heads, 17 tokens of width 64. A widget loads this file when it needs it. */
Widgets.vit = (() => {
  "use strict";
  const { softmax, product } = Widgets;
  const [TOKENS, WIDTH, HEADS, DEPTH, PATCH, SIDE] = [17, 64, 8, 6, 7, 28];
  const HEAD = WIDTH / HEADS;

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
   * Run the model on one image.
   *
   * @param {object} model Parameters by name, as PyTorch names them.
   * @param {number[]} image 784 pixels from 0 to 1.
   * @param {number[][]} [gain] The factor for each head's output, (6, 8): 0 removes it, −1 negates its values.
   * @returns {{logits: number[], maps: number[][][][]}} The maps are (6, 8, 17, 17).
   */
  function run(model, image, gain) {
    const patches = Array.from({ length: TOKENS - 1 }, (_, n) => Float64Array.from({ length: PATCH * PATCH }, (_, i) =>
      (image[(Math.floor(n / 4) * PATCH + Math.floor(i / PATCH)) * SIDE + (n % 4) * PATCH + (i % PATCH)] - 0.1307) / 0.3081));
    const tokens = linear(patches, model["patch_embedding.projection.weight"], model["patch_embedding.projection.bias"]);
    let stream = [Float64Array.from(model.class_token), ...tokens]
      .map((row, n) => row.map((each, i) => each + model.position_embedding[n * WIDTH + i]));
    const maps = [];
    for (let block = 0; block < DEPTH; block += 1) {
      const get = (name) => model[`encoder.blocks.${block}.${name}`];
      const x = normalise(stream, get("norm1.weight"), get("norm1.bias"));
      const packed = linear(x, get("self_attn.in_proj_weight"), get("self_attn.in_proj_bias"));
      const part = (kind, head) => packed.map((row) => Array.from(row.slice(kind * WIDTH + head * HEAD, kind * WIDTH + (head + 1) * HEAD)));
      const brought = stream.map(() => new Float64Array(WIDTH));
      maps.push(Array.from({ length: HEADS }, (_, head) => {
        const [q, k, v] = [0, 1, 2].map((kind) => part(kind, head));
        const weights = softmax(q.map((query) => k.map((key) => query.reduce((dot, each, c) => dot + each * key[c], 0) / Math.sqrt(HEAD))));
        product(weights, v).forEach((row, n) => row.forEach((each, c) => {
          brought[n][head * HEAD + c] = each * (gain?.[block][head] ?? 1);
        }));
        return weights;
      }));
      stream = sum(stream, linear(brought, get("self_attn.out_proj.weight"), get("self_attn.out_proj.bias")));
      const hidden = linear(normalise(stream, get("norm2.weight"), get("norm2.bias")), get("linear1.weight"), get("linear1.bias"));
      stream = sum(stream, linear(hidden.map((row) => row.map(gelu)), get("linear2.weight"), get("linear2.bias")));
    }
    const [read] = normalise(stream.slice(0, 1), model["encoder.norm.weight"], model["encoder.norm.bias"]);
    return { logits: Array.from(linear([read], model["head.weight"], model["head.bias"])[0]), maps };
  }

  /** The contribution of each token to the class token through all blocks, if half of a token comes from the residual. */
  function rollout(maps) {
    const mixing = maps.map((heads) => heads[0].map((row, i) => row.map((_, j) =>
      (heads.reduce((total, weights) => total + weights[i][j], 0) / HEADS + (i === j ? 1 : 0)) / 2)));
    return mixing.reduce((before, block) => product(block, before))[0];
  }

  return { unpack, run, rollout };
})();
