/** Type a beginning: the recorded decoder goes on in the page, and shows where its heads look and what may come next. */
(() => {
  "use strict";
  const { make, button, slider, format, viridis, softmax } = Widgets;
  const [SHOWN, LIKELY, WRITTEN] = [30, 5, 150]; // characters above the heads, likeliest characters, characters at one press
  const folder = new URL(".", document.currentScript.src);
  const SIGNS = { " ": ["␣", "space"], "\n": ["↵", "new line"] };
  const sign = (character) => SIGNS[character]?.[0] ?? character;
  const name = (character) => SIGNS[character]?.[1] ?? character;

  Widgets.writer = {};

  Widgets.define("writer", (box) => {
    let [read, characters, asked, heads, left, weights] = [null, [], false, [], 0, []];
    const text = make("textarea", { rows: 4, spellcheck: "false", autocapitalize: "off", "aria-label": "Text", oninput: () => { left = 0; load(); } });
    text.value = "Attention is";
    const note = make("p", { class: "widget-note", role: "status" }, "Type a beginning, or press a button. Then the page loads the model (340 kB) and runs it here.");
    const go = button("Go on", () => { left = left ? 0 : WRITTEN; load(); });
    const one = button("One character", () => { left = 1; load(); });
    const clear = button("Clear", () => { left = 0; text.value = ""; load(); text.focus(); });
    const heat = slider({ label: "temperature", min: 0.1, max: 2, step: 0.1, value: 0.7, change: update });

    const likely = Array.from({ length: LIKELY }, () => {
      const [fill, share] = [make("i", {}), make("b", {})];
      const add = button("?", () => { if (read) { left = 0; text.value += add.character; update(); } });
      return { add, fill, share, element: make("li", {}, add, make("div", { class: "widget-bar" }, fill, share)) };
    });
    const above = make("div", { class: "letters", "aria-hidden": true }, ...Array.from({ length: SHOWN }, () => make("span", {})));
    const strips = make("div", { class: "strips" }, make("span", {}), above);

    Widgets.writer.take = (packed) => {
      read = Widgets.decoder.reader(Widgets.transformer.unpack(packed), packed);
      characters = Array.from(packed.characters);
      heads = Array.from({ length: packed.depth * packed.heads }, (_, i) => {
        const canvas = make("canvas", { width: SHOWN, height: 1, role: "img" });
        strips.append(make("span", {}, `${Math.floor(i / packed.heads) + 1}.${(i % packed.heads) + 1}`), canvas);
        return canvas;
      });
      next();
    };

    /** Load the model at the first call; then write. */
    function load() {
      if (read) { next(); return; }
      if (asked) return;
      asked = true;
      note.textContent = "The model is being loaded.";
      const fail = () => { [asked, left] = [false, 0]; note.textContent = "The model could not be loaded. Press “Go on” to try again."; };
      for (const each of ["transformer.js", "decoder.js", "decoder_pages.js"]) {
        const script = make("script", { src: new URL(each, folder), onerror: fail });
        script.async = false; // run the scripts in this order
        document.head.append(script);
      }
    }

    /** Show what is there, and write the next character as long as some are left to write. */
    function next() {
      update();
      go.textContent = left ? "Stop" : "Go on";
      if (!left) return;
      left -= 1;
      let rest = Math.random();
      const drawn = weights.findIndex((weight) => (rest -= weight) < 0);
      text.value += characters[drawn < 0 ? weights.indexOf(Math.max(...weights)) : drawn];
      text.scrollTop = text.scrollHeight;
      setTimeout(next, 30);
    }

    function update() {
      const temperature = Number(heat.input.value);
      heat.show(format(temperature, 1));
      if (!read) return;
      const all = ["\n", ...text.value]; // each sentence of the model's text began in a new line
      const known = all.filter((each) => characters.includes(each));
      const { logits, maps } = read(known.map((each) => characters.indexOf(each)));
      [weights] = softmax([logits.map((logit) => logit / temperature)]);
      const order = Array.from(weights.keys()).sort((a, b) => weights[b] - weights[a]);
      likely.forEach(({ add, fill, share }, i) => {
        const [character, weight] = [characters[order[i]], weights[order[i]]];
        add.character = character;
        add.textContent = sign(character);
        add.setAttribute("aria-label", `Add ${name(character)}`);
        fill.style.width = `${100 * weight}%`;
        share.textContent = `${format(100 * weight, 1)} %`;
      });
      const shown = known.slice(-SHOWN);
      above.childNodes.forEach((place, i) => { place.textContent = sign(shown[i - SHOWN + shown.length] ?? ""); });
      maps.flat().forEach((row, head) => {
        const seen = row.slice(-SHOWN);
        const pixels = heads[head].getContext("2d").createImageData(SHOWN, 1);
        seen.forEach((weight, i) => pixels.data.set([...viridis(weight / 0.5), 255], 4 * (i + SHOWN - seen.length)));
        heads[head].getContext("2d").putImageData(pixels, 0, 0);
        const most = row.indexOf(Math.max(...row));
        const back = row.length - 1 - most;
        heads[head].setAttribute("aria-label", `${format(100 * row[most], 0)} % on “${name(known[known.length - 1 - back])}”, ${back} back`);
      });
      const strange = [...new Set(all.filter((each) => !characters.includes(each)))];
      note.textContent = strange.length ? `The model never saw ${strange.join(" ")} and leaves it out.` : "";
    }

    box.append(
      text,
      make("div", { class: "widget-picks" }, go, one, clear),
      heat.element, note,
      make("div", { class: "widget-flow writer" },
        make("div", {}, make("p", {}, "What may come next"), make("ol", {}, ...likely.map((each) => each.element))),
        make("div", {}, make("p", {}, "What the last character reads: a row for each head, block.head"), strips)));
    update();
  });
})();
