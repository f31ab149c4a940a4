/* An equation that is wider than its column scrolls within itself, and the Tab key reaches it so that it can be scrolled.
   The theme does the same for code and tables. */
(function () {
  "use strict";

  function markWideEquations() {
    const equations = document.querySelectorAll("span.math, div.math mjx-container");
    for (const equation of equations) {
      const block = equation.matches("span") ? equation.closest("p, li, dd, td, th, figcaption, h1, h2, h3, h4") : equation;
      const room = block ? block.clientWidth : Infinity;
      const wide = equation.scrollWidth > room + 1;
      equation.classList.toggle("scrolls", wide);
      if (wide) equation.tabIndex = 0;
      else equation.removeAttribute("tabindex");
    }
  }

  window.addEventListener("load", function () {
    const typeset = window.MathJax && window.MathJax.startup ? window.MathJax.startup.promise : Promise.resolve();
    typeset.then(markWideEquations);
  });
  window.addEventListener("resize", markWideEquations);
  document.addEventListener("toggle", markWideEquations, true);
  document.addEventListener("click", () => setTimeout(markWideEquations, 0));  // folded admonitions open by a click
})();
