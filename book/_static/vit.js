/** The book's Vision Transformer, as PyTorch runs it: 6 blocks of 8 heads, 17 tokens of width 64. A widget loads this file when it needs it. */
Widgets.vit = (() => {
  "use strict";
  const { product, transformer: { linear, normalise, block } } = Widgets;
  const [TOKENS, WIDTH, HEADS, DEPTH, PATCH, SIDE] = [17, 64, 8, 6, 7, 28];

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
    for (let number = 0; number < DEPTH; number += 1) {
      const done = block(model, number, stream, HEADS, gain?.[number]);
      stream = done.stream;
      maps.push(done.maps);
    }
    const [read] = normalise(stream.slice(0, 1), model["encoder.norm.weight"], model["encoder.norm.bias"]);
    return { logits: Array.from(linear([read], model["head.weight"], model["head.bias"])[0]), maps };
  }

  /** The contribution of each token to the class token through all blocks, if half of a token comes from the residual. */
  function rollout(maps) {
    const mixing = maps.map((heads) => heads[0].map((row, i) => row.map((_, j) =>
      (heads.reduce((total, weights) => total + weights[i][j], 0) / HEADS + (i === j ? 1 : 0)) / 2)));
    return mixing.reduce((before, each) => product(each, before))[0];
  }

  return { run, rollout };
})();
