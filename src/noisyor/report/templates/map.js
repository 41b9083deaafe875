// The map is one stop of the Tab key; arrow keys go from circle to circle, the largest first.
for (const map of document.querySelectorAll("svg.map")) {
  const regions = [...map.querySelectorAll("a.region")];
  regions.forEach((region, n) => region.setAttribute("tabindex", n ? "-1" : "0"));
  map.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const place = regions.indexOf(event.target.closest("a.region"));
    if (!step || place < 0) return;
    event.preventDefault();
    const next = regions[(place + step + regions.length) % regions.length];
    regions[place].setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
}
