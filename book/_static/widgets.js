/**
 * What all widgets share: parts to draw with, and the arithmetic of matrices.
 *
 * A widget is a file widget_NAME.js that calls Widgets.define("NAME", box => …). This call puts the widget's
 * parts into its place on the page. Without scripts, the earlier content of this place stays visible. Matrices are arrays of rows.
 * These are classic scripts: modules do not load from file://.
 */
const Widgets = (() => {
  "use strict";

  /** Build the widget NAME in its place on the page. */
  function define(name, build) {
    const place = document.getElementById(`widget-${name}`);
    const box = make("div", { class: "widget-box" });
    build(box);
    place.classList.add("live");
    place.append(box);
  }

  /** Make an element: make("p", {class: "note"}, "text", child). Properties that begin with "on" are listeners. */
  function make(tag, properties = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value === true) element.setAttribute(name, "");
      else if (value !== false && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  }

  /** Write a number with a true minus sign: −0.14, NaN, ∞. */
  function format(number, digits = 2) {
    if (Number.isNaN(number)) return "NaN";
    if (!Number.isFinite(number)) return number > 0 ? "∞" : "−∞";
    const text = number.toFixed(digits);
    return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
  }

  const VIRIDIS = [[68, 1, 84], [65, 68, 135], [42, 120, 142], [34, 168, 132], [122, 209, 81], [253, 231, 37]];

  /** The colour of viridis, [red, green, blue], for a share from 0 to 1. */
  function viridis(share) {
    const at = Math.min(Math.max(share, 0), 1) * (VIRIDIS.length - 1);
    const low = Math.min(Math.floor(at), VIRIDIS.length - 2);
    return VIRIDIS[low].map((part, i) => Math.round(part + (at - low) * (VIRIDIS[low + 1][i] - part)));
  }

  /** Paint an element as viridis paints a share from 0 to 1, with ink that can be read on it. */
  function paint(element, share) {
    const known = Number.isFinite(share);
    const colour = viridis(known ? share : 0);
    const [r, g, b] = colour.map((part) => (part / 255) ** 2.2);
    element.style.background = known ? `rgb(${colour.join(" ")})` : "";
    element.style.color = known ? (0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000" : "#fff") : "";
  }

  /** Tint an element by the sign and size of a number: from `full` on, the tint is at its maximum. */
  function tint(element, number, full) {
    const size = Number.isFinite(number) ? Math.round(45 * Math.min(Math.abs(number) / full, 1)) : 0;
    element.style.background = `color-mix(in srgb, var(--widget-${number < 0 ? "minus" : "plus"}) ${size}%, transparent)`;
  }

  /**
   * A matrix as a heat map with its numbers.
   *
   * @param {object} options
   * @param {string} options.title The text above it. A screen reader reads this as its name.
   * @param {string[]} options.rows Names of the rows.
   * @param {string[]} options.columns Names of the columns.
   * @param {"weights"|"signed"} [options.kind] Weights lie in 0 to 1 and are painted, other numbers are tinted.
   * @param {number} [options.digits] Digits after the point.
   * @param {(values: number[][]) => void} [options.change] Makes the cells editable, and is called with their numbers.
   * @returns {{element: HTMLElement, show: (values: number[][], right?: number[][]) => void}} Where `right` is given,
   *   cells that differ from it have a mark.
   */
  function matrix({ title, rows, columns, kind = "signed", digits = 2, change }) {
    const cells = rows.map((row, i) =>
      columns.map((column, j) =>
        change ? numberField(`${title}, ${row}, ${column}`, () => change(read())) : make("td", { "data-row": i, "data-column": j })));
    const read = () => cells.map((row) => row.map((cell) => Number(cell.value) || 0));
    const body = rows.map((name, i) =>
      make("tr", { "data-row": i }, make("th", { scope: "row" }, name),
        ...cells[i].map((cell) => (change ? make("td", {}, cell) : cell))));
    const element = make("table", { class: `widget-matrix ${change ? "editable" : kind} ${columns.length > 4 ? "wide" : ""}` },
      make("caption", {}, title),
      make("thead", {}, make("tr", {}, make("td"), ...columns.map((name) => make("th", { scope: "col" }, name)))),
      make("tbody", {}, ...body));

    function show(values, right) {
      const full = Math.max(1e-9, ...values.flat().filter(Number.isFinite).map(Math.abs));
      values.forEach((row, i) => row.forEach((number, j) => {
        const cell = cells[i][j];
        if (change) {
          if (cell.value === "" || Number(cell.value) !== number) cell.value = number;
        } else {
          cell.textContent = format(number, digits);
          cell.title = Number.isFinite(number) ? String(number) : "";
        }
        if (kind === "weights") paint(cell, number);
        else tint(cell, number, full);
        cell.classList.toggle("nan", Number.isNaN(number));
        cell.classList.toggle("wrong", right !== undefined && !(Math.abs(number - right[i][j]) <= 1e-5));
      }));
    }
    return { element, show };
  }

  /** A field for a number: type, use the arrow keys, or drag it sideways with mouse or finger. */
  function numberField(label, change) {
    const field = make("input", { type: "number", step: 0.5, "aria-label": label, oninput: change });
    let start = null;
    field.addEventListener("pointerdown", (event) => { start = { x: event.clientX, value: Number(field.value) || 0 }; });
    field.addEventListener("pointermove", (event) => {
      if (!start || !event.buttons || Math.abs(event.clientX - start.x) < 5) return;
      field.setPointerCapture(event.pointerId);
      field.value = start.value + 0.5 * Math.round((event.clientX - start.x) / 12);
      change();
    });
    for (const end of ["pointerup", "pointercancel"]) field.addEventListener(end, () => { start = null; });
    return field;
  }

  /**
   * A slider with its name and its number.
   *
   * @returns {{element: HTMLElement, input: HTMLInputElement, show: (text: string) => void}}
   */
  function slider({ label, min, max, step, value, change }) {
    const output = make("output", {});
    const input = make("input", { type: "range", min, max, step, value, oninput: () => change(Number(input.value)) });
    const element = make("label", { class: "widget-slider" }, make("span", {}, label), input, output);
    const show = (text) => { output.textContent = text; input.setAttribute("aria-valuetext", text); };
    return { element, input, show };
  }

  let groups = 0;

  /**
   * A choice of one from several: a row of buttons, one of them pressed. The arrow keys move between them.
   *
   * @param {object} options
   * @param {string} options.label What is chosen.
   * @param {[string, string][]} options.options Value and text of each.
   * @param {(value: string) => void} options.change Called with the chosen value.
   * @returns {{element: HTMLElement, choose: (value: string) => void}}
   */
  function choice({ label, options, change }) {
    const name = `widget-choice-${(groups += 1)}`;
    const inputs = options.map(([value], i) =>
      make("input", { type: "radio", name, value, checked: i === 0, onchange: () => change(value) }));
    const element = make("fieldset", { class: "widget-choice" }, make("legend", {}, label),
      ...options.map(([, text], i) => make("label", {}, inputs[i], make("span", {}, text))));
    const choose = (value) => inputs.forEach((input) => { input.checked = input.value === value; });
    return { element, choose };
  }

  /**
   * A board of cells that are on or off: paint with mouse or finger, or walk with the arrow keys and press Space.
   *
   * @param {object} options
   * @param {string} options.title The text above it.
   * @param {string[]} options.rows Names of the rows.
   * @param {string[]} options.columns Names of the columns.
   * @param {(states: boolean[][]) => void} options.change Called with the states after each stroke of the brush.
   * @returns {{element: HTMLElement, cells: HTMLElement[][], show: (states: boolean[][]) => void}}
   */
  function board({ title, rows, columns, change }) {
    let brush = null;
    const isOn = (cell) => cell.getAttribute("aria-pressed") === "true";
    const set = (cell, on) => cell.setAttribute("aria-pressed", on);
    const read = () => cells.map((row) => row.map(isOn));
    const use = (cell, on) => { set(cell, on); change(read()); };
    const step = (i, j) => {
      const cell = cells[(i + rows.length) % rows.length][(j + columns.length) % columns.length];
      for (const each of cells.flat()) each.tabIndex = each === cell ? 0 : -1;
      cell.focus();
    };
    const keys = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const cells = rows.map((row, i) => columns.map((column, j) => make("button", {
      type: "button", class: "cell", "aria-label": `${row}, ${column}`, "aria-pressed": true, tabindex: i + j ? -1 : 0,
      onpointerdown: (event) => {
        event.target.releasePointerCapture(event.pointerId); // else a finger would keep to its first cell
        brush = !isOn(cells[i][j]);
        use(cells[i][j], brush);
      },
      onpointerenter: (event) => { if (brush !== null && event.buttons && isOn(cells[i][j]) !== brush) use(cells[i][j], brush); },
      onclick: (event) => { if (event.detail === 0) use(cells[i][j], !isOn(cells[i][j])); }, // clicked by keyboard
      onkeydown: (event) => {
        if (!keys[event.key]) return;
        event.preventDefault();
        step(i + keys[event.key][0], j + keys[event.key][1]);
      },
    })));
    const element = make("table", { class: `widget-matrix board ${columns.length > 6 ? "wide" : ""}` },
      make("caption", {}, title),
      make("thead", {}, make("tr", {}, make("td"), ...columns.map((name) => make("th", { scope: "col" }, name)))),
      make("tbody", {}, ...rows.map((name, i) =>
        make("tr", { "data-row": i }, make("th", { scope: "row" }, name), ...cells[i].map((cell) => make("td", {}, cell))))));
    document.addEventListener("pointerup", () => { brush = null; });
    return { element, cells, show: (states) => states.forEach((row, i) => row.forEach((on, j) => set(cells[i][j], on))) };
  }

  /** A button. */
  const button = (text, click, properties = {}) => make("button", { type: "button", onclick: click, ...properties }, text);

  /** A button that shows a hidden part of a widget and hides it again. */
  function opener(texts, part, change = () => {}) {
    part.hidden = true;
    const element = button(texts[0], () => {
      part.hidden = !part.hidden;
      element.textContent = texts[part.hidden ? 0 : 1];
      element.setAttribute("aria-expanded", !part.hidden);
      change();
    }, { "aria-expanded": false });
    return element;
  }

  /** A version's link to its mistake in the list; the right version has none. */
  const mistakeLink = (version) =>
    version === "right" ? [] : [" ", make("a", { href: `mistakes.html#${version.toLowerCase()}` }, "This mistake in the list")];

  /**
   * A row of lamps, one for each test; a lamp is lit if its test notices something. The reader guesses first: a button
   * shows the results.
   *
   * @param {string} label What the lamps show.
   * @param {[string, string][]} names Name of each test, and what it asks.
   * @returns {{element: HTMLElement, show: (lit: boolean[]) => void, hide: () => void}}
   */
  function lamps(label, names) {
    let [results, shown] = [[], false];
    const lights = names.map(([name, question]) =>
      make("li", {}, make("b", {}, name), make("span", {}, question), make("i", {})));
    const reveal = button("", () => { shown = !shown; update(); });
    const total = make("span", { role: "status" });
    const element = make("div", { class: "widget-lamps" }, make("p", {}, label),
      make("div", {}, reveal, " ", total), make("ul", {}, ...lights));
    function update() {
      lights.forEach((light, i) => {
        light.classList.toggle("lit", shown && results[i]);
        light.lastChild.textContent = !shown ? "?" : results[i] ? "notices" : "silent";
      });
      element.classList.toggle("shown", shown);
      const count = results.filter(Boolean).length;
      reveal.textContent = shown ? "Hide the results" : "Show the results";
      total.textContent = shown ? `${count} of ${names.length} tests ${count === 1 ? "notices" : "notice"} a mistake.` : "How many do you expect?";
    }
    const show = (lit) => { results = lit; update(); };
    return { element, show, hide: () => { shown = false; update(); } };
  }

  /** An empty drawing with its own coordinates, as wide as its place allows. */
  function drawing(width, height, label) {
    const create = (tag) => document.createElementNS("http://www.w3.org/2000/svg", tag);
    const set = (element, attributes) => Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
    const element = create("svg");
    set(element, { viewBox: `0 0 ${width} ${height}`, class: "widget-drawing", role: "img", "aria-label": label });
    element.style.maxWidth = `${width}px`;
    const add = (tag, attributes, text = "") => {
      const part = create(tag);
      set(part, attributes);
      part.textContent = text;
      return element.appendChild(part);
    };
    return { element, add, clear: () => element.replaceChildren() };
  }

  /** Matrices. */
  const transpose = (a) => a[0].map((_, j) => a.map((row) => row[j]));
  const product = (a, b) => a.map((row) => b[0].map((_, j) => row.reduce((sum, value, m) => sum + value * b[m][j], 0)));
  const scaled = (a, factor) => a.map((row) => row.map((value) => value * factor));

  /** The softmax of each row; without `shift`, large scores overflow. */
  function softmax(a, shift = true) {
    return a.map((row) => {
      const largest = shift ? Math.max(...row) : 0;
      const exponentials = row.map((score) => Math.exp(score - largest));
      const sum = exponentials.reduce((total, each) => total + each, 0);
      return exponentials.map((each) => each / sum);
    });
  }

  /** A matrix of numbers from −2 to 2 in steps of a half. */
  const random = (rows, columns) =>
    Array.from({ length: rows }, () => Array.from({ length: columns }, () => Math.floor(9 * Math.random()) / 2 - 2));

  /** A normal random number, by Box and Muller. */
  const normal = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());

  return {
    define, make, format, viridis, paint, matrix, slider, choice, board, button, opener, mistakeLink, lamps, drawing,
    transpose, product, scaled, softmax, random, normal,
  };
})();
