/* An equation that is wider than its column becomes a little smaller. If that is not enough, the equation scrolls, and the
   Tab key reaches it. The theme does the same for code and tables. */
(function () {
  "use strict";

  const SMALLEST = 0.8;

  function fitEquations() {
    const all = [...document.querySelectorAll("span.math, div.math .equation")];
    const equations = all.filter(equation => !equation.closest("details:not([open]) > :not(summary)"));  // only in open boxes
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
  // When a box opens, this script and the theme measure its content.
  document.addEventListener("toggle", () => window.dispatchEvent(new Event("resize")), true);
  document.addEventListener("click", () => setTimeout(fitEquations, 0));  // a click opens a folded admonition
})();

/* The theme's button that unfolds a page's subpages has a picture only; a screen reader needs words. */
for (const button of document.querySelectorAll(".bd-docs-nav summary")) {
  button.setAttribute("aria-label", `Pages below ${button.closest("li").querySelector("a").textContent}`);
}

/* The theme's sidebar holds more than navigation, so screen readers get it as a separate region with a name. */
const sidebar = document.getElementById("pst-primary-sidebar");
sidebar.setAttribute("role", "region");
sidebar.setAttribute("aria-label", "The book");
