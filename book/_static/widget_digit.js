/** Draw a digit: the recorded Vision Transformer reads it in the page, and shows where its 48 heads look. */
(() => {
  "use strict";
  const { make, button, board, format, viridis, softmax, sketch } = Widgets;
  const [HEADS, DEPTH, SIDE] = [8, 6, 28];
  const folder = new URL(".", document.currentScript.src);

  /** Paint an image in grey; or the weights of its 16 patches in colour, and the ink in white above them. */
  function show(canvas, image, weights, full) {
    const context = canvas.getContext("2d");
    const pixels = context.createImageData(SIDE, SIDE);
    const colours = weights?.map((weight) => viridis(weight / full));
    image.forEach((ink, i) => {
      const ground = colours ? colours[4 * Math.floor(i / (7 * SIDE)) + Math.floor((i % SIDE) / 7)] : [0, 0, 0];
      pixels.data.set([...ground.map((part) => part + (255 - part) * ink * (colours ? 0.45 : 1)), 255], 4 * i);
    });
    context.putImageData(pixels, 0, 0);
  }
  const picture = (label) => make("canvas", { width: SIDE, height: SIDE, ...(label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" }) });

  Widgets.digit = {};

  Widgets.define("digit", (box) => {
    const on = () => Array.from({ length: DEPTH }, () => new Array(HEADS).fill(true));
    let [model, asked, heads, negated] = [null, false, on(), false];
    const paper = sketch.paper(read);
    const seen = picture("What the model sees, 28 × 28 pixels");
    const flow = picture("Rollout over the 16 patches");
    const bars = Array.from({ length: 10 }, (_, digit) => {
      const [fill, share] = [make("i", {}), make("b", {})];
      return { fill, share, element: make("li", {}, String(digit), make("div", { class: "widget-bar" }, fill, share)) };
    });
    const maps = board({
      title: "What the class token reads in each head: switch heads off",
      rows: [1, 2, 3, 4, 5, 6].map((block) => `block ${block}`), columns: [1, 2, 3, 4, 5, 6, 7, 8].map((head) => `${head}`),
      change: (states) => { heads = states; update(); },
    });
    const panels = maps.cells.map((row) => row.map((cell) => cell.appendChild(picture())));
    const note = make("p", { class: "widget-note", role: "status" }, "Pick a digit or draw one. Then the page loads the model (290 kB) and runs it here.");
    const negate = button("Same maps, values negated", () => { negated = !negated; update(); }, { "aria-pressed": false });

    Widgets.digit.take = (packed) => { model = Widgets.transformer.unpack(packed); update(); };

    /** Read what is drawn. The first call loads the model. */
    function read() {
      if (!asked) {
        asked = true;
        const fail = () => { note.textContent = "The model could not be loaded."; };
        for (const name of ["transformer.js", "vit.js", "vit_mnist.js"]) {
          const script = make("script", { src: new URL(name, folder), onerror: fail });
          script.async = false; // run the scripts in this order
          document.head.append(script);
        }
      }
      update();
    }

    function update() {
      const image = paper.image();
      show(seen, image);
      maps.show(heads);
      negate.setAttribute("aria-pressed", negated);
      if (!model) return;
      const gain = heads.map((row) => row.map((each) => (each ? (negated ? -1 : 1) : 0)));
      const now = Widgets.vit.run(model, image, gain);
      const [shares] = softmax([now.logits]);
      const best = shares.indexOf(Math.max(...shares));
      bars.forEach(({ fill, share, element }, digit) => {
        fill.style.width = `${100 * shares[digit]}%`;
        share.textContent = `${format(100 * shares[digit], 1)} %`;
        element.classList.toggle("best", digit === best);
      });
      now.maps.forEach((row, block) => row.forEach((weights, head) => show(panels[block][head], image, weights[0].slice(1), 0.5)));
      const through = Widgets.vit.rollout(now.maps).slice(1);
      show(flow, image, through, Math.max(...through));
      note.replaceChildren(make("b", {}, paper.empty() ? "Nothing is drawn. " : `Read as ${best}. `));
      const count = heads.flat().filter(Boolean).length;
      if (count === 48 && !negated) return;
      const { logits } = Widgets.vit.run(model, image);
      note.append(`${count} of 48 heads are on${negated ? ", with all values negated" : ""}; without these changes the model reads ${logits.indexOf(Math.max(...logits))}.`);
    }

    box.append(
      make("div", { class: "widget-flow digit" },
        paper.element,
        make("div", { class: "seen" }, "the model sees", seen, "rollout", flow),
        make("ol", { start: 0 }, ...bars.map((bar) => bar.element))),
      paper.picks,
      note, maps.element,
      make("div", { class: "widget-picks" }, negate, button("All heads on", () => { [heads, negated] = [on(), false]; update(); })));
    update();
  });
})();
