/** Twelve drills of einsum: type an equation that does what is asked. Any equation with the right numbers is right. */
(() => {
  "use strict";
  const { make, choice, button } = Widgets;
  const { NAMES, parse, compute, count } = Widgets.einsum;

  // For each drill: the task, the shapes of A and B, and one right equation.
  const DRILLS = [
    ["The sum of all numbers of A", [[3, 4]], "ij->"],
    ["The sum of each row of A", [[3, 4]], "ij->i"],
    ["The transpose of A", [[3, 4]], "ij->ji"],
    ["The diagonal of A", [[3, 3]], "ii->i"],
    ["The dot product of the vectors A and B", [[4], [4]], "i,i->"],
    ["The outer product of A and B, with the axis of B first", [[3], [4]], "i,j->ji"],
    ["The vector A times the matrix B", [[3], [3, 4]], "i,ij->j"],
    ["Row i of B times number i of A, for each i", [[3], [3, 4]], "i,ij->ij"],
    ["The dot product of each column of A with the same column of B", [[3, 4], [3, 4]], "ij,ij->j"],
    ["A with its last axis moved to the front", [[2, 3, 4]], "bij->jbi"],
    ["Values mixed by weights, in each head: A is (head, query, key), B is (head, key, component)", [[2, 3, 5], [2, 5, 4]], "hij,hje->hie"],
    ["Each head of A times the matrix of this head in B, summed over the heads: A is (head, token, component), B is (head, component, width)", [[2, 3, 4], [2, 4, 5]], "hnc,hcd->nd"],
  ];
  const shown = (shape) => `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;
  const shapeOf = (letters, sizes) => [...letters].map((letter) => sizes[letter]);

  /** Numbers that look random and are always the same. */
  function fill(length, seed) {
    let state = seed;
    return Array.from({ length }, () => { state = (state * 48271) % 2147483647; return (state % 19) - 9; });
  }

  /** Return the length of each letter, or a text that says why the letters do not fit the shapes. */
  function fit(inputs, shapes) {
    const sizes = {};
    if (inputs.length !== shapes.length) return { error: `This drill has ${shapes.length === 1 ? "one array" : "two arrays"}, but your equation has ${inputs.length}.` };
    for (const [a, letters] of inputs.entries()) {
      if (letters.length !== shapes[a].length) return { error: `${NAMES[a]} has ${shapes[a].length} axes, but “${letters}” has ${letters.length}: write one letter for each axis.` };
      for (const [axis, letter] of [...letters].entries()) {
        const length = shapes[a][axis];
        if ((sizes[letter] ?? length) !== length) return { error: `“${letter}” is the letter of axes of length ${sizes[letter]} and ${length}: they need two letters.` };
        sizes[letter] = length;
      }
    }
    return { sizes };
  }

  /** Say whether an equation does what a drill asks, and in words what it does instead. */
  function judge([, shapes, answer], equation) {
    const read = parse(equation);
    if (read.error) return { right: false, words: read.error };
    const { error, sizes } = fit(read.inputs, shapes);
    if (error) return { right: false, words: error };
    const right = parse(answer);
    const known = fit(right.inputs, shapes).sizes;
    const [got, wanted] = [shapeOf(read.output, sizes), shapeOf(right.output, known)];
    if (String(got) !== String(wanted)) return { right: false, words: `Your result has the shape ${shown(got)}, but ${shown(wanted)} is asked for.` };
    const arrays = shapes.map((shape, a) => fill(shape.reduce((product, length) => product * length, 1), a + 1));
    const expected = compute(right, known, arrays).numbers;
    const wrong = compute(read, sizes, arrays).numbers.filter((number, at) => number !== expected[at]).length;
    if (wrong) return { right: false, words: `The shape is right, but ${wrong} of ${count(right.output, known)} numbers are wrong.` };
    const roles = ["shared", "free", "summed"].map((role) => [role, read.letters.filter((letter) => read.roles[letter] === role)]);
    return { right: true, words: `Right. ${roles.filter(([, letters]) => letters.length).map(([role, letters]) => `${role}: ${letters.join(", ")}`).join("; ")}.` };
  }

  Widgets.drills = { DRILLS, judge };

  Widgets.define("drills", (box) => {
    const typed = DRILLS.map(() => "");
    const done = DRILLS.map(() => false);
    let at = 0;

    const picks = choice({ label: "Drill", options: DRILLS.map((_, i) => [String(i), String(i + 1)]), change: (value) => go(Number(value)) });
    const task = make("p", { class: "drill" });
    const given = make("p", {});
    const field = make("input", {
      type: "text", spellcheck: "false", autocapitalize: "off", autocomplete: "off", "aria-label": "your equation", oninput: () => { typed[at] = field.value; note.textContent = ""; },
    });
    const note = make("p", { class: "widget-note", role: "status" });
    const form = make("form", { onsubmit: (event) => { event.preventDefault(); check(); } },
      make("label", { class: "equation" }, "einsum ", field),
      make("p", { class: "widget-picks" }, make("button", {}, "Check"), button("Show an answer", () => { note.textContent = `One answer is ${DRILLS[at][2]}.`; }),
        button("Next drill", () => { go((at + 1) % DRILLS.length); field.focus(); })));

    function go(place) {
      at = place;
      const [asked, shapes, answer] = DRILLS[at];
      const right = parse(answer);
      const wanted = shapeOf(right.output, fit(right.inputs, shapes).sizes);
      task.textContent = `${asked}.`;
      given.textContent = `${shapes.map((shape, a) => `${NAMES[a]} has the shape ${shown(shape)}`).join(", ")}; the result has ${wanted.length ? `the shape ${shown(wanted)}` : "no axis"}.`;
      field.value = typed[at];
      picks.choose(String(at));
      note.textContent = "";
    }

    function check() {
      const { right, words } = judge(DRILLS[at], field.value);
      done[at] ||= right;
      picks.element.querySelectorAll("span").forEach((each, i) => { each.textContent = `${i + 1}${done[i] ? " ✓" : ""}`; });
      note.textContent = right ? `${words} You have solved ${done.filter(Boolean).length} of ${DRILLS.length}.` : words;
    }

    box.append(picks.element, task, given, form, note);
    go(0);
  });
})();
