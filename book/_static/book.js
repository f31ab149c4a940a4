/* An equation that is wider than its column becomes a little smaller, and if that is not enough it scrolls within itself; the
   Tab key reaches it so that it can be scrolled. The theme does the same for code and tables. */
(function () {
  "use strict";

  const SMALLEST = 0.8;

  function fitEquations() {
    const all = [...document.querySelectorAll("span.math, div.math .equation")];
    const equations = all.filter(equation => !equation.closest("details:not([open]) > :not(summary)"));  // folded: not seen
    for (const equation of equations) equation.style.fontSize = "";
    const shares = equations.map(equation => {
      const block = equation.matches("span") ? equation.closest("p, li, dd, td, th, figcaption, h1, h2, h3, h4") : equation;
      return block && equation.scrollWidth > block.clientWidth + 1 ? block.clientWidth / equation.scrollWidth : 1;
    });
    equations.forEach((equation, i) => {
      const wide = shares[i] < SMALLEST;
      if (shares[i] < 1) equation.style.fontSize = `${Math.max(shares[i] - 0.01, SMALLEST)}em`;
      equation.classList.toggle("scrolls", wide);
      if (wide) equation.tabIndex = 0;
      else equation.removeAttribute("tabindex");
    });
  }

  document.fonts.ready.then(fitEquations);
  window.addEventListener("resize", fitEquations);
  // What was folded is measured when it opens, here and by the theme.
  document.addEventListener("toggle", () => window.dispatchEvent(new Event("resize")), true);
  document.addEventListener("click", () => setTimeout(fitEquations, 0));  // folded admonitions open by a click
})();

/* The theme's button that unfolds a page's subpages has a picture only; a screen reader needs words. */
for (const button of document.querySelectorAll(".bd-docs-nav summary")) {
  button.setAttribute("aria-label", `Pages below ${button.closest("li").querySelector("a").textContent}`);
}

/* The theme's list of chapters is more than its navigation; a screen reader is told of it as a place of its own. */
const sidebar = document.getElementById("pst-primary-sidebar");
sidebar.setAttribute("role", "region");
sidebar.setAttribute("aria-label", "The book");
