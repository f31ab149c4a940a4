/** Split and merge on numbered cells: reshape and transpose as steps, right and with three mistakes. */
(() => {
  "use strict";
  const { make, choice, lamps, mistakeLink } = Widgets;
  const SIZES = { "2,2": [3, 2, 2], "3,2": [3, 3, 2], "2,3": [3, 2, 3] };
  const VERSIONS = {
    right: ["right", "A reshape splits the width, then a transpose puts the heads first. The merge does the same in reverse."],
    M21: ["split by reshape alone", "One reshape makes (H, N, d) without a transpose. There is no error, because the number of cells is right."],
    M22: ["merge by reshape alone", "The heads are right, but the merge has no transpose: its reshape joins cells that are side by side in memory."],
    M81: ["every H-th column", "The width is split into (d, H). The merge makes the same mistake, so every cell comes back: the round trip notices nothing."],
  };

  /** Transpose a flat array, as NumPy does. `order` lists the old axes in their new order. */
  function transpose({ flat, shape }, order) {
    const strides = shape.map((_, axis) => shape.slice(axis + 1).reduce((product, size) => product * size, 1));
    const [sizes, steps] = [order.map((axis) => shape[axis]), order.map((axis) => strides[axis])];
    const collect = (axis, at) => axis === sizes.length ? [flat[at]]
      : Array.from({ length: sizes[axis] }, (_, i) => collect(axis + 1, at + i * steps[axis])).flat();
    return { flat: collect(0, 0), shape: sizes };
  }

  /** All steps from tokens, (N, D), to heads, (H, N, d), and back: the title, the axes and the cells of each step. */
  function steps(tokens, heads, width, version = "right") {
    const [N, H, d] = [tokens, heads, width];
    const all = [];
    const put = (title, axes, array) => { all.push({ title, axes, ...array }); return array; };
    const reshape = (array, shape) => ({ flat: array.flat, shape });
    let now = put("tokens", "N, D", {
      flat: Array.from({ length: N * H * d }, (_, i) => 10 * (Math.floor(i / (H * d)) + 1) + (i % (H * d)) + 1), shape: [N, H * d],
    });
    if (version === "M21") now = put("reshape", "H, N, d", reshape(now, [H, N, d]));
    else if (version === "M81") {
      now = put("reshape", "N, d, H", reshape(now, [N, d, H]));
      now = put("transpose", "H, N, d", transpose(now, [2, 0, 1]));
    } else {
      now = put("reshape", "N, H, d", reshape(now, [N, H, d]));
      now = put("transpose", "H, N, d", transpose(now, [1, 0, 2]));
    }
    if (version === "M81") now = put("transpose", "N, d, H", transpose(now, [1, 2, 0]));
    else if (version !== "M22") now = put("transpose", "N, H, d", transpose(now, [1, 0, 2]));
    put("reshape", "N, D", reshape(now, [N, H * d]));
    return all;
  }

  Widgets.heads = { compute: steps };

  Widgets.define("heads", (box) => {
    let [sizes, version, chosen] = [SIZES["2,2"], "right", 23];
    const stages = make("div", { class: "widget-flow stages" });
    const note = make("p", { class: "widget-note", role: "status" });
    const lights = lamps("Three tests: which notice the mistake?", [
      ["shape", "Do heads and result have the right shapes?"], ["round trip", "Does the merge bring every cell back?"],
      ["by hand", "Does head 1 hold the first d columns of every token?"],
    ]);
    const versions = choice({
      label: "Version", options: Object.entries(VERSIONS).map(([name, [text]]) => [name, text]), change: (name) => { version = name; lights.hide(); update(); },
    });
    const choices = choice({
      label: "Heads", options: [["2,2", "H = 2, d = 2"], ["3,2", "H = 3, d = 2"], ["2,3", "H = 2, d = 3"]],
      change: (name) => { sizes = SIZES[name]; update(); },
    });

    /** Mark a cell in every step. */
    function mark(number) {
      chosen = number;
      for (const cell of stages.querySelectorAll("td")) cell.classList.toggle("marked", Number(cell.textContent) === number);
    }
    const point = (event) => { if (event.target.matches("td")) mark(Number(event.target.textContent)); };
    stages.addEventListener("pointerover", point);
    stages.addEventListener("pointerdown", point);
    const finder = make("input", {
      type: "number", min: 11, max: 36, value: 23, "aria-label": "cell to follow", oninput: () => mark(Number(finder.value)),
    });

    function draw({ title, axes, flat, shape }, right) {
      const [rows, columns] = shape.slice(-2);
      const [, H, d] = sizes;
      const cell = (at) => make("td", {
        class: right && flat[at] !== right.flat[at] ? "wrong" : "", style: `--hue: ${(205 + 67 * 2 * Math.floor(((flat[at] % 10) - 1) / d)) % 360}`,
      }, String(flat[at]));
      const blocks = Array.from({ length: flat.length / (rows * columns) }, (_, block) => make("table", { class: "widget-matrix" },
        make("tbody", {}, ...Array.from({ length: rows }, (_, row) =>
          make("tr", {}, ...Array.from({ length: columns }, (_, column) => cell((block * rows + row) * columns + column)))))));
      return make("div", { class: "array" }, make("p", {}, make("b", {}, title), ` (${axes}) = (${shape.join(", ")})`),
        make("div", { class: "blocks" }, ...blocks));
    }

    function update() {
      const [N, H, d] = sizes;
      const now = steps(N, H, d, version);
      const right = steps(N, H, d);
      const heads = now.findIndex(({ axes }) => axes === "H, N, d");
      const same = (a, b) => a.flat.every((each, i) => each === b.flat[i]);
      stages.replaceChildren(...now.map((stage, i) => draw(stage, i === heads ? right[2] : i === now.length - 1 ? right[4] : undefined)));
      const first = [...new Set(now[heads].flat.slice(0, N * d).map((cell) => Math.floor(cell / 10)))];
      const whole = first.length === N ? "all tokens" : `tokens ${first.join(" and ")} only`;
      note.replaceChildren(`${VERSIONS[version][1]} Head 1 sees ${whole}.`, ...mistakeLink(version));
      lights.show([now[heads].shape.join() !== right[2].shape.join() || now.at(-1).shape.join() !== right[4].shape.join(),
        !same(now.at(-1), right[4]), !same(now[heads], right[2])]);
      mark(chosen);
    }

    box.append(versions.element, choices.element, make("label", { class: "finder" }, "Follow cell ", finder), stages, note, lights.element);
    update();
  });
})();
