// A click on a heading of a table sorts its rows.
document.querySelectorAll("th button").forEach((button) => button.addEventListener("click", () => {
  const head = button.parentElement, body = head.closest("table").tBodies[0];
  const turn = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  const value = (row) => row.cells[head.cellIndex].dataset.value;
  const compare = (a, b) => head.classList.contains("number") ? a - b : a.localeCompare(b);
  const order = (a, b) => (value(a) === "") - (value(b) === "") || turn * compare(value(a), value(b));
  body.append(...[...body.rows].sort(order));
  head.parentElement.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", turn === 1 ? "ascending" : "descending");
}));
