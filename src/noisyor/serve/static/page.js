"use strict";
// Findings go to the server, its answer is drawn. Names come from models: they are only set as text.
(async function () {
  const by = (id) => document.getElementById(id);
  const FEW = 8, MOST = 50;
  const known = new Map(); // id as text -> {id, name, state}
  let model = null, answer = null, asked = 0, rising = false, supposed = null, allCauses = false;

  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "on") {
        for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
      } else element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }

  async function get(path, body) {
    const options = body === undefined ? {} : {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
    };
    const reply = await fetch(path, options);
    const found = await reply.json();
    if (!reply.ok) throw new Error(found.error || "the server answered " + reply.status);
    return found;
  }

  function percent(share) {
    const value = 100 * share;
    if (value > 99.5 && share < 1) return ">99\u00a0%";
    if (value < 0.1) return value > 0 ? "<0.1\u00a0%" : "0\u00a0%";
    return value.toFixed(value >= 9.95 ? 0 : 1) + "\u00a0%";
  }

  function capital(text) {
    return text.slice(0, 1).toUpperCase() + text.slice(1);
  }

  // A name that was made of what a cause switches on: that first, its number behind.
  function causeName(name) {
    const made = /^((?:cause |layer\d+-)\d+): (.+)$/.exec(name);
    return make("span", { class: "name" }, made ? made[2] : name,
      made ? make("span", { class: "soft number-of" }, " " + made[1]) : null);
  }

  function shortName(name) {
    return name.replace(/^(?:cause |layer\d+-)\d+: (?=.)/, "");
  }

  function bar(share, base) {
    const inner = make("span", {});
    inner.style.width = 100 * share + "%";
    const outer = make("span", { class: "bar", "aria-hidden": "true" }, inner);
    if (base !== null && base !== undefined) {
      const mark = make("i", {});
      mark.style.left = "calc(" + 100 * base + "% - 1px)";
      outer.append(mark);
    }
    return outer;
  }

  // ---- what is known, kept in the address so that "back" undoes
  function evidence() {
    const ids = (state) => [...known.values()].filter((one) => one.state === state).map((one) => one.id);
    return { present: ids("present"), absent: ids("absent") };
  }

  function address() {
    const { present, absent } = evidence();
    const parts = [];
    if (present.length) parts.push("present=" + present.map(encodeURIComponent).join(","));
    if (absent.length) parts.push("absent=" + absent.map(encodeURIComponent).join(","));
    return parts.length ? "#" + parts.join("&") : location.pathname;
  }

  function set(one, state) {
    const key = String(one.id);
    if (state === "unknown") known.delete(key);
    else known.set(key, { id: one.id, name: one.name, state });
    history.pushState(null, "", address());
    supposed = null;
    refresh();
  }

  async function fromAddress() {
    known.clear();
    for (const part of location.hash.slice(1).split("&")) {
      const [state, ids] = part.split("=");
      if (!["present", "absent"].includes(state) || !ids) continue;
      for (const text of ids.split(",")) {
        const name = decodeURIComponent(text);
        const id = /^\d+$/.test(name) ? Number(name) : name;
        known.set(String(id), { id, name, state });
      }
    }
    supposed = null;
    await refresh();
  }

  // ---- the answer
  async function refresh() {
    const number = ++asked;
    by("answers").setAttribute("aria-busy", "true");
    drawKnown();
    try {
      const found = await get("/api/explain", { ...evidence(), top: MOST });
      if (number !== asked) return; // a later one is under way
      answer = found;
      for (const state of ["present", "absent"]) {
        for (const one of found[state]) {
          const mine = known.get(String(one.id));
          if (mine) mine.name = one.name;
        }
      }
      drawKnown();
      draw();
    } catch (error) {
      if (number === asked) complain(error);
    }
    if (number === asked) by("answers").setAttribute("aria-busy", "false");
  }

  function complain(error) {
    by("lead").replaceChildren(make("span", { class: "wrong" }, error instanceof TypeError
      ? "The server does not answer. Is it still running?" : capital(error.message) + "."));
  }

  function states(one, choices) {
    return make("span", { class: "segments", role: "group", "aria-label": one.name },
      ...choices.map(([state, text]) => make("button", {
        type: "button", class: state === "absent" ? "no" : null,
        "aria-pressed": String(known.get(String(one.id))?.state === state),
        "aria-label": one.name + ": " + state,
        on: { click: () => set(one, state) },
      }, text)));
  }

  function drawKnown() {
    const rows = [...known.values()];
    by("nothing").hidden = rows.length > 0;
    by("tools").hidden = rows.length === 0;
    by("list").hidden = Boolean(model.image);
    by("list").replaceChildren(...(model.image ? [] : rows).map((one) => make("li", { class: "finding " + one.state },
      make("span", { class: "name" }, one.name),
      states(one, [["present", "yes"], ["absent", "no"], ["unknown", "?"]]),
      make("button", { type: "button", class: "quiet", on: { click: () => suppose(one) } }, "What if this finding had another state?"))));
    if (!supposed) by("suppose").hidden = true;
  }

  function told(label, items) {
    const line = make("p", { class: "told" }, label + " ");
    items.slice(0, FEW).forEach((item, n) => line.append(n ? ", " : "", make("b", {}, item.name),
      " " + percent(item.share)));
    if (items.length > FEW) line.append(" and " + (items.length - FEW) + " more");
    return line;
  }

  function drawCause(cause) {
    const error = cause.error >= 0.005 ? " ± " + (100 * cause.error).toFixed(0) : "";
    return make("li", { class: cause.probability < 0.05 ? "cause faint" : "cause" },
      make("div", { class: "line" }, causeName(cause.name),
        make("span", { class: "number" }, percent(cause.probability) + error)),
      bar(cause.probability, cause.base),
      cause.explains.length ? told("explains", cause.explains) : null,
      cause.against.length ? told("would also show", cause.against) : null);
  }

  function lead() {
    const words = model.words;
    if (!answer.present.length && !answer.absent.length) {
      return answer.causes.length
        ? "Nothing is known yet: the " + words.causes + " by how often each is on."
        : "Add " + words.findings + ", and the likely " + words.causes + " stand here.";
    }
    const top = answer.causes.filter((cause) => cause.probability >= 0.5);
    if (!top.length) {
      const first = answer.causes[0];
      return first ? "No " + words.cause + " is more likely than not; the first is " + shortName(first.name) + " with " +
        percent(first.probability) + "." : "";
    }
    return (top.length === 1 ? "Most likely: " : "Most likely together: ") +
      top.slice(0, 4).map((cause) => shortName(cause.name) + " (" + percent(cause.probability) + ")").join(" + ") +
      (top.length > 4 ? " and " + (top.length - 4) + " more" : "") + ".";
  }

  function draw() {
    by("lead").textContent = lead();
    const clear = answer.causes.filter((cause) => cause.probability >= 0.01);
    const shown = allCauses ? answer.causes : (clear.length ? clear : answer.causes).slice(0, FEW);
    by("causes").replaceChildren(...shown.map(drawCause));
    if (shown.length < answer.causes.length) {
      by("causes").append(make("li", { class: "row" }, make("button", { type: "button", class: "quiet",
        on: { click: () => { allCauses = true; draw(); } } },
      answer.causes.length - shown.length + " more " +
      (answer.causes.length - shown.length === 1 ? model.words.cause : model.words.causes))));
    }
    by("unexplained").hidden = answer.unexplained.length === 0;
    by("unexplained").textContent = "Not explained: " + answer.unexplained.slice(0, 20).join(", ");
    by("method").textContent = capital(answer.method) + ". The upright mark on a bar is its probability when nothing is known. " +
      "Answered in " + (1000 * answer.seconds).toFixed(0) + " ms.";
    drawQuestions();
    drawLikely();
    if (model.image) drawImage();
  }

  const yesNo = [["present", "yes"], ["absent", "no"]];

  function drawQuestions() {
    by("ask-card").hidden = answer.questions.length === 0;
    by("questions").replaceChildren(...answer.questions.slice(0, 6).map((one) => {
      const then = (which) => shortName(which.cause) + (which.probability === null ? "" : " " + percent(which.probability));
      const same = one.if_present.cause === one.if_absent.cause && one.if_present.probability !== null;
      return make("li", { class: "row" },
        make("div", { class: "line" }, make("span", { class: "name" }, one.name), states(one, yesNo)),
        make("p", { class: "told" }, one.gain.toFixed(2) + " bits, likely " + percent(one.probability)),
        make("p", { class: "told" }, ...(same
          ? [shortName(one.if_present.cause) + ": ", make("b", {}, "yes"), " " + percent(one.if_present.probability) + ", ",
            make("b", {}, "no"), " " + percent(one.if_absent.probability)]
          : [make("b", {}, "yes: "), then(one.if_present), make("b", {}, "; no: "), then(one.if_absent)])));
    }));
  }

  function rise(one) {
    return one.base > 0 ? one.probability / one.base : 1;
  }

  function drawLikely() {
    const list = [...answer.likely];
    const raised = list.some((one) => one.base !== null && Math.abs(rise(one) - 1) > 0.01);
    by("likely-card").hidden = list.length === 0 || Boolean(model.image);
    by("by-chance").parentElement.hidden = !raised;
    if (rising && raised) list.sort((a, b) => rise(b) - rise(a));
    by("by-chance").setAttribute("aria-pressed", String(!rising));
    by("by-rise").setAttribute("aria-pressed", String(rising));
    by("likely").replaceChildren(...list.slice(0, 10).map((one) => make("li", { class: "row" },
      make("div", { class: "line" }, make("span", { class: "name" }, one.name), states(one, yesNo)),
      bar(one.probability, one.base),
      make("p", { class: "told" }, percent(one.probability) + (one.base && raised
        ? ", " + (rise(one) >= 1.05 ? rise(one).toFixed(1) + " times as likely as usual"
          : rise(one) <= 0.95 ? "usually " + percent(one.base) : "as usual") : "")))));
  }

  by("by-chance").addEventListener("click", () => { rising = false; drawLikely(); });
  by("by-rise").addEventListener("click", () => { rising = true; drawLikely(); });
  by("clear").addEventListener("click", () => {
    known.clear();
    history.pushState(null, "", address());
    supposed = null;
    refresh();
    (model.image ? by("image") : by("add")).focus();
  });

  // ---- what if
  async function suppose(one) {
    supposed = one;
    by("suppose").hidden = false;
    by("suppose-title").textContent = "What if: " + one.name;
    by("suppose-body").replaceChildren(make("p", { class: "soft" }, "…"));
    try {
      const found = await get("/api/what-if", { ...evidence(), finding: one.id });
      if (supposed !== one) return;
      by("suppose-body").replaceChildren(...found.changes.flatMap((change) => [
        make("h3", {}, "If it were " + change.if + " (now " + found.now + ")"),
        ...(change.shifts.length ? change.shifts.map((shift) => make("div", { class: "shift" },
          make("span", {}, shortName(shift.name), shift.explained_away_by
            ? make("span", { class: "soft small" }, " explained away by " + shortName(shift.explained_away_by)) : null),
          make("span", { class: "number " + (shift.after > shift.before ? "up" : "down") },
            percent(shift.before) + " → " + percent(shift.after))))
          : [make("p", { class: "soft small" }, "Nothing changes by more than 1 %.")]),
      ]));
      by("suppose").scrollIntoView({ block: "nearest" });
    } catch (error) {
      by("suppose-body").replaceChildren(make("p", { class: "wrong" }, capital(error.message)));
    }
  }

  // ---- completion
  const add = by("add"), offers = by("offers");
  let offered = [], chosen = -1, typed = 0;

  function close() {
    offers.hidden = true;
    add.setAttribute("aria-expanded", "false");
    add.removeAttribute("aria-activedescendant");
    chosen = -1;
  }

  function choose(number) {
    chosen = number;
    [...offers.children].forEach((item, n) => item.setAttribute("aria-selected", String(n === number)));
    const item = offers.children[number];
    if (item) {
      add.setAttribute("aria-activedescendant", item.id);
      item.scrollIntoView({ block: "nearest" });
    }
  }

  function take(one, state) {
    typed += 1;
    add.value = "";
    close();
    set(one, state);
    add.focus();
  }

  async function offer() {
    const number = ++typed;
    try {
      const found = await get("/api/findings?limit=12&text=" + encodeURIComponent(add.value));
      if (number !== typed) return;
      offered = found.findings.filter((one) => !known.has(String(one.id)));
      offers.replaceChildren(...offered.map((one, n) => make("li", {
        id: "offer-" + n, role: "option", "aria-selected": "false",
        on: {
          mousedown: (event) => event.preventDefault(),
          click: (event) => take(one, event.shiftKey ? "absent" : "present"),
        },
      }, one.name, one.hint ? make("span", { class: "soft" }, one.hint) : null)));
      if (!offered.length && add.value.trim()) {
        offers.replaceChildren(make("li", { class: "none", role: "option", "aria-selected": "false", "aria-disabled": "true" },
          "No " + model.words.finding + " matches."));
      }
      offers.hidden = !offers.children.length;
      add.setAttribute("aria-expanded", String(!offers.hidden));
      if (offered.length) choose(0);
    } catch (error) {
      complain(error);
    }
  }

  add.addEventListener("input", offer);
  add.addEventListener("focus", () => { if (offers.hidden) offer(); });
  add.addEventListener("blur", close);
  add.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (offers.hidden) offer();
      else if (offered.length) {
        const step = event.key === "ArrowDown" ? 1 : -1;
        choose((chosen + step + offered.length) % offered.length);
      }
    } else if (event.key === "Enter" && offered[chosen] && !offers.hidden) {
      event.preventDefault();
      take(offered[chosen], event.shiftKey ? "absent" : "present");
    } else if (event.key === "Escape") {
      close();
    }
  });

  // ---- images: pixels to paint on
  const canvas = by("image");
  let cursor = [0, 0], painting = null;

  function cell() {
    const [height, width] = model.image;
    return Math.max(4, Math.min(36, Math.floor(Math.min(340 / width, 420 / height))));
  }

  function pixelOf(row, column) {
    const id = row * model.image[1] + column;
    return { id, name: "pixel " + row + "," + column };
  }

  function drawImage() {
    const [height, width] = model.image, size = cell();
    canvas.width = width * size;
    canvas.height = height * size;
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const pen = canvas.getContext("2d");
    pen.fillStyle = colour("--paper");
    pen.fillRect(0, 0, canvas.width, canvas.height);
    for (let row = 0; row < height; row++) {
      for (let column = 0; column < width; column++) {
        const one = pixelOf(row, column);
        const mine = known.get(String(one.id));
        const x = column * size, y = row * size;
        if (mine) {
          pen.fillStyle = colour(mine.state === "present" ? "--bar" : "--no-tint");
          pen.fillRect(x, y, size, size);
          if (mine.state === "absent") {
            pen.strokeStyle = colour("--no");
            pen.strokeRect(x + 1.5, y + 1.5, size - 3, size - 3);
          }
        } else if (answer && answer.pixels) {
          pen.globalAlpha = answer.pixels[one.id] / 1000;
          pen.fillStyle = colour("--ink");
          pen.fillRect(x, y, size, size);
          pen.globalAlpha = 1;
        }
      }
    }
    pen.strokeStyle = colour("--missed");
    pen.lineWidth = 2;
    if (document.activeElement === canvas) pen.strokeRect(cursor[1] * size + 1, cursor[0] * size + 1, size - 2, size - 2);
    const one = pixelOf(...cursor), mine = known.get(String(one.id));
    by("image-help").textContent = capital(one.name) + ": " + (mine ? mine.state
      : answer ? "on with " + percent(answer.pixels[one.id] / 1000) : "unknown") +
      ". Click or drag: on. Again: off, then unknown. The gray level is the probability that a pixel is on.";
  }

  const NEXT = { unknown: "present", present: "absent", absent: "unknown" };

  function paint(row, column, state) {
    const one = pixelOf(row, column), key = String(one.id);
    if (state === "unknown") known.delete(key);
    else known.set(key, { ...one, state });
  }

  function pointed(event) {
    const box = canvas.getBoundingClientRect();
    const [height, width] = model.image;
    return [Math.min(height - 1, Math.max(0, Math.floor((event.clientY - box.top) / box.height * height))),
      Math.min(width - 1, Math.max(0, Math.floor((event.clientX - box.left) / box.width * width)))];
  }

  function stateAt(place) {
    return known.get(String(pixelOf(...place).id))?.state || "unknown";
  }

  canvas.addEventListener("pointerdown", (event) => {
    cursor = pointed(event);
    painting = NEXT[stateAt(cursor)];
    canvas.setPointerCapture(event.pointerId);
    paint(...cursor, painting);
    drawImage();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!painting) return;
    cursor = pointed(event);
    paint(...cursor, painting);
    drawImage();
  });
  canvas.addEventListener("pointerup", () => {
    if (!painting) return;
    painting = null;
    history.pushState(null, "", address());
    refresh();
  });
  canvas.addEventListener("focus", drawImage);
  canvas.addEventListener("blur", drawImage);
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (step) {
      cursor = cursor.map((place, axis) => Math.min(model.image[axis] - 1, Math.max(0, place + step[axis])));
      drawImage();
    } else if (event.key === " " || event.key === "Enter") {
      paint(...cursor, NEXT[stateAt(cursor)]);
      history.pushState(null, "", address());
      refresh();
    } else return;
    event.preventDefault();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (model.image && answer) drawImage(); });

  // ---- start
  try {
    model = await get("/api/model");
  } catch (error) {
    complain(error);
    return;
  }
  const words = model.words;
  document.title = model.name + ": noisyor serve";
  by("brand").textContent = "noisyor serve: " + model.name;
  by("headline").textContent = model.headline;
  by("add-label").textContent = "Add a " + words.finding;
  by("causes-title").textContent = "Likely " + words.causes;
  by("ask-help").textContent = "The " + words.finding + " with the largest expected information about the " +
    words.causes + ", in bits.";
  by("notice").hidden = !model.notice;
  by("notice").textContent = model.notice || "";
  by("entry").hidden = Boolean(model.image);
  canvas.hidden = by("image-help").hidden = !model.image;
  canvas.setAttribute("aria-label", "Image to paint on, " + (model.image || []).join(" by ") + " pixels");
  if (model.image) by("nothing").textContent = "Nothing painted yet. Pixels that are not painted are unknown, not off.";
  window.addEventListener("popstate", fromAddress);
  await fromAddress();
})();
