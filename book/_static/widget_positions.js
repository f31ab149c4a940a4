/** Position codes: how similar the codes of two places of a grid are, counted line by line and in two dimensions. */
(() => {
  "use strict";
  const { make, matrix, slider, choice, format } = Widgets;
  const SIDE = 8;
  const places = Array.from({ length: SIDE }, (_, i) => i);

  /** The sinusoidal code of one place: sine and cosine of each frequency. */
  const sinusoidal = (place, width, base) => Array.from({ length: width / 2 }, (_, i) => place * base ** ((-2 * i) / width))
    .flatMap((angle) => [Math.sin(angle), Math.cos(angle)]);

  /** The codes of a grid, (8, 8, D): places counted line by line, or half of the width for the row and half for the column. */
  const CODES = {
    line: (width, base) => places.map((r) => places.map((c) => sinusoidal(SIDE * r + c, width, base))),
    plane: (width, base) => places.map((r) => places.map((c) => [...sinusoidal(r, width / 2, base), ...sinusoidal(c, width / 2, base)])),
  };
  const dot = (a, b) => a.reduce((sum, each, i) => sum + each * b[i], 0);

  /** The cosine of the code of one place with those of all. */
  function similarity(kind, width, base, row, column) {
    const codes = CODES[kind](width, base);
    const own = codes[row][column];
    return codes.map((line) => line.map((code) => dot(own, code) / Math.sqrt(dot(own, own) * dot(code, code))));
  }

  Widgets.positions = { compute: similarity };

  Widgets.define("positions", (box) => {
    let [width, power, row, column] = [64, 2, 3, 3];
    const names = places.map((i) => String(i + 1));
    const maps = Object.entries({ line: "1-D, line by line", plane: "2-D" }).map(([kind, title]) =>
      ({ kind, ...matrix({ title, rows: names, columns: names, kind: "weights", digits: 2 }) }));
    const sliders = [
      slider({ label: "row", min: 1, max: SIDE, step: 1, value: 4, change: (value) => { row = value - 1; update(); } }),
      slider({ label: "column", min: 1, max: SIDE, step: 1, value: 4, change: (value) => { column = value - 1; update(); } }),
      slider({ label: "base", min: 0.5, max: 4, step: 0.1, value: 2, change: (value) => { power = value; update(); } }),
    ];
    const widths = choice({
      label: "Width D", options: ["64", "32", "16", "8", "4"].map((each) => [each, each]), change: (value) => { width = Number(value); update(); },
    });
    const note = make("p", { class: "widget-note", role: "status" });

    for (const { element } of maps) element.addEventListener("click", ({ target }) => {
      if (!target.dataset.column) return;
      [row, column] = [Number(target.dataset.row), Number(target.dataset.column)];
      update();
    });

    function update() {
      const base = 10 ** power;
      [row, column].forEach((each, i) => { sliders[i].input.value = each + 1; sliders[i].show(String(each + 1)); });
      sliders[2].show(base < 1000 ? format(base, 0) : base.toExponential(1).replace("e+", "e"));
      const found = maps.map(({ kind, element, show }) => {
        const map = similarity(kind, width, base, row, column);
        show(map);
        for (const cell of element.querySelectorAll("td[data-column]"))
          cell.classList.toggle("chosen", Number(cell.dataset.row) === row && Number(cell.dataset.column) === column);
        return map;
      });
      const near = (map, down, right) => (map[row + down]?.[column + right] === undefined ? "outside" : format(map[row + down][column + right], 3));
      note.textContent = `Similarity to the place on the right: ${near(found[0], 0, 1)} in 1-D, ${near(found[1], 0, 1)} in 2-D; to the place below: ${near(found[0], 1, 0)} in 1-D, ${near(found[1], 1, 0)} in 2-D.`;
    }

    box.append(widths.element, ...sliders.map((each) => each.element),
      make("div", { class: "widget-flow positions" }, ...maps.map((each) => each.element)), note);
    update();
  });
})();
