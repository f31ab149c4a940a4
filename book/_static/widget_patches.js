/** From image to tokens: cut your own drawing into patches, correctly and by a reshape alone. */
(() => {
  "use strict";
  const { make, choice, slider, sketch } = Widgets;
  const SIDE = 28;

  /** The patches of an image of 784 pixels, one a row, in reading order: (N, P²). */
  function patchify(image, size) {
    const across = SIDE / size;
    return Array.from({ length: across * across }, (_, n) => Array.from({ length: size * size }, (_, i) =>
      image[(Math.floor(n / across) * size + Math.floor(i / size)) * SIDE + (n % across) * size + (i % size)]));
  }

  /** The same shape by a reshape alone, which cuts the line of pixels instead of patches. */
  function reshape(image, size) {
    const length = size * size;
    return Array.from({ length: (SIDE * SIDE) / length }, (_, n) => image.slice(n * length, (n + 1) * length));
  }

  Widgets.patches = { patchify, reshape };

  Widgets.define("patches", (box) => {
    let [size, chosen] = [7, 5];
    const paper = sketch.paper(update);
    const canvas = (label) => make("canvas", { role: "img", "aria-label": label });
    const [whole, right, wrong] = ["The image, cut", "The rows of the right result, each drawn as a patch", "The rows of a reshape alone, each drawn as a patch"].map(canvas);
    const [row, rowWrong] = ["The chosen row", "The same row of a reshape alone"].map(canvas);
    const note = make("p", { class: "widget-note", role: "status" });
    const sizes = choice({
      label: "P", options: [["7", "7"], ["14", "14"], ["4", "4"], ["2", "2"]], change: (value) => { size = Number(value); chosen = 0; update(); },
    });
    const which = slider({ label: "row n", min: 1, max: 16, step: 1, value: 6, change: (value) => { chosen = value - 1; update(); } });

    /** Paint rows as tiles with gaps between them, the chosen one framed. */
    function tiles(target, rows, columns, gap) {
      const [tile, scale] = [size, 8];
      const step = tile * scale + gap;
      target.width = columns * step + gap;
      target.height = Math.ceil(rows.length / columns) * step + gap;
      const context = target.getContext("2d");
      context.fillStyle = "#777";
      context.fillRect(0, 0, target.width, target.height);
      rows.forEach((pixels, n) => pixels.forEach((ink, i) => {
        const grey = Math.round(255 * ink);
        context.fillStyle = `rgb(${grey} ${grey} ${grey})`;
        context.fillRect(gap + (n % columns) * step + (i % tile) * scale, gap + Math.floor(n / columns) * step + Math.floor(i / tile) * scale, scale, scale);
      }));
      Object.assign(context, { strokeStyle: "#f80", lineWidth: 6 })
        .strokeRect(gap + (chosen % columns) * step, gap + Math.floor(chosen / columns) * step, step - gap, step - gap);
    }

    /** Paint one row as a strip of pixels. */
    function strip(target, pixels) {
      [target.width, target.height] = [pixels.length, 1];
      const context = target.getContext("2d");
      pixels.forEach((ink, i) => { context.fillStyle = `rgb(${[ink, ink, ink].map((each) => Math.round(255 * each)).join(" ")})`; context.fillRect(i, 0, 1, 1); });
    }

    function update() {
      const image = paper.image();
      const across = SIDE / size;
      const [cut, cutWrong] = [patchify(image, size), reshape(image, size)];
      chosen = Math.min(chosen, cut.length - 1);
      which.input.max = cut.length;
      which.input.value = chosen + 1;
      which.show(`${chosen + 1} of ${cut.length}`);
      tiles(whole, cut, across, 0);
      tiles(right, cut, across, 2 * size);
      tiles(wrong, cutWrong, across, 2 * size);
      strip(row, cut[chosen]);
      strip(rowWrong, cutWrong[chosen]);
      const [first, last] = [0, 1].map((end) => Math.floor(((chosen + end) * size * size - end) / SIDE) + 1);
      note.textContent = `P = ${size}: ${cut.length} rows of ${size * size} numbers. Row ${chosen + 1} is the patch in row ${Math.floor(chosen / across) + 1}, column ${(chosen % across) + 1}; `
        + `by a reshape alone it is a piece of the image's ${first === last ? `line ${first}` : `lines ${first} to ${last}`}.`;
    }

    /** A click on tiles chooses the patch. */
    for (const target of [whole, right, wrong]) target.addEventListener("click", (event) => {
      const { left, top, width, height } = target.getBoundingClientRect();
      const across = SIDE / size;
      chosen = Math.min(Math.floor(((event.clientY - top) / height) * across), across - 1) * across + Math.min(Math.floor(((event.clientX - left) / width) * across), across - 1);
      update();
    });

    const figure = (text, ...parts) => make("div", {}, make("p", {}, text), ...parts);
    box.append(
      make("div", { class: "widget-flow digit" }, paper.element, make("div", { class: "widget-side" }, paper.picks, sizes.element, which.element, note)),
      make("div", { class: "tiles" }, figure("the image", whole), figure("patches", right), figure("a reshape alone", wrong)),
      make("div", { class: "strips" }, figure("the row", row), figure("the row by a reshape alone", rowWrong)));
    update();
  });
})();
