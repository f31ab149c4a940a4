/** Find the wrong line: code in which a known mistake changed one line. The page holds the riddles, made when it is built. */
(() => {
  "use strict";
  const { make, button, choice, matrix, quiz } = Widgets;
  const riddles = JSON.parse(document.getElementById("wrong-lines").textContent);
  const LEVELS = ["easy", "medium", "hard"];

  /** Choose the next riddle: a new one, else one that was not solved, else any. */
  function choose(fitting, answers) {
    const left = [fitting.filter(({ name }) => !(name in answers)), fitting.filter(({ name }) => !answers[name]), fitting];
    const some = left.find((each) => each.length);
    return some[Math.floor(Math.random() * some.length)];
  }

  /** "a, b and c", each as code. */
  const listed = (names) => names.flatMap((name, i) =>
    [i === 0 ? "" : i === names.length - 1 ? " and " : ", ", make("code", {}, name)]);

  /** A sentence with code between backquotes. */
  const prose = (text) => text.split("`").map((part, i) => (i % 2 ? make("code", {}, part) : part));

  /** Which tests catch the mistake, as a sentence. */
  function tests({ tests, silent, visible }) {
    const several = tests.length > 1;
    return [several ? "The hidden tests " : "The hidden test ", ...listed(tests), ` (${tests.length} of ${tests.length + silent.length})`,
      visible ? " and the visible test catch it." : ` ${several ? "catch" : "catches"} it, but the visible test does not.`];
  }

  /** What the function gives and what it should give, next to each other. */
  function outcome({ shows }) {
    const numbers = (rows) => rows.map((row) => row.map(Number));
    const [right, wrong] = [numbers(shows.right), numbers(shows.wrong)];
    const sameShape = right.length === wrong.length && right[0].length === wrong[0].length;
    const [row, column] = shows.of === "weights" ? ["q", "k"] : ["", ""];
    const draw = (title, values) => {
      const map = matrix({
        title, kind: shows.of === "weights" ? "weights" : "signed",
        rows: values.map((_, i) => `${row}${i + 1}`), columns: values[0].map((_, j) => `${column}${j + 1}`),
      });
      map.show(values, sameShape ? right : undefined);
      return make("div", {}, map.element);
    };
    return make("div", {}, make("p", {}, `The ${shows.of} (${shows.case}):`),
      make("div", { class: "widget-flow" }, draw("right", right), draw("with the wrong line", wrong)));
  }

  /** The lines as buttons: walk with the arrow keys, and choose the wrong line with Enter. */
  function code(lines, say) {
    const buttons = lines.map((line, i) => {
      const text = line.trim();
      return button(text, () => say(i), {
        class: "line", style: `--indent: ${line.length - text.length}`, tabindex: i ? -1 : 0,
        onkeydown: (event) => {
          const to = { ArrowUp: i - 1, ArrowDown: i + 1, Home: 0, End: lines.length - 1 }[event.key];
          if (to === undefined) return;
          event.preventDefault();
          step((to + lines.length) % lines.length);
        },
      });
    });
    const step = (to) => {
      buttons.forEach((each, i) => { each.tabIndex = i === to ? 0 : -1; });
      buttons[to].focus();
    };
    const list = make("ol", { class: "widget-code" }, ...buttons.map((each) => make("li", {}, each)));
    return { list, buttons };
  }

  Widgets.define("wrong_lines", (box) => {
    const wanted = { part: "all", level: "all" };
    const fits = (riddle) => Object.entries(wanted).every(([what, value]) => value === "all" || String(riddle[what]) === value);
    const place = make("div", {});
    const left = make("p", { class: "widget-left" });
    const pick = (what, label, values) => choice({
      label, options: [["all", "all"], ...values.map((value) => [value, value])],
      change: (value) => { wanted[what] = value; questions.start(); },
    }).element;

    function ask(answer, answers) {
      const fitting = riddles.filter(fits);
      const tell = () => {
        const found = fitting.filter(({ name }) => answers[name]).length;
        left.replaceChildren(`${fitting.length} riddles fit your choice; you have solved ${found} of them. `, button("Forget all answers", questions.reset));
      };
      tell();
      if (!fitting.length) return [make("p", {}, "No riddle of this part has this difficulty."), "Choose another part, or all."];
      const riddle = choose(fitting, answers);
      const { list, buttons } = code(riddle.code, (said) => {
        if (list.classList.contains("answered")) return;
        list.classList.add("answered");
        buttons.forEach((each, i) => {
          each.setAttribute("aria-disabled", "true");
          each.classList.toggle("chosen", i === said);
          each.classList.toggle("wrong", i === riddle.wrong);
        });
        const link = make("a", { href: `mistakes.html#${riddle.mistake.toLowerCase()}` }, riddle.title);
        const better = riddle.right ? ["It should be ", make("code", {}, riddle.right)] : ["It should not be there"];
        answer(said === riddle.wrong,
          [`Line ${riddle.wrong + 1} is wrong: `, link, ". ", ...better, ". ", ...tests(riddle)], riddle.name);
        tell();
      });
      return [make("div", { "data-riddle": riddle.name },
        make("p", {}, make("code", {}, riddle.exercise), ` (part ${riddle.part}, ${riddle.level}): `, ...prose(riddle.about)),
        list, outcome(riddle)), "Which line is wrong?"];
    }

    const questions = quiz({ box: place, next: "Next riddle", ask, key: `wrong lines ${location.pathname}` });
    box.append(pick("part", "Part", ["1", "2", "3", "4", "5"]), pick("level", "Difficulty", LEVELS), place, left);
    questions.start();
  });
})();
