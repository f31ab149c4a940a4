/** The einsum microscope: type an equation, and see its axes, its loop, and what each output cell is made of. */
(() => {
  "use strict";
  const { make, choice } = Widgets;
  const { NAMES, parse, compute, count } = Widgets.einsum;
  const ROOM = 96; // numbers of one array that fit on the page
  const EXAMPLES = [
    ["j,je->e", "by hand"], ["ij,j->i", "matrix by vector"], ["i,j->ij", "outer"], ["ij->ji", "transpose"], ["ij->j", "column sums"],
    ["ii->i", "diagonal"], ["ij,ij->", "sum of products"], ["bij,bj->bi", "a batch"],
  ];
  const SIZES = { b: 2, h: 2, n: 3, m: 4, i: 3, j: 4, c: 2, d: 2, e: 2, k: 2 };

  /** The loop that an equation means, as Python. */
  function asLoop({ inputs, output, summed }, sizes) {
    const heads = [...output].map((letter, depth) => `${"  ".repeat(depth)}for ${letter} in range(${sizes[letter]}):`);
    const factors = inputs.map((letters, a) => `${NAMES[a]}[${[...letters].join(", ")}]`).join(" * ");
    const over = summed.map((letter) => ` for ${letter} in range(${sizes[letter]})`).join("");
    const target = output ? `out[${[...output].join(", ")}]` : "out";
    return [...heads, `${"  ".repeat(output.length)}${target} = ${over ? `sum(${factors}${over})` : factors}`].join("\n");
  }

  Widgets.define("einsum", (box) => {
    const sizes = { ...SIZES };
    let [read, arrays, result, cells, chosen] = [null, [], null, [], 0];

    const equation = make("input", {
      type: "text", value: EXAMPLES[0][0], spellcheck: "false", autocapitalize: "off", autocomplete: "off", "aria-label": "equation", oninput: () => { examples.choose(equation.value); update(); },
    });
    const examples = choice({
      label: "Try", options: EXAMPLES, change: (text) => { equation.value = text; update(); },
    });
    const axes = make("div", { class: "axes" });
    const code = make("pre", { tabindex: 0, "aria-label": "The loop that the equation means" });
    const note = make("p", { class: "widget-note", role: "status" });
    const board = make("div", { class: "widget-flow arrays" });

    const hue = (letter) => `--hue: ${(read.letters.indexOf(letter) * 67 + 205) % 360}`;
    const chip = (letter) => make("b", { class: "axis", style: hue(letter) }, letter);

    /** Show an array: its last axis runs across, the axis before it runs down, and each place of the other axes is a block. */
    function draw(name, letters, numbers, choose) {
      const tds = numbers.map((number, at) => make("td", choose
        ? { tabindex: at ? -1 : 0, onpointerenter: () => choose(at), onfocus: () => choose(at), onclick: (event) => event.target.focus() } : {}, String(number)));
      const across = letters.length ? sizes[letters.at(-1)] : 1;
      const down = letters.length > 1 ? sizes[letters.at(-2)] : 1;
      const blocks = Array.from({ length: numbers.length / (across * down) }, (_, block) =>
        make("table", { class: "widget-matrix" }, make("tbody", {}, ...Array.from({ length: down }, (_, row) =>
          make("tr", {}, ...tds.slice((block * down + row) * across, (block * down + row + 1) * across))))));
      const element = make("div", { class: "array" },
        make("p", {}, `${name}[ `, ...[...letters].flatMap((letter, i) => [i ? ", " : "", chip(letter)]), ` ]  shape (${[...letters].map((each) => sizes[each]).join(", ")})`),
        make("div", { class: "blocks" }, ...blocks));
      return { element, tds };
    }

    /** Look at one number of the output: mark it and what it is made of. */
    function look(at) {
      chosen = at;
      const { tds } = cells.at(-1);
      for (const td of cells.flatMap((each) => each.tds)) td.classList.remove("in", "out");
      tds.forEach((td, i) => { td.tabIndex = i === at ? 0 : -1; });
      tds[at].classList.add("out");
      for (const term of result.made[at]) term.forEach((each, a) => cells[a].tds[each].classList.add("in"));
      const shown = result.made[at].slice(0, 6).map((term) => term.map((each, a) => arrays[a][each]).join(" · "));
      note.textContent = `${shown.join(" + ")}${result.made[at].length > 6 ? " + …" : ""} = ${result.numbers[at]}`;
    }

    function walk(event) {
      const across = sizes[read?.output?.at(-1)] ?? 1;
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across }[event.key];
      const next = cells.at(-1)?.tds[chosen + step];
      if (!step || !next || !event.target.matches("td")) return;
      event.preventDefault();
      next.focus();
    }
    board.addEventListener("keydown", walk);

    function update() {
      read = parse(equation.value);
      const large = read.error ? undefined : [...read.inputs, read.output].find((letters) => {
        for (const letter of letters) sizes[letter] ??= 2;
        return count(letters, sizes) > ROOM;
      });
      const error = read.error ?? (large && `${large} has ${count(large, sizes)} numbers, but only ${ROOM} fit here: make a size smaller.`);
      equation.setAttribute("aria-invalid", Boolean(error));
      axes.hidden = !!read.error;
      code.hidden = board.hidden = !!error;
      if (!read.error) axes.replaceChildren(...read.letters.map((letter) => {
        const size = make("input", {
          type: "number", min: 1, max: 8, value: sizes[letter], "aria-label": `size of ${letter}`,
          onchange: () => { sizes[letter] = Math.min(Math.max(Math.round(Number(size.value)) || 1, 1), 8); update(); axes.querySelector(`[aria-label="size of ${letter}"]`).focus(); },
        });
        return make("label", {}, chip(letter), size, read.roles[letter]);
      }));
      if (error) { note.textContent = error; return; }
      arrays = read.inputs.map((letters, a) => Array.from({ length: count(letters, sizes) }, (_, i) => ((i * (a + 2)) % 7) + 1 - a));
      result = compute(read, sizes, arrays);
      cells = read.inputs.map((letters, a) => draw(NAMES[a], letters, arrays[a]));
      cells.push(draw("out", read.output, result.numbers, look));
      board.replaceChildren(...cells.map((each) => each.element));
      code.textContent = asLoop(read, sizes);
      look(0);
    }

    box.append(examples.element, make("label", { class: "equation" }, "torch.einsum ", equation), axes, code, note, board);
    update();
  });
})();
