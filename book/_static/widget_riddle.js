/** The riddle of the first page: two maps of one table of scores, of which one is made by a softmax over the wrong axis. */
(() => {
  "use strict";
  const { make, button, format, paint, transpose, scaled, softmax, normal } = Widgets;
  const SIZE = 5;


  /** The maps of one table of scores: the softmax over the keys, which is right, and over the queries. */
  function maps(scores) {
    return { keys: softmax(scores), queries: transpose(softmax(transpose(scores))) };
  }

  Widgets.riddle = { compute: maps };

  /** A map, and around it the sums of its rows and columns, which are hidden at first. */
  function drawMap(weights, name) {
    const largest = Math.max(...weights.flat());
    const sum = (row) => row.reduce((total, each) => total + each, 0);
    const sums = [...weights.map(sum), ...transpose(weights).map(sum)];
    const cell = (weight) => {
      const square = make("td", {});
      paint(square, weight / largest);
      square.append(format(weight));
      return square;
    };
    const total = (place) => make("td", { class: "sum" }, make("span", { class: "late" }, format(sums[place])));
    return make("table", { class: "widget-matrix riddle" },
      make("caption", {}, name),
      make("tbody", {},
        ...weights.map((row, i) => make("tr", {}, ...row.map(cell), total(i))),
        make("tr", {}, ...weights.map((_, j) => total(SIZE + j)), make("td"))));
  }

  /** Show both maps of a new table, in any order. */
  function ask(answer) {
    const scores = scaled(Array.from({ length: SIZE }, () => Array.from({ length: SIZE }, normal)), 1.3);
    const both = maps(scores);
    const order = Math.random() < 0.5 ? ["keys", "queries"] : ["queries", "keys"];
    const board = make("div", { class: "widget-riddle" }, ...order.map((kind, i) => {
      const name = `Map ${"AB"[i]}`;
      return make("div", {}, drawMap(both[kind], name), button(`${name} is wrong`, () => choose(kind), { "data-kind": kind }));
    }));

    function choose(chosen) {
      board.classList.add("answered");
      for (const each of board.querySelectorAll("button")) {
        each.setAttribute("aria-pressed", each.dataset.kind === "queries");
        each.setAttribute("aria-disabled", "true");
      }
      answer(chosen === "queries", [
        `In map ${"AB"[order.indexOf("keys")]} each row sums to 1: a query divides its attention among the keys. In map ${"AB"[order.indexOf("queries")]} each column sums to 1. `,
      ]);
    }
    return [board, "Rows are queries, and columns are keys. A brighter cell has more weight."];
  }

  Widgets.define("riddle", (box) => Widgets.quiz({ box, next: "Another table", ask }).start());
})();
