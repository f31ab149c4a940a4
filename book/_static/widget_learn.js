/** Attention learns where to look, in the page: queries and keys of eight places, trained by gradient descent. */
(() => {
  "use strict";
  const { make, matrix, choice, button, transpose, product, scaled, softmax, normal } = Widgets;
  const [PLACES, WIDTH, BATCH, RATE] = [8, 8, 64, 2];
  const LOOKS = {
    backwards: (i) => PLACES - 1 - i,
    next: (i) => (i + 1) % PLACES,
    first: () => 0,
    asked: (i) => i,
  };

  const parameters = () => Array.from({ length: PLACES }, () => Array.from({ length: WIDTH }, normal));
  const weightsOf = (queries, keys) => softmax(scaled(product(queries, transpose(keys)), 1 / Math.sqrt(WIDTH)));
  const minus = (a, b, rate) => a.map((row, i) => row.map((number, j) => number - rate * b[i][j]));

  /**
   * The loss of a batch and its gradients. The loss is the mean of −log p over sequences and places, where p is the weight
   * on all places that hold the right digit.
   */
  function learn(queries, keys, sequences, answers) {
    const weights = weightsOf(queries, keys);
    const share = 1 / (sequences.length * PLACES);
    const gradWeights = weights.map((row) => row.map(() => 0));
    let loss = 0;
    sequences.forEach((digits, n) => weights.forEach((row, i) => {
      const right = digits.map((digit) => digit === answers[n][i]);
      const p = row.reduce((sum, weight, j) => sum + (right[j] ? weight : 0), 0);
      loss -= share * Math.log(p);
      right.forEach((is, j) => { if (is) gradWeights[i][j] -= share / p; });
    }));
    const gradScores = weights.map((row, i) => {
      const mean = row.reduce((sum, weight, j) => sum + weight * gradWeights[i][j], 0);
      return row.map((weight, j) => (weight * (gradWeights[i][j] - mean)) / Math.sqrt(WIDTH));
    });
    return { loss, gradQueries: product(gradScores, keys), gradKeys: product(transpose(gradScores), queries) };
  }

  /** The digit that each place writes: the one with the most weight. */
  function write(weights, digits) {
    return weights.map((row) => {
      const votes = new Array(10).fill(0);
      row.forEach((weight, j) => { votes[digits[j]] += weight; });
      return votes.indexOf(Math.max(...votes));
    });
  }

  Widgets.learn = { compute: learn };

  Widgets.define("learn", (box) => {
    let [queries, keys, steps, task] = [parameters(), parameters(), 0, "backwards"];
    const field = make("input", { type: "text", inputmode: "numeric", maxlength: PLACES, value: "31415926", oninput: () => update() });
    const names = Array.from({ length: PLACES }, (_, i) => String(i + 1));
    const map = matrix({ title: "attention map", rows: names, columns: names, kind: "weights" });
    const rows = make("p", {});
    const note = make("p", { class: "widget-note", role: "status" });
    const answersOf = (digits) => digits.map((_, i) => digits[LOOKS[task](i)]);

    function train(count) {
      for (let step = 0; step < count; step += 1) {
        const sequences = Array.from({ length: BATCH }, () => Array.from({ length: PLACES }, () => Math.floor(10 * Math.random())));
        const { gradQueries, gradKeys } = learn(queries, keys, sequences, sequences.map(answersOf));
        [queries, keys] = [minus(queries, gradQueries, RATE), minus(keys, gradKeys, RATE)];
      }
      steps += count;
      update();
    }

    function restart() {
      [queries, keys, steps] = [parameters(), parameters(), 0];
      update();
    }

    function update() {
      const weights = weightsOf(queries, keys);
      map.show(weights);
      rows.textContent = `A row is ${task === "asked" ? "a question that asks for one place" : "a place that writes"}, a column is a place that is read.`;
      const digits = [...field.value].map(Number);
      if (!/^\d{8}$/.test(field.value)) {
        note.textContent = "Type eight digits.";
        return;
      }
      const written = write(weights, digits);
      const right = written.filter((digit, i) => digit === answersOf(digits)[i]).length;
      note.replaceChildren(`After ${steps} steps the model writes `, make("b", {}, written.join("")), `: ${right} of ${PLACES} digits are right.`);
    }

    box.append(
      choice({
        label: "Task", change: (value) => { task = value; restart(); },
        options: [["backwards", "write backwards"], ["next", "write the next digit"], ["first", "repeat the first digit"], ["asked", "read the place that is asked for"]],
      }).element,
      make("label", { class: "equation" }, "Your eight digits", field),
      make("div", { class: "widget-pair" }, map.element),
      rows,
      note,
      make("div", { class: "widget-picks" }, button("Train 1 step", () => train(1)), button("Train 10 steps", () => train(10)), button("Start again", restart)));
    update();
  });
})();
