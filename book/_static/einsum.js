/** Shared code of the einsum widgets: read an equation, and compute it with loops. */
(() => {
  "use strict";
  const NAMES = ["A", "B", "C"]; // names of the inputs
  const unique = (letters) => [...new Set(letters)];
  const count = (letters, sizes) => [...letters].reduce((product, letter) => product * sizes[letter], 1);

  /** Read an equation: its inputs, its output, and the role of each letter (shared, free or summed); or an error in words. */
  function parse(equation) {
    const text = equation.replaceAll(" ", "");
    const fail = (error) => ({ error });
    const strange = [...text.replace("->", "")].find((sign) => !/[a-zA-Z,]/.test(sign));
    if (strange) return fail(strange === "." ? "“...” does not work here: give each axis a letter." : `“${strange}” is not a letter. Give each axis one letter; write a comma between arrays, and -> before the output.`);
    const [left, right] = text.split("->");
    const inputs = left.split(",");
    if (inputs.some((letters) => letters === "")) return fail("An array has no letters: there is one comma too many, or nothing before the arrow.");
    if (inputs.length > NAMES.length) return fail("This page takes at most three arrays.");
    if (right?.includes(",")) return fail("There is only one output: remove the comma after the arrow.");
    const letters = unique(left.replaceAll(",", ""));
    const once = letters.filter((letter) => left.split(letter).length === 2).sort().join("");
    const output = right ?? once; // without an arrow, letters that occur once are kept, in alphabetical order
    const unknown = [...output].find((letter) => !letters.includes(letter));
    if (unknown) return fail(`“${unknown}” is in the output but in no input. How long would this axis be, and which numbers would be on it?`);
    if (unique(output).length < output.length) return fail("A letter occurs twice in the output: each output axis needs its own letter.");
    const role = (letter) => !output.includes(letter) ? "summed" : inputs.filter((each) => each.includes(letter)).length > 1 ? "shared" : "free";
    const roles = Object.fromEntries(letters.map((letter) => [letter, role(letter)]));
    return { inputs, output, letters, roles, summed: letters.filter((letter) => roles[letter] === "summed") };
  }

  /** Call `visit` with every combination of places, {letter: place}. The last letter changes fastest. */
  function loop(letters, sizes, visit, places = {}) {
    if (letters.length === 0) return visit(places);
    for (let place = 0; place < sizes[letters[0]]; place += 1) loop(letters.slice(1), sizes, visit, { ...places, [letters[0]]: place });
  }

  /** The index in a flat array of the number at these places. */
  const index = (letters, sizes, places) => [...letters].reduce((at, letter) => at * sizes[letter] + places[letter], 0);

  /** Compute an einsum of flat arrays with loops: the flat output and, for each of its numbers, the indices of the inputs. */
  function compute({ inputs, output, summed }, sizes, arrays) {
    const numbers = [];
    const made = [];
    loop([...output], sizes, (free) => {
      const terms = [];
      loop(summed, sizes, (rest) => terms.push(inputs.map((letters) => index(letters, sizes, { ...free, ...rest }))));
      made.push(terms);
      numbers.push(terms.reduce((sum, at) => sum + at.reduce((product, each, a) => product * arrays[a][each], 1), 0));
    });
    return { numbers, made };
  }

  Widgets.einsum = { NAMES, parse, compute, count };
})();
