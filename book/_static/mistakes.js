/* Filter the list of mistakes by exercise and by symptom, and open the mistake that the address names. */
(function () {
  "use strict";
  const entries = [...document.querySelectorAll("details.mistake")];

  function choice(label, key, all) {
    const words = (entry) => entry.dataset[key].split(", ").filter(Boolean);
    const box = document.createElement("label"), select = document.createElement("select");
    box.append(label + " ", select);
    select.append(new Option(all, ""), ...[...new Set(entries.flatMap(words))].map((word) => new Option(word, word)));
    select.addEventListener("change", filter);
    return {box, fits: (entry) => !select.value || words(entry).includes(select.value), clear: () => { select.value = ""; }};
  }

  const choices = [
    choice("Made in", "exercises", "any exercise"),
    choice("Symptom", "symptoms", "any symptom"),
  ];
  const count = document.createElement("output");

  function filter() {
    for (const entry of entries) entry.hidden = !choices.every((each) => each.fits(entry));
    for (const section of document.querySelectorAll("section:has(> details.mistake)"))
      section.hidden = !section.querySelector("details.mistake:not([hidden])");
    count.textContent = entries.filter((entry) => !entry.hidden).length + " of " + entries.length + " mistakes";
  }

  function openNamed() {
    const named = document.getElementById(location.hash.slice(1));
    if (!named || !named.matches("details.mistake")) return;
    choices.forEach((each) => each.clear());
    filter();
    named.open = true;
    named.scrollIntoView();
  }

  const bar = document.createElement("div");
  bar.className = "mistake-filter";
  bar.append(...choices.map((each) => each.box), count);
  entries[0].closest("section").before(bar);
  filter();
  openNamed();
  window.addEventListener("hashchange", openNamed);
})();
