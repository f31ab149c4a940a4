// What the tests ask an opened page of the book; test_book.py loads it into each.
globalThis.ask = {
    moved: 0,  // as Cumulative Layout Shift counts it
    openAll: async () => {
        document.querySelectorAll("details").forEach(box => { box.open = true; });
        document.querySelectorAll("button.toggle-button-hidden").forEach(button => { button.click(); });
        // The theme looks a while after they open what scrolls in them.
        for (let tries = 0; tries < 100 && ask.stuck().length; tries++) await new Promise(done => setTimeout(done, 100));
    },
    simplify: () => {
        const seen = new Set();
        for (const token of document.querySelectorAll("pre span[class]")) {
            const kind = token.className + token.closest("pre").parentElement.parentElement.className;
            if (seen.has(kind)) token.replaceWith(...token.childNodes);
            seen.add(kind);
        }
        for (const row of document.querySelectorAll("tbody > tr")) {
            const kind = row.outerHTML.replace(/>[^<]+</g, "><");
            if (seen.has(kind)) row.remove();
            seen.add(kind);
        }
    },
    clipped: () => [...document.querySelectorAll("article pre")].filter(code => code.scrollWidth > code.clientWidth + 1)
        .map(code => code.textContent.slice(0, 120)),
    // equations with a number next to them on a phone
    crowded: () => [...document.querySelectorAll("div.math:has(.eqno)")].filter(equation =>
        equation.querySelector(".eqno").getBoundingClientRect().top
        < equation.querySelector(".equation").getBoundingClientRect().bottom - 1
    ).map(equation => equation.id),
    fetchImages: () => Promise.all([...document.images].map(image => {
        image.loading = "eager";  // the pages' own are fetched when they come into view
        return image.decode().catch(() => {});
    })),
    hasEquations: () => document.querySelector(".math") !== null,
    faults: () => ({
        moved: ask.moved < 0.25 ? 0 : ask.moved,  // a line or two may move when the font of equations first arrives
        unrendered: [...document.querySelectorAll(".math:not(:has(math))")].map(e => e.innerText),
        broken: [...document.querySelectorAll("math")].filter(e => e.querySelector("merror") || /[\\&]/.test(e.textContent))
            .map(e => e.textContent),
        rootless: [...document.querySelectorAll("msqrt")].map(e => [e, ...e.children].map(each => each.getBoundingClientRect().width))
            .filter(([whole, ...parts]) => whole && whole < parts.reduce((sum, part) => sum + part) + 3),
        strange: [...document.fonts].filter(font => font.family.includes("Math") && font.status !== "loaded")
            .filter(ask.hasEquations).map(font => font.status),
        asleep: [...document.querySelectorAll(".widget:not(.live)")].map(e => e.id),
        silent: [...document.querySelectorAll("figure")].filter(e => e.offsetHeight && !e.querySelector("figcaption")?.offsetHeight)
            .map(e => e.id),
        raw: [...document.querySelectorAll("article :is(p, li, td, th, h1, h2, h3, figcaption)")].map(e => {
            const copy = e.cloneNode(true);
            copy.querySelectorAll("code, pre, math").forEach(part => part.remove());
            return copy.textContent;
        }).filter(prose => /\$\$|\\[([]|\\(begin|frac|sqrt|text|math\w+)\b/.test(prose)),
        unseen: [...document.images].filter(image => image.naturalWidth === 0 || !image.hasAttribute("alt")).map(image => image.src),
        unexplained: [...document.querySelectorAll("article img")].filter(image => image.alt.length < 20).map(image => image.src),
    }),
    // beyond the edge of a phone
    spills: () => [...document.querySelectorAll("article *")].filter(element => {
        if (element.closest(".headerlink, .copybtn")) return false;
        const box = element.getBoundingClientRect();
        if (box.width === 0 || box.right <= innerWidth + 1) return false;
        for (let parent = element; parent.tagName !== "ARTICLE"; parent = parent.parentElement)
            if (["auto", "scroll"].includes(getComputedStyle(parent).overflowX)) return false;
        return true;
    }).map(element => element.outerHTML.slice(0, 120)),
    // what scrolls on a phone, but not by keyboard
    stuck: () => [...document.querySelectorAll("article *")].filter(element =>
        element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0 && element.tabIndex < 0
        && ["auto", "scroll"].includes(getComputedStyle(element).overflowX) && !element.querySelector("a, [tabindex='0']")
    ).map(element => element.outerHTML.slice(0, 120)),
    onPhone: () => ({
        tooWide: [document.scrollingElement.scrollWidth].filter(width => width > 391),
        crowded: ask.crowded(), spills: ask.spills(), stuck: ask.stuck(),
    }),
    focused: () => {
        const element = document.activeElement, style = getComputedStyle(element);
        return {
            html: element.outerHTML.slice(0, 200), tag: element.tagName,
            classes: element.className, href: element.getAttribute("href"),
            seen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 && element.offsetWidth > 0,
        };
    },
};
new PerformanceObserver(list => { for (const shift of list.getEntries()) ask.moved += shift.value; })
    .observe({type: "layout-shift", buffered: true});
