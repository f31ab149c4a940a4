/** For widgets with drawings: paper to draw on, ten sample digits, and MNIST's conversion of ink to 28 × 28 pixels. */
Widgets.sketch = (() => {
  "use strict";
  const { make, button } = Widgets;
  const SIDE = 28;

  /**
   * Prepare ink as MNIST does: into a box of 20 × 20 pixels, its centre of mass into the centre of 28 × 28.
   *
   * @param {number[]} ink side × side numbers from 0 to 1, row by row.
   * @returns {number[]} 784 pixels from 0 to 1.
   */
  function prepare(ink, side) {
    const inked = Array.from(ink.keys()).filter((i) => ink[i] > 0.05);
    const image = new Array(SIDE * SIDE).fill(0);
    if (inked.length === 0) return image;
    const [rows, columns] = [inked.map((i) => Math.floor(i / side)), inked.map((i) => i % side)];
    const [top, left] = [rows, columns].map((all) => all.reduce((a, b) => Math.min(a, b)));
    const [height, width] = [rows, columns].map((all, i) => all.reduce((a, b) => Math.max(a, b)) + 1 - [top, left][i]);
    const step = Math.max(height, width) / 20;
    const [down, across] = [height, width].map((size) => Math.max(1, Math.round(size / step)));

    // each pixel is the mean of the ink that it covers: places and shares
    const covered = (size, count) => Array.from({ length: count }, (_, n) => {
      const [from, to] = [(n * size) / count, ((n + 1) * size) / count];
      const [first, last] = [Math.floor(from), Math.min(Math.ceil(to), size)];
      return Array.from({ length: last - first }, (_, k) => [first + k, (Math.min(first + k + 1, to) - Math.max(first + k, from)) / (to - from)]);
    });
    const mean = (parts, value) => parts.reduce((sum, [i, part]) => sum + part * value(i), 0);
    const pixels = covered(width, across);
    const narrow = Array.from({ length: height }, (_, i) => pixels.map((parts) => mean(parts, (j) => ink[(top + i) * side + left + j])));
    const small = covered(height, down).map((parts) => pixels.map((_, j) => mean(parts, (i) => narrow[i][j])));

    const total = small.flat().reduce((all, each) => all + each, 0);
    const middle = (weigh) => small.reduce((all, row, i) => all + row.reduce((some, each, j) => some + each * weigh(i, j), 0), 0) / total;
    const [y, x] = [Math.round(14 - middle((i) => i)), Math.round(14 - middle((_, j) => j))];
    small.forEach((row, i) => row.forEach((each, j) => {
      if (y + i >= 0 && y + i < SIDE && x + j >= 0 && x + j < SIDE) image[(y + i) * SIDE + x + j] = each;
    }));
    return image;
  }

  /** Draw strokes (lists of points) as 200 × 200 numbers of ink. They fill the square, so that the pen always has one width. */
  function rasterise(strokes) {
    const [side, pen] = [200, 24];
    const context = make("canvas", { width: side, height: side }).getContext("2d", { willReadFrequently: true });
    const points = strokes.flat();
    const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
    const [left, top] = [Math.min(...xs), Math.min(...ys)];
    const size = Math.max(Math.max(...xs) - left, Math.max(...ys) - top);
    const scale = (side - pen) / Math.max(size, 0.1);
    drawStrokes(context, strokes.map((stroke) => stroke.map(([x, y]) => [pen / 2 + (x - left) * scale, pen / 2 + (y - top) * scale])), pen, "#000");
    const { data } = context.getImageData(0, 0, side, side);
    return Array.from({ length: side * side }, (_, i) => data[4 * i + 3] / 255);
  }

  function drawStrokes(context, strokes, pen, colour) {
    Object.assign(context, { lineWidth: pen, lineCap: "round", lineJoin: "round", strokeStyle: colour });
    for (const stroke of strokes) {
      context.beginPath();
      context.moveTo(...stroke[0]);
      for (const point of stroke.length > 1 ? stroke.slice(1) : stroke) context.lineTo(...point);
      context.stroke();
    }
  }

  /** Ten sample digits: points of each stroke, x and y from 0 to 99 in four figures. */
  const DIGITS = [
    ["5010", "3015 2035 2060 3080 5090 7080 8060 8035 7015 5010"], ["5510 5035 4860 4590"],
    ["2530 3512 5508 7020 7038 5558 3575 2088", "4586 6088 8085"], ["2518 4508 6515 7030 6042 4548 6552 7568 6585 4592 2585"],
    ["6010 4530 2555 5056 8054", "6530 6060 5892"], ["7512 5012 3014 2845 5040 7052 7470 6085 4092 2285"],
    ["6510 4530 3055 2875 4090 6088 7072 6055 4555 3270"], ["2015 5014 8012 7035 5560 4590"],
    ["6520 4510 3022 4040 6055 6878 5090 3282 3265 5048 7028 6520"], ["7025 5512 3525 3542 5550 6840 7025 6855 6075 5292"],
  ].map((strokes) => strokes.map((stroke) => stroke.split(" ").map((point) => [point.slice(0, 2) / 100, point.slice(2) / 100])));

  /**
   * Paper to draw on with mouse, finger or keyboard, with a button to clear it and ten sample digits.
   *
   * @param {() => void} change Called when the drawing changes.
   * @returns {{element: HTMLElement, picks: HTMLElement, image: () => number[], empty: () => boolean}} The image is like MNIST's.
   */
  function paper(change) {
    let [strokes, ours, pen, drawing, waiting] = [DIGITS[7], true, [0.5, 0.5], false, false];
    const canvas = make("canvas", {
      class: "paper", width: 280, height: 280, tabindex: 0, role: "application",
      "aria-label": "Draw a digit with mouse or finger; or move the pen with the arrow keys, Space lowers and lifts it",
    });

    function draw() {
      const context = canvas.getContext("2d");
      context.fillRect(0, 0, 280, 280);
      drawStrokes(context, strokes.map((stroke) => stroke.map(([x, y]) => [280 * x, 280 * y])), 22, "#fff");
      if (document.activeElement !== canvas) return;
      Object.assign(context, { lineWidth: 3, strokeStyle: drawing ? "#f80" : "#0cf" }).strokeRect(280 * pen[0] - 6, 280 * pen[1] - 6, 12, 12);
    }

    /** Draw, and call `change` at most once for each frame. */
    function renew() {
      draw();
      if (!waiting) requestAnimationFrame(() => { waiting = false; change(); });
      waiting = true;
    }

    /** Begin a stroke. If the paper shows a sample digit, clear it first. */
    function begin(point) {
      strokes = [...(ours ? [] : strokes), [point]];
      [ours, drawing] = [false, true];
      renew();
    }
    const place = (event) => {
      const { left, top, width, height } = canvas.getBoundingClientRect();
      return [(event.clientX - left) / width, (event.clientY - top) / height];
    };
    const moves = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
    const listen = (name, act) => canvas.addEventListener(name, act);
    listen("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); pen = place(event); begin(pen); });
    listen("pointermove", (event) => {
      if (!drawing || !event.buttons) return;
      pen = place(event);
      strokes.at(-1).push(pen);
      renew();
    });
    for (const end of ["pointerup", "pointercancel", "blur"]) listen(end, () => { drawing = false; draw(); });
    listen("focus", draw);
    listen("keydown", (event) => {
      if (event.key === " ") drawing ? (drawing = false) : begin(pen);
      else if (moves[event.key]) {
        pen = pen.map((each, i) => Math.min(Math.max(each + 0.05 * moves[event.key][i], 0.05), 0.95));
        if (drawing) strokes.at(-1).push(pen);
      } else return;
      event.preventDefault();
      renew();
    });
    const put = (next, own) => () => { [strokes, ours] = [next, own]; renew(); };
    draw();
    return {
      element: make("div", {}, canvas, button("Clear", put([], false))),
      picks: make("div", { class: "widget-picks", role: "group", "aria-label": "Digits to begin with" },
        ...DIGITS.map((digit, i) => button(String(i), put(digit, true)))),
      image: () => (strokes.length ? prepare(rasterise(strokes), 200) : new Array(SIDE * SIDE).fill(0)),
      empty: () => strokes.length === 0,
    };
  }

  return { paper, prepare, rasterise, DIGITS };
})();
