// Charts that answer: the point under the pointer, or the next one by arrow key, is read out.
(function () {
  for (const plot of document.querySelectorAll(".plot")) {
    const svg = plot.querySelector("svg");
    const readout = plot.querySelector(".readout");
    const points = pointsOf(svg, plot.dataset).sort((a, b) => a.x - b.x);
    if (!points.length) continue;
    const ring = document.createElementNS("http://www.w3.org/2000/svg", "circle");
    ring.setAttribute("class", "ring");
    ring.setAttribute("r", "8");
    ring.style.display = "none";
    svg.append(ring);
    const stride = Math.max(1, Math.round(points.length / 60));
    let at = -1;

    function show(number) {
      at = number;
      ring.style.display = "";
      ring.setAttribute("cx", points[at].x);
      ring.setAttribute("cy", points[at].y);
      readout.textContent = points[at].text;
    }

    svg.addEventListener("pointermove", (event) => {
      const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      const far = (point) => Math.hypot(point.x - place.x, 0.5 * (point.y - place.y));
      show(points.reduce((best, point, i) => (far(point) < far(points[best]) ? i : best), 0));
    });
    plot.addEventListener("keydown", (event) => {
      const moves = { ArrowRight: at < 0 ? 1 : stride, ArrowLeft: -stride, Home: -points.length, End: points.length };
      if (!(event.key in moves)) return;
      event.preventDefault();
      show(Math.min(points.length - 1, Math.max(0, at + moves[event.key])));
    });
    plot.addEventListener("blur", () => { ring.style.display = "none"; });
  }

  function pointsOf(svg, names) {
    const points = [];
    const [left, right, top, bottom] = (svg.dataset.box || "0 1 0 1").split(" ").map(Number);
    const [x0, x1, y0, y1] = (svg.dataset.range || "0 1 0 1").split(" ").map(Number);
    const value = (x, y) => {
      const height = y0 + ((bottom - y) / (bottom - top)) * (y1 - y0);
      const along = Math.round(x0 + ((x - left) / (right - left)) * (x1 - x0));
      return whole(along) + " " + names.x + ": " + height.toFixed(2).replace("-", "−") + " " + names.y;
    };
    for (const path of svg.querySelectorAll("path.curve")) {
      const numbers = path.getAttribute("d").match(/[\d.]+/g).map(Number);
      for (let i = 0; i + 1 < numbers.length; i += 2) {
        points.push({ x: numbers[i], y: numbers[i + 1], text: value(numbers[i], numbers[i + 1]) });
      }
    }
    for (const dot of svg.querySelectorAll("circle.chosen")) {
      const x = Number(dot.getAttribute("cx")), y = Number(dot.getAttribute("cy"));
      points.push({ x, y, text: "chosen: " + value(x, y) });
    }
    return points;
  }
})();
