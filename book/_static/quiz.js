/** Shared code of the riddles: one question after another, the verdict, the button for the next question, and the score. */
Widgets.quiz = (() => {
  "use strict";
  const { make, button } = Widgets;

  /** Read the stored answers: for each question, whether the answer was right. A browser may refuse to store any. */
  function read(key) {
    try {
      return JSON.parse(localStorage.getItem(key)) ?? {};
    } catch {
      return {};
    }
  }

  function write(key, answers) {
    try {
      localStorage.setItem(key, JSON.stringify(answers));
    } catch { /* then the score counts only this visit */ }
  }

  /**
   * Ask in a box.
   *
   * @param {object} options
   * @param {HTMLElement} options.box Where the questions are.
   * @param {string} options.next The text of the button for the next question.
   * @param {(answer: Function, answers: Object<string, boolean>) => [HTMLElement, string]} options.ask Makes a question and
   *   a hint, and calls answer(right, words, name) when somebody has answered. `answers` has the answers so far, by name.
   * @param {string} [options.key] The name under which the browser stores the answers; without a name, it stores none.
   * @returns {{start: () => void, reset: () => void}}
   */
  function quiz({ box, next, ask, key }) {
    let answers = key ? read(key) : {};

    function start() {
      const [question, hint] = ask(answer, answers);
      const verdict = make("p", { role: "status" }, hint);
      const again = button(next, () => {
        start();
        box.querySelector("button").focus();
      });
      again.hidden = true;

      function answer(right, words, name = String(Object.keys(answers).length)) {
        if (!again.hidden) return;
        answers[name] = right;
        if (key) write(key, answers);
        const all = Object.values(answers);
        verdict.replaceChildren(make("b", {}, right ? "Yes. " : "No. "), ...words,
          ` (${all.filter(Boolean).length} of ${all.length} found.) `);
        again.hidden = false;
        again.focus({ preventScroll: true });
      }
      box.replaceChildren(question, verdict, again);
    }

    function reset() {
      answers = {};
      write(key, answers);
      start();
    }
    return { start, reset };
  }
  return quiz;
})();
