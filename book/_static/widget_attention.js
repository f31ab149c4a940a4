/** Attention on three queries, keys and values of width 2, live; a button opens versions with mistakes, and six tests. */
(() => {
  "use strict";
  const { make, matrix, choice, lamps, opener, mistakeLink, transpose, product, scaled, softmax, random } = Widgets;

  const EXAMPLE = {
    Q: [[1, 0], [0, 1], [1, 1]],
    K: [[2, 0], [0, 1], [1, 1]],
    V: [[10, 0], [0, 10], [10, 10]],
  };
  const ONES = [[1, 1], [1, 1], [1, 1]];
  const INPUTS = {
    example: () => EXAMPLE,
    random: () => ({ Q: random(3, 2), K: random(3, 2), V: random(3, 2) }),
    ones: () => ({ ...EXAMPLE, Q: ONES, K: ONES }),
    long: () => ({ ...EXAMPLE, Q: scaled(EXAMPLE.Q, 1000) }),
  };

  // For each version, by the number of its mistake: its name, its formula, and what to look for.
  const VERSIONS = {
    right: ["right", "softmax(Q Kᵀ / √d) V", "A folded corner marks each number that a mistake makes wrong."],
    M3: ["no maximum", "exp(S) / Σ exp(S), no maximum subtracted", "The numbers are the same until a score exceeds 709: try the long queries."],
    M6: ["wrong axis", "softmax(Q Kᵀ / √d, over the queries) V", "Columns sum to 1, rows do not. The shapes are right."],
    M8: ["not scaled", "softmax(Q Kᵀ) V", "Sharper weights: without √d the dot products set the temperature."],
    M9: ["√D for √d", "softmax(Q Kᵀ / √D) V with D = 4, for two heads", "Flatter weights: D is the width of all heads together; d is the width of one head."],
    M10: ["d for √d", "softmax(Q Kᵀ / d) V", "Flatter weights: the wrong power of d."],
    M11: ["Q, K swapped", "softmax(K Qᵀ / √d) V", "The scores are transposed. With all-ones inputs, the result is the same."],
    M12: ["Q = K = V", "softmax(V Vᵀ / √d) V", "Queries and keys are not used: if you change one, the output stays the same."],
    M13: ["keys as values", "softmax(Q Kᵀ / √d) K", "The weights are right, but they mix the keys instead of the values."],
  };

  /** All steps of attention, with a mistake or without one. */
  function attention({ Q, K, V }, mistake = "right") {
    if (mistake === "M12") [Q, K] = [V, V];
    if (mistake === "M11") [Q, K] = [K, Q];
    const d = Q[0].length;
    const divisor = { M8: 1, M9: Math.sqrt(2 * d), M10: d }[mistake] ?? Math.sqrt(d);
    const products = product(Q, transpose(K));
    const scores = scaled(products, 1 / divisor);
    const weights = mistake === "M6" ? transpose(softmax(transpose(scores))) : softmax(scores, mistake !== "M3");
    return { products, scores, weights, output: product(weights, mistake === "M13" ? K : V) };
  }

  /** The answer to one query by a plain loop, which shares no code with `attention`. */
  function lookUp(query, keys, values) {
    const scores = keys.map((key) => key.reduce((sum, value, c) => sum + (value * query[c]) / Math.sqrt(query.length), 0));
    const largest = Math.max(...scores);
    let total = 0;
    const answer = values[0].map(() => 0);
    values.forEach((value, j) => {
      const share = Math.exp(scores[j] - largest);
      total += share;
      value.forEach((each, c) => { answer[c] += share * each; });
    });
    return answer.map((each) => each / total);
  }

  /** Whether two matrices differ by less than 1e-5 everywhere; NaN differs from everything. */
  const close = (a, b) => a.every((row, i) => row.every((value, j) => Math.abs(value - b[i][j]) < 1e-5));

  const loop = ({ Q, K, V }) => Q.map((query) => lookUp(query, K, V));
  const all = (inputs, change) => ({ Q: change(inputs.Q), K: change(inputs.K), V: change(inputs.V) });
  const TESTS = [
    ["shape", "Is the output 3 × 2?", (run, given) => run(given).length === 3 && run(given)[0].length === 2],
    ["permute", "Do reordered tokens reorder the output?", (run, given) => {
      const turn = ([first, ...rest]) => [...rest, first];
      return close(run(all(given, turn)), turn(run(given)));
    }],
    ["same", "If all tokens are equal, is each output their value?", (run, given) => {
      const equal = all(given, (a) => a.map(() => a[0]));
      return close(run(equal), equal.V);
    }],
    ["mean", "Do queries of 0 get the mean of the values?", (run, given) => {
      const mean = transpose(given.V).map((column) => column.reduce((sum, each) => sum + each / 3, 0));
      return close(run({ ...given, Q: scaled(given.Q, 0) }), [mean, mean, mean]);
    }],
    ["large", "Do queries 1,000 times as long give finite numbers?", (run, given) =>
      run({ ...given, Q: scaled(given.Q, 1000) }).flat().every(Number.isFinite)],
    ["loop", "Does a plain loop give the same output, to 10⁻⁵?", (run, given) => close(run(given), loop(given))],
  ];

  /** Whether each of the six tests notices a mistake on these inputs. */
  const noticed = (given, mistake) =>
    TESTS.map(([, , passes]) => !passes((inputs) => attention(inputs, mistake).output, given));

  Widgets.attention = { noticed };

  Widgets.define("attention", (box) => {
    let given = EXAMPLE;
    let mistake = "right";
    const names = (letter) => [1, 2, 3].map((i) => `${letter}${"₁₂₃"[i - 1]}`);
    const edit = (letter, title, rows) => matrix({
      title, rows, columns: ["1", "2"], change: (values) => { given = { ...given, [letter]: values }; inputs.choose(""); update(); },
    });
    const fields = { Q: edit("Q", "queries Q", names("q")), K: edit("K", "keys K", names("k")), V: edit("V", "values V", names("v")) };
    const square = (title, kind, more = []) => matrix({ title, kind, rows: names("q"), columns: [...names("k"), ...more] });
    const steps = {
      products: square("1 compare, Q Kᵀ"),
      scores: square("2 scale"),
      weights: square("3 softmax", "weights"),
      output: matrix({ title: "4 mix, output", rows: names("q"), columns: ["1", "2"] }),
    };
    const sums = matrix({ title: "sum", rows: names("q"), columns: ["Σ"] });
    const lights = lamps("Six tests: which notice the mistake?", TESTS);
    const formula = make("code", {});
    const note = make("p", { class: "widget-note" }, "Change a number, and follow its row through the four steps.");
    const why = make("p", { role: "status" });
    const inputs = choice({
      label: "Input",
      options: [["example", "example"], ["random", "random"], ["ones", "ones"], ["long", "long queries"]],
      change: (name) => { given = INPUTS[name](); update(); },
    });
    const versions = choice({
      label: "Version", options: Object.entries(VERSIONS).map(([name, [text]]) => [name, text]), change: choose,
    });
    const more = make("div", { class: "widget-more" }, versions.element, why, lights.element);
    const open = opener(["Choose a mistake", "Back to the right version"], more, () => { versions.choose("right"); choose("right"); });

    function choose(name) {
      mistake = name;
      lights.hide();
      update();
    }

    function update() {
      const now = attention(given, mistake);
      const right = attention(given);
      for (const letter of "QKV") fields[letter].show(given[letter]);
      for (const [name, step] of Object.entries(steps)) step.show(now[name], right[name]);
      sums.show(now.weights.map((row) => [row.reduce((sum, each) => sum + each, 0)]), [[1], [1], [1]]);
      lights.show(noticed(given, mistake));
      formula.textContent = VERSIONS[mistake][1];
      why.replaceChildren(VERSIONS[mistake][2], ...mistakeLink(mistake));
    }

    // A query is a row: point at one, and its row is marked in every step.
    const flow = make("div", { class: "widget-flow" }, steps.products.element, steps.scores.element,
      make("div", { class: "widget-pair" }, steps.weights.element, sums.element), steps.output.element);
    const mark = (event) => {
      const row = event.target.closest("tbody tr")?.dataset.row;
      for (const part of [flow, fields.Q.element])
        for (const each of part.querySelectorAll("tbody tr")) each.classList.toggle("marked", each.dataset.row === row);
    };
    for (const part of [flow, fields.Q.element]) for (const event of ["pointerover", "focusin"]) part.addEventListener(event, mark);

    box.append(make("div", { class: "widget-flow" }, fields.Q.element, fields.K.element, fields.V.element,
        make("div", { class: "widget-side" }, inputs.element, note)),
      make("p", { class: "widget-formula" }, formula), flow, open, more);
    update();
  });
})();
