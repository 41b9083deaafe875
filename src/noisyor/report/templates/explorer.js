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
  const busiest = new Array(nCauses).fill(0);
  // A topic counts for as much as what lies below it, so that the lively branches come first.
  const order = [...data.level.keys()].sort((a, b) => data.level[b] - data.level[a]);
  for (const k of order) {
    busiest[k] += busy(k);
    if (data.home[k] >= 0) busiest[data.home[k]] += busiest[k];
  }
  const byBusy = (a, b) => busiest[b] - busiest[a] || a - b;
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
      class: busiest[k] > 0 ? null : "idle",
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

  function measured(label, value, failure) {
    return make("li", { class: "measured" }, label, bar(value),
      make("span", { class: "number" }, failure ? thousandths(1000 - value) : thousandths(value)));
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
    const parts = [
      make("h3", { tabindex: "-1", id: "detail-title" }, title(k)),
      make("p", { class: "soft" }, facts.filter(Boolean).join(" · ")),
    ];
    const up = parents.get(nVisible + k) || [];
    if (up.length) {
      parts.push(...heading("Part of"),
        make("ul", { class: "chips" }, ...up.slice(0, 12).map(([parent, p]) =>
          make("li", {}, causeButton(parent, thousandths(p))))));
    }
    if (children.length) {
      parts.push(...heading("Made of", "bar: how surely this " + words.cause +
        " switches the other one on; number: failure probability"),
        shortList(children, ([child, p]) => measured(causeButton(child - nVisible), p, true),
          words.causes));
    }
    if (own.length) {
      parts.push(...heading(words.visibles[0].toUpperCase() + words.visibles.slice(1),
        "bar: how surely it switches the " + words.visible + " on; number: failure probability"),
        shortList(own, ([child, p]) => measured(wordButton(child), p, true), words.visibles));
    }
    const far = data.far[String(k)];
    if (far && far.length) {
      const pairs = [];
      for (let n = 0; n < far.length; n += 2) pairs.push([far[n], far[n + 1]]);
      parts.push(...heading(words.visibles[0].toUpperCase() + words.visibles.slice(1) + " below it",
        "bar and number: probability that it switches the " + words.visible +
        " on through the " + words.causes + " below it"),
        shortList(pairs, ([child, p]) => measured(wordButton(child), p, false), words.visibles));
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
    return [...heading(words.rows[0].toUpperCase() + words.rows.slice(1) + " that it explains best",
      "marked: what this " + words.cause + " explains there"),
    make("ol", { class: "documents" }, ...best.map(([number, ...mine]) => {
      const entry = data.documents[number];
      const marked = new Set(mine);
      const sorted = [...mine, ...entry.on.filter((i) => !marked.has(i))];
      const total = entry.on.length + entry.more;
      const text = make("p", { class: "small" });
      sorted.forEach((i, n) => text.append(
        n ? " · " : "", marked.has(i) ? make("mark", {}, data.visible[i]) : data.visible[i]));
      if (entry.more) text.append(" · " + whole(entry.more) + " more");
      return make("li", {}, make("p", { class: "name" }, entry.name || words.row + " " + whole(entry.row),
        make("span", { class: "soft" }, " explains " + mine.length + " of " + total + " " + words.visibles)),
      text);
    }))];
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
          ? "switched on by, with failure probability:"
          : "no " + words.cause + " switches it on"),
        make("ul", { class: "bars" }, ...up.slice(0, 8).map(([k, p]) => measured(causeButton(k), p, true))));
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
