/** Masks: paint the pairs that may look at each other, and see what weight leaks when a mistake reads the mask. */
(() => {
  "use strict";
  const { make, matrix, board, choice, button, mistakeLink, format, softmax, random, scaled, transpose } = Widgets;
  const SIZE = 6;
  const SCORES = [
    [0.4, -1.2, 0.9, 0.1, 1.4, -0.3], [-0.8, 0.6, 1.1, -0.2, 0.3, 0.7], [1.3, 0.2, -0.5, 0.8, -1.0, 0.4],
    [0.0, 1.2, 0.5, -0.7, 0.6, -1.4], [-0.4, 0.9, -1.1, 1.5, 0.2, 0.3], [0.7, -0.6, 0.1, 0.4, -0.9, 1.0],
  ];
  const mask = (may) => Array.from({ length: SIZE }, (_, i) => Array.from({ length: SIZE }, (_, j) => may(i, j)));
  const MASKS = {
    all: mask(() => true),
    padding: mask((i, j) => j < 4),
    causal: mask((i, j) => j <= i),
    window: mask((i, j) => Math.abs(i - j) <= 1),
    nothing: mask((i) => i !== 2),
  };
  const VERSIONS = {
    right: ["right", "Forbidden scores become −∞ before the softmax: no weight, and each row sums to 1."],
    M16: ["inverted", "All the weight is on forbidden pairs."],
    M17: ["after the softmax", "Nothing leaks, but the rows sum to less than 1."],
    M18: ["added as 0 and 1", "Allowed scores grow by 1; forbidden scores stay as they are."],
    M19: ["wrong axis", "The mask is transposed: rows and columns change places."],
    M20: ["−10⁹ for −∞", "There is no error if a mask hides all keys. Try the mask “query 3: nothing”."],
    M71: ["not used", "The code never uses the mask."],
  };

  /** The weights that a version computes with a mask, or an error in words. */
  function masked(scores, allowed, version = "right") {
    const empty = allowed.findIndex((row) => !row.some(Boolean));
    if (empty >= 0 && !["M20", "M71"].includes(version)) return { error: `ValueError: the mask hides all keys from query ${empty + 1}` };
    const read = version === "M19" ? transpose(allowed) : allowed;
    const apply = (change) => scores.map((row, i) => row.map((score, j) => change(score, read[i][j])));
    const weights = softmax(apply({
      M16: (score, may) => (may ? -Infinity : score),
      M17: (score) => score,
      M18: (score, may) => score + (may ? 1 : 0),
      M20: (score, may) => (may ? score : -1e9),
      M71: (score) => score,
    }[version] ?? ((score, may) => (may ? score : -Infinity))));
    return { weights: version === "M17" ? weights.map((row, i) => row.map((weight, j) => (allowed[i][j] ? weight : 0))) : weights };
  }

  /** For each row, the weight on pairs that the mask forbids. */
  const leaks = (weights, allowed) => weights.map((row, i) => row.reduce((sum, weight, j) => sum + (allowed[i][j] ? 0 : weight), 0));

  Widgets.masks = { compute: masked, leaks };

  Widgets.define("masks", (box) => {
    let scores = SCORES;
    let allowed = MASKS.causal;
    let version = "right";
    const rows = [..."₁₂₃₄₅₆"].map((i) => `q${i}`);
    const columns = [..."₁₂₃₄₅₆"].map((i) => `k${i}`);
    const paint = board({ title: "may look", rows, columns, change: (states) => { allowed = states; masks.choose(""); update(); } });
    const weights = matrix({ title: "weights", rows, columns, kind: "weights" });
    const sums = matrix({ title: "sum, leak", rows, columns: ["Σ", "leak"] });
    const leaked = make("b", {});
    const note = make("p", { class: "widget-note", role: "status" });
    const masks = choice({
      label: "Mask", options: [["causal", "causal"], ["padding", "padding"], ["window", "window"], ["all", "all"], ["nothing", "query 3: nothing"]],
      change: (name) => { allowed = MASKS[name]; update(); },
    });
    const versions = choice({
      label: "Version", options: Object.entries(VERSIONS).map(([name, [text]]) => [name, text]),
      change: (name) => { version = name; update(); },
    });

    function update() {
      const { weights: found, error } = masked(scores, allowed, version);
      const right = masked(scores, allowed).weights;
      const shown = found ?? scaled(scores, NaN);
      const leak = leaks(shown, allowed);
      paint.show(allowed);
      weights.show(shown, right ?? shown);
      sums.show(shown.map((row, i) => [row.reduce((sum, each) => sum + each, 0), leak[i]]), shown.map(() => [1, 0]));
      leaked.textContent = error ?? `${format(leak.reduce((sum, each) => sum + each, 0))} of ${SIZE} units of weight are on forbidden pairs. `;
      note.replaceChildren(leaked, error ? ". A weighted mean of nothing does not exist, so the right answer is an error." : VERSIONS[version][1], ...mistakeLink(version));
    }

    box.append(versions.element, masks.element,
      make("div", { class: "widget-flow" }, paint.element, make("div", { class: "widget-pair" }, weights.element, sums.element)),
      note, button("Other scores", () => { scores = random(SIZE, SIZE); update(); }));
    update();
  });
})();
