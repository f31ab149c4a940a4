/** Three scores and a temperature: their weights, entropy and Jacobian; and what overflows unless the maximum is subtracted. */
(() => {
  "use strict";
  const { make, matrix, slider, choice, opener, format, drawing, softmax } = Widgets;
  const COLOURS = ["var(--widget-plus)", "var(--widget-minus)", "var(--widget-third)"];
  const DASHES = ["", "6 3", "2 3"];
  const [LOW, HIGH] = [-1.5, 1.5]; // range of the temperature, as powers of ten

  /** Softmax of scores at a temperature, its entropy in nats and its Jacobian for the scores divided by it. */
  function temper(scores, tau, shift = true) {
    const divided = scores.map((score) => score / tau);
    const largest = shift ? Math.max(...divided) : 0;
    const exponentials = divided.map((each) => Math.exp(each - largest));
    const [weights] = softmax([divided], shift);
    const entropy = weights.reduce((sum, p) => sum - (p === 0 ? 0 : p * Math.log(p)), 0);
    const jacobian = weights.map((p, i) => weights.map((q, j) => p * ((i === j ? 1 : 0) - q)));
    return { exponentials, weights, entropy, jacobian };
  }

  Widgets.temperature = { compute: temper };

  /** Write an exponential in few characters: 3, 0.37, 5e-5. */
  const short = (number) => {
    const whole = Math.round(number);
    if (Math.abs(number - whole) < 1e-9 && whole < 1e4 && (whole || !number)) return String(whole);
    return Number.isFinite(number) && (number >= 1e4 || number < 0.01) ? number.toExponential(0).replace("e+", "e").replace("-", "−") : format(number);
  };

  Widgets.define("temperature", (box) => {
    const scores = [1, 2, 3].map(Math.log);
    let tau = 1;
    let added = 0;
    let shift = false;

    const dial = slider({
      label: "temperature τ", min: LOW, max: HIGH, step: 0.01, value: 0, change: (power) => { tau = 10 ** power; update(); },
    });
    const rows = scores.map((score, i) => {
      const input = slider({
        label: `score ${i + 1}`, min: -3, max: 3, step: 0.01, value: score, change: (value) => { scores[i] = value; update(); },
      });
      const fill = make("i", {});
      const weight = make("b", {});
      return { input, fill, weight, element: make("div", { class: "widget-row" }, input.element, make("div", { class: "widget-bar" }, fill, weight)) };
    });
    const entropy = { fill: make("i", {}), text: make("b", {}) };
    const jacobian = matrix({
      title: "Jacobian ∂p / ∂(s/τ)", rows: ["p₁", "p₂", "p₃"], columns: ["s₁", "s₂", "s₃"], digits: 3,
    });
    const plot = drawing(400, 150, "The three weights against the temperature; a line marks the temperature chosen.");
    const note = make("p", { class: "widget-note", role: "status" });
    const shifts = choice({
      label: "Add to all scores", options: [["0", "nothing"], ["1000", "1,000"], ["-1000", "−1,000"]],
      change: (value) => { added = Number(value); update(); },
    });
    const formulas = choice({
      label: "Formula", options: [["paper", "as on paper"], ["shift", "maximum subtracted"]],
      change: (value) => { shift = value === "shift"; update(); },
    });

    /** Draw each weight against the temperature, on a logarithmic axis. Where the weights are NaN, there is no curve. */
    function drawCurves() {
      const x = (power) => 10 + (380 * (power - LOW)) / (HIGH - LOW);
      const y = (weight) => 130 - 120 * weight;
      const powers = Array.from({ length: 61 }, (_, i) => LOW + (i * (HIGH - LOW)) / 60);
      const curves = powers.map((power) => temper(scores.map((score) => score + added), 10 ** power, shift).weights);
      const broken = curves.findLastIndex((weights) => weights.some(Number.isNaN)); // low temperatures make large scores
      plot.clear();
      plot.add("path", { d: `M10 ${y(0)}H390M10 ${y(1)}H390`, class: "faint" });
      plot.add("path", { d: `M10 ${y(1 / 3)}H390`, class: "faint", "stroke-dasharray": "1 4" });
      scores.forEach((_, i) => plot.add("path", {
        d: `M${powers.map((power, k) => `${x(power)} ${y(curves[k][i])}`).slice(broken + 1).join("L")}`, fill: "none", stroke: COLOURS[i], "stroke-width": 2.5, "stroke-dasharray": DASHES[i],
      }));
      if (broken >= 0) plot.add("text", { x: (10 + x(powers[broken])) / 2, y: 76, "text-anchor": "middle", class: "nan" }, "NaN");
      plot.add("path", { d: `M${x(Math.log10(tau))} 6V134`, class: "cursor" });
      for (const power of [-1, 0, 1]) plot.add("text", { x: x(power), y: 147, "text-anchor": "middle" }, `τ = ${10 ** power}`);
    }

    function update() {
      const now = temper(scores.map((score) => score + added), tau, shift);
      const sum = now.exponentials.reduce((total, each) => total + each, 0);
      dial.show(format(tau));
      rows.forEach(({ input, fill, weight }, i) => {
        input.show(format(scores[i] + added));
        weight.textContent = `${short(now.exponentials[i])} / ${short(sum)} = ${format(now.weights[i], 3)}`;
        weight.classList.toggle("nan", Number.isNaN(now.weights[i]));
        fill.style.width = `${100 * (now.weights[i] || 0)}%`;
        fill.style.background = COLOURS[i];
      });
      entropy.fill.style.width = `${(100 * (now.entropy || 0)) / Math.log(3)}%`;
      entropy.text.textContent = `entropy ${format(now.entropy)} of at most ln 3 = 1.10`;
      jacobian.show(now.jacobian);
      const broken = now.weights.some(Number.isNaN);
      note.textContent = broken ? "The differences of the scores are the same, but floating-point numbers cannot hold these exponentials."
        : added ? "The same weights: only differences of scores count." : "";
      drawCurves();
    }

    box.append(dial.element, ...rows.map((row) => row.element),
      make("div", { class: "widget-bar entropy" }, entropy.fill, entropy.text),
      make("div", { class: "widget-flow" }, plot.element, make("div", { class: "widget-side" }, shifts.element, formulas.element, note)),
      opener(["Show the Jacobian", "Hide the Jacobian"], jacobian.element), jacobian.element);
    update();
  });
})();
