// Walk through the causes: a tree (or a list), a search, and the details of one cause.
(function () {
  const data = report.explorer;
  if (!data) return;
  const words = data.words;
  const nVisible = data.visible.length;
  const nCauses = data.name.length;
  const deepest = data.level.reduce((most, level) => Math.max(most, level), 0);
  const tree = document.getElementById("tree");
  const detail = document.getElementById("detail");
  const search = document.getElementById("search");
  const found = document.getElementById("found");
  const status = document.getElementById("found-status");
  const PAGE = 200, FEW = 12;

  // ---- indices
  const start = [0];
  for (const count of data.counts) start.push(start[start.length - 1] + count);
  const parents = new Map(); // child -> edges [cause, thousandths]
  for (let k = 0; k < nCauses; k++) {
    for (let e = start[k]; e < start[k + 1]; e++) {
      const child = data.child[e];
      if (!parents.has(child)) parents.set(child, []);
      parents.get(child).push([k, data.p[e]]);
    }
  }
  for (const list of parents.values()) list.sort((a, b) => b[1] - a[1]);
  const below = Array.from({ length: nCauses }, () => []);
  const roots = [];
  data.home.forEach((home, k) => (home < 0 ? roots : below[home]).push(k));
  const busy = (k) => (data.uses ? data.uses[k] : data.rate[k]);
  const byBusy = (a, b) => busy(b) - busy(a) || a - b;
  roots.sort(byBusy);
  below.forEach((list) => list.sort(byBusy));

  function title(k) {
    return data.label[k] || data.name[k];
  }

  function subtitle(k) {
    const parts = data.label[k] ? [data.name[k]] : [];
    if (data.uses) {
      parts.push(data.uses[k] === 0 ? "not in use"
        : whole(data.uses[k]) + " " + (data.uses[k] === 1 ? words.row : words.rows));
    } else parts.push(percent(data.rate[k]));
    if (data.recurs && data.recurs[k] <= 0.5) parts.push("does not recur");
    return parts.join(" · ");
  }

  // ---- the tree
  function item(k, level) {
    const children = below[k];
    const line = make(
      "span", { class: "line" },
      make("span", { class: "twist", "aria-hidden": "true" }),
      make("span", { class: "what" },
        make("span", { class: "title" }, title(k)),
        make("span", { class: "soft small" }, subtitle(k))));
    const element = make("li", {
      role: "treeitem", tabindex: "-1", "data-cause": k, "aria-level": level,
      "aria-selected": "false", "aria-expanded": children.length ? "false" : null,
      class: busy(k) > 0 ? null : "idle",
    }, line);
    return element;
  }

  function fill(list, causes, level, from) {
    for (const k of causes.slice(from, from + PAGE)) list.append(item(k, level));
    const rest = causes.length - from - PAGE;
    if (rest > 0) {
      const more = make("li", { role: "treeitem", tabindex: "-1", class: "more",
        "aria-level": level, "aria-selected": "false" }, whole(rest) + " more …");
      more.fillMore = () => {
        fill(list, causes, level, from + PAGE);
        const next = more.nextElementSibling;
        more.remove();
        rove(next, true);
      };
      list.append(more);
    }
  }

  function expand(element, open) {
    if (!element.hasAttribute("aria-expanded")) return;
    element.setAttribute("aria-expanded", String(open));
    let group = element.querySelector(":scope > ul");
    if (open && !group) {
      group = make("ul", { role: "group" });
      fill(group, below[Number(element.dataset.cause)], Number(element.getAttribute("aria-level")) + 1, 0);
      element.append(group);
    }
    if (group) group.hidden = !open;
  }

  function visibleItems() {
    return [...tree.querySelectorAll("[role=treeitem]")].filter((e) => !e.closest("ul[hidden]"));
  }

  function rove(element, focus) {
    for (const other of tree.querySelectorAll("[tabindex='0']")) other.tabIndex = -1;
    element.tabIndex = 0;
    if (focus) {
      element.focus({ preventScroll: true });
      showInTree(element);
    }
  }

  function showInTree(element) {
    const line = element.firstElementChild || element;
    const box = tree.getBoundingClientRect(), place = line.getBoundingClientRect();
    if (place.top < box.top) tree.scrollTop -= box.top - place.top + 8;
    else if (place.bottom > box.bottom) tree.scrollTop += place.bottom - box.bottom + 8;
  }

  tree.addEventListener("click", (event) => {
    const element = event.target.closest("[role=treeitem]");
    if (!element) return;
    if (element.fillMore) return element.fillMore();
    rove(element, true);
    const twisted = event.target.closest(".twist");
    expand(element, twisted ? element.getAttribute("aria-expanded") !== "true" : true);
    if (!twisted) choose(Number(element.dataset.cause), true);
  });

  tree.addEventListener("keydown", (event) => {
    const element = event.target.closest("[role=treeitem]");
    if (!element || event.ctrlKey || event.metaKey || event.altKey) return;
    const items = visibleItems();
    const place = items.indexOf(element);
    const open = element.getAttribute("aria-expanded");
    let next = null;
    if (event.key === "ArrowDown") next = items[place + 1];
    else if (event.key === "ArrowUp") next = items[place - 1];
    else if (event.key === "Home") next = items[0];
    else if (event.key === "End") next = items[items.length - 1];
    else if (event.key === "ArrowRight") {
      if (open === "false") expand(element, true);
      else if (open === "true") next = element.querySelector("[role=treeitem]");
    } else if (event.key === "ArrowLeft") {
      if (open === "true") expand(element, false);
      else next = element.parentElement.closest("[role=treeitem]");
    } else if (event.key === "Enter" || event.key === " ") {
      if (element.fillMore) element.fillMore();
      else choose(Number(element.dataset.cause), true);
    } else return;
    event.preventDefault();
    if (next) rove(next, true);
  });

  // ---- details of one cause
  function causeButton(k, extra) {
    return make("button", { type: "button", class: "link", on: { click: () => choose(k, true) } },
      title(k), extra ? make("span", { class: "soft" }, " " + extra) : null);
  }

  function measured(label, value, lift) {
    return make("li", { class: lift === undefined ? "measured" : "measured lifted" }, label, bar(value),
      make("span", { class: "number" }, thousandths(value)),
      lift === undefined ? null : make("span", { class: "lift" }, lift));
  }

  // How many times as often as usual a visible is on if a cause switches it on with p.
  function liftOf(child, p) {
    const usual = data.usual[child];
    return usual > 0 ? (1 - (1 - p / 1000) * (1 - data.noise[child])) / usual : 0;
  }

  function times(lift) {
    return lift >= 1.05 ? "×" + (lift >= 100 ? whole(Math.round(lift)) : lift.toFixed(1)) : "";
  }

  // What a cause switches on often, and more often than is usual, tells it from others.
  function tellingOf(child, p) {
    const lift = liftOf(child, p);
    return lift > 0 ? data.usual[child] * lift * Math.log(lift) : 0;
  }

  const orders = {
    telling: (a, b) => tellingOf(...b) - tellingOf(...a),
    surest: (a, b) => b[1] - a[1],
    // A faint link says little, however rare the visible is.
    lift: (a, b) => (b[1] >= 50) - (a[1] >= 50) || liftOf(...b) - liftOf(...a),
  };
  let order = "telling";

  // The visibles of a cause with bars, in one of these orders.
  function wordList(pairs) {
    const box = make("div", {});
    const draw = () => {
      const sorted = [...pairs].sort(orders[order]);
      const choice = (text, name) => make("button", { type: "button", "aria-pressed": String(order === name),
        on: { click: () => { order = name; draw(); box.querySelector("[aria-pressed=true]").focus(); } } }, text);
      box.replaceChildren(
        make("div", { class: "orders", role: "group", "aria-label": "Order" }, 
          choice("most distinctive", "telling"), choice("most probable", "surest"), choice("highest lift", "lift")),
        shortList(sorted, ([child, p]) => measured(wordButton(child), p, times(liftOf(child, p))), words.visibles));
    };
    draw();
    return box;
  }

  // Pixels of an image: probabilities in thousandths by number, and those to mark.
  function drawing(levels, marked, size) {
    const [height, width] = data.shape;
    const scale = Math.max(1, Math.floor(size / Math.max(height, width)));
    const canvas = make("canvas", { class: "drawn", width: width * scale, height: height * scale, role: "img",
      "aria-label": words.visibles });
    const pen = canvas.getContext("2d");
    const style = getComputedStyle(document.documentElement);
    pen.fillStyle = style.getPropertyValue("--paper").trim();
    pen.fillRect(0, 0, canvas.width, canvas.height);
    for (const [i, level] of levels) {
      pen.globalAlpha = level / 1000;
      pen.fillStyle = style.getPropertyValue(marked && marked.has(i) ? "--accent" : "--ink").trim();
      pen.fillRect((i % width) * scale, Math.floor(i / width) * scale, scale, scale);
    }
    return canvas;
  }

  // A list that shows its first entries, and the rest on demand.
  function shortList(entries, draw, name) {
    const list = make("ul", { class: "bars" }, ...entries.slice(0, FEW).map(draw));
    const box = make("div", {}, list);
    if (entries.length > FEW) {
      const rest = entries.length - FEW;
      const button = make("button", { type: "button", class: "plain",
        on: { click: () => {
          list.append(...entries.slice(FEW, FEW + 1000).map(draw));
          const next = list.children[FEW].querySelector("button");
          button.remove();
          if (next) next.focus();
        } } }, "show " + whole(Math.min(rest, 1000)) + " more " + name);
      box.append(button);
    }
    return box;
  }

  function wordButton(i) {
    return make("button", { type: "button", class: "link", title: "find this " + words.visible,
      on: { click: () => {
        search.value = data.visible[i];
        find();
        search.focus();
      } } }, data.visible[i]);
  }

  function heading(text, note) {
    return [make("h4", {}, text), note ? make("p", { class: "soft small" }, note) : null];
  }

  function show(k) {
    const children = [], own = [];
    for (let e = start[k]; e < start[k + 1]; e++) {
      (data.child[e] < nVisible ? own : children).push([data.child[e], data.p[e]]);
    }
    const facts = [data.label[k] ? data.name[k] : null];
    if (deepest) facts.push("layer " + (deepest - data.level[k] + 1) + " of " + (deepest + 1));
    if (data.uses) {
      facts.push("on in " + whole(data.uses[k]) + " of " + whole(data.rows) + " " + words.rows +
        " (" + percent(data.uses[k] / data.rows) + ")");
    }
    facts.push("expected in " + percent(data.rate[k]));
    if (data.recurs) facts.push("recurs in " + percent(data.recurs[k]) + " of the resamples");
    const parts = [
      make("h3", { tabindex: "-1", id: "detail-title" }, title(k)),
      make("p", { class: "soft" }, facts.filter(Boolean).join(" · ")),
    ];
    const up = parents.get(nVisible + k) || [];
    if (up.length) {
      parts.push(...heading("Switched on by"),
        make("ul", { class: "chips" }, ...up.slice(0, 12).map(([parent, p]) =>
          make("li", {}, causeButton(parent, thousandths(p))))));
    }
    if (children.length) {
      parts.push(...heading("Switches on", "bar and number: probability that this " + words.cause +
        " switches the other one on"),
        shortList(children, ([child, p]) => measured(causeButton(child - nVisible), p),
          words.causes));
    }
    if (own.length) {
      parts.push(...heading(words.visibles[0].toUpperCase() + words.visibles.slice(1),
        data.shape ? "gray levels: probability that it switches the " + words.visible + " on"
          : "bar and number: probability that it switches the " + words.visible + " on; ×: lift, shown if above 1"),
        data.shape ? drawing(own, null, 280) : wordList(own));
    }
    const far = data.far[String(k)];
    if (far && far.length) {
      const pairs = [];
      for (let n = 0; n < far.length; n += 2) pairs.push([far[n], far[n + 1]]);
      parts.push(...heading(words.visibles[0].toUpperCase() + words.visibles.slice(1) + " below it",
        "bar and number: probability that it switches the " + words.visible +
        " on through the " + words.causes + " below it"),
        data.shape ? drawing(pairs, null, 280) : wordList(pairs));
    }
    if (data.best) parts.push(...documents(k));
    detail.replaceChildren(...parts.filter(Boolean));
  }

  function documents(k) {
    const best = data.best[k];
    if (!best.length) {
      return heading(words.rows[0].toUpperCase() + words.rows.slice(1),
        "It explains nothing in the " + words.rows + " given.");
    }
    const title = words.rows[0].toUpperCase() + words.rows.slice(1) + " that it explains best";
    const note = "marked: what this " + words.cause + " explains there";
    if (data.shape) {
      return [...heading(title, note), make("ul", { class: "thumbs" }, ...best.map(([number, ...mine]) => {
        const entry = data.documents[number];
        return make("li", {}, drawing(entry.on.map((i) => [i, marks(mine, i) ? 1000 : 380]), new Set(mine), 96),
          make("span", { class: "soft small" }, entry.name || words.row + " " + whole(entry.row)));
      }))];
    }
    return [...heading(title, note),
    make("ol", { class: "documents" }, ...best.map(([number, ...mine]) => {
      const entry = data.documents[number];
      const marked = new Set(mine);
      const sorted = [...mine, ...entry.on.filter((i) => !marked.has(i))];
      const total = entry.on.length + entry.more;
      if (entry.text) {
        return make("li", {}, entry.name ? make("p", { class: "name" }, entry.name) : null,
          marking(entry.text, mine), make("p", { class: "soft small" }, "explains " + mine.length + " of " + total + " " + words.visibles));
      }
      const text = make("p", { class: "small" });
      sorted.forEach((i, n) => text.append(
        n ? " · " : "", marked.has(i) ? make("mark", {}, data.visible[i]) : data.visible[i]));
      if (entry.more) text.append(" · " + whole(entry.more) + " more");
      return make("li", {}, make("p", { class: "name" }, entry.name || words.row + " " + whole(entry.row),
        make("span", { class: "soft" }, " explains " + mine.length + " of " + total + " " + words.visibles)),
      text);
    }))];
  }

  function marks(mine, i) {
    return mine.includes(i);
  }

  // The beginning of a text, with the words that are put down to the cause marked.
  function marking(text, mine) {
    const wanted = new Set(mine.map((i) => data.visible[i].toLowerCase()));
    const line = make("p", { class: "text" });
    for (const piece of text.split(/([\p{L}\p{N}'’]+)/u)) {
      const bare = piece.toLowerCase().replace(/['’]/g, "");
      line.append(wanted.has(bare) ? make("mark", {}, piece) : piece);
    }
    return line;
  }

  // ---- selection, kept in the address so that "back" works
  function choose(k, move) {
    if (!(k >= 0 && k < nCauses)) return;
    const address = "#cause-" + k;
    if (location.hash !== address) history.pushState(null, "", address);
    select(k);
    if (move && matchMedia("(max-width: 52rem)").matches) {
      detail.scrollIntoView({ block: "start" });
      document.getElementById("detail-title").focus({ preventScroll: true });
    }
  }

  function select(k) {
    for (const region of document.querySelectorAll(".region")) {
      region.classList.toggle("chosen", region.getAttribute("href") === "#cause-" + k);
    }
    for (const old of tree.querySelectorAll("[aria-selected=true]")) old.setAttribute("aria-selected", "false");
    const path = [];
    for (let up = data.home[k]; up >= 0; up = data.home[up]) path.unshift(up);
    for (const up of path) {
      const element = tree.querySelector("[data-cause='" + up + "']");
      if (element) expand(element, true);
    }
    const element = tree.querySelector("[data-cause='" + k + "']");
    if (element) {
      element.setAttribute("aria-selected", "true");
      rove(element, false);
      showInTree(element);
    }
    show(k);
  }

  function fromAddress() {
    const match = /^#cause-(\d+)$/.exec(location.hash);
    const k = match ? Number(match[1]) : -1;
    if (k >= 0 && k < nCauses) select(k);
    return k >= 0 && k < nCauses;
  }

  // Links to causes elsewhere on the page: the map, the classes.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#cause-']");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    choose(Number(link.getAttribute("href").slice("#cause-".length)), false);
    document.getElementById("explore").scrollIntoView({ block: "start" });
    document.getElementById("detail-title").focus({ preventScroll: true });
  });

  // ---- search
  const lower = data.visible.map((name) => name.toLowerCase());
  const lowerNames = data.name.map((name) => name.toLowerCase());

  function matches(names, text, most) {
    const ranked = [];
    names.forEach((name, i) => {
      const place = name.indexOf(text);
      if (place >= 0) ranked.push([name === text ? 0 : place === 0 ? 1 : 2, name.length, i]);
    });
    ranked.sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]);
    return [ranked.slice(0, most).map((entry) => entry[2]), ranked.length];
  }

  function find() {
    const text = search.value.trim().toLowerCase();
    found.replaceChildren();
    if (!text) {
      status.textContent = "";
      return;
    }
    const [visibles, nVisibles] = matches(lower, text, 8);
    const [causes, nNamed] = matches(lowerNames, text, 8);
    status.textContent = nVisibles + nNamed === 0
      ? "Nothing matches “" + search.value.trim() + "”."
      : whole(nVisibles) + " " + (nVisibles === 1 ? words.visible : words.visibles) +
        (nNamed ? " and " + whole(nNamed) + " " + (nNamed === 1 ? words.cause : words.causes) : "") +
        (nVisibles > 8 || nNamed > 8 ? " match, the closest are shown." : " found.");
    for (const i of visibles) {
      const up = parents.get(i) || [];
      found.append(make("h4", {}, data.visible[i]),
        make("p", { class: "soft small" }, up.length
          ? "switched on by; bar and number: success probability"
          : "no " + words.cause + " switches it on"),
        make("ul", { class: "bars" }, ...up.slice(0, 8).map(([k, p]) => measured(causeButton(k), p))));
    }
    if (causes.length) {
      found.append(make("h4", {}, words.causes[0].toUpperCase() + words.causes.slice(1)),
        make("ul", { class: "chips" }, ...causes.map((k) => make("li", {}, causeButton(k)))));
    }
  }

  search.addEventListener("input", find);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      const first = found.querySelector("button");
      if (first) first.click();
    } else if (event.key === "Escape") {
      search.value = "";
      find();
    }
  });
  window.addEventListener("popstate", fromAddress);

  fill(tree, roots, 1, 0);
  if (roots.length <= 3) [...tree.children].forEach((element) => expand(element, true));
  if (!fromAddress()) {
    const first = [...data.level.keys()].sort((a, b) => busy(b) - busy(a) || a - b)[0];
    select(first);
  }
})();
