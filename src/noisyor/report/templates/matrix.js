// The factorized matrix on a canvas: two orders, one cause highlighted, a cell read out.
(function () {
  const data = report.matrix;
  if (!data) return;
  const explorer = report.explorer;
  const canvas = document.getElementById("matrix");
  const readout = document.getElementById("matrix-cell");
  const chosen = document.getElementById("matrix-cause");
  const nRows = data.rows.length, nColumns = data.columns.length;
  const meanings = ["off, as expected", "on, reconstructed", "on, but missed",
    "off, but over-covered", "missing value"];
  const styles = ["--paper", "--reconstructed", "--missed", "--extra", "--line"];
  const identity = (n) => Array.from({ length: n }, (_, i) => i);
  let rows = data.row_order, columns = data.column_order;
  let cursor = null, geometry = null;

  explorer.name.forEach((name, k) => {
    const label = explorer.label[k];
    chosen.append(make("option", { value: k }, label ? name + ": " + label : name));
  });
  // Columns of each cause, as far as it is more likely to switch them on than not.
  const own = explorer.name.map(() => new Set());
  let edge = 0;
  explorer.counts.forEach((count, k) => {
    for (const end = edge + count; edge < end; edge++) {
      if (explorer.p[edge] >= 500) own[k].add(explorer.child[edge]);
    }
  });
  const on = data.on.map((list) => new Set(list));

  function draw() {
    const style = getComputedStyle(document.documentElement);
    const colors = styles.map((name) => style.getPropertyValue(name).trim());
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.parentElement.clientWidth;
    const cellWidth = Math.min(46, width / nColumns);
    const cellHeight = Math.min(14, Math.max(1.25, 520 / nRows));
    const named = cellWidth >= 10;
    const top = named ? Math.min(170, 14 + 6.4 * Math.max(...data.columns.map((name) => name.length))) : 0;
    const height = top + cellHeight * nRows;
    canvas.style.width = cellWidth * nColumns + "px";
    canvas.style.height = height + "px";
    canvas.width = Math.round(cellWidth * nColumns * ratio);
    canvas.height = Math.round(height * ratio);
    geometry = { top, cellWidth, cellHeight };
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const cause = chosen.value === "" ? -1 : Number(chosen.value);
    rows.forEach((r, y) => {
      columns.forEach((c, x) => {
        const code = data.cells.charCodeAt(r * nColumns + c) - 48;
        const dim = cause >= 0 && !(on[r].has(cause) && own[cause].has(data.column[c]));
        pen.globalAlpha = dim && code ? 0.22 : 1;
        pen.fillStyle = colors[code];
        const left = x * cellWidth, line = top + y * cellHeight;
        const gap = Math.min(cellWidth, cellHeight) > 5 ? 0.6 : 0;
        pen.fillRect(left, line, cellWidth - gap + (gap ? 0 : 0.3), cellHeight - gap + (gap ? 0 : 0.3));
      });
    });
    pen.globalAlpha = 1;
    if (named) {
      pen.fillStyle = style.getPropertyValue("--soft").trim();
      pen.font = "12px system-ui, sans-serif";
      columns.forEach((c, x) => {
        pen.save();
        pen.translate((x + 0.5) * cellWidth + 4, top - 6);
        pen.rotate(-Math.PI / 2);
        pen.fillText(fitted(pen, data.columns[c], top - 10), 0, 0);
        pen.restore();
      });
    }
    if (cursor) {
      pen.strokeStyle = style.getPropertyValue("--ink").trim();
      pen.lineWidth = 2;
      pen.strokeRect(cursor.x * cellWidth, top + cursor.y * cellHeight,
        Math.max(cellWidth, 5), Math.max(cellHeight, 5));
    }
  }

  // A long name is cut, not squeezed.
  function fitted(pen, name, width) {
    if (pen.measureText(name).width <= width) return name;
    let length = name.length;
    while (length > 1 && pen.measureText(name.slice(0, length) + "…").width > width) length--;
    return name.slice(0, length) + "…";
  }

  function read(x, y) {
    const r = rows[y], c = columns[x];
    const code = data.cells.charCodeAt(r * nColumns + c) - 48;
    const causes = data.on[r].map((k) => explorer.name[k]);
    readout.textContent = data.rows[r] + ", " + data.columns[c] + ": " + meanings[code] + ". " +
      (causes.length ? "This row: " + causes.join(", ") + "." : "No cause is on in this row.");
  }

  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const x = Math.floor((event.clientX - box.left) / geometry.cellWidth);
    const y = Math.floor((event.clientY - box.top - geometry.top) / geometry.cellHeight);
    if (x >= 0 && x < nColumns && y >= 0 && y < nRows) read(x, y);
  });
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    cursor = cursor
      ? { x: Math.min(nColumns - 1, Math.max(0, cursor.x + move[0])),
          y: Math.min(nRows - 1, Math.max(0, cursor.y + move[1])) }
      : { x: 0, y: 0 };
    draw();
    read(cursor.x, cursor.y);
  });
  canvas.addEventListener("blur", () => { cursor = null; draw(); });
  chosen.addEventListener("change", draw);
  for (const radio of document.querySelectorAll("input[name=matrix-order]")) {
    radio.addEventListener("change", () => {
      const byCause = radio.value === "causes";
      rows = byCause ? data.row_order : identity(nRows);
      columns = byCause ? data.column_order : identity(nColumns);
      draw();
    });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new ResizeObserver(draw).observe(canvas.parentElement);
})();
